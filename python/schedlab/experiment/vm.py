"""Runs a policy and a workload on a real kernel, in a virtual machine of its own.

Every repetition is a boot: runs of one boot share the kernel's memory layout and all else that was
settled when it was switched on, so that an interval over them would be too narrow. A boot is kept
where it is ready, and each policy goes on from there in a machine of its own, so that policies are
compared on the same boots and no run reaches another. It is kept again with the policy loaded if
that machine will be asked for again: the verifier takes as long as a small workload. Where the
clock counts instructions all boots are equal: repetitions begin at unlike times between two ticks.
"""

import functools
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schedlab import catalogue, values
from schedlab.digests import canonical_json
from schedlab.errors import BadValue, SchedlabError
from schedlab.experiment import sweep
from schedlab.experiment.cells import Cell
from schedlab.experiment.definition import DEFAULT_CPUS, VmChoice
from schedlab.experiment.varying import CPUS, machine_size
from schedlab.kernel import play, vm
from schedlab.kernel import result as kernel_result
from schedlab.kernel.platform import refuse_bad_cpus
from schedlab.report.progress import Progress

# Where a deterministic run begins within a span that ticks of 1, 4 and 10 ms divide: seeds that
# follow each other lie apart by the golden ratio of it, so that few of them cover it evenly.
PHASE_SPAN_NS = 20_000_000
PHASE_STEP_NS = 12_360_680
# Options of `_native.simulate` that ask for what is inside a policy, which a guest has, too.
INSIDE = ("watch", "dump_at_ns", "dump_at_end")
QEMU_SEED_MASK = 2**32 - 1


def run_on_kernel(
    cell: Cell,
    tell: Callable[[str], None],
    *,
    timeline: bool = False,
    prints: bool = False,
    is_policy_kept: bool = True,
    inside: Mapping[str, Any] | None = None,
    limits: vm.Limits = play.LIMITS,
    tell_stage: Callable[[str], None] | None = None,
) -> tuple[dict, str]:
    """Boots, loads the policy if the cell has one, plays the workload once, and gives the result,
    as docs/reference/result.md has it, and which boot the machine went on from.

    A kernel that refuses or ejects the policy, panics or hangs is a result too. Once the machine is
    gone, `tell` is told that it had to be started again and, with `prints`, each line that the
    policy printed. `inside` is what to look at of the policy meanwhile, as `_native.simulate` takes
    `watch`, `dump_at_ns` and `dump_at_end`, else None. `is_policy_kept` is as in `vm.Policy`, but
    no policy is kept that failed; `tell_stage` is as in `vm.Boot`. Raises
    SchedlabError or NativeError if no machine starts.
    """
    platform, policy = cell.platform, cell.policy
    record_kib_per_cpu = play.RECORD_KIB // platform.nr_cpus
    phase_ns = cell.seed * PHASE_STEP_NS % PHASE_SPAN_NS if platform.deterministic else 0
    job = play.Job(platform.deterministic, record_kib_per_cpu)
    if inside and inside.get("watch"):
        refuse_unknown_numbers(cell, inside["watch"])
    job.play(Path(cell.workload.path), cell.seed, cell.workload.parameters, inside=inside)
    job.spec |= {"settle_ns": phase_ns, "time_limit_ns": cell.until_ns or play.PLAY_LIMIT_NS}
    loaded = None
    if policy.object:
        loaded = vm.Policy(Path(policy.object).read_bytes(), policy.changed, is_policy_kept)
    options = {"record_kib_per_cpu": record_kib_per_cpu, "limits": limits, "tell_stage": tell_stage}
    with play.start(platform, job, loaded, seed=cell.seed & QEMU_SEED_MASK, **options) as booted:
        records = kernel_result.parse(list(booted))
        end = (booted.end, booted.message, booted.console)
        result = kernel_result.result_of(records, *end, until_ns=cell.until_ns, timeline=timeline)
        if inside is not None:
            result |= kernel_result.inside_of(records)
        booted.judge_policy(did_well=result["status"] != "failed")
    if booted.failed_start:
        tell(f"note: the machine was started again: {booted.failed_start}")
    for line in kernel_result.printed(records) if prints else ():
        tell(line)
    for line in kernel_result.left_out(records):
        tell(line)
    return result, booted.boot


def refuse_unknown_numbers(cell: Cell, expressions: Sequence[str]) -> None:
    """Raises SchedlabError or PolicyError for what cannot be followed in this cell's machine."""
    if not cell.policy.object:
        why = f"--watch {expressions[0]}: the kernel's own scheduler shows none of its numbers"
        raise SchedlabError(why, "name a policy, or leave out --watch")
    policy = catalogue.load_policy(cell.policy.path)
    policy.refuse_unknown(list(expressions), cell.platform.nr_cpus)


def measure_cell(cell: Cell, is_alone: bool = False, **options: Any) -> sweep.Outcome:
    """Makes the run of one cell, as `sweep.simulate_cell` does; `options` as in `run_on_kernel`.

    `is_alone` says that its command makes no other. Its machine is kept with its policy, and so are
    those of many that share one boot, as all do where the clock counts instructions.
    """

    def make() -> dict:
        workload, notes = cell.workload, []
        now = catalogue.load_workload(workload.path, dict(workload.parameters))
        sweep.refuse_changed(workload, now.digest)
        is_kept = is_alone or cell.platform.deterministic
        result, boot = run_on_kernel(cell, notes.append, is_policy_kept=is_kept, **options)
        return {"result": result, "boot": boot, "notes": notes}

    return sweep.outcome_of(make)


def measure_alone(
    cell: Cell, timeline: bool, inside: Mapping[str, Any] | None = None
) -> sweep.Outcome:
    """Makes the run of one cell in this process, as a policy can end only its machine, looks
    `inside` as in `run_on_kernel`, and draws how far that is. Raises ExperimentError if the run
    cannot be made."""
    with Progress(0, "") as progress:
        tell = functools.partial(tell_stage, progress, f"Linux {cell.platform.kernel.release}")
        options = {"timeline": timeline, "prints": True, "inside": inside, "tell_stage": tell}
        outcome = measure_cell(cell, is_alone=True, **options)
        for note in outcome.notes:
            progress.tell(note)
    return sweep.refuse_fault(outcome)


# Short enough for one row of a terminal.
STAGES = {
    "booting": "booting {kernel} once: later runs begin there",
    "saving": "keeping the machine",
    "restoring": "restoring a machine with {kernel}",
    "working": "running on {kernel}",
}


def tell_stage(progress: Progress, kernel: str, stage: str) -> None:
    """Says which stage a machine has come to; piped only that it boots, as that takes seconds."""
    text = STAGES[stage].format(kernel=kernel)
    progress.update(progress.nr_done, text)
    if stage == "booting" and not sys.stderr.isatty():
        progress.note(f"note: {text}")


def random_order(cells: Sequence[Cell]) -> list[Cell]:
    """The order in which measurements are made: repetition by repetition, shuffled within each.

    Whatever else this machine does changes with time. Made policy by policy, that would look like
    a difference of policies; so each repetition visits every cell, in another order each time.
    The order follows from the cells, so that it can be had again.
    """
    shuffled = sorted(cells, key=lambda cell: cell.key)
    random.Random(canonical_json([cell.key for cell in shuffled])).shuffle(shuffled)
    return sorted(shuffled, key=lambda cell: cell.seed)


def jobs(asked: int | None, choice: VmChoice | None) -> int:
    """How many runs to make at a time, if not asked for a number. Machines whose clock is ours
    would measure each other, so they run alone."""
    return 1 if asked is None and choice and not choice.deterministic else sweep.jobs(asked)


def choice(
    on: str,
    kernel: str | None,
    cpus: str | Sequence[str] | None,
    deterministic: bool,
    machines: Sequence[str],
) -> VmChoice | None:
    """What these options ask for; None is the simulator. Raises SchedlabError if they contradict
    each other."""
    given = [cpus] if isinstance(cpus, str) else list(cpus or ())
    if on == "simulator":
        if deterministic:
            why = "is for virtual machines (simulations always repeat exactly)"
            raise SchedlabError(f"--deterministic {why}", "add --on vm")
        return None
    if machines:
        why = "is a simulated machine, and --on vm runs on a real kernel"
        hint = "say by --kernel and --cpus what to boot, or leave out --on vm"
        raise BadValue("--machine", machines[0], why, hint)
    values.refuse_duplicates("--cpus", given)
    for text in given:
        refuse_bad_cpus(text)
    return VmChoice(kernel, tuple(given) or (DEFAULT_CPUS,), deterministic)


def simulated_cpus(on: str, cpus: str | Sequence[str] | None) -> int | None:
    """How many CPUs simulated machines are to have instead of those of their files, if --cpus says
    so. Raises SchedlabError if it says something else."""
    given = [cpus] if isinstance(cpus, str) else list(cpus or ())
    if on != "simulator" or not given:
        return None
    if len(given) > 1:
        hint = f"vary it by --vary {CPUS}={','.join(given)}"
        raise SchedlabError("--cpus is given more than once, which is for virtual machines", hint)
    return machine_size("--cpus", values.parse_value(given[0]))
