"""`schedlab calibrate`: measures what this machine's kernel operations cost, and writes a machine.

`schedlab-bench costs` measures; here sums are taken apart, CPUs are read from /sys, and what cannot
be measured is taken over from machine `laptop` and says so. The file is one that the simulator
reads, with how each cost was measured above it.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from schedlab import catalogue, programs, user_file
from schedlab.bench import environment
from schedlab.errors import SchedlabError

PROGRAM = programs.BENCH.name
PROGRAM_HELP = "The native benchmarks.  [default: in the checkout, or on PATH]"
MEASURES_S_MAX = 300

DISTANCES = ("same", "smt", "cache", "node", "remote")
HZ_DEFAULT = 250
# A hop in the simulator that takes a switch's cost apart from the rest.
HOPS = 20_000
# How often costs are measured while they contradict each other: on an idle machine one time in
# three did, here.
ATTEMPTS = 4
HOP_STEPS = 4
# A switch between processes over one between threads; below it, something went wrong.
SWITCH_RATIO_MIN = 0.8
LINES_OF_A_TASK = 10
# Of the footprints whose refill is measured, the one that the file takes.
REFILL_KIB = 256
# What cannot be measured from outside the kernel, and why the number of `laptop` may stand.
TAKEN_OVER = {
    "hook_ns": "a call of a sched_ext policy, which this kernel's own scheduler does not make",
    "dsq_op_ns": "inside the kernel; no task can time it",
    "message_lines": "inside the kernel; no task can count them",
    "channel_lines": "inside the kernel; no task can count them",
    "smt_percent": "not measured",
}


@dataclass(frozen=True)
class Measured:
    """One line of `schedlab-bench costs`: median and quartiles, in ns unless its name says else."""

    cost: str
    of: str
    median: float
    low: float
    high: float
    count: int
    how: str

    def told(self) -> str:
        """A comment's line."""
        of = f"{self.of}: " if self.of else ""
        return (
            f"{of}median {self.median:.4g}, quartiles {self.low:.4g} to {self.high:.4g}"
            f" of {self.count}: {self.how}"
        )


@dataclass(frozen=True)
class Cost:
    """A cost of the file: a number, or one a distance; where it is from; comments above it."""

    value: int | Mapping[str, int]
    source: str
    comments: Sequence[str] = ()


@dataclass(frozen=True)
class Cpus:
    """The CPUs that this machine has, as `topology` of its file says it."""

    topology: Mapping[str, int]
    nearest: str
    """Distance of the first two of them."""
    line_bytes: int
    cache_kib: int
    """Largest cache that a core has for itself."""
    note: str = ""


def find_program(named: str | None) -> Path:
    """The native benchmarks: as named, else wherever they are.

    Raises
    ------
    SchedlabError
        If they are not there.
    """
    if named is None:
        return programs.BENCH.find()
    wrong = user_file.what_it_is(Path(named))
    if wrong is not None:
        raise SchedlabError(
            f"program {named} {wrong}", "`make schedlab-bench` builds it in the checkout"
        )
    return Path(named)


def lines_of(program: Path, *words: str, cpu: int | None = None) -> list[dict]:
    """What the native benchmarks print, each line read as JSON; kept on `cpu` if that is given.

    Raises
    ------
    SchedlabError
        If they fail, say something else, or take longer than five minutes.
    """
    command = [str(program), *words]
    keep = None if cpu is None else functools.partial(os.sched_setaffinity, 0, {cpu})
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=MEASURES_S_MAX,
            check=False,
            preexec_fn=keep,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SchedlabError(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        raise SchedlabError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json_lines(done.stdout, " ".join(command))


def times_of(program: Path, *words: str, cpu: int | None = None) -> dict[str, float]:
    """wall_ns, user_ns and system_ns of one benchmark; kept on `cpu` if that is given.

    Raises
    ------
    SchedlabError
        As `lines_of`, or if the program does not tell these times.
    """
    lines = lines_of(program, *words, cpu=cpu)
    line = lines[0] if len(lines) == 1 and isinstance(lines[0], Mapping) else {}
    times = {name: line.get(name) for name in ("wall_ns", "user_ns", "system_ns")}
    if not all(isinstance(ns, int | float) and ns >= 0 for ns in times.values()):
        raise SchedlabError(
            f"{program} {' '.join(words)} did not tell its times in one line",
            f"is it {PROGRAM}, and of this version? `make {PROGRAM}` builds it",
        )
    return times


def json_lines(text: str, place: str) -> list[dict]:
    """One JSON object a line; `place` names where the text is from."""
    try:
        return [user_file.json_of(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise SchedlabError(f"{place}: line is no JSON: {error}") from error


def measured_of(lines: Sequence[Mapping], place: str) -> dict[tuple[str, str], Measured]:
    """Costs by name and what they are of.

    Raises
    ------
    SchedlabError
        If a line is no cost.
    """
    try:
        found = [Measured(**line) for line in lines]
    except TypeError as error:
        raise SchedlabError(f"{place}: a line is no cost as `{PROGRAM} costs` prints it") from error
    for one in found:
        for value in (one.median, one.low, one.high):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise SchedlabError(f"{place}: of {one.cost}, is no number: {value!r}")
    return {(one.cost, one.of): one for one in found}


# ---- taking sums apart --------------------------------------------------------------------------


class Taken:
    """Costs of the file, made of what was measured and of what machine `laptop` says."""

    def __init__(self, measured: Mapping[tuple[str, str], Measured], cpus: Cpus, laptop: Mapping):
        self.measured = measured
        self.cpus = cpus
        self.laptop = laptop

    def ns(self, cost: str, of: str = "") -> Measured:
        """One that was measured.

        Raises
        ------
        SchedlabError
            If it was not: the program is of another version.
        """
        try:
            return self.measured[cost, of]
        except KeyError:
            raise SchedlabError(
                f"no {cost} {of} was measured".replace("  ", " "),
                f"{PROGRAM} and schedlab are of different versions: `make schedlab-bench`",
            ) from None

    def plain(self, cost: str) -> Cost:
        """A cost that was measured as it is."""
        found = self.ns(cost)
        return Cost(round(found.median), "own: measured here", [found.told()])

    def assumed(self, cost: str) -> Cost:
        """A cost that nobody measured here."""
        why = TAKEN_OVER[cost]
        return Cost(self.laptop[cost]["value"], f"assumed: default, as machine laptop: {why}")

    def by_distance(self, value: float, same: float, comments: Sequence[str], what: str) -> Cost:
        """The first two CPUs' cost for every distance beyond the same CPU."""
        of = dict.fromkeys(DISTANCES, round(value)) | {"same": round(same)}
        return Cost(
            of,
            f"own: {what}. Only distance {self.cpus.nearest} was measured; the others are assumed"
            " to be as far, and occur only where the machine has such CPUs",
            comments,
        )

    def alone(self) -> dict[str, Cost]:
        """All but what a switch costs, and what follows from it."""
        plain = ("syscall_ns", "message_ns", "copy_ns_per_kib", "wakeup_ns", "tick_ns", "timer_ns")
        costs = {cost: self.plain(cost) for cost in plain}
        costs |= {cost: self.plain(cost) for cost in ("fork_ns", "lock_ns", "scan_step_ns")}
        costs["scan_miss_ns"] = self.plain("scan_miss_ns")
        costs |= {cost: self.assumed(cost) for cost in TAKEN_OVER}
        costs["scan_cached_tasks"] = Cost(
            self.cpus.cache_kib, "assumed: as many KiB as cache_kib, 1 KiB a task"
        )
        costs["line_bytes"] = Cost(self.cpus.line_bytes, "own: /sys, coherency_line_size")
        costs["cache_kib"] = Cost(
            self.cpus.cache_kib, "own: /sys, the largest cache that a core has for itself"
        )
        return costs | self.by_distances()

    def by_distances(self) -> dict[str, Cost]:
        """What other CPUs make dearer; as on one CPU where there is no other."""
        sizes = [one for (cost, _), one in self.measured.items() if cost == "refill_ns_per_kib"]
        told = [one.told() for one in sizes]
        same = self.ns("refill_ns_per_kib", f"same {REFILL_KIB} KiB").median
        if ("line_transfer_ns", "") not in self.measured:
            nothing = Cost(dict.fromkeys(DISTANCES, 0), "own: there is one CPU")
            costs = {"line_transfer_ns": nothing, "migration_ns": nothing}
            refill = Cost(dict.fromkeys(DISTANCES, round(same)), "own: measured here", told)
            return costs | {"refill_ns_per_kib": refill}
        line = self.ns("line_transfer_ns")
        other = self.ns("refill_ns_per_kib", f"other {REFILL_KIB} KiB").median
        tens = LINES_OF_A_TASK * line.median
        return {
            "line_transfer_ns": self.by_distance(line.median, 0, [line.told()], "measured here"),
            "migration_ns": self.by_distance(
                tens, 0, (), "ten lines of stack and task data (assumed) at line_transfer_ns"
            ),
            "refill_ns_per_kib": self.by_distance(
                other, same, told, f"measured here with {REFILL_KIB} KiB"
            ),
        }

    def switches(self, known: Mapping[str, Cost]) -> dict[str, Cost]:
        """What a hop between tasks takes beside all that is `known`, and what follows from it."""
        costs = {}
        for cost, tasks in (("context_switch_ns", "processes"), ("thread_switch_ns", "threads")):
            hop = self.ns("hop_ns", f"{tasks} on one CPU")
            costs[cost] = Cost(
                fitting_switch_ns(hop.median, known),
                "own: with it a simulated hop on one CPU under eevdf takes as long as the measured"
                " one: the rest of it are calls, messages, the wake-up and the policy's work",
                [hop.told()],
            )
        costs["cold_switch_ns"] = self.cold(known | costs)
        switch_ns = costs["context_switch_ns"].value
        life, fork = self.ns("fork_exit_wait_ns"), self.ns("fork_ns")
        rest = life.median - fork.median - 2 * switch_ns - self.ns("wakeup_ns").median
        costs["exit_ns"] = Cost(
            max(round(rest), 0),
            "own: a process's life, less fork_ns, two switches and a wake-up",
            [life.told()],
        )
        return costs | self.across(costs["thread_switch_ns"].value)

    def cold(self, known: Mapping[str, Cost]) -> Cost:
        """What a switch takes longer to a task since which others had the CPU."""
        hop = self.ns("hop_ns", "eight processes on one CPU")
        simulated_ns = simulated_hop_ns(known, tasks=8)
        return Cost(
            max(round(hop.median - simulated_ns), 0),
            f"own: a hop in a ring of eight, less {simulated_ns:.0f} ns, simulated without it",
            [hop.told()],
        )

    def across(self, switch_ns: int) -> dict[str, Cost]:
        """What it takes to reach a task that sleeps on another CPU."""
        if ("ipi_send_ns", "") not in self.measured:
            nothing = Cost(0, "own: there is one CPU")
            idle = self.laptop["idle_exit_ns"]["value"]
            assumed = Cost(idle, "assumed: default, as machine laptop: not measured with one CPU")
            return {"ipi_send_ns": nothing, "ipi_ns": nothing, "idle_exit_ns": assumed}
        send, hop = self.ns("ipi_send_ns"), self.ns("hop_ns", "processes on two CPUs")
        line_ns = self.ns("line_transfer_ns").median
        lines = (
            2 * self.laptop["channel_lines"]["value"] + self.laptop["message_lines"]["value"] + 1
        )
        known = 2 * (self.ns("syscall_ns").median + self.ns("message_ns").median)
        known += self.ns("wakeup_ns").median + send.median + lines * line_ns + switch_ns
        left = max(hop.median - known, 0)
        why = (
            f"own: a hop between CPUs, less what is known of it, leaves {left:.0f} ns for the"
            " interrupt and for leaving idle; assumed: half of it each, as nothing tells them apart"
        )
        return {
            "ipi_send_ns": self.plain("ipi_send_ns"),
            "ipi_ns": Cost(round(left / 2), why, [hop.told()]),
            "idle_exit_ns": Cost(round(left / 2), why),
        }


def taken_apart(measured: Mapping, cpus: Cpus) -> dict[str, Cost]:
    """Every cost of a machine's file, in the order of machine `laptop`'s."""
    source = catalogue.find(catalogue.MACHINES, "laptop")
    laptop = tomllib.loads(source.read_text("utf-8"))["costs"]
    taken = Taken(measured, cpus, laptop)
    costs = taken.alone()
    free = {name: Cost(0, "for taking hops apart") for name in laptop if name not in costs}
    costs |= taken.switches(costs | free)
    order = dict.fromkeys(("context_switch_ns", "thread_switch_ns", "cold_switch_ns", *laptop))
    return {name: costs[name] for name in order}


def fitting_switch_ns(hop_ns: float, known: Mapping[str, Cost]) -> int:
    """The switch with which a simulated hop takes `hop_ns`; 0 if it takes longer without any.

    A few hops have a second switch, by preemption, and which do depends on the switch's cost: so
    it is come nearer to in steps. It ends within some percent of the hop.
    """
    switch = 0.0
    for _ in range(HOP_STEPS):
        tried = {"context_switch_ns": Cost(round(switch), "for taking hops apart")}
        switch = max(switch + hop_ns - simulated_hop_ns({**known, **tried}), 0.0)
    return round(switch)


def simulated_hop_ns(costs: Mapping[str, Cost], tasks: int = 2) -> float:
    """What a message from a task to the next in a ring takes on one CPU of these costs, ns."""
    machine = _loaded(file_text("for taking hops apart", "own", HZ_DEFAULT, {}, costs))
    policy = catalogue.load_policy(catalogue.find(catalogue.POLICIES, "eevdf"))
    ring = catalogue.find(catalogue.WORKLOADS, "lat_ctx")
    rounds = 2 * HOPS // tasks
    workload = catalogue.load_workload(ring, {"n": str(tasks), "rounds": str(rounds)})
    result = json.loads(catalogue.native().simulate(policy, machine, workload, 1, {}))
    return result["makespan_ns"] / (tasks * rounds)


@dataclass(frozen=True)
class Machines:
    """The simulated machine of some costs, and the same with one CPU."""

    whole: object
    one_cpu: object

    @classmethod
    def of_file(cls, path: Path) -> Machines:
        """Of a file that `calibrate` wrote."""
        said = user_file.toml(f"machine file {path}", path)
        costs = {name: Cost(cost["value"], cost["source"]) for name, cost in said["costs"].items()}
        one = file_text(said["description"], said["source"], said["hz"], {}, costs)
        return cls(catalogue.load_machine(path), _loaded(one))

    @classmethod
    def measured(cls, program: Path) -> Machines:
        """Of this machine as it is now."""
        cpus = read_cpus()
        costs = measured_without_doubt(program, cpus)
        hz, _ = ticks_a_second()
        texts = [file_text("this machine", "own", hz, at, costs) for at in (cpus.topology, {})]
        return cls(*map(_loaded, texts))


def _loaded(text: str):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "one_cpu.toml"
        path.write_text(text, "utf-8")
        return catalogue.load_machine(path)


# ---- the machine itself -------------------------------------------------------------------------


def _number(path: Path, default: int = 0) -> int:
    try:
        found = re.match(r"\d+", path.read_text("ascii"))
    except OSError:
        return default
    return int(found.group()) if found else default


def read_cpus(root: Path = Path("/sys/devices/system/cpu")) -> Cpus:
    """The online CPUs below `root`, as Linux tells of them."""
    places = []
    for cpu in sorted(root.glob("cpu[0-9]*"), key=lambda path: int(path.name[3:])):
        if _number(cpu / "online", 1) == 0 or not (cpu / "topology").is_dir():
            continue
        levels = {_number(index / "level"): index for index in cpu.glob("cache/index[1-9]*")}
        last = levels[max(levels)] if levels else cpu
        shared = last / "shared_cpu_list"
        node = next((path.name for path in cpu.glob("node[0-9]*")), "node0")
        package = _number(cpu / "topology/physical_package_id")
        cache = shared.read_text("ascii").strip() if shared.is_file() else str(package)
        core = (package, _number(cpu / "topology/core_id"))
        places.append((node, package, cache, core))
    sizes = {
        _number(index / "level"): _number(index / "size")
        for index in root.glob("cpu0/cache/index[1-9]*")
    }
    own = sizes.get(2) or max(sizes.values(), default=1024)
    line = _number(root / "cpu0/cache/index0/coherency_line_size", 64)
    return Cpus(*_topology(places), line_bytes=line or 64, cache_kib=own)


def _topology(places: Sequence[tuple]) -> tuple[dict[str, int], str]:
    """Numbers of nodes, sockets, caches, cores and threads; and how near the first two CPUs are."""
    nodes, sockets, caches, cores = (len({place[part] for place in places}) for part in range(4))
    counts = {
        "numa_nodes": nodes,
        "sockets": max(sockets, nodes),
        "caches_per_socket": max(caches // max(sockets, nodes), 1),
    }
    all_caches = counts["sockets"] * counts["caches_per_socket"]
    counts["cores_per_cache"] = max(cores // all_caches, 1)
    counts["threads_per_core"] = max(len(places) // max(cores, 1), 1)
    if len(places) < 2:
        return counts, "cache"
    first, second = places[0], places[1]
    same = [a == b for a, b in zip(first, second, strict=True)]
    nearest = "smt" if same[3] else "cache" if same[2] else "node" if same[0] else "remote"
    return counts, nearest


def ticks_a_second() -> tuple[int, str]:
    """Ticks a second of the running kernel, and where that is from."""
    config = environment.kernel_config()
    return environment.hz(config), f"HZ: {environment.hz_source(config)}"


def described() -> tuple[str, str]:
    """What this machine is, and under what its costs were measured."""
    machine = environment.machine()
    cpu = machine["cpu_model"] or "CPUs of unknown make"
    virtual = ", in a virtual machine" if machine["virtual"] else ""
    what = f"{cpu}, {machine['nr_cpus']} CPUs{virtual}, Linux {platform.release()}"
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return what, f"own: `schedlab calibrate` on {at}, load {os.getloadavg()[0]:.1f}"


# ---- the file -----------------------------------------------------------------------------------


def _toml(value: int | Mapping[str, int]) -> str:
    if isinstance(value, int):
        return str(value)
    return "{ " + ", ".join(f"{name} = {number}" for name, number in value.items()) + " }"


def file_text(
    description: str, source: str, hz: int, topology: Mapping[str, int], costs: Mapping[str, Cost]
) -> str:
    """A machine's file."""
    lines = [
        f"description = {json.dumps(description)}",
        f"source = {json.dumps(source)}",
        f"hz = {hz}",
        "# Linux 2.6.29 and later wake readers of pipes and sockets synchronously.",
        "sync_wakeups = true",
        "# Times of workloads are those of this machine.",
        "speed_permille = 1000",
        "",
        "[topology]",
        *(f"{name} = {number}" for name, number in topology.items()),
    ]
    for name, cost in costs.items():
        lines += ["", *(f"# {comment}" for comment in cost.comments), f"[costs.{name}]"]
        lines += [f"value = {_toml(cost.value)}", f"source = {json.dumps(cost.source)}"]
    return "\n".join(lines) + "\n"


def doubts(costs: Mapping[str, Cost]) -> list[str]:
    """What these costs cannot all be right for, each in a sentence: the machine was busy."""
    processes, threads = (costs[name].value for name in ("context_switch_ns", "thread_switch_ns"))
    told = []
    if processes == 0 or threads == 0:
        told.append("a switch costs nothing: hops were measured as shorter than their parts")
    elif processes < SWITCH_RATIO_MIN * threads:
        told.append(
            f"a switch between processes costs {processes} ns, one between threads {threads} ns,"
            " although it does all that the other does and more"
        )
    return told


def measured_without_doubt(program: Path, cpus: Cpus) -> dict[str, Cost]:
    """Costs as the program measures them: again, some times, while they cannot all be right."""
    for _ in range(ATTEMPTS):
        costs = taken_apart(measured_of(lines_of(program, "costs"), str(program)), cpus)
        if not doubts(costs):
            break
    return costs
