"""The command `schedlab`: one function a verb, from options to printed answer.

Data go to stdout, all else to stderr. Exit codes: 0 all is well, 1 something was found (a run
failed), 2 the input is wrong, 130 interrupted. Plotting and statistics are imported by the verbs
that need them, because they take longer to load than most verbs take to run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab import __version__, catalogue, experiment, sweep
from schedlab.errors import SchedlabError, UnknownName
from schedlab.experiment import Cell, Experiment
from schedlab.store import DEFAULT_PATH, RunRecord, Store, StoredExperiment

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from schedlab.report import Study

EXIT_FOUND = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
JOBS_MAX = 1024
FAILURES_SHOWN_MAX = 5
# Wide enough for ten policies; a table is only as wide as its contents.
PIPED_COLUMNS = 240


def main() -> None:
    """Runs the command line and exits; no error of the world ends in a traceback."""
    try:
        code = schedlab.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        code = EXIT_BAD_INPUT
    except click.ClickException as error:
        code = _report_usage_error(error)
    except SchedlabError as error:
        code = _report_error(str(error), error.hint)
    except (click.Abort, KeyboardInterrupt):
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has enough. Nothing may be written any more, not even by Python's own exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_BROKEN_PIPE
    except OSError as error:
        code = _report_error(str(error), None)
    except Exception as error:
        if not _is_native(error):
            raise
        code = _report_error(str(error), None)
    sys.exit(code)


def _report_error(message: str, hint: str | None) -> int:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return EXIT_BAD_INPUT


def _report_usage_error(error: click.ClickException) -> int:
    message = error.format_message()
    context = getattr(error, "ctx", None)
    hint = f"see `{context.command_path} --help`" if context else None
    return _report_error(message[:1].lower() + message[1:].rstrip("."), hint)


def _is_native(error: Exception) -> bool:
    return any(base.__name__ == "NativeError" for base in type(error).__mro__)


class Verbs(click.Group):
    """The group of verbs: a broken pipe is ours to handle, and a verb misspelt gets a suggestion."""

    def resolve_command(self, ctx: click.Context, args: list[str]):
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UnknownName("verb", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context):
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would exit with 1, which here means that something was found.
            ctx.exit(EXIT_BROKEN_PIPE)


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


_json_option = click.option("--json", "as_json", is_flag=True, help="Data as JSON on stdout.")


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, "--version", prog_name="schedlab", message="%(prog)s %(version)s"
)
def schedlab() -> None:
    """A laboratory for CPU schedulers: write a policy once in C, try it on any machine.

    POLICY is a name from `schedlab list policies`, or the path of your own .bpf.c file.
    """


# ---------------------------------------------------------------------------------------------
# run


@schedlab.command("run")
@click.argument("policy")
@click.option("--workload", required=True, metavar="NAME|PATH", help="What the tasks do.")
@click.option("--machine", required=True, metavar="NAME|PATH", help="Where they do it.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of all random numbers.")
@_scenario_options
@click.option("--until", metavar="TIME", help="Stop at this simulated time, as in 9.3s.")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the run in this store.")
@_json_option
def run_verb(policy, workload, machine, seed, parameters, settings, until, store, as_json) -> int:
    """Simulate one policy once and print the metrics of the run."""
    asked = experiment.build(
        {
            "policies": [policy],
            "workload": workload,
            "machine": [machine],
            "seed": seed,
            "with": experiment.parse_assignments("--with", parameters),
            "set": experiment.parse_set(settings),
            "until_ns": experiment.parse_duration_ns("--until", until) if until else None,
        }
    )
    [cell] = experiment.expand(asked)
    with Store(store) if store else contextlib.nullcontext() as kept:
        record = sweep.record(cell, sweep.run_alone(cell), None)
        if kept is not None:
            kept.add(record)
    if as_json:
        _print_json(_record_json(record))
    elif not sweep.is_crash(record.result):
        _print_table(_run_table(cell, record))
    if record.status == "failed":
        _report_failure(record)
        return EXIT_FOUND
    return 0


def _run_table(cell: Cell, record: RunRecord) -> Table:
    """Name and value of each metric of one run."""
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, title=_run_title(cell))
    table.title_justify = "left"
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, value in _run_rows(record.result):
        table.add_row(name, value)
    return table


def _run_title(cell: Cell) -> str:
    parameters = "".join(f" {name}={value}" for name, value in cell.workload.parameters.items())
    return (
        f"{cell.policy.label} with {cell.workload.name}{parameters} on {cell.machine.name},"
        f" seed {cell.seed}"
    )


def _run_rows(result: Mapping) -> Iterator[tuple[str, str]]:
    makespan_ns, messages = result["makespan_ns"], result["messages"]
    ended = {"completed": "", "stopped": " (stopped before its end)", "failed": " (failed)"}
    yield "makespan", format_ns(makespan_ns) + ended[result["status"]]
    if messages and makespan_ns:
        yield "throughput", f"{messages * 1e9 / makespan_ns:,.0f} messages/s of {messages:,}"
    yield "tasks on CPUs", f"{result['nr_tasks']:,} on {result['nr_cpus']}"
    yield (
        "switches",
        (
            f"{result['switches']:,}: {result['voluntary_switches']:,} voluntary,"
            f" {result['involuntary_switches']:,} involuntary"
        ),
    )
    yield "migrations", f"{result['migrations']:,} in {result['wakeups']:,} wake-ups"
    for name, key in (
        ("wake-up latency", "wakeup_latency_ns"),
        ("wait", "wait_ns"),
        ("run", "run_ns"),
    ):
        yield name, _spread(result[key])
    cpu_time_ns = result["cpu_time_ns"]
    total_ns = sum(cpu_time_ns.values()) or 1
    shares = [
        f"{name.replace('_', ' ')} {100 * ns / total_ns:.2f} %" for name, ns in cpu_time_ns.items()
    ]
    yield "CPU time", ", ".join(shares)
    yield "Jain fairness", f"{result['jain_fairness']:.4f} (1 is even)"
    yield "events", f"{result['events']:,} in {format_ns(result['elapsed_ns'])} simulated"
    yield "digest", result["digest"]


def _spread(histogram: Mapping) -> str:
    if not histogram["count"]:
        return "never"
    return ", ".join(
        f"{name} {format_ns(histogram[name])}" for name in ("p50", "p90", "p99", "max")
    )


def format_ns(duration_ns: float) -> str:
    """A time for people: four significant digits in the unit that suits it."""
    for unit, unit_ns in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if duration_ns >= unit_ns:
            return f"{duration_ns / unit_ns:#.4g}".rstrip(".") + f" {unit}"
    return f"{duration_ns:.0f} ns"


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
    default=sweep.nr_cpus_usable,
    show_default="CPUs",
    help="Simulations at a time.",
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
@click.option("--quiet", "-q", is_flag=True, help="No progress, no summary on stderr.")
@_json_option
def compare_verb(
    policies,
    file,
    workload,
    machines,
    varied,
    parameters,
    settings,
    repeat,
    seed,
    jobs,
    store,
    report_path,
    quiet,
    as_json,
) -> int:
    """Compare policies over machines, workload parameters and repetitions.

    The first policy is the one the others are compared with. Every finished run is kept in the
    store at once: after Ctrl-C or a crash, the same command goes on where it stopped.
    """
    given = {
        "policies": list(policies),
        "workload": workload,
        "machine": list(machines),
        "vary": experiment.parse_vary(varied),
        "with": experiment.parse_assignments("--with", parameters),
        "set": experiment.parse_set(settings),
        "repeat": repeat,
        "seed": seed,
    }
    asked = experiment.build(_merge(file, given))
    if report_path:
        _refuse_unwritable(report_path)
    cells = experiment.expand(asked)
    command = shlex.join(["schedlab", *sys.argv[1:]])
    with Store(store) as kept:
        kept.add_experiment(
            StoredExperiment(asked.id, asked.name, asked.definition, command, _now())
        )
        records, reused = _make_runs(asked, cells, kept, jobs, quiet)
    return _answer(asked, records, reused, command, report_path, quiet, as_json)


def _merge(file: str | None, given: Mapping) -> dict:
    """What an experiment file says, overridden by what the options say."""
    options = {"repeat": 5}
    if file:
        options |= experiment.read_options(catalogue.find(catalogue.EXPERIMENTS, file))
    for key, value in given.items():
        if key in ("vary", "with"):
            options[key] = {**options.get(key, {}), **value}
        elif key == "set":
            for label, settings in value.items():
                tunables = options.setdefault(key, {})
                tunables[label] = {**tunables.get(label, {}), **settings}
        elif value not in (None, []):
            options[key] = value
    return options


def _refuse_unwritable(path: Path) -> None:
    """Better before a long sweep than after it."""
    directory = path.absolute().parent
    if not directory.is_dir():
        raise SchedlabError(f"--report {path}: there is no directory {directory}", "make it first")
    if not os.access(path if path.exists() else directory, os.W_OK):
        raise SchedlabError(f"--report {path} cannot be written", "name another file")


def _make_runs(
    asked: Experiment, cells: Sequence[Cell], store: Store, jobs: int, quiet: bool
) -> tuple[list[RunRecord], int]:
    """The record of every cell, from the store where it has one; and how many it had."""
    records: list[RunRecord] = []
    missing: list[Cell] = []
    for cell in cells:
        found = store.find(cell.key)
        if found is None:
            missing.append(cell)
        else:
            records.append(_adopt(found, cell, asked))
            store.add(records[-1])
    reused = len(records)
    started = datetime.now(UTC)
    try:
        with (
            _progress(missing, quiet) as advance,
            contextlib.closing(sweep.run_cells(missing, min(jobs, max(len(missing), 1)))) as runs,
        ):
            for cell, outcome in runs:
                record = sweep.record(cell, outcome, asked.id)
                store.add(record)
                records.append(record)
                advance(cell)
    except KeyboardInterrupt:
        click.echo(
            f"interrupted: {len(records)} of {len(cells)} runs are kept in {store.path};"
            f" to go on: {shlex.join(['schedlab', *sys.argv[1:]])}",
            err=True,
        )
        raise
    if not quiet:
        seconds = (datetime.now(UTC) - started).total_seconds()
        click.echo(
            f"{len(missing)} runs made in {seconds:.1f} s, {reused} reused from {store.path}",
            err=True,
        )
    return sorted(records, key=_grid_order(cells)), reused


def _adopt(found: RunRecord, cell: Cell, asked: Experiment) -> RunRecord:
    """A run of the store in its place in this experiment."""
    return dataclasses.replace(
        found,
        policy=cell.policy.label,
        machine=cell.machine.name,
        workload=cell.workload.name,
        varied=dict(cell.workload.varied),
        manifest={**found.manifest, "experiment": asked.id},
    )


def _grid_order(cells: Sequence[Cell]):
    """A sort key that puts records in the order in which the experiment names things."""
    policies = list(dict.fromkeys(cell.policy.label for cell in cells))
    machines = list(dict.fromkeys(cell.machine.name for cell in cells))
    varied = [json.dumps(dict(cell.workload.varied)) for cell in reversed(cells)]
    places = {text: place for place, text in enumerate(dict.fromkeys(varied))}
    return lambda record: (
        machines.index(record.machine),
        places[json.dumps(record.varied)],
        policies.index(record.policy),
        record.seed,
    )


@contextlib.contextmanager
def _progress(cells: Sequence[Cell], quiet: bool):
    """A bar on stderr with rate and time left, as a function to call with each finished cell.

    Long cells come first, so time left is reckoned by the cells' weights and not by their number.
    """
    if quiet or not cells or not sys.stderr.isatty():
        yield lambda cell: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.fields[done]}/{task.fields[cells]} runs"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(compact=True),
        progress.TextColumn("left"),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        total = sum(cell.workload.weight for cell in cells)
        task = bar.add_task("", total=total, done=0, cells=len(cells), rate="")
        done = 0

        def advance(cell: Cell) -> None:
            nonlocal done
            done += 1
            rate = f"{done / max(bar.tasks[0].elapsed or 0, 1e-3):.2f} runs/s"
            bar.update(task, advance=cell.workload.weight, done=done, rate=rate)

        yield advance


def _answer(
    asked: Experiment,
    records: Sequence[RunRecord],
    reused: int,
    command: str,
    report_path: Path | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Prints what came of an experiment and writes its report."""
    from schedlab import report

    study = report.study_of(records)
    if as_json:
        _print_json(_study_json(asked, study, records, reused))
    else:
        _print_table(_study_table(study))
    if report_path:
        report.write_report(report_path, records, _title(asked), command)
        if not quiet:
            click.echo(f"report: {report_path}", err=True)
    for record in study.incomplete[:FAILURES_SHOWN_MAX]:
        _report_failure(record)
    hidden = len(study.incomplete) - FAILURES_SHOWN_MAX
    if hidden > 0:
        click.echo(f"and {hidden} more runs did not complete: see --json", err=True)
    return EXIT_FOUND if study.incomplete else 0


def _title(asked: Experiment) -> str:
    labels = ", ".join(choice.label for choice in asked.policies)
    workload = Path(asked.workload).name.removesuffix(catalogue.WORKLOADS.suffix)
    return f"{labels} with {workload}"


def _study_table(study: Study) -> Table:
    """A row a machine and varied value: mean, half-width, and ratio to the first policy."""
    from rich.table import Table

    table = Table(
        title=f"makespan in {study.unit}: mean ± half of its 95 % interval,"
        f" then times {study.policies[0]} [95 % interval]",
        title_justify="left",
        pad_edge=False,
    )
    table.add_column("machine", no_wrap=True)
    table.add_column(study.axis or "", justify="right", no_wrap=True)
    for policy in study.policies:
        table.add_column(policy, justify="right", no_wrap=True)
    for panel in study.panels:
        for index, cell in enumerate(panel.cells):
            name = panel.name if index == 0 else ""
            x = "" if cell.x is None else str(cell.x)
            table.add_row(name, x, *(_cell_text(cell, policy) for policy in study.policies))
        if panel.growth:
            texts = [_growth_text(panel.growth.get(policy)) for policy in study.policies]
            table.add_row("", "growth", *texts)
        table.add_section()
    return table


def _cell_text(cell, policy: str) -> str:
    from schedlab.report import factor, number

    estimate = cell.makespan.get(policy)
    if estimate is None:
        return "failed"
    text = number(estimate.mean)
    if estimate.high is not None:
        text += f" ± {number((estimate.high - estimate.low) / 2)}"
    if policy in cell.comparisons:
        ratio = cell.comparisons[policy].ratio
        text += f"\n× {factor(ratio.ratio)}"
        if ratio.low is not None:
            text += rf" \[{factor(ratio.low)}, {factor(ratio.high)}]"
    return text


def _growth_text(growth) -> str:
    from schedlab.report import factor

    if growth is None:
        return ""
    text = f"n^{factor(growth.exponent)}"
    return text if growth.low is None else rf"{text} \[{factor(growth.low)}, {factor(growth.high)}]"


def _study_json(asked: Experiment, study: Study, records: Sequence[RunRecord], reused: int) -> dict:
    from schedlab.statistics import QUANTILE_LEVELS

    def cell_json(panel, cell, policy: str) -> dict:
        estimate = dataclasses.asdict(cell.makespan[policy])
        estimate["quantiles"] = dict(
            zip(map(str, QUANTILE_LEVELS), estimate["quantiles"], strict=True)
        )
        comparison = cell.comparisons.get(policy)
        record = cell.runs[policy][0]
        return {
            "policy": policy,
            "machine": record.machine,
            "workload": record.workload,
            "varied": record.varied,
            "makespan": estimate,
            "compared": comparison and dataclasses.asdict(comparison),
        }

    return {
        "experiment": {"id": asked.id, **asked.definition},
        "unit": study.unit,
        "compared_with": study.policies[0],
        "cells": [
            cell_json(panel, cell, policy)
            for panel in study.panels
            for cell in panel.cells
            for policy in cell.makespan
        ],
        "growth": [
            {"panel": panel.name, "policy": policy, "of": study.axis, **dataclasses.asdict(growth)}
            for panel in study.panels
            for policy, growth in panel.growth.items()
        ],
        "runs": [_record_json(record) for record in records],
        "reused": reused,
    }


# ---------------------------------------------------------------------------------------------
# list


@schedlab.group("list", cls=Verbs)
def list_verb() -> None:
    """List the policies, machines or workloads that there are."""


_verbose_option = click.option("--verbose", "-v", is_flag=True, help="With tunables or parameters.")


@list_verb.command("policies")
@_verbose_option
@_json_option
def list_policies(verbose: bool, as_json: bool) -> int:
    """Name and idea of every policy; with -v its tunables, their defaults and meaning."""
    rows, broken = [], 0
    for name, path in catalogue.names(catalogue.POLICIES).items():
        try:
            policy = catalogue.load_policy(path)
        except catalogue.native().PolicyError as error:
            broken += 1
            click.echo(f"error: {error}", err=True)
            continue
        rows.append(
            {
                "name": name,
                "idea": policy.description,
                "source": str(path),
                "tunables": policy.tunables,
            }
        )
    _print_catalogue(rows, ("name", "idea"), "tunables" if verbose else None, as_json)
    return EXIT_FOUND if broken else 0


@list_verb.command("machines")
@_json_option
def list_machines(as_json: bool) -> int:
    """Every machine: its CPUs, its clock tick and what it stands for."""
    rows = []
    for name, path in catalogue.names(catalogue.MACHINES).items():
        machine = catalogue.load_machine(path)
        rows.append(
            {
                "name": name,
                "cpus": machine.nr_cpus,
                "hz": machine.hz,
                "description": machine.description,
                "source": str(path),
            }
        )
    _print_catalogue(rows, ("name", "cpus", "hz", "description"), None, as_json)
    return 0


@list_verb.command("workloads")
@_verbose_option
@_json_option
def list_workloads(verbose: bool, as_json: bool) -> int:
    """Every workload; with -v its parameters, their defaults and meaning."""
    rows = []
    for name, path in catalogue.names(catalogue.WORKLOADS).items():
        workload = catalogue.load_workload(path, {})
        rows.append(
            {
                "name": name,
                "description": workload.description,
                "source": str(path),
                "parameters": catalogue.workload_parameters(path),
            }
        )
    _print_catalogue(rows, ("name", "description"), "parameters" if verbose else None, as_json)
    return 0


def _print_catalogue(
    rows: Sequence[Mapping], columns: Sequence[str], detail: str | None, as_json: bool
) -> None:
    """A row an entry; below it, with `detail`, what can be set of it."""
    if as_json:
        _print_json(rows)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(row[column])) for column in columns))
        for item in row[detail] if detail else ():
            default = str(item["default"])
            table.add_row(f"  {item['name']}", escape(f"{item['doc']} (default {default})"))
    _print_table(table)


# ---------------------------------------------------------------------------------------------
# report


@schedlab.command("report")
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
@_json_option
def report_verb(store: Path, output: Path, wanted: str | None, as_json: bool) -> int:
    """Make the report of an experiment again from its store."""
    _refuse_unwritable(output)
    with Store(store, read_only=True) as kept:
        chosen, others = _choose_experiment(kept, wanted)
        records = kept.runs(chosen.id)
    if not records:
        raise SchedlabError(
            f"experiment {chosen.name or chosen.id} of {store} has no finished run",
            f"make its runs: {chosen.command}",
        )
    if others and wanted is None:
        click.echo(
            f"this is the latest experiment; the others of {store}, for --experiment:"
            f" {', '.join(others)}",
            err=True,
        )
    from schedlab import report

    records = sorted(records, key=_stored_order(chosen))
    report.write_report(output, records, _stored_title(chosen), chosen.command)
    if as_json:
        _print_json({"report": str(output), "experiment": chosen.id, "runs": len(records)})
    else:
        click.echo(f"report of {len(records)} runs: {output}", err=True)
    return 0


def _choose_experiment(store: Store, wanted: str | None) -> tuple[StoredExperiment, list[str]]:
    """The experiment asked for, or the latest; and the names of all others."""
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
    return chosen, [one.name or one.id for one in stored if one is not chosen]


def _stored_title(stored: StoredExperiment) -> str:
    labels = ", ".join(choice["label"] for choice in stored.definition["policies"])
    workload = Path(stored.definition["workload"]).name
    return f"{labels} with {workload.removesuffix(catalogue.WORKLOADS.suffix)}"


def _stored_order(stored: StoredExperiment):
    """As `_grid_order`, from the definition alone, because files may be gone by now."""
    policies = [choice["label"] for choice in stored.definition["policies"]]
    machines = [Path(text).name.removesuffix(".toml") for text in stored.definition["machines"]]
    return lambda record: (
        machines.index(record.machine) if record.machine in machines else len(machines),
        policies.index(record.policy),
        [experiment.numeric(value) or 0.0 for value in record.varied.values()],
        record.seed,
    )


# ---------------------------------------------------------------------------------------------
# What verbs print


def _print_json(data: object) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def _print_table(table: Table) -> None:
    console = _console()
    console.print(table)


def _console() -> Console:
    """Stdout as rich writes it; piped, a table has all the room it needs."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_COLUMNS)


def _record_json(record: RunRecord) -> dict:
    return dataclasses.asdict(record)


def _report_failure(record: RunRecord) -> None:
    """What went wrong in a run, and the command that shows it again."""
    error = record.result.get("error")
    if error is None:
        click.echo(f"error: {record.policy} did not come to an end: {record.status}", err=True)
    else:
        click.echo(f"error: {error['message']}", err=True)
    click.echo(f"replay: {record.manifest['replay']}", err=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
