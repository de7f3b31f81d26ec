"""Goal: every policy compiles without a warning.

Method: build each with the compiler and flags that are promised, every warning an error.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "policies" / "include"
POLICIES = sorted((ROOT / "policies").glob("*.bpf.c"))

FLAGS = [
    *("-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"),
    *("-target", "bpf", "-mcpu=v3", "-c"),
]


def compile_policy(source: Path, directory: Path) -> subprocess.CompletedProcess:
    """Compiles `source` into `directory`; its messages are in `stderr`."""
    compiler = "clang-19"
    assert shutil.which(compiler), f"{compiler} is not installed: `make test` says how"
    command = [compiler, *FLAGS, f"-I{INCLUDE}", "-o", str(directory / "policy.o"), str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_there_are_policies():
    assert POLICIES


@pytest.mark.parametrize("source", POLICIES, ids=lambda path: path.name.removesuffix(".bpf.c"))
def test_a_policy_compiles_without_a_warning(source, tmp_path):
    done = compile_policy(source, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_policy_of_the_guide_compiles_without_a_warning(tmp_path):
    guide = (ROOT / "docs" / "guides" / "write_a_policy.md").read_text()
    source = tmp_path / "lottery.bpf.c"
    source.write_text(re.search(r"<!-- file: lottery.bpf.c -->\n```c\n(.*?)```", guide, re.S)[1])
    done = compile_policy(source, tmp_path)
    assert done.returncode == 0, done.stderr


MINIMAL = """
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";
void BPF_STRUCT_OPS(minimal_enqueue, struct task_struct *p, u64 enq_flags)
{
	%s
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
}
SCX_OPS_DEFINE(minimal_ops, .enqueue = (void *)minimal_enqueue, .name = "minimal");
"""


@pytest.mark.parametrize(
    ("statement", "accepted"),
    [
        ("", True),
        ("int unused;", False),
        ("if (p->pid < (u32)enq_flags) return;", False),
        ('printf("%d", p->pid);', False),
    ],
    ids=["nothing wrong", "unused variable", "signs compared", "libc"],
)
def test_a_warning_is_an_error(statement, accepted, tmp_path):
    source = tmp_path / "minimal.bpf.c"
    source.write_text(MINIMAL % statement)
    done = compile_policy(source, tmp_path)
    assert (done.returncode == 0) is accepted, done.stderr
