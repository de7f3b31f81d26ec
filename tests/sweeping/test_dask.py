"""Goal: whoever simulates, and whatever is killed meanwhile, the store comes out the same.

Method: the real command with Dask's own scheduler and workers, which are killed at moments that the
store tells. Locks of this process keep a sweep from its end until then.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys

import pytest
from kept_rows import nr_kept, rows
from running import assert_it_goes, begin, dask_process, descendants, wait_for
from schedlab.errors import SchedlabError
from schedlab.experiment import definition
from schedlab.experiment.cells import Grid
from schedlab.store.locks import Locks
from schedlab.sweeping.elsewhere import Elsewhere

pytestmark = pytest.mark.xdist_group("dask")
TOML = """\
policies = ["fifo", "round_robin"]
workload = "hackbench"
machine = "osdl-4"
repeat = 2
with = { loops = 16 }
[sample]
points = 400
[sample.ranges]
groups = { low = 1, high = 4 }
cpus = { values = [1, 2, 4] }
"round_robin.slice_ns" = { low = "1ms", high = "9ms", step = "1us" }
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "asked.toml").write_text(TOML)
    return tmp_path / "asked.toml"


@pytest.fixture
def start(environment, tmp_path):
    """Starts Dask's processes, and ends those that are left."""
    started = []

    def one(what, *words, **variables):
        started.append(dask_process(environment | variables, tmp_path, what, *words))
        return started[-1]

    yield one
    for process in started:
        for pid in [process.pid, *descendants(process.pid)]:
            kill(pid)
        process.wait()


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def unlock(tmp_path, file):
    """Three fourths of the runs are locked, so that no sweep comes to its end; each call lets go of
    one of them."""
    asked = definition.build(definition.read_options(file))
    keys = list(dict.fromkeys(cell.key for cell in Grid(asked)))
    fourths = [keys[at::4] for at in (1, 2, 3)]
    with Locks(tmp_path / "swept.db") as locks:
        assert all(locks.take(key) for fourth in fourths for key in fourth)

        def one():
            for key in fourths.pop():
                locks.release(key)

        yield one


def test_killed_workers_schedulers_and_askers_lose_nothing(
    environment, tmp_path, file, start, command, unlock
):
    store, where = tmp_path / "swept.db", tmp_path / "scheduler.json"
    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0")
    wait_for(where.exists, "the scheduler")
    workers = [start("worker", "--nthreads", "1") for _ in range(2)]
    words = ["sweep", file, "--store", store, "--dask", str(where)]

    def keeps_more(asker, nr_before):
        wait_for(lambda: nr_kept(store) > nr_before or asker.poll() is not None, "a run")
        assert asker.poll() is None, asker.stderr.read()

    asker = begin(environment, tmp_path, *words)
    keeps_more(asker, 4)
    nr_before = nr_kept(store)
    for pid in descendants(workers[0].pid):
        kill(pid)
    unlock()
    keeps_more(asker, nr_before)
    asker.kill()
    asker.communicate()
    nr_before = nr_kept(store)
    unlock()
    asker = begin(environment, tmp_path, *words)
    keeps_more(asker, nr_before)
    scheduler.kill()
    unlock()
    told = asker.communicate()[1]
    assert asker.returncode == 2, told
    assert "is gone" in told
    assert "Traceback" not in told
    where.unlink()
    for worker in workers:
        worker.kill()
    start("scheduler", "--host", "127.0.0.1", "--port", "0")
    wait_for(where.exists, "the scheduler")
    start("worker", "--nthreads", "2")
    asker = begin(environment, tmp_path, *words)
    told = asker.communicate()[1]
    assert asker.returncode == 0, told
    alone = command("sweep", file, "--store", "alone.db", "--jobs", 1)
    assert alone.returncode == 0, alone.stderr
    assert rows(store) == rows(tmp_path / "alone.db")


def test_a_worker_without_schedlab_is_refused_and_a_scheduler_needs_none(
    environment, tmp_path, file, start
):
    lacking = tmp_path / "lacking" / "schedlab"
    lacking.mkdir(parents=True)
    (lacking / "__init__.py").write_text("raise ModuleNotFoundError('there is no schedlab')\n")
    file.write_text(TOML.replace("400", "4"))
    where, without = tmp_path / "scheduler.json", {"PYTHONPATH": str(lacking.parent)}
    start("scheduler", "--host", "127.0.0.1", "--port", "0", **without)
    wait_for(where.exists, "the scheduler")
    start("worker", "--nthreads", "1", "--name", "a", **without)
    asker = begin(environment, tmp_path, "sweep", file, "--dask", str(where))
    told = ""
    while "is not used" not in told:
        line = asker.stderr.readline()
        assert line, told
        told += line
    assert "there is no schedlab): install this schedlab there" in told
    start("worker", "--nthreads", "1")
    told += asker.communicate()[1]
    assert asker.returncode == 0, told
    assert "dashboard" not in told


def test_a_killed_asker_leaves_no_worker_of_its_own(environment, tmp_path, file):
    store = tmp_path / "swept.db"
    asker = begin(environment, tmp_path, "sweep", file, "--store", store, "--dask", "local:2")
    wait_for(lambda: nr_kept(store) > 10, "a run")
    left = descendants(asker.pid)
    assert len(left) >= 4, "two workers, each with a child that simulates"
    asker.kill()
    told = asker.communicate()[1]
    for pid in left:
        assert_it_goes(pid, "a worker")
    assert "semaphore" not in told


def test_ctrl_c_keeps_what_there_is_and_tells_how_to_go_on(environment, tmp_path, file):
    store = tmp_path / "swept.db"
    asker = begin(environment, tmp_path, "sweep", file, "--store", store, "--dask", "local:2")
    wait_for(lambda: nr_kept(store) > 10, "a run")
    left = descendants(asker.pid)
    os.killpg(asker.pid, signal.SIGINT)
    told = asker.communicate()[1]
    assert asker.returncode == 130, told
    assert f"of 1,600 runs are kept in {store}; the same command goes on from there" in told
    assert "Traceback" not in told
    for pid in left:
        assert_it_goes(pid, "a worker")


def test_a_port_that_another_has_is_no_matter(tmp_path, file, command):
    file.write_text(TOML.replace("400", "4"))
    with socket.socket() as taken:
        # If it cannot be taken, another has it.
        with contextlib.suppress(OSError):
            taken.bind(("", 8787))
            taken.listen()
        done = command("sweep", file, "--dask", "local:1", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")


def test_workers_that_do_not_start_are_told(tmp_path, file, environment):
    words = [sys.executable, "-m", "schedlab", "sweep", str(file), "--dask", "local:4"]
    few = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40));"
    words = [sys.executable, "-c", f"{few} os.execv(sys.argv[1], sys.argv[1:])", *words]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "--dask local:4: workers of Dask do not start here: " in done.stderr
    assert "hint: ask for fewer, or allow more open files" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_dask_a_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SchedlabError, match="--dask needs the package distributed") as told:
        Elsewhere("tcp://127.0.0.1:1", lambda: None, print)
    assert told.value.hint == "pip install 'schedlab[dask]'"
