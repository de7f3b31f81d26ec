"""Goal: what was disturbed stays, is counted, and is made once more, within bounds.

Method: the real verb, on a machine whose disturbance is scripted; interrupted at chosen moments.
"""

import contextlib
import os
import random
import sqlite3
import sys

import pytest
from click.testing import CliRunner
from schedlab.bench import answers, environment, limits, preparation
from schedlab.bench import policies as bench_policies
from schedlab.bench.work import RunHere
from schedlab.commands.bench import bench_verb
from schedlab.errors import SchedlabError
from schedlab.kernel import loading, sched_ext

SEED = 20260411
ONE = """
title = "One"
repetitions = 4
warm_up = 0

[[benchmark]]
name = "one"
description = "One."
command = "true"
"""
TWO = """
title = "Two"
warm_up = 1

[[benchmark]]
name = "one"
description = "One."
repetitions = 4
command = "true"

[[benchmark]]
name = "other"
description = "Another."
repetitions = 3
command = "true"
sweep.n = [1, 2]
"""


@pytest.fixture
def gated(tmp_path, monkeypatch):
    """Runs the verb here, on a machine that is disturbed in those repetitions of all, counted from
    0, for which `is_noisy` holds; gives places in order, each with whether it was. What
    `interrupts_at` counts is interrupted before it is kept."""
    monkeypatch.chdir(tmp_path)

    def run(text, is_noisy, *options, interrupts_at=None, store="g.db"):
        (tmp_path / "tiny.toml").write_text(text)
        nr_made = len(places(tmp_path / store))

        def disturbance(*_readings):
            nonlocal nr_made
            if nr_made == interrupts_at:
                raise KeyboardInterrupt
            nr_made += 1
            return {"noisy": ["others worked"] if is_noisy(nr_made - 1) else []}

        monkeypatch.setattr(environment, "disturbance", disturbance)
        words = ["tiny.toml", "--work-dir", "work", "--store", store, "--quiet"]
        done = CliRunner().invoke(bench_verb, [*words, *map(str, options)], standalone_mode=False)
        assert done.exception is None or interrupts_at is not None, done.output
        return places(tmp_path / store)

    return run


def places(path):
    """Every repetition of a store in order: case, slot and whether it was disturbed."""
    if not path.exists():
        return []
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT case_name, slot, noisy FROM repetitions ORDER BY id")
        found = rows.fetchall()
    database.close()
    return found


def says(text):
    """A suite with one program that says a number of its own."""
    keys = f'command = "echo {text} s"\nrecord = {{ regex = "([0-9]+) s" }}\nunit = "s"'
    return ONE.replace('command = "true"', keys)


def test_a_disturbed_repetition_stays_and_is_followed_by_one_more_at_the_end(gated):
    found = gated(ONE, lambda n: n in (1, 2))
    assert found == [("one", str(n), int(n in (2, 3))) for n in range(1, 7)]
    assert gated(ONE, lambda n: False) == found, "the same command has nothing to make"


def test_one_more_that_is_disturbed_is_made_up_for_too(gated):
    assert [noisy for *_, noisy in gated(ONE, lambda n: n in (3, 4, 5))] == [0, 0, 0, 1, 1, 1, 0]


def test_a_machine_that_is_always_busy_makes_twice_as_many_and_no_more(gated):
    assert len(gated(ONE, lambda n: True)) == 8
    assert len(gated(ONE, lambda n: True)) == 8


def test_a_width_that_is_asked_for_makes_up_for_nothing(gated):
    exact = says("7")
    assert len(gated(exact, lambda n: True, "--until-ci", "1%", "--repeat", 12)) == 10


def test_slow_repetitions_are_not_made_again(gated):
    assert len(gated(says("$$"), lambda n: False)) == 4


@pytest.mark.parametrize("interrupts_at", [2, 7, 12, 13, 15])
def test_interrupted_anywhere_it_makes_the_same_set(gated, interrupts_at):
    flags = random.Random(SEED)
    noisy = [flags.random() < 0.4 for _ in range(99)]
    whole = gated(TWO, noisy.__getitem__, store="whole.db")
    # Three warm-ups, ten that were asked for, and some for those that were disturbed.
    assert len(whole) > 15
    part = gated(TWO, noisy.__getitem__, interrupts_at=interrupts_at)
    assert part == whole[:interrupts_at]
    assert gated(TWO, noisy.__getitem__) == whole


def test_what_was_disturbed_under_one_policy_is_made_again_under_all(gated, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "require_kernel", lambda **_: None)
    monkeypatch.setattr(bench_policies, "in_force", lambda policy: contextlib.nullcontext())
    monkeypatch.setattr(RunHere, "_change_of_scheduler", lambda *_: None)
    gated(ONE, lambda n: n in (1, 2, 3), "--policies", "bfs,kernel,cfs")
    with sqlite3.connect(tmp_path / "g.db") as database:
        rows = database.execute("SELECT slot, group_concat(policy) FROM repetitions GROUP BY slot")
        by_slot = {slot: set(policies.split(",")) for slot, policies in rows}
    database.close()
    # Two blocks of three were disturbed, and a block is whole or no block.
    assert by_slot == {str(n): {"bfs", "kernel", "cfs"} for n in range(1, 7)}


def test_what_disturbed_repetitions_change_is_told():
    setup = answers.Setup("6.18", "#1", "kernel", "")
    row = answers.CaseRow("m", "tiny", "one", "d", "s", False, names={setup: "6.18"})
    row.samples[setup] = answers.Sample([2.0] * 4 + [1.0] * 4, nr_noisy=4)
    row.samples[setup].undisturbed = [1.0] * 4
    [said] = limits.limits([row])
    # Geometric means: 1 against the root of 2.
    assert said.endswith(
        "another --label). Without them means change by -29.3 % at most (one, 6.18)"
    )
    row.samples[setup].undisturbed = [1.0] * 2
    assert limits.limits([row])[0].endswith("another --label)")


def test_nobody_else_measures_until_the_tables_are_computed(gated, monkeypatch, tmp_path):
    refused = []

    def rows(*_):
        with pytest.raises(SchedlabError, match="another schedlab bench"):
            stack.enter_context(preparation.alone(tmp_path / "work"))
        refused.append(True)
        return []

    monkeypatch.setattr(answers, "rows", rows)
    with contextlib.ExitStack() as stack:
        gated(ONE, lambda n: False)
    assert refused == [True]
    with preparation.alone(tmp_path / "work"):
        pass


def test_who_may_load_no_policy_is_told_the_whole_command(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(ONE)
    monkeypatch.setattr(sched_ext, "sched_ext", lambda *_: sched_ext.SchedExt("disabled", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    words = ["tiny.toml", "--policies", "bfs,kernel", "--label", "two words"]
    monkeypatch.setattr(sys, "argv", ["bin/schedlab", "bench", *words])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SchedlabError, match="not root") as refused:
        bench_verb.main(words, standalone_mode=False)
    program = tmp_path / "bin/schedlab"
    assert refused.value.hint == (
        f"sudo {program} bench tiny.toml --policies bfs,kernel --label 'two words'"
    )
