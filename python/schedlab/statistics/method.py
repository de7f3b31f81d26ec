"""How pairs of samples are tested: the methods, which is picked for which samples, and why.

The order of the pick, with its reasons, is told where `evidence` begins.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import scipy

from schedlab.errors import BadValue
from schedlab.statistics import variance
from schedlab.statistics.blocks import EXACT_BLOCKS_MAX, EXCHANGES, Blocked, exchange_p, matched
from schedlab.statistics.digits import p_text
from schedlab.statistics.effects import RUNS_FOR_BOOTSTRAP_MIN
from schedlab.statistics.estimates import CONFIDENCE, RUNS_FOR_INTERVAL_MIN, holm
from schedlab.statistics.independence import Independence, independence
from schedlab.statistics.samples import Sample, does_not_vary, grouped

# Of fewer runs a test of normality sees only the grossest deviation.
RUNS_FOR_SHAPE_MIN = 8
# Welch's test forgives small deviations, and ranks answer a slightly other question.
SIGNIFICANT_SHAPE = 0.01


class Method(StrEnum):
    """How pairs were tested."""

    WELCH = "Welch"
    GAMES_HOWELL = "Games-Howell"
    RANKS = "ranks"
    TUKEY_KRAMER = "Tukey-Kramer"
    BLOCKS = "blocks"
    BLOCK_SIGNS = "signs in blocks"
    NONE = "none"


_TESTS = {
    Method.WELCH: "Welch's t test on logarithms",
    Method.GAMES_HOWELL: "Games and Howell's test on logarithms",
    Method.RANKS: "Dunn's test on ranks with Holm's correction",
    Method.TUKEY_KRAMER: "Tukey and Kramer's test on logarithms with one pooled variance",
    Method.BLOCKS: "Student's t test on the logarithms of ratios within blocks",
    Method.BLOCK_SIGNS: "the sign test on ratios within blocks, and their median",
}
_REASONS = {
    Method.BLOCKS: "runs of a block took turns and what disturbs one disturbs the others too",
    Method.BLOCK_SIGNS: "runs of a block took turns and the logarithms of these ratios are far from"
    " normal (Shapiro-Wilk)",
}
_OWN_VARIANCES = "it lets each sample have its own variance"
_COUNTED_AS_WORTH = ", with runs whose neighbours are alike counted as those that they are worth"


@dataclass(frozen=True, slots=True)
class Why:
    """Which test was made, why that one, and what it found of these samples only."""

    test: str
    reason: str
    details: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Test and reason, which samples of many benchmarks may share; without its full stop."""
        return f"{self.test}, as {self.reason}"

    def __str__(self) -> str:
        return "; ".join([self.sentence, *self.details]) + "."

    @classmethod
    def joined(cls, parts: Sequence["Why"], between: str) -> "Why":
        """One of several, with `between` between their sentences and all details after them."""
        *before, last = parts
        test = between.join([*(part.sentence for part in before), last.test])
        return cls(test, last.reason, tuple(detail for part in parts for detail in part.details))


@dataclass(slots=True)
class Contest:
    """A pair that is being compared; what is known of it is filled in step by step."""

    a: str
    b: str
    of_a: Sample
    of_b: Sample
    blocked: Blocked | None = None
    """Runs of both by block; None where they share fewer than an interval takes."""
    ratios: Independence | None = None
    """What the ratios within these blocks show in their order."""
    worth: tuple[float, float] | None = None
    """How many independent runs each is worth where neighbouring runs of one are alike."""
    blocks_worth: float | None = None
    """How many independent blocks there are where neighbouring ratios are alike."""
    method: Method = Method.NONE
    exchange_p: float | None = None

    @property
    def is_dependent(self) -> bool:
        """Whether neighbours of some series of the pair are alike, so that it has no resamples."""
        return self.worth is not None or self.blocks_worth is not None

    @property
    def title(self) -> str:
        """As notes begin with it."""
        return f"{self.a} against {self.b}"


def contests_of(
    names: Sequence[tuple[str, str]],
    series: Mapping[str, Independence],
    samples: Mapping[str, Sample],
    method: Method | None,
    blocks: Mapping[str, Sequence[Hashable]] | None,
) -> list[Contest]:
    """The pairs of these names; with their blocks, unless a method without blocks is asked for, and
    with what alike runs and ratios are worth, unless any is. With `BLOCKS` and without `blocks`,
    runs of one place in each sample are a block, so that samples of different sizes are refused by
    a BadValue, as are blocks that are not as many as runs.
    """
    contests = [Contest(a, b, samples[a], samples[b]) for a, b in names]
    if blocks is None and method is Method.BLOCKS:
        if len({sample.size for sample in samples.values()}) > 1:
            why = "needs as many runs of one sample as of another"
            raise BadValue("method", method.value, why, "name the block of each run")
        blocks = {name: range(sample.size) for name, sample in samples.items()}
    if blocks is not None:
        for name, sample in samples.items():
            grouped(name, sample, "blocks", blocks.get(name, ()))
    for one in contests:
        if blocks is not None and method in (None, Method.BLOCKS):
            blocked = matched(one.of_a, one.of_b, blocks[one.a], blocks[one.b])
            if blocked.a.size >= RUNS_FOR_INTERVAL_MIN:
                one.blocked, one.ratios = blocked, independence(np.exp(blocked.logs))
        of_both = series[one.a], series[one.b]
        if method is None and any(of.neighbours_are_alike for of in of_both):
            one.worth = (of_both[0].worth, of_both[1].worth)
        if method is None and one.ratios and one.ratios.neighbours_are_alike:
            one.blocks_worth = one.ratios.worth
    return contests


def choose(
    contests: Sequence[Contest],
    large: Mapping[str, Sample],
    baseline: str | None,
    method: Method | None,
) -> tuple[Method, Why]:
    """Fills in each pair's `method` and `exchange_p`; gives the method of all pairs that share no
    blocks, or `BLOCKS` where there is none, and why.

    `large` are the logarithms of the samples that have runs enough for an interval. Raises BadValue
    if the method that is asked for cannot be had with these samples.
    """
    within = [one for one in contests if one.blocked is not None]
    picked, apart = Method.BLOCKS, None
    if len(within) < len(contests) or not within:
        picked, apart = _pick(contests, large, baseline, method)
    able = {
        one.title: one.blocked.logs
        for one in within
        if not one.blocked.does_not_vary and one.blocks_worth is None
    }
    odd = _odd(able) if method is None else []
    for one in contests:
        one.method = picked
    for one in within:
        one.method = Method.BLOCK_SIGNS if one.title in odd else Method.BLOCKS
        # Blocks that are like those before them cannot be exchanged one by one.
        if one.method is Method.BLOCKS and one.blocks_worth is None:
            one.exchange_p = exchange_p(one.blocked.logs)
    return picked, _why(contests, within, apart, len(large))


def _why(
    contests: Sequence[Contest], within: Sequence[Contest], apart: Why | None, nr_large: int
) -> Why:
    """Of pairs `within` blocks, and of the others, which have theirs."""
    corrected = " with Holm's correction" if nr_large > 2 else ""
    counted = _COUNTED_AS_WORTH * any(one.blocks_worth is not None for one in within)
    parts, details = [], []
    for method, reason in _REASONS.items():
        if titles := [one.title for one in within if one.method is method]:
            which = f" of {' and '.join(titles)}" if len(titles) < len(contests) else ""
            parts.append(Why(f"{_TESTS[method]}{corrected}{which}{counted}", reason))
    if apart is not None:
        parts.append(replace(apart, test=f"without blocks, {apart.test}") if within else apart)
    if exchanged := [one for one in within if one.exchange_p is not None]:
        most = max(one.blocked.a.size for one in exchanged)
        ways = "every way" if most <= EXACT_BLOCKS_MAX else f"{EXCHANGES:,} random ways"
        p_texts = ", ".join(f"{one.a} {p_text(one.exchange_p)}" for one in exchanged)
        details = [f"exchanging both within blocks in {ways}: {p_texts}"]
    why = Why.joined(parts, ", and ")
    test = f"{why.test[0].upper()}{why.test[1:]}"
    return replace(why, test=test, details=(*details, *why.details))


def _pick(
    contests: Sequence[Contest],
    large: Mapping[str, Sample],
    baseline: str | None,
    method: Method | None,
) -> tuple[Method, Why]:
    """For pairs that share no blocks."""
    if len(large) < 2 or (baseline is not None and baseline not in large):
        runs = f"two samples of at least {RUNS_FOR_INTERVAL_MIN} runs, the baseline among them"
        return Method.NONE, Why("no test", f"it takes {runs}")
    spread = variance.brown_forsythe(large)
    variances = ("whether variances differ cannot be tested",)
    if spread is not None:
        shows = "shows" if spread.p_value < 1 - CONFIDENCE else "does not show"
        p_value = p_text(spread.p_value)
        variances = (f"Brown and Forsythe's test {shows} that variances differ ({p_value})",)
    if method is not None:
        _refuse_impossible(method, large)
        return method, Why(_TESTS[method], "asked for", variances)
    welch = _TESTS[Method.WELCH] + " with Holm's correction" * (len(large) > 2)
    if any(one.worth is not None for one in contests):
        # Neither ranks nor resampling know of runs that are worth fewer.
        return Method.WELCH, Why(welch, _OWN_VARIANCES + _COUNTED_AS_WORTH, variances)
    odd = _odd(large)
    if odd and min(sample.size for sample in large.values()) >= RUNS_FOR_BOOTSTRAP_MIN:
        ranks = _TESTS[Method.RANKS] if len(large) > 2 else "Mann and Whitney's test on ranks"
        test = f"{ranks} and the ratio of medians with a bootstrap interval"
        shape = f"the logarithms of {' and '.join(odd)} are far from normal (Shapiro-Wilk)"
        return Method.RANKS, Why(test, shape)
    all_pairs = baseline is None and len(large) > 2 and not any(one.blocked for one in contests)
    if all_pairs and variance.each_varies(large, 1.0):
        reason = f"all pairs are compared, and {_OWN_VARIANCES}"
        return Method.GAMES_HOWELL, Why(_TESTS[Method.GAMES_HOWELL], reason, variances)
    return Method.WELCH, Why(welch, _OWN_VARIANCES, variances)


def _refuse_impossible(method: Method, large: Mapping[str, Sample]) -> None:
    why, smallest = "", min(sample.size for sample in large.values())
    if method in (Method.NONE, Method.BLOCK_SIGNS):
        why = "is what comes of the samples, not what one asks for"
    if method is Method.RANKS and smallest < RUNS_FOR_BOOTSTRAP_MIN:
        why = f"needs {RUNS_FOR_BOOTSTRAP_MIN} runs of each sample, and one has {smallest}"
    if method is Method.GAMES_HOWELL and not variance.each_varies(large, 1.0):
        why = "needs samples that vary, and one does not"
    if method is Method.TUKEY_KRAMER and all(does_not_vary(logs, 1.0) for logs in large.values()):
        why = "needs a sample that varies, and none does"
    if method is Method.BLOCKS:
        why = f"needs {RUNS_FOR_INTERVAL_MIN} blocks in which both samples of each pair have a run"
    if why:
        raise BadValue("method", method.value, why, "leave the method out to have one picked")


def _odd(large: Mapping[str, Sample]) -> list[str]:
    """Samples far from normal, by Shapiro and Wilk's test with Holm's correction over samples."""
    able = {
        name: sample
        for name, sample in large.items()
        if sample.size >= RUNS_FOR_SHAPE_MIN and not does_not_vary(sample, 1.0)
    }
    p_values = holm([float(scipy.stats.shapiro(sample).pvalue) for sample in able.values()])
    return [name for name, p in zip(able, p_values, strict=True) if p < SIGNIFICANT_SHAPE]
