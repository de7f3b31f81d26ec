"""What keeps rows of measurements, and comparisons of them, from saying more."""

from collections.abc import Iterator, Sequence

import numpy as np

from schedlab.bench.answers import BOOTS_FOR_KERNELS_MIN, CaseRow, Setup, samples
from schedlab.report.forms import count_text
from schedlab.statistics import independence, stopping, variance
from schedlab.statistics.digits import number, p_text
from schedlab.statistics.estimates import RUNS_FOR_INTERVAL_MIN, log_estimate

# The share of pairs of repetitions in which one setup was later. Of three boots each in random
# order 2 in 3 are later at most; of a, a, b, a, b, b 8 in 9.
LATER_TOLD_FROM = 0.85
# Stricter than 5 %, as there are many samples whose boots are asked about.
SIGNIFICANT_BOOTS = 0.01


def limits(rows: Sequence[CaseRow]) -> list[str]:
    """All that is to be known, each in a sentence."""
    kinds = (_disturbed, _states, ends, _edited, _boots, _one_after_the_other)
    kinds += (_other_tools, _boots_that_differ, _several_tools)
    return [sentence for kind in kinds for sentence in kind(rows)]


def ends(rows: Sequence[CaseRow]) -> Iterator[str]:
    """What ended searches for a limit."""
    for row, setup, sample in samples(rows):
        where = f"{row.name}, {row.names[setup]}" if len(row.samples) > 1 else row.name
        for ended_by, nr in sample.ended_by.items():
            yield f"{where}: {nr} of {len(sample.values)} searches were ended by {ended_by}"


def _pairs(rows: Sequence[CaseRow]) -> list[tuple[CaseRow, Setup]]:
    return [(row, setup) for row in rows for setup in row.others]


def _disturbed(rows: Sequence[CaseRow]) -> Iterator[str]:
    if not (noisy := [one for one in samples(rows) if one[-1].nr_noisy]):
        return
    nr_noisy = sum(one.nr_noisy for *_, one in noisy)
    nr_runs = sum(len(one.values) for *_, one in samples(rows))
    changes = {
        f"{row.name}, {row.names[setup]}": log_estimate(one.undisturbed).mean / one.geometric.mean
        for row, setup, one in noisy
        if len(one.undisturbed) >= RUNS_FOR_INTERVAL_MIN
    }
    without = ""
    if changes:
        most = max(changes, key=lambda place: abs(changes[place] - 1))
        change = f"{100 * (changes[most] - 1):+.1f} %"
        without = f". Without them means change by {change} at most ({most})"
    yield (
        f"{nr_noisy} of {nr_runs} repetitions were disturbed by other work, a hypervisor or"
        " heat: they are flagged, counted and never dropped; measure again on an idle machine"
        f" (--again; with --until-ci in virtual machines another --label){without}"
    )


def _states(rows: Sequence[CaseRow]) -> Iterator[str]:
    """Whether they go with its boots, unless a note has them already."""
    for row, setup, sample in samples(rows):
        name = row.names[setup]
        series = row.comparison.independence if row.comparison else {}
        is_noted = name in series and series[name].states is not None
        states = None if is_noted or not sample.values else independence.two_states(sample.values)
        if states is None:
            continue
        told = ""
        if sample.nr_boots > 1:
            told = ". Each boot is in one of them: compare boots, not repetitions"
            between = float(np.sqrt(states[0] * states[1]))
            if any(min(of) < between < max(of) for of in sample.by_boot.values()):
                told = ". Both are met within a boot"
        yield f"{row.name}, {name}: {independence.states_told(states)}{told}"


def _edited(rows: Sequence[CaseRow]) -> Iterator[str]:
    if edited := [row for row in rows if row.nr_earlier]:
        nr_earlier = sum(row.nr_earlier for row in edited)
        names = ", ".join(dict.fromkeys(row.benchmark for row in edited))
        yield (
            f"{nr_earlier} repetitions of {names} are not shown: their command or inputs were"
            " others, of another --size or before an edit; `schedlab export` writes them"
        )


def _boots(rows: Sequence[CaseRow]) -> Iterator[str]:
    nr_boots = [
        row.nr_boots(setup)
        for row, setup in _pairs(rows)
        if row.has_boots_apart(setup)
        or (setup.kernel, setup.version) != (row.first.kernel, row.first.version)
    ]
    if nr_boots and min(nr_boots) < BOOTS_FOR_KERNELS_MIN:
        yield (
            "what has boots of its own, as a kernel has, was measured in"
            f" {count_text(min(nr_boots), 'boot')}: boots differ too, so measure it in three"
            " or more boots (--again, or --on vm --boots N)"
        )
    if any(row.is_by_boot(setup) for row, setup in _pairs(rows)):
        yield (
            "medians and intervals of single setups are of all repetitions, and narrower than"
            " those of boots; comparisons have one number a boot"
        )


def _one_after_the_other(rows: Sequence[CaseRow]) -> Iterator[str]:
    """Of the pair that took turns least, and what to measure next."""
    shares = []
    for row, setup in _pairs(rows):
        share, name, first = share_later(row, setup), row.names[setup], row.names[row.first]
        shares.append((share, name, first) if share > 0.5 else (1 - share, first, name))
    share, later, earlier = max(shares, key=lambda one: one[0], default=(0.0, "", ""))
    if share < LATER_TOLD_FROM:
        return
    yield (
        f"what is compared was measured one after the other, {later} later than {earlier} in"
        f" {100 * share:.0f} % of all pairs of repetitions: had the machine been"
        " busier or hotter the second time, it would look the same, so go back and forth (--again"
        f" under each in turn; {earlier} is next)"
    )


def share_later(row: CaseRow, setup: Setup) -> float:
    """Of all pairs of a repetition of this setup and one of the first, the share in which this was
    made later: 0.5 where they took turns.

    Source: H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other", Annals of Mathematical Statistics 18, 1947 (U / n m).
    """
    own, first = (np.array(row.samples[one].started_at) for one in (setup, row.first))
    later, alike = (own[:, None] > first).mean(), (own[:, None] == first).mean()
    return float(later + alike / 2)


def _other_tools(rows: Sequence[CaseRow]) -> Iterator[str]:
    for row in rows:
        if len(row.samples) > 1 and len(set().union(*(s.tools for s in row.samples.values()))) > 1:
            yield f"{row.name}: versions of tools differ between what is compared"


def _boots_that_differ(rows: Sequence[CaseRow]) -> Iterator[str]:
    """Not of pairs in blocks: what differs between boots is no part of a ratio within a boot."""
    for row, setup, sample in samples(rows):
        pairs = row.comparison.pairs if row.comparison else ()
        if len(row.samples) < 2 or (pairs and all(pair.is_blocked for pair in pairs)):
            continue
        by_boot = sample.by_boot
        large = {b: np.log(of) for b, of in by_boot.items() if len(of) >= RUNS_FOR_INTERVAL_MIN}
        test = variance.welch(large) if len(large) > 1 else None
        if test is None or test.p_value is None or test.p_value >= SIGNIFICANT_BOOTS:
            continue
        compared = row.others if setup == row.first else [setup]
        is_by_boot = any(one in row.others and row.is_by_boot(one) for one in compared)
        one_each = "; what is compared is one number a boot" if is_by_boot else ""
        means = [log_estimate(values) for values in by_boot.values()]
        texts = ", ".join(number(of.mean, of.low, of.high) for of in means)
        yield (
            f"{row.name}, {row.names[setup]}: its boots differ from each other"
            f" ({p_text(test.p_value)}), so the interval is too narrow for what another boot"
            f" would show{one_each}. Their means: {texts} {row.unit}"
        )


def _several_tools(rows: Sequence[CaseRow]) -> Iterator[str]:
    for row, _, sample in samples(rows):
        if len(sample.tools) > 1:
            which = "; ".join(sorted(sample.tools))
            yield f"{row.name}: measured with {len(sample.tools)} versions of tools: {which}"


def reached(values: Sequence[float], until: float, runs_max: int, what: str = "runs") -> str:
    """How narrow an interval became, in words: for `--until-ci`. `what` the values are one of."""
    seen = [stopping.width(values[:n], until, runs_max) for n in stopping.looks(runs_max)]
    last = stopping.width(values, until, runs_max)
    narrow = next((one for one in seen if one.is_narrow and one.n <= len(values)), last)
    if narrow.is_narrow:
        return f"±{100 * narrow.half_width:.2f} % after {narrow.n} {what}"
    if last.half_width is None:
        return f"not known after {last.n} {what}"
    needed = last.runs_needed
    many = f"{needed:,}" if needed and needed < stopping.RUNS_TOLD_MAX else "over a million"
    return (
        f"±{100 * last.half_width:.1f} % after {last.n} {what}, not ±{100 * until:.1f} %: with this"
        f" noise that takes about {many} {what} ({'--boots' if what == 'boots' else '--repeat'})"
    )
