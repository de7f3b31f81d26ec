"""The verbs of the command `schedlab`: one function each, from options to printed answer.

A verb returns its exit code; what goes wrong is raised, and told by `cli`. Plotting and statistics
are imported by the verbs that need them, because they take longer to load than most verbs take to
run.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab import (
    bench_verb,
    calibrate,
    catalogue,
    check,
    doctor,
    experiment,
    export,
    interactivity_table,
    kernels,
    listing,
    load,
    merging,
    on_vm,
    queue_trace,
    race_verb,
    referee,
    report_verb,
    reproduce,
    size,
    sweep,
    terminal,
    validate,
    verdicts_table,
)
from schedlab.cells import expand
from schedlab.comparison import Comparison, Notes
from schedlab.errors import EXIT_FOUND, SchedlabError, UnknownName
from schedlab.store import DEFAULT_PATH, RunRecord, Store, StoredExperiment

if TYPE_CHECKING:
    from schedlab.study import Published, Study

JOBS_MAX = 1024


class Verbs(click.Group):
    """A group of verbs that suggests one for a misspelt name."""

    def resolve_command(self, ctx: click.Context, args: list[str]):
        """Finds the verb, or raises UnknownName with those spelled alike."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UnknownName("verb", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)


# ---------------------------------------------------------------------------------------------
# Options that verbs share


def _scenario_options(command):
    for option in reversed(
        (
            click.option(
                "--with",
                "parameters",
                metavar="NAME=VALUE",
                multiple=True,
                help="A parameter of the workload, as in groups=10.",
            ),
            click.option(
                "--set",
                "settings",
                metavar="[POLICY.]TUNABLE=VALUE",
                multiple=True,
                help="A tunable of a policy; 6ms, 250us, 1024, true.",
            ),
        )
    ):
        command = option(command)
    return command


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from schedlab import __version__

        click.echo(f"schedlab {__version__}")
        context.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def schedlab() -> None:
    """A laboratory for CPU schedulers: write a policy once in C, try it on any machine.

    POLICY is a name from `schedlab list policies`, or the path of your own .bpf.c file; after
    either, @SET names one of its tunable sets.
    """


schedlab.add_command(bench_verb.bench_verb)
schedlab.add_command(check.check_verb)
schedlab.add_command(doctor.doctor_verb)
schedlab.add_command(referee.agree_verb)
schedlab.add_command(load.load_verb)
schedlab.add_command(race_verb.race_verb)
schedlab.add_command(report_verb.report_verb)
schedlab.add_command(size.size_verb)
schedlab.add_command(export.export_verb)
schedlab.add_command(merging.merge_verb)
schedlab.add_command(calibrate.calibrate_verb)
schedlab.add_command(validate.validate_verb)
schedlab.add_command(
    Verbs(
        "list",
        commands=listing.VERBS,
        help="List the policies, machines or workloads that there are.",
    )
)
schedlab.add_command(
    Verbs(
        "kernels",
        commands=kernels.VERBS,
        help="List, fetch or add kernels for virtual machines.",
    )
)


# ---------------------------------------------------------------------------------------------
# run


@schedlab.command("run")
@click.argument("policy")
@click.option("--workload", required=True, metavar="NAME|PATH", help="What the tasks do.")
@click.option("--machine", metavar="NAME|PATH", help="Where they do it.")
@on_vm.options(several=False)
@click.option("--seed", type=int, default=1, show_default=True, help="Of all random numbers.")
@_scenario_options
@click.option("--until", metavar="TIME", help="Begin nothing after this simulated time (9.3s).")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the run in this store.")
@click.option("--timeline", is_flag=True, help="Also print every stay of a task on a CPU.")
@queue_trace.options
@terminal.json_option
def run_verb(
    policy,
    workload,
    machine,
    on,
    kernel,
    cpus,
    deterministic,
    seed,
    parameters,
    settings,
    until,
    store,
    timeline,
    queue_trace_path,
    queue,
    as_json,
) -> int:
    """Run one policy once, simulated or on a real kernel.

    A policy is native code that runs with your rights.
    """
    queue_trace.refuse_unfit(queue_trace_path, queue, is_simulated=on == "simulator")
    machines = [machine] if machine else []
    asked = experiment.build(
        {
            "policies": [policy],
            "workload": workload,
            "machine": machines,
            "vm": on_vm.choice(on, kernel, cpus, deterministic, machines),
            "seed": seed,
            "with": experiment.parse_assignments("--with", parameters),
            "set": experiment.parse_set(settings),
            "until_ns": None if until is None else experiment.parse_duration_ns("--until", until),
        }
    )
    [cell] = expand(asked)
    simulate = functools.partial(
        sweep.simulate_cell,
        timeline=timeline,
        prints=True,
        queues=queue_trace_path is not None,
    )
    with Store(store) if store else contextlib.nullcontext() as kept:
        if cell.platform:
            outcome = on_vm.measure_alone(cell, timeline)
        else:
            outcome = sweep.run_alone(cell, simulate, Notes(quiet=False).tell_slow)
        traces = outcome.result.pop("queue_traces", None)
        record = sweep.record(cell, outcome, None)
        if kept is not None:
            kept.add(sweep.without_timeline(record))
    if traces is not None:
        told = queue_trace.write(queue_trace_path, queue, traces, record.manifest["replay"])
        click.echo(told, err=True)
    if record.status == "failed":
        # The cause first: what the run did until then matters less.
        terminal.report_failures([record])
        terminal.print_evidence(record)
    if as_json:
        terminal.print_json(terminal.record_json(record))
    elif sweep.has_metrics(record.result):
        click.echo(terminal.run_title(cell))
        terminal.print_table(terminal.run_table(record))
        if record.result["timeline"] is not None:
            terminal.print_timeline(record)
    return EXIT_FOUND if record.status == "failed" else 0


# ---------------------------------------------------------------------------------------------
# compare


@schedlab.command("compare")
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
@on_vm.options(several=True)
@click.option(
    "--vary",
    "varied",
    multiple=True,
    metavar="NAME=VALUES",
    help="A workload parameter to vary: a..b:step, a..b or a,b,c.",
)
@_scenario_options
@click.option("--repeat", type=int, help="Runs of each cell, seeds SEED, SEED+1 …  [default: 5]")
@click.option("--seed", type=int, help="Of the first repetition.  [default: 1]")
@click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    show_default="CPUs; 1 with --on vm",
    help="Runs at a time.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="Keeps every run; runs already in it are not made again.",
)
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write an HTML report here.",
)
@report_verb.timeline_options
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary on stderr.")
@terminal.json_option
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
        "vm": on_vm.choice(on, kernel, cpus, deterministic, machines),
        "vary": experiment.parse_vary(varied),
        "with": experiment.parse_assignments("--with", parameters),
        "set": experiment.parse_set(settings),
        "repeat": repeat,
        "seed": seed,
    }
    asked = experiment.build(_merge(file, given))
    if report_path:
        report_verb.refuse_unwritable(report_path, store)
    elif looked_at or scenario:
        raise SchedlabError("--timeline and --scenario are of a report", "add --report FILE.html")
    cells = expand(asked)
    if looked_at or scenario:
        # Better before a long sweep than after it.
        from schedlab import timelines

        timelines.refuse_unknown(cells, looked_at or (), scenario or "")
    command = shlex.join(["schedlab", *sys.argv[1:]])
    with Store(store) as kept:
        kept.add_experiment(
            StoredExperiment(asked.id, asked.name, asked.definition, command, _now())
        )
        comparison = Comparison(asked, cells, kept)
        if asked.vm:
            comparison.simulate, comparison.order = on_vm.measure_cell, on_vm.random_order
        try:
            comparison.make_runs(on_vm.jobs(jobs, asked.vm), quiet)
            if not quiet:
                _say_what_was_made(comparison)
            study, published = _print_answer(comparison, as_json)
            if report_path:
                told = report_verb.Told(asked.definition, command, study, published, lambda: cells)
                report_verb.write(report_path, told, looked_at, scenario, quiet)
                if not quiet:
                    click.echo(f"report: {report_path}", err=True)
            return _conclude(study, comparison.records, quiet)
        except KeyboardInterrupt:
            _say_how_to_go_on(comparison, command)
            raise


def _say_how_to_go_on(comparison: Comparison, command: str) -> None:
    nr_kept, nr_cells = comparison.count_kept(), len(comparison.cells)
    kept = f"all {nr_cells}" if nr_kept == nr_cells else f"{nr_kept} of {nr_cells}"
    click.echo(
        f"\n{kept} runs are kept in {comparison.store.path}; the same command goes on from"
        f" there: {command}",
        err=True,
    )


def _say_what_was_made(comparison: Comparison) -> None:
    text = f"{comparison.nr_made} runs made, {comparison.nr_reused} reused"
    text += f" from {comparison.store.path}"
    if comparison.nr_of_others:
        text += f", {comparison.nr_of_others} made meanwhile by another process"
    click.echo(text, err=True)


def _merge(file: str | None, given: Mapping) -> dict:
    """What an experiment file says, overridden by what the options say."""
    options = {"repeat": 5}
    of_file: dict = {}
    if file:
        of_file = experiment.read_options(catalogue.find(catalogue.EXPERIMENTS, file))
    options |= copy.deepcopy(of_file)
    for key, value in given.items():
        if key in ("vary", "with"):
            options[key] = {**options.get(key, {}), **value}
            for of_machine in options.get("with_machine", {}).values():
                for name in value:
                    of_machine.pop(name, None)
        elif key == "set":
            for label, settings in value.items():
                tunables = options.setdefault(key, {})
                tunables[label] = {**tunables.get(label, {}), **settings}
        elif value not in (None, []):
            options[key] = value
    what_is_run = ("workload", "with", "with_machine")
    if any((options.get(key) or None) != of_file.get(key) for key in what_is_run):
        # What the file says of itself no longer holds.
        said = [options.pop(k, None) for k in ("title", "description", "claims", "published")]
        if any(said[-2:]):
            click.echo("note: published times are left out: this is another workload", err=True)
    return options


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


def _print_answer(comparison: Comparison, as_json: bool) -> tuple[Study, dict[str, Published]]:
    """Prints what came of an experiment, and gives it with what others published."""
    from schedlab.headline import told_panels
    from schedlab.study import published_beside, study_of
    from schedlab.verdicts import judge

    asked, records = comparison.asked, comparison.records
    study = study_of(records)
    published = published_beside(asked.definition, study)
    judged = judge(asked.definition, study)
    if as_json:
        reused = comparison.nr_reused + comparison.nr_of_others
        told = terminal.study_json(asked, study, records, reused, published)
        told |= interactivity_table.interactivity_json(study)
        terminal.print_json(told | verdicts_table.verdicts_json(judged))
    else:
        first = told_panels(study)
        sets = experiment.told_sets(asked.definition)
        terminal.print_study(study, asked.title, asked.description, published, first, sets)
        verdicts_table.print_verdicts(judged)
        interactivity_table.print_interactivity(study)
    return study, published


def _conclude(study: Study, records: Sequence[RunRecord], quiet: bool) -> int:
    """Says what is to be known of the answer, and gives the exit code."""
    if not quiet:
        _note_identical(records)
    terminal.report_failures(study.incomplete)
    return EXIT_FOUND if study.incomplete else 0


# ---------------------------------------------------------------------------------------------
# reproduce


@schedlab.command("reproduce")
@click.argument("names", nargs=-1, metavar="[NAME|TABLE]...")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="Keeps every run; runs already in it are not made again.",
)
@click.option("--repeat", type=int, help="Runs of each cell.  [default: the experiment's]")
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary on stderr.")
@click.pass_context
def reproduce_verb(context, names, store, repeat, quiet) -> int:
    """Show published figures beside ours.

    Ours are simulated, raced or measured; errors are stated. Without a name, lists what there is.
    What is known to be wrong with the originals is pointed out. After Ctrl-C the same command goes
    on where it stopped.
    """
    if not names:
        reproduce.print_list()
        return 0
    code = 0
    for number, original in enumerate(reproduce.chosen(names)):
        click.echo(("\n" if number else "") + f"== {original.name}: {original.what}\n")
        if original.experiment:
            asked = {"file": original.experiment, "store": store, "repeat": repeat, "quiet": quiet}
            code |= context.invoke(compare_verb, **asked)
        elif original.verb == reproduce.RACE:
            code |= context.invoke(race_verb.race_verb, store=store, quiet=quiet)
        elif original.verb == reproduce.SIZE:
            code |= context.invoke(size.size_verb)
        else:
            reproduce.print_rows(original)
            click.echo(f"not simulated: {original.not_simulated}")
        reproduce.print_measured(original, store)
        reproduce.print_errata(original)
    return code


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
