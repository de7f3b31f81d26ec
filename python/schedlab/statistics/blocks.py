"""Runs that were made next to each other, in blocks: how many times the one the other takes.

What else the machine does meets the runs of a block alike, and cancels in their ratio. The block is
the unit of replication: n blocks leave n - 1 degrees of freedom. A test that asks nothing of their
distribution, `exchange_p`, stands beside `estimates.paired_ratio`.

Sources: R. A. Fisher, "The Design of Experiments", 1935, sections 17 to 21 (pairs, and the test
that exchanges them); G. E. P. Box, J. S. Hunter and W. G. Hunter, "Statistics for Experimenters",
2nd edition 2005, chapters 3 and 4 (blocks).
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from schedlab.statistics.estimates import Ratio, bounded_ratio
from schedlab.statistics.samples import Sample, finite, grouped, ratios_do_not_vary

# Of five blocks there are 32 ways to exchange, of which two are always as extreme as the most
# extreme one: no p value could be below 1/16. The sign test is as blind.
BLOCKS_FOR_EXCHANGES_MIN = 6
# All ways to exchange are tried up to here, 65,536.
EXACT_BLOCKS_MAX = 16
# Of more blocks so many ways are drawn, always the same.
EXCHANGES = 9_999
SEED = 1935


@dataclass(frozen=True, slots=True)
class Blocked:
    """Two samples by block: `a[i]` and `b[i]` were made in one. `nr_alone` runs had no partner."""

    a: Sample
    b: Sample
    nr_alone: int

    @property
    def logs(self) -> Sample:
        """Logarithm of a over b in each block; 0 where both took the same."""
        return np.log(self.a) - np.log(self.b)

    @property
    def noise(self) -> float:
        """Standard deviation of these logarithms; 0 where all blocks have one ratio."""
        return 0.0 if self.a.size < 2 or self.does_not_vary else float(np.std(self.logs, ddof=1))

    @property
    def does_not_vary(self) -> bool:
        """Whether the ratio is the same in all blocks, to rounding."""
        return ratios_do_not_vary(np.log(self.a), np.log(self.b))


def matched(
    a: ArrayLike, b: ArrayLike, blocks_a: Sequence[Hashable], blocks_b: Sequence[Hashable]
) -> Blocked:
    """The runs of two samples, positive times in one unit, that have a partner in their block; of
    two runs of one sample in a block the later one counts."""
    of_a, of_b = grouped("a", a, "blocks", blocks_a), grouped("b", b, "blocks", blocks_b)
    shared = [block for block in of_a if block in of_b]
    return Blocked(
        np.array([of_a[block][-1] for block in shared]),
        np.array([of_b[block][-1] for block in shared]),
        len(blocks_a) + len(blocks_b) - 2 * len(shared),
    )


def exchange_p(logs: ArrayLike) -> float:
    """How often exchanging both within blocks moves their mean ratio at least as far from 1.

    Exchanging turns the sign of a logarithm around; `logs` are at least two. Each of the 2**n ways
    to exchange n blocks is as likely as what was measured if the samples do not differ. The
    two-sided p value is exact for up to `EXACT_BLOCKS_MAX` blocks, at least 2 / 2**n; of more it is
    from `EXCHANGES` ways drawn at random and the one that was measured.
    """
    sample = finite("logarithms", logs)
    test = scipy.stats.permutation_test(
        (sample,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=2**EXACT_BLOCKS_MAX if sample.size <= EXACT_BLOCKS_MAX else EXCHANGES,
        rng=np.random.default_rng(SEED),
    )
    return float(test.pvalue)


def median_within(blocked: Blocked) -> Ratio:
    """Median of the ratios within blocks, with interval and p value by the sign test, for ratios of
    which some are far off. Nothing bounds that of fewer than `BLOCKS_FOR_EXCHANGES_MIN` blocks.

    Source: W. J. Dixon and A. M. Mood, "The statistical sign test", J. American Statistical
    Association 41, 1946; bounds as in `estimates.median_estimate`.
    """
    sizes, centre = (blocked.a.size,) * 2, float(np.exp(np.median(blocked.logs)))
    if blocked.a.size < BLOCKS_FOR_EXCHANGES_MIN:
        return Ratio(*sizes, centre)
    test = scipy.stats.quantile_test(blocked.logs, q=0.0, p=0.5)
    return bounded_ratio(sizes, centre, test.confidence_interval, math.inf, test.pvalue)
