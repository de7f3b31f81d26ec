"""The verb `schedlab sweep`: thousands or millions of runs, here or on other computers."""

import shlex

import click

from schedlab import catalogue
from schedlab.commands import options
from schedlab.experiment import definition
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.store.runs import Store
from schedlab.sweeping import loop


@click.command("sweep")
@click.argument("file", metavar="EXPERIMENT")
@options.jobs_option("Runs", "CPUs")
@click.option("--dask", "where", metavar="ADDRESS|FILE.json|local:N",
              help="Have workers of Dask simulate: of the scheduler at this address, or of this"
                   " file, or N of our own.")  # fmt: skip
@click.option("--limit", metavar="TIME",
              help="End a run that takes longer, as in 10min.  [default: 20 times the longest so"
                   " far, at least 10min]")  # fmt: skip
@options.store_option("Keeps every run; runs already in it are not made again.")
@options.quiet_option
@options.json_option
def sweep_verb(file, jobs, where, limit, store, quiet, as_json) -> bool:
    """Make all runs of an experiment file, which may draw a sample.

    Grids may be larger than `compare` takes. Each run is kept in the store: after Ctrl-C or a
    crash, the same command goes on where it stopped.
    """
    limit_s = loop.limit_s(limit)
    path = catalogue.find(catalogue.EXPERIMENTS, file)
    options_of_file = definition.read_options(path)
    with definition.naming(path, {}):
        asked = definition.build({"repeat": definition.REPEATS, **options_of_file})
        laid_out = loop.laid_out(asked)
    with Store(store) as opened:
        made = loop.begin(*laid_out, opened, options.command())
        try:
            tell = (lambda text: None) if quiet else print_note
            made.make_runs(made.engine(jobs, where, tell, limit_s), quiet, limit_s)
        except KeyboardInterrupt:
            kept = f"{made.count_kept():,} of {len(made.grid):,} runs are kept in {store}"
            print_note(f"\n{kept}; the same command goes on from there: {options.command()}")
            raise
        return _tell(made, quiet, as_json)


def _tell(made: loop.Sweep, quiet: bool, as_json: bool) -> bool:
    """Prints what was done, and says whether any run failed."""
    counts = {"made": made.nr_made, "reused": made.nr_reused, "of_others": made.nr_of_others}
    by_status = made.store.count_by_status(made.asked.id)
    nr_failed = by_status.get("failed", 0)
    if as_json:
        about = {"id": made.asked.id, "name": made.asked.name, "store": str(made.store.path)}
        tables.print_json({**about, "runs": len(made.grid), **counts, "by_status": by_status})
    elif not quiet:
        by_others = f", {made.nr_of_others:,} made meanwhile by another process"
        reused = f"{made.nr_reused:,} reused from {made.store.path}"
        print_note(f"{made.nr_made:,} runs made, {reused}{by_others * bool(made.nr_of_others)}")
        if nr_failed:
            print_note(f"{nr_failed:,} of them failed")
        its = [str(made.store.path), "--experiment", made.asked.name or made.asked.id]
        print_note(f"their numbers: {shlex.join(['schedlab', 'export', *its, '-o', 'runs.csv'])}")
    return bool(nr_failed)
