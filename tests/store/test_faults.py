"""Goal: what is read from a store is what was kept there, or an error that names the run; and a
store can be read wherever its file can.

Method: real files, changed by SQLite behind the store's back; a directory in which an unprivileged
user may write nothing; then the real command.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from schedlab.errors import DamagedRow, StoreError
from schedlab.store import runs
from schedlab.store.heats import Heats, StoredHeat
from schedlab.store.measurements import Campaign, Measurements, Repetition
from schedlab.store.merge import merge
from schedlab.store.parts import ORIGINS, RECIPES, RUNS, SEALED_COLUMNS, WHOLE, pack, unpack
from schedlab.store.rows import Taken
from schedlab.store.runs import Store, StoredExperiment

NOBODY = 65534
JSON_COLUMNS = ("tunables", "parameters", "platform", "result")
EXPERIMENT = StoredExperiment("e1", "one", {"policies": []}, "schedlab compare", "2026-01-01")


@pytest.fixture
def path(tmp_path, make_record):
    """A store with two runs of an experiment, of seeds 1 and 2."""
    path = tmp_path / "runs.db"
    with Store(path) as store:
        store.add_experiment(EXPERIMENT)
        store.add(make_record(seed=1, experiment="e1"), make_record(seed=2, experiment="e1"))
    return path


def change(path, statement, *values):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(statement, values)


def change_result(path, seed, text=None):
    """Gives a run another makespan, or another text as its result."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        packed = database.execute("SELECT result FROM runs WHERE seed = ?", (seed,)).fetchone()[0]
        text = unpack(packed).replace("7", "6") if text is None else text
        database.execute("UPDATE runs SET result = ? WHERE seed = ?", (pack(text), seed))


# ---- what was changed by hand -------------------------------------------------------------------


@pytest.mark.parametrize("column", SEALED_COLUMNS)
def test_whatever_is_changed_in_a_run_is_noticed(path, column):
    [table] = [part for part in (RECIPES, ORIGINS, RUNS) if column in part.columns]
    if column == "result":
        change_result(path, seed=2)
    else:
        # Both runs have the same recipe and origin.
        change(path, f"UPDATE {table.name} SET {column} = 7 WHERE id = (SELECT max(id) FROM"
               f" {table.name})")  # fmt: skip
    with Store(path, read_only=True) as store, pytest.raises(DamagedRow) as raised:
        store.runs()
    for part in (str(path), f"run {2 if table is RUNS else 1}", "seal does not match"):
        assert part in str(raised.value)
    assert f"schedlab merge NEW.db {path}" in raised.value.hint


def test_a_changed_number_under_its_old_digest_is_an_error_that_names_the_run(
    path, command, make_record
):
    change_result(path, seed=2)
    with Store(path) as store:
        assert store.find(make_record(seed=1).key) is not None
        with pytest.raises(DamagedRow, match="seed 2"):
            store.find(make_record(seed=2).key)
    done = command("export", path, "-o", path.with_suffix(".csv"))
    assert done.returncode == 2
    assert "run 2 (fifo with hackbench on osdl-1, seed 2) is not what was kept" in done.stderr
    assert "Traceback" not in done.stderr
    assert not path.with_suffix(".csv").exists()


def test_a_merged_store_has_the_runs_that_are_sound(path, command):
    change_result(path, seed=2)
    new = path.with_name("new.db")
    done = command("merge", new, path)
    assert done.returncode == 0
    assert done.stderr.startswith(f"note: left out: store {path}: run 2 ")
    with Store(new) as store:
        assert [run.seed for run in store.runs()] == [1]
        assert [run.seed for run in store.runs("e1")] == [1]


@pytest.mark.parametrize("column", JSON_COLUMNS)
@pytest.mark.parametrize("text", ["{", "[1]", "7", ""])
def test_damaged_json_without_a_seal_is_noticed_too(path, column, text):
    change(path, "UPDATE runs SET seal = ''")
    if column == "result":
        change_result(path, 2, text)
    else:
        table = "recipes" if column in RECIPES.columns else "origins"
        change(path, f"UPDATE {table} SET {column} = ?", text)
    with Store(path) as store, pytest.raises(DamagedRow, match=rf"run [12] .* its {column} "):
        store.runs()


@pytest.mark.parametrize(
    "damage", ["x'00'", "substr(result, 1, 20)", "result || x'00'", "zeroblob(9)"]
)
def test_a_result_that_cannot_be_unpacked_names_its_run(path, damage):
    change(path, f"UPDATE runs SET result = CAST({damage} AS BLOB) WHERE seed = 2")
    with Store(path) as store, pytest.raises(DamagedRow, match=r"run 2 .* its result"):
        store.runs()


@pytest.mark.parametrize("table", ["recipes", "origins"])
def test_a_run_whose_recipe_or_origin_is_gone_is_told(path, table):
    change(path, f"DELETE FROM {table}")
    with Store(path) as store, pytest.raises(DamagedRow, match=r"run 1 .* seal does not match"):
        store.runs("e1")


def test_a_completed_run_without_its_makespan_is_noticed_without_a_seal(path):
    change(path, "UPDATE runs SET seal = ''")
    change_result(path, 2, "{}")
    with Store(path) as store, pytest.raises(DamagedRow, match=r"run 2 .* no makespan_ns"):
        store.runs()


def test_a_damaged_place_names_its_run(path):
    change(path, "UPDATE experiment_runs SET varied = '{' WHERE run = 2")
    with Store(path) as store, pytest.raises(DamagedRow, match=r"run 2 .* its varied is no JSON"):
        store.runs("e1")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"policies": []}'])
def test_a_damaged_question_is_told_and_the_others_can_be_asked(command, tmp_path, text):
    words = ("fifo", "--workload", "ping_pong", "--with", "rounds=10", "--repeat", "1", "-q")
    for machine in ("osdl-1", "osdl-2"):
        assert command("compare", *words, "--machine", machine).returncode == 0
    path = tmp_path / "schedlab.db"
    change(path, "UPDATE experiments SET definition = ? WHERE rowid = 2", text)
    with Store(path) as store:
        first, second = store.experiments()
    done = command("report", path, "-o", "out.html", "--experiment", second.id)
    assert done.returncode == 2
    assert f"experiment {second.id} is not what was kept" in done.stderr
    assert "ask it again" in done.stderr.partition("hint:")[2]
    assert "Traceback" not in done.stderr
    done = command("export", path, "-o", "out.csv", "--experiment", first.id)
    assert done.returncode == 0, done.stderr


def test_damaged_measurements_and_heats_name_their_row(path):
    with Store(path) as store:
        kept = Measurements(store)
        kept.begin(Campaign("c1", "quick", {}, "", 1, {}, "schedlab bench", "1", "2026-01-01"))
        kept.surround("c1", "2026-01-01", {}, [])
        heats = Heats(store)
        heats.add("k1", StoredHeat("2026-01-01", None, {}))
    change(path, "UPDATE campaigns SET condition = '{'")
    change(path, "UPDATE surroundings SET facts = '[]'")
    change(path, "UPDATE heats SET result = 'x'")
    with Store(path) as store:
        kept, heats = Measurements(store), Heats(store)
        with pytest.raises(DamagedRow, match=r"campaigns c1 .* its condition") as raised:
            kept.campaigns()
        assert f"sqlite3 {path} \"DELETE FROM campaigns WHERE id = 'c1'\"" in raised.value.hint
        with pytest.raises(DamagedRow, match=r"surroundings 1 .* its facts"):
            kept.surroundings("c1")
        with pytest.raises(DamagedRow, match=r"heat k1 .* its result"):
            heats.find("k1")
        change(path, "UPDATE heats SET result = '{}'")
        with pytest.raises(DamagedRow, match=r"heat k1 .* has no rows"):
            heats.find("k1")
        assert len(store.runs()) == 2


@pytest.mark.parametrize("slot", ["x", "", "1.5", "-1", "٣", "9" * 5000])
def test_a_repetition_in_a_damaged_slot_is_named(path, slot):
    with Store(path) as store:
        kept = Measurements(store)
        kept.begin(Campaign("c1", "quick", {}, "", 1, {}, "schedlab bench", "1", "2026-01-01"))
        number = kept.surround("c1", "2026-01-01", {}, [])
        made = ("d", "loop", "eevdf", "1", False, "ok", 1.5, "s", False, "2026-01-01", {})
        kept.add("c1", number, Repetition(*made))
        assert [repetition.slot for repetition in kept.repetitions("c1")] == ["1"]
    change(path, "UPDATE repetitions SET slot = ?", slot)
    with Store(path) as store:
        with pytest.raises(DamagedRow, match=r"repetitions 1 .* its slot .* no number") as raised:
            Measurements(store).repetitions("c1")
        assert f"sqlite3 {path} \"DELETE FROM repetitions WHERE id = '1'\"" in raised.value.hint
        change(path, "UPDATE repetitions SET warm_up = 1")
        assert len(Measurements(store).repetitions("c1")) == 1


def test_a_column_that_is_missing_is_named_and_one_more_is_left_alone(path, tmp_path):
    with Store(path) as store:
        Heats(store).add("k1", StoredHeat("2026-01-01", None, {"spec": {}, "rows": []}))
    change(path, "ALTER TABLE heats ADD COLUMN mine TEXT")
    change(path, "ALTER TABLE experiments ADD COLUMN mine TEXT")
    with Store(path) as store:
        assert [heat.load for heat in Heats(store).all()] == [None]
        store.experiments()
    change(path, "ALTER TABLE heats DROP COLUMN load")
    with Store(path) as store, pytest.raises(DamagedRow, match=r"heat k1 .* no column load"):
        Heats(store).all()
    with Store(tmp_path / "new.db") as new, pytest.raises(StoreError, match="no column load"):
        merge(new, path, print)


@pytest.mark.parametrize(
    ("seal", "why"), [("seal", "its seal does not match"), ("''", "it has no column tunables")]
)
def test_a_run_whose_column_is_missing_is_no_run(path, seal, why):
    change(path, f"UPDATE runs SET seal = {seal}")
    change(path, "ALTER TABLE recipes RENAME COLUMN tunables TO mine")
    with Store(path) as store, pytest.raises(DamagedRow, match=why):
        [experiment] = store.experiments()
        store.runs(experiment.id)


# ---- older formats ------------------------------------------------------------------------------


OLD_TABLE = """CREATE TABLE runs (id INTEGER PRIMARY KEY, policy_name TEXT NOT NULL,
policy_source TEXT NOT NULL, policy_source_digest TEXT NOT NULL, tunables TEXT NOT NULL,
machine TEXT NOT NULL, machine_digest TEXT NOT NULL, workload TEXT NOT NULL,
workload_digest TEXT NOT NULL, parameters TEXT NOT NULL, seed INTEGER NOT NULL,
until_ns INTEGER NOT NULL, backend TEXT NOT NULL, version TEXT NOT NULL, started_at TEXT NOT NULL,
wall_ns INTEGER NOT NULL, platform TEXT NOT NULL DEFAULT 'null', replay TEXT NOT NULL,
status TEXT NOT NULL, result TEXT NOT NULL, result_digest TEXT NOT NULL,
seal TEXT NOT NULL DEFAULT '', UNIQUE (policy_source_digest, tunables, machine_digest,
workload_digest, seed, until_ns, backend, version)) STRICT"""


def make_older(path, version):
    """Makes of a store of today one of an older format, with other numbers of the runs."""
    with Store(path) as store:
        rows = list(map(dict, store.kept()))
    for table in ("runs", "recipes", "origins"):
        change(path, f"DROP TABLE {table}")
    change(path, OLD_TABLE)
    for row in rows:
        row |= {"result": unpack(row["result"]), "id": 10 * row["id"]}
        names = ["id", *WHOLE.columns]
        change(path, f"INSERT INTO runs ({', '.join(names)}) VALUES"
               f" ({', '.join('?' for _ in names)})", *(row[name] for name in names))  # fmt: skip
    change(path, "UPDATE experiment_runs SET run = 10 * run")
    if version < 3:
        change(path, "ALTER TABLE runs DROP COLUMN seal")
    if version < 2:
        change(path, "ALTER TABLE runs DROP COLUMN platform")
    change(path, f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_store_is_read_as_it_is_and_brought_up_to_date_when_written(
    path, make_record, version
):
    with Store(path) as store:
        before = store.runs("e1")
    make_older(path, version)
    with Store(path, read_only=True) as store:
        assert store.runs("e1") == before
        assert store.find(before[1].key).result == before[1].result
    with Store(path) as store:
        assert store.runs("e1") == before
        store.add(make_record(seed=3, experiment="e1"), *before)
        assert store.runs("e1") == [make_record(seed=3, experiment="e1"), *before]
        assert [bool(row["seal"]) for row in store.rows("SELECT seal FROM runs")] == [
            version == 3, version == 3, True,
        ]  # fmt: skip
        [foreign] = store.rows("PRAGMA foreign_key_list(experiment_runs)")[:1]
        assert foreign["table"] in ("runs", "experiments")
        assert store.rows("PRAGMA foreign_key_check") == []
    assert before[0].measured_on is None
    change_result(path, seed=3)
    with Store(path) as store, pytest.raises(DamagedRow, match="seed 3"):
        store.runs()


def test_that_many_runs_are_brought_up_to_date_is_told_once(path, monkeypatch, capsys):
    make_older(path, 3)
    monkeypatch.setattr(runs, "TOLD_FROM", 2)
    for said in (f"note: 2 runs of {path} are brought to format 4", ""):
        Store(path).close()
        told = capsys.readouterr().err
        assert told.startswith(said) and bool(told) == bool(said)


def test_what_is_damaged_in_an_older_store_is_told_as_before_and_the_rest_is_there(path):
    make_older(path, 3)
    change(path, "UPDATE runs SET result = replace(result, '7', '6') WHERE seed = 2")
    for _ in range(2):
        with Store(path) as store:
            told = [str(store.damage_of(row) or "") for row in store.kept()]
            assert ["run 20 " in one for one in told] == [False, True]
            assert not told[0]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_older_store_is_merged(path, tmp_path, version):
    make_older(path, version)
    with Store(tmp_path / "new.db") as store:
        assert merge(store, path, print)["runs"] == Taken(2, 2)
        assert len(store.runs("e1")) == 2
        assert merge(store, path, print)["runs"] == Taken(2, 0)


# ---- where nothing can be written ---------------------------------------------------------------


@pytest.fixture
def kept_from_writing(path):
    """The store in a directory where this process may write nothing, whoever runs the tests."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        for file in path.parent.glob("runs.db*"):
            shutil.copyfile(file, place / file.name)
            (place / file.name).chmod(0o444)
        place.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(NOBODY)
        try:
            yield place / "runs.db"
        finally:
            if is_root:
                os.seteuid(0)
            place.chmod(0o755)


def test_a_store_is_read_where_nothing_can_be_written(kept_from_writing):
    with pytest.raises(OSError):
        kept_from_writing.with_name("new").touch()
    with Store(kept_from_writing, read_only=True) as store:
        assert [run.seed for run in store.runs("e1")] == [1, 2]
    assert [file.name for file in kept_from_writing.parent.iterdir()] == ["runs.db"]


def test_a_store_is_merged_from_where_nothing_can_be_written(kept_from_writing):
    with tempfile.TemporaryDirectory() as made, Store(Path(made) / "new.db") as store:
        assert merge(store, kept_from_writing, print)["runs"] == Taken(2, 2)


def test_writing_there_is_still_a_clear_error(kept_from_writing, make_record):
    with pytest.raises(StoreError, match="cannot be written"), Store(kept_from_writing) as store:
        store.add(make_record(seed=3))


@pytest.fixture
def path_left_by_a_kill(path, make_record):
    """The same, but seed 3 is in the `-wal` file alone, as after a kill."""
    with Store(path) as store:
        store.add(make_record(seed=3, experiment="e1"))
        for file in list(path.parent.glob("runs.db*")):
            shutil.copyfile(file, file.with_name(f"copy-{file.name}"))
    for file in path.parent.glob("copy-*"):
        file.rename(file.with_name(file.name.removeprefix("copy-")))
    path.with_name("runs.db-shm").unlink()


@pytest.mark.usefixtures("path_left_by_a_kill")
def test_what_a_kill_left_beside_the_file_is_read_too(request):
    kept_from_writing = request.getfixturevalue("kept_from_writing")
    assert kept_from_writing.with_name("runs.db-wal").stat().st_size
    with Store(kept_from_writing, read_only=True) as store:
        assert [run.seed for run in store.runs("e1")] == [1, 2, 3]
