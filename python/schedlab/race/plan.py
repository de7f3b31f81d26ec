"""What is asked in a race of run queues: a list of heats, with the key by which a store keeps each.

A heat is one workload with one distribution of keys at one size: all structures meet in it, round
by round, and only within a heat are times compared.
"""

import contextlib
import itertools
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from schedlab.digests import canonical_json
from schedlab.errors import BadValue, SchedlabError
from schedlab.race.plugins import Plugin

# What each is, crates/race/src/workload.rs says.
WORKLOADS = (
    "hold", "hold_remove", "cold", "single", "single_remove", "markov", "up_down", "storm",
    "mass_exit", "drain", "fork_burst", "trace",
)  # fmt: skip
# Workloads whose times are percentiles of operations, not medians of rounds, and which operations;
# the last two of each are added in what is shown first. `back` is the push after a removal.
TIMED_ALONE = {"single": ("pop", "push"), "single_remove": ("pop", "push", "remove", "back")}
KEYS = ("uniform", "constant", "exponential", "bimodal", "ties", "weighted", "wide", "biased")
ORDERS = ("rotating", "abcba")

# Every size that was published in 2007; the largest of all is only in a full race.
SIZES_PUBLISHED = (1, 2, 4, 8, 10, 16, 32, 64, 100, 1_000, 10_000, 100_000)
SIZES_FULL = (*SIZES_PUBLISHED, 1_000_000)
SIZES_OTHER = (10, 100, 1_000, 10_000, 100_000)
SIZES_COLD = (4, 10, 64, 100)
SIZE_MAX = 1 << 24
# Queues that are visited at random: as many items as leave every cache but the last.
COLD_ITEMS = 1 << 18
COLD_QUEUES_MAX = 1 << 14
# So many make the interval of a median narrow although a neighbour disturbs some of them.
ROUNDS = 31
# So much above the pace of a core of one's own, it was shared: as in crates/race/src/cpu_core.rs.
SHARED = 1.4
SEED = 1

# 1,000 and 12,000,000 are meant as one number: who means several begins none with a zero.
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})*,0[0-9]{2}(,[0-9]{3})*")

_CACHE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class HeatSpec:
    """What one heat asks. `n` is items a queue, None for those of a trace. `loops` is None where
    the core chooses, `cpu` where the system does not tell, `structures` is None for everybody;
    `trace` and `trace_digest` are empty but for the workload `trace`."""

    workload: str
    keys: str
    n: int | None
    queues: int
    structures: tuple[str, ...] | None = None
    loops: int | None = None
    rounds: int = ROUNDS
    order: str = ORDERS[0]
    cpu: int | None = None
    seed: int = SEED
    plugins: tuple[Plugin, ...] = ()
    trace: str = ""
    trace_digest: str = ""

    @property
    def for_core(self) -> dict:
        """The heat as the core takes it."""
        paths = [plugin.path for plugin in self.plugins]
        return self._with(plugins=paths, trace=self.trace or None)

    def key(self, cpu_model: str, version: str) -> str:
        """Under what the store keeps the heat: what was asked, of which machine and core."""
        digests = [plugin.digest for plugin in self.plugins]
        asked = self._with(plugins=digests, trace=self.trace_digest)
        return canonical_json({"asked": asked, "cpu_model": cpu_model, "version": version})

    def _with(self, **changes: object) -> dict:
        values = {**asdict(self), **changes}
        del values["trace_digest"]
        return values

    @property
    def title(self) -> str:
        """What heats of different sizes have in common, as a heading."""
        return self.workload if self.workload == "trace" else f"{self.workload}, {self.keys} keys"

    @property
    def size(self) -> str:
        """The size as a column's name: items, and queues where there are many."""
        if self.n is None:
            return "all"
        return f"{self.n:,}" if self.queues == 1 else f"{self.n:,}×{self.queues:,}"

    @property
    def place(self) -> str:
        """Which heat it is, in a sentence."""
        return f"{self.title}, n = {self.size}"

    @property
    def is_loop_of_2007(self) -> bool:
        """Whether it comes nearest to what was raced in April 2007."""
        return (self.workload, self.keys) == ("hold", "uniform")

    @property
    def is_timed_alone(self) -> bool:
        """Whether each operation is timed by itself."""
        return self.workload in TIMED_ALONE

    @property
    def weight(self) -> float:
        """How long it takes beside others: filling and warming up grow with the items."""
        return 1 + (self.n or 0) * self.queues / 10_000


@dataclass(frozen=True, slots=True)
class Heat:
    """A heat that was raced: `result` is what the core gave, `load` how many tasks the machine ran
    or had waiting in the minute before; None where the system does not tell."""

    spec: HeatSpec
    result: Mapping
    raced_at: str
    load: float | None
    is_reused: bool = False

    @property
    def pace(self) -> float:
        """The least pace that was known when it ended, see `crates/race/src/cpu_core.rs`."""
        return self.result["spec"]["pace"]

    def disturbed_share(self, pace: float) -> float:
        """The part of its figures in which another thread had the CPU, or half of its core; `pace`
        is that of a core of one's own: who had a neighbour all the time did not know it."""
        rows = [row for row in self.result["rows"] if not row["left_out"]]
        figures = sum(len(row["ticks_per_loop"]) for row in rows)
        slow = [sum(found > SHARED * pace for found in row["paces"]) for row in rows]
        return sum(map(max, slow, (row["disturbed"] for row in rows))) / max(figures, 1)


def own_pace(heats: Iterable[Heat]) -> float | None:
    """The pace of a core of one's own, as far as these heats know it; None of none."""
    return min((heat.pace for heat in heats), default=None)


@dataclass(frozen=True, slots=True)
class Machine:
    """The processor: its model, and name and bytes of each level of data cache, first to last."""

    cpu_model: str
    caches: tuple[tuple[str, int], ...]


def plan(
    workloads: Sequence[str],
    keys: Sequence[str],
    sizes: Sequence[int],
    full: bool = False,
    trace: Path | None = None,
) -> list[HeatSpec]:
    """Workload, keys, n and queues of every heat; what is empty is chosen here. Raises
    SchedlabError if no heat plays the trace, if the workload `trace` has none, or if it is the only
    one and sizes or keys are given."""
    usual = WORKLOADS if full else ("hold",) if trace is None else ("trace",)
    chosen = list(dict.fromkeys(workloads or usual))
    if trace is None and "trace" in workloads:
        hint = "give its file with --trace; docs/guides/race.md shows the format"
        raise SchedlabError("--workload trace: there is no trace to play", hint)
    if trace is not None and "trace" not in chosen:
        hint = "leave out --workload, or add --workload trace"
        raise SchedlabError(f"--trace {trace}: --workload {chosen[0]} does not play it", hint)
    for option, values in (("-n", sizes), ("--keys", keys)):
        if values and chosen == ["trace"]:
            why = f"{option} {values[0]}: a trace has items and keys of its own"
            raise SchedlabError(why, f"leave out {option}, or --trace")
    heats = []
    usual_sizes = {"hold": SIZES_FULL if full else SIZES_PUBLISHED, "cold": SIZES_COLD}
    for workload in chosen:
        if workload == "trace":
            heats += [HeatSpec(workload, KEYS[0], None, 1)] * (trace is not None)
            continue
        drawn = dict.fromkeys(keys or (KEYS if full and workload == "hold" else KEYS[:1]))
        asked = dict.fromkeys(sizes or usual_sizes.get(workload, SIZES_OTHER))
        for name, n in itertools.product(drawn, asked):
            # As many queues as leave every cache but the last; a power of two.
            cold = min(COLD_QUEUES_MAX, 1 << (max(2, COLD_ITEMS // n).bit_length() - 1))
            heats.append(HeatSpec(workload, name, n, cold if workload == "cold" else 1))
    return heats


def places(heats: Sequence[HeatSpec]) -> str:
    """Which heats, in a sentence: the first, and how many there are besides."""
    return heats[0].place + (f" and {len(heats) - 1} more" if len(heats) > 1 else "")


def parse_sizes(place: str, texts: Sequence[str]) -> list[int]:
    """Sizes as people write them, separated by commas: `10`, `1000`, `1_000`, `1,2,4`."""
    sizes = []
    for text, word in ((given, word) for given in texts for word in given.split(",")):
        if not re.fullmatch(r"[-+]?[0-9][0-9_]*", word.strip()):
            raise BadValue(place, word, "is not a whole number", "write -n 10 or -n 1,10,1000")
        if _THOUSANDS.fullmatch(text):
            why = "is several sizes, because a comma stands between two"
            raise BadValue(place, text, why, f"write -n {text.replace(',', '')} for one size")
        sizes.append(int(word))
        if not 1 <= sizes[-1] <= SIZE_MAX:
            hint = "give the items of a queue, as in -n 10"
            raise BadValue(place, word, f"is not from 1 to {SIZE_MAX:,}", hint)
    return sizes


def this_machine(cpu: int | None = None) -> Machine:
    """The processor that this runs on, and the caches of one of its CPUs."""
    found = None
    with contextlib.suppress(OSError):
        told = Path("/proc/cpuinfo").read_text("utf-8")
        found = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    # Where the kernel does not name it, as on some ARM machines, the instruction set does.
    model = found[1].strip() if found else platform.processor() or platform.machine()
    return Machine(model, _caches(Path(f"/sys/devices/system/cpu/cpu{cpu or 0}/cache")))


def _caches(directory: Path) -> tuple[tuple[str, int], ...]:
    """The data caches of a CPU; nothing where the system does not tell."""
    caches = []
    for index in sorted(directory.glob("index*")):
        with contextlib.suppress(OSError):
            names = ("level", "type", "size")
            level, kind, size = ((index / name).read_text().strip() for name in names)
            if kind != "Instruction" and size[-1:] in _CACHE_UNITS:
                name = f"L{level}d" if kind == "Data" else f"L{level}"
                caches.append((name, int(size[:-1]) * _CACHE_UNITS[size[-1]]))
    return tuple(caches)
