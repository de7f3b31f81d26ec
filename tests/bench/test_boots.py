"""Goal: `schedlab bench --on vm` measures each kernel in boots of its own, in turn, keeps what a
guest told whatever becomes of it, and makes nothing twice.

Method: the real verb with guests that are played here, record by record; then one small boot of a
real kernel, skipped with the reason where QEMU, the kernel or our static programs are missing.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter

import played_guests
import pytest
from cached_kernels import named
from played_guests import (
    BOTH,
    EACH,
    EJECTED,
    FIRST,
    KERNELS,
    NR_CASES,
    SUITE,
    Played,
    counted,
    cut,
    finished,
)
from running import PATIENCE_S
from schedlab import programs
from schedlab.bench import boots as bench_boots
from schedlab.bench import guests as bench_guests
from schedlab.bench import request
from schedlab.bench.answers import BOOTS_FOR_KERNELS_MIN
from schedlab.bench.boots import order
from schedlab.bench.guests import Guest
from schedlab.errors import SchedlabError
from schedlab.kernel import vm
from schedlab.kernel.platform import Platform

guests, bench, kept = played_guests.guests, played_guests.bench, played_guests.kept


# ---- plans --------------------------------------------------------------------------------------


def test_each_round_boots_every_guest_in_an_order_that_follows_from_the_seed():
    platform = Platform(KERNELS["b"], "2", "tcg", False, 1024, "7.2", "cc")
    some = [Guest(platform, policy=name) for name in ("w", "x", "y", "z")]
    found = order(some, range(1, 11), 1)
    assert found == order(some, range(1, 11), 1)
    assert found != order(some, range(1, 11), 2)
    assert [number for _, number in found] == [n for n in range(1, 11) for _ in some]
    rounds = [tuple(one.policy for one, n in found if n == number) for number in range(1, 11)]
    assert all(set(visited) == {"w", "x", "y", "z"} for visited in rounds)
    assert len(set(rounds)) > 5
    # ABBA: a drift that is steady over two rounds meets all alike.
    assert all(rounds[n][::-1] == rounds[n + 1] for n in range(0, 10, 2))
    # More boots go on where fewer ended.
    assert order(some, range(1, 4), 1) == found[:12]


def test_three_boots_are_what_the_comparison_asks_for():
    assert request.BOOTS == BOOTS_FOR_KERNELS_MIN


def test_all_is_measured_once_in_turn_and_the_second_time_nothing(guests, bench, kept):
    done = bench(*BOTH)
    assert done.exit_code == 0, done.output
    assert Counter(guests.started) == {"a": 3, "b": 3}
    assert [set(guests.started[at : at + 2]) for at in (0, 2, 4)] == [{"a", "b"}] * 3
    expected = {(kernel, n): 2 * NR_CASES for kernel in ("6.1.0", "6.18.0") for n in (1, 2, 3)}
    assert counted(kept) == expected
    assert "24 repetitions made, 0 were in" in done.output
    boots = kept("SELECT DISTINCT json_extract(manifest, '$.boot_id') FROM repetitions")
    assert len(boots) == 6
    again = bench(*BOTH)
    assert "0 repetitions made, 24 were in" in again.output
    assert len(guests.started) == 6
    # Two boots more of each, and no boot that was there.
    assert bench(*BOTH, "--boots", "5").exit_code == 0
    assert len(guests.started) == 10
    assert bench(*BOTH, "--again").exit_code == 0
    assert max(series for _, series in counted(kept)) == 8


def test_what_is_compared_is_kernels_by_their_boots(guests, bench, tmp_path):
    told = bench(*BOTH, "--json", "--report", str(tmp_path / "page.html"), "--quiet")
    assert told.exit_code == 0, told.output
    rows = json.loads(told.stdout)
    assert [row["kernel"] for row in rows] == ["6.1.0 (VM)", "6.18.0 (VM)"] * NR_CASES
    answer = rows[1]["against_first"]
    assert answer["against"] == "6.1.0 (VM)"
    assert answer["why"].startswith("Each boot is one run, the median of its repetitions: Welch")
    assert answer["ratio"] == pytest.approx(0.5, rel=0.05)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "virtual machine with 2 CPUs (TCG) on " in page
    assert "QEMU translates what a guest executes" in page
    assert "Each boot is one run" in page
    assert "6 times in each setup, in 3 boots of its own, in randomised complete blocks" in page


def test_a_job_tells_the_guest_what_to_run_and_how_long(guests, bench):
    bench("--kernel", "b", "--boots", "1", "--repeat", "1", "--cpus", "4,1,2,2")
    [job] = guests.jobs
    first, *rest = job["work"]
    assert first == {"kind": "read", "paths": list(bench_guests.PATHS)}
    commands = rest[::2]
    assert {one["kind"] for one in rest[1::2]} == {"wait"}
    # A warm-up and a repetition of each case.
    assert Counter(one["argv"][3] for one in commands) == {"1": 2, "2": 2}
    assert commands[0]["argv"][:3] == ["/bin/schedlab-bench", "pipe", "-l"]
    assert commands[0]["argv"][4:] == ["--in", "/tmp", "--cpus", "4"]
    assert commands[0]["time_limit_ns"] == 20_000_000_000
    assert "policy" not in job


def test_five_repetitions_a_boot_unless_it_is_said(guests, bench, kept):
    assert bench("--kernel", "b", "--boots", "1").exit_code == 0
    assert counted(kept) == {("6.18.0", 1): request.REPETITIONS_A_BOOT * NR_CASES}


def test_what_no_guest_can_run_is_named_with_the_reason(guests, bench, tmp_path):
    done = bench("--kernel", "b", "--quiet")
    line = "left out in a virtual machine: sort (needs sort), compile (needs gcc, make)"
    assert line in done.stderr.splitlines()
    alone = bench("--kernel", "b", "--only", "compile")
    assert isinstance(alone.exception, SchedlabError)
    assert "nothing of suite mine can be measured" in str(alone.exception)
    assert '"{bench}"' in alone.exception.hint


def test_the_surroundings_are_the_guests_and_say_what_runs_it(guests, bench, kept):
    bench("--kernel", "b", "--boots", "1", "--memory", "512")
    [(text,)] = kept("SELECT facts FROM surroundings")
    facts = json.loads(text)
    assert facts["kernel"]["version"] == "#1 made"
    assert facts["kernel"]["preemption"] == "voluntary"
    assert facts["kernel"]["hz"] == 250
    assert facts["machine"]["memory_kib"] == 2048
    assert facts["machine"]["nr_cpus"] == 2
    assert facts["machine"]["virtual"].startswith("QEMU 7.2, TCG, 512 MiB; its host: Linux ")
    assert facts["host"]["kernel"]["release"] == os.uname().release
    assert facts["scheduler"] == "kernel"
    assert set(facts["tools"]) == {"qemu", "schedlab-guest", "schedlab-bench"}
    assert "not asked for" not in text


# ---- what goes wrong ----------------------------------------------------------------------------


def test_a_boot_that_breaks_off_is_told_and_the_others_go_on(guests, bench, kept):
    console = "\n".join(f"line {n}" for n in range(9)) + "\nKernel panic - not syncing: oops\n"
    # What comes first; two warm-ups and a repetition with their pauses; one that was not heard out.
    guests.fates[2] = lambda boot: cut(boot, FIRST + 3 * EACH + 2, "panicked", console)
    done = bench(*BOTH)
    assert done.exit_code == 1
    victim = guests.started[2]
    [line] = [one for one in done.stderr.splitlines() if one.startswith("error")]
    assert line == (
        f"error: boot 2 of {victim}: the guest ended so: panicked; 3 of 6 repetitions were made"
    )
    assert "  Kernel panic - not syncing: oops" in done.stderr.splitlines()
    assert "line 3" not in done.stderr
    assert sum(counted(kept).values()) == 21
    assert "note: some boots are not complete; the same command goes on" in done.stderr
    again = bench(*BOTH)
    assert again.exit_code == 0, again.output
    assert guests.started[6:] == [victim]
    assert set(counted(kept).values()) == {4}
    assert "3 repetitions made, 21 were in" in again.stderr


def test_of_a_console_the_lines_are_told_in_which_the_kernel_says_why_it_dies():
    before = [f"[ 1.{n}] line" for n in range(9)]
    story = [
        "[ 2.0] BUG: kernel NULL pointer dereference, address: 0",
        "[ 2.1] Oops: 0002 [#1] SMP",
    ]
    after = ["[ 2.2] CPU: 0 PID: 1 Comm: init", *(f"[ 3.{n}] R{n}: 0" for n in range(9))]
    died = "\n\n".join([*before, *story, *after])
    assert vm.evidence(died) == [*story, *after[:3]]
    assert vm.evidence("\n".join(before)) == before[-5:]
    assert vm.evidence("") == []


def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(guests, bench, kept):
    def interrupted(boot):
        return Played([*boot.records[:-6], KeyboardInterrupt])

    guests.fates[1] = interrupted
    done = bench(*BOTH)
    assert done.exit_code != 0
    assert re.search(r"\d of 24 repetitions are kept in .*; the same command goes on", done.stderr)
    before = sum(counted(kept).values())
    assert 4 < before < 8
    assert len(guests.started) == 2
    again = bench(*BOTH)
    assert again.exit_code == 0, again.output
    assert f"{24 - before} repetitions made, {before} were in" in again.stderr


def test_a_boot_that_was_started_twice_is_told(guests, bench):
    def twice(boot):
        boot.failed_start = "the guest's kernel panicked: double fault"
        return boot

    guests.fates[0] = twice
    done = bench("--kernel", "b", "--quiet")
    assert done.exit_code == 0
    assert "boot 1 of b was started twice" in done.stderr
    assert "double fault" in done.stderr


def test_a_program_that_fails_is_told_and_tried_in_another_boot(guests, bench, kept):
    def fails(boot):
        records = [
            finished(one["index"], None, 11, output="what it said\n")
            if one["record"] == "finished" and one["index"] == 7
            else one
            for one in boot.records
        ]
        return Played(records)

    guests.fates[0] = fails
    done = bench("--kernel", "b", "--boots", "1", "--repeat", "2")
    assert done.exit_code == 1
    assert re.search(r"error: pipe n=\d failed in boot 1 of b: SIGSEGV ended it\n  what it said",
                     done.stderr)  # fmt: skip
    assert counted(kept) == {("6.18.0", 1): 3}
    assert bench("--kernel", "b", "--boots", "1", "--repeat", "2").exit_code == 0
    assert counted(kept) == {("6.18.0", 1): 4}


def test_what_failed_twice_in_a_row_is_left_alone_in_later_boots(guests, bench):
    def commands(job):
        return {one["index"]: one["argv"] for one in indexed(job) if one["kind"] == "command"}

    def indexed(job):
        return ({"index": index, **work} for index, work in enumerate(job["work"]))

    def fails(boot):
        argv = commands(guests.jobs[-1])
        hopeless = argv[1]
        return Played(
            [
                finished(one["index"], 1)
                if one["record"] == "finished" and argv[one["index"]] == hopeless
                else one
                for one in boot.records
            ]
        )

    guests.fates[0] = fails
    done = bench("--kernel", "b", "--boots", "3", "--repeat", "2")
    assert done.exit_code == 1
    first, *later = (list(commands(job).values()) for job in guests.jobs)
    assert len(later) == 2
    assert first[0] in first and all(first[0] not in argvs and argvs for argvs in later)


def test_what_qemu_did_not_tell_is_flagged_and_in_a_boot_nothing_is_made_up_for(
    guests, bench, kept
):
    def gone(boot):
        # No process has a number above the kernel's PID_MAX_LIMIT, 2^22: see proc(5).
        boot.pid = 2**22 + 1
        return boot

    guests.fates |= {0: gone, 1: gone}
    done = bench("--kernel", "b", "--boots", "2", "--repeat", "2", "--json")
    assert done.exit_code == 0, done.output
    rows = kept("SELECT noisy, manifest FROM repetitions WHERE NOT warm_up")
    assert [noisy for noisy, _ in rows] == [1] * 2 * 2 * NR_CASES
    for _, text in rows:
        manifest = json.loads(text)
        assert manifest["noisy"] == [
            "what others did is not known: QEMU was gone before it could be asked"
        ]
        assert (manifest["foreign_ns"], manifest["steal_ns"]) == (None, None)
    assert [row["noisy"] for row in json.loads(done.stdout)] == [4] * NR_CASES


# ---- policies -----------------------------------------------------------------------------------


def test_a_policy_has_boots_of_its_own_in_kernels_that_take_it(guests, bench, kept):
    done = bench(*BOTH, "--policies", "kernel,bfs", "--json")
    assert done.exit_code == 0, done.output
    assert Counter(guests.started) == {"a": 3, "b": 3, "bfs on b": 3}
    assert "kernel a takes no policies: only its own scheduler is measured in it" in done.stderr
    jobs = [job for name, job in zip(guests.started, guests.jobs, strict=True) if "bfs" in name]
    assert all(job["policy"] == {"object": "/policy.o", "set": {"slice_ns": "7"}} for job in jobs)
    rows = json.loads(done.stdout)
    assert [(row["kernel"], row["scheduler"]) for row in rows[:3]] == [
        ("6.1.0 (VM)", "kernel"), ("6.18.0 (VM)", "kernel"), ("6.18.0 (VM)", "bfs"),
    ]  # fmt: skip


def test_an_ejected_policy_counts_nothing_that_it_did_not_schedule(guests, bench, kept):
    def ejected(boot):
        # Right after the first repetition that counts, in the place of its pause.
        return Played([*boot.records[: FIRST + EACH * NR_CASES + 2], EJECTED])

    guests.fates |= dict.fromkeys(range(9), ejected)
    done = bench("--kernel", "b", "--policies", "bfs", "--repeat", "2")
    assert done.exit_code == 1
    assert counted(kept) == {}
    why = "bfs was no longer in force: the kernel ended it: runnable task stall: a[1] failed to run"
    assert f"failed in boot 1 of bfs on b: {why}" in done.stderr
    # Two warm-ups were made; the reason is told where it happened, and not once more of the boot.
    boot = "boot 1 of bfs on b: bfs was no longer in force; 2 of 6 repetitions were made"
    assert f"error: {boot}\n" in done.stderr
    # Two boots that were lost in a row are enough.
    assert guests.started == ["bfs on b"] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kernel", "a", "--policies", "bfs"), "cannot be loaded into kernel a (6.1.0)"),
        (("--kernel", "a", "--policies", "kernel,bfs"), "cannot be loaded into kernel a (6.1.0)"),
        ((*BOTH, "--policies", "bfs"), "cannot be loaded into kernel a (6.1.0)"),
        (("--kernel", "b", "--policies", "bfs,bfs"), "names a policy twice"),
        (("--kernel", "b", "--until-ci", "1%", "--again"), "--again makes no other boots"),
        (("--kernel", "b", "--kernel", "b"), "--kernel 'b' is given twice"),
        (("--kernel", "b", "--kernel", "twin"), "kernels b and twin are the same image"),
        (("--kernel", "b", "--cpus", "4,2"), "'4,2' is not a number of CPUs"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_booted(guests, bench, options, said):
    done = bench(*options)
    assert isinstance(done.exception, SchedlabError), done.output
    assert said in str(done.exception)
    assert done.exception.hint
    assert not guests.started


@pytest.mark.parametrize(
    ("kernels", "policies", "hint", "way_out"),
    [
        (("a",), "bfs", "without --policies each kernel is measured under its own", None),
        (("a",), "kernel,bfs", "without --policies each kernel is measured under its own", None),
        (("a", "b"), "bfs", "with kernel among --policies, it is measured under", "kernel,bfs"),
    ],
)
def test_the_hint_for_a_kernel_that_takes_no_policy_leads_on(
    guests, bench, kernels, policies, hint, way_out
):
    options = [word for name in kernels for word in ("--kernel", name)]
    refused = bench(*options, "--policies", policies).exception
    assert refused.hint.startswith("name a --kernel that takes policies, see `schedlab kernels")
    assert hint in refused.hint
    followed = ("--policies", way_out) if way_out else ()
    done = bench(*options, *followed, "--boots", "1", "--repeat", "1")
    assert done.exit_code == 0, done.output
    assert "a" in guests.started


@pytest.mark.parametrize("option", ["--kernel", "--boots", "--cpus", "--memory"])
def test_options_of_virtual_machines_need_one(command, tmp_path, option):
    (tmp_path / "mine.toml").write_text(SUITE)
    done = command("bench", "mine.toml", option, "200")
    assert done.returncode == 2
    assert f"error: {option} is for virtual machines\nhint: add --on vm" in done.stderr


# ---- a real kernel ------------------------------------------------------------------------------

REAL = """
title = "Real"
repetitions = 2
warm_up = 1
timeout_s = 30

[[benchmark]]
name = "pipe"
description = "Two tasks."
command = ["{bench}", "pipe", "-l", "200"]
record = { json = "figure.value" }
unit = "us"

[[benchmark]]
name = "true"
description = "Not in a guest."
command = "true"
"""


@pytest.mark.qemu
def test_a_real_kernel_is_measured_once(tmp_path, kept):
    kernel = named("6.18")
    try:
        programs.GUEST.find()
        programs.BENCH.find()
    except SchedlabError as error:
        pytest.skip(str(error))
    (tmp_path / "real.toml").write_text(REAL)
    words = ["bench", "real.toml", "--on", "vm", "--kernel", kernel, "--boots", "1", "--cpus", "1"]
    command = [sys.executable, "-m", "schedlab", *words, "--work-dir", "work", "--store", "s.db"]

    def run():
        environment = os.environ | {"NO_COLOR": "1"}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip

    first = run()
    assert first.returncode == 0, first.stderr
    assert "left out in a virtual machine: true (needs a shell)" in first.stderr
    assert "2 repetitions made, 0 were in s.db" in first.stderr
    values = kept("SELECT value FROM repetitions WHERE NOT warm_up")
    assert len(values) == 2 and all(value > 0 for (value,) in values)
    [(text,)] = kept("SELECT facts FROM surroundings")
    facts = json.loads(text)
    assert facts["kernel"]["release"].startswith("6.18")
    assert facts["machine"]["virtual"].startswith("QEMU")
    assert facts["machine"]["memory_kib"] > 512 * 1024
    assert facts["load"] is not None and facts["scheduler"] == "kernel"
    [(manifest,)] = kept("SELECT manifest FROM repetitions WHERE slot = '1'")
    assert json.loads(manifest)["user_ns"] + json.loads(manifest)["system_ns"] > 0
    second = run()
    assert "0 repetitions made, 2 were in s.db" in second.stderr
    assert second.returncode == 0 and second.stdout == first.stdout


def test_the_guests_end_is_a_programs_end():
    assert bench_boots.ended_of(finished(1)).failure is None
    assert bench_boots.ended_of(finished(1, status=3, output="why")).failure == "exit status 3"
    assert bench_boots.ended_of(finished(1, status=3, output="why")).stderr == "why"
    assert bench_boots.ended_of(finished(1, None, 9)).failure == "SIGKILL ended it"
    assert "was not done" in bench_boots.ended_of(finished(1, None, 9, True)).failure
