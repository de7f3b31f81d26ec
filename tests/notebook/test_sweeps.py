"""Goal: a sweep is one call, and its runs are those of the command. Method: small sweeps."""

import re
from pathlib import Path

import pytest
import schedlab as sl
from kept_rows import rows
from schedlab.errors import SchedlabError

ASKED = {
    "name": "small",
    "policies": ["fifo", "round_robin"],
    "workload": "hackbench",
    "machine": "osdl-1",
    "repeat": 2,
    "with": {"loops": 1},
    "sample": {"points": 3, "ranges": {"groups": {"low": 1, "high": 3}}},
}
TOML = """\
name = "small"
policies = ["fifo", "round_robin"]
workload = "hackbench"
machine = "osdl-1"
repeat = 2
with = { loops = 1 }
sample = { points = 3, ranges = { groups = { low = 1, high = 3 } } }
"""


def test_a_call_asks_what_a_file_asks(tmp_path, command):
    swept = sl.sweep(ASKED, store=tmp_path / "called.db", progress=False)
    assert (swept.runs, swept.made, swept.by_status) == (12, 12, {"completed": 12})
    (tmp_path / "small.toml").write_text(TOML)
    done = command("sweep", "small.toml", "--store", "typed.db")
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "called.db") == rows(tmp_path / "typed.db")
    again = sl.sweep(tmp_path / "small.toml", store=tmp_path / "called.db", progress=False)
    assert (again.id, again.made, again.reused) == (swept.id, 0, 12)


def test_an_experiment_that_no_store_has_is_unknown_whatever_it_is(tmp_path):
    sl.sweep(ASKED, store=tmp_path / "s.db", progress=False)
    for wrong in (5, [], "smll"):
        with pytest.raises(SchedlabError, match=re.escape(f"unknown experiment {wrong!r} in")):
            sl.open(tmp_path / "s.db").experiment(wrong)


def test_a_frame_has_a_row_a_run(tmp_path):
    frame = sl.sweep(ASKED, store=tmp_path / "s.db", processes=1, progress=False).frame()
    assert len(frame) == 12
    assert sorted(frame["groups"].unique()) == [1, 2, 3]
    assert (frame["makespan_ns"] > 0).all()


@pytest.mark.parametrize(
    ("changed", "keywords", "told"),
    [
        ({"sample": {"points": 0}}, {}, "sweep: sample.points: 0 is not a whole number"),
        ({"sample": {"points": 3, "ranges": 5}}, {}, r"(?s)ranges: 5 is no.*\[sample.ranges\]"),
        ({"sample": {"points": 3, "ranges": {"groups": {"low": 3, "high": 1}}}}, {}, "exchange"),
        ({"repeat": 0}, {}, "sweep: repeat: 0 is not a whole number from 1 to 100000"),
        ({"set": {"fifo": {"x": []}}}, {}, r'(?s)set.fifo.x: \[\] is not a number.*"5ms"'),
        ({"polices": []}, {}, "unknown key 'polices'"),
        ({}, {"limit": "long"}, "limit: 'long' is not a time"),
        ({}, {"limit": 0}, "limit: 0 is not a time"),
        ({}, {"limit": "100ms"}, "limit: '100ms' is too short to be kept"),
        ({5: 1}, {}, "sweep: 5 is no name"),
        ({"with": {5: 1}}, {}, "sweep: with: 5 is no name"),
        ({}, {"dask": 5}, "dask: '5' is no address"),
        ({}, {"dask": Path("x.json")}, "dask: 'x.json' is no file"),
        ({}, {"dask": "local:0"}, "dask: 'local:0' is not from local:1"),
        ({}, {"dask": "local:1", "processes": 2}, "processes is of processes here"),
        ({}, {"store": 5}, "^store: 5 is no path"),
        ({}, {"processes": 0}, r"(?s)^processes: 0 is outside.*give one from 1 to 1024"),
        ({"policies": 5}, {}, r"(?s)policies: 5 is not a list.*write it as"),
        ({}, {"store": None}, "^store: None is no path"),
        ({}, {"store": "~nobody-here/s.db"}, "store: '~nobody-here/s.db' is in the home of nobody"),
    ],
)
def test_wrong_input_is_told_in_keywords(tmp_path, changed, keywords, told):
    with pytest.raises(SchedlabError, match=told):
        sl.sweep(ASKED | changed, **{"store": tmp_path / "s.db", "progress": False} | keywords)
