"""Goal: what `pip install` gives works by itself, anywhere.

Method: build a wheel, install it with the locked run-time dependencies into an empty environment,
and use it from a directory that is not the checkout. Make a source archive, and have cargo find all
that is built in it.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from schedlab import _native

# One process builds the wheel, for all of these tests.
pytestmark = pytest.mark.xdist_group("package")

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = (
    "policies",
    "machines",
    "workloads",
    "experiments",
    "suites",
    "published",
    "crates/race/include",
    "crates/race/peers",
)
UV = Path(sys.executable).with_name("uv")
MATURIN = Path(sys.executable).with_name("maturin")


def run(command, cwd, **environment):
    """Runs a command that must succeed; returns what it printed."""
    kept = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, with what the tests of cargo have compiled already.

    In their profile: all else is as `pip install` has it, and what the optimizer makes is what
    every other test uses. The whole program optimized once more would take minutes.
    """
    dist = tmp_path_factory.mktemp("dist")
    objects = dist / "objects"
    build = ["cargo", "run", "--quiet", "--locked", "-p", "policy", "--example", "shipped"]
    run([*build, "--", "policies", objects], ROOT)
    words = [MATURIN, "build", "--profile", "dev", "--locked", "--out", dist]
    run(words, ROOT, SCHEDLAB_OBJECTS=str(objects))
    return next(dist.glob("*.whl"))


@pytest.fixture(scope="module")
def schedlab(wheel, tmp_path_factory):
    """The installed command, as a function of its arguments."""
    directory = tmp_path_factory.mktemp("elsewhere")
    environment = directory / "environment"
    requirements = directory / "requirements.txt"
    export = [UV, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project"]
    run([*export, "--output-file", requirements], ROOT)
    run([UV, "venv", "--quiet", "--python", sys.executable, environment], directory)
    install = [UV, "pip", "install", "--quiet", "--python", environment]
    run([*install, "--requirements", requirements], directory)
    run([*install, "--no-deps", wheel], directory)
    command = environment / "bin" / "schedlab"
    return lambda *arguments, **more: run(
        [command, *arguments], directory, XDG_CACHE_HOME=str(directory / "cache"), **more
    )


def files_in(directory, *folders):
    """Paths below `directory` of what is in its folders, without what is built there."""
    paths = (path for folder in folders for path in (directory / folder).rglob("*"))
    built = {"__pycache__", "target", "data"}
    return {
        path.relative_to(directory)
        for path in paths
        if path.is_file() and path.suffix != ".so" and not built & set(path.parts)
    }


def test_the_source_archive_has_all_that_is_built(tmp_path):
    run([MATURIN, "sdist", "--out", tmp_path], ROOT)
    [archive] = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path)
    [unpacked] = (path for path in tmp_path.iterdir() if path.is_dir())
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    packages = json.loads(run([*command, "--manifest-path", "crates/python/Cargo.toml"], unpacked))
    crates = [Path(p["manifest_path"]).parent for p in packages["packages"] if not p["source"]]
    folders = [str(crate.relative_to(unpacked)) for crate in crates]
    assert {"crates/python", "crates/simulator", "crates/kernel"} <= set(folders)
    for folder in (*folders, *SHIPPED, "python"):
        missing = files_in(ROOT, folder) - files_in(unpacked, folder)
        assert not missing, folder


@pytest.mark.parametrize("directory", SHIPPED)
def test_the_wheel_carries_every_shipped_file(wheel, directory):
    files = [path.relative_to(ROOT) for path in (ROOT / directory).rglob("*") if path.is_file()]
    assert files
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert {f"schedlab/data/{path}" for path in files} <= packed


def test_the_wheel_tells_type_checkers_what_there_is(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"schedlab/py.typed", "schedlab/_native.pyi"} <= names


def test_the_stub_has_all_that_the_core_has():
    stub = ast.parse((ROOT / "python/schedlab/_native.pyi").read_text())
    assert {name for name in dir(_native) if not name.startswith("_")} <= named(stub)
    for node in stub.body:
        kind = getattr(_native, getattr(node, "name", ""), None)
        if isinstance(node, ast.ClassDef) and kind is not None:
            assert {name for name in vars(kind) if not name.startswith("_")} <= named(node)


def named(node: ast.Module | ast.ClassDef) -> set[str]:
    """What stands in a module or class, by name."""
    assigned = [inner.target for inner in node.body if isinstance(inner, ast.AnnAssign)]
    defined = [inner for inner in node.body if isinstance(inner, ast.ClassDef | ast.FunctionDef)]
    return {target.id for target in assigned} | {inner.name for inner in defined}


@pytest.mark.parametrize("path", sorted((ROOT / "python/schedlab/notebook").glob("*.py")))
def test_the_interface_of_notebooks_is_typed(path):
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            given = function.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            arguments += filter(None, (given.vararg, given.kwarg))
            untyped = {one.arg for one in arguments if one.annotation is None} - {"self"}
            assert not untyped, function.name
            assert function.returns or function.name == "__init__", function.name


def test_the_wheel_carries_both_licences(wheel):
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    assert {"LICENSE-MIT", "LICENSE-GPL-2.0"} <= names


def test_the_installed_command_knows_its_version(schedlab):
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert workspace["package"]["version"] in schedlab("--version")


def test_the_installed_command_lists_every_policy_without_a_compiler(schedlab):
    listed = json.loads(schedlab("list", "policies", "--json", CLANG="no-such-compiler"))
    expected = {p.name.removesuffix(".bpf.c") for p in (ROOT / "policies").glob("*.bpf.c")}
    assert {entry["name"] for entry in listed} == expected


def test_the_installed_command_simulates(schedlab):
    scenario = ("--workload", "ping_pong", "--machine", "laptop")
    printed = schedlab("run", "round_robin", *scenario, "--json", CLANG="no-such-compiler")
    assert json.loads(printed)["status"] == "completed"


def test_the_installed_command_races_queues_that_it_compiles(schedlab):
    printed = schedlab(
        "race", "--peers", "-n", "4", "-l", "100", "--rounds", "1", "--quiet", "--json"
    )
    rows = json.loads(printed)["heats"][0]["rows"]
    assert {"exact_time_ring", "std_multiset"} <= {row["structure"] for row in rows}


def test_the_command_starts_without_what_takes_long_to_load():
    heavy = "{'scipy', 'numpy', 'pandas', 'plotly', 'statsmodels', 'jinja2', 'elftools'}"
    program = f"""
import sys
from schedlab.commands import VERBS, schedlab
assert [schedlab.resolve_command(None, [verb])[1].name for verb in VERBS] == [*VERBS]
print(sorted({heavy} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
