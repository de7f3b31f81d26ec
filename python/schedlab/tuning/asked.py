"""What a search is to find: values of which tunables, for which objectives, and where.

Options of the command and keywords of a notebook become one `Tuning`. Its base is the policy as it
is given, with its set and with what --set settles: what a search finds is compared with that.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from schedlab import catalogue
from schedlab.digests import digest_of
from schedlab.errors import BadValue, ExperimentError, refuse_unknown
from schedlab.experiment import definition
from schedlab.experiment.cells import Cell, expand
from schedlab.tuning.costs import Keep, Objective, keep_of, objective_of
from schedlab.values import BOUNDS, parse_tunable, refuse_duplicates

TRIALS, TRIALS_MAX = 60, 10_000
REPEATS, REPEATS_MAX = 5, 1_000
# As many seeds lie between those of a search and those it is judged by.
FRESH_AFTER = 1_000_000
# Fewer make no interval.
FRESH = (3, 10_000)
# Without a range of the user's a time is searched from a tenth of its default to ten times that.
SPREAD = 10
TIMES = ("ns", "us", "ms")
# How the words on a tunable begin that is either 0 or 1.
FLAG = re.compile(r"[01]: ")
DIGITS = 2
RANGE_HINT = "write NAME=LOW..HIGH, as in slice_ns=100us..10ms; with :log or :linear after it"


@dataclass(frozen=True)
class Range:
    """The values of a tunable that are tried, both ends among them; evenly on a logarithmic scale
    if it `is_log`."""

    low: int
    high: int
    is_log: bool
    is_time: bool = False

    def value(self, asked: int) -> int:
        """The value that is tried where this one is asked for: people read two digits of a time,
        and a value that was tried before costs nothing."""
        if not self.is_time or asked < 10**DIGITS:
            return asked
        places = DIGITS - 1 - math.floor(math.log10(asked))
        return min(max(round(asked, places), self.low), self.high)


@dataclass(frozen=True)
class Tuning:
    """A search. Repetition r of a scenario has seed `seed` + r, for every trial; seeds from
    `seed` + FRESH_AFTER on, `fresh` of them or as many as it takes, are for the judgement.

    `workloads` are searched on, `holdouts` only judged by; `settings` are values that stay.
    """

    policy: str
    workloads: tuple[str, ...]
    machines: tuple[str, ...]
    holdouts: tuple[str, ...]
    parameters: Mapping[str, str]
    settings: Mapping[str, str]
    ranges: Mapping[str, Range]
    objectives: tuple[Objective, ...]
    keeps: tuple[Keep, ...]
    trials: int
    repeats: int
    seed: int
    fresh: int | None

    @property
    def label(self) -> str:
        """What the policy is called."""
        return catalogue.label_of(self.policy)

    @property
    def measures(self) -> list[str]:
        """All that is to become less, or to be kept."""
        named = itertools.chain(*(one.weights for one in self.objectives))
        return list(dict.fromkeys([*named, *(keep.measure for keep in self.keeps)]))

    def id_of(self, cells: Sequence[Cell], method: str) -> str:
        """12 hex digits of all that decides what a search by this method tries: not of how many
        trials there are, nor of how they are judged."""
        asked = asdict(replace(self, trials=0, fresh=None, holdouts=()))
        return digest_of([asked, method, sorted(cell.key for cell in cells)])[:12]

    def experiment(self, workload: str, **options: Any) -> definition.Experiment:
        """An experiment on all machines with one of the workloads; `options` are of
        `definition.build`."""
        path = catalogue.find(catalogue.WORKLOADS, workload)
        known = {one["name"] for one in catalogue.native().workload_parameters(path)}
        given = {"policies": [self.policy], "workload": workload, "machine": list(self.machines)}
        given["with"] = {name: text for name, text in self.parameters.items() if name in known}
        return definition.build(given | {"set": {"": dict(self.settings)}} | options)

    def search_cells(self) -> list[list[Cell]]:
        """The base's runs, a list of repetitions for each scenario."""
        options = {"repeat": self.repeats, "seed": self.seed}
        return by_scenario(self, self.workloads, **options)


def by_scenario(tuning: Tuning, workloads: Sequence[str], **options: Any) -> list[list[Cell]]:
    """The cells of the base on these workloads, a list of repetitions for each scenario."""
    scenarios = []
    for workload in workloads:
        cells = expand(tuning.experiment(workload, **options))
        nr = len(cells) // len(tuning.machines)
        scenarios += [cells[at : at + nr] for at in range(0, len(cells), nr)]
    return scenarios


def build(options: Mapping[str, Any]) -> Tuning:
    """A search from the options of the command; docs/reference/cli.md says what they mean. Raises
    SchedlabError if something is missing, contradictory or out of range."""
    objectives = tuple(map(objective_of, options["objectives"]))
    _refuse_equal(objectives)
    keeps = tuple(map(keep_of, options["keeps"]))
    refuse_duplicates("bound", [one.measure for one in keeps])
    workloads, holdouts = tuple(options["workloads"]), tuple(options["holdouts"])
    refuse_duplicates("workload", [*workloads, *holdouts])
    _refuse_same_file([*workloads, *holdouts])
    if not objectives:
        hint = "add --objective p99_wakeup, or another measure of docs/reference/cli.md"
        raise ExperimentError("no objective is given", hint)
    _refuse_lost_parameters(options["with"], [*workloads, *holdouts])
    if not workloads:
        hint = "see what there is with `schedlab list workloads`"
        raise ExperimentError("no workload is given to search on", hint)
    if not options["machines"]:
        hint = "see what there is with `schedlab list machines`"
        raise ExperimentError("no machine is given to search on", hint)
    fresh, seed_max = options["fresh"], definition.SEED_MAX - 2 * FRESH_AFTER
    return Tuning(
        policy=options["policy"],
        workloads=workloads,
        machines=tuple(options["machines"]),
        holdouts=holdouts,
        parameters=dict(options["with"]),
        settings=dict(options["set"]),
        ranges=_ranges(options),
        objectives=objectives,
        keeps=keeps,
        trials=definition.in_range("--trials", options["trials"], 1, TRIALS_MAX),
        repeats=definition.in_range("--repeat", options["repeat"], 1, REPEATS_MAX),
        seed=definition.in_range("--seed", options["seed"], 0, seed_max),
        fresh=None if fresh is None else definition.in_range("--fresh", fresh, *FRESH),
    )


def _refuse_equal(objectives: Sequence[Objective]) -> None:
    """Two whose weights differ by one factor ask for the same."""
    for at, one in enumerate(objectives):
        for first in objectives[:at]:
            if first.weights == one.weights:
                what = f"asks for the same as {first.text!r}"
                raise BadValue("--objective", one.text, what, "leave out one")


def _refuse_same_file(workloads: Sequence[str]) -> None:
    """What judges must not be what was searched on, by whatever path or copy."""
    first: dict[bytes, str] = {}
    for workload in workloads:
        content = catalogue.find(catalogue.WORKLOADS, workload).read_bytes()
        if (same := first.setdefault(content, workload)) != workload:
            raise BadValue("workload", workload, f"is the same as {same!r}", "leave out one")


def _refuse_lost_parameters(given: Mapping[str, str], workloads: Sequence[str]) -> None:
    """A parameter is for each workload that has one of its name; some must."""
    paths = [catalogue.find(catalogue.WORKLOADS, workload) for workload in workloads]
    of_all = map(catalogue.native().workload_parameters, paths)
    known = {one["name"] for of_one in of_all for one in of_one}
    refuse_unknown("parameter", given, known, f"of {', '.join(workloads) or 'no workload'}")


# ---- ranges --------------------------------------------------------------------------------------


def _ranges(options: Mapping[str, Any]) -> dict[str, Range]:
    """What is searched: what a range is given for, and of the others those that have a usual one,
    or that are named alone."""
    path, set_name = catalogue.find_policy(options["policy"])
    loaded = catalogue.load_policy(path)
    of_set = catalogue.values_of_set(loaded, set_name)
    tunables = {one["name"]: one for one in loaded.tunables}
    fixed, given = options["set"], dict(options["ranges"])
    where = f"of policy {loaded.name}"
    for names in (fixed, given, options["only"]):
        refuse_unknown("tunable", names, tunables, where)
    for name in fixed:
        if name in given or name in options["only"]:
            what = f"tunable {name} is both searched and fixed (--set)"
            raise ExperimentError(what, "leave out one")
    ranges = {}
    for name in options["only"] or tunables:
        one, default = tunables[name], of_set.get(name, tunables[name]["default"])
        sets = [of["tunables"].get(name, default) for of in loaded.sets]
        if name in given:
            ranges[name] = parse_range(one, given.pop(name))
        elif name not in fixed and (usual := usual_range(one, default, sets)):
            ranges[name] = usual
        elif options["only"]:
            hint = f"say from where to where: --range {name}=LOW..HIGH"
            raise BadValue("--only", name, "has no usual range", hint)
    ranges |= {name: parse_range(tunables[name], text) for name, text in given.items()}
    if not ranges:
        hint = f"name one by --range; it has {', '.join(tunables) or 'none at all'}"
        raise ExperimentError(f"policy {loaded.name} has no tunable to search", hint)
    return ranges


def parse_range(tunable: Mapping[str, Any], text: str) -> Range:
    """The range that a text such as `100us..10ms:log` gives a tunable; BadValue if it gives none.
    A range whose ends are far apart is logarithmic if the text does not say."""
    name, place = tunable["name"], f"--range {tunable['name']}"
    ends, _, scale = text.partition(":")
    low, dots, high = ends.partition("..")
    if not dots or scale not in ("", "log", "linear"):
        raise BadValue(place, text, "is not a range", RANGE_HINT)
    first, last = (parse_tunable(place, name, tunable["type"], end.strip()) for end in (low, high))
    if first >= last:
        raise BadValue(place, text, "is empty", "a range goes up")
    is_log = scale == "log" or (not scale and 0 < first * SPREAD <= last)
    if is_log and first < 1:
        raise BadValue(place, text, "begins below 1, where no logarithm is", "leave out :log")
    return Range(first, last, is_log, _is_time(name))


def usual_range(tunable: Mapping[str, Any], default: int, of_sets: Sequence[int]) -> Range | None:
    """What is searched where nobody says: flags, times around their default, and of other numbers
    the values between those of the policy's sets; None for a number of which nothing is known."""
    _, highest = BOUNDS.get(tunable["type"], BOUNDS["u64"])
    if tunable["type"].lstrip("_").lower() == "bool" or (
        default in (0, 1) and FLAG.match(tunable["doc"])
    ):
        return Range(0, 1, False)
    if _is_time(tunable["name"]):
        if default < 1:
            return None
        return Range(max(1, default // SPREAD), min(default * SPREAD, highest), True, True)
    low, high = min([default, *of_sets]), max([default, *of_sets])
    return Range(low, high, 0 < low * SPREAD <= high) if low < high else None


def _is_time(name: str) -> bool:
    return name.rpartition("_")[2] in TIMES
