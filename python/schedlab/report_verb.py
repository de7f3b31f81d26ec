"""`schedlab report`, and the file that it and `compare` write: how, where, and with which timeline.

A report is made of runs or measurements that are kept; only the timeline of a pair is simulated
again for it.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab import catalogue, experiment, measured, store_faults, terminal, user_file
from schedlab.cells import Cell, expand
from schedlab.errors import BadValue, NoTimeline, SchedlabError, UnknownName
from schedlab.store import RunRecord, Store, StoredExperiment

# How many other experiments of a store are told.
OTHERS_MAX = 20

if TYPE_CHECKING:
    from schedlab.study import Published, Study
    from schedlab.timeline_plot import Timelines


def timeline_options(command):
    """The options that say what the timeline of a report shows."""
    for option in reversed(
        (
            click.option(
                "--timeline",
                "looked_at",
                nargs=2,
                metavar="POLICY POLICY",
                help="Draw which task ran where under these two.  [default: best and worst]",
            ),
            click.option(
                "--scenario",
                metavar="MACHINE[,NAME=VALUE]",
                help="Where to draw it: a machine and varied values.  [default: a small one]",
            ),
        )
    ):
        command = option(command)
    return command


@click.command("report")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The HTML file to write.",
)
@click.option(
    "--experiment",
    "wanted",
    metavar="NAME|ID",
    help="Which experiment of the store; the latest if not given.",
)
@click.option(
    "--suite",
    metavar="NAME",
    help="Which suite's measurements; the latest if there is no experiment that is later.",
)
@timeline_options
@terminal.json_option
def report_verb(
    store: Path,
    output: Path,
    wanted: str | None,
    suite: str | None,
    looked_at: tuple[str, str] | None,
    scenario: str | None,
    as_json: bool,
) -> int:
    """Make a page of what a store holds.

    Of an experiment, or of the measurements of a suite. Without --experiment or --suite it is of
    what was asked for last.
    """
    refuse_unwritable(output, store)
    of_runs = wanted is not None or looked_at is not None or scenario is not None
    with Store(store, read_only=True) as kept:
        if suite is not None and of_runs:
            raise BadValue(
                "--suite", suite, "is of measurements", "leave out what is of experiments"
            )
        if not of_runs and measured.is_asked_for(kept, suite):
            told = measured.write_page(kept, suite, output)
            return _tell(told, f"report of {told['repetitions']} repetitions: {output}", as_json)
        chosen, others = choose_experiment(kept, wanted)
        records = kept.runs(chosen.id)
        if others and wanted is None:
            click.echo(others_text(kept, others), err=True)
    if not records:
        raise SchedlabError(
            f"experiment {chosen.name or chosen.id} of {store} has no finished run",
            f"make its runs: {chosen.command}",
        )
    from schedlab.study import published_beside, study_of

    study = study_of(sorted(records, key=stored_order(chosen)))
    published = published_beside(chosen.definition, study)
    cells = functools.partial(_stored_cells, chosen)
    told = Told(chosen.definition, chosen.command, study, published, cells)
    write(output, told, looked_at, scenario, quiet=False)
    told = {"report": str(output), "experiment": chosen.id, "runs": len(records)}
    return _tell(told, f"report of {len(records)} runs: {output}", as_json)


def _tell(told: Mapping, text: str, as_json: bool) -> int:
    if as_json:
        terminal.print_json(told)
    else:
        click.echo(text, err=True)
    return 0


def _stored_cells(stored: StoredExperiment) -> list[Cell]:
    """The cells of a stored experiment, from the files that its names find here and now."""
    try:
        return expand(experiment.of_definition(stored.definition))
    except (SchedlabError, catalogue.native().NativeError) as error:
        raise NoTimeline(f"no timeline: its runs cannot be repeated here: {error}") from error


def others_text(store: Store, others: Sequence[StoredExperiment]) -> str:
    """That there are other experiments, and what each of the latest is."""
    query = "SELECT experiment, count(*) AS runs FROM experiment_runs GROUP BY experiment"
    runs = {row["experiment"]: row["runs"] for row in store.rows(query)}
    lines = [f"this is the latest experiment; the others of {store.path}, for --experiment:"]
    for one in reversed(others[-OTHERS_MAX:]):
        count = runs.get(one.id, 0)
        what = _title(one.definition) + _where(one.definition) if one.definition else "damaged"
        asked = one.asked_at[:16].replace("T", " ") + " UTC"
        name = f" ({one.name})" if one.name else ""
        lines.append(f"  {one.id}{name}: {what}; {count} run{'s' * (count != 1)}, {asked}")
    if len(others) > OTHERS_MAX:
        lines.append(f"  and {len(others) - OTHERS_MAX} that are older")
    return "\n".join(lines)


def _where(definition: Mapping) -> str:
    """On which machines, unless the title says it all."""
    if definition.get("title"):
        return ""
    machines = [Path(text).name.removesuffix(".toml") for text in definition["machines"]]
    if vm := definition.get("vm"):
        machines = [f"a virtual machine of {cpus} CPUs" for cpus in vm["cpus"]]
    return f" on {', '.join(machines)}"


def choose_experiment(
    store: Store, wanted: str | None
) -> tuple[StoredExperiment, list[StoredExperiment]]:
    """The experiment asked for, or the latest; and all others."""
    stored = store.experiments()
    if not stored:
        raise SchedlabError(
            f"{store.path} holds no experiment", "`schedlab compare --store` makes one"
        )
    matching = [one for one in stored if wanted in (None, one.id, one.name)]
    if not matching:
        valid = [one.name or one.id for one in stored]
        raise UnknownName("experiment", wanted, valid, f"in {store.path}")
    chosen = matching[-1]
    if experiment.id_of(chosen.definition) != chosen.id:
        raise store_faults.damaged(
            store.path,
            f"experiment {chosen.name or chosen.id}",
            "its definition is another than its id stands for",
            f"ask it again, which makes no sound run again: {chosen.command}",
        )
    return chosen, [one for one in stored if one is not chosen]


def stored_order(stored: StoredExperiment) -> Callable[[RunRecord], tuple]:
    """A sort key that puts records in the order in which their experiment names things."""
    policies = [choice["label"] for choice in stored.definition["policies"]]
    machines = [Path(text).name.removesuffix(".toml") for text in stored.definition["machines"]]
    return lambda record: (
        machines.index(record.machine) if record.machine in machines else len(machines),
        policies.index(record.policy),
        [experiment.numeric(value) or 0.0 for value in record.varied.values()],
        record.seed,
    )


@dataclass(frozen=True)
class Told:
    """What a report tells of an experiment: definition, command, runs as a study, published times,
    and how to have its cells, which only a timeline needs."""

    definition: Mapping
    command: str
    study: Study
    published: Mapping[str, Published]
    cells: Callable[[], Sequence[Cell]]


def write(
    path: Path, told: Told, looked_at: Sequence[str] | None, scenario: str | None, quiet: bool
) -> None:
    """Writes a report; `looked_at` and `scenario` are what its timeline shows."""
    from schedlab import report
    from schedlab.verdicts import judge

    try:
        report.write_study(
            path,
            told.study,
            _title(told.definition),
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
    sets = experiment.told_sets(definition)
    return " ".join(filter(None, (definition.get("description", ""), sets and f"Here {sets}.")))


def _timelines(
    told: Told, looked_at: Sequence[str], scenario: str, quiet: bool
) -> Timelines | None:
    """A pair of runs to look into; None, with a note, if nobody asked and there is none."""
    from schedlab import timelines

    try:
        pair = timelines.choose(told.study, looked_at, scenario)
        return timelines.record_timelines(pair, told.cells())
    except NoTimeline as error:
        if looked_at or scenario:
            raise
        if not quiet:
            click.echo(f"note: {error}", err=True)
        return None


def _title(definition: Mapping) -> str:
    if definition.get("title"):
        return definition["title"]
    labels = ", ".join(choice["label"] for choice in definition["policies"])
    workload = Path(definition["workload"]).name.removesuffix(catalogue.WORKLOADS.suffix)
    return f"{labels} with {workload}"


def refuse_unwritable(path: Path, store: Path) -> None:
    """Better before a long sweep than after it: makes a file beside the report, and removes it."""
    user_file.refuse_target(f"report {path}", path)
    directory = path.absolute().parent
    if not directory.is_dir():
        raise SchedlabError(f"report {path}: there is no directory {directory}", "make it first")
    try:
        is_store = path.exists() and store.exists() and path.samefile(store)
        kept = Path(os.path.realpath(store))
        # Files beside the store begin with its name, or with a dot and its name.
        beside = (str(kept), str(kept.with_name(f".{kept.name}")))
        if is_store or os.path.realpath(path).startswith(beside):
            raise SchedlabError(
                f"report {path} would take the place of the store, or of a file beside it",
                "name another file for the report",
            )
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(0, "it may only be read")
        with tempfile.NamedTemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise SchedlabError(
            f"report {path} cannot be written: {error.strerror}",
            "name a file in a writable directory",
        ) from error
