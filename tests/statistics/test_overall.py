"""Goal: what several benchmarks or machines say together is one vote each, with the uncertainty of
so few. Method: published worked examples, R 4.2.2 as a second implementation, closed forms, and
random cells whose truth is known.
"""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedlab.errors import BadValue
from schedlab.published import rows
from schedlab.statistics.estimates import Verdict
from schedlab.statistics.overall import Vote, overall, shared_vote
from scipy import stats

# Cases and others, with and without a vaccine, of 13 trials: G. A. Colditz et al., "Efficacy of BCG
# vaccine in the prevention of tuberculosis", J. American Medical Association 271, 1994.
TRIALS = [
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619),
    (33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892),
    (29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338),
    (27, 16886, 29, 17825),
]  # fmt: skip
RATIOS = st.lists(st.floats(0.1, 10), min_size=2, max_size=9)


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def trial(a, b, c, d):
    """A risk ratio with its error."""
    return Vote(a / (a + b) / (c / (c + d)), math.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)))


def plain(ratios, log_error=0.01):
    return overall({str(place): Vote(ratio, log_error) for place, ratio in enumerate(ratios)})


def study_of_2012(benchmark):
    """The ratio of times, BFS over CFS, of each machine as printed."""
    means = {
        (row["machine"], row["kernel"]): float(row["mean_s"])
        for row in rows("seed004_means")
        if row["benchmark"] == benchmark
    }
    return {
        machine: Vote(seconds / means[machine, "3.6.2-vanilla"], None)
        for (machine, kernel), seconds in means.items()
        if kernel == "3.6.2-ck"
    }


def test_thirteen_trials_differ_as_published():
    found = overall({str(n): trial(*counts) for n, counts in enumerate(TRIALS)})
    # W. Viechtbauer, "Conducting meta-analyses in R with the metafor package", J. Statistical
    # Software 36, 2010, has these trials: Q(df = 12) = 152.2330. I² is (Q - df) / Q.
    assert found.i_squared == pytest.approx((152.2330 - 12) / 152.2330, abs=1e-6)
    # R: q <- deviance(lm(y ~ 1, weights = 1 / v)); (q - 12) / q; t <- t.test(y); exp(t$estimate),
    # exp(t$conf.int), t$p.value
    assert found.i_squared == pytest.approx(0.921173468545621, rel=1e-9)
    assert found.ratio.ratio == pytest.approx(0.476803710481603, rel=1e-9)
    assert found.ratio.low == pytest.approx(0.313513592633572, rel=1e-6)
    assert found.ratio.high == pytest.approx(0.725141696152027, rel=1e-6)
    assert found.ratio.p_value == pytest.approx(0.00231437139792194, abs=1e-9)


def test_seven_machines_of_2012_have_one_vote_each():
    # R: t <- t.test(log(ck / vanilla)); exp(t$estimate), exp(t$conf.int), t$p.value
    expected = {
        "make": (0.976273564189578, 0.952592515656599, 1.0005433136103, 0.0538213934764353, (7, 0),
                 "inconclusive"),
        "compress": (0.986504653046042, 0.970951837900543, 1.0023065949242, 0.081355676460208,
                     (6, 1), "inconclusive"),
        "video": (0.967324874589997, 0.938254823032106, 0.99729560672723, 0.0373202733619913,
                  (6, 1), "faster"),
    }  # fmt: skip
    for benchmark, (centre, low, high, p_value, signs, word) in expected.items():
        found = overall(study_of_2012(benchmark))
        assert (found.ratio.n_a, found.degrees_of_freedom) == (7, 6)
        assert found.ratio.ratio == pytest.approx(centre, rel=1e-9)
        assert (found.ratio.low, found.ratio.high) == pytest.approx((low, high), rel=1e-6)
        assert found.ratio.p_value == pytest.approx(p_value, abs=1e-6)
        assert (found.nr_below, found.nr_above) == signs
        assert found.word() == word
        # Only means survive of that study.
        assert found.i_squared is None
    name, vote = overall(study_of_2012("make")).lowest
    assert (name, vote.ratio) == ("Dual Intel E5620", pytest.approx(0.921004346899293))


def test_three_cells_look_like_three():
    found = plain([0.8, 0.9, 1.0])
    logs = np.log([0.8, 0.9, 1.0])
    # The closed form: t(0.975, 2 degrees of freedom) is 4.302652729749464.
    half = 4.302652729749464 * np.std(logs, ddof=1) / math.sqrt(3)
    assert found.degrees_of_freedom == 2
    assert math.log(found.ratio.high / found.ratio.ratio) == pytest.approx(half, rel=1e-9)
    assert found.word() is Verdict.INCONCLUSIVE  # all three measured to 1 %
    assert plain([0.8, 0.9]).ratio.low is None


@given(RATIOS)
def test_the_geometric_mean_of_swapped_ratios_is_the_inverse(ratios):
    found, swapped = plain(ratios), plain([1 / ratio for ratio in ratios])
    assert found.ratio.ratio == pytest.approx(1 / swapped.ratio.ratio)
    assert found.ratio.ratio == pytest.approx(float(stats.gmean(ratios)))
    assert (found.nr_below, found.nr_above) == (swapped.nr_above, swapped.nr_below)
    assert (found.lowest[1].ratio, found.highest[1].ratio) == (min(ratios), max(ratios))
    assert "nan" not in repr(found)


@given(RATIOS, st.floats(0.001, 1.0))
def test_with_one_error_for_all_i_squared_is_a_plain_ratio_of_variances(ratios, log_error):
    found = plain(ratios, log_error).i_squared
    between = float(np.var(np.log(ratios), ddof=1))
    expected = 0.0 if between <= log_error**2 else 1 - log_error**2 / between
    assert found == pytest.approx(expected, abs=1e-6)
    assert 0 <= found <= 1


def test_cells_that_differ_by_noise_alone_are_not_called_different():
    random, found = np.random.default_rng(1), []
    for _ in range(200):
        found.append(plain(np.exp(random.normal(-0.1, 0.02, size=6)), 0.02).i_squared)
    assert np.mean(np.array(found) == 0) > 0.5
    assert np.mean(np.array(found) > 0.75) < 0.02


def test_the_interval_covers_the_mean_of_machines_and_pooled_runs_would_not():
    random, nr_studies = np.random.default_rng(7), 1000
    covered = pooled = 0
    for _ in range(nr_studies):
        # Five machines differ by 10 %; each is measured in 30 runs of 2 % noise.
        effects = random.normal(0, 0.1, size=5)
        runs = effects[:, None] + random.normal(0, 0.02, size=(5, 30))
        found = plain(np.exp(np.mean(runs, axis=1))).ratio
        covered += found.low <= 1 <= found.high
        low, high = stats.ttest_1samp(runs.ravel(), 0).confidence_interval()
        pooled += low <= 0 <= high
    assert 0.929 < covered / nr_studies < 0.971  # three standard errors of 0.95
    assert pooled / nr_studies < 0.5


def test_cases_of_a_benchmark_share_its_vote():
    found = shared_vote([Vote(0.5, 0.03), Vote(2.0, 0.04)])
    assert found.ratio == pytest.approx(1.0)
    assert found.log_error == pytest.approx(0.025)
    assert shared_vote([Vote(0.5, 0.03), Vote(2.0, None)]).log_error is None


def test_noise_that_is_not_known_or_none_gives_no_i_squared():
    votes = {"a": Vote(1.0, 0.01), "b": Vote(1.1, None), "c": Vote(1.2, 0.01)}
    assert overall(votes).i_squared is None
    assert overall({**votes, "b": Vote(1.1, 0.0)}).i_squared is None
    even = plain([1.0, 1.0, 1.0])
    assert (even.nr_below, even.nr_above) == (0, 0)


@pytest.mark.parametrize("ratios", [[], [1.0], [1.0, 0.0], [1.0, math.nan], [1.0, -2.0]])
def test_what_cannot_vote_is_refused(ratios):
    with pytest.raises(BadValue) as refused:
        plain(ratios)
    assert refused.value.hint
