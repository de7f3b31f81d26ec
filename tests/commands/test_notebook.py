"""Goal: what a person can ask on the command line, a notebook or a script asks in one call.

Method: a script without any guard, run as a user runs it, whose answers are held against those of
the command; and wrong input, which is refused with a way out.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
import schedlab as sl
from schedlab.errors import BadValue, SchedlabError, UnknownName

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import json
import schedlab as sl

run = sl.simulate("eevdf", "hackbench", "osdl-2", seed=3, tunables={"base_slice_ns": "2ms"},
                  groups=1, loops=10)
answer = sl.compare(["o1", "cfs"], "hackbench", "osdl-2", vary={"groups": [1, 2]}, repeat=3,
                    loops=5, store="s.db", quiet=True)
print(json.dumps({
    "digest": run.result["digest"],
    "digests": sorted(answer.frame()["digest"]),
    "table": answer.table().to_dict("records"),
}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def answered(folder):
    (folder / "question.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "question.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_run_is_that_of_the_command(answered, command):
    words = ["run", "eevdf", "--workload", "hackbench", "--machine", "osdl-2", "--seed", "3"]
    words += ["--set", "base_slice_ns=2ms", "--with", "groups=1", "--with", "loops=10", "--json"]
    assert json.loads(command(*words).stdout)["result"]["digest"] == answered["digest"]


def test_a_comparison_is_that_of_the_command_and_its_runs_are_kept(answered, command, folder):
    words = ["compare", "o1", "cfs", "--workload", "hackbench", "--machine", "osdl-2"]
    words += ["--vary", "groups=1,2", "--with", "loops=5", "--repeat", "3", "--json"]
    done = command(*words, "--store", folder / "s.db")
    assert "0 runs made, 12 reused" in done.stderr
    told = json.loads(done.stdout)
    assert sorted(run["result"]["digest"] for run in told["runs"]) == answered["digests"]
    means = {
        (cell["varied"]["groups"], cell["policy"]): cell["makespan"]["mean"]
        for cell in told["cells"]
    }
    assert {(row["groups"], row["policy"]): row["makespan"] for row in answered["table"]} == means


def test_answers_are_frames_figures_and_pages(answered, folder, tmp_path):
    runs = sl.open(folder / "s.db").runs()
    assert len(runs) == 12
    assert set(runs["policy"]) == {"o1", "cfs"}
    assert len(sl.open(folder / "s.db").experiments()) == 1
    assert sl.open(folder / "s.db").repetitions().empty
    assert sl.open(folder / "s.db").heats().empty
    answer = sl.compare(
        {"old": "o1", "new": "cfs"},
        "hackbench",
        ["osdl-2"],
        vary={"groups": [1, 2]},
        repeat=3,
        loops=5,
        store=folder / "s.db",
        quiet=True,
    )
    assert list(answer.table()["policy"].unique()) == ["old", "new"]
    assert {trace.name for trace in answer.figure().data if trace.name} == {"old", "new"}
    assert answer.report(tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert "<table" in answer._repr_html_()
    with pytest.raises(BadValue, match="osdl-8"):
        answer.figure("osdl-8")


def test_a_timeline_has_every_stay_of_a_task():
    run = sl.simulate("fifo", "ping_pong", "laptop", timeline=True)
    stays = run.timeline()
    assert list(stays.columns) == ["start_ns", "end_ns", "cpu", "pid", "task"]
    assert stays["start_ns"].is_monotonic_increasing
    assert run.figure().data
    assert len(run.frame()) == 1
    with pytest.raises(SchedlabError, match="no timeline"):
        sl.simulate("fifo", "ping_pong", "laptop").timeline()


def test_the_guide_is_a_script_that_ends(tmp_path):
    guide = (ROOT / "docs" / "guides" / "notebook.md").read_text()
    script = "".join(re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_catalogue_is_that_of_the_command(command):
    for frame, what in ((sl.policies(), "policies"), (sl.machines(), "machines")):
        assert isinstance(frame, pandas.DataFrame)
        told = json.loads(command("list", what, "--json").stdout)
        assert list(frame["name"]) == [row["name"] for row in told]
    assert "hackbench" in list(sl.workloads()["name"])


def test_a_check_says_what_the_command_says(command, tmp_path):
    found = sl.check("fifo", seeds=20)
    told = json.loads(command("check", "fifo", "--seeds", 20, "--json").stdout)
    assert found.found == told
    assert found.violations == []
    assert len(found.frame()) == len(told["rows"])


def test_an_experiment_of_the_catalogue_is_read_and_not_yet_run():
    question = sl.read_experiment("demo")
    assert "linux_2_4" in {choice.label for choice in question.asked.policies}


def test_what_is_wrong_is_named_with_a_way_out():
    with pytest.raises(UnknownName, match="did you mean cfs"):
        sl.simulate("cfss", "hackbench", "laptop")
    with pytest.raises(SchedlabError, match="groupss"):
        sl.simulate("cfs", "hackbench", "laptop", groupss=3)
    with pytest.raises(SchedlabError):
        sl.open("there/is/none.db")
    with pytest.raises(AttributeError, match="nonesuch"):
        _ = sl.nonesuch


def test_all_names_that_are_offered_are_there():
    assert all(getattr(sl, name) for name in sl.__all__)
    assert set(sl.__all__) <= set(dir(sl))
