"""What a machine differs from itself by: the noise floor of a comparison.

Between two occasions, boots or sessions, memory layout, heat and what else a machine does differ
though nothing was changed, and an interval that counts runs does not hold that. So the same setup
is compared with itself (an A/A test) by the means of its occasions. Where nothing was measured
twice the halves of each series stand in: they show drift within a session, and nothing of what
another boot would be.

The floor is the critical difference of two means of so many occasions: two measurements of one
setup, made as these were, differ by less in 95 of 100 cases. It is known as well as there are
occasions, so Student's quantile takes the place of the normal one: of two occasions it is large.

Source: ISO 5725-6:1994, "Accuracy of measurement methods and results", part 6, section 4.2 (the
critical difference, 1.96 s sqrt(1 / n1 + 1 / n2)); Student's t for an s of few occasions.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from schedlab.statistics.estimates import CHANGE_MAX, RUNS_FOR_INTERVAL_MIN, student_quantile
from schedlab.statistics.samples import Sample, does_not_vary, grouped


class Null(StrEnum):
    """What was compared with itself."""

    OCCASIONS = "occasions"
    HALVES = "halves"


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """`change` is relative, 0.02 is 2 %: as much longer, or as much shorter as that is a factor."""

    change: float
    of: Null


def noise_floor(
    a: ArrayLike,
    b: ArrayLike,
    occasions_a: Sequence[Hashable],
    occasions_b: Sequence[Hashable],
    centre: Callable[[Sample], float] = np.mean,
) -> NoiseFloor | None:
    """By how much two samples made like these differ where nothing does.

    a and b are positive times in one unit, in the order in which they were made, each run with its
    occasion. `centre` is taken of the logarithms of an occasion: the median where medians are
    compared. None if no sample has two occasions, or halves of `RUNS_FOR_INTERVAL_MIN` runs.
    """
    of_a, of_b = _parts("a", a, occasions_a), _parts("b", b, occasions_b)
    kind = Null.OCCASIONS
    if len(of_a) < 2 and len(of_b) < 2:
        of_a, of_b, kind = _halves(of_a[0]), _halves(of_b[0]), Null.HALVES
    degrees = len(of_a) + len(of_b) - 2
    if degrees < 1:
        return None
    centres = [np.array([float(centre(part)) for part in of]) for of in (of_a, of_b)]
    squares = sum(0.0 if does_not_vary(of, 1.0) else float(np.var(of) * of.size) for of in centres)
    error = math.sqrt(squares / degrees * (1 / len(of_a) + 1 / len(of_b)))
    limit = student_quantile(degrees) * error
    return NoiseFloor(math.expm1(min(limit, math.log(CHANGE_MAX))), kind)


def _parts(name: str, values: ArrayLike, occasions: Sequence[Hashable]) -> list[Sample]:
    return [np.log(of) for of in grouped(name, values, "occasions", occasions).values()]


def _halves(logs: Sample) -> list[Sample]:
    return np.array_split(logs, 2) if logs.size >= 2 * RUNS_FOR_INTERVAL_MIN else [logs]
