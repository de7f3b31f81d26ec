"""Goal: a claim's number, interval and verdict are those of its runs, and its file is understood.

Method: made-up runs whose ratios are known, SciPy asked for the same interval, the shipped claims
held against the published tables that they are made of, and files that say something wrong.
"""

import numpy as np
import pytest
from schedlab import catalogue
from schedlab.digests import canonical_json
from schedlab.errors import SchedlabError
from schedlab.experiment import claims as experiment_claims
from schedlab.experiment import definition as experiment_definition
from schedlab.experiment.study import rule_of, study_of
from schedlab.experiment.verdicts import (
    ClaimFinding,
    Judged,
    Reproduction,
    bounds_text,
    judge,
    pairing_text,
    place_text,
    published_text,
    simulated_text,
    verdict_text,
)
from scipy import stats

REPRODUCED, NOT, UNKNOWN = (
    Reproduction.REPRODUCED,
    Reproduction.NOT_REPRODUCED,
    Reproduction.CANNOT_TELL,
)
KNOWN = {"policy": ["old", "new"], "machine": ["small", "large"], "n": [1, 2, 4]}
EXPERIMENTS = sorted(catalogue.names(catalogue.EXPERIMENTS))


@pytest.fixture
def study(make_record):
    """Makes a study of `{(policy, machine, n): seconds of each run}`; two CPUs.

    Runs have the seeds 0, 1 ... and `seeds` where a place is in it.
    """

    def make(times, seeds=None):
        return study_of(
            [
                make_record(
                    policy=policy, machine=machine, varied={"n": n}, seed=seed,
                    result={
                        "makespan_ns": int(seconds * 1e9), "nr_cpus": 2, "task_groups": [],
                        "status": "completed", "error": None,
                    },
                )
                for (policy, machine, n), all_s in times.items()
                for seed, seconds in zip(
                    (seeds or {}).get((policy, machine, n), range(len(all_s))), all_s, strict=True
                )
            ]
        )  # fmt: skip

    return make


def definition(*claims, times=None, ideal=""):
    """An experiment with these claims, and published seconds by policy, machine and n."""
    told = [
        {"policy": p, "machine": m, "varied": {"n": n}, "makespan_ns": int(s * 1e9)}
        for (p, m, n), s in (times or {}).items()
    ]
    read = experiment_claims.read("f", list(claims), KNOWN, None if times is None else ideal)
    published = {"source": "somebody", "times": told, "ideal": ideal}
    found = experiment_definition.Experiment((), (), "w", claims=read).definition
    return found | {"published": None if times is None else published}


# --- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "bounds", "verdict"),
    [
        (1.1, 1.2, (1.0, 1.3), REPRODUCED),
        (1.0, 1.3, (1.0, 1.3), REPRODUCED),
        (1.1, 1.4, (1.0, 1.3), UNKNOWN),
        (0.9, 1.1, (1.0, None), UNKNOWN),
        (1.31, 1.4, (1.0, 1.3), NOT),
        (0.1, 0.2, (1.0, None), NOT),
        (0.1, 0.2, (None, 1.0), REPRODUCED),
        (2.0, 2.0, (2.0, 2.0), REPRODUCED),
        (None, None, (0.1, 10.0), UNKNOWN),
    ],
)
def test_the_interval_decides(low, high, bounds, verdict):
    assert ClaimFinding("here", 1.2, low, high, None, *bounds).verdict == verdict


@pytest.mark.parametrize(
    ("words", "nr_places", "verdict"),
    [
        ((REPRODUCED, REPRODUCED), 2, REPRODUCED),
        ((REPRODUCED, REPRODUCED), 3, UNKNOWN),
        ((REPRODUCED, UNKNOWN), 2, UNKNOWN),
        ((REPRODUCED, NOT), 3, NOT),
        ((UNKNOWN, NOT), 2, NOT),
        ((), 0, UNKNOWN),
    ],
)
def test_all_places_must_agree(words, nr_places, verdict):
    intervals = {REPRODUCED: (1.1, 1.2), NOT: (2.0, 3.0), UNKNOWN: (0.5, 1.5)}
    found = [ClaimFinding("", 1.0, *intervals[word], None, 1.0, 1.3) for word in words]
    assert Judged("", "", nr_places, found).verdict == verdict


# --- numbers --------------------------------------------------------------------------------------


SLOWER = {
    "says": "slower", "of": {"policy": "new", "machine": "small", "n": 1},
    "over": {"policy": "old"}, "at_least": 1.2,
}  # fmt: skip
NEW, OLD = ("new", "small", 1), ("old", "small", 1)


def test_a_claim_is_a_ratio_of_two_times_with_welchs_interval(study):
    new, old = (2.0, 2.2, 2.1), (1.0, 1.3, 1.1)
    runs = study({NEW: new, OLD: old}, seeds={NEW: (7, 8, 9)})
    [judged] = judge(definition(SLOWER), runs)
    test = stats.ttest_ind(np.log(new), np.log(old), equal_var=False)
    [found] = judged.findings
    assert found.simulated == pytest.approx(stats.gmean(new) / stats.gmean(old))
    assert (found.low, found.high) == pytest.approx(np.exp(test.confidence_interval(0.95)))
    assert (judged.verdict, found.published) == (REPRODUCED, None)
    assert simulated_text(judged) == f"{found.simulated:.3f} [{found.low:.3f}, {found.high:.3f}]"


# What chance does to both alike, and a fifth to a quarter more for one of them.
LARGE_AND_SMALL = (1.0, 2.0, 4.0, 3.0, 8.0)
BY_A_QUARTER = (1.25, 2.46, 4.96, 3.81, 10.0)


def test_with_the_same_seeds_runs_are_compared_seed_by_seed(study):
    times = {NEW: BY_A_QUARTER, OLD: LARGE_AND_SMALL}
    [judged] = judge(definition(SLOWER), study(times))
    [found] = judged.findings
    logs = np.log(BY_A_QUARTER) - np.log(LARGE_AND_SMALL)
    half = stats.t.ppf(0.975, 4) * stats.sem(logs)
    bounds = np.exp([np.mean(logs) - half, np.mean(logs) + half])
    assert (found.low, found.high) == pytest.approx(bounds)
    assert (judged.verdict, found.is_paired) == (REPRODUCED, True)
    assert " paired; reproduced" in place_text(judged, found)
    assert pairing_text([judged]).endswith("where both sides ran with the same seeds")


def test_runs_are_paired_by_their_seeds_in_whatever_order_they_were_kept(study):
    seeds = {NEW: (4, 2, 0, 1, 3)}
    shuffled = tuple(BY_A_QUARTER[seed] for seed in seeds[NEW])
    [judged] = judge(definition(SLOWER), study({NEW: shuffled, OLD: LARGE_AND_SMALL}, seeds))
    [same] = judge(definition(SLOWER), study({NEW: BY_A_QUARTER, OLD: LARGE_AND_SMALL}))
    assert judged.findings[0].low == pytest.approx(same.findings[0].low)


@pytest.mark.parametrize("seeds", [(10, 11, 12, 13, 14), (0, 1, 2, 3, 9)])
def test_other_seeds_are_not_paired(study, seeds):
    runs = study({NEW: BY_A_QUARTER, OLD: LARGE_AND_SMALL}, {NEW: seeds})
    [judged] = judge(definition(SLOWER), runs)
    [found] = judged.findings
    test = stats.ttest_ind(np.log(BY_A_QUARTER), np.log(LARGE_AND_SMALL), equal_var=False)
    assert (found.low, found.high) == pytest.approx(np.exp(test.confidence_interval(0.95)))
    assert (judged.verdict, found.is_paired) == (UNKNOWN, False)
    assert "paired" not in place_text(judged, found)
    assert pairing_text([judged]) == ""


def test_a_claim_beside_seeds_that_were_added_has_the_share_of_each_look(study):
    """Seeds that only one side got say nothing of a pair."""
    added = {"until_ci": 0.01, "repeats": 3, "repeat_max": 12, "policies": ["old", "other", "new"]}
    times = {NEW: BY_A_QUARTER, OLD: (*LARGE_AND_SMALL, 100.0, 100.0)}
    [judged] = judge(definition(SLOWER) | added, study(times))
    [found] = judged.findings
    logs = np.log(BY_A_QUARTER) - np.log(LARGE_AND_SMALL)
    # Looks at 3, 5, 8 and 12 runs of two policies.
    half = stats.t.ppf(1 - 0.025 / 8, 4) * stats.sem(logs)
    bounds = np.exp([np.mean(logs) - half, np.mean(logs) + half])
    assert (found.low, found.high) == pytest.approx(bounds) and found.is_paired
    [alone] = judge(definition(SLOWER) | added, study({NEW: BY_A_QUARTER}))
    assert not alone.findings


@pytest.mark.parametrize("is_random", [False, True])
def test_a_claim_knows_no_more_than_the_table_beside_it(make_record, is_random):
    """Where seeds were added, equal times of other runs are no certainty."""
    added = {"until_ci": 0.01, "repeats": 3, "repeat_max": 12, "policies": ["old", "new"]}
    alone = {"says": "alone", "of": SLOWER["of"], "at_most": 1.1}
    told = definition(SLOWER, alone, times={NEW: 2.0}) | added
    records = [
        make_record(
            policy=policy, machine="small", varied={"n": 1}, seed=seed,
            result={
                "makespan_ns": seconds * 10**9, "nr_cpus": 2, "task_groups": [],
                "status": "completed", "error": None, "digest": f"{seed * is_random}",
            },
        )
        for policy, seconds in (("old", 1), ("new", 2))
        for seed in range(5)
    ]  # fmt: skip
    runs = study_of(records, rule_of(told))
    [cell] = runs.cells
    table = cell.comparisons["new"].ratio
    for judged in judge(told, runs):
        [found] = judged.findings
        assert found.low == (None if is_random else found.simulated)
        assert judged.verdict == (UNKNOWN if is_random else REPRODUCED)
    assert table.low == (None if is_random else 2.0)


def test_a_published_time_has_no_seeds(study):
    claim = {"says": "s", "of": SLOWER["of"], "within": 0.25}
    told = definition(claim, times={NEW: 2.0})
    [judged] = judge(told, study({NEW: (2.1, 2.2, 2.3)}))
    assert not judged.findings[0].is_paired


def test_places_are_all_that_the_claim_leaves_open(study):
    times = {(p, m, n): (1.0,) * 3 for p in ("old", "new") for m in ("small", "large")
             for n in (1, 2, 4)}  # fmt: skip
    claim = {"says": "s", "of": {"policy": "new"}, "over": {"policy": "old"}, "at_most": 1}
    [judged] = judge(definition(claim), study(times))
    assert (judged.nr_places, len(judged.findings)) == (6, 6)
    claim["of"] = {"policy": "new", "n": [2, 4]}
    [judged] = judge(definition(claim), study(times))
    assert {found.where for found in judged.findings} == {
        f"new, {machine}, n = {n}" for machine in ("small", "large") for n in (2, 4)
    }


def test_each_of_several_counterparts_is_a_place(study):
    times = {("old", "small", n): (float(n),) * 3 for n in (1, 2, 4)}
    claim = {"says": "s", "of": {"policy": "old", "machine": "small", "n": 2}, "at_most": 1}
    [judged] = judge(definition(claim | {"over": {"n": [1, 4]}}), study(times))
    assert [found.simulated for found in judged.findings] == [2.0, 0.5]
    assert judged.verdict == NOT
    assert verdict_text(judged) == "not reproduced; it is in 1 of 2 places"
    assert simulated_text(judged) == "0.500 to 2.000"


def test_a_place_that_was_not_run_leaves_the_claim_open(study):
    claim = {"says": "s", "of": {"policy": "new", "n": 1}, "over": {"policy": "old"}, "at_most": 2}
    times = {("old", "small", 1): (1.0,) * 3, ("new", "small", 1): (1.0,) * 3}
    [judged] = judge(definition(claim), study(times))
    assert judged.verdict == UNKNOWN
    assert verdict_text(judged) == "cannot tell; it is in 1 of 2 places, of which 1 were run"


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        ({"of": {"n": 4}, "over": {"policy": "old"}, "at_most": 2}, "nothing of it was run"),
        (
            {"of": {"n": 1}, "over": {"n": 4}, "at_most": 2},
            "there is nothing that it could be held against",
        ),
        (
            {"of": {"n": 1}, "share_of_nice": 5, "at_most": 2},
            "no run has a share of CPU time for nice 5",
        ),
    ],
)
def test_a_claim_that_meets_no_run_says_so(study, claim, why):
    runs = study({("new", "small", 1): (1.0,) * 3})
    [judged] = judge(definition({"says": "s"} | claim), runs)
    assert (judged.verdict, list(judged.findings)) == (UNKNOWN, [])
    assert verdict_text(judged) == f"cannot tell: {why}"
    assert (simulated_text(judged), bounds_text(judged)) == ("", "")


def test_equal_numbers_are_equal_however_they_are_written(study):
    times = {("old", "small", 1): (1.0,) * 3, ("old", "small", 2): (2.0,) * 3}
    claim = {"says": "s", "of": {"policy": "old", "machine": "small", "n": 2.0}}
    claim |= {"over": {"n": [1.0]}, "at_most": 2}
    told = definition(claim)
    [judged] = judge(told, study(times))
    [found] = judged.findings
    assert (found.where, found.simulated, judged.verdict) == ("old, small, n = 2", 2.0, REPRODUCED)
    # A store may hold what an earlier schedlab has read.
    stored = {**told["claims"][0], "of": [{**told["claims"][0]["of"][0], "n": 2.0}]}
    [judged] = judge(told | {"claims": [stored]}, study(times))
    assert judged.verdict == REPRODUCED


def test_within_is_a_factor_about_the_published_ratio(study):
    published = {("old", "small", 1): 2.0, ("old", "small", 2): 3.0}
    claim = {"says": "s", "of": {"policy": "old", "machine": "small", "n": 2}, "over": {"n": 1}}
    told = definition(claim | {"within": 0.1}, times=published)
    for ratio, verdict in ((1.64, REPRODUCED), (1.37, REPRODUCED), (1.66, NOT), (1.36, NOT)):
        times = {("old", "small", 1): (1.0,) * 3, ("old", "small", 2): (ratio,) * 3}
        [judged] = judge(told, study(times))
        assert judged.verdict == verdict, ratio
        assert published_text(judged) == "1.500"
        assert bounds_text(judged) == "1.364 to 1.650"


def test_a_time_alone_is_held_against_the_published_one(study):
    claim = {"says": "s", "of": {"policy": "old", "machine": "small", "n": 2}, "within": 0.25}
    told = definition(claim, times={("old", "small", 2): 2.0})
    all_s = (2.1, 2.2, 2.3)
    [judged] = judge(told, study({("old", "small", 2): all_s}))
    [found] = judged.findings
    interval = stats.ttest_1samp(np.log(all_s) - np.log(2.0), 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(np.exp(interval))
    assert (found.published, judged.verdict) == (1.0, REPRODUCED)


def test_over_the_ideal_is_over_one_part_times_the_parts_of_a_cpu(study):
    claim = {"says": "s", "of": {"policy": "old", "machine": "small", "n": [2, 4]}}
    claim |= {"over_ideal": True, "within": 0.5}
    published = {("old", "small", 1): 1.0, ("old", "small", 2): 1.5, ("old", "small", 4): 2.0}
    times = {place: (2 * s,) * 3 for place, s in published.items()}
    [judged] = judge(definition(claim, times=published, ideal="n"), study(times))
    # Two CPUs: one part each at n = 2, two parts each at n = 4.
    assert [found.simulated for found in judged.findings] == pytest.approx([1.5, 1.0])
    assert [found.published for found in judged.findings] == pytest.approx([1.5, 1.0])
    assert judged.verdict == REPRODUCED and bounds_text(judged) == "as published, each"


def test_a_share_of_cpu_time_is_in_percent(make_record):
    def run(seed, other_ms):
        groups = [
            {"name": name, "nice": nice, "count": 1, "pinned": False, "run_ns": ms * 10**6,
             "wait_ns": 10**9 - ms * 10**6}
            for name, nice, ms in (("zero", 0, 1000 - other_ms), ("other", 15, other_ms))
        ]  # fmt: skip
        result = {"makespan_ns": 10**9, "elapsed_ns": 10**9, "nr_cpus": 1, "wakeups": 0,
                  "nr_tasks": 2, "task_groups": groups}  # fmt: skip
        return make_record(policy="old", machine="small", varied={"n": 1}, seed=seed, result=result)

    claim = {"says": "s", "of": {"policy": "old", "machine": "small", "n": 1}}
    claim |= {"share_of_nice": 15, "published": 0.7, "at_least": 0.65, "at_most": 1.2}
    runs = study_of([run(seed, 7 + seed) for seed in range(3)])
    [judged] = judge(definition(claim), runs)
    [found] = judged.findings
    half = stats.t.ppf(0.975, 2) * stats.sem([0.7, 0.8, 0.9])
    assert (found.simulated, found.low) == pytest.approx((0.8, 0.8 - half))
    assert simulated_text(judged) == f"0.80 % [{0.8 - half:.2f}, {0.8 + half:.2f}]"
    assert (published_text(judged), bounds_text(judged)) == ("0.70 %", "0.65 to 1.20 %")
    assert place_text(judged, found).startswith("old, small, n = 1: 0.80 % [")
    missing = claim | {"share_of_nice": 14}
    [judged] = judge(definition(missing), runs)
    assert verdict_text(judged) == "cannot tell: no run has a share of CPU time for nice 14"


def test_what_the_model_lacks_is_told_without_runs(study):
    told = definition({"says": "it needs less memory", "cannot_tell": "no memory"})
    [judged] = judge(told, study({("old", "small", 1): (1.0,)}))
    assert (judged.verdict, verdict_text(judged)) == (UNKNOWN, "cannot tell: no memory")


# --- shipped claims -------------------------------------------------------------------------------


def shipped(name):
    return experiment_definition.build(
        experiment_definition.read_options(catalogue.find(catalogue.EXPERIMENTS, name))
    )


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if shipped(name).published])
def test_a_shipped_claim_is_true_of_the_published_times_themselves(name, make_record):
    asked = shipped(name)
    records = [
        make_record(
            policy=time.policy, machine=time.machine, varied=dict(time.varied), seed=seed,
            result={"makespan_ns": time.makespan_ns, "nr_cpus": 2, "task_groups": []},
        )
        for time in asked.published.times
        for seed in range(3)
    ]  # fmt: skip
    judged = judge(asked.definition, study_of(records))
    assert len(judged) == len(asked.claims)
    for one in judged:
        assert one.why or one.verdict == REPRODUCED, (one.says, verdict_text(one))


def test_every_experiment_but_those_without_a_claim_of_others_has_some():
    without = {name for name in EXPERIMENTS if not shipped(name).claims}
    assert without == {"demo", "counter_2009_mechanisms", "scale_cpus", "scale_tasks"}


def test_an_experiment_without_claims_keeps_its_id():
    assert "claims" not in shipped("demo").definition
    assert "claims" in shipped("nice_2007").definition
    assert canonical_json(shipped("nice_2007").definition)


# --- wrong files ----------------------------------------------------------------------------------

GOOD = {"says": "s", "of": {"policy": "old"}, "over": {"policy": "new"}, "at_most": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sais": 1}, "unknown key 'sais' in f 1: did you mean says"),
        ({"says": ""}, "does not say what is claimed: ''"),
        ({"of": None}, "f 1: of: None is not a table"),
        ({"of": "old"}, "f 1: of: 'old' is not a table"),
        ({"of": {"polcy": "old"}}, "unknown name 'polcy' in f 1: of: did you mean policy"),
        ({"of": {"policy": "odl"}}, r"unknown policy 'odl' .*not in this experiment.*mean old"),
        ({"over": {"n": 3}}, r"unknown n '3' in f 1: over"),
        ({"over": {"n": True}}, r"unknown n 'True' in f 1: over"),
        ({"at_most": None}, "needs bounds: at_least, at_most or both"),
        ({"within": 0.1}, "needs bounds"),
        ({"at_least": 2}, "2.0 is above at_most, 1.0"),
        ({"at_most": "1"}, "f 1: at_most: '1' is not a number"),
        ({"at_most": -1}, "-1 is not a number from 1e-12"),
        ({"share_of_nice": 15}, "one can be meant"),
        ({"over": ..., "share_of_nice": 20}, "20 is not a whole number from -20 to 19"),
        ({"over": ...}, "there is no published number"),
        ({"at_most": ..., "within": 0.1}, "there is no published number"),
        ({"over": ..., "over_ideal": True}, "does not say what is ideal"),
        ({"over": ..., "over_ideal": 1}, "1 is not true or false"),
        ({"cannot_tell": "why"}, "stands alone beside says"),
    ],
)
def test_what_a_file_says_wrongly_of_a_claim_is_refused(change, message):
    table = {key: value for key, value in (GOOD | change).items() if value is not ...}
    table = {key: value for key, value in table.items() if value is not None or key == "of"}
    experiment_claims.read("f", [GOOD], KNOWN, None)
    with pytest.raises(SchedlabError, match=message):
        experiment_claims.read("f", [table], KNOWN, None)


@pytest.mark.parametrize("raw", [{}, "s", [1]])
def test_claims_are_a_list_of_tables(raw):
    with pytest.raises(SchedlabError, match="is not a list of tables"):
        experiment_claims.read("f", raw, KNOWN, None)
