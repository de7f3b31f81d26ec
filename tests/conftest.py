"""What several test files need: the real command, a stand-in for the core, and made-up runs.

At its end a run of several files says what each of them took.
"""

import os
import signal
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import forked
import pytest
import schedlab
from schedlab import catalogue
from schedlab.store.runs import RunRecord

ROOT = Path(__file__).resolve().parents[1]
COMMAND_TIMEOUT_S = 300
FILES_SHOWN = 15
NAME_LENGTH_MAX = 200


def pytest_configure(config):
    # A shell's background ignores Ctrl-C from the beginning, and so would what tests start there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Some environments forbid Python to keep what it compiled. It is started a thousand times here,
    # and each time it would compile all libraries again, which takes longer than what is tested.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for marker in (
        "stand_in: uses a stand-in for the compiled core; says nothing about simulation",
        "qemu: most of the file boots kernels in virtual machines",
        "browser: opens a page in chromium",
    ):
        config.addinivalue_line("markers", marker)


def pytest_make_parametrize_id(val):
    """A long text is no part of a test's name, which pytest hands on in the environment."""
    if isinstance(val, str | bytes) and len(val) > NAME_LENGTH_MAX:
        return f"{len(val)} of {type(val).__name__}"
    return None


def pytest_collection_finish(session):
    """Groups must reach pytest's workers, or each of them boots and builds for all."""
    if session.config.getoption("loadgroup", default=False):
        for item in session.items:
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
                raise pytest.UsageError(
                    "pytest-xdist and this pytest do not keep groups of tests together:"
                    " take the versions of uv.lock"
                )


def pytest_terminal_summary(terminalreporter):
    """The files that took longest, fixtures included: with several workers, seconds of all."""
    spent_s = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent_s[report.nodeid.partition("::")[0]] += report.duration
    if len(spent_s) > 1:
        terminalreporter.section("seconds by file")
        for path, seconds in spent_s.most_common(FILES_SHOWN):
            terminalreporter.write_line(f"{seconds:7.1f}  {path}")
        if others := spent_s.most_common()[FILES_SHOWN:]:
            seconds = sum(seconds for _, seconds in others)
            terminalreporter.write_line(f"{seconds:7.1f}  {len(others)} others")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A cache of compiled policies for all of pytest's workers, so that each is compiled once."""
    place = tmp_path_factory.getbasetemp()
    return (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "cache"


@pytest.fixture
def environment(cache):
    """The environment of a command under test: plain output, a cache of its own."""
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "FORCE_COLOR")}
    return kept | {"XDG_CACHE_HOME": str(cache), "NO_COLOR": "1"}


@pytest.fixture(scope="session")
def divided():
    """The process that commands divide from."""
    process = forked.Divided()
    yield process
    process.close()


@pytest.fixture
def command(tmp_path, environment, divided):
    """Runs the real `schedlab` in an empty directory; gives code, stdout and stderr."""

    def run(*arguments, cwd=tmp_path, **kwargs):
        words = [*map(str, arguments)]
        if not kwargs and divided.takes(environment):
            return divided.run(words, cwd, environment, COMMAND_TIMEOUT_S)
        return subprocess.run(
            [sys.executable, "-m", "schedlab", *words],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
            **kwargs,
        )

    return run


class StandInError(Exception):
    """Takes the place of `_native.NativeError`."""


def stand_in_sets(name):
    """The set that a shipped policy's name alone means, without values."""
    meant = catalogue.split_set(catalogue.with_set(name))[1]
    return [{"name": meant, "tunables": {}, "is_plain": True}] if meant else []


def stand_in_core():
    """A module with the core's names whose digests are the texts they would be made of."""
    core = types.ModuleType("schedlab._native")
    core.__file__ = __file__
    core.NativeError = StandInError
    core.PolicyError = type("PolicyError", (StandInError,), {})
    core.ScenarioError = type("ScenarioError", (StandInError,), {})
    core.version = lambda: "9.9"
    core.way_out = lambda message: None
    core.compile_policy = lambda source, include_dirs, *folders: types.SimpleNamespace(
        name=Path(source).name.removesuffix(".bpf.c"),
        digest=f"digest of {Path(source).name}",
        object_path=f"/{Path(source).name}.o",
        description="an idea",
        warnings="",
        tunables=[
            {"name": "slice_ns", "type": "u64", "default": 3_000_000, "doc": "A turn."},
            {"name": "greedy", "type": "bool", "default": 0, "doc": "Whether it is."},
        ],
        sets=stand_in_sets(Path(source).name.removesuffix(".bpf.c")),
    )
    core.load_machine = lambda path, cpus=None, kernel=None: types.SimpleNamespace(
        name=Path(path).stem, digest=f"digest of {Path(path).name}", nr_cpus=2, hz=100, policies=[]
    )
    core.workload_parameters = lambda path: [
        {"name": "groups", "default": "10", "doc": ""},
        {"name": "loops", "default": "100", "doc": ""},
    ]
    core.load_workload = lambda path, parameters: types.SimpleNamespace(
        name=Path(path).stem,
        digest=f"digest of {Path(path).name} {sorted(parameters.items())}",
        parameters={"groups": "10", "loops": "100", **parameters},
        check_cpus=lambda machine, nr_cpus: None,
        check_playable=lambda: None,
    )
    return core


@pytest.fixture
def core(monkeypatch, cache):
    """Puts the stand-in in the place of the core, for this process only."""
    stand_in = stand_in_core()
    monkeypatch.setitem(sys.modules, "schedlab._native", stand_in)
    monkeypatch.setattr(schedlab, "_native", stand_in, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return stand_in


@pytest.fixture
def make_record():
    """Makes up a finished run; keyword arguments replace what it is made of."""

    def make(digest="aaaa", **changes):
        manifest = {
            "policy_name": "fifo",
            "policy_source": "/there/fifo.bpf.c",
            "policy_source_digest": "p1",
            "tunables": {"slice_ns": 3},
            "machine_digest": "m1",
            "workload_digest": "w1",
            "parameters": {"groups": "10"},
            "until_ns": 0,
            "backend": "sim",
            "version": "1.0",
            "started_at": "2026-01-02T03:04:05.678+00:00",
            "wall_ns": 5,
            "platform": None,
            "replay": "schedlab run fifo",
            "experiment": None,
        }
        fields = {
            "policy": "fifo",
            "machine": "osdl-1",
            "workload": "hackbench",
            "varied": {"groups": 10},
            "seed": 1,
            "status": "completed",
            "result": {"status": "completed", "digest": digest, "makespan_ns": 7, "error": None},
        }
        manifest |= {name: changes.pop(name) for name in list(changes) if name in manifest}
        return RunRecord(**(fields | changes), manifest=manifest)

    return make
