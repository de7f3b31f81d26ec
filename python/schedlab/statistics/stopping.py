"""When to stop measuring, by a rule that is not swayed by what is found.

Stopping at the first "significant" difference finds differences where there are none. So each look
gets its share of the 5 % that may go wrong (Bonferroni's bound): the last interval holds its 95 %,
also where one stops because of what it says.

Values are positive and finite; a target is half the relative width of the interval of their mean
logarithm, 0.01 is 1 % either way; `runs_max` is how many runs there may be, and so how many looks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from schedlab.statistics.estimates import CONFIDENCE, RUNS_FOR_INTERVAL_MIN
from schedlab.statistics.samples import Sample, positive

# Runs until the first look, and between two, where a width is asked for.
RUNS_MIN = 10
LOOK_EVERY = 5
# Beyond this a number of runs is told as "more than".
RUNS_TOLD_MAX = 1_000_000


@dataclass(frozen=True)
class Width:
    """How well a mean is known: `half_width` is relative, None for fewer than two runs;
    `runs_needed` to reach the target with this noise, None where none is needed."""

    n: int
    half_width: float | None
    is_narrow: bool
    runs_needed: int | None


def looks(runs_max: int) -> list[int]:
    """After how many runs the width is looked at."""
    return [*range(RUNS_MIN, runs_max, LOOK_EVERY), runs_max]


def looks_until_clear(first: int, most: int) -> list[int]:
    """After how many runs it is looked whether a comparison is clear: at `first`, but not before
    there is an interval, and each time after half as many again, which are few looks."""
    numbers = [min(max(first, RUNS_FOR_INTERVAL_MIN), most)]
    while numbers[-1] < most:
        numbers.append(min(numbers[-1] + math.ceil(numbers[-1] / 2), most))
    return numbers


def width(values: Sequence[float], target: float, runs_max: int) -> Width:
    """Whether the mean of the logarithms is known to `target`."""
    n = len(values)
    if n < 2:
        return Width(n, None, False, None)
    logs = np.log(positive("values", values))

    def excess(runs: float) -> float:
        return _half_width(logs, runs, runs_max) - target

    half_width, needed = _half_width(logs, n, runs_max), None
    if half_width > target:
        needed = RUNS_TOLD_MAX
        if excess(RUNS_TOLD_MAX) <= 0:
            needed = math.ceil(scipy.optimize.brentq(excess, n, RUNS_TOLD_MAX))
    return Width(n, half_width, half_width <= target, needed)


def settled(values: Sequence[float], target: float, runs_max: int) -> bool:
    """Whether measuring may stop: the interval was narrow enough at a look, or all runs are made.

    Asks for every number of runs at which it would have been looked, so that a campaign that goes
    on decides as one that was never stopped.
    """
    if len(values) >= runs_max:
        return True
    seen = [n for n in looks(runs_max) if n <= len(values)]
    # Asked before every run, so the runs that are still needed are not computed.
    logs = np.log(positive("values", values)) if seen else ()
    return any(_half_width(logs[:n], n, runs_max) <= target for n in seen)


def _half_width(logs: Sample, n: float, runs_max: int) -> float:
    """Of `n` runs that vary as these do; all looks together have the error that is allowed."""
    level = 1 - (1 - CONFIDENCE) / (2 * len(looks(runs_max)))
    return float(np.expm1(scipy.stats.t.ppf(level, n - 1) * np.std(logs, ddof=1) / np.sqrt(n)))
