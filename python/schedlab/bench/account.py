"""What a page of measurements says in words: the summary, its limits, how it was done, and where.

Every sentence is made of what the store holds, so that it can be cited as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from schedlab.bench import answers as bench_answers
from schedlab.bench import forms
from schedlab.bench.answers import Answer, Row
from schedlab.bench.overall import Together
from schedlab.statistics.blocks import EXACT_BLOCKS_MAX, EXCHANGES
from schedlab.statistics.digits import p_text
from schedlab.statistics.effects import RESAMPLES
from schedlab.statistics.effects import SEED as RESAMPLING_SEED
from schedlab.statistics.estimates import CONFIDENCE, THRESHOLD, Verdict
from schedlab.statistics.evidence import WORDS
from schedlab.store.measurements import Campaign, Surroundings

LARGEST_TOLD = 3
LIBRARIES = ("numpy", "scipy", "statsmodels", "scikit-posthocs")
NOT_TOLD = "not told"

BLOCKS_TOLD = (
    "Policies took turns within blocks of one boot, each case once under each in a block, in random"
    " order. Their ratio was taken within each block, the block being the replicate: Student's t"
    " test and interval of the logarithms of these ratios, with n - 1 degrees of freedom for n"
    " blocks, or their median and the sign test where they are far from normal. The t test was"
    " checked by the test that exchanges both within blocks, exact for up to"
    f" {EXACT_BLOCKS_MAX} blocks, else by {EXCHANGES:,} random ways (R. A. Fisher, The Design of"
    " Experiments, 1935)."
)
FLOOR_TOLD = (
    "Pairs that are compared by repetitions also need a change above the noise floor: the critical"
    " difference of ISO 5725-6, which two measurements of one setup, made as these were, stay below"
    " in 95 of 100 cases, with Student's quantile, from the boots and sessions of each setup, or"
    " from the halves of its series where it was measured once. Where each boot is one number, or"
    " blocks are compared, the interval itself holds what these differ by. The floor does not widen"
    " what is called the same."
)
TOGETHER_TOLD = (
    "What several benchmarks or machines say together is the geometric mean of their ratios with"
    " one vote each, cases of one benchmark sharing a vote, and Student's interval over the votes"
    " (random effects; runs are not pooled), beside their range, I² (J. P. T. Higgins and S. G."
    " Thompson, Statistics in Medicine 21, 2002) and the count of signs; p values adjusted by the"
    " method of Benjamini and Hochberg."
)


# ---- what came of it ----------------------------------------------------------------------------


def opening(found: Sequence[Row], answers: Sequence[Answer], machines: Mapping[str, str]) -> str:
    """What was measured where, and how many of the comparisons came out how."""
    nr_values = sum(len(one.values) for row in found for one in row.samples.values())
    names = list(bench_answers.names_of(bench_answers.setups(found)).values())
    text = (
        f"{counted(nr_values, 'repetition')} of {counted(len({row.name for row in found}), 'case')}"
        f" on {listed([machines[one] for one in dict.fromkeys(row.machine for row in found)])},"
        f" under {listed(names)}."
    )
    if not answers:
        return (
            f"{text} There is nothing to compare yet: the same command under another kernel,"
            " scheduler or --label measures there, and compares."
        )
    words = [answer.verdict for answer in answers]
    against = list(dict.fromkeys(answer.pair.b for answer in answers))
    counts = ", ".join(f"{words.count(word)} {WORDS[word]}" for word in Verdict)
    return f"{text} Of {counted(len(words), 'comparison')} with {listed(against)}: {counts}."


def headlines(answers: Sequence[Answer], machines: Mapping[str, str]) -> list[tuple[str, str]]:
    """For each setup on each machine, where it is faster, slower or the same, the largest first."""
    several = len({answer.row.machine for answer in answers}) > 1
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        where = f", {machines[answer.row.machine]}" if several else ""
        name = f"{answer.pair.a} against {answer.pair.b}{where}"
        groups.setdefault(name, []).append(answer)
    return [(name, _headline(of)) for name, of in groups.items()]


def _headline(answers: Sequence[Answer]) -> str:
    parts = []
    for word in Verdict:
        these = [answer for answer in answers if answer.verdict is word]
        if not these:
            continue
        if word in (Verdict.FASTER, Verdict.SLOWER):
            these.sort(key=lambda one: one.pair.ratio.ratio, reverse=word is Verdict.SLOWER)
            told = [f"{one.row.name} {one.pair.change}" for one in these[:LARGEST_TOLD]]
            more = len(these) - len(told)
            tail = f" and {more} more" if more else ""
            parts.append(f"{WORDS[word]} in {len(these)}: {', '.join(told)}{tail}")
        else:
            parts.append(f"{WORDS[word]} in {len(these)}")
    return f"{'; '.join(parts)} (change of the time taken; below zero is faster)."


def limits(
    found: Sequence[Row], answers: Sequence[Answer], around: Sequence[Surroundings]
) -> list[str]:
    """What a reader must not conclude, and why."""
    samples = [one for row in found for one in row.samples.values()]
    nr_failed = sum(one.nr_failed for one in samples)
    told = []
    of_answers = bench_answers.limits(found)
    if nr_failed:
        told.append(f"{counted(nr_failed, 'repetition')} failed and are in no number")
    blind = [
        one
        for one in answers
        if one.verdict is Verdict.INCONCLUSIVE
        and one.pair.detectable is not None
        and one.pair.detectable > THRESHOLD
    ]
    if blind:
        worst = max(blind, key=lambda one: one.pair.detectable)
        told.append(
            f"in {len(blind)} of {counted(len(answers), 'comparison')} no difference was shown, and"
            f" one of {100 * THRESHOLD:g} % would not have been seen: of {worst.row.name} only"
            f" changes from {forms.detectable_text(worst)} on"
        )
    told += of_answers
    told += [what for what, _ in warned(around)]
    return told


def warned(around: Sequence[Surroundings]) -> list[tuple[str, str]]:
    """What was wrong and what to do, each once: who goes on is warned again, of another load."""
    first: dict[str, tuple[str, str]] = {}
    for one in around:
        for what, to_do in one.warnings:
            first.setdefault(re.sub(r"\d[\d.,]*", "#", what), (what, to_do))
    return list(first.values())


# ---- how it was done ----------------------------------------------------------------------------


def methods(
    found: Sequence[Row],
    answers: Sequence[Answer],
    together: Sequence[Together],
    chosen: Sequence[Campaign],
) -> list[str]:
    """How it was measured and compared, ready to cite."""
    told = [_measured(found, chosen)]
    if answers:
        told.append(_compared(found, len(answers)))
    if any(answer.pair.is_blocked for answer in answers):
        told.append(BLOCKS_TOLD)
    if any(answer.pair.floor for answer in answers):
        told.append(FLOOR_TOLD)
    if together:
        told.append(TOGETHER_TOLD)
    return told


def _measured(found: Sequence[Row], chosen: Sequence[Campaign]) -> str:
    counts = sorted({len(one.values) for row in found for one in row.samples.values()})
    warm_ups = sorted({case[3] for one in chosen for case in one.definition["cases"]})
    seeds = sorted({one.definition["seed"] for one in chosen})
    untils = {one.definition["until"] for one in chosen} - {None}
    days = sorted({one.asked_at[:10] for one in chosen})
    boots = sorted({one.nr_boots for row in found for one in row.samples.values() if one.values})
    has_boots = any(row.has_boots_apart(one) for row in found for one in row.others)
    in_boots = f", in {_range(boots)} boot{'s' * (boots != [1])} of its own" * has_boots
    text = (
        f"Measured with schedlab {listed(sorted({one.version for one in chosen}))}, suite"
        f" {listed(sorted({one.suite for one in chosen}))}, in campaigns begun {_range(days)}: each"
        f" case {_range(counts)} times in each setup{in_boots}, in randomised complete blocks"
        f" (order from seed {listed([str(seed) for seed in seeds])}), after {_range(warm_ups)}"
        " uncounted warm-up of each case in each boot."
    )
    if max(counts) > min(counts) and any(s.nr_noisy for row in found for s in row.samples.values()):
        text += (
            " Where a block was disturbed by other work, one more was made, up to twice as many;"
            " all of them count."
        )
    if untils:
        widths = listed([f"{100 * until:g} %" for until in sorted(untils)])
        text += (
            f" Measuring a case stopped when the mean was known to {widths} either way, looked at"
            " every five repetitions (boots, in virtual machines) with the error spread over the"
            " looks."
        )
    return text


def _compared(found: Sequence[Row], nr_compared: int) -> str:
    tests = bench_answers.tests(found)
    made = "; ".join(
        f"{sentence} ({counted(len(names), 'case')})" for sentence, names in tests.items()
    )
    percent = f"{100 * CONFIDENCE:g} %"
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"Change is the ratio of geometric means (of medians where ranks or signs were tested, of"
        " the ratios within blocks where there are blocks) minus 1, with"
        f" its {percent} interval; rates were turned into times. Tests: {made}. p values were"
        f" adjusted within a case by Holm's method and over all"
        f" {counted(nr_compared, 'comparison')} by that of Benjamini and Hochberg. Faster and"
        f" slower: the interval excludes no change, the adjusted p value is below 5 %, and the"
        f" change is at least {100 * THRESHOLD:g} %. Same: the 90 % interval lies within"
        f" {100 * THRESHOLD:g} % (two one-sided tests). No difference shown: anything else."
        f" Intervals of ratios of medians, and a second one of each ratio of means, are by"
        f" {RESAMPLES:,} bootstrap resamples, bias-corrected and accelerated (seed"
        f" {RESAMPLING_SEED}). Computed with {libraries}."
    )


def tests_of(found: Sequence[Row]) -> list[tuple[str, str, Sequence[str]]]:
    """Of every case that was compared: its name, which test and why, and what is odd."""
    told = []
    for row in found:
        if row.comparison:
            omnibus = row.comparison.omnibus
            several = len(row.samples) > 2 and omnibus is not None
            all_alike = f" {omnibus.test}: {p_text(omnibus.p_value)}." if several else ""
            told.append((row.name, row.comparison.why + all_alike, row.comparison.notes))
    return told


# ---- where it was done --------------------------------------------------------------------------


def _path(*keys: str) -> Callable[[Mapping[str, Any]], Any]:
    def get(facts: Mapping[str, Any]) -> Any:
        for key in keys:
            facts = facts.get(key) if isinstance(facts, Mapping) else None
        return facts

    return get


def _cpus(facts: Mapping[str, Any]) -> str:
    machine = facts["machine"]
    return f"{machine['nr_cpus_usable']} of {machine['nr_cpus']}"


def _memory(facts: Mapping[str, Any]) -> str | None:
    kib = facts["machine"]["memory_kib"]
    return kib and f"{kib / (1 << 20):.1f} GiB"


def _virtual(facts: Mapping[str, Any]) -> str | None:
    found = facts["machine"]["virtual"]
    return "no" if found == "" else found


def _hz(facts: Mapping[str, Any]) -> str:
    return f"{facts['kernel']['hz']} ({facts['kernel']['hz_source']})"


def _turbo(facts: Mapping[str, Any]) -> str | None:
    return {True: "on", False: "off"}.get(facts["turbo"])


def _mains(facts: Mapping[str, Any]) -> str | None:
    return {True: "mains", False: "battery"}.get(facts.get("mains"))


def _load(facts: Mapping[str, Any]) -> str | None:
    return facts["load"] and f"{facts['load'][0]:.2f}"


def _pairs(key: str) -> Callable[[Mapping[str, Any]], str | None]:
    def get(facts: Mapping[str, Any]) -> str | None:
        found = _path(*key.split("."))(facts)
        return found and ", ".join(f"{name} {text}" for name, text in sorted(found.items()))

    return get


def _inputs(facts: Mapping[str, Any]) -> str | None:
    found = facts.get("inputs")
    return found and ", ".join(
        f"{name}/{file} {digest[:12]}"
        for name, files in sorted(found.items())
        for file, digest in sorted(files.items())
    )


FACTS: tuple[tuple[str, Callable[[Mapping[str, Any]], Any]], ...] = (
    ("processor", _path("machine", "cpu_model")),
    ("CPUs used", _cpus),
    ("SMT", _path("machine", "smt")),
    ("memory", _memory),
    ("virtual machine", _virtual),
    ("kernel", _path("kernel", "release")),
    ("build", _path("kernel", "version")),
    ("scheduler in force", _path("scheduler")),
    ("preemption", _path("kernel", "preemption")),
    ("HZ", _hz),
    ("command line", _path("kernel", "command_line")),
    ("configuration, SHA-256", _path("kernel", "config_sha256")),
    ("governor", _path("governor")),
    ("frequency driver", _path("frequency_driver")),
    ("turbo", _turbo),
    ("power", _mains),
    ("load at the start", _load),
    ("pressure, % of 10 s", _pairs("pressure")),
    ("temperature, °C", _path("temperature_celsius")),
    ("slowed by heat since boot", _path("throttled")),
    ("mitigations", _pairs("kernel.mitigations")),
    ("programs", _pairs("tools")),
    ("inputs, SHA-256", _inputs),
)


def environment(columns: Sequence[Sequence[Surroundings]]) -> list[tuple[str, list[str]]]:
    """A row a fact, with what each column's captures say of it; what differs is all named."""
    return [(name, [_said(get, column) for column in columns]) for name, get in FACTS]


def _said(get: Callable[[Mapping[str, Any]], Any], column: Sequence[Surroundings]) -> str:
    texts = [get(one.facts) for one in column]
    shown = dict.fromkeys(NOT_TOLD if text in (None, "") else str(text) for text in texts)
    return " / ".join(shown)


# ---- forms --------------------------------------------------------------------------------------


def counted(n: int, what: str) -> str:
    """A number of things: 1 run, 2 runs."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def listed(parts: Sequence[str]) -> str:
    """One text of several: a, b and c."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _range(values: Sequence[Any]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"
