"""Goal: `schedlab size` counts what GNU's `size` counts, and code as the sections that hold it.

Method: the real command; `size` of binutils on the same objects as a second implementation, and an
object whose sizes are known because we wrote it.
"""

import json
import subprocess
from pathlib import Path

import pytest
from schedlab import catalogue
from schedlab.commands.size import sections_of
from schedlab.errors import SchedlabError

SOURCE = """
const char only_read[1000] = {1};
char written[300] = {1};
char starts_as_zero[5000];
int code(int of) { return of + only_read[of] + written[of] + starts_as_zero[of]; }
"""


def berkeley(path):
    """Text, data and bss as GNU's `size` prints them."""
    printed = subprocess.run(["size", path], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, printed.splitlines()[1].split()[:3]))


def test_sizes_of_an_object_are_those_of_its_variables(tmp_path):
    (tmp_path / "a.c").write_text(SOURCE)
    made = tmp_path / "a.o"
    subprocess.run(
        ["cc", "-O2", "-fno-asynchronous-unwind-tables", "-c", "-o", made, tmp_path / "a.c"],
        check=True,
    )

    sections = sections_of(made)

    assert sections["data"] == 300
    assert sections["bss"] == 5000
    assert 1000 + sections["code"] <= sections["text"] < 1100 + sections["code"]
    assert 0 < sections["code"] < 200
    assert sections["total"] == sections["text"] + 5300


@pytest.mark.parametrize("policy", ["fifo", "bfs", "cfs_gavl"])
def test_the_object_of_a_policy_measures_as_in_gnu_size(policy):
    source = catalogue.names(catalogue.POLICIES)[policy]
    path = Path(catalogue.load_policy(source).object_path)
    sections = sections_of(path)
    assert (sections["text"], sections["data"], sections["bss"]) == berkeley(path)


def test_the_command_tells_of_each_policy_and_of_2007(command):
    told = json.loads(command("size", "fifo", "cfs@2.6.31", "--json").stdout)

    assert [row["policy"] for row in told["policies"]] == ["fifo", "cfs"]
    fifo, cfs = told["policies"]
    assert 0 < fifo["code"] < cfs["code"]
    assert fifo["code"] % 8 == 0
    devel = told["announced_2007"][-1]
    assert (devel["object"], devel["total"]) == ("sched.o-CFS-devel", 26666)


def test_kernels_in_the_cache_stand_beside_those_of_2009(command, environment, tmp_path):
    told = json.loads(command("size", "--kernels", "--json").stdout)
    images = {row["kernel"]: row["size"] for row in told["published_2009"]}
    assert images["kernel-x86_64-2.6.31-gentoo-r4-bfs"] == 1974720
    for row in told["kernels"]:
        assert 0 < row["code"] <= row["text"] < row["size"]

    environment["XDG_CACHE_HOME"] = str(tmp_path)
    done = command("size", "--kernels")
    assert "1,991,232" in done.stdout
    assert "`schedlab kernels fetch` gets some" in done.stdout
    assert command("size", "fifo", "--kernels").returncode == 2


def test_what_is_no_object_is_refused_with_its_name(tmp_path, command):
    text = tmp_path / "a.o"
    text.write_text("not ELF")
    with pytest.raises(SchedlabError, match=r"a\.o cannot be measured"):
        sections_of(text)

    done = command("size", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown policy 'nope'")
