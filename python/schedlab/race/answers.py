"""What heats say: who is fastest, and how far the next one and the exact time ring are from whom.

Times are compared within a heat only. Who is fastest has the smallest minimum, as whatever else a
machine does makes a time longer. The ratio of two structures is the median of the ratios of their
times in a round, so that what slows the whole machine for a while slows both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

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


@dataclass(frozen=True)
class HeatRow:
    """A structure in one heat, as the core gives it; times are in ticks of the heat's clock.

    `ticks_per_loop` has a time a round, none where it is `left_out`, which says why. `single` has
    the percentiles of the operations in `TIMED_ALONE`: of the last two together, and of each.
    """

    structure: str
    exact: bool
    source: str
    ticks_per_loop: Sequence[float]
    bytes_per_item: float
    instructions_per_loop: float | None
    cache_misses_per_loop: float | None
    single: Mapping | None
    left_out: str

    @cached_property
    def ticks(self) -> Estimate | None:
        """The median of its rounds; None without any."""
        return median_estimate(self.ticks_per_loop) if self.ticks_per_loop else None

    @property
    def fewest(self) -> float:
        """The shortest of its rounds."""
        return self.ticks.quantiles[0]

    @property
    def family(self) -> str:
        """Its name, or for each form of the exact time ring the name of that."""
        is_ours = self.structure in OURS_FORMS and self.source == OWN_SOURCE
        return OURS if is_ours else self.structure


@dataclass(frozen=True, slots=True)
class Compared:
    """How many times as long as `against` a structure takes; interval as of a median."""

    against: str
    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Standing:
    """A heat with what follows from it; who is not there, and a ratio to them, is None."""

    heat: Heat
    rows: Mapping[str, HeatRow]

    @cached_property
    def fastest(self) -> HeatRow | None:
        """The exact structure with the smallest minimum."""
        return self._fastest(lambda row: row.exact)

    @cached_property
    def next(self) -> HeatRow | None:
        """The fastest of the other exact structures, if it is no form of the same one."""
        first = self.fastest
        return first and self._fastest(lambda row: row.exact and row.family != first.family)

    @cached_property
    def next_to_fastest(self) -> Compared | None:
        """How many times as long the next one takes."""
        return compare(self.next, self.fastest)

    @cached_property
    def best_peer(self) -> HeatRow | None:
        """The fastest exact structure that is no form of the exact time ring."""
        return self._fastest(lambda row: row.exact and row.family != OURS)

    @cached_property
    def ratios(self) -> Mapping[str, Compared | None]:
        """How many times as long as others the exact time ring takes."""
        ours = self.rows.get(OURS)
        return {
            "best_exact_peer": compare(ours, self.best_peer),
            "red_black_tree": compare(ours, self.rows.get(RED_BLACK)),
            "gavl": compare(ours, self._fastest(lambda row: row.structure in GAVL_RIGHT)),
        }

    def _fastest(self, is_meant: Callable[[HeatRow], bool]) -> HeatRow | None:
        rows = [row for row in self.rows.values() if row.ticks is not None and is_meant(row)]
        return min(rows, key=lambda row: row.fewest, default=None)


def standings(heats: Sequence[Heat]) -> list[Standing]:
    """The heats of a race, each with what follows from it, in the same order."""
    names = [field.name for field in fields(HeatRow)]
    every = []
    for heat in heats:
        rows = [HeatRow(**{name: row[name] for name in names}) for row in heat.result["rows"]]
        every.append(Standing(heat, {row.structure: row for row in rows}))
    return every


def compare(one: HeatRow | None, other: HeatRow | None) -> Compared | None:
    """The first over the second, round by round; None where one of them has no times, or a 0."""
    if any(row is None or row.ticks is None or not row.fewest > 0 for row in (one, other)):
        return None
    if len(one.ticks_per_loop) != len(other.ticks_per_loop):
        # In the order A B C B A the middle one runs once a round and the others twice.
        return Compared(other.structure, one.ticks.median / other.ticks.median, None, None)
    pairs = zip(one.ticks_per_loop, other.ticks_per_loop, strict=True)
    ratio = median_estimate([mine / theirs for mine, theirs in pairs])
    return Compared(other.structure, ratio.median, ratio.low, ratio.high)
