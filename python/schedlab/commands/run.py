"""The verb `schedlab run`: one policy, once."""

import contextlib
import dataclasses

import click

from schedlab import values
from schedlab.commands import options
from schedlab.errors import SchedlabError
from schedlab.experiment import (
    definition,
    making,
    queue_trace,
    run_inside,
    run_table,
    sweep,
    vm,
)
from schedlab.experiment.cells import expand
from schedlab.report import tables
from schedlab.shown import print_note
from schedlab.store.runs import Store


@click.command("run")
@click.argument("policy")
@click.option("--workload", required=True, metavar="NAME|PATH", help="What the tasks do.")
@click.option("--machine", metavar="NAME|PATH", help="Where they do it.")
@options.vm_options(several=False)
@click.option("--seed", type=int, default=1, help="Of all random numbers.")
@options.scenario_options
@click.option("--until", metavar="TIME", help="Begin nothing after this simulated time (9.3s).")
@click.option("--store", type=options.PATH, help="Keep the run in this store.")
@click.option("--timeline", is_flag=True, help="Also print every stay of a task on a CPU.")
@click.option("--profile", is_flag=True,
              help="Also print where the policy's own instructions go.")  # fmt: skip
@click.option("--strict", is_flag=True,
              help="End it where a kernel would refuse the policy, as `check` does.")  # fmt: skip
@click.option("--dump-at", multiple=True, metavar="TIME|end",
              help="Also print the state at this simulated time (1.2s); repeatable.")  # fmt: skip
@click.option("--watch", multiple=True, metavar="EXPR",
              help="Follow a number of the policy's: NAME, NAME.FIELD, NAME[3], MAP[KEY].FIELD;"
                   " repeatable.")  # fmt: skip
@click.option("--queue-trace", "queue_trace_path", type=options.FILE, metavar="FILE",
              help="Write what was done to a dispatch queue, for `race --trace`.")  # fmt: skip
@click.option("--queue", metavar="NAME",
              help="The queue of --queue-trace: 0x3, local0 or global0."
                   "  [default: the busiest of the policy's own, else of all]")  # fmt: skip
@options.json_option
def run_verb(
    policy, workload, machine, on, kernel, cpus, deterministic, seed, parameters, settings,
    until, store, timeline, profile, strict, dump_at, watch, queue_trace_path, queue, as_json
) -> bool:  # fmt: skip
    """Run one policy once, simulated or on a real kernel."""
    if definition.LABELLED.fullmatch(policy):
        hint = "leave out LABEL=, or give it to `schedlab compare`"
        raise SchedlabError(f"{policy!r} has a label, and one run needs none", hint)
    for option, is_asked in (("--profile", profile), ("--strict", strict)):
        if is_asked and on != "simulator":
            raise SchedlabError(f"{option} is for simulations", "leave out --on vm")
    if strict and (profile or store):
        why = "--strict ends runs that go on otherwise: it goes with neither --profile nor --store"
        raise SchedlabError(why, "ask for one of them")
    queue_trace.refuse_unfit(queue_trace_path, queue, is_simulated=on == "simulator")
    inside = run_inside.asked(dump_at, watch, is_simulated=on == "simulator")
    machines = [machine] if machine else []
    given = {"policies": [policy], "workload": workload, "machine": machines, "seed": seed}
    given["vm"] = vm.choice(on, kernel, cpus, deterministic, machines)
    given["with"] = values.parse_assignments("--with", parameters)
    given |= {"set": values.parse_set(settings), "kernel": kernel}
    given["cpus"] = vm.simulated_cpus(on, cpus)
    if until is not None:
        given["until_ns"] = values.parse_duration_ns("--until", until)
    [cell] = expand(definition.build(given))
    with Store(store) if store else contextlib.nullcontext() as opened:
        how = {
            "queues": queue_trace_path is not None,
            "profile": profile,
            "strict": strict,
            **inside,
        }
        record = making.make_one(cell, print_note, timeline, **how)
        if strict:
            record.manifest["replay"] += " --strict"
        traces = record.result.pop("queue_traces", None)
        if opened is not None:
            opened.add(sweep.without_timeline(record))
    if traces is not None:
        print_note(queue_trace.write(queue_trace_path, queue, traces, record.manifest["replay"]))
    if record.status == "failed":
        # The cause first: what the run did until then matters less.
        run_table.report_failures([record])
        if not record.result.get("dumps"):
            run_table.print_evidence(record)
        run_inside.print_failure(record, dump_at)
    if as_json:
        tables.print_json(dataclasses.asdict(record))
    else:
        # Without it there is no more to say of it than why it failed.
        if "makespan_ns" in record.result:
            click.echo(run_table.run_title(cell))
            tables.print_table(run_table.run_table(record))
            if record.result["timeline"] is not None:
                run_table.print_timeline(record)
        if watched := record.result.get("watched"):
            run_inside.print_watched(watched, each=timeline)
        if profile and record.result.get("profile"):
            run_table.print_profile(record.result["profile"])
        run_inside.print_dumps(record, dump_at)
    return record.status == "failed"
