"""The verb `schedlab tune`: which values of a policy's tunables are best for an objective?"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedlab import catalogue, user_file, values
from schedlab.commands import options
from schedlab.errors import BadValue
from schedlab.shown import print_data, print_note
from schedlab.tuning import asked, named_set

if TYPE_CHECKING:
    from schedlab.tuning.answer import Judged, Tuned


@click.command("tune")
@click.argument("policy")
@click.option("--objective", "objectives", multiple=True, metavar="MEASURE|SUM",
              help="What is to become less, as p99_wakeup or 0.7*p99_wakeup+0.3*makespan; several"
                   " give a front.")  # fmt: skip
@click.option("--keep", "keeps", multiple=True, metavar="MEASURE=PERCENT",
              help="What may become worse by no more than this, as in throughput=2%.")  # fmt: skip
@click.option("--workload", "workloads", multiple=True, metavar="NAME|PATH",
              help="What to search on; repeatable.")  # fmt: skip
@click.option("--machine", "machines", multiple=True, metavar="NAME|PATH",
              help="Where; repeatable.")  # fmt: skip
@click.option("--holdout-workload", "holdouts", multiple=True, metavar="NAME|PATH",
              help="What only judges what was found; repeatable.")  # fmt: skip
@click.option("--range", "ranges", multiple=True, metavar="NAME=LOW..HIGH[:log|:linear]",
              help="Values to search of a tunable; repeatable.")  # fmt: skip
@click.option("--only", multiple=True, metavar="NAME",
              help="Search this tunable and no other that is not named; repeatable.")  # fmt: skip
@options.set_option
@click.option("--with", "parameters", metavar="NAME=VALUE", multiple=True,
              help="A parameter of the workloads that have it.")  # fmt: skip
@click.option("--trials", type=int, default=asked.TRIALS, help="How many values to try.")
@click.option("--repeat", type=int, default=asked.REPEATS,
              help="Seeds of a trial in each scenario.")  # fmt: skip
@options.seed_option("The first of them, and the seed of the search.")
@click.option("--fresh", type=int, show_default="10 to 50, by the noise",
              help="Seeds of the judgement.")  # fmt: skip
@click.option("--name", default="tuned", metavar="SET", help="The name of the set that is written.")
@click.option("--write", "path", type=options.FILE, metavar="FILE",
              help="Where to write it.  [default: POLICY.sets.toml, beside a policy of yours]"
              )  # fmt: skip
@options.jobs_option("Runs")
@options.store_option("Keeps every run, and beside it every trial: nothing is made twice.")
@options.report_option
@options.quiet_option
@options.json_option
def tune_verb(
    policy, parameters, settings, ranges, name, path, jobs, store, report_path, quiet, as_json,
    **given,
) -> bool:  # fmt: skip
    """Search values of a policy's tunables for an objective.

    Optuna proposes values; every trial meets the seeds that the policy as it is met. What is best
    then is run again on fresh seeds, and on workloads that the search never met, beside the policy
    as it is. Only what is better on fresh seeds, and shown to be no worse in any scenario, is
    called better, and written as a named set. After Ctrl-C the same command goes on where it
    stopped.
    """
    given |= {"policy": policy, "with": values.parse_assignments("--with", parameters)}
    given["set"] = values.parse_assignments("--set", settings)
    given["ranges"] = values.parse_assignments("--range", ranges)
    tuning = asked.build(given)
    target = named_set.path_for(policy, path)
    named_set.refuse_unfit(target, name, store)
    if report_path:
        user_file.refuse_unwritable(report_path, store)
        if os.path.realpath(report_path) == os.path.realpath(target):
            what = "is the file that the set is written to"
            raise BadValue("--report", str(report_path), what, "name another file for either")
    from schedlab.tuning import table
    from schedlab.tuning.tune import tune

    tuned = tune(tuning, store, jobs, quiet, options.command())
    written = {}
    for one in tuned.judgement.better:
        written[one.label] = named_set.write(target, tuned.named_set(one, name))
    note = (lambda text: None) if quiet else print_note
    note(f"{tuned.nr_made} runs made, {tuned.nr_reused} reused from {store}")
    if as_json:
        from schedlab.report import tables

        tables.print_json(table.as_json(tuned, written))
    else:
        table.print_tuned(tuned)
        for one in tuned.judgement.better:
            print_data(_how_to_use(tuned, one, written[one.label], target))
    if report_path:
        from schedlab.tuning import page

        page.write(report_path, tuned, written)
        note(f"report: {report_path}")
    return False


def _how_to_use(tuned: "Tuned", found: "Judged", name: str, target: Path) -> str:
    """Where the set is, and how it is meant from now on."""
    text, _ = catalogue.split_set(tuned.tuning.policy)
    source = catalogue.find(catalogue.POLICIES, text)
    beside = source.with_name(f"{catalogue.stem_of(source)}{named_set.SUFFIX}")
    where = f"set {name} is in {target}"
    if target.absolute() == beside.absolute():
        return f"{where}: {text}@{name}"
    settings = " ".join(f"--set {of}={value}" for of, value in tuned.changed(found).items())
    return f"{where}, to be put beside {source.name}; without it {settings} is the same"
