"""Goal: a run that ends its process ends neither the search nor anything else.

Method: made-up cells, whose workers die as often as the name of their policy says.
"""

import os
import signal
from pathlib import Path

import pytest
from schedlab.experiment import cells, sweep
from schedlab.experiment.sweep import Outcome
from schedlab.store.runs import Store
from schedlab.tuning.runs import Runs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Makes this file a module that worker processes can import, and take their work from."""
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setattr(sweep, "simulate_cell", answer)


def cell(name, folder):
    return cells.Cell(
        policy=cells.ChosenPolicy(name, name, name, str(folder / name), name, {}, {}),
        machine=cells.ChosenMachine("m", "m", "/m.toml", "m", 1),
        workload=cells.ChosenWorkload("w", "w", "/w.toml", "w", {}, {}, {}),
        seed=1,
        until_ns=None,
        version="1",
        varied={},
    )


def answer(of):
    """Dies as often as the name says, by notes in a file of its own."""
    file = Path(of.policy.path)
    nr_deaths = len(file.read_text()) if file.exists() else 0
    if nr_deaths < int(of.policy.name):
        file.write_text("x" * (nr_deaths + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    result = {"status": "completed", "error": None, "digest": of.policy.name, "makespan_ns": 7}
    return Outcome(result, None, "", 1)


def test_a_run_that_ends_its_process_twice_has_failed_and_others_go_on(tmp_path):
    notes = []
    asked = [cell(name, tmp_path) for name in ("0", "1", "9")]
    with Store(tmp_path / "s.db") as store:
        with Runs(store, 2, lambda text, key: notes.append(text)) as runs:
            found = runs.of(asked)
        assert [one.status for one in found] == ["completed", "completed", "failed"]
        why = found[2].result["error"]["message"]
        assert why == "the process at work on it was ended by SIGKILL, 2 times"
        again = [text for text in notes if text.endswith("SIGKILL: it is tried again")]
        assert len(again) == 2 and runs.nr_made == 3
        # Whoever asks again tries it again: it may have been for want of memory.
        with Runs(store, 2, lambda text, key: None) as runs:
            assert [one.status for one in runs.of(asked)] == [one.status for one in found]
            assert (runs.nr_made, runs.nr_reused) == (1, 2)
