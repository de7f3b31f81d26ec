"""Goal: analyses of variance and pairwise tests as R computes them. Method: data sets that R ships,
with the figures that R 4.2.2 (and rstatix 0.7.2) printed for the commands beside them; statsmodels
and pingouin as second implementations on random samples; samples that break naive code.
"""

import itertools
import warnings

import numpy as np
import pingouin
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from schedlab.errors import BadValue
from schedlab.published import rows
from schedlab.statistics import variance as anova
from schedlab.statistics.estimates import QUANTILE_LEVELS
from scipy import stats
from statsmodels.stats.multicomp import pairwise_tukeyhsd

# R: split(warpbreaks$breaks, warpbreaks$tension)
WARPBREAKS = {
    "L": [26, 30, 54, 25, 70, 52, 51, 26, 67, 27, 14, 29, 19, 29, 31, 41, 20, 44],
    "M": [18, 21, 29, 17, 12, 18, 35, 30, 36, 42, 26, 19, 16, 39, 28, 21, 39, 29],
    "H": [36, 21, 24, 18, 10, 43, 28, 15, 26, 20, 21, 24, 17, 13, 15, 15, 16, 28],
}
# R: split(PlantGrowth$weight, PlantGrowth$group)
PLANTS = {
    "ctrl": [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14],
    "trt1": [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69],
    "trt2": [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26],
}
# R: split(InsectSprays$count, InsectSprays$spray)
SPRAYS = {
    "A": [10, 7, 20, 14, 14, 12, 10, 23, 17, 20, 14, 13],
    "B": [11, 17, 21, 11, 16, 14, 17, 17, 19, 21, 7, 13],
    "C": [0, 1, 7, 2, 3, 1, 2, 1, 3, 0, 1, 4],
    "D": [3, 5, 12, 6, 4, 3, 5, 5, 5, 5, 2, 4],
    "E": [3, 5, 3, 5, 3, 6, 1, 1, 3, 2, 6, 4],
    "F": [11, 9, 15, 22, 15, 16, 13, 10, 26, 26, 24, 13],
}
VALUES = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=9)
GROUPS = st.lists(VALUES, min_size=2, max_size=4)


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def lat_ctx():
    """The 10 runs of each of three kernels of 2007, in microseconds."""
    samples: dict[str, list[float]] = {}
    for row in rows("seed003_lat_ctx"):
        samples.setdefault(row["kernel"], []).append(float(row["latency_us"]))
    return samples


def named(groups):
    return {str(place): group for place, group in enumerate(groups)}


def vary(groups):
    return all(np.ptp(group) > 1e-3 for group in groups)


# --- all samples at once --------------------------------------------------------------------------


def test_the_analysis_of_variance_is_that_of_r():
    # R: summary(aov(weight ~ group, PlantGrowth))
    found = anova.pooled(PLANTS)
    assert (found.df, found.df_within) == (2, 27)
    assert found.variance_within == pytest.approx(0.388595925925926, rel=1e-12)
    assert found.statistic == pytest.approx(4.84608786238014, rel=1e-12)
    assert found.p_value == pytest.approx(0.0159099583256229, rel=1e-12)


@pytest.mark.parametrize(
    ("samples", "f", "df", "df_within", "p_value"),
    [
        # R: oneway.test(count ~ spray, InsectSprays), oneway.test(weight ~ group, PlantGrowth)
        (SPRAYS, 36.0654438935773, 5, 30.0425605087674, 7.99937945567335e-12),
        (PLANTS, 5.18097240811319, 2, 17.12841861664413, 0.01739282149017),
    ],
)
def test_welchs_analysis_is_that_of_r(samples, f, df, df_within, p_value):
    found = anova.welch(samples)
    assert (found.statistic, found.df, found.df_within) == pytest.approx(
        (f, df, df_within), rel=1e-9
    )
    assert found.p_value == pytest.approx(p_value, rel=1e-6)


def test_the_kruskal_wallis_test_is_that_of_r():
    found = anova.kruskal_wallis(SPRAYS)  # R: kruskal.test(count ~ spray, InsectSprays)
    assert (found.statistic, found.df) == pytest.approx((54.6913446223714, 5), rel=1e-9)
    assert found.p_value == pytest.approx(1.51084443941851e-10, rel=1e-6)


def test_the_test_of_brown_and_forsythe_is_an_analysis_of_distances_from_medians():
    # R: anova(lm(abs(count - ave(count, spray, FUN = median)) ~ spray, InsectSprays))
    found = anova.brown_forsythe(SPRAYS)
    assert (found.df, found.df_within) == (5, 66)
    assert found.statistic == pytest.approx(3.82135631322592, rel=1e-9)
    assert found.p_value == pytest.approx(0.00422279113899214, rel=1e-6)


@given(GROUPS)
def test_welchs_analysis_agrees_with_scipys(groups):
    assume(vary(groups))
    found, other = anova.welch(named(groups)), stats.f_oneway(*groups, equal_var=False)
    assert found.statistic == pytest.approx(other.statistic, rel=1e-6, abs=1e-9)
    assert found.p_value == pytest.approx(other.pvalue, rel=1e-6, abs=1e-9)


def test_equal_means_are_no_reason_to_doubt_whatever_their_rounding():
    random = np.random.default_rng(1925)
    for _ in range(50):
        values = random.normal(size=8)
        found = anova.pooled({"a": values, "b": random.permutation(values)})
        assert (found.statistic, found.p_value) == (pytest.approx(0), pytest.approx(1))


# --- pairs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        # R: TukeyHSD(aov(breaks ~ tension, warpbreaks))
        (WARPBREAKS, (0.038459768064838, 0.001431503307978, 0.463083097086182)),
        # R: TukeyHSD(aov(weight ~ group, PlantGrowth))
        (PLANTS, (0.390871144202125, 0.197995991299708, 0.012006423979453)),
    ],
)
def test_tukey_and_kramers_test_is_that_of_r(samples, expected):
    found = anova.tukey_kramer(samples)
    assert list(found) == list(itertools.combinations(samples, 2))
    assert list(found.values()) == pytest.approx(expected, abs=1e-6)


def test_games_and_howells_test_is_that_of_r():
    # R: rstatix::games_howell_test(PlantGrowth, weight ~ group), p values to all digits by
    # ptukey(abs(d) / sqrt((va + vb) / 2), 3, df, lower = FALSE)
    expected = {
        ("ctrl", "trt1"): 0.474554922194,
        ("ctrl", "trt2"): 0.112889176854,
        ("trt1", "trt2"): 0.0237034547392,
    }
    assert anova.games_howell(PLANTS) == pytest.approx(expected, abs=1e-6)


def test_dunns_test_is_that_of_r():
    # R: rstatix::dunn_test(PlantGrowth, weight ~ group)
    pairs = [("ctrl", "trt1"), ("ctrl", "trt2"), ("trt1", "trt2")]
    raw = [0.26368426789139, 0.09116394404850, 0.00500029037026]
    assert anova.dunn(PLANTS) == pytest.approx(dict(zip(pairs, raw, strict=True)), abs=1e-9)


# Studentized ranges take time.
@settings(max_examples=10, deadline=None)
@given(GROUPS)
def test_pairwise_tests_agree_with_statsmodels_and_pingouin(groups):
    assume(vary(groups))
    samples = named(groups)
    labels = [name for name, group in samples.items() for _ in group]
    flat = np.concatenate(groups)
    theirs = pairwise_tukeyhsd(flat, labels)
    ours = anova.tukey_kramer(samples)
    # Their p values are rounded to four places, or interpolated in a table by other versions.
    assert list(ours.values()) == pytest.approx(theirs.pvalues, abs=1e-3)
    import pandas

    frame = pandas.DataFrame({"value": flat, "group": labels})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = pingouin.pairwise_gameshowell(frame, dv="value", between="group")
    assert list(anova.games_howell(samples).values()) == pytest.approx(others["pval"], abs=1e-6)


def test_of_samples_with_unequal_variance_only_games_and_howell_keep_their_word():
    """The reason why variances are not pooled: the small sample has the large variance."""
    random, nr_samples = np.random.default_rng(1976), 300
    false = {"pooled": 0, "not pooled": 0}
    for _ in range(nr_samples):
        samples = {"a": random.normal(0, 4, size=5), "b": random.normal(0, 1, size=20)}
        false["pooled"] += stats.tukey_hsd(*samples.values()).pvalue[0, 1] < 0.05
        false["not pooled"] += anova.games_howell(samples)["a", "b"] < 0.05
    assert false["pooled"] / nr_samples > 0.15
    assert false["not pooled"] / nr_samples < 0.09  # three standard errors above 5 %


# --- what 2007 printed ---------------------------------------------------------------------------


def test_the_ten_runs_of_2007_give_the_figures_of_r():
    samples = lat_ctx()
    # R: aov(latency_us ~ k, d), oneway.test, TukeyHSD
    assert anova.pooled(samples).p_value == pytest.approx(3.69341876225e-06, rel=1e-6)
    assert anova.welch(samples).p_value == pytest.approx(1.3465596135e-05, rel=1e-6)
    found = anova.tukey_kramer(samples)
    assert found["v2.6.22", "2.6.23-rc6"] == pytest.approx(1.69781025252e-04, abs=1e-6)
    assert found["v2.6.22", "2.6.23-rc6-cfs-devel"] == pytest.approx(0.376451827894, abs=1e-6)


# --- the tables of 2012 ---------------------------------------------------------------------------


def test_quantiles_are_those_of_the_published_program():
    values = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]  # R: sleep$extra[1:10]
    # R: quantile(x, c(0, .1, .25, .5, .75, .9, 1), type = 6)
    expected = (-1.60, -1.56, -0.45, 0.35, 2.35, 3.67, 3.70)
    assert anova.quantile_table({"x": values})["x"] == pytest.approx(expected)
    printed = {float(row["probability"]) for row in rows("seed004_quantiles")}
    assert printed == set(QUANTILE_LEVELS)


def test_of_nine_runs_the_first_decile_is_the_smallest_as_printed_in_2012():
    values = np.arange(1.0, 10.0)
    deciles = anova.quantile_table({"x": values})["x"][1::4]
    assert deciles == pytest.approx((1, 9))
    assert anova.quantile_table({"x": [*values, 10.0]})["x"][1] > 1


@pytest.mark.parametrize("samples", [WARPBREAKS, PLANTS, SPRAYS, {"a": [1, 2, 4], "b": [5, 9] * 5}])
def test_circles_say_what_tukey_and_kramers_test_says(samples):
    circles, tested = anova.comparison_circles(samples), anova.tukey_kramer(samples)
    for (a, b), p_value in tested.items():
        # They cross at an angle of less than 90°: distance² > r² + r'².
        reach = np.hypot(circles[a].radius, circles[b].radius)
        assert (abs(circles[a].centre - circles[b].centre) > reach) == (p_value < 0.05), (a, b)


# --- what has no answer ---------------------------------------------------------------------------

TESTS = (anova.pooled, anova.welch, anova.brown_forsythe, anova.kruskal_wallis)
PAIRWISE = (
    anova.tukey_kramer,
    anova.games_howell,
    anova.dunn,
    anova.comparison_circles,
)


@pytest.mark.parametrize("test", [*TESTS, *PAIRWISE])
@pytest.mark.parametrize(
    "samples", [{"a": [1.0, 2.0]}, {"a": [1.0], "b": [1.0]}, {"a": [2.0] * 3, "b": [2.0] * 4}]
)
def test_where_nothing_can_be_said_there_is_no_number(test, samples):
    assert not test(samples)


@pytest.mark.parametrize("test", [*TESTS, *PAIRWISE, anova.quantile_table])
@pytest.mark.parametrize("bad", [[], [np.nan, 1.0], [np.inf], [[1.0]], ["fast"], None])
def test_what_is_no_sample_is_refused_with_its_name_and_a_way_out(test, bad):
    with pytest.raises(BadValue, match="sample 'cfs'") as refused:
        test({"bfs": [1.0, 2.0, 3.0], "cfs": bad})
    assert refused.value.hint


@pytest.mark.parametrize("test", [*TESTS, *PAIRWISE])
@pytest.mark.parametrize("constant", list(itertools.product([1, 2, 5], [1.0, 3.0])))
def test_a_sample_that_does_not_vary_gives_no_warning_and_no_nan(test, constant):
    n, value = constant
    found = test({"a": [1.0, 2.0, 4.0], "b": [value] * n})
    assert "nan" not in repr(found)
