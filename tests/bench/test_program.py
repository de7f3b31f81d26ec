"""Goal: a measured program ends with everything that it started, and costs us no copy of ourselves.

Method: real programs that hang, flood or are left behind, under a parent that is killed or large.
"""

import mmap
import os
import resource
import signal
import time
from pathlib import Path

from running import assert_it_goes, is_running, wait_for
from schedlab.bench import program

NR_PAGES = 4096


def test_a_time_limit_ends_the_program_with_everything_that_it_started(tmp_path):
    began = time.monotonic()
    ended = program.run("sleep 2000 & echo $!; sleep 2000", 0.5, tmp_path)
    assert ended.timed_out
    assert time.monotonic() - began < 1000
    assert_it_goes(int(ended.stdout), "the shell's own child")


def test_a_program_that_ignores_being_asked_is_killed(tmp_path):
    ended = program.run("trap '' TERM; while :; do sleep 1; done", 0.3, tmp_path)
    assert ended.timed_out
    assert ended.status == -signal.SIGKILL


def test_what_a_program_leaves_behind_is_ended_with_it(tmp_path):
    began = time.monotonic()
    ended = program.run("sleep 2000 & echo $!", 1500, tmp_path)
    assert ended.failure is None
    assert ended.wall_ns < 1000e9
    assert time.monotonic() - began < 1000
    assert_it_goes(int(ended.stdout), "what it left behind")


def test_a_flood_of_output_is_kept_to_its_end(tmp_path):
    ended = program.run("yes | head -c 20000000; echo last; yes >&2 | head -1", 5, tmp_path)
    assert len(ended.stdout) <= program.STDOUT_BYTES_MAX
    assert len(ended.stderr) <= program.STDERR_BYTES_MAX
    assert ended.stdout.rstrip().endswith("last")


def test_a_program_ends_with_what_it_started_when_we_are_killed(tmp_path):
    child = os.fork()
    if not child:
        command = "sleep 2000 & echo $! $$ >started; mv started pids; sleep 2000"
        program.run(command, 2000, tmp_path)
        os._exit(1)
    wait_for((tmp_path / "pids").exists, "the file of two processes")
    pids = (tmp_path / "pids").read_text().split()
    assert all(is_running(pid) for pid in pids)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    for pid in pids:
        assert_it_goes(pid, "a process of the program")


class DeadlyPipe:
    """Whoever writes into it is killed."""

    def __init__(self, pipe):
        self.pipe = pipe

    def write(self, _):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_program_ends_though_we_are_killed_before_its_watcher_hears_of_it(tmp_path, monkeypatch):
    watcher = program._started_watcher()
    watcher.stdin = DeadlyPipe(watcher.stdin)
    monkeypatch.setattr(program, "_started_watcher", lambda: watcher)
    child = os.fork()
    if not child:
        program.run("sleep 2000 & echo $! $$ >started; mv started pids", 2000, tmp_path)
        os._exit(1)
    watcher.stdin.pipe.close()
    os.waitpid(child, 0)
    wait_for((tmp_path / "pids").exists, "the file of two processes")
    for pid in (tmp_path / "pids").read_text().split():
        assert_it_goes(pid, "a process of the program")
    watcher.stdout.close()
    watcher.wait()


def test_the_watcher_goes_with_its_program(tmp_path):
    before = children()
    program.run(("true",), 10, tmp_path)
    program.run(("nonesuch-program",), 10, tmp_path)
    assert children() == before


def children():
    """Processes that we started and that are not waited for yet."""
    pid = os.getpid()
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_program_that_cannot_be_started_is_named(tmp_path):
    ended = program.run(("nonesuch-program",), 10, tmp_path)
    assert ended.status == program.CANNOT_START
    assert ended.stderr == "cannot start nonesuch-program: No such file or directory"


def test_starting_a_program_copies_nothing_of_a_large_process(tmp_path):
    page_bytes = mmap.PAGESIZE
    with mmap.mmap(
        -1, NR_PAGES * page_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    ) as ballast:
        # A page each, so that each write to one that was shared with a copy is a fault of its own.
        ballast.madvise(mmap.MADV_NOHUGEPAGE)
        write_to_each_page(ballast)

        def faults_after(start):
            start()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            write_to_each_page(ballast)
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        assert faults_after(copy_of_this_process) >= NR_PAGES
        assert faults_after(lambda: program.run(("true",), 10, tmp_path)) < NR_PAGES / 10


def write_to_each_page(ballast):
    for at in range(0, len(ballast), mmap.PAGESIZE):
        ballast[at] = 1


def copy_of_this_process():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
