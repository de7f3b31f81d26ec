"""Goal: what `pip install` gives works by itself, anywhere.

Method: build a source archive and a wheel from it, install the wheel with the locked run-time
dependencies into an empty environment, and use it from a directory that is not the checkout.
"""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

# One process builds the wheel, for all of these tests.
pytestmark = pytest.mark.xdist_group("package")

ROOT = Path(__file__).resolve().parents[1]
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
    """A wheel built from a source archive; libraries come from the checkout's cargo cache.

    In the profile of cargo's tests: all else is as `pip install` has it, and what the optimizer
    makes is what every other test uses. The whole program optimized once more would take minutes.
    """
    dist = tmp_path_factory.mktemp("dist")
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    command = [MATURIN, "build", "--profile", "dev", "--locked", "--sdist", "--out", dist]
    run(command, ROOT, CARGO_TARGET_DIR=target)
    assert len(list(dist.glob("*.tar.gz"))) == 1
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
    return lambda *arguments: run(
        [command, *arguments], directory, XDG_CACHE_HOME=str(directory / "cache")
    )


@pytest.mark.parametrize("directory", SHIPPED)
def test_the_wheel_carries_every_shipped_file(wheel, directory):
    files = [path.relative_to(ROOT) for path in (ROOT / directory).rglob("*") if path.is_file()]
    assert files
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert {f"schedlab/data/{path}" for path in files} <= packed


def test_the_wheel_carries_both_licences(wheel):
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist()}
    assert {"LICENSE-MIT", "LICENSE-GPL-2.0"} <= names


def test_the_installed_command_knows_its_version(schedlab):
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    assert workspace["package"]["version"] in schedlab("--version")


def test_the_installed_command_lists_every_policy(schedlab):
    listed = json.loads(schedlab("list", "policies", "--json"))
    expected = {p.name.removesuffix(".bpf.c") for p in (ROOT / "policies").glob("*.bpf.c")}
    assert {entry["name"] for entry in listed} == expected


def test_the_installed_command_simulates(schedlab):
    printed = schedlab(
        "run", "round_robin", "--workload", "ping_pong", "--machine", "laptop", "--json"
    )
    assert json.loads(printed)["status"] == "completed"


def test_the_installed_command_races_queues_that_it_compiles(schedlab):
    printed = schedlab(
        "race", "--peers", "-n", "4", "-l", "100", "--rounds", "1", "--quiet", "--json"
    )
    rows = json.loads(printed)["heats"][0]["rows"]
    assert {"exact_time_ring", "std_multiset"} <= {row["structure"] for row in rows}


def test_the_command_starts_without_what_takes_long_to_load():
    heavy = "{'scipy', 'numpy', 'pandas', 'plotly', 'statsmodels', 'jinja2', 'elftools'}"
    program = f"import sys, schedlab.verbs; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
