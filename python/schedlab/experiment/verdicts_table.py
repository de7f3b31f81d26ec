"""Claims and their verdicts as `compare` prints them: a table for people, the same as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.table import Table

from schedlab.report.tables import print_table
from schedlab.shown import print_data

if TYPE_CHECKING:
    from schedlab.experiment.verdicts import Judged

SAYS_COLUMNS_MAX = 56


def print_verdicts(judged: Sequence[Judged]) -> None:
    """A row a claim, and what decides; nothing where an experiment holds no claims."""
    from schedlab.experiment.verdicts import (
        bounds_text,
        pairing_text,
        published_text,
        simulated_text,
        verdict_text,
    )

    if not judged:
        return
    print_data("what others claimed")
    table = Table(box=box.SIMPLE)
    table.add_column("claim", max_width=SAYS_COLUMNS_MAX)
    for column in ("published", "simulated", "claimed"):
        table.add_column(column, justify="right")
    table.add_column("verdict", max_width=SAYS_COLUMNS_MAX)
    for one in judged:
        forms = (published_text, simulated_text, bounds_text, verdict_text)
        table.add_row(escape(one.says), *(escape(form(one)) for form in forms))
    print_table(table)
    print_data(
        "verdict: reproduced if the 95 % interval [ ] lies within what is claimed, not reproduced"
        " if outside it;\nof several places: the smallest and the largest, and all must agree"
    )
    if paired := pairing_text(judged):
        print_data(f"paired: {paired}")
    print_data()


def verdicts_json(judged: Sequence[Judged]) -> dict[str, list[dict]]:
    """The same with every place; ratios, or percentages where `unit` is %."""
    from schedlab.experiment.verdicts import verdict_text

    return {
        "claims": [
            {
                "says": one.says,
                "unit": one.unit,
                "verdict": str(one.verdict),
                "told": verdict_text(one),
                "nr_places": one.nr_places,
                "places": [
                    {**dataclasses.asdict(finding), "verdict": str(finding.verdict)}
                    for finding in one.findings
                ],
            }
            for one in judged
        ]
    }
