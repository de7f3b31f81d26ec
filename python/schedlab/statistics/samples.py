"""What a sample of runs must be before anything is computed of it.

Measurements come from files and programs: a bad value is the world's doing, and a BadValue.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from schedlab.errors import BadValue

_ROUNDING = 64 * np.finfo(np.float64).eps

Sample = NDArray[np.float64]
K, V = TypeVar("K"), TypeVar("V")


def finite(name: str, values: ArrayLike) -> Sample:
    """The finite values of a sample, at least one, one a run, as an array of its own; `name` is
    what it is called where it came from."""
    place, hint = f"sample {name!r}", "give one number a run"
    try:
        sample = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadValue(place, values, "is not a list of numbers", hint) from error
    if sample.ndim != 1 or sample.size == 0:
        raise BadValue(place, values, "is not a flat list of at least one run", "measure it first")
    if not np.all(np.isfinite(sample)):
        bad = float(sample[~np.isfinite(sample)][0])
        raise BadValue(place, bad, "is not finite", "leave out runs that did not complete")
    return sample


def positive(name: str, values: ArrayLike) -> Sample:
    """As `finite`, and every value above 0, as ratios and logarithms need it."""
    sample = finite(name, values)
    if not np.all(sample > 0):
        hint = "ratios need times above 0: a clock too coarse for the run gives 0"
        bad = float(sample[sample <= 0][0])
        raise BadValue(f"sample {name!r}", bad, "is not positive", hint)
    return sample


def finites(samples: Mapping[str, ArrayLike]) -> dict[str, Sample]:
    """`finite` for each of some samples, in order."""
    return {name: finite(name, values) for name, values in samples.items()}


def does_not_vary(sample: Sample, scale_min: float = 0.0) -> bool:
    """Whether values differ by no more than their rounding, where no test has a meaning.

    `scale_min` is how large a number of the same exactness is at least: 1 for logarithms, which
    are as exact as 1 is however near to 0 they lie, 0 for everything else.
    """
    scale = max(scale_min, float(np.max(np.abs(sample))))
    return bool(np.ptp(sample) <= _ROUNDING * scale)


def ratios_do_not_vary(log_a: Sample, log_b: Sample) -> bool:
    """Whether pairs of these logarithms have one difference: that is as exact as what it is of."""
    return does_not_vary(log_a - log_b, max(1.0, float(np.max(np.abs([log_a, log_b])))))


def grouped(
    name: str, values: ArrayLike, kind: str, groups: Sequence[Hashable]
) -> dict[Hashable, Sample]:
    """The values of a positive sample by group, such as a block, in order; `groups` has one a run,
    or BadValue is raised."""
    sample = positive(name, values)
    if sample.size != len(groups):
        why = f"are not as many as its runs, {sample.size}"
        raise BadValue(f"{kind} of sample {name!r}", len(groups), why, "name that of each run")
    return {group: np.array(of) for group, of in by_key(zip(groups, sample, strict=True)).items()}


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, both in their order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
