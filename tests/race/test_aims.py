"""Goal: an aim of the exact time ring is met, lost or open as its ratio says.

Method: heats made up so that each ratio is known by hand, as `schedlab race --json` tells them.
"""

import json

import pytest
from made_heats import MACHINE, heat, rounds, row
from race_aims import AimState, aims_of, told
from schedlab.race import plan, table
from schedlab.race.answers import standings


def aims(*heats):
    told = table.race_json(standings(heats), MACHINE, [])
    return list(aims_of(json.loads(json.dumps(told))["heats"]))


def states(rows, **spec):
    """The state of each aim by its last word, of one heat."""
    return {aim.what.split()[-1]: aim.state for aim in aims(heat(rows, **spec))}


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ({"n": 1}, 1.0),
        ({"n": 2}, 0.75),
        ({"n": 3}, None),
        ({"n": 4}, 0.5),
        ({"n": 1_000_000}, 0.5),
        ({"n": 1_000, "keys": "biased"}, 0.5),
        ({"n": 1_000, "keys": "constant"}, 1.0),
        ({"n": 1, "keys": "constant"}, 1.0),
        ({"n": 100, "workload": "hold_remove"}, 0.4),
        ({"n": 64, "workload": "cold", "queues": 4096}, 1.0),
        ({"n": 10, "workload": "cold", "queues": 16384}, None),
        ({"n": 100, "workload": "markov"}, None),
    ],
)
def test_the_aim_against_the_best_exact_peer(spec, limit):
    for factor, expected in ((0.99, AimState.MET), (1.01, AimState.LOST)):
        ours = 100 * (limit or 1) * factor
        rows = {"exact_time_ring": rounds(ours), "pairing_heap": rounds(100.0)}
        assert states(rows, **spec) == ({"pairing_heap": expected} if limit else {})


@pytest.mark.parametrize(
    ("n", "limit"), [(4, None), (8, 0.25), (10_000, 0.25), (100_000, 0.06), (1_000_000, 0.25)]
)
def test_the_aim_against_both_trees(n, limit):
    trees = {"red_black_tree": rounds(100.0), "gavl_tree": rounds(100.0)}
    for factor, expected in ((0.99, AimState.MET), (1.01, AimState.LOST)):
        ours = rounds(100 * (limit or 1) * factor)
        found = aims(heat({"exact_time_ring": ours, **trees}, n=n))
        of_trees = {aim.what: aim.state for aim in found if aim.what in trees}
        assert of_trees == (dict.fromkeys(trees, expected) if limit else {})


def test_an_interval_around_the_aim_or_none_decides_nothing():
    around = [40.0, 45.0, 49.0, 49.5, 50.5, 51.0, 52.0, 55.0, 60.0]
    few = rounds(10.0, nr=5)
    for ours, peer in ((around, rounds(100.0)), (few, rounds(100.0, nr=5))):
        rows = {"exact_time_ring": ours, "pairing_heap": peer}
        assert states(rows) == {"pairing_heap": AimState.OPEN}


def test_a_round_that_took_no_time_has_no_aim():
    rows = {"exact_time_ring": rounds(0.0, 5.0), "red_black_tree": rounds(40.0, 0.0)}
    assert aims(heat(rows, n=10), heat(rows, n=10, keys="ties")) == []
    single = {"p50": 0, "p99": 0, "p999": 0, "max": 0}
    alone = [row(name, rounds(0.0), single=single) for name in rows]
    assert aims(heat(alone, workload="single")) == []


def test_ties_are_compared_with_the_uniform_heat_of_the_same_size():
    ring = {"exact_time_ring": rounds(100.0)}
    tied = {"exact_time_ring": rounds(140.0)}
    heats = [heat(ring, n=10), heat(ring, n=100), heat(tied, n=100, keys="ties")]
    [aim] = aims(*heats)
    assert (aim.ratio, aim.limit, aim.state) == (1.4, 1.3, AimState.LOST)
    assert aims(*heats[2:]) == []


@pytest.mark.parametrize("workload", plan.TIMED_ALONE)
def test_the_tail_of_single_operations_is_compared_with_the_tree(workload):
    def single(p999):
        return {"p50": 1.0, "p99": 2.0, "p999": p999, "max": 1e6}

    rows = [
        row("exact_time_ring", rounds(9.0), single=single(800.0)),
        row("red_black_tree", rounds(9.0), single=single(1000.0)),
    ]
    [aim] = aims(heat(rows, workload=workload))
    # There is no interval of a tail, so nothing is decided.
    assert (aim.ratio, aim.state) == (0.8, AimState.OPEN)
    assert told([aim]) == (
        "aims: 0 met, 0 lost, 1 cannot tell\n"
        f"cannot tell: {workload}, uniform keys, n = 100: 0.800 (no interval) × 99.9 % of single"
        " operations of red_black_tree; aim ≤ 1"
    )
