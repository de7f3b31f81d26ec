"""What the study of 2012 printed of each benchmark: quantiles, and circles that compare all means.

Values are taken as they are, not as logarithms, and all samples to have one variance: so our
figures can stand beside the published ones. What to conclude is asked of `evidence`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.statistics.estimates import CONFIDENCE, QUANTILE_LEVELS
from schedlab.statistics.samples import finites
from schedlab.statistics.variance import pooled


@dataclass(frozen=True, slots=True)
class Circle:
    """The centre is a mean; the radius tells how far from it others differ. In one unit."""

    centre: float
    radius: float


def quantile_table(samples: Mapping[str, ArrayLike]) -> dict[str, tuple[float, ...]]:
    """Quantiles at `QUANTILE_LEVELS` of each sample as the study printed them, at rank p (n + 1).

    That is Hyndman and Fan's type 6, which is wider than the type 7 of `estimates.estimate`, and
    never outside the sample.
    """
    return {
        name: tuple(float(q) for q in np.quantile(sample, QUANTILE_LEVELS, method="weibull"))
        for name, sample in finites(samples).items()
    }


def comparison_circles(samples: Mapping[str, ArrayLike]) -> dict[str, Circle]:
    """Circles that show which means differ by Tukey and Kramer's test at the 5 % level.

    Two means differ where their distance is above q / sqrt(2) standard errors of it, that is where
    distance² > r_a² + r_b² with r² = q² / 2 × (variance within) / n: then the triangle of both
    centres and a crossing of the circles has an obtuse angle there (Pythagoras), which an eye sees.

    None where there is no variance within, see `variance.pooled`.

    Source: J. Sall, "Graphical comparison of means", Statistical Computing and Statistical Graphics
    Newsletter 3, 1992, pages 27-32.
    """
    checked = finites(samples)
    table = pooled(checked)
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
