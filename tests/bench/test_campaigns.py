"""Goal: `schedlab bench` keeps what it measured, whatever happens to it, and says what went wrong.

Method: the real command, or its engine in processes that are forked here, with suites of programs
that take a moment; killed at random, on a full disk, two at a time.
"""

import contextlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from running import PATIENCE_S, assert_it_goes, is_running, wait_for
from schedlab import programs
from schedlab.bench import answers, limits, policies, preparation, suite
from schedlab.bench import environment as surroundings
from schedlab.bench.plan import Plan
from schedlab.bench.work import RunHere
from schedlab.commands import schedlab
from schedlab.errors import SchedlabError
from schedlab.report.progress import left_text, measuring
from schedlab.store.measurements import Campaign, Measurements
from schedlab.store.runs import Store

SEED = 20260103
NR_KILLS = 50
DISK_BYTES = 150_000
TINY = """
title = "Tiny"
description = "Programs that take a moment."
repetitions = {repetitions}
warm_up = 1
timeout_s = 20

[[benchmark]]
name = "echo"
description = "Says a number."
command = "echo '{{\\"figure\\": {{\\"value\\": {{n}}}}}}'"
record = {{ json = "figure.value" }}
unit = "s"
sweep.n = [1, 2, 3]

[[benchmark]]
name = "true"
description = "Does nothing."
command = ["true"]
"""


@pytest.fixture
def environment(environment):
    """As elsewhere, on a machine on which nobody else works."""
    return environment | {"PYTHONPATH": str(Path(__file__).parents[1] / "quiet_machine")}


@pytest.fixture
def bench(command, tmp_path):
    """Writes a suite and runs `schedlab bench` with it."""

    def run(text, *options, **kwargs):
        (tmp_path / "tiny.toml").write_text(text)
        return command("bench", "tiny.toml", "--work-dir", "work", *options, **kwargs)

    return run


def one(command, **more):
    """A suite with one benchmark, from its keys as TOML."""
    keys = {"name": '"one"', "description": '"One."', "command": command, **more}
    body = "\n".join(f"{key} = {value}" for key, value in keys.items())
    return f'title = "One"\nrepetitions = 2\nwarm_up = 0\n\n[[benchmark]]\n{body}\n'


def kept(path):
    """Every repetition of a store by its place: what it measured, and when."""
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT case_name, slot, value, started_at FROM repetitions")
        found = {row[:2]: row[2:] for row in rows}
    database.close()
    return found


def is_sound(path):
    with sqlite3.connect(path) as database:
        answer = database.execute("PRAGMA integrity_check").fetchone()[0]
    database.close()
    return answer == "ok"


def forked(arguments, directory):
    """The verb in a child of this process, which spares it the start of Python; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.chdir(directory)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        code = schedlab.main([str(one) for one in arguments], standalone_mode=False)
    finally:
        os._exit(code)


def test_killed_at_fifty_moments_it_loses_nothing_and_comes_to_the_same_set(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(surroundings, "FOREIGN_NS_LEAST", 2**62)
    (tmp_path / "tiny.toml").write_text(TINY.format(repetitions=100))
    arguments = ["bench", "tiny.toml", "--work-dir", "work", "--store", "killed.db", "--quiet"]
    # From before the first repetition to some repetitions on, however fast this machine is.
    moments, most_s = random.Random(SEED), until_first(arguments, tmp_path) + 0.2
    before = {}
    nr_interrupted = nr_runs = 0
    while nr_interrupted < NR_KILLS and nr_runs < 2 * NR_KILLS:
        nr_runs += 1
        child = forked(arguments, tmp_path)
        time.sleep(moments.uniform(0.0, most_s))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        nr_interrupted += os.WIFSIGNALED(status)
        now = kept(tmp_path / "killed.db") if is_started(tmp_path / "killed.db") else {}
        lost = {place for place in before if now.get(place) != before[place]}
        assert not lost, f"seed {SEED}, kill {nr_runs}"
        before = now
    assert nr_interrupted == NR_KILLS
    assert before, "nothing was measured between the kills"
    assert os.waitstatus_to_exitcode(os.waitpid(forked(arguments, tmp_path), 0)[1]) == 0
    assert is_sound(tmp_path / "killed.db")
    whole = kept(tmp_path / "killed.db")
    assert all(whole[place] == before[place] for place in before)
    places = {(name, str(n)) for name in CASES for n in range(1, 101)}
    assert {place for place in whole if "warm-up" not in place[1]} == places
    assert len(whole) == len(places) + len(CASES)  # Each case was warmed up once in this boot.


def until_first(arguments, directory):
    """How many seconds it takes until something is kept, here and now."""
    began = time.monotonic()
    child = forked([*arguments, "--label", "timed", "--store", "timed.db"], directory)
    path = directory / "timed.db"
    wait_for(lambda: is_started(path) and kept(path), "a repetition that is kept")
    took_s = time.monotonic() - began
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return took_s


CASES = ("echo n=1", "echo n=2", "echo n=3", "true")


def is_started(path):
    """Whether the tables are there: the first kills may come before."""
    if not path.exists():
        return False
    with sqlite3.connect(path) as database:
        query = "SELECT count(*) FROM sqlite_schema WHERE name = 'repetitions'"
        found = database.execute(query).fetchone()[0]
    database.close()
    return bool(found)


def test_the_order_is_random_and_follows_from_the_seed(bench, tmp_path):
    def order(path, seed):
        done = bench(TINY.format(repetitions=4), "--store", path, "--seed", seed)
        assert done.returncode == 0, done.stderr
        with sqlite3.connect(tmp_path / path) as database:
            rows = database.execute(
                "SELECT slot, case_name FROM repetitions WHERE NOT warm_up ORDER BY id"
            ).fetchall()
        database.close()
        return rows

    first = order("a.db", 1)
    # Blocks are complete: every case once, before any comes again.
    assert [slot for slot, _ in first] == [str(block) for block in (1, 2, 3, 4) for _ in CASES]
    assert len({tuple(first[at : at + 4]) for at in (0, 4, 8, 12)}) > 1
    assert order("b.db", 1) == first
    assert order("c.db", 2) != first


def test_two_processes_that_write_one_store_do_not_harm_it(tmp_path, environment):
    (tmp_path / "tiny.toml").write_text(TINY.format(repetitions=20))
    command = [sys.executable, "-m", "schedlab", "bench", "tiny.toml", "--store", "both.db"]
    both = [
        subprocess.Popen(
            [*command, "--label", label, "--work-dir", label, "--json"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for label in ("left", "right")
    ]
    for process in both:
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
    assert is_sound(tmp_path / "both.db")
    with sqlite3.connect(tmp_path / "both.db") as database:
        counted = database.execute(
            "SELECT label, count(*) FROM repetitions JOIN campaigns"
            " ON campaigns.id = campaign WHERE NOT warm_up GROUP BY label"
        ).fetchall()
    database.close()
    assert counted == [("left", 80), ("right", 80)]


def test_two_at_a_time_in_one_folder_would_measure_each_other(tmp_path):
    with (
        preparation.alone(tmp_path),
        pytest.raises(SchedlabError, match="another schedlab bench"),
        preparation.alone(tmp_path),
    ):
        pass


@pytest.fixture(params=["a limit on file sizes", "a small tmpfs"])
def full_disk(request, tmp_path):
    """A folder that holds some hundred kilobytes, and what a child needs to meet its end."""
    folder = tmp_path / "small"
    folder.mkdir()
    if request.param != "a small tmpfs":
        limits = (DISK_BYTES, DISK_BYTES)
        yield folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={2 * DISK_BYTES}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield folder, None
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_what_was_kept_is_whole(tmp_path, environment, full_disk):
    folder, meet = full_disk
    (tmp_path / "tiny.toml").write_text(TINY.format(repetitions=200))
    path = folder / "schedlab.db"
    done = subprocess.run(
        [sys.executable, "-m", "schedlab", "bench", "tiny.toml", "--store", path],
        cwd=tmp_path,
        # Of one cache only one bench at a time may measure, and this one runs on each kind of disk.
        env=environment | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        preexec_fn=meet,
    )
    assert done.returncode == 2, done.stderr
    assert re.search(r"^error: store .*schedlab\.db: .*disk is full", done.stderr, re.MULTILINE)
    assert "hint: free some space" in done.stderr
    assert "Traceback" not in done.stderr
    assert is_sound(path)
    assert kept(path)


# ---- programs that go wrong ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (one('"echo no such thing >&2; exit 3"'), "one failed: exit status 3\n  no such thing"),
        (one('["nonesuch-program"]'), "cannot start nonesuch-program: No such file"),
        (one('"kill -SEGV $$"'), "one failed: SIGSEGV ended it"),
        (one('"sleep 60"', timeout_s="0.2"), "it was not done after 0."),
        (one('"true"', prepare='"exit 4"'), "one failed: its prepare: exit status 4"),
        (one('"true"', cleanup='"exit 5"'), "one failed: its cleanup: exit status 5"),
        (one('"echo {}"', record='{ json = "a.b" }', unit='"s"'), "its output has no a.b"),
        (one('"echo -1 s"', record='{ regex = "(.*) s" }', unit='"s"'), "not a positive number"),
        (one('"echo one s"', record='{ regex = "(.*) s" }', unit='"s"'), "which is no number"),
    ],
)
def test_a_program_that_fails_is_named_with_what_it_said(bench, text, said):
    done = bench(text)
    assert done.returncode == 1, done.stderr
    assert said in done.stderr
    assert "the same command tries it again" in done.stderr


def test_a_program_that_failed_is_tried_again_and_the_others_are_measured(bench, tmp_path):
    text = TINY.format(repetitions=2).replace('["true"]', '"test -e {work}/there"')
    assert bench(text).returncode == 1
    (tmp_path / "work/scratch/there").touch()
    done = bench(text)
    assert done.returncode == 0, done.stderr
    # Its two, and its warm-up, which is not counted.
    assert "2 repetitions made, 6 were in schedlab.db before" in done.stderr


def test_what_ended_a_search_is_told_below_the_table(bench):
    found = """echo '{"groups": 7, "ended_by": "the cage of 290 tasks"}'"""
    search = {"record": '{ json = "groups" }', "unit": '"groups"', "ended_by": '"ended_by"'}
    done = bench(one(f'"""{found}"""', **search))
    assert done.returncode == 0, done.stderr
    assert "limit: one: 2 of 2 searches were ended by the cage of 290 tasks\n" in done.stdout


def test_a_missing_package_is_named_with_the_command_that_installs_it(bench, tmp_path):
    if shutil.which("dpkg-query") is None:
        pytest.skip("this is no Debian: packages cannot be asked for")
    done = bench(one('"true"', needs='["nonesuch-package"]'))
    assert done.returncode == 2
    assert "nonesuch-package (for one)" in done.stderr
    assert "apt-get install nonesuch-package" in done.stderr


def test_schedlab_bench_is_asked_for_by_the_command_that_builds_it(tmp_path, monkeypatch):
    monkeypatch.delenv(programs.BENCH.variable, raising=False)
    monkeypatch.setattr(preparation.catalogue, "data_directory", lambda: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SchedlabError) as caught:
        programs.BENCH.find()
    assert "`make schedlab-bench`" in caught.value.hint


# ---- inputs -------------------------------------------------------------------------------------

WITH_INPUT = """
title = "With an input"
repetitions = 1
warm_up = 0

[[input]]
name = "clip"
command = "echo made >> {work}/../count; echo clip > clip.ts"
files = ["clip.ts"]

[[benchmark]]
name = "read"
description = "Reads it."
inputs = ["clip"]
command = "cat {clip}/clip.ts"
"""


def test_an_input_is_made_once_and_a_changed_one_is_refused(bench, tmp_path):
    assert bench(WITH_INPUT).returncode == 0
    assert bench(WITH_INPUT, "--again").returncode == 0
    [made] = (tmp_path / "work/inputs").glob("clip-*")
    assert (tmp_path / "work/inputs/count").read_text() == "made\n"
    (made / "clip.ts").write_text("another\n")
    done = bench(WITH_INPUT)
    assert done.returncode == 2
    assert "is no longer what was measured before" in done.stderr
    assert f"rm -r {made}" in done.stderr


def test_an_input_that_was_not_finished_is_made_anew(bench, tmp_path):
    failing = WITH_INPUT.replace("> clip.ts", "> clip.ts; exit 7")
    done = bench(failing)
    assert done.returncode == 2
    assert "input clip cannot be made: exit status 7" in done.stderr
    assert bench(failing.replace("exit 7", "true")).returncode == 0


@pytest.mark.parametrize("left", [b"", b'{"clip.ts":"ab', b"\xff\x00", b"[1]", b'{"other":"a"}'])
def test_what_a_crash_left_of_an_input_is_told_and_made_anew(bench, tmp_path, left):
    assert bench(WITH_INPUT).returncode == 0
    [made] = (tmp_path / "work/inputs").glob("clip-*")
    (made / preparation.READY).write_bytes(left)
    done = bench(WITH_INPUT)
    assert done.returncode == 0, done.stderr
    assert f"{made / preparation.READY} is damaged" in done.stderr
    assert f"preparing clip in {made}, once" in done.stderr
    assert (tmp_path / "work/inputs/count").read_text() == "made\nmade\n"
    assert "damaged" not in bench(WITH_INPUT).stderr


# ---- answers ------------------------------------------------------------------------------------


def test_another_label_is_compared_and_the_same_command_measures_nothing_twice(bench):
    assert bench(one('"sleep 0.01"'), "--repeat", 6, "--label", "old").returncode == 0
    done = bench(one('"sleep 0.01"'), "--repeat", 6, "--label", "new", "--json")
    assert done.returncode == 0, done.stderr
    old, new = json.loads(done.stdout)
    assert (old["label"], new["label"]) == ("old", "new")
    assert old["against_first"] is None
    against = new["against_first"]
    assert 0 < against["low"] <= against["ratio"] <= against["high"]
    again = bench(one('"sleep 0.01"'), "--repeat", 6, "--label", "new")
    assert "0 repetitions made, 6 were in schedlab.db before" in again.stderr
    assert "compared" in again.stdout


def test_another_command_is_another_benchmark_and_the_last_one_is_shown(bench):
    bench(one('"sleep 0.01"'), "--label", "old")
    done = bench(one('"sleep 0.02"'), "--label", "new", "--json")
    [row] = json.loads(done.stdout)
    assert (row["label"], row["against_first"], row["earlier"]) == ("new", None, 2)
    shown = bench(one('"sleep 0.02"'), "--show")
    assert "limit: 2 repetitions of one are not shown: their command or inputs" in shown.stdout
    # Edited back, the first form is what there is now, although nothing of it is left to do.
    back = bench(one('"sleep 0.01"'), "--label", "old", "--json")
    assert [(row["label"], row["earlier"]) for row in json.loads(back.stdout)] == [("old", 2)]


def test_showing_reads_and_changes_nothing(bench, tmp_path):
    missing = bench(one('"true"'), "--show")
    assert missing.returncode == 2
    assert "hint: schedlab bench tiny.toml" in missing.stderr
    assert not (tmp_path / "schedlab.db").exists()
    assert bench(one('"true"')).returncode == 0
    with sqlite3.connect(tmp_path / "schedlab.db", isolation_level=None) as writer:
        # As it is while another process measures.
        writer.execute("BEGIN IMMEDIATE")
        shown = bench(one('"true"'), "--show")
    writer.close()
    assert shown.returncode == 0, shown.stderr
    with Store(tmp_path / "empty.db"):
        pass
    empty = bench(one('"true"'), "--show", "--store", "empty.db")
    assert empty.returncode == 2
    assert "nothing of suite tiny" in empty.stderr


def test_a_program_that_changed_on_the_way_is_told(bench, tmp_path, environment):
    program = tmp_path / "schedlab-bench"
    program.write_text(f"#!/bin/sh\n[ ! -e {tmp_path}/ran ] && touch {tmp_path}/ran\n")
    program.chmod(0o755)
    environment["SCHEDLAB_BENCH"] = str(program)
    # The first of two succeeds, and the other one is made up for by another program.
    first = bench(one('["{bench}"]'))
    assert first.returncode == 1
    assert "versions of tools" not in first.stdout
    program.write_text("#!/bin/sh\n")
    after = bench(one('["{bench}"]'))
    assert after.returncode == 0, after.stderr
    assert "limit: one: measured with 2 versions of tools: " in after.stdout


def test_runs_that_others_disturbed_are_told_below_the_table():
    setup = answers.Setup("6.18", "#1", "kernel", "")
    row = answers.CaseRow("m", "tiny", "one", "d", "s", False, names={setup: "6.18"})
    row.samples[setup] = answers.Sample(values=[1.0, 1.1, 1.2], nr_noisy=2)
    [said] = limits.limits([row])
    assert said.startswith("2 of 3 repetitions were disturbed")
    row.samples[setup].nr_noisy = 0
    assert limits.limits([row]) == []


def test_again_makes_another_series_and_goes_on_with_one_that_is_not_complete(bench):
    assert "2 repetitions made, 0 were" in bench(one('"true"')).stderr
    assert "2 repetitions made, 0 were" in bench(one('"true"'), "--again").stderr
    done = bench(one('"true"'), "--json")
    assert "0 repetitions made, 2 were" in done.stderr
    [row] = json.loads(done.stdout)
    assert len(row["values"]) == 4


def test_measuring_stops_when_it_is_known_well_enough(bench):
    exact = one('"echo 7 s"', record='{ regex = "(.*) s" }', unit='"s"')
    done = bench(exact, "--until-ci", "1%", "--repeat", 50)
    assert "10 repetitions made" in done.stderr
    assert "one: ±0.00 % after 10 runs" in done.stderr


def test_what_cannot_be_known_well_enough_is_said_with_the_runs_that_it_takes(bench):
    command = (
        """'''n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; echo $((n % 2 + 1)) s'''"""
    )
    noisy = one(command, record='{ regex = "(.*) s" }', unit='"s"')
    done = bench(noisy, "--until-ci", "1%", "--repeat", 12)
    assert "12 repetitions made" in done.stderr
    found = re.search(r"after 12 runs, not ±1\.0 %: .* takes about ([\d,]+) runs", done.stderr)
    assert int(found[1].replace(",", "")) > 1000


@pytest.mark.parametrize("text", ["1", "0%", "99%", "-1%", "x%"])
def test_a_width_that_is_none_is_refused(bench, text):
    done = bench(one('"true"'), f"--until-ci={text}")
    assert done.returncode == 2
    assert "--until-ci" in done.stderr


def test_policies_need_a_kernel_that_takes_them(bench):
    if Path("/sys/kernel/sched_ext").exists() and os.geteuid() == 0:
        pytest.skip("this kernel takes policies")
    done = bench(one('"true"'), "--policies", "bfs,cfs")
    assert done.returncode == 2
    assert "sched_ext" in done.stderr or "root" in done.stderr
    assert "hint: " in done.stderr


def loader(tmp_path, body):
    """A program in the place of `schedlab load`."""
    path = tmp_path / "loader"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return (str(path),)


def test_a_policy_is_in_force_from_its_attaching_until_it_is_asked_to_go(tmp_path):
    attached = """echo '{"record": "attached"}'; echo $$ >pid; exec sleep 60"""
    command = loader(tmp_path, f"cd {tmp_path}; {attached}")
    with policies.in_force("bfs", command):
        pid = int((tmp_path / "pid").read_text())
        assert is_running(pid)
    assert not is_running(pid)


def test_a_policy_goes_when_the_bench_is_killed(tmp_path):
    attached = """echo '{"record": "attached"}'; echo $$ >pid; exec sleep 60"""
    command = loader(tmp_path, f"cd {tmp_path}; {attached}")
    child = os.fork()
    if not child:
        with policies.in_force("bfs", command):
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    pid = int((tmp_path / "pid").read_text())
    assert_it_goes(pid, "the policy")


def test_a_policy_that_is_refused_is_named_with_the_reason(tmp_path):
    command = loader(tmp_path, "echo 'error: the verifier says no' >&2; exit 1")
    with (
        pytest.raises(SchedlabError, match="policy bfs cannot be loaded: error: the verifier"),
        policies.in_force("bfs", command),
    ):
        pass


def test_time_left_is_no_guess_for_what_was_never_timed(tmp_path, capsys, monkeypatch):
    # A busy machine would have repetitions made up for.
    monkeypatch.setattr(surroundings, "FOREIGN_NS_LEAST", 2**62)
    read = suite.parse("tiny", tomllib.loads(TINY.format(repetitions=1)), "tiny.toml")
    cases = suite.only(suite.cases(read, "quick"), ["echo"])[:2]
    names = [case.name for case in cases]
    plan = Plan(
        cases,
        {n: n for n in names},
        ["kernel"],
        1,
        dict.fromkeys(names, 1),
        dict.fromkeys(names, 0),
    )
    condition = {"scheduler": surroundings.scheduler()}
    campaign = Campaign("c", "tiny", plan.definition, "", 1, condition, "", "", "")
    seen = []
    with Store(tmp_path / "s.db") as store:
        kept_ones = Measurements(store)
        kept_ones.begin(campaign)
        number = kept_ones.surround("c", "", {}, [])
        nothing = contextlib.nullcontext
        run = RunHere(
            plan,
            campaign,
            kept_ones,
            "boot",
            {"work": tmp_path},
            number,
            in_force=lambda _: nothing(),
        )
        run.begins = lambda title: seen.append((title, run.left_s(), run.untimed))
        run.measure()
    (_, first_left, first_untimed), (second, left, untimed) = seen
    assert (first_left, sorted(first_untimed)) == (None, sorted(names))
    assert (left, untimed) == (0.0, [second])

    with measuring(9, quiet=False) as progress:
        progress.update(1, "limit", left=left_text(60.0, is_whole=False))
    assert capsys.readouterr().err == "1/9 repetitions, 1 min 0 s left at least: limit\n"


def test_ctrl_c_says_how_to_go_on_and_keeps_what_there_is(tmp_path, environment):
    (tmp_path / "tiny.toml").write_text(one('"sleep 0.2"').replace("= 2", "= 500"))
    process = subprocess.Popen(
        [sys.executable, "-m", "schedlab", "bench", "tiny.toml", "--work-dir", "work"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    path = tmp_path / "schedlab.db"
    wait_for(lambda: is_started(path) and kept(path), "a repetition that is kept")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert re.search(r"\d+ of 500 repetitions are kept in schedlab\.db; the same command", said)
    assert kept(path)
