"""The verb `schedlab race`: which run queue is fastest at your size?"""

import click

from schedlab import user_file
from schedlab.commands import options
from schedlab.race import meeting, plan
from schedlab.report import tables
from schedlab.shown import print_note

LOOPS_MAX = 10**9
ROUNDS_MAX = 10_000
CPUS_MAX = 4096


class _Number(click.IntRange):
    """A whole number; click calls it a range, also where it is no number at all."""

    name = "whole number"


@click.command("race")
@click.option("-n", "sizes", multiple=True, metavar="N[,N…]",
              help="Items in a queue.  [default: as in 2007, 1 to 100,000]")  # fmt: skip
@click.option("-l", "--loops", type=_Number(1, LOOPS_MAX),
              help="Loops a round, as in 2007.  [default: so many that a round takes a few"
                   " milliseconds; of more than 100,000 items one for each]")  # fmt: skip
@click.option("--workload", "workloads", multiple=True, metavar="NAME",
              help=f"What the queue is put through: {', '.join(plan.WORKLOADS)}.  [default:"
                   " hold]")  # fmt: skip
@click.option("--keys", multiple=True, metavar="NAME",
              help=f"How keys grow: {', '.join(plan.KEYS)}.  [default: uniform]")  # fmt: skip
@click.option("--structure", "structures", multiple=True, metavar="NAME",
              help="Who takes part; repeatable.  [default: all]")  # fmt: skip
@click.option("--with", "files", multiple=True, metavar="FILE.c|.cpp|.so", type=options.PATH,
              help="Your own queue, written against schedlab_race.h; repeatable.")  # fmt: skip
@click.option("--peers", is_flag=True, help="Also the queues of the C++ library and of Boost.")
@click.option("--order", default=plan.ORDERS[0], metavar="|".join(plan.ORDERS),
              help="Who runs when in a round; abcba is the order of 2007.")  # fmt: skip
@click.option("--rounds", type=_Number(1, ROUNDS_MAX), default=plan.ROUNDS,
              help="How often each runs; an interval takes six.")  # fmt: skip
@click.option("--cpu", type=_Number(0, CPUS_MAX),
              help="The CPU to race on.  [default: the last one that may be used]")  # fmt: skip
@options.seed_option("Of all keys.", plan.SEED)
@click.option("--trace", type=options.PATH, metavar="FILE",
              help="Recorded operations to play: push ITEM KEY, pop, remove ITEM, one a line; or"
                   " what a kernel's scheduler did, as perf script or ftrace tell it.")  # fmt: skip
@click.option("--queue", metavar="NAME",
              help="The run queue of a kernel's trace: cpu0, cpu1, …, or all for one that all CPUs"
                   " share.  [default: the CPU's with most operations]")  # fmt: skip
@click.option("--full", is_flag=True, help="All workloads, keys and sizes: takes long.")
@click.option("--again", is_flag=True, help="Race anew what the store has already.")
@options.store_option("Keeps every heat; heats already in it are not raced again.")
@options.report_option
@options.quiet_option
@options.json_option
def race_verb(store, report_path, again, quiet, as_json, **asked) -> bool:
    """Race run queues: which one is fastest at your size?

    Without options the loop of 2007 at the sizes published then, in about a minute or two. All
    structures meet in every round, on one CPU; compare times of one heat only. Every heat is kept
    in the store at once: after Ctrl-C the same command goes on where it stopped. A plug-in is
    native code that runs with your rights.
    """
    if report_path:
        user_file.refuse_unwritable(report_path, store)
    command = options.command()
    raced = meeting.race(meeting.Options(**asked), store, command, again, quiet)
    # Statistics are loaded only now, because that takes a while.
    from schedlab.race import answers, april_2007, table
    from schedlab.statistics.samples import by_key

    standings = answers.standings(raced.heats)
    published = april_2007.beside(april_2007.read(), standings)
    if as_json:
        tables.print_json(table.race_json(standings, raced.machine, published))
    else:
        table.print_race(standings, raced.machine)
        table.print_published(published)
    if report_path:
        from schedlab.race import page

        page.write(report_path, raced.heats, raced.machine, command)
        if not quiet:
            print_note(f"report: {report_path}")
    for reason, heats in by_key((str(error), spec) for spec, error in raced.failed).items():
        print_note(f"error: {plan.places(heats)}: {reason}")
    return bool(raced.failed)
