"""Whether several samples have one mean, and which pairs of them do not.

Each test is that of a library, with an answer where the library has none: None where nothing
varies or a sample is too small, never a warning or a number that is not one. Samples are finite
values in one unit, by their names; who compares ratios hands over logarithms. Pairs are in order.
Which test to believe is decided in `evidence`.

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
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

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


def pooled(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """The analysis of variance, which takes all samples to have one variance.

    None for fewer than two samples, if no sample has two values, or if nothing varies within.
    """
    checked = finites(samples)
    groups = list(checked.values())
    df_within = sum(group.size for group in groups) - len(groups)
    if len(groups) < 2 or df_within < 1 or _none_varies(checked):
        return None
    test, df = scipy.stats.f_oneway(*groups), len(groups) - 1.0
    variance = float(sum(np.sum((g - np.mean(g)) ** 2) for g in groups)) / df_within
    p_value = float(test.pvalue)
    return Omnibus("ANOVA", float(test.statistic), df, float(df_within), p_value, variance)


def welch(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """The analysis of variance that lets each sample have its own variance.

    None for fewer than two samples, or if one has fewer than two values or does not vary.
    """
    checked = finites(samples)
    if len(checked) < 2 or not each_varies(checked):
        return None
    from statsmodels.stats.oneway import anova_oneway

    test = anova_oneway(list(checked.values()), use_var="unequal", welch_correction=True)
    df, df_within = (float(part) for part in test.df)
    return Omnibus("Welch ANOVA", float(test.statistic), df, df_within, float(test.pvalue))


def brown_forsythe(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """Whether the samples' variances differ: Levene's test about medians.

    None for fewer than two samples, if one has fewer than two values, or if distances from the
    medians do not vary within any sample.
    """
    checked = finites(samples)
    groups = list(checked.values())
    if len(groups) < 2 or min(group.size for group in groups) < RUNS_FOR_VARIANCE_MIN:
        return None
    distances = {name: np.abs(group - np.median(group)) for name, group in checked.items()}
    if _none_varies(distances):
        return None
    test = scipy.stats.levene(*groups, center="median")
    df_within = float(sum(group.size for group in groups) - len(groups))
    p_value = float(test.pvalue)
    return Omnibus("Brown-Forsythe", float(test.statistic), len(groups) - 1.0, df_within, p_value)


def kruskal_wallis(samples: Mapping[str, ArrayLike]) -> Omnibus | None:
    """Whether the samples' values rank alike, whatever their distribution.

    None for fewer than two samples, or if all values of all samples are equal.
    """
    groups = list(finites(samples).values())
    if len(groups) < 2 or np.ptp(np.concatenate(groups)) == 0:
        return None
    test = scipy.stats.kruskal(*groups)
    df = len(groups) - 1.0
    return Omnibus("Kruskal-Wallis", float(test.statistic), df, None, float(test.pvalue))


def tukey_kramer(samples: Mapping[str, ArrayLike]) -> dict[Pair, float]:
    """The adjusted p value of each pair of means, which are taken to share one variance.

    Empty where there is no pooled variance, see `pooled`, or a sample has a single value.
    """
    checked = finites(samples)
    smallest = min(sample.size for sample in checked.values())
    if pooled(checked) is None or smallest < RUNS_FOR_VARIANCE_MIN:
        return {}
    return _all_pairs(checked, equal_var=True)


def games_howell(samples: Mapping[str, ArrayLike]) -> dict[Pair, float]:
    """The adjusted p value of each pair of means, each sample with its own variance.

    Empty for fewer than two samples, or if one has fewer than two values or does not vary.
    """
    checked = finites(samples)
    if len(checked) < 2 or not each_varies(checked):
        return {}
    return _all_pairs(checked, equal_var=False)


def dunn(samples: Mapping[str, ArrayLike]) -> dict[Pair, float]:
    """The p value of each pair by Dunn's test on ranks among all samples, not yet adjusted.

    Empty for fewer than two samples, or if all values of all samples are equal.
    """
    checked = finites(samples)
    if kruskal_wallis(checked) is None:
        return {}
    # It loads a library for drawing, which takes a second.
    import scikit_posthocs

    p_values = scikit_posthocs.posthoc_dunn([list(group) for group in checked.values()])
    return {pair: float(p_values.to_numpy()[at]) for pair, at in _pairs(checked)}


def _all_pairs(samples: Mapping[str, Sample], equal_var: bool) -> dict[Pair, float]:
    p_values = scipy.stats.tukey_hsd(*samples.values(), equal_var=equal_var).pvalue
    return {pair: float(p_values[at]) for pair, at in _pairs(samples)}


def _pairs(samples: Mapping[str, Sample]) -> list[tuple[Pair, tuple[int, int]]]:
    """Each pair of names with its places in a matrix."""
    places = itertools.combinations(range(len(samples)), 2)
    return list(zip(itertools.combinations(samples, 2), places, strict=True))


def _none_varies(samples: Mapping[str, Sample]) -> bool:
    return all(does_not_vary(sample) for sample in samples.values())


def each_varies(samples: Mapping[str, Sample], scale_min: float = 0.0) -> bool:
    """Whether no sample is the same value again and again; `scale_min` as in `does_not_vary`."""
    return not any(does_not_vary(sample, scale_min) for sample in samples.values())
