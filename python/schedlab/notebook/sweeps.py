"""Sweeps in notebooks and scripts: any number of runs, which are asked as in an experiment file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab import catalogue
from schedlab.experiment import definition
from schedlab.experiment.definition import REPEATS
from schedlab.notebook.answers import runs_frame
from schedlab.notebook.keywords import Path_, command_line, ours, path_of
from schedlab.shown import print_note
from schedlab.store.runs import DEFAULT_PATH, Store
from schedlab.sweeping import loop

if TYPE_CHECKING:
    import pandas


@ours
def sweep(
    experiment: Path_ | Mapping[str, Any],
    *,
    store: Path_ = DEFAULT_PATH,
    processes: int | None = None,
    dask: Path_ | None = None,
    limit: str | None = None,
    progress: bool = True,
) -> Swept:
    """Makes all runs of an experiment, up to ten million, also of a sample.

    experiment: a name of the catalogue, a file, or what a file would hold: {"policies": ["cfs"],
        "workload": "hackbench", "machine": "osdl-4", "sample": {"points": 100, "ranges":
        {"groups": {"low": 1, "high": 200}}}}
    store: keeps every run; runs that are in it are not made again
    processes: runs at a time; by default one a CPU
    dask: instead, workers of Dask simulate: the scheduler's address, its file, or "local:4" for
        four here
    limit: end a run that takes longer, as in "10min", at least "1s"; by default 20 times the
        longest so far
    progress: show on a terminal, or in a notebook, how far it is

    Raises SchedlabError if something that is named is not there, or has a value that cannot be,
    and KeyboardInterrupt after Ctrl-C, which says how many runs are kept; the same call goes on.
    """
    if isinstance(experiment, Mapping):
        options, words = definition.options_of(experiment, Path("sweep")), ["EXPERIMENT.toml"]
    else:
        path = catalogue.find(catalogue.EXPERIMENTS, str(experiment))
        options, words = definition.read_options(path), [str(experiment)]
    limit_s, where = loop.limit_s(limit), None if dask is None else str(dask)
    asked = definition.build({"repeat": REPEATS} | options)
    laid_out = loop.laid_out(asked)
    command = command_line(["sweep", *words], {"--dask": dask}, store)
    with Store(path_of(store)) as kept:
        made = loop.begin(*laid_out, kept, command)
        try:
            tell = print_note if progress else lambda text: None
            engine = made.engine(processes, where, tell, limit_s)
            made.make_runs(engine, not progress, limit_s)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{made.count_kept():,} of {len(made.grid):,} runs are kept in {kept.path};"
                " the same call goes on from there"
            ) from None
        by_status = kept.count_by_status(made.asked.id)
    reused = made.nr_reused + made.nr_of_others
    return Swept(made.asked.id, kept.path, len(made.grid), made.nr_made, reused, by_status)


@dataclass(frozen=True)
class Swept:
    """What a sweep came to: its id in the store, how many runs there are, how many of them were
    made and reused, and how many there are of each status."""

    id: str
    store: Path
    runs: int
    made: int
    reused: int
    by_status: Mapping[str, int]

    def frame(self) -> pandas.DataFrame:
        """A row a run, as `Comparison.frame` has them. All of them are in memory then."""
        with Store(self.store, read_only=True) as kept:
            return runs_frame(kept.runs(self.id))
