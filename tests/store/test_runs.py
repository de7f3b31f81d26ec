"""Goal: a store loses nothing, keeps nothing twice, and notices a result that does not repeat.

Method: made-up runs through a real file; failures of the file are provoked in SQLite itself.
"""

import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest
from schedlab.errors import DigestMismatch, StoreError
from schedlab.store import parts, runs
from schedlab.store.heats import Heats
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store, StoredExperiment

# Of format 4: each table's columns, what tells its rows apart, and the tables that it refers to.
FORMAT_4 = {
    "campaigns": (
        "asked_at command condition definition id label series:INTEGER suite version",
        ["id"],
        [],
    ),
    "experiment_runs": (
        "experiment machine policy run:INTEGER seed:INTEGER varied",
        ["experiment", "policy", "machine", "varied", "seed"],
        ["experiments", "runs"],
    ),
    "experiments": ("asked_at command definition id name", ["id"], []),
    "heats": ("key load:REAL? raced_at result", ["key"], []),
    "repetitions": (
        "campaign case_digest case_name id:INTEGER? manifest noisy:INTEGER policy slot started_at"
        " status surroundings:INTEGER unit value:REAL? warm_up:INTEGER",
        ["campaign", "case_digest", "policy", "slot"],
        ["campaigns", "surroundings"],
    ),
    "origins": (
        "id:INTEGER? machine parameters platform policy_name policy_source replay replay_rest?"
        " workload",
        [
            *("policy_name", "policy_source", "machine", "workload", "parameters", "platform"),
            *("replay", "replay_rest"),
        ],
        [],
    ),
    "recipes": (
        "backend id:INTEGER? machine_digest policy_source_digest tunables until_ns:INTEGER version"
        " workload_digest",
        [
            *("policy_source_digest", "tunables", "machine_digest", "workload_digest", "until_ns"),
            *("backend", "version"),
        ],
        [],
    ),
    "runs": (
        "id:INTEGER? origin:INTEGER recipe:INTEGER result:BLOB result_digest seal seed:INTEGER"
        " started_at status wall_ns:INTEGER",
        ["recipe", "seed"],
        ["origins", "recipes"],
    ),
    "surroundings": ("campaign captured_at facts id:INTEGER? warnings", [], ["campaigns"]),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


def experiment(id="e1", name="one", asked_at="2026-01-01"):
    return StoredExperiment(id, name, {"policies": []}, "schedlab compare", asked_at)


def test_a_run_comes_back_as_it_was_added(path, make_record):
    record = make_record(experiment="e1")
    with Store(path) as store:
        store.add_experiment(experiment())
        store.add(record)
    with Store(path, read_only=True) as store:
        assert store.runs("e1") == [record]
        assert store.runs() == [record]
        assert store.experiments() == [experiment()]


def test_a_new_store_has_the_tables_of_its_format(path):
    with Store(path) as store:
        Measurements(store)
        Heats(store)
    with sqlite3.connect(path) as database:
        tables = [row for row in database.execute("PRAGMA table_list") if row[2] == "table"]
        made = {}
        for _, table, _, _, _, is_strict in tables:
            if table.startswith("sqlite_"):
                continue
            assert is_strict
            columns = [
                name
                + ("" if kind == "TEXT" else f":{kind}")
                + ("" if is_needed else "?")
                + ("" if default is None else f"={default}")
                for _, name, kind, is_needed, default, _ in sorted(
                    database.execute(f"PRAGMA table_info({table})"), key=lambda column: column[1]
                )
            ]
            [index] = [*database.execute(f"PRAGMA index_list({table})"), None][:1]
            unique = database.execute(f"PRAGMA index_info({index[1]})") if index else ()
            refers = database.execute(f"PRAGMA foreign_key_list({table})")
            made[table] = (
                " ".join(columns), [row[2] for row in unique], sorted(row[2] for row in refers)
            )  # fmt: skip
    assert made == FORMAT_4


def test_find_gives_the_run_with_that_key_only(path, make_record):
    record = make_record()
    with Store(path) as store:
        store.add(record)
        assert store.find(record.key).result == record.result
        for field in record.key._fields:
            value = getattr(record.key, field)
            other = value + 1 if isinstance(value, int) else value + "x"
            assert store.find(record.key._replace(**{field: other})) is None, field


def test_the_order_of_tunables_does_not_matter(path, make_record):
    with Store(path) as store:
        store.add(make_record(tunables={"a": 1, "b": 2}))
        assert store.find(make_record(tunables={"b": 2, "a": 1}).key) is not None


def test_adding_a_run_again_keeps_one(path, make_record):
    with Store(path) as store:
        store.add(make_record())
        store.add(make_record())
        assert len(store.runs()) == 1


def test_another_digest_for_the_same_run_is_an_error_that_names_it(path, make_record):
    with Store(path) as store:
        store.add(make_record("aaaa"))
        with pytest.raises(DigestMismatch) as raised:
            store.add(make_record("bbbb"))
        for part in ("fifo", "hackbench", "osdl-1", "seed 1", "aaaa", "bbbb", str(path)):
            assert part in str(raised.value)
        assert [record.digest for record in store.runs()] == ["aaaa"]


def test_of_runs_added_together_all_or_none_are_kept(path, make_record):
    with Store(path) as store:
        store.add(make_record("aaaa"))
        with pytest.raises(DigestMismatch):
            store.add(make_record("cccc", seed=2), make_record("bbbb"))
        assert [record.seed for record in store.runs()] == [1]


def test_a_run_whose_process_died_is_seen_but_tried_again(path, make_record):
    died = make_record("", status="failed", experiment="e1")
    with Store(path) as store:
        store.add(died)
        assert store.runs("e1") == [died]
        assert store.find(died.key) is None
        store.add(make_record("aaaa", experiment="e1"))
        assert [record.digest for record in store.runs("e1")] == ["aaaa"]
        store.add(died)
        assert [record.digest for record in store.runs()] == ["aaaa"]


def test_experiments_share_a_run_and_each_sees_its_own_label(path, make_record):
    first = make_record(experiment="e1")
    second = make_record(experiment="e2", policy="other label", varied={"loops": 3})
    with Store(path) as store:
        store.add(first)
        store.add(second)
        assert store.runs("e1") == [first]
        assert store.runs("e2") == [second]
        assert store.runs() == [second]
        store.add(first)
        assert store.runs() == [first]


def test_a_run_of_an_edited_policy_takes_the_place_of_the_old_one(path, make_record):
    old = make_record("aaaa", policy_source_digest="old", experiment="e1")
    new = make_record("bbbb", policy_source_digest="new", experiment="e1")
    with Store(path) as store:
        store.add(old)
        store.add(new)
        assert store.runs("e1") == [new]
        assert len(store.runs()) == 2
        store.add(old)
        assert store.runs("e1") == [old]


def test_only_the_places_that_are_kept_stay_and_every_run_does(path, make_record):
    one, two = (
        make_record(digest, seed=seed, experiment="e1") for digest, seed in [("a", 1), ("b", 2)]
    )
    other = make_record("c3", seed=3, experiment="e2")
    with Store(path) as store:
        store.add(one, two, other)
        store.keep_places("e1", [two])
        assert (store.runs("e1"), store.runs("e2")) == ([two], [other])
        assert len(store.runs()) == 3


def test_asking_an_experiment_again_keeps_the_latest_command(path):
    with Store(path) as store:
        store.add_experiment(experiment())
        store.add_experiment(experiment(id="e2", asked_at="2026-01-02"))
        again = dataclasses.replace(experiment(), command="new", asked_at="2026-01-03")
        store.add_experiment(again)
        assert [one.id for one in store.experiments()] == ["e2", "e1"]
        assert store.experiments()[-1].command == "new"


def test_what_was_added_survives_the_death_of_the_process(path):
    program = f"""
import os, signal, sys
from schedlab.store.runs import Store, StoredExperiment
store = Store({str(path)!r})
store.add_experiment(StoredExperiment("e1", "", {{}}, "", ""))
os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run([sys.executable, "-c", program], check=False)
    assert died.returncode == -signal.SIGKILL
    with Store(path) as store:
        assert [one.id for one in store.experiments()] == ["e1"]


def test_a_full_disk_is_a_clear_error_and_leaves_the_store_whole(path, make_record):
    with Store(path) as store:
        store.add(make_record())
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages}")
        large = make_record(seed=2, result={"digest": "aaaa", "error": "x" * 10**6})
        with pytest.raises(StoreError, match=r"runs\.db: the disk is full"):
            store.add(large)
    with Store(path) as store:
        assert [record.seed for record in store.runs()] == [1]


def test_a_store_that_may_only_be_read_says_so_when_written(path, make_record):
    Store(path).close()
    with (
        Store(path, read_only=True) as store,
        pytest.raises(StoreError, match="cannot be written"),
    ):
        store.add(make_record())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_file_without_write_permission_is_a_clear_error(path, make_record):
    Store(path).close()
    path.chmod(0o400)
    with pytest.raises(StoreError), Store(path) as store:
        store.add(make_record())


def test_a_file_that_is_no_database_is_refused_and_left_alone(path):
    path.write_text("not a database\n" * 100)
    with pytest.raises(StoreError, match="is not a schedlab store"):
        Store(path)
    assert path.read_text().startswith("not a database")


def test_the_database_of_another_program_is_refused_and_left_alone(path):
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (x)")
    database.close()
    with pytest.raises(StoreError, match="some other SQLite file"):
        Store(path)
    tables = sqlite3.connect(path).execute("SELECT name FROM sqlite_schema").fetchall()
    assert tables == [("theirs",)]


def test_a_store_of_another_format_is_refused(path):
    Store(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="has format 99"):
        Store(path)


def test_reading_makes_no_file(path):
    with pytest.raises(StoreError, match="does not exist"):
        Store(path, read_only=True)
    assert not path.exists()


@pytest.mark.parametrize("where", ["missing/runs.db", "."])
def test_a_path_that_cannot_be_a_store_is_refused(tmp_path, where):
    with pytest.raises(StoreError, match="directory"):
        Store(tmp_path / where)


def test_a_path_with_signs_that_uris_use_is_taken_as_it_is(tmp_path, make_record):
    path = tmp_path / "a?b#c%20.db"
    with Store(path) as store:
        store.add(make_record())
    assert path.exists()


def test_a_report_can_be_read_while_a_sweep_writes(path, make_record):
    with Store(path) as writer:
        writer.add(make_record())
        with Store(path, read_only=True) as reader:
            writer.add(make_record(seed=2))
            assert len(reader.runs()) == 2


def test_others_may_write_while_runs_are_encoded_and_packed(path, make_record, monkeypatch):
    """That takes longer than writing them, so that a process with many would starve the others."""
    with Store(path) as store, Store(path) as other:
        sealed = parts.sealed

        def others_write_first(row):
            if row["seed"] < 3:
                other.add(make_record(seed=row["seed"] + 100))
            return sealed(row)

        monkeypatch.setattr(parts, "sealed", others_write_first)
        store.add(make_record(seed=1), make_record(seed=2))
        assert sorted(run.seed for run in store.runs()) == [1, 2, 101, 102]


def test_what_is_read_in_a_moment_is_of_that_moment(path, make_record):
    with Store(path) as writer, Store(path, read_only=True) as reader:
        writer.add(make_record(seed=1))
        with reader.moment():
            assert len(reader.runs()) == 1
            writer.add(make_record(seed=2))
            assert len(reader.runs()) == 1
        assert len(reader.runs()) == 2


def test_places_are_read_in_the_order_asked_for_however_many_there_are(
    path, make_record, monkeypatch
):
    monkeypatch.setattr(runs, "READ_TOGETHER", 3)
    with Store(path) as store:
        store.add(*(make_record(seed=seed, experiment="e1") for seed in range(10)))
        backwards = store.each("e1", lambda place: -place["seed"])
        assert [run.seed for run in backwards] == list(reversed(range(10)))
        assert [run.seed for run in store.each("e1")] == list(range(10))


def test_a_new_store_may_be_opened_by_several_at_the_same_moment(tmp_path):
    # Each thread has its own connection, to which SQLite's locks apply as between processes.
    # Without care, three in ten of these openings were refused on a machine of two CPUs.
    errors = []

    def open_store(path, together):
        together.wait()
        try:
            Store(path).close()
        except StoreError as error:
            errors.append(str(error))

    for number in range(100):
        together = threading.Barrier(4)
        arguments = (tmp_path / f"{number}.db", together)
        threads = [threading.Thread(target=open_store, args=arguments) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
