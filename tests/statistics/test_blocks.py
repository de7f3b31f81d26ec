"""Goal: runs that took turns in blocks are compared within them, by the right numbers. Method: the
plants that Darwin grew in pairs, as Fisher and R 4.2.2 compare them; every way to exchange, tried
one by one; random samples whose truth is known.
"""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedlab.errors import BadValue
from schedlab.statistics.blocks import Blocked, exchange_p, matched, median_within
from schedlab.statistics.estimates import Verdict
from schedlab.statistics.evidence import Method, compare_groups
from schedlab.statistics.power import detectable_change, runs_needed
from scipy import stats

# Inches of 15 pairs of Zea mays: C. Darwin, "The Effects of Cross and Self Fertilisation in the
# Vegetable Kingdom", 1876, as in Fisher 1935.
CROSSED = [23.5, 12, 21, 22, 19.125, 21.5, 22.125, 20.375, 18.25, 21.625, 23.25, 21, 22.125, 23, 12]
SELFED = [17.375, 20.375, 20, 20, 18.375, 18.625, 18.625, 15.25, 16.5, 18, 16.25, 18, 12.75, 15.5,
          18]  # fmt: skip
PLACES = {"crossed": range(15), "selfed": range(15)}


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def brute_force_p(logs):
    """Every way to exchange, one after the other."""
    measured = abs(sum(logs))
    ways = list(itertools.product((-1, 1), repeat=len(logs)))
    as_far = [abs(sum(np.multiply(way, logs))) >= measured * (1 - 1e-12) for way in ways]
    return sum(as_far) / len(ways)


def disturbed(seed, n, factor, noise_log=0.01):
    """Two samples with a factor between them, both disturbed alike by far more."""
    random = np.random.default_rng(seed)
    base = random.lognormal(0, 0.3, size=n)
    a, b = (base * random.lognormal(0, noise_log, size=n) for _ in range(2))
    return {"bfs": factor * a, "cfs": b}


# --- exchanging within blocks ---------------------------------------------------------------------


def test_fishers_plants_are_as_unlikely_as_he_found():
    # "The Design of Experiments", section 21: 863 of 32,768 sums are 314 or more, and as many are
    # -314 or less; of logarithms, R: mean(abs(as.matrix(expand.grid(rep(list(c(-1, 1)), 15)))
    # %*% d) >= abs(sum(d)) - 1e-12)
    eighths = 8 * np.subtract(CROSSED, SELFED)
    assert float(np.sum(eighths)) == 314
    assert exchange_p(eighths) == 2 * 863 / 32_768
    assert exchange_p(np.log(CROSSED) - np.log(SELFED)) == pytest.approx(0.10211181640625, abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 11, 16])
def test_up_to_sixteen_blocks_every_way_is_tried(n):
    logs = np.random.default_rng(n).normal(0.5, 1.0, size=n)
    assert exchange_p(logs) == pytest.approx(brute_force_p(logs), abs=1e-12)


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=8))
def test_ties_and_zeros_are_counted_as_they_come(logs):
    assert exchange_p(logs) == pytest.approx(brute_force_p(logs), abs=1e-12)


def test_of_more_blocks_a_part_is_tried_and_always_the_same():
    logs = np.random.default_rng(5).normal(0.4, 1.0, size=24)
    found = exchange_p(logs)
    assert found == exchange_p(logs)
    # Of so many, the sum is normal: the closed form of a random walk.
    z = abs(np.sum(logs)) / np.sqrt(np.sum(logs**2))
    assert found == pytest.approx(2 * stats.norm.sf(z), abs=0.01)


# --- what a pair in blocks says -------------------------------------------------------------------


def test_pairs_of_plants_are_compared_as_r_compares_them():
    found = compare_groups({"selfed": SELFED, "crossed": CROSSED}, blocks=PLACES).pairs[0]
    assert found.method is Method.BLOCKS
    # R: t <- t.test(log(crossed), log(selfed), paired = TRUE); exp(t$estimate), exp(t$conf.int),
    # t$p.value, t$stderr; with conf.level = 0.9
    assert found.ratio.ratio == pytest.approx(1.13497537748864, rel=1e-9)
    assert found.ratio.low == pytest.approx(0.971917373042849, rel=1e-6)
    assert found.ratio.high == pytest.approx(1.3253895271699, rel=1e-6)
    assert found.ratio.p_value == pytest.approx(0.101836757201869, abs=1e-9)
    assert found.ratio.log_error == pytest.approx(0.0723127586634662, rel=1e-6)
    assert found.ratio.equivalence_low == pytest.approx(0.99924604644156, rel=1e-6)
    assert found.ratio.equivalence_high == pytest.approx(1.28914105999499, rel=1e-6)
    assert found.exchange_p == pytest.approx(0.10211181640625, abs=1e-9)


def test_the_median_of_blocks_is_bounded_as_by_rs_sign_test():
    found = median_within(matched(CROSSED, SELFED, range(15), range(15)))
    # R: binom.test(sum(d < 0), 15)$p.value, exp(median(d)), exp(sort(d)[c(4, 12)]): three of each
    # end are left out in 96.5 of 100 cases, four in 88.
    assert found.p_value == pytest.approx(0.00738525390625, abs=1e-9)
    assert found.ratio == pytest.approx(1.16666666666667, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((1.05, 1.35251798561151), rel=1e-9)
    assert median_within(matched([1.0] * 5, [2.0] * 5, range(5), range(5))).low is None


def test_what_disturbs_a_block_does_not_hide_the_difference():
    samples = disturbed(3, 12, 0.95)
    places = {"bfs": range(12), "cfs": range(12)}
    blocked = compare_groups(samples, baseline="cfs", blocks=places)
    apart = compare_groups(samples, baseline="cfs")
    assert apart.pairs[0].verdict is Verdict.INCONCLUSIVE
    assert blocked.pairs[0].verdict is Verdict.FASTER
    assert blocked.method is blocked.pairs[0].method is Method.BLOCKS
    assert str(blocked.why).startswith(
        "Student's t test on the logarithms of ratios within blocks, as"
    )
    assert "exchanging both within blocks in every way: bfs p < 0.001" in str(blocked.why)
    # Twelve blocks show less than 2 %, where the noise of runs would hide 30 %.
    assert blocked.pairs[0].detectable < 0.02 < 0.3 < apart.pairs[0].detectable


def test_runs_without_a_partner_have_no_say_and_are_told():
    samples = disturbed(4, 8, 0.9)
    blocks = {"bfs": list("abcdefgh"), "cfs": list("hgfedcbx")}
    shared = [(i, "hgfedcbx".index(block)) for i, block in enumerate("abcdefgh") if block != "a"]
    found = compare_groups(samples, baseline="cfs", blocks=blocks)
    pair = found.pairs[0]
    logs = [np.log(samples["bfs"][i] / samples["cfs"][j]) for i, j in shared]
    assert pair.ratio.ratio == pytest.approx(np.exp(np.mean(logs)))
    assert pair.ratio.n_a == 7
    assert "bfs against cfs: 2 runs have no partner in a block, and no say in the ratio" in (
        found.notes
    )


def test_pairs_that_share_too_few_blocks_are_compared_without():
    samples = {**disturbed(5, 10, 0.9), "6.18": np.random.default_rng(1).lognormal(0, 0.02, 10)}
    blocks = {"bfs": range(10), "cfs": range(10), "6.18": [*range(2), *range(20, 28)]}
    found = compare_groups(samples, baseline="cfs", blocks=blocks)
    of_policy, of_kernel = found.pairs
    assert of_policy.method is Method.BLOCKS
    assert of_kernel.method is found.method is Method.WELCH
    assert "Holm's correction of bfs against cfs, as" in str(found.why)
    assert "and without blocks, Welch's" in str(found.why)
    assert of_kernel.exchange_p is None
    raw = [pair.ratio.p_value for pair in found.pairs]
    assert max(raw) >= min(pair.p_adjusted for pair in found.pairs) == 2 * min(raw)


def test_one_block_far_off_makes_signs_decide():
    samples = disturbed(6, 14, 0.9)
    samples["bfs"][3] *= 20
    places = {"bfs": range(14), "cfs": range(14)}
    found = compare_groups(samples, baseline="cfs", blocks=places)
    assert found.pairs[0].method is Method.BLOCK_SIGNS
    assert found.pairs[0].verdict is Verdict.FASTER
    assert "far from normal" in str(found.why) and found.pairs[0].exchange_p is None
    # With the mean, one block of fourteen would decide that nothing can be said.
    asked = compare_groups(samples, baseline="cfs", blocks=places, method=Method.BLOCKS)
    assert asked.pairs[0].verdict is Verdict.INCONCLUSIVE


def test_where_the_check_contradicts_the_test_it_is_told():
    # Six equal signs: 2 of 64 ways are as far, p = 0.031; a t test sees one large value's noise.
    logs = [0.01, 0.012, 0.011, 0.013, 0.012, 0.1]
    samples = {"a": np.exp(logs), "b": np.ones(6)}
    found = compare_groups(samples, blocks={"a": range(6), "b": range(6)}, baseline="b")
    assert found.pairs[0].exchange_p == 2 / 64
    assert found.pairs[0].ratio.p_value > 0.05
    assert any("exchanging both within blocks p = 0.031" in note for note in found.notes)
    none = compare_groups(disturbed(3, 12, 0.95), blocks={"bfs": range(12), "cfs": range(12)})
    assert not any("exchanging" in note for note in none.notes)


def test_a_drift_of_both_is_no_note_and_one_of_their_ratio_is():
    drift = np.linspace(1, 1.5, 16)
    samples = disturbed(7, 16, 1.0)
    samples = {"a": drift * samples["bfs"], "b": drift * samples["cfs"]}
    places = {"a": range(16), "b": range(16)}
    assert not any("with time" in n for n in compare_groups(samples, blocks=places).notes)
    samples["a"] = drift * samples["a"]
    notes = compare_groups(samples, baseline="b", blocks=places).notes
    assert any("a against b, ratios within blocks: runs became longer" in note for note in notes)


def test_the_interval_of_few_blocks_covers_the_ratio():
    covered, nr_samples = 0, 400
    for seed in range(nr_samples):
        samples = disturbed(seed, 4, 1.5, 0.02)
        blocks = {"bfs": range(4), "cfs": range(4)}
        ratio = compare_groups(samples, baseline="cfs", blocks=blocks).pairs[0].ratio
        covered += ratio.low <= 1.5 <= ratio.high
    assert 0.917 < covered / nr_samples < 0.983  # three standard errors of 0.95


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)), min_size=1, max_size=9))
def test_any_times_in_blocks_get_an_answer_without_nan(pairs):
    samples = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}
    blocks = dict.fromkeys("ab", range(len(pairs)))
    found = compare_groups(samples, baseline="b", blocks=blocks)
    assert "nan" not in repr(found) and "inf," not in repr(found)
    assert (found.pairs[0].ratio.low is None) == (len(pairs) < 3)


def test_blocks_that_are_not_as_many_as_runs_are_refused():
    samples = disturbed(1, 5, 1.0)
    for blocks in ({"bfs": range(5)}, {"bfs": range(5), "cfs": range(4)}):
        with pytest.raises(BadValue, match="blocks of sample 'cfs'") as refused:
            compare_groups(samples, blocks=blocks)
        assert refused.value.hint
    with pytest.raises(BadValue, match="blocks of sample 'b'"):
        matched([1.0], [1.0], [1], [])
    with pytest.raises(BadValue, match="blocks in which both"):
        apart = {"bfs": range(5), "cfs": range(5, 10)}
        compare_groups(samples, blocks=apart, method=Method.BLOCKS)


# --- power ----------------------------------------------------------------------------------------


def test_the_number_of_blocks_is_that_of_r():
    # R: power.t.test(delta = log(1.01), sd = ..., power = 0.8, type = "paired")$n: 33.681, 23.057
    assert runs_needed(0.02, 0.01, in_blocks=True) == 34
    assert runs_needed(0.0163, 0.01, in_blocks=True) == 24
    # R: power.t.test(n = 10, sd = 0.02, power = 0.8, type = "paired", tol = 1e-13,
    # strict = TRUE)$delta
    assert np.log1p(detectable_change(0.02, 10)) == pytest.approx(0.0199200274291021, rel=1e-9)
    assert detectable_change(0.02, 2) is None
    assert (runs_needed(0.0, 0.01, in_blocks=True), detectable_change(0.0, 3)) == (3, 0.0)


def test_blocks_of_one_ratio_have_no_noise():
    assert Blocked(np.array([1e9, 2e9]), np.array([2e9, 4e9]), 0).noise == 0.0
