"""Goal: nothing is called better that may be worse, nor is what is better lost in noise.

Method: judgements on made-up costs, and campaigns of known truth from a seed.
"""

import functools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from made_searches import costs, options
from schedlab.statistics.estimates import paired_ratio
from schedlab.tuning import answer, asked, verdict

SEED = 20261127
NR_CAMPAIGNS = 200
TRIAL = answer.Trial(3, {"slice_ns": 1}, answer.DONE, (-0.5,))


def scenario(name, group, factor, measure="p99_wakeup", **others):
    """Twelve seeds whose costs differ widely, and of the tuned are `factor` times those, nearly."""
    base = [costs(**{measure: 100.0 * 1.5**seed}) for seed in range(12)]
    tuned = [
        costs(**{measure: one[measure] * factor * (1 + 0.01 * (seed % 3 - 1))})
        for seed, one in enumerate(base)
    ]
    for one, of in zip(base, tuned, strict=True):
        for other, times in others.items():
            one[other], of[other] = 7.0, 7.0 * times
    return verdict.Scenario(name, group, {verdict.BASE: base, verdict.TUNED: tuned})


@functools.cache
def usual_tuning():
    return asked.build(options())


def judged(*scenarios, nr_first=None, **given):
    tuning = asked.build(options(**given)) if given else usual_tuning()
    [found] = verdict.judged_by(tuning, {verdict.TUNED: TRIAL}, scenarios, nr_first)
    return found


def test_seeds_are_pairs_so_that_chance_which_both_met_hides_nothing():
    found = judged(scenario("a", answer.SEARCHED, 0.9))
    [row] = found.rows
    assert found.is_better and row.word == answer.BETTER
    assert 0.88 < row.ratio.low < row.ratio.ratio < row.ratio.high < 0.92


def test_what_is_better_only_where_it_was_searched_is_not_called_better():
    found = judged(scenario("a", answer.SEARCHED, 0.5), scenario("b", answer.HELD_OUT, 1.2))
    assert [row.word for row in found.rows] == [answer.BETTER, answer.WORSE]
    assert "became worse elsewhere" in found.why


@pytest.mark.parametrize("group", [answer.SEARCHED, answer.HELD_OUT])
def test_what_is_worse_in_one_scenario_of_many_is_not_called_better(group):
    found = judged(
        scenario("a", answer.SEARCHED, 0.5), scenario("b", group, 0.2), scenario("c", group, 3.0)
    )
    assert [row.word for row in found.rows if row.is_whole][-1] == answer.BETTER
    assert found.why == "not better everywhere: p99_wakeup became worse in c"


def test_a_gain_too_small_for_a_word_is_none():
    assert judged(scenario("a", answer.SEARCHED, 0.997)).why == "no better on fresh seeds"


def test_a_bound_must_be_shown_to_be_kept():
    kept = judged(scenario("a", answer.SEARCHED, 0.5, throughput=1.01), keeps=["throughput=2%"])
    assert kept.is_better and kept.rows[-1].word == answer.KEPT
    broken = judged(scenario("a", answer.SEARCHED, 0.5, throughput=1.03), keeps=["throughput=2%"])
    assert broken.why == "not shown to keep throughput=2%"


def test_worse_in_another_objective_is_a_trade():
    found = judged(
        scenario("a", answer.SEARCHED, 0.5, makespan=1.2), objectives=["p99_wakeup", "makespan"]
    )
    assert found.why == "a trade: makespan became worse"


def test_a_run_that_failed_cannot_be_better():
    broken = scenario("a", answer.SEARCHED, 0.5)
    broken.failed[verdict.TUNED] = "it stalled"
    assert "it stalled" in judged(broken).why


def test_who_answers_nobody_any_more_has_failed():
    silent = scenario("a", answer.SEARCHED, 0.5, p99_response=1.0)
    silent.costs[verdict.TUNED][4]["p99_response"] = None
    found = judged(silent, objectives=["p99_wakeup+p99_response"])
    assert found.why == "a run has nothing of p99_response any more (a)" and not found.rows
    assert not judged(silent, keeps=["p99_response=2%"]).is_better
    assert judged(silent).is_better


def test_a_bound_is_judged_by_the_seeds_that_have_anything_of_it():
    patchy = scenario("a", answer.SEARCHED, 0.5, p99_response=1.5)
    for of in patchy.costs.values():
        of[0]["p99_response"] = None
    found = judged(patchy, keeps=["p99_response=2%"])
    assert found.why == "not shown to keep p99_response=2%"
    assert found.rows[-1].ratio.ratio == pytest.approx(1.5)


def test_a_bound_that_two_seeds_have_anything_of_is_not_shown_to_be_kept():
    rare = scenario("a", answer.SEARCHED, 0.5, p99_response=1.0)
    for of in rare.costs.values():
        for one in of[2:]:
            one["p99_response"] = None
    tuning = asked.build(options(keeps=["p99_response=2%"]))
    [found] = verdict.judged_by(tuning, {verdict.TUNED: TRIAL}, [rare])
    assert found.why == "not shown to keep p99_response=2%"
    # More seeds may have something of it.
    assert verdict.nr_to_rule_out(tuning, [found]) == verdict.FRESH_MOST


def noisy(name, group, factor, noise, nr, random):
    """So many seeds whose costs differ by this factor from the base's, and by chance."""
    base = [costs(p99_wakeup=100.0) for _ in range(nr)]
    tuned = [costs(p99_wakeup=100.0 * factor * math.exp(of)) for of in random.normal(0, noise, nr)]
    return verdict.Scenario(name, group, {verdict.BASE: base, verdict.TUNED: tuned})


def first_of(one, nr):
    """The scenario with no more than so many seeds."""
    return verdict.Scenario(one.name, one.group, {of: all_[:nr] for of, all_ in one.costs.items()})


def share_better(loss, noise):
    """In how many of all campaigns something is called better that costs so much more elsewhere."""
    random, nr_better = np.random.default_rng(SEED), 0
    for _ in range(NR_CAMPAIGNS):
        both = [
            noisy("a", answer.SEARCHED, 0.8, 0.05, verdict.FRESH_MOST, random),
            noisy("b", answer.HELD_OUT, 1 + loss, noise, verdict.FRESH_MOST, random),
        ]
        found = judged(*(first_of(one, verdict.FRESH_LEAST) for one in both))
        nr = verdict.nr_to_rule_out(usual_tuning(), [found])
        if nr > verdict.FRESH_LEAST:
            found = judged(*(first_of(one, nr) for one in both), nr_first=verdict.FRESH_LEAST)
        nr_better += found.is_better
    return nr_better / NR_CAMPAIGNS


# A twentieth, and three standard errors of what so many campaigns say of it.
BOUND = 0.05 + 3 * (0.05 * 0.95 / NR_CAMPAIGNS) ** 0.5


@pytest.mark.parametrize(("loss", "noise"), [(0.05, 0.05), (0.05, 0.15), (0.1, 0.3)])
def test_a_loss_elsewhere_that_noise_hides_is_called_better_in_a_twentieth(loss, noise):
    assert share_better(loss, noise) <= BOUND, f"seed {SEED}"


def test_what_loses_nothing_elsewhere_is_called_better_in_most_cases():
    """Else the bound would be kept by whoever calls nothing better."""
    assert share_better(0, 0.05) >= 0.75, f"seed {SEED}"


@pytest.mark.parametrize("nr_candidates", [1, 5])
def test_of_several_candidates_that_lose_one_is_called_better_in_a_twentieth(nr_candidates):
    labels = dict.fromkeys([f"{verdict.TUNED}_{n}" for n in range(nr_candidates)], TRIAL)
    random, nr_wrong = np.random.default_rng(SEED), 0
    for _ in range(NR_CAMPAIGNS):
        scenarios = []
        for name, group, factor in (("a", answer.SEARCHED, 0.8), ("b", answer.HELD_OUT, 1.05)):
            made = {label: noisy(name, group, factor, 0.05, 12, random).costs for label in labels}
            costs = {label: of[verdict.TUNED] for label, of in made.items()}
            base = next(iter(made.values()))[verdict.BASE]
            scenarios.append(verdict.Scenario(name, group, {verdict.BASE: base, **costs}))
        found = verdict.judged_by(usual_tuning(), labels, scenarios)
        nr_wrong += any(one.is_better for one in found)
    assert nr_wrong / NR_CAMPAIGNS <= BOUND, f"seed {SEED}"


def test_candidates_have_their_share_of_the_error():
    one = scenario("a", answer.SEARCHED, 0.9)
    costs = one.costs[verdict.TUNED]
    two = verdict.Scenario("a", one.group, one.costs | {"other": costs})
    labels = {verdict.TUNED: TRIAL, "other": TRIAL}
    found, _ = verdict.judged_by(usual_tuning(), labels, [two])
    [row], [alone] = found.rows, judged(one).rows
    scores = [math.log(a["p99_wakeup"] / b["p99_wakeup"])
              for a, b in zip(costs, one.costs[verdict.BASE], strict=True)]  # fmt: skip
    expected = paired_ratio(np.exp(scores), np.ones(12), 2)
    assert row.ratio == expected and alone.ratio.high < row.ratio.high


def test_what_may_be_worse_elsewhere_is_not_called_better():
    random = np.random.default_rng(SEED)
    shown = scenario("a", answer.SEARCHED, 0.5)
    found = judged(shown, noisy("b", answer.HELD_OUT, 1.0, 0.3, 12, random))
    assert found.rows[-1].word == answer.MAY_BE_WORSE
    assert re.match(r"a loss is not ruled out: p99_wakeup in b [+-]\d+ % \[-", found.why)
    same = judged(shown, scenario("b", answer.HELD_OUT, 1.0))
    assert same.rows[-1].word == answer.NO_WORSE and same.is_better
    # The user may allow more.
    found = judged(shown, noisy("b", answer.HELD_OUT, 1.03, 0.05, 12, random))
    assert not found.is_better
    found = judged(shown, noisy("b", answer.HELD_OUT, 1.03, 0.05, 12, random),
                   keeps=["p99_wakeup=20%"])  # fmt: skip
    assert found.is_better


def needed(factor, noise, **given):
    """How many seeds the noise of the first ones asks for."""
    tuning = asked.build(options(**given)) if given else usual_tuning()
    random = np.random.default_rng(SEED)
    found = judged(noisy("a", answer.HELD_OUT, factor, noise, 12, random), **given)
    return verdict.nr_to_rule_out(tuning, [found])


def test_seeds_are_added_by_the_noise_and_never_by_what_was_found():
    assert needed(0.5, 0.06) == needed(1.0, 0.06) == needed(2.0, 0.06)
    assert 3 <= needed(1.0, 0.01) < needed(1.0, 0.06) < needed(1.0, 0.5) == verdict.FRESH_MOST
    assert verdict.nr_to_rule_out(usual_tuning(), []) == 0


def test_seeds_are_added_by_what_is_allowed():
    usual, wide = needed(1.0, 0.06), needed(1.0, 0.06, keeps=["p99_wakeup=20%"])
    assert wide < usual < needed(1.0, 0.06, keeps=["p99_wakeup=3%"])
    assert needed(1.0, 0.06, keeps=["p99_wakeup=0%"]) == verdict.FRESH_MOST
    # What is allowed of another measure says nothing of this one.
    steady = scenario("a", answer.HELD_OUT, 1.0, throughput=1.0)
    tuning = asked.build(options(keeps=["throughput=0%"]))
    [found] = verdict.judged_by(tuning, {verdict.TUNED: TRIAL}, [steady])
    assert verdict.nr_to_rule_out(tuning, [found]) < usual


def test_a_bound_has_seeds_added_by_its_own_noise():
    random, steady = np.random.default_rng(SEED), scenario("a", answer.SEARCHED, 0.5)
    for one, of in zip(*steady.costs.values(), strict=True):
        one["p99_response"], of["p99_response"] = 1.0, math.exp(random.normal(0, 0.2))
    tuning = asked.build(options(keeps=["p99_response=2%"]))
    [found] = verdict.judged_by(tuning, {verdict.TUNED: TRIAL}, [steady])
    assert verdict.nr_to_rule_out(tuning, [found]) == verdict.FRESH_MOST


def test_seeds_that_were_added_leave_the_noise_to_the_first_ones():
    """Stein's two stages: tests/statistics/test_two_stage.py says what for."""
    random = np.random.default_rng(SEED)
    one = noisy("a", answer.SEARCHED, 0.9, 0.1, 40, random)
    [row], [usual] = judged(one, nr_first=10).rows, judged(one).rows
    [first] = judged(first_of(one, 10)).rows
    assert row.ratio.ratio == usual.ratio.ratio and row.ratio.log_error != usual.ratio.log_error
    assert row.ratio.log_error == pytest.approx(first.ratio.log_error / 2)


@pytest.mark.parametrize(
    ("text", "value", "is_told"),
    [
        ("1ms..5ms", 1_000_000, True),
        ("1ms..5ms", 5_000_000, True),
        ("1ms..5ms:log", 1_000_000, True),
        ("1ms..5ms", 2_000_000, False),
        ("0..5ms", 0, False),
        ("0..1", 1, False),
        # As it is it has that value, too.
        ("3ms..5ms", 3_000_000, False),
    ],
)
def test_a_best_value_at_an_end_of_its_range_is_told(text, value, is_told):
    tuning = asked.build(options(ranges={"slice_ns": text}))
    trial = replace(TRIAL, settings={"slice_ns": value})
    found = answer.Tuned(tuning, None, None, {"slice_ns": 3_000_000}, {}, 0, 0, "")
    ends = found.at_ends(answer.Judged(trial, verdict.TUNED, (), ""))
    assert ends == ["slice_ns"] * is_told
