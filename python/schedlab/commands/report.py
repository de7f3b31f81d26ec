"""`schedlab report`, and the file that it and `compare` write: how, where, and with which timeline.

A report is made of runs or measurements that are kept; only the timeline of a pair is simulated
again for it.
"""

from collections.abc import Mapping

import click

from schedlab.bench import stored
from schedlab.commands import options
from schedlab.commands.options import timeline_options
from schedlab.errors import BadValue, SchedlabError
from schedlab.experiment import definition
from schedlab.experiment.cells import expand
from schedlab.experiment.stored import choose_experiment, others_text, stored_order
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
              help="Which suite's measurements; the latest if there is no experiment that is"
                   " later.")  # fmt: skip
@timeline_options
@options.json_option
def report_verb(store, output, wanted, suite, looked_at, scenario, as_json) -> int:
    """Make a page of what a store holds.

    Of an experiment, or of the measurements of a suite. Without --experiment or --suite it is of
    what was asked for last.
    """
    refuse_unwritable(output, store)
    of_runs = wanted is not None or looked_at is not None or scenario is not None
    with Store(store, read_only=True) as opened:
        if suite is not None and of_runs:
            hint = "leave out what is of experiments"
            raise BadValue("--suite", suite, "is of measurements", hint)
        if not of_runs and stored.is_asked_for(opened, suite):
            data = stored.write_page(opened, suite, output, print_note)
            return _tell(data, f"report of {data['repetitions']} repetitions: {output}", as_json)
        chosen, others = choose_experiment(opened, wanted)
        records = opened.runs(chosen.id)
        if others and wanted is None:
            print_note(others_text(opened, others))
    if not records:
        experiment = f"experiment {chosen.name or chosen.id} of {store}"
        hint = f"make its runs: {chosen.command}"
        raise SchedlabError(f"{experiment} has no finished run", hint)
    from schedlab.experiment import page, timelines
    from schedlab.experiment.answer import answer_of

    records = sorted(records, key=stored_order(chosen))
    answer = answer_of(chosen.definition, chosen.command, records)
    wish = timelines.Wish(looked_at or (), scenario or "")
    asked = definition.of_definition(chosen.definition)
    shown = timelines.of_study(answer.study, lambda: expand(asked), wish, print_note)
    page.write(output, answer, shown)
    data = {"report": str(output), "experiment": chosen.id, "runs": len(records)}
    return _tell(data, f"report of {len(records)} runs: {output}", as_json)


def _tell(data: Mapping, text: str, as_json: bool) -> int:
    if as_json:
        tables.print_json(data)
    else:
        print_note(text)
    return 0
