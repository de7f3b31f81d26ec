"""Goal: CPUs that go and come back, and changes of affinity, are to a policy in a real kernel what
they are in the simulator: who hears of CPUs goes on, and no task is lost or runs where it may not.

Method: one boot of a kernel with sched_ext, on two CPUs under the clock that counts instructions,
so that a busy host changes nothing, plays one workload under two policies; and it is simulated
under these and one that is loaded again. Skipped, with the reason, without QEMU, kernels, clang or
the guest.
"""

import functools
from pathlib import Path

import pytest
from booted_kernels import KERNELS, PLAY_LIMIT_NS, booted, needed, object_of
from schedlab import catalogue

pytestmark = [pytest.mark.qemu, pytest.mark.xdist_group("hotplug")]

ROOT = Path(__file__).resolve().parents[2]
# A kernel's threads take the CPU down, and wait for their turns as tasks do: under o1 it was gone
# after 0.3 to 0.7 s, and who was bound to it had to wait there behind interactive tasks.
OFFLINE_MS, ONLINE_MS = 60, 1600
# From when on the task that was bound to the CPU runs elsewhere, the others soon do.
EMPTIED_MS = 50
# What it takes at the most, under emulation, to tell a task where to run.
TOLD_MS = 300
# How often a policy is loaded again: when the CPU goes, and when it comes back.
RESTARTS = {"round_robin": 0, "o1": 0, "timering": 2}
# One queue for all, and queues of each CPU. Policies that do not hear of CPUs are not played here:
# a kernel under emulation did not always survive to end one while a CPU goes.
PLAYED = ("round_robin", "o1")

WORKLOAD = f"""
description = "tasks anywhere, one that is bound to the CPU that goes, one that binds itself"
source = "own"

[[tasks]]
name = "anywhere"
count = 2
program = [{{ repeat = 60, do = [{{ run = "4ms" }}, {{ sleep = "2ms" }}] }}]

[[tasks]]
name = "bound"
cpus = [1]
program = [{{ run = "2400ms" }}]

[[tasks]]
name = "fickle"
program = [{{ repeat = 20, do = [
    {{ affinity = [0] }}, {{ run = "3ms" }}, {{ affinity = [1] }}, {{ run = "3ms" }},
] }}]

[[tasks]]
name = "told"
program = [{{ repeat = 40, do = [{{ run = "2ms" }}, {{ sleep = "2ms" }}] }}]

[[affinity]]
at = "20ms"
task = "told"
cpus = [1]

[[hotplug]]
at = "{OFFLINE_MS}ms"
cpu = 1
state = "offline"

[[hotplug]]
at = "{ONLINE_MS}ms"
cpu = 1
state = "online"

[[affinity]]
at = "{ONLINE_MS + 40}ms"
task = "bound"
cpus = [0]
"""
# CPU time of each task.
WORK_NS = {"anywhere": 240e6, "bound": 2400e6, "fickle": 120e6, "told": 80e6}


def source_of(policy):
    return ROOT / "policies" / f"{policy}.bpf.c"


@functools.cache
def told_of_each():
    """By policy: its records, in their order."""
    kernel = needed(KERNELS[0])
    files = {"/hotplug.toml": WORKLOAD.encode()}
    work = []
    for policy in PLAYED:
        files[f"/{policy}.o"] = object_of(source_of(policy)).read_bytes()
        play = {"kind": "play", "workload": "/hotplug.toml", "set": {}, "seed": 1}
        play |= {"counts_instructions": True, "record_kib_per_cpu": 4096}
        work += [{"kind": "load", "object": f"/{policy}.o", "set": {}}, play]
    job = {"work": work, "settle_ns": 0, "time_limit_ns": PLAY_LIMIT_NS}
    records, console = booted(kernel, 2, job, files, deterministic=True)
    found, latest = {}, []
    for record in records:
        assert record["record"] not in ("refused", "error"), f"{record}\n{console}"
        if record["record"] == "attached" and record["policy"] not in found:
            latest = found[record["policy"]] = []
        latest.append(record)
    return found


@pytest.mark.parametrize("policy", RESTARTS)
def test_the_simulator_says_the_same(policy, tmp_path):
    native = catalogue.native()
    path = tmp_path / "hotplug.toml"
    path.write_text(WORKLOAD)
    machine = native.load_machine(ROOT / "machines" / "osdl-2.toml")
    compiled = catalogue.load_policy(source_of(policy))
    workload = native.load_workload(path, {})
    result = native.simulate(compiled, machine, workload, 1, {}, timeline=True)
    assert result["status"] == "completed", result["error"]
    assert result.get("restarts", 0) == RESTARTS[policy]
    gone = [
        stay
        for stay in result["timeline"]
        if stay[2] == 1 and OFFLINE_MS * 1e6 + 1e6 < stay[0] < ONLINE_MS * 1e6
    ]
    assert not gone, gone


@pytest.mark.parametrize("policy", PLAYED)
def test_a_cpu_goes_and_comes_back_and_no_task_is_lost(policy):
    told = told_of_each()[policy]
    kinds = [record["record"] for record in told]
    assert "ejected" not in kinds, told
    assert "restarted" not in kinds, told
    (record,) = (record for record in told if record["record"] == "played")
    played, schedule = record["played"], record["schedule"]
    assert played["status"] == "completed"
    for task in played["tasks"]:
        assert task["run_ns"] > 0.9 * WORK_NS[task["name"]], task
    # The first switch of a CPU that comes back does not follow on the last that was recorded there.
    assert schedule["lost"] <= 1
    names = {task["number"] + 1: task["name"] for task in played["tasks"]}
    # The CPU is emptied: also the task that may run nowhere else goes on.
    moved = [stay for stay in schedule["timeline"] if names[stay[3]] == "bound" and stay[2] == 0]
    assert moved and moved[0][0] < ONLINE_MS * 1e6, schedule["timeline"]
    emptied_ns = moved[0][0] + EMPTIED_MS * 1e6
    gone = [
        stay
        for stay in schedule["timeline"]
        if stay[2] == 1 and emptied_ns < stay[0] < ONLINE_MS * 1e6
    ]
    assert not gone, gone
    # Who may not be on CPU 1 any more stays away, once it has been told.
    late = (ONLINE_MS + 40 + TOLD_MS) * 1e6
    last = [stay for stay in schedule["timeline"] if names[stay[3]] == "bound" and stay[0] > late]
    assert last and all(stay[2] == 0 for stay in last), last
