"""Goal: workers of Dask get what they can do, and who is lost or wrong costs no run.

Method: a client of this file in the place of Dask's, whose workers answer, vanish or err as the
test says; then what a worker does, for real.
"""

import pickle
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from running import wait_for
from schedlab import catalogue
from schedlab.errors import SchedlabError
from schedlab.experiment import definition
from schedlab.experiment.cells import Grid
from schedlab.experiment.sweep import Outcome, simulate_cell
from schedlab.store.runs import Store
from schedlab.sweeping import at_worker, elsewhere, loop
from schedlab.sweeping.elsewhere import Elsewhere

ROOT = Path(__file__).resolve().parents[2]
INTERFACE = ROOT / "tests/interface"
ASKED = {"policies": ["fifo"], "workload": "hackbench", "machine": ["osdl-1"]}
ASKED |= {"with": {"groups": "1", "loops": "1"}}


class Future:
    """A call that somebody is to answer."""

    def __init__(self, number, worker, function, arguments):
        self.key, self.worker, self.status = number, worker, "pending"
        self.function, self.arguments = function, arguments
        self.answer = self.heard = None

    def add_done_callback(self, heard):
        self.heard = heard

    def release(self):
        self.status = "cancelled"

    def result(self, timeout):
        if isinstance(self.answer, Exception):
            raise self.answer
        return pickle.dumps(self.answer)

    def end(self, answer):
        self.answer, self.status = answer, "finished"
        self.heard(self)


class Client:
    """Workers that do nothing until they are told what they answer."""

    status, dashboard_link = "running", "http://x"

    def __init__(self, **nr_threads):
        self.nr_threads, self.calls, self.clock = nr_threads, [], 0

    def scheduler_info(self, n_workers):
        self.clock += 1
        about = {
            name: {"nthreads": number, "last_seen": self.clock}
            for name, number in self.nr_threads.items()
        }
        return {"workers": about}

    def submit(self, _, call, workers, **how):
        function, *arguments = call
        future = Future(len(self.calls), workers[0], function, arguments)
        self.calls.append(future)
        return future

    def asked(self, function, worker=None):
        """What is at work."""
        of = [call for call in self.calls if call.function is function]
        return [c for c in of if c.status == "pending" and worker in (None, c.worker)]

    def enrol(self, answer=""):
        for call in self.asked(at_worker.enrol):
            call.end(answer)

    def cells(self, worker=None):
        return [call.arguments[1] for call in self.asked(at_worker.work, worker)]


@pytest.fixture
def engine(monkeypatch):
    """An engine on a client, without waiting."""
    monkeypatch.setattr(elsewhere, "POLL_S", 0)
    monkeypatch.setattr(elsewhere, "LOOK_EVERY_S", -1)
    monkeypatch.setattr(elsewhere, "_parcel", lambda *call: call)

    def made(client):
        monkeypatch.setattr(Elsewhere, "_connected", lambda self, where: client)
        told = []
        one = Elsewhere("tcp://x", lambda: SimpleNamespace(id="sweep"), told.append)
        one.address, one.told = "tcp://x", told
        return one

    return made


def cell(seed):
    return SimpleNamespace(seed=seed)


def outcome(wall_s=0.01):
    return Outcome({"digest": "d"}, wall_ns=int(wall_s * 1e9))


def answer(call, why=""):
    """A worker's answer to all that it was asked."""
    call.end([(None if why else outcome(), why) for _ in call.arguments[1]])


def fill(one, seeds):
    """Begins cells while there is room."""
    while one.has_room and seeds:
        one.begin(cell(seeds.pop(0)))
    return one.wait()


def finish(one, client, seeds):
    """All that comes of cells, in any order."""
    came = []
    for _ in range(10_000):
        came += fill(one, seeds)
        for call in client.asked(at_worker.work):
            answer(call)
        if not seeds and not one.is_at_work:
            return sorted(one.cell.seed for one in came)
    raise AssertionError("it does not end")


def test_nothing_is_given_to_a_worker_before_it_was_examined(engine):
    client = Client(a=1)
    one = engine(client)
    fill(one, [1, 2])
    assert (client.cells(), one.nr_workers) == ([], 0)
    client.enrol()
    one.wait()
    one.wait()
    assert one.nr_workers == 1
    assert len(client.cells("a")) == 1


def test_every_cell_comes_once_whoever_makes_it(engine):
    client = Client(a=1, b=3)
    one = engine(client)
    one.wait()
    client.enrol()
    assert finish(one, client, list(range(500))) == list(range(500))
    assert {call.worker for call in client.calls} == {"a", "b"}


def test_batches_take_a_second_and_few_of_them_wait(engine):
    client = Client(a=1)
    one = engine(client)
    one.wait()
    client.enrol()
    one.wait()
    seeds = list(range(10_000))
    for _ in range(50):
        fill(one, seeds)
        assert sum(map(len, client.cells())) <= 2 * elsewhere.BATCH_RUNS_MAX
        answer(client.asked(at_worker.work)[0])
    fill(one, seeds)
    fill(one, seeds)
    assert [len(cells) for cells in client.cells()] == [100, 100]
    one.limit_s = 7.0
    for _ in range(2):
        answer(client.asked(at_worker.work)[0])
        fill(one, seeds)
    assert client.asked(at_worker.work)[-1].arguments[2] == 7.0


def test_what_a_lost_worker_had_others_do(engine):
    client = Client(a=1, b=1)
    one = engine(client)
    one.wait()
    client.enrol()
    seeds = list(range(20))
    fill(one, seeds)
    fill(one, seeds)
    assert client.cells("a")
    del client.nr_threads["a"]
    fill(one, seeds)
    assert any("worker a is gone: others make what it had" in text for text in one.told)
    assert finish(one, client, seeds) == list(range(20))


def test_an_answer_of_a_lost_worker_is_not_counted_beside_the_others(engine):
    client = Client(a=1, b=1)
    one = engine(client)
    one.wait()
    client.enrol()
    seeds = list(range(8))
    fill(one, seeds)
    fill(one, seeds)
    [late, *_] = client.asked(at_worker.work, "a")
    del client.nr_threads["a"]
    one.wait()
    answer(late)
    assert finish(one, client, seeds) == list(range(8))


@pytest.mark.parametrize("nr_runs", [12, 3_000])
def test_a_cell_that_ends_workers_is_found_and_no_other_is_blamed(engine, nr_runs):
    client = Client(w0=1)
    one = engine(client)
    one.wait()
    client.enrol()
    bad, nr_lost, came = nr_runs * 2 // 3, 0, []
    seeds = list(range(nr_runs))
    for _ in range(2_000):
        came += fill(one, seeds)
        client.enrol()
        for call in client.asked(at_worker.work):
            if any(cell.seed == bad for cell in call.arguments[1]):
                nr_lost += 1
                client.nr_threads = {f"w{nr_lost}": 1}
                break
            answer(call)
        if blamed := [one.cell.seed for one in came if one.outcome is None]:
            break
    assert blamed == [bad]
    assert nr_lost <= 4, "alone, in ten, in a hundred, among others"
    client.nr_threads |= {"good": 1}
    done = [one.cell.seed for one in came if one.outcome]
    one.wait()
    client.enrol()
    assert sorted(finish(one, client, seeds) + done) == [s for s in range(nr_runs) if s != bad]


def test_who_was_with_a_lost_worker_is_cleared_in_ten_calls_a_thread(engine):
    client = Client(a=2)
    one = engine(client)
    one.wait()
    client.enrol()
    seeds = list(range(5_000))
    while min(map(len, client.cells()), default=0) < 90:
        for call in client.asked(at_worker.work):
            answer(call)
        fill(one, seeds)
    at_work = [cell.seed for cells in client.cells() for cell in cells]
    del client.nr_threads["a"]
    client.nr_threads["b"] = 2
    one.wait()
    client.enrol()
    nr_calls_before = len(client.calls)
    found = finish(one, client, [])
    assert set(at_work) <= set(found)
    assert len(client.calls) - nr_calls_before <= 2 * 10 + len(found) // 50


def test_a_run_that_dies_is_told_and_the_rest_of_its_batch_is_not_lost(engine):
    client = Client(a=1)
    one = engine(client)
    one.wait()
    client.enrol()
    one.wait()
    seeds, came = list(range(400)), []
    while max(map(len, client.cells()), default=0) < 50:
        for call in client.asked(at_worker.work):
            answer(call)
        came += fill(one, seeds)
    call = client.asked(at_worker.work)[0]
    dies = call.arguments[1][2].seed
    call.end([(outcome(), ""), (outcome(), ""), (None, "lost its process")])
    came += fill(one, seeds)
    assert [one.cell.seed for one in came if one.outcome is None] == [dies]
    rest = finish(one, client, seeds)
    assert sorted([one.cell.seed for one in came] + rest) == list(range(400))


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        ("it has schedlab 0.0", "worker a is not used: it has schedlab 0.0"),
        (ModuleNotFoundError("No module named 'schedlab'"), "install this schedlab there"),
    ],
)
def test_a_worker_that_is_wrong_is_told_once_and_gets_nothing(engine, answered, told):
    client = Client(a=1, b=1)
    one = engine(client)
    one.wait()
    client.asked(at_worker.enrol, "a")[0].end(answered)
    client.enrol()
    assert finish(one, client, list(range(50))) == list(range(50))
    assert len([text for text in one.told if told in text]) == 1
    assert not [
        call for call in client.calls if call.function is at_worker.work and call.worker == "a"
    ]


def test_where_no_worker_can_be_used_the_sweep_says_why_once_others_could_have_come(
    engine, monkeypatch
):
    client = Client(a=1)
    one = engine(client)
    one.wait()
    client.enrol("it has schedlab 0.0")
    one.wait()
    one.wait()
    monkeypatch.setattr(elsewhere, "OTHERS_AWAITED_S", -1)
    with pytest.raises(SchedlabError, match="no worker of Dask can be used: a: it has schedlab 0"):
        one.wait()


def test_a_worker_is_waited_for_and_told_once_each_time(engine, monkeypatch):
    monkeypatch.setattr(elsewhere, "TELL_AFTER_S", -1)
    client = Client()
    one = engine(client)
    for _ in range(3):
        assert fill(one, [1]) == []
    assert one.told == ["note: there is no worker of Dask to simulate: waiting for one"]
    client.nr_threads["late"] = 1
    one.wait()
    client.enrol()
    assert finish(one, client, [2]) == [1, 2]
    client.nr_threads.clear()
    for _ in range(3):
        one.wait()
    assert one.told[1:] == ["note: worker late is gone", one.told[0]]


def test_a_worker_that_errs_is_used_no_more_and_its_cells_are_made(engine):
    client = Client(a=1, b=1)
    one = engine(client)
    one.wait()
    client.enrol()
    seeds = list(range(9))
    fill(one, seeds)
    fill(one, seeds)
    client.asked(at_worker.work, "a")[0].end(RuntimeError("no space left"))
    assert finish(one, client, seeds) == list(range(9))
    assert one.told[-1] == "note: worker a is not used: it cannot simulate: no space left"


def test_what_a_silent_worker_had_others_do_and_it_may_come_back(engine, monkeypatch):
    client = Client(a=1, b=1)
    one = engine(client)
    one.wait()
    client.enrol()
    seeds = list(range(6))
    fill(one, seeds)
    fill(one, seeds)
    assert client.cells("a")
    told = client.scheduler_info
    client.scheduler_info = lambda n_workers: {
        "workers": {name: about | {"last_seen": 1} for name, about in told(1)["workers"].items()}
        | {"b": {"nthreads": 1, "last_seen": client.clock}}
    }
    one.wait()
    monkeypatch.setattr(elsewhere, "SILENT_S", -1)
    one.wait()
    monkeypatch.setattr(elsewhere, "SILENT_S", 60)
    assert "note: worker a has been silent for -1 s: others make what it had, 2 runs" in one.told
    assert finish(one, client, seeds) == list(range(6))
    assert one.nr_workers == 1
    client.scheduler_info = told
    one.wait()
    client.enrol()
    one.wait()
    assert one.nr_workers == 2


def test_a_scheduler_that_is_gone_ends_the_sweep_with_a_way_on(engine):
    client = Client(a=1)
    one = engine(client)
    client.status = "connecting"
    with pytest.raises(SchedlabError, match="scheduler of Dask at tcp://x is gone") as told:
        one.wait()
    assert "the same command goes on" in told.value.hint
    # What Dask has of a scheduler that went while nothing was asked of it.
    one = engine(client)
    client.scheduler_info = lambda n_workers: {}
    with pytest.raises(SchedlabError, match="scheduler of Dask at tcp://x is gone"):
        one.wait()


def test_a_scheduler_that_is_silent_is_told_and_waited_for(engine, monkeypatch):
    monkeypatch.setattr(elsewhere, "ANSWERS_IN_S", 0.01)
    client = Client(a=1)
    one = engine(client)
    info = client.scheduler_info

    def late(n_workers):
        wait_for(lambda: one.told, "a note")
        return info(n_workers)

    client.scheduler_info = late
    one.wait()
    client.scheduler_info = info
    monkeypatch.setattr(elsewhere, "ANSWERS_IN_S", 600)
    client.enrol()
    assert finish(one, client, [1, 2]) == [1, 2]
    [told] = one.told
    assert told.startswith("note: the scheduler of Dask has not answered for 0 s: waiting; Ctrl-C")


def test_what_is_told_while_waiting_is_told_before_anything_else(engine, monkeypatch):
    """Another thread tells it, which may be in the middle of a line."""
    monkeypatch.setattr(elsewhere, "ANSWERS_IN_S", 0.01)
    client = Client(a=1)
    one = engine(client)
    begun, ended = threading.Event(), []

    def slow(text):
        begun.set()
        time.sleep(0.1)
        ended.append(text)

    info = client.scheduler_info
    one._tell = slow
    client.scheduler_info = lambda n_workers: begun.wait() and info(n_workers)
    one._there()
    assert len(ended) == 1


@pytest.mark.parametrize(
    "policy",
    ["fifo", INTERFACE / "front_end.bpf.c", INTERFACE / "parts/parts.loader.toml"],
)
def test_a_worker_without_the_files_gives_what_this_computer_gives(policy):
    grid = Grid(definition.build(ASKED | {"policies": [str(policy)], "repeat": 3}))
    here = [simulate_cell(cell).result for cell in grid]
    errand = at_worker.errand(Path(policy).name, grid, [])

    def moved(cell):
        """Nothing is found by its path here."""
        parts = ("policy", "machine", "workload")
        of = {part: getattr(cell, part) for part in parts}
        return replace(cell, **{p: replace(o, path=f"/nowhere{o.path}") for p, o in of.items()})

    errand = replace(
        errand,
        files={f"/nowhere{path}": of for path, of in errand.files.items()},
        examined=[(moved(grid[0]), here[0]["digest"])],
    )
    assert at_worker.enrol(errand) == ""
    came = at_worker.work(Path(policy).name, list(map(moved, grid)), None)
    assert [outcome.result for outcome, _ in came] == here


def test_what_speaks_against_a_worker_is_said():
    grid = Grid(definition.build(ASKED))
    errand = at_worker.errand("t", grid, [(grid[0], "f00")])
    digest = simulate_cell(grid[0]).result["digest"]
    assert f"gave digest {digest}, and f00 where the sweep is asked" in at_worker.enrol(errand)
    version = catalogue.core_version()
    other = replace(errand, version="0.0")
    assert at_worker.enrol(other) == f"it has schedlab {version}, and the sweep is asked by 0.0"


def test_an_examined_run_that_meets_the_limit_says_nothing(tmp_path):
    """Neither here nor at a worker, which the wrong digest would speak against."""
    at_once_s = 0.01
    asked = definition.build(ASKED | {"with": {"groups": "9", "loops": "99999"}})
    with Store(tmp_path / "x.db") as store:
        assert loop.begin(*loop.laid_out(asked), store, "schedlab sweep").examine(at_once_s) == []
    grid = Grid(asked)
    assert at_worker.enrol(at_worker.errand("v", grid, [(grid[0], "f00")], at_once_s)) == ""


@pytest.mark.parametrize(("nr_deaths", "told"), [(1, ""), (2, "lost its process")])
def test_a_worker_whose_process_dies_once_is_no_worse_than_a_run_that_does(
    monkeypatch, nr_deaths, told
):
    grid = Grid(definition.build(ASKED))
    errand = at_worker.errand("d", grid, [(grid[0], simulate_cell(grid[0]).result["digest"])])
    begin, begun = at_worker.Here.begin, []

    def deadly(self, cell):
        begin(self, cell)
        begun.append(cell)
        if len(begun) <= nr_deaths:
            self._crew._workers[0].process.kill()

    monkeypatch.setattr(at_worker.Here, "begin", deadly)
    # A process that has begun to start is ended before it simulates anything.
    monkeypatch.setattr(at_worker, "_idle", [])
    said = at_worker.enrol(errand)
    assert told in said
    assert bool(said) == bool(told)


def test_a_batch_that_takes_long_is_answered_in_part():
    grid = Grid(definition.build(ASKED | {"repeat": 3}))
    at_worker.enrol(at_worker.errand("u", grid, []))
    assert len(at_worker.work("u", list(grid), None, for_s=0)) == 1


@pytest.fixture
def file(tmp_path):
    text = 'policies = "fifo"\nworkload = "hackbench"\nmachine = "osdl-1"\nwith = { loops = 1 }\n'
    (tmp_path / "asked.toml").write_text(text)
    return tmp_path / "asked.toml"


@pytest.mark.parametrize("content", ["", "{}", "no", "[1]", '{"address": 5}', "\xff"])
def test_a_file_that_no_scheduler_wrote_is_refused(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(SchedlabError, match=r"bad.json' is no file with a scheduler's address"):
        Elsewhere(str(path), lambda: None, print)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("local:0", "'local:0' is not from local:1 to local:1024"),
        ("udp://127.0.0.1:1", "'udp://127.0.0.1:1' is no address"),
        ("ucx://127.0.0.1:1", "'ucx://127.0.0.1:1' is no address"),
        ("locl", "'locl' is no address"),
        ("tls://127.0.0.1:1", "'tls://127.0.0.1:1' needs certificates, which are not named"),
        ("tcp://127.0.0.1:1", "--dask tcp://127.0.0.1:1: no scheduler of Dask answers"),
    ],
)
def test_an_address_that_leads_nowhere_is_said(command, file, where, told):
    done = command("sweep", file, "--dask", where)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
