"""Measures what is asked for, here or in virtual machines, and keeps every repetition."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedlab import programs
from schedlab.bench import boots, environment, policies, preparation
from schedlab.bench.plan import Tally
from schedlab.bench.request import Request, last_series
from schedlab.bench.work import RunHere
from schedlab.kernel import loading
from schedlab.report.progress import Progress, left_text, measuring
from schedlab.store.measurements import Campaign, Measurements, Repetition
from schedlab.store.runs import Store


@dataclass(frozen=True)
class Measured:
    """What came of a campaign, or of the boots of one; repetitions are those that count."""

    campaign: Campaign
    """It, or one of them."""
    nr_made: int
    nr_before: int
    nr_made_up: int
    """How many there are because others were disturbed."""
    is_complete: bool
    policies: Sequence[str]
    failed: Sequence[Repetition]
    """The last failure of each case that is not done."""
    widths: Sequence[str]
    """With `until`, how well each case is known, or what it would take."""

    def comparable(self, kept: Measurements) -> list[Campaign]:
        """All campaigns of this machine that share a case with this one, the latest last."""
        own = {case[0] for case in self.campaign.definition["cases"]}
        return [
            one
            for one in kept.campaigns(self.campaign.suite)
            if one.condition["machine"] == self.campaign.condition["machine"]
            and any(case[0] in own for case in one.definition["cases"])
        ]


@contextlib.contextmanager
def measured(
    request: Request,
    store: Path,
    *,
    command: str = "",
    as_root: Sequence[str] = (),
    quiet: bool = False,
) -> Iterator[Measured]:
    """Makes what the store does not have yet; inside, nobody else measures in the same folder, so
    that what is computed of it disturbs nobody.

    `command` asks for the same on the command line and `as_root` is what sudo takes, both to be
    told. With `quiet` standard error has failures only. Raises SchedlabError or NativeError if
    something is missing or somebody measures already, KeyboardInterrupt once told how to go on.
    """
    if request.policies is not None and not request.is_vm:
        loading.require_kernel(command=as_root)
    notes = Progress(0, "", quiet)
    directory = preparation.work_directory(request.work_dir)
    with preparation.alone(directory):
        with Store(store) as opened:
            kept = Measurements(opened)
            if request.is_vm:
                run = boots.begin(request, kept, command, notes)
            else:
                run = _begin(request, kept, directory, command, notes)
            nr_before = _nr_done(run)
            try:
                with measuring(_nr_planned(run), quiet) as progress:
                    run.tell, run.begins = progress.tell, lambda text: _show(run, progress, text)
                    run.measure()
            except KeyboardInterrupt:
                notes.tell(
                    f"\n{_nr_done(run)} of {_nr_planned(run)} repetitions are kept in {store}; the"
                    f" same command goes on from there: {command}"
                )
                raise
            outcome = _outcome(run, request, nr_before)
        yield outcome


def _show(run: RunHere | boots.Boots, progress: Progress, doing: str) -> None:
    left = left_text(run.left_s(), is_whole=not run.untimed)
    # Disturbed repetitions are followed by more.
    progress.update(_nr_done(run), doing, left=left, total=_nr_planned(run))


def _begin(
    request: Request, kept: Measurements, directory: Path, command: str, notes: Progress
) -> RunHere:
    """Looks at the machine, prepares what is needed, and finds the campaign to go on with."""
    suite, cases = request.suite, request.cases
    facts = environment.capture(preparation.refuse_missing_packages(suite, cases))
    values: dict[str, Any] = {"nr_cpus": facts["machine"]["nr_cpus_usable"]}
    if preparation.uses_program(suite, cases):
        values["bench"] = program = programs.BENCH.find()
        facts["tools"]["schedlab-bench"] = hashlib.sha256(program.read_bytes()).hexdigest()[:12]
    warnings = environment.warnings(facts)
    for warning in warnings:
        notes.note(warning.text)
    facts["inputs"] = {}
    for made in preparation.needed_inputs(suite, cases):
        values[made.name], facts["inputs"][made.name] = preparation.prepared(
            made, request.size, values, directory, notes.note
        )
    plan = request.plan(facts["inputs"])
    condition = environment.condition(facts)

    def campaign(number: int) -> Campaign:
        return request.campaign(plan, number, condition, command)

    series = last_series(kept, campaign)
    if series and request.again:
        series += Tally(plan, series, kept.repetitions(campaign(series).id)).is_complete
    chosen = campaign(max(series, 1))
    kept.begin(chosen)
    values["work"] = directory / "scratch"
    values["work"].mkdir(exist_ok=True)
    return RunHere(
        plan=plan,
        campaign=chosen,
        kept=kept,
        boot=facts["boot_id"] or "unknown",
        values=values,
        surroundings=kept.surround(chosen.id, chosen.asked_at, facts, warnings),
        in_force=policies.in_force,
    )


def _nr_done(run: RunHere | boots.Boots) -> int:
    return sum(tally.nr_done for tally in run.tallies)


def _nr_planned(run: RunHere | boots.Boots) -> int:
    return sum(tally.nr_planned for tally in run.tallies)


def _outcome(run: RunHere | boots.Boots, request: Request, nr_before: int) -> Measured:
    widths = []
    if request.width is not None:
        # Statistics are loaded only now, because that takes a while.
        from schedlab.bench.limits import reached

        what = "boots" if request.is_vm else "runs"
        widths = [
            f"{name}: {reached(values, request.width, runs_max, what)}"
            for name, values, runs_max in run.series()
            if values
        ]
    return Measured(
        campaign=run.campaign,
        nr_made=_nr_done(run) - nr_before,
        nr_before=nr_before,
        nr_made_up=sum(tally.nr_made_up for tally in run.tallies),
        is_complete=run.is_complete,
        policies=request.policy_names,
        failed=[repetition for tally in run.tallies for repetition in tally.failed],
        widths=widths,
    )
