"""Goal: make works wherever a clone lies, and `make test` says what took how long.

Method: the Makefile and its clock in a folder whose name has a blank and a letter beyond ASCII.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def elsewhere(tmp_path):
    """Runs a command in a folder that has the Makefile and its clock only."""
    folder = tmp_path / "a b" / "schedläb"
    (folder / "tests").mkdir(parents=True)
    (folder / "crates").mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "tests" / "took", folder / "tests")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def run(*command):
        return subprocess.run(
            command, cwd=folder, env=kept, capture_output=True, text=True, check=False
        )

    run.folder = folder
    return run


def test_the_environment_of_a_clone_is_its_own_wherever_it_lies(elsewhere):
    show = 'show: ; @echo "$$VIRTUAL_ENV"; echo "$${PATH%%:*}"; echo "$$UV_PROJECT_ENVIRONMENT"'
    own = f"{elsewhere.folder}/.venv"
    assert elsewhere("make", "--eval", show, "show").stdout == f"{own}\n{own}/bin\n{own}\n"


def test_the_table_has_a_row_for_each_group_and_says_which_failed(elsewhere):
    done = elsewhere("tests/took", "make good", "sh", "-c", "echo out; echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
    assert elsewhere("tests/took", "make bad", "sh", "-c", "exit 3").returncode == 3
    table = elsewhere("tests/took").stdout
    assert re.search(r"^make good +\d+ +\d+$", table, re.MULTILINE)
    assert re.search(r"^make bad +\d+ +\d+   failed$", table, re.MULTILINE)


def test_a_group_that_fails_ends_make_test_after_the_table(elsewhere):
    (elsewhere.folder / "broken.mk").write_text(
        "include Makefile\ntest-groups: ; @tests/took 'make first' false\n"
    )
    # All that the groups need counts as there.
    again = "make -f broken.mk -o test-programs -o .venv/.dependencies"
    done = elsewhere("make", "-f", "broken.mk", f"MAKE={again}", "test")
    assert done.returncode == 2
    rows = done.stdout[done.stdout.index("group ") :].splitlines()
    assert [row.split("  ")[0] for row in rows] == ["group", "make first", "make test"]
    assert all(row.endswith("failed") for row in rows[1:])
