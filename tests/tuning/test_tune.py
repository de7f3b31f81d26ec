"""Goal: `schedlab tune` finds what is better, says so only where fresh seeds do, and goes on.

Method: scores against closed forms; the real command on small workloads, with policies whose
tunable does what is known: shorter turns, nothing, or a failure.
"""

import json
import math
import re
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import plotly.graph_objects as go
import pytest
from made_searches import costs, options
from running import begin, wait_for
from schedlab import catalogue
from schedlab.errors import BadValue, SchedlabError, UnknownName
from schedlab.store.locks import Locks
from schedlab.tuning import asked, named_set, search
from schedlab.tuning.costs import costs_of, keep_of, lost, objective_of

ROOT = catalogue.PACKAGE.parents[1]
# Who sleeps is heard of sooner the shorter the turns of those who never do.
WORKLOAD = """
description = "two that sleep beside three that never do"
source = "made for a test"
stop = "400ms"

[[tasks]]
name = "sleeper"
count = 2
program = [
    { repeat = "forever", do = [
        { sleep = { exponential = "3ms" } }, { run = { exponential = "200us" } },
    ] },
]

[[tasks]]
name = "hog"
count = 3
program = [{ repeat = "forever", do = [{ run = "10ms" }] }]
"""
POLICY = """
/* turns - every runnable task gets a turn.
 *
 * Source: made for a test.
 */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

#define SHARED 0

/* How long a turn is; ns. */
const volatile u64 turn_ns = 8 * NSEC_PER_MSEC;
/* Nobody reads it. */
const volatile u64 charm = 20;
/* More than 50 is an error. */
const volatile u64 courage = 20;

s32 BPF_STRUCT_OPS_SLEEPABLE(turns_init)
{
	if (courage > 50) {
		scx_bpf_error("courage is %llu", courage);
		return -EINVAL;
	}
	return scx_bpf_create_dsq(SHARED, -1);
}

void BPF_STRUCT_OPS(turns_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SHARED, turn_ns, enq_flags);
}

void BPF_STRUCT_OPS(turns_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(SHARED);
}

SCX_OPS_DEFINE(turns_ops,
	.init = (void *)turns_init, .enqueue = (void *)turns_enqueue,
	.dispatch = (void *)turns_dispatch, .name = "turns");
"""
# A coin decides who goes first. It is as fair whatever is multiplied, but falls otherwise.
LUCKY = POLICY.replace(
    "turn_ns, enq_flags",
    "turn_ns, enq_flags | (bpf_get_prandom_u32() * (2 * (u32)charm + 1) >> 31 ? SCX_ENQ_HEAD : 0)",
)
WORDS = ["tune", "./turns.bpf.c", "--objective", "p99_wakeup", "--workload", "./nap.toml",
         "--machine", "osdl-1", "--repeat", "3", "--quiet"]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "turns.bpf.c").write_text(POLICY)
    (tmp_path / "nap.toml").write_text(WORKLOAD)
    longer = WORKLOAD.replace('"3ms"', '"5ms"').replace("count = 3", "count = 4")
    (tmp_path / "long_nap.toml").write_text(longer)
    return tmp_path


# ---- scores -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["p99_wakeup", "30*p99_wakeup", "0.001*p99_wakeup"])
def test_half_the_cost_scores_minus_log_two_whatever_its_weight(text):
    objective = objective_of(text)
    one, base = costs(p99_wakeup=50), costs(p99_wakeup=100)
    assert objective.score(one, base) == pytest.approx(-math.log(2))
    assert objective.score(base, base) == 0


def test_a_sum_scores_by_the_parts_that_its_weights_have_of_all():
    one, base = costs(makespan=6.0, p99_wakeup=50), costs(makespan=3.0, p99_wakeup=100)
    for text, score in (
        ("makespan+p99_wakeup", 0.0),
        ("0.5*makespan + 2*p99_wakeup", -0.6 * math.log(2)),
    ):
        assert objective_of(text).score(one, base) == pytest.approx(score)


def test_what_the_defaults_have_nothing_of_counts_as_unchanged():
    objective = objective_of("makespan+missed_deadlines")
    one, base = costs(makespan=6.0, missed_deadlines=0.5), costs(makespan=3.0)
    assert objective.score(one, base) == pytest.approx(math.log(2) / 2)
    assert not objective_of("missed_deadlines").has_part_in(base)
    assert lost(objective.weights, one, base) == []
    assert lost(objective.weights, base, one) == ["missed_deadlines"]


def test_costs_are_lower_where_a_result_is_better():
    result = {"makespan_ns": 10, "wakeups": 9, "nr_tasks": 2, "jain_fairness": 0.5, "nr_cpus": 2}
    delays = {"count": 9, "p50": 0, "p90": 5, "p99": 7, "max": 8}
    result |= {"wakeup_latency_ns": delays, "response_ns": None, "deadlines": 9}
    result |= {"deadline_misses": 0, "elapsed_ns": 100, "cpu_time_ns": {"work": 50}}
    found = costs_of(result)
    assert found["p50_wakeup"] == 1 and found["p99_wakeup"] == 7
    assert found["missed_deadlines"] == pytest.approx(0.05)
    assert found["fairness"] == 2 and found["throughput"] == 4
    assert found["p99_response"] is None
    # The births of all tasks are no wake-ups of any.
    assert costs_of(result | {"wakeups": 2})["p99_wakeup"] is None


def test_a_bound_is_exceeded_by_what_is_beyond_it():
    keep = keep_of("throughput=2%")
    assert keep.excess(costs(throughput=1.03), costs(throughput=1.0)) > 0
    assert keep.excess(costs(throughput=1.02), costs(throughput=1.0)) <= 1e-12
    assert keep.excess(costs(), costs(throughput=1.0)) is None


@pytest.mark.parametrize(
    "text",
    ["", "+", "makespan+", "-1*makespan", "0*makespan", "makespan+makespan", "2*",
             "5000000*makespan", f"1{400 * '0'}*makespan", "0*makespan+0*p99_wakeup",
             "1000000*makespan+0.0001*p99_wakeup"],
)  # fmt: skip
def test_what_is_no_objective_is_refused(text):
    with pytest.raises((BadValue, UnknownName), match="--objective"):
        objective_of(text)


# ---- ranges -------------------------------------------------------------------------------------


def test_usual_ranges_are_times_flags_and_what_the_sets_know():
    def usual(name, default, of_sets=(), kind="u64", doc="What it is."):
        return asked.usual_range({"name": name, "type": kind, "doc": doc}, default, of_sets)

    assert usual("slice_ns", 3_000_000) == asked.Range(300_000, 30_000_000, True, True)
    assert usual("slice_ns", 0) is None
    assert usual("newidle", 1, doc="1: a CPU pulls at once.") == asked.Range(0, 1, False)
    assert usual("gentle", 1, kind="bool") == asked.Range(0, 1, False)
    assert usual("wakeup_weight", 2, [0, 1]) == asked.Range(0, 2, False)
    assert usual("busy_factor", 16) is None


def test_a_range_far_apart_is_logarithmic_unless_it_says_otherwise():
    tunable = {"name": "slice_ns", "type": "u64", "doc": ""}
    assert asked.parse_range(tunable, "1ms..2ms") == asked.Range(10**6, 2 * 10**6, False, True)
    assert asked.parse_range(tunable, "100us..10ms").is_log
    assert not asked.parse_range(tunable, "100us..10ms:linear").is_log


def test_a_time_is_tried_to_two_digits_inside_its_range():
    of = asked.Range(1_250_000, 9_990_000, True, True)
    assert of.value(3_456_789) == 3_500_000
    assert of.value(1_251_000) == 1_300_000
    assert of.value(9_989_999) == 9_990_000
    assert asked.Range(0, 12345, False).value(4567) == 4567


def test_only_what_is_named_is_searched_and_what_is_set_is_not():
    tuning = asked.build(
        options(policy="cfs", only=["latency_ns"], ranges={"busy_factor": "1..64"})
    )
    assert set(tuning.ranges) == {"latency_ns", "busy_factor"}
    # The default is that of the set that the name alone means.
    assert tuning.ranges["latency_ns"] == asked.Range(600_000, 60_000_000, True, True)
    fixed = asked.build(options(policy="cfs", set={"latency_ns": "6ms"}))
    assert "latency_ns" not in fixed.ranges and "min_granularity_ns" in fixed.ranges


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"policy": "fifo"}, "policy fifo has no tunable to search"),
        ({"objectives": []}, "no objective is given"),
        ({"workloads": []}, "no workload is given"),
        ({"machines": []}, "no machine is given"),
        ({"objectives": ["makespan", "1*makespan"]}, "'1*makespan' asks for the same as"),
        ({"ranges": {"slice_ns": "1ms..1e30"}}, "--range slice_ns: '1e30'"),
        ({"ranges": {"slice_ns": f"1ms..{10**30}"}}, "does not fit slice_ns"),
        ({"holdouts": ["sleepers"]}, "'sleepers' is given twice"),
        ({"only": ["slice"]}, "did you mean slice_ns"),
        ({"set": {"slice_ns": "1ms"}, "only": ["slice_ns"]}, "both searched and fixed"),
        ({"ranges": {"slice_ns": "3ms"}}, "'3ms' is not a range"),
        ({"ranges": {"slice_ns": "3ms..1ms"}}, "is empty"),
        ({"ranges": {"slice_ns": "0..1ms:log"}}, "begins below 1"),
        ({"with": {"groups": "3"}}, "unknown parameter 'groups' of sleepers"),
        ({"policy": "eevdf", "only": ["busy_factor"]}, "has no usual range"),
        ({"keeps": ["throughput"]}, "'throughput' is no bound"),
        ({"keeps": ["makespan=1%", "makespan=2%"]}, "'makespan' is given twice"),
        ({"trials": 0}, "--trials: 0 is outside"),
        ({"fresh": 2}, "--fresh: 2 is outside"),
        ({"seed": 2**63}, "is outside"),
        ({"repeat": 2.5}, "--repeat: 2.5 is not a whole number"),
    ],
)
def test_wrong_input_names_the_value_and_a_way_out(given, message):
    with pytest.raises(SchedlabError) as error:
        asked.build(options(**given)).search_cells()
    assert message in str(error.value)
    assert error.value.hint and "--on vm" not in error.value.hint


def test_a_workload_that_judges_is_not_one_that_was_searched_on(folder, monkeypatch):
    monkeypatch.chdir(folder)
    shutil.copy("nap.toml", "copy.toml")
    for same in (str(folder / "nap.toml"), "../" + folder.name + "/nap.toml", "./copy.toml"):
        with pytest.raises(BadValue, match=r"is the same as '\./nap\.toml'") as error:
            asked.build(options(workloads=["./nap.toml"], holdouts=[same]))
        assert error.value.hint == "leave out one"
    asked.build(options(workloads=["./nap.toml"], holdouts=["./long_nap.toml"]))


def test_seeds_of_search_and_judgement_are_never_the_same():
    assert asked.REPEATS_MAX < asked.FRESH_AFTER


def test_a_missing_optimiser_is_told_with_a_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SchedlabError, match="Optuna, which is not installed") as error:
        search.load_optuna()
    assert "schedlab[tune]" in error.value.hint


# ---- the command --------------------------------------------------------------------------------


def told(command, *words):
    done = command(*WORDS, "--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_shorter_turns_are_found_judged_and_written_as_a_set(folder, command):
    words = ["--only", "turn_ns", "--trials", "12", "--holdout-workload", "./long_nap.toml"]
    done = command(*WORDS, *words, "--report", "page.html")
    assert done.returncode == 0, done.stderr
    assert "better on" in done.stdout and ": ./turns.bpf.c@tuned" in done.stdout
    policy = catalogue.load_policy(folder / "turns.bpf.c")
    [of] = policy.sets
    assert of["name"] == "tuned" and of["tunables"]["turn_ns"] < 8_000_000
    page = (folder / "page.html").read_text()
    assert "<strong>better on" in page
    figures = re.findall(r'data-figure="([^"]+)">(.*?)</script>', page)
    assert [name for name, _ in figures] == ["search-figure-1", "tunable-1-1"]
    assert all(go.Figure(json.loads(drawn)).data for _, drawn in figures)

    again = told(command, *words)
    assert again["runs_made"] == 0 and again["verdict"] == "better"
    [candidate] = again["candidates"]
    assert candidate["set"] == "tuned" and candidate["tunables"] == of["tunables"]
    searched, held_out = (row for row in candidate["rows"] if row["is_whole"])
    assert searched["cost_ratio_high"] < 1 and held_out["group"] == "held out"
    assert again["fresh_seeds"][0] > again["seeds"][1]
    # What judged is a comparison like any other.
    assert again["commands"][0].startswith("schedlab compare as_is=./turns.bpf.c tuned=")


def test_a_tunable_that_does_nothing_is_no_better_and_no_set_is_written(folder, command):
    words = ["--only", "charm", "--range", "charm=1..1000", "--trials", "12"]
    found = told(command, *words)
    assert found["verdict"] == "no better" and found["candidates"] == []
    assert "nothing that was tried was better" in found["sentence"]
    assert {trial["log_cost_ratios"][0] for trial in found["trials"]} == {0.0}
    assert not list(folder.glob("*.sets.toml"))


def test_luck_on_the_seeds_of_the_search_is_not_called_better(folder, command):
    (folder / "turns.bpf.c").write_text(LUCKY)
    words = ["--only", "charm", "--range", "charm=1..1000", "--trials", "24"]
    found = told(command, *words, "--repeat", "8", "--fresh", "20")
    seen = min(trial["log_cost_ratios"][0] for trial in found["trials"])
    [candidate] = found["candidates"]
    [row] = candidate["rows"]
    # On the seeds that made it the best it looks better than it is.
    assert math.exp(seen) < row["cost_ratio_low"] < 1 < row["cost_ratio_high"]
    assert found["verdict"] == "no better" and candidate["why"] == "no better on fresh seeds"
    assert not list(folder.glob("*.sets.toml"))


def test_trials_that_fail_are_counted_and_do_not_end_the_search(folder, command):
    words = ["--only", "courage", "--range", "courage=1..100:linear", "--trials", "12"]
    done = command(*WORDS, *words)
    assert done.returncode == 0, done.stderr
    nr_failed = int(re.match(r"(\d+) trials failed: scx_bpf_error \(courage is", done.stdout)[1])
    assert 2 <= nr_failed < 12
    assert "no better" in done.stdout


@pytest.mark.parametrize(
    "measures",
    [["throughput+0.01*p99_response"], ["throughput", "--keep", "p99_response=30%"]],
    ids=["objective", "bound"],
)
def test_trials_that_answer_nobody_have_failed(command, measures):
    words = ["tune", "round_robin", "--workload", "web_server", "--machine", "athlon-xp-3200"]
    words += ["--with", "length=300ms", "--with", "batch=5", "--trials", "8", "--repeat", "2"]
    done = command(*words, "--range", "slice_ns=500us..20s", "--objective", *measures, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    silent = [one for one in found["trials"] if "nothing of p99_response" in one["why"]]
    assert silent and all(one["state"] == "failed" for one in silent)
    # Longer turns are switched less often: those that answer somebody are judged, and no others.
    [judged] = found["candidates"]
    assert judged["trial"] not in {one["number"] for one in silent}
    assert judged["tunables"]["slice_ns"] < min(one["tunables"]["slice_ns"] for one in silent)


def test_several_objectives_give_a_front_of_which_none_beats_another(folder, command):
    words = ["--objective", "fairness", "--only", "turn_ns", "--trials", "12"]
    words += ["--report", "page.html"]
    found = told(command, *words)
    values = [
        next(t["log_cost_ratios"] for t in found["trials"] if t["number"] == one["trial"])
        for one in found["candidates"]
    ]
    assert values
    assert 'id="front-figure"' in (folder / "page.html").read_text()
    for one in values:
        assert not any(all(a < b for a, b in zip(other, one, strict=True)) for other in values)


def test_a_search_that_was_interrupted_ends_as_one_that_was_not(folder, command, environment):
    words = [*WORDS, "--json", "--only", "turn_ns", "--trials", "24", "--jobs", "1"]
    whole = json.loads(command(*words, "--store", "whole.db").stdout)
    (folder / "turns.sets.toml").unlink(missing_ok=True)

    record = folder / "schedlab.db.tuning.log"
    process = begin(environment, folder, *words)

    def is_on():
        return process.poll() is not None or (record.exists() and record.stat().st_size > 3000)

    wait_for(is_on, "a trial")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130 and "the same command goes on from there" in said

    resumed = json.loads(command(*words).stdout)
    for one in (whole, resumed):
        for name in ("runs_made", "runs_reused", "record", "commands"):
            del one[name]
    assert resumed == whole


def test_two_equal_searches_at_once_make_nothing_twice(folder, command, environment):
    words = [*WORDS, "--json", "--only", "turn_ns", "--trials", "12", "--jobs", "1"]
    alone = json.loads(command(*words, "--store", "alone.db").stdout)
    (folder / "turns.sets.toml").unlink(missing_ok=True)
    both = [begin(environment, folder, *words) for _ in range(2)]
    answers = [json.loads(process.communicate()[0]) for process in both]
    assert sum(one["runs_made"] for one in answers) == alone["runs_made"]
    assert all(one["trials"] == alone["trials"] for one in answers)
    nr_trials = [
        (folder / f"{name}.db.tuning.log").read_text().count('"op_code":4,')
        for name in ("alone", "schedlab")
    ]
    assert nr_trials == [12, 12]


def test_a_search_waits_for_the_same_one_of_another_process(folder, command, environment):
    words = [*WORDS[:-1], "--only", "turn_ns", "--trials", "4"]
    assert command(*words, "--store", "alone.db").returncode == 0
    record = (folder / "alone.db.tuning.log").read_text()
    with Locks(folder / "schedlab.db") as locks:
        assert locks.take(re.search(r'"study_name":"([^"]+)"', record)[1])
        process = begin(environment, folder, *words)
        told = "the same search is being made by another process: waiting"
        assert any(told in line for line in process.stderr)
        assert process.poll() is None
    process.communicate()
    assert process.returncode == 0


def test_scores_are_those_of_the_runs_and_never_those_of_the_record(folder, command):
    """Another version may have meant something else by a measure."""
    words = [*WORDS, "--json", "--only", "turn_ns", "--trials", "12"]
    first = json.loads(command(*words).stdout)
    record = folder / "schedlab.db.tuning.log"
    lines = record.read_text().splitlines(keepends=True)
    # The tenth trial, of the lines that have one each.
    at = [n for n, line in enumerate(lines) if line.startswith('{"op_code":4')][9]
    lines[at] = re.sub(r'"scores":\[\[\[[^]]*\]', '"scores":[[[-9.0]', lines[at])
    lines[at] = re.sub(r'"value":[^,]*', '"value":-9.0', lines[at])
    record.write_text("".join(lines))
    again = json.loads(command(*words).stdout)
    assert again["runs_made"] == 0 and again["trials"] == first["trials"]
    # The record has them as they are, and then is left alone.
    assert record.read_text().count('"op_code":4,') == 24
    assert command(*words).returncode == 0
    assert record.read_text().count('"op_code":4,') == 24


def test_a_record_that_is_damaged_is_told_with_a_way_out(folder, command):
    (folder / "schedlab.db.tuning.log").write_text("{not json\n{}\n")
    done = command(*WORDS, "--only", "turn_ns", "--trials", "2")
    assert done.returncode == 2
    assert "schedlab.db.tuning.log is damaged" in done.stderr and "take it away" in done.stderr


def test_a_scenario_without_anything_of_an_objective_is_refused_first(folder, command):
    (folder / "hogs.toml").write_text(WORKLOAD[: WORKLOAD.index("[[tasks]]")] + WORKLOAD[
        WORKLOAD.rindex("[[tasks]]") :])  # fmt: skip
    done = command(*WORDS, "--only", "turn_ns", "--holdout-workload", "./hogs.toml")
    assert done.returncode == 2
    assert "hogs on osdl-1 has nothing of it" in done.stderr
    assert "it has makespan" in done.stderr
    done = command(*WORDS, "--only", "turn_ns", "--keep", "missed_deadlines=1%")
    assert done.returncode == 2
    assert "--keep missed_deadlines=1%: no scenario has anything of it" in done.stderr


# ---- named sets ---------------------------------------------------------------------------------


def a_set(**tunables):
    return named_set.NamedSet("tuned", 'p99 "half"', "a\ttest", tunables)


def test_sets_are_added_and_none_changes_its_meaning(folder):
    path = folder / "turns.sets.toml"
    path.write_text("# mine\n" + '[[set]]\nname = "old"\ndescription = "d"\nsource = "s"\n'
                    "[set.tunables]\nturn_ns = \"1ms\"\n")  # fmt: skip
    assert named_set.write(path, a_set(turn_ns=5)) == "tuned"
    assert named_set.write(path, a_set(turn_ns=5)) == "tuned"
    assert named_set.write(path, a_set(turn_ns=6, charm=1)) == "tuned-2"
    assert path.read_text().startswith("# mine\n")
    policy = catalogue.load_policy(folder / "turns.bpf.c")
    found = {of["name"]: of["tunables"] for of in policy.sets}
    assert found == {
        "old": {"turn_ns": 1_000_000},
        "tuned": {"turn_ns": 5},
        "tuned-2": {"turn_ns": 6, "charm": 1},
    }


def test_sets_that_are_added_at_once_are_all_kept(folder):
    path = folder / "turns.sets.toml"
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda n: named_set.write(path, a_set(turn_ns=n)), range(8)))
    sets = {of["name"]: of["tunables"]["turn_ns"] for of in named_set._known(path)["set"]}
    assert sets == {name: n for n, name in enumerate(names)}


@pytest.mark.parametrize("name", ["", "kernel", "a b", "-x", "é"])
def test_a_name_that_no_set_can_have_is_refused_before_the_search(folder, name):
    with pytest.raises(BadValue, match="--name"):
        named_set.refuse_unfit(folder / "turns.sets.toml", name, folder / "s.db")


def test_sets_of_another_policy_are_left_alone(folder):
    shutil.copy(ROOT / "policies" / "cfs_gavl.sets.toml", folder)
    with pytest.raises(SchedlabError, match="those of another policy"):
        named_set.refuse_unfit(folder / "cfs_gavl.sets.toml", "tuned", folder / "s.db")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--report", "a.toml", "--write", "./a.toml"], "is the file that the set is written to"),
        (["--report", "turns.sets.toml"], "is the file that the set is written to"),
        (
            ["--write", "x.toml", "--store", "x.toml"],
            "set x.toml would take the place of the store",
        ),
        (["--write", "no/x.toml"], "set no/x.toml: there is no directory"),
    ],
)
def test_no_file_takes_the_place_of_another_which_is_told_before_the_search(
    folder, command, words, said
):
    done = command(*WORDS, *words)
    assert done.returncode == 2 and said in done.stderr
    assert "hint: name another file" in done.stderr
    assert not list(folder.glob("*.db*")) and not list(folder.glob("*.sets.toml"))
