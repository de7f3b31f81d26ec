"""Goal: the noise floor is what a setup differs from itself by, and runs that are like their
neighbours count as fewer. Method: closed forms, Welch's test by SciPy, made-up samples whose truth
is known.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedlab.errors import BadValue
from schedlab.statistics.blocks import Blocked
from schedlab.statistics.estimates import Ratio, Verdict, paired_ratio, ratio, verdict
from schedlab.statistics.evidence import Method, compare_groups
from schedlab.statistics.independence import dependent_paired_ratio, dependent_ratio, independence
from schedlab.statistics.noise_floor import CHANGE_MAX, Null, noise_floor
from scipy import stats

SEED = 20261122
TIMES = st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=12)


def test_two_occasions_each_give_the_critical_difference_of_a_hand():
    """Means of logarithms 0 and 0.02, 0 and 0.04: squares 0.0002 + 0.0008 over two degrees."""
    a, b = np.exp([0.0, 0.0, 0.02, 0.02]), np.exp([0.0, 0.04])
    found = noise_floor(a, b, "xxyy", "pq")
    # Student's t of two degrees has a closed form: t = c sqrt(2 / (1 - c²)) with c = 0.95.
    t = 0.95 * math.sqrt(2 / (1 - 0.95**2))
    assert found.change == pytest.approx(math.expm1(t * math.sqrt(0.001 / 2)))
    assert found.of is Null.OCCASIONS


@settings(deadline=None)
@given(a=TIMES, b=TIMES)
def test_of_one_occasion_a_run_it_is_half_of_the_pooled_interval(a, b):
    """A second implementation: SciPy's t test with one variance, whose interval is as wide."""
    found = noise_floor(a, b, range(len(a)), range(len(b)))
    logs = np.log(a), np.log(b)
    low, high = stats.ttest_ind(*logs).confidence_interval()
    if np.ptp(logs[0]) < 1e-9 or np.ptp(logs[1]) < 1e-9:
        return  # Equal to rounding, of which SciPy makes something.
    assert math.log1p(found.change) == pytest.approx(
        min((high - low) / 2, math.log(CHANGE_MAX)), rel=1e-6
    )


def test_one_occasion_alone_is_halved_and_too_few_runs_have_no_floor():
    a, b = np.exp([0.0] * 3 + [0.02] * 3), np.exp([0.0] * 6)
    found = noise_floor(a, b, "x" * 6, "y" * 6)
    t = 0.95 * math.sqrt(2 / (1 - 0.95**2))
    assert found.of is Null.HALVES
    assert found.change == pytest.approx(math.expm1(t * math.sqrt(0.0002 / 2)))
    assert noise_floor(a[:5], b[:5], "x" * 5, "y" * 5) is None


def test_occasions_that_are_not_those_of_the_runs_are_refused():
    with pytest.raises(BadValue, match="occasions of sample 'a'"):
        noise_floor([1.0, 2.0], [1.0, 2.0], "x", "yy")


def test_a_floor_stands_in_the_way_of_claims_and_makes_nothing_the_same():
    seen = Ratio(9, 9, 1.03, 1.02, 1.04, 0.001, 1.022, 1.038, 0.005)
    assert verdict(seen, 0.001) is Verdict.SLOWER
    assert verdict(seen, 0.001, floor=0.029) is Verdict.SLOWER
    assert verdict(seen, 0.001, floor=0.031) is Verdict.INCONCLUSIVE


def claims_of_nothing(nr, with_occasions):
    """How many of some pairs that do not differ, but whose occasions do, are told to."""
    generator = np.random.default_rng(SEED)
    claims = 0
    for _ in range(nr):
        samples, occasions = {}, {}
        for name in "ab":
            boots = np.repeat(generator.normal(0, 0.03, 2), 5)
            samples[name] = np.exp(boots + generator.normal(0, 0.002, 10))
            occasions[name] = [0] * 5 + [1] * 5
        told = occasions if with_occasions else None
        [pair] = compare_groups(samples, baseline="a", method=Method.WELCH, occasions=told).pairs
        claims += pair.word in ("faster", "slower")
    return claims


def test_of_boots_that_differ_one_in_twenty_is_called_different():
    """A floor of 95 %: of 60 pairs 3 are expected, and above 9 there are in 0.1 % of cases."""
    assert stats.binom.sf(9, 60, 0.05) < 0.001
    assert claims_of_nothing(60, True) <= 9
    assert claims_of_nothing(60, False) > 20


def alike(n, generator, r=0.8, sd=0.02):
    """A first-order series of logarithms."""
    logs = [generator.normal(0, sd)]
    for _ in range(n - 1):
        logs.append(r * logs[-1] + generator.normal(0, sd * math.sqrt(1 - r * r)))
    return np.array(logs)


@given(a=TIMES, b=TIMES)
def test_runs_that_are_worth_themselves_are_compared_as_ever(a, b):
    if np.ptp(np.log(a)) < 1e-6 or np.ptp(np.log(b)) < 1e-6:
        return
    found, plain = dependent_ratio(a, b, len(a), len(b)), ratio(a, b)
    names = ("ratio", "low", "high", "equivalence_low", "equivalence_high", "log_error")
    for name in names:
        assert getattr(found, name) == pytest.approx(getattr(plain, name), rel=1e-6)
    assert found.p_value == pytest.approx(plain.p_value, rel=1e-6, abs=1e-12)


def test_blocks_that_are_worth_themselves_are_compared_as_ever():
    generator = np.random.default_rng(SEED)
    a, b = np.exp(generator.normal(0, 0.1, (2, 9)))
    found, plain = dependent_paired_ratio(np.log(a) - np.log(b), 9), paired_ratio(a, b)
    assert (found.ratio, found.low, found.high, found.p_value) == pytest.approx(
        (plain.ratio, plain.low, plain.high, plain.p_value)
    )


def test_neighbours_that_are_alike_widen_the_interval_to_that_of_fewer_runs():
    generator = np.random.default_rng(SEED)
    samples = {"a": np.exp(alike(40, generator)), "b": np.exp(generator.normal(0, 0.02, 40))}
    worth = independence(samples["a"]).n_effective
    assert worth < 20
    found = compare_groups(samples, baseline="b")
    [pair] = found.pairs
    # By hand: a mean of n' runs has the error sqrt(SS / n / (n' - 1)).
    squares = [np.var(np.log(samples[name])) / (n - 1) for name, n in (("a", worth), ("b", 40))]
    assert pair.ratio.log_error == pytest.approx(math.sqrt(sum(squares)))
    assert (pair.method, pair.ratio.n_a, pair.resampled) == (Method.WELCH, 40, None)
    assert "counted as those that they are worth" in str(found.why)
    asked = compare_groups(samples, baseline="b", method=Method.WELCH).pairs[0]
    assert asked.ratio.log_error < pair.ratio.log_error
    assert pair.detectable > asked.detectable and pair.runs_needed > asked.runs_needed


def test_ratios_within_blocks_that_are_alike_are_worth_fewer_blocks():
    generator = np.random.default_rng(SEED)
    both = generator.normal(0, 0.3, 40)
    samples = {"a": np.exp(both + alike(40, generator)), "b": np.exp(both)}
    blocks = {name: range(40) for name in samples}
    [pair] = compare_groups(samples, baseline="b", blocks=blocks).pairs
    logs = Blocked(samples["a"], samples["b"], 0).logs
    worth = independence(np.exp(logs)).n_effective
    half = stats.t.ppf(0.975, worth - 1) * math.sqrt(np.var(logs) / (worth - 1))
    bounds = np.exp([np.mean(logs) - half, np.mean(logs) + half])
    assert (pair.ratio.low, pair.ratio.high) == pytest.approx(tuple(bounds))
    assert (pair.method, pair.exchange_p) == (Method.BLOCKS, None)


def test_runs_that_are_worth_fewer_than_three_have_no_interval():
    slow = np.exp(np.linspace(0, 1, 12) ** 2)
    assert independence(slow).n_effective < 3
    found = compare_groups({"a": slow, "b": 2 * slow}, baseline="a")
    assert (found.pairs[0].ratio.low, found.pairs[0].p_adjusted) == (None, None)
    assert found.pairs[0].word == "no difference shown"
