"""Goal: measuring stops when an interval is narrow enough, and the interval then keeps its promise.

Method: closed forms, and a thousand campaigns of known truth from a seed.
"""

import numpy as np
import pytest
from schedlab.errors import BadValue
from schedlab.statistics import stopping
from scipy import stats

SEED = 20260102


def test_a_width_is_students_with_the_error_shared_among_the_looks():
    values = np.exp(np.array([0.0, 0.1, 0.2, 0.1, 0.0, 0.2, 0.1, 0.15, 0.05, 0.1]))
    found = stopping.width(values, 0.01, 15)
    # Two looks, at 10 and at 15 runs: 2.5 % each.
    low, high = stats.t.interval(0.975, 9, scale=stats.sem(np.log(values)))
    assert stopping.looks(15) == [10, 15]
    assert found.half_width == pytest.approx(np.expm1((high - low) / 2))


def test_the_end_of_all_runs_is_a_look_wherever_it_is():
    assert stopping.looks(12) == [10, 12]
    assert stopping.looks(7) == [7]
    values = np.exp(np.random.default_rng(SEED).normal(0, 0.05, 12))
    low, high = stats.t.interval(0.975, 11, scale=stats.sem(np.log(values)))
    assert stopping.width(values, 0.01, 12).half_width == pytest.approx(np.expm1((high - low) / 2))


def test_runs_needed_are_enough_and_one_less_is_not():
    values = np.exp(np.random.default_rng(SEED).normal(0, 0.05, 12))
    needed = stopping.width(values, 0.01, 100).runs_needed
    sd = np.std(np.log(values), ddof=1)
    level = 1 - 0.05 / (2 * len(stopping.looks(100)))

    def width(n):
        return np.expm1(stats.t.ppf(level, n - 1) * sd / np.sqrt(n))

    assert width(needed) <= 0.01 < width(needed - 1)


def test_equal_values_need_no_more_runs():
    assert stopping.width([2.0] * 10, 0.01, 50) == stopping.Width(10, 0.0, True, None)
    assert stopping.settled([2.0] * 10, 0.01, 50)
    assert not stopping.settled([2.0] * 9, 0.01, 50)


def test_the_most_runs_end_it_however_wide_it_is():
    values = [1.0, 2.0] * 10
    assert not stopping.settled(values, 0.001, 21)
    assert stopping.settled(values, 0.001, 20)


def test_a_campaign_that_went_on_stops_where_it_would_have():
    narrow = [1.0] * 10
    assert stopping.settled([*narrow, 9.0, 0.1], 0.01, 50)


def test_a_value_that_is_no_time_is_refused():
    with pytest.raises(BadValue, match="not positive"):
        stopping.width([1.0, 0.0], 0.01, 50)


def test_intervals_at_which_one_stops_hold_the_truth():
    random = np.random.default_rng(SEED)
    missed = campaigns = 0
    for _ in range(1000):
        logs = random.normal(0.0, 0.03, 60)
        for n in stopping.looks(60):
            found = stopping.width(np.exp(logs[:n]), 0.02, 60)
            if found.is_narrow:
                campaigns += 1
                missed += abs(np.mean(logs[:n])) > np.log1p(found.half_width)
                break
    assert campaigns > 900
    assert missed / campaigns < 0.05, f"seed {SEED}"


def test_without_a_run_nothing_is_known_and_nothing_settled():
    assert stopping.width([], 0.01, 50) == stopping.Width(0, None, False, None)
    assert not stopping.settled([], 0.01, 50)
    assert not stopping.settled([1.0], 0.01, 3)
