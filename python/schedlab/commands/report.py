"""`schedlab report`: a page of runs or measurements that are kept; only the timeline of a pair is
made again for it, and what it follows."""

from dataclasses import replace
from pathlib import Path

import click

from schedlab.bench import stored
from schedlab.commands import options
from schedlab.errors import BadValue, SchedlabError
from schedlab.experiment import definition, followed, timelines
from schedlab.experiment.cells import expand
from schedlab.experiment.stored import choose_experiment
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.store.runs import Store
from schedlab.user_file import refuse_unwritable


@click.command("report")
@click.argument("store", type=options.PATH)
@click.option("--output", "-o", required=True, type=options.FILE,
              help="The HTML file to write.")  # fmt: skip
@click.option("--experiment", "wanted", metavar="NAME|ID",
              help="Which experiment of the store; the latest if not given.")  # fmt: skip
@click.option("--suite", metavar="NAME",
              help="Which suite; the latest if there is no later experiment.")  # fmt: skip
@options.timeline_options
@options.json_option
def report_verb(store, output, wanted, suite, looked_at, scenario, watch, as_json) -> None:
    """Make a page of what a store holds.

    Of an experiment, or of the measurements of a suite. Without --experiment or --suite it is of
    what was asked for last.
    """
    refuse_unwritable(output, store)
    wish = timelines.Wish(looked_at or (), scenario or "", watch)
    of_runs = wanted is not None or bool(wish)
    if suite is not None and of_runs:
        raise BadValue("--suite", suite, "is of measurements", "leave out what is of experiments")
    with Store(store, read_only=True) as opened:
        if not of_runs and stored.is_asked_for(opened, suite):
            data = stored.write_page(opened, suite, output, print_note)
            what = f"{data['repetitions']} repetitions"
        else:
            data = _write_page(opened, output, wanted, wish)
            what = f"{data['runs']} runs"
    if as_json:
        tables.print_json(data)
    else:
        print_note(f"report of {what}: {output}")


def _write_page(store: Store, output: Path, wanted: str | None, wish: timelines.Wish) -> dict:
    """Writes the page of an experiment; gives what `--json` tells of it."""
    chosen, records = choose_experiment(store, wanted, print_note)
    if not records:
        experiment = f"experiment {chosen.name or chosen.id} of {store.path}"
        raise SchedlabError(f"{experiment} has no finished run", f"make its runs: {chosen.command}")
    # Loading the statistics takes a while.
    from schedlab.experiment import page
    from schedlab.experiment.answer import answer_of

    answer = answer_of(chosen.definition, chosen.command, records)
    asked = definition.of_definition(chosen.definition)
    wish = replace(wish, of_file=asked.watch)
    shown = timelines.of_study(answer.study, lambda: expand(asked), wish, print_note)
    seen = followed.of_study(answer.study, lambda: expand(asked), wish)
    page.write(output, answer, shown, seen)
    return {"report": str(output), "experiment": chosen.id, "runs": len(records)}
