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
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.errors import BadValue, UnknownName
from schedlab.statistics import variance as anova
from schedlab.statistics.blocks import BLOCKS_FOR_EXCHANGES_MIN, Blocked, exchange_p, median_within
from schedlab.statistics.digits import change_percent, p_text
from schedlab.statistics.effects import cliffs_delta, hedges_g, mean_ratio, median_ratio
from schedlab.statistics.estimates import (
    CONFIDENCE,
    RUNS_FOR_INTERVAL_MIN,
    THRESHOLD,
    Ratio,
    Verdict,
    holm,
    paired_ratio,
    ratio,
    verdict,
)
from schedlab.statistics.independence import (
    Independence,
    dependent_paired_ratio,
    dependent_ratio,
    independence,
)
from schedlab.statistics.method import Choice, Method, Names, choose, within_blocks
from schedlab.statistics.noise_floor import NoiseFloor, Null, noise_floor
from schedlab.statistics.power import (
    blocks_needed,
    detectable_change,
    detectable_in_blocks,
    noise,
    runs_needed,
)
from schedlab.statistics.samples import Sample, positives
from schedlab.statistics.variance import Omnibus

SIGNIFICANT = 1 - CONFIDENCE

WORDS = {
    Verdict.FASTER: "faster",
    Verdict.SLOWER: "slower",
    Verdict.SAME: "same",
    Verdict.INCONCLUSIVE: "no difference shown",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """One sample against another: `a` over `b`, so a ratio below 1 says that `a` is faster.

    `ratio` is the headline: of geometric means, or of medians by the method `RANKS`. Within blocks
    it is the mean of their ratios, or the median by `BLOCK_SIGNS`, and counts the blocks with a run
    of both. Its p value is raw. `exchange_p` is that of the test which exchanges both within
    blocks, None for any other method than `BLOCKS`. `medians` is the ratio of medians, or the
    median of the ratios within blocks, in any case; without interval for fewer than six runs.
    `resampled` is the ratio of geometric means again, with a bootstrap interval from eight runs on;
    None within blocks. Neither has one where neighbouring runs are alike.
    `p_adjusted` is for all pairs of the comparison, and None where there is no test. `hedges_g`
    and `cliffs_delta` are sizes without unit. `detectable` is the smallest change that so many runs
    of such noise show in 80 of 100 cases, and that is above `floor`; `runs_needed` how many of each
    would show the threshold; None where that cannot be said or done. `floor` is None within blocks,
    and where occasions are not told or too few.
    """

    a: str
    b: str
    method: Method
    ratio: Ratio
    exchange_p: float | None
    p_adjusted: float | None
    verdict: Verdict
    medians: Ratio
    resampled: Ratio | None
    hedges_g: float | None
    cliffs_delta: float
    detectable: float | None
    runs_needed: int | None
    floor: NoiseFloor | None

    @property
    def floor_change(self) -> float:
        """What the machine is known to differ from itself by; 0 where that is not known."""
        return self.floor.change if self.floor else 0.0

    @property
    def is_blocked(self) -> bool:
        """Whether it is of ratios within blocks."""
        return self.method in (Method.BLOCKS, Method.BLOCK_SIGNS)

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        return WORDS[self.verdict]

    @property
    def change(self) -> str:
        """How much longer `a` takes, in percent, to the digits that the interval carries."""
        return change_percent(self.ratio.ratio, self.ratio.low, self.ratio.high)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Samples of one benchmark on one machine, compared.

    `method` is that of all pairs, or of those that share no blocks. `why` says in a sentence which
    test was made and why; what comes after its first semicolon is of these samples only. `omnibus`
    asks whether all are alike, `variances` whether their variances are; None where that cannot be
    asked. `notes` are what a reader must know besides: drift, states, outliers, samples that are
    too small, runs without a partner in their block.
    """

    method: Method
    why: str
    pairs: tuple[Pair, ...]
    omnibus: Omnibus | None
    variances: Omnibus | None
    independence: Mapping[str, Independence]
    noise: float | None
    notes: tuple[str, ...]

    def pair(self, a: str, b: str) -> Pair:
        """The pair of these two names in this order.

        Raises
        ------
        UnknownName
            If they were not compared so.
        """
        for found in self.pairs:
            if (found.a, found.b) == (a, b):
                return found
        raise UnknownName("pair", f"{a}/{b}", [f"{found.a}/{found.b}" for found in self.pairs])


def compare_groups(
    samples: Mapping[str, ArrayLike],
    *,
    baseline: str | None = None,
    threshold: float = THRESHOLD,
    method: Method | None = None,
    blocks: Mapping[str, Sequence[Hashable]] | None = None,
    occasions: Mapping[str, Sequence[Hashable]] | None = None,
) -> Comparison:
    """Compares samples of times, each with the baseline or, without one, each with each.

    Parameters
    ----------
    samples : mapping of name to array_like, shape (n_runs,)
        Positive finite times in one unit, one a run, in the order in which the runs were made.
    baseline : str, optional
        The sample the others are compared with.
    threshold : float
        Smallest relative change worth a word, 0.01 is 1 %: at least 1 %, or what two samples of
        the same thing differ by on this machine, where that is more.
    method : Method, optional
        To have it tested so; by default the module's beginning tells which is picked.
        `TUKEY_KRAMER` pools the variance of all samples, on logarithms too. `BLOCKS`, where
        `blocks` does not tell, takes the runs of one place in each sample to be a block.
    blocks : mapping of name to sequence of hashable, optional
        The block of each run: runs of one block were made next to each other, so that what
        disturbed one disturbed the other too. Pairs that share `RUNS_FOR_INTERVAL_MIN` blocks or
        more are then compared within them, unless another method is asked for.
    occasions : mapping of name to sequence of hashable, optional
        The occasion of each run, such as a boot: see `noise_floor`. Left out where each run had one
        of its own, as then the interval holds what occasions differ by.

    Returns
    -------
    Comparison
        Its pairs are (other, baseline) in order, or (later, earlier) of all pairs.

    Raises
    ------
    BadValue
        If a sample is empty or holds what is no time, the threshold is not a positive number, the
        method cannot be had with these samples, or one has not as many blocks as runs.
    UnknownName
        If the baseline is not among the samples.
    """
    checked = positives(samples)
    if baseline is not None and baseline not in checked:
        raise UnknownName("sample", baseline, checked, "as the baseline")
    if not (np.isfinite(threshold) and threshold > 0):
        raise BadValue("threshold", threshold, "is not above 0", "0.01 is 1 %")
    large = {
        name: np.log(sample)
        for name, sample in checked.items()
        if sample.size >= RUNS_FOR_INTERVAL_MIN
    }
    compared = _names(checked, baseline)
    within = within_blocks(checked, compared, method, blocks)
    series = {name: independence(sample, name) for name, sample in checked.items()}
    worth = _worth(series, within) if method is None else {}
    choice = choose(large, compared, within, baseline, method, worth)
    ratios = {names: _headline(choice, names, checked) for names in compared}
    tested = [names for names in compared if large.keys() >= {*names}]
    raw, adjusted = _p_values(choice, large, ratios, tested)
    exchanged = {
        names: exchange_p(of.logs)
        for names, of in within.items()
        # Blocks that are like those before them cannot be exchanged one by one.
        if choice.of[names] is Method.BLOCKS and names not in worth
    }
    floors = _floors(choice, checked, compared, occasions)
    pairs = tuple(
        _pair(
            names,
            checked,
            replace(ratios[names], p_value=raw.get(names)),
            (exchanged.get(names), adjusted.get(names)),
            choice,
            threshold,
            floors.get(names),
        )
        for names in compared
    )
    return Comparison(
        method=choice.method,
        why=choice.why(exchanged),
        pairs=pairs,
        omnibus=_omnibus(choice.method, large),
        variances=anova.brown_forsythe(large),
        independence=series,
        noise=noise(checked),
        notes=tuple(_notes(checked, series, pairs, within)),
    )


def merged(
    found: Sequence[Comparison], order: Sequence[str], threshold: float = THRESHOLD
) -> Comparison:
    """Comparisons of other samples with one baseline, as one whose p values are of all its pairs.

    For pairs of which a run is not the same thing: boots of some, repetitions of others. What is
    asked of all samples at once (`omnibus`, `variances`, `noise`) takes runs of one kind, so it is
    None where there are several comparisons.

    Parameters
    ----------
    found : sequence of Comparison
        At least one, each with the same baseline, by methods that adjust by Holm's.
    order : sequence of str
        Of the samples that are compared with it.
    """
    if len(found) == 1:
        return found[0]
    of_name = {pair.a: pair for one in found for pair in one.pairs}
    pairs = [of_name[name] for name in order]
    tested = [pair for pair in pairs if pair.p_adjusted is not None]
    adjusted = holm([pair.ratio.p_value for pair in tested])
    of_family = dict(zip(map(id, tested), map(float, adjusted), strict=True))
    heads, tails = [], []
    for one in found:
        head, _, tail = one.why.removesuffix(".").partition("; ")
        heads.append(f"{' and '.join(pair.a for pair in one.pairs)}: {head}")
        tails += [tail] if tail else []
    return Comparison(
        method=found[0].method,
        why=f"{'. '.join(heads)}{''.join(f'; {tail}' for tail in tails)}.",
        pairs=tuple(_adjusted(pair, of_family.get(id(pair)), threshold) for pair in pairs),
        omnibus=None,
        variances=None,
        independence={name: of for one in found for name, of in one.independence.items()},
        noise=None,
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
    )


def _adjusted(pair: Pair, p_adjusted: float | None, threshold: float) -> Pair:
    word = verdict(pair.ratio, p_adjusted, threshold, pair.floor_change)
    return replace(pair, p_adjusted=p_adjusted, verdict=word)


@dataclass(frozen=True, slots=True)
class Discovery:
    """One pair in a table of many: `p_table` is adjusted over the table, `verdict` after that."""

    cell: str
    pair: Pair
    p_table: float | None
    verdict: Verdict


def over_table(
    comparisons: Mapping[str, Comparison], threshold: float = THRESHOLD
) -> list[Discovery]:
    """The pairs of many benchmarks and machines, so that of the claims at most 5 % are false.

    Parameters
    ----------
    comparisons : mapping of cell to Comparison
        A cell is a benchmark on a machine.
    threshold : float
        See `compare_groups`.

    Returns
    -------
    list of Discovery
        In order. The p values adjusted within each comparison are adjusted once more, by the
        method of Benjamini and Hochberg, and decide the words: a word can only become weaker.

    Notes
    -----
    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", J. Royal
    Statistical Society B 57, 1995.
    """
    rows = [(cell, pair) for cell, found in comparisons.items() for pair in found.pairs]
    tested = [place for place, (_, pair) in enumerate(rows) if pair.p_adjusted is not None]
    p_values = [rows[place][1].p_adjusted for place in tested]
    adjusted = scipy.stats.false_discovery_control(p_values, method="bh") if p_values else []
    of_table = dict(zip(tested, map(float, adjusted), strict=True))
    discoveries = []
    for place, (cell, pair) in enumerate(rows):
        p_table = of_table.get(place)
        word = verdict(pair.ratio, p_table, threshold, pair.floor_change)
        discoveries.append(Discovery(cell, pair, p_table, word))
    return discoveries


def _omnibus(method: Method, large: Mapping[str, Sample]) -> Omnibus | None:
    if method is Method.BLOCKS:
        return None  # Those that we have take runs to be independent of each other.
    if method is Method.RANKS:
        return anova.kruskal_wallis(large)
    if method is not Method.TUKEY_KRAMER:
        return anova.welch(large)
    table = anova.variance_table(large)
    return table and Omnibus(
        "ANOVA", table.f, float(table.df_between), float(table.df_within), table.p_value
    )


# ---- the pairs ----------------------------------------------------------------------------------


def _names(samples: Mapping[str, Sample], baseline: str | None) -> list[Names]:
    if baseline is not None:
        return [(name, baseline) for name in samples if name != baseline]
    return [(later, earlier) for earlier, later in itertools.combinations(samples, 2)]


def _worth(
    series: Mapping[str, Independence], within: Mapping[Names, Blocked]
) -> dict[str | Names, float]:
    """See `Choice.worth`."""
    found = {names: _of_ratios(blocked) for names, blocked in within.items()}
    asked = {**series, **found}
    return {key: of.n_effective for key, of in asked.items() if of.neighbours_are_alike}


def _of_ratios(blocked: Blocked) -> Independence:
    return independence(np.exp(blocked.logs), "ratios within blocks")


def _floors(
    choice: Choice,
    samples: Mapping[str, Sample],
    compared: Sequence[Names],
    occasions: Mapping[str, Sequence[Hashable]] | None,
) -> dict[Names, NoiseFloor | None]:
    """Of the pairs whose runs are not of blocks: what a block has in common is in no ratio."""
    if occasions is None:
        return {}
    centre = np.median if choice.method is Method.RANKS else np.mean
    return {
        (a, b): noise_floor(samples[a], samples[b], occasions[a], occasions[b], centre)
        for a, b in compared
        if (a, b) not in choice.within
    }


def _headline(choice: Choice, names: Names, samples: Mapping[str, Sample]) -> Ratio:
    method, worth = choice.of[names], choice.worth
    if method is Method.BLOCKS and names in worth and not choice.within[names].does_not_vary:
        return dependent_paired_ratio(choice.within[names].logs, worth[names])
    if method is Method.BLOCKS:
        return paired_ratio(choice.within[names].a, choice.within[names].b)
    if method is Method.BLOCK_SIGNS:
        return median_within(choice.within[names])
    of_a, of_b = (samples[name] for name in names)
    if method is Method.WELCH and not worth.keys().isdisjoint(names):
        return dependent_ratio(of_a, of_b, *_sizes(names, samples, worth))
    return median_ratio(of_a, of_b) if method is Method.RANKS else ratio(of_a, of_b)


def _sizes(
    names: Names, samples: Mapping[str, Sample], worth: Mapping[str | Names, float]
) -> tuple[float, float]:
    """How many independent runs each of a pair is worth."""
    a, b = (float(worth.get(name, samples[name].size)) for name in names)
    return a, b


def _p_values(
    choice: Choice,
    large: Mapping[str, Sample],
    ratios: Mapping[Names, Ratio],
    tested: Sequence[Names],
) -> tuple[dict[Names, float], dict[Names, float]]:
    """The raw and the adjusted p value of each pair that can be tested."""
    method = choice.method
    if method is Method.NONE or not tested:
        return {}, {}
    raw = {names: ratios[names].p_value for names in tested}
    if method is Method.RANKS:
        raw |= _rank_p(large, [names for names in tested if choice.of[names] is method])
    # Runs that are worth fewer than three have no test.
    raw = {names: p_value for names, p_value in raw.items() if p_value is not None}
    if method is Method.GAMES_HOWELL:
        return raw, _either_way(anova.games_howell_p(large), tested)
    if method is Method.TUKEY_KRAMER:
        found = {names: of.p_adjusted for names, of in anova.tukey_kramer(large).items()}
        return raw, _either_way(found, tested)
    adjusted = holm(list(raw.values()))
    return raw, dict(zip(raw, map(float, adjusted), strict=True))


def _rank_p(large: Mapping[str, Sample], tested: Sequence[Names]) -> dict[Names, float]:
    if len(large) == 2:
        return {
            (a, b): float(scipy.stats.mannwhitneyu(large[a], large[b]).pvalue) for a, b in tested
        }
    return _either_way(anova.dunn(large), tested)


def _either_way(found: Mapping[Names, float], tested: Sequence[Names]) -> dict[Names, float]:
    """Two-sided p values, which do not ask who of a pair comes first."""
    return {(a, b): found[a, b] if (a, b) in found else found[b, a] for a, b in tested}


def _pair(
    names: Names,
    samples: Mapping[str, Sample],
    headline: Ratio,
    p_values: tuple[float | None, float | None],
    choice: Choice,
    threshold: float,
    floor: NoiseFloor | None,
) -> Pair:
    of_a, of_b = (samples[name] for name in names)
    method, blocked = choice.of[names], choice.within.get(names)
    detectable, needed = _power(names, samples, choice, threshold)
    if floor and detectable is not None:
        detectable = max(detectable, floor.change)
    if floor and floor.of is Null.OCCASIONS and floor.change > threshold:
        needed = None  # More runs on the same occasions would not show it.
    if method in (Method.RANKS, Method.BLOCK_SIGNS):
        medians = headline
    else:
        medians = median_within(blocked) if blocked else median_ratio(of_a, of_b)
    # A resampled interval takes runs to be independent.
    are_alike = not choice.worth.keys().isdisjoint({*names, names})
    if are_alike:
        medians = Ratio(medians.n_a, medians.n_b, medians.ratio, None, None, None, None, None)
    return Pair(
        a=names[0],
        b=names[1],
        method=method,
        ratio=headline,
        exchange_p=p_values[0],
        p_adjusted=p_values[1],
        verdict=verdict(headline, p_values[1], threshold, floor.change if floor else 0.0),
        medians=medians,
        resampled=None if blocked or are_alike else mean_ratio(of_a, of_b),
        hedges_g=hedges_g(of_a, of_b),
        cliffs_delta=cliffs_delta(of_a, of_b),
        detectable=detectable,
        runs_needed=needed,
        floor=floor,
    )


def _power(
    names: Names, samples: Mapping[str, Sample], choice: Choice, threshold: float
) -> tuple[float | None, int | None]:
    """What so many runs would show, and how many would show the threshold; of a t test only."""
    method, blocked = choice.of[names], choice.within.get(names)
    if method in (Method.RANKS, Method.BLOCK_SIGNS):
        return None, None
    if blocked is not None:
        nr_blocks = blocked.a.size
        worth = choice.worth.get(names, nr_blocks)
        needed = blocks_needed(blocked.noise, threshold)
        return detectable_in_blocks(blocked.noise, worth), _made_up(needed, nr_blocks / worth)
    noise_log = noise({name: samples[name] for name in names})
    if noise_log is None:
        return None, None
    sizes = _sizes(names, samples, choice.worth)
    most = max(samples[name].size / worth for name, worth in zip(names, sizes, strict=True))
    needed = runs_needed(noise_log, threshold)
    return detectable_change(noise_log, *sizes), _made_up(needed, most)


def _made_up(needed: int | None, runs_a_worth: float) -> int | None:
    """How many runs it takes where so many are worth one."""
    return None if needed is None else math.ceil(needed * runs_a_worth)


def _notes(
    samples: Mapping[str, Sample],
    series: Mapping[str, Independence],
    pairs: Sequence[Pair],
    within: Mapping[Names, Blocked],
) -> list[str]:
    said = [
        f"{name}: {sample.size} of the {RUNS_FOR_INTERVAL_MIN} runs that an interval takes"
        for name, sample in samples.items()
        if sample.size < RUNS_FOR_INTERVAL_MIN
    ]
    # What changes with time changes both runs of a block: there it is the ratios that are asked.
    apart = {name for pair in pairs for name in (pair.a, pair.b) if (pair.a, pair.b) not in within}
    for name, found in series.items():
        notes = found.notes() if name in apart or not within else found.notes_of_values()
        said += [f"{name}: {note}" for note in notes]
    for (a, b), blocked in within.items():
        said += [f"{a} against {b}{note}" for note in _notes_of_blocks(blocked)]
    for pair in pairs:
        said += [f"{pair.a} against {pair.b}: {note}" for note in _contradictions(pair)]
    return said


def _notes_of_blocks(blocked: Blocked) -> list[str]:
    told = []
    if blocked.nr_alone:
        runs = "run has" if blocked.nr_alone == 1 else "runs have"
        told.append(f": {blocked.nr_alone} {runs} no partner in a block, and no say in the ratio")
    notes = _of_ratios(blocked).notes_of_order()
    return told + [f", ratios within blocks: {note}" for note in notes]


def _contradictions(pair: Pair) -> list[str]:
    """Where a second way to look at a pair says something else than the first."""
    told = []
    if _direction(pair.ratio) != _direction(pair.medians) and pair.medians.low is not None:
        told.append(
            f"means and medians do not agree, which have {pair.change} and"
            f" {change_percent(pair.medians.ratio, pair.medians.low, pair.medians.high)}"
        )
    again = pair.resampled
    is_of_means = again is not None and again.low is not None and pair.method is not Method.RANKS
    if is_of_means and _direction(pair.ratio) != _direction(again):
        told.append(
            f"resampling does not agree with the test's interval, {pair.change}: it has"
            f" {change_percent(again.ratio, again.low, again.high)}"
        )
    p_value = pair.ratio.p_value
    can_tell = pair.exchange_p is not None and pair.ratio.n_a >= BLOCKS_FOR_EXCHANGES_MIN
    if can_tell and (p_value < SIGNIFICANT) != (pair.exchange_p < SIGNIFICANT):
        told.append(
            f"its test has {p_text(p_value)}, and exchanging both within blocks"
            f" {p_text(pair.exchange_p)}: more blocks would tell"
        )
    return told


def _direction(found: Ratio) -> int:
    """-1 or 1 where the interval lies on one side of 1, else 0."""
    if found.low is None or found.high is None:
        return 0
    return -1 if found.high < 1 else int(found.low > 1)
