"""Goal: the command keeps the promises of docs/reference/cli.md to people and to programs.

Method: run the real command with the real core, in an empty directory, and look at exit code,
stdout, stderr and files. Policies that do wrong are written here.
"""

import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from running import PATIENCE_S, begin, wait_for, wait_until_at_work
from schedlab import catalogue
from schedlab.commands import schedlab

SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")
COUNTER = ("--workload", "counter", "--machine", "core2-t5600", "--with", "work=5ms")
# More tasks than CPUs, so that a policy's `enqueue` is called.
BUSY = ("--workload", "hackbench", "--machine", "core2-t5600", "--with", "loops=10")

POLICY = """/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* {name} - does wrong. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

void BPF_STRUCT_OPS({name}_enqueue, struct task_struct *p, u64 enq_flags)
{{
	{body}
}}

SCX_OPS_DEFINE({name}_ops, .enqueue = (void *){name}_enqueue, .name = "{name}");
"""


@pytest.fixture
def policy(tmp_path):
    """Writes a policy whose `enqueue` is the given C; gives its path for the command line."""

    def write(name, body=""):
        (tmp_path / f"{name}.bpf.c").write_text(POLICY.format(name=name, body=body))
        return f"./{name}.bpf.c"

    return write


def data(done, code=0):
    """What a command with --json printed."""
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def refused(done):
    """What a command said of wrong input: nothing on stdout, an error, no traceback."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    return done.stderr


# ---- what a policy says of itself ---------------------------------------------------------------


def test_what_a_policy_prints_is_shown_by_run_and_not_by_compare(command, policy):
    talkative = policy(
        "talkative",
        'bpf_printk("%d joins\\n", p->pid);'
        " scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);",
    )
    done = command("run", talkative, *BUSY, "--json")
    data(done)
    assert re.match(
        r" +\w+\[\d+\] \[00[01]\] +0\.\d{9}: bpf_trace_printk: \d+ joins\n", done.stderr
    )
    done = command("compare", talkative, *BUSY, "--repeat", "1", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_compilers_warnings_of_ones_own_policy_are_shown_once(command, policy):
    careless = policy("careless", "int unused; scx_bpf_dsq_insert(p, 0, 1000000, enq_flags);")
    done = command("run", careless, *SCENARIO)
    assert done.returncode == 0
    assert "careless.bpf.c:9:" in done.stderr
    assert "unused variable" in done.stderr
    assert command("run", careless, *SCENARIO).stderr == ""


def test_a_policy_without_a_licence_is_refused_with_the_line_to_add(command, policy, tmp_path):
    path = tmp_path / policy("free")
    path.write_text(path.read_text().replace("char _license", "static int free_of; //"))
    said = refused(command("run", str(path), *SCENARIO))
    assert 'add this line: char _license[] SEC("license") = "GPL";' in said


# ---- help, version, list ------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("kernels",), ("list",)])
def test_a_verb_is_listed_with_the_first_sentence_of_its_own_help(words):
    group = schedlab
    for word in words:
        group = group.commands[word]
    for name, listed in group.commands.items():
        _, verb, _ = group.resolve_command(None, [name])
        assert verb.get_short_help_str(limit=200) == listed.help, name
        assert len(listed.help) < 65, f"{name} would be broken into two lines"


def test_help_loads_no_verb():
    program = "import sys; from schedlab.cli import main; sys.argv[1:] = ['-h']; main()"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", program], capture_output=True)
    loaded = re.findall(rb"schedlab[.a-z_]*", done.stderr)
    assert b"schedlab.commands" in loaded
    assert b"schedlab.commands.options" not in loaded
    assert b"schedlab.catalogue" not in loaded


def test_version_is_that_of_the_package_and_the_core(command):
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"schedlab {catalogue.native().version()}\n")


@pytest.mark.parametrize(
    "verb",
    [
        "",
        "run",
        "compare",
        "check",
        "report",
        "list",
        "list policies",
        "kernels",
        "kernels fetch",
        "doctor",
        "load",
        "bench",
        "merge",
        "export",
        "reproduce",
    ],
)
def test_every_verb_explains_itself(command, verb):
    done = command(*verb.split(), "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: ")
    assert "..." not in done.stdout.replace("]...", "")
    assert done.stderr == ""


@pytest.mark.parametrize("shelf", [catalogue.POLICIES, catalogue.MACHINES, catalogue.WORKLOADS])
def test_list_names_everything_there_is(command, shelf):
    verb = shelf.directory
    listed = data(command("list", verb, "--json"))
    assert [entry["name"] for entry in listed] == list(catalogue.names(shelf))
    lines = command("list", verb).stdout.splitlines()[1:]
    # Below a policy stand its tunable sets.
    entries = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert entries == list(catalogue.names(shelf))
    assert all(line == line.rstrip() for line in lines)


def test_list_verbose_tells_tunables_with_default_and_meaning(command):
    [entry] = [e for e in data(command("list", "policies", "--json")) if e["name"] == "round_robin"]
    [tunable] = [t for t in entry["tunables"] if t["name"] == "slice_ns"]
    text = command("list", "policies", "-v").stdout
    assert "\n  slice_ns " in text
    assert f"{tunable['doc']} (default {tunable['default']})" in text
    assert "slice_ns" not in command("list", "policies").stdout.replace("gets slice_ns", "")


# ---- run ----------------------------------------------------------------------------------------


def test_run_prints_the_metrics_of_the_run(command):
    record = data(command("run", "round_robin", *SCENARIO, "--json"))
    result = record["result"]
    assert record["status"] == "completed"
    assert sum(result["cpu_time_ns"].values()) == result["elapsed_ns"] * result["nr_cpus"]
    done = command("run", "round_robin", *SCENARIO)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("round_robin with ping_pong on laptop, seed 1\n")
    for metric in ("makespan", "messages", "switches", "migrations", "wake-up latency",
                   "CPU time", "Jain fairness"):  # fmt: skip
        assert f"\n{metric} " in done.stdout
    assert done.stdout.endswith(f" {result['digest']}\n")


def test_a_policy_of_ones_own_runs_as_a_shipped_one_does(command, tmp_path):
    source = catalogue.names(catalogue.POLICIES)["cfs"]
    shutil.copy(source, tmp_path / "mine.bpf.c")
    # What the name alone means stands there.
    shutil.copy(source.with_name("cfs.sets.toml"), tmp_path / "mine.sets.toml")
    shipped = data(command("run", "cfs", *SCENARIO, "--json"))
    mine = data(command("run", "./mine.bpf.c", *SCENARIO, "--json"))
    assert mine["policy"] == "mine"
    assert mine["result"]["digest"] == shipped["result"]["digest"]


def test_workloads_and_machines_of_ones_own_run(command, tmp_path):
    for name, shelf in (("ping_pong", catalogue.WORKLOADS), ("laptop", catalogue.MACHINES)):
        shutil.copy(catalogue.names(shelf)[name], tmp_path / f"my_{name}.toml")
    scenario = ("--workload", "my_ping_pong.toml", "--machine", "./my_laptop.toml")
    record = data(command("run", "fifo", *scenario, "--json"))
    assert (record["workload"], record["machine"]) == ("my_ping_pong", "my_laptop")


def test_set_with_and_seed_reach_the_simulation(command):
    def digest(*options):
        record = data(command("run", "round_robin", *COUNTER, *options, "--json"))
        return record["result"]["digest"]

    plain = digest()
    assert digest("--set", "slice_ns=3ms") == digest("--set", "round_robin.slice_ns=3000000")
    others = [("--set", "slice_ns=20ms"), ("--with", "n=5"), ("--seed", "2")]
    assert len({plain, *(digest(*options) for options in others)}) == 4


def test_until_stops_a_run(command):
    record = data(command("run", "fifo", *COUNTER, "--until", "1ms", "--json"))
    assert record["status"] == "stopped"
    # Whoever is in an operation of the kernel ends it.
    assert 1_000_000 <= record["result"]["elapsed_ns"] < 1_100_000
    assert "(stopped before its end)" in command("run", "fifo", *COUNTER, "--until", "1ms").stdout


def test_compiler_errors_are_shown(command, policy):
    message = refused(command("run", policy("wrong", "no_such_function(p);"), *SCENARIO))
    assert "wrong.bpf.c" in message
    assert "no_such_function" in message


def test_a_policy_that_loses_a_task_is_found_out_and_its_replay_shows_it_again(command, policy):
    first = command("run", policy("loser"), *BUSY)
    assert first.returncode == 1
    [error, replay, hint, *_] = first.stderr.splitlines()
    assert error.startswith("error: policy loser failed at ")
    assert hint.startswith("hint: enqueue must put every task into a queue")
    assert "runnable task stall" in error
    words = shlex.split(replay.removeprefix("replay: "))
    assert words[0] == "schedlab"
    assert "--until" in words
    again = command(*words[1:])
    assert (again.returncode, again.stderr.splitlines()[0]) == (1, error)


def test_a_deadlock_is_told_of_the_workload_and_not_of_the_policy(command, tmp_path):
    (tmp_path / "stuck.toml").write_text(
        'description = "waits for nobody"\nsource = "own"\n[gates.never]\n'
        '[[tasks]]\nname = "waiter"\nprogram = [{ run = "1ms" }, { wait = "never" }]\n'
    )
    done = command("run", "fifo", "--workload", "./stuck.toml", "--machine", "laptop")
    assert done.returncode == 1
    assert re.match(
        r"error: workload stuck came to a deadlock at 0\.\d+ s under fifo on laptop, seed 1:"
        r" the one living task, .* at step \d+ of its program, waits for what nobody does",
        done.stderr,
    )
    assert "policy fifo" not in done.stderr


def test_a_policy_that_uses_null_is_a_failed_run(command, policy):
    path = policy("crasher", "*(volatile int *)8 = 1;")
    done = command("run", path, *BUSY, "--json")
    error = data(done, code=1)["result"]["error"]
    assert (error["kind"], error["cpu"] in (0, 1), error["at_ns"] > 0) == ("fault", True, True)
    where = f"at {error['at_ns'] / 1e9:.6f} s on CPU {error['cpu']} for task {error['task']}"
    assert f"policy crasher failed {where} with hackbench on core2-t5600, seed 1: " in done.stderr
    assert re.search(
        r"crasher\.bpf\.c:\d+: crasher_enqueue: it writes 4 bytes at 0x8,", done.stderr
    )
    assert f"replay: schedlab run {path} --workload hackbench" in done.stderr


def test_an_interrupted_run_ends_at_once_and_quietly(tmp_path, environment):
    process = begin(environment, tmp_path, "run", "cfs", *BUSY[:-1], "loops=1000000")
    wait_until_at_work(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout, stderr.strip()) == (130, "", "interrupted")


@pytest.mark.parametrize("delay_s", [0.03, 0.06, 0.1, 0.15, 0.25])
def test_an_interrupt_while_the_command_loads_is_told_in_a_word(environment, delay_s):
    # Before Python has loaded its own site no program can answer, nor has main's first statement.
    program = (
        "import sys; from schedlab import cli; first = cli._fill_closed_streams\n"
        "cli._fill_closed_streams = lambda: (print(flush=True), first())\n"
        "sys.argv[1:] = ['list', 'policies']; cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdout.readline()
    time.sleep(delay_s)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in stderr
    assert (process.returncode, stderr.lstrip("\n")) in ((130, "interrupted\n"), (0, ""))


@pytest.mark.parametrize("words", [["run"], ["compare", "--repeat", "4"]])
def test_a_policy_that_never_comes_back_is_ended_and_told(policy, command, words):
    done = command(*words, policy("looper", "for (;;);"), *BUSY)
    assert done.returncode == 1
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert error.startswith("error: policy looper failed at 0.0")
    assert "looper_enqueue: it has not returned after 1073741824 instructions" in error


def test_a_run_that_takes_long_is_told_and_ctrl_c_ends_it(environment, tmp_path):
    process = begin(environment, tmp_path, "run", "fifo", *BUSY[:-1], "loops=1000000")
    note = process.stderr.readline()
    assert note.startswith("note: policy fifo with hackbench on core2-t5600, seed 1")
    assert "Ctrl-C stops it" in note
    os.killpg(process.pid, signal.SIGINT)
    rest = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 130
    assert rest.endswith("interrupted\n") and rest.count("note:") == 0


def test_a_timeline_has_every_stay_of_a_task_on_a_cpu(command):
    plain = data(command("run", "round_robin", *COUNTER, "--json"))["result"]
    assert plain["timeline"] is None
    timed = ("run", "round_robin", *COUNTER, "--timeline", "--store", "runs.db")
    result = data(command(*timed, "--json"))["result"]
    assert result["digest"] == plain["digest"]
    assert len(result["timeline"]) == result["switches"]
    for start_ns, end_ns, cpu, pid in result["timeline"]:
        assert 0 <= start_ns < end_ns <= result["elapsed_ns"]
        assert cpu in range(result["nr_cpus"]) and str(pid) in result["timeline_names"]
    lines = command(*timed).stdout.splitlines()
    first = lines.index("") + 2
    start_ns, _, cpu, pid = min(result["timeline"])
    words = lines[first].split()
    assert (float(words[0]) * 1e6, *words[2:4]) == (start_ns, str(cpu), str(pid))
    assert len(lines) - first == min(len(result["timeline"]), 1000)


def test_a_run_that_does_not_repeat_is_an_error(command, tmp_path):
    keep = ("run", "fifo", *SCENARIO, "--store", "runs.db")
    assert command(*keep).returncode == 0
    assert command(*keep).returncode == 0
    with sqlite3.connect(tmp_path / "runs.db") as database:
        database.execute("UPDATE runs SET result_digest = 'another'")
    database.close()
    assert "must repeat exactly" in refused(command(*keep))


# ---- compare ------------------------------------------------------------------------------------

COMPARE = ("compare", "fifo", "round_robin", *COUNTER, "--vary", "n=2..4", "--repeat", "3")


def outcomes(document):
    """What was found, without how long it took or when."""
    return [
        [run[key] for key in ("policy", "machine", "varied", "seed", "status", "result")]
        for run in document["runs"]
    ]


def test_compare_gives_the_same_answer_however_it_is_run(command):
    one = data(command(*COMPARE, "--jobs", "1", "--store", "one.db", "--json"))
    two = data(command(*COMPARE, "--jobs", "3", "--store", "two.db", "--json"))
    assert len(one["runs"]) == 2 * 3 * 3
    assert outcomes(one) == outcomes(two)
    assert one["cells"] == two["cells"]


def test_compare_gives_every_policy_the_same_seeds(command):
    document = data(command(*COMPARE, "--seed", "50", "--json"))
    for policy in ("fifo", "round_robin"):
        seeds = {run["seed"] for run in document["runs"] if run["policy"] == policy}
        assert seeds == {50, 51, 52}


def test_compare_estimates_what_the_runs_say(command):
    document = data(command(*COMPARE, "--json"))
    unit_ns = {"s": 1e9, "ms": 1e6, "µs": 1e3}[document["unit"]]
    assert len(document["cells"]) == 2 * 3
    for cell in document["cells"]:
        makespans = [
            run["result"]["makespan_ns"] / unit_ns
            for run in document["runs"]
            if (run["policy"], run["varied"]) == (cell["policy"], cell["varied"])
        ]
        assert cell["makespan"]["n"] == len(makespans) == 3
        assert cell["makespan"]["mean"] == pytest.approx(sum(makespans) / 3)
        assert (cell["compared"] is None) == (cell["policy"] == "fifo")
    assert {growth["policy"] for growth in document["growth"]} == {"fifo", "round_robin"}


def test_compare_again_makes_no_run_and_gives_the_same_answer(command):
    first, second = command(*COMPARE), command(*COMPARE)
    assert "18 runs made, 0 reused" in first.stderr
    assert "0 runs made, 18 reused" in second.stderr
    assert first.stdout == second.stdout
    assert "fifo" in first.stdout
    more = command(*COMPARE[:-1], "4")
    assert "6 runs made, 18 reused" in more.stderr


def test_an_edited_policy_runs_again_and_others_do_not(command, tmp_path):
    source = catalogue.names(catalogue.POLICIES)["round_robin"].read_text()
    mine = tmp_path / "mine.bpf.c"
    mine.write_text(source)
    compare = ("compare", "fifo", "./mine.bpf.c", *COUNTER, "--repeat", "2")
    before = data(command(*compare, "--json"))
    mine.write_text(source.replace("slice_ns = 3 *", "slice_ns = 40 *"))
    done = command(*compare, "--json")
    assert "2 runs made, 2 reused" in done.stderr
    assert outcomes(before) != outcomes(data(done))
    report = data(command("report", "schedlab.db", "-o", "out.html", "--json"))
    assert report["runs"] == 4


def test_a_terminated_comparison_ends_as_one_does_after_ctrl_c(tmp_path, environment):
    compare = ("compare", "cfs", *BUSY, "--repeat", "1", "--vary", "groups=30..69")
    process = begin(environment, tmp_path, *compare)
    wait_for_runs(tmp_path / "schedlab.db", 2)
    process.terminate()
    message = process.communicate(timeout=PATIENCE_S)[1]
    assert process.returncode == 143
    assert "resource_tracker" not in message and "Traceback" not in message
    assert re.search(
        r"^\d+ of 40 runs are kept in schedlab.db; the same command goes", message, re.M
    )
    assert message.endswith("\ninterrupted\n")


def test_ctrl_c_during_the_report_comes_after_the_table_and_loses_no_run(environment, tmp_path):
    # Stands in for a Ctrl-C that comes while plots are loaded and drawn.
    program = (
        "import signal, sys, schedlab.cli, schedlab.experiment.page;"
        "schedlab.experiment.page.write = lambda *_: signal.raise_signal(signal.SIGINT);"
        "schedlab.cli.main()"
    )
    words = ["compare", "fifo", *SCENARIO, "--repeat", "3", "--report", "out.html"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert done.stdout.startswith("makespan in ")
    assert (
        "\nall 3 runs are kept in schedlab.db; the same command goes on from there: " in done.stderr
    )
    assert not (tmp_path / "out.html").exists()


def test_an_interrupted_comparison_keeps_its_runs_and_goes_on(tmp_path, environment, command):
    compare = ("compare", "cfs", *BUSY, "--repeat", "1", "--vary")
    process = begin(environment, tmp_path, *compare, "groups=30..69")
    wait_for_runs(tmp_path / "schedlab.db", 2)
    os.killpg(process.pid, signal.SIGINT)
    message = process.communicate(timeout=PATIENCE_S)[1]
    kept = kept_groups(tmp_path / "schedlab.db")
    assert process.returncode == 130
    assert "Traceback" not in message
    assert message.endswith("\ninterrupted\n")
    assert f"{len(kept)} of 40 runs are kept in schedlab.db" in message
    assert f"goes on from there: {shlex.join(['schedlab', *compare, 'groups=30..69'])}" in message
    assert 2 <= len(kept) < 40
    values = f"groups=1,{','.join(kept)}"
    resumed = command(*compare, values, "--json")
    assert f"1 runs made, {len(kept)} reused" in resumed.stderr
    fresh = command(*compare, values, "--json", "--store", "fresh.db")
    assert outcomes(data(resumed)) == outcomes(data(fresh))


def test_two_comparisons_with_one_store_share_the_work(tmp_path, environment, command):
    compare = ("compare", "fifo", "cfs", *BUSY, "--vary", "groups=30..33", "--jobs", "1", "--json")
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "schedlab", *compare],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = [process.communicate(timeout=PATIENCE_S) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    made = [int(re.search(r"(\d+) runs made", stderr)[1]) for _, stderr in told]
    assert sum(made) == nr_runs(tmp_path / "schedlab.db") == 2 * 4 * 5
    assert outcomes(json.loads(told[0][0])) == outcomes(json.loads(told[1][0]))
    assert {path.name for path in tmp_path.iterdir()} == {".schedlab.db-claims", "schedlab.db"}


def kept_groups(path):
    with sqlite3.connect(path) as database:
        rows = database.execute(
            "SELECT parameters FROM runs JOIN origins ON origins.id = runs.origin"
        ).fetchall()
    return [json.loads(parameters)["groups"] for (parameters,) in rows]


def nr_runs(path):
    with sqlite3.connect(path) as database:
        return database.execute("SELECT count(*) FROM runs").fetchone()[0]


def wait_for_runs(path, wanted):
    def are_there():
        try:
            return path.exists() and nr_runs(path) >= wanted
        except sqlite3.OperationalError:
            return False  # Not made yet.

    wait_for(are_there, f"{wanted} runs in {path}")


def test_a_comparison_goes_on_when_a_policy_uses_null_or_stalls(command, policy):
    crasher, loser = policy("crasher", "*(volatile int *)8 = 1;"), policy("loser")
    compare = ("compare", "fifo", crasher, loser, *BUSY, "--vary", "groups=1..3")
    done = command(*compare, "--repeat", "2", "--json")
    document = data(done, code=1)
    statuses = {(run["policy"], run["status"]) for run in document["runs"]}
    assert statuses == {("fifo", "completed"), ("crasher", "failed"), ("loser", "failed")}
    assert len(document["runs"]) == 3 * 3 * 2
    assert "policy crasher failed" in done.stderr
    assert "policy loser failed" in done.stderr
    table = command(*compare, "--repeat", "2", "--report", "out.html")
    assert table.returncode == 1
    assert table.stdout.count("failed") == 3 * 2
    assert "0 runs made, 18 reused" in table.stderr


def test_a_policy_is_compared_with_itself_under_a_label(command):
    done = command(
        "compare", "round_robin", "slow=round_robin", *COUNTER,
        "--set", "slow.slice_ns=50ms", "--repeat", "3", "--json",
    )  # fmt: skip
    document = data(done)
    tunables = {run["policy"]: run["manifest"]["tunables"]["slice_ns"] for run in document["runs"]}
    assert tunables["slow"] == 50_000_000 != tunables["round_robin"]
    makespans = {cell["policy"]: cell["makespan"]["mean"] for cell in document["cells"]}
    assert makespans["slow"] != makespans["round_robin"]


def test_the_table_shows_every_cell_and_the_ratio_to_the_first_policy(command):
    document = data(command(*COMPARE, "--json"))
    done = command(*COMPARE)
    assert done.stdout.startswith("makespan in ")
    rows = [line.split() for line in done.stdout.splitlines()[3:]]
    assert sum("±" in row for row in rows) == 3
    assert sum("×" in row for row in rows) == 3
    # What tasks felt has such a row below.
    third, *_ = [row for row in rows if row[:1] == ["4"]]
    [mean] = [
        cell["makespan"]["mean"]
        for cell in document["cells"]
        if cell["policy"] == "fifo" and cell["varied"] == {"n": 4}
    ]
    assert float(third[1]) == pytest.approx(mean, rel=1e-3)


def test_the_heading_promises_no_interval_that_is_not_there(command):
    compare = ("compare", "fifo", "round_robin", *COUNTER, "--repeat")
    two, three = command(*compare, "2").stdout, command(*compare, "3").stdout
    assert "±" not in two and "95 % interval" not in two
    assert "mean; an interval needs 3 repetitions or more\n" in two
    assert "mean ± half of its 95 % interval\n" in three
    assert "makespan of fifo [95 % interval]\n" in three


def test_a_table_without_ratios_says_why(command, policy):
    done = command("compare", policy("loser"), "fifo", *BUSY, "--repeat", "1")
    assert done.returncode == 1
    assert "no × where loser failed: it is what others are compared with\n" in done.stdout
    assert "no ×" not in command(*COMPARE).stdout


def test_identical_repetitions_are_called_so(command):
    compare = ("compare", "fifo", *SCENARIO, "--repeat", "3")
    assert "± 0: all repetitions were equal" in command(*compare).stdout
    assert "draws no random numbers" in command(*compare).stderr
    assert "draws no random numbers" not in command("compare", "fifo", *COUNTER).stderr
    assert command(*compare, "--quiet").stderr == ""


# ---- experiment files and reports ---------------------------------------------------------------


def test_an_experiment_file_is_run_and_options_win_over_it(command, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'policies = ["fifo", "bfs"]\nworkload = "counter"\nmachine = ["core2-t5600"]\nrepeat = 2\n'
        '[vary]\nn = "1..3"\n[with]\nwork = "5ms"\n'
    )
    whole = data(command("compare", "--experiment", "./mine.toml", "--json"))
    assert len(whole["runs"]) == 2 * 3 * 2
    part = command("compare", "fifo", "--experiment", "./mine.toml", "--vary", "n=2", "--json")
    assert [run["varied"] for run in data(part)["runs"]] == [{"n": 2}] * 2
    assert "0 runs made, 2 reused" in part.stderr


@pytest.mark.parametrize("name", sorted(catalogue.names(catalogue.EXPERIMENTS)))
def test_every_shipped_experiment_is_one(name):
    from schedlab.experiment import cells, definition

    path = catalogue.find(catalogue.EXPERIMENTS, name)
    assert cells.expand(definition.build(definition.read_options(path)))


def test_a_report_is_made_again_from_the_store(command, tmp_path):
    assert command(*COMPARE, "--report", "first.html").returncode == 0
    done = command("report", "schedlab.db", "-o", "second.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert "report of 18 runs: second.html" in done.stderr
    first, second = ((tmp_path / f"{name}.html").read_text() for name in ("first", "second"))
    assert first == second


def test_the_latest_experiment_is_reported_unless_another_is_asked_for(command):
    first = data(command("compare", "fifo", *SCENARIO, "--repeat", "1", "--json"))
    second = data(command("compare", "fifo", *SCENARIO, "--repeat", "2", "--json"))
    ids = [document["experiment"]["id"] for document in (first, second)]
    done = command("report", "schedlab.db", "-o", "out.html", "--json")
    assert data(done)["experiment"] == ids[1]
    assert ids[0] in done.stderr
    done = command("report", "schedlab.db", "-o", "out.html", "--experiment", ids[0], "--json")
    assert data(done) == {"report": "out.html", "experiment": ids[0], "runs": 1}
