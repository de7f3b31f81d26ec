"""Goal: an interval holds the truth although the noise of the first pairs said how many there are.

Method: closed forms, and campaigns of known truth from a seed, planned as `schedlab tune` plans.
"""

import numpy as np
import pytest
from schedlab.statistics.estimates import paired_ratio
from schedlab.statistics.power import runs_needed
from schedlab.statistics.two_stage import two_stage_ratio
from schedlab.tuning.verdict import FRESH_LEAST, FRESH_MOST, LOSS_MAX
from scipy import stats

SEED = 20261127
NR_CAMPAIGNS, NR_CALLED = 40_000, 400
# With this noise the number of pairs that it asks for varies most between both bounds.
NOISE = 0.08


def pairs(random, nr, noise=0.1, log_ratio=0.2):
    base = np.exp(random.normal(0, 1, nr))
    return base * np.exp(random.normal(log_ratio, noise, nr)), base


@pytest.mark.parametrize("shares", [1, 5])
def test_the_mean_is_of_all_pairs_and_the_noise_of_the_first(shares):
    a, b = pairs(np.random.default_rng(SEED), 30)
    found = two_stage_ratio(a, b, 10, shares)
    logs = np.log(a) - np.log(b)
    error = np.std(logs[:10], ddof=1) / np.sqrt(30)
    for low, high, level in (
        (found.low, found.high, 0.05 / shares),
        (found.equivalence_low, found.equivalence_high, 0.10 / shares),
    ):
        half = stats.t.ppf(1 - level / 2, 9) * error
        assert np.log([low, high]) == pytest.approx([np.mean(logs) - half, np.mean(logs) + half])
    p_value = shares * 2 * stats.t.sf(abs(np.mean(logs)) / error, 9)
    assert found.p_value == pytest.approx(min(1, p_value))
    assert found.log_error == pytest.approx(error)
    assert (found.n_a, found.ratio) == (30, paired_ratio(a, b).ratio)


@pytest.mark.parametrize("nr_first", [0, 2, 30, 31])
def test_it_is_the_usual_interval_where_nothing_was_added_by_noise(nr_first):
    a, b = pairs(np.random.default_rng(SEED), 30)
    assert two_stage_ratio(a, b, nr_first, 3) == paired_ratio(a, b, 3)


def test_first_pairs_of_one_ratio_do_not_make_others_exact():
    a, b = pairs(np.random.default_rng(SEED), 30)
    a[:10] = 1.5 * b[:10]
    found = two_stage_ratio(a, b, 10)
    assert found == paired_ratio(a, b) and found.low < found.ratio < found.high


def needed(noises):
    """How many pairs each noise asks for: `runs_needed` within the bounds of a judgement, by the
    noises at which it makes a step."""
    largest = []
    for count in range(FRESH_LEAST, FRESH_MOST):
        low, high = 0.0, 1.0
        for _ in range(14):
            middle = (low + high) / 2
            is_enough = (runs_needed(middle, LOSS_MAX, in_blocks=True) or count + 1) <= count
            low, high = (middle, high) if is_enough else (low, middle)
        largest.append(low)
    return FRESH_LEAST + np.searchsorted(largest, noises)


def test_it_misses_the_truth_in_a_twentieth_where_the_usual_interval_misses_it_more_often():
    """The closed form of the interval, which is that of the function in the first campaigns."""
    logs = np.random.default_rng(SEED).normal(0, NOISE, (NR_CAMPAIGNS, FRESH_MOST))
    noise = np.std(logs[:, :FRESH_LEAST], axis=1, ddof=1)
    nr = needed(noise)
    is_made = np.arange(FRESH_MOST) < nr[:, None]
    means = np.mean(logs, axis=1, where=is_made)
    is_missed = abs(means) > stats.t.ppf(0.975, FRESH_LEAST - 1) * noise / np.sqrt(nr)
    of_all = np.std(logs, axis=1, ddof=1, where=is_made)
    is_missed_usually = abs(means) > stats.t.ppf(0.975, nr - 1) * of_all / np.sqrt(nr)
    assert 0.045 < np.mean(is_missed) <= 0.055, f"seed {SEED}"
    # Else all of this would be in vain.
    assert np.mean(is_missed_usually) > 0.06, f"seed {SEED}"
    for at in range(NR_CALLED):
        times = np.exp(logs[at, : nr[at]])
        found = two_stage_ratio(times, np.ones(nr[at]), FRESH_LEAST)
        assert (found.direction != 0) == is_missed[at]
    assert 0 < np.sum(is_missed[:NR_CALLED]) < np.sum(is_missed_usually[:NR_CALLED])
