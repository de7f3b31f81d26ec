"""Whether a sweep ends with the same store, whatever is killed meanwhile.

`make bench-kills` runs it. The same sweep is asked again and again, by turns with two workers of
Dask that were started by hand and with two of its own. After a random number of further runs one
of the processes at work, a random one, is killed. At the end the store must have the same rows as
that of one process alone.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from kept_rows import nr_kept, rows
from running import begin, dask_process, descendants, wait_for

NR_POINTS, NR_KILLS = 5_000, 30
# A command that was not killed itself may still have lost one run's process twice, and then kept
# that run as failed: the next command makes it again.
COMMANDS_AT_END_MAX = 3
SCHEDULER, COMMAND, OWN = "the scheduler", "the command", "a worker of its own"
BY_HAND = ("a worker by hand", "another by hand")
TOML = """\
policies = ["cfs", "round_robin"]
workload = "hackbench"
machine = "osdl-8"
repeat = 2
with = {{ loops = 60 }}
[sample]
points = {points}
[sample.ranges]
groups = {{ low = 4, high = 6 }}
"cfs.latency_ns" = {{ low = "1ms", high = "100ms", log = true }}
"round_robin.slice_ns" = {{ low = "100us", high = "100ms", step = "1us", log = true }}
"""


class Sweeping:
    """A sweep that is asked again whenever its command has ended, and the processes at work."""

    def __init__(self, folder: Path, chance: random.Random):
        self.folder, self.chance = folder, chance
        self.store, self._file = folder / "killed.db", folder / "scheduler.json"
        self._by_hand: dict[str, subprocess.Popen] = {}
        self._is_by_hand = False
        self._asker: subprocess.Popen | None = None

    def ask(self) -> None:
        """Starts a command if none is at work, and workers by hand if it needs them."""
        if self._asker is None:
            self._is_by_hand = not self._is_by_hand
        if self._is_by_hand:
            self._start_by_hand()
        if self._asker is None:
            where = self._file if self._is_by_hand else "local:2"
            words = ("sweep", "asked.toml", "--store", self.store, "--dask", where)
            self._asker = begin(os.environ, self.folder, *words)

    def has_ended(self) -> bool:
        """Whether the command has ended."""
        return self._asker.poll() is not None

    def ending(self) -> int:
        """The exit code of the command, once it has ended."""
        told = self._asker.communicate()[1]
        code, self._asker = self._asker.returncode, None
        assert code in (0, 1, 2, -signal.SIGKILL), f"exit code {code}: {told}"
        assert "Traceback" not in told, told
        return code

    def kill_one(self) -> str:
        """Kills one of the processes, and says which."""
        of = {COMMAND: [self._asker.pid]}
        if self._is_by_hand:
            at_work = {name: process.pid for name, process in self._by_hand.items()}
            of |= {name: [pid, *_started_by(pid)] for name, pid in at_work.items()}
        else:
            started = _started_by(self._asker.pid)
            of[OWN] = [pid for pid in started if _started_by(pid)]
            of["what simulates in one"] = [pid for pid in started if pid not in of[OWN]]
        what = self.chance.choice([name for name, pids in of.items() if pids])
        _kill(self.chance.choice(of[what]))
        if what in (COMMAND, SCHEDULER):
            # The command writes its message before it ends.
            wait_for(self.has_ended, "the end of the command")
        return what

    def close(self) -> None:
        """Ends all processes that are left."""
        for process in filter(None, [self._asker, *self._by_hand.values()]):
            _kill(process.pid, *descendants(process.pid))
            process.wait()

    def _start_by_hand(self) -> None:
        there = {name: of for name, of in self._by_hand.items() if of.poll() is None}
        if SCHEDULER not in there:
            for process in there.values():
                _kill(process.pid, *descendants(process.pid))
            self._file.unlink(missing_ok=True)
            words = ("--host", "127.0.0.1", "--port", "0")
            there = {SCHEDULER: dask_process(os.environ, self.folder, "scheduler", *words)}
            wait_for(self._file.exists, SCHEDULER)
        for name in BY_HAND:
            if name not in there:
                there[name] = dask_process(os.environ, self.folder, "worker", "--nthreads", "1")
        self._by_hand = there


def main(nr_points: int, nr_kills: int, seed: int = 1) -> None:
    """Prints what was killed and when. Fails with an assertion if the two stores differ."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "asked.toml").write_text(TOML.format(points=nr_points))
        alone = begin(os.environ, folder, "sweep", "asked.toml", "--store", "alone.db", "--jobs", 1)
        told = alone.communicate()[1]
        assert alone.returncode == 0, told
        nr_runs = nr_kept(folder / "alone.db")
        sweeping, killed = Sweeping(folder, chance), Counter()
        try:
            for number in range(nr_kills):
                nr_before = nr_kept(sweeping.store)
                # The aim is half of that on average: all runs of one second come into the store
                # together, so more than aimed at are there at the kill.
                most = (nr_runs - nr_before) // (nr_kills - number + 1)
                aim = nr_before + chance.randint(1, max(1, most))
                sweeping.ask()
                wait_for(lambda aim=aim: nr_kept(sweeping.store) >= aim or sweeping.has_ended())
                if not sweeping.has_ended():
                    what = sweeping.kill_one()
                    killed[what] += 1
                    print(f"{nr_kept(sweeping.store):,} of {nr_runs:,} runs: {what}", flush=True)
                if sweeping.has_ended() and sweeping.ending() == 0:
                    break
            for _ in range(COMMANDS_AT_END_MAX):
                sweeping.ask()
                wait_for(sweeping.has_ended, "the end of the sweep")
                if sweeping.ending() == 0:
                    break
        finally:
            sweeping.close()
        found, wanted = rows(sweeping.store), rows(folder / "alone.db")
        assert found == wanted, f"{sum(of not in wanted for of in found)} of {len(found)} differ"
    print(f"{sum(killed.values())} killed: {dict(killed.most_common())}")
    print(f"{len(found):,} rows are those of one process alone")


def _started_by(pid: int) -> list[int]:
    """The processes that a process has started, without Python's resource tracker, which prints
    tracebacks when it is killed."""
    account = b"resource_tracker import"
    return [one for one in sorted(descendants(pid)) if account not in _words_of(one)]


def _words_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(*pids: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main(*map(int, sys.argv[1:] or (NR_POINTS, NR_KILLS)))
