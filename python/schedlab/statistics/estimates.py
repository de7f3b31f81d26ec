"""What a sample of runs says, and how sure that is.

One value is one run; what happened inside a run is never treated as a replicate. Comparisons are
made on logarithms, because ratios are what is compared, and are reported as ratios. No interval is
given for fewer than `RUNS_FOR_INTERVAL_MIN` runs. Samples are array_like of shape (n_runs,), one
finite number a run, and positive where ratios are taken; what is not is refused by a BadValue.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from schedlab.errors import BadValue
from schedlab.statistics.digits import change_percent
from schedlab.statistics.samples import Sample, does_not_vary, finite, positive, ratios_do_not_vary

QUANTILE_LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
RUNS_FOR_INTERVAL_MIN = 3
# Quantiles that are remembered; most samples of a comparison are of one size.
QUANTILES_MAX = 256
POINTS_FOR_INTERVAL_MIN = 3
CONFIDENCE = 0.95
# Two one-sided tests at 5 % each are the same as a 90 % interval lying inside the margin.
EQUIVALENCE_CONFIDENCE = 0.90
# Smallest change worth a word: 1 %. A simulated machine has no noise floor that would raise it.
THRESHOLD = 0.01
# A change by more than this factor is told as this: no noise could hide it.
CHANGE_MAX = 1e3
# Equal times are known exactly once what is otherwise in so many of all runs would have been met.
RARE = 0.1


class Verdict(StrEnum):
    """What may be said of a comparison; every word except `INCONCLUSIVE` is a claim."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval, and the sample's shape, in the unit of the values."""

    n: int
    mean: float
    median: float
    sd: float | None
    """None for one run."""
    low: float | None
    high: float | None
    """None for fewer than `RUNS_FOR_INTERVAL_MIN`."""
    quantiles: tuple[float, ...]
    """At `QUANTILE_LEVELS`."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Geometric mean of a over geometric mean of b, dimensionless: below 1, a is the smaller.

    All but sizes and ratio is None where a or b has fewer than `RUNS_FOR_INTERVAL_MIN` runs, or so
    little is known of them that nothing bounds it.
    """

    n_a: int
    n_b: int
    ratio: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    """Two-sided, that the ratio is 1."""
    equivalence_low: float | None = None
    equivalence_high: float | None = None
    """Bounds of the 90 % interval that a claim of sameness needs."""
    log_error: float | None = None
    """Standard error of the ratio's logarithm."""

    @property
    def direction(self) -> int:
        """-1 or 1 where the interval lies on one side of 1, else 0."""
        if self.low is None:
            return 0
        return -1 if self.high < 1 else int(self.low > 1)

    @property
    def change(self) -> str:
        """How much more a is, in percent, to the digits that the interval carries."""
        return change_percent(self.ratio, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Growth:
    """y grows as x to the power `exponent`; 95 % interval, None for fewer than three points."""

    exponent: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Contrast:
    """One sample against the first: `p_adjusted` is adjusted for all that is compared together."""

    ratio: Ratio
    p_adjusted: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Student:
    """A mean by Student's t: its standard error, above 0, with so many `degrees` of freedom.

    SciPy's tests say the same, and to load them takes as long as hundreds of short simulations.
    """

    mean: float
    error: float
    degrees: float

    @classmethod
    def of(cls, sample: Sample) -> "Student":
        """Of the mean of a sample."""
        error = np.std(sample, ddof=1) / math.sqrt(sample.size)
        return cls(float(np.mean(sample)), float(error), sample.size - 1)

    @classmethod
    def of_two(cls, a: Sample, b: Sample) -> "Student":
        """Of how much more the mean of a is than that of b, whose variances may differ.

        Source: B. L. Welch, "The generalization of 'Student's' problem when several different
        population variances are involved", Biometrika 34, 1947.
        """
        parts = [(float(np.var(one, ddof=1)) / one.size, one.size - 1) for one in (a, b)]
        variance = sum(part for part, _ in parts)
        degrees = variance**2 / sum(part**2 / n for part, n in parts)
        return cls(float(np.mean(a) - np.mean(b)), math.sqrt(variance), degrees)

    @property
    def p_value(self) -> float:
        """Two-sided, that the mean is 0."""
        return 2 * float(scipy.special.stdtr(self.degrees, -abs(self.mean) / self.error))

    def interval(self, confidence: float) -> tuple[float, float]:
        """The bounds that hold the mean with so much confidence."""
        half = float(scipy.special.stdtrit(self.degrees, 0.5 + confidence / 2)) * self.error
        return self.mean - half, self.mean + half


def estimate(values: ArrayLike) -> Estimate:
    """Mean, median and quantiles (Hyndman and Fan's type 7) of a sample, with Student's t interval
    of the mean, which has no width where all values are equal.
    """
    sample = finite("values", values)
    constant = bool(np.all(sample == sample[0]))
    mean = float(sample[0]) if constant else float(np.mean(sample))
    sd = None if sample.size < 2 else 0.0 if constant else float(np.std(sample, ddof=1))
    low = high = None if sample.size < RUNS_FOR_INTERVAL_MIN else mean
    if low is not None and not constant:
        half_width = student_quantile(sample.size - 1) * sd / math.sqrt(sample.size)
        low, high = mean - half_width, mean + half_width
    ordered = np.sort(sample).tolist()
    quantiles = tuple(_quantile(ordered, level) for level in QUANTILE_LEVELS)
    median = quantiles[QUANTILE_LEVELS.index(0.5)]
    return Estimate(sample.size, mean, median, sd, low, high, quantiles)


def _quantile(ordered: Sequence[float], level: float) -> float:
    """What np.quantile says, to the last digit: its checks take as long as all of an estimate.

    Between two values it counts from the nearer one, so that equal values give just these.
    """
    place = level * (len(ordered) - 1)
    below = math.floor(place)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    part, gap = place - below, high - low
    return low + gap * part if part < 0.5 else high - gap * (1 - part)


def median_estimate(values: ArrayLike) -> Estimate:
    """As `estimate`, but `low` and `high` bound the median, whatever the distribution is: values of
    the sample, by the sign test, and None for fewer than six, of which not even all make 95 %.

    For measurements on real hardware, which a neighbour or an interrupt makes longer and nothing
    makes shorter: their mean tells of the neighbour.

    Source: W. R. Thompson, "On confidence ranges for the median and other expectation
    distributions for populations of unknown distribution form", Annals of Mathematical
    Statistics 7, 1936.
    """
    plain = estimate(values)
    test = scipy.stats.quantile_test(np.asarray(values, dtype=np.float64), q=plain.median, p=0.5)
    bounds = test.confidence_interval(CONFIDENCE)
    low, high = (None if np.isnan(bound) else float(bound) for bound in bounds)
    return replace(plain, low=low, high=high)


def log_estimate(values: ArrayLike) -> Estimate:
    """The centre of skewed positive values, as latencies are: an interval around their arithmetic
    mean would reach below zero. `mean` is the geometric one, `sd` the standard deviation of the
    natural logarithm, and the interval the t interval of the logarithms.
    """
    sample = positive("values", values)
    logs = estimate(np.log(sample))
    names = ("mean",) if logs.low is None else ("mean", "low", "high")
    raised = {name: float(np.exp(getattr(logs, name))) for name in names}
    return replace(estimate(sample), sd=logs.sd, **raised)


def percent_estimate(counts: ArrayLike, totals: ArrayLike) -> Estimate:
    """How many of all there were, in percent, with an interval that stays within 0 to 100.

    `counts` and `totals` are whole numbers, one a run, 0 <= count <= total and total > 0. `mean` is
    all counts over all totals, everything else is of the runs' percentages. Where no run counted
    anything the interval begins at 0 and has a width.

    Wilson's interval, made for independent trials. What happens inside a run is not independent, so
    the number of trials is replaced by the number of independent ones that would vary as much as
    the runs do, never more than there were, and less by what Student's t is wider than a normal
    distribution for so few runs. Where all runs agree, the trials are taken as they are.

    Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    J. American Statistical Association 22, 1927; E. L. Korn and B. I. Graubard, "Confidence
    intervals for proportions with small expected number of positive counts estimated from survey
    data", Survey Methodology 24, 1998 (the effective number of trials); W. G. Cochran, "Sampling
    Techniques", 3rd edition 1977, 3.12 (the variance of a proportion over clusters).
    """
    x, n = finite("counts", counts), finite("totals", totals)
    if x.size != n.size or not np.all((x >= 0) & (x <= n) & (n > 0)):
        raise BadValue("counts", counts, f"are not within totals {totals!r}, each above 0")
    share = float(np.sum(x) / np.sum(n))
    found = replace(estimate(100 * x / n), mean=100 * share)
    if found.low is None:
        return found
    trials = float(np.sum(n))
    variance = x.size / (x.size - 1) * float(np.sum((x - share * n) ** 2)) / trials**2
    if variance > 0:  # else nothing says that trials of a run depend on each other
        wider = student_quantile(x.size - 1) / student_quantile(math.inf)
        trials = min(trials, share * (1 - share) / variance) / wider**2
    # Loading it takes longer than a comparison without deadlines needs.
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(share * trials, trials, 1 - CONFIDENCE, method="wilson")
    # Rounding may lead a hair beyond the ends, and past a mean that is one.
    low, high = max(0.0, 100 * float(low)), min(100.0, 100 * float(high))
    return replace(found, low=min(found.mean, low), high=max(found.mean, high))


def ratio(a: ArrayLike, b: ArrayLike, shares: int = 1) -> Ratio:
    """How many times b the values of a are, by Welch's t test on logarithms; both in one unit.

    Who asks several times, as after more and more runs, says how often at most: each answer has one
    of so many `shares` of the error (Bonferroni's bound), so that all intervals together hold the
    truth as one would.

    A sample whose logarithms are equal to rounding counts as known exactly: with one such sample
    the test is the one-sample t test of the other, with two the ratio has no uncertainty.

    Source: that of `Student.of_two`.
    """
    log_a, log_b = np.log(positive("a", a)), np.log(positive("b", b))
    sizes, centre = (log_a.size, log_b.size), float(np.exp(np.mean(log_a) - np.mean(log_b)))
    if min(sizes) < RUNS_FOR_INTERVAL_MIN:
        return Ratio(*sizes, centre)
    constant_a, constant_b = does_not_vary(log_a, 1.0), does_not_vary(log_b, 1.0)
    if constant_a and constant_b:
        return _known_exactly(a, b)
    if constant_a or constant_b:
        found = Student.of(log_a - log_b[0] if constant_b else log_a[0] - log_b)
    else:
        found = Student.of_two(log_a, log_b)
    return bounded_ratio(sizes, centre, found.interval, found.degrees, found.p_value, shares)


def paired_ratio(a: ArrayLike, b: ArrayLike, shares: int = 1) -> Ratio:
    """How many times b the values of a are, pair by pair, by Student's t test on logarithms.

    a[i] and b[i], in one unit, met the same random numbers: what chance does to both alike says
    nothing of their ratio; pairing what does not belong together only widens the interval. That
    has no width where all pairs have one ratio. `shares` is as in `ratio`.

    Common random numbers: A. M. Law, "Simulation Modeling and Analysis", 2015, chapter 11. Not a
    bootstrap over the pairs: of normal samples of 5 pairs a 95 % interval by percentiles or BCa
    holds the truth in 84 % of all cases, this one in 95 %.
    """
    log_a, log_b = np.log(_paired(positive, a=a, b=b))
    sizes, centre = (log_a.size, log_b.size), float(np.exp(np.mean(log_a - log_b)))
    if min(sizes) < RUNS_FOR_INTERVAL_MIN:
        return Ratio(*sizes, centre)
    if ratios_do_not_vary(log_a, log_b):
        return _known_exactly(a, b)
    found = Student.of(log_a - log_b)
    return bounded_ratio(sizes, centre, found.interval, found.degrees, found.p_value, shares)


def verdict(
    compared: Ratio,
    p_adjusted: float | None = None,
    threshold: float = THRESHOLD,
    floor: float = 0.0,
) -> Verdict:
    """The word for a ratio of times: it takes both evidence and a difference worth having.

    Faster or slower: the 95 % interval excludes 1, the adjusted p value (where one is given) is
    below 5 %, and the change is at least `threshold` and `floor`. Same: the 90 % interval lies
    inside the threshold, which is the test of equivalence. Everything else is inconclusive, which
    is not the same as the same. The threshold is a factor, 1 + threshold either way, so that
    exchanging the two samples exchanges faster and slower and nothing else.

    `p_adjusted` is corrected for the other comparisons of its family. `floor` is what the machine
    differs from itself by; it widens nothing that is called the same, or a noisy machine would find
    more of that. Raises BadValue if the threshold is not above 0.

    Source of the test of equivalence: D. J. Schuirmann, "A comparison of the two one-sided tests
    procedure and the power approach", J. Pharmacokinetics and Biopharmaceutics 15, 1987.
    """
    if not (np.isfinite(threshold) and threshold > 0):
        raise BadValue("threshold", threshold, "is not above 0", "0.01 is 1 %")
    if compared.low is None:
        return Verdict.INCONCLUSIVE
    margin, change = np.log1p(threshold), np.log(compared.ratio)
    significant = p_adjusted is None or p_adjusted < 1 - CONFIDENCE
    if significant and compared.direction * change >= max(margin, np.log1p(floor)):
        return Verdict.FASTER if compared.direction < 0 else Verdict.SLOWER
    if -margin < np.log(compared.equivalence_low) and np.log(compared.equivalence_high) < margin:
        return Verdict.SAME
    return Verdict.INCONCLUSIVE


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """p values, of which there may be none, adjusted so that one false claim among them all stays a
    5 % event; in the order given.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
    Journal of Statistics 6, 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0) & (p <= 1)):
        raise BadValue("p values", p_values, "are not a flat list of numbers from 0 to 1")
    if p.size < 2:
        return p.copy()
    # statsmodels has it too, and has Python look for garbage in each call: 50 ms a cell.
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    found = np.empty_like(p)
    found[order] = np.minimum(raised, 1.0)
    return found


def adjusted(
    p_values: Sequence[float | None], adjust: Callable[[Sequence[float]], Iterable[float]]
) -> list[float | None]:
    """The p values that are known, adjusted for all of these; None stays None."""
    known = iter(adjust([p for p in p_values if p is not None]))
    return [None if p is None else float(next(known)) for p in p_values]


def benjamini_hochberg(p_values: Sequence[float]) -> Sequence[float]:
    """p values adjusted so that of the claims that they make at most 5 % are false.

    Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", J. Royal
    Statistical Society B 57, 1995.
    """
    return scipy.stats.false_discovery_control(p_values, method="bh") if p_values else ()


def compare_pairs(
    pairs: Mapping[str, tuple[ArrayLike, ArrayLike]], threshold: float = THRESHOLD
) -> dict[str, Contrast]:
    """Samples of one cell, times in one unit, each against what it is compared with, in order, with
    p values adjusted by Holm's method. The family is the cell: the policies that ran one scenario.
    Tables and plots use nothing else, so terminal and report cannot disagree about a verdict.
    `threshold` is as in `verdict`.
    """
    ratios = {name: ratio(*pair) for name, pair in pairs.items()}
    p_values = adjusted([one.p_value for one in ratios.values()], holm)
    return {
        name: Contrast(ratio, p_value, verdict(ratio, p_value, threshold))
        for (name, ratio), p_value in zip(ratios.items(), p_values, strict=True)
    }


def compare_to_stop(
    pairs: Mapping[str, tuple[ArrayLike, ArrayLike]],
    threshold: float,
    shares: int,
    without_chance: Collection[str] = (),
) -> dict[str, Contrast]:
    """As `compare_pairs`, for who makes no more runs of what has a word, pair by pair as
    `paired_ratio`. With as many `shares` as there are looks and comparisons at most, any word at
    all is wrong in 5 % of all cases or fewer.

    Faster or slower takes an interval that lies wholly beyond the threshold: the estimate alone is
    beyond it at some look, if one looks often. Each comparison has a share of its own, where Holm's
    method would let runs that are added to one change the word of another.

    Which times are known exactly is told by `ratio_to_stop`; `without_chance` are those whose runs
    are the same whatever the seed.
    """
    found = {}
    for name, (a, b) in pairs.items():
        one = ratio_to_stop(a, b, shares, name in without_chance)
        word = verdict(one, threshold=threshold)
        if one.direction and word is not Verdict.SAME:
            nearest = one.low if one.direction > 0 else 1 / one.high
            if nearest < 1 + threshold:
                word = Verdict.INCONCLUSIVE
        found[name] = Contrast(one, one.p_value, word)
    return found


def ratio_to_stop(
    a: ArrayLike, b: ArrayLike, shares: int, is_without_chance: bool = False
) -> Ratio:
    """As `paired_ratio`, for who makes no more runs of what is known well enough; b may be one
    number that chance has no part in.

    Times of a few values are often equal by chance: of what is otherwise in one run of ten, five
    runs have nothing in 59 of 100 cases. So equal ones, or equal ratios, have no interval before
    `runs_until_exact`, but where all runs are the same whatever the seed (`is_without_chance`).
    """
    of_chance = [a] if np.ndim(b) == 0 else [a, b]
    b = np.broadcast_to(b, np.shape(a)) if np.ndim(b) == 0 else b
    one = paired_ratio(a, b, shares)
    if is_without_chance or one.n_a >= runs_until_exact(shares):
        return one
    is_equal = any(does_not_vary(np.log(of), 1.0) for of in of_chance)
    if is_equal or ratios_do_not_vary(np.log(a), np.log(b)):
        return Ratio(one.n_a, one.n_b, one.ratio)
    return one


def runs_until_exact(shares: int) -> int:
    """How many equal runs leave a share of the error for one otherwise, which `RARE` of all are."""
    return math.ceil(math.log((1 - CONFIDENCE) / shares) / math.log1p(-RARE))


def growth_exponent(x: ArrayLike, y: ArrayLike) -> Growth:
    """The power k with which y grows: the least-squares slope of log y on log x.

    Give one point for each x, such as the mean of its runs: the interval shows how far the points
    are from one power law. Raises BadValue also if all x are the same.
    """
    log_x, log_y = np.log(_paired(positive, x=x, y=y))
    if does_not_vary(log_x, 1.0):
        raise BadValue("x", x, "is the same everywhere", "growth needs two different sizes")
    exponent = error = 0.0
    if not does_not_vary(log_y, 1.0):  # a flat line would have the exponent of its rounding
        line, covariance = np.polyfit(log_x, log_y, 1, cov="unscaled")
        squares = float(np.sum((log_y - np.polyval(line, log_x)) ** 2))
        exponent = float(line[0])
        error = math.sqrt(covariance[0, 0] * squares / max(log_x.size - 2, 1))
    if log_x.size < POINTS_FOR_INTERVAL_MIN:
        return Growth(exponent, None, None)
    half_width = student_quantile(log_x.size - 2) * error
    return Growth(exponent, exponent - half_width, exponent + half_width)


def rank_agreement(a: ArrayLike, b: ArrayLike) -> float | None:
    """Kendall's tau-b: 1 if both put things in the same order, -1 if in opposite ones; None for
    fewer than two things, or where one side is all ties.

    Source: M. G. Kendall, "The treatment of ties in ranking problems", Biometrika 33, 1945.
    """
    first, second = _paired(finite, a=a, b=b)
    if first.size < 2:
        return None
    tau = float(scipy.stats.kendalltau(first, second).statistic)
    return None if np.isnan(tau) else tau


def mean_ecdf(
    histograms: Sequence[Sequence[tuple[int, int]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The empirical distribution function of values inside runs, as a mean over the runs that have
    values: every end of a class, and the share of values up to it.

    A histogram is of one run: the largest value and the count of each class, in ascending order.
    """
    if not (runs := [np.asarray(run, dtype=np.float64) for run in histograms if len(run)]):
        return np.empty(0), np.empty(0)
    values = np.unique(np.concatenate([run[:, 0] for run in runs]))
    shares = np.zeros(values.size)
    for run in runs:
        cumulated = np.concatenate([[0.0], np.cumsum(run[:, 1])]) / np.sum(run[:, 1])
        shares += cumulated[np.searchsorted(run[:, 0], values, side="right")]
    return values, shares / len(runs)


def bounded_ratio(
    sizes: tuple[int, int],
    centre: float,
    interval: Callable[[float], Sequence[float]],
    degrees: float,
    p_value: float | None,
    shares: int = 1,
) -> Ratio:
    """A ratio by a test on logarithms, of `sizes` runs of a and b; `centre` is the ratio itself.
    `interval` gives the bounds of its logarithm by their confidence, with `degrees` of freedom;
    `shares` is as in `ratio`."""
    low, high = interval(CONFIDENCE)
    levels = (CONFIDENCE, EQUIVALENCE_CONFIDENCE)
    of_all = [interval(one + (1 - one) * (1 - 1 / shares)) for one in levels]
    return Ratio(
        *sizes,
        centre,
        *np.exp(of_all[0]).tolist(),
        None if p_value is None else min(1.0, shares * float(p_value)),
        *np.exp(of_all[1]).tolist(),
        float((high - low) / 2 / student_quantile(degrees)),
    )


@lru_cache(QUANTILES_MAX)
def student_quantile(degrees: float) -> float:
    """How many standard errors half of an interval is; of a normal one `degrees` are infinite."""
    level = 0.5 + CONFIDENCE / 2
    if math.isinf(degrees):
        return float(scipy.special.ndtri(level))
    return float(scipy.special.stdtrit(degrees, level))


def _known_exactly(a: ArrayLike, b: ArrayLike) -> Ratio:
    first_a, first_b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    exact = float(first_a[0] / first_b[0])
    p_value = 1.0 if exact == 1.0 else 0.0
    return Ratio(first_a.size, first_b.size, exact, exact, exact, p_value, exact, exact, 0.0)


def _paired(
    check: Callable[[str, ArrayLike], Sample], **samples: ArrayLike
) -> tuple[Sample, Sample]:
    """Two samples by their names, of as many values, each as `check` wants them."""
    name_a, name_b = samples
    a, b = (check(name, values) for name, values in samples.items())
    if a.size != b.size:
        why = f"is not as many values as {name_b} has, {b.size}"
        raise BadValue(f"sample {name_a!r}", a.size, why, "give pairs")
    return a, b
