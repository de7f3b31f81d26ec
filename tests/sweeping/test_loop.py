"""Goal: a sweep fills all its places, makes nothing twice, and survives what dies.

Method: an engine of this file answers, dies or is interrupted as the test says; then the real
command, against `compare`.
"""

import contextlib
import json
import os
import shlex
import signal
from pathlib import Path

import numpy as np
import pytest
from kept_rows import rows
from schedlab.errors import DigestMismatch
from schedlab.experiment import definition
from schedlab.experiment.cells import Grid
from schedlab.experiment.sampling import Range, Sample
from schedlab.experiment.sweep import Outcome, record
from schedlab.store.runs import Store
from schedlab.sweeping import loop
from schedlab.sweeping.here import Came, Here

GRID = {"policies": ["fifo", "rr=round_robin"], "workload": "hackbench", "machine": ["osdl-1"]}
GRID |= {"vary": {"groups": (1, 2), "rr.slice_ns": ("1ms", "2ms")}, "repeat": 3}
NR_PLACES, NR_RUNS = 24, 18
"""The tunable of rr reaches no run of fifo: it fills two places with each."""

TOML = """\
policies = ["fifo", "round_robin"]
workload = "hackbench"
machine = "osdl-1"
repeat = 4
with = { loops = 1 }
vary = { groups = [1, 2, 3] }
"""


class Engine:
    """Takes four cells at a time, and answers for them in an order of its own."""

    nr_workers, limit_s = 4, None

    def __init__(self, answers=lambda cell: None, stops_after=None):
        self.begun, self.waiting, self.is_closed = [], [], False
        self.answers, self.left = answers, stops_after

    @property
    def has_room(self):
        return len(self.waiting) < 4

    @property
    def is_at_work(self):
        return bool(self.waiting)

    def begin(self, cell):
        self.begun.append(cell.key)
        self.waiting.append(cell)

    def wait(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        cell = self.waiting.pop()
        if why := self.answers(cell):
            return [Came(cell, None, why)]
        result = {"status": "completed", "error": None, "makespan_ns": 1, "digest": str(cell.key)}
        return [Came(cell, Outcome(result, wall_ns=5))]

    def close(self):
        self.is_closed = True


def sweep(path, engine, **changes):
    """One command on a store."""
    with Store(path) as store:
        made = loop.begin(*loop.laid_out(definition.build(GRID | changes)), store, "schedlab sweep")
        with contextlib.suppress(KeyboardInterrupt):
            made.make_runs(engine, quiet=True)
        assert engine.is_closed
        assert made.count_kept() >= made.nr_done
        return made


@pytest.fixture
def store(core, tmp_path):
    return tmp_path / "store.db"


def test_every_place_is_filled_and_no_run_made_twice(store):
    engine = Engine()
    made = sweep(store, engine)
    assert len(engine.begun) == len(set(engine.begun)) == NR_RUNS
    assert (made.nr_made, made.nr_reused) == (NR_RUNS, NR_PLACES - NR_RUNS)
    assert len(rows(store)) == NR_PLACES


@pytest.mark.parametrize("stops_after", range(0, NR_RUNS, 4))
def test_what_was_interrupted_goes_on_and_ends_alike(store, stops_after):
    first, second = Engine(stops_after=stops_after), Engine()
    sweep(store, first)
    made = sweep(store, second)
    assert made.nr_made == NR_RUNS - stops_after
    assert made.nr_done == NR_PLACES
    sweep(store.with_name("whole.db"), Engine())
    assert rows(store) == rows(store.with_name("whole.db"))


def test_what_was_interrupted_as_it_was_kept_is_kept(store, monkeypatch):
    release, interrupted = loop.Locks.release, []

    def once(self, key):
        if not interrupted:
            interrupted.append(key)
            raise KeyboardInterrupt
        release(self, key)

    monkeypatch.setattr(loop.Locks, "release", once)
    sweep(store, Engine())
    assert interrupted
    assert sweep(store, Engine()).nr_done == NR_PLACES


def test_all_but_a_run_that_does_not_repeat_is_kept(store):
    class Contradicted(Engine):
        """Another process makes the third of its runs meanwhile, which gives another digest."""

        def begin(self, cell):
            super().begin(cell)
            if len(self.begun) == 3:
                of = {"status": "completed", "error": None, "makespan_ns": 1, "digest": "another"}
                with Store(store) as opened:
                    opened.add(record(cell, Outcome(of), None))

    engine = Contradicted()
    with pytest.raises(DigestMismatch):
        sweep(store, engine)
    with Store(store) as kept:
        found = [row["result_digest"] for row in kept.kept()]
    assert sorted(found) == sorted(["another", *map(str, engine.begun[:2] + engine.begun[3:])])
    assert sweep(store, Engine()).nr_done == NR_PLACES


def test_a_second_time_nothing_begins(store):
    sweep(store, Engine())
    again = Engine()
    assert sweep(store, again).nr_reused == NR_PLACES
    assert again.begun == []


def test_more_seeds_only_add_runs(store):
    sweep(store, Engine())
    more = Engine()
    sweep(store, more, repeat=4)
    assert len(more.begun) == NR_RUNS // 3


def test_a_run_that_dies_once_is_tried_again(store):
    died = []

    def once(cell):
        if cell.seed == 2 and cell.key not in died:
            died.append(cell.key)
            return "lost its process"
        return None

    made = sweep(store, Engine(once))
    assert made.store.path == store
    assert len(died) == NR_RUNS // 3
    sweep(store.with_name("whole.db"), Engine())
    assert rows(store) == rows(store.with_name("whole.db"))


def test_a_run_that_always_dies_is_kept_as_failed_and_stops_nothing(store, capsys):
    deadly = Engine(lambda cell: cell.seed == 2 and "lost its process")
    sweep(store, deadly)
    failed = [row for row in rows(store) if row["status"] == "failed"]
    assert len(rows(store)) == NR_PLACES
    assert {row["seed"] for row in failed} == {2}
    assert failed[0]["result"]["error"]["kind"] == "crash"
    told = capsys.readouterr().err
    assert "policy fifo with hackbench, groups = 1, rr.slice_ns = 1ms on osdl-1, seed 2" in told
    assert "lost its process: it is tried again" in told
    again = Engine()
    sweep(store, again)
    assert len(again.begun) == NR_RUNS // 3, "what has no digest is made again"
    assert {row["status"] for row in rows(store)} == {"completed"}


def edit(core, change):
    """Has every policy that is compiled from now on be changed."""
    compiled = core.compile_policy

    def edited(source, *folders):
        policy = compiled(source, *folders)
        change(policy, "fifo" in str(source))
        return policy

    core.compile_policy = edited


def test_an_edited_policy_is_another_sweep_which_makes_its_runs_alone(store, core):
    sweep(store, Engine())

    def change(policy, is_fifo):
        policy.digest += " edited" * is_fifo

    edit(core, change)
    more = Engine()
    made = sweep(store, more)
    assert {key.policy_source_digest for key in more.begun} == {"digest of fifo.bpf.c edited"}
    assert made.nr_done == NR_PLACES


def test_an_edited_set_of_tunables_is_another_sweep_too(store, core):
    sweep(store, Engine())

    def change(policy, is_fifo):
        policy.tunables[1]["default"] = int(is_fifo)

    edit(core, change)
    more = Engine()
    made = sweep(store, more)
    assert {key.policy_source_digest for key in more.begun} == {"digest of fifo.bpf.c"}
    assert made.nr_done == NR_PLACES


def test_other_points_of_one_sample_are_another_sweep(core, monkeypatch, tmp_path):
    sample = Sample("random", 2, 1, {"groups": Range(1, 9)})
    ids = set()
    with Store(tmp_path / "x.db") as kept:
        for point in (0.1, 0.1, 0.9):
            monkeypatch.setattr(Sample, "drawn", lambda self, at=point: np.full((2, 1), at))
            asked = definition.build(GRID | {"vary": {}, "sample": sample})
            ids.add(loop.begin(*loop.laid_out(asked), kept, "schedlab sweep").asked.id)
    assert len(ids) == 2


def test_another_process_that_has_a_lock_is_waited_for(store, monkeypatch):
    """Its run is there at the second look."""
    locked = []

    class Others:
        def __init__(self, path):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def take(self, key):
            if key.seed == 1 and key not in locked:
                locked.append(key)
                return False
            return True

        def release(self, key):
            pass

    monkeypatch.setattr(loop, "Locks", Others)
    monkeypatch.setattr(loop, "OTHERS_POLL_S", 0)
    engine = Engine()
    made = sweep(store, engine)
    assert len(engine.begun) == NR_RUNS
    assert made.nr_done == NR_PLACES


def test_a_limit_is_of_the_run_and_not_of_the_start_of_its_process():
    asked = GRID | {"vary": {"loops": (1, 99_999)}, "repeat": 1, "policies": ["fifo"]}
    short, long = Grid(definition.build(asked))
    with contextlib.closing(Here(1, limit_s=0.3)) as here:
        here.begin(short)
        process = here._crew._workers[0].process
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(4):
            assert here.wait() == [], "two seconds"
        os.kill(process.pid, signal.SIGCONT)
        while not (came := here.wait()):
            pass
        assert (came[0].outcome.result["status"], came[0].why) == ("completed", "")
        here.begin(long)
        while not (came := here.wait()):
            pass
    assert came[0].why == "took longer than 0.3 s and was ended"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "asked.toml").write_text(TOML)
    return tmp_path / "asked.toml"


def test_a_sweep_gives_the_runs_of_compare(command, file, tmp_path):
    done = command("sweep", file, "--store", "swept.db", "--jobs", 3)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("24 runs made, 0 reused from swept.db\n")
    compared = command("compare", "--experiment", file, "--store", "compared.db", "--jobs", 1)
    assert compared.returncode == 0, compared.stderr
    assert rows(tmp_path / "swept.db") == rows(tmp_path / "compared.db")
    again = command("sweep", file, "--store", "compared.db", "--json")
    told = json.loads(again.stdout)
    assert (told["made"], told["reused"], told["by_status"]) == (0, 24, {"completed": 24})


def test_a_sweep_is_reported_and_exported_as_other_experiments(command, file, tmp_path):
    command("sweep", file, "--quiet")
    done = command("report", "schedlab.db", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    done = command("export", "schedlab.db", "-o", "runs.csv")
    assert done.returncode == 0, done.stderr
    assert len(Path(tmp_path / "runs.csv").read_text().splitlines()) == 1 + 24


@pytest.mark.parametrize("name", ["", "a b", "'"])
def test_the_command_that_is_told_exports_the_sweep(command, file, tmp_path, name):
    file.write_text(f'name = "{name}"\n' + TOML)
    done = command("sweep", file, "--store", "x y.db")
    told = done.stderr.splitlines()[-1].removeprefix("their numbers: schedlab ")
    again = command(*shlex.split(told))
    assert again.returncode == 0, again.stderr
    assert "24 runs" in again.stderr


def test_what_a_sweep_cannot_do_is_said(command, file):
    file.write_text(TOML.replace("machine = ", 'title = "x"\nmachin = '))
    done = command("sweep", file)
    assert done.returncode == 2
    assert "unknown key 'machin'" in done.stderr
    done = command("sweep", "april_2007")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    file.write_text(TOML.replace("repeat = 4", "repeat = 100000").replace("[1, 2, 3]", '"1..50"'))
    done = command("sweep", file, "--limit", "soon")
    assert (done.returncode, "'soon' is not a time" in done.stderr) == (2, True)
    for limit in ("", "500us", "999ms"):
        done = command("sweep", file, "--limit", limit)
        assert done.returncode == 2
        assert f"--limit: {limit!r} is" in done.stderr
    file.write_text(TOML.replace("repeat = 4", "repeat = 100000").replace("[1, 2, 3]", '"1..60"'))
    done = command("sweep", file)
    assert done.returncode == 2
    assert "the sweep has 12,000,000 runs, more than 10,000,000" in done.stderr
