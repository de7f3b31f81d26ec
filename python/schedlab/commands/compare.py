"""The verb `schedlab compare`: a grid of runs, and what it says.

Statistics and plots are imported where they are needed: they take longer to load than most runs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from schedlab import catalogue, user_file, values
from schedlab.commands import options
from schedlab.errors import EXIT_FOUND, SchedlabError
from schedlab.experiment import (
    definition,
    interactivity_table,
    reporting,
    table,
    verdicts_table,
    vm,
)
from schedlab.experiment.cells import expand
from schedlab.experiment.making import Comparison, begin
from schedlab.report import tables
from schedlab.store.runs import RunRecord, Store

if TYPE_CHECKING:
    from schedlab.experiment.published import Beside
    from schedlab.experiment.study import Study


@click.command("compare")
@click.argument("policies", nargs=-1, metavar="[[LABEL=]POLICY]...")
@click.option(
    "--experiment",
    "file",
    metavar="NAME|PATH",
    help="Take what is not given here from this experiment file.",
)
@click.option("--workload", metavar="NAME|PATH", help="What the tasks do.")
@click.option(
    "--machine",
    "machines",
    multiple=True,
    metavar="NAME|PATH",
    help="Where they do it; once for each machine.",
)
@options.vm_options(several=True)
@click.option(
    "--vary",
    "varied",
    multiple=True,
    metavar="NAME=VALUES",
    help="A workload parameter to vary: a..b:step, a..b or a,b,c.",
)
@options.scenario_options
@click.option("--repeat", type=int, help="Runs of each cell, seeds SEED, SEED+1 …  [default: 5]")
@click.option("--seed", type=int, help="Of the first repetition.  [default: 1]")
@options.jobs_option("Runs", "CPUs; 1 with --on vm")
@options.store_option("Keeps every run; runs already in it are not made again.")
@options.report_option
@options.timeline_options
@options.quiet_option
@options.json_option
def compare_verb(
    policies,
    file,
    workload,
    machines,
    on,
    kernel,
    cpus,
    deterministic,
    varied,
    parameters,
    settings,
    repeat,
    seed,
    jobs,
    store,
    report_path,
    looked_at,
    scenario,
    quiet,
    as_json,
) -> int:
    """Compare policies on machines and workloads.

    A grid of runs: policies × machines × varied parameters × repetitions. The first policy is the
    one the others are compared with. Every finished run is kept in the store at once: after
    Ctrl-C or a crash, the same command goes on where it stopped. A policy is native code that runs
    with your rights, and an experiment file may name one.
    """
    given = {
        "policies": list(policies),
        "workload": workload,
        "machine": list(machines),
        "vm": vm.choice(on, kernel, cpus, deterministic, machines),
        "vary": values.parse_vary(varied),
        "with": values.parse_assignments("--with", parameters),
        "set": values.parse_set(settings),
        "repeat": repeat,
        "seed": seed,
    }
    asked = definition.build(_merge(file, given))
    if report_path:
        user_file.refuse_unwritable(report_path, store)
    elif looked_at or scenario:
        raise SchedlabError("--timeline and --scenario are of a report", "add --report FILE.html")
    cells = expand(asked)
    if looked_at or scenario:
        # Better before a long sweep than after it.
        from schedlab.experiment import timelines

        timelines.refuse_unknown(cells, looked_at or (), scenario or "")
    command = options.command()
    with Store(store) as kept:
        comparison = begin(asked, cells, kept, command)
        try:
            comparison.make_runs(vm.jobs(jobs, asked.vm), quiet)
            if not quiet:
                _say_what_was_made(comparison)
            study, published = _print_answer(comparison, as_json)
            if report_path:
                told = reporting.Told(asked.definition, command, study, published, lambda: cells)
                reporting.write(report_path, told, looked_at, scenario, quiet)
                if not quiet:
                    click.echo(f"report: {report_path}", err=True)
            return _conclude(study, comparison.records, quiet)
        except KeyboardInterrupt:
            nr_kept, nr_cells = comparison.count_kept(), len(comparison.cells)
            kept = f"all {nr_cells}" if nr_kept == nr_cells else f"{nr_kept} of {nr_cells}"
            options.tell_kept(f"{kept} runs", store)
            raise


def _say_what_was_made(comparison: Comparison) -> None:
    text = f"{comparison.nr_made} runs made, {comparison.nr_reused} reused"
    text += f" from {comparison.store.path}"
    if comparison.nr_of_others:
        text += f", {comparison.nr_of_others} made meanwhile by another process"
    click.echo(text, err=True)


def _merge(file: str | None, given: Mapping) -> dict:
    """What an experiment file says, overridden by what the options say."""
    merged = {"repeat": 5}
    of_file: dict = {}
    if file:
        of_file = definition.read_options(catalogue.find(catalogue.EXPERIMENTS, file))
    merged |= copy.deepcopy(of_file)
    for key, value in given.items():
        if key in ("vary", "with"):
            merged[key] = {**merged.get(key, {}), **value}
            for of_machine in merged.get("with_machine", {}).values():
                for name in value:
                    of_machine.pop(name, None)
        elif key == "set":
            for label, settings in value.items():
                tunables = merged.setdefault(key, {})
                tunables[label] = {**tunables.get(label, {}), **settings}
        elif value not in (None, []):
            merged[key] = value
    what_is_run = ("workload", "with", "with_machine")
    if any((merged.get(key) or None) != of_file.get(key) for key in what_is_run):
        # What the file says of itself no longer holds.
        said = [merged.pop(k, None) for k in ("title", "description", "claims", "published")]
        if any(said[-2:]):
            click.echo("note: published times are left out: this is another workload", err=True)
    return merged


def _note_identical(records: Sequence[RunRecord]) -> None:
    """Says so if chance played no part, because an interval of no width looks like certainty."""
    digests: dict[tuple, list[str]] = {}
    for record in records:
        place = (record.policy, record.machine, str(record.varied))
        digests.setdefault(place, []).append(record.digest)
    repeated = [found for found in digests.values() if len(found) > 1]
    if repeated and all(len(set(found)) == 1 for found in repeated):
        click.echo(
            f"note: every repetition of a run was identical, because {records[0].workload} draws"
            " no random numbers: the intervals have no width, and --repeat 1 says as much",
            err=True,
        )


def _print_answer(comparison: Comparison, as_json: bool) -> tuple[Study, dict[str, Beside]]:
    """Prints what came of an experiment, and gives it with what others published."""
    from schedlab.experiment.headline import told_panels
    from schedlab.experiment.published import published_beside
    from schedlab.experiment.study import study_of
    from schedlab.experiment.verdicts import judge

    asked, records = comparison.asked, comparison.records
    study = study_of(records)
    published = published_beside(asked.definition, study)
    judged = judge(asked.definition, study)
    if as_json:
        reused = comparison.nr_reused + comparison.nr_of_others
        told = table.study_json(asked, study, records, reused, published)
        told |= interactivity_table.interactivity_json(study)
        tables.print_json(told | verdicts_table.verdicts_json(judged))
    else:
        first = told_panels(study)
        sets = definition.told_sets(asked.definition)
        table.print_study(study, asked.title, asked.description, published, first, sets)
        verdicts_table.print_verdicts(judged)
        interactivity_table.print_interactivity(study)
    return study, published


def _conclude(study: Study, records: Sequence[RunRecord], quiet: bool) -> int:
    """Says what is to be known of the answer, and gives the exit code."""
    if not quiet:
        _note_identical(records)
    table.report_failures(study.incomplete)
    return EXIT_FOUND if study.incomplete else 0
