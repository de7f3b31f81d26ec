"""What a page of measurements says in words: the summary, its limits, how and where it was done.

Every sentence is made of what the store holds, so that it can be cited as it stands. The sentences
on method stand in the page's template; here are the facts in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from schedlab.bench import answers as bench_answers
from schedlab.bench.answers import Answer, CaseRow
from schedlab.report.forms import count_text, list_text
from schedlab.statistics.blocks import EXACT_BLOCKS_MAX, EXCHANGES
from schedlab.statistics.digits import p_text, percent
from schedlab.statistics.effects import RESAMPLES, SEED
from schedlab.statistics.estimates import THRESHOLD, Verdict
from schedlab.statistics.evidence import WORDS
from schedlab.store.measurements import Campaign, Surroundings

LARGEST_TOLD = 3
LIBRARIES = ("numpy", "scipy", "statsmodels", "scikit-posthocs")
NOT_TOLD = "not told"


# ---- what came of it ----------------------------------------------------------------------------


def opening(rows: Sequence[CaseRow], answers: Sequence[Answer], machines: Mapping[str, str]) -> str:
    """What was measured where, and how many of the comparisons came out how."""
    nr_values = sum(len(one.values) for row in rows for one in row.samples.values())
    names = list(bench_answers.names_of(bench_answers.setups(rows)).values())
    text = (
        f"{count_text(nr_values, 'repetition')} of"
        f" {count_text(len({row.name for row in rows}), 'case')}"
        f" on {list_text([machines[one] for one in dict.fromkeys(row.machine for row in rows)])},"
        f" under {list_text(names)}."
    )
    if not answers:
        return (
            f"{text} There is nothing to compare yet: the same command under another kernel,"
            " scheduler or --label measures there, and compares."
        )
    words = [answer.verdict for answer in answers]
    against = list(dict.fromkeys(answer.pair.b for answer in answers))
    counts = ", ".join(f"{words.count(word)} {WORDS[word]}" for word in Verdict)
    return f"{text} Of {count_text(len(words), 'comparison')} with {list_text(against)}: {counts}."


def headlines(answers: Sequence[Answer], machines: Mapping[str, str]) -> list[tuple[str, str]]:
    """For each setup on each machine, where it is faster, slower or the same, the largest first."""
    several = len({answer.row.machine for answer in answers}) > 1
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        where = f", {machines[answer.row.machine]}" if several else ""
        name = f"{answer.pair.a} against {answer.pair.b}{where}"
        groups.setdefault(name, []).append(answer)
    return [(name, _headline(group)) for name, group in groups.items()]


def _headline(answers: Sequence[Answer]) -> str:
    parts = []
    for word in Verdict:
        these = [answer for answer in answers if answer.verdict is word]
        if not these:
            continue
        part = f"{WORDS[word]} in {len(these)}"
        if word in (Verdict.FASTER, Verdict.SLOWER):
            these.sort(key=lambda one: one.pair.ratio.ratio, reverse=word is Verdict.SLOWER)
            largest = [f"{one.row.name} {one.pair.change}" for one in these[:LARGEST_TOLD]]
            nr_more = len(these) - len(largest)
            part += f": {', '.join(largest)}" + (f" and {nr_more} more" if nr_more else "")
        parts.append(part)
    return f"{'; '.join(parts)} (change of the time taken; below zero is faster)."


def limits(rows: Sequence[CaseRow], answers: Sequence[Answer]) -> list[str]:
    """What a reader must not conclude, and why, beside what `bench.limits` says."""
    sentences = []
    if nr_failed := sum(one.nr_failed for row in rows for one in row.samples.values()):
        sentences.append(f"{count_text(nr_failed, 'repetition')} failed and are in no number")
    blind = [
        one
        for one in answers
        if one.verdict is Verdict.INCONCLUSIVE and (one.pair.detectable or 0) > THRESHOLD
    ]
    if blind:
        worst = max(blind, key=lambda one: one.pair.detectable)
        sentences.append(
            f"in {len(blind)} of {count_text(len(answers), 'comparison')} no difference was shown,"
            f" and one of {100 * THRESHOLD:g} % would not have been seen: of {worst.row.name} only"
            f" changes from {percent(worst.pair.detectable)} on"
        )
    return sentences


def warned(around: Sequence[Surroundings]) -> list[tuple[str, str]]:
    """What was wrong and what to do, each once: who goes on is warned again, of another load."""
    first: dict[str, tuple[str, str]] = {}
    for one in around:
        for what, to_do in one.warnings:
            first.setdefault(re.sub(r"\d[\d.,]*", "#", what), (what, to_do))
    return list(first.values())


# ---- how it was done ----------------------------------------------------------------------------


def methods(
    rows: Sequence[CaseRow], answers: Sequence[Answer], chosen: Sequence[Campaign]
) -> dict[str, Any]:
    """What the paragraphs on method are made of."""
    samples = [one for row in rows for one in row.samples.values()]
    counts = sorted({len(one.values) for one in samples})
    boots = sorted({one.nr_boots for one in samples if one.values})
    has_boots = any(row.has_boots_apart(one) for row in rows for one in row.others)
    widths = sorted({one.definition["until"] for one in chosen} - {None})
    tests = bench_answers.tests(rows)
    return {
        "suites": list_text(sorted({one.suite for one in chosen})),
        "days": _range(sorted({one.asked_at[:10] for one in chosen})),
        "counts": _range(counts),
        "boots": f"{_range(boots)} boot{'s' * (boots != [1])}" if has_boots else "",
        "seeds": list_text(sorted({str(one.definition["seed"]) for one in chosen})),
        "warm_ups": _range(sorted({case[3] for one in chosen for case in one.definition["cases"]})),
        "makes_up": max(counts) > min(counts) and any(one.nr_noisy for one in samples),
        "widths": list_text([f"{100 * width:g} %" for width in widths]),
        "tests": "; ".join(
            f"{test} ({count_text(len(names), 'case')})" for test, names in tests.items()
        ),
        "compared": count_text(len(answers), "comparison"),
        "is_blocked": any(answer.pair.is_blocked for answer in answers),
        "has_floor": any(answer.pair.floor for answer in answers),
        "threshold": f"{100 * THRESHOLD:g} %",
        "resamples": f"{RESAMPLES:,}",
        "resampling_seed": SEED,
        "exact_blocks": EXACT_BLOCKS_MAX,
        "exchanges": f"{EXCHANGES:,}",
        "libraries": ", ".join(f"{name} {version(name)}" for name in LIBRARIES),
    }


def tests_of(rows: Sequence[CaseRow]) -> list[tuple[str, str, Sequence[str]]]:
    """Of every case that was compared: its name, which test and why, and what is odd."""
    tests = []
    for row in rows:
        if row.comparison:
            omnibus = row.comparison.omnibus
            several = len(row.samples) > 2 and omnibus is not None
            all_alike = f" {omnibus.test}: {p_text(omnibus.p_value)}." if several else ""
            tests.append((row.name, f"{row.comparison.why}{all_alike}", row.comparison.notes))
    return tests


def _range(values: Sequence[Any]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


# ---- where it was done --------------------------------------------------------------------------


def _each(texts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {text}" for name, text in sorted(texts.items()))


def _inputs(inputs: Mapping[str, Mapping[str, str]]) -> str:
    return ", ".join(
        f"{name}/{file} {digest[:12]}"
        for name, files in sorted(inputs.items())
        for file, digest in sorted(files.items())
    )


# What it is, where it stands among the facts of `environment.capture`, and how it is written.
FACTS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("processor", "machine.cpu_model", str),
    ("CPUs used", "machine", lambda of: f"{of['nr_cpus_usable']} of {of['nr_cpus']}"),
    ("SMT", "machine.smt", str),
    ("memory", "machine.memory_kib", lambda kib: f"{kib / (1 << 20):.1f} GiB"),
    ("virtual machine", "machine.virtual", lambda name: name or "no"),
    ("kernel", "kernel.release", str),
    ("build", "kernel.version", str),
    ("scheduler in force", "scheduler", str),
    ("preemption", "kernel.preemption", str),
    ("HZ", "kernel", lambda of: f"{of['hz']} ({of['hz_source']})"),
    ("command line", "kernel.command_line", str),
    ("configuration, SHA-256", "kernel.config_sha256", str),
    ("governor", "governor", str),
    ("frequency driver", "frequency_driver", str),
    ("turbo", "turbo", lambda is_on: "on" if is_on else "off"),
    ("power", "mains", lambda is_on: "mains" if is_on else "battery"),
    ("load at the start", "load", lambda load: f"{load[0]:.2f}"),
    ("pressure, % of 10 s", "pressure", _each),
    ("temperature, °C", "temperature_celsius", str),
    ("slowed by heat since boot", "throttled", str),
    ("mitigations", "kernel.mitigations", _each),
    ("programs", "tools", _each),
    ("inputs, SHA-256", "inputs", _inputs),
)


def environment(columns: Sequence[Sequence[Surroundings]]) -> list[tuple[str, list[str]]]:
    """A row a fact, with what each column's captures say of it; what differs is all named."""
    return [
        (
            name,
            [
                " / ".join(dict.fromkeys(_fact(one.facts, path, form) for one in column))
                for column in columns
            ],
        )
        for name, path, form in FACTS
    ]


def _fact(facts: Any, path: str, form: Callable[[Any], Any]) -> str:
    for key in path.split("."):
        facts = facts.get(key) if isinstance(facts, Mapping) else None
    return NOT_TOLD if facts is None else form(facts) or NOT_TOLD
