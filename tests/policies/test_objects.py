"""Goal: whoever has the object that clang made of a policy gives it in place of the C.

Method: the same run both ways, by the real command; objects that are none, damaged, or no policy.
"""

import re
import shutil
import subprocess

import pytest
from schedlab import catalogue

SCENARIO = ("--workload", "ping_pong", "--machine", "laptop")


@pytest.fixture
def built(tmp_path):
    """The object of a shipped policy in an empty folder, alone."""

    def build(name):
        source = catalogue.find(catalogue.POLICIES, name)
        return shutil.copy(catalogue.load_policy(source).object_path, tmp_path / f"{name}.bpf.o")

    return build


def digest_of(done):
    assert done.returncode == 0, done.stderr
    return re.search(r"^digest +([0-9a-f]{16})$", done.stdout, re.M)[1]


@pytest.mark.parametrize("name", ["fifo", "eevdf"])
def test_an_object_runs_as_its_source_does(command, built, name):
    built(name)
    assert digest_of(command("run", f"./{name}.bpf.o", *SCENARIO)) == digest_of(
        command("run", name, *SCENARIO)
    )


def test_tunables_of_an_object_are_set_and_it_is_compared_and_checked(command, built):
    built("round_robin")
    setting = ("--set", "round_robin.slice_ns=1000000")
    as_object = command("run", "./round_robin.bpf.o", *SCENARIO, *setting)
    assert digest_of(as_object) == digest_of(command("run", "round_robin", *SCENARIO, *setting))
    done = command("compare", "fifo", "./round_robin.bpf.o", *SCENARIO, "--repeat", "2")
    assert done.returncode == 0, done.stderr
    done = command("check", "./round_robin.bpf.o", "--only", "random", "--seeds", "5")
    assert done.returncode == 0, done.stderr
    assert "nothing violated" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty"),
        (b"\x7fELF and no more", "cannot be read"),
        (b"int main(void) { return 0; }", "cannot be read"),
    ],
)
def test_what_is_no_object_is_refused(command, tmp_path, text, said):
    (tmp_path / "mine.bpf.o").write_bytes(text)
    done = command("run", "./mine.bpf.o", *SCENARIO)
    assert done.returncode == 2
    assert said in done.stderr
    assert "mine.bpf.o" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_object_without_a_policy_is_refused(command, tmp_path):
    source = tmp_path / "none.bpf.c"
    source.write_text("unsigned long total;\n")
    words = ["clang-19", "-g", "-target", "bpf", "-c", source, "-o", tmp_path / "none.bpf.o"]
    subprocess.run(words, check=True)
    done = command("run", "./none.bpf.o", *SCENARIO)
    assert done.returncode == 2
    assert "none" in done.stderr
    assert "SCX_OPS_DEFINE" in done.stderr
