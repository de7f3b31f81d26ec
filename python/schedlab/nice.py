"""What nice values promise: the weight of each, and the shares of CPU time that weights give."""

from collections.abc import Sequence

# CPU time is shared by these weights. Source: Linux kernel/sched/core.c, `sched_prio_to_weight`.
NICE_LOWEST = -20
NICE_WEIGHTS = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip


def weight_of(nice: int) -> int:
    """The weight of a task with this nice value, -20 to 19; 1024 at nice 0."""
    return NICE_WEIGHTS[nice - NICE_LOWEST]


def fair_shares(weights: Sequence[int], nr_cpus: int) -> list[float]:
    """What each of these tasks gets of all CPU time that they get; the sum is 1.

    A task runs on one CPU at a time. One whose weight promises more than a CPU gets a whole one,
    and the others share what is left by their weights. The tasks never sleep and may run on every
    CPU; weights are above 0, CPUs at least one.

    Source: A. Chandra, M. Adler, P. Goyal, P. Shenoy, "Surplus fair scheduling: a
    proportional-share CPU scheduling algorithm for symmetric multiprocessors", OSDI 2000: weights
    that are feasible.
    """
    cpus_left, weight_left = nr_cpus, sum(weights)
    cpus = [0.0] * len(weights)
    for task in sorted(range(len(weights)), key=lambda task: -weights[task]):
        if cpus_left and weights[task] * cpus_left >= weight_left:
            cpus[task] = 1.0
            cpus_left -= 1
            weight_left -= weights[task]
        else:
            cpus[task] = weights[task] * cpus_left / weight_left
    return [of_task / sum(cpus) for of_task in cpus]
