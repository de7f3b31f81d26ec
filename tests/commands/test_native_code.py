"""Goal: a plug-in and a compiler can be ended, are told of with what they were at, and never mix
what they print with what we do.

Method: run the real command with plug-ins and compilers that misbehave on purpose. Who must be
ended by a limit is given one of a second.
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
from schedlab.race import plugins

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "race.md"
SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")


def appears(path):
    """The number that somebody writes into a file, once it is there."""
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"), path)
    return int(path.read_text())


def test_help_warns_that_a_plug_in_has_the_users_rights(command):
    assert "code that runs with your rights" in " ".join(command("race", "--help").stdout.split())


# ---- compilers ----------------------------------------------------------------------------------


@pytest.fixture
def slow_compiler(tmp_path, environment):
    """A compiler without an end, which writes its number into a file: gives that."""
    script, note = tmp_path / "slow-cc", tmp_path / "compiler"
    script.write_text(f"#!/bin/sh\necho $$ >{note}\nexec sleep 1000\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    environment |= {"CC": str(script), "CLANG": str(script)}
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


# ---- plug-ins -----------------------------------------------------------------------------------

INCLUDES = """\
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
"""
# Writes the number of the process into a file.
NOTE = 'FILE *file = fopen("{path}", "w"); fprintf(file, "%d\\n", getpid()); fclose(file);'
TINY = ("-n", 4, "-l", 200, "--rounds", 1, "--structure", "red_black_tree", "-q")
POP = "static int64_t pop(void *that)\n{\n"


def plugin(folder, more="", pop=""):
    """The queue that the guide shows, with more in it, and in its `pop`."""
    shown = re.search(r"^```c\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)[1]
    assert POP in shown
    source = folder / "mine.c"
    text = shown.replace(POP, POP + pop, 1)
    source.write_text(f"{INCLUDES}{text}{more}")
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


def test_of_what_a_plug_in_prints_without_end_the_beginning_is_kept(command, tmp_path):
    flood = 'for (int i = 0; i < 100000; i++) puts("abcdefghi");'
    plugin(tmp_path, pop=f"static int n; if (!n++) {flood}\n")
    done = command("race", "--with", "mine.c", *TINY)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert said[:2] == ["note: a plug-in printed:", "| abcdefghi"]
    assert said[-1] == f"| ({1_000_000 - workers.PRINTED_BYTES_MAX:,} bytes more are not shown)"


FORK = "static int is_done; if (!is_done++ && fork() == 0) {{ {note} sleep(1000); }}"


@pytest.mark.parametrize("then", ["", "abort();"])
def test_what_a_plug_in_has_started_ends_with_its_heat(command, tmp_path, then):
    """Also if it ends its process: what it has started keeps that one's pipes open."""
    note = tmp_path / "child"
    wait = f'while (access("{note}", F_OK)) usleep(1000);'
    plugin(tmp_path, pop=FORK.format(note=NOTE.format(path=note)) + wait + then)
    done = command("race", "--with", "mine.c", *TINY)
    assert done.returncode == (2 if then else 0), done.stderr
    assert_it_goes(appears(note), "what the plug-in has started")


def test_a_plug_in_that_has_stopped_its_process_goes_with_a_killed_schedlab(environment, tmp_path):
    note, child = tmp_path / "worker", tmp_path / "child"
    wait = f'while (access("{child}", F_OK)) usleep(1000);'
    pop = f"{FORK.format(note=NOTE.format(path=child))} {wait} {NOTE.format(path=note)}"
    plugin(tmp_path, pop=f"{pop} raise(SIGSTOP);")
    process = begin(environment, tmp_path, "race", "--with", "mine.c", *TINY)
    worker = appears(note)
    process.kill()
    process.wait()
    assert_it_goes(worker, "the worker")
    assert_it_goes(appears(child), "what the plug-in has started")
