"""`schedlab calibrate`: measures what this machine's kernel operations cost, and writes a machine.

`schedlab-bench costs` measures; here sums are taken apart, CPUs are read from /sys, and what cannot
be measured is taken over from machine `laptop` and says so.
"""

import json
import os
import platform
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schedlab import catalogue, programs, user_file
from schedlab.bench import environment
from schedlab.errors import BadValue, SchedlabError
from schedlab.kernel.sched_ext import read_text

PROGRAM = programs.BENCH.name
PROGRAM_HELP = "The native benchmarks.  [default: in the checkout, or on PATH]"
MEASURES_S_MAX = 300

# The simulated scheduler that is nearest to the kernel's own, from Linux 6.6 on.
POLICY = "eevdf"
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
# What no operation takes: longer than a day.
COST_NS_MAX = 1e14
REMAKE = f"make the file anew: {PROGRAM} costs > FILE"
HERE = "own: measured here"
ONE_CPU = "own: there is one CPU"
# What is measured as it is.
PLAIN = (
    "syscall_ns", "message_ns", "copy_ns_per_kib", "wakeup_ns", "tick_ns", "timer_ns", "fork_ns",
    "lock_ns", "scan_step_ns", "scan_miss_ns",
)  # fmt: skip
# What cannot be measured from outside the kernel, and why the number of `laptop` may stand.
TAKEN_OVER = {
    "hook_ns": "a call of a sched_ext policy, which this kernel's own scheduler does not make",
    "dsq_op_ns": "inside the kernel; no task can time it",
    "message_lines": "inside the kernel; no task can count them",
    "channel_lines": "inside the kernel; no task can count them",
    "smt_percent": "not measured",
}
ASSUMED = "assumed: default, as machine laptop"


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

    @property
    def comment(self) -> str:
        """A comment's line."""
        of = f"{self.of}: " if self.of else ""
        spread = f"quartiles {self.low:.4g} to {self.high:.4g} of {self.count}"
        return f"{of}median {self.median:.4g}, {spread}: {self.how}"


@dataclass(frozen=True)
class Cost:
    """A cost of the file: a number, or one a distance; where it is from; comments above it."""

    value: int | Mapping[str, int]
    source: str
    comments: Sequence[str] = ()

    @classmethod
    def of(cls, measured: Measured, source: str, known_ns: float = 0) -> "Cost":
        """What was measured, less what is known of it."""
        return cls(max(round(measured.median - known_ns), 0), source, [measured.comment])


Costs = dict[str, Cost]


@dataclass(frozen=True)
class Cpus:
    """The CPUs that this machine has."""

    topology: Mapping[str, int]
    """As `topology` of a machine's file says it."""
    nearest: str
    """The distance of the first two of them."""
    line_bytes: int
    cache_kib: int
    """The largest cache that a core has for itself."""


# ---- the native benchmarks ----------------------------------------------------------------------


def lines_of(program: Path, *words: str, cpu: int | None = None) -> list[dict]:
    """What the native benchmarks print, each line read as JSON; kept on `cpu` if that is given.
    Raises SchedlabError if they fail, say something else, or take longer than five minutes."""
    command = [str(program), *words]
    done = programs.output(command, MEASURES_S_MAX, cpu=cpu)
    if done.returncode:
        raise SchedlabError(f"{' '.join(command)}: {done.stderr.decode(errors='replace').strip()}")
    return json_lines(done.stdout.decode(errors="replace"), " ".join(command))


def json_lines(text: str, place: str) -> list[dict]:
    """One JSON object a line; `place` names where the text is from."""
    try:
        return [user_file.json_of(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        hint = "take what `schedlab-bench` printed, a JSON object a line"
        raise SchedlabError(f"{place}: a line is no JSON: {error}", hint) from error


class Measurements(dict[tuple[str, str], Measured]):
    """What the native benchmarks measured, by name and by what it is of."""

    def __init__(self, lines: Sequence[Mapping], place: str):
        """Raises SchedlabError if a line is no cost; `place` says where they are from."""
        for line in lines:
            try:
                one = Measured(**line)
            except TypeError as error:
                why = f"a line is no cost as `{PROGRAM} costs` prints it"
                raise SchedlabError(f"{place}: {why}") from error
            for name in ("cost", "of", "how"):
                text = getattr(one, name)
                if not isinstance(text, str) or not text.isprintable():
                    raise BadValue(f"{place}: {name} of a cost", text, "is no line of text", REMAKE)
            for name in ("median", "low", "high", "count"):
                value = getattr(one, name)
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if not is_number or not 0 <= value <= COST_NS_MAX:
                    why = f"is not within 0 and {COST_NS_MAX:g}" if is_number else "is no number"
                    raise BadValue(f"{place}: {name} of {one.cost}", value, why, REMAKE)
            self[one.cost, one.of] = one

    def __call__(self, cost: str, of: str = "") -> Measured:
        if (cost, of) not in self:
            hint = f"{PROGRAM} and schedlab are of different versions: `make schedlab-bench`"
            raise SchedlabError(f"no {' '.join(filter(None, (cost, of)))} was measured", hint)
        return self[cost, of]


# ---- taking sums apart --------------------------------------------------------------------------


def taken_apart(measured: Measurements, cpus: Cpus) -> Costs:
    """Every cost of a machine's file, in the order of machine `laptop`'s."""
    source = catalogue.find(catalogue.MACHINES, "laptop")
    laptop = user_file.toml(f"machine file {source}", source)["costs"]
    costs = {
        name: Cost(laptop[name]["value"], f"{ASSUMED}: {why}") for name, why in TAKEN_OVER.items()
    }
    costs |= {name: Cost.of(measured(name), HERE) for name in PLAIN}
    core = "own: /sys, the largest cache that a core has for itself"
    tasks = "assumed: as many KiB as cache_kib, 1 KiB a task"
    costs["line_bytes"] = Cost(cpus.line_bytes, "own: /sys, coherency_line_size")
    costs["cache_kib"] = Cost(cpus.cache_kib, core)
    costs["scan_cached_tasks"] = Cost(cpus.cache_kib, tasks)
    costs |= _by_distances(measured, cpus)
    free = {name: Cost(0, "for taking hops apart") for name in laptop if name not in costs}
    costs |= _switches(measured, costs | free)
    costs |= _across(measured, laptop, costs["thread_switch_ns"].value)
    order = ("context_switch_ns", "thread_switch_ns", "cold_switch_ns", *laptop)
    return {name: costs[name] for name in order}


def _by_distances(measured: Measurements, cpus: Cpus) -> Costs:
    """What other CPUs make dearer; as on one CPU where there is no other."""
    refills = [one.comment for one in measured.values() if one.cost == "refill_ns_per_kib"]
    same = measured("refill_ns_per_kib", f"same {REFILL_KIB} KiB").median
    # Cost; of the first two CPUs; of one; its source; comments.
    if ("line_transfer_ns", "") not in measured:
        rows = (
            ("line_transfer_ns", 0, 0, ONE_CPU, ()),
            ("migration_ns", 0, 0, ONE_CPU, ()),
            ("refill_ns_per_kib", same, same, HERE, refills),
        )
    else:
        line = measured("line_transfer_ns")
        other = measured("refill_ns_per_kib", f"other {REFILL_KIB} KiB").median
        lines = "own: ten lines of stack and task data (assumed) at line_transfer_ns"
        only = (
            f". Only distance {cpus.nearest} was measured; the others are assumed to be as far, and"
            " occur only where the machine has such CPUs"
        )
        rows = (
            ("line_transfer_ns", line.median, 0, HERE + only, [line.comment]),
            ("migration_ns", LINES_OF_A_TASK * line.median, 0, lines + only, ()),
            ("refill_ns_per_kib", other, same, f"{HERE} with {REFILL_KIB} KiB{only}", refills),
        )
    return {
        name: Cost(dict.fromkeys(DISTANCES, round(beyond)) | {"same": round(one)}, where, comments)
        for name, beyond, one, where, comments in rows
    }


def _switches(measured: Measurements, known: Costs) -> Costs:
    """What a hop between tasks takes beside all that is `known`, and what follows from it."""
    costs = {}
    why = (
        "own: with it a simulated hop on one CPU under eevdf takes as long as the measured"
        " one: the rest of it are calls, messages, the wake-up and the policy's work"
    )
    for name, tasks in (("context_switch_ns", "processes"), ("thread_switch_ns", "threads")):
        hop = measured("hop_ns", f"{tasks} on one CPU")
        costs[name] = Cost(fitting_switch_ns(hop.median, known), why, [hop.comment])
    simulated_ns = simulated_hop_ns(known | costs, tasks=8)
    why = f"own: a hop in a ring of eight, less {simulated_ns:.0f} ns, simulated without it"
    ring = measured("hop_ns", "eight processes on one CPU")
    costs["cold_switch_ns"] = Cost.of(ring, why, simulated_ns)
    parts_ns = measured("fork_ns").median + measured("wakeup_ns").median
    parts_ns += 2 * costs["context_switch_ns"].value
    why = "own: a process's life, less fork_ns, two switches and a wake-up"
    costs["exit_ns"] = Cost.of(measured("fork_exit_wait_ns"), why, parts_ns)
    return costs


def _across(measured: Measurements, laptop: Mapping, switch_ns: int) -> Costs:
    """What it takes to reach a task that sleeps on another CPU."""
    if ("ipi_send_ns", "") not in measured:
        idle = Cost(laptop["idle_exit_ns"]["value"], f"{ASSUMED}: not measured with one CPU")
        return {"ipi_send_ns": Cost(0, ONE_CPU), "ipi_ns": Cost(0, ONE_CPU), "idle_exit_ns": idle}
    send, hop = measured("ipi_send_ns"), measured("hop_ns", "processes on two CPUs")
    lines = 2 * laptop["channel_lines"]["value"] + laptop["message_lines"]["value"] + 1
    known_ns = (
        2 * (measured("syscall_ns").median + measured("message_ns").median)
        + measured("wakeup_ns").median
        + send.median
        + lines * measured("line_transfer_ns").median
        + switch_ns
    )
    left_ns = max(hop.median - known_ns, 0)
    why = (
        f"own: a hop between CPUs, less what is known of it, leaves {left_ns:.0f} ns for the"
        " interrupt and for leaving idle; assumed: half of it each, as nothing tells them apart"
    )
    half_ns = round(left_ns / 2)
    return {
        "ipi_send_ns": Cost.of(send, HERE),
        "ipi_ns": Cost(half_ns, why, [hop.comment]),
        "idle_exit_ns": Cost(half_ns, why),
    }


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
    """What a message from a task to the next in a ring takes on one CPU of these costs."""
    rounds = 2 * HOPS // tasks
    parameters = {"n": str(tasks), "rounds": str(rounds)}
    result = simulated(_loaded(costs, HZ_DEFAULT, {}), "lat_ctx", parameters, 1)
    return result["makespan_ns"] / (tasks * rounds)


def simulated(machine: Any, workload: str, parameters: Mapping[str, str], seed: int) -> dict:
    """The result of a workload on a machine under `POLICY`."""
    policy = catalogue.load_policy(catalogue.find(catalogue.POLICIES, POLICY))
    tasks = catalogue.load_workload(catalogue.find(catalogue.WORKLOADS, workload), parameters)
    return catalogue.native().simulate(policy, machine, tasks, seed, {})


@dataclass(frozen=True)
class Machines:
    """The simulated machine of some costs, and the same with one CPU."""

    whole: Any
    one_cpu: Any

    @classmethod
    def of_file(cls, path: Path) -> "Machines":
        """Of a file that `calibrate` wrote."""
        read = user_file.toml(f"machine file {path}", path)
        costs = {name: Cost(cost["value"], cost["source"]) for name, cost in read["costs"].items()}
        return cls(catalogue.load_machine(path), _loaded(costs, read["hz"], {}))

    @classmethod
    def measured(cls, program: Path) -> "Machines":
        """Of this machine as it is now."""
        cpus, (hz, _) = read_cpus(), ticks_a_second()
        costs = measured_without_doubt(program, cpus)
        return cls(_loaded(costs, hz, cpus.topology), _loaded(costs, hz, {}))


def _loaded(costs: Mapping[str, Cost], hz: int, topology: Mapping[str, int]) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "machine.toml"
        path.write_text(file_text("for simulations", "own", hz, topology, costs), "utf-8")
        return catalogue.load_machine(path)


# ---- the machine itself -------------------------------------------------------------------------


def read_cpus(root: Path = Path("/sys/devices/system/cpu")) -> Cpus:
    """The online CPUs below `root`, as Linux tells of them."""
    folders = sorted(root.glob("cpu[0-9]*"), key=lambda path: int(path.name[3:]))
    places = [
        _place(cpu) for cpu in folders if _number(cpu / "online", 1) and (cpu / "topology").is_dir()
    ]
    nodes, sockets, caches, cores = (len({place[part] for place in places}) for part in range(4))
    sockets = max(sockets, nodes)
    caches = max(caches // sockets, 1)
    topology = {
        "numa_nodes": nodes,
        "sockets": sockets,
        "caches_per_socket": caches,
        "cores_per_cache": max(cores // (sockets * caches), 1),
        "threads_per_core": max(len(places) // max(cores, 1), 1),
    }
    nearest = "cache"
    if len(places) > 1:
        node, _, cache, core = (a == b for a, b in zip(*places[:2], strict=True))
        nearest = "smt" if core else "cache" if cache else "node" if node else "remote"
    sizes = {level: _number(of / "size") for level, of in _caches(root / "cpu0").items()}
    line_bytes = _number(root / "cpu0/cache/index0/coherency_line_size") or 64
    cache_kib = sizes.get(2) or max(sizes.values(), default=1024)
    return Cpus(topology, nearest, line_bytes, cache_kib)


def _number(path: Path, default: int = 0) -> int:
    digits = re.match(r"\d+", read_text(path) or "")
    return int(digits.group()) if digits else default


def _caches(cpu: Path) -> dict[int, Path]:
    """A CPU's caches by their level, but for that of instructions."""
    return {_number(index / "level"): index for index in cpu.glob("cache/index[1-9]*")}


def _place(cpu: Path) -> tuple:
    """Node, socket, last cache and core of a CPU: equal ones are the same."""
    caches = _caches(cpu)
    node = next((path.name for path in cpu.glob("node[0-9]*")), "node0")
    package = _number(cpu / "topology/physical_package_id")
    cache = read_text((caches[max(caches)] if caches else cpu) / "shared_cpu_list") or str(package)
    return node, package, cache, (package, _number(cpu / "topology/core_id"))


def ticks_a_second() -> tuple[int, str]:
    """Ticks a second of the running kernel, and where that is from."""
    hz, source = environment.hz(environment.kernel_config())
    return hz, f"HZ: {source}"


# ---- the file -----------------------------------------------------------------------------------


def own_file(cpus: Cpus, costs: Mapping[str, Cost]) -> str:
    """The file of this machine: what it is, and under what its costs were measured."""
    machine, (hz, hz_source) = environment.machine(), ticks_a_second()
    cpu = machine["cpu_model"] or "CPUs of unknown make"
    virtual = ", in a virtual machine" if machine["virtual"] else ""
    what = f"{cpu}, {machine['nr_cpus']} CPUs{virtual}, Linux {platform.release()}"
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    source = f"own: `schedlab calibrate` on {at}, load {os.getloadavg()[0]:.1f}. {hz_source}"
    return file_text(what, source, hz, cpus.topology, costs)


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
        value = cost.value
        if isinstance(value, Mapping):
            value = f"{{ {', '.join(f'{place} = {number}' for place, number in value.items())} }}"
        lines += ["", *(f"# {comment}" for comment in cost.comments), f"[costs.{name}]"]
        lines += [f"value = {value}", f"source = {json.dumps(cost.source)}"]
    return "\n".join(lines) + "\n"


def doubts(costs: Mapping[str, Cost]) -> list[str]:
    """What these costs cannot all be right for, each in a sentence: the machine was busy."""
    processes, threads = (costs[name].value for name in ("context_switch_ns", "thread_switch_ns"))
    if processes == 0 or threads == 0:
        return ["a switch costs nothing: hops were measured as shorter than their parts"]
    if processes >= SWITCH_RATIO_MIN * threads:
        return []
    return [
        f"a switch between processes costs {processes} ns, one between threads {threads} ns,"
        " although it does all that the other does and more"
    ]


def measured_without_doubt(program: Path, cpus: Cpus) -> Costs:
    """Costs as the program measures them: again, some times, while they cannot all be right."""
    for _ in range(ATTEMPTS):
        costs = taken_apart(Measurements(lines_of(program, "costs"), str(program)), cpus)
        if not doubts(costs):
            break
    return costs
