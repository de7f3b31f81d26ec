"""Goal: who looks again and again whether a comparison is clear claims no more than who looks once.

Method: closed forms, and campaigns of known truth from a seed.
"""

import numpy as np
import pytest
from schedlab.statistics import stopping
from schedlab.statistics.estimates import (
    RARE,
    Verdict,
    compare_to_stop,
    paired_ratio,
    ratio,
    runs_until_exact,
)
from scipy import stats

SEED = 20261127
NR_CAMPAIGNS = 200
MOST = 27
THRESHOLD = 0.01
# A twentieth, and three standard errors of what so many campaigns say of it.
BOUND = 0.05 + 3 * (0.05 * 0.95 / NR_CAMPAIGNS) ** 0.5
# Small enough that what is the same is called so.
SD_SMALL = 0.006


def test_an_interval_has_its_share_of_the_error():
    random = np.random.default_rng(SEED)
    a, b = np.exp(random.normal(0, 0.1, (2, 12)))
    found = ratio(a, b, shares=8)
    test = stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
    low, high = np.exp(test.confidence_interval(1 - 0.05 / 8))
    assert (found.low, found.high) == pytest.approx((low, high))
    low, high = np.exp(test.confidence_interval(1 - 0.10 / 8))
    assert (found.equivalence_low, found.equivalence_high) == pytest.approx((low, high))
    assert found.p_value == pytest.approx(min(1, 8 * test.pvalue))
    assert ratio(a, b, shares=1) == ratio(a, b)
    assert found.log_error == ratio(a, b).log_error


def test_runs_are_compared_seed_by_seed():
    random = np.random.default_rng(SEED)
    base, own = np.exp(random.normal(0, [[0.5], [0.001]], (2, 8)))
    found = compare_to_stop({"b": (base * own * 1.03, base)}, THRESHOLD, 8)["b"]
    assert found.ratio == paired_ratio(base * own * 1.03, base, 8)
    # What chance does to both alike would hide it otherwise.
    assert found.verdict is Verdict.SLOWER
    assert ratio(base * own * 1.03, base, 8).direction == 0


@pytest.mark.parametrize("shares", [1, 9, 36])
def test_equal_runs_are_exact_once_a_rare_one_would_have_been_met(shares):
    n, allowed = runs_until_exact(shares), 0.05 / shares
    assert (1 - RARE) ** n <= allowed < (1 - RARE) ** (n - 1)
    times = np.random.default_rng(SEED).uniform(1, 2, n)
    for a, b in ((np.ones(n), np.ones(n)), (times, times)):
        early, late = (
            compare_to_stop({"b": (a[:nr], b[:nr])}, THRESHOLD, shares)["b"] for nr in (n - 1, n)
        )
        assert early.verdict is Verdict.INCONCLUSIVE and early.ratio.low is None
        assert late.verdict is Verdict.SAME and late.ratio.high == 1
        known = compare_to_stop({"b": (a[:3], b[:3])}, THRESHOLD, shares, {"b"})["b"]
        assert known.verdict is Verdict.SAME


@pytest.mark.parametrize("is_common", [False, True])
@pytest.mark.parametrize("slow", [1.5, 1.05])
def test_times_of_two_values_are_called_the_same_wrongly_in_less_than_a_twentieth(slow, is_common):
    """In three runs of ten a time is longer, under the other policy in one of ten."""
    random, looks = np.random.default_rng(SEED), stopping.looks_until_clear(5, 100)
    nr_wrong = 0
    for _ in range(NR_CAMPAIGNS):
        chance = random.random((2, 100))
        a, b = np.where(chance[0] < 0.1, slow, 1), np.where(chance[1 - is_common] < 0.3, slow, 1)
        for n in looks:
            word = compare_to_stop({"b": (b[:n], a[:n])}, 0.008, len(looks))["b"].verdict
            if word is not Verdict.INCONCLUSIVE:
                break
        nr_wrong += word in (Verdict.SAME, Verdict.FASTER)
    assert nr_wrong / NR_CAMPAIGNS <= BOUND, f"seed {SEED}"


def test_looks_begin_where_there_is_an_interval_and_end_at_the_most():
    assert stopping.looks_until_clear(5, 100) == [5, 8, 12, 18, 27, 41, 62, 93, 100]
    assert stopping.looks_until_clear(1, 10) == [3, 5, 8, 10]
    assert stopping.looks_until_clear(5, 5) == [5]
    assert stopping.looks_until_clear(1, 2) == [2]


def ending(random, logs, looks, sd):
    """The words for three policies against a fourth, each at the first look where it has one."""
    samples = np.exp(
        random.normal(0, sd, (4, looks[-1])) + np.array([[0], *([one] for one in logs)])
    )
    words = dict.fromkeys((1, 2, 3), Verdict.INCONCLUSIVE)
    for n in looks:
        is_open = [of for of in words if words[of] is Verdict.INCONCLUSIVE]
        pairs = {of: (samples[of, :n], samples[0, :n]) for of in is_open}
        found = compare_to_stop(pairs, THRESHOLD, 3 * len(looks))
        words |= {of: found[of].verdict for of in is_open}
    return [*words.values()]


def rate(logs, wrong, sd=0.05, most=MOST):
    """How often any of the words is one of those that are wrong."""
    random, looks = np.random.default_rng(SEED), stopping.looks_until_clear(5, most)
    ends = [ending(random, logs, looks, sd) for _ in range(NR_CAMPAIGNS)]
    return sum(bool({*words} & wrong) for words in ends) / NR_CAMPAIGNS


def test_where_nothing_differs_a_difference_is_claimed_in_less_than_a_twentieth():
    different = {Verdict.FASTER, Verdict.SLOWER}
    assert rate([0, 0, 0], different) <= 0.05, f"seed {SEED}"


@pytest.mark.parametrize("most", [5, 8, MOST])
@pytest.mark.parametrize("sd", [0.004, SD_SMALL])
def test_what_differs_by_the_threshold_is_called_the_same_in_less_than_a_twentieth(most, sd):
    margin = np.log1p(THRESHOLD)
    wrong = {Verdict.SAME, Verdict.FASTER}
    assert rate([margin] * 3, wrong, sd, most) <= BOUND, f"seed {SEED}"


@pytest.mark.parametrize("share", [0.8, 0.9, 0.99])
def test_what_differs_by_less_than_the_threshold_is_said_to_do_in_less_than_a_twentieth(share):
    """Its estimate is beyond at some look."""
    less = share * np.log1p(THRESHOLD)
    wrong = {Verdict.SLOWER, Verdict.FASTER}
    assert rate([less, less, -less], wrong, 0.005, 41) <= BOUND, f"seed {SEED}"


def test_runs_that_are_added_to_one_pair_leave_the_others_as_they_are():
    random = np.random.default_rng(SEED)
    a, b, c = np.exp(random.normal(0, 0.1, (3, 10)))
    both, alone = ({"b": (b, a), "c": (c[:n], a[:n])} for n in (10, 3))
    assert compare_to_stop(both, 0.01, 6)["b"] == compare_to_stop(alone, 0.01, 6)["b"]


def test_what_differs_by_much_is_found():
    assert rate([0.2, 0.2, -0.2], {Verdict.INCONCLUSIVE, Verdict.SAME}) == 0


def test_without_the_correction_looking_again_and_again_would_claim_more():
    """Else all of this would be in vain."""
    random, looks = np.random.default_rng(SEED), stopping.looks_until_clear(5, MOST)
    claims = {1: 0, len(looks): 0}
    for _ in range(NR_CAMPAIGNS):
        a, b = np.exp(random.normal(0, 0.2, (2, looks[-1])))
        for correction in claims:
            words = [
                compare_to_stop({"a": (a[:n], b[:n])}, THRESHOLD, correction)["a"].verdict
                for n in looks
            ]
            claims[correction] += bool({*words} & {Verdict.FASTER, Verdict.SLOWER})
    assert claims[1] / NR_CAMPAIGNS > 0.08
    assert claims[len(looks)] / NR_CAMPAIGNS <= 0.05
