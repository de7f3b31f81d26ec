"""Which of several samples of measured times differ, how much, and how sure that is.

`compare_groups` is the one way in: it picks the test, says which and why in a sentence, and gives
each pair a ratio with its interval, p values and a word. The pick, made in `method`:

- The headline of a pair is the ratio of geometric means with Welch's 95 % interval. Schedulers
  change the variance and not only the mean, so variances are never taken to be equal: to test for
  that first and then choose costs more errors than it saves (D. W. Zimmerman, "A note on
  preliminary tests of equality of variances", British J. Mathematical and Statistical Psychology
  57, 2004). The test of Brown and Forsythe is shown, and does not decide.
- All pairs: p values by Games and Howell. All against a baseline: Welch and Holm.
- Pairs whose runs took turns in blocks: Student's t test on the logarithms of ratios within blocks,
  checked by exchanging both within blocks; where these logarithms are far from normal, the sign
  test and the median ratio. How runs were made decides that, and never what came of them.
- Where a sample's logarithms are far from normal and all have enough runs, ranks and medians take
  over: Dunn's test (of Mann and Whitney for two samples), Holm, and a resampled interval of the
  ratio of medians.
- As published in 2012, Tukey and Kramer's test with pooled variance, is there for the asking.
- Where neighbouring runs are shown to be alike, the test of means counts them as the fewer
  independent runs that they are worth; ranks and resampling cannot.
- Faster and slower take a change above what the machine differs from itself by (`noise_floor`)
  where pairs have been made on several occasions and runs, not boots or blocks, are compared.
- Fewer than three runs: a ratio and no interval, p value or word.
"""

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.errors import BadValue, UnknownName
from schedlab.statistics import effects, estimates, power, variance
from schedlab.statistics.blocks import BLOCKS_FOR_EXCHANGES_MIN, median_within
from schedlab.statistics.digits import p_text
from schedlab.statistics.estimates import RUNS_FOR_INTERVAL_MIN, THRESHOLD, Ratio, Verdict
from schedlab.statistics.independence import (
    Independence,
    dependent_paired_ratio,
    dependent_ratio,
    independence,
)
from schedlab.statistics.method import Contest, Method, Why, choose, contests_of
from schedlab.statistics.noise_floor import NoiseFloor, Null, noise_floor
from schedlab.statistics.samples import Sample, positive

SIGNIFICANT = 1 - estimates.CONFIDENCE

WORDS = {one: one.value for one in Verdict} | {Verdict.INCONCLUSIVE: "no difference shown"}


class Worded:
    """What has a `verdict`."""

    __slots__ = ()

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        return WORDS[self.verdict]


@dataclass(frozen=True, slots=True)
class Pair(Worded):
    """One sample against another: `a` over `b`, so a ratio below 1 says that `a` is faster."""

    a: str
    b: str
    method: Method
    ratio: Ratio
    """The headline, with its raw p value: of geometric means, or of medians by `RANKS`; within
    blocks the mean of their ratios, or the median by `BLOCK_SIGNS`."""
    exchange_p: float | None
    """Of the test that exchanges both within blocks; None unless by `BLOCKS`."""
    p_adjusted: float | None
    """For all pairs of the comparison; None where there is no test."""
    threshold: float
    """Smallest relative change worth a word."""
    medians: Ratio
    """Ratio of medians, or median of the ratios within blocks; no interval below six runs, or
    where neighbouring runs are alike."""
    resampled: Ratio | None
    """Ratio of geometric means with a bootstrap interval, from eight runs on; None within blocks
    and where neighbouring runs are alike."""
    hedges_g: float | None
    """Difference in standard deviations; None for fewer than two runs or where nothing varies."""
    cliffs_delta: float
    """How much likelier a run of `a` is above one of `b` than below it, from -1 to 1."""
    detectable: float | None
    """Smallest change above `floor` that such runs show in 80 of 100 cases; None if unknown."""
    runs_needed: int | None
    """How many runs of each would show the threshold; None if none would, or it is unknown."""
    floor: NoiseFloor | None
    """None within blocks, and where occasions are not told or too few."""

    @property
    def verdict(self) -> Verdict:
        """The word for the ratio, which heeds `p_adjusted`, `threshold` and `floor`."""
        floor = self.floor.change if self.floor else 0.0
        return estimates.verdict(self.ratio, self.p_adjusted, self.threshold, floor)

    @property
    def is_blocked(self) -> bool:
        """Whether it is of ratios within blocks."""
        return self.method in (Method.BLOCKS, Method.BLOCK_SIGNS)

    @property
    def change(self) -> str:
        """How much longer `a` takes, in percent, to the digits that the interval carries."""
        return self.ratio.change


@dataclass(frozen=True, slots=True)
class Comparison:
    """Samples of one benchmark on one machine, compared."""

    method: Method
    """That of all pairs, or of those that share no blocks."""
    why: Why
    pairs: tuple[Pair, ...]
    omnibus: variance.Omnibus | None
    """Whether all samples are alike; None where that cannot be asked."""
    independence: Mapping[str, Independence]
    """Of each sample."""
    notes: tuple[str, ...]
    """What a reader must know besides: drift, states, outliers, samples that are too small, runs
    without a partner in their block."""

    def letters(self) -> dict[str, str]:
        """Letters by which samples are told apart: two that share one are not shown to differ.

        Raises BadValue if they were not compared each with each, or there are too few letters.

        Source: H.-P. Piepho, "An algorithm for a letter-based representation of all-pairwise
        comparisons", J. Computational and Graphical Statistics 13, 2004.
        """
        names = list(self.independence)
        if len(self.pairs) != math.comb(len(names), 2):
            compared = [(pair.a, pair.b) for pair in self.pairs]
            why = "does not compare each with each"
            raise BadValue("comparison", compared, why, "leave out the baseline")
        groups = [frozenset(names)]
        for pair in self.pairs:
            if pair.p_adjusted is not None and pair.p_adjusted < SIGNIFICANT:
                parts = {group - {name} for group in groups for name in (pair.a, pair.b)}
                # A group within another one says nothing of its own.
                groups = [part for part in parts if not any(part < other for other in parts)]
        groups.sort(key=lambda group: [name not in group for name in names])
        if len(groups) > len(ascii_letters):
            why = f"need {len(groups)} letters, of which there are {len(ascii_letters)}"
            raise BadValue("comparison", names, why, "compare fewer samples")
        return {
            name: "".join(ascii_letters[at] for at, group in enumerate(groups) if name in group)
            for name in names
        }


def compare_groups(
    samples: Mapping[str, ArrayLike],
    *,
    baseline: str | None = None,
    threshold: float = THRESHOLD,
    method: Method | None = None,
    blocks: Mapping[str, Sequence[Hashable]] | None = None,
    occasions: Mapping[str, Sequence[Hashable]] | None = None,
) -> Comparison:
    """Compares samples of times, each with the baseline or, without one, each with each: its pairs
    are (other, baseline) in order, or (later, earlier).

    Samples are array_like of shape (n_runs,): positive finite times in one unit, one a run, in the
    order in which the runs were made. `threshold` is the smallest relative change worth a word,
    0.01 is 1 %: at least 1 %, or what two samples of one thing differ by on this machine, where
    that is more. The module's beginning tells which `method` is picked; another can be asked for.
    `BLOCKS`, where `blocks` does not tell, takes runs of one place in each sample to be a block.

    `blocks` has the block of each run: runs of one block were made next to each other, so that what
    disturbed one disturbed the other too. Pairs that share `RUNS_FOR_INTERVAL_MIN` blocks or more
    are then compared within them, unless another method is asked for. `occasions` has the occasion
    of each run, such as a boot: see `noise_floor`. It is left out where each run had one of its
    own, as then the interval holds what occasions differ by.

    Raises UnknownName if the baseline is not among the samples; BadValue if a sample is empty or
    holds what is no time, the threshold is not a positive number, the method cannot be had with
    these samples, or one has not as many blocks as runs.
    """
    checked = {name: positive(name, values) for name, values in samples.items()}
    if baseline is not None and baseline not in checked:
        raise UnknownName("sample", baseline, checked, "as the baseline")
    if not (np.isfinite(threshold) and threshold > 0):
        raise BadValue("threshold", threshold, "is not above 0", "0.01 is 1 %")
    large = {n: np.log(of) for n, of in checked.items() if of.size >= RUNS_FOR_INTERVAL_MIN}
    names = [(later, earlier) for earlier, later in itertools.combinations(checked, 2)]
    if baseline is not None:
        names = [(name, baseline) for name in checked if name != baseline]
    series = {name: independence(sample) for name, sample in checked.items()}
    contests = contests_of(names, series, checked, method, blocks)
    picked, why = choose(contests, large, baseline, method)
    pairs = _tested([_pair(one, threshold, occasions) for one in contests], large, picked)
    notes = tuple(_notes(series, contests, pairs))
    tests = {Method.RANKS: variance.kruskal_wallis, Method.TUKEY_KRAMER: variance.pooled}
    # All of these take runs to be independent of each other.
    omnibus = None if picked is Method.BLOCKS else tests.get(picked, variance.welch)(large)
    return Comparison(picked, why, pairs, omnibus, series, notes)


def merged(comparisons: Sequence[Comparison], order: Sequence[str]) -> Comparison:
    """One or more comparisons of other samples with one baseline, each by a method that adjusts by
    Holm's, as one whose p values are of all its pairs; `order` has the samples that are compared.

    For pairs of which a run is not the same thing: boots of some, repetitions of others. `omnibus`
    takes runs of one kind: it is None where there are several comparisons.
    """
    if len(comparisons) == 1:
        return comparisons[0]
    by_name = {pair.a: pair for one in comparisons for pair in one.pairs}
    pairs = [by_name[name] for name in order]
    raw = [None if pair.p_adjusted is None else pair.ratio.p_value for pair in pairs]
    reasons = [
        replace(one.why, test=f"{' and '.join(pair.a for pair in one.pairs)}: {one.why.test}")
        for one in comparisons
    ]
    return Comparison(
        method=comparisons[0].method,
        why=Why.joined(reasons, ". "),
        pairs=tuple(
            replace(pair, p_adjusted=p_value)
            for pair, p_value in zip(pairs, estimates.adjusted(raw, estimates.holm), strict=True)
        ),
        omnibus=None,
        independence={name: of for one in comparisons for name, of in one.independence.items()},
        notes=tuple(dict.fromkeys(note for one in comparisons for note in one.notes)),
    )


def over_table(pairs: Sequence[Pair]) -> list[tuple[float | None, Verdict]]:
    """P value and word of each pair of a table, so that at most 5 % of its claims are false.

    The p values adjusted within each comparison are adjusted once more over all, by the method of
    Benjamini and Hochberg, and decide the words: a word can only become weaker.
    """
    p_values = estimates.adjusted([pair.p_adjusted for pair in pairs], estimates.benjamini_hochberg)
    adjusted = zip(pairs, p_values, strict=True)
    return [(p_value, replace(pair, p_adjusted=p_value).verdict) for pair, p_value in adjusted]


# ---- the pairs ----------------------------------------------------------------------------------


def _headline(one: Contest) -> Ratio:
    """Without p value where ranks are tested, which are all samples' together."""
    blocked = one.blocked
    if one.method is Method.BLOCKS:
        if one.blocks_worth is None or blocked.does_not_vary:
            return estimates.paired_ratio(blocked.a, blocked.b)
        return dependent_paired_ratio(blocked.logs, one.blocks_worth)
    if one.method is Method.BLOCK_SIGNS:
        return median_within(blocked)
    if one.method is Method.RANKS:
        return effects.median_ratio(one.of_a, one.of_b)
    if one.method is Method.WELCH and one.worth is not None:
        return dependent_ratio(one.of_a, one.of_b, *one.worth)
    return estimates.ratio(one.of_a, one.of_b)


def _pair(
    one: Contest, threshold: float, occasions: Mapping[str, Sequence[Hashable]] | None
) -> Pair:
    """With the p value of its own test, if it has one."""
    both, ratio, floor = (one.of_a, one.of_b), _headline(one), None
    has_means = one.method not in (Method.RANKS, Method.BLOCK_SIGNS)
    if occasions is not None and one.blocked is None:
        centre = np.mean if has_means else np.median
        floor = noise_floor(*both, occasions[one.a], occasions[one.b], centre)
    detectable, needed = _power(one, threshold) if has_means else (None, None)
    if detectable is not None and floor:
        detectable = max(detectable, floor.change)
    if floor and floor.of is Null.OCCASIONS and floor.change > threshold:
        needed = None  # More runs on the same occasions would not show it.
    medians = ratio
    if has_means:
        medians = median_within(one.blocked) if one.blocked else effects.median_ratio(*both)
    if one.is_dependent:
        medians = Ratio(medians.n_a, medians.n_b, medians.ratio)
    return Pair(
        a=one.a,
        b=one.b,
        method=one.method,
        ratio=ratio,
        exchange_p=one.exchange_p,
        p_adjusted=None,
        threshold=threshold,
        medians=medians,
        resampled=None if one.blocked or one.is_dependent else effects.mean_ratio(*both),
        hedges_g=effects.hedges_g(*both),
        cliffs_delta=effects.cliffs_delta(*both),
        detectable=detectable,
        runs_needed=needed,
        floor=floor,
    )


def _tested(pairs: Sequence[Pair], large: Mapping[str, Sample], picked: Method) -> tuple[Pair, ...]:
    """With the raw and the adjusted p value of each pair that can be tested."""
    of_all = {
        Method.RANKS: variance.dunn,
        Method.GAMES_HOWELL: variance.games_howell,
        Method.TUKEY_KRAMER: variance.tukey_kramer,
    }
    by_names = {}
    if picked is Method.RANKS and len(large) == 2:
        by_names[tuple(large)] = float(scipy.stats.mannwhitneyu(*large.values()).pvalue)
    elif picked in of_all:
        by_names = of_all[picked](large)
    joint = [by_names.get((pair.a, pair.b), by_names.get((pair.b, pair.a))) for pair in pairs]
    raw = [
        p_joint if pair.method is Method.RANKS else pair.ratio.p_value
        for pair, p_joint in zip(pairs, joint, strict=True)
    ]
    is_adjusted = picked in (Method.GAMES_HOWELL, Method.TUKEY_KRAMER)
    adjusted = joint if is_adjusted else estimates.adjusted(raw, estimates.holm)
    return tuple(
        replace(pair, ratio=replace(pair.ratio, p_value=p_value), p_adjusted=p_adjusted)
        for pair, p_value, p_adjusted in zip(pairs, raw, adjusted, strict=True)
    )


def _power(one: Contest, threshold: float) -> tuple[float | None, int | None]:
    """What so many runs would show, and how many would show the threshold, by a t test."""
    if one.blocked is not None:
        noise, sizes = one.blocked.noise, (one.blocked.a.size,)
        worths = sizes if one.blocks_worth is None else (one.blocks_worth,)
    else:
        noise, sizes = power.noise({"a": one.of_a, "b": one.of_b}), (one.of_a.size, one.of_b.size)
        worths = one.worth or sizes
    if noise is None:
        return None, None
    needed = power.runs_needed(noise, threshold, in_blocks=one.blocked is not None)
    runs_a_worth = max(size / worth for size, worth in zip(sizes, worths, strict=True))
    detectable = power.detectable_change(noise, *worths)
    return detectable, None if needed is None else math.ceil(needed * runs_a_worth)


# ---- what a reader must know --------------------------------------------------------------------


def _notes(
    series: Mapping[str, Independence], contests: Sequence[Contest], pairs: Sequence[Pair]
) -> Iterator[str]:
    for name, of in series.items():
        if of.n < RUNS_FOR_INTERVAL_MIN:
            yield f"{name}: {of.n} of the {RUNS_FOR_INTERVAL_MIN} runs that an interval takes"
    # What changes with time changes both runs of a block: there it is the ratios that are asked.
    has_blocks = any(one.blocked for one in contests)
    apart = {name for one in contests if not one.blocked for name in (one.a, one.b)}
    for name, of in series.items():
        about = of.notes() if name in apart or not has_blocks else of.notes_of_values()
        yield from (f"{name}: {note}" for note in about)
    for one in contests:
        if one.blocked and (nr_alone := one.blocked.nr_alone):
            runs = "run has" if nr_alone == 1 else "runs have"
            yield f"{one.title}: {nr_alone} {runs} no partner in a block, and no say in the ratio"
        ratios = one.ratios.notes_of_order() if one.ratios else ()
        yield from (f"{one.title}, ratios within blocks: {note}" for note in ratios)
    for pair in pairs:
        yield from (f"{pair.a} against {pair.b}: {note}" for note in _contradictions(pair))


def _contradictions(pair: Pair) -> Iterator[str]:
    """Where a second way to look at a pair says something else than the first."""
    medians, resampled = pair.medians, pair.resampled
    if medians.low is not None and pair.ratio.direction != medians.direction:
        yield f"means and medians do not agree, which have {pair.change} and {medians.change}"
    is_of_means = resampled and resampled.low is not None and pair.method is not Method.RANKS
    if is_of_means and pair.ratio.direction != resampled.direction:
        yield (
            f"resampling does not agree with the test's interval, {pair.change}: it has"
            f" {resampled.change}"
        )
    p_value = pair.ratio.p_value
    can_tell = pair.exchange_p is not None and pair.ratio.n_a >= BLOCKS_FOR_EXCHANGES_MIN
    if can_tell and (p_value < SIGNIFICANT) != (pair.exchange_p < SIGNIFICANT):
        yield (
            f"its test has {p_text(p_value)}, and exchanging both within blocks"
            f" {p_text(pair.exchange_p)}: more blocks would tell"
        )
