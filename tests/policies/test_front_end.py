"""Goal: what a policy's own front end would do is done by its loader's file, in the simulator as in
a kernel. Method: a policy looks for all of it when it begins, and ends by the line of what is not
there; a kernel takes it, and plays under it.
"""

import shutil
from pathlib import Path

import pytest
from schedlab import catalogue
from schedlab.errors import SchedlabError
from schedlab.experiment import definition, vm
from schedlab.experiment.cells import expand
from schedlab.experiment.sweep import simulate_cell

FOLDER = Path(__file__).resolve().parents[1] / "interface"
POLICY = str(FOLDER / "front_end.bpf.c")
PARTS = FOLDER / "parts" / "parts.loader.toml"
ASKED = {"workload": "hackbench", "with": {"groups": "1", "loops": "2"}}


def cell_of(policy=POLICY, **where):
    [cell] = expand(definition.build({"policies": [str(policy)]} | ASKED | where))
    return cell


@pytest.fixture
def alone(tmp_path):
    """The policy in a folder of its own, where its loader's file may be another one."""
    for name in ("front_end.bpf.c", "expect.bpf.h", "front_end.loader.toml"):
        shutil.copy(FOLDER / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("machine", ["laptop", "osdl-4"])
def test_a_simulated_kernel_has_all_that_the_file_says(machine):
    outcome = simulate_cell(cell_of(machine=[machine]), strict=True)
    assert outcome.fault is None
    assert outcome.result["error"] is None


@pytest.mark.qemu
def test_a_real_kernel_has_all_that_the_file_says():
    outcome = vm.measure_cell(cell_of(vm=definition.VmChoice(None, ("2",), False)))
    assert outcome.fault is None
    assert outcome.result["error"] is None


def test_without_the_file_its_map_has_no_size(alone):
    (alone / "front_end.loader.toml").unlink()
    outcome = simulate_cell(cell_of(alone / "front_end.bpf.c", machine=["osdl-4"]))
    assert "map sized has no entries" in str(outcome.fault)


def test_a_program_that_fails_ends_the_run_by_its_name(alone):
    file = alone / "front_end.loader.toml"
    file.write_text(file.read_text().replace("times = 7", "times = -7"))
    outcome = simulate_cell(cell_of(file, machine=["osdl-4"]))
    assert "add, which its loader calls, answered -22" in outcome.result["error"]["message"]


@pytest.mark.parametrize(
    ("name", "old", "new", "why"),
    [
        ("loader.toml", ", 5]", ", 6]", "take_page, which its loader calls, answered -22"),
        ("bpf.c", "= (u64)page;", "= 64;", "make_page made nothing in an arena: it left 0x40"),
    ],
)
def test_what_a_program_makes_lies_in_the_arena_and_is_filled(alone, name, old, new, why):
    changed = alone / f"front_end.{name}"
    changed.write_text(changed.read_text().replace(old, new))
    outcome = simulate_cell(cell_of(alone / "front_end.bpf.c", machine=["osdl-4"]))
    assert why in outcome.result["error"]["message"]


@pytest.mark.parametrize(
    ("gone", "why"), [(1, None), (3, "its loader cannot run on CPU 3 for look")]
)
def test_a_policy_that_is_loaded_again_has_it_again(tmp_path, gone, why):
    """The last of four CPUs, on which a program is called, computes then."""
    workload = tmp_path / "busy.toml"
    workload.write_text(
        'description = "they compute"\nsource = "own"\n'
        f'hotplug = [{{ at = "5ms", cpu = {gone}, state = "offline" }}]\n'
        '[[tasks]]\nname = "busy"\ncount = 8\nprogram = [{ run = "20ms" }]\n'
    )
    asked = {"policies": [POLICY], "workload": str(workload), "machine": ["osdl-4"]}
    [cell] = expand(definition.build(asked))
    outcome = simulate_cell(cell)
    assert outcome.fault is None
    error = outcome.result["error"]
    assert (error and error["message"]) == why


def test_an_object_is_named_as_well_as_the_source_and_the_file(alone):
    source = catalogue.load_policy(alone / "front_end.bpf.c")
    shutil.copy(catalogue.load_policy(POLICY).object_path, alone / "front_end.bpf.o")
    named = [catalogue.load_policy(alone / f"front_end{end}") for end in (".bpf.o", ".loader.toml")]
    assert [one.name for one in named] == ["front_end"] * 2
    assert len({one.digest for one in (source, *named)}) == 2  # That copy has the file twice.


def test_another_file_is_another_policy(alone):
    before = cell_of(alone / "front_end.bpf.c", machine=["osdl-4"])
    file = alone / "front_end.loader.toml"
    file.write_text(file.read_text().replace("timeout_ms = 5000", "timeout_ms = 4000"))
    assert cell_of(alone / "front_end.bpf.c", machine=["osdl-4"]).key != before.key


def test_what_is_wrong_in_the_file_is_told_with_its_place(alone):
    file = alone / "front_end.loader.toml"
    file.write_text("[variables]\nslice_n = 3\n")
    outcome = simulate_cell(cell_of(file, machine=["osdl-4"]))
    assert f"{file}: there is no variable slice_n; did you mean slice_ns?" in str(outcome.fault)


@pytest.mark.qemu
def test_several_sources_become_one_policy_in_both_worlds():
    """The guest's program, which joins their objects, is there where kernels can be booted."""
    simulated = simulate_cell(cell_of(PARTS, machine=["osdl-4"]), strict=True)
    assert (simulated.fault, simulated.result["error"]) == (None, None)
    played = vm.measure_cell(cell_of(PARTS, vm=definition.VmChoice(None, ("2",), False)))
    assert (played.fault, played.result["error"]) == (None, None)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("", "", "turn_ns"),
        ("-DFACTOR=3", "-DOTHER=3", "FACTOR"),
        ("-DFACTOR=3", "-fplugin=x.so", "options begin with -D"),
        ("include =", "headers =", "unknown key headers"),
        ('["include"]', '["none"]', "turns.h"),
        ("main.bpf.c", "mine.bpf.c", "there is no source"),
        ("sources =", 'object = "main.bpf.c"\nsources =', "an object and sources"),
    ],
)
def test_a_source_is_built_as_its_file_says(tmp_path, old, new, why):
    """It is the first of the two alone, which lacks what the other has."""
    shutil.copytree(PARTS.parent, tmp_path, dirs_exist_ok=True)
    file = tmp_path / PARTS.name
    text = file.read_text().replace(', "turns.bpf.c"', "").replace("[variables]\nscale = 1\n", "")
    file.write_text(text.replace(old, new))
    native = catalogue.native()
    machine = catalogue.load_machine(catalogue.find(catalogue.MACHINES, "osdl-4"))
    workload = catalogue.load_workload(catalogue.find(catalogue.WORKLOADS, "hackbench"), {})
    with pytest.raises(native.PolicyError, match=why):
        native.simulate(catalogue.load_policy(file), machine, workload, 1, {})


def test_names_of_such_files_end_so(tmp_path):
    (tmp_path / "mine.toml").write_text("")
    with pytest.raises(SchedlabError, match=r"mine\.toml"):
        catalogue.find(catalogue.POLICIES, str(tmp_path / "mine.toml"))
