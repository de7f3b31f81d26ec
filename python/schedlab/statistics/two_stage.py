"""A ratio of pairs of which the first said, by their noise, how many there are to be.

The noise of the first pairs says nothing of the mean of any, so to add as many as it asks for sways
no mean. But first ones that happen to be alike ask for few, and stay a large part of all: the noise
of all pairs is then too small more often than too large, and Student's interval by it misses the
truth in up to 6.4 of 100 cases (10 to 50 pairs). With the noise of the first ones alone it misses
it in 5, whatever the noise is.

Source: C. Stein, "A two-sample test for a linear hypothesis whose power is independent of the
variance", Annals of Mathematical Statistics 16, 1945.
"""

import numpy as np
from numpy.typing import ArrayLike

from schedlab.statistics.estimates import (
    RUNS_FOR_INTERVAL_MIN,
    Ratio,
    Student,
    bounded_ratio,
    paired_ratio,
)
from schedlab.statistics.samples import ratios_do_not_vary


def two_stage_ratio(a: ArrayLike, b: ArrayLike, nr_first: int, shares: int = 1) -> Ratio:
    """As `estimates.paired_ratio`, where the noise of the first `nr_first` pairs said how many
    there are: the mean is that of all pairs, noise and degrees of freedom are those of the first.

    It is `paired_ratio` itself where no pair was added. So it is where the first pairs have no
    noise that could have said anything: of one ratio, or fewer than `RUNS_FOR_INTERVAL_MIN`.
    """
    usual = paired_ratio(a, b, shares)
    log_a, log_b = np.log(a), np.log(b)
    if not RUNS_FOR_INTERVAL_MIN <= nr_first < log_a.size:
        return usual
    if ratios_do_not_vary(log_a[:nr_first], log_b[:nr_first]):
        return usual
    logs, first = log_a - log_b, (log_a - log_b)[:nr_first]
    error = float(np.std(first, ddof=1)) / logs.size**0.5
    found = Student(float(np.mean(logs)), error, first.size - 1)
    sizes = (logs.size, logs.size)
    return bounded_ratio(sizes, usual.ratio, found.interval, found.degrees, found.p_value, shares)
