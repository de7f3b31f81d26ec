"""Goal: what a switch costs is told by part, and where it begins to cost more, with what makes it.

Method: made-up runs whose costs have closed forms; one small comparison in which a lock is known to
be what grows.
"""

import pytest
from made_answers import made_answer, write_page
from schedlab.experiment.study import study_of
from schedlab.experiment.switch_costs import PARTS, knee_texts, knees, switch_costs
from schedlab.experiment.table import print_instructions, print_knees

SWITCHES = 10


@pytest.fixture
def run_at(make_record):
    """Makes up a run with `cpus` varied, each part of whose cost of a switch is given in ns."""

    def make(cpus, seed=1, **parts):
        whole = {name: SWITCHES * parts.get(name, 0) for name in PARTS}
        waits = whole.pop("lock_wait")
        split = {"work": 300, "kernel": 0, "scheduler": 0, "lock_wait": waits, "idle": 700 - waits}
        result = {
            "status": "completed", "makespan_ns": 100, "elapsed_ns": 100, "nr_cpus": 10,
            "nr_tasks": 1, "wakeups": 0, "switches": SWITCHES, "involuntary_switches": 0,
            "migrations": 0, "jain_fairness": 1.0, "cpu_time_ns": split, "overhead_ns": whole,
            "task_groups": [],
        }  # fmt: skip
        return make_record(policy="any", seed=seed, varied={"cpus": cpus}, result=result)

    return make


def test_all_of_a_switch_is_the_sum_of_its_parts(run_at):
    runs = [run_at(1, seed, switch=20, scan=seed, lock_wait=10) for seed in (1, 2, 3)]
    [row] = switch_costs(study_of(runs))
    assert (row.total.mean, row.parts["scan"].mean, row.parts["refill"].mean) == (32, 2, 0)
    assert row.total.low < 32 < row.total.high
    assert row.work.mean == 30


def test_a_knee_is_where_a_switch_costs_twice_as_much_and_stays_so(run_at):
    grown = {1: 50, 2: 40, 4: 99, 8: 130, 16: 110, 32: 200}
    runs = [
        run_at(cpus, seed, switch=35, scan=cpus, lock_wait=total - 35 - cpus)
        for cpus, total in grown.items()
        for seed in (1, 2)
    ]
    [knee] = knees(study_of(runs))
    assert (knee.first_x, knee.knee.x, knee.last.x) == (1, 8, 32)
    assert knee.knee.ratio.ratio == pytest.approx(130 / 50)
    # Of 80 ns more 7 are for scanning.
    assert (knee.knee.part, knee.knee.share.mean) == ("lock_wait", pytest.approx(100 * 73 / 80))
    assert knee.last.ratio.ratio == pytest.approx(4)
    bump = [run_at(cpus, switch=total) for cpus, total in {1: 50, 2: 500, 4: 20, 8: 99}.items()]
    assert knees(study_of(bump)) == []
    words = [run_at(cpus, switch=total) for cpus, total in {"few": 50, "many": 500}.items()]
    assert knees(study_of(words)) == []


@pytest.mark.parametrize(("spread", "is_sure"), [(1, True), (40, False)])
def test_a_knee_whose_interval_reaches_below_twice_may_lie_later(run_at, spread, is_sure):
    runs = [
        run_at(cpus, seed, switch=total + spread * (seed - 2))
        for cpus, total in {1: 50, 2: 110, 4: 300}.items()
        for seed in (1, 2, 3)
    ]
    [knee] = knees(study_of(runs))
    assert knee.knee.x == 2 and (knee.knee.ratio.low >= 2) == is_sure
    assert (", or later, a switch" in knee.told("cpus")) != is_sure


def test_runs_that_do_not_tell_have_no_costs(run_at):
    silent = run_at(4, switch=100)
    # As on a real kernel, or in a store from before they were told.
    silent.result["overhead_ns"] = None
    study = study_of([run_at(1, switch=10), silent])
    assert [row.x for row in switch_costs(study)] == [1]
    assert knees(study) == []


def test_instructions_are_told_of_machines_that_say_what_one_costs(run_at, tmp_path, capsys):
    free = [run_at(1, seed, switch=10) for seed in (1, 2, 3)]
    [row] = switch_costs(study_of(free))
    assert "instructions" not in row.parts and row.executed is None
    print_instructions(made_answer(free))
    assert capsys.readouterr().out == ""
    for run in (paid := [run_at(1, seed, switch=10, instructions=45) for seed in (1, 2, 3)]):
        run.result["policy_executed"] = {"instructions": 61 * SWITCHES, "divisions": 0, "calls": 0}
    [row] = switch_costs(study_of(paid))
    assert (row.total.mean, row.parts["instructions"].mean, row.executed.mean) == (55, 45, 61)
    print_instructions(made_answer(paid))
    assert "45 ns for 61" in capsys.readouterr().out
    write_page(tmp_path / "report.html", paid)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<th scope="col">instructions</th>' in page


def test_terminal_and_page_tell_the_knee(run_at, tmp_path, capsys):
    runs = [run_at(cpus, switch=10, refill=cpus) for cpus in (1, 64, 128)]
    answer = made_answer(runs)
    [text] = knee_texts(answer.study, answer.knees)
    assert text == (
        "any: from cpus = 64 on a switch costs twice as much as at 1, or more: there 6.727 times,"
        " 100.0 % of what was added is filling caches; at 128 12.5 times, 100.0 % of what was added"
        " is filling caches"
    )
    print_knees(answer)
    assert text in capsys.readouterr().out.replace("\n", "")
    write_page(tmp_path / "report.html", runs)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<li>{text}.</li>" in page
    assert 'data-figure="switch-cost-' in page
    # 128 is 128 times 1: an axis of equal factors, with the values as they are.
    assert '"ticktext":["1","64","128"]' in page
