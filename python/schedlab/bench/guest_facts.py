"""The environment of a virtual machine, from what its guest told and what this machine is.

The same facts as `environment.capture` has of a real machine, so that tables and pages need not
know the difference, and the words that say what it is.
"""

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from schedlab.bench import environment
from schedlab.bench.environment import Warned
from schedlab.kernel.platform import Platform
from schedlab.report.forms import count_text

# What a guest is asked for: files, and directories of files.
PATHS = (
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/pressure",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "/sys/devices/system/cpu/smt/control",
    "/sys/devices/system/cpu/vulnerabilities",
    "/sys/kernel/debug/sched/preempt",
    "/sys/kernel/sched_ext/root/ops",
    "/sys/kernel/sched_ext/state",
)
DIGITS = 12
ACCELERATORS = {"kvm": "KVM", "tcg": "TCG"}
TCG_WARNING = Warned(
    "QEMU translates what a guest executes (TCG): its times are those of no processor",
    "compare kernels of such machines with each other only; with KVM guests run on the processor",
)


def condition(platform: Platform, policy: str, host: Mapping[str, Any]) -> dict[str, str]:
    """What is compared, as `environment.condition` has it of a real machine.

    It is known before anything is booted, so that what is complete need not be booted again. The
    machine is this one with its kernel, this QEMU and this guest, whatever kernel that boots.
    """
    host_kernel = host["kernel"]["release"]
    machine = [host["machine"]["id"], host_kernel, platform.cpus, platform.accelerator]
    identity = f"schedlab vm {machine} {platform.memory_mib} {platform.qemu}"
    return {
        "machine": hashlib.sha256(identity.encode()).hexdigest()[:DIGITS],
        "kernel": f"{platform.kernel.release} (VM)",
        "version": f"image {platform.kernel.sha256[:DIGITS]}",
        "scheduler": policy,
    }


def facts(
    texts: Mapping[str, str],
    platform: Platform,
    hz: int | None,
    where: Mapping[str, str],
    host: Mapping[str, Any],
) -> dict[str, Any]:
    """The environment of one boot.

    `texts` are the guest's files by their paths, `hz` its kernel's ticks a second if they are
    known, `where` the campaign's condition, `host` this machine by `environment.capture`.
    """
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        _plant(texts, root)
        captured = environment.capture(root=root)
    how = ACCELERATORS[platform.accelerator]
    release = texts.get("/proc/sys/kernel/osrelease", platform.kernel.release).strip()
    # What a program is told by calls was told of this machine: the guest's are put in its place.
    captured["machine"] |= {
        "id": where["machine"],
        "cpu_model": f"virtual machine with {count_text(platform.nr_cpus, 'CPU')} ({how}) on"
        f" {host['machine']['cpu_model']}",
        "nr_cpus": platform.nr_cpus,
        "nr_cpus_usable": platform.nr_cpus,
        "virtual": f"QEMU {platform.qemu}, {how},"
        f" {platform.memory_mib} MiB; its host: Linux {host['kernel']['release']}",
    }
    captured["kernel"] |= {
        "release": release,
        "version": texts.get("/proc/sys/kernel/version", "").strip() or where["version"],
        "config_sha256": None,
        "hz": hz,
        "hz_source": "configuration" if hz else "not told",
    }
    captured["tools"] = {"qemu": platform.qemu, "schedlab-guest": platform.guest[:DIGITS]}
    return captured | {"vm": platform.facts, "host": dict(host)}


def warnings(platform: Platform, host: Mapping[str, Any]) -> list[Warned]:
    """What of this machine, and of its being virtual, makes measurements worse."""
    virtual = {"machine": {**host["machine"], "virtual": True}}
    of_machine = environment.warnings({**host, **virtual})
    return of_machine + ([TCG_WARNING] if platform.accelerator == "tcg" else [])


def _plant(texts: Mapping[str, str], root: Path) -> None:
    """Writes the guest's files below `root`; of anything that was not asked for, nothing."""
    for path, text in texts.items():
        place = PurePosixPath(path)
        if ".." in place.parts or not any(place.is_relative_to(asked) for asked in PATHS):
            continue
        to = root / place.relative_to("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")
