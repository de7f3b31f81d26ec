"""The analysis that the study of 2012 printed of each benchmark: quantiles, means, and the circles
with which all pairs of means are compared at a glance.

It takes values as they are, not logarithms, and all samples to have one variance. It is there to
set our figures beside the published ones; what to conclude from measurements is asked of
`evidence`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.errors import BadValue
from schedlab.statistics.estimates import CONFIDENCE
from schedlab.statistics.samples import finites
from schedlab.statistics.variance import variance_table

PROBABILITIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""Those of the study's quantile tables."""


@dataclass(frozen=True, slots=True)
class GroupMean:
    """The mean of a sample with the interval that the variance of all samples together gives it.

    In the unit of the values; `low` and `high` are None where there is no such variance.
    """

    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Circle:
    """A mean as the place of a circle's centre; the radius tells how far from it others differ."""

    centre: float
    radius: float

    def differs_from(self, other: "Circle") -> bool:
        """Whether the two means differ: the circles cross at an outer angle below 90°, or not."""
        return outer_angle_degrees(self, other) < 90


def quantile_table(
    samples: Mapping[str, ArrayLike], probabilities: Sequence[float] = PROBABILITIES
) -> dict[str, tuple[float, ...]]:
    """Quantiles of each sample as the study's program computes them: at rank p (n + 1).

    Parameters
    ----------
    samples : mapping of name to array_like, shape (n_runs,)
        Finite values in one unit.
    probabilities : sequence of float
        Each in [0, 1].

    Returns
    -------
    dict
        In the order given and the unit of the values; never outside the sample. That is Hyndman and
        Fan's type 6, which is wider than the type 7 of `statistics.estimate`.

    Raises
    ------
    BadValue
        If a sample is empty or holds what is not finite, or a probability is outside [0, 1].
    """
    for probability in probabilities:
        if not 0 <= probability <= 1:
            raise BadValue("probability", probability, "is not within 0 and 1")
    return {
        name: tuple(float(q) for q in np.quantile(sample, probabilities, method="weibull"))
        for name, sample in finites(samples).items()
    }


def means_table(samples: Mapping[str, ArrayLike]) -> dict[str, GroupMean]:
    """The mean of each sample with its 95 % interval by the variance within all of them.

    Raises
    ------
    BadValue
        If a sample is empty or holds what is not finite.
    """
    checked = finites(samples)
    table = variance_table(checked)
    means = {}
    for name, sample in checked.items():
        mean, low, high = float(np.mean(sample)), None, None
        if table is not None:
            error = math.sqrt(table.variance_within / sample.size)
            bounds = scipy.stats.t.interval(CONFIDENCE, table.df_within, loc=mean, scale=error)
            low, high = (float(bound) for bound in bounds)
        means[name] = GroupMean(sample.size, mean, low, high)
    return means


def comparison_circles(samples: Mapping[str, ArrayLike]) -> dict[str, Circle]:
    """Circles that show which means differ by Tukey and Kramer's test at the 5 % level.

    Two means differ where their distance is above q / sqrt(2) standard errors of it, that is where
    distance² > r_a² + r_b² with r² = q² / 2 × (variance within) / n: then the triangle of both
    centres and a crossing of the circles has an obtuse angle there (Pythagoras), which an eye sees.

    Parameters
    ----------
    samples : mapping of name to array_like, shape (n_runs,)
        Finite values in one unit.

    Returns
    -------
    dict
        In the unit of the values; empty where there is no variance within, see `variance_table`.

    Raises
    ------
    BadValue
        If a sample is empty or holds what is not finite.

    Notes
    -----
    Source: J. Sall, "Graphical comparison of means", Statistical Computing and Statistical Graphics
    Newsletter 3, 1992, pages 27-32.
    """
    checked = finites(samples)
    table = variance_table(checked)
    if table is None:
        return {}
    q = float(scipy.stats.studentized_range.ppf(CONFIDENCE, len(checked), table.df_within))
    return {
        name: Circle(
            centre=float(np.mean(sample)),
            radius=q / math.sqrt(2) * math.sqrt(table.variance_within / sample.size),
        )
        for name, sample in checked.items()
    }


def outer_angle_degrees(one: Circle, other: Circle) -> float:
    """The outer angle at which two circles cross: 0 where they only touch or do not meet, 180 where
    one lies within the other.
    """
    distance = abs(one.centre - other.centre)
    if distance >= one.radius + other.radius:
        return 0.0
    if distance <= abs(one.radius - other.radius):
        return 180.0
    cosine = (distance**2 - one.radius**2 - other.radius**2) / (2 * one.radius * other.radius)
    return math.degrees(math.acos(cosine))
