"""The question of `schedlab tune` in a call, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.digests import ends
from schedlab.errors import BadValue, SchedlabError
from schedlab.notebook.answers import Paged, frame_of
from schedlab.notebook.keywords import Path_, chosen_figure, command_line, listed, ours, path_of
from schedlab.store.runs import DEFAULT_PATH
from schedlab.tuning import asked, named_set
from schedlab.tuning import tune as searching
from schedlab.tuning.answer import Tuned

# Those that `asked.build` knows by the plural.
OPTIONS = {"objectives": "--objective", "keeps": "--keep", "workloads": "--workload"}
OPTIONS |= {"machines": "--machine", "holdouts": "--holdout-workload", "ranges": "--range"}

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects as go


@ours
def tune(
    policy: Path_,
    workloads: Path_ | Sequence[Path_],
    machines: Path_ | Sequence[Path_],
    *,
    objective: str | Sequence[str],
    keep: Mapping[str, float | str] | None = None,
    holdout: Path_ | Sequence[Path_] = (),
    ranges: Mapping[str, str] | None = None,
    only: str | Sequence[str] = (),
    tunables: Mapping[str, Any] | None = None,
    trials: int = asked.TRIALS,
    repeat: int = asked.REPEATS,
    seed: int = 1,
    fresh: int | None = None,
    store: Path_ = DEFAULT_PATH,
    processes: int | None = None,
    progress: bool = True,
    **parameters: Any,
) -> Tuning:
    """Searches values of a policy's tunables, and judges them on fresh seeds.

    workloads, machines: what to search on
    objective: a measure such as "p99_wakeup", or a sum of some with weights; several give a front
    keep: measure -> by how many percent it may become worse, as in {"throughput": 2}
    holdout: workloads that only judge what was found
    ranges: tunable -> values to search, as in {"slice_ns": "100us..10ms"}
    only: tunables to search; by default all that have a range
    tunables: values that stay
    trials, repeat: values to try, and seeds of each in each scenario, `seed`, `seed` + 1 …
    fresh: seeds of the judgement; by default as many as the noise asks for
    store, processes, progress: as in `compare`; every trial is kept beside the store
    parameters: of the workloads that have them

    Raises SchedlabError if something that is named is not there or cannot be searched, or Optuna is
    missing, and KeyboardInterrupt after Ctrl-C; the same call goes on from there.
    """
    for name, value in {"keep": keep, "ranges": ranges, "tunables": tunables}.items():
        if not isinstance(value, Mapping | None):
            raise BadValue(name, value, "is no mapping", "give {NAME: VALUE}")
    given = {
        "objectives": list(map(str, listed(objective))),
        "keeps": [f"{of}={text.removesuffix('%')}%" for of, text in _texts(keep or {}).items()],
        "workloads": list(map(str, listed(workloads))),
        "machines": list(map(str, listed(machines))),
        "holdouts": list(map(str, listed(holdout))),
        "ranges": _texts(ranges or {}),
        "only": list(map(str, listed(only))),
        "set": _texts(tunables or {}),
        "with": _texts(parameters),
    }
    given |= {"trials": trials, "repeat": repeat, "seed": seed, "fresh": fresh}
    options = {
        OPTIONS.get(name, f"--{name}"): [f"{of}={text}" for of, text in value.items()]
        if isinstance(value, dict)
        else value
        for name, value in given.items()
    }
    command = command_line(["tune", str(policy)], options, store)
    question = asked.build({"policy": str(policy), **given})
    path, quiet = path_of(store), not progress
    return Tuning(searching.tune(question, path, processes, quiet, command), path)


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    """Values as options have them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given.items()
    }


@dataclass(eq=False, repr=False)
class Tuning(Paged):
    """What came of a search: `table` has what fresh seeds say, `frame` the trials."""

    tuned: Tuned
    """All of it, as the command prints it."""
    store: Path
    """What keeps the runs."""

    @property
    def verdict(self) -> str:
        """ "better" or "no better"."""
        return self.tuned.word

    @property
    def tunables(self) -> dict[str, int]:
        """The values of the first candidate that is better; none if there is none."""
        better = self.tuned.judgement.better
        return dict(better[0].trial.settings) if better else {}

    def frame(self) -> pandas.DataFrame:
        """A row a trial: its number, state, tunables, and the ratio of cost by each objective."""
        objectives = [one.text for one in self.tuned.tuning.objectives]
        return frame_of(
            [
                {"trial": one.number, "state": one.state, **one.settings}
                | dict(zip(objectives, one.costs or [None] * len(objectives), strict=True))
                | {"is_sound": one.is_sound, "why": one.why}
                for one in self.tuned.searched.trials
            ]
        )

    def table(self) -> pandas.DataFrame:
        """A row a candidate, measure and place: cost over that of the policy as it is, with its
        95 % interval, and the word for it."""
        return frame_of(
            [
                {"candidate": one.label, **one.trial.settings, "measure": row.measure}
                | {"group": row.group, "where": row.where, **ends("cost", row.ratio, "ratio")}
                | {"verdict": row.word}
                for one in self.tuned.judgement.judged
                for row in one.rows
            ]
        )

    @ours
    def figure(self, objective: str | None = None) -> go.Figure:
        """Every trial's cost by an objective, and the best so far; of the first if none is
        named."""
        from schedlab.tuning.figures import search_figure

        objectives = [one.text for one in self.tuned.tuning.objectives]
        drawn = {of: search_figure(self.tuned, at) for at, of in enumerate(objectives)}
        return chosen_figure("objective", objective, drawn)

    @ours
    def write_set(self, name: str = "tuned", file: Path_ | None = None) -> Path:
        """Writes the first candidate that is better as a named set, and gives the file; beside a
        policy of yours if none is named. Raises SchedlabError if nothing is better."""
        better = self.tuned.judgement.better
        if not better:
            raise SchedlabError(f"there is no set to write: {self.tuned.sentence}")
        target = named_set.path_for(self.tuned.tuning.policy, file and path_of(file, "file"))
        named_set.refuse_unfit(target, name, self.store)
        named_set.write(target, self.tuned.named_set(better[0], name))
        return target

    def _write_page(self, path: Path) -> None:
        from schedlab.tuning import page

        page.write(path, self.tuned, {})

    def __repr__(self) -> str:
        return f"<schedlab tuning of {self.tuned.tuning.label}: {self.tuned.sentence}>"
