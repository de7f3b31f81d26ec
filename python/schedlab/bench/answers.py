"""What the repetitions of a store say: a row a benchmark, and comparisons where there are several
kernels, schedulers or labels. Only what was measured on one machine, of one benchmark with the same
command and inputs, is ever put side by side; `evidence` decides what follows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from schedlab.bench.environment import KERNEL_OWN
from schedlab.statistics import evidence, independence
from schedlab.statistics.digits import percent
from schedlab.statistics.estimates import Estimate, Verdict, log_estimate, median_estimate
from schedlab.statistics.noise_floor import Null
from schedlab.statistics.samples import by_key
from schedlab.store.measurements import OK, Campaign, Measurements, Repetition

BOOTS_FOR_KERNELS_MIN = 3
KNOWN_FROM = {
    Null.OCCASIONS: "made as these were; known from the boots and sessions that there are, so more"
    " of them lower it",
    Null.HALVES: "as far as the halves of its repetitions tell. Nothing was measured twice, so what"
    " another boot or hour changes is not in it: --again tells",
}


@dataclass(frozen=True)
class Setup:
    """What is compared with what: a kernel, the scheduler in force in it, and a label."""

    kernel: str
    version: str
    scheduler: str
    label: str
    policy: str = ""
    """Digest of a policy's object, where campaigns know it."""

    @property
    def name(self) -> str:
        """In a table's head."""
        name = self.kernel if self.scheduler == KERNEL_OWN else f"{self.scheduler} on {self.kernel}"
        return f"{self.label}: {name}" if self.label else name


@dataclass
class Sample:
    """The repetitions of one case in one setup that count, in the order in which they were made."""

    values: list[float] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)
    """The boot of each value, as the next two are of each."""
    blocks: list[tuple[str, str, str]] = field(default_factory=list)
    """Campaign, boot and session, number; the first two are an occasion."""
    started_at: list[str] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    ended_by: Counter[str] = field(default_factory=Counter)
    """What ended searches for a limit."""
    nr_noisy: int = 0
    undisturbed: list[float] = field(default_factory=list)
    nr_failed: int = 0

    def add(self, campaign: str, one: Repetition, tools: str) -> None:
        """Takes in a repetition that is no warm-up."""
        if one.status != OK:
            self.nr_failed += 1
            return
        boot = one.manifest["boot_id"]
        self.values.append(one.value)
        self.boots.append(boot)
        # What went on after a break, or a reboot, is no block with what was made before it.
        self.blocks.append((campaign, f"{boot} {one.surroundings}", one.slot))
        self.started_at.append(one.started_at)
        self.tools.add(tools)
        self.nr_noisy += one.noisy
        if not one.noisy:
            self.undisturbed.append(one.value)
        if ended_by := one.manifest.get("ended_by"):
            self.ended_by[ended_by] += 1

    @property
    def estimate(self) -> Estimate | None:
        """Median and its 95 % interval; None without values."""
        return median_estimate(self.values) if self.values else None

    @property
    def geometric(self) -> Estimate | None:
        """Geometric mean and its 95 % interval, with the SD of logarithms; None without values."""
        return log_estimate(self.values) if self.values else None

    @property
    def mad(self) -> float | None:
        """Of logarithms, see `log_mad`; None of fewer than two values."""
        return independence.log_mad(self.values) if len(self.values) > 1 else None

    @property
    def nr_boots(self) -> int:
        """How many boots the values are from."""
        return len(set(self.boots))

    @property
    def by_boot(self) -> dict[str, list[float]]:
        """The values of each boot, by the boot, in the order in which they were made."""
        return by_key(zip(self.boots, self.values, strict=True))


@dataclass
class CaseRow:
    """One case on one machine, in each setup that it was measured in."""

    machine: str
    suite: str
    name: str
    digest: str
    unit: str
    higher_is_better: bool
    values: Mapping[str, Any] = field(default_factory=dict)
    """Of the benchmark's parameters."""
    samples: dict[Setup, Sample] = field(default_factory=dict)
    nr_earlier: int = 0
    """Repetitions in no sample: their command or inputs were others, before the suite's edit."""
    names: Mapping[Setup, str] = field(default_factory=dict)
    """Of each setup, the same in every row."""

    @property
    def benchmark(self) -> str:
        """The first word of the name; the others are values of parameters."""
        return self.name.split(" ")[0]

    @property
    def by_name(self) -> dict[str, list[float]]:
        """The values of each setup that has any, by its name."""
        return {self.names[of]: one.values for of, one in self.samples.items() if one.values}

    @property
    def first(self) -> Setup | None:
        """What the others are compared with: the first that has values."""
        return next((setup for setup, one in self.samples.items() if one.values), None)

    @property
    def others(self) -> list[Setup]:
        """Those that are compared with the first."""
        return [one for one, sample in self.samples.items() if sample.values and one != self.first]

    @cached_property
    def comparison(self) -> evidence.Comparison | None:
        """Every setup against the first, by name; None if fewer than two have values.

        Rates are turned into times. Each pair decides what a run of it is, see `is_by_boot`; those
        that took turns in blocks are compared within them. p values are adjusted over all pairs.
        """
        kinds = by_key((self.is_by_boot(one), one) for one in self.others)
        compared = [self._compared(kinds[kind], kind) for kind in sorted(kinds)]
        order = [self.names[one] for one in self.others]
        return evidence.merged(compared, order) if compared else None

    def _compared(self, others: Sequence[Setup], is_by_boot: bool) -> evidence.Comparison:
        times, blocks, occasions = {}, {}, {}
        for setup in (self.first, *others):
            sample, name = self.samples[setup], self.names[setup]
            values, blocks[name] = sample.values, sample.blocks
            if is_by_boot:
                values = [float(np.median(of)) for of in sample.by_boot.values()]
                blocks[name] = list(sample.by_boot)
            else:
                occasions[name] = [place[:2] for place in sample.blocks]
            times[name] = [1 / v for v in values] if self.higher_is_better else values
        of_machine = {"blocks": blocks, "occasions": occasions or None}
        first = self.names[self.first]
        comparison = evidence.compare_groups(times, baseline=first, **of_machine)
        if not is_by_boot:
            return comparison
        test = f"Each boot is one run, the median of its repetitions: {comparison.why.test}"
        return replace(comparison, why=replace(comparison.why, test=test))

    def is_by_boot(self, setup: Setup) -> bool:
        """Whether a boot and not a repetition is a run, of this setup and the first, as what all
        repetitions of a boot have in common tells nothing of the next: they never shared a boot, as
        kernels never do, and each had enough of them."""
        return self.has_boots_apart(setup) and self.nr_boots(setup) >= BOOTS_FOR_KERNELS_MIN

    def has_boots_apart(self, setup: Setup) -> bool:
        """Whether it shared no boot with the first."""
        return set(self.samples[setup].boots).isdisjoint(self.samples[self.first].boots)

    def nr_boots(self, setup: Setup) -> int:
        """How many boots it was measured in, or the first, if that is fewer."""
        return min(self.samples[setup].nr_boots, self.samples[self.first].nr_boots)


@dataclass(frozen=True)
class Answer(evidence.Worded):
    """One setup against the first of its row; `verdict` heeds `p_table`, that of all answers."""

    row: CaseRow
    setup: Setup
    pair: evidence.Pair
    p_table: float | None
    verdict: Verdict


def answers(rows: Sequence[CaseRow]) -> list[Answer]:
    """What is known of every row that was measured in two setups or more, in order."""
    compared = [
        (row, setup, pair)
        for row in rows
        if row.comparison
        for setup, pair in zip(row.others, row.comparison.pairs, strict=True)
    ]
    table = evidence.over_table([pair for *_, pair in compared])
    return [Answer(*place, *known) for place, known in zip(compared, table, strict=True)]


def tests(rows: Sequence[CaseRow]) -> dict[str, list[str]]:
    """The benchmarks that each test was made of, by the sentence that says which and why."""
    return by_key((row.comparison.why.sentence, row.name) for row in rows if row.comparison)


def floors(rows: Sequence[CaseRow]) -> list[str]:
    """What is known of what the machine differs from itself by, each in a sentence."""
    texts = []
    for row in rows:
        pairs = [pair for pair in row.comparison.pairs if pair.floor] if row.comparison else []
        for pair in pairs:
            which = f" ({pair.a})" if len(pairs) > 1 else ""
            texts.append((pair.floor.of, f"{row.name}{which} {percent(pair.floor.change)}"))
    return [
        f"{', '.join(of_kind)}: by so much do two measurements of one setup differ in 5 of 100"
        f" cases, {KNOWN_FROM[kind]}. No smaller change is called faster or slower"
        for kind, of_kind in by_key(texts).items()
    ]


def notes(rows: Sequence[CaseRow]) -> list[str]:
    """What a reader of these comparisons must know besides, each in a sentence."""
    return [
        f"{row.name}, {note}" for row in rows if row.comparison for note in row.comparison.notes
    ]


def rows(kept: Measurements, chosen: Sequence[Campaign]) -> list[CaseRow]:
    """What these campaigns measured, in the order in which it was asked for; of a case whose
    command or inputs changed, what was asked for last."""
    made: dict[tuple[str, str], CaseRow] = {}
    # When each case of a machine was asked for last, and its place in the order of the suites.
    asked_at: dict[tuple[str, str], str] = {}
    order: dict[tuple[str, str], tuple[int, int]] = {}
    for place, campaign in enumerate(chosen):
        machine = campaign.condition["machine"]
        latest = max((one.captured_at for one in kept.surroundings(campaign.id)), default="")
        for number, (name, digest, *_) in enumerate(campaign.definition["cases"]):
            asked_at[machine, digest] = max(asked_at.get((machine, digest), ""), latest)
            order[machine, name] = (place, number)
        for one, around in kept.measured_in(campaign.id):
            if not one.warm_up:
                row = made.setdefault((machine, one.case_digest), _row(campaign, one))
                sample = row.samples.setdefault(setup_of(campaign, one.policy), Sample())
                tools = sorted(around.facts["tools"].items())
                versions = ", ".join(f"{name} {version}" for name, version in tools)
                sample.add(campaign.id, one, versions)
    present = []
    in_order = sorted(made.values(), key=lambda row: order[row.machine, row.name])
    forms = ((row.machine, row.name, repr(sorted(row.values.items()))) for row in in_order)
    # Of rows that differ in nothing but command or inputs, the one that was asked for last.
    for alike in by_key(zip(forms, in_order, strict=True)).values():
        last = max(alike, key=lambda row: asked_at[row.machine, row.digest])
        earlier = [row for row in alike if row is not last]
        last.nr_earlier = sum(len(one.values) for *_, one in samples(earlier))
        present.append(last)
    _tell_apart(present)
    _name_setups(present)
    return present


def _row(campaign: Campaign, one: Repetition) -> CaseRow:
    return CaseRow(
        machine=campaign.condition["machine"],
        suite=campaign.suite,
        name=one.case_name,
        digest=one.case_digest,
        unit=one.unit,
        higher_is_better=one.case_name in campaign.definition.get("higher_is_better", ()),
        values=one.manifest.get("values", {}),
    )


def setup_of(campaign: Campaign, policy: str = KERNEL_OWN) -> Setup:
    """What a campaign measured under one of its policies."""
    condition = campaign.condition
    scheduler = condition["scheduler"] if policy == KERNEL_OWN else policy
    built = condition.get("policy", "")
    return Setup(condition["kernel"], condition["version"], scheduler, campaign.label, built)


def samples(rows: Sequence[CaseRow]) -> list[tuple[CaseRow, Setup, Sample]]:
    """All samples of all rows, in order."""
    return [(row, setup, one) for row in rows for setup, one in row.samples.items()]


def setups(rows: Sequence[CaseRow]) -> list[Setup]:
    """All that rows were measured in, in order."""
    return list(dict.fromkeys(setup for row in rows for setup in row.samples))


def names_of(setups: Sequence[Setup]) -> dict[Setup, str]:
    """A name for each, with the build of its kernel, or of its policy, where two need that."""
    alike, names = by_key((setup.name, setup) for setup in setups), {}
    for setup in setups:
        others = alike[setup.name]
        builds = [setup.version] if len({one.version for one in others}) > 1 else []
        builds += [f"policy {setup.policy}"] if len({one.policy for one in others}) > 1 else []
        names[setup] = f"{setup.name} ({', '.join(builds)})" if builds else setup.name
    return names


def _name_setups(rows: Sequence[CaseRow]) -> None:
    """Each setup by one name in all rows, with its build if some machine was measured under two, so
    that two machines with a build of their own each are those of one kernel."""
    built = {
        setup.name
        for some in by_key((row.machine, row) for row in rows).values()
        for setup, name in names_of(setups(some)).items()
        if name != setup.name
    }
    names = names_of(setups(rows))
    for row in rows:
        row.names = {one: names[one] if one.name in built else one.name for one in row.samples}


def _tell_apart(rows: Sequence[CaseRow]) -> None:
    """Gives the sizes of a case names with the values that they differ in; all cases of a sweep say
    theirs if some of them are there at two, so that those of one size are still one sweep."""
    varied = by_key(
        (alike[0].benchmark, name)
        for alike in by_key((row.name, row) for row in rows).values()
        for name in dict.fromkeys(name for row in alike for name in row.values)
        if len({repr(row.values.get(name)) for row in alike}) > 1
    )
    for row in rows:
        for name in dict.fromkeys(varied.get(row.benchmark, ())):
            if name in row.values and f" {name}=" not in row.name:
                row.name += f" {name}={row.values[name]}"
