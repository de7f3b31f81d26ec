"""Goal: what real tasks cannot do is refused before any machine is looked for or booted, in the
words of the user's file.

Method: the real command with workloads that only a simulation can follow, where there is neither
kernel nor QEMU: had it looked for them, it would have said so.
"""

import pytest

SMALL_MESSAGES = """
[channels.c]
capacity_bytes = 64
[[tasks]]
name = "typist"
program = [{ release = "40ms", deadline = "40ms" }, { send = "c", bytes = 1 }]
[[tasks]]
name = "editor"
program = [{ recv = "c", bytes = 1 }, "done"]
"""
# What is sent as eight bytes is read in pieces of one.
TORN_MESSAGES = SMALL_MESSAGES.replace("bytes = 1", "bytes = 8", 1)
STRANGE_SPACE = """
[templates.thread]
address_space = "a"
program = [{ run = "1us" }]
[[tasks]]
name = "main"
program = [{ fork = "thread" }]
"""


@pytest.fixture
def nothing_to_boot(environment, tmp_path):
    """An environment without QEMU and kernels."""
    environment["XDG_CACHE_HOME"] = str(tmp_path / "no-cache")


@pytest.mark.parametrize(
    ("text", "key", "way_out"),
    [
        (SMALL_MESSAGES, "task `typist` has `send` of 1 bytes", "the same `bytes`"),
        (TORN_MESSAGES, "task `editor` has `recv` of 1 bytes", "the same `bytes`"),
        (STRANGE_SPACE, "task `main` forks `thread`", "the same address_space"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "compare"])
def test_what_no_real_task_can_do_is_refused_before_anything_boots(
    command, nothing_to_boot, tmp_path, verb, text, key, way_out
):
    file = tmp_path / "game.toml"
    file.write_text(f'description = "mine"\nsource = "me"\n{text}')
    done = command(verb, "fifo", "--workload", file, "--on", "vm")
    assert done.returncode == 2, done.stderr
    error, _, hint = done.stderr.partition("hint: ")
    assert error.startswith(f"error: {file} cannot run on a real kernel: ")
    assert key in error
    assert way_out in hint
    assert hint.endswith("without --on vm it is simulated\n")
    assert not (tmp_path / "schedlab.db").exists()
    assert not (tmp_path / "no-cache").exists()


def test_every_value_that_is_varied_is_looked_at(command, nothing_to_boot, tmp_path):
    file = tmp_path / "game.toml"
    size = '[parameters.size]\ndefault = 8\ndoc = "bytes of a message"\n'
    text = SMALL_MESSAGES.replace("bytes = 1", 'bytes = "$size"')
    file.write_text(f'description = "mine"\nsource = "me"\n{size}{text}')
    vary = ("--vary", "size=8,2", "--on", "vm")
    done = command("compare", "fifo", "--workload", file, *vary)
    assert done.returncode == 2
    assert f"{file} cannot run on a real kernel: " in done.stderr
    assert "`send` of 2 bytes" in done.stderr


def test_a_wrong_parameter_is_still_told_by_its_name(command, nothing_to_boot):
    done = command("run", "fifo", "--workload", "desktop", "--with", "no_such=1", "--on", "vm")
    assert done.returncode == 2
    assert "unknown parameter 'no_such'" in done.stderr
