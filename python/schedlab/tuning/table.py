"""What `schedlab tune` prints: values beside each other, what fresh seeds say, and the answer."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape

from schedlab.digests import ends
from schedlab.report import tables
from schedlab.report.forms import count_text
from schedlab.shown import print_data
from schedlab.tuning.answer import Judged, Tuned, value_text

HEAD = ("measure", "where", "cost", "verdict")


def print_tuned(tuned: Tuned) -> None:
    """The answer on stdout."""
    judged = tuned.judgement.judged
    if judged:
        table = tables.headed(
            ("tunable", "as it is", *(one.label for one in judged)), left=("tunable",)
        )
        for name, value in tuned.base.items():
            of = [value_text(name, one.trial.settings[name]) for one in judged]
            table.add_row(escape(name), value_text(name, value), *of)
        tables.print_table(table)
        print_data()
    for one in judged:
        _print_rows(one, len(judged) > 1)
    for why, count in tuned.searched.failures.items():
        print_data(f"{count_text(count, 'trial')} failed: {why}")
    print_data(tuned.sentence)
    if ends := list(dict.fromkeys(name for one in judged for name in tuned.at_ends(one))):
        print_data(f"at an end of its range, beyond which --range looks: {', '.join(ends)}")
    if judged and not tuned.tuning.holdouts:
        print_data("nothing was held out: --holdout-workload NAME asks whether it is so elsewhere")


def _print_rows(judged: Judged, has_others: bool) -> None:
    table = tables.headed(HEAD, left=HEAD)
    for row in judged.rows:
        where = f"{row.where}, {row.group}" if row.is_whole or row.is_bound else f"  {row.where}"
        table.add_row(escape(row.measure), escape(where), escape(row.ratio.change), row.word)
    if judged.rows:
        tables.print_table(table)
    if judged.why and has_others:
        print_data(f"{judged.label}: {judged.why}")
    print_data()


def as_json(tuned: Tuned, written: Mapping[str, str]) -> dict[str, Any]:
    """The answer as data; `written` has the name of its set for each candidate that has one."""
    asked, searched, judgement = tuned.tuning, tuned.searched, tuned.judgement
    return {
        "policy": asked.policy,
        "verdict": tuned.word,
        "sentence": tuned.sentence,
        "as_it_is": tuned.base,
        "candidates": [
            {
                "label": one.label,
                "trial": one.trial.number,
                "tunables": one.trial.settings,
                "is_better": one.is_better,
                "why": one.why,
                "set": written.get(one.label),
                "rows": [
                    {"measure": row.measure, "group": row.group, "where": row.where}
                    | {"is_whole": row.is_whole, "is_bound": row.is_bound, "verdict": row.word}
                    | ends("cost_ratio", row.ratio, "ratio")
                    for row in one.rows
                ],
            }
            for one in judgement.judged
        ],
        "trials": [
            {"number": one.number, "state": one.state, "tunables": one.settings, "why": one.why}
            | {"log_cost_ratios": one.values, "beyond_bounds": one.excess}
            for one in searched.trials
        ],
        "importance": dict(
            zip([one.text for one in asked.objectives], searched.importance, strict=True)
        ),
        "method": searched.method,
        "seeds": [asked.seed, asked.seed + asked.repeats - 1],
        "fresh_seeds": [*judgement.seeds[:1], *judgement.seeds[-1:]],
        "record": str(searched.record),
        "commands": judgement.commands,
        "runs_made": tuned.nr_made,
        "runs_reused": tuned.nr_reused,
    }
