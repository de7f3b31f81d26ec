"""The verb `schedlab run`: one policy, once."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import click

from schedlab import experiment, on_vm, queue_trace, sweep, terminal
from schedlab.cells import expand
from schedlab.comparison import Notes
from schedlab.errors import EXIT_FOUND
from schedlab.options import scenario_options
from schedlab.store import Store


@click.command("run")
@click.argument("policy")
@click.option("--workload", required=True, metavar="NAME|PATH", help="What the tasks do.")
@click.option("--machine", metavar="NAME|PATH", help="Where they do it.")
@on_vm.options(several=False)
@click.option("--seed", type=int, default=1, show_default=True, help="Of all random numbers.")
@scenario_options
@click.option("--until", metavar="TIME", help="Begin nothing after this simulated time (9.3s).")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the run in this store.")
@click.option("--timeline", is_flag=True, help="Also print every stay of a task on a CPU.")
@queue_trace.options
@terminal.json_option
def run_verb(
    policy,
    workload,
    machine,
    on,
    kernel,
    cpus,
    deterministic,
    seed,
    parameters,
    settings,
    until,
    store,
    timeline,
    queue_trace_path,
    queue,
    as_json,
) -> int:
    """Run one policy once, simulated or on a real kernel.

    A policy is native code that runs with your rights.
    """
    queue_trace.refuse_unfit(queue_trace_path, queue, is_simulated=on == "simulator")
    machines = [machine] if machine else []
    asked = experiment.build(
        {
            "policies": [policy],
            "workload": workload,
            "machine": machines,
            "vm": on_vm.choice(on, kernel, cpus, deterministic, machines),
            "seed": seed,
            "with": experiment.parse_assignments("--with", parameters),
            "set": experiment.parse_set(settings),
            "until_ns": None if until is None else experiment.parse_duration_ns("--until", until),
        }
    )
    [cell] = expand(asked)
    simulate = functools.partial(
        sweep.simulate_cell,
        timeline=timeline,
        prints=True,
        queues=queue_trace_path is not None,
    )
    with Store(store) if store else contextlib.nullcontext() as kept:
        if cell.platform:
            outcome = on_vm.measure_alone(cell, timeline)
        else:
            outcome = sweep.run_alone(cell, simulate, Notes(quiet=False).tell_slow)
        traces = outcome.result.pop("queue_traces", None)
        record = sweep.record(cell, outcome, None)
        if kept is not None:
            kept.add(sweep.without_timeline(record))
    if traces is not None:
        told = queue_trace.write(queue_trace_path, queue, traces, record.manifest["replay"])
        click.echo(told, err=True)
    if record.status == "failed":
        # The cause first: what the run did until then matters less.
        terminal.report_failures([record])
        terminal.print_evidence(record)
    if as_json:
        terminal.print_json(terminal.record_json(record))
    elif sweep.has_metrics(record.result):
        click.echo(terminal.run_title(cell))
        terminal.print_table(terminal.run_table(record))
        if record.result["timeline"] is not None:
            terminal.print_timeline(record)
    return EXIT_FOUND if record.status == "failed" else 0
