"""The verb `schedlab calibrate`: a machine's file from measurements of this one."""

import re
from pathlib import Path

import click

from schedlab import catalogue, programs, user_file
from schedlab.bench import calibration
from schedlab.bench.calibration import PROGRAM, PROGRAM_HELP
from schedlab.commands import options
from schedlab.errors import BadValue
from schedlab.shown import print_note


@click.command("calibrate")
@click.argument("name")
@click.option("--output", type=options.PATH, help="Directory.  [default: this one]")
@click.option("--program", metavar="PATH", help=PROGRAM_HELP)
@click.option("--costs", "costs_file", type=options.PATH, metavar="FILE",
              help=f"What `{PROGRAM} costs` printed; nothing is measured then.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def calibrate_verb(name, output, program, costs_file, force) -> bool:
    """Measure what this machine's kernel operations cost.

    Writes NAME.toml for the simulator. Takes ten to forty seconds; the machine is best idle
    meanwhile.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise BadValue("NAME", name, "is no machine's name", "take a-z, 0-9, - and _")
    path = (output or Path()) / f"{name}.toml"
    if not path.parent.is_dir():
        raise BadValue("--output", str(path.parent), "is not a directory", "make it first")
    user_file.refuse_target(str(path), path)
    if path.exists() and not force:
        raise BadValue("NAME", name, f"has a file already: {path}", "--force replaces it")
    cpus = calibration.read_cpus()
    if costs_file is None:
        costs = calibration.measured_without_doubt(programs.BENCH.find(program), cpus)
    else:
        place = str(costs_file)
        lines = calibration.json_lines(user_file.text(f"--costs {place}", costs_file), place)
        costs = calibration.taken_apart(calibration.Measurements(lines, place), cpus)
    path.write_text(calibration.own_file(cpus, costs), "utf-8")
    # Read again at once: a file that cannot be is our mistake.
    machine = catalogue.load_machine(path)
    click.echo(f"wrote {path}: {machine.nr_cpus} CPUs, {machine.hz} ticks a second")
    doubts = calibration.doubts(costs)
    for sentence in doubts:
        print_note(f"doubtful: {sentence}")
    if doubts:
        print_note("calibrate again while the machine does nothing else (--force)")
    return bool(doubts)
