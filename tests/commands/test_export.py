"""Goal: what `schedlab export` writes is what the store holds: every run, every number, no other.

Method: the real commands on a small comparison; the files are read back by pandas and by csv,
and held against `compare --json`.
"""

import csv
import itertools
import json
import subprocess
import sys

import click
import made_heats
import pandas
import pytest
import schedlab as sl
from click.testing import CliRunner
from schedlab.commands import export
from schedlab.commands.export import export_verb
from schedlab.experiment.definition import id_of
from schedlab.store import runs
from schedlab.store.heats import Heats, StoredHeat
from schedlab.store.runs import Store, StoredExperiment

ASKED = ("compare", "fifo", "cfs@2.6.31", "--workload", "hackbench", "--vary", "groups=1,2")
SMALL = ("--with", "loops=2", "--machine", "laptop", "--repeat", "3", "--store", "s.db", "-q")


@pytest.fixture
def told(command):
    """What `compare` told of the store s.db."""
    return json.loads(command(*ASKED, *SMALL, "--json").stdout)


def test_csv_and_parquet_have_every_run_and_number(command, told, tmp_path):
    for name in ("runs.csv", "runs.parquet"):
        assert command("export", "s.db", "-o", name).returncode == 0

    with (tmp_path / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    parquet = pandas.read_parquet(tmp_path / "runs.parquet")

    def place(row):
        return (row["policy"], str(row["parameter.groups"]), int(row["seed"]))

    expected = {
        (run["policy"], str(run["varied"]["groups"]), run["seed"]): run for run in told["runs"]
    }
    assert len(rows) == len(parquet) == len(expected) == 12
    for row in [*rows, *parquet.to_dict("records")]:
        run = expected[place(row)]
        assert int(row["makespan_ns"]) == run["result"]["makespan_ns"]
        assert int(row["cpu_time_ns.idle"]) == run["result"]["cpu_time_ns"]["idle"]
        assert float(row["wait_ns.mean"]) == run["result"]["wait_ns"]["mean"]
        assert (row["digest"], row["status"]) == (run["result"]["digest"], "completed")
    assert {place(row) for row in rows} == set(expected)


def test_all_that_was_varied_has_a_column(command, tmp_path):
    slices = {"round_robin.slice_ns": ["1ms", "2ms"], "groups": ["1"], "cpus": ["1", "2"]}
    vary = [f"--vary={name}={','.join(values)}" for name, values in slices.items()]
    asked = ("compare", "cfs", "round_robin", "--workload", "hackbench", "--machine", "osdl-1")
    done = command(*asked, *vary, "--with", "loops=1", "--repeat", "1", "--store", "v.db", "-q")
    assert done.returncode == 0, done.stderr
    assert command("export", "v.db", "-o", "v.csv").returncode == 0
    with (tmp_path / "v.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    places = {tuple(row[f"parameter.{name}"] for name in slices) for row in rows}
    assert places == set(itertools.product(*slices.values()))
    frame = sl.open(tmp_path / "v.db").runs()
    assert {*frame["round_robin.slice_ns"]} == {10**6, 2 * 10**6}
    assert {*frame["cpus"]} == {1, 2}
    assert command("export", "v.db", "-o", "v.parquet").returncode == 0
    table = pandas.read_parquet(tmp_path / "v.parquet")
    assert {*table["parameter.round_robin.slice_ns"]} == {10**6, 2 * 10**6}
    assert {*table["parameter.cpus"]} == {1, 2}
    assert {*table["parameter.threads"]} == {False}


def test_requests_and_groups_of_tasks_have_columns(command, tmp_path):
    asked = ("compare", "fifo", "cfs@2.6.31", "--workload", "desktop", "--machine", "laptop")
    told = json.loads(command(*asked, "--repeat", "1", "--store", "d.db", "-q", "--json").stdout)
    assert command("export", "d.db", "-o", "d.csv").returncode == 0
    with (tmp_path / "d.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2
    for run in told["runs"]:
        [row] = [row for row in rows if row["policy"] == run["policy"]]
        requests, groups = run["result"]["requests"], run["result"]["task_groups"]
        assert requests and groups
        for one in requests:
            at = f"requests.{one['name']}."
            assert int(row[f"{at}deadline_misses"]) == one["deadline_misses"]
            assert int(row[f"{at}response_ns.p99"]) == one["response_ns"]["p99"]
        for one in groups:
            at = f"task_groups.{one['name']}.{one['nice']}."
            for name in ("count", "run_ns", "wait_ns", "switches", "migrations", "last_exit_ns"):
                assert int(row[f"{at}{name}"]) == one[name]


@pytest.mark.parametrize("words", [(), ("--experiment", "two")])
def test_runs_are_written_in_any_number_of_parts_as_in_one(
    tmp_path, make_record, monkeypatch, words
):
    """Rows that differ in their columns, and in the types of what is in them."""
    results = [{"a": 1}, {"a": 2, "b": 0.5}, {"a": 2**40}, {"b": 3}, {"c": 7}, {}, {"a": 0.25}]
    with Store(tmp_path / "s.db") as store:
        definition = {"policies": [{"label": "fifo"}, {"label": "o1"}], "machines": ["osdl-1"]}
        one = StoredExperiment(id_of(definition), "two", definition, "", "")
        store.add_experiment(one)
        for seed, result in enumerate(results):
            label = ("o1", "fifo")[seed % 2]
            store.add(make_record(
                str(seed), seed=seed, policy=label, experiment=one.id,
                result={"status": "completed", "digest": str(seed), "makespan_ns": 1, **result},
            ))  # fmt: skip
    written = {}
    for together in (1000, 2):
        monkeypatch.setattr(export, "ROWS_TOGETHER", together)
        monkeypatch.setattr(runs, "READ_TOGETHER", together)
        for name in ("x.csv", "x.parquet"):
            asked = [str(tmp_path / "s.db"), "-o", str(tmp_path / name), *words]
            done = CliRunner().invoke(export.export_verb, asked, standalone_mode=False)
            assert done.exception is None, done.exception
        frame = pandas.read_parquet(tmp_path / "x.parquet")
        written[together] = (tmp_path / "x.csv").read_text(), frame
    assert written[2][0] == written[1000][0]
    pandas.testing.assert_frame_equal(written[2][1], written[1000][1])
    seeds = [1, 3, 5, 0, 2, 4, 6] if words else list(range(7))
    assert frame["seed"].tolist() == seeds
    assert frame["c"].dtype == "Int64"


def test_csv_is_written_without_loading_pandas(command, told, tmp_path):
    words = (sys.executable, "-X", "importtime", "-m", "schedlab", "export", "s.db", "-o")
    loads = {}
    for name in ("runs.csv", "runs.parquet"):
        done = subprocess.run(
            [*words, name], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        loads[name] = "| pandas\n" in done.stderr
    assert loads == {"runs.csv": False, "runs.parquet": True}


def test_latex_has_the_table_of_the_report(command, told, tmp_path):
    assert command("export", "s.db", "-o", "table.tex").returncode == 0

    lines = (tmp_path / "table.tex").read_text().splitlines()
    assert lines[1] == r"\begin{tabular}{llrr}"
    assert "fifo (ms) & cfs@2.6.31 (ms)" in lines[3]
    means = {
        (cell["policy"], cell["varied"]["groups"]): cell["makespan"]["mean"]
        for cell in told["cells"]
    }
    for line, groups in zip(lines[5:7], (1, 2), strict=True):
        cells = line.removesuffix(r" \\").split(" & ")
        assert cells[:2] == ["laptop", str(groups)]
        for text, policy in zip(cells[2:], ("fifo", "cfs@2.6.31"), strict=True):
            mean, _, half = text.partition(" ± ")
            assert float(mean) == pytest.approx(means[policy, groups], rel=1e-3)
            assert float(half) > 0


def test_what_cannot_be_written_is_refused_and_nothing_is_lost(command, told, tmp_path):
    before = (tmp_path / "s.db").read_bytes()
    for output, said in (
        ("runs.xls", "does not say its format"),
        ("s.db.csv", "table s.db.csv would take the place of the store"),
        ("nowhere/runs.csv", "there is no directory"),
    ):
        done = command("export", "s.db", "-o", output)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    done = command("export", "s.db", "-o", "t.csv", "--experiment", "nope")
    assert done.returncode == 2
    assert "unknown experiment 'nope'" in done.stderr
    assert (tmp_path / "s.db").read_bytes() == before


def test_what_is_no_store_is_refused_with_a_way_out_that_export_has(command, tmp_path):
    (tmp_path / "empty.db").write_bytes(b"")
    (tmp_path / "text.db").write_text("no database\n" * 99)
    (tmp_path / "folder").mkdir()
    for store, said in (
        ("missing.db", "store missing.db does not exist"),
        ("folder", "store folder is a directory"),
        (".", "store . is a directory"),
        ("empty.db", "store empty.db is empty"),
        ("text.db", "store text.db: it is not a schedlab store"),
    ):
        done = command("export", store, "-o", "t.csv")
        assert (done.returncode, done.stdout) == (2, "")
        [error, hint] = done.stderr.splitlines()
        assert error.startswith(f"error: {said}") and hint.startswith("hint: ")
        # That is an option of the commands that make stores.
        assert "with --store" not in hint
    assert not (tmp_path / "t.csv").exists()


def test_a_table_that_is_interrupted_leaves_the_one_before(told, tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("the one before")

    def interrupted(each, file):
        file.write(b"half of a table")
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "_csv", interrupted)
    asked = [str(tmp_path / "s.db"), "-o", str(tmp_path / "t.csv")]
    done = CliRunner().invoke(export_verb, asked, standalone_mode=False)
    assert isinstance(done.exception, click.Abort)
    assert (tmp_path / "t.csv").read_text() == "the one before"
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob(".*.part"))


@pytest.fixture
def heats():
    """Two heats: one with a structure that is left out, one of single operations."""
    single = {"p50": 1.0, "p99": 2.0, "p999": 3.0, "max": 4.0}
    left_out = made_heats.row("skip_list", [], left_out="slow")
    return [
        made_heats.heat([made_heats.row("fifo", made_heats.rounds(5.0, 6.0)), left_out], n=10),
        made_heats.heat(
            [made_heats.row("fifo", made_heats.rounds(7.0), single=single | {"pop": single})],
            workload="single",
        ),
    ]


def test_heats_have_a_row_for_each_round_and_structure(command, tmp_path, heats):
    with Store(tmp_path / "s.db") as store:
        for number, one in enumerate(heats):
            kept = StoredHeat(f"2026-01-0{number + 1}", 0.5, one.result)
            Heats(store).add(f"k{number}", kept)
    for name in ("h.csv", "h.parquet"):
        done = command("export", "s.db", "-o", name)
        assert done.returncode == 0, done.stderr
        assert f"19 rounds of heats: {name}" in done.stderr
    with (tmp_path / "h.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    fifo = [row for row in rows if (row["structure"], row["n"]) == ("fifo", "10")]
    assert [float(row["ticks_per_loop"]) for row in fifo] == [5.0, *[6.0] * 8]
    assert [row["round"] for row in fifo] == [str(number) for number in range(1, 10)]
    [missing] = [row for row in rows if row["structure"] == "skip_list"]
    assert (missing["left_out"], missing["ticks_per_loop"]) == ("slow", "")
    assert (rows[-1]["workload"], rows[-1]["single.pop.p99"]) == ("single", "2.0")
    parquet = pandas.read_parquet(tmp_path / "h.parquet")
    assert parquet["ticks_per_loop"].sum() == 5.0 + 8 * 6.0 + 9 * 7.0


@pytest.mark.parametrize(
    "words",
    [
        ("--what", "heats", "--suite", "quick"),
        ("--what", "heats", "--experiment", "e1"),
        ("--what", "heats"),
    ],
)
def test_what_is_of_something_else_or_not_there_is_refused(command, make_record, tmp_path, words):
    with Store(tmp_path / "s.db") as store:
        store.add(make_record())
    done = command("export", "s.db", "-o", "h.csv", *words)
    assert (done.returncode, "hint: " in done.stderr) == (2, True)
    assert not (tmp_path / "h.csv").exists()


FORMULAS = ["=1+1", "+1+1", "-1+1", "@A1", "\t=1", "\r=1", "=cmd|'/C x'!A0", "＝1", "-", "-5ms"]


def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe_and_a_number_none(
    make_record, tmp_path
):
    numbers = ["-5", "+5", "-1.5e-3", "10", "2.6.31"]
    records = [
        make_record(
            seed=seed,
            policy=text,
            machine=text,
            parameters={"n": text, "m": -5},
            result={
                "status": "completed",
                "digest": text,
                "=made": -7,
                "error": None,
                "makespan_ns": 7,
            },
        )
        for seed, text in enumerate([*FORMULAS, *numbers])
    ]
    with Store(tmp_path / "s.db") as store:
        store.add(*records)
    assert CliRunner().invoke(
        export_verb, [str(tmp_path / "s.db"), "-o", str(tmp_path / "x.csv")], standalone_mode=False
    ).exception is None  # fmt: skip
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row, text in zip(rows, [*FORMULAS, *numbers], strict=True):
        told = f"'{text}".replace("\r", "\n") if text in FORMULAS else text
        assert (row["machine"], row["digest"], row["parameter.n"]) == (told, told, told)
        assert (row["parameter.m"], row["'=made"]) == ("-5", "-7")
