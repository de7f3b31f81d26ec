"""The report of an experiment: what it tells of, and the file that is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schedlab.errors import NoTimeline, SchedlabError
from schedlab.experiment.cells import Cell
from schedlab.experiment.definition import told_sets
from schedlab.experiment.stored import title_of
from schedlab.shown import print_note

if TYPE_CHECKING:
    from schedlab.experiment.published import Beside
    from schedlab.experiment.study import Study
    from schedlab.experiment.timeline_figure import Timelines


@dataclass(frozen=True)
class Told:
    """What a report tells of an experiment: definition, command, runs as a study, published times,
    and how to have its cells, which only a timeline needs."""

    definition: Mapping
    command: str
    study: Study
    published: Mapping[str, Beside]
    cells: Callable[[], Sequence[Cell]]


def write(
    path: Path, told: Told, looked_at: Sequence[str] | None, scenario: str | None, quiet: bool
) -> None:
    """Writes a report; `looked_at` and `scenario` are what its timeline shows."""
    from schedlab.experiment import page
    from schedlab.experiment.verdicts import judge

    try:
        page.write_study(
            path,
            told.study,
            title_of(told.definition),
            told.command,
            told.published,
            _description(told.definition),
            _timelines(told, looked_at or (), scenario or "", quiet),
            judge(told.definition, told.study),
        )
    except OSError as error:
        raise SchedlabError(
            f"report {path} cannot be written: {error.strerror}",
            "every run is kept: `schedlab report STORE -o OUT.html` makes the report of a store",
        ) from error


def _description(definition: Mapping) -> str:
    """What the experiment says of itself, and which sets its policies are."""
    sets = told_sets(definition)
    return " ".join(filter(None, (definition.get("description", ""), sets and f"Here {sets}.")))


def _timelines(
    told: Told, looked_at: Sequence[str], scenario: str, quiet: bool
) -> Timelines | None:
    """A pair of runs to look into; None, with a note, if nobody asked and there is none."""
    from schedlab.experiment import timelines

    try:
        pair = timelines.choose(told.study, looked_at, scenario)
        return timelines.record_timelines(pair, told.cells())
    except NoTimeline as error:
        if looked_at or scenario:
            raise
        if not quiet:
            print_note(f"note: {error}")
        return None
