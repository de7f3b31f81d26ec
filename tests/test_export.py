"""Goal: what `schedlab export` writes is what the store holds: every run, every number, no other.

Method: the real commands on a small comparison; the files are read back by pandas and by csv,
and held against `compare --json`.
"""

import csv
import json

import pandas
import pytest

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
        ("s.db.csv", "would take the place of the store"),
        ("nowhere/runs.csv", "there is no directory"),
    ):
        done = command("export", "s.db", "-o", output)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    done = command("export", "s.db", "-o", "t.csv", "--experiment", "nope")
    assert done.returncode == 2
    assert "unknown experiment 'nope'" in done.stderr
    assert (tmp_path / "s.db").read_bytes() == before
