"""Options that several verbs share."""

from collections.abc import Callable
from pathlib import Path

import click

from schedlab.experiment.vm import DEFAULT_CPUS


def together(*options: Callable) -> Callable:
    """One decorator of several options, which stand in the help in this order."""

    def decorate(command):
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# What every verb takes that prints by `print_json` or as a table.
json_option = click.option("--json", "as_json", is_flag=True, help="Data as JSON on stdout.")

# What a workload and a policy are given.
scenario_options = together(
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

# What asks for the record of a queue.
queue_trace_options = together(
    click.option(
        "--queue-trace",
        "queue_trace_path",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write what was done to a dispatch queue here, for `schedlab race --trace`.",
    ),
    click.option(
        "--queue",
        metavar="NAME",
        help="The queue of --queue-trace: 0x3, local0 or global0.  [default: the busiest of"
        " the policy's own, else of all]",
    ),
)

# What the timeline of a report shows.
timeline_options = together(
    click.option(
        "--timeline",
        "looked_at",
        nargs=2,
        metavar="POLICY POLICY",
        help="Draw which task ran where under these two.  [default: best and worst]",
    ),
    click.option(
        "--scenario",
        metavar="MACHINE[,NAME=VALUE]",
        help="Where to draw it: a machine and varied values.  [default: a small one]",
    ),
)


def vm_options(several: bool) -> Callable:
    """The options of a verb that can run on a kernel; `several` sorts of machine, or one."""
    again = "; once for each machine" if several else ""
    return together(
        click.option(
            "--on",
            type=click.Choice(["simulator", "vm"]),
            default="simulator",
            show_default=True,
            help="Simulate, or boot a real kernel in a virtual machine.",
        ),
        click.option(
            "--kernel",
            metavar="NAME",
            help="With --on vm: a kernel of `schedlab kernels list`."
            "  [default: the newest that takes policies]",
        ),
        click.option(
            "--cpus",
            multiple=several,
            metavar="N[,SOCKETS,CORES,THREADS]",
            help=f"With --on vm: CPUs of the machine{again}.  [default: {DEFAULT_CPUS}]",
        ),
        click.option(
            "--deterministic",
            is_flag=True,
            help="With --on vm: a clock that counts instructions, so that runs repeat exactly.",
        ),
    )
