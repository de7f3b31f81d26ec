"""What many ratios say together: one number, how sure it is, and how far they are from being one.

Each cell, a benchmark or a machine, has one vote: its ratio, however many runs that is of. The
number is the geometric mean of the votes, and its interval Student's over them, as cells are a
sample of those there might have been (random effects): three machines leave 2 degrees of freedom.
Such a mean says little of a cell where cells differ, so range, I² and the count of signs come too.

Sources: P. J. Fleming and J. J. Wallace, "How not to lie with statistics: the correct way to
summarize benchmark results", Communications of the ACM 29, 1986 (the geometric mean of ratios);
J. P. T. Higgins and S. G. Thompson, "Quantifying heterogeneity in a meta-analysis", Statistics in
Medicine 21, 2002 (I²).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from schedlab.errors import BadValue
from schedlab.statistics.estimates import Ratio, Verdict, paired_ratio, verdict
from schedlab.statistics.samples import positive

CELLS_MIN = 2


@dataclass(frozen=True, slots=True)
class Vote:
    """What a cell says: a ratio of times, below 1 is faster; `log_error` is the standard error of
    its logarithm, None where that is not known."""

    ratio: float
    log_error: float | None


@dataclass(frozen=True, slots=True)
class Overall:
    """What cells say together."""

    ratio: Ratio
    """Of the geometric mean of their ratios; it counts cells, fewer than three have no interval."""
    lowest: tuple[str, Vote]
    highest: tuple[str, Vote]
    i_squared: float | None
    """Share of the variance between them that is more than the noise of their runs, in [0, 1]; None
    where some cell's noise is not known or 0."""
    nr_below: int
    """How many are faster, be it by a hair."""
    nr_above: int

    @property
    def degrees_of_freedom(self) -> int:
        """Of Student's interval."""
        return self.ratio.n_a - 1

    def word(self, p_adjusted: float | None = None) -> Verdict:
        """The verdict on the geometric mean; see `estimates.verdict`."""
        return verdict(self.ratio, p_adjusted)


def overall(votes: Mapping[str, Vote]) -> Overall:
    """What these cells say together, one vote each; BadValue for fewer than `CELLS_MIN`."""
    if len(votes) < CELLS_MIN:
        raise BadValue("cells", list(votes), "are too few to vote", f"give {CELLS_MIN} or more")
    ratios = positive("ratios of cells", [vote.ratio for vote in votes.values()])
    return Overall(
        ratio=paired_ratio(ratios, np.ones(ratios.size)),
        lowest=list(votes.items())[np.argmin(ratios)],
        highest=list(votes.items())[np.argmax(ratios)],
        i_squared=_i_squared(list(votes.values())),
        nr_below=int(np.sum(ratios < 1)),
        nr_above=int(np.sum(ratios > 1)),
    )


def shared_vote(votes: Sequence[Vote]) -> Vote:
    """One vote of several that belong together, such as the cases of one benchmark: the geometric
    mean of their ratios. Its error is that of a mean of independent numbers; None where one of
    theirs is not known."""
    ratios = positive("ratios", [vote.ratio for vote in votes])
    errors = [vote.log_error for vote in votes]
    known = None not in errors
    log_error = math.sqrt(sum(error**2 for error in errors)) / len(errors) if known else None
    return Vote(float(scipy.stats.gmean(ratios)), log_error)


def _i_squared(votes: Sequence[Vote]) -> float | None:
    """By Cochran's Q about the mean that weighs each cell by its certainty."""
    if any(not vote.log_error for vote in votes):
        return None
    # Loading it takes longer than most comparisons need.
    from statsmodels.stats.meta_analysis import combine_effects

    # From a centre of 0, so that Q is no difference of large numbers.
    logs = np.log([vote.ratio for vote in votes])
    logs -= np.mean(logs)
    variances = np.square([vote.log_error for vote in votes])
    with np.errstate(all="ignore"):
        q = float(combine_effects(logs, variances, method_re="dl").q)
    degrees = len(votes) - 1
    return 0.0 if q <= degrees else 1 - degrees / q
