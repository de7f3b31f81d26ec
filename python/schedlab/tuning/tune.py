"""A search and the judgement on it, from what is asked to what may be said and written."""

from pathlib import Path

from schedlab.experiment import sweep
from schedlab.experiment.making import Making
from schedlab.report.progress import Progress
from schedlab.store.runs import Store
from schedlab.tuning.answer import Tuned
from schedlab.tuning.asked import FRESH_AFTER, Tuning, by_scenario
from schedlab.tuning.runs import Runs
from schedlab.tuning.search import base_costs, load_optuna, search
from schedlab.tuning.verdict import judge


def tune(tuning: Tuning, path: Path, jobs: int | None, quiet: bool, command: str) -> Tuned:
    """Searches and judges; every run and trial is kept at once, so the same call goes on after an
    interrupt, which says so. Raises SchedlabError if what is asked cannot be."""
    load_optuna()
    nr_jobs = sweep.jobs(jobs)
    cells = tuning.search_cells()
    held_out = by_scenario(tuning, tuning.holdouts, seed=tuning.seed + FRESH_AFTER)
    policy = cells[0][0].policy
    base = {name: policy.tunables[name] for name in tuning.ranges}
    progress = Progress(tuning.trials, "trials", quiet, is_long=True)
    makings = []

    def make(making: Making) -> None:
        makings.append(making)
        making.make_runs(nr_jobs, quiet)

    with Store(path) as store:
        try:
            with progress, Runs(store, nr_jobs, progress.note) as runs:
                # Better known before a long search than after it.
                base_costs(tuning, held_out, runs)
                searched = search(tuning, cells, runs, path, progress)
            judgement = judge(tuning, searched, base, store, make)
        except KeyboardInterrupt:
            kept = f"{progress.nr_done} of {tuning.trials} trials, and every run, are kept in"
            progress.tell(f"\n{kept} {path}; the same command goes on from there: {command}")
            raise
    nr_made = runs.nr_made + sum(one.nr_made for one in makings)
    nr_reused = runs.nr_reused + sum(one.nr_reused + one.nr_of_others for one in makings)
    counts = (nr_made, nr_reused)
    return Tuned(tuning, searched, judgement, base, policy.changed, *counts, command)
