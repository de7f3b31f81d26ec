"""Goal: the first decision in which two arms differ is found, and simulator and kernel have none
where docs/agreement.md says so.

Method: short timelines written by hand with known decisions; random schedules that must agree with
themselves, and must not once one choice is changed; and one boot of a real kernel for each policy
of a sound subset. Without QEMU, a kernel, clang or the guest the boots are skipped, and say why.
"""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedlab import catalogue, programs
from schedlab.errors import SchedlabError
from schedlab.kernel import agreement, referee
from schedlab.kernel.agreement import Arm, compare, decisions

pytestmark = pytest.mark.qemu


def arm(*stays, wakeups=(), exits_ns=None):
    """Stays as (from, to, pid), wake-ups as (at, pid), all on CPU 0."""
    return Arm(
        [(a, b, 0, pid) for a, b, pid in stays],
        [(at, pid, 0, False) for at, pid in wakeups],
        exits_ns or {},
    )


# ---- decisions ----------------------------------------------------------------------------------


def test_a_task_that_was_woken_before_it_ran_again_had_blocked():
    found = decisions(arm((0, 5, 1), (5, 9, 2), (9, 12, 1), wakeups=[(7, 1)]))
    assert [(d.chosen, d.left) for d in found] == [
        (1, "unknown"),
        (2, "blocked"),
        (1, "unknown"),
    ]


def test_a_task_that_ran_again_without_being_woken_was_preempted():
    found = decisions(arm((0, 5, 1), (5, 9, 2), (9, 12, 1)))
    assert found[1].left == "preempted"
    assert found[1].waiting == (1,)


def test_those_wait_in_front_who_became_runnable_first():
    stays = [(2, 5, 1), (5, 9, 2), (9, 12, 3)]
    found = decisions(arm(*stays, wakeups=[(0, 1), (1, 3), (1, 2)]))
    assert [d.waiting for d in found] == [(2, 3), (3,), ()]


def test_whom_a_stranger_interrupts_was_not_decided_about():
    found = decisions(arm((0, 5, 1), (7, 9, 1), (9, 12, 2), (12, 13, 1)))
    assert [(d.chosen, d.ran_ns) for d in found] == [(1, 7), (2, 3), (1, 1)]


def test_who_sleeps_and_is_the_next_again_was_decided_about_twice():
    found = decisions(arm((0, 5, 1), (7, 9, 1), wakeups=[(6, 1)]))
    told = [(d.chosen, d.left, d.others_ns) for d in found]
    assert told == [(1, "unknown", 0), (1, "blocked", 2)]


def test_what_a_dead_task_still_runs_is_left_out():
    stays = [(0, 5, 1), (5, 6, 2), (6, 7, 1), (7, 9, 2)]
    found = decisions(arm(*stays, exits_ns={1: 4}))
    assert [d.chosen for d in found] == [1, 2]
    assert len(decisions(arm(*stays))) == 4


# ---- comparing ----------------------------------------------------------------------------------


def test_times_may_differ_and_order_may_not():
    ours = arm((0, 5, 1), (5, 9, 2), (9, 12, 1))
    slower = arm((1, 8, 1), (9, 15, 2), (16, 20, 1))
    assert compare(ours, slower, is_stopped=False).agrees
    other = arm((1, 8, 1), (9, 15, 3), (16, 20, 1))
    assert compare(ours, other, is_stopped=False).differs_at == 1


def test_the_same_task_after_another_kind_of_leaving_is_a_difference():
    stays = [(0, 5, 1), (5, 9, 2), (9, 12, 1)]
    found = compare(arm(*stays), arm(*stays, wakeups=[(6, 1)]), is_stopped=False)
    assert found.differs_at == 1
    text = "\n".join(agreement.story(found, {1: "hog", 2: "sleeper"}))
    assert "sleeper[2] after hog[1] preempted" in text
    assert "sleeper[2] after hog[1] blocked" in text


def test_only_a_stopped_workload_may_lack_its_last_decisions():
    ours = arm((0, 5, 1), (5, 9, 2), (9, 12, 1))
    theirs = arm((0, 5, 1), (5, 9, 2))
    assert compare(ours, theirs, is_stopped=True).agrees
    ended = compare(ours, theirs, is_stopped=False)
    assert ended.differs_at == 2
    assert "no more decisions" in agreement.story(ended, {})[-1]


def test_shares_are_of_the_tasks_own_time():
    found = compare(arm((0, 30, 1), (30, 40, 2)), arm((0, 60, 1), (90, 110, 2)), is_stopped=True)
    assert found.shares_percent == {1: (75, 75), 2: (25, 25)}
    assert found.share_difference_percent == 0


@st.composite
def schedules(draw):
    """Stays without gaps of up to five tasks, none twice in a row, and some wake-ups."""
    steps = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), min_size=2))
    pid, at_ns, stays = 0, 0, []
    for skip, length_ns in steps:
        pid = (pid + skip) % 5
        stays.append((at_ns, at_ns + length_ns, pid))
        at_ns += length_ns
    wakeups = draw(st.lists(st.tuples(st.integers(0, at_ns), st.integers(0, 4))))
    return stays, wakeups


@given(schedules(), st.data())
def test_a_schedule_agrees_with_itself_and_with_no_other_choice(schedule, data):
    stays, wakeups = schedule
    ours = arm(*stays, wakeups=wakeups)
    assert compare(ours, ours, is_stopped=False).agrees
    assert len(decisions(ours)) == len(stays)
    at = data.draw(st.integers(0, len(stays) - 1))
    from_ns, to_ns, _ = stays[at]
    changed = [*stays[:at], (from_ns, to_ns, 9), *stays[at + 1 :]]
    found = compare(ours, arm(*changed, wakeups=wakeups), is_stopped=False)
    # Who left at `at` may be known no more, or otherwise; the choice itself is what differs.
    assert found.differs_at is not None
    assert found.differs_at <= at


# ---- the real kernel ----------------------------------------------------------------------------

CALM = ("chain", "first_runs", "ping_pong", "preemption", "yields")
HOGS = ("two_hogs", "three_hogs", "nice_shares")
# What agrees whatever a system call costs; why the others do not is in docs/agreement.md.
SOUND = {
    "fifo": (*CALM, *HOGS, "sleepers", "forks", "mixed"),
    "round_robin": (*CALM, *HOGS, "sleepers", "mixed"),
    "linux_2_4": (*CALM, *HOGS, "sleepers"),
    "o1": (*CALM, *HOGS, "sleepers", "forks"),
    "cfs_2007": ("chain", "first_runs", "forks", "ping_pong", "yields"),
    "rfs": CALM,
    "cfs": (*CALM, "sleepers"),
    "cfs_gavl": (*CALM, "sleepers"),
    "timering": CALM,
    "bfs": (*CALM, *HOGS),
    "eevdf": ("chain", "first_runs", "preemption"),
}
SHARES = "nice_shares"


def laboratory_lacks():
    """Why no kernel can be booted here; empty if one can."""
    if not shutil.which("qemu-system-x86_64"):
        return "no QEMU"
    try:
        programs.GUEST.find()
        catalogue.native().kernels_find(str(catalogue.kernels_directory()), referee.KERNEL)
    except (SchedlabError, catalogue.native().NativeError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("policy", SOUND)
def test_simulator_and_kernel_decide_alike(policy):
    lacking = laboratory_lacks()
    if lacking:
        pytest.skip(lacking)
    source = catalogue.find(catalogue.POLICIES, policy)
    # Shares of CPU time are equal for every policy, also where the order of decisions is not.
    names = dict.fromkeys((*SOUND[policy], SHARES))
    verdicts = referee.judge(source, [catalogue.find(referee.SCENARIOS, name) for name in names])
    for name, verdict in zip(names, verdicts, strict=True):
        found = verdict.comparison
        if name in SOUND[policy]:
            assert found.agrees, "\n".join(agreement.story(found, verdict.names))
        if name == SHARES:
            assert found.share_difference_percent <= agreement.SHARE_TOLERANCE_PERCENT
        assert found.played


def test_an_object_of_anybody_is_judged_as_its_source_is(tmp_path):
    lacking = laboratory_lacks()
    if lacking:
        pytest.skip(lacking)
    built = catalogue.load_policy(catalogue.find(catalogue.POLICIES, "round_robin")).object_path
    theirs = shutil.copy(built, tmp_path / "theirs.bpf.o")
    [verdict] = referee.judge(theirs, [catalogue.find(referee.SCENARIOS, "chain")])
    assert verdict.policy == "theirs"
    assert verdict.comparison.agrees, "\n".join(agreement.story(verdict.comparison, verdict.names))
