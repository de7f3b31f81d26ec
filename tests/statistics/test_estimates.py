"""Goal: every number a report rests on. Method: closed forms, SciPy and statsmodels asked for the
same by another way, properties of random samples, and the samples that break naive code.
"""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from schedlab.errors import BadValue
from schedlab.statistics.estimates import (
    QUANTILE_LEVELS,
    Ratio,
    Student,
    Verdict,
    compare_pairs,
    estimate,
    growth_exponent,
    holm,
    log_estimate,
    paired_ratio,
    percent_estimate,
    rank_agreement,
    ratio,
    verdict,
)
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

TIMES = st.floats(1e-6, 1e6)
SAMPLES = st.lists(TIMES, min_size=3, max_size=12)
SWAPPED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def interval(low, high, centre=None):
    """A ratio with the given 95 % interval; its 90 % interval is as wide, so it is conservative."""
    centre = float(np.sqrt(low * high)) if centre is None else centre
    return Ratio(5, 5, centre, low, high, 0.5, low, high)


# --- estimate -------------------------------------------------------------------------------------


def test_the_interval_of_three_values_follows_the_closed_form():
    found = estimate([1.0, 2.0, 3.0])
    half_width = 4.302652729749464 / np.sqrt(3)  # t(0.975, 2 degrees of freedom) * sd / sqrt(n)
    assert (found.n, found.mean, found.median, found.sd) == (3, 2.0, 2.0, 1.0)
    assert found.low == pytest.approx(2 - half_width, rel=1e-12)
    assert found.high == pytest.approx(2 + half_width, rel=1e-12)


def test_quantiles_of_zero_to_ten_are_the_values_themselves():
    assert estimate(range(11)).quantiles == pytest.approx((0, 1, 2.5, 5, 7.5, 9, 10))


@given(SAMPLES)
def test_quantiles_are_those_of_numpy_to_the_last_digit(values):
    assert estimate(values).quantiles == tuple(np.quantile(values, QUANTILE_LEVELS))


@given(SAMPLES)
def test_the_interval_is_that_of_the_one_sample_t_test(values):
    assume(np.ptp(values) > 1e-9 * max(values))
    found = estimate(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-12)


@given(st.lists(TIMES, min_size=1, max_size=20))
def test_quantiles_rise_from_the_smallest_to_the_largest(values):
    found = estimate(values)
    assert len(found.quantiles) == len(QUANTILE_LEVELS)
    assert list(found.quantiles) == sorted(found.quantiles)
    assert (found.quantiles[0], found.quantiles[-1]) == (min(values), max(values))


@given(TIMES, st.integers(3, 9))
def test_equal_values_have_an_interval_without_width(value, n_runs):
    found = estimate([value] * n_runs)
    assert (found.low, found.mean, found.high, found.sd) == (value, value, value, 0.0)


@pytest.mark.parametrize(("values", "sd"), [([2.0], None), ([2.0, 4.0], np.sqrt(2))])
def test_fewer_than_three_runs_have_no_interval(values, sd):
    found = estimate(values)
    assert (found.low, found.high) == (None, None)
    assert found.sd == (None if sd is None else pytest.approx(sd))


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, np.nan], [1.0, np.inf], 3.0])
def test_what_is_not_a_sample_is_refused(values):
    with pytest.raises(BadValue, match="values"):
        estimate(values)


def test_the_interval_covers_the_mean_in_95_of_100_samples():
    random = np.random.default_rng(1963)
    covered = 0
    for _ in range(2000):
        found = estimate(random.normal(10.0, 3.0, size=5))
        covered += found.low <= 10.0 <= found.high
    assert 0.935 < covered / 2000 < 0.965  # three standard errors of a proportion of 0.95


# --- ratio ----------------------------------------------------------------------------------------


@given(SAMPLES, SAMPLES)
def test_the_ratio_is_welch_on_logarithms_as_statsmodels_computes_it(a, b):
    assume(np.ptp(np.log(a)) > 1e-6 and np.ptp(np.log(b)) > 1e-6)
    found = ratio(a, b)
    compared = CompareMeans(DescrStatsW(np.log(a)), DescrStatsW(np.log(b)))
    low, high = compared.tconfint_diff(alpha=0.05, usevar="unequal")
    low_90, high_90 = compared.tconfint_diff(alpha=0.10, usevar="unequal")
    assert np.log([found.low, found.high]) == pytest.approx([low, high], rel=1e-6, abs=1e-6)
    assert np.log([found.equivalence_low, found.equivalence_high]) == pytest.approx(
        [low_90, high_90], rel=1e-6, abs=1e-6
    )
    assert found.p_value == pytest.approx(compared.ttest_ind(usevar="unequal")[1], abs=1e-9)
    assert found.ratio == pytest.approx(stats.gmean(a) / stats.gmean(b), rel=1e-9)


@given(SAMPLES, SAMPLES)
def test_exchanging_the_samples_inverts_the_ratio(a, b):
    forward, backward = ratio(a, b), ratio(b, a)
    assert forward.ratio * backward.ratio == pytest.approx(1)
    assert np.log(forward.low) == pytest.approx(-np.log(backward.high), abs=1e-9)
    assert forward.p_value == pytest.approx(backward.p_value, abs=1e-12)
    there, back = verdict(forward), verdict(backward)
    assert back == SWAPPED.get(there, there)


@given(st.lists(st.floats(0.5, 2.0), min_size=3, max_size=8), st.floats(1e-3, 1e3))
def test_the_unit_of_the_values_does_not_matter(a, unit):
    b = [1.0, 1.5, 1.25]
    in_seconds, scaled = ratio(a, b), ratio(np.multiply(a, unit), np.multiply(b, unit))
    assert scaled.ratio == pytest.approx(in_seconds.ratio, rel=1e-9)
    assert (scaled.low, scaled.high) == pytest.approx((in_seconds.low, in_seconds.high), rel=1e-6)


def test_a_constant_baseline_leaves_the_one_sample_test():
    a, b = [1.0, 1.2, 1.1, 1.3], [2.0, 2.0, 2.0]
    expected = stats.ttest_1samp(np.log(a), np.log(2.0))
    low, high = np.exp(expected.confidence_interval(0.95)) / 2
    found = ratio(a, b)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.p_value == pytest.approx(expected.pvalue)
    assert ratio(b, a).low == pytest.approx(1 / found.high)


@pytest.mark.parametrize(("a", "expected"), [(3.0, (1.5, 0.0)), (2.0, (1.0, 1.0))])
def test_two_constant_samples_give_the_ratio_exactly(a, expected):
    found = ratio([a] * 3, [2.0] * 4)
    assert (found.ratio, found.p_value) == expected
    assert (found.low, found.high) == (found.ratio, found.ratio)


@given(TIMES, st.integers(1, 50))
def test_values_equal_to_rounding_give_no_warning_and_no_nan(value, ulps):
    a = [value, value, value + ulps * np.spacing(value)]
    found = ratio(a, [value] * 3)
    assert np.all(np.isfinite([found.ratio, found.low, found.high, found.p_value]))


@pytest.mark.parametrize(("n_a", "n_b"), [(1, 5), (5, 2), (2, 2)])
def test_a_ratio_of_fewer_than_three_runs_has_no_interval_and_no_verdict(n_a, n_b):
    found = ratio([1.0] * n_a, [2.0] * n_b)
    assert (found.ratio, found.low, found.high, found.p_value) == (pytest.approx(0.5),) + (
        None,
    ) * 3
    assert verdict(found) == Verdict.INCONCLUSIVE


PAIRS = st.integers(3, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.floats(0.5, 2.0), min_size=n, max_size=n)] * 2)
)


@given(PAIRS)
def test_a_paired_ratio_is_students_interval_of_the_ratios_of_pairs(pairs):
    a, b = pairs
    logs = np.log(a) - np.log(b)
    assume(np.ptp(logs) > 1e-6)
    found = paired_ratio(a, b)
    half = stats.t.ppf(0.975, logs.size - 1) * np.std(logs, ddof=1) / np.sqrt(logs.size)
    bounds = [np.mean(logs) - half, np.mean(logs) + half]
    assert np.log([found.low, found.high]) == pytest.approx(bounds, abs=1e-9)
    half_90 = half * stats.t.ppf(0.95, logs.size - 1) / stats.t.ppf(0.975, logs.size - 1)
    assert np.log(found.equivalence_high) == pytest.approx(np.mean(logs) + half_90, abs=1e-9)
    assert found.p_value == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, abs=1e-12)
    assert found.ratio == pytest.approx(ratio(a, b).ratio)


def test_pairs_of_one_ratio_give_it_exactly_though_they_vary():
    found = paired_ratio([1e9, 2e9, 8e9], [2e9, 4e9, 16e9])
    assert (found.ratio, found.low, found.high, found.p_value) == (0.5, 0.5, 0.5, 0.0)
    assert ratio([1e9, 2e9, 8e9], [2e9, 4e9, 16e9]).high > 1


def test_a_paired_interval_covers_the_ratio_in_95_of_100_samples_and_a_bootstrap_does_not():
    random = np.random.default_rng(1908)
    covered = of_bootstrap = 0
    nr_samples = 500
    for _ in range(nr_samples):
        base = random.lognormal(0.0, 1.0, size=5)
        found = paired_ratio(1.5 * base * random.lognormal(0.0, 0.02, size=5), base)
        covered += found.low <= 1.5 <= found.high
        noise = random.normal(0.0, 0.02, size=5)
        resampled = stats.bootstrap(
            (noise,), np.mean, n_resamples=200, method="percentile", random_state=random
        )
        of_bootstrap += resampled.confidence_interval.low <= 0 <= resampled.confidence_interval.high
    assert 0.92 < covered / nr_samples < 0.98  # three standard errors
    assert of_bootstrap / nr_samples < 0.9


def test_fewer_than_three_pairs_have_no_interval_and_no_pairs_are_refused():
    assert paired_ratio([1.0, 3.0], [2.0, 2.0]).low is None
    with pytest.raises(BadValue, match="sample 'a': 3 is not as many values as b has, 4"):
        paired_ratio([1.0] * 3, [2.0] * 4)
    with pytest.raises(BadValue, match=r"sample 'b': 0\.0 is not"):
        paired_ratio([1.0] * 3, [1.0, 0.0, 1.0])


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_a_ratio_of_what_is_not_a_time_is_refused(bad):
    with pytest.raises(BadValue, match="sample 'b'"):
        ratio([1.0, 2.0], [1.0, bad])


# --- verdict --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compared", "word"),
    [
        (interval(0.5, 0.6), Verdict.FASTER),
        (interval(1.2, 1.4), Verdict.SLOWER),
        (interval(0.992, 0.996), Verdict.SAME),  # certain, and too small to matter
        (interval(0.995, 1.005), Verdict.SAME),
        (interval(0.9, 1.1), Verdict.INCONCLUSIVE),
        (interval(0.97, 0.9999), Verdict.FASTER),
        (interval(0.985, 0.999), Verdict.INCONCLUSIVE),  # certain, 0.8 %, perhaps 1.5 %
    ],
)
def test_a_word_needs_evidence_and_size(compared, word):
    assert verdict(compared) == word


def test_a_p_value_that_did_not_survive_correction_takes_the_word_away():
    assert verdict(interval(0.5, 0.6), p_adjusted=0.049) == Verdict.FASTER
    assert verdict(interval(0.5, 0.6), p_adjusted=0.051) == Verdict.INCONCLUSIVE


def test_the_threshold_decides_what_is_worth_a_word():
    assert verdict(interval(1.02, 1.03), threshold=0.01) == Verdict.SLOWER
    assert verdict(interval(1.02, 1.03), threshold=0.05) == Verdict.SAME


@pytest.mark.parametrize("threshold", [0.0, -0.01, np.nan])
def test_a_threshold_must_be_positive(threshold):
    with pytest.raises(BadValue, match="threshold"):
        verdict(interval(1.02, 1.03), threshold=threshold)


# --- holm and the family --------------------------------------------------------------------------


def test_holm_follows_its_definition():
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([]).size == 0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_lies_between_the_raw_value_and_bonferroni(p_values):
    adjusted = holm(p_values)
    assert np.all(adjusted >= np.asarray(p_values) - 1e-15)
    assert np.all(adjusted <= np.minimum(1, np.multiply(p_values, len(p_values))) + 1e-15)


@given(st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.01, 0.02, 1.0]), min_size=1, max_size=20))
def test_holm_is_that_of_statsmodels_to_the_bit(p_values):
    assert np.array_equal(holm(p_values), multipletests(p_values, method="holm")[1])


@pytest.mark.parametrize("p_values", [[-0.1], [1.1], [np.nan], [[0.1]]])
def test_holm_refuses_what_is_no_probability(p_values):
    with pytest.raises(BadValue, match="p values"):
        holm(p_values)


def test_each_policy_is_compared_with_the_first_and_adjusted_together():
    first = [1.00, 1.02, 0.98, 1.01]
    samples = {
        "cfs": [1.10, 1.13, 1.08, 1.12],
        "bfs": [0.80, 0.81, 0.79, 0.80],
        "rfs": [1.0],
    }
    found = compare_pairs({name: (sample, first) for name, sample in samples.items()})
    assert list(found) == ["cfs", "bfs", "rfs"]
    raw = [ratio(samples[name], first).p_value for name in ("cfs", "bfs")]
    assert [found[name].p_adjusted for name in ("cfs", "bfs")] == pytest.approx(list(holm(raw)))
    assert [found[name].verdict.value for name in found] == ["slower", "faster", "inconclusive"]
    assert found["rfs"].p_adjusted is None
    assert compare_pairs({}) == {}


def test_no_more_than_5_in_100_identical_policies_are_given_a_direction():
    random = np.random.default_rng(2009)
    words = [
        found.verdict
        for _ in range(400)
        for found in compare_pairs({"b": random.lognormal(0, 0.1, size=(2, 6))}).values()
    ]
    assert sum(word in SWAPPED for word in words) <= 33  # 20 expected, three standard errors more


# --- growth ---------------------------------------------------------------------------------------


@given(st.floats(-3, 3), st.floats(0.01, 100))
def test_a_power_law_gives_back_its_exponent(exponent, scale):
    x = np.array([25.0, 50, 75, 100, 150, 200])
    found = growth_exponent(x, scale * x**exponent)
    assert found.exponent == pytest.approx(exponent, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((exponent, exponent), abs=1e-5)


def test_the_interval_of_the_exponent_is_that_of_the_regression():
    x, y = np.array([1.0, 2, 4, 8]), np.array([1.0, 2.2, 3.9, 8.5])
    design = np.column_stack([np.ones(4), np.log(x)])
    coefficients, residual, *_ = np.linalg.lstsq(design, np.log(y), rcond=None)
    covariance = np.linalg.inv(design.T @ design) * residual[0] / 2
    half_width = stats.t.ppf(0.975, 2) * np.sqrt(covariance[1, 1])
    found = growth_exponent(x, y)
    assert found.exponent == pytest.approx(coefficients[1])
    assert (found.low, found.high) == pytest.approx(
        (coefficients[1] - half_width, coefficients[1] + half_width)
    )


@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 40), (30, 5)])
@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_students_t_is_that_of_scipy(n, m, confidence):
    rng = np.random.default_rng(n)
    a, b = rng.normal(0.0, 1.0, n), rng.normal(0.3, 2.0, m)
    pairs = [
        (Student.of_two(a, b), stats.ttest_ind(a, b, equal_var=False)),
        (Student.of(a), stats.ttest_1samp(a, 0.0)),
    ]
    for found, expected in pairs:
        assert found.degrees == pytest.approx(expected.df)
        assert found.p_value == pytest.approx(expected.pvalue, abs=1e-12)
        assert found.interval(confidence) == pytest.approx(expected.confidence_interval(confidence))


def test_two_points_give_an_exponent_without_an_interval():
    found = growth_exponent([1, 2], [10, 40])
    assert (found.exponent, found.low, found.high) == (pytest.approx(2), None, None)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        ([2, 2, 2], [1, 2, 3], "same everywhere"),
        ([1, 2], [1, 2, 3], "not as many values"),
        ([0, 1], [1, 2], "sample 'x': 0"),
        ([1, 2], [1, 0], "sample 'y': 0"),
        ([], [], "at least one"),
    ],
)
def test_growth_of_what_has_no_slope_is_refused(x, y, reason):
    with pytest.raises(BadValue, match=reason):
        growth_exponent(x, y)


def test_what_does_not_grow_has_the_exponent_zero():
    found = growth_exponent([1, 2, 4], [0.1, 0.1, 0.1])
    assert (found.exponent, found.low, found.high) == (0, 0, 0)


# --- ranks ----------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12), st.randoms())
def test_rank_agreement_is_kendalls_tau_b_by_its_definition(a, random):
    b = random.sample(a, len(a))
    pairs = [(i, j) for i in range(len(a)) for j in range(i)]
    signs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in pairs]
    untied_a, untied_b = (sum(s[side] != 0 for s in signs) for side in (0, 1))
    found = rank_agreement(a, b)
    if not untied_a or not untied_b:
        assert found is None
        return
    expected = sum(x * y for x, y in signs) / np.sqrt(untied_a * untied_b)
    assert found == pytest.approx(expected)


def test_equal_and_opposite_orders_have_one_and_minus_one():
    assert rank_agreement([1, 2, 5], [10, 30, 31]) == pytest.approx(1)
    assert rank_agreement([1, 2, 5], [3, 2, 1]) == pytest.approx(-1)
    assert rank_agreement([1], [1]) is None


def test_ranks_of_what_is_not_paired_are_refused():
    with pytest.raises(BadValue, match="not as many values"):
        rank_agreement([1, 2], [1, 2, 3])


# --- skewed values --------------------------------------------------------------------------------


@given(
    st.lists(st.floats(1e-3, 1e9), min_size=3, max_size=30).filter(lambda v: max(v) > 1.01 * min(v))
)
def test_a_log_estimate_is_the_estimate_of_the_logarithms(values):
    found = log_estimate(values)
    logs = estimate(np.log(values))
    assert found.mean == pytest.approx(stats.gmean(values))
    assert (found.low, found.high) == pytest.approx((np.exp(logs.low), np.exp(logs.high)))
    assert 0 < found.low <= found.mean <= found.high
    assert found.median == np.median(values)


def test_a_log_estimate_needs_positive_values():
    with pytest.raises(BadValue, match="positive"):
        log_estimate([1.0, 0.0, 2.0])


# --- percentages of what was counted in runs ------------------------------------------------------


def test_where_runs_agree_a_percentage_has_wilsons_interval_of_all_trials():
    found = percent_estimate([5, 5, 5, 5], [50, 50, 50, 50])
    expected = stats.binomtest(20, 200).proportion_ci(0.95, method="wilson")
    assert found.mean == 10
    assert (found.low, found.high) == pytest.approx((100 * expected.low, 100 * expected.high))


@pytest.mark.parametrize("runs", [[0, 0, 0], [0, 0, 1], [1, 9, 0], [9, 10, 10], [10, 10, 10]])
def test_the_interval_of_a_percentage_stays_between_0_and_100_and_has_a_width(runs):
    found = percent_estimate(runs, [10] * len(runs))
    assert 0 <= found.low <= found.mean <= found.high <= 100
    assert found.low < found.high


def test_runs_that_differ_more_than_chance_widen_the_interval():
    alike, apart = (
        percent_estimate(counts, [100] * 4) for counts in ([19, 20, 20, 21], [0, 0, 40, 40])
    )
    assert alike.mean == apart.mean == 20
    assert apart.high - apart.low > 2 * (alike.high - alike.low)


def test_a_percentage_covers_the_truth_though_deadlines_are_missed_in_bursts():
    # Each run has a share of its own: beta-distributed about 5 %.
    random, seed = np.random.default_rng(7), 7
    shares = random.beta(2, 38, size=(2_000, 5))
    intervals = [percent_estimate(random.binomial(200, of), [200] * 5) for of in shares]
    covered = np.mean([found.low <= 5 <= found.high for found in intervals])
    assert covered > 0.92, f"seed {seed}"


def test_a_percentage_of_few_runs_has_no_interval():
    assert percent_estimate([1, 2], [4, 4]).low is None
    assert percent_estimate([1, 2], [4, 2]).mean == 50


@pytest.mark.parametrize(
    ("counts", "totals"), [([3], [2]), ([0], [0]), ([-1], [2]), ([1, 1], [2]), ([], [])]
)
def test_a_count_that_is_not_within_its_total_is_refused(counts, totals):
    with pytest.raises(BadValue, match=r"totals|counts"):
        percent_estimate(counts, totals)
