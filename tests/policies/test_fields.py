"""Goal: a task's fields and calls on it say in the simulator what they say in a kernel. Method: a
policy compares them while it runs, and ends by the line of what is wrong; a kernel judges it, too.
"""

from pathlib import Path

import pytest
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import expand
from schedlab.experiment.sweep import simulate_cell

POLICY = str(Path(__file__).resolve().parents[1] / "interface" / "fields.bpf.c")
ASKED = {"policies": [POLICY], "workload": "hackbench", "with": {"groups": "1", "loops": "2"}}


def cell_of(**where):
    [cell] = expand(definition.build(ASKED | where))
    return cell


def test_a_simulated_kernels_tasks_say_so():
    outcome = simulate_cell(cell_of(machine=["osdl-4"]), strict=True)
    assert outcome.fault is None
    assert outcome.result["error"] is None


@pytest.mark.qemu
def test_a_real_kernels_tasks_say_so():
    outcome = vm.measure_cell(cell_of(vm=definition.VmChoice(None, ("2",), False)))
    assert outcome.fault is None
    assert outcome.result["error"] is None
