"""Goal: samples of measured runs get the right test, the right numbers and the right word. Method:
figures that R 4.2.2 printed, pingouin and SciPy as second implementations, random samples whose
truth is known, and samples that break naive code.
"""

import warnings

import numpy as np
import pingouin
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedlab.errors import BadValue, UnknownName
from schedlab.published import rows
from schedlab.statistics import evidence, variance
from schedlab.statistics.effects import cliffs_delta, hedges_g, mean_ratio, median_ratio
from schedlab.statistics.estimates import Verdict, holm, paired_ratio, ratio, verdict
from schedlab.statistics.evidence import Method, compare_groups, over_table
from schedlab.statistics.independence import independence
from schedlab.statistics.power import detectable_change, noise, runs_needed
from scipy import stats

TIMES = st.floats(1e-3, 1e3)
SAMPLES = st.lists(TIMES, min_size=1, max_size=12)
SWAPPED = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def normal_logs(seed, n, centre=0.0, noise_log=0.02):
    """A sample of n times whose logarithms are normal, as far as a test can see."""
    return np.exp(np.random.default_rng(seed).normal(centre, noise_log, size=n))


def pair_of(comparison, a, b):
    """The pair of these names in this order."""
    [pair] = [pair for pair in comparison.pairs if (pair.a, pair.b) == (a, b)]
    return pair


# --- compare_groups: what it computes -------------------------------------------------------------


def test_the_three_kernels_of_2007_are_compared_as_r_compares_them():
    samples: dict[str, list[float]] = {}
    for row in rows("seed003_lat_ctx"):
        samples.setdefault(row["kernel"], []).append(float(row["latency_us"]))
    old, rc6, devel = samples
    found = compare_groups(samples)
    assert found.method is Method.GAMES_HOWELL
    # R, of the logarithms: t.test for ratio, interval and raw p; for the adjusted one
    # ptukey(abs(d) / sqrt((va + vb) / 2), 3, df, lower = FALSE)
    expected = {
        (rc6, old): (1.12008810654, 1.06815115051, 1.17455040498, 0.000103773630134,
                     0.000290430311462, "slower", "+12 % [+7, +17]"),
        (devel, old): (0.965371275734, 0.910459409984, 1.02359500027, 0.221785974746,
                       0.43158099102, "no difference shown", "-3 % [-9, +2]"),
        (devel, rc6): (0.861870838639, 0.816786972221, 0.909443181343, 2.75942053364e-05,
                       7.74863450131e-05, "faster", "-14 % [-18, -9]"),
    }  # fmt: skip
    for names, (centre, low, high, raw, adjusted, word, change) in expected.items():
        pair = pair_of(found, *names)
        assert (pair.ratio.ratio, pair.ratio.low, pair.ratio.high) == pytest.approx(
            (centre, low, high), rel=1e-6
        )
        assert (pair.ratio.p_value, pair.p_adjusted) == pytest.approx((raw, adjusted), abs=1e-6)
        assert (pair.word, pair.change) == (word, change)
    # R: oneway.test(log(latency_us) ~ k)
    assert found.omnibus.p_value == pytest.approx(1.74553509117e-05, abs=1e-6)
    assert found.omnibus.df_within == pytest.approx(17.3812772549, rel=1e-6)
    pooled = compare_groups(samples, method=Method.TUKEY_KRAMER)
    # R: TukeyHSD(aov(log(latency_us) ~ k))
    assert pair_of(pooled, devel, rc6).p_adjusted == pytest.approx(8.46041874214e-06, abs=1e-6)
    assert pair_of(pooled, rc6, old).p_adjusted == pytest.approx(3.45671063990e-04, abs=1e-6)


def test_letters_are_shared_by_those_that_are_not_shown_to_differ():
    # The plants of R: only trt1 and trt2 differ, and ctrl from neither.
    plants = {
        "ctrl": [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
        "trt1": [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
        "trt2": [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
    }
    found = compare_groups(plants, method=Method.TUKEY_KRAMER)
    assert found.letters() == {"ctrl": "ab", "trt1": "a", "trt2": "b"}
    with pytest.raises(BadValue, match="each with each"):
        compare_groups(plants, baseline="ctrl").letters()


def test_more_groups_than_letters_are_refused(monkeypatch):
    monkeypatch.setattr(evidence, "ascii_letters", "ab")
    samples = {f"s{at}": [10.0**at * (1 + 0.001 * k) for k in range(4)] for at in range(3)}
    found = compare_groups(samples)
    with pytest.raises(BadValue, match="need 3 letters, of which there are 2"):
        found.letters()


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(max_examples=20, deadline=None)
def test_two_samples_share_a_letter_if_and_only_if_they_are_not_shown_to_differ(seed, nr):
    samples = {name: normal_logs(seed + at, 5, 0.02 * at) for at, name in enumerate("abcdef"[:nr])}
    found = compare_groups(samples)
    letters = found.letters()
    for pair in found.pairs:
        differs = pair.p_adjusted < evidence.SIGNIFICANT
        assert differs == set(letters[pair.a]).isdisjoint(letters[pair.b]), (letters, pair)
    assert all(letters.values())


def test_against_a_baseline_each_is_tested_by_welch_and_adjusted_by_holm():
    samples = {name: normal_logs(seed, 9, 0.01 * seed) for seed, name in enumerate("abcd")}
    found = compare_groups(samples, baseline="b")
    assert found.method is Method.WELCH
    assert [(pair.a, pair.b) for pair in found.pairs] == [("a", "b"), ("c", "b"), ("d", "b")]
    raw = [ratio(samples[name], samples["b"]).p_value for name in "acd"]
    assert [pair.ratio.p_value for pair in found.pairs] == pytest.approx(raw)
    assert [pair.p_adjusted for pair in found.pairs] == pytest.approx(list(holm(raw)))


def test_two_samples_are_compared_by_welch_alone():
    samples = {"cfs": normal_logs(1, 10), "bfs": normal_logs(2, 12, -0.1)}
    found = compare_groups(samples)
    pair = pair_of(found, "bfs", "cfs")
    test = stats.ttest_ind(np.log(samples["bfs"]), np.log(samples["cfs"]), equal_var=False)
    assert pair.p_adjusted == pair.ratio.p_value == pytest.approx(test.pvalue)
    assert pair.verdict is Verdict.FASTER
    assert "Welch" in str(found.why) and "Holm" not in str(found.why)


def test_one_outlier_makes_ranks_and_medians_decide():
    samples = {"cfs": normal_logs(1, 12), "bfs": normal_logs(2, 12, -0.1)}
    samples["cfs"][3] = 9.0
    found = compare_groups(samples)
    assert found.method is Method.RANKS
    assert "cfs are far from normal" in str(found.why)
    pair = pair_of(found, "bfs", "cfs")
    assert pair.ratio.ratio == pytest.approx(np.median(samples["bfs"]) / np.median(samples["cfs"]))
    test = stats.mannwhitneyu(samples["bfs"], samples["cfs"])
    assert pair.p_adjusted == pytest.approx(test.pvalue)
    assert pair.verdict is Verdict.FASTER
    assert 3 in found.independence["cfs"].outliers
    assert any(note.startswith("cfs: run") and "far from" in note for note in found.notes)
    # With the mean, one run of twelve would decide that nothing can be said.
    assert verdict(ratio(samples["bfs"], samples["cfs"])) is Verdict.INCONCLUSIVE


def test_three_odd_samples_are_compared_by_dunn_and_holm():
    random = np.random.default_rng(4)
    samples = {name: random.exponential(size=15) ** 3 + 0.01 for name in "abc"}
    samples["a"][0] = 1e9
    found = compare_groups(samples, baseline="a")
    assert found.method is Method.RANKS and "Dunn" in str(found.why)
    raw = variance.dunn({name: np.log(sample) for name, sample in samples.items()})
    assert [pair.ratio.p_value for pair in found.pairs] == [raw["a", "b"], raw["a", "c"]]
    assert [pair.p_adjusted for pair in found.pairs] == pytest.approx(
        list(holm([raw["a", "b"], raw["a", "c"]]))
    )
    assert found.omnibus.test == "Kruskal-Wallis"


def test_in_blocks_what_disturbs_both_alike_does_not_hide_the_difference():
    disturbed = normal_logs(8, 12, noise_log=0.3)
    samples = {"cfs": disturbed * normal_logs(9, 12), "bfs": disturbed * normal_logs(7, 12, -0.05)}
    apart = compare_groups(samples, method=Method.WELCH).pairs[0]
    blocked = compare_groups(samples, method=Method.BLOCKS).pairs[0]
    assert (apart.verdict, blocked.verdict) == (Verdict.INCONCLUSIVE, Verdict.FASTER)
    assert blocked.ratio == paired_ratio(samples["bfs"], samples["cfs"])


@pytest.mark.parametrize(("differs", "says"), [(0.02, "does not show"), (0.2, "shows")])
def test_the_reason_tells_whether_variances_differ(differs, says):
    samples = {"a": normal_logs(11, 15), "b": normal_logs(12, 15, noise_log=differs)}
    assert f"Brown and Forsythe's test {says} that variances differ" in str(
        compare_groups(samples).why
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(SAMPLES, min_size=2, max_size=4), st.booleans())
def test_any_times_get_an_answer_without_warning_and_without_nan(groups, with_baseline):
    samples = {str(place): group for place, group in enumerate(groups)}
    found = compare_groups(samples, baseline="0" if with_baseline else None)
    assert "nan" not in repr(found) and "inf," not in repr(found)
    assert str(found.why).endswith(".")
    for pair in found.pairs:
        enough = min(len(samples[pair.a]), len(samples[pair.b])) >= 3
        assert enough or (pair.ratio.low, pair.p_adjusted) == (None, None)
        assert enough or pair.word == "no difference shown"


@settings(max_examples=15, deadline=None)
@given(SAMPLES, SAMPLES)
def test_who_is_named_first_does_not_matter(a, b):
    forward = compare_groups({"a": a, "b": b}).pairs[0]
    backward = compare_groups({"b": b, "a": a}).pairs[0]
    assert forward.ratio.ratio == pytest.approx(1 / backward.ratio.ratio)
    assert forward.verdict == SWAPPED.get(backward.verdict, backward.verdict)


# --- compare_groups: what it refuses and what it cannot say ---------------------------------------


def test_too_few_runs_get_a_ratio_and_no_word():
    found = compare_groups({"cfs": [2.0, 2.1], "bfs": [1.0, 1.0, 1.0]})
    pair = found.pairs[0]
    assert found.method is Method.NONE and "two samples of at least 3 runs" in str(found.why)
    assert pair.change == "-51.2 % (no interval)"
    assert pair.word == "no difference shown"
    assert "cfs: 2 of the 3 runs that an interval takes" in found.notes


def test_a_sample_too_small_does_not_take_the_others_test_away():
    samples = {"a": normal_logs(1, 9), "b": normal_logs(2, 9, 0.3), "c": [5.0]}
    found = compare_groups(samples)
    assert pair_of(found, "b", "a").word == "slower"
    assert pair_of(found, "c", "a").p_adjusted is None


@pytest.mark.parametrize("bad", [[], [1.0, np.nan], [0.0, 1.0], [-1.0], [[1.0]], ["x"], None])
def test_what_is_no_sample_of_times_is_refused(bad):
    with pytest.raises(BadValue, match="sample 'bfs'") as refused:
        compare_groups({"cfs": [1.0, 2.0], "bfs": bad})
    assert refused.value.hint


def test_what_contradicts_the_samples_is_refused():
    samples = {"cfs": [1.0, 2.0, 3.0], "bfs": [1.0, 1.0, 1.0], "o1": [1.0] * 4}
    with pytest.raises(UnknownName, match="'cfs2'"):
        compare_groups(samples, baseline="cfs2")
    for threshold in (0, -0.01, np.nan):
        with pytest.raises(BadValue, match="threshold"):
            compare_groups(samples, threshold=threshold)
    for method in (Method.GAMES_HOWELL, Method.RANKS, Method.BLOCKS, Method.NONE):
        with pytest.raises(BadValue, match="method"):
            compare_groups(samples, method=method)
    constant = {"a": [1.0] * 3, "b": [2.0] * 3}
    with pytest.raises(BadValue, match="method"):
        compare_groups(constant, method=Method.TUKEY_KRAMER)


def test_one_sample_alone_has_no_pairs():
    assert compare_groups({"cfs": [1.0, 2.0, 3.0]}).pairs == ()


# --- over a table ---------------------------------------------------------------------------------


def test_over_a_table_p_values_are_adjusted_by_benjamini_and_hochberg():
    pairs = [
        compare_groups(
            {"cfs": normal_logs(seed, 8), "bfs": normal_logs(100 + seed, 8, -0.03 * (seed > 5))}
        ).pairs[0]
        for seed in range(10)
    ]
    table = over_table(pairs)
    raw = [pair.p_adjusted for pair in pairs]
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05, 0.001), "BH")
    assert stats.false_discovery_control([0.01, 0.02, 0.03, 0.04, 0.05, 0.001]) == pytest.approx(
        [0.030, 0.040, 0.045, 0.048, 0.050, 0.006]
    )
    assert [p_value for p_value, _ in table] == pytest.approx(stats.false_discovery_control(raw))
    for pair, (p_value, word) in zip(pairs, table, strict=True):
        assert p_value >= pair.p_adjusted
        assert word in (pair.verdict, Verdict.INCONCLUSIVE)
    assert over_table([]) == []


def test_in_a_large_table_a_lonely_small_p_value_loses_its_word():
    faster = compare_groups({"cfs": normal_logs(5, 6), "bfs": normal_logs(55, 6, -0.035)})
    assert faster.pairs[0].verdict is Verdict.FASTER
    assert faster.pairs[0].p_adjusted > 0.002
    none = compare_groups({"cfs": normal_logs(5, 8), "bfs": normal_logs(5, 8)})
    table = over_table([*faster.pairs, *none.pairs * 40])
    assert table[0][1] is Verdict.INCONCLUSIVE


# --- sizes ----------------------------------------------------------------------------------------

# Made by R: set.seed(20); a <- round(rlnorm(15, 0, .2), 3); b <- round(rlnorm(12, .1, .3), 3)
A = [1.262, 0.889, 1.429, 0.766, 0.915, 1.121, 0.561, 0.840, 0.912, 0.895, 0.996, 0.970, 0.882,
     1.303, 0.738]  # fmt: skip
B = [0.969, 1.479, 1.115, 1.077, 1.242, 1.186, 1.058, 1.373, 1.235, 1.028, 0.711, 0.924]


def test_the_interval_of_the_ratio_of_medians_is_that_of_rs_bootstrap():
    found = median_ratio(A, B)
    # R: ratio <- function(d, i) {e <- d[i, ]; median(e$v[e$g == 1]) / median(e$v[e$g == 2])}
    # boot.ci(boot(d, ratio, R = 99999, strata = d$g), type = "bca"), boot 1.3-28.1. Both resample,
    # so they agree to some 1 %.
    assert (found.low, found.high) == pytest.approx((0.722648364958, 0.987012987013), rel=0.015)
    assert found.low < found.equivalence_low < found.ratio < found.equivalence_high < found.high
    assert median_ratio(A, B) == found


def test_the_resampled_interval_of_the_ratio_of_means_is_that_of_rs_bootstrap():
    found = mean_ratio(A, B)
    # R: as above with exp(mean(log(e$v[e$g == 1])) - mean(log(e$v[e$g == 2])))
    assert (found.low, found.high) == pytest.approx((0.736786420238, 1.00552604187), rel=0.01)
    assert found.ratio == pytest.approx(ratio(A, B).ratio)
    assert mean_ratio(A[:7], B).low is None
    assert mean_ratio(A[:8], B).low is not None


def test_where_resampling_contradicts_welch_it_is_told():
    # Skewed and few: Welch's interval reaches from -0.8 to +12.9 %, BCa's from +2.3 to +16.1 %.
    random = np.random.default_rng(1)
    samples = {"a": np.exp(random.exponential(0.05, 9)), "b": np.exp(random.normal(0, 0.005, 9))}
    told = "a against b: resampling does not agree with the test's interval, +6 % [-1, +13]: it has"
    asked = {"baseline": "b", "method": Method.WELCH}
    assert any(note.startswith(told) for note in compare_groups(samples, **asked).notes)
    samples["a"] = 1.2 * samples["a"]
    assert not any("resampling" in note for note in compare_groups(samples, **asked).notes)


def test_of_fewer_than_six_runs_medians_have_no_interval():
    assert median_ratio(A[:5], B).low is None
    assert median_ratio(A[:6], B).low is not None
    assert median_ratio([2.0] * 6, [4.0] * 6).high == 0.5
    assert np.isfinite(median_ratio([1.0] * 9 + [2.0], B).low)  # where BCa divides 0 by 0


def test_the_interval_of_the_ratio_of_medians_covers_it():
    random, nr_samples = np.random.default_rng(1987), 80
    covered = 0
    for _ in range(nr_samples):
        found = median_ratio(1.5 * random.exponential(size=20), random.exponential(size=20))
        covered += found.low <= 1.5 <= found.high
    assert covered / nr_samples > 0.87  # three standard errors


@given(st.lists(TIMES, min_size=2, max_size=12), st.lists(TIMES, min_size=2, max_size=12))
def test_hedges_g_agrees_with_pingouin(a, b):
    assume(np.ptp(np.log(a)) > 1e-3 and np.ptp(np.log(b)) > 1e-3)
    expected = pingouin.compute_effsize(np.log(a), np.log(b), eftype="hedges")
    assert hedges_g(a, b) == pytest.approx(expected, rel=1e-6, abs=1e-9)


@given(st.lists(TIMES, min_size=1, max_size=12), st.lists(TIMES, min_size=1, max_size=12))
def test_cliffs_delta_counts_pairs(a, b):
    signs = np.sign(np.subtract.outer(np.array(a), np.array(b)))
    assert cliffs_delta(a, b) == pytest.approx(float(np.mean(signs)), abs=1e-12)


def test_sizes_of_what_does_not_vary():
    assert hedges_g([1.0, 1.0], [2.0, 2.0]) is None
    assert hedges_g([1.0], [2.0, 3.0]) is None
    assert cliffs_delta([1.0], [1.0]) == 0


# --- power ----------------------------------------------------------------------------------------


def test_the_number_of_runs_is_that_of_r():
    # R: power.t.test(delta = log(1.01), sd = ..., power = 0.8)$n is 64.394 and 43.107
    assert runs_needed(0.02, 0.01) == 65
    assert runs_needed(0.0163, 0.01) == 44
    # R: power.t.test(n = 10, sd = 0.02, power = 0.8, tol = 1e-13, strict = TRUE)$delta
    assert np.log1p(detectable_change(0.02, 10, 10)) == pytest.approx(0.0264989478516, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-4, 0.5), st.floats(1e-3, 0.5))
def test_so_many_runs_detect_the_change_and_one_less_does_not(noise_log, change):
    runs = runs_needed(noise_log, change)
    assume(runs is not None and runs > 3)
    assert detectable_change(noise_log, runs, runs) <= change * (1 + 1e-6)
    assert detectable_change(noise_log, runs - 1, runs - 1) > change * (1 - 1e-6)


def test_power_where_there_is_no_noise_or_too_much():
    assert (runs_needed(0.0, 0.01), detectable_change(0.0, 3, 3)) == (3, 0.0)
    assert (runs_needed(9.0, 0.01), detectable_change(9.0, 3, 3)) == (None, None)
    assert detectable_change(0.02, 2, 9) is None
    for bad in (-0.1, np.nan, np.inf):
        with pytest.raises(BadValue, match="noise"):
            runs_needed(bad, 0.01)
        with pytest.raises(BadValue, match="change"):
            runs_needed(0.02, -abs(bad))


def test_the_change_that_is_said_to_be_detectable_is_detected_in_80_of_100_cases():
    random, nr_samples = np.random.default_rng(1988), 400
    change = detectable_change(0.05, 8, 8)
    shown = 0
    for _ in range(nr_samples):
        a, b = random.normal(np.log1p(change), 0.05, size=8), random.normal(0, 0.05, size=8)
        shown += stats.ttest_ind(a, b, equal_var=False).pvalue < 0.05
    assert 0.74 < shown / nr_samples < 0.86


def test_noise_is_pooled_within_samples():
    assert noise({"a": np.exp([0.0, 2.0]), "b": np.exp([5.0, 5.0])}) == pytest.approx(1.0)
    assert noise({"a": [1.0], "b": [2.0]}) is None


# --- independence ---------------------------------------------------------------------------------

# R: as.numeric(lh)[1:20], a hormone every ten minutes; of it we look at the logarithms.
LH = [2.4, 2.4, 2.4, 2.2, 2.1, 1.5, 2.3, 2.3, 2.5, 2.0, 1.9, 1.7, 2.2, 1.8, 3.2, 3.2, 2.7, 2.2, 2.2,
      1.9]  # fmt: skip


def test_drift_and_memory_are_those_of_r():
    found = independence(np.exp(LH))
    # R: acf(x)$acf[2]; Box.test(x, lag = 5, type = "Ljung");
    # cor.test(1:20, x, method = "spearman", exact = FALSE)
    assert found.lag_1 == pytest.approx(0.366523454007607, rel=1e-9)
    assert found.ljung_box_p == pytest.approx(0.0273113425804185, rel=1e-6)
    assert found.drift == pytest.approx(-0.0673491041228996, rel=1e-9)
    assert found.drift_p == pytest.approx(0.7778509089113984, rel=1e-6)
    assert found.n_effective == pytest.approx(20 * (1 - found.lag_1) / (1 + found.lag_1))


def test_runs_that_become_longer_or_resemble_their_neighbours_are_noted():
    warming = normal_logs(1, 20) * np.linspace(1, 1.3, 20)
    assert "became longer with time" in independence(warming).notes()[0]
    walk = np.exp(0.02 * np.cumsum(np.random.default_rng(5).normal(size=40)))
    assert any("neighbouring runs are alike" in note for note in independence(walk).notes())
    assert independence(walk).n_effective < 20
    # Runs in turn short and long are not alike, and no fewer than they are.
    in_turn = normal_logs(4, 20) * np.tile([1, 1.2], 10)
    assert "depend on those before them" in independence(in_turn).notes()[0]


def test_two_states_of_a_machine_are_seen_and_one_is_not():
    random = np.random.default_rng(3)
    two = np.where(random.permutation(20) < 8, 1.0, 1.1) * normal_logs(6, 20, noise_log=0.004)
    low, high = independence(two).states
    assert (low, high) == pytest.approx((1.0, 1.1), rel=0.01)
    assert any("two groups, 10 % apart" in note for note in independence(two).notes())
    seen = sum(
        independence(random.lognormal(0, 0.02, size=10)).states is not None for _ in range(500)
    )
    assert seen <= 15


def test_runs_without_anything_to_note_have_no_notes_in_95_of_100_cases():
    random = np.random.default_rng(12)
    noted = [independence(random.lognormal(0, 0.02, size=12)).notes() for _ in range(100)]
    # Outliers by the modified score are commoner in small normal samples than 1 in 100.
    alarms = [note for notes in noted for note in notes if "far from" not in note]
    assert len(alarms) <= 9


@pytest.mark.parametrize("values", [[1.0], [1.0] * 20, [1.0, 2.0] * 3])
def test_of_few_or_equal_runs_nothing_is_said(values):
    found = independence(values)
    assert (found.drift, found.lag_1, found.ljung_box_p, found.states) == (None,) * 4
    assert (found.n_effective, found.notes()) == (len(values), [])
