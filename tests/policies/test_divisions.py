"""Goal: a policy divides as often as the release that it is named after, and not more.

Method: the profile of lat_ctx, in which two tasks do next to nothing but switch, beside what the
release's source divides: Linux 2.6.22 kernel/sched.c, schedule: a run by the bonus; 2.6.23
kernel/sched.c, calc_delta_mine: an inverse each time that the load has changed, which it does when
a task wakes up and when one sleeps, and kernel/sched_fair.c, __check_preempt_curr_fair: the latency
by the number of tasks at each wake-up.
"""

import pytest
from schedlab import catalogue

# Under 2.6.23 every second switch is a wake-up that preempts, see docs/experiments.md.
DIVISIONS_A_SWITCH = {"o1@2.6.22": 1, "cfs_2007@2.6.23": (2 + 1) / 2, "cfs@cfs-devel": 0}
# Ticks divide, too.
MORE_MAX = 0.05


@pytest.mark.parametrize("label", DIVISIONS_A_SWITCH)
def test_a_switch_of_lat_ctx_divides_as_often_as_in_linux(label):
    path, set_name = catalogue.find_policy(label)
    policy = catalogue.load_policy(path)
    machine = catalogue.load_machine(catalogue.find(catalogue.MACHINES, "duron-600"))
    workload = catalogue.load_workload(
        catalogue.find(catalogue.WORKLOADS, "lat_ctx"), {"rounds": "1000"}
    )
    values = catalogue.values_of_set(policy, set_name)
    result = catalogue.native().simulate(policy, machine, workload, 1, values, profile=True)
    more = result["profile"]["divisions"] / result["switches"] - DIVISIONS_A_SWITCH[label]
    assert 0 <= more < MORE_MAX
