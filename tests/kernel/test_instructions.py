"""Goal: `make instructions` compares only switches that are equal in a kernel and in the simulator,
tells where they are not, and fails only if too many policies are off or cannot be compared.

Method: timelines of two tasks that wake each other, written by hand. A stay that nobody was woken
in follows a preemption, and takes another time than the others. Nothing tells of the last one.
"""

import pytest
from instructions_in_kernels import (
    Switch,
    fitted,
    is_missed,
    less,
    play_that_counts,
    print_rows,
    switch_in_kernel,
)
from schedlab.kernel.agreement import Arm

STAY_NS, PREEMPTED_NS = 1_000, 5_000
WAKES_AFTER_NS = 500


def in_turn(blocking, preempting=0, stay_ns=STAY_NS):
    """So many switches at which a task blocks, having woken the other one; then so many of which
    each second preempts, so that only each second stay has a wake-up."""
    stays, wakeups, now = [], [(0, 1, 0, True), (0, 2, 0, True)], 0
    for nr in range(blocking + preempting):
        pid, ran_ns = 1 + nr % 2, stay_ns if nr < blocking else PREEMPTED_NS
        stays.append((now, now + ran_ns, 0, pid))
        if nr < blocking or pid == 1:
            wakeups.append((now + WAKES_AFTER_NS, 3 - pid, 0, False))
        now += ran_ns
    return Arm(stays, wakeups)


def test_equal_switches_are_measured_in_the_middle_of_the_play():
    assert switch_in_kernel(in_turn(400), in_turn(400, stay_ns=1_200)) == (1_200, "")


def test_where_the_kernel_preempts_later_on_the_switches_before_are_measured_and_it_is_told():
    took_ns, difference = switch_in_kernel(in_turn(1_000), in_turn(400, 600))
    assert took_ns == STAY_NS
    assert difference == (
        "differs: preempts in 299 of 1,000 switches in the kernel, in 0 of 1,000 switches in the"
        " simulator; from decision 401 on, at 0.405 ms"
    )


def test_who_preempts_from_the_beginning_cannot_be_compared():
    took_ns, difference = switch_in_kernel(in_turn(1_000), in_turn(10, 990))
    assert took_ns is None
    assert "preempts in 494 of 1,000 switches in the kernel" in difference


def test_some_preemptions_more_change_no_row():
    took_ns, difference = switch_in_kernel(in_turn(1_000), in_turn(990, 10))
    assert (took_ns, difference) == (STAY_NS, "")


@pytest.mark.parametrize(
    ("measures", "best", "told"),
    [
        ([(12.0, ""), (10.0, ""), (11.0, "")], 1, ""),
        ([(9.0, "differs"), (12.0, ""), (None, "more")], 1, "differs: 2 of 3 plays left out"),
        (
            [(None, "more"), (12.0, "less"), (11.0, "differs")],
            2,
            "differs: the row is of the switches before that",
        ),
        (
            [(None, "differs"), (None, "more")],
            0,
            "differs: too few switches before that, not compared",
        ),
    ],
)
def test_the_play_that_takes_least_counts_of_those_that_do_not_differ(measures, best, told):
    assert play_that_counts(measures) == (best, told)


def made(kernel, simulated, difference=""):
    return Switch(kernel, simulated, {"f": 1.0}, (1.0, 1.0), difference)


def test_a_policy_without_a_row_changes_no_other_one(capsys):
    probes = {"one": made(110.0, 100.0), "more": Switch(40.0, 0.0, {"f": 4.0}, (1.0, 1.0))}
    differs = less(made(None, 90.0, "differs: much"), made(5.0, 3.0))
    policies = {"alike": made(210.0, 200.0), "differs": differs}
    factor, costs = fitted(policies, probes)
    assert (factor, costs) == (pytest.approx(1.0), {"f": pytest.approx(10.0)})
    costs |= dict.fromkeys(("a branch", "a function of its own", "registers saved"), 0.0)
    policies["alike"].calls.update(dict.fromkeys(costs.keys() - {"f"}, 0.0))
    assert print_rows(policies, factor, costs) == [pytest.approx(0.0, abs=1e-9)]
    lines = capsys.readouterr().out.splitlines()
    assert "| `differs` | differs | | | | 87 | | not compared |" in lines
    assert lines[-1] == "differs differs: much"


@pytest.mark.parametrize(
    ("nr_policies", "offs", "missed"),
    [
        (9, [0.1] * 8 + [0.21], False),
        (9, [0.1] * 7 + [0.21, -0.16], True),
        (9, [0.1] * 7 + [0.21], False),
        (9, [0.1] * 7, True),
        (1, [0.07], False),
        (1, [0.21], True),
        (1, [], True),
    ],
)
def test_one_of_nine_may_be_off_and_one_may_have_no_row(nr_policies, offs, missed):
    assert is_missed(nr_policies, offs) is missed
