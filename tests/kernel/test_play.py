"""Goal: a run on a real kernel gives the result that a simulation gives, and says what it cannot
give; what goes wrong with a kernel is a result with the kernel's reason; measurements are kept,
ordered and compared as such.

Method: conversions of records written by hand, against sums and closed forms; then few boots of
real kernels by the real command, skipped with the reason where QEMU, kernels, clang or the guest's
program are missing.
"""

import contextlib
import dataclasses
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from booted_kernels import needed
from hypothesis import given
from hypothesis import strategies as st
from running import PATIENCE_S, assert_it_goes, descendants, name_of, wait_for
from schedlab import catalogue, shown
from schedlab.errors import BadValue, DigestMismatch, SchedlabError
from schedlab.experiment import definition, sweep, vm
from schedlab.experiment.cells import Cell, ChosenMachine, ChosenPolicy, ChosenWorkload, expand
from schedlab.kernel import platform as kernel_platform
from schedlab.kernel import result as kernel_result
from schedlab.report.progress import Progress
from schedlab.store.runs import Store

pytestmark = pytest.mark.qemu

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = ROOT / "crates/kernel/tests/policies"
SMALL = ("--workload", "hackbench", "--with", "groups=1", "--with", "loops=5", "--on", "vm")
ENDED = (kernel_result.POWERED_OFF, "the guest powered off", "")


# ---- from records to a result -------------------------------------------------------------------


def task(number, nice=0, run_ns=100, exited_at_ns=1_000, name="worker"):
    """What a play says of a task that was born at 0."""
    return {
        "number": number,
        "name": name,
        "nice": nice,
        "born_at_ns": 0,
        "exited_at_ns": exited_at_ns,
        "run_ns": run_ns,
        "voluntary_switches": 7,
        "involuntary_switches": 8,
    }


def scheduled(number, **changes):
    """What a recording says of a task."""
    counts = {"run_ns": 100, "wait_ns": 10, "switches": 3, "voluntary_switches": 2}
    counts |= {"involuntary_switches": 1, "migrations": 1, "wakeups": 2}
    return {"number": number, **counts, **changes}


NONE = {"count": 0, "mean": 0.0, "p50": 0, "p90": 0, "p99": 0, "max": 0}
SPREAD = {"count": 2, "mean": 5.0, "p50": 4, "p90": 6, "p99": 6, "max": 6}


def play(tasks=None, lost=0, **changes):
    """A play's record: two tasks of one group that ran 100 ns each, unless changed."""
    tasks = tasks or [task(0), task(1)]
    played = {
        "status": "completed",
        "makespan_ns": 900,
        "elapsed_ns": 1_000,
        "messages": 5,
        "nr_tasks": len(tasks),
        "nr_cpus": 2,
        "tasks": tasks,
        "requests": [],
        "response_ns": NONE,
        "task_groups": [
            {"name": "worker", "nice": 0, "count": len(tasks), "pinned": False, "run_ns": 200}
            | {"first_exit_ns": 1_000, "last_exit_ns": 1_000}
        ],
    }
    schedule = {
        "timeline": [[0, 100, 0, 1], [0, 100, 1, 2]],
        "wakeups": [[0, 1, 0, True], [0, 2, 1, True]],
        "tasks": [scheduled(one["number"]) for one in tasks],
        "run_ns": SPREAD,
        "wait_ns": SPREAD,
        "wakeup_latency_ns": SPREAD,
        "idle_while_waiting_ns": 3,
        "others_ns": 4,
        "lost": lost,
    }
    return {"record": "played", "index": 0, "played": played | changes, "schedule": schedule}


def result(*records, end=ENDED, **options):
    return kernel_result.result_of(records, *end, **options)


def test_counts_are_sums_over_the_tasks_and_the_rest_is_taken_as_it_is():
    found = result(play())
    assert (found["status"], found["error"], found["makespan_ns"]) == ("completed", None, 900)
    counts = ("switches", "voluntary_switches", "involuntary_switches", "migrations", "wakeups")
    assert [found[name] for name in counts] == [6, 4, 2, 2, 4]
    assert found["wait_ns"] == found["run_ns"] == found["wakeup_latency_ns"] == SPREAD
    [group] = found["task_groups"]
    assert (group["run_ns"], group["wait_ns"], group["switches"], group["migrations"]) == (
        200, 20, 6, 2,
    )  # fmt: skip
    assert found["recording"] == {"lost": 0, "others_ns": 4, "idle_while_waiting_ns": 3}


def test_what_a_kernel_does_not_tell_is_null_and_nothing_is_missing(core_result):
    found = result(play(), timeline=True)
    assert set(found) == set(core_result)
    unknown = {name for name, value in found.items() if value is None}
    assert unknown == {"error", "events", "ticks", "interrupts", "cpu_time_ns", "overhead_ns"}
    of_none = ("requests", "response_ns", "deadlines", "deadline_misses")
    assert [found[name] for name in of_none] == [core_result[name] for name in of_none]
    groups = [set(group) for group in (found["task_groups"][0], core_result["task_groups"][0])]
    assert groups[0] == groups[1]


@pytest.fixture(scope="module")
def core_result():
    """A simulation's result, as the verbs give it."""
    asked = definition.build(
        {"policies": ["fifo"], "workload": "ping_pong", "machine": ["laptop"], "until_ns": 10**6}
    )
    [cell] = expand(asked)
    return sweep.record(cell, sweep.simulate_cell(cell), None).result


def test_deadlines_are_sums_over_the_requests_also_where_events_were_lost():
    counts = {"done": 3, "deadlines": 4, "deadline_misses": 1, "response_ns": SPREAD}
    requests = [{"name": "audio", **counts}, {"name": "key", **counts}]
    found = result(play(lost=1, requests=requests, response_ns=SPREAD))
    assert (found["deadlines"], found["deadline_misses"]) == (8, 2)
    assert (found["requests"], found["response_ns"]) == (requests, SPREAD)


def test_a_timeline_is_kept_only_if_asked_for_and_decides_the_digest():
    kept, left_out = result(play(), timeline=True), result(play())
    assert kept["timeline"] == [[0, 100, 0, 1], [0, 100, 1, 2]]
    assert kept["timeline_names"] == {"1": "worker", "2": "worker"}
    assert left_out["timeline"] is None
    assert kept["digest"] == left_out["digest"]
    other = play()
    other["schedule"]["timeline"][1][0] = 1
    assert result(other)["digest"] != kept["digest"]


def test_a_recording_that_lost_events_gives_no_counts_but_those_of_the_tasks():
    found = result(play(lost=1), timeline=True)
    for name in ("switches", "migrations", "wakeups", "wait_ns", "wakeup_latency_ns", "timeline"):
        assert found[name] is None
    assert (found["voluntary_switches"], found["involuntary_switches"]) == (14, 16)
    assert found["task_groups"][0]["wait_ns"] is None
    assert found["recording"]["lost"] == 1


@given(st.integers(1, 40), st.integers(-20, 19), st.integers(1, 10**9))
def test_equal_tasks_share_evenly_and_one_taking_all_scores_one_over_n(count, nice, run_ns):
    even = [task(number, nice, run_ns) for number in range(count)]
    assert kernel_result.jain_fairness(even, 1_000) == pytest.approx(1)
    one = [task(number, nice, run_ns if number == 0 else 0) for number in range(count)]
    assert kernel_result.jain_fairness(one, 1_000) == pytest.approx(1 / count)


def test_shares_in_proportion_to_weight_are_even():
    # Five steps of nice are a factor of about 3: 1024, 335 and 110 are the kernel's numbers.
    weights = {0: 1024, 5: 335, 10: 110}
    tasks = [task(i, nice, 1_000 * weight) for i, (nice, weight) in enumerate(weights.items())]
    assert kernel_result.jain_fairness(tasks, 1_000) == pytest.approx(1)
    assert kernel_result.jain_fairness([task(0, run_ns=0)], 1_000) == 1


def test_a_task_that_still_lives_has_lived_to_the_end():
    living = [task(0, run_ns=50, exited_at_ns=None), task(1, run_ns=100)]
    assert kernel_result.jain_fairness(living, 500) == pytest.approx(0.9)
    ended = [task(0, run_ns=50, exited_at_ns=500), task(1, run_ns=100)]
    assert kernel_result.jain_fairness(ended, 1_000) == pytest.approx(1)


def test_noise_before_a_record_and_a_line_that_was_cut_off_are_passed_over():
    lines = ["SeaBIOS", '\x1b[c{"record":"done","at_ns":1}', '{"record":"pla', '{"a": 1}']
    assert kernel_result.parse(lines) == [{"record": "done", "at_ns": 1}]


# ---- what goes wrong ----------------------------------------------------------------------------

REFUSED = {
    "record": "refused",
    "stage": "load",
    "reason": "infinite loop",
    "hint": "use bpf_for",
    "log": "insn 10",
}
EJECTED = {
    "record": "ejected",
    "kind": 1024,
    "code": 0,
    "reason": "runtime error",
    "message": "non-existent DSQ",
    "dump": "CPU 0",
    "hint": "create it",
}
PANIC = ("panicked", "the guest's kernel panicked: oops", "Kernel panic - not syncing")


@pytest.mark.parametrize(
    ("records", "end", "kind", "words", "evidence", "is_kept"),
    [
        ([REFUSED], ENDED, "refused", "refused it: infinite loop", "insn 10", True),
        ([play(), EJECTED], ENDED, "ejected", "error: non-existent DSQ", "CPU 0", True),
        ([], PANIC, "panicked", "oops", "Kernel panic", False),
        ([play()], PANIC, "panicked", "oops", "Kernel panic", False),
        ([EJECTED], PANIC, "ejected", "non-existent DSQ", "CPU 0", True),
        ([], ("timed_out", "not done after 9 s", "last"), "timed_out", "after 9 s", "last", False),
        ([{"record": "error", "message": "no tracefs"}], ENDED, "guest", "no tracefs", "", False),
        ([], ENDED, "guest", "powered off", "", False),
    ],
)
def test_a_failure_has_its_kind_its_words_and_its_evidence(
    records, end, kind, words, evidence, is_kept
):
    found = result(*records, end=end)
    error = found["error"]
    assert (found["status"], error["kind"]) == ("failed", kind)
    assert words in error["message"] and evidence in error["evidence"]
    assert bool(found["digest"]) == is_kept
    assert "makespan_ns" not in found


def test_a_kernel_that_starts_no_program_is_told_with_a_way_out():
    end = ("boot_timed_out", "the guest's kernel started no program within 9 s", "[    0.4] last")
    error = result(end=end)["error"]
    assert (error["kind"], error["evidence"]) == ("boot_timed_out", "[    0.4] last")
    assert "--cpus 1" in error["hint"]


def test_a_play_that_was_stopped_failed_unless_it_was_asked_to():
    stopped = play(status="stopped")
    assert result(stopped, until_ns=1_000)["status"] == "stopped"
    assert result(stopped)["error"]["kind"] == "time_limit"


# ---- platforms, and the names of kernels' own schedulers ----------------------------------------

KERNEL = kernel_platform.Kernel("6.18", "6.18.15", "eevdf", "sound", "aa")
CFS = kernel_platform.Kernel("6.1", "6.1.0", "cfs", "absent", "bb")
PLATFORM = kernel_platform.Platform(KERNEL, "2", "tcg", False, 1024, "7.2.22 (Debian)", "cc")


def test_every_fact_of_a_platform_decides_its_digest():
    changes = {"kernel": CFS, "cpus": "4", "accelerator": "kvm", "deterministic": True}
    changes |= {"memory_mib": 2048, "qemu": "10.0", "guest": "dd"}
    assert set(changes) == set(PLATFORM.facts)
    digests = {dataclasses.replace(PLATFORM, **{k: v}).digest for k, v in changes.items()}
    assert len(digests | {PLATFORM.digest}) == len(changes) + 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("eevdf@kernel", ("eevdf", None)),
        ("cfs@kernel:6.1", ("cfs", "6.1")),
        ("eevdf", None),
        ("./eevdf@kernel.bpf.c", None),
        ("./at@kernel:6.1/eevdf.bpf.c", None),
    ],
)
def test_a_kernels_own_scheduler_is_told_from_a_policy(text, parts):
    assert catalogue.own_scheduler(text) == parts


@pytest.mark.parametrize("where", [["--on", "vm"], ["--machine", "laptop"]])
def test_a_colon_without_a_kernel_is_refused_with_what_to_write(command, where):
    done = command("run", "cfs@kernel:", "--workload", "ping_pong", *where)
    assert done.returncode == 2
    assert done.stderr.startswith("error: policy: 'cfs@kernel:' names no kernel after the colon\n")
    assert "cfs@kernel:NAME" in done.stderr.partition("hint:")[2]


def test_a_scheduler_that_the_kernel_does_not_have_is_refused_with_the_one_it_has():
    with pytest.raises(BadValue, match="its own scheduler is EEVDF") as caught:
        kernel_platform.refuse_other_scheduler("cfs@kernel", "cfs", KERNEL)
    assert "eevdf@kernel:6.18" in caught.value.hint
    kernel_platform.refuse_other_scheduler("cfs@kernel:6.1", "cfs", CFS)


def test_a_kernel_without_sched_ext_is_refused_for_policies():
    with pytest.raises(SchedlabError, match="no sched_ext"):
        kernel_platform.refuse_kernel_without_sched_ext("fifo", CFS)
    kernel_platform.refuse_kernel_without_sched_ext("fifo", KERNEL)


@pytest.mark.parametrize("text", ["", "0", "256", "4,2", "4,1,2,3", "four", "-1"])
def test_cpus_that_no_machine_has_are_refused(text):
    with pytest.raises(BadValue, match="--cpus"):
        kernel_platform.refuse_bad_cpus(text)


@pytest.mark.parametrize("text", ["1", "255", "4,1,2,2"])
def test_cpus_are_a_number_or_a_topology(text):
    kernel_platform.refuse_bad_cpus(text)


# ---- cells, their order, and how they are kept --------------------------------------------------


def cell(label="fifo", seed=1, platform=PLATFORM, kernel=None):
    policy = ChosenPolicy(label, label, label, "", f"d-{label}", {}, {}, kernel, f"/{label}.o")
    machine = ChosenMachine("m", platform.machine, "", platform.digest, platform.nr_cpus, platform)
    workload = ChosenWorkload("w", "w", "/w.toml", "dw", {"n": "1"}, {"n": "1"}, {})
    return Cell(policy, machine, workload, seed, None, "1.0")


def test_a_policy_that_brings_its_kernel_runs_on_it_wherever_it_is_compared():
    own = cell("cfs@kernel:6.1", kernel=CFS)
    assert own.platform == dataclasses.replace(PLATFORM, kernel=CFS)
    elsewhere = dataclasses.replace(PLATFORM, kernel=dataclasses.replace(KERNEL, name="7.3"))
    assert own.key == cell("cfs@kernel:6.1", platform=elsewhere, kernel=CFS).key
    assert cell().key != cell(platform=elsewhere).key


def test_a_replay_says_what_to_boot():
    exact = dataclasses.replace(PLATFORM, deterministic=True, cpus="4,1,2,2")
    assert cell(platform=exact, seed=3).replay() == (
        "schedlab run fifo --workload w --on vm --kernel 6.18 --cpus 4,1,2,2 --deterministic"
        " --seed 3 --with n=1"
    )


def test_each_repetition_visits_every_policy_in_an_order_of_its_own():
    cells = [cell(f"p{p}", seed) for p in range(6) for seed in range(1, 21)]
    order = vm.random_order(cells)
    assert order == vm.random_order(cells[::-1])
    assert [one.seed for one in order] == sorted(one.seed for one in cells)
    rounds = [tuple(c.policy.label for c in order if c.seed == seed) for seed in range(1, 21)]
    assert all(len(set(visited)) == 6 for visited in rounds)
    assert len(set(rounds)) > 10


def outcome(digest):
    made = {**result(play()), "digest": digest}
    return sweep.Outcome(made, None, "2026-01-02T03:04:05.678+00:00", 5)


def test_a_measurement_that_is_made_again_leaves_the_first_one_in_the_store(tmp_path):
    with Store(tmp_path / "a.db") as store:
        for digest in ("aaaa", "bbbb"):
            store.add(sweep.record(cell(), outcome(digest), None))
        [kept] = store.runs()
        assert kept.digest == "aaaa"
        assert kept.manifest["platform"] == PLATFORM.facts
        assert kept.manifest["backend"] == "vm"
        assert "Linux 6.18.15 in QEMU 7.2.22" in kept.measured_on


def test_a_deterministic_machine_must_repeat_exactly(tmp_path):
    exact = dataclasses.replace(PLATFORM, deterministic=True)
    with Store(tmp_path / "a.db") as store:
        store.add(sweep.record(cell(platform=exact), outcome("aaaa"), None))
        with pytest.raises(DigestMismatch):
            store.add(sweep.record(cell(platform=exact), outcome("bbbb"), None))


def test_machines_whose_clock_is_ours_run_one_at_a_time():
    assert vm.jobs(None, definition.VmChoice(None, ("2",), False)) == 1
    assert vm.jobs(None, definition.VmChoice(None, ("2",), True)) == sweep.nr_cpus_usable()
    assert vm.jobs(3, definition.VmChoice(None, ("2",), False)) == 3


# ---- the command without a machine --------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words", "hint"),
    [
        (["--on", "vm", "--machine", "laptop"], "'laptop' is a simulated machine", "--kernel"),
        (["--machine", "laptop", "--deterministic"], "is for virtual machines", "--on vm"),
        (["--machine", "laptop", "--kernel", "6.1"], "unknown release '6.1' of Linux", "6.12"),
        (["--on", "vm", "--cpus", "4,2"], "'4,2' is not a number of CPUs", "4,1,2,2"),
        ([], "no machine is given", "--on vm"),
        (["--on", "vm", "--kernel", "9.9"], "9.9", "schedlab kernels fetch"),
    ],
)
def test_options_that_contradict_each_other_are_refused(command, arguments, words, hint):
    done = command("run", "fifo", "--workload", "ping_pong", *arguments)
    assert done.returncode == 2
    assert words in done.stderr and hint in done.stderr.partition("hint:")[2]


def test_a_kernels_own_scheduler_is_not_simulated(command):
    done = command("run", "eevdf@kernel", "--workload", "ping_pong", "--machine", "laptop")
    assert done.returncode == 2
    assert "add --on vm" in done.stderr


# ---- with machines ------------------------------------------------------------------------------


@pytest.fixture
def lab(tmp_path):
    """Starts the real command in an empty directory, with the user's kernels; or skips."""
    for kernel in ("6.1", "6.18"):
        needed(kernel)
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "schedlab", *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A terminal's Ctrl-C reaches a whole group.
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finished(process):
    """Exit code, stdout and stderr."""
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return process.returncode, stdout, stderr


def test_under_the_deterministic_clock_a_run_repeats_to_the_nanosecond(lab):
    words = ("run", "fifo", *SMALL, "--kernel", "6.18", "--cpus", "1", "--deterministic")
    results = []
    for _ in range(2):
        code, stdout, stderr = finished(lab(*words, "--timeline", "--json"))
        assert code == 0, stderr
        results.append(json.loads(stdout)["result"])
    assert results[0] == results[1]
    found = results[0]
    assert (found["status"], found["nr_tasks"], found["messages"]) == ("completed", 41, 2_000)
    assert len(found["timeline"]) == found["switches"] >= 41
    assert sum(stay[1] - stay[0] for stay in found["timeline"]) <= found["elapsed_ns"]


def test_kernels_own_schedulers_and_policies_are_columns_of_one_table(lab, tmp_path):
    policies = ("eevdf@kernel", "cfs@kernel:6.1", "bfs", "o1")
    words = ("compare", *policies, *SMALL, "--kernel", "6.18", "--repeat", "1")
    code, stdout, stderr = finished(lab(*words))
    assert code == 0, stderr
    assert "4 runs made, 0 reused" in stderr
    assert "eevdf@kernel, bfs, o1: Linux 6.18" in stdout
    assert "cfs@kernel:6.1: Linux 6.1." in stdout
    assert "not with simulated ones" in stdout
    code, stdout, stderr = finished(lab(*words, "--json", "--report", "r.html"))
    assert (code, "0 runs made, 4 reused" in stderr) == (0, True), stderr
    runs = json.loads(stdout)["runs"]
    assert [run["policy"] for run in runs] == list(policies)
    assert all(run["result"]["messages"] == 2_000 for run in runs)
    schedulers = [run["manifest"]["platform"]["kernel"]["scheduler"] for run in runs]
    assert schedulers == ["eevdf", "cfs", "eevdf", "eevdf"]
    report = (tmp_path / "r.html").read_text()
    assert "measured by real tasks on a real kernel" in report
    assert "Every time here is simulated" not in report


def test_an_ejected_policy_shows_the_kernels_reason_and_the_sweep_goes_on(lab):
    bad = MISTAKES / "bad_queue.bpf.c"
    code, stdout, stderr = finished(
        lab("compare", bad, "fifo", *SMALL, "--kernel", "6.18", "--repeat", "1", "--json")
    )
    assert code == 1
    assert "the kernel ejected it: runtime error: non-existent DSQ" in stderr
    assert "hint: create the queue by scx_bpf_create_dsq in init" in stderr
    status = {run["policy"]: run["status"] for run in json.loads(stdout)["runs"]}
    assert status == {"bad_queue": "failed", "fifo": "completed"}


LATE = """
description = "a task that needs longer than from one release to the next"
source = "own"
stop = "1s"
[[tasks]]
name = "late"
program = [{ repeat = "forever", do = [
    { release = "10ms", deadline = "5ms" }, { run = "25ms" }, "done",
] }]
"""


def test_deadlines_of_an_idle_kernel_are_met_and_of_an_overloaded_one_missed(lab, tmp_path):
    on_vm = ("--on", "vm", "--kernel", "6.18", "--cpus", "1", "--deterministic")
    desktop = ("--workload", "desktop", "--with", "jobs=0", "--with", "length=1s")
    code, stdout, stderr = finished(lab("compare", "fifo", *desktop, *on_vm, "--repeat", "1"))
    assert code == 0, stderr
    rows = [line.split() for line in stdout.splitlines() if "deadlines missed, %" in line]
    assert {row[-5]: row[-1] for row in rows} == {
        "key:": "0.00",
        "video:": "0.00",
        "audio:": "0.00",
    }
    assert "audio: response p99" in stdout
    file = tmp_path / "late.toml"
    file.write_text(LATE)
    code, stdout, stderr = finished(lab("run", "fifo", "--workload", file, *on_vm, "--json"))
    assert code == 0, stderr
    found = json.loads(stdout)["result"]
    # Releases at 10, 20 ... 990 ms, the last with 5 ms to go.
    assert (found["deadlines"], found["deadline_misses"]) == (99, 99)
    [late] = found["requests"]
    assert late["name"] == "late" and 30 <= late["done"] <= 39
    # Each is 15 ms later than the one before.
    assert late["response_ns"]["max"] > 15_000_000 * late["done"]


def test_what_a_policy_prints_in_a_machine_is_shown_by_run(lab, tmp_path):
    before, call, after = (
        (ROOT / "policies" / "fifo.bpf.c").read_text().rpartition("scx_bpf_dsq_insert(")
    )
    talkative = tmp_path / "talkative.bpf.c"
    talkative.write_text(f'{before}bpf_printk("%d joins", p->pid); {call}{after}')
    code, _, stderr = finished(lab("run", talkative, *SMALL, "--kernel", "6.18"))
    assert code == 0, stderr
    form = r" *.+-\d+ +\[00[01]\] \S+ +\d+\.\d{6}: bpf_trace_printk: \d+ joins"
    # Whoever is first boots.
    lines = [line for line in stderr.splitlines() if not line.startswith("note: booting")]
    printed = [line for line in lines if re.fullmatch(form, line)]
    # Each worker's first time, at the least.
    assert 40 <= len(printed) <= 1000, stderr
    assert len(lines) - len(printed) == (len(printed) == 1000), stderr


def test_lines_that_are_not_shown_are_counted():
    printed = {"record": "printed", "lines": ["one", "two"], "nr_left_out": 3}
    *lines, rest = kernel_result.printed([{"record": "booted"}, printed])
    assert lines == ["one", "two"]
    assert rest == "bpf_trace_printk: 3 more lines were printed and are not shown"
    assert kernel_result.printed([printed | {"nr_left_out": 0}]) == lines


def test_ctrl_c_keeps_what_is_finished_and_leaves_no_machine(lab, tmp_path):
    words = ("compare", "eevdf@kernel", *SMALL, "--kernel", "6.18", "--repeat", "5")
    compare = lab(*words)
    machines = wait_for(lambda: nr_runs(tmp_path / "schedlab.db") and machines_in(compare.pid))
    os.killpg(compare.pid, signal.SIGINT)
    code, _, stderr = finished(compare)
    assert code == 130, stderr
    assert "the same command goes on from there" in stderr
    assert nr_runs(tmp_path / "schedlab.db") >= 1
    for machine in machines:
        assert_it_goes(machine, "a virtual machine")


def nr_runs(path):
    """Runs in the store; none while it is still being made."""
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path)) as database:
        try:
            return database.execute("SELECT count(*) FROM runs").fetchone()[0]
        except sqlite3.OperationalError:
            return 0


def machines_in(ancestor):
    return [pid for pid in descendants(ancestor) if "qemu" in name_of(pid)]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_who_waits_for_a_machine_is_told_how_far_it_is(monkeypatch, capfd, is_terminal):
    monkeypatch.setenv("TERM", "xterm")  # no line is redrawn on one of type dumb
    monkeypatch.setattr(sys, "stderr", shown.Stream(sys.stderr))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with Progress(0, "") as progress:
        for stage in ("booting", "booting", "saving", "working"):
            vm.tell_stage(progress, "Linux 6.18.15", stage)
    sys.stderr.flush()
    told = capfd.readouterr().err
    assert told.count("note: booting Linux 6.18.15 once") == (0 if is_terminal else 1)
    assert ("running on Linux 6.18.15" in told) == is_terminal
    assert "\\x" not in told
