"""Goal: nothing that a file, a program or a policy says is obeyed by a terminal.

Method: put escape sequences wherever a user's files, names and policies can bring a text to the
screen, run the real command, and look for the bytes; and the rule itself against every character.
"""

import io
import json
import os
import pty
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from schedlab import shown
from schedlab.report import tables

# Clears the screen, sets the title, writes the clipboard: in seven bits and in eight.
OBEYED = "\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x07\x9b2J\x9d0;x\x9c"
SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")
BUSY = ("--workload", "hackbench", "--machine", "core2-t5600", "--with", "loops=1")

PRINTS = """/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* prints - says what a terminal obeys. */
#include <scx/common.bpf.h>

char _license[] SEC("license") = "GPL";

void BPF_STRUCT_OPS(prints_enqueue, struct task_struct *p, u64 enq_flags)
{
	/* A kernel takes no such format. */
	bpf_printk("says %s", "\\033[2J\\007");
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}

SCX_OPS_DEFINE(prints_ops, .enqueue = (void *)prints_enqueue, .name = "prints");
"""


def assert_only_shown(text):
    """No control but tab and new line, and nothing that reorders a line."""
    assert not [c for c in text if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]
    assert not set(text) & set("\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069")


def toml(text):
    """A text in TOML, whose files may not hold controls themselves."""
    return '"' + "".join(f"\\U{ord(c):08X}" for c in text) + '"'


@given(st.text(st.characters()))
def test_what_is_shown_has_no_character_that_a_terminal_obeys(text):
    assert_only_shown(shown.shown(text))


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))))
def test_other_characters_tabs_and_new_lines_are_shown_as_they_are(text):
    assert shown.shown(f"{text}\t{text}\n") == f"{text}\t{text}\n"


@given(st.text(st.characters()))
def test_a_json_document_that_is_shown_is_the_same_document(text):
    document = shown.in_json(json.dumps({"text": text}, ensure_ascii=False))
    assert_only_shown(document)
    assert json.loads(document) == {"text": text}


def test_controls_are_written_out():
    assert shown.shown("a\x1b[1m\r\x7f\x9b\u202e") == r"a\x1b[1m\x0d\x7f\x9b\u202e"
    assert shown.shown("one\r\ntwo\n") == "one\ntwo\n"
    assert shown.shown(os.fsdecode(b"bad\xff.toml")) == r"bad\xff.toml"


def test_a_stream_shows_what_is_said_and_writes_what_is_drawn():
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii", line_buffering=True)
    stream = shown.Stream(raw)
    print("said \x1b[1m é \udcff", file=stream)
    shown.write_own(stream, "drawn \x1b[1m")
    assert raw.buffer.getvalue().decode() == "said \\x1b[1m é \\xff\ndrawn \x1b[1m"


def test_cells_of_tables_are_shown_and_wide_enough_for_it(capsys):
    table = Table(f"head{OBEYED}")
    table.add_row(OBEYED)
    table.add_row("plain")
    tables.print_table(table)
    out = capsys.readouterr().out
    assert_only_shown(out)
    assert shown.shown(OBEYED) in out
    assert len({len(line) for line in out.splitlines()}) == 1


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("key.toml", f"{toml(OBEYED)} = 1\n", ("compare", "--experiment", "./key.toml")),
        ("bad.toml", "repeat = \x1b[2J\n", ("compare", "--experiment", "./bad.toml")),
        ("mine.toml", f"{toml(OBEYED)} = 1\n", ("run", "fifo", "--workload", "./mine.toml",
         "--machine", "laptop")),
        ("mine.toml", "speed = \x1b[2J\x07\n", ("run", "fifo", "--workload", "ping_pong",
         "--machine", "./mine.toml")),
        ("title.toml", f"title = {toml(OBEYED)}\nname = {toml(OBEYED)}\npolicies = ['fifo']\n"
         f"description = {toml(OBEYED)}\nworkload = 'ping_pong'\nmachine = 'laptop'\nrepeat = 1\n",
         ("compare", "--experiment", "./title.toml")),
        ("suite.toml", f"title = {toml(OBEYED)}\n[[benchmark]]\nname = {toml(OBEYED)}\n",
         ("bench", "./suite.toml")),
        ("loud.bpf.c", f"#error {OBEYED}\n", ("run", "./loud.bpf.c", *SCENARIO)),
        ("prints.bpf.c", PRINTS, ("run", "./prints.bpf.c", *BUSY)),
        ("costs", '{"cost": "\\u001b[2J", "of": "\\u009b", "median": "x", "low": 1, "high": 1,'
         ' "unit": "ns", "runs": 1}', ("calibrate", "here", "--costs", "costs")),
        ("x", "", ("run", f"fifo{OBEYED}", *SCENARIO)),
        ("x", "", ("run", "fifo", f"--{OBEYED}")),
        (f"own{OBEYED}.toml".replace("/", ""), "x", ("run", "fifo", *SCENARIO, "--store",
         f"{OBEYED}/no.db")),
    ],
)  # fmt: skip
def test_what_users_files_say_is_shown_and_not_obeyed(command, tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    done = command(*words)
    assert_only_shown(done.stdout + done.stderr)
    assert "Traceback" not in done.stderr


def test_what_a_policy_prints_is_shown(command, tmp_path):
    (tmp_path / "prints.bpf.c").write_text(PRINTS)
    assert r"says \x1b[2J\x07" in command("run", "./prints.bpf.c", *BUSY).stderr


def test_the_title_of_an_experiment_is_shown_where_it_stood(command, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'title = "a\\u001b[1mb"\npolicies = ["fifo"]\nworkload = "ping_pong"\nrepeat = 1\n'
        'machine = "laptop"\n'
    )
    assert command("compare", "--experiment", "./mine.toml").stdout.startswith("a\\x1b[1mb\n")


def test_colours_of_ones_own_reach_a_terminal(environment, tmp_path):
    """On a terminal a table's headings are bold, and an unknown name is still shown."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "schedlab", "list", "machines"]
    coloured = {k: v for k, v in environment.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    with subprocess.Popen(words, cwd=tmp_path, env=coloured, stdout=theirs) as process:
        os.close(theirs)
        out = b""
        while True:
            try:
                out += os.read(ours, 65536)
            except OSError:  # What Linux says at the end of a terminal.
                break
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[1m" in out
    assert b"\\x1b" not in out
