"""Goal: `_native.pyi` says what the core gives: its names, and the keys of its records.
Method: the stub is parsed; the core is asked for a record of each kind.
"""

import ast
import json
import re

import pytest
from schedlab import catalogue

STUB = catalogue.PACKAGE / "_native.pyi"
TREE = ast.parse(STUB.read_text())
# A switch to a task that nobody woke, and one to a task that was seen to be woken.
KERNEL_TRACE = """\
 a 1 [000] 1.000001: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> \
next_comm=b next_pid=2 next_prio=120
 b 2 [000] 1.000002: sched:sched_wakeup: comm=c pid=3 prio=120 target_cpu=000
 b 2 [000] 1.000003: sched:sched_switch: prev_comm=b prev_pid=2 prev_prio=120 prev_state=S ==> \
next_comm=c next_pid=3 next_prio=120
"""


def keys_of(name):
    """The keys that the stub's record `name` must have, and all that it may have."""
    record = next(of for of in TREE.body if isinstance(of, ast.ClassDef) and of.name == name)
    fields = [of for of in record.body if isinstance(of, ast.AnnAssign)]
    optional = {of.target.id for of in fields if "NotRequired" in ast.unparse(of.annotation)}
    known = {of.target.id for of in fields}
    return known - optional, known


@pytest.fixture(scope="module")
def native():
    return catalogue.native()


@pytest.fixture(scope="module")
def policy():
    return catalogue.load_policy(catalogue.find(catalogue.POLICIES, "fifo"))


@pytest.fixture(scope="module")
def records(native, policy, tmp_path_factory):
    """A record of each kind, by its name in the stub."""
    place = tmp_path_factory.mktemp("stub")
    (place / "perf.txt").write_text(KERNEL_TRACE)
    machine = catalogue.load_machine(catalogue.find(catalogue.MACHINES, "osdl-1"))
    workload = catalogue.load_workload(catalogue.find(catalogue.WORKLOADS, "lat_ctx"), {})
    made, small = native.check_names()
    result = native.simulate(
        policy, machine, workload, 1, {}, timeline=True, queues=True, profile=True
    )
    heat = native.race_heat(json.dumps({"workload": "hold", "n": 4, "rounds": 1, "loops": 100}))
    recorded = native.race_kernel_trace(str(place / "perf.txt"))
    starving = place / "starving.bpf.c"
    text = catalogue.find(catalogue.POLICIES, "fifo").read_text()
    starving.write_text(text.replace("p, SHARED_DSQ,", "p, 77,"))
    swarm = native.check_random(catalogue.load_policy(starving), {}, 7, 1)
    return {
        "RunResult": result,
        "QueueTrace": result["queue_traces"][0],
        "Profile": result["profile"],
        "CheckRow": native.check_made(policy, {}, made[0], 1)[0],
        "Exploration": native.check_small(policy, {}, small[0], 10),
        "Swarm": swarm,
        "FailedSeed": swarm["failed"][0],
        "Problem": swarm["failed"][0]["problem"],
        "ScenarioFiles": native.check_files("7"),
        "Entrant": native.race_entrants()[0],
        "Heat": heat,
        "HeatRow": heat["rows"][0],
        "KernelQueues": recorded,
        "KernelQueue": recorded["queues"][0],
    }


def test_records_have_the_keys_of_the_stub(records):
    for name, record in records.items():
        required, known = keys_of(name)
        assert required <= set(record) <= known, name


def test_records_are_equal_to_what_a_store_reads_again(records):
    """So nothing depends on whether a run was just made: no tuples, no numbers as keys."""
    assert json.loads(json.dumps(records)) == records


def test_names_of_the_stub_are_those_of_the_core(native):
    """Records, which are only described there, and the alias `Where` apart."""
    described = {
        of.name
        for of in TREE.body
        if isinstance(of, ast.FunctionDef | ast.ClassDef)
        and not (isinstance(of, ast.ClassDef) and "TypedDict" in map(ast.unparse, of.bases))
    }
    described |= {of.target.id for of in TREE.body if isinstance(of, ast.AnnAssign)}
    given = {name for name in dir(native) if not re.match("__", name)}
    assert described == given
