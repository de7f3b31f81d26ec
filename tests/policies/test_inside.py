"""Goal: whoever looks into a running policy sees what is there, and changes nothing by it.

Method: real runs of a policy that tells of itself. The state of one stands in `inside.txt`, which
was read line by line; `INSIDE=write pytest tests/policies/test_inside.py` writes it anew.
"""

import json
import os
import re
from pathlib import Path

import pytest
import schedlab as sl
from schedlab.errors import SchedlabError
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import expand

HERE = Path(__file__).resolve().parent
POLICY = str(HERE.parent / "interface" / "dumps.bpf.c")
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


@pytest.mark.qemu
def test_a_kernel_has_it_there(failing):
    asked = {"policies": [str(failing)], "workload": "hackbench", "with": {"groups": "1"}}
    [cell] = expand(definition.build(asked | {"vm": definition.VmChoice(None, ("2",), False)}))
    error = vm.measure_cell(cell).result["error"]
    assert error["kind"] == "ejected"
    assert said(error["evidence"]) == SAID


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
        (("--dump-at", "1s", "--on", "vm"), "--dump-at is for simulations"),
        (("--watch", "all.enqueued", "--on", "vm"), "--watch is for simulations"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(command, given, said):
    scenario = SCENARIO if "vm" not in given else ("--workload", "nice_shares")
    done = command("run", POLICY, *scenario, *given)
    assert done.returncode == 2
    assert said in done.stderr
    assert "hint: " in done.stderr


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
