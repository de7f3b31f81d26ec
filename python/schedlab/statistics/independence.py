"""Whether the runs of a series stand for themselves: no drift, no memory, one state.

Every interval takes runs to be independent. Of a machine that warms up, a disk that fills or a
governor with two frequencies they are not; a series whose neighbours are alike gets the interval of
as many independent runs as it is worth.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.statistics.digits import p_text
from schedlab.statistics.estimates import RUNS_FOR_INTERVAL_MIN, Ratio, Student, bounded_ratio
from schedlab.statistics.samples import does_not_vary, positive

# Of fewer runs nothing can be said: with lag 2 of 7 runs, a test has hardly anything to see.
RUNS_FOR_INDEPENDENCE_MIN = 8
RUNS_FOR_STATES_MIN = 10
LAGS_MAX = 5
# Stricter than 5 %, for there are many series in a table and a false alarm is alarming.
SIGNIFICANT = 0.01
OUTLIER_SCORE = 3.5
STATE_SHARE_MIN = 0.2
# Of normal samples of ten values, 1 in 100 has two parts that far apart; of larger ones, fewer.
STATE_DISTANCE_MIN = 6.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Independence:
    """What a series of runs, in order of time, shows of drift, memory and states.

    The four after `n` are None where nothing varies, or of fewer than `RUNS_FOR_INDEPENDENCE_MIN`
    runs.
    """

    n: int
    drift: float | None = None
    """Spearman's correlation of the values with their order."""
    drift_p: float | None = None
    lag_1: float | None = None
    """Autocorrelation of neighbours."""
    ljung_box_p: float | None = None
    """P value of the autocorrelations of a few lags together."""
    n_effective: float
    """How many independent runs the series is worth, whether that is shown or not."""
    states: tuple[float, float] | None
    """Centres of two groups that the values fall into, in their unit; None where they are one."""
    outliers: tuple[int, ...]
    """Places in the series."""

    @property
    def neighbours_are_alike(self) -> bool:
        """Whether runs are shown to be like those before them, so that they are worth fewer."""
        return self.ljung_box_p is not None and self.ljung_box_p < SIGNIFICANT and self.lag_1 > 0

    @property
    def worth(self) -> float:
        """How many independent runs it counts as: all, unless neighbours are alike."""
        return self.n_effective if self.neighbours_are_alike else float(self.n)

    def notes(self) -> list[str]:
        """What a reader must know, in sentences."""
        return [*self.notes_of_order(), *self.notes_of_values()]

    def notes_of_order(self) -> Iterator[str]:
        """Of these, what the order of the runs tells: drift and memory."""
        if self.drift_p is not None and self.drift_p < SIGNIFICANT:
            way = "longer" if self.drift > 0 else "shorter"
            yield (
                f"runs became {way} with time (Spearman {self.drift:+.2f},"
                f" {p_text(self.drift_p)}): only an interleaved comparison is fair"
            )
        if self.ljung_box_p is not None and self.ljung_box_p < SIGNIFICANT:
            why = f"lag-1 correlation {self.lag_1:+.2f}, Ljung-Box {p_text(self.ljung_box_p)}"
            worth = f"{self.n} runs are worth {math.floor(self.n_effective)} independent ones"
            yield (
                f"neighbouring runs are alike ({why}): {worth}"
                if self.neighbours_are_alike
                else f"runs depend on those before them ({why}): look for what repeats"
            )

    def notes_of_values(self) -> Iterator[str]:
        """Of these, what would be so in any order: states and outliers."""
        if self.states is not None:
            yield states_told(self.states)
        if self.outliers:
            which = ", ".join(str(place + 1) for place in self.outliers)
            runs = "run" if len(self.outliers) == 1 else "runs"
            yield f"{runs} {which} of {self.n} far from the others: kept, look at why"


def independence(values: ArrayLike) -> Independence:
    """What positive values of runs, in the order in which they were made, show.

    Sources: G. M. Ljung and G. E. P. Box, "On a measure of lack of fit in time series models",
    Biometrika 65, 1978; G. V. Bayley and J. M. Hammersley, "The 'effective' number of independent
    observations in an autocorrelated time series", J. Royal Statistical Society, Supplement 8,
    1946, for a first-order process: n (1 - r) / (1 + r); B. Iglewicz and D. C. Hoaglin, "How to
    Detect and Handle Outliers", 1993 (a modified z score above 3.5).
    """
    sample = positive("values", values)
    n, logs = sample.size, np.log(sample)
    states, spread, outliers = two_states(sample), log_mad(sample), ()
    if spread > 1e-9:  # Where most runs are equal, every other one would be far from them.
        scores = np.abs(logs - np.median(logs)) / spread
        outliers = tuple(np.flatnonzero(scores > OUTLIER_SCORE).tolist())
    found = Independence(n=n, n_effective=float(n), states=states, outliers=outliers)
    if n < RUNS_FOR_INDEPENDENCE_MIN or does_not_vary(logs, 1.0):
        return found
    # Loading it takes longer than most comparisons need.
    from statsmodels.stats.diagnostic import acorr_ljungbox
    from statsmodels.tsa.stattools import acf

    drift = scipy.stats.spearmanr(np.arange(n), logs)
    lag_1 = float(acf(logs, nlags=1)[1])
    # Runs that alternate are worth more than independent ones, which is not relied on.
    known = max(0.0, lag_1)
    return replace(
        found,
        drift=float(drift.statistic),
        drift_p=float(drift.pvalue),
        lag_1=lag_1,
        ljung_box_p=float(acorr_ljungbox(logs, [min(LAGS_MAX, n // 4)])["lb_pvalue"].iloc[0]),
        n_effective=n * (1 - known) / (1 + known),
    )


def states_told(states: tuple[float, float]) -> str:
    """What a reader must know of two states, in a sentence."""
    low, high = states
    return (
        f"runs fall into two groups, {100 * (high / low - 1):.0f} % apart: look for two states of"
        " the machine, such as frequencies or places in memory"
    )


def dependent_ratio(a: ArrayLike, b: ArrayLike, n_a: float, n_b: float) -> Ratio:
    """As `estimates.ratio`, of runs that are worth `n_a` and `n_b` independent ones.

    At least one of a and b varies. Without interval where either is worth fewer than
    `RUNS_FOR_INTERVAL_MIN` runs.

    The squared error of a mean is that of n' independent runs, SS / n / (n' - 1), with n' - 1
    degrees of freedom: the variance within a series whose runs are alike is too small by the factor
    (1 - 1 / n') / (1 - 1 / n) (Bayley and Hammersley, see `independence`). Of two series of 40
    first-order runs with r = 0.8, so made 95 % intervals hold the truth in 92 of 100 cases and
    those of all runs in 48; of 20 runs in 78 and 44, for r is then hard to know; of 12, where what
    is alike is seldom noticed, in 55 and 48 (1,500 pairs each).
    """
    log_a, log_b = np.log(positive("a", a)), np.log(positive("b", b))
    rest_a, rest_b = max(n_a - 1, 1), max(n_b - 1, 1)
    error_a, error_b = float(np.var(log_a)) / rest_a, float(np.var(log_b)) / rest_b
    error, centre = math.sqrt(error_a + error_b), float(np.mean(log_a) - np.mean(log_b))
    degrees = (error_a + error_b) ** 2 / (error_a**2 / rest_a + error_b**2 / rest_b)
    return _student(centre, error, degrees, (log_a.size, log_b.size), min(n_a, n_b))


def dependent_paired_ratio(logs: ArrayLike, n: float) -> Ratio:
    """As `estimates.paired_ratio`, of logarithms of ratios that vary and are worth `n` blocks."""
    sample = np.asarray(logs, dtype=np.float64)
    error = math.sqrt(float(np.var(sample)) / max(n - 1, 1))
    return _student(float(np.mean(sample)), error, n - 1, (sample.size, sample.size), n)


def _student(
    centre: float, error: float, degrees: float, sizes: tuple[int, int], worth: float
) -> Ratio:
    if worth < RUNS_FOR_INTERVAL_MIN:
        return Ratio(*sizes, math.exp(centre))
    found = Student(centre, error, degrees)
    return bounded_ratio(sizes, math.exp(centre), found.interval, degrees, found.p_value)


def log_mad(values: ArrayLike) -> float:
    """The median distance of logarithms from their median, scaled as the standard deviation of
    normal ones: half of the runs may be far off and it stays what it is.

    Source: F. R. Hampel, "The influence curve and its role in robust estimation", J. American
    Statistical Association 69, 1974.
    """
    logs = np.log(positive("values", values))
    return float(scipy.stats.median_abs_deviation(logs, scale="normal"))


def two_states(values: ArrayLike) -> tuple[float, float] | None:
    """The centres of two groups with a wide gap between them; None where there is one group, or
    fewer than `RUNS_FOR_STATES_MIN` values.

    The distance is Ashman's D: of the groups' means, in root mean squares of their deviations.
    Source: K. M. Ashman, C. M. Bird and S. E. Zepf, "Detecting bimodality in astronomical
    datasets", Astronomical Journal 108, 1994. Of samples of 20 normal values of which 30 % are
    moved by 6 standard deviations it finds 40 in 100, by 8 it finds 88, by 0 none; of 10 values 47,
    83 and 1. The dip test of J. A. Hartigan and P. M. Hartigan (1985) at 1 % finds 1, 7 and none,
    and of 10 values none at all (1,000 samples each).
    """
    logs = np.log(positive("values", values))
    if logs.size < RUNS_FOR_STATES_MIN or does_not_vary(logs, 1.0):
        return None
    ordered = np.sort(logs)
    fewest = math.ceil(STATE_SHARE_MIN * logs.size)
    inner = np.diff(ordered)[fewest - 1 : logs.size - fewest]
    cut = fewest + int(np.argmax(inner))
    low, high = ordered[:cut], ordered[cut:]
    deviation = math.sqrt((np.var(low, ddof=1) + np.var(high, ddof=1)) / 2)
    distance = float(np.mean(high) - np.mean(low))
    if distance < STATE_DISTANCE_MIN * deviation:
        return None
    return float(np.exp(np.mean(low))), float(np.exp(np.mean(high)))
