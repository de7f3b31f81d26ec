"""What a measurement depends on beside the program: this machine and its kernel, as they are now.

Every fact is read from where the kernel tells it; one that is not told is None, and never guessed.
`root` is "/" but in tests, which put a tree of their own there.
"""

import contextlib
import gzip
import hashlib
import os
import platform
import re
import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from schedlab import programs
from schedlab.errors import SchedlabError
from schedlab.kernel.sched_ext import read_text, sched_ext

ROOT = Path("/")
CPU_FOLDER = "sys/devices/system/cpu"
PROGRAM_TIMEOUT_S = 10
# The kernel's own unit of /proc/stat.
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Above these a measurement is of this machine's other work too.
LOAD_PER_CPU_MAX = 0.2
PRESSURE_PERCENT_MAX = 5.0
# CPU time that is not ours, of all that there is; below a few ticks nothing can be said.
FOREIGN_SHARE_MAX = 0.05
STEAL_SHARE_MAX = 0.01
FOREIGN_NS_LEAST = 50_000_000
# <linux/time.h>; Python has no name for it. Its resolution is a tick.
CLOCK_MONOTONIC_COARSE = 6
# What the scheduler is called where none is attached.
KERNEL_OWN = "kernel"


class Warned(NamedTuple):
    """Something about this machine that makes results worse, and what to do."""

    what: str
    to_do: str

    @property
    def text(self) -> str:
        """As it is told before measuring."""
        return f"warning: {self.what}\n  what to do: {self.to_do}"


@dataclass(frozen=True)
class Reading:
    """Counters at one moment: differences of two tell what happened between them.

    `busy_ns` is CPU time of everybody but hypervisors, `steal_ns` what they took, both of all CPUs.
    `ours_ns` is that of this process and of `pid`, one of ours; None where that was gone already.
    """

    at_ns: int
    busy_ns: int | None
    steal_ns: int | None
    throttled: int | None
    state: Mapping[str, Any]
    ours_ns: int | None = None
    pid: int | None = None

    @classmethod
    def now(cls, pid: int | None = None) -> "Reading":
        """Reads everything, in a fraction of a millisecond."""
        # Next to each other: what is read for the rest takes CPU time, too.
        at_ns, ours_ns, (busy_ns, steal_ns) = time.monotonic_ns(), _ours_ns(pid), _cpu_time()
        state = {**_state(ROOT), "frequency_khz": _numbers(ROOT, "cpu*/cpufreq/scaling_cur_freq")}
        return cls(at_ns, busy_ns, steal_ns, _throttle_count(ROOT), state, ours_ns, pid)

    def since(self, children_ns: int = 0) -> tuple["Reading", dict[str, Any]]:
        """The counters now, and what others did since this moment, see `disturbance`; `children_ns`
        is the CPU time of processes of ours that ended meanwhile."""
        after = Reading.now(self.pid)
        if after.ours_ns is None or self.ours_ns is None:
            unknown = "what others did is not known: QEMU was gone before it could be asked"
            nothing = dict.fromkeys(("foreign_ns", "steal_ns", "throttled"))
            return after, {**nothing, "noisy": [unknown]}
        own_ns = children_ns + after.ours_ns - self.ours_ns
        return after, disturbance(self, after, own_ns, os.cpu_count() or 1)


def disturbance(before: Reading, after: Reading, own_ns: int, nr_cpus: int) -> dict[str, Any]:
    """What others did while a program ran that used `own_ns` of CPU time.

    foreign_ns, steal_ns (None where the kernel does not tell), throttled (times that a CPU was
    slowed down by heat) and noisy, the reasons why the repetition should not be trusted.
    """
    room_ns = max(1, (after.at_ns - before.at_ns) * nr_cpus)

    def grown(name: str) -> int | None:
        ends = getattr(before, name), getattr(after, name)
        return None if None in ends else ends[1] - ends[0]

    busy_ns, steal_ns, throttled = map(grown, ("busy_ns", "steal_ns", "throttled"))
    foreign_ns = None if busy_ns is None else max(0, busy_ns - own_ns)
    noisy = []
    if (foreign_ns or 0) > max(FOREIGN_NS_LEAST, FOREIGN_SHARE_MAX * room_ns):
        noisy.append(f"others used {100 * foreign_ns / room_ns:.0f} % of the CPUs")
    if (steal_ns or 0) > max(FOREIGN_NS_LEAST / 5, STEAL_SHARE_MAX * room_ns):
        noisy.append(f"the hypervisor took {100 * steal_ns / room_ns:.0f} % of the CPUs")
    if (throttled or 0) > 0:
        noisy.append("the CPU was slowed down by heat")
    return {"foreign_ns": foreign_ns, "steal_ns": steal_ns, "throttled": throttled, "noisy": noisy}


def _ours_ns(pid: int | None) -> int | None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    ours_ns = round((used.ru_utime + used.ru_stime) * 1e9)
    if pid is None:
        return ours_ns
    if (stat := read_text(Path(f"/proc/{pid}/stat"))) is None:
        return None
    # After the name in brackets, which may hold anything, user and system time are the 12th and
    # 13th field. Source: proc(5).
    fields = stat.rpartition(")")[2].split()
    return ours_ns + (int(fields[11]) + int(fields[12])) * 1_000_000_000 // TICKS_PER_S


def capture(packages: Sequence[str] = (), root: Path = ROOT) -> dict[str, Any]:
    """Everything about this machine, its kernel and its programs, among them the versions of
    Debian's `packages`; None where it is not told."""
    uname = os.uname()
    config = kernel_config(root)
    paths = sorted((root / CPU_FOLDER / "vulnerabilities").glob("*"))
    vulnerabilities = [path for path in paths if read_text(path) is not None]
    return {
        "machine": machine(root),
        "kernel": {
            "release": uname.release,
            "version": uname.version,
            "architecture": uname.machine,
            "command_line": read_text(root / "proc/cmdline"),
            "config_sha256": config and hashlib.sha256(config.encode()).hexdigest(),
            "preemption": preemption(config, root),
            **dict(zip(("hz", "hz_source"), hz(config), strict=True)),
            "mitigations": {path.name: read_text(path) for path in vulnerabilities} or None,
        },
        **_state(root),
        "governor": _one_text(root, "cpu*/cpufreq/scaling_governor"),
        "frequency_driver": _one_text(root, "cpu*/cpufreq/scaling_driver"),
        "turbo": _turbo(root),
        "mains": _mains(root),
        "boot_id": read_text(root / "proc/sys/kernel/random/boot_id"),
        "throttled": _throttle_count(root),
        "tools": {"python": platform.python_version(), **package_versions(packages)},
    }


def machine(root: Path = ROOT) -> dict[str, Any]:
    """What a machine is, whatever runs on it."""
    memory_kib = _match(r"^MemTotal:\s+(\d+) kB", root / "proc/meminfo")
    cpu_model = _match(r"^model name\s*:\s*(.+)$", root / "proc/cpuinfo")
    own_id = read_text(root / "etc/machine-id")
    nr_cpus, usable = os.cpu_count(), os.sched_getaffinity(0)
    identity = f"schedlab {own_id} {cpu_model} {nr_cpus}"
    if len(usable) < (nr_cpus or 1):
        # Kept on some of its CPUs, as by taskset, it does the same work at another speed.
        identity += f" on {sorted(usable)} only"
    # Tells machines apart without telling who they are.
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return {
        "id": digest if own_id or cpu_model else None,
        "cpu_model": cpu_model,
        "nr_cpus": nr_cpus,
        "nr_cpus_usable": len(usable),
        "memory_kib": memory_kib and int(memory_kib),
        "smt": read_text(root / CPU_FOLDER / "smt/control"),
        "virtual": _virtual(root),
    }


def warnings(facts: Mapping[str, Any]) -> list[Warned]:
    """What of these facts makes measurements worse."""
    load, nr_cpus, busy = facts["load"], facts["machine"]["nr_cpus"] or 1, None
    waited_percent = (facts["pressure"] or {}).get("cpu")
    if load is not None and load[0] > max(0.5, LOAD_PER_CPU_MAX * nr_cpus):
        busy = f"load average {load[0]:.2f} on {nr_cpus} CPUs"
    elif waited_percent is not None and waited_percent > PRESSURE_PERCENT_MAX:
        busy = f"tasks waited for a CPU in {waited_percent:.0f} % of the last ten seconds"
    found = []
    if facts["governor"] not in (None, "performance"):
        what = f"the frequency governor is {facts['governor']}: speed follows load"
        found.append(Warned(what, "cpupower frequency-set --governor performance"))
    if busy:
        to_do = "stop what else runs; repetitions that others disturbed are flagged noisy"
        found.append(Warned(f"this machine is busy: {busy}", to_do))
    if facts["throttled"]:
        what = f"heat slowed the CPU down {facts['throttled']} times since it was started"
        to_do = "cool it, or turn turbo off; repetitions that it happens in are flagged noisy"
        found.append(Warned(what, to_do))
    if facts["turbo"]:
        what = "turbo is on: speed depends on heat and on how many CPUs are busy"
        folder = f"/{CPU_FOLDER}"
        to_do = f"echo 1 > {folder}/intel_pstate/no_turbo, or echo 0 > {folder}/cpufreq/boost"
        found.append(Warned(what, to_do))
    if facts["mains"] is False:
        what = "this machine runs on its battery, which may hold back its speed"
        found.append(Warned(what, "connect it to the mains"))
    if facts["machine"]["virtual"]:
        what = "this is a virtual machine: its host's other work is measured too"
        how = "compare ratios only, and only of one machine"
        found.append(Warned(what, f"{how}; time that the host took from it is recorded"))
    return found


def condition(facts: Mapping[str, Any]) -> dict[str, str]:
    """What is compared: two sets of results differ in these and nothing else that matters."""
    return {
        "machine": facts["machine"]["id"] or "",
        "kernel": facts["kernel"]["release"],
        "version": facts["kernel"]["version"],
        "scheduler": facts["scheduler"],
    }


# ---- facts --------------------------------------------------------------------------------------


def scheduler(root: Path = ROOT) -> str:
    """The name of the sched_ext scheduler in force, else "kernel": its own."""
    now = sched_ext(root / "sys")
    if now is None or now.state == "disabled":
        return KERNEL_OWN
    return now.ops or "(unnamed)"


def kernel_config(root: Path = ROOT) -> str | None:
    """The configuration that the running kernel was built with, where it is kept."""
    with contextlib.suppress(OSError, EOFError):
        return gzip.decompress((root / "proc/config.gz").read_bytes()).decode()
    return read_text(root / f"boot/config-{platform.release()}")


def preemption(config: str | None, root: Path = ROOT) -> str | None:
    """How the kernel preempts itself: what is in force, else what it was built with."""
    if in_force := _match(r"\((\w+)\)", root / "sys/kernel/debug/sched/preempt"):
        return in_force
    asked_for = _match(r"\bpreempt=(\w+)", root / "proc/cmdline")
    if asked_for and config and "CONFIG_PREEMPT_DYNAMIC=y" in config:
        return asked_for
    built = re.findall(r"^CONFIG_PREEMPT(_[A-Z]+)?=y$", config or "", re.MULTILINE)
    models = {"_RT": "rt", "_LAZY": "lazy", "": "full", "_VOLUNTARY": "voluntary", "_NONE": "none"}
    return next((model for option, model in models.items() if option in built), None)


def hz(config: str | None) -> tuple[int, str]:
    """Ticks a second, and whether configured or shown by the resolution of the coarse clock."""
    if configured := re.search(r"^CONFIG_HZ=(\d+)$", config or "", re.MULTILINE):
        return int(configured[1]), "configuration"
    return round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE)), "resolution of the coarse clock"


def package_versions(packages: Sequence[str]) -> dict[str, str | None]:
    """Versions of Debian packages; None for one that is not installed."""
    if not packages:
        return {}
    versions: dict[str, str | None] = dict.fromkeys(packages)
    form = "${Package}\t${db:Status-Status}\t${Version}\n"
    query = ["dpkg-query", "--show", f"--showformat={form}", *packages]
    with contextlib.suppress(SchedlabError):
        for line in programs.output(query, PROGRAM_TIMEOUT_S).stdout.decode().splitlines():
            name, status, version = line.split("\t")
            if status == "installed":
                versions[name] = version
    return versions


def _turbo(root: Path) -> bool | None:
    """Whether the processor may run faster than it can forever."""
    if (no_turbo := read_text(root / CPU_FOLDER / "intel_pstate/no_turbo")) is not None:
        return no_turbo == "0"
    boost = read_text(root / CPU_FOLDER / "cpufreq/boost")
    return None if boost is None else boost == "1"


def _mains(root: Path) -> bool | None:
    """Whether the mains feed it and not its battery; None where it has no say in that."""
    types = (root / "sys/class/power_supply").glob("*/type")
    online = {read_text(path.with_name("online")) for path in types if read_text(path) == "Mains"}
    return "1" in online if online else None


def _state(root: Path) -> dict[str, Any]:
    """What changes from moment to moment."""
    load = read_text(root / "proc/loadavg")
    waited = {
        what: _match(r"some avg10=([\d.]+)", root / "proc/pressure" / what)
        for what in ("cpu", "memory", "io")
    }
    sensors = ("thermal/thermal_zone*/temp", "hwmon/hwmon*/temp*_input")
    texts = [read_text(path) or "" for of in sensors for path in (root / "sys/class").glob(of)]
    degrees = [int(text) / 1000 for text in texts if re.fullmatch(r"-?\d+", text)]
    return {
        # Of one, five and fifteen minutes.
        "load": None if load is None else [float(part) for part in load.split()[:3]],
        # Percent of the last ten seconds in which some task waited.
        "pressure": {what: float(share) for what, share in waited.items() if share} or None,
        # Of the hottest sensor.
        "temperature_celsius": max(degrees, default=None),
        "scheduler": scheduler(root),
    }


def _throttle_count(root: Path) -> int | None:
    """How often heat slowed a core down since the machine was started."""
    counts = _numbers(root, "cpu*/thermal_throttle/core_throttle_count")
    return None if counts is None else sum(counts)


def _cpu_time() -> tuple[int | None, int | None]:
    """Busy and stolen time of all CPUs since boot, nanoseconds."""
    text = read_text(ROOT / "proc/stat")
    if not text or not text.startswith("cpu "):
        return None, None
    # user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user.
    ticks = [int(part) for part in text.splitlines()[0].split()[1:]]
    ns = 1_000_000_000 // TICKS_PER_S
    return sum(ticks[:3] + ticks[5:7]) * ns, ticks[7] * ns if len(ticks) > 7 else None


def _virtual(root: Path) -> str | None:
    """What this machine runs in: a hypervisor's name, "a hypervisor", "" for none."""
    if (flags := _match(r"^flags\s*:(.*)$", root / "proc/cpuinfo")) is None:
        return None
    if "hypervisor" not in flags.split():
        return ""
    product = read_text(root / "sys/class/dmi/id/product_name")
    return product or read_text(root / "sys/hypervisor/type") or "a hypervisor"


def _one_text(root: Path, pattern: str) -> str | None:
    """What all CPUs say, or each of their answers where they differ."""
    return ", ".join(sorted(set(_texts(root, pattern)))) or None


def _numbers(root: Path, pattern: str) -> list[int] | None:
    return [int(text) for text in _texts(root, pattern) if text.isdecimal()] or None


def _texts(root: Path, pattern: str) -> list[str]:
    return list(filter(None, map(read_text, sorted((root / CPU_FOLDER).glob(pattern)))))


def _match(pattern: str, path: Path) -> str | None:
    """The first group of a pattern, where the file has it."""
    match = re.search(pattern, read_text(path) or "", re.MULTILINE)
    return match and match[1]
