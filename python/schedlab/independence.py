"""Whether the runs of a series stand for themselves: no drift, no memory, one state.

Every interval takes runs to be independent of each other. A machine that warms up, a disk that
fills or a governor with two frequencies makes them less than that; what is found here says so
beside the comparison, and how many independent runs the series is worth.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from schedlab.sample import Sample, does_not_vary, positive

RUNS_FOR_INDEPENDENCE_MIN = 8
"""Of fewer runs nothing can be said: with lag 2 of 7 runs, a test has hardly anything to see."""
RUNS_FOR_STATES_MIN = 10
LAGS_MAX = 5
SIGNIFICANT = 0.01
"""Stricter than 5 %, for there are many series in a table and a false alarm is alarming."""
OUTLIER_SCORE = 3.5
STATE_SHARE_MIN = 0.2
STATE_DISTANCE_MIN = 6.5
"""Of normal samples of ten values, 1 in 100 has two parts that far apart; of larger ones, fewer."""


@dataclass(frozen=True, slots=True)
class Independence:
    """What a series of runs, in order of time, shows of drift, memory and states.

    `drift` is Spearman's correlation of the values with their order; `lag_1` the autocorrelation
    of neighbours; `ljung_box_p` that of the first `lags` lags together. All are None for fewer
    than `RUNS_FOR_INDEPENDENCE_MIN` runs or where nothing varies. `n_effective` is how many
    independent runs the series is worth. `states` are the centres of two groups that the values
    fall into, in their unit; None where they are one. `outliers` are places in the series.
    """

    n: int
    drift: float | None
    drift_p: float | None
    lag_1: float | None
    ljung_box_p: float | None
    lags: int
    n_effective: float
    states: tuple[float, float] | None
    outliers: tuple[int, ...]

    def notes(self) -> list[str]:
        """What a reader must know, in sentences; empty where there is nothing to tell."""
        return self.notes_of_order() + self.notes_of_values()

    def notes_of_order(self) -> list[str]:
        """Of these, what the order of the runs tells: drift and memory."""
        said = []
        if self.drift_p is not None and self.drift_p < SIGNIFICANT:
            way = "longer" if self.drift > 0 else "shorter"
            said.append(
                f"runs became {way} with time (Spearman {self.drift:+.2f},"
                f" p = {self.drift_p:.1g}): only an interleaved comparison is fair"
            )
        if self.ljung_box_p is not None and self.ljung_box_p < SIGNIFICANT:
            known = f"lag-1 correlation {self.lag_1:+.2f}, Ljung-Box p = {self.ljung_box_p:.1g}"
            if self.lag_1 > 0:
                said.append(
                    f"neighbouring runs are alike ({known}): {self.n} runs are worth"
                    f" {math.floor(self.n_effective)} independent ones"
                )
            else:
                said.append(f"runs depend on those before them ({known}): look for what repeats")
        return said

    def notes_of_values(self) -> list[str]:
        """Of these, what would be so in any order: states and outliers."""
        said = []
        if self.states is not None:
            low, high = self.states
            said.append(
                f"runs fall into two groups, {high / low - 1:.0%} apart: look for two states of the"
                " machine, such as frequencies or places in memory"
            )
        if self.outliers:
            which = ", ".join(str(place + 1) for place in self.outliers)
            runs = "run" if len(self.outliers) == 1 else "runs"
            said.append(f"{runs} {which} of {self.n} far from the others: kept, look at why")
        return said


def independence(values: ArrayLike, name: str = "values") -> Independence:
    """What a series of runs shows of drift, memory and states.

    Parameters
    ----------
    values : array_like, shape (n_runs,)
        Positive finite numbers in the order in which the runs were made.
    name : str
        What the series is called in an error.

    Raises
    ------
    BadValue
        If there is no value, or one is not positive and finite.

    Notes
    -----
    Sources: G. M. Ljung and G. E. P. Box, "On a measure of lack of fit in time series models",
    Biometrika 65, 1978; G. V. Bayley and J. M. Hammersley, "The 'effective' number of independent
    observations in an autocorrelated time series", J. Royal Statistical Society, Supplement 8,
    1946, for a first-order process: n (1 - r) / (1 + r).
    """
    sample = positive(name, values)
    logs = np.log(sample)
    states, outliers = _states(logs), _outliers(logs)
    if sample.size < RUNS_FOR_INDEPENDENCE_MIN or does_not_vary(logs, 1.0):
        n = float(sample.size)
        return Independence(sample.size, None, None, None, None, 0, n, states, outliers)
    lags = min(LAGS_MAX, sample.size // 4)
    # Loading it takes longer than most comparisons need.
    from statsmodels.stats.diagnostic import acorr_ljungbox
    from statsmodels.tsa.stattools import acf

    drift = stats.spearmanr(np.arange(sample.size), logs)
    lag_1 = float(acf(logs, nlags=1)[1])
    # Runs that alternate are worth more than independent ones, which is not relied on.
    known = max(0.0, lag_1)
    return Independence(
        n=sample.size,
        drift=float(drift.statistic),
        drift_p=float(drift.pvalue),
        lag_1=lag_1,
        ljung_box_p=float(acorr_ljungbox(logs, lags=[lags])["lb_pvalue"].iloc[0]),
        lags=lags,
        n_effective=sample.size * (1 - known) / (1 + known),
        states=states,
        outliers=outliers,
    )


def _outliers(logs: Sample) -> tuple[int, ...]:
    """Places whose modified z score is above 3.5.

    Source: B. Iglewicz and D. C. Hoaglin, "How to Detect and Handle Outliers", 1993.
    """
    spread = float(stats.median_abs_deviation(logs, scale="normal"))
    # Where most runs are equal, every other one would be far from them.
    if spread <= 1e-9:
        return ()
    scores = np.abs(logs - np.median(logs)) / spread
    return tuple(int(place) for place in np.flatnonzero(scores > OUTLIER_SCORE))


def _states(logs: Sample) -> tuple[float, float] | None:
    """The centres of two groups with a wide gap between them; None where there is one group.

    The distance is Ashman's D: of the groups' means, in root mean squares of their deviations.
    Source: K. M. Ashman, C. M. Bird and S. E. Zepf, "Detecting bimodality in astronomical
    datasets", Astronomical Journal 108, 1994.
    """
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
