"""Goal: `sl.tune` gives what `schedlab tune` prints, as frames and a figure.

Method: both are asked the same of one store, so that the second makes no run.
"""

import json

import pytest
import schedlab as sl
from schedlab.errors import SchedlabError


@pytest.fixture
def asked(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))

    def ask(**changes):
        question = {"objective": "p99_wakeup", "keep": {"throughput": 3}, "trials": 6, "repeat": 3}
        question |= {"ranges": {"slice_ns": "500us..4ms"}, "sleepers": 10, "progress": False}
        question |= {"store": tmp_path / "schedlab.db"} | changes
        return sl.tune("round_robin", "sleepers", "e5200", **question)

    return ask


def test_the_call_answers_as_the_command_that_it_names(asked, command, tmp_path):
    found = asked()
    words = found.tuned.command.split()[1:]
    told = json.loads(command(*words, "--json", "--quiet").stdout)
    assert told["runs_made"] == 0 and told["verdict"] == found.verdict
    assert len(found.frame()) == len(told["trials"]) == 6
    rows = [row for one in told["candidates"] for row in one["rows"]]
    assert list(found.table()["cost"]) == [row["cost_ratio"] for row in rows]
    assert found.figure().data
    assert "Is there a better round_robin?" in found.report(tmp_path / "page.html").read_text()


def test_a_set_is_written_only_where_something_is_better(asked, tmp_path):
    found = asked()
    file = tmp_path / "round_robin.sets.toml"
    assert found.verdict == "better" and found.tunables["slice_ns"] < 3_000_000
    assert found.write_set("fast", file).read_text().startswith('[[set]]\nname = "fast"')
    for words, message in ((("a b",), "^name: 'a b' is no name"), (("a", "no/x.toml"), "^set")):
        with pytest.raises(SchedlabError, match=message) as error:
            found.write_set(*words)
        assert "--" not in f"{error.value}{error.value.hint}"
    # What takes part in nothing is no better.
    same = asked(ranges={"slice_ns": "20ms..30ms"})
    assert same.verdict == "no better" and same.tunables == {}
    with pytest.raises(SchedlabError, match="there is no set to write"):
        same.write_set()


def test_errors_speak_of_keywords(asked):
    with pytest.raises(SchedlabError) as error:
        asked(ranges={"slice_ns": "3ms"})
    assert str(error.value).startswith("ranges slice_ns:")
    for wrong, message in (
        ({"objective": "latency"}, "objective"),
        ({"objective": 3}, "^objective: '3' is no measure|unknown measure '3'"),
        ({"ranges": {"slice_ns": (1, 2)}}, r"^ranges slice_ns: '\(1, 2\)' is not a range"),
        ({"keep": {"throughput": "much"}}, "^keep: 'throughput=much%' is no bound"),
        ({"keep": ["throughput=2%"]}, r"^keep: \['throughput=2%'\] is no mapping"),
        ({"ranges": "slice_ns=1ms..2ms"}, "^ranges: 'slice_ns=1ms..2ms' is no mapping"),
        ({"tunables": ["x"]}, "^tunables: .* is no mapping"),
        ({"trials": 0}, "^trials: 0 is outside 1 to 10000"),
        ({"fresh": 2}, "^fresh: 2 is outside 3 to 10000"),
        ({"seed": -1}, "^seed: -1 is outside 0"),
    ):
        with pytest.raises(SchedlabError, match=message) as error:
            asked(**wrong)
        assert error.value.hint and "--" not in f"{error.value}{error.value.hint}"


def test_a_bound_may_be_written_with_its_sign(asked):
    [keep] = asked(keep={"throughput": "3%"}, trials=1).tuned.tuning.keeps
    assert keep.within == 0.03
