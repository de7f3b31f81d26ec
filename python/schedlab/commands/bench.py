"""The verb `schedlab bench`: measures this machine under whatever schedules it now.

The same command, given again after a reboot into another kernel, adds what is measured there to the
same store, and compares.
"""

import contextlib

import click

from schedlab import catalogue
from schedlab.bench import measuring, request, suite
from schedlab.commands import options
from schedlab.errors import SchedlabError
from schedlab.kernel import platform
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store
from schedlab.user_file import refuse_unwritable


def _whole(name: str) -> click.IntRange:
    _, least, most = request.BOUNDS[name]
    return click.IntRange(least, most)


@click.command("bench")
@click.argument("name", metavar="SUITE")
@click.option("--size", type=click.Choice(suite.SIZES), default=suite.SIZES[0],
              help="How much each program is given to do.")  # fmt: skip
@click.option("--only", multiple=True, metavar="BENCHMARK", help="This one; repeatable.")
@click.option("--repeat", type=_whole("repeat"),
              help="Repetitions of each case, in place of the suite's, to which one more is added"
                   " for each disturbed one; with --until-ci the most that are made"
                   f" ({request.REPETITIONS_UNTIL} if not said), with --on vm those of each boot"
                   f" ({request.REPETITIONS_A_BOOT} at most if not said).")  # fmt: skip
@click.option("--until-ci", "until", metavar="PERCENT%",
              help="Stop when a mean is known so well, either way, looking every five repetitions,"
                   " or with --on vm every five boots.")  # fmt: skip
@click.option("--policies", metavar="POLICY,POLICY…",
              help="Policies that take turns; `kernel` is the kernel's own.")  # fmt: skip
@click.option("--on", type=click.Choice([request.HERE, platform.VM]), default=request.HERE,
              help="Measure this machine, or kernels in virtual machines.")  # fmt: skip
@click.option("--kernel", "kernels", multiple=True, metavar="NAME",
              help="With --on vm: what to boot, of `schedlab kernels list`; repeatable."
                   "  [default: the newest that takes policies]")  # fmt: skip
@click.option("--boots", type=_whole("boots"),
              help="With --on vm: how often each kernel is booted, with --until-ci at most."
                   f"  [default: {request.BOOTS},"
                   f" with --until-ci {request.BOOTS_UNTIL}]")  # fmt: skip
@click.option("--cpus", metavar="N[,SOCKETS,CORES,THREADS]",
              help=f"With --on vm: CPUs of the machine.  [default: {request.CPUS}]")  # fmt: skip
@click.option("--memory", "memory_mib", type=_whole("memory_mib"), metavar="MIB",
              help=f"With --on vm: its memory.  [default: {platform.MEMORY_MIB}]")  # fmt: skip
@click.option("--label", default="", show_default=False,
              help="What this is, if kernel and scheduler do not tell.")  # fmt: skip
@options.seed_option("Of the order.")
@click.option("--again", is_flag=True, help="Another series, although the last one is complete.")
@click.option("--show", is_flag=True, help="Measure nothing; show what the store has.")
@click.option("--work-dir", type=options.FOLDER,
              help="Where programs work, and inputs lie.  [default: the user's cache]")  # fmt: skip
@options.store_option("Keeps every repetition.")
@options.report_option
@options.quiet_option
@options.json_option
def bench_verb(name, show, store, report_path, quiet, as_json, **asked) -> bool:
    """Measure this machine under the scheduler that it has now.

    SUITE is a name, or the path of your own *.toml file. Every repetition is kept in the store at
    once: after Ctrl-C, a reboot or a panic the same command goes on where it stopped. Given again
    under another kernel, it measures there, and compares. With --on vm it boots kernels in virtual
    machines instead, in turn.
    """
    read = suite.read(catalogue.find(catalogue.SUITES, name))
    if report_path is not None:
        refuse_unwritable(report_path, store)
    hint = f"schedlab bench {name}"
    if show and not store.exists():
        raise SchedlabError(f"store {store} does not exist", hint)
    made = contextlib.nullcontext()
    if not show:
        wanted = request.Request(read, **asked)
        words = {"command": options.command(), "as_root": options.as_root()}
        made = measuring.measured(wanted, store, **words, quiet=quiet)
    # Whoever else measures waits for our tables, too, which take a CPU for seconds.
    with made as measured, Store(store, read_only=show) as opened:
        kept = Measurements(opened)
        if not (every := kept.campaigns(read.name)):
            raise SchedlabError(f"the store {store} has nothing of suite {read.name}", hint)
        if measured and not quiet:
            made, before = measured.nr_made, measured.nr_before
            print_note(f"{made} repetitions made, {before} were in {store} before")
            if more := measured.nr_made_up:
                print_note(f"note: {more} repetitions were added, as others were disturbed")
        # Statistics are loaded only now, because that takes a while.
        from schedlab.bench import answers, table

        rows = answers.rows(kept, measured.comparable(kept) if measured else every)
        if as_json:
            tables.print_json(table.results_json(rows))
        else:
            table.print_results(rows, read.title)
        if measured and not quiet:
            _tell_after(measured, asked["on"] == platform.VM)
        if report_path is not None:
            from schedlab.bench import page

            page.write(report_path, kept, every, read.title, read.description)
            print_note(f"report: {report_path}")
    return bool(measured and not measured.is_complete)


def _tell_after(measured: measuring.Measured, in_machines: bool) -> None:
    for text in measured.widths:
        print_note(text)
    for failure in measured.failed:
        under = f" under {failure.policy}" if len(measured.policies) > 1 else ""
        failed = f"{failure.case_name} failed{under} ({failure.manifest['failure']})"
        print_note(f"note: {failed}; the same command tries it again")
    if in_machines and not measured.is_complete:
        print_note("note: some boots are not complete; the same command goes on")
