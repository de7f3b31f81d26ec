"""Goal: whoever looks into a running policy sees what is there, and changes nothing by it.

Method: real runs of a policy that tells of itself. The state of one stands in `inside.txt`, which
was read line by line; `INSIDE=write pytest tests/policies/test_inside.py` writes it anew.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import cached_kernels
import pytest
import schedlab as sl
from schedlab.errors import SchedlabError
from schedlab.experiment import run_inside
from schedlab.kernel import result as kernel_result

HERE = Path(__file__).resolve().parent
POLICY = str(HERE.parent / "interface" / "dumps.bpf.c")
ARENA = HERE.parent / "interface" / "arena.bpf.c"
GOLDEN = HERE / "inside.txt"
SCENARIO = ("--workload", "nice_shares", "--machine", "core2-t5600", "--until", "210ms")


@pytest.fixture
def failing(tmp_path):
    """The same policy, which gives up at its tenth task."""
    path = tmp_path / "failing.bpf.c"
    gives_up = 'if (all.enqueued == 10)\n\t\tscx_bpf_error("the tenth");\n\tlast_queue ='
    text = Path(POLICY).read_text().replace("last_queue =", gives_up, 1)
    # A kernel tells its loader by a record of the policy's.
    record = "{ UEI_RECORD(uei, info); }"
    leaves = (
        f"UEI_DEFINE(uei);\nvoid BPF_STRUCT_OPS(leaves, struct scx_exit_info *info)\n{record}\n"
    )
    ops = "SCX_OPS_DEFINE(dumps_ops, "
    path.write_text(text.replace(ops, f"{leaves}{ops}.exit = (void *)leaves, "))
    return path


def said(dump):
    """The lines that the policy's operations add to a dump, without their numbers."""
    states = re.sub(r"\d+", "N", dump.partition("Dispatch queues")[0])
    return set(re.findall(r"^\n((?:.*enqueued|  +(?:switches|wakeups)).*)\n", states, re.M))


def test_a_state_is_printed_as_it_was_read(command):
    done = command("run", POLICY, *SCENARIO, "--dump-at", "205ms")
    assert done.returncode == 0, done.stderr
    state = done.stdout[done.stdout.index("dumps: root\n") :]
    if os.environ.get("INSIDE") == "write":
        GOLDEN.write_text(state)
    assert state == GOLDEN.read_text()


def test_who_looks_changes_nothing(command):
    alone = json.loads(command("run", POLICY, *SCENARIO, "--json").stdout)["result"]
    looks = ("--dump-at", "5ms", "--dump-at", "205ms", "--dump-at", "end", "--watch", "nr_dumps")
    done = json.loads(command("run", POLICY, *SCENARIO, "--json", *looks).stdout)["result"]
    dumps, [watched] = done.pop("dumps"), done.pop("watched")
    assert [dump["at_ns"] for dump in dumps][:2] == [5_000_000, 205_000_000]
    assert dumps[1]["text"].replace("nr_dumps = 2", "nr_dumps = 1") == GOLDEN.read_text()
    assert len(dumps) == 3
    # That it was looked at is nothing that the run itself sees.
    assert [number for _, number in watched["samples"]] == [0]
    assert done == alone


def test_a_run_that_fails_tells_its_state_after_the_cause(command, failing):
    done = command("run", str(failing), *SCENARIO)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "scx_bpf_error (the tenth)" in lines[0]
    state = [line for line in lines if line.startswith("|")]
    # `all` was counted before it gave up, and a task that comes meanwhile is still enqueued.
    assert state[0].startswith("| 1") and " enqueued, kind 1025, " in state[0]
    assert state[2] == "| CPU states"
    assert len(state) == 20
    assert lines[-1].endswith(" lines more: --dump-at end prints them all")
    whole = command("run", str(failing), *SCENARIO, "--dump-at", "end")
    assert " triggered exit kind 1025 on CPU " in whole.stdout
    assert "switches: BPF_MAP_TYPE_PERCPU_ARRAY" in whole.stdout
    assert not [line for line in whole.stderr.splitlines() if line.startswith("|")]


SAID = {"N enqueued, kind N, N waiting", "  switches=N", "    wakeups=N"}


def test_what_a_policy_says_stands_where_a_kernel_has_it(command, failing):
    done = command("run", str(failing), *SCENARIO, "--dump-at", "end")
    assert said(done.stdout) == SAID


@pytest.fixture
def in_kernel(environment, tmp_path):
    """Runs a policy on the newest of the user's kernels, which are no test's; gives the result and
    what is told beside it."""
    cached_kernels.present()
    environment.pop("XDG_CACHE_HOME")

    def run(policy, workload, *more):
        where = ("--on", "vm", "--cpus", "2", "--json")
        words = [sys.executable, "-m", "schedlab", "run", policy, "--workload", workload]
        done = subprocess.run(
            [*words, *where, *more], cwd=tmp_path, env=environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout and json.loads(done.stdout)["result"], done.stderr.splitlines()

    return run


@pytest.mark.qemu
def test_a_kernel_has_it_there(in_kernel, failing):
    result, told = in_kernel(str(failing), "hackbench", "--with", "groups=1")
    assert result["error"]["kind"] == "ejected"
    [dump] = result["dumps"]
    assert said(dump["text"]) == SAID
    head = dump["text"].splitlines()[:4]
    assert head[0] == "dumps: root" and " triggered exit kind 1025" in head[1], head
    assert head[2] == "  scx_bpf_error (the tenth)"
    # What the policy counted until then, and what it keeps of tasks that may be gone.
    assert re.search(r"^struct counts all = \{\n    \.enqueued = 1\d,", dump["text"], re.M)
    assert "by_pid: BPF_MAP_TYPE_HASH (1), " in dump["text"]
    shown = [line for line in told if line.startswith("|")]
    assert len(shown) == 20 and "| CPU states" in shown
    assert told[-1].endswith(" lines more: --dump-at end prints them all")


@pytest.fixture
def losing(tmp_path):
    """A policy that keeps no record of its end, and puts tasks of nice -5 into no queue."""
    path = tmp_path / "losing.bpf.c"
    path.write_text(
        """#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
u64 nr_lost;
void BPF_STRUCT_OPS(losing_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (p->scx.weight == 305)
		nr_lost++;
	else
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(losing_ops, .enqueue = (void *)losing_enqueue, .timeout_ms = 3000, .name = "losing");
"""
    )
    return path


@pytest.mark.qemu
def test_a_kernel_tells_the_end_of_a_policy_that_keeps_no_record_of_it(in_kernel, losing):
    result, _ = in_kernel(str(losing), "nice_shares")
    # Not what it warned of while the policy was loaded.
    told = r"the kernel ejected it: runnable task stall: nice-5\[\d+\] failed to run for \d"
    assert re.match(told, result["error"]["message"]), result["error"]
    [dump] = result["dumps"]
    assert dump["text"].splitlines()[0] == "losing: root"
    assert " triggered exit kind 1026" in dump["text"] and "\nCPU 0 " in dump["text"]
    # The tasks of the workload, by their names there.
    assert re.search(r"^ .R nice-5\[\d+\] ", dump["text"], re.M), dump["text"]
    assert "u64 nr_lost = 1\n" in dump["text"]


@pytest.mark.qemu
def test_a_kernel_is_looked_into_as_a_simulation_is(in_kernel):
    numbers = ("all.enqueued", "by_cpu[0]", "switches[0][0]", "task_states[2].wakeups", "balance")
    looks = [word for number in numbers for word in ("--watch", number)]
    looks += ["--dump-at", "200ms", "--dump-at", "end"]
    result, _ = in_kernel(POLICY, "nice_shares", "--until", "1s", *looks)
    first, last = result["dumps"]
    assert first["at_ns"] == 200_000_000 < last["at_ns"]
    text = first["text"]
    begin = "dumps: root\nDebug dump triggered by SysRq-D at 0.2"
    assert text.startswith(begin), text
    assert "u64 nr_dumps = 1\n" in text and "u64 nr_dumps = 2\n" in last["text"]
    # Four tasks on two CPUs wait by virtual time.
    [queue] = re.findall(r"^DSQ 0x5 BY_VTIME_DSQ: nr=\d+, by dsq_vtime\n((?:  .*\n)+)", text, re.M)
    vtimes = [int(vtime) for vtime in re.findall(r"^  nice-?\d+\[.* dsq_vtime=(\d+) ", queue, re.M)]
    assert len(vtimes) > 1 and vtimes == sorted(vtimes)
    assert said(text) == {"N enqueued, kind N, N waiting", "  switches=N", "    wakeups=N"}
    assert re.search(r"^    \[nice-5\[\d+\]\] = \{\.wakeups = \d+, ", text, re.M), text
    assert re.search(r"^    \[0\] CPU 1 = \d+$", text, re.M), text
    assert "+0x" not in text
    watched = {one["expression"]: one for one in result["watched"]}
    types = ["u64", "u64", "u64", "u64", "s64"]
    assert [watched[number]["type"] for number in numbers] == types
    at_ns, values = zip(*watched["all.enqueued"]["samples"], strict=True)
    assert list(at_ns) == sorted(at_ns) and at_ns[-1] <= result["elapsed_ns"]
    # A look each millisecond, but for those that a busy host misses.
    assert len(values) > 5 and list(values) == sorted(values)
    assert [n for _, n in watched["by_cpu[0]"]["samples"]][-1] > 0
    assert watched["by_cpu[0]"]["samples"][-1][1] == watched["switches[0][0]"]["samples"][-1][1]
    assert [number for _, number in watched["balance"]["samples"]] == [-3]
    # Of the second task, as in a simulation; when it is gone, there is no such value.
    *wakeups, gone = [number for _, number in watched["task_states[2].wakeups"]["samples"]]
    assert gone is None and wakeups[-1] > 5


def test_what_a_guest_saw_counts_from_the_plays_beginning():
    number = {"expression": "a", "type": "u64", "nr_left_out": 0}
    number["samples"] = [[90, None], [105, 1], [160, -(2**63)], [999, None]]
    played = {"record": "played", "played": {"start_at_monotonic_ns": 100, "elapsed_ns": 70}}
    dumps = [
        {"record": "dumped", "asked_at_ns": asked, "at_ns": at_ns, "text": "s"}
        for asked, at_ns in [(20, 125), (None, 190)]
    ]
    seen = kernel_result.inside_of([{"record": "watched", "numbers": [number]}, *dumps, played])
    samples = [[0, None], [5, 1], [60, -(2**63)], [70, None]]
    assert seen["watched"] == [{"expression": "a", "type": "u64", "samples": samples}]
    assert [dump["at_ns"] for dump in seen["dumps"]] == [20, 90]
    # The kernel knows the player's tasks by number.
    played["played"]["tasks"] = [{"number": 0, "name": "sender"}, {"number": 6, "name": "receiver"}]
    dumps[1]["text"] = " R t6[108] -12ms\n curr=t0[102] root[7] t9[5]\n"
    ejected = {"record": "ejected", "reason": "stall", "message": "t6[108] failed", "hint": ""}
    told = [*dumps, played, ejected | {"dump": ""}]
    text = kernel_result.inside_of(told)["dumps"][1]["text"]
    assert text == " R receiver[108] -12ms\n curr=sender[102] root[7] t9[5]\n"
    error = kernel_result.result_of(told, "powered_off", "", "")["error"]
    assert error["message"] == "the kernel ejected it: stall: receiver[108] failed"
    # Of a policy that was ejected before its play began.
    [dump] = kernel_result.inside_of(dumps[1:])["dumps"]
    assert dump["at_ns"] == 0
    assert kernel_result.inside_of([]) == {}
    more = number | {"nr_left_out": 7}
    [note] = kernel_result.left_out([{"record": "watched", "numbers": [number, more]}])
    assert note.startswith("note: 7 more changes of a are left out")


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [("completed", None, 2), ("failed", "ejected", 1), ("failed", "time_limit", 2)],
)
def test_of_a_kernel_only_an_ejection_has_a_state_of_its_own(capsys, status, kind, told):
    dumps = [{"at_ns": 20_000_000, "text": "first\n"}, {"at_ns": 0, "text": "last\n\nof it\n"}]
    result = {"error": kind and {"kind": kind}, "dumps": dumps}
    record = SimpleNamespace(status=status, measured_on="Linux", result=result)
    run_inside.print_failure(record, ["20ms"])
    assert capsys.readouterr().err == "| of it\n" * (told == 1)
    run_inside.print_dumps(record, ["20ms"])
    assert len(re.findall("first|last", capsys.readouterr().out)) == told


def test_a_time_behind_the_end_is_told(command):
    done = command("run", POLICY, *SCENARIO, "--dump-at", "300ms")
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1].startswith("note: the run was over before --dump-at 300ms")


def test_a_number_is_followed(command):
    done = command("run", POLICY, *SCENARIO, "--watch", "all.enqueued", "--watch", "balance")
    rows = [line.split() for line in done.stdout.splitlines()]
    [enqueued] = [row for row in rows if row[:1] == ["all.enqueued"]]
    assert enqueued[1:4] == ["u64", enqueued[-1], "0"]
    assert ["balance", "s64", "0", "-3", "-3", "-3"] in rows
    done = command("run", POLICY, *SCENARIO, "--watch", "all.enqueued", "--timeline")
    changes = [line.split()[-1] for line in done.stdout.splitlines() if " all.enqueued " in line]
    assert changes[-1] == enqueued[-1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--watch", "al"), "has no variable or map al; did you mean all?"),
        (("--watch", "all.enqueue"), "all has no field enqueue; did you mean enqueued?"),
        (("--dump-at", "soon"), "'soon' is not a time"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(command, given, said):
    done = command("run", POLICY, *SCENARIO, *given)
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.qemu
def test_variables_of_an_arena_are_seen_in_a_kernel(in_kernel):
    looks = ("--watch", "nr_popped", "--dump-at", "end")
    result, _ = in_kernel(str(ARENA), "hackbench", "--with", "groups=1", *looks)
    [watched], [dump] = result["watched"], result["dumps"]
    numbers = [number for _, number in watched["samples"]]
    assert numbers == sorted(numbers) and numbers[-1] > 40
    [popped] = re.findall(r"^u64 nr_popped = (\d+)$", dump["text"], re.M)
    assert int(popped) >= numbers[-1]
    # What a kernel that lays them elsewhere would show.
    assert "u64 number = 30\n" in dump["text"]


@pytest.mark.qemu
@pytest.mark.parametrize(
    ("policy", "number", "said"),
    [
        (POLICY, "al", "has no variable or map al; did you mean all?"),
        ("eevdf@kernel", "all", "the kernel's own scheduler shows none of its numbers"),
    ],
)
def test_it_is_refused_before_a_kernel_boots(in_kernel, policy, number, said):
    result, told = in_kernel(policy, "nice_shares", "--watch", number)
    assert not result
    assert said in told[0] and told[1].startswith("hint: ") and len(told) == 2


def test_a_notebook_has_a_frame_and_a_curve_of_it():
    asked = {"until": "50ms", "timeline": True}
    watch = ["all.enqueued", "by_pid[2].enqueued"]
    run = sl.simulate(POLICY, "nice_shares", "core2-t5600", watch=watch, **asked)
    frame = run.watched()
    assert list(frame) == ["expression", "at_ns", "value"]
    assert frame["at_ns"].is_monotonic_increasing
    assert 40_000_000 < frame["at_ns"].max() <= 50_000_000
    last = frame.groupby("expression")["value"].last()
    assert last["all.enqueued"] >= last["by_pid[2].enqueued"] > 0
    # An entry that is not there yet has no number.
    assert frame[frame["expression"] == watch[1]]["value"].isna().iloc[0]
    curves = [trace for trace in run.figure().data if trace.type == "scatter"]
    assert [max(n for n in curve.y if n is not None) for curve in curves] == [*last[watch]]
    with pytest.raises(SchedlabError, match="followed no number"):
        sl.simulate(POLICY, "nice_shares", "core2-t5600", until="5ms").watched()
