"""Options that several verbs share, and the command as it was typed."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click

from schedlab.experiment.definition import DEFAULT_CPUS
from schedlab.store.runs import DEFAULT_PATH
from schedlab.workers import JOBS_MAX

# Random numbers of the core begin at a signed 64-bit integer, to which counts are added.
SEED_MAX = 2**62
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
TUNABLE_HELP = "A tunable of {} policy; 6ms, 250us, 1024, true."


def together(*options: Callable) -> Callable:
    """One decorator of several options, which stand in the help in this order."""

    def decorate(command):
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# What every verb takes that prints by `print_json` or as a table.
json_option = click.option("--json", "as_json", is_flag=True, help="Data as JSON on stdout.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress, no notes on stderr.")
report_option = click.option("--report", "report_path", type=FILE, metavar="FILE",
                             help="Write an HTML page here.")  # fmt: skip
# The tunables of the one policy that a verb is about.
set_option = click.option("--set", "settings", metavar="TUNABLE=VALUE", multiple=True,
                          help=TUNABLE_HELP.format("the"))  # fmt: skip


def store_option(kept: str) -> Callable:
    """The store that a verb writes; `kept` says what it keeps there."""
    return click.option("--store", type=PATH, default=DEFAULT_PATH, help=kept)


def seed_option(of: str, default: int = 1) -> Callable:
    """A seed; `of` says of what."""
    return click.option("--seed", type=click.IntRange(0, SEED_MAX), default=default, help=of)


def jobs_option(what: str, default: str = "CPUs") -> Callable:
    """How many of `what` are made at a time; `default` says how many if nobody does."""
    kind = click.IntRange(1, JOBS_MAX)
    return click.option("--jobs", type=kind, show_default=default, help=f"{what} at a time.")


def command() -> str:
    """This command, as it is typed in a shell."""
    return shlex.join(["schedlab", *sys.argv[1:]])


def as_root() -> list[str]:
    """This command as sudo takes it: root may have another PATH."""
    return [str(Path(sys.argv[0]).absolute()), *sys.argv[1:]]


# What a workload and a policy are given.
scenario_options = together(
    click.option("--with", "parameters", metavar="NAME=VALUE", multiple=True,
                 help="A parameter of the workload, as in groups=10."),
    click.option("--set", "settings", metavar="[POLICY.]TUNABLE=VALUE", multiple=True,
                 help=TUNABLE_HELP.format("a")),
)  # fmt: skip

# What the timeline of a report shows.
timeline_options = together(
    click.option("--timeline", "looked_at", nargs=2, metavar="POLICY POLICY",
                 help="Draw which task ran where under these two.  [default: fastest and slowest]"),
    click.option("--scenario", metavar="MACHINE[,NAME=VALUE]",
                 help="Where to draw it: a machine and varied values.  [default: a small one]"),
    click.option("--watch", multiple=True, metavar="EXPR",
                 help="Draw a number of the policies' over time there, as `run --watch` follows it;"
                      " repeatable."),
)  # fmt: skip


def vm_options(several: bool) -> Callable:
    """The options of a verb that can run on a kernel; `several` sorts of machine, or one."""
    again = "; once for each machine" if several else ""
    return together(
        click.option("--on", type=click.Choice(["simulator", "vm"]), default="simulator",
                     help="Simulate, or boot a real kernel in a virtual machine."),
        click.option("--kernel", metavar="NAME",
                     help="Simulated: the release of Linux whose sched_ext policies find, 6.12,"
                          " 6.18 or 7.3; that of all at once if left out. With --on vm: a kernel of"
                          " `schedlab kernels list`; the newest that takes policies if left out."),
        click.option("--cpus", multiple=several, metavar="N[,SOCKETS,CORES,THREADS]",
                     help="So many CPUs instead of those of the machine's file. With --on vm: CPUs"
                          f" of the machine{again}.  [default: {DEFAULT_CPUS}]"),
        click.option("--deterministic", is_flag=True,
                     help="With --on vm: a clock that counts instructions: runs repeat exactly."),
    )  # fmt: skip
