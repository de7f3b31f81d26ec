"""Goal: what a user needs first is told first: why a run failed, and what a store holds.

Method: the real command, with output and messages in one stream where their order matters.
"""

import json
import re
import subprocess
import sys

SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")
BUSY = ("--workload", "hackbench", "--machine", "core2-t5600", "--with", "loops=10")
LOSER = """/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* loser - loses every task. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "Dual MIT/GPL";

void BPF_STRUCT_OPS(loser_enqueue, struct task_struct *p, u64 enq_flags)
{
}

SCX_OPS_DEFINE(loser_ops, .enqueue = (void *)loser_enqueue, .name = "loser");
"""


def test_of_a_failed_run_the_cause_comes_first_and_no_number_of_an_end(environment, tmp_path):
    (tmp_path / "loser.bpf.c").write_text(LOSER)
    done = subprocess.run(
        [sys.executable, "-m", "schedlab", "run", "./loser.bpf.c", *BUSY],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.startswith("error: policy loser failed at ")
    assert "\nloser with hackbench loops=10 on core2-t5600, seed 1\n" in done.stdout
    assert "\nsimulated " in done.stdout
    assert "\nswitches " in done.stdout
    for metric in ("makespan", "messages", "wake-up latency", "wait", "run", "Jain fairness"):
        assert f"\n{metric} " not in done.stdout


def test_the_other_experiments_of_a_store_are_told_with_what_they_hold(command, tmp_path):
    first = json.loads(command("compare", "fifo", *SCENARIO, "--repeat", "2", "--json").stdout)
    command("compare", "fifo", "round_robin", *SCENARIO, "--repeat", "1", "-q")
    (tmp_path / "mine.toml").write_text(
        'title = "Turns"\npolicies = ["fifo"]\nworkload = "ping_pong"\nmachine = "osdl-1"\n'
        "repeat = 1\n"
    )
    third = json.loads(command("compare", "--experiment", "./mine.toml", "--json").stdout)
    command("compare", "round_robin", *SCENARIO, "--repeat", "1", "-q")
    lines = command("report", "schedlab.db", "-o", "out.html").stderr.splitlines()
    assert lines[0].startswith("this is the latest experiment; the others of schedlab.db")
    when = r"20\d\d-\d\d-\d\d \d\d:\d\d UTC"
    ids = first["experiment"]["id"], third["experiment"]["id"]
    assert re.fullmatch(rf"  {ids[1]} \(mine\): Turns; 1 run, {when}", lines[1])
    what = "fifo, round_robin with ping_pong on laptop; 2 runs"
    assert re.fullmatch(rf"  [0-9a-f]{{12}}: {what}, {when}", lines[2])
    what = "fifo with ping_pong on laptop; 2 runs"
    assert re.fullmatch(rf"  {ids[0]}: {what}, {when}", lines[3])
