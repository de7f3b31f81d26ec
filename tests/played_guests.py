"""Guests that are played record by record in the place of virtual machines, for the real verb."""

import json
import os
import sqlite3

import pytest
from click.testing import CliRunner
from schedlab import programs
from schedlab.bench.boots import Boots
from schedlab.commands.bench import bench_verb
from schedlab.kernel import loading, platform
from schedlab.kernel.platform import Kernel, Platform

SUITE = """
title = "Mine"
repetitions = 9
warm_up = 1
timeout_s = 20

[[benchmark]]
name = "pipe"
description = "Two tasks."
command = ["{bench}", "pipe", "-l", "{n}", "--in", "{work}", "--cpus", "{nr_cpus}"]
record = { json = "figure.value" }
unit = "us"
sweep.n = [1, 2]

[[benchmark]]
name = "sort"
description = "No program of ours."
command = ["sort", "numbers"]

[[benchmark]]
name = "compile"
description = "Not in a guest."
needs = ["gcc", "make"]
command = "make"
"""
KERNELS = {
    "a": Kernel("a", "6.1.0", "cfs", "absent", "aa" * 32),
    "b": Kernel("b", "6.18.0", "eevdf", "sound", "bb" * 32),
    "twin": Kernel("twin", "6.18.0", "eevdf", "sound", "bb" * 32),
}
TEXTS = {
    "/proc/cpuinfo": "model name : a guest's\nflags : fpu hypervisor\n",
    "/proc/meminfo": "MemTotal:  2048 kB\n",
    "/proc/sys/kernel/version": "#1 made\n",
    "/sys/kernel/debug/sched/preempt": "none (voluntary) full\n",
    "/etc/secret": "not asked for",
}
EJECTED = {"record": "ejected", "reason": "runnable task stall", "message": "a[1] failed to run",
           "hint": ""}  # fmt: skip
NR_CASES = 2
# Records before the first program, and those of each: begun, ended, its pause begun.
FIRST, EACH = 3, 3


def seconds_of(guest):
    """What a played kernel takes: b half as long as a, and a little else for each boot."""
    return 1.0 if guest.platform.kernel.name == "a" else 0.5


class Played:
    """A guest's boot: what it says, and how it ends."""

    pid = os.getpid()
    failed_start = ""

    def __init__(self, records, end="powered_off", console=""):
        self.records, self.end, self.console = records, end, console
        self.message = f"the guest ended so: {end}"

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        pass

    def __iter__(self):
        for record in self.records:
            if record is KeyboardInterrupt:
                raise KeyboardInterrupt
            yield json.dumps(record, separators=(",", ":"))


class Guests:
    """Plays every guest; `fates` change a boot by its place among all that are started."""

    def __init__(self):
        self.started, self.jobs, self.fates = [], [], {}

    def start(self, guest, made, limits):
        job, place = made.spec, len(self.started)
        self.started.append(guest.name)
        self.jobs.append(job)
        assert limits.wall_s > 60 and limits.quiet_s < limits.wall_s
        played = Played(list(self.records(guest, job, place)))
        return self.fates.get(place, lambda boot: boot)(played)

    def records(self, guest, job, place):
        yield {"record": "booted", "kernel_release": "x", "nr_cpus": 2, "at_ns": 1}
        for index, work in enumerate(job["work"]):
            yield {"record": "started", "index": index, "title": "", "at_ns": 1}
            if work["kind"] == "read":
                state = "disabled" if guest.object is None else "enabled"
                ops = {"/sys/kernel/sched_ext/root/ops": guest.policy}
                texts = {**TEXTS, "/sys/kernel/sched_ext/state": state}
                yield {"record": "files", "index": index, "texts": {**texts, **ops}}
            elif work["kind"] == "command":
                value = seconds_of(guest) * (1 + 0.01 * place) + 1e-4 * index
                output = f'noise\n{{"figure":{{"value":{value}}}}}\n'
                yield finished(index, output=output)
        yield {"record": "done", "at_ns": 2}


def finished(index, status=0, signal=None, timed_out=False, output=""):
    return {"record": "finished", "index": index, "wall_ns": 5, "user_ns": 3, "system_ns": 1,
            "timed_out": timed_out, "status": status, "signal": signal,
            "output": output}  # fmt: skip


@pytest.fixture
def guests(tmp_path, monkeypatch):
    """Guests in the place of machines, and kernels and programs in that of the user's."""
    played = Guests()

    def platform_of(record, cpus, deterministic):
        return Platform(
            KERNELS[record["name"] or "b"], cpus, "tcg", deterministic, 1024, "7.2", "cc" * 32
        )

    program = tmp_path / "program"
    program.write_bytes(b"a program")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(platform, "platform_of", platform_of)
    # Looked up once: a cache that changes meanwhile is of no consequence.
    monkeypatch.setattr(platform, "find_record", lambda name: {"name": name, "hz": 250})
    monkeypatch.setattr(programs.Program, "find", lambda self: program)
    monkeypatch.setattr(loading, "object_of", lambda policy: (policy, program, {"slice_ns": 7}))
    monkeypatch.setattr(Boots, "start", lambda self, *asked: played.start(*asked))
    return played


@pytest.fixture
def bench(tmp_path):
    """What came of `schedlab bench mine.toml --on vm`, with a store s.db."""
    (tmp_path / "mine.toml").write_text(SUITE)

    def run(*options, on="vm", suite="mine.toml"):
        place = ["--store", str(tmp_path / "s.db"), "--work-dir", str(tmp_path / "work")]
        words = [suite, "--on", on, *place, *map(str, options)]
        done = CliRunner().invoke(bench_verb, words, standalone_mode=False)
        done.exit_code = done.exit_code or done.return_value or 0
        return done

    return run


@pytest.fixture
def kept(tmp_path):
    """Rows of s.db."""

    def ask(query):
        with sqlite3.connect(tmp_path / "s.db") as database:
            rows = database.execute(query).fetchall()
        database.close()
        return rows

    return ask


def counted(kept):
    """How many repetitions that count are kept, by kernel and series."""
    rows = kept(
        "SELECT json_extract(condition, '$.kernel'), series, count(*) FROM repetitions"
        " JOIN campaigns ON campaigns.id = campaign WHERE NOT warm_up AND status = 'ok'"
        " GROUP BY campaign"
    )
    return {(kernel.split()[0], series): number for kernel, series, number in rows}


BOTH = ("--kernel", "a", "--kernel", "b", "--repeat", "2")


def cut(boot, nr_records, end, console=""):
    return Played(boot.records[:nr_records], end, console)
