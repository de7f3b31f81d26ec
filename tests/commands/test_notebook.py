"""Goal: what a person can ask on the command line, a notebook or a script asks in one call.

Method: a script without any guard, run as a user runs it, whose answers are held against those of
the command; and wrong input, which is refused with a way out.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from pathlib import Path

import numpy as np
import pandas
import pytest
import schedlab as sl
from schedlab.errors import BadValue, SchedlabError, UnknownName
from schedlab.store.heats import Heats, StoredHeat
from schedlab.store.runs import Store

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


def test_a_race_in_a_store_is_a_row_a_structure(tmp_path):
    result = {"workload": "hold", "rows": [{"structure": "list"}, {"structure": "heap"}]}
    with Store(tmp_path / "r.db") as store:
        Heats(store).add("key", StoredHeat("2026-01-02T03:04:05", 0.5, result))
    heats = sl.open(tmp_path / "r.db").heats()
    assert heats.to_dict("list") == {
        "raced_at": ["2026-01-02T03:04:05"] * 2,
        "load": [0.5] * 2,
        "workload": ["hold"] * 2,
        "structure": ["list", "heap"],
    }


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


def test_no_workload_has_a_parameter_that_a_keyword_takes():
    keywords = {
        name for asked in (sl.simulate, sl.play, sl.compare) for name in signature(asked).parameters
    }
    for row in sl.workloads().itertuples():
        assert not keywords & {one["name"] for one in row.parameters}, row.name


def ask(folder, **changes):
    question = {"policies": ["cfs"], "workload": "hackbench", "machines": "osdl-2"}
    question |= {"repeat": 1, "groups": 1, "loops": 5, "store": folder / "w.db", "quiet": True}
    question |= changes
    if "groups" in (changes.get("vary") or {}):
        del question["groups"]
    return sl.compare(**question)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"processes": 0}, "processes: 0"),
        ({"processes": "2"}, "processes: '2'"),
        ({"vary": {"groups": [1, 1]}}, "holds a value twice"),
        ({"vary": {"groups": [2, "2"]}}, "holds a value twice"),
        ({"vary": {"groups": []}}, "has no value"),
        ({"vary": {"groups": "12"}}, "is one value"),
        ({"vary": {"groups": 3}}, "is one value"),
        ({"vary": ["groups"]}, "is no mapping"),
        ({"tunables": ["a=1"]}, "is no mapping"),
        ({"policies": {"cfs (short)": "cfs"}}, "is no label"),
        ({"machines": ["osdl-2", sl.vm()]}, "neither a name nor a path"),
        ({"repeat": 0}, "repeat: 0"),
        ({"seed": "x"}, "seed: 'x'"),
        ({"groupss": 1}, "groupss"),
    ],
)
def test_wrong_values_are_refused_by_their_keyword(tmp_path, changes, words):
    with pytest.raises(SchedlabError, match=re.escape(words)) as refused:
        ask(tmp_path, **changes)
    assert "--" not in f"{refused.value} {refused.value.hint}"


def test_numbers_of_numpy_are_numbers(tmp_path):
    table = ask(tmp_path, vary={"groups": np.array([1.0, 2.0])}, seed=np.int64(3)).table()
    assert list(table["groups"]) == [1, 2]
    assert ask(tmp_path, vary={"pipe": [True, False]}).table()["pipe"].tolist() == ["true", "false"]


BROKEN = "this is no C"
CRASHES = """
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(ends, struct task_struct *p, u64 flags) { scx_bpf_error("enough"); }
SCX_OPS_DEFINE(ops, .enqueue = (void *)ends, .name = "crashes");
"""


def test_a_policy_that_fails_is_told_and_counted(tmp_path, capsys):
    (tmp_path / "bad.bpf.c").write_text(CRASHES)
    answer = ask(tmp_path, policies=[tmp_path / "bad.bpf.c", "cfs"], quiet=False)
    assert "policy bad failed" in capsys.readouterr().err
    assert "1 failed" in repr(answer)
    assert answer.table()[["policy", "runs", "failed"]].values.tolist() == [
        ["bad", 1, 1],
        ["cfs", 1, 0],
    ]
    assert answer.table()["makespan"].isna().tolist() == [True, False]


def test_a_policy_that_does_not_compile_is_an_error_of_ours(tmp_path):
    (tmp_path / "broken.bpf.c").write_text(BROKEN)
    for asked in (
        lambda: sl.simulate(tmp_path / "broken.bpf.c", "hackbench", "laptop"),
        lambda: sl.check(tmp_path / "broken.bpf.c"),
    ):
        with pytest.raises(SchedlabError, match=r"broken\.bpf\.c"):
            asked()


def test_a_report_never_takes_the_place_of_its_store(tmp_path):
    answer = ask(tmp_path)
    with pytest.raises(SchedlabError, match="would take the place of the store"):
        answer.report(tmp_path / "w.db")
    assert len(sl.open(tmp_path / "w.db").runs()) == 1


def test_threads_may_ask_at_the_same_time():
    main = sys.modules["__main__"]
    with ThreadPoolExecutor(3) as threads:
        runs = list(
            threads.map(lambda s: sl.simulate("fifo", "ping_pong", "laptop", seed=s), range(6))
        )
    assert {run.status for run in runs} == {"completed"}
    assert sys.modules["__main__"] is main


def test_all_names_that_are_offered_are_there():
    assert all(getattr(sl, name) for name in sl.__all__)
    assert set(sl.__all__) <= set(dir(sl))
