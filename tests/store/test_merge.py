"""Goal: a merged store holds all that its parts held, once, and nothing of a part that is refused.

Method: made-up runs, experiments, heats and repetitions in real files; then the real command.
"""

import dataclasses
import json

import pytest
from schedlab.errors import DigestMismatch, StoreError
from schedlab.store.heats import Heats, StoredHeat
from schedlab.store.measurements import Campaign, Measurements, Repetition
from schedlab.store.merge import merge
from schedlab.store.rows import Taken
from schedlab.store.runs import Store, StoredExperiment

EXPERIMENT = StoredExperiment("e1", "one", {"policies": []}, "schedlab compare", "2026-01-01")
CAMPAIGN = Campaign("c1", "quick", {}, "", 1, {"machine": "m"}, "schedlab bench", "1", "2026-01-01")
REPETITION = Repetition(
    "d1", "make", "kernel", "1", False, "ok", 1.5, "s", False, "2026-01-02", {"boot_id": "b"}
)


@pytest.fixture
def stores(tmp_path):
    """Two stores, open: the one that takes, and another."""
    with Store(tmp_path / "here.db") as here, Store(tmp_path / "there.db") as there:
        yield here, there


def test_runs_and_experiments_come_once(stores, make_record):
    here, there = stores
    alone, both = make_record(seed=1, experiment="e1"), make_record(seed=2, experiment="e1")
    here.add(dataclasses.replace(both, manifest=both.manifest | {"experiment": None}))
    there.add_experiment(EXPERIMENT)
    there.add(both, alone)

    assert merge(here, there.path, print) == {"runs": Taken(2, 1), "experiments": Taken(1, 1)}
    assert merge(here, there.path, print) == {"runs": Taken(2, 0), "experiments": Taken(1, 0)}

    assert here.runs("e1") == [both, alone]
    assert len(here.runs()) == 2
    assert here.experiments() == [EXPERIMENT]
    assert len(there.runs()) == 2


def test_a_simulation_that_found_something_else_refuses_the_whole_store(stores, make_record):
    here, there = stores
    here.add(make_record(seed=1, digest="aaaa"))
    there.add_experiment(EXPERIMENT)
    there.add(make_record(seed=2, digest="cccc"), make_record(seed=1, digest="bbbb"))

    with pytest.raises(DigestMismatch, match=r"seed 1, gave another result in .*there\.db"):
        merge(here, there.path, print)

    assert [run.seed for run in here.runs()] == [1]
    assert here.experiments() == []
    here.add(make_record(seed=3))


def test_a_damaged_run_that_contradicts_is_left_out_and_the_rest_taken(stores, make_record):
    here, there = stores
    here.add(make_record(seed=1, digest="aaaa"))
    there.add(make_record(seed=1, digest="aaaa"), make_record(seed=2, digest="bbbb"))
    with there.transaction() as database:
        database.execute("UPDATE runs SET result_digest = 'cccc' WHERE seed = 1")
    told = []
    assert merge(here, there.path, told.append)["runs"] == Taken(2, 1)
    assert len(told) == 1 and "left out: " in told[0]
    assert [run.seed for run in here.runs()] == [1, 2]


def test_others_write_meanwhile_and_who_is_interrupted_merges_again(
    stores, make_record, monkeypatch
):
    here, there = stores
    monkeypatch.setattr("schedlab.store.merge.TAKEN_TOGETHER", 2)
    there.add_experiment(EXPERIMENT)
    there.add(*(make_record(seed=seed, experiment="e1") for seed in range(5)))
    takes = Store.transaction

    def interrupted(store):
        with Store(here.path) as other:
            other.add(make_record(seed=100 + len(other.runs())))
            if len(other.runs()) > 4:
                raise KeyboardInterrupt
        return takes(store)

    with monkeypatch.context() as patched:
        patched.setattr(here, "transaction", lambda: interrupted(here))
        with pytest.raises(KeyboardInterrupt):
            merge(here, there.path, print)
    assert [run.seed for run in here.runs() if run.seed < 100] == [0, 1]
    assert (here.experiments(), here.runs("e1")) == ([], [])

    assert merge(here, there.path, print)["runs"] == Taken(5, 3)
    assert here.runs("e1") == there.runs("e1")


def test_a_measurement_that_is_here_stays_and_a_run_that_died_gives_way(stores, make_record):
    here, there = stores
    here.add_experiment(EXPERIMENT)
    died = make_record(seed=2, digest="", experiment="e1")
    here.add(make_record(seed=1, digest="aaaa", backend="vm"), died)
    there.add(make_record(seed=1, digest="bbbb", backend="vm"), make_record(seed=2, digest="dddd"))

    merge(here, there.path, print)

    assert {(run.seed, run.digest) for run in here.runs()} == {(1, "aaaa"), (2, "dddd")}
    assert [run.digest for run in here.runs("e1")] == ["dddd"]


def test_of_two_heats_the_later_one_is_kept(stores):
    here, there = stores
    for store, key, when in (
        (here, "a", "2026-01-01"),
        (there, "a", "2026-01-02"),
        (here, "b", "2026-01-02"),
        (there, "b", "2026-01-01"),
        (there, "c", "2026-01-01"),
    ):
        Heats(store).add(key, StoredHeat(when, None, {"spec": {}, "rows": []}))

    assert merge(here, there.path, print)["heats"] == Taken(3, 2)
    kept = {key: Heats(here).find(key).raced_at for key in "abc"}
    assert kept == {"a": "2026-01-02", "b": "2026-01-02", "c": "2026-01-01"}


def test_repetitions_keep_their_surroundings(stores):
    here, there = stores
    mine, theirs = Measurements(here), Measurements(there)
    mine.begin(dataclasses.replace(CAMPAIGN, id="c0"))
    mine.add("c0", mine.surround("c0", "2026-01-01", {"boot_id": "a"}, []), REPETITION)
    theirs.begin(CAMPAIGN)
    first = theirs.surround("c1", "2026-01-01", {"boot_id": "b"}, [])
    second = theirs.surround("c1", "2026-01-02", {"boot_id": "b"}, [])
    other = dataclasses.replace(REPETITION, slot="2")
    theirs.add("c1", first, REPETITION)
    theirs.add("c1", second, other)

    for new in (2, 0):
        taken = merge(here, there.path, print)
        assert taken["repetitions"] == Taken(2, new)

    assert mine.repetitions("c1") == [REPETITION, other]
    assert [one.facts["boot_id"] for one in mine.surroundings("c1")] == ["b", "b"]
    with here.transaction() as database:
        found = database.execute(
            "SELECT slot, captured_at FROM repetitions"
            " JOIN surroundings ON surroundings.id = surroundings"
            " WHERE repetitions.campaign = 'c1' ORDER BY slot"
        ).fetchall()
    assert [tuple(row) for row in found] == [("1", "2026-01-01"), ("2", "2026-01-02")]


def test_what_is_no_store_is_refused(stores, tmp_path):
    (tmp_path / "text.db").write_text("this is no database, and longer than a header of SQLite" * 9)
    for other in ("text.db", "missing.db"):
        with pytest.raises(StoreError, match=other):
            merge(stores[0], tmp_path / other, print)


def test_the_command_makes_the_store_and_tells_what_was_new(command, tmp_path, make_record):
    for name, seed in (("a.db", 1), ("b.db", 2)):
        with Store(tmp_path / name) as store:
            store.add(make_record(seed=seed))

    done = command("merge", "all.db", "a.db", "b.db")

    assert done.returncode == 0, done.stderr
    assert "a.db: 1 of 1 runs new in all.db" in done.stderr
    told = json.loads(command("merge", "all.db", "b.db", "--json").stdout)
    assert told["b.db"]["runs"] == {"rows": 1, "new": 0}
    with Store(tmp_path / "all.db", read_only=True) as store:
        assert sorted(run.seed for run in store.runs()) == [1, 2]
    itself = command("merge", "all.db", "all.db")
    assert (itself.returncode, "into itself" in itself.stderr) == (2, True)
