"""How many runs a comparison needs, and how small a change it can show.

For two samples of equal size compared on logarithms, so that a change is a ratio. The noise is the
standard deviation of the natural logarithm of a run's time: 0.02 is about 2 %. For runs made in
blocks it is that of the logarithm of the ratio within a block, and a block is what is counted.

Source: J. Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd edition 1988,
chapter 2; the exact power of Student's t test, by statsmodels.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from schedlab.errors import BadValue
from schedlab.statistics.estimates import CHANGE_MAX, CONFIDENCE, RUNS_FOR_INTERVAL_MIN
from schedlab.statistics.samples import positives

# The share of experiments that show a change that is there, by convention.
POWER = 0.8
# More runs of a sample than anyone makes; the answer is then that it cannot be shown.
RUNS_MAX = 100_000


def noise(samples: Mapping[str, ArrayLike]) -> float | None:
    """The standard deviation of the logarithms within samples, pooled over them.

    0 where nothing varies, None if no sample has two runs.
    """
    logs = [np.log(sample) for sample in positives(samples).values()]
    degrees = sum(sample.size - 1 for sample in logs)
    if degrees < 1:
        return None
    squares = sum(float(np.sum((sample - np.mean(sample)) ** 2)) for sample in logs)
    return float(np.sqrt(squares / degrees))


def runs_needed(noise_log: float, change: float, power: float = POWER) -> int | None:
    """How many runs each of two samples needs to show a change at the 5 % level.

    Parameters
    ----------
    noise_log : float
        See `noise`; not negative.
    change : float
        What shall be shown: 0.01 is 1 % longer, or as much shorter as that is a factor.
    power : float
        How often it shall be shown, in (0.05, 1).

    Returns
    -------
    int or None
        At least `RUNS_FOR_INTERVAL_MIN`; None for more than `RUNS_MAX`.

    Raises
    ------
    BadValue
        If the noise is negative, or change or power is out of its range.
    """
    return _needed(lambda effect, n: _power(effect, n, n), noise_log, change, power)


def blocks_needed(noise_log: float, change: float, power: float = POWER) -> int | None:
    """`runs_needed`, for a noise and a number of blocks."""
    return _needed(_power_of_blocks, noise_log, change, power)


def detectable_change(
    noise_log: float, n_a: float, n_b: float, power: float = POWER
) -> float | None:
    """The smallest change that samples show at the 5 % level, which are worth so many runs.

    0.01 is 1 %; 0 where there is no noise. None for fewer than `RUNS_FOR_INTERVAL_MIN` runs, or
    where not even a change by the factor `CHANGE_MAX` would be shown. Otherwise as `runs_needed`.
    """
    smallest = min(n_a, n_b)
    return _detectable(lambda effect: _power(effect, n_a, n_b), noise_log, smallest, power)


def detectable_in_blocks(noise_log: float, nr_blocks: float, power: float = POWER) -> float | None:
    """`detectable_change`, for a noise and a number of blocks."""
    return _detectable(
        lambda effect: _power_of_blocks(effect, nr_blocks), noise_log, nr_blocks, power
    )


def _needed(
    power_of: Callable[[float, float], float], noise_log: float, change: float, power: float
) -> int | None:
    """The smallest n of which a test has the power, given what it has for an effect and an n."""
    _check(noise_log, power)
    if not (np.isfinite(change) and change > 0):
        raise BadValue("change", change, "is not above 0", "0.01 asks for 1 %")
    if noise_log == 0:
        return RUNS_FOR_INTERVAL_MIN
    effect = float(np.log1p(change)) / noise_log
    if power_of(effect, RUNS_FOR_INTERVAL_MIN) >= power:
        return RUNS_FOR_INTERVAL_MIN
    if power_of(effect, RUNS_MAX) < power:
        return None
    from scipy.optimize import brentq

    runs = brentq(lambda n: power_of(effect, n) - power, RUNS_FOR_INTERVAL_MIN, RUNS_MAX)
    return int(np.ceil(runs))


def _detectable(
    power_of: Callable[[float], float], noise_log: float, smallest: float, power: float
) -> float | None:
    """The smallest change that a test has the power to show, given what it has for an effect."""
    _check(noise_log, power)
    if smallest < RUNS_FOR_INTERVAL_MIN:
        return None
    if noise_log == 0:
        return 0.0
    largest = float(np.log(CHANGE_MAX)) / noise_log
    if power_of(largest) < power:
        return None
    from scipy.optimize import brentq

    effect = brentq(lambda size: power_of(size) - power, 0.0, largest, xtol=1e-12)
    return float(np.expm1(effect * noise_log))


def _check(noise_log: float, power: float) -> None:
    if not (np.isfinite(noise_log) and noise_log >= 0):
        raise BadValue("noise", noise_log, "is not a standard deviation", "it is at least 0")
    if not 1 - CONFIDENCE < power < 1:
        raise BadValue("power", power, "is not above 0.05 and below 1", "0.8 is usual")


def _power(effect: float, n_a: float, n_b: float) -> float:
    """The power of the two-sided t test; 1 where statsmodels' t distribution runs over."""
    from statsmodels.stats.power import TTestIndPower

    with np.errstate(all="ignore"):
        found = TTestIndPower().power(effect, n_a, 1 - CONFIDENCE, ratio=n_b / n_a)
    return 1.0 if np.isnan(found) else float(found)


def _power_of_blocks(effect: float, nr_blocks: float) -> float:
    """As `_power`, of the two-sided t test of one sample: the logarithms within blocks."""
    from statsmodels.stats.power import TTestPower

    with np.errstate(all="ignore"):
        found = TTestPower().power(effect, nr_blocks, 1 - CONFIDENCE)
    return 1.0 if np.isnan(found) else float(found)
