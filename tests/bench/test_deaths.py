"""Goal: `schedlab bench --on vm` outlives a kernel that panics and a policy that is ejected: both
are named, the other guests go on, and the same command makes up for what was lost.

Method: three boots of a real kernel. Under fifo the program of the suite pulls the kernel's own
trigger for a crash; a policy of the tests forgets tasks until the watchdog ends it; nothing happens
under the kernel's own scheduler. Then the same command with a program that is well. Skipped with
the reason where QEMU, the kernel or our static programs are missing.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from cached_kernels import named
from schedlab import programs
from schedlab.errors import SchedlabError

pytestmark = pytest.mark.qemu

ROOT = Path(__file__).resolve().parents[2]
STALLS = ROOT / "crates/kernel/tests/policies/stalls.bpf.c"

# /proc/sysrq-trigger: Linux, Documentation/admin-guide/sysrq.rst, command `c`.
PROGRAM = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How often a program ran in this boot, counted in the guest's own memory. */
static int nth_run(void)
{
	char nth = 0;
	int file = open("/tmp/nth", O_RDWR | O_CREAT, 0600);

	if (pread(file, &nth, 1, 0) < 0)
		return -1;
	nth++;
	return pwrite(file, &nth, 1, 0) == 1 ? nth : -1;
}

int main(void)
{
	char ops[64] = "";
	int nth = nth_run();
	int from = open("/sys/kernel/sched_ext/root/ops", O_RDONLY);

	if (from >= 0 && read(from, ops, sizeof(ops) - 1) < 0)
		return 3;
	if (nth == PANICS_AT && !strncmp(ops, "fifo", 4))
		return write(open("/proc/sysrq-trigger", O_WRONLY), "c", 1) == 1 ? 4 : 5;
	printf("{\"figure\":{\"value\":1.%d}}\n", nth);
	return nth < 1;
}
"""
SUITE = """
title = "Mine"
repetitions = 2
warm_up = 1
timeout_s = 30

[[benchmark]]
name = "one"
description = "A program of one's own."
command = ["{bench}", "{n}"]
record = { json = "figure.value" }
unit = "s"
sweep.n = [1, 2]
"""
# Both warm-ups and one repetition of six programs are done by then.
PANICS_AT = 4


def built(directory, panics_at):
    """The program of the suite; one that panics at 0 never does."""
    (directory / "program.c").write_text(PROGRAM)
    name = f"panics_at_{panics_at}"
    command = ["cc", "-static", "-O1", "-Wall", "-Werror", f"-DPANICS_AT={panics_at}", "-o", name]
    subprocess.run([*command, "program.c"], cwd=directory, check=True)
    return directory / name


def counted(directory):
    """How many repetitions that count are kept, by policy."""
    with sqlite3.connect(directory / "s.db") as database:
        rows = database.execute(
            "SELECT policy, count(*) FROM repetitions WHERE NOT warm_up AND status = 'ok'"
            " GROUP BY policy"
        ).fetchall()
    database.close()
    return dict(rows)


def test_a_panic_and_an_ejection_are_named_and_the_same_command_goes_on(tmp_path):
    kernel = named("6.18")
    try:
        programs.GUEST.find()
    except SchedlabError as error:
        pytest.skip(str(error))
    (tmp_path / "mine.toml").write_text(SUITE)
    shutil.copy(STALLS, tmp_path)
    words = ["--kernel", kernel, "--cpus", "1", "--boots", "1", "--work-dir", "w", "--store"]
    words += ["s.db", "--policies", "kernel,fifo,./stalls.bpf.c"]
    command = [sys.executable, "-m", "schedlab", "bench", "mine.toml", "--on", "vm", *words]

    def run(panics_at):
        program = str(built(tmp_path, panics_at))
        environment = os.environ | {"NO_COLOR": "1", "SCHEDLAB_BENCH": program}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900,
            check=False,
        )  # fmt: skip
        print(done.stderr)
        assert done.returncode == 1
        return done.stderr

    told = run(PANICS_AT)
    assert (
        f"error: boot 1 of fifo on {kernel}: the guest's kernel panicked: sysrq triggered crash;"
        " 3 of 6 repetitions were made\n" in told
    )
    # The lines below it are those that tell why, not the registers that come last.
    assert re.search(r"\n  .*Kernel panic - not syncing: sysrq triggered crash\n", told)
    assert re.search(r"\n  .*Comm: schedlab-bench", told)
    stalled = f"boot 1 of ./stalls.bpf.c on {kernel}"
    ended = "./stalls.bpf.c was no longer in force"
    assert re.search(
        rf"error: one n=\d failed in {re.escape(stalled)}: {re.escape(ended)}: the kernel ended it:"
        r" runnable task stall: \S+ failed to run for [\d.]+s\n",
        told,
    )
    assert f"error: {stalled}: {ended}; 0 of 6 repetitions were made\n  hint: " in told
    assert told.count("failed to run for") == 2, "once when it happened, once as a note"
    assert re.search(r"note: one n=\d failed under ./stalls.bpf.c \(", told)
    assert "note: some boots are not complete; the same command goes on" in told
    assert counted(tmp_path) == {"kernel": 4, "fifo": 1}

    again = run(0)
    assert "3 repetitions made, 5 were in s.db before" in again
    assert counted(tmp_path) == {"kernel": 4, "fifo": 4}
