"""Points drawn from ranges of what an experiment varies, where a grid would be too large.

The same sample gives the same points wherever NumPy and SciPy have the same releases: they follow
from its seed alone. Other releases may draw others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from schedlab.errors import BadValue
from schedlab.values import Table, Value, numeric

if TYPE_CHECKING:
    import numpy as np

KINDS = ("latin-hypercube", "random")
POINTS_MAX = 1_000_000
SEED_MAX = 2**32 - 1
# Digits of a number that is not whole, where they tell points apart: short enough to read.
DIGITS = 6
# As many as tell any two numbers apart.
DIGITS_MAX = 17
BELOW_ONE = math.nextafter(1.0, 0.0)
RANGE_HINT = "write NAME = { low = 1, high = 200 }, also with step and log, or { values = […] }"


@dataclass(frozen=True)
class Range:
    """Values that a sample takes: from `low` to `high`, or one of `values`.

    Numbers are whole where both ends are, times are in nanoseconds, and `step` apart. With `log`
    each doubling is as likely as the next.
    """

    low: Value = 0
    high: Value = 0
    step: Value | None = None
    log: bool = False
    values: tuple[Value, ...] = ()

    @property
    def ends(self) -> tuple[Value, Value]:
        """The least value and the largest, or the first and the last."""
        return self.value(0.0), self.value(1.0)

    def value(self, share: float) -> Value:
        """The value so far along the range, for a share in [0, 1]."""
        share = min(share, BELOW_ONE)
        if self.values:
            return self.values[int(share * len(self.values))]
        low, high, step = self._numbers()
        if not step:
            found = low * (high / low) ** share if self.log else low + share * (high - low)
            return _short(min(max(found, low), high), low, high)
        # As they are written: 0.9 holds nine steps of 0.1, and less of what a computer keeps.
        nr_steps = int((_written(high) - _written(low)) // _written(step))
        at = int(share * (nr_steps + 1))
        if self.log:
            # Each value has the stretch around it, or the ends would come half as often.
            first, end = max(low - step / 2, low / 2), low + (nr_steps + 0.5) * step
            at = min(max(round((first * (end / first) ** share - low) / step), 0), nr_steps)
        number = low + at * step
        if isinstance(number, float):
            return float(_written(low) + at * _written(step))
        return f"{number}ns" if isinstance(self.low, str) else number

    def _numbers(self) -> tuple[float, float, float]:
        """Ends and step; a step of 0 where there is none. Times are whole nanoseconds."""
        is_time = isinstance(self.low, str)
        is_whole = is_time or (isinstance(self.low, int) and isinstance(self.high, int))
        numbers = [self.low, self.high, (int(is_whole) if self.step is None else self.step)]
        low, high, step = (round(numeric(one)) if is_time else one for one in numbers)
        return low, high, step


@dataclass(frozen=True)
class Sample:
    """`points` points in the space of these ranges, by name: spread evenly over each of them
    (latin-hypercube), or each by itself (random)."""

    kind: str
    points: int
    seed: int
    ranges: Mapping[str, Range]

    def drawn(self) -> np.ndarray:
        """Shares in [0, 1], a row a point and a column a range."""
        import numpy as np

        generator, size = np.random.default_rng(self.seed), len(self.ranges)
        if self.kind == "random":
            return generator.random((self.points, size))
        from scipy.stats import qmc

        return qmc.LatinHypercube(size, rng=generator).random(self.points)

    def point(self, shares: Sequence[float]) -> dict[str, Value]:
        """The values of a row of shares."""
        pairs = zip(self.ranges.items(), shares, strict=True)
        return {name: of.value(float(share)) for (name, of), share in pairs}


def place_of(name: str, sample: Sample | None) -> str:
    """Where the values of something that is varied were asked for."""
    return "[sample.ranges]" if sample and name in sample.ranges else "--vary"


def read(table: Table) -> Sample:
    """The sample that a table of an experiment file asks for; raises SchedlabError."""
    kind = table.text("kind", KINDS[0])
    if kind not in KINDS:
        table.refuse("kind", kind, "is no kind of sample", f"write {' or '.join(KINDS)}")
    points = table.number("points", None, 1, POINTS_MAX, whole=True)
    seed = table.number("seed", 1, 0, SEED_MAX, whole=True)
    given = table.table("ranges")
    table.refuse_others()
    if not given.given:
        table.refuse("ranges", {}, "is empty", RANGE_HINT)
    return Sample(kind, points, seed, {name: _range(given, name) for name in given.given})


def _written(number: float) -> Fraction:
    return Fraction(str(number))


def _short(number: float, low: float, high: float) -> float:
    """The number with as few digits as keep it inside its range and tell it from others there."""
    for digits in range(DIGITS, DIGITS_MAX):
        short = float(f"{number:.{digits}g}")
        if low <= short <= high and abs(short - number) <= (high - low) / 10 ** (DIGITS - 1):
            return short
    return number


def of_definition(sample: Mapping) -> Sample:
    """The sample that a store has the definition of."""
    ranges = {
        name: Range(**{**of, "values": tuple(of["values"])})
        for name, of in sample["ranges"].items()
    }
    return Sample(**{**sample, "ranges": ranges})


def _range(ranges: Table, name: str) -> Range:
    if not isinstance(ranges.given[name], dict):
        ranges.refuse(name, ranges.given[name], "is no range", RANGE_HINT)
    table = ranges.table(name)
    if "values" in table.given:
        values = table.values("values", RANGE_HINT)
        table.refuse_others()
        return Range(values=values)
    kinds = (int, float, str)
    ends = [table.get(key, kinds, "a number or a time", RANGE_HINT) for key in ("low", "high")]
    is_stepped = "step" in table.given
    step = table.get("step", kinds, "a number or a time", RANGE_HINT) if is_stepped else None
    log = table.flag("log")
    table.refuse_others()
    _refuse_no_numbers(table.place, [*ends, *[step] * is_stepped])
    low, high = map(numeric, ends)
    if low >= high:
        hint = "exchange both, or write one value under [with]"
        raise BadValue(f"{table.place}.high", ends[1], f"is not above low, {ends[0]}", hint)
    if log and low <= 0:
        hint = "give a low above 0, or leave out log"
        raise BadValue(f"{table.place}.low", ends[0], "is not above 0, as log needs", hint)
    if is_stepped and not 0 < numeric(step) <= high - low:
        hint = "give a smaller one, or leave it out"
        raise BadValue(f"{table.place}.step", step, "is not above 0 and at most high - low", hint)
    return Range(*ends, step, log)


def _refuse_no_numbers(place: str, given: Sequence[Value]) -> None:
    """Raises BadValue unless all are numbers, or all are times in whole nanoseconds."""
    for value in given:
        number = numeric(value)
        if (
            number is None
            or not math.isfinite(number)
            or isinstance(value, str) != isinstance(given[0], str)
        ):
            hint = "give numbers, or times such as 250us, all with their unit"
            raise BadValue(place, value, "is no number, or goes with another sort", hint)
        if isinstance(value, str) and number != round(number):
            raise BadValue(place, value, "is not a whole number of nanoseconds")
