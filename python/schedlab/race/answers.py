"""What heats say: who is fastest, how far the exact time ring is from the others, and its aims.

Times are compared within a heat only. Who is fastest has the smallest minimum, because whatever
else a machine does makes a time longer and never shorter. The ratio of two structures is the
median, over the rounds, of the ratio of their times in that round, so that what slows the whole
machine for a while slows both. An aim is met if the whole interval of its ratio is, lost if none
of it is; where there is no interval nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from schedlab.race.plan import Heat
from schedlab.statistics.estimates import Estimate, median_estimate

OURS = "exact_time_ring"
# The source of the queues of this project: a plug-in's name makes none of them.
OWN_SOURCE = "schedlab"
RED_BLACK = "red_black_tree"
GAVL = "gavl_tree"
GAVL_PUBLISHED = "gavl_tree_published"
GAVL_RIGHT = (GAVL, "gavl_tree_delete")
OURS_FORMS = tuple(OURS + form for form in ("", "_scalar", "_avx2", "_avx512"))
TIME_RING = "time_ring"

# The aims of the exact time ring: its time at most so many times that of the best exact peer.
AIM_USUAL, AIM_ONE, AIM_TWO, AIM_CONSTANT = 0.5, 1.0, 0.75, 1.0
AIM_REMOVE, AIM_COLD, AIM_TAIL = 0.4, 1.0, 1.0
AIM_TIES_OF_UNIFORM = 1.3
COLD_SIZE_OF_AIM = 64
# And that of the red-black tree and of the GAVL tree, on uniform keys.
AIM_TREE, TREE_SIZE_MIN = 0.25, 8
AIM_TREE_LARGE, TREE_SIZE_OF_LARGE = 0.06, 100_000


class Verdict(StrEnum):
    """What may be said of an aim."""

    MET = "met"
    LOST = "lost"
    OPEN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Row:
    """A structure in one heat; times in ticks of `Standing.clock`.

    `ticks` is None where it does not take part, and `left_out` then says why. `single` has the
    percentiles of single operations, in ticks, in the workloads of `TIMED_ALONE` only: of the last
    two together, and under their names those of each.
    """

    structure: str
    is_exact: bool
    source: str
    rounds: tuple[float, ...]
    ticks: Estimate | None
    bytes_per_item: float | None
    instructions: float | None
    cache_misses: float | None
    single: Mapping | None
    left_out: str

    @property
    def fewest(self) -> float:
        """The shortest of its rounds."""
        return self.ticks.quantiles[0]

    @property
    def is_ours(self) -> bool:
        """Whether it is the exact time ring in one of its forms."""
        return self.structure in OURS_FORMS and self.source == OWN_SOURCE


@dataclass(frozen=True, slots=True)
class Compared:
    """How many times as long as `against` the exact time ring takes; interval as of a median."""

    against: str
    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Aim:
    """What the exact time ring is to reach at one size, and whether it does."""

    what: str
    limit: float
    found: Compared
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Standing:
    """A heat with what follows from it; each comparison is None where a side is missing."""

    heat: Heat
    rows: Mapping[str, Row]
    best_peer: Row | None
    to_peer: Compared | None
    to_red_black: Compared | None
    to_gavl: Compared | None
    aims: tuple[Aim, ...]

    @property
    def fastest(self) -> Row | None:
        """The exact structure with the smallest minimum."""
        return _fastest(row for row in self.rows.values() if _is_rival(row))

    @property
    def verdict(self) -> Verdict | None:
        """Of all aims at this size: lost if one is, met if all are; None if there is no aim."""
        return worst(aim.verdict for aim in self.aims)


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict on all of them together."""
    found = set(verdicts)
    return next((v for v in (Verdict.LOST, Verdict.OPEN, Verdict.MET) if v in found), None)


def standings(heats: Sequence[Heat]) -> list[Standing]:
    """The heats of a race, each with what follows from it, in the same order."""
    uniform = {
        heat.asked.n: rows_of(heat).get(OURS)
        for heat in heats
        if (heat.asked.workload, heat.asked.keys) == ("hold", "uniform")
    }
    return [_standing(heat, uniform.get(heat.asked.n)) for heat in heats]


def rows_of(heat: Heat) -> dict[str, Row]:
    """The rows of a heat by the structures' names, in the core's order."""
    return {row["structure"]: _row(row) for row in heat.result["rows"]}


def _row(found: Mapping) -> Row:
    rounds = tuple(float(ticks) for ticks in found["ticks_per_loop"])
    return Row(
        structure=found["structure"],
        is_exact=found["exact"],
        source=found["source"],
        rounds=rounds,
        ticks=median_estimate(rounds) if rounds else None,
        bytes_per_item=None if found["left_out"] else found["bytes_per_item"],
        instructions=found["instructions_per_loop"],
        cache_misses=found["cache_misses_per_loop"],
        single=found["single"],
        left_out=found["left_out"],
    )


def _is_rival(row: Row) -> bool:
    return row.is_exact and row.ticks is not None


def _fastest(rows: Iterable[Row]) -> Row | None:
    return min(rows, key=lambda row: row.fewest, default=None)


def _standing(heat: Heat, own_uniform: Row | None) -> Standing:
    rows = rows_of(heat)
    ours = rows.get(OURS)
    peer = _fastest(row for row in rows.values() if _is_rival(row) and not row.is_ours)
    gavl = _fastest(
        row for name, row in rows.items() if name in GAVL_RIGHT and row.ticks is not None
    )
    to_peer, to_red_black = compare(ours, peer), compare(ours, rows.get(RED_BLACK))
    to_gavl = compare(ours, gavl)
    aims = _aims(heat, rows, to_peer, (to_red_black, to_gavl), own_uniform)
    return Standing(heat, rows, peer, to_peer, to_red_black, to_gavl, tuple(aims))


def compare(ours: Row | None, other: Row | None) -> Compared | None:
    """The first over the second, round by round; None where one of them has no times, or a 0."""
    if ours is None or other is None or ours.ticks is None or other.ticks is None:
        return None
    if not all(ticks > 0 for ticks in (*ours.rounds, *other.rounds)):
        return None  # The clock was too coarse; the notes say so.
    if len(ours.rounds) != len(other.rounds):
        # In the order A B C B A the middle one runs once a round and the others twice.
        return Compared(other.structure, ours.ticks.median / other.ticks.median, None, None)
    found = median_estimate(np.asarray(ours.rounds) / np.asarray(other.rounds))
    return Compared(other.structure, found.median, found.low, found.high)


# ---- aims ---------------------------------------------------------------------------------------


def _aims(
    heat: Heat,
    rows: Mapping[str, Row],
    to_peer: Compared | None,
    to_trees: Sequence[Compared | None],
    own_uniform: Row | None,
) -> Iterable[Aim]:
    workload, keys, n = heat.asked.workload, heat.asked.keys, heat.asked.n
    if heat.asked.is_timed_alone:
        yield from _tail_aims(rows)
        return
    limit = _peer_limit(workload, keys, n)
    if limit is not None and to_peer is not None:
        yield _aim("best exact peer", limit, to_peer)
    if workload != "hold":
        return
    if keys == "ties":
        yield from _ties_aims(rows.get(OURS), own_uniform)
    if keys == "uniform" and n >= TREE_SIZE_MIN:
        limit = AIM_TREE_LARGE if n == TREE_SIZE_OF_LARGE else AIM_TREE
        for compared in filter(None, to_trees):
            yield _aim(compared.against, limit, compared)


def _peer_limit(workload: str, keys: str, n: int) -> float | None:
    """At most so many times the time of the best exact peer; None where nothing is aimed at."""
    if workload == "hold_remove":
        return AIM_REMOVE
    if workload == "cold":
        return AIM_COLD if n == COLD_SIZE_OF_AIM else None
    if workload != "hold" or keys == "ties":
        return None
    if keys == "constant":
        return AIM_CONSTANT
    return {1: AIM_ONE, 2: AIM_TWO}.get(n, AIM_USUAL if n >= 4 else None)


def _ties_aims(ours: Row | None, own_uniform: Row | None) -> Iterable[Aim]:
    """Against itself in another heat, so that the bounds are those of both together."""
    if not (ours and own_uniform and ours.ticks and own_uniform.ticks):
        return
    if not (ours.fewest > 0 and own_uniform.fewest > 0):
        return
    tied, plain = ours.ticks, own_uniform.ticks
    bounded = None not in (tied.low, plain.low)
    low = tied.low / plain.high if bounded else None
    high = tied.high / plain.low if bounded else None
    found = Compared("itself on uniform keys", tied.median / plain.median, low, high)
    yield _aim(found.against, AIM_TIES_OF_UNIFORM, found)


def _tail_aims(rows: Mapping[str, Row]) -> Iterable[Aim]:
    ours, tree = (rows.get(name) for name in (OURS, RED_BLACK))
    if ours and tree and ours.single and tree.single and tree.single["p999"] > 0:
        ratio = ours.single["p999"] / tree.single["p999"]
        found = Compared(RED_BLACK, ratio, None, None)
        yield _aim(f"99.9 % of single operations of {RED_BLACK}", AIM_TAIL, found)


def _aim(what: str, limit: float, found: Compared) -> Aim:
    """Without an interval, as of fewer than six rounds or of tails, nothing is decided."""
    verdict = Verdict.OPEN
    if found.low is not None and found.high is not None:
        is_met, is_lost = found.high <= limit, found.low > limit
        verdict = Verdict.MET if is_met else Verdict.LOST if is_lost else Verdict.OPEN
    return Aim(what, limit, found, verdict)
