"""What a store of many runs takes in time and space, from 1,000 runs to as many as are named.

`make bench-store` runs it. Real runs are made once and kept again and again under other seeds, in
experiments of 1,000 runs. At each size the same is asked: what takes longer in a larger store
depends on more than what is asked for. Times are told as seconds of a clock, and of CPU beside it,
as others may use the machine; those of commands are from their begin to their end.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from schedlab.experiment.definition import id_of
from schedlab.store.merge import merge
from schedlab.store.runs import RunRecord, Store, StoredExperiment

NR_RUNS = 1_000_000
SIZE_MIN = 1000
A_BATCH = 1000
ASKED = ("compare", "cfs", "eevdf", "o1", "--workload", "hackbench", "--machine", "osdl-8",
         "--vary", "groups=1,2", "--jobs", "1", "-q")  # fmt: skip
# Runs of each policy in each scenario that a comparison asks for; one of them is real.
NR_ASKED = 50
NR_RECIPES = 6
# Seeds that no batch has.
ALONE = 10**9


def main(nr_runs: int) -> None:
    """Prints a row for each question, and a column for each size of the store."""
    sizes = [size for size in (SIZE_MIN * 10**power for power in range(9)) if size <= nr_runs]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "runs.db")
        _command(path, *ASKED, "--repeat", "1", "--store", path)
        with Store(path) as store:
            real, [asked] = store.runs(), store.experiments()
        begins = [0, *sizes]
        columns = [
            _answers(path, real, asked, *ends) for ends in zip(begins[:-1], sizes, strict=True)
        ]
    print(f"{'runs in the store':42}" + "".join(f"{size:>16,}" for size in sizes))
    for row in columns[0]:
        print(f"{row:42}" + "".join(f"{column[row]:>16}" for column in columns))


def _answers(
    path: Path, real: Sequence[RunRecord], asked: StoredExperiment, before: int, size: int
) -> dict[str, str]:
    """Fills the store to its size; what each question took, by its name."""
    with Store(path) as store:
        fill = 0.0, 0.0
        for batch in _batches(real, asked, before, size):
            more = _time(lambda batch=batch: _add(store, *batch))
            fill = fill[0] + more[0], fill[1] + more[1]
        alone = [_copy(real[0], size + ALONE + n, None) for n in range(100)]
        told = {
            "a run, kept among 1,000: us": _per(fill, size - before),
            "a run, kept alone: us": _per(_time(lambda: [store.add(one) for one in alone]), 100),
        }
        keys = [record.key for record in batch[1]]
        told["a run, looked up: us"] = _per(_time(lambda: list(map(store.find, keys))), A_BATCH)
        told["kept again, all 1,000 there: us a run"] = _per(
            _time(lambda: _add(store, *batch)), A_BATCH
        )
        told["an experiment of 1,000 runs, read: us a run"] = _per(
            _time(lambda: store.runs(batch[0].id)), A_BATCH
        )
        told["1,000 runs merged into it: us a run"] = _per(_merged(store, real, asked), A_BATCH)
    told["bytes a run"] = f"{path.stat().st_size / size:.0f}"
    words = (*ASKED, "--repeat", str(NR_ASKED), "--store", path)
    told[f"compare, all {NR_RECIPES * NR_ASKED} there: s"] = _text(_command(path, *words))
    of_one = ("--experiment", batch[0].id)
    told["report of 1,000: s"] = _text(_command(path, "report", path, *of_one, "-o", "out.html"))
    told["export of 1,000 as CSV: s"] = _text(
        _command(path, "export", path, *of_one, "-o", "a.csv")
    )
    opened = f"import schedlab as sl; sl.open({str(path)!r}).experiment({of_one[1]!r}).frame()"
    told["a frame of 1,000 in a notebook: s"] = _text(_python(path, "-c", opened))
    return told


def _batches(
    real: Sequence[RunRecord], asked: StoredExperiment, begin: int, end: int
) -> Iterator[tuple[StoredExperiment, list[RunRecord]]]:
    """Experiments of `A_BATCH` runs each, from the run of one number to that of another."""
    for first in range(begin, end, A_BATCH):
        definition = {**asked.definition, "seed": first, "name": f"batch {first}"}
        one = dataclasses.replace(asked, id=id_of(definition), name="", definition=definition)
        numbers = range(first, first + A_BATCH)
        yield one, [_copy(real[n % NR_RECIPES], 2 + n // NR_RECIPES, one.id) for n in numbers]


def _copy(like: RunRecord, seed: int, experiment: str | None) -> RunRecord:
    """A run of another seed, with another makespan and digest."""
    changed_ns = int(like.result["makespan_ns"] * (1 + seed * 7919 % 100 / 1000))
    replay = like.manifest["replay"].replace("--seed 1", f"--seed {seed}")
    return dataclasses.replace(
        like,
        seed=seed,
        result=like.result | {"makespan_ns": changed_ns, "digest": f"{seed:016x}"},
        manifest=like.manifest | {"replay": replay, "experiment": experiment},
    )


def _add(store: Store, experiment: StoredExperiment, records: Sequence[RunRecord]) -> None:
    store.add_experiment(experiment)
    store.add(*records)


def _merged(store: Store, real: Sequence[RunRecord], asked: StoredExperiment) -> tuple:
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, "other.db")
        with Store(other) as made:
            [batch] = _batches(real, asked, 0, A_BATCH)
            _add(made, *batch)
        return _time(lambda: merge(store, other, print))


def _time(what: Callable[[], object]) -> tuple[float, float]:
    """Seconds by a clock, and of CPU."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    what()
    return time.perf_counter() - wall_s, time.process_time() - cpu_s


def _command(path: Path, *words: object) -> tuple[float, float]:
    return _python(path, "-m", "schedlab", *words)


def _python(path: Path, *words: object) -> tuple[float, float]:
    before, began_s = os.times(), time.perf_counter()
    given = [sys.executable, *map(str, words)]
    subprocess.run(given, cwd=path.parent, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - began_s, os.times()
    cpu_s = sum(after[at] - before[at] for at in (2, 3))
    return wall_s, cpu_s


def _per(seconds: tuple[float, float], nr_runs: int) -> str:
    return " / ".join(f"{1e6 * one / nr_runs:.0f}" for one in seconds)


def _text(seconds: tuple[float, float]) -> str:
    return " / ".join(f"{one:.2f}" for one in seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else NR_RUNS)
