"""Goal: what a machine's file says of interrupts and speeds shows wherever results are shown.

Method: the real commands on machines of one CPU whose files say it, and on the same without it.
"""

import csv
import json

import pytest
from schedlab import catalogue

INTERRUPTS = """
[[interrupts]]
name = "network"
source = "own"
every = "1ms"
takes_ns = 100000
"""
SPEEDS = """
[[speeds]]
at = "100ms"
permille = 500
"""
WORKLOAD = """
description = "a task that computes"
source = "own"
tasks = [{ name = "hog", program = [{ run = "200ms" }] }]
"""


@pytest.fixture
def run(command, tmp_path):
    """What a run of the hog on a machine with this at its end comes to."""
    referee = catalogue.names(catalogue.MACHINES)["referee"].read_text()
    (tmp_path / "hog.toml").write_text(WORKLOAD)

    def made(more, *options):
        (tmp_path / "mine.toml").write_text(referee + more)
        done = command("run", "fifo", "--workload", "hog.toml", "--machine", "mine.toml", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return made


def result(text):
    return json.loads(text)["result"]


def test_the_time_of_interrupts_is_told_apart(run):
    without, found = result(run("", "--json")), result(run(INTERRUPTS, "--json"))

    count, spent = found["background_interrupts"], found["cpu_time_ns"]
    assert 150 < count < 300
    assert spent["interrupted"] == 100_000 * count
    assert spent["work"] == without["cpu_time_ns"]["work"]
    assert sum(spent.values()) == found["elapsed_ns"]
    assert not {"background_interrupts"} & without.keys()
    assert "interrupted" not in without["cpu_time_ns"]


def test_a_run_prints_how_many_there_were(run):
    text = run(INTERRUPTS)
    count = result(run(INTERRUPTS, "--json"))["background_interrupts"]
    assert f"{count} of the background" in text
    assert "interrupted 9" in text or "interrupted 10" in text, "percent, of 1 in 10"
    assert "background" not in run("")


def test_another_seed_has_interrupts_at_other_times(run):
    first, again, other = (result(run(INTERRUPTS, "--json", "--seed", n)) for n in (1, 1, 2))
    assert first["digest"] == again["digest"] != other["digest"]


def test_a_slower_cpu_takes_longer(run):
    without, slower = (result(run(more, "--json"))["cpu_time_ns"]["work"] for more in ("", SPEEDS))
    # What costs took of the first 100 ms is computed at half the speed, too.
    assert 300e6 < slower < 301e6
    assert without == 200e6


def test_comparisons_reports_and_tables_tell_of_interrupts(command, run, tmp_path):
    run(INTERRUPTS)
    asked = ("compare", "fifo", "round_robin", "--workload", "hog.toml", "--machine", "mine.toml")
    done = command(*asked, "--repeat", "3", "--store", "s.db", "--json", "-q")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    counts = {(one["policy"], one["seed"]): one["result"]["background_interrupts"] for one in runs}
    assert len(set(counts.values())) > 1

    assert command("export", "s.db", "-o", "runs.csv").returncode == 0
    with (tmp_path / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        count = int(row["background_interrupts"])
        assert count == counts[row["policy"], int(row["seed"])]
        assert int(row["cpu_time_ns.interrupted"]) == 100_000 * count

    assert command("report", "s.db", "-o", "report.html").returncode == 0
    assert "interrupted" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_wrong_entry_is_refused_with_its_place(command, run, tmp_path):
    run("")
    referee = (tmp_path / "mine.toml").read_text()
    (tmp_path / "mine.toml").write_text(referee + SPEEDS.replace("500", "0"))
    done = command("run", "fifo", "--workload", "hog.toml", "--machine", "mine.toml")
    assert done.returncode == 2
    assert "mine.toml: `speeds[0].permille` is 0: out of range" in done.stderr
    assert "hint: write a whole number from 1 to 10000" in done.stderr
