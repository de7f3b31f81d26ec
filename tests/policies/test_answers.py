"""Goal: maps, arenas, a task's fields, and what a policy asks for while it runs, answer in the
simulator as in a kernel. Method: policies ask, and end by the line of an answer that is wrong; a
kernel takes them, and plays under them.
"""

from pathlib import Path

import pytest
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import expand
from schedlab.experiment.sweep import simulate_cell

INTERFACE = Path(__file__).resolve().parents[1] / "interface"
NAMES = (
    *("maps", "rings", "objects", "arena", "fields", "custody", "nodes"),
    *("texts", "throws", "timers", "walks", "cids", "cids_reversed"),
)
ASKED = {"workload": "hackbench", "with": {"groups": "1", "loops": "2"}}
# As long, in a simulation, as the other takes in a kernel.
LONG = {"with": {"groups": "1", "loops": "250"}}


def cell_of(name, **where):
    policies = {"policies": [str(INTERFACE / f"{name}.bpf.c")]}
    [cell] = expand(definition.build(ASKED | policies | where))
    return cell


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_simulated_kernel_answers_so(name, strict):
    outcome = simulate_cell(cell_of(name, machine=["osdl-4"], **LONG), strict=strict)
    assert outcome.fault is None
    assert outcome.result["error"] is None


@pytest.mark.qemu
@pytest.mark.parametrize("name", NAMES)
def test_a_real_kernel_answers_so(name):
    outcome = vm.measure_cell(cell_of(name, vm=definition.VmChoice(None, ("2",), False)))
    assert outcome.fault is None
    assert outcome.result["error"] is None
