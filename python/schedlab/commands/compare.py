"""The verb `schedlab compare`: a grid of runs, and what it says.

Statistics and plots are imported where they are needed: they take longer to load than most runs.
"""

import contextlib
import copy
import importlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from schedlab import catalogue, user_file, values
from schedlab.commands import options
from schedlab.errors import SchedlabError
from schedlab.experiment import definition, followed, run_table, timelines, vm
from schedlab.experiment.cells import expand
from schedlab.experiment.making import Making, begin
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.store.runs import Store

# What most comparisons need once their runs are there.
STATISTICS = ("schedlab.experiment.table", "scipy.special", "scipy.optimize")
PAGE = "schedlab.experiment.page"
# A comparison that is done by then may need none of it.
LOAD_AFTER_S = 1.0
# How many threads OpenBLAS starts when it is loaded.
BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@click.command("compare")
@click.argument("policies", nargs=-1, metavar="[[LABEL=]POLICY]...")
@click.option("--experiment", "file", metavar="NAME|PATH",
              help="Take what is not given here from this experiment file.")  # fmt: skip
@click.option("--workload", metavar="NAME|PATH", help="What the tasks do.")
@click.option("--machine", "machines", multiple=True, metavar="NAME|PATH",
              help="Where they do it; once for each machine.")  # fmt: skip
@options.vm_options(several=True)
@click.option("--vary", "varied", multiple=True, metavar="NAME=VALUES",
              help="A workload parameter, POLICY.TUNABLE or cpus to vary: a..b:step, a..b"
                   " or a,b,c.")  # fmt: skip
@options.scenario_options
@click.option("--repeat", type=int, help="Runs of each policy in each scenario, seeds SEED,"
              " SEED+1 …  [default: 5]")  # fmt: skip
@click.option("--until-ci", metavar="PERCENT%",
              help="Add seeds where a policy is not clearly faster, slower or the same as the first"
                   " by so much, up to --repeat-max, and none where it is.")  # fmt: skip
@click.option("--repeat-max", type=int, metavar="N",
              help="With --until-ci the most runs."
                   f"  [default: {definition.REPEATS_UNTIL}]")  # fmt: skip
@click.option("--seed", type=int, help="Of the first repetition.  [default: 1]")
@options.jobs_option("Runs", "CPUs; 1 with --on vm")
@options.store_option("Keeps every run; runs already in it are not made again.")
@options.report_option
@options.timeline_options
@options.quiet_option
@options.json_option
def compare_verb(
    policies, file, workload, machines, on, kernel, cpus, deterministic, varied, parameters,
    settings, repeat, until_ci, repeat_max, seed, jobs, store, report_path, looked_at, scenario,
    watch, quiet, as_json
) -> bool:  # fmt: skip
    """Compare policies on machines and workloads.

    A grid of runs: policies × machines × varied parameters × repetitions. The first policy is the
    one the others are compared with. Every finished run is kept in the store at once: after
    Ctrl-C or a crash, the same command goes on where it stopped.
    """
    given = {"policies": list(policies), "workload": workload, "machine": list(machines)}
    given["vm"] = vm.choice(on, kernel, cpus, deterministic, machines)
    given |= {"vary": values.parse_vary(varied), "repeat": repeat, "seed": seed}
    given |= {"until_ci": until_ci, "repeat_max": repeat_max}
    given["with"] = values.parse_assignments("--with", parameters)
    given |= {"set": values.parse_set(settings), "kernel": kernel}
    given["cpus"] = vm.simulated_cpus(on, cpus)
    path = catalogue.find(catalogue.EXPERIMENTS, file) if file else None
    with definition.naming(path, given):
        asked = definition.build(_merge(path, given))
    if report_path:
        user_file.refuse_unwritable(report_path, store)
    elif looked_at or scenario or watch:
        why = "--timeline, --scenario and --watch are of a report"
        raise SchedlabError(why, "add --report FILE.html")
    with definition.naming(path, given):
        cells = expand(asked)
    wish = timelines.Wish(looked_at or (), scenario or "", watch, asked.watch)
    labels = list(dict.fromkeys(cell.policy.label for cell in cells))
    # Better before a long sweep than after it.
    wish.refuse_unknown(labels, [(cell.machine.name, cell.varied) for cell in cells])
    followed.refuse_unknown(cells, wish.numbers)
    with Store(store) as opened:
        making = begin(asked, cells, opened, options.command())
        try:
            with loading([*STATISTICS, *[PAGE] * bool(report_path)]):
                _make(making, vm.jobs(jobs, asked.vm), quiet)
            return _tell(making, report_path, wish, quiet, as_json)
        except KeyboardInterrupt:
            nr_kept, nr_cells = making.count_kept(), len(making.cells)
            kept = f"all {nr_cells}" if nr_kept == nr_cells else f"{nr_kept} of {nr_cells}"
            goes_on = f"the same command goes on from there: {options.command()}"
            print_note(f"\n{kept} runs are kept in {store}; {goes_on}")
            raise


def _make(making: Making, jobs: int, quiet: bool) -> None:
    if making.asked.until_ci is None:
        making.make_runs(jobs, quiet)
        return
    from schedlab.experiment import until_clear

    until_clear.make_runs(making, jobs, quiet)


@contextlib.contextmanager
def loading(modules: Sequence[str], after_s: float = LOAD_AFTER_S) -> Iterator[None]:
    """Loads modules while something is waited for, if that takes so long. Afterwards one process
    would load them, and the other CPUs have nothing to do."""
    timer = threading.Timer(after_s, _load, [modules])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    timer.join()


def _load(modules: Sequence[str]) -> None:
    # Who needs it says what is wrong with it.
    with contextlib.suppress(ImportError), _one_thread():
        for module in modules:
            loaded = importlib.import_module(module)
            if module == PAGE:
                loaded.prepare()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """A context in which NumPy and SciPy are loaded to compute in one thread. OpenBLAS would start
    one for each CPU, and each would wait busily for its first work for a tenth of a second."""
    is_ours = BLAS_THREADS not in os.environ
    os.environ.setdefault(BLAS_THREADS, "1")
    try:
        yield
    finally:
        # Programs that are started here are to find what the user has set.
        if is_ours:
            del os.environ[BLAS_THREADS]


def _tell(
    making: Making, report_path: Path | None, wish: timelines.Wish, quiet: bool, as_json: bool
) -> bool:
    """Prints what came of an experiment, writes its page, and says whether any run failed."""
    from schedlab.experiment import table
    from schedlab.experiment.answer import answer_of

    note = (lambda text: None) if quiet else print_note
    by_others = f", {making.nr_of_others} made meanwhile by another process"
    reused = f"{making.nr_reused} reused from {making.store.path}"
    note(f"{making.nr_made} runs made, {reused}{by_others * bool(making.nr_of_others)}")
    answer = answer_of(making.asked.definition, options.command(), making.records)
    if as_json:
        nr_reused = making.nr_reused + making.nr_of_others
        tables.print_json(table.answer_json(answer, making.records, nr_reused))
    else:
        table.print_study(answer)
        table.print_verdicts(answer.judged)
        table.print_interactivity(answer.study, answer.metrics)
        table.print_knees(answer)
        table.print_instructions(answer)
    if report_path:
        from schedlab.experiment import page

        shown = timelines.of_study(answer.study, lambda: making.cells, wish, note)
        seen = followed.of_study(answer.study, lambda: making.cells, wish, quiet)
        page.write(report_path, answer, shown, seen)
        note(f"report: {report_path}")
    # With one digest in each cell chance played no part: no width of an interval is no certainty.
    cells = [(record.policy, record.machine, str(record.varied)) for record in making.records]
    different = {*zip(cells, (record.digest for record in making.records), strict=True)}
    if len(set(cells)) == len(different) < len(cells):
        note(
            f"note: every repetition of a run was identical, because {making.records[0].workload}"
            " draws no random numbers: the intervals have no width, and --repeat 1 says as much"
        )
    run_table.report_failures(answer.study.incomplete)
    return bool(answer.study.incomplete)


def _merge(path: Path | None, given: Mapping) -> dict:
    """What an experiment file says, overridden by what the options say."""
    of_file = definition.read_options(path) if path else {}
    merged = {"repeat": definition.REPEATS, "vary": {}, "with": {}, "set": {}}
    merged |= copy.deepcopy(of_file)
    for key, value in given.items():
        if key in ("vary", "with"):
            merged[key].update(value)
            for of_machine in merged.get("with_machine", {}).values():
                for name in value:
                    of_machine.pop(name, None)
        elif key == "set":
            for label, settings in value.items():
                merged[key].setdefault(label, {}).update(settings)
        elif value not in (None, []):
            merged[key] = value
    what_is_run = ("workload", "with", "with_machine", "cpus", "kernel")
    if any((merged.get(key) or None) != of_file.get(key) for key in what_is_run):
        # What the file says of itself no longer holds.
        said = [merged.pop(k, None) for k in ("title", "description", "claims", "published")]
        if any(said[-2:]):
            print_note("note: published times are left out: this is another scenario")
    return merged
