"""Whether the exact time ring reaches its aims, of a race that `schedlab race --json` told.

`make bench-race` runs it. An aim is how many times as long as something else it may take at one
size. It is met if the whole interval of that ratio is within it, lost if none of it is; where there
is no interval nobody can tell. Prints how many are met and each that is not.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

OURS, RED_BLACK = "exact_time_ring", "red_black_tree"

# At most so many times the time of the best exact peer.
USUAL, ONE_ITEM, TWO_ITEMS, CONSTANT_KEYS = 0.5, 1.0, 0.75, 1.0
REMOVALS, COLD, COLD_SIZE = 0.4, 1.0, 64
# Of the red-black tree's and of the GAVL tree's, on uniform keys; with 100,000 items less.
TREE, TREE_SIZE_MIN = 0.25, 8
TREE_LARGE, TREE_SIZE_LARGE = 0.06, 100_000
# Of its own time on uniform keys, and of the red-black tree's tail of single operations.
TIES, TAIL = 1.3, 1.0


class AimState(StrEnum):
    """What may be said of an aim."""

    MET = "met"
    LOST = "lost"
    OPEN = "cannot tell"


@dataclass(frozen=True)
class Aim:
    """What is to be reached in one heat, and the ratio that was found, with its interval."""

    place: str
    what: str
    limit: float
    ratio: float
    low: float | None = None
    high: float | None = None

    @property
    def state(self) -> AimState:
        """Whether it is met."""
        if self.low is None or self.high is None:
            return AimState.OPEN
        if self.high <= self.limit:
            return AimState.MET
        return AimState.LOST if self.low > self.limit else AimState.OPEN

    def __str__(self) -> str:
        bounds = "no interval" if self.low is None else f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.place}: {self.ratio:.3f} ({bounds}) × {self.what}; aim ≤ {self.limit:g}"


def aims_of(heats: Sequence[Mapping]) -> Iterator[Aim]:
    """The aims of every heat of a race, as far as what they compare took part."""
    uniform = {
        heat["spec"]["n"]: ticks_of(heat)
        for heat in heats
        if (heat["spec"]["workload"], heat["spec"]["keys"]) == ("hold", "uniform")
    }
    for heat in heats:
        workload, keys, n = (heat["spec"][name] for name in ("workload", "keys", "n"))
        place = f"{workload}, {keys} keys, n = {n}"
        if workload in ("single", "single_remove"):
            yield from tail_aims(heat, place)
            continue
        limit, peer = peer_limit(workload, keys, n), heat["ratios"]["best_exact_peer"]
        if limit is not None and peer:
            yield aim_of(place, f"the best exact peer, {peer['against']}", limit, peer)
        if (workload, keys) == ("hold", "ties"):
            yield from ties_aims(ticks_of(heat), uniform.get(n), place)
        if (workload, keys) == ("hold", "uniform") and n >= TREE_SIZE_MIN:
            limit = TREE_LARGE if n == TREE_SIZE_LARGE else TREE
            for tree in filter(None, (heat["ratios"]["red_black_tree"], heat["ratios"]["gavl"])):
                yield aim_of(place, tree["against"], limit, tree)


def aim_of(place: str, what: str, limit: float, ratio: Mapping) -> Aim:
    return Aim(place, what, limit, ratio["ratio"], ratio["low"], ratio["high"])


def peer_limit(workload: str, keys: str, n: int) -> float | None:
    """At most so many times the time of the best exact peer; None where nothing is aimed at."""
    if workload == "hold_remove":
        return REMOVALS
    if workload == "cold":
        return COLD if n == COLD_SIZE else None
    if workload != "hold" or keys == "ties":
        return None
    if keys == "constant":
        return CONSTANT_KEYS
    return {1: ONE_ITEM, 2: TWO_ITEMS}.get(n, USUAL if n >= 4 else None)


def row_of(heat: Mapping, structure: str) -> Mapping:
    rows = (row for row in heat["rows"] if row["structure"] == structure)
    return next(rows, {})


def ticks_of(heat: Mapping) -> Mapping | None:
    """What a loop of the ring took."""
    return row_of(heat, OURS).get("ticks")


def ties_aims(tied: Mapping | None, plain: Mapping | None, place: str) -> Iterator[Aim]:
    """Against itself in another heat, so that the bounds are those of both together."""
    if not (tied and plain and tied["min"] > 0 and plain["min"] > 0):
        return
    low = high = None
    if None not in (tied["low"], plain["low"]):
        low, high = tied["low"] / plain["high"], tied["high"] / plain["low"]
    ratio = tied["median"] / plain["median"]
    yield Aim(place, "itself on uniform keys", TIES, ratio, low, high)


def tail_aims(heat: Mapping, place: str) -> Iterator[Aim]:
    ours, tree = (row_of(heat, name).get("single") for name in (OURS, RED_BLACK))
    if ours and tree and tree["p999"] > 0:
        what = f"99.9 % of single operations of {RED_BLACK}"
        yield Aim(place, what, TAIL, ours["p999"] / tree["p999"])


def told(aims: Iterable[Aim]) -> str:
    """How many aims are met, and each that is not."""
    aims = list(aims)
    counts = Counter(aim.state for aim in aims)
    lines = ["aims: " + ", ".join(f"{counts[state]} {state}" for state in AimState)]
    return "\n".join([*lines, *(f"{aim.state}: {aim}" for aim in aims if aim.state != "met")])


if __name__ == "__main__":
    print(told(aims_of(json.load(sys.stdin)["heats"])))
