"""How pairs of samples are tested: the methods, which is picked for which samples, and why.

How runs were made decides first: pairs whose runs took turns in blocks are compared within them.
What the samples look like decides only between a test of means and one of ranks or signs. The
order of the pick, with its reasons, is told where `evidence` begins.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import scipy

from schedlab.errors import BadValue
from schedlab.statistics import variance as anova
from schedlab.statistics.blocks import EXACT_BLOCKS_MAX, EXCHANGES, Blocked, matched
from schedlab.statistics.digits import p_text
from schedlab.statistics.effects import RUNS_FOR_BOOTSTRAP_MIN
from schedlab.statistics.estimates import CONFIDENCE, RUNS_FOR_INTERVAL_MIN, holm
from schedlab.statistics.samples import Sample, does_not_vary

RUNS_FOR_SHAPE_MIN = 8
"""Of fewer runs a test of normality sees only the grossest deviation."""
SIGNIFICANT_SHAPE = 0.01
"""Welch's test forgives small deviations, and ranks answer a slightly other question."""

COUNTED_AS_WORTH = ", with runs whose neighbours are alike counted as those that they are worth"

Names = tuple[str, str]
"""A pair: what is compared, and with what."""


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
    Method.BLOCKS: "as runs of a block took turns and what disturbs one disturbs the others too",
    Method.BLOCK_SIGNS: "as runs of a block took turns and the logarithms of these ratios are far"
    " from normal (Shapiro-Wilk)",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """How each pair is tested.

    `within` are the pairs that share blocks enough for an interval, by their blocks; `method` is
    that of all others, and `BLOCKS` where there is no other. `of` is that of each pair. `worth` has
    the samples, and pairs within blocks, whose neighbouring runs are alike: how many independent
    runs, or blocks, they are worth.
    """

    method: Method
    of: Mapping[Names, Method]
    within: Mapping[Names, Blocked]
    test: str
    because: str
    worth: Mapping[str | Names, float]

    def why(self, exchanged: Mapping[Names, float]) -> str:
        """Which test and why; after the first semicolon, what is of these samples only.

        `exchanged` are the p values of the test that exchanges both within blocks.
        """
        parts = [self.test]
        if exchanged:
            most = max(self.within[names].a.size for names in exchanged)
            ways = "every way" if most <= EXACT_BLOCKS_MAX else f"{EXCHANGES:,} random ways"
            found = ", ".join(f"{a} {p_text(p_value)}" for (a, _), p_value in exchanged.items())
            parts.append(f"exchanging both within blocks in {ways}: {found}")
        if self.because:
            parts.append(self.because)
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."


def choose(
    large: Mapping[str, Sample],
    compared: Sequence[Names],
    within: Mapping[Names, Blocked],
    baseline: str | None,
    method: Method | None,
    worth: Mapping[str | Names, float],
) -> Choice:
    """How these pairs are tested.

    Parameters
    ----------
    large : mapping of name to ndarray, shape (n_runs,)
        Logarithms of the samples that have runs enough for an interval.
    compared : sequence of pairs of names
        Of these samples and smaller ones.
    within : mapping of pairs of names
        See `within_blocks`.
    baseline, method
        As for `evidence.compare_groups`.
    worth : mapping
        See `Choice`; empty if a method is asked for.

    Raises
    ------
    BadValue
        If the method that is asked for cannot be had with these samples.
    """
    apart = [names for names in compared if names not in within]
    if apart or not within:
        picked, test, because = _pick(large, bool(within), baseline, method, worth)
    else:
        picked, test, because = Method.BLOCKS, "", ""
    able = {
        names: of.logs
        for names, of in within.items()
        if not of.does_not_vary and names not in worth
    }
    odd = _odd(able) if method is None else []
    of = {names: Method.BLOCK_SIGNS if names in odd else Method.BLOCKS for names in within}
    of |= dict.fromkeys(apart, picked)
    corrected = " with Holm's correction" if len(large) > 2 else ""
    tests = []
    for way, reason in _REASONS.items():
        names = [f"{a} against {b}" for a, b in within if of[a, b] is way]
        if names:
            which = f" of {' and '.join(names)}" if len(names) < len(compared) else ""
            alike = COUNTED_AS_WORTH if any(one in worth for one in within) else ""
            tests.append(f"{_TESTS[way]}{corrected}{which}{alike}, {reason}")
    if test:
        tests.append(f"without blocks, {test}" if within else test)
    return Choice(picked, of, within, ", and ".join(tests), because, worth)


def within_blocks(
    samples: Mapping[str, Sample],
    compared: Sequence[Names],
    method: Method | None,
    blocks: Mapping[str, Sequence[Hashable]] | None,
) -> dict[Names, Blocked]:
    """The pairs that share blocks enough for an interval; none if a method without is asked for.

    Without `blocks` and with the method `BLOCKS`, runs of one place in each sample are a block.

    Raises
    ------
    BadValue
        If a sample has not as many blocks as runs, or places cannot be blocks as samples are of
        different sizes.
    """
    if blocks is None:
        if method is not Method.BLOCKS:
            return {}
        if len({sample.size for sample in samples.values()}) > 1:
            why = "needs as many runs of one sample as of another"
            raise BadValue("method", method.value, why, "name the block of each run")
        blocks = {name: range(sample.size) for name, sample in samples.items()}
    for name, sample in samples.items():
        nr_named = len(blocks.get(name, ()))
        if nr_named != sample.size:
            why = f"are not as many as its runs, {sample.size}"
            raise BadValue(f"blocks of sample {name!r}", nr_named, why, "name that of each run")
    if method not in (None, Method.BLOCKS):
        return {}
    found = {(a, b): matched(samples[a], samples[b], blocks[a], blocks[b]) for a, b in compared}
    return {names: of for names, of in found.items() if of.a.size >= RUNS_FOR_INTERVAL_MIN}


def _pick(
    large: Mapping[str, Sample],
    has_blocks: bool,
    baseline: str | None,
    method: Method | None,
    worth: Mapping[str | Names, float],
) -> tuple[Method, str, str]:
    """For pairs that share no blocks: how they are tested, which test and why, and what more."""
    if len(large) < 2 or (baseline is not None and baseline not in large):
        runs = f"two samples of at least {RUNS_FOR_INTERVAL_MIN} runs, the baseline among them"
        return Method.NONE, f"no test: it takes {runs}", ""
    if method is not None:
        _refuse_impossible(method, large)
        return method, f"{_TESTS[method]}, as asked for", _variances_text(large)
    corrected = " with Holm's correction" if len(large) > 2 else ""
    test = f"{_TESTS[Method.WELCH]}{corrected}, which lets each sample have its own variance"
    if any(name in worth for name in large):
        # Neither ranks nor resampling know of runs that are worth fewer.
        return Method.WELCH, test + COUNTED_AS_WORTH, _variances_text(large)
    odd = _odd(large)
    if odd and min(sample.size for sample in large.values()) >= RUNS_FOR_BOOTSTRAP_MIN:
        ranks = _TESTS[Method.RANKS] if len(large) > 2 else "Mann and Whitney's test on ranks"
        shape = f"the logarithms of {' and '.join(odd)} are far from normal (Shapiro-Wilk)"
        means = "and the ratio of medians with a bootstrap interval"
        return Method.RANKS, f"{ranks} {means}: {shape}", ""
    if baseline is None and len(large) > 2 and _each_varies(large) and not has_blocks:
        why = "all pairs are compared, and it lets each sample have its own variance"
        return Method.GAMES_HOWELL, f"{_TESTS[Method.GAMES_HOWELL]}: {why}", _variances_text(large)
    return Method.WELCH, test, _variances_text(large)


def _refuse_impossible(method: Method, large: Mapping[str, Sample]) -> None:
    why, smallest = "", min(sample.size for sample in large.values())
    if method in (Method.NONE, Method.BLOCK_SIGNS):
        why = "is what comes of the samples, not what one asks for"
    if method is Method.RANKS and smallest < RUNS_FOR_BOOTSTRAP_MIN:
        why = f"needs {RUNS_FOR_BOOTSTRAP_MIN} runs of each sample, and one has {smallest}"
    if method is Method.GAMES_HOWELL and not _each_varies(large):
        why = "needs samples that vary, and one does not"
    if method is Method.TUKEY_KRAMER and all(does_not_vary(logs, 1.0) for logs in large.values()):
        why = "needs a sample that varies, and none does"
    if method is Method.BLOCKS:
        why = f"needs {RUNS_FOR_INTERVAL_MIN} blocks in which both samples of each pair have a run"
    if why:
        raise BadValue("method", method.value, why, "leave the method out to have one picked")


def _each_varies(large: Mapping[str, Sample]) -> bool:
    return not any(does_not_vary(logs, 1.0) for logs in large.values())


def _variances_text(large: Mapping[str, Sample]) -> str:
    test = anova.brown_forsythe(large)
    if test is None:
        return "whether variances differ cannot be tested"
    shows = "shows" if test.p_value < 1 - CONFIDENCE else "does not show"
    return f"Brown and Forsythe's test {shows} that variances differ ({p_text(test.p_value)})"


def _odd(large: Mapping[Hashable, Sample]) -> list[Hashable]:
    """Samples far from normal, by Shapiro and Wilk's test with Holm's correction over samples."""
    able = {
        name: sample
        for name, sample in large.items()
        if sample.size >= RUNS_FOR_SHAPE_MIN and not does_not_vary(sample, 1.0)
    }
    p_values = holm([float(scipy.stats.shapiro(sample).pvalue) for sample in able.values()])
    return [name for name, p in zip(able, p_values, strict=True) if p < SIGNIFICANT_SHAPE]
