"""Goal: `schedlab agree --original` puts a policy beside the kernel's own scheduler of its name,
and its verdicts are those of the tolerances that docs/originals.md says.

Method: short timelines written by hand with known figures; wrong input; and one scenario that is
played by two kernels and simulated. Without QEMU, a kernel, clang or the guest the plays are
skipped, and say why.
"""

import json

import pytest
from booted_kernels import needed
from schedlab.errors import SchedlabError
from schedlab.kernel import conduct, originals
from schedlab.kernel.agreement import Arm
from schedlab.kernel.conduct import OPEN, OTHER, SAME, Conduct, compare_conduct, conduct_of

pytestmark = pytest.mark.qemu
NAMES = {1: "hog", 2: "sleeper"}


def figures(switches, delays_ns=(None,), **shares):
    return Conduct(switches, delays_ns, [shares for _ in switches])


# ---- figures ------------------------------------------------------------------------------------


def sleeper(delay_ns, nr_wakeups):
    """A hog, and a sleeper that is woken each 100 ns and runs 10 ns after `delay_ns`."""
    stays, wakeups, free_ns = [], [], 0
    for at_ns in range(100, 100 * (nr_wakeups + 1), 100):
        on_ns = at_ns + delay_ns
        stays += [(free_ns, on_ns, 0, 1), (on_ns, on_ns + 10, 0, 2)]
        wakeups.append((at_ns, 2, 0, False))
        free_ns = on_ns + 10
    return Arm(stays, wakeups)


def test_figures_are_those_of_the_timeline():
    found = conduct_of([sleeper(5, 10), sleeper(7, 10)], NAMES, is_stopped=True)
    assert found.switches == [20, 20]
    assert found.delays_ns == [5, 7]
    assert found.delay_ns_median == 6
    assert found.shares_percent[0]["sleeper"] == pytest.approx(100 * 100 / 1015)


def test_few_wake_ups_have_no_delay_and_tasks_that_end_have_no_shares():
    found = conduct_of([sleeper(5, conduct.WAKEUPS_MIN - 1)], NAMES, is_stopped=False)
    assert found.delay_ns_median is None
    assert found.share_percent_medians == {}
    likeness = compare_conduct(found, found)
    assert (likeness.verdict, likeness.share_points, likeness.delay_percent) == (SAME, None, None)


# ---- verdicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("switches", "verdict"), [(111, OTHER), (110, SAME), (100, SAME), (90, SAME), (89, OTHER)]
)
def test_switches_may_be_a_tenth_off(switches, verdict):
    likeness = compare_conduct(figures([100]), figures([switches]))
    assert likeness.verdict == verdict
    assert likeness.switches_percent == pytest.approx(switches - 100)


def test_of_few_switches_two_more_are_the_same():
    assert compare_conduct(figures([5]), figures([7])).verdict == SAME
    assert compare_conduct(figures([5]), figures([8])).differing == ("switches",)


def test_shares_may_be_half_a_point_off():
    original = figures([9], hog=60.0, sleeper=40.0)
    assert compare_conduct(original, figures([9], hog=60.5, sleeper=39.5)).verdict == SAME
    found = compare_conduct(original, figures([9], hog=60.6, sleeper=39.4))
    assert found.differing == ("shares",)
    assert found.share_points == pytest.approx(0.6)


def test_delays_may_be_a_fifth_off_or_what_sched_ext_takes():
    assert compare_conduct(figures([9], [2_000]), figures([9], [12_000])).verdict == SAME
    assert compare_conduct(figures([9], [2_000]), figures([9], [12_001])).differing == ("delay",)
    assert compare_conduct(figures([9], [1e6]), figures([9], [1.2e6])).verdict == SAME
    assert compare_conduct(figures([9], [1e6]), figures([9], [0.79e6])).differing == ("delay",)


def test_what_the_original_alone_spreads_over_is_open():
    original = figures([700, 900, 7_800], [None] * 3)
    assert compare_conduct(original, figures([3_900])).verdict == OPEN
    assert compare_conduct(original, figures([7_900])).verdict == OTHER


# ---- wrong input --------------------------------------------------------------------------------


def refusal(policy, wanted=("chain",), kernel=None):
    scenarios = originals.scenarios(wanted)
    with pytest.raises(SchedlabError) as refused:
        list(originals.judge(policy, scenarios, kernel, lambda _: None))
    return f"{refused.value}; {refused.value.hint}"


def test_a_policy_without_an_original_is_refused():
    assert "'bfs' has the name of no kernel's own scheduler" in refusal("bfs")
    assert "cfs@6.1 or eevdf@6.12" in refusal("bfs")
    assert "names no release of Linux" in refusal("cfs@cfs-devel")
    assert "unknown tunable set '6.2'" in refusal("cfs@6.2")


def test_a_kernel_that_is_not_there_is_refused():
    assert "5.10" in refusal("cfs@6.1", kernel="5.10")
    assert "'cfs@2.6.31' has no original here" in refusal("cfs@2.6.31")


def test_a_kernel_with_another_scheduler_is_refused():
    needed("6.1")
    text = refusal("eevdf", kernel="6.1")
    assert "'eevdf' has no original in kernel 6.1, whose own scheduler is cfs" in text


def test_an_unknown_scenario_is_refused():
    with pytest.raises(SchedlabError, match="unknown scenario 'chian': did you mean chain"):
        originals.scenarios(["chian"])


# ---- the real kernels ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "original", "scenario"),
    [("cfs@6.1", "6.1", "chain"), ("eevdf", "6.18", "preemption")],
)
def test_a_policy_does_what_the_kernels_own_scheduler_does(policy, original, scenario):
    needed(original)
    needed("6.18")
    wanted = originals.scenarios([scenario])
    [found] = originals.judge(policy, wanted, original, lambda _: None)
    in_kernel, simulated = found.beside
    assert (in_kernel.kernel, simulated.kernel) == ("6.18", None)
    assert [beside.likeness.verdict for beside in found.beside] == [SAME, SAME]
    assert in_kernel.first.agrees
    assert found.kernel.scheduler == policy.partition("@")[0]
    assert json.loads(json.dumps(found.as_json()))["original"]["kernel"] == original


def test_a_kernel_whose_requests_end_where_they_end_is_not_the_same():
    needed("7.3")
    wanted = originals.scenarios(["two_hogs"])
    [found] = originals.judge("eevdf", wanted, "7.3", lambda _: None)
    assert [one.likeness.differing for one in found.beside] == [("switches",), ("switches",)]
