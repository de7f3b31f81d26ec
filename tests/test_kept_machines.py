"""Goal: a run that goes on from a machine that was kept is the run that a boot gives, whatever
becomes of the file; and what is an independent repetition has a boot of its own.

Method: boot Linux 6.18 with our guest and an empty folder of machines, then start it again. What
the guest says is compared under the clock that counts instructions; under the other one only which
boot it goes on from. Skipped, with the reason, without QEMU, the kernel or the guest.
"""

import functools
import json

import pytest
from cached_kernels import named
from schedlab import catalogue, kernel_result, programs, vm
from schedlab.errors import SchedlabError

pytestmark = pytest.mark.xdist_group("vm")

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
            "record_kib_per_cpu": 1024,
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
    try:
        programs.GUEST.find()
    except SchedlabError as error:
        pytest.skip(str(error))
    stages = []
    files = {FILE: text, "/play.toml": PLAY}
    options = {"accelerator": "tcg", "tells": functools.partial(_note, stages), **options}
    ran = vm.start(named("6.18"), JOB, files, **options).run()
    assert ran.end == vm.POWERED_OFF, f"{ran.message}\n{ran.console}"
    return ran, stages


def _note(stages, stage):
    if stage not in stages:
        stages.append(stage)


def test_a_kept_machine_says_what_a_booted_one_says_to_the_nanosecond(with_machine, folder):
    [kept] = folder.iterdir()
    assert kept.name == f"{with_machine.boot}.machine"
    restored, stages = run(deterministic=True)
    assert stages[0] == "restoring" and "booting" not in stages
    assert restored.boot == with_machine.boot
    assert restored.lines == with_machine.lines
    alone, stages = run(deterministic=True, keep=False)
    assert "restoring" not in stages
    assert alone.lines == with_machine.lines
    assert [path.name for path in folder.iterdir()] == [kept.name]


def test_several_cpus_go_on_as_they_did(folder):
    first, _ = run(deterministic=True, cpus="2")
    # A thread of QEMU may end a CPU's turn early, once in 0.1 s of the guest's time and only where
    # this machine is busy: three runs that all differ are not by chance.
    again = (run(deterministic=True, cpus="2")[0].lines for _ in range(3))
    assert first.lines in again


@pytest.mark.usefixtures("with_machine")
def test_a_kept_machine_gets_the_files_of_each_job():
    for text in (b"first", b"", b"x" * 700_000):
        ran, stages = run(text, deterministic=True)
        assert stages[0] == "restoring"
        [told] = [r for r in kernel_result.parse(ran.lines) if r["record"] == "files"]
        assert text.decode().startswith(told["texts"][FILE])
        assert bool(told["texts"][FILE]) == bool(text)


def test_each_seed_is_a_boot_of_its_own_where_the_clock_runs_by_itself(folder):
    boots = {seed: run(seed=seed)[0].boot for seed in (1, 2)}
    assert len(set(boots.values())) == len(list(folder.iterdir())) == 2
    again, stages = run(seed=2)
    assert (again.boot, stages[0]) == (boots[2], "restoring")


def test_one_boot_serves_all_seeds_where_instructions_are_counted(with_machine):
    assert run(seed=7, deterministic=True)[0].boot == with_machine.boot


def test_another_machine_is_not_taken_for_it(with_machine):
    ran, stages = run(deterministic=True, memory_mib=512)
    assert stages[0] == "booting"
    assert ran.boot != with_machine.boot


# QEMU says of the one that it cannot be read, and waits for the first byte of the other for ever.
@pytest.mark.parametrize("part", [0.5, 0])
def test_a_machine_that_cannot_be_restored_is_booted_and_kept_anew(with_machine, folder, part):
    [kept] = folder.iterdir()
    content = kept.read_bytes()
    # Not the file itself: other tests use it.
    kept.unlink()
    kept.write_bytes(content[: int(part * len(content))])
    ran, stages = run(deterministic=True)
    assert "the machine that was kept cannot be restored" in ran.failed_start
    assert "booting" in stages
    assert ran.lines == with_machine.lines
    [kept] = folder.iterdir()
    assert kept.stat().st_size > len(content) / 2


def test_where_nothing_can_be_written_a_machine_is_booted(folder):
    folder.write_text("not a folder")
    ran, stages = run(deterministic=True)
    assert stages[0] == "booting" and not ran.failed_start
    assert json.loads(ran.lines[0])["record"] == "booted"
