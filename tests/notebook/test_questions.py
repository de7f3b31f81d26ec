"""Goal: what a person can ask on the command line, a notebook or a script asks in one call.

Method: answers are held against those of the command; the guide is run as a script without any
guard, and the example notebooks from a clean kernel; wrong input is refused with a way out.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from pathlib import Path

import nbclient
import nbformat
import numpy as np
import pandas
import pytest
import schedlab as sl
from made_measurements import MadeStore
from schedlab.errors import BadValue, SchedlabError, UnknownName
from schedlab.notebook.answers import frame_of
from schedlab.notebook.keywords import _keywords
from schedlab.store.runs import Store

ROOT = Path(__file__).resolve().parents[2]
# One worker asks for all tests of the answers.
ASKED_ONCE = pytest.mark.xdist_group("notebook")
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module", autouse=True)
def compiled_once(tmp_path_factory):
    """Policies are compiled into the cache of `command`, which is there for all tests."""
    place = tmp_path_factory.getbasetemp()
    cache = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def answer(folder):
    return sl.compare(
        ["o1", "cfs"], "hackbench", "osdl-2", vary={"groups": [1, 2]}, repeat=3, loops=5,
        store=folder / "s.db", progress=False,
    )  # fmt: skip


@ASKED_ONCE
def test_a_run_is_that_of_the_command(command):
    tunables = {"base_slice_ns": "2ms"}
    run = sl.simulate("eevdf", "hackbench", "osdl-2", seed=3, tunables=tunables, groups=1, loops=10)
    words = ["run", "eevdf", "--workload", "hackbench", "--machine", "osdl-2", "--seed", "3"]
    words += ["--set", "base_slice_ns=2ms", "--with", "groups=1", "--with", "loops=10", "--json"]
    assert json.loads(command(*words).stdout)["result"]["digest"] == run.result["digest"]


@ASKED_ONCE
def test_a_comparison_is_that_of_the_command_and_its_runs_are_kept(answer, command, folder):
    words = ["compare", "o1", "cfs", "--workload", "hackbench", "--machine", "osdl-2"]
    words += ["--vary", "groups=1,2", "--with", "loops=5", "--repeat", "3", "--json"]
    done = command(*words, "--store", folder / "s.db")
    assert "0 runs made, 12 reused" in done.stderr
    told = json.loads(done.stdout)
    digests = {run["result"]["digest"] for run in told["runs"]}
    assert digests == set(answer.frame()["digest"])
    means = {
        (cell["varied"]["groups"], cell["policy"]): cell["makespan"]["mean"]
        for cell in told["cells"]
    }
    assert answer.table().set_index(["groups", "policy"])["makespan"].to_dict() == means


@ASKED_ONCE
def test_answers_are_frames_figures_and_pages(answer, folder, tmp_path):
    store = sl.open(folder / "s.db")
    assert len(store.runs()) == 12
    assert set(store.runs()["policy"]) == {"o1", "cfs"}
    assert len(store.experiments()) == 1
    assert store.repetitions().empty
    assert store.heats().empty
    again = store.experiment().table().sort_values("groups", kind="stable")
    assert again.reset_index(drop=True).equals(answer.table())
    labels = {"old": "o1", "new": "cfs"}
    answer = ask(folder, policies=labels, repeat=3, vary={"groups": [1, 2]}, store=store.path)
    assert list(answer.table()["policy"].unique()) == ["old", "new"]
    assert {trace.name for trace in answer.figure().data if trace.name} == {"old", "new"}
    assert answer.report(tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert "<table" in answer._repr_html_()
    with pytest.raises(BadValue, match="osdl-8"):
        answer.figure("osdl-8")


@ASKED_ONCE
def test_parameters_are_numbers_in_columns_that_name_their_unit(answer):
    frame = answer.frame()
    assert sorted(frame.groupby("groups")["switches"].mean().index) == [1, 2]
    assert (frame["stagger_ns"] == 200_000).all()
    assert not frame["pipe"].any()
    rows = [{"parameter.n": "1", "parameter.gap": "2ms", "n": 0}, {"parameter.gap": "1s"}]
    read = frame_of([*rows, {"parameter.how": "10ms"}, {"parameter.how": "fast"}])
    assert list(read.columns) == ["parameter.n", "gap_ns", "n", "how"]
    assert read["gap_ns"].dropna().tolist() == [2_000_000, 10**9]
    assert read["how"].dropna().tolist() == ["10ms", "fast"]


def test_what_the_report_tells_is_in_frames(tmp_path):
    answer = sl.compare(
        ["cfs", "fifo"], "nice_shares", "osdl-1", repeat=3, length="1s", store=tmp_path / "s.db"
    )
    shares = answer.fairness().set_index(["policy", "nice"])
    assert shares["promised_percent"].loc["cfs"].sum() == pytest.approx(100)
    assert abs(shares["error_points"].loc["cfs"]).max() < 1 < shares["error_points"].abs().max()
    assert answer.published().empty
    assert answer.reproduction().empty
    waits = sl.compare("cfs", "sleepers", "osdl-2", repeat=3, store=tmp_path / "s.db")
    [row] = waits.interactivity().to_dict("records")
    assert (row["policy"], row["of"]) == ("cfs", "wake-up")
    assert row["delay_ns_p50_low"] <= row["delay_ns_p50"] <= row["delay_ns_p99"]


CLAIMED = """
policies = ["cfs@2.6.31", "bfs@304"]
workload = "counter"
machine = "core2-t5600"
vary.n = [1, 2]
repeat = 3
with.work = "20ms"
[published]
table = "seed000_counter"
source = "a blog of 2009"
makespan = "total_s"
vary.n = "n_procs"
ideal = "n"
policies."cfs@2.6.31".kernel = "2.6.31"
policies."bfs@304".kernel = "2.6.31-bfs"
machines.core2-t5600 = {}
[[claims]]
says = "BFS leaves no CPU idle"
of = { policy = "bfs@304", n = 2 }
over_ideal = true
at_most = 1.5
"""


def test_what_others_published_and_claimed_is_in_frames(tmp_path):
    (tmp_path / "claimed.toml").write_text(CLAIMED)
    question = sl.read_experiment(tmp_path / "claimed.toml")
    answer = question.run(store=tmp_path / "s.db", progress=False)
    published = answer.published().set_index(["policy", "where"])
    assert len(published) == 4
    assert published.loc[("bfs@304", "core2-t5600, n = 2"), "published"] > 0
    [claim] = answer.reproduction().to_dict("records")
    assert (claim["verdict"], claim["of_place"]) == ("reproduced", "reproduced")
    assert claim["low"] <= claim["simulated"] <= claim["high"] <= claim["at_most"] == 1.5
    assert sl.open(tmp_path / "s.db").experiment().reproduction().equals(answer.reproduction())


SUITE = """
title = "Nothing"
repetitions = 2
[[benchmark]]
name = "wait"
command = ["sh", "-c", "exec sleep {s}"]
record = "elapsed"
unit = "s"
sweep.s = ["0.01", "0.02"]
"""


def test_a_machine_is_measured_and_the_same_call_measures_nothing_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "wait.toml").write_text(SUITE)
    asked = {"suite": tmp_path / "wait.toml", "store": tmp_path / "m.db", "progress": False}
    measured = sl.measure(**asked)
    assert measured.outcome.is_complete
    assert measured.outcome.nr_made >= 4
    assert set(measured.frame()["s"]) == {0.01, 0.02}
    table = measured.table()
    assert (table["median"] >= table["s"]).all()
    assert sl.measure(**asked).outcome.nr_made == 0
    other = sl.measure(**asked, label="after", only=["wait"], repeat=1)
    command = other.outcome.campaign.command
    words = "wait.toml --label after --repeat 1 --size quick --only wait --seed 1"
    assert command.endswith(f"{words} --store {asked['store']}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"suite": "quik"}, "did you mean quick"),
        ({"repeat": 0}, "repeat: 0"),
        ({"until": "1"}, "until: '1'"),
        ({"size": "huge"}, "huge"),
        ({"boots": 3}, "boots is for virtual machines"),
        ({"on": [sl.vm(cpus=1), sl.vm(cpus=2)]}, "several sizes"),
        ({"on": sl.vm(deterministic=True)}, "counts instructions"),
        ({"on": "vm"}, "is no virtual machine"),
        ({"on": [sl.vm(), sl.vm(kernel="6.12")]}, "names no kernel"),
        ({"until": 1}, "until: 1"),
        ({"only": "xyz"}, "unknown benchmark 'xyz'"),
    ],
)
def test_a_wrong_measurement_is_refused_by_its_keyword(tmp_path, changes, words):
    with pytest.raises(SchedlabError, match=re.escape(words)) as refused:
        sl.measure(**{"suite": "quick", "store": tmp_path / "m.db", **changes})
    assert "--" not in f"{refused.value} {refused.value.hint}"


# Of samples whose noise is a hundredth of that.
LEVELS = {"near": 1, "beside": 1, "far": 2}


def test_samples_that_share_a_letter_are_not_shown_to_differ():
    generator = np.random.default_rng(7)
    samples = {name: 10 * at + generator.normal(0, 0.1, 8) for name, at in LEVELS.items()}
    frame = pandas.DataFrame([(n, v) for n, of in samples.items() for v in of], columns=list("nv"))
    groups = sl.compare_groups(frame.groupby("n")["v"], method="Tukey-Kramer")
    letters = groups.letters()
    assert list(letters["letters"]) == ["b", "a", "a"]
    assert letters["name"][0] == "far"
    assert "Tukey and Kramer" in str(groups.comparison.why)
    assert groups.quantiles()[0.5].tolist() == [np.median(samples[n]) for n in sorted(samples)]
    assert len(groups.frame()) == 3
    assert groups.figure("s").data
    assert "<table" in groups._repr_html_()
    with pytest.raises(SchedlabError, match="each with each"):
        sl.compare_groups(samples, baseline="far").letters()
    with pytest.raises(UnknownName, match="Tukey"):
        sl.compare_groups(samples, method="Tukey")


@pytest.mark.parametrize("groups", [[1, 2, 3], {"a": 1}, {"a": ["fast"]}, {}, [], 7])
def test_what_is_no_sample_is_refused(groups):
    with pytest.raises(BadValue, match="groups: ") as refused:
        sl.compare_groups(groups)
    assert "give {NAME: [TIME, ...]}" in refused.value.hint


def test_a_run_that_fails_is_told_with_its_replay(tmp_path, capsys):
    (tmp_path / "bad.bpf.c").write_text(CRASHES)
    run = sl.simulate(tmp_path / "bad.bpf.c", "hackbench", "laptop", groups=1)
    assert run.result["status"] == "failed"
    told = capsys.readouterr().err
    assert "error: policy bad failed" in told
    assert "replay: schedlab run" in told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"policies": []}, "see what there is with `policies()`"),
        (
            {"policies": ["o1", "cfs"], "tunables": {"x.y": 3}},
            "give tunables={POLICY: {TUNABLE: VALUE}}, where",
        ),
        (
            {"policies": ["fifo", "fifo"]},
            "as in {'fifo': 'fifo', 'fifo_2': 'fifo'} with tun",
        ),
        ({"store": __file__}, "name another file: store=PATH"),
        ({"jobs": 2}, "unknown parameter 'jobs' of workload hackbench: did you mean processes?"),
        ({"set": {}}, "did you mean tunables?"),
        ({"progres": True}, "did you mean progress?"),
        ({"profile": True}, "; keywords of the call: vary, repeat, until, repeat_max, seed, "),
    ],
)
def test_a_hint_speaks_of_keywords_and_a_traceback_shows_it(tmp_path, changes, words):
    with pytest.raises(SchedlabError) as refused:
        ask(tmp_path, **changes)
    error = refused.value
    assert words in f"{error} {error.hint}"
    assert error.__notes__ == [f"hint: {error.hint}"]


def test_measurements_are_frames_figures_and_pages(tmp_path):
    case = ("sort", (("lines", "100"),))
    store = MadeStore(tmp_path / "m.db")
    for release, level in (("6.1.0", 1.0), ("6.2.0", 2.0)):
        store.add(release, {case: [level * (1 + at / 100) for at in range(8)]})
    measured = sl.open(tmp_path / "m.db").campaigns()
    table = measured.table().set_index("setup")
    assert table["lines"].tolist() == [100, 100]
    assert table.loc["6.2.0", "ratio"] == pytest.approx(2)
    assert table.loc["6.2.0", "verdict"] == "slower"
    assert len(measured.frame().query("status == 'ok' and not warm_up")) == 16
    assert measured.figure("sort lines=100").data
    assert measured.report(tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert "<table" in measured._repr_html_()
    with pytest.raises(BadValue, match="make"):
        measured.figure("make")
    with pytest.raises(UnknownName):
        sl.open(tmp_path / "m.db").campaigns("quick")


def test_queues_are_raced_and_kept(tmp_path):
    asked = {"n": [1, 4], "structures": ["exact_time_ring", "red_black_tree"], "rounds": 6}
    asked |= {"loops": 1000, "store": tmp_path / "r.db", "progress": False}
    race = sl.race_queues(**asked)
    table = race.table()
    assert len(table) == 4
    assert (table.groupby("n")["is_fastest"].sum() == 1).all()
    assert (table[table["is_fastest"]]["to_fastest"] == 1).all()
    assert race.figure().data
    assert race.report(tmp_path / "race.html").read_text().startswith("<!DOCTYPE html>")
    assert race.command.endswith(
        "-n 1 -n 4 --structure exact_time_ring --structure red_black_tree --rounds 6 --loops 1000"
        f" --store {tmp_path / 'r.db'}"
    )
    heats = sl.open(tmp_path / "r.db").heats()
    assert len(heats) == 2 * 2 * 6
    again = sl.race_queues(**asked)
    assert again.meeting.nr_raced == 0
    assert again.frame().equals(race.frame())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n": 0}, "is not from 1 to"),
        ({"workloads": "holt"}, "did you mean hold"),
        ({"structures": "heep"}, "heep"),
        ({"rounds": 0}, "rounds: 0"),
        ({"round": 1}, "did you mean rounds"),
        ({"files": "there/is/none.so"}, "none.so"),
        ({"queue": "cpu0"}, "queue cpu0"),
        ({"n": np.int64(0)}, "is not from 1 to"),
    ],
)
def test_a_wrong_race_is_refused_by_its_keyword(tmp_path, changes, words):
    with pytest.raises(SchedlabError, match=re.escape(words)) as refused:
        sl.race_queues(**{"n": 1, "store": tmp_path / "r.db", **changes})
    assert "--" not in f"{refused.value} {refused.value.hint}"


def test_a_timeline_has_every_stay_of_a_task():
    run = sl.simulate("fifo", "ping_pong", "laptop", timeline=True)
    stays = run.timeline()
    assert list(stays.columns) == ["start_ns", "end_ns", "cpu", "pid", "task"]
    assert stays["start_ns"].is_monotonic_increasing
    assert run.figure().data
    assert len(run.frame()) == 1
    with pytest.raises(SchedlabError, match="no timeline"):
        sl.simulate("fifo", "ping_pong", "laptop").timeline()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_a_clean_kernel(path, tmp_path, monkeypatch):
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path.stem == "analyse_measurements":
        # Nobody else may measure with the same cache meanwhile.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    where = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=300, resources=where)
    client.execute(env=os.environ)
    shown = [out.get("data", {}) for cell in notebook.cells for out in cell.get("outputs", ())]
    assert any("text/html" in data for data in shown)
    assert any("application/vnd.plotly.v1+json" in data for data in shown)


def test_the_guide_is_a_script_that_ends(tmp_path):
    guide = (ROOT / "docs" / "guides" / "notebook.md").read_text()
    script = "".join(re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL))
    # Workers import the file again, and must not ask again.
    (tmp_path / "guide.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "guide.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_catalogue_is_that_of_the_command(command):
    for frame, what in ((sl.policies(), "policies"), (sl.machines(), "machines")):
        assert isinstance(frame, pandas.DataFrame)
        told = json.loads(command("list", what, "--json").stdout)
        assert list(frame["name"]) == [row["name"] for row in told]
    assert "hackbench" in list(sl.workloads()["name"])


def test_a_check_says_what_the_command_says(command, tmp_path):
    found = sl.check("fifo", seeds=20, orders=20)
    words = ["check", "fifo", "--seeds", 20, "--orders", 20, "--json"]
    told = json.loads(command(*words).stdout)
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
        name
        for asked in (sl.simulate, sl.play, sl.compare, sl.tune)
        for name in signature(asked).parameters
    }
    for row in sl.workloads().itertuples():
        assert not keywords & {one["name"] for one in row.parameters}, row.name


def ask(folder, **changes):
    question = {"policies": ["cfs"], "workload": "hackbench", "machines": "osdl-2"}
    question |= {"progress": False}
    question |= {"repeat": 1, "groups": 1, "loops": 5, "store": folder / "w.db"}
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
    assert ask(tmp_path, vary={"pipe": [True, False]}).table()["pipe"].tolist() == [True, False]


BROKEN = "this is no C"
CRASHES = """
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(ends, struct task_struct *p, u64 flags) { scx_bpf_error("enough"); }
SCX_OPS_DEFINE(ops, .enqueue = (void *)ends, .name = "crashes");
"""


def test_a_policy_that_fails_is_told_and_counted(tmp_path, capsys):
    (tmp_path / "bad.bpf.c").write_text(CRASHES)
    answer = ask(tmp_path, policies=[tmp_path / "bad.bpf.c", "cfs"], progress=True)
    assert "policy bad failed" in capsys.readouterr().err
    assert "1 failed" in repr(answer)
    assert answer.table()[["policy", "runs", "failed"]].values.tolist() == [
        ["bad", 1, 1],
        ["cfs", 1, 0],
    ]
    assert answer.table()["makespan"].isna().tolist() == [True, False]


def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(tmp_path, monkeypatch):
    add, kept = Store.add, []

    def interrupted(store, *records):
        if len(kept) == 2 and records:
            raise KeyboardInterrupt
        add(store, *records)
        kept.extend(records)

    monkeypatch.setattr(Store, "add", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"2 of 4 runs are kept in .*the same call"):
        ask(tmp_path, repeat=4)
    monkeypatch.undo()
    assert len(sl.open(tmp_path / "w.db").runs()) == 2
    digests = {record.digest for record in kept}
    assert digests <= set(ask(tmp_path, repeat=4).frame()["digest"])


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


def test_where_all_times_are_equal_a_figure_says_so_and_what_does_differ(tmp_path):
    answer = sl.compare(
        ["cfs", "o1"], "nice_shares", "osdl-1", repeat=1, length="200ms", store=tmp_path / "s.db"
    )
    with pytest.raises(SchedlabError, match="all runs took the same time") as raised:
        answer.figure()
    assert "interactivity" in raised.value.hint


def test_a_frame_is_the_same_of_runs_just_made_and_of_the_store(tmp_path):
    def ask():
        return sl.compare(
            ["cfs", "o1"],
            "hackbench",
            "osdl-2",
            repeat=2,
            groups=1,
            loops=1,
            store=tmp_path / "s.db",
        ).frame()

    pandas.testing.assert_frame_equal(ask(), ask())


def test_a_number_that_no_policy_has_is_an_error_of_ours(answer):
    with pytest.raises(SchedlabError, match="no variable or map nothing"):
        answer.watched("nothing")


def test_a_command_in_a_message_keeps_its_options():
    told = "give --workload and --seed; replay: schedlab run fifo --workload x --seed 1"
    assert (
        _keywords(told) == "give workload and seed; replay: schedlab run fifo --workload x --seed 1"
    )


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
