"""Goal: a sweep gives every cell its result, tells what dies, and leaves no process behind.

Method: workers run stand-ins for the simulation that answer, die or never end, as the cell says.
They are functions of this file: a worker imports it by its name.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from running import PATIENCE_S, assert_it_goes, wait_for
from schedlab import workers
from schedlab.errors import ExperimentError
from schedlab.experiment import cells, definition, sweep, vm
from schedlab.experiment.sweep import Outcome
from schedlab.kernel.platform import Kernel, Platform

pytestmark = pytest.mark.stand_in

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Makes `tests.test_sweep` a name that worker processes can import."""
    monkeypatch.syspath_prepend(str(ROOT))


def cell(policy="fifo", seed=1, groups=10):
    return cells.Cell(
        policy=cells.ChosenPolicy(policy, policy, policy, f"/{policy}.bpf.c", "p", {}, {"a": 1}),
        machine=cells.ChosenMachine("osdl-1", "osdl-1", "/osdl-1.toml", "m", 1),
        workload=cells.ChosenWorkload(
            "hackbench", "hackbench", "/hackbench.toml", "w", {}, {}, {"groups": groups}
        ),
        seed=seed,
        until_ns=None,
        version="1",
        varied={"groups": groups},
    )


def answer(cell):
    """The result tells who ran what; a policy's name tells what becomes of its worker."""
    name = cell.policy.name
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "exits":
        os._exit(3)
    if name == "endless":
        time.sleep(3600)
    fault = "the file changed" if name == "faulty" else None
    result = {"status": "completed", "error": None, "digest": f"{name}{cell.seed}"}
    return Outcome({**result, "worker": os.getpid()}, fault, "", 1)


def run_cells(wanted, jobs):
    """Without other processes that make cells, and with nobody to tell."""
    return sweep.run_cells(wanted, jobs, answer, lambda cell: True, ignore)


def ignore(told):
    """Nobody wants to know of a simulation that takes long."""


def finished(wanted, jobs=2):
    """(policy, seed) of every cell that finished, with its outcome."""
    found = {}
    for done, outcome in run_cells(wanted, jobs):
        place = (done.policy.name, done.seed)
        assert place not in found, f"{place} finished twice"
        found[place] = outcome
    return found


def test_every_cell_finishes_once():
    wanted = [cell(seed=seed) for seed in range(20)]
    found = finished(wanted, jobs=3)
    assert {seed: o.result["digest"] for (_, seed), o in found.items()} == {
        seed: f"fifo{seed}" for seed in range(20)
    }
    workers = {outcome.result["worker"] for outcome in found.values()}
    assert os.getpid() not in workers
    assert 1 <= len(workers) <= 3


@pytest.mark.parametrize("ahead", [False, True])
def test_a_worker_has_its_next_cell_before_its_last_is_looked_at_if_so_asked(ahead):
    wanted = [cell(seed=seed) for seed in (1, 2, 3)]
    asked, seen = [], []

    def wants(of):
        asked.append(of.seed)
        return True

    for done, _ in sweep.run_cells(wanted, 1, answer, wants, ignore, list, ahead):
        seen.append((done.seed, list(asked)))
    known = [[1, 2], [1, 2, 3], [1, 2, 3]] if ahead else [[1], [1, 2], [1, 2, 3]]
    assert seen == list(zip((1, 2, 3), known, strict=True))


def test_no_cells_need_no_worker():
    assert finished([]) == {}


def test_the_longest_cells_start_first():
    wanted = [cell(groups=groups, seed=groups) for groups in (5, 200, 25)]
    order = [done.seed for done, _ in run_cells(wanted, 1)]
    assert order == [200, 25, 5]


@pytest.mark.parametrize(("policy", "how"), [("killed", "SIGKILL"), ("exits", "exit code 3")])
def test_the_death_of_a_worker_ends_the_sweep_and_says_at_which_cell(policy, how):
    wanted = [cell("fifo"), cell(policy, 2), cell("bfs")]
    place = f"policy {policy} with hackbench, groups = 10 on osdl-1, seed 2"
    with pytest.raises(
        ExperimentError, match=f"(?m)^the process at work on {place} .*{how}$"
    ) as told:
        finished(wanted)
    assert told.value.hint.endswith(sweep.AGAIN_HINT)
    assert no_workers_left()


def test_an_assertion_of_the_core_is_a_failed_run_without_digest():
    class PanicException(BaseException):
        """As PyO3 names it."""

    def make():
        raise PanicException("left is not right")

    outcome = sweep.outcome_of(make)
    record = sweep.record(cell("fifo", 7), outcome, "e1")
    assert (record.status, record.digest) == ("failed", "")
    said = "schedlab stopped at an assertion of its own: left is not right"
    assert record.result["error"]["message"] == said
    assert record.manifest["replay"] == (
        "schedlab run fifo --workload hackbench --machine osdl-1 --seed 7"
    )


def test_a_replay_of_a_failure_ends_soon_after_it():
    result = {"error": {"kind": "stall", "message": "", "at_ns": 9_201_337_000}}
    assert sweep.replay(cell(), result).endswith("--until 9.3s")
    result["error"]["at_ns"] = 9_300_000_000
    assert sweep.replay(cell(), result).endswith("--until 9.4s")


def test_a_fault_of_the_users_files_ends_the_sweep():
    with pytest.raises(ExperimentError, match="the file changed"):
        finished([cell("faulty")])
    with pytest.raises(ExperimentError, match="the file changed"):
        sweep.run_alone(cell("faulty"), answer, ignore)


def test_only_a_file_that_changed_is_a_reason_to_run_the_command_again(core):
    with pytest.raises(ExperimentError) as caught:
        finished([cell("faulty")])
    assert caught.value.hint is None
    outcome = sweep.simulate_cell(cell("fifo"))
    assert outcome.fault == "/fifo.bpf.c changed while the experiment was running"
    assert outcome.hint == sweep.AGAIN_HINT


def test_what_is_to_be_noted_of_a_machine_comes_back_and_is_told_once(monkeypatch, capsys):
    def run(cell, tell, **options):
        tell("note: the machine was started again")
        return {"status": "completed"}, "b1"

    monkeypatch.setattr(vm, "run_on_kernel", run)
    asked = {"policies": ["fifo"], "workload": "ping_pong", "machine": ["osdl-1"]}
    [simulated] = cells.expand(definition.build(asked))
    platform = Platform(Kernel("k", "6.18", "eevdf", "sound", "0"), "1", "tcg", True, 1, "8", "g")
    measured = replace(simulated, machine=replace(simulated.machine, platform=platform))
    outcome = vm.measure_cell(measured)
    assert (outcome.boot, outcome.notes) == ("b1", ["note: the machine was started again"])
    assert capsys.readouterr().err == ""
    assert vm.measure_alone(measured, timeline=False).result == {"status": "completed"}
    assert capsys.readouterr().err == "note: the machine was started again\n"


def no_workers_left():
    return wait_for(lambda: not multiprocessing.active_children(), "the end of all workers")


def test_giving_up_a_sweep_kills_workers_that_never_end():
    wanted = [cell("fifo", groups=2), cell("endless", groups=1)]
    with contextlib.closing(run_cells(wanted, 2)) as runs:
        assert next(runs)[0].policy.name == "fifo"
    assert no_workers_left()


@pytest.mark.parametrize("alone", [True, False])
def test_an_interrupt_kills_workers_that_never_end(alone):
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        if alone:
            sweep.run_alone(cell("endless"), answer, ignore)
        else:
            finished([cell("endless")])
    assert no_workers_left()


INTERRUPTS_OF_WORKERS = """
import functools, signal
from schedlab import workers

crew = workers.Crew(2, functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK))
for piece in range(2):
    crew.begin([])
endings = []
while len(endings) < 2:
    endings += crew.wait()
crew.close()
print([signal.SIGINT in ending.answer for ending in endings])
print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""


def test_no_worker_hears_of_an_interrupt_not_even_the_first():
    """In a process of its own, as it is its first child of all that multiprocessing sees to."""
    words = [sys.executable, "-c", INTERRUPTS_OF_WORKERS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.split("\n") == ["[True, True]", "False", ""]


def test_work_that_answers_none_is_an_error_and_is_not_waited_for():
    with contextlib.closing(workers.Crew(1, answer_none)) as crew:
        crew.begin("a piece")
        with pytest.raises(AssertionError, match="no answer to 'a piece'"):
            wait_for(crew.wait, "an ending")
    assert no_workers_left()


def answer_none(piece):
    return None


def test_a_worker_ends_when_its_coordinator_is_killed(tmp_path):
    """A coordinator of its own process, killed while its worker is at work."""
    context = multiprocessing.get_context("spawn")
    note = tmp_path / "worker"
    coordinator = context.Process(target=coordinate, args=(str(note),))
    coordinator.start()
    worker = int(wait_for(lambda: note.exists() and note.read_text(), "a worker"))
    coordinator.kill()
    coordinator.join()
    assert_it_goes(worker, "the worker")


def coordinate(note):
    outcome = sweep.run_alone(cell(note), note_and_hang, ignore)
    raise AssertionError(outcome)


def note_and_hang(cell):
    Path(cell.policy.name).write_text(str(os.getpid()))
    time.sleep(3600)
