"""Goal: groups of tasks are to a policy in the simulator what they are in a kernel, and have the
shares that it gives them. Method: one workload with groups that are always busy and one with groups
that change, under policies that ask all there is and end by the line of an answer that is wrong;
simulated, and in a kernel.
"""

from pathlib import Path

import pytest
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import expand
from schedlab.experiment.sweep import simulate_cell

INTERFACE = Path(__file__).resolve().parents[1] / "interface"


def cell_of(name, **where):
    asked = {
        "policies": [str(INTERFACE / f"{name}.bpf.c")],
        "workload": str(INTERFACE / f"{name}.toml"),
    }
    [cell] = expand(definition.build(asked | where))
    return cell


def share_of_heavy(outcome):
    assert outcome.fault is None
    assert outcome.result["error"] is None
    ran = {group["name"]: group["run_ns"] for group in outcome.result["task_groups"]}
    heavy = ran["heavy"] + ran["child"]
    return heavy / (heavy + ran["light"])


def test_a_simulated_kernels_groups_have_shares_by_their_weights():
    outcome = simulate_cell(cell_of("cgroups", machine=["osdl-1"]), strict=True)
    assert share_of_heavy(outcome) == pytest.approx(0.75, abs=0.01)


@pytest.mark.qemu
def test_a_real_kernels_groups_have_shares_by_their_weights():
    outcome = vm.measure_cell(cell_of("cgroups", vm=definition.VmChoice(None, ("1",), True)))
    assert share_of_heavy(outcome) == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("machine", ["osdl-1", "osdl-4"])
def test_a_simulated_kernels_groups_change_as_a_policy_is_told(machine):
    outcome = simulate_cell(cell_of("moves", machine=[machine]), strict=True)
    assert outcome.fault is None
    assert outcome.result["error"] is None


@pytest.mark.qemu
@pytest.mark.parametrize("cpus", ["1", "2"])
def test_a_real_kernels_groups_change_as_a_policy_is_told(cpus):
    outcome = vm.measure_cell(cell_of("moves", vm=definition.VmChoice(None, (cpus,), False)))
    assert outcome.fault is None
    assert outcome.result["error"] is None
