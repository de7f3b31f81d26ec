"""Searches values of tunables by Optuna, trial by trial, with runs on common random numbers.

Every trial meets the scenarios and seeds that the defaults met, so a score is a ratio in which
chance has little part. A round of trials is asked for at once, and their runs are made seed by
seed: after each, a trial that is surely worse than the best is stopped. How many processes are at
work changes nothing.

A search is a function of what is asked and of the runs in the store. Who asks again, with a sampler
that begins with the same seed, has the same runs judged once more, which takes a moment, and goes
on. What was told of each trial is kept in a file of Optuna's, for people and their tools: no score
is taken from there, so that none outlives the meaning of its measure.
"""

import contextlib
import itertools
import json
import math
import statistics
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.digests import timestamp
from schedlab.errors import ExperimentError, SchedlabError
from schedlab.experiment.cells import Cell
from schedlab.report.progress import Progress
from schedlab.store.runs import RunRecord
from schedlab.tuning.answer import DONE, FAILED, STOPPED, Searched, Trial
from schedlab.tuning.asked import Tuning
from schedlab.tuning.costs import Costs, Objective, costs_of, lost
from schedlab.tuning.runs import Runs, with_settings

if TYPE_CHECKING:
    import optuna

# Trials that are asked for together, before any of them is judged.
ROUND = 4
# Trials at random before the sampler has something to go by.
STARTUP_TRIALS = 12
# How sure it must be that a trial is worse before it is stopped.
STOP_P = 0.1
STOP_STEPS_MIN = 4
# Fewer trials say nothing of which tunable decides.
IMPORTANCE_TRIALS_MIN = 20
RECORD_SUFFIX = ".tuning.log"


def load_optuna() -> Any:
    """The optimiser; SchedlabError if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import optuna
    except ImportError as error:
        why = f"`tune` searches by Optuna, which is not installed: {error}"
        raise SchedlabError(why, "`pip install 'schedlab[tune]'`") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def search(
    tuning: Tuning, cells: Sequence[Sequence[Cell]], runs: Runs, store: Path, progress: Progress
) -> Searched:
    """Asks for trials and makes their runs. `cells` are the base's, a list of repetitions for each
    scenario. Raises SchedlabError if the base fails, or has nothing of an objective."""
    optuna = load_optuna()
    # What it calls experimental is what we test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return _Search(tuning, cells, runs, optuna, _record_path(store)).run(progress)


def base_costs(
    tuning: Tuning, scenarios: Sequence[Sequence[Cell]], runs: Runs
) -> list[list[Costs]]:
    """What the base costs in each repetition of each scenario; raises ExperimentError if a run of
    it fails, or where it has nothing of an objective."""
    records = runs.of([cell for cells in scenarios for cell in cells])
    if failed := [record for record in records if record.status != "completed"]:
        what = f"{tuning.label} fails as it is: {reason(failed[0])}"
        raise ExperimentError(what, f"mend it first; replay: {failed[0].manifest['replay']}")
    found = iter(costs_of(record.result) for record in records)
    costs = [[next(found) for _ in cells] for cells in scenarios]
    for cells, of_scenario in zip(scenarios, costs, strict=True):
        for objective in tuning.objectives:
            if not all(map(objective.has_part_in, of_scenario)):
                what = f"--objective {objective.text}: {place(cells[0])} has nothing of it"
                had = [name for name, cost in of_scenario[0].items() if cost is not None]
                raise ExperimentError(what, f"it has {', '.join(had)}")
    return costs


def place(cell: Cell) -> str:
    """The scenario of a cell, in words."""
    return f"{cell.workload.name} on {cell.machine.name}"


def reason(record: RunRecord) -> str:
    """Why a run did not complete, in a few words and where."""
    error = record.result.get("error") or {"message": "it was stopped"}
    return f"{error['message'].splitlines()[0]} ({record.workload} on {record.machine})"


def _record_path(store: Path) -> Path:
    return store.with_name(store.name + RECORD_SUFFIX)


@dataclass
class _Search:
    """A search on its way; `study` is Optuna's, in memory, which decides what is tried."""

    tuning: Tuning
    cells: Sequence[Sequence[Cell]]
    runs: Runs
    optuna: Any
    path: Path

    def run(self, progress: Progress) -> Searched:
        tuning = self.tuning
        progress.update(0, f"the runs of {tuning.label} as it is")
        self.costs = base_costs(tuning, self.cells, self.runs)
        self._refuse_lost_bounds()
        self.base = {name: self.cells[0][0].policy.tunables[name] for name in tuning.ranges}
        every = [cell for of_one in self.cells for cell in of_one]
        self.name = f"{tuning.label}-{tuning.id_of(every, self._method())}"
        self.study = self._new_study()
        # Two that tell one record of the same trials number them otherwise.
        self.runs.lock_search(self.name)
        self.record, trials = self._opened_record(), []
        while len(trials) < tuning.trials:
            asked = [self._ask() for _ in range(min(ROUND, tuning.trials - len(trials)))]
            made = self._made(asked)
            for one in asked:
                self._tell(one, made[one.number])
                self._keep(one.number)
                trials.append(made[one.number])
                progress.update(len(trials), _best_text(trials))
        front = self._front(trials)
        return Searched(trials, front, self._importance(trials), self._method(), self.path)

    def _refuse_lost_bounds(self) -> None:
        """Nobody would notice that what is to be kept is measured nowhere."""
        known = [cost for scenario in self.costs for cost in scenario]
        for keep in self.tuning.keeps:
            if all(cost[keep.measure] is None for cost in known):
                what = f"--keep {keep.text}: no scenario has anything of it"
                had = {name for cost in known for name, of in cost.items() if of is not None}
                raise ExperimentError(what, f"they have {', '.join(sorted(had))}")

    def _new_study(self) -> "optuna.Study":
        """A study that first tries the base, if that is among what may be tried."""
        optuna, ranges = self.optuna, self.tuning.ranges
        study = optuna.create_study(
            directions=["minimize"] * len(self.tuning.objectives),
            sampler=optuna.samplers.TPESampler(
                seed=self.tuning.seed % 2**32, n_startup_trials=STARTUP_TRIALS
            ),
            pruner=optuna.pruners.WilcoxonPruner(
                p_threshold=STOP_P, n_startup_steps=STOP_STEPS_MIN
            ),
        )
        if all(of.low <= self.base[name] <= of.high for name, of in ranges.items()):
            study.enqueue_trial(self.base)
        return study

    def _method(self) -> str:
        seed = self.tuning.seed % 2**32
        stops = f"WilcoxonPruner(p_threshold={STOP_P}, n_startup_steps={STOP_STEPS_MIN})"
        return (
            f"Optuna {self.optuna.__version__},"
            f" TPESampler(seed={seed}, n_startup_trials={STARTUP_TRIALS})"
            + f", {stops}"
            * (len(self.tuning.objectives) == 1)
        )

    def _opened_record(self) -> "optuna.Study":
        """The study that keeps what was told; it says of itself what was asked, and how."""
        optuna = self.optuna
        with self._named_errors():
            backend = optuna.storages.journal.JournalFileBackend(str(self.path))
            self.storage = optuna.storages.JournalStorage(backend)
            record = optuna.create_study(
                study_name=self.name,
                storage=self.storage,
                directions=["minimize"] * len(self.tuning.objectives),
                load_if_exists=True,
            )
            if not record.user_attrs:
                objectives = [one.text for one in self.tuning.objectives]
                facts = {"method": self._method(), "objectives": objectives}
                facts |= {"scenarios": [place(of_one[0]) for of_one in self.cells]}
                seeds = [self.tuning.seed, self.tuning.seed + self.tuning.repeats - 1]
                for fact, value in (facts | {"seeds": seeds, "asked_at": timestamp()}).items():
                    record.set_user_attr(fact, value)
        return record

    def _keep(self, number: int) -> None:
        """Adds a trial to the record. Where that has another of this number, as of an older version
        whose measures meant something else, it is begun anew."""
        with self._named_errors():
            trials, known = self.study.get_trials(deepcopy=False), self.record.get_trials(False)
            if number < len(known):
                if _facts(known[number]) == _facts(trials[number]):
                    return
                self.optuna.delete_study(study_name=self.name, storage=self.storage)
                self.record = self._opened_record()
                known = ()
            self.record.add_trials(trials[len(known) : number + 1])

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        hint = "take it away: its runs are in the store, and the same command finds them there"
        try:
            yield
        except OSError as error:
            what = f"the record of searches {self.path} cannot be written: {error.strerror}"
            raise SchedlabError(what, "make room there, or name another --store") from error
        except (ValueError, KeyError) as error:
            what = f"the record of searches {self.path} is damaged: {error}"
            raise SchedlabError(what, hint) from error

    # ---- trials ----------------------------------------------------------------------------------

    def _ask(self) -> "optuna.Trial":
        integer = self.optuna.distributions.IntDistribution
        ranges = self.tuning.ranges.items()
        return self.study.ask({name: integer(of.low, of.high, of.is_log) for name, of in ranges})

    def _settings(self, one: "optuna.Trial") -> dict[str, int]:
        """What is tried: the base's values as they are, others to the digits that people read."""
        ranges = self.tuning.ranges
        return {
            name: value if value == self.base[name] else ranges[name].value(value)
            for name, value in one.params.items()
        }

    def _made(self, asked: Sequence["optuna.Trial"]) -> dict[int, Trial]:
        """Trials with their runs, those of one seed at a time."""
        made: dict[int, Trial] = {}
        costs: dict[int, list[list[Costs]]] = {one.number: [] for one in asked}
        for repeat in range(self.tuning.repeats):
            live = [one for one in asked if one.number not in made]
            cells = [
                with_settings(of_one[repeat], self._settings(one))
                for one in live
                for of_one in self.cells
            ]
            records, nr = self.runs.of(cells), len(self.cells)
            for at, one in enumerate(live):
                mine = records[at * nr : (at + 1) * nr]
                if why := self._failure(mine, repeat):
                    facts = (one.number, self._settings(one), FAILED)
                    made[one.number] = Trial(*facts, why=why)
                    continue
                costs[one.number].append([costs_of(record.result) for record in mine])
                is_last = repeat + 1 == self.tuning.repeats
                is_hopeless = self._is_hopeless(one, repeat, costs[one.number]) and not is_last
                if is_hopeless or is_last:
                    state = STOPPED if is_hopeless else DONE
                    made[one.number] = self._judged(one, state, costs[one.number])
        return made

    def _failure(self, records: Sequence[RunRecord], repeat: int) -> str:
        """Why the runs of a trial on one seed are no answer; "" if they are."""
        for record, defaults in zip(records, self.costs, strict=True):
            if record.status != "completed":
                return reason(record)
            if gone := lost(self.tuning.measures, costs_of(record.result), defaults[repeat]):
                where = f"{record.workload} on {record.machine}"
                return f"it has nothing of {', '.join(gone)} any more ({where})"
        return ""

    def _is_hopeless(self, one: "optuna.Trial", repeat: int, costs: list[list[Costs]]) -> bool:
        """Whether it is surely worse than the best; several objectives have no best."""
        objective = self.tuning.objectives[0]
        self._report(one, repeat, self._scores(objective, costs)[repeat])
        return len(self.tuning.objectives) == 1 and one.should_prune()

    def _report(self, one: "optuna.Trial", repeat: int, scores: Sequence[float]) -> None:
        if len(self.tuning.objectives) == 1:
            for at, score in enumerate(scores):
                one.report(score, repeat * len(scores) + at)

    def _scores(self, objective: Objective, costs: list[list[Costs]]) -> list[list[float]]:
        """A list a seed, with a score a scenario."""
        return [
            [
                objective.score(cost, self.costs[scenario][repeat])
                for scenario, cost in enumerate(of_repeat)
            ]
            for repeat, of_repeat in enumerate(costs)
        ]

    def _judged(self, one: "optuna.Trial", state: str, costs: list[list[Costs]]) -> Trial:
        scores = [self._scores(objective, costs) for objective in self.tuning.objectives]
        values = tuple(statistics.fmean(itertools.chain(*of)) for of in scores)
        excess = {}
        for keep in self.tuning.keeps:
            means = []
            for scenario, defaults in enumerate(self.costs):
                pairs = zip((of[scenario] for of in costs), defaults, strict=False)
                found = [keep.excess(cost, default) for cost, default in pairs]
                if found := [one for one in found if one is not None]:
                    means.append(statistics.fmean(found))
            # One that was stopped early may not have come to a seed that has anything of it.
            excess[keep.measure] = max(means, default=0.0)
        return Trial(one.number, self._settings(one), state, values, excess, "", scores)

    def _tell(self, one: "optuna.Trial", trial: Trial) -> None:
        for name in ("settings", "state", "excess", "why", "scores"):
            one.set_user_attr(name, getattr(trial, name))
        if trial.values is None:
            self.study.tell(one, state=self.optuna.trial.TrialState.FAIL)
            return
        for measure, excess in trial.excess.items():
            one.set_constraint(measure, excess)
        # The mean so far, also of one that was stopped: the sampler learns from it.
        self.study.tell(one, list(trial.values))

    # ---- at the end ------------------------------------------------------------------------------

    def _front(self, trials: Sequence[Trial]) -> list[Trial]:
        sound = [trial for trial in trials if trial.is_sound]
        if len(self.tuning.objectives) == 1:
            # Of equal ones that which changes least.
            return sorted(sound, key=lambda trial: (trial.values, self._change(trial)))[:1]
        best = {trial.number for trial in self.study.best_trials}
        front: dict[tuple, Trial] = {}
        for trial in sound:
            if trial.number in best:
                front.setdefault(tuple(trial.settings.items()), trial)
        return sorted(front.values(), key=lambda trial: trial.values)

    def _change(self, trial: Trial) -> float:
        """How far a trial is from the base, all its factors together."""
        pairs = ((value, self.base[name]) for name, value in trial.settings.items())
        return sum(abs(math.log((value + 1) / (base + 1))) for value, base in pairs)

    def _importance(self, trials: Sequence[Trial]) -> list[dict[str, float]]:
        """By PED-ANOVA, which needs no other library."""
        importance, found = self.optuna.importance, []
        for at in range(len(self.tuning.objectives)):
            values = {trial.values[at] for trial in trials if trial.values}
            nr_told = sum(trial.values is not None for trial in trials)
            if nr_told < IMPORTANCE_TRIALS_MIN or len(values) == 1:
                found.append({})
                continue
            evaluator = importance.PedAnovaImportanceEvaluator()
            target = None if len(self.tuning.objectives) == 1 else lambda t, at=at: t.values[at]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                of = importance.get_param_importances(
                    self.study, evaluator=evaluator, target=target
                )
            found.append(dict(of))
        return found


def _facts(trial: "optuna.trial.FrozenTrial") -> Any:
    """What was tried and told, as it is in a record."""
    return json.loads(json.dumps([trial.params, trial.user_attrs]))


def _best_text(trials: Sequence[Trial]) -> str:
    sound = [trial for trial in trials if trial.is_sound]
    if not sound:
        return "nothing sound so far"
    best = min(trial.values[0] for trial in sound)
    return f"best so far {100 * math.expm1(best):+.1f} %"
