"""Goal: of processes that share a store, one at a time has a lock, and a dead one has none.

Method: a second process with its own locks, told by lines what to do, and killed.
"""

import subprocess
import sys

import pytest
from schedlab.store.locks import Locks

OTHER = """
import sys
from pathlib import Path
from schedlab.store.locks import Locks
from schedlab.store.runs import RunKey
locks = Locks(Path(sys.argv[1]))
for line in sys.stdin:
    verb, seed = line.split()
    key = RunKey("p", "{}", "m", "w", int(seed), 0, "sim", "1.0")
    print(getattr(locks, verb)(key), flush=True)
"""


# With a seed and what `make_record` makes up, the key that OTHER builds.
KEY = {
    "policy_source_digest": "p",
    "tunables": {},
    "machine_digest": "m",
    "workload_digest": "w",
}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def other(store):
    """Asks another process to do something with its locks."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, store],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(verb, seed):
        print(verb, seed, file=process.stdin, flush=True)
        return process.stdout.readline().strip()

    ask.process = process
    yield ask
    process.kill()
    process.communicate()


def test_a_lock_keeps_others_away_until_it_is_released(store, other, make_record):
    with Locks(store) as locks:
        assert other("take", 1) == "True"
        assert not locks.take(make_record(**KEY, seed=1).key)
        assert locks.take(make_record(**KEY, seed=2).key)
        assert locks.take(make_record(**KEY, seed=2).key)
        assert other("take", 2) == "False"
        other("release", 1)
        assert locks.take(make_record(**KEY, seed=1).key)


def test_a_lock_ends_with_its_process(store, other, make_record):
    key = make_record(**KEY, seed=1).key
    with Locks(store) as locks:
        assert other("take", 1) == "True"
        assert not locks.take(key)
        other.process.kill()
        other.process.wait()
        assert locks.take(key)


def test_locks_hold_though_others_come_and_go(store, other, make_record):
    assert other("release", 1) == "None"
    Locks(store).close()
    assert other("take", 1) == "True"
    with Locks(store) as locks:
        assert not locks.take(make_record(**KEY, seed=1).key)


def test_locks_are_for_the_users_of_the_store(store):
    store.touch()
    store.chmod(0o646)
    with Locks(store) as locks:
        assert locks.path.stat().st_mode & 0o777 == 0o646


def test_where_there_can_be_no_locks_every_run_may_start(store, make_record):
    (store.parent / f".{store.name}-claims").mkdir()
    with Locks(store) as locks:
        assert locks.take(make_record(**KEY, seed=1).key)
