"""Goal: whatever a user names is read within bounds, or refused as what it is.

Method: lead every option that names a file to pipes, devices, loops and large files, and every
reader of TOML and JSON to deep nesting; no command may hang, be refused memory, or show a
traceback. What is refused as too deep is held against the parsers' own reading.
"""

import json
import os
import socket
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedlab import catalogue, user_file
from schedlab.errors import SchedlabError

SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")
DEEP = 2_000
FIFO = "policies/fifo.bpf.c"


@pytest.fixture
def odd(tmp_path):
    """Makes what is no file; gives what is said of it."""

    def make(kind, name):
        path = tmp_path / name
        if kind == "pipe":
            os.mkfifo(path)
            return "is a pipe"
        if kind == "device":
            path.symlink_to("/dev/zero")
            return "is a device"
        if kind == "loop":
            (tmp_path / "other").symlink_to(path)
            path.symlink_to(tmp_path / "other")
            return "is a loop of links"
        if kind == "link":
            path.symlink_to("nowhere")
            return "is a link to nowhere, which does not exist"
        if kind == "large":
            with path.open("wb") as file:
                file.truncate(2 << 40)
            return "MiB, more than is read of such a file"
        path.mkdir()
        return "is a directory"

    return make


READ = [
    ("./x.bpf.c", ("run", "./x.bpf.c", *SCENARIO)),
    ("./x.toml", ("run", "fifo", "--workload", "./x.toml", "--machine", "laptop")),
    ("./x.toml", ("run", "fifo", "--workload", "ping_pong", "--machine", "./x.toml")),
    ("./x.toml", ("compare", "--experiment", "./x.toml")),
    ("./x.toml", ("bench", "./x.toml")),
    ("./x.toml", ("validate", "--machine", "./x.toml")),
    ("x.trace", ("race", "--trace", "x.trace")),
    ("x.so", ("race", "--with", "x.so", "-n", "1")),
    ("x.c", ("race", "--with", "x.c", "-n", "1")),
    ("x.costs", ("calibrate", "here", "--costs", "x.costs")),
    ("x.image", ("kernels", "add", "x.image")),
]
WRITTEN = [
    ("x.db", ("run", "fifo", *SCENARIO, "--store", "x.db")),
    ("x.db", ("report", "x.db", "-o", "x.html")),
    ("x.db", ("export", "x.db", "-o", "x.csv")),
    ("x.db", ("merge", "new.db", "x.db")),
    ("x.db", ("race", "-n", "1", "--store", "x.db")),
    ("x.html", ("compare", "fifo", *SCENARIO, "--report", "x.html")),
    ("x.html", ("race", "-n", "1", "--report", "x.html")),
    ("x.csv", ("export", "x.db", "-o", "x.csv")),
    ("x.trace", ("run", "fifo", *SCENARIO, "--queue-trace", "x.trace")),
    ("here.toml", ("calibrate", "here", "--force")),
]  # fmt: skip


def assert_refused(done, told):
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert told in done.stderr.splitlines()[0]


@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "link", "large", "directory"])
def test_what_is_no_file_to_read_is_called_what_it_is(tmp_path, odd, kind):
    path = tmp_path / "x"
    told = odd(kind, "x")
    with pytest.raises(SchedlabError) as raised:
        user_file.read("the file", path, user_file.MADE_BYTES_MAX)
    assert str(raised.value).startswith("the file ") and told in str(raised.value)
    assert raised.value.hint


def test_a_socket_and_a_path_through_a_file_are_called_what_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        assert user_file.what_it_is(tmp_path / "socket") == "is a socket, and not a file"
    (tmp_path / "file").write_text("")
    told = user_file.what_it_is(tmp_path / "file" / "x")
    assert told == "cannot be reached: Not a directory"
    assert user_file.what_it_is(tmp_path / "a\0b") == "does not exist"
    assert user_file.what_it_is(tmp_path / "file") is None


def test_a_file_that_waits_for_more_is_refused(tmp_path, monkeypatch):
    """As some of the kernel's do, that are files to whoever asks; a pipe stands in for them."""
    path = tmp_path / "x"
    os.mkfifo(path)
    monkeypatch.setattr(user_file, "refuse_unfit", lambda *_: None)
    keeps_open = os.open(path, os.O_RDWR)
    with pytest.raises(SchedlabError, match="has no end"):
        user_file.read("the file", path, 100)
    os.close(keeps_open)


def test_a_file_of_no_size_that_never_ends_is_read_to_the_bound(monkeypatch):
    """As in /proc, where every file is of size 0; a device stands in for one."""
    monkeypatch.setattr(user_file, "refuse_unfit", lambda *_: None)
    with pytest.raises(SchedlabError, match="is larger than 1 MiB"):
        user_file.read("the file", Path("/dev/zero"), 1 << 20)


@pytest.mark.parametrize(("name", "words"), READ)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_every_option_that_reads_a_file_refuses_what_is_none(command, odd, kind, name, words):
    told = odd(kind, name)
    assert_refused(command(*words), told)


@pytest.mark.parametrize(("name", "words"), WRITTEN)
@pytest.mark.parametrize("kind", ["pipe", "loop"])
def test_every_option_that_keeps_a_file_refuses_what_is_none(
    command, tmp_path, odd, kind, name, words
):
    told = odd(kind, name)
    assert_refused(command(*words), told)
    assert not (tmp_path / name).is_file()


@pytest.mark.parametrize(("name", "words"), [*READ[:5], READ[-1]])
def test_a_file_of_no_size_is_refused_as_empty(command, tmp_path, name, words):
    """Some in /proc have none and never end; an empty one stands in for them."""
    (tmp_path / name).write_text("")
    assert_refused(command(*words), "is empty")


@pytest.mark.parametrize("beside", ["mine.sets.toml", "mine.promises.toml"])
def test_what_is_read_beside_a_policy_is_a_file(command, tmp_path, odd, beside):
    (tmp_path / "mine.bpf.c").write_text("no policy")
    told = odd("device", beside)
    assert_refused(command("check", "./mine.bpf.c"), told)


def test_sets_that_are_those_of_what_is_no_file_are_refused(command, tmp_path, odd):
    (tmp_path / "mine.bpf.c").write_text((catalogue.data_directory() / FIFO).read_text())
    (tmp_path / "mine.sets.toml").write_text('same_as = "other"\n')
    odd("pipe", "other.sets.toml")
    done = command("run", "./mine.bpf.c", *SCENARIO)
    assert_refused(done, "other.sets.toml: it is not a file")


def test_a_user_that_there_is_not_is_told(command):
    assert_refused(
        command("run", "~nobody-here/x.bpf.c", *SCENARIO), "'~nobody-here/x.bpf.c' does not exist"
    )


# ---- nesting ------------------------------------------------------------------------------------

NESTED = {
    "arrays": "x = " + "[" * DEEP + "]" * DEEP,
    "tables": "x = " + "{a=" * DEEP + "1" + "}" * DEEP,
    "key": ".".join("a" * 100_000) + " = 1",
    "quoted": ".".join(['"a"'] * 100_000) + " = 1",
    "heading": "[" + " . ".join("a" * 100_000) + "]",
    "below": "[with]\n" + ".".join("a" * 52) + " = 1\n",
    "unclosed": "x = " + "[" * 100_000,
}


@pytest.mark.parametrize("what", NESTED)
@pytest.mark.parametrize("words", [("compare", "--experiment"), ("bench",)])
def test_toml_that_is_nested_deeply_is_refused(command, tmp_path, what, words):
    (tmp_path / "x.toml").write_text("\n\n" + NESTED[what])
    line = 4 if what == "below" else 3
    done = command(*words, "./x.toml")
    assert_refused(done, f"is not TOML: it is nested deeper than 50, in line {line}")


@pytest.mark.parametrize("text", ["[" * DEEP, '{"cost":' * DEEP, "[" * 60 + "]" * 60])
def test_json_that_is_nested_deeply_is_refused(command, tmp_path, text):
    (tmp_path / "costs").write_text(text)
    assert_refused(command("calibrate", "here", "--costs", "costs"), "nested deeper than 50")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 5000])
def test_json_with_a_number_that_is_none_is_refused(command, tmp_path, number):
    (tmp_path / "costs").write_text('{"cost": "syscall_ns", "median": ' + number + "}")
    assert_refused(command("calibrate", "here", "--costs", "costs"), "line is no JSON: ")


@pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000])
def test_a_number_longer_than_python_reads_or_says_is_refused(command, tmp_path, number):
    (tmp_path / "x.toml").write_text(f"repeat = {number}\n")
    assert_refused(command("compare", "--experiment", "./x.toml"), "x.toml is not TOML: ")


@pytest.mark.parametrize(
    "text",
    [
        'x = """' + "[{." * DEEP + '"""\n',
        "x = '''" + "[{." * DEEP + "'''\n",
        'x = "' + "[{.#" * DEEP + '"\n',
        "x = '" + "[{.#" * DEEP + "'\n",
        "# " + "[{.'\"" * DEEP + "\nx = 1\n",
        'x = "\\"' + "[{." * DEEP + '"\n',
        'x = ["""a""""' + ', """[b""""' * DEEP + "]\n",
        "x = [" + "1.5, " * DEEP + "]\n",
        "x = [" + "[1], " * DEEP + "]\n",
        "".join(f"a{n}.b.c = {n}\n" for n in range(DEEP)),
        "".join(f"[a{n}.b]\nc.d = {n}\n" for n in range(DEEP)),
    ],
)
def test_what_only_looks_deep_is_read(tmp_path, text):
    path = tmp_path / "x.toml"
    path.write_text(text)
    assert user_file.toml("the file", path) == tomllib.loads(text)


NESTS = st.recursive(
    st.text() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=30,
)


@given(NESTS)
def test_json_that_is_not_deep_is_read_as_by_its_parser(value):
    assert user_file.json_of(json.dumps(value)) == value
