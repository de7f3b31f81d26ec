"""Goal: what a kernel's scheduler did is raced, as `perf script` and ftrace tell it.

Method: the text of a made run, whose operations are known, in both programs' formats; the real
command with the real core, which also checks that an exact queue could do every operation. And a
recording of this machine, where it may be made.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TWO = ("--structure", "red_black_tree", "--structure", "exact_time_ring")
TINY = ("-l", 200, "--rounds", 2)
SWITCH = (
    "sched_switch: prev_comm={0} prev_pid={1} prev_prio=120 prev_state={2} ==>"
    " next_comm={3} next_pid={4} next_prio=120"
)
WAKEUP = "sched_wakeup: comm={0} pid={1} prio=120 target_cpu={2:03d}"


def made_run(nr_tasks=5, turns=40):
    """Tasks 101, 102, … go round on CPU 0, 1 ms each; another one sleeps and wakes up on CPU 1."""
    tasks = [("a task", 100 + number) for number in range(1, nr_tasks + 1)]
    events = [(0, 0, WAKEUP.format(*task, 0)) for task in tasks]
    running = ("swapper/0", 0)
    for turn in range(turns):
        following, at_ns = tasks[turn % nr_tasks], 1_000_000 * turn
        events.append((0, at_ns, SWITCH.format(*running, "R", *following)))
        running = following
        if turn % 10 == 5:
            events.append((1, at_ns + 1000, WAKEUP.format("sleeper", 7, 1)))
            events.append((1, at_ns + 2000, SWITCH.format("swapper/1", 0, "R", "sleeper", 7)))
            events.append((1, at_ns + 9000, SWITCH.format("sleeper", 7, "S", "swapper/1", 0)))
    return events


def perf_text(run):
    return "".join(
        f"         someone    7/7     [{cpu:03d}]   12.{at_ns:09d}:     sched:{event}\n"
        for cpu, at_ns, event in run
    )


def ftrace_text(run):
    return "# tracer: nop\n#\n" + "".join(
        f"         someone-7       [{cpu:03d}] d..2.   12.{at_ns // 1000:06d}: {event}\n"
        for cpu, at_ns, event in run
    )


@pytest.fixture(params=[perf_text, ftrace_text])
def recorded(request, tmp_path):
    path = tmp_path / "kernel.txt"
    path.write_text(request.param(made_run()))
    return path


def kept_operations(stderr):
    [path] = re.findall(r"kept as (\S+)", stderr)
    lines = Path(path).read_text().splitlines()
    return lines, [line for line in lines if not line.startswith("#")]


def test_the_busiest_cpus_queue_is_raced(command, recorded):
    done = command("race", "--trace", recorded, *TINY, *TWO, "--json")
    assert done.returncode == 0, done.stderr
    [heat] = json.loads(done.stdout)["heats"]
    assert [row["order_hash"] for row in heat["rows"]] == [heat["rows"][0]["order_hash"]] * 2
    assert "the run queue of cpu0, 84 operations" in done.stderr
    assert "others for --queue: cpu1 8, all 92" in done.stderr
    head, operations = kept_operations(done.stderr)
    assert "over weight" in head[1]
    # All are queued, then each turn one leaves and the one before comes back.
    assert operations[:8] == [
        *(f"push {item} 0" for item in range(5)),
        "pop",
        "push 0 1000000",
        "pop",
    ]
    assert (operations.count("pop"), len(operations)) == (40, 84)
    assert not [line for line in operations if line.startswith("remove")]


def test_another_queue_and_one_for_all_can_be_asked_for(command, recorded):
    for queue, operations in (("cpu1", 8), ("all", 92)):
        done = command("race", "--trace", recorded, "--queue", queue, *TINY, *TWO)
        assert done.returncode == 0, done.stderr
        assert len(kept_operations(done.stderr)[1]) == operations
    quiet = command("race", "--trace", recorded, "--queue", "cpu1", *TINY, *TWO, "-q")
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_what_cannot_be_taken_is_refused(command, recorded, tmp_path):
    own = tmp_path / "own.trace"
    own.write_text("push 1 5\npop\n")
    no_wakeup = tmp_path / "half.txt"
    no_wakeup.write_text("".join(line for line in recorded.open() if "wakeup" not in line))
    cut = tmp_path / "cut.txt"
    cut.write_text(recorded.read_text().replace(" next_pid=102", "", 1))
    for words, told in (
        (("--trace", recorded, "--queue", "cpu7"), "unknown queue 'cpu7'"),
        (("--trace", own, "--queue", "cpu0"), "is a trace of one queue"),
        (("--queue", "cpu0"), "--queue cpu0: there is no trace to take it from"),
        (("--trace", no_wakeup), "no sched_wakeup and no sched_waking in it"),
        (("--trace", cut), "fields that are not known"),
        (("--trace", tmp_path / "none.txt"), "none.txt does not exist"),
        (("--trace", recorded, "-n", "10"), "a trace has items and keys of its own"),
    ):
        done = command("race", *words, *TINY, *TWO)
        assert done.returncode == 2, words
        assert told in done.stderr, done.stderr
        assert "hint: " in done.stderr
        assert "Traceback" not in done.stderr
        assert "kept as" not in done.stderr


@pytest.mark.skipif(shutil.which("perf") is None, reason="there is no perf here")
def test_a_recording_of_this_machine_is_raced(command, tmp_path):
    data, text = tmp_path / "perf.data", tmp_path / "perf.txt"
    events = "sched:sched_switch,sched:sched_wakeup,sched:sched_wakeup_new"
    made = subprocess.run(
        ["perf", "record", "-q", "-a", "-e", events, "-o", data, "sleep", "0.2"],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        pytest.skip(f"perf may not record here: {made.stderr.strip()[:200]}")
    fields = ["--ns", "-F", "comm,pid,tid,cpu,time,event,trace"]
    with text.open("w") as out:
        subprocess.run(["perf", "script", "-i", data, *fields], stdout=out, check=True)
    done = command("race", "--trace", text, "--queue", "all", *TINY, *TWO, "--json")
    assert done.returncode == 0, done.stderr
    assert "Lost events: 0." in kept_operations(done.stderr)[0][3]
