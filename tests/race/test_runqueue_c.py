"""Goal: the run queues for C do what schedlab_runqueue.h says, and the header what the library is.

Method: compare every declaration of the header with the function in Rust, type by type; then build
C programs against the static library, with sanitizers, and read what they print.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATE = ROOT / "crates" / "runqueue_c"
HEADER = CRATE / "include" / "schedlab_runqueue.h"
LIBRARY = ROOT / "target" / "release" / "libschedlab_runqueue.a"
INEXACT = {"fifo", "bitmap_levels", "time_ring"}

# C's types of the header, and what they are in Rust.
TYPES = {
    "int": "c_int",
    "int64_t": "i64",
    "size_t": "usize",
    "uint32_t": "u32",
    "uint64_t": "u64",
    "uint64_t *": "*mut u64",
    "const char *": "*const c_char",
    "void *": "*mut c_void",
    "struct schedlab_runqueue *": "*mut Queue",
    "const struct schedlab_runqueue *": "*const Queue",
    "struct schedlab_runqueue **": "*mut *mut Queue",
    "void (*)(void *, uint32_t, uint64_t)": ('Option<unsafe extern "C" fn(*mut c_void, u32, u64)>'),
}


@pytest.fixture(scope="module", autouse=True)
def library():
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "runqueue_c"]
    subprocess.run(command, cwd=ROOT, check=True)


def build(source: Path, output: Path, compiler: tuple[str, ...] = ("cc", "-std=c99")) -> Path:
    """Compiles and links a program; fails with the compiler's words."""
    flags = ["-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined"]
    linked = [str(LIBRARY), "-lpthread", "-lm", "-ldl"]
    command = [*compiler, *flags, f"-I{CRATE / 'include'}", str(source), *linked]
    done = subprocess.run([*command, "-o", output], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def parts(parameters: str) -> list[str]:
    """Parameters, separated by the commas that are in no parentheses."""
    return [part.strip() for part in re.split(r",(?![^()]*\))", parameters) if part.strip()]


def without_names(parameter: str) -> str:
    """The type of a parameter in C."""
    pointer = re.fullmatch(r"void \(\*\w+\)\((.*)\)", parameter)
    if pointer:
        inner = ", ".join(without_names(part) for part in parts(pointer[1]))
        return f"void (*)({inner})"
    return re.sub(r"\w+$", "", parameter).strip()


def declared(text: str) -> dict[str, tuple[list[str], str]]:
    """Parameters and result of every function of a header, as types of Rust."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"\s+", " ", text)
    found = re.findall(
        r"((?:const )?\w+ \*?)(schedlab_runqueue_\w+)\(((?:[^()]|\([^()]*\))*)\);", text
    )
    return {
        name: ([TYPES[without_names(part)] for part in parts(inner)], TYPES[result.strip()])
        for result, name, inner in found
    }


def exported(text: str) -> dict[str, tuple[list[str], str]]:
    """Parameters and result of every function that Rust gives to C."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"\s+", " ", text)
    found = re.findall(
        r'no_mangle\)\] pub (?:unsafe )?extern "C" fn (\w+)\((.*?)\) -> ([^{]+?) \{', text
    )
    return {
        name: ([part.split(": ", 1)[1] for part in parts(inner)], result)
        for name, inner, result in found
    }


def test_the_header_declares_what_the_library_has():
    functions = declared(HEADER.read_text())
    assert functions == exported((CRATE / "src" / "lib.rs").read_text())
    symbols = subprocess.run(
        ["nm", "--defined-only", "--extern-only", LIBRARY], capture_output=True, text=True
    ).stdout
    assert set(re.findall(r" T (schedlab_\w+)", symbols)) == set(functions)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("uint64_t key);", "uint32_t key);"),
        ("uint64_t *key);", "uint64_t key);"),
        ("int64_t schedlab_runqueue_pop", "int schedlab_runqueue_pop"),
        ("int schedlab_runqueue_contains", "int schedlab_runqueue_has"),
        ("uint32_t item, uint64_t key),", "uint64_t item, uint64_t key),"),
    ],
)
def test_a_declaration_that_is_wrong_is_seen(right, wrong):
    text = HEADER.read_text()
    assert right in text
    try:
        functions = declared(text.replace(right, wrong))
    except KeyError:  # A type that no function has.
        return
    assert functions != exported((CRATE / "src" / "lib.rs").read_text())


def test_codes_are_the_same_numbers():
    def snake(name: str) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()

    rust = re.findall(r"^    (\w+) = (-\d+),", (CRATE / "src" / "queue.rs").read_text(), re.M)
    c = re.findall(r"\tSCHEDLAB_RUNQUEUE_(\w+) = (-\d+),", HEADER.read_text())
    assert len(c) == 11
    assert c == [(snake(name), number) for name, number in rust]


# Calls the address of every function: what is declared must be there, in C and in C++.
ALL = """
#include <schedlab_runqueue.h>
#include <stdio.h>
int main(void)
{
	void (*functions[])(void) = {%s};
	printf("%%d\\n", (int)(sizeof(functions) / sizeof(*functions)));
	for (int code = 0; code > -13; code--)
		puts(schedlab_runqueue_explain(code));
	return 0;
}
"""


@pytest.mark.parametrize(
    ("compiler", "suffix"), [(("cc", "-std=c99"), ".c"), (("c++", "-std=c++11"), ".cpp")]
)
def test_every_function_links_in(compiler, suffix, tmp_path):
    names = sorted(declared(HEADER.read_text()))
    source = (tmp_path / "all").with_suffix(suffix)
    cast = "(void (*)(void))" if suffix == ".c" else "reinterpret_cast<void (*)()>"
    source.write_text(ALL % ", ".join(f"{cast}({name})" for name in names))
    done = run(build(source, tmp_path / "all", compiler))
    count, *texts = done.stdout.splitlines()
    assert int(count) == len(names) == 15
    assert texts[0] == "done"
    assert texts[-1] == "no code of schedlab_runqueue"
    assert len(set(texts)) == 13


EXAMPLE = """\
task 0 of weight 1 ran 162 ms
task 1 of weight 2 ran 324 ms
task 2 of weight 4 ran 648 ms
task 3 of weight 1 ran 66 ms, and slept
3 tasks wait in STRUCTURE:
  task 0 at 162000 us of virtual time
  task 1 at 162000 us of virtual time
  task 2 at 162000 us of virtual time
"""


def refused(done: subprocess.CompletedProcess) -> dict[str, str]:
    return dict(line.split(": ") for line in done.stdout.splitlines())


def test_wrong_use_is_refused(tmp_path):
    done = run(build(ROOT / "tests" / "runqueue_c" / "wrong_use.c", tmp_path / "wrong_use"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(refused(done)) == 18
    assert set(refused(done).values()) <= {
        "refused",
        "the processor lacks the structure's instructions",
    }


def test_the_example_shares_by_weight_with_every_exact_structure(tmp_path):
    example = build(CRATE / "examples" / "example.c", tmp_path / "example")
    wrong_use = build(ROOT / "tests" / "runqueue_c" / "wrong_use.c", tmp_path / "wrong_use")
    here = [name for name, state in refused(run(wrong_use)).items() if state == "refused"]
    assert set(here) > INEXACT
    for structure in set(here) - INEXACT:
        done = run(example, structure)
        assert done.stdout == EXAMPLE.replace("STRUCTURE", structure), done.stderr
    assert run(example).stdout == EXAMPLE.replace("STRUCTURE", "exact_time_ring")
    done = run(example, "red_black_bush")
    assert done.returncode == 1
    assert done.stderr == "red_black_bush: there is no structure of this name\n"
