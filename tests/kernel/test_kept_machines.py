"""Goal: a run that goes on from a machine that was kept is the run that a boot gives, whatever
becomes of the file, also where it was kept with a policy loaded; and what is an independent
repetition has a boot of its own.

Method: boot Linux 6.18 with our guest and an empty folder of machines, then start it again. What
the guest says is compared under the clock that counts instructions; under the other one only which
boot it goes on from. Skipped, with the reason, without QEMU, the kernel, the guest or clang.
"""

import functools
import json
from pathlib import Path

import pytest
from booted_kernels import object_of
from cached_kernels import named
from schedlab import catalogue, programs
from schedlab.errors import SchedlabError
from schedlab.experiment import cells, definition
from schedlab.experiment import vm as experiment_vm
from schedlab.kernel import play, vm
from schedlab.kernel import result as kernel_result

pytestmark = [pytest.mark.qemu, pytest.mark.xdist_group("kept machines")]

ROOT = Path(__file__).resolve().parents[2]
MISTAKES = ROOT / "crates" / "kernel" / "tests" / "policies"
FILE = "/hello/there"
# What it says depends on every instruction since power on.
JOB = {
    "work": [
        {"kind": "read", "paths": ["/proc/uptime", "/proc/stat", "/proc/interrupts", FILE]},
        {
            "kind": "play",
            "workload": "/play.toml",
            "seed": 1,
            "counts_instructions": True,
            "record_kib_per_cpu": play.RECORD_KIB,
        },
    ]
}
PLAY = b"""
description = "three tasks that wake each other and compute"
source = "own"
[channels.there]
capacity_bytes = 4096
[[tasks]]
name = "sender"
program = [{ repeat = 50, do = [{ run = "30us" }, { send = "there", bytes = 1 }] }]
[[tasks]]
name = "receiver"
program = [{ repeat = 50, do = [{ recv = "there", bytes = 1 }, { run = "10us" }] }]
[[tasks]]
name = "hog"
program = [{ run = "5ms" }]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where machines are kept, for this test."""
    monkeypatch.setattr(catalogue, "machines_directory", lambda: tmp_path / "machines")
    return tmp_path / "machines"


@pytest.fixture(scope="module")
def booted(tmp_path_factory):
    """A folder with a machine whose clock counts instructions, and what its boot said."""
    kept = tmp_path_factory.mktemp("kept") / "machines"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(catalogue, "machines_directory", lambda: kept)
        ran, stages = run(deterministic=True)
    assert stages[0] == "booting" and not ran.failed_start
    return kept, ran


@pytest.fixture
def with_machine(folder, booted):
    """The machine in this test's folder; what its boot said."""
    kept, ran = booted
    folder.mkdir()
    for machine in kept.iterdir():
        (folder / machine.name).hardlink_to(machine)
    return ran


def run(text=b"hello", **options):
    """Starts the guest and waits for its end; gives it and the stages that it went through."""
    stages = []
    with started(text, tell_stage=functools.partial(_note, stages), **options) as ran:
        list(ran)
        ran.judge_policy(did_well=True)
    assert ran.end == vm.POWERED_OFF, f"{ran.message}\n{ran.console}"
    return ran, stages


def started(text=b"hello", **options):
    """The guest, which has just been started."""
    try:
        programs.GUEST.find()
    except SchedlabError as error:
        pytest.skip(str(error))
    files = {FILE: text, "/play.toml": PLAY}
    # As `run --on vm` on one CPU, which finds the same machine.
    options = {"accelerator": "tcg", "record_kib_per_cpu": play.RECORD_KIB, **options}
    return vm.start(named("6.18"), JOB, files, **options)


def _note(stages, stage):
    if stage not in stages:
        stages.append(stage)


def test_a_kept_machine_says_what_a_booted_one_says_to_the_nanosecond(with_machine, folder):
    [kept] = folder.iterdir()
    assert kept.name.endswith(f"@{with_machine.boot}.machine")
    restored, stages = run(deterministic=True)
    assert stages[0] == "restoring" and "booting" not in stages
    assert restored.boot == with_machine.boot
    assert restored.lines == with_machine.lines
    alone, stages = run(deterministic=True, keep=False)
    assert "restoring" not in stages
    assert alone.lines == with_machine.lines
    assert [path.name for path in folder.iterdir()] == [kept.name]


# So often a run with several CPUs is repeated. A thread of QEMU ends a CPU's turn every 0.1 s of
# the guest's time, and later where this machine is busy: it was in one of 16 that were made
# beside two loops, and in the boot before them, which takes longer. So boots are repeated too.
RUNS_MAX = 40


def test_several_cpus_go_on_as_they_did(folder):
    booted, _ = run(deterministic=True, cpus="2")
    boots, restores = [booted.lines], []
    while not any(lines in boots for lines in restores) and len(restores) < RUNS_MAX:
        restored, stages = run(deterministic=True, cpus="2")
        assert (stages[0], restored.boot) == ("restoring", booted.boot)
        restores.append(restored.lines)
        if len(restores) % 4 == 0:
            boots.append(run(deterministic=True, cpus="2", keep=False)[0].lines)
    assert any(lines in boots for lines in restores)


@pytest.mark.usefixtures("with_machine")
def test_a_kept_machine_gets_the_files_of_each_job():
    for text in (b"first", b"", b"x" * 700_000):
        ran, stages = run(text, deterministic=True)
        assert stages[0] == "restoring"
        [told] = [r for r in kernel_result.parse(ran.lines) if r["record"] == "files"]
        assert text.decode().startswith(told["texts"][FILE])
        assert bool(told["texts"][FILE]) == bool(text)


def test_each_seed_is_a_boot_of_its_own_where_the_clock_runs_by_itself(folder):
    boots = {seed: run(seed=seed, policy=policy())[0].boot for seed in (1, 2)}
    # Each is kept as it is ready, and with the policy.
    assert len(set(boots.values())) == 2 and len(list(folder.iterdir())) == 4
    for given in ({}, {"policy": policy()}):
        again, stages = run(seed=2, **given)
        assert (again.boot, stages[0]) == (boots[2], "restoring")
        # It says once what it is: the policy was not loaded again.
        assert sum('"record":"booted"' in line for line in again.lines) == 1
    assert len(loads(again)) == 1 and len(list(folder.iterdir())) == 4


def test_one_boot_serves_all_seeds_where_instructions_are_counted(with_machine):
    assert run(seed=7, deterministic=True)[0].boot == with_machine.boot


@pytest.mark.parametrize("other", [{"memory_mib": 512}, {"executables": {"/more": b""}}])
def test_another_machine_is_not_taken_for_it(with_machine, other):
    for options, stage in ({}, "restoring"), (other, "booting"):
        with started(deterministic=True, **options) as machine:
            assert machine.machine.stage == stage
            assert (machine.machine.boot == with_machine.boot) == (stage == "restoring")


def test_a_machine_that_cannot_be_restored_is_booted_and_kept_anew(with_machine, folder):
    [kept] = folder.iterdir()
    length = shorten(kept, 0.5)
    ran, stages = run(deterministic=True)
    assert "the machine that was kept cannot be restored" in ran.failed_start
    assert "booting" in stages
    assert ran.lines == with_machine.lines
    [kept] = folder.iterdir()
    assert kept.stat().st_size > length / 2


def shorten(kept, part):
    """Leaves of a file so much, and not of the machine of other tests that it is; gives its
    length."""
    content = kept.read_bytes()
    kept.unlink()
    kept.write_bytes(content[: int(part * len(content))])
    return len(content)


# ---- with a policy loaded -----------------------------------------------------------------------


def policy(name="fifo", **options):
    source = catalogue.find(catalogue.POLICIES, name)
    return vm.Policy(object_of(source).read_bytes(), **options)


def loads(ran):
    """How long it took to load each policy that a guest told of, by its clock."""
    records = kernel_result.parse(ran.lines)
    return [record["load_ns"] for record in records if record["record"] == "attached"]


# Of 200 machines that went on beside other work one said its last word 2 ns earlier. Perhaps by a
# thread of QEMU that frees memory: it ends a CPU's turn when this host lets it, also if there is
# only one CPU (`rr_force_rcu` in `accel/tcg`).
RESTORES_MAX = 3


def test_a_machine_goes_on_with_its_policy_to_the_nanosecond(with_machine, folder):
    first, _ = run(deterministic=True, policy=policy())
    assert len(list(folder.iterdir())) == 2 and len(loads(first)) == 1
    assert first.boot == with_machine.boot
    # It says once more what it is.
    assert first.lines[0].startswith('{"record":"booted"')
    restores = []
    while first.lines[1:] not in restores and len(restores) < RESTORES_MAX:
        again, stages = run(deterministic=True, policy=policy())
        assert stages[0] == "restoring"
        assert again.boot == first.boot
        restores.append(again.lines)
    assert first.lines[1:] in restores
    # Nothing of the job belongs to what is kept.
    other, _ = run(b"another job", deterministic=True, policy=policy())
    [files] = [r for r in kernel_result.parse(other.lines) if r["record"] == "files"]
    assert files["texts"][FILE] == "another job"
    assert loads(other) == loads(first) and len(list(folder.iterdir())) == 2


def test_another_policy_and_other_tunables_are_loaded_where_the_kernel_is_ready(
    with_machine, folder
):
    said = []
    for wanted in (
        policy("round_robin"),
        policy("round_robin", tunables={"slice_ns": 1_000_000}),
        policy("fifo", is_kept=False),
    ):
        ran, stages = run(deterministic=True, policy=wanted)
        assert stages[0] == "restoring" and ran.boot == with_machine.boot
        assert len(loads(ran)) == 1
        said.append(ran.lines[1:])
    assert said[0] != said[1]
    # One of them was not to be kept.
    assert len(list(folder.iterdir())) == 3


# QEMU says of the one that it cannot be read, and waits for the first byte of the other for ever.
@pytest.mark.parametrize("part", [0.5, 0])
def test_where_it_cannot_be_restored_the_policy_is_loaded_again(with_machine, folder, part):
    [plain] = folder.iterdir()
    first, _ = run(deterministic=True, policy=policy())
    [kept] = set(folder.iterdir()) - {plain}
    length = shorten(kept, part)
    ran, _ = run(deterministic=True, policy=policy())
    assert "the machine that was kept cannot be restored" in ran.failed_start
    assert (ran.boot, ran.lines) == (with_machine.boot, first.lines)
    [kept] = set(folder.iterdir()) - {plain}
    assert kept.stat().st_size > length / 2


@pytest.mark.usefixtures("with_machine")
def test_a_policy_that_failed_is_not_kept(folder):
    before = set(folder.iterdir())

    def runs(path, **options):
        machine = definition.VmChoice(named("6.18"), ("1",), True)
        asked = {"policies": [str(path)], "workload": "ping_pong", "vm": machine}
        [cell] = cells.expand(definition.build(asked))
        return experiment_vm.run_on_kernel(cell, print, **options)[0]

    result = runs(MISTAKES / "bad_queue.bpf.c")
    assert result["status"] == "failed"
    assert "non-existent DSQ" in result["error"]["message"]
    assert set(folder.iterdir()) == before
    # One that was kept goes when it fails, here by a machine's limit.
    fifo = catalogue.find(catalogue.POLICIES, "fifo")
    assert runs(fifo)["status"] == "completed"
    assert len(set(folder.iterdir()) - before) == 1
    stages = []
    limits = vm.Limits(wall_s=0.01)
    assert runs(fifo, limits=limits, tell_stage=stages.append)["status"] == "failed"
    assert set(stages) <= {"restoring", "working"}
    assert set(folder.iterdir()) <= before


def test_where_nothing_can_be_written_a_machine_is_booted(folder):
    folder.write_text("not a folder")
    ran, stages = run()
    assert stages[0] == "booting" and not ran.failed_start
    assert json.loads(ran.lines[0])["record"] == "booted"
