"""Goal: a policy, a plug-in and a compiler can be ended, are told of with what they were at, and
never mix what they print with what we do.

Method: run the real command with policies, plug-ins and compilers that misbehave on purpose. Who
must be ended by a limit is given one of a second.
"""

import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest
from running import PATIENCE_S, assert_it_goes, begin, wait_for
from schedlab import catalogue, workers
from schedlab.errors import SchedlabError
from schedlab.experiment import cells, definition, sweep
from schedlab.race import plugins

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "race.md"
SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")


def appears(path):
    """The number that somebody writes into a file, once it is there."""
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"), path)
    return int(path.read_text())


@pytest.mark.parametrize("verb", ["run", "compare", "check", "race"])
def test_help_warns_that_what_is_not_ours_has_the_users_rights(command, verb):
    assert "code that runs with your rights" in " ".join(command(verb, "--help").stdout.split())


# ---- compilers ----------------------------------------------------------------------------------


@pytest.fixture
def slow_compiler(tmp_path, environment):
    """A compiler without an end, which writes its number into a file: gives that."""
    script, note = tmp_path / "slow-cc", tmp_path / "compiler"
    script.write_text(f"#!/bin/sh\necho $$ >{note}\nexec sleep 1000\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    environment["CC"] = str(script)
    return note


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("verb", ["run", "race"])
def test_a_signal_to_schedlab_alone_ends_it_and_its_compiler(
    tmp_path, environment, slow_compiler, verb, number, code
):
    (tmp_path / "queue.c").write_text("int queue;\n")
    words = ("run", "fifo", *SCENARIO) if verb == "run" else ("race", "--with", "queue.c")
    process = begin(environment, tmp_path, *words)
    compiler = appears(slow_compiler)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said.strip()) == (code, "interrupted")
    assert_it_goes(compiler, "the compiler")


# ---- policies -----------------------------------------------------------------------------------

POLICY = """/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* {name} - does wrong. */
#include <scx/common.bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char _license[] SEC("license") = "GPL";

static __attribute__((unused)) void note(const char *path)
{{
	FILE *file = fopen(path, "w");

	fprintf(file, "%d\\n", getpid());
	fclose(file);
}}

{more}

void BPF_STRUCT_OPS({name}_enqueue, struct task_struct *p, u64 enq_flags)
{{
	{body}
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}}

SCX_OPS_DEFINE({name}_ops, .enqueue = (void *){name}_enqueue, .name = "{name}");
"""
# More tasks than CPUs, so that `enqueue` is called.
BUSY = ("--workload", "hackbench", "--machine", "core2-t5600", "--with", "loops=5")


@pytest.fixture
def policy(tmp_path):
    """Writes a policy whose `enqueue` does this first; gives its path."""

    def write(name, body="", more=""):
        path = tmp_path / f"{name}.bpf.c"
        path.write_text(POLICY.format(name=name, body=body, more=more))
        return path

    return write


@pytest.fixture
def alone(monkeypatch, cache):
    """Runs a policy by the coordinator of this very process, whose limits a test may set."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))

    def run(path):
        asked = {"policies": [str(path)], "workload": "hackbench", "machine": ["core2-t5600"]}
        [cell] = cells.expand(definition.build({**asked, "with": {"loops": "5"}, "repeat": 1}))
        said = []
        outcome = sweep.run_alone(cell, sweep.simulate_cell, said.append, said.append)
        return outcome.result, "".join(map(str, said))

    return run


@pytest.mark.parametrize(
    ("body", "number", "hint"),
    [
        ("*(volatile int *)0 = 1;", 11, "may be NULL"),
        ("volatile u64 zero = 0; p->scx.dsq_vtime = 7 / zero;", 8, "a kernel gives 0"),
        ("__builtin_trap();", 4, "a kernel gives 0"),
    ],
)
def test_a_crash_is_told_with_operation_cpu_time_and_task(command, policy, body, number, hint):
    done = command("run", policy("crasher", body), *BUSY, "--json")
    error = json.loads(done.stdout)["result"]["error"]
    assert (error["kind"], error["cpu"] in (0, 1), error["at_ns"] > 0) == ("crash", True, True)
    where = f"`enqueue`, called on CPU {error['cpu']} for task {error['task']}[{error['pid']}],"
    assert error["message"].startswith(f"{where} ended its process by signal {number} (")
    assert f"failed at {error['at_ns'] / 1e9:.6f} s with hackbench" in done.stderr
    [told] = [line for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert hint in told


def test_an_exit_is_told_with_its_place_too(alone, policy):
    result, _ = alone(policy("quitter", "_exit(0);"))
    assert result["error"]["message"].startswith("`enqueue`, called on CPU ")
    assert result["error"]["message"].endswith("ended its process with exit code 0")


@pytest.mark.parametrize(
    ("body", "more", "operation"),
    [
        ("sleep(1000);", "", "enqueue"),
        ("raise(SIGSTOP);", "", "enqueue"),
        (
            "",
            "__attribute__((constructor)) static void begin(void) { sleep(1000); }",
            "a constructor or destructor",
        ),
    ],
)
def test_a_policy_that_blocks_without_computing_is_ended(
    alone, policy, monkeypatch, body, more, operation
):
    monkeypatch.setattr(workers, "BLOCKED_WALL_S", 1.0)
    result, _ = alone(policy("blocker", body, more))
    assert sweep.is_crash(result)
    assert result["error"]["message"].startswith(f"`{operation}`, called on CPU ")
    assert "has not gone on after 1 s and does not compute" in result["error"]["message"]


FORK = 'static int is_done; if (!is_done++ && fork() == 0) {{ note("{path}"); sleep(1000); }}'


@pytest.mark.parametrize("then", ["", "abort();"])
def test_what_a_policy_has_started_ends_with_its_run(alone, policy, tmp_path, then):
    """Also if the policy ends its process: what it has started keeps that one's pipes open."""
    note = tmp_path / "child"
    wait = f'while (access("{note}", F_OK)) usleep(1000);'
    result, _ = alone(policy("parent", FORK.format(path=note) + wait + then))
    assert sweep.is_crash(result) == bool(then)
    assert_it_goes(appears(note), "what the policy has started")


def test_a_policy_that_has_stopped_its_process_goes_with_a_killed_schedlab(
    environment, policy, tmp_path
):
    note, child = tmp_path / "worker", tmp_path / "child"
    wait = f'while (access("{child}", F_OK)) usleep(1000);'
    body = f'{FORK.format(path=child)} {wait} note("{note}"); raise(SIGSTOP);'
    process = begin(environment, tmp_path, "run", policy("stopper", body), *BUSY)
    worker = appears(note)
    process.kill()
    process.wait()
    assert_it_goes(worker, "the worker")
    assert_it_goes(appears(child), "what the policy has started")


# ---- what they print ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [("run",), ("compare", "--repeat", "2", "--quiet")])
def test_what_a_policy_prints_never_mixes_with_what_we_do(command, policy, verb):
    body = 'if (p->pid == 3) { printf("out\\n"); fprintf(stderr, "err"); }'
    done = command(*verb, policy("talker", body), *BUSY, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert done.stderr.startswith("note: policy talker printed:\n| out\n| err")
    assert done.stderr.count("talker printed") == 1, "once a policy"


def test_what_a_policy_prints_before_it_dies_is_not_lost(alone, policy):
    _, said = alone(policy("last", 'printf("last words\\n"); abort();'))
    assert said == "note: policy last printed:\n| last words"


def test_of_what_a_policy_prints_without_end_the_beginning_is_kept(alone, policy, monkeypatch):
    monkeypatch.setattr(workers, "PRINTED_BYTES_MAX", 30)
    body = 'for (int i = 0; i < 100000; i++) puts("abcdefghi");'
    result, said = alone(policy("flood", f"static int is_done; if (!is_done++) {body}"))
    assert result["status"] == "completed"
    assert said == (
        "note: policy flood printed:\n| abcdefghi\n| abcdefghi\n| abcdefghi\n"
        "| (999,970 bytes more are not shown)"
    )


# ---- plug-ins -----------------------------------------------------------------------------------

TINY = ("-n", 4, "-l", 200, "--rounds", 1, "--structure", "red_black_tree", "-q")
POP = "static int64_t pop(void *that)\n{\n"


def plugin(folder, more="", pop=""):
    """The queue that the guide shows, with more in it, and in its `pop`."""
    shown = re.search(r"^```c\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)[1]
    assert POP in shown
    source = folder / "mine.c"
    text = shown.replace(POP, POP + pop, 1)
    source.write_text(f"#include <stdio.h>\n#include <unistd.h>\n{text}{more}")
    return source


CONSTRUCTOR = "__attribute__((constructor)) static void begin(void) { sleep(1000); }\n"


@pytest.mark.parametrize(
    "change", [{"pop": "for (;;);\n"}, {"pop": "sleep(1000);\n"}, {"more": CONSTRUCTOR}]
)
def test_a_plug_in_that_never_comes_back_is_ended_by_a_limit(tmp_path, monkeypatch, change):
    source = plugin(tmp_path, **change)
    built = catalogue.native().race_compile(
        str(source),
        str(catalogue.data_directory() / "crates/race/include"),
        str(tmp_path / "cache"),
    )
    monkeypatch.setattr(plugins, "STILL_S", 1.0)
    spec = {"workload": "hold", "n": 4, "rounds": 1, "loops": 200, "plugins": [str(built)]}
    with pytest.raises(SchedlabError, match=r"it has shown no progress for 1\.02 s"):
        plugins.race(spec, print)
    if "more" in change:
        with pytest.raises(SchedlabError, match="it has shown no progress for 1 s"):
            plugins.entrants([str(built)], print)


def test_a_bad_pointer_in_a_plug_ins_table_is_told_and_ends_nothing_of_ours(command, tmp_path):
    (tmp_path / "bad.c").write_text(
        "#include <stdint.h>\n"
        "const uint32_t schedlab_race_abi = 1;\n"
        "const void *const schedlab_race_queues[] = {(const void *)8, 0};\n"
    )
    done = command("race", "--with", "bad.c", *TINY)
    assert done.returncode == 2
    assert "error: a plug-in did not come to the end of its heat: SIGSEGV ended it" in done.stderr
    assert "hint: --with one plug-in at a time" in done.stderr


def test_what_a_plug_in_prints_never_mixes_with_what_we_do(command, tmp_path):
    plugin(tmp_path, pop='static int n; if (!n++) puts("popped");\n')
    done = command("race", "--with", "mine.c", *TINY, "--json")
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    assert done.stderr == "note: a plug-in printed:\n| popped\n"
