"""What the repetitions of a store say: a row a benchmark, and comparisons where there are several
kernels, schedulers or labels.

Only what was measured on one machine, of one benchmark with the same command and inputs, is ever
put side by side. `evidence` decides what follows; `answers` is where it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from schedlab.bench.environment import KERNEL_OWN
from schedlab.statistics import evidence, stopping
from schedlab.statistics.digits import number, p_text, percent
from schedlab.statistics.estimates import (
    RUNS_FOR_INTERVAL_MIN,
    Estimate,
    Verdict,
    log_estimate,
    median_estimate,
)
from schedlab.statistics.evidence import Comparison, Pair
from schedlab.statistics.independence import log_mad, states_told, two_states
from schedlab.statistics.noise_floor import Null
from schedlab.statistics.variance import welch
from schedlab.store.measurements import OK, Campaign, Measurements

BOOTS_FOR_KERNELS_MIN = 3
BY_BOOT = "Each boot is one run, the median of its repetitions"
FLOOR_TOLD = {
    Null.OCCASIONS: "by so much do two measurements of one setup differ in 5 of 100 cases, made as"
    " these were; known from the boots and sessions that there are, so more of them lower it. No"
    " smaller change is called faster or slower",
    Null.HALVES: "by so much do two measurements of one setup differ in 5 of 100 cases, as far as"
    " the halves of its repetitions tell. Nothing was measured twice, so what another boot or hour"
    " changes is not in it: --again tells. No smaller change is called faster or slower",
}
LATER_TOLD_FROM = 0.85
"""Of three boots each in random order, pair by pair, 2 in 3 are later at most; of a, a, b, a, b, b
8 in 9."""
SIGNIFICANT_BOOTS = 0.01
"""Stricter than 5 %, as there are many samples whose boots are asked about."""


@dataclass(frozen=True)
class Setup:
    """What is compared with what: a kernel, the scheduler in force in it, and a label.

    `policy` is the digest of the object of a policy, where campaigns know it.
    """

    kernel: str
    version: str
    scheduler: str
    label: str
    policy: str = ""

    @property
    def name(self) -> str:
        """In a table's head."""
        own = self.scheduler == KERNEL_OWN
        name = self.kernel if own else f"{self.scheduler} on {self.kernel}"
        return f"{self.label}: {name}" if self.label else name

    @property
    def build(self) -> tuple[str, str]:
        """The kernel and which build of it."""
        return self.kernel, self.version


@dataclass
class Sample:
    """The repetitions of one case in one setup that count, in the order in which they were made.

    `boots`, `blocks` and `started_at` have the boot, the block and the time of each value. A block
    is one of a campaign in one go, in which each of its policies had a turn. Its first two parts
    are that go, an occasion: a campaign, and the boot and the session of it. `ended_by`
    counts what ended searches for a limit. `undisturbed` are the values that are not noisy.
    """

    values: list[float] = field(default_factory=list)
    boots: list[str] = field(default_factory=list)
    blocks: list[tuple[str, str, str]] = field(default_factory=list)
    started_at: list[str] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)
    ended_by: dict[str, int] = field(default_factory=dict)
    nr_noisy: int = 0
    undisturbed: list[float] = field(default_factory=list)
    nr_failed: int = 0

    @property
    def estimate(self) -> Estimate | None:
        """Median and its 95 % interval; None if there is no value."""
        return median_estimate(self.values) if self.values else None

    @property
    def geometric(self) -> Estimate | None:
        """Geometric mean and its 95 % interval, with the SD of logarithms; None without values."""
        return log_estimate(self.values) if self.values else None

    @property
    def mad(self) -> float | None:
        """Of logarithms, see `log_mad`; None of fewer than two values."""
        return log_mad(self.values) if len(self.values) > 1 else None

    @property
    def nr_boots(self) -> int:
        """How many boots the values are from."""
        return len(set(self.boots))

    @property
    def by_boot(self) -> dict[str, list[float]]:
        """The values of each boot, by the boot, in the order in which they were made."""
        found: dict[str, list[float]] = {}
        for boot, value in zip(self.boots, self.values, strict=True):
            found.setdefault(boot, []).append(value)
        return found

    @property
    def of_boots(self) -> dict[str, float]:
        """The median of each boot's values, by the boot."""
        return {boot: float(np.median(values)) for boot, values in self.by_boot.items()}


@dataclass
class Row:
    """One case on one machine, in each setup that it was measured in.

    `values` are those of the benchmark's parameters. `nr_earlier` repetitions are in no sample:
    their command or inputs were others, before the suite's file was edited. `names` has a name for
    each setup, the same in every row.
    """

    machine: str
    suite: str
    name: str
    digest: str
    unit: str
    higher_is_better: bool
    values: Mapping[str, Any] = field(default_factory=dict)
    samples: dict[Setup, Sample] = field(default_factory=dict)
    nr_earlier: int = 0
    names: Mapping[Setup, str] = field(default_factory=dict)

    @property
    def first(self) -> Setup | None:
        """What the others are compared with: the first that has values."""
        return next((setup for setup, one in self.samples.items() if one.values), None)

    @property
    def others(self) -> list[Setup]:
        """Those that are compared with the first."""
        return [one for one, sample in self.samples.items() if sample.values and one != self.first]

    @cached_property
    def comparison(self) -> Comparison | None:
        """Every setup against the first, by name; None if fewer than two have values.

        Rates are turned into times, so that the words mean the same for both. Each pair decides
        what a run of it is, see `is_by_boot`; those that took turns in blocks are compared within
        them. p values are adjusted over all pairs, whatever their runs are.
        """
        by_boot = [one for one in self.others if self.is_by_boot(one)]
        by_repetition = [one for one in self.others if one not in by_boot]
        found = [self._compared(by_repetition, False)] if by_repetition else []
        found += [self._compared(by_boot, True)] if by_boot else []
        order = [self.names[one] for one in self.others]
        return evidence.merged(found, order) if found else None

    def _compared(self, others: Sequence[Setup], is_by_boot: bool) -> Comparison:
        times, blocks, occasions = {}, {}, {}
        for setup, sample in self.samples.items():
            if setup != self.first and setup not in others:
                continue
            values, places = sample.values, sample.blocks
            if is_by_boot:
                values, places = list(sample.of_boots.values()), list(sample.of_boots)
            if values:
                name = self.names[setup]
                times[name] = [1 / v for v in values] if self.higher_is_better else values
                blocks[name] = places
                occasions[name] = [place[:2] for place in sample.blocks]
        found = evidence.compare_groups(
            times,
            baseline=self.names[self.first],
            blocks=blocks,
            occasions=None if is_by_boot else occasions,
        )
        return replace(found, why=f"{BY_BOOT}: {found.why}") if is_by_boot else found

    def is_by_boot(self, setup: Setup) -> bool:
        """Whether a boot and not a repetition is what was repeated of this setup and the first, and
        each had enough of them.

        Setups that never shared a boot, as kernels never do, differ by their boots too: what all
        repetitions of a boot have in common tells nothing of the next boot.
        """
        return self.has_boots_apart(setup) and self.nr_boots(setup) >= BOOTS_FOR_KERNELS_MIN

    def has_boots_apart(self, setup: Setup) -> bool:
        """Whether it shared no boot with the first."""
        return set(self.samples[setup].boots).isdisjoint(self.samples[self.first].boots)

    def nr_boots(self, setup: Setup) -> int:
        """How many boots it was measured in, or the first, if that is fewer."""
        return min(self.samples[setup].nr_boots, self.samples[self.first].nr_boots)


@dataclass(frozen=True)
class Answer:
    """One setup against the first of its row. `p_table` is adjusted for all that is compared, and
    `verdict` heeds it."""

    row: Row
    setup: Setup
    pair: Pair
    p_table: float | None
    verdict: Verdict

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        return evidence.WORDS[self.verdict]


def answers(found: Sequence[Row]) -> list[Answer]:
    """What is known of every row that was measured in two setups or more, in order."""
    compared = {str(place): row for place, row in enumerate(found) if row.comparison}
    discoveries = evidence.over_table({cell: row.comparison for cell, row in compared.items()})
    told = []
    for discovery in discoveries:
        row = compared[discovery.cell]
        setup = next(one for one in row.others if row.names[one] == discovery.pair.a)
        told.append(Answer(row, setup, discovery.pair, discovery.p_table, discovery.verdict))
    return told


def names_of(setups: Sequence[Setup]) -> dict[Setup, str]:
    """A name for each, with the build of its kernel, or of its policy, where two need that."""
    alike: dict[str, list[Setup]] = {}
    for setup in setups:
        alike.setdefault(setup.name, []).append(setup)
    told = {}
    for setup in setups:
        others = alike[setup.name]
        builds = [setup.version] if len({one.version for one in others}) > 1 else []
        builds += [f"policy {setup.policy}"] if len({one.policy for one in others}) > 1 else []
        told[setup] = f"{setup.name} ({', '.join(builds)})" if builds else setup.name
    return told


def tests(found: Sequence[Row]) -> dict[str, list[str]]:
    """The benchmarks that each test was made of, by the sentence that says which and why."""
    told: dict[str, list[str]] = {}
    for row in found:
        if row.comparison:
            sentence = row.comparison.why.split("; ")[0].removesuffix(".")
            told.setdefault(sentence, []).append(row.name)
    return told


def floors(found: Sequence[Row]) -> list[str]:
    """What is known of what the machine differs from itself by, each in a sentence."""
    told: dict[Null, list[str]] = {}
    for row in found:
        pairs = [pair for pair in (row.comparison.pairs if row.comparison else ()) if pair.floor]
        for pair in pairs:
            which = f" ({pair.a})" if len(pairs) > 1 else ""
            text = f"{row.name}{which} {percent(pair.floor.change)}"
            told.setdefault(pair.floor.of, []).append(text)
    return [f"{', '.join(texts)}: {FLOOR_TOLD[kind]}" for kind, texts in told.items()]


def notes(found: Sequence[Row]) -> list[str]:
    """What a reader of these comparisons must know besides, each in a sentence."""
    return [
        f"{row.name}, {note}" for row in found if row.comparison for note in row.comparison.notes
    ]


def rows(kept: Measurements, chosen: Sequence[Campaign]) -> list[Row]:
    """What these campaigns measured, in the order in which it was first asked for.

    Of a case whose command or inputs changed, what was asked for last.
    """
    found: dict[tuple[str, str], Row] = {}
    asked_at: dict[tuple[str, str], str] = {}
    for campaign in chosen:
        around = kept.surroundings(campaign.id)
        tools = {one.number: _tools(one.facts) for one in around}
        for _, digest, *_ in campaign.definition["cases"]:
            place = (campaign.condition["machine"], digest)
            times = [one.captured_at for one in around]
            asked_at[place] = max([asked_at.get(place, ""), *times])
        for one in kept.repetitions(campaign.id):
            if one.warm_up:
                continue
            machine = campaign.condition["machine"]
            row = found.setdefault(
                (machine, one.case_digest),
                Row(
                    machine,
                    campaign.suite,
                    one.case_name,
                    one.case_digest,
                    one.unit,
                    one.case_name in campaign.definition.get("higher_is_better", ()),
                    one.manifest.get("values", {}),
                ),
            )
            sample = row.samples.setdefault(setup_of(campaign, one.policy), Sample())
            if one.status != OK:
                sample.nr_failed += 1
                continue
            sample.values.append(one.value)
            boot = one.manifest["boot_id"]
            sample.boots.append(boot)
            # What went on after a break, or a reboot, is no block with what was made before it.
            sample.blocks.append((campaign.id, f"{boot} {one.surroundings}", one.slot))
            sample.started_at.append(one.started_at)
            sample.tools.add(tools[one.surroundings])
            sample.nr_noisy += one.noisy
            if not one.noisy:
                sample.undisturbed.append(one.value)
            if ended_by := one.manifest.get("ended_by"):
                sample.ended_by[ended_by] = sample.ended_by.get(ended_by, 0) + 1
    return _named(_told_apart(_of_last_form(_in_order(list(found.values()), chosen), asked_at)))


def _named(found: list[Row]) -> list[Row]:
    """Each setup by one name in all rows, with its build if some machine was measured under two.

    So one build meets itself on another machine, and two machines with a build of their own each
    are those of one kernel.
    """
    of_machine: dict[str, list[Setup]] = {}
    for row in found:
        of_machine.setdefault(row.machine, []).extend(row.samples)
    apart = {
        setup.name
        for of in of_machine.values()
        for setup, name in names_of(list(dict.fromkeys(of))).items()
        if name != setup.name
    }
    names = names_of(setups(found))
    for row in found:
        row.names = {one: names[one] if one.name in apart else one.name for one in row.samples}
    return found


def _of_last_form(found: Sequence[Row], asked_at: Mapping[tuple[str, str], str]) -> list[Row]:
    """Of rows that differ in nothing but command or inputs, the one that was asked for last."""
    forms: dict[tuple, list[Row]] = {}
    for row in found:
        values = tuple(sorted((name, repr(value)) for name, value in row.values.items()))
        forms.setdefault((row.machine, row.name, values), []).append(row)
    last = []
    for of_one in forms.values():
        present = max(of_one, key=lambda row: asked_at[row.machine, row.digest])
        earlier = [row for row in of_one if row is not present]
        present.nr_earlier = sum(len(s.values) for row in earlier for s in row.samples.values())
        last.append(present)
    return last


def _told_apart(found: list[Row]) -> list[Row]:
    """Names that tell the sizes of a case apart, by the values that they differ in.

    If some cases of a sweep are there at two sizes all of them say theirs, so that those of one
    size are still one sweep.
    """
    twins: dict[str, list[Row]] = {}
    for row in found:
        twins.setdefault(row.name, []).append(row)
    apart: dict[str, dict[str, None]] = {}
    for name, alike in twins.items():
        values = dict.fromkeys(value for row in alike for value in row.values)
        varied = [n for n in values if len({repr(row.values.get(n)) for row in alike}) > 1]
        apart.setdefault(name.split()[0], {}).update(dict.fromkeys(varied))
    for row in found:
        told = (name for name in apart[row.name.split()[0]] if name in row.values)
        untold = [name for name in told if f" {name}=" not in row.name]
        row.name += "".join(f" {name}={row.values[name]}" for name in untold)
    return found


def _in_order(found: list[Row], chosen: Sequence[Campaign]) -> list[Row]:
    """As the suites have them: what is measured in random order is not read so."""
    order = {
        (campaign.condition["machine"], case[0]): (place, number)
        for place, campaign in enumerate(chosen)
        for number, case in enumerate(campaign.definition["cases"])
    }
    return sorted(found, key=lambda row: order[row.machine, row.name])


def setup_of(campaign: Campaign, policy: str = KERNEL_OWN) -> Setup:
    """What a campaign measured under one of its policies."""
    condition = campaign.condition
    scheduler = condition["scheduler"] if policy == KERNEL_OWN else policy
    built = condition.get("policy", "")
    return Setup(condition["kernel"], condition["version"], scheduler, campaign.label, built)


def _tools(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(facts["tools"].items()))


def setups(found: Sequence[Row]) -> list[Setup]:
    """All that rows were measured in, in order."""
    return list(dict.fromkeys(setup for row in found for setup in row.samples))


def limits(found: Sequence[Row]) -> list[str]:
    """What keeps these rows, and comparisons of them, from saying more, each in a sentence."""
    told = []
    samples = [sample for row in found for sample in row.samples.values()]
    nr_noisy = sum(one.nr_noisy for one in samples)
    nr_runs = sum(len(one.values) for one in samples)
    if nr_noisy:
        told.append(
            f"{nr_noisy} of {nr_runs} repetitions were disturbed by other work, a hypervisor or"
            " heat: they are flagged, counted and never dropped; measure again on an idle machine"
            " (--again; with --until-ci in virtual machines another"
            f" --label){_without_disturbed(found)}"
        )
    told += _states(found)
    told += ends(found)
    edited = [row for row in found if row.nr_earlier]
    if edited:
        nr_earlier = sum(row.nr_earlier for row in edited)
        names = ", ".join(dict.fromkeys(row.name.partition(" ")[0] for row in edited))
        told.append(
            f"{nr_earlier} repetitions of {names} are not shown: their command or inputs were"
            " others, of another --size or before an edit; `schedlab export` writes them"
        )
    compared = [row for row in found if len(row.samples) > 1]
    boots = [
        row.nr_boots(setup)
        for row in compared
        for setup in row.others
        if row.has_boots_apart(setup) or setup.build != row.first.build
    ]
    if boots and min(boots) < BOOTS_FOR_KERNELS_MIN:
        told.append(
            "what has boots of its own, as a kernel has, was measured in"
            f" {min(boots)} boot{'s' * (min(boots) > 1)}: boots differ too, so measure it in three"
            " or more boots (--again, or --on vm --boots N)"
        )
    by_boot = [(row, one) for row in compared for one in row.others if row.is_by_boot(one)]
    if by_boot:
        told.append(
            "medians and intervals of single setups are of all repetitions, and narrower than"
            " those of boots; comparisons have one number a boot"
        )
    told += _one_after_the_other(compared)
    for row in compared:
        if len(set().union(*(sample.tools for sample in row.samples.values()))) > 1:
            told.append(f"{row.name}: versions of tools differ between what is compared")
        if row.comparison and all(pair.is_blocked for pair in row.comparison.pairs):
            continue  # What differs between boots is no part of a ratio within a block of one.
        for setup, sample in row.samples.items():
            p_value = _boots_p(sample)
            if p_value is not None and p_value < SIGNIFICANT_BOOTS:
                is_by_boot = any(of is row and setup in (one, row.first) for of, one in by_boot)
                one_each = "; what is compared is one number a boot" if is_by_boot else ""
                told.append(
                    f"{row.name}, {row.names[setup]}: its boots differ from each other"
                    f" ({p_text(p_value)}), so the interval is too narrow for what another boot"
                    f" would show{one_each}. Their means: {_boot_means(sample)} {row.unit}"
                )
    for row in found:
        for sample in row.samples.values():
            if len(sample.tools) > 1:
                which = "; ".join(sorted(sample.tools))
                told.append(
                    f"{row.name}: measured with {len(sample.tools)} versions of tools: {which}"
                )
    return told


def _without_disturbed(found: Sequence[Row]) -> str:
    """By how much the mean of a sample would be another without its disturbed runs, of the one that
    it changes most; empty where none has undisturbed ones enough."""
    changes = {}
    for row in found:
        for setup, sample in row.samples.items():
            if sample.nr_noisy and len(sample.undisturbed) >= RUNS_FOR_INTERVAL_MIN:
                mean = log_estimate(sample.undisturbed).mean
                changes[row.name, row.names[setup]] = mean / sample.geometric.mean - 1
    if not changes:
        return ""
    name, setup = most = max(changes, key=lambda place: abs(changes[place]))
    return f". Without them means change by {changes[most]:+.1%} at most ({name}, {setup})"


def _states(found: Sequence[Row]) -> list[str]:
    """The series of repetitions that two states of the machine seem to have made, and whether these
    go with its boots; but for those of which a comparison has a note already."""
    told = []
    for row in found:
        series = row.comparison.independence if row.comparison else {}
        for setup, sample in row.samples.items():
            name = row.names[setup]
            known = series[name].states if name in series else None
            states = two_states(sample.values) if sample.values and known is None else None
            if states is None:
                continue
            said = states_told(states)
            if sample.nr_boots > 1:
                between = float(np.sqrt(states[0] * states[1]))
                is_mixed = any(min(of) < between < max(of) for of in sample.by_boot.values())
                said += (
                    ". Both are met within a boot"
                    if is_mixed
                    else ". Each boot is in one of them: compare boots, not repetitions"
                )
            told.append(f"{row.name}, {name}: {said}")
    return told


def ends(found: Sequence[Row]) -> list[str]:
    """What ended searches for a limit."""
    told = []
    for row in found:
        for setup, sample in row.samples.items():
            where = f"{row.name}, {row.names[setup]}" if len(row.samples) > 1 else row.name
            nr_runs = len(sample.values)
            told += [
                f"{where}: {nr} of {nr_runs} searches were ended by {ended_by}"
                for ended_by, nr in sample.ended_by.items()
            ]
    return told


def _one_after_the_other(compared: Sequence[Row]) -> list[str]:
    """Whether some setup's repetitions were made before or after those of the first rather than in
    turn with them, and what to measure next; of the worst pair."""
    shares = [(_share_later(row, one), row, one) for row in compared for one in row.others]
    worst = max(shares, key=lambda of: abs(of[0] - 0.5), default=None)
    if worst is None or abs(worst[0] - 0.5) < LATER_TOLD_FROM - 0.5:
        return []
    share, row, setup = worst
    name, first = row.names[setup], row.names[row.first]
    later, earlier = (name, first) if share > 0.5 else (first, name)
    return [
        f"what is compared was measured one after the other, {later} later than {earlier} in"
        f" {max(share, 1 - share):.0%} of all pairs of repetitions: had the machine been busier or"
        " hotter the second time, it would look the same, so go back and forth (--again under"
        f" each in turn; {earlier} is next)"
    ]


def _share_later(row: Row, setup: Setup) -> float:
    """Of all pairs of a repetition of this setup and one of the first, the share in which this was
    made later: 0.5 where they took turns.

    Source: H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other", Annals of Mathematical Statistics 18, 1947 (U / n m).
    """
    own, first = (np.array(row.samples[one].started_at) for one in (setup, row.first))
    later, alike = (own[:, None] > first).mean(), (own[:, None] == first).mean()
    return float(later + alike / 2)


def _boots_p(sample: Sample) -> float | None:
    """Whether the boots of a sample differ from each other, by Welch's analysis of variance."""
    large = {
        boot: np.log(of) for boot, of in sample.by_boot.items() if len(of) >= RUNS_FOR_INTERVAL_MIN
    }
    test = welch(large) if len(large) > 1 else None
    return test and test.p_value


def _boot_means(sample: Sample) -> str:
    """The geometric mean of each boot, in order."""
    means = [log_estimate(values) for values in sample.by_boot.values()]
    return ", ".join(number(of.mean, of.low, of.high) for of in means)


def reached(values: Sequence[float], until: float, runs_max: int, what: str = "runs") -> str:
    """How narrow an interval became, in words: for `--until-ci`. `what` the values are one of."""
    seen = [stopping.width(values[:n], until, runs_max) for n in stopping.looks(runs_max)]
    narrow = next((one for one in seen if one.is_narrow and one.n <= len(values)), None)
    if narrow:
        return f"±{narrow.half_width:.2%} after {narrow.n} {what}"
    last = stopping.width(values, until, runs_max)
    if last.half_width is None:
        return f"not known after {last.n} {what}"
    if last.is_narrow:
        return f"±{last.half_width:.2%} after {last.n} {what}"
    needed = last.runs_needed
    many = f"{needed:,}" if needed and needed < stopping.RUNS_TOLD_MAX else "over a million"
    return (
        f"±{last.half_width:.1%} after {last.n} {what}, not ±{until:.1%}: with this noise that"
        f" takes about {many} {what} ({'--boots' if what == 'boots' else '--repeat'})"
    )
