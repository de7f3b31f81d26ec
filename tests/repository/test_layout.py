"""Goal: the rules of ARCHITECTURE.md and CONTRIBUTING.md hold in every file of the repository.

Method: parse the sources (Python with ast, Rust and C with tree-sitter, manifests with tomllib) and
list every place that breaks a rule. Each parser is itself shown a source that breaks its rule.
"""

import ast
import functools
import re
import subprocess
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import tree_sitter_c
from rust_modules import RUST, circles, nodes, without_tests
from tree_sitter import Language, Node, Parser
from who_may_use_whom import (
    CRATES,
    FLOORS_MAX,
    KEEPS_A_FILE,
    KNOWS_CLICK,
    NOT_IN_SIMULATOR,
    NOT_OF_VALUES,
    OPENS_NO_FILE,
    PACKAGES,
    TOP,
    UNSAFE_FILES,
)

ROOT = Path(__file__).resolve().parents[2]

FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 8
# What people type in a notebook: all but the first are keywords with a usual value, so a call is as
# long as its question. An object of options would make each call longer.
MANY_KEYWORDS = {
    "notebook/questions.py: compare",
    "notebook/questions.py: simulate",
    "notebook/stores.py: measure",
    "notebook/tuning.py: tune",
}
# A policy stays one file, however long: that it can be handed on alone counts for more.
FILE_LINES_USUAL = 500
FILE_LINES_MAX = 650
COLUMNS_MAX = 100
TAB_COLUMNS = 8

# Names that say nothing. sched_ext itself calls one header common.bpf.h.
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "manager", "common", "misc"}
EMPTY_NAMES_KEPT = {"policies/include/scx/common.bpf.h"}

C = Language(tree_sitter_c.language())


def repository_files() -> list[str]:
    """Paths, relative to the root, of every file that is or could be committed."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for path in set(listed.split("\0")) if path and (ROOT / path).is_file())


FILES = repository_files()
RUST_FILES = [path for path in FILES if path.endswith(".rs")]
C_FILES = [path for path in FILES if path.endswith((".c", ".h"))]
PYTHON_FILES = [path for path in FILES if path.endswith((".py", ".pyi"))]
POLICY_FILES = [path for path in FILES if re.fullmatch(r"policies/\w+\.bpf\.c", path)]
SOURCES = [*RUST_FILES, *C_FILES, *PYTHON_FILES]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def tree(path: str, text: str) -> Node:
    language = RUST if path.endswith(".rs") else C
    return Parser(language).parse(text.encode()).root_node


def refuse(violations: list[str], rule: str):
    assert not violations, f"{rule}\n" + "\n".join(violations)


# ---- Rust ---------------------------------------------------------------------------------------


def manifest(crate: str) -> dict:
    return tomllib.loads(read(f"crates/{crate}/Cargo.toml"))


def crates() -> list[str]:
    return sorted({path.split("/")[1] for path in FILES if re.match(r"crates/\w+/Cargo", path)})


@pytest.mark.parametrize("crate", crates())
def test_a_crate_depends_only_on_what_the_table_allows(crate):
    assert crate in CRATES, f"give crates/{crate} a row in the table of ARCHITECTURE.md and here"
    ours, libraries = CRATES[crate]
    refuse(
        sorted(set(manifest(crate).get("dependencies", {})) - ours - libraries),
        f"crates/{crate}/Cargo.toml names dependencies that the table does not allow",
    )


@pytest.mark.parametrize("crate", [c for c in crates() if "test" in manifest(c)])
def test_no_file_with_tests_is_forgotten(crate):
    """Where the tests of a crate are one program, cargo does not look for more."""
    here = f"crates/{crate}/tests/"
    named = {f"{here}{name}.rs" for name in re.findall(r"^mod (\w+);", read(f"{here}all.rs"), re.M)}
    programs = {f"crates/{crate}/{test['path']}" for test in manifest(crate)["test"]}
    files = {path for path in RUST_FILES if re.fullmatch(rf"{here}\w+\.rs", path)}
    refuse(sorted(files - named - programs), f"{here}all.rs names every file with tests")


@pytest.mark.parametrize("crate", crates())
def test_no_modules_of_a_crate_use_each_other_in_a_circle(crate):
    sources = {path: read(path) for path in RUST_FILES if path.startswith(f"crates/{crate}/src/")}
    refuse(circles(f"crates/{crate}", sources), "each module stands on those below it")


@pytest.mark.parametrize(
    ("b", "c", "lines"),
    [
        ("", "", []),
        ("use std::fmt::{self, c};", "", []),
        ("#[cfg(test)] mod tests { use crate::c::C; }", "", []),
        ("//! See [`crate::c::C`].", "", []),
        ("fn f() { crate::c::g(); }", "", ["c/src/b.rs:1: c::g", "c/src/c/d.rs:1: b::B"]),
        ("fn f() { h!(super::c::g()); }", "", ["c/src/b.rs:1: c::g", "c/src/c/d.rs:1: b::B"]),
        ("mod e {\n use super::super::C;\n}", "", ["c/src/b.rs:2: C", "c/src/c/d.rs:1: b::B"]),
        ("use crate::{a::{self as z}, c};", "", ["c/src/b.rs:1: c", "c/src/c/d.rs:1: b::B"]),
        ("", "use d::D;", []),
        ("", "mod e;", ["c/src/c/d.rs:2: c::e", "c/src/c/e.rs:1: c::d::D"]),
    ],
)
def test_a_circle_of_modules_is_seen(b, c, lines):
    sources = {
        "c/src/lib.rs": "mod a;\nmod b;\nmod c;\npub use c::C;",
        "c/src/a.rs": "use crate::{b::B, C};",
        "c/src/b.rs": b,
        "c/src/c.rs": f"mod d; struct C; {c}",
        "c/src/c/d.rs": "use super::super::b::B; use super::C;\nuse super::e;",
        "c/src/c/e.rs": "use super::d::D;",
    }
    found = [line for circle in circles("c", sources) for line in circle.split("\n    ")[1:]]
    assert sorted(found) == lines


def test_nothing_that_differs_between_two_runs_is_used_by_the_simulator():
    paths = [p for p in RUST_FILES if re.match(r"crates/(simulator|runqueue)/src/", p)]
    violations = []
    for path in paths:
        text = without_tests(read(path))
        for match in NOT_IN_SIMULATOR.finditer(text):
            if path == KEEPS_A_FILE and match[0] == "tempfile":
                continue
            violations.append(f"{path}:{line_of(text, match.start())}: {match[0]}")
    refuse(violations, "no clock, file, environment, thread or hash map in the simulator")


def test_a_clock_is_seen_in_code_but_not_in_a_test_module():
    code = "fn f() { std::time::Instant::now(); }"
    assert NOT_IN_SIMULATOR.search(without_tests(code))
    assert not NOT_IN_SIMULATOR.search(without_tests(f"#[cfg(test)]\nmod tests {{ {code} }}"))


def test_unsafe_stays_where_rust_meets_c():
    violations = []
    for path in RUST_FILES:
        if "/src/" not in path or any(Path(path).match(pattern) for pattern in UNSAFE_FILES):
            continue
        text = without_tests(read(path))
        violations += [
            f"{path}:{node.start_point.row + 1}"
            for node in nodes(tree(path, text), "unsafe")
            if node.parent.parent.type != "function_type"  # the type of a C function pointer
        ]
    refuse(violations, f"unsafe outside {', '.join(UNSAFE_FILES)}")


def test_files_that_may_have_unsafe_have_some():
    with_some = [path for path in RUST_FILES if "unsafe" in read(path)]
    idle = [one for one in UNSAFE_FILES if not any(Path(path).match(one) for path in with_some)]
    assert not idle, "these need not be allowed it any more"


# ---- policies -----------------------------------------------------------------------------------


def policy_violations(path: str, text: str) -> list[str]:
    """Where a policy reaches for more than the sched_ext interface."""
    root = tree(path, text)
    found = []
    for node in nodes(root, "preproc_include"):
        if not node.child_by_field_name("path").text.startswith(b"<scx/"):
            found.append((node, "includes something else than <scx/...>"))
    for node in nodes(root, "preproc_if", "preproc_ifdef"):
        found.append((node, "has a conditional: one source must serve both back ends"))
    return [f"{path}:{node.start_point.row + 1}: {why}" for node, why in found]


def tunables_without_comment(path: str, text: str) -> list[str]:
    lines = text.splitlines()
    return [
        f"{path}:{number}: a tunable needs a comment directly above it"
        for number, line in enumerate(lines, 1)
        if re.match(r"const volatile [\w ]+( =|;)", line)  # an array is no tunable
        and not lines[number - 2].rstrip().endswith("*/")
    ]


@pytest.mark.parametrize("path", POLICY_FILES)
def test_a_policy_uses_only_the_sched_ext_interface(path):
    refuse(policy_violations(path, read(path)), "policies know nothing but policies/include")


@pytest.mark.parametrize("path", POLICY_FILES)
def test_a_policy_says_its_licence_its_idea_and_its_source(path):
    text = read(path)
    name = Path(path).name.removesuffix(".bpf.c")
    assert text.startswith("/* SPDX-License-Identifier: GPL-2.0-only OR MIT */\n")
    assert re.search(rf"/\* {name} - \S", text), f"{path}: no `/* {name} - idea in one line`"
    assert re.search(r"^ \* Sources?:", text, re.MULTILINE), f"{path}: no `Source:` in its header"


@pytest.mark.parametrize("path", [path for path in C_FILES if path.startswith("policies/")])
def test_a_tunable_says_what_it_is_for(path):
    violations = tunables_without_comment(path, read(path))
    refuse(violations, "a tunable's comment is what users read of it")


@pytest.mark.parametrize(
    "text",
    [
        "#include <stdio.h>\n",
        '#include "other_policy.bpf.c"\n',
        "#ifdef __bpf__\n#endif\n",
        "#if 1\n#endif\n",
    ],
)
def test_what_a_policy_must_not_do_is_seen(text):
    assert policy_violations("policies/x.bpf.c", text)


# ---- Python -------------------------------------------------------------------------------------


def imported(text: str) -> set[str]:
    """Dotted names of everything a Python source imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def schedlab_modules(names: set[str]) -> set[str]:
    parts = [name.split(".") for name in names]
    return {part[1] for part in parts if part[0] == "schedlab" and not part[1].startswith("__v")}


PACKAGE_FILES = [p for p in PYTHON_FILES if re.match("python/schedlab/.*py$", p)]


@pytest.mark.parametrize("path", PACKAGE_FILES)
def test_a_module_imports_only_what_the_table_allows(path):
    first = Path(path).relative_to("python/schedlab").parts[0].removesuffix(".py")
    names = imported(read(path))
    assert not any(name.startswith(".") for name in names), "imports are absolute"
    assert first in TOP or first in PACKAGES, f"give {path} a row in ARCHITECTURE.md and here"
    allowed = TOP[first] if first in TOP else {first, *PACKAGES[first]}
    refuse(
        sorted(schedlab_modules(names) - allowed),
        f"{path} imports what the table does not allow",
    )
    libraries = {name.split(".")[0] for name in names}
    if not path.startswith(KNOWS_CLICK):
        refuse(sorted(libraries & {"click"}), f"{path} knows of options: commands does")


@pytest.mark.parametrize("path", [p for p in PACKAGE_FILES if re.fullmatch(OPENS_NO_FILE, p)])
def test_what_works_on_values_opens_no_file(path):
    libraries = {name.split(".")[0] for name in imported(read(path))}
    refuse(sorted(libraries & NOT_OF_VALUES), f"{path} reaches for files")
    if "/statistics/" in path:
        refuse(sorted(libraries & {"plotly"}), f"{path} draws")
    calls = [n.func for n in ast.walk(ast.parse(read(path))) if isinstance(n, ast.Call)]
    opened = [f"{path}:{f.lineno}" for f in calls if isinstance(f, ast.Name) and f.id == "open"]
    refuse(opened, f"{path} works on values, never on files")


def imports_of(path: str, modules: Iterable[str]) -> set[str]:
    """The modules of schedlab that one imports when it runs, without those for type checkers."""
    tree = ast.parse(read(path))
    kept = [node for node in tree.body if not (isinstance(node, ast.If) and checks_types(node))]
    names = imported(ast.unparse(ast.Module(kept, [])))
    names |= {name.rpartition(".")[0] for name in names}
    return {name for name in names if name in modules}


def checks_types(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def floors(uses: Mapping[str, set[str]]) -> dict[str, int]:
    """How many modules stand below each, itself included, one on the other; refuses circles."""
    return {
        name: 1 + order
        for order, ready in enumerate(storeys(TopologicalSorter(uses)))
        for name in ready
    }


def storeys(sorter: TopologicalSorter) -> Iterator[tuple[str, ...]]:
    sorter.prepare()
    while sorter.is_active():
        ready = sorter.get_ready()
        yield ready
        sorter.done(*ready)


def test_no_module_imports_in_a_circle_and_few_stand_on_each_other():
    dotted = {
        path.removeprefix("python/").removesuffix(".py").replace("/", "."): path
        for path in PACKAGE_FILES
    }
    uses = {name: imports_of(path, dotted) - {name} for name, path in dotted.items()}
    found = floors(uses)
    highest = sorted(found, key=found.get)[-1]
    assert found[highest] <= FLOORS_MAX, f"{highest} stands on {found[highest] - 1} others"


def test_floors_are_counted_and_circles_refused():
    assert floors({"a": set(), "b": {"a"}, "c": {"a", "b"}}) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(CycleError):
        floors({"a": {"b"}, "b": {"a"}})


def test_an_import_upwards_is_seen():
    text = "def f():\n    from schedlab import cli\n    import schedlab.race.plan\n"
    assert schedlab_modules(imported(text)) == {"cli", "race"}


def undocumented(path: str, text: str) -> list[str]:
    """Public classes and functions, and the module itself, that have no docstring."""
    module = ast.parse(text)
    found = [] if ast.get_docstring(module) else [f"{path}:1: module"]

    def visit(body, owner=""):
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                found.append(f"{path}:{node.lineno}: {owner}{node.name}")
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")

    visit(module.body)
    return found


@pytest.mark.parametrize("path", [p for p in PYTHON_FILES if p.startswith("python/")])
def test_every_public_item_of_a_module_is_documented(path):
    refuse(undocumented(path, read(path)), "every public item says what it is")


def test_a_public_method_without_docstring_is_seen():
    assert len(undocumented("x.py", '"""M."""\nclass A:\n    """A."""\n    def b(self): ...')) == 1


# ---- size and names, in every language ----------------------------------------------------------


@functools.cache  # Two rules ask, and parsing is what takes long.
def function_lengths(path: str, text: str) -> list[tuple[str, int, int]]:
    """Name, first line and number of lines of every function, its documentation not counted."""
    if path.endswith((".py", ".pyi")):
        return [_python_length(node) for node in ast.walk(ast.parse(text)) if _is_function(node)]
    found = []
    for node in nodes(tree(path, text), "function_item", "function_definition"):
        # C's grammar takes a namespace in a header for C++ for a function.
        if node.text.startswith(b"namespace"):
            continue
        name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        length = node.end_point.row - node.start_point.row + 1
        found.append((name.text.decode().split("(")[0], node.start_point.row + 1, length))
    return found


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _python_length(node: ast.FunctionDef) -> tuple[str, int, int]:
    first = node.body[0]
    documentation = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
    return node.name, node.lineno, node.end_lineno - node.lineno + 1 - documentation


def test_no_function_is_longer_than_a_screen():
    violations = [
        f"{path}:{line}: {name} has {length} lines"
        for path in SOURCES
        for name, line, length in function_lengths(path, read(path))
        if length > FUNCTION_LINES_MAX
    ]
    refuse(violations, f"a function has at most {FUNCTION_LINES_MAX} lines")


@pytest.mark.parametrize(
    ("path", "head", "line", "tail"),
    [
        ("x.rs", "fn f() {", "    g();", "}"),
        ("x.c", "static int f(void)\n{", "\tg();", "}"),
        ("x.py", "def f():", "    g()", "    g()"),
    ],
)
def test_a_function_that_is_one_line_too_long_is_seen(path, head, line, tail):
    fixed = head.count("\n") + 2
    for length in (FUNCTION_LINES_MAX, FUNCTION_LINES_MAX + 1):
        text = "\n".join([head, *[line] * (length - fixed), tail, ""])
        assert [found[2] for found in function_lengths(path, text)] == [length]


def parameters(function: ast.FunctionDef) -> list[str]:
    """What a caller gives it; `*arguments` and `**options` are no names of their own."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def test_no_function_takes_more_than_one_can_remember():
    """Those of `commands` take what its verb has options for."""
    many = {
        f"{path.removeprefix('python/schedlab/')}: {node.name}"
        for path in PACKAGE_FILES
        if not path.startswith("python/schedlab/commands/")
        for node in ast.walk(ast.parse(read(path)))
        if _is_function(node) and len(parameters(node)) > PARAMETERS_MAX
    }
    assert many == MANY_KEYWORDS, f"a function has at most {PARAMETERS_MAX} parameters"


def test_a_parameter_too_many_is_seen():
    text = "def f(self, a, /, b, *c, d=1, e, **g): ..."
    assert parameters(ast.parse(text).body[0]) == ["a", "b", "d", "e"]


def test_no_file_grows_past_what_one_reads_at_once():
    lengths = {path: read(path).count("\n") for path in SOURCES}
    for path, length in lengths.items():
        if length > FILE_LINES_USUAL:
            warnings.warn(f"{path} has {length} lines: is it two ideas?", stacklevel=1)
    too_long = [
        f"{path}: {length} lines"
        for path, length in lengths.items()
        if length > FILE_LINES_MAX and path not in POLICY_FILES
    ]
    refuse(too_long, f"a file has about {FILE_LINES_USUAL} lines")


def test_no_line_is_wider_than_a_hundred_columns():
    violations = [
        f"{path}:{number}"
        for path in SOURCES
        for number, line in enumerate(read(path).splitlines(), 1)
        if len(line.expandtabs(TAB_COLUMNS)) > COLUMNS_MAX
    ]
    refuse(violations, f"a line has at most {COLUMNS_MAX} columns")


def words(name: str) -> set[str]:
    """The words of a snake_case or CamelCase name, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def defined_names(path: str, text: str) -> list[str]:
    """Names of the functions, types and modules that a source defines."""
    if path.endswith((".py", ".pyi")):
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        return [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    kinds = ("struct_item", "enum_item", "trait_item", "mod_item", "struct_specifier")
    named = [node.child_by_field_name("name") for node in nodes(tree(path, text), *kinds)]
    types = [name.text.decode() for name in named if name is not None]
    return types + [name for name, _, _ in function_lengths(path, text)]


def test_every_name_says_something():
    violations = [
        path
        for path in FILES
        if any(words(part) & EMPTY_NAMES for part in Path(path).parts)
        and path not in EMPTY_NAMES_KEPT
    ]
    for path in SOURCES:
        names = [name for name in defined_names(path, read(path)) if words(name) & EMPTY_NAMES]
        violations += [f"{path}: {name}" for name in names]
    refuse(violations, f"a name is none of {', '.join(sorted(EMPTY_NAMES))}")


def test_an_empty_name_is_seen():
    assert words("PathHelper") & EMPTY_NAMES
    assert words("string_utils") & EMPTY_NAMES
    assert not words("commonly_wanted") & EMPTY_NAMES


def test_no_file_names_a_directory_of_its_author():
    # A directory of this name further down a path, as in sched_ext/root/ops, is nobody's home.
    own = [re.compile(rf"(?<!\w){re.escape(str(place))}/") for place in (ROOT, Path.home())]
    violations = []
    for path in FILES:
        try:
            text = read(path)
        except UnicodeDecodeError:  # A picture.
            continue
        violations += [f"{path}: {place.pattern}" for place in own if place.search(text)]
    refuse(violations, "a path of one machine means nothing on another")


def test_files_named_in_the_architecture_exist():
    """Paths of Python begin at its package there, those of workload files at their crate."""
    text = read("ARCHITECTURE.md")
    endings = "py|rs|md|html|cpp"
    named = set(re.findall(rf"`((?:[a-z_0-9]+/)+[a-z_0-9-]+\.(?:{endings}))`", text))
    places = (ROOT, ROOT / "python/schedlab", ROOT / "crates/scenario/src")
    lost = [path for path in sorted(named) if not any((place / path).is_file() for place in places)]
    assert len(named) > 20
    refuse(lost, "a file that ARCHITECTURE.md names is there")
