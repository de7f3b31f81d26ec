"""Goal: a task's fields, and the calls for it, are in the simulator what they are in a kernel.
Method: policies compare them while they run, and end by the line of what is wrong; a kernel judges
them, too.
"""

from pathlib import Path

import pytest
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import expand
from schedlab.experiment.sweep import simulate_cell

INTERFACE = Path(__file__).resolve().parents[1] / "interface"
POLICIES = ("fields", "custody", "nodes")
ASKED = {"workload": "hackbench", "with": {"groups": "1", "loops": "2"}}


def cell_of(policy, **where):
    policies = [str(INTERFACE / f"{policy}.bpf.c")]
    [cell] = expand(definition.build(ASKED | {"policies": policies} | where))
    return cell


@pytest.mark.parametrize("policy", POLICIES)
def test_a_simulated_kernels_tasks_say_so(policy):
    outcome = simulate_cell(cell_of(policy, machine=["osdl-4"]), strict=True)
    assert outcome.fault is None
    assert outcome.result["error"] is None


@pytest.mark.qemu
@pytest.mark.parametrize("policy", POLICIES)
def test_a_real_kernels_tasks_say_so(policy):
    outcome = vm.measure_cell(cell_of(policy, vm=definition.VmChoice(None, ("2",), False)))
    assert outcome.fault is None
    assert outcome.result["error"] is None
