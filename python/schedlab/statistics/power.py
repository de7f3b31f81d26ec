"""How many runs a comparison needs, and how small a change it can show.

Samples are compared on logarithms, so that a change is a ratio: 0.01 is 1 % longer, or as much
shorter as that is a factor. The noise is the standard deviation of the natural logarithm of a run's
time, or of the ratio within a block, which then is what is counted: 0.02 is about 2 %.

Source: J. Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd edition 1988,
chapter 2; the exact power of Student's t test, by statsmodels.
"""

import math
from collections.abc import Mapping

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.errors import BadValue
from schedlab.statistics.estimates import CHANGE_MAX, CONFIDENCE, RUNS_FOR_INTERVAL_MIN
from schedlab.statistics.samples import positive

# The share of experiments that show a change that is there, by convention.
POWER = 0.8
# More runs of a sample than anyone makes; the answer is then that it cannot be shown.
RUNS_MAX = 100_000


def noise(samples: Mapping[str, ArrayLike]) -> float | None:
    """The standard deviation of the logarithms within samples, pooled over them; None if no sample
    has two runs."""
    logs = [np.log(positive(name, values)) for name, values in samples.items()]
    degrees = sum(sample.size - 1 for sample in logs)
    squares = sum(float(np.sum((sample - np.mean(sample)) ** 2)) for sample in logs)
    return math.sqrt(squares / degrees) if degrees else None


def runs_needed(
    noise_log: float, change: float, in_blocks: bool = False, shares: int = 1
) -> int | None:
    """How many runs each of two samples needs, or how many blocks, to show a change.

    It is shown at the 5 % level, or at one of so many `shares` of that, in 80 of 100 cases. At
    least `RUNS_FOR_INTERVAL_MIN`; None for more than `RUNS_MAX`. Raises BadValue if the
    noise is negative or the change not above 0.
    """
    _refuse_bad_noise(noise_log)
    if not (np.isfinite(change) and change > 0):
        raise BadValue("change", change, "is not above 0", "0.01 asks for 1 %")
    if noise_log == 0:
        return RUNS_FOR_INTERVAL_MIN
    effect = float(np.log1p(change)) / noise_log

    def excess(n: float) -> float:
        return _power(effect, n, None if in_blocks else n, shares) - POWER

    if excess(RUNS_FOR_INTERVAL_MIN) >= 0:
        return RUNS_FOR_INTERVAL_MIN
    if excess(RUNS_MAX) < 0:
        return None
    return math.ceil(scipy.optimize.brentq(excess, RUNS_FOR_INTERVAL_MIN, RUNS_MAX))


def detectable_change(noise_log: float, n_a: float, n_b: float | None = None) -> float | None:
    """The smallest change that samples worth `n_a` and `n_b` runs show; without b, `n_a` blocks.

    0 where there is no noise. None for fewer than `RUNS_FOR_INTERVAL_MIN` runs, or where not even a
    change by the factor `CHANGE_MAX` would be shown. Otherwise as `runs_needed`.
    """
    _refuse_bad_noise(noise_log)
    if min(n_a, n_a if n_b is None else n_b) < RUNS_FOR_INTERVAL_MIN:
        return None
    if noise_log == 0:
        return 0.0

    def excess(effect: float) -> float:
        return _power(effect, n_a, n_b) - POWER

    largest = float(np.log(CHANGE_MAX)) / noise_log
    if excess(largest) < 0:
        return None
    return float(np.expm1(scipy.optimize.brentq(excess, 0.0, largest, xtol=1e-12) * noise_log))


def _refuse_bad_noise(noise_log: float) -> None:
    if not (np.isfinite(noise_log) and noise_log >= 0):
        raise BadValue("noise", noise_log, "is not a standard deviation", "it is at least 0")


def _power(effect: float, n_a: float, n_b: float | None, shares: int = 1) -> float:
    """Of the two-sided t test, without b of one sample; 1 where statsmodels' t runs over."""
    from statsmodels.stats.power import TTestIndPower, TTestPower

    level = (1 - CONFIDENCE) / shares
    with np.errstate(all="ignore"):
        if n_b is None:
            power = TTestPower().power(effect, n_a, level)
        else:
            power = TTestIndPower().power(effect, n_a, level, ratio=n_b / n_a)
    return 1.0 if np.isnan(power) else float(power)
