"""Guests, the virtual machines that measure: what can be measured in one, and what one is.

Whatever may be missing is found here, before anything is booted. A guest has no shell and no
package, only `schedlab-bench`; its facts are a real machine's, so that no page tells them apart.
"""

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from schedlab.bench import environment
from schedlab.bench.environment import KERNEL_OWN, Warned
from schedlab.bench.request import CPUS, Request
from schedlab.bench.suite import Benchmark
from schedlab.errors import SchedlabError
from schedlab.kernel import loading
from schedlab.kernel import platform as kernel_platform
from schedlab.report.forms import count_text

PROGRAM_PLACE = "{bench}"
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
TCG_WARNING = Warned(
    "QEMU translates what a guest executes (TCG): its times are those of no processor",
    "compare kernels of such machines with each other only; with KVM guests run on the processor",
)


@dataclass(frozen=True)
class Guest:
    """What is booted: a machine with a kernel, and the policy that is loaded into it."""

    platform: kernel_platform.Platform
    hz: int | None = None
    """The kernel's ticks a second; None where the cache does not know."""
    policy: str = KERNEL_OWN
    object: Path | None = None
    """The policy's; None under the kernel's own scheduler."""
    settings: tuple[tuple[str, int], ...] = ()
    """Tunables that are set in it."""

    @property
    def name(self) -> str:
        """In messages: the kernel as the user named it, and the policy."""
        kernel = self.platform.kernel.name
        return kernel if self.policy == KERNEL_OWN else f"{self.policy} on {kernel}"


# ---- what is measured ---------------------------------------------------------------------------


def restricted(request: Request, tell: Callable[[str], None]) -> Request:
    """The same without the benchmarks that no guest can run, which are told; SchedlabError if none
    is left."""
    reasons = {case.benchmark.name: _why_not(case.benchmark) for case in request.cases}
    left_out = ", ".join(f"{name} ({why})" for name, why in reasons.items() if why)
    if not (able := [name for name, why in reasons.items() if why is None]):
        raise SchedlabError(
            f"nothing of suite {request.suite.name} can be measured in a virtual machine:"
            f" {left_out}",
            f'give a benchmark whose command is a list that begins with "{PROGRAM_PLACE}", with'
            " neither needs, inputs, prepare nor cleanup; `schedlab bench quick --on vm` has some",
        )
    if left_out:
        tell(f"left out in a virtual machine: {left_out}")
    return replace(request, only=able)


def _why_not(benchmark: Benchmark) -> str | None:
    if benchmark.needs:
        return f"needs {', '.join(benchmark.needs)}"
    if benchmark.inputs:
        return f"needs the input {', '.join(benchmark.inputs)}"
    if benchmark.prepare or benchmark.cleanup:
        return "has commands before or after it"
    if isinstance(benchmark.command, str):
        return "needs a shell"
    return None if benchmark.command[0] == PROGRAM_PLACE else f"needs {benchmark.command[0]}"


def found(request: Request, tell: Callable[[str], None]) -> list[Guest]:
    """Every kernel under every policy that it takes, at least one each; others are told. Raises
    SchedlabError or NativeError if something is missing, two kernels are one image, or nothing can
    be measured in one."""
    platforms, names = _platforms(request), request.policy_names
    objects = {name: loading.object_of(name) for name in names if name != KERNEL_OWN}
    takers = {platform for platform in platforms if platform.kernel.sched_ext == "sound"}
    guests = []
    for platform, hz in platforms.items():
        kernel = platform.kernel
        if KERNEL_OWN in names:
            guests.append(Guest(platform, hz))
        if platform in takers:
            guests += [
                Guest(platform, hz, policy, built, tuple(sorted(values.items())))
                for policy, (_, built, values) in objects.items()
            ]
        elif objects and takers and KERNEL_OWN in names:
            tell(
                f"kernel {kernel.name} takes no policies: only its own scheduler is measured in it"
            )
        elif objects:
            without = "without --policies each kernel"
            which = f"with {KERNEL_OWN} among --policies, it" if takers else without
            raise SchedlabError(
                f"policy {next(iter(objects))} cannot be loaded into kernel {kernel.name}"
                f" ({kernel.release}), which has no sched_ext that works",
                "name a --kernel that takes policies, see `schedlab kernels list`;"
                f" {which} is measured under its own scheduler",
            )
    return guests


def _platforms(request: Request) -> dict[kernel_platform.Platform, int | None]:
    """The machine of each kernel, with the ticks a second of that; refuses one kernel twice."""
    memory_mib = request.memory_mib or kernel_platform.MEMORY_MIB
    platforms, names = {}, {}
    for record in [kernel_platform.find_record(name) for name in request.kernels or (None,)]:
        made = kernel_platform.platform_of(record, request.cpus or CPUS, deterministic=False)
        other = names.setdefault(made.kernel.sha256, made.kernel.name)
        if other != made.kernel.name:
            both = f"kernels {other} and {made.kernel.name}"
            raise SchedlabError(f"{both} are the same image", "leave out one")
        platforms[replace(made, memory_mib=memory_mib)] = record["hz"]
    return platforms


# ---- what it is ---------------------------------------------------------------------------------


def condition(guest: Guest, host: Mapping[str, Any]) -> dict[str, str]:
    """What is compared, as `environment.condition` has it of a real machine.

    It is known before anything is booted, so that what is complete need not be booted again. The
    machine is this one with its kernel, this QEMU and this guest, whatever kernel that boots.
    """
    platform, host_kernel = guest.platform, host["kernel"]["release"]
    machine = [host["machine"]["id"], host_kernel, platform.cpus, platform.accelerator]
    identity = f"schedlab vm {machine} {platform.memory_mib} {platform.qemu}"
    compared = {
        "machine": hashlib.sha256(identity.encode()).hexdigest()[:DIGITS],
        "kernel": f"{platform.kernel.release} (VM)",
        "version": f"image {platform.kernel.sha256[:DIGITS]}",
        "scheduler": guest.policy,
    }
    if guest.object is not None:
        # A policy that changed is measured anew.
        content = guest.object.read_bytes() + repr(guest.settings).encode()
        compared["policy"] = hashlib.sha256(content).hexdigest()[:DIGITS]
    return compared


def facts(
    guest: Guest, texts: Mapping[str, str], where: Mapping[str, str], host: Mapping[str, Any]
) -> dict[str, Any]:
    """The environment of one boot: `texts` are the guest's files by their paths, `where` is the
    campaign's condition, and `host` this machine by `environment.capture`."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for path, text in texts.items():
            place = PurePosixPath(path)
            # Of anything that was not asked for, nothing is written.
            if ".." not in place.parts and any(place.is_relative_to(asked) for asked in PATHS):
                to = root / place.relative_to("/")
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_text(text, encoding="utf-8")
        captured = environment.capture(root=root)
    platform, how = guest.platform, guest.platform.accelerator.upper()
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
        "hz": guest.hz,
        "hz_source": "configuration" if guest.hz else "not told",
    }
    captured["tools"] = {"qemu": platform.qemu, "schedlab-guest": platform.guest[:DIGITS]}
    return captured | {"vm": platform.facts, "host": dict(host)}


def warnings(guest: Guest, host: Mapping[str, Any]) -> list[Warned]:
    """What of this machine, and of its being virtual, makes measurements worse."""
    virtual = {"machine": {**host["machine"], "virtual": True}}
    is_translated = guest.platform.accelerator == "tcg"
    return environment.warnings({**host, **virtual}) + [TCG_WARNING] * is_translated
