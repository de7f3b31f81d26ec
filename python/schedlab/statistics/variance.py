"""Whether several samples have one mean, and which pairs of them do not.

A test gives None where nothing varies or a sample is too small, never a warning or NaN. Samples are
finite values in one unit, by their names; who compares ratios hands over logarithms.

Sources: R. A. Fisher, "Statistical Methods for Research Workers", 1925 (analysis of variance);
B. L. Welch, "On the comparison of several mean values", Biometrika 38, 1951; M. B. Brown and
A. B. Forsythe, "Robust tests for the equality of variances", J. American Statistical Association
69, 1974; C. Y. Kramer, "Extension of multiple range tests to group means with unequal numbers of
replications", Biometrics 12, 1956; P. A. Games and J. F. Howell, "Pairwise multiple comparison
procedures with unequal n's and/or variances", J. Educational Statistics 1, 1976; W. H. Kruskal and
W. A. Wallis, "Use of ranks in one-criterion variance analysis", J. American Statistical Association
47, 1952; O. J. Dunn, "Multiple comparisons using rank sums", Technometrics 6, 1964.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.statistics.estimates import CONFIDENCE, QUANTILE_LEVELS
from schedlab.statistics.samples import Sample, does_not_vary, finites

RUNS_FOR_VARIANCE_MIN = 2

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Omnibus:
    """A test that all samples are alike: `p_value` is small where they are not."""

    test: str
    statistic: float
    df: float
    """Degrees of freedom between the samples."""
    df_within: float | None
    """Those within; None for a test on ranks, no whole number where variances are not pooled."""
    p_value: float
    variance_within: float | None = None
    """The mean square of the error, where all samples are taken to share it."""


@dataclass(frozen=True, slots=True)
class Circle:
    """The centre is a mean; the radius tells how far from it others differ. In one unit."""

    centre: float
    radius: float


def pooled(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """The analysis of variance, which takes all samples to have one variance. None for fewer than
    two samples, if no sample has two values, or if nothing varies within."""
    groups = list(finites(samples).values())
    df, df_within = len(groups) - 1.0, float(sum(group.size - 1 for group in groups))
    if len(groups) < 2 or df_within < 1 or all(map(does_not_vary, groups)):
        return None
    test = scipy.stats.f_oneway(*groups)
    variance = float(sum(np.sum((g - np.mean(g)) ** 2) for g in groups)) / df_within
    # Of equal means rounding makes the statistic a hair less than 0, of which there is no p value.
    statistic, p_value = max(0.0, float(test.statistic)), float(np.nan_to_num(test.pvalue, nan=1.0))
    return Omnibus("ANOVA", statistic, df, df_within, p_value, variance)


def welch(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """The analysis of variance that lets each sample have its own variance. None for fewer than two
    samples, or if one has fewer than two values or does not vary."""
    checked = finites(samples)
    if len(checked) < 2 or not each_varies(checked):
        return None
    from statsmodels.stats.oneway import anova_oneway

    test = anova_oneway(list(checked.values()), use_var="unequal", welch_correction=True)
    return Omnibus("Welch ANOVA", float(test.statistic), *map(float, test.df), float(test.pvalue))


def brown_forsythe(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """Whether the samples' variances differ: the analysis of distances from their medians. None as
    `pooled` of these distances, or if a sample has fewer than two values."""
    checked = finites(samples)
    if min((group.size for group in checked.values()), default=0) < RUNS_FOR_VARIANCE_MIN:
        return None
    found = pooled({name: np.abs(group - np.median(group)) for name, group in checked.items()})
    return found and replace(found, test="Brown-Forsythe")


def kruskal_wallis(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """Whether the samples' values rank alike, whatever their distribution. None for fewer than two
    samples, or if all values of all samples are equal."""
    groups = list(finites(samples).values())
    if len(groups) < 2 or np.ptp(np.concatenate(groups)) == 0:
        return None
    test, df = scipy.stats.kruskal(*groups), len(groups) - 1.0
    return Omnibus("Kruskal-Wallis", float(test.statistic), df, None, float(test.pvalue))


def tukey_kramer(samples: Mapping[str, ArrayLike]) -> dict[Pair, float]:
    """The adjusted p value of each pair of means, which are taken to share one variance; empty
    where `pooled` gives None, or a sample has a single value."""
    checked = finites(samples)
    smallest = min(sample.size for sample in checked.values())
    if pooled(checked) is None or smallest < RUNS_FOR_VARIANCE_MIN:
        return {}
    return _by_pair(checked, scipy.stats.tukey_hsd(*checked.values()).pvalue)


def games_howell(samples: Mapping[str, ArrayLike]) -> dict[Pair, float]:
    """The adjusted p value of each pair of means, each sample with its own variance; empty for
    fewer than two samples, or if one has fewer than two values or does not vary."""
    checked = finites(samples)
    if len(checked) < 2 or not each_varies(checked):
        return {}
    return _by_pair(checked, scipy.stats.tukey_hsd(*checked.values(), equal_var=False).pvalue)


def dunn(samples: Mapping[str, ArrayLike]) -> dict[Pair, float]:
    """The p value of each pair by Dunn's test on ranks among all samples, not yet adjusted; empty
    where `kruskal_wallis` gives None."""
    checked = finites(samples)
    if kruskal_wallis(checked) is None:
        return {}
    # It loads a library for drawing, which takes a second.
    import scikit_posthocs

    p_values = scikit_posthocs.posthoc_dunn([list(group) for group in checked.values()])
    return _by_pair(checked, p_values.to_numpy())


def quantile_table(samples: Mapping[str, ArrayLike]) -> dict[str, tuple[float, ...]]:
    """Quantiles at `QUANTILE_LEVELS` as the study of 2012 printed them, at rank p (n + 1): Hyndman
    and Fan's type 6, wider than the type 7 of `estimates.estimate`, never outside the sample."""
    return {
        name: tuple(np.quantile(sample, QUANTILE_LEVELS, method="weibull").tolist())
        for name, sample in finites(samples).items()
    }


def comparison_circles(samples: Mapping[str, ArrayLike]) -> dict[str, Circle]:
    """Circles that show which means differ by Tukey and Kramer's test at the 5 % level, as the
    study of 2012 drew them: of values as they are, not of logarithms.

    Two means differ where their distance is above q / sqrt(2) standard errors of it, that is where
    distance² > r_a² + r_b² with r² = q² / 2 × (variance within) / n: then the triangle of both
    centres and a crossing of the circles has an obtuse angle there (Pythagoras), which an eye sees.

    Empty where there is no variance within, see `pooled`.

    Source: J. Sall, "Graphical comparison of means", Statistical Computing and Statistical Graphics
    Newsletter 3, 1992, pages 27-32.
    """
    checked = finites(samples)
    if (table := pooled(checked)) is None:
        return {}
    q = float(scipy.stats.studentized_range.ppf(CONFIDENCE, len(checked), table.df_within))
    of_one = table.variance_within
    return {
        name: Circle(float(np.mean(one)), q / math.sqrt(2) * math.sqrt(of_one / one.size))
        for name, one in checked.items()
    }


def each_varies(samples: Mapping[str, Sample], scale_min: float = 0.0) -> bool:
    """Whether no sample is the same value again and again; `scale_min` as in `does_not_vary`."""
    return not any(does_not_vary(sample, scale_min) for sample in samples.values())


def _by_pair(samples: Mapping[str, Sample], p_values: Sample) -> dict[Pair, float]:
    """Of a matrix with a row and a column a sample."""
    above_diagonal = p_values[np.triu_indices(len(samples), 1)].tolist()
    return dict(zip(itertools.combinations(samples, 2), above_diagonal, strict=True))
