"""Goal: an arena answers in the simulator as in a kernel. Method: a policy asks it when it begins,
and ends by the line of an answer that is wrong; a kernel takes it, and plays under it.
"""

from pathlib import Path

import pytest
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import expand
from schedlab.experiment.sweep import simulate_cell

POLICY = str(Path(__file__).resolve().parents[1] / "interface" / "arena.bpf.c")
ASKED = {"policies": [POLICY], "workload": "hackbench", "with": {"groups": "1", "loops": "2"}}


def cell_of(**where):
    [cell] = expand(definition.build(ASKED | where))
    return cell


@pytest.mark.parametrize("strict", [False, True])
def test_a_simulated_kernels_arena_answers_so(strict):
    outcome = simulate_cell(cell_of(machine=["osdl-4"]), strict=strict)
    assert outcome.fault is None
    assert outcome.result["error"] is None


@pytest.mark.qemu
def test_a_real_kernels_arena_answers_so():
    outcome = vm.measure_cell(cell_of(vm=definition.VmChoice(None, ("2",), False)))
    assert outcome.fault is None
    assert outcome.result["error"] is None
