"""Goal: the queues that C and C++ bring to the race are sorted lists with ties in order of arrival.

Method: build each plug-in with every warning an error, and hold it against a plain sorted array by
random operations and the timed loops (race_peers/check_order.cpp), watched by the compiler's
sanitizers. A plug-in with a mistake shows that the checker sees it.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RACE = ROOT / "crates" / "race"
SOURCES = ROOT / "tests" / "race_peers"
WARNINGS = ["-Wall", "-Wextra", "-Werror", f"-I{RACE / 'include'}"]
# As the race itself builds them.
PLUGIN = ["-O3", "-fPIC", "-shared", *WARNINGS]
LANGUAGES = {".c": ["cc", "-std=c99", "-Wpedantic"], ".cpp": ["c++", "-std=c++17", "-Wpedantic"]}
OPERATIONS = 60_000

PLUGINS = {
    "standard": (RACE / "peers" / "standard.cpp", ["std_multiset", "std_priority_queue"]),
    "boost": (RACE / "peers" / "boost.cpp", ["boost_rbtree", "boost_avltree"]),
    "sorted_array": (SOURCES / "sorted_array.c", ["sorted_array"]),
}


def build(command: list[str], source: Path, output: Path) -> Path:
    """Compiles `source`; fails with the compiler's words."""
    assert shutil.which(command[0]), f"{command[0]} is not installed: `make test` says how"
    command = [*command, str(source), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


def build_plugin(source: Path, output: Path) -> Path:
    return build([*LANGUAGES[source.suffix], *PLUGIN], source, output)


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    command = ["c++", "-std=c++17", "-O1", "-g", *WARNINGS, "-fsanitize=address,undefined"]
    output = tmp_path_factory.mktemp("checker") / "check_order"
    return build(command, SOURCES / "check_order.cpp", output)


def check(checker: Path, plugin: Path) -> subprocess.CompletedProcess:
    command = [checker, plugin, str(OPERATIONS)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_is_a_sorted_list(plugin, checker, tmp_path):
    source, names = PLUGINS[plugin]
    done = check(checker, build_plugin(source, tmp_path / "plugin.so"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == names


@pytest.mark.parametrize(
    ("right", "wrong", "first"),
    [
        # Last in, first out among equal keys.
        ("- key) <= 0;", "- key) < 0;", "sorted_array: operation "),
        # Keys that do not wrap.
        (
            "(int64_t)(array->keys[array->items[place - 1]] - key) <= 0",
            "array->keys[array->items[place - 1]] <= key",
            "sorted_array: operation ",
        ),
        ("array->keys[item] = key;", "array->keys[item] = key / 2;", "sorted_array: operation "),
        ("= SCHEDLAB_RACE_ABI;", "= SCHEDLAB_RACE_ABI + 1;", "not a plug-in of version 1"),
    ],
)
def test_a_plugin_that_is_wrong_is_seen(right, wrong, first, checker, tmp_path):
    text = (SOURCES / "sorted_array.c").read_text()
    assert right in text
    source = tmp_path / "wrong.c"
    source.write_text(text.replace(right, wrong))
    done = check(checker, build_plugin(source, tmp_path / "wrong.so"))
    assert done.returncode != 0
    assert first in done.stdout


def test_a_timed_loop_that_counts_otherwise_is_seen(checker, tmp_path):
    include = tmp_path / "include"
    shutil.copytree(RACE / "include", include)
    header = include / "schedlab_race.h"
    text = header.read_text()
    assert ">> 10) + 1;" in text
    header.write_text(text.replace(">> 10) + 1;", ">> 10);"))
    command = [*LANGUAGES[".cpp"], "-fPIC", "-shared", f"-I{include}"]
    plugin = build(command, RACE / "peers" / "boost.cpp", tmp_path / "boost.so")
    done = check(checker, plugin)
    assert done.returncode != 0
    assert "boost_rbtree: operation " in done.stdout
