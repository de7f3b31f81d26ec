"""The command `schedlab`: one function a verb, from options to printed answer.

Data go to stdout, all else to stderr. Exit codes: 0 all is well, 1 something was found (a run
failed), 2 the input is wrong, 130 interrupted. Plotting and statistics are imported by the verbs
that need them, because they take longer to load than most verbs take to run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from schedlab import __version__, catalogue, doctor, experiment, kernels, sweep, terminal
from schedlab.cells import Cell, expand
from schedlab.errors import SchedlabError, UnknownName
from schedlab.experiment import Experiment
from schedlab.store import DEFAULT_PATH, RunRecord, Store, StoredExperiment

EXIT_FOUND = 1
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
JOBS_MAX = 1024


def main() -> None:
    """Runs the command line and exits; no error of the world ends in a traceback."""
    if sys.stdout is None or sys.stderr is None:
        # Closed by the shell (>&-): there is nowhere to say so.
        sys.exit(EXIT_BAD_INPUT)
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
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has enough.
        code = EXIT_BROKEN_PIPE
    except SystemExit as error:
        # click leaves so, with 1, where a pipe breaks while it prints its own help.
        code = EXIT_BROKEN_PIPE if error.code == 1 else error.code
    except OSError as error:
        code = _report_error(str(error), None)
    except Exception as error:
        if not _is_native(error):
            raise
        code = _report_error(str(error), None)
    sys.exit(_silenced(code))


def _silenced(code: int) -> int:
    """The exit code once all output is out; what cannot be written is not tried again.

    Python flushes at exit and would turn a full disk or a closed pipe into codes of its own.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if not code:
                broken = isinstance(error, BrokenPipeError)
                code = EXIT_BROKEN_PIPE if broken else EXIT_BAD_INPUT
    return code


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
    """A group of verbs: suggests one for a misspelt name, and keeps broken pipes from click."""

    def resolve_command(self, ctx: click.Context, args: list[str]):
        """Finds the verb, or raises UnknownName with those spelled alike."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            raise UnknownName("verb", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context):
        """Runs the verb; a broken pipe ends it with a code of its own."""
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


schedlab.add_command(doctor.doctor_verb)
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
            "until_ns": None if until is None else experiment.parse_duration_ns("--until", until),
        }
    )
    [cell] = expand(asked)
    with Store(store) if store else contextlib.nullcontext() as kept:
        record = sweep.record(cell, sweep.run_alone(cell), None)
        if kept is not None:
            kept.add(record)
    if as_json:
        terminal.print_json(terminal.record_json(record))
    elif not sweep.is_crash(record.result):
        terminal.print_table(terminal.run_table(cell, record))
    if record.status == "failed":
        terminal.report_failures([record])
        return EXIT_FOUND
    return 0


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
    cells = expand(asked)
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
    of_file: dict = {}
    if file:
        of_file = experiment.read_options(catalogue.find(catalogue.EXPERIMENTS, file))
    options |= of_file
    for key, value in given.items():
        if key in ("vary", "with"):
            options[key] = {**options.get(key, {}), **value}
        elif key == "set":
            for label, settings in value.items():
                tunables = options.setdefault(key, {})
                tunables[label] = {**tunables.get(label, {}), **settings}
        elif value not in (None, []):
            options[key] = value
    if any((options.get(key) or None) != of_file.get(key) for key in ("workload", "with")):
        # What the file says of itself no longer holds.
        said = [options.pop(key, None) for key in ("title", "description", "published")]
        if said[-1]:
            click.echo("note: published times are left out: this is another workload", err=True)
    return options


def _refuse_unwritable(path: Path) -> None:
    """Better before a long sweep than after it."""
    directory = path.absolute().parent
    if not directory.is_dir():
        raise SchedlabError(f"report {path}: there is no directory {directory}", "make it first")
    if not os.access(path if path.exists() else directory, os.W_OK):
        raise SchedlabError(f"report {path} cannot be written", "name another file")


def _make_runs(
    asked: Experiment, cells: Sequence[Cell], store: Store, jobs: int, quiet: bool
) -> tuple[list[RunRecord], int]:
    """The record of every cell, in order, from the store where it has one; and how many it had."""
    stored = [store.find(cell.key) for cell in cells]
    records = [
        found and _adopt(found, cell, asked) for found, cell in zip(stored, cells, strict=True)
    ]
    reused = [record for record in records if record is not None]
    store.add(*reused)
    missing = {id(cell): i for i, cell in enumerate(cells) if records[i] is None}
    waiting = [cell for cell in cells if id(cell) in missing]
    try:
        with (
            _progress(waiting, quiet) as advance,
            contextlib.closing(sweep.run_cells(waiting, jobs)) as runs,
        ):
            for cell, outcome in runs:
                record = sweep.record(cell, outcome, asked.id)
                store.add(record)
                records[missing[id(cell)]] = record
                advance(cell)
    except KeyboardInterrupt:
        kept = sum(record is not None for record in records)
        click.echo(
            f"\n{kept} of {len(cells)} runs are kept in {store.path}; the same command"
            f" goes on from there: {shlex.join(['schedlab', *sys.argv[1:]])}",
            err=True,
        )
        raise
    if not quiet:
        click.echo(f"{len(waiting)} runs made, {len(reused)} reused from {store.path}", err=True)
    return records, len(reused)


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


@contextlib.contextmanager
def _progress(cells: Sequence[Cell], quiet: bool) -> Iterator[Callable[[Cell], None]]:
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
    told = asked.definition
    published = terminal.published_beside(told, study)
    if as_json:
        terminal.print_json(terminal.study_json(asked, study, records, reused, published))
    else:
        terminal.print_study(study, asked.title, asked.description, published)
    if report_path:
        report.write_report(
            report_path, records, _title(told), command, published, asked.description
        )
        if not quiet:
            click.echo(f"report: {report_path}", err=True)
    if not quiet:
        _note_identical(records)
    terminal.report_failures(study.incomplete)
    return EXIT_FOUND if study.incomplete else 0


def _title(definition: Mapping) -> str:
    if definition.get("title"):
        return definition["title"]
    labels = ", ".join(choice["label"] for choice in definition["policies"])
    workload = Path(definition["workload"]).name.removesuffix(catalogue.WORKLOADS.suffix)
    return f"{labels} with {workload}"


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
    _print_rows(rows, as_json, ("name", "idea"), "tunables" if verbose else None)
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
    _print_rows(rows, as_json, ("name", "cpus", "hz", "description"), None)
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
    _print_rows(rows, as_json, ("name", "description"), "parameters" if verbose else None)
    return 0


def _print_rows(
    rows: Sequence[Mapping], as_json: bool, columns: Sequence[str], detail: str | None
) -> None:
    if as_json:
        terminal.print_json(rows)
    else:
        terminal.print_table(terminal.catalogue_table(rows, columns, detail))


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
    told = chosen.definition
    published = terminal.published_beside(told, report.study_of(records))
    report.write_report(
        output, records, _title(told), chosen.command, published, told.get("description", "")
    )
    if as_json:
        terminal.print_json({"report": str(output), "experiment": chosen.id, "runs": len(records)})
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


def _stored_order(stored: StoredExperiment) -> Callable[[RunRecord], tuple]:
    """A sort key that puts records in the order in which their experiment names things."""
    policies = [choice["label"] for choice in stored.definition["policies"]]
    machines = [Path(text).name.removesuffix(".toml") for text in stored.definition["machines"]]
    return lambda record: (
        machines.index(record.machine) if record.machine in machines else len(machines),
        policies.index(record.policy),
        [experiment.numeric(value) or 0.0 for value in record.varied.values()],
        record.seed,
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
