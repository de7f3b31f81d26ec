"""Goal: a run kept in parts is the run that was kept, and what many runs share is kept once.

Method: made-up results and replays there and back; numbers of rows in a real file.
"""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedlab.store import parts
from schedlab.store.runs import RunKey, Store

DIGEST = "ece64621001e7ad911c47e7d4ac5a1103336fe0b8a03c4a53ab086374e94f1f9"


@given(st.text())
def test_a_result_is_unpacked_as_it_was(text):
    assert parts.unpack(parts.pack(text)) == text
    assert parts.unpack(text) == text


def test_what_results_are_packed_by_is_that_of_the_format():
    """With any other bytes no store of format 4 could be read."""
    assert hashlib.sha256(parts.DICTIONARY).hexdigest() == DIGEST


def test_all_that_decides_a_result_tells_runs_apart():
    assert sorted([*parts.DECIDES, "seed"]) == sorted(RunKey._fields)


@pytest.mark.parametrize(
    "replay",
    [
        "schedlab run fifo --seed {seed}", "schedlab run fifo --seed {seed} --with a=1", "",
        "schedlab run '--seed {seed} --seed {seed}' --seed {seed}", "--seed {seed}0", "--seed ",
        "schedlab run fifo",
    ],
)  # fmt: skip
def test_a_replay_comes_back_as_it_was(tmp_path, make_record, replay):
    records = [make_record(seed=seed, replay=replay.format(seed=seed)) for seed in (1, 17, 2**60)]
    with Store(tmp_path / "runs.db") as store:
        store.add(*records)
        assert [run.manifest["replay"] for run in store.runs()] == [
            record.manifest["replay"] for record in records
        ]


def test_runs_that_differ_by_their_seed_share_all_but_what_came_of_them(tmp_path, make_record):
    def made(seed, **changes):
        return make_record(seed=seed, replay=f"schedlab run fifo --seed {seed}", **changes)

    with Store(tmp_path / "runs.db") as store:
        store.add(*map(made, range(20)))
        store.add(
            made(20, policy_source="/elsewhere/fifo.bpf.c"), made(1, tunables={"slice_ns": 4})
        )
        numbers = {
            table: store.rows(f"SELECT count(*) FROM {table}")[0][0]
            for table in ("runs", "recipes", "origins")
        }
    assert numbers == {"runs": 22, "recipes": 2, "origins": 2}
