"""Goal: where runs are equally long nobody is called faster, and what differs is told first.

Method: made-up runs with times that are equal, overlap or differ, and with deadlines, response
times, shares and latencies whose order is known; the report's page and the terminal's table.
"""

import dataclasses
import re

import pytest
from made_answers import write_page
from schedlab.experiment.headline import equal_times, overlap, panel_sentences, told_panels
from schedlab.experiment.metrics import metrics_of
from schedlab.experiment.study import study_of
from schedlab.statistics.estimates import estimate

COUNTS = {"count": 2, "mean": 1, "p50": 1, "p90": 1}


@pytest.fixture
def run_of(make_record):
    """Makes up a run of so many seconds; `slow_ms` are the slowest wake-ups and responses."""

    def make(
        policy, seconds=1.0, seed=1, slow_ms=1, requests=None, shares=None, x=None, wakes=True
    ):
        slow = COUNTS | {"p99": slow_ms * 10**6, "max": slow_ms * 10**6, "histogram": []}
        groups = [
            {"name": str(nice), "nice": nice, "count": 1, "pinned": False,
             "run_ns": int(share * 1e9), "wait_ns": int((1 - share) * 1e9)}
            for nice, share in (shares or {}).items()
        ]  # fmt: skip
        result = {
            "status": "completed", "error": None, "makespan_ns": int(seconds * 1e9),
            "elapsed_ns": 10**9, "nr_cpus": 1, "nr_tasks": 2, "wakeups": 9 if wakes else 0,
            "switches": None,
            "wakeup_latency_ns": slow, "task_groups": groups,
            "requests": [
                {"name": name, "deadlines": 100, "deadline_misses": missed, "response_ns": slow}
                for name, missed in (requests or {}).items()
            ],
        }  # fmt: skip
        return make_record(
            policy=policy, seed=seed, result=result, varied={} if x is None else {"n": x}
        )

    return make


def told(records):
    study = study_of(records)
    return told_panels(study, metrics_of(study)).get("osdl-1")


def sentences_of(records):
    study = study_of(records)
    return panel_sentences(study, told_panels(study, metrics_of(study)))


@pytest.mark.parametrize(
    ("times", "equal"),
    [
        ({"a": [1, 1, 1], "b": [1, 1, 1]}, True),
        ({"a": [1, 1, 1], "b": [1.009, 1.009, 1.009]}, True),
        ({"a": [1, 1, 1], "b": [1.02, 1.02, 1.02]}, False),
        ({"a": [1, 1.1, 1.2], "b": [1.1, 1.2, 1.3]}, True),
        ({"a": [1, 1.1, 1.2], "b": [2.1, 2.2, 2.3]}, False),
        ({"a": [1], "b": [1.5]}, False),
        ({"a": [1], "b": [1]}, True),
        ({"a": [1, 1, 1]}, False),
    ],
)
def test_times_are_equal_by_their_intervals_or_a_percent(run_of, times, equal):
    records = [run_of(p, s, seed) for p, all_s in times.items() for seed, s in enumerate(all_s)]
    [cell] = study_of(records).panels[0].cells
    assert equal_times(cell) == equal
    assert (told(records) is not None) == equal


def test_times_are_not_equal_where_seed_by_seed_one_is_faster(run_of):
    records = [run_of(p, s, seed) for p, all_s in {"a": [1, 1.1, 1.2], "b": [1.1, 1.2, 1.3]}.items()
               for seed, s in enumerate(all_s)]  # fmt: skip
    [cell] = study_of(records).panels[0].cells
    [(policy, contrast)] = cell.comparisons.items()
    paired = dataclasses.replace(contrast, verdict="slower")
    assert equal_times(cell)
    assert not equal_times(dataclasses.replace(cell, comparisons={policy: paired}))


def test_intervals_overlap_if_one_value_lies_in_all():
    near, far = estimate([1.0, 1.1, 1.2]), estimate([5.0, 5.1, 5.2])
    assert overlap([near, near]) and not overlap([near, near, far])
    assert not overlap([estimate([1.0])] * 2)


def test_missed_deadlines_are_told_before_all_else(run_of):
    runs = {"cfs": (1, {"audio": 0, "video": 2}), "o1": (9, {"audio": 0, "video": 30})}
    records = [
        run_of(policy, seed=seed, slow_ms=slow_ms, requests=missed)
        for policy, (slow_ms, missed) in runs.items()
        for seed in range(3)
    ]
    sentence = told(records)
    assert sentence.startswith(
        "no policy is faster: all take 1.000 s. Missed deadlines (video): from"
    )
    assert re.search(
        r"from 2\.00 \[0\.\d\d, \d\.\d\d\] % under cfs to 30\.00 \[.*\] % under o1", sentence
    )


def test_where_no_deadline_is_missed_response_times_are_told(run_of):
    records = [run_of(p, slow_ms=ms, requests={"key": 0}) for p, ms in (("cfs", 3), ("o1", 7))]
    assert (
        "No deadline was missed. 99th percentile of response time (key): from 3.000 ms under cfs"
        in (told(records))
    )


def test_shares_are_told_before_latencies(run_of):
    shares = {"fair": {0: 0.5, 5: 0.5}, "fairer": {0: 0.7, 5: 0.3}}
    records = [run_of(policy, shares=of) for policy, of in shares.items()]
    assert "Largest error of a share of CPU time: from " in told(records)
    records = [run_of(policy, slow_ms=ms) for policy, ms in (("cfs", 3), ("o1", 7), ("bfs", 3))]
    assert told(records).endswith(
        "wake-up latency: from 3.000 ms under cfs and bfs to 7.000 ms under o1."
    )


def test_what_differs_at_any_value_is_told_where_it_differs_most(run_of):
    errors = {1: 0.9, 2: 0.7, 4: 0.5}
    records = [
        run_of(policy, shares=shares, x=x)
        for x, share in errors.items()
        for policy, shares in (
            ("fair", {0: 0.75, 5: 0.25}),
            ("unfair", {0: share, 5: 1 - share}),
        )
    ]
    sentence = told(records)
    assert "Largest error of a share of CPU time at n = 4: from" in sentence
    # At the last value all are served alike.
    records = [
        run_of(policy, requests={"video": missed}, x=x)
        for x, both in ((1, (0, 50)), (2, (0, 20)), (4, (0, 0)))
        for policy, missed in zip(("cfs", "o1"), both, strict=True)
    ]
    sentence = told(records)
    assert "Missed deadlines (video) at n = 1: from 0.00 % under cfs to 50.00 %" in sentence
    assert "No deadline" not in sentence
    records = [run_of(p, requests={"video": 0}, x=x) for x in (1, 2) for p in ("cfs", "o1")]
    assert "No deadline was missed at any n" in told(records)


def test_where_nothing_differs_it_says_so(run_of):
    records = [run_of(policy, wakes=False) for policy in ("cfs", "o1")]
    assert told(records).endswith("Nothing else that was measured tells them apart.")


def test_of_policies_that_failed_nothing_is_said(run_of):
    records = [run_of(policy, wakes=False) for policy in ("cfs", "o1", "bfs")]
    failed = {**records[2].result, "status": "failed", "makespan_ns": None}
    records[2] = dataclasses.replace(records[2], status="failed", result=failed)
    assert told(records).startswith("of cfs and o1 none is faster: all take 1.000 s")


def test_a_panel_that_differs_somewhere_keeps_its_sentence(run_of):
    records = [run_of(p, s, x=x) for x, both in ((1, (1, 2)), (2, (1, 1)))
               for p, s in zip(("cfs", "o1"), both, strict=True)]  # fmt: skip
    assert told(records) is None
    records = [run_of(p, x, x=x) for x in (1, 2) for p in ("cfs", "o1")]
    assert "no policy is faster at any n; at n = 2 all take 2.000 s" in told(records)


def test_times_that_nothing_changes_are_told_once_and_not_drawn(run_of, tmp_path):
    """A run that stops at a set time: what grows with n is how late its tasks are."""
    records = [run_of(p, slow_ms=x, x=x) for x in (1, 2, 3) for p in ("cfs", "o1")]
    study = study_of(records)
    assert study.panels[0].growth == {}
    assert told(records).startswith("no policy is faster: at every value of n all take 1.000 s. ")
    write_page(tmp_path / "r.html", records)
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'data-kind="curve"' not in html and 'data-table="growth"' not in html
    assert 'data-kind="latency-axis"' in html, "which does differ"
    assert "Plotly.newPlot" in html, "by which it is drawn"
    assert html.index('id="latency"') < html.index('id="comparison"')


def test_times_of_one_place_that_are_the_same_are_told_once(run_of, tmp_path):
    records = [run_of(policy, slow_ms=ms) for policy, ms in (("cfs", 1), ("o1", 2))]
    assert study_of(records).panels[0].is_flat
    assert told(records).startswith("no policy is faster: all take 1.000 s. ")
    write_page(tmp_path / "r.html", records)
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'data-kind="curve"' not in html
    near = [run_of("cfs", seconds=1.0), run_of("o1", seconds=1.005)]
    assert not study_of(near).panels[0].is_flat, "less than a percent apart, but not the same"
    write_page(tmp_path / "r.html", near)
    assert 'data-kind="curve"' in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_summary_names_no_winner_of_equal_times(run_of, tmp_path):
    records = [run_of(policy, slow_ms=ms) for policy, ms in (("cfs", 2), ("o1", 1))]
    [(_, sentence)] = sentences_of(records)
    assert "lowest mean time" not in sentence and "no policy is faster" in sentence
    write_page(tmp_path / "r.html", records)
    assert "Their times are equal" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_who_is_above_the_best_by_less_than_the_intervals_is_told(run_of):
    times = {"cfs": [1.0, 1.1, 1.2], "o1": [1.1, 1.2, 1.3], "fifo": [3.0, 3.0, 3.0]}
    records = [run_of(p, s, seed) for p, all_s in times.items() for seed, s in enumerate(all_s)]
    [(_, sentence)] = sentences_of(records)
    assert "o1 is above it by less than the intervals" in sentence
    assert "fifo" not in sentence.split("is above it by less")[0].rpartition(";")[2]


def test_claims_stand_in_the_report(run_of, tmp_path):
    from schedlab.experiment.verdicts import ClaimFinding, Judged

    found = [ClaimFinding(f"at {place}", 1.5, 1.4, 1.6, 2.0, 1.0, None) for place in "ab"]
    judged = [Judged("o1 is <slower>", "", 2, found), Judged("less memory", "", 0, (), "no memory")]
    write_page(tmp_path / "r.html", [run_of("cfs", 1), run_of("o1", 2)], judged=judged)
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    table = html.split('data-table="claims"')[1].split("</table>")[0]
    assert "o1 is &lt;slower&gt;" in table and "<summary>2 places</summary>" in table
    assert ">reproduced</td><td>1.500 [1.400, 1.600]</td><td>2.000</td><td>≥ 1.000</td>" in table
    assert "cannot tell: no memory" in table and 'href="#claims"' in html
    write_page(tmp_path / "r.html", [run_of("cfs", 1)])
    assert 'id="claims"' not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_policy_that_is_alone_with_equal_times_is_told_and_none_is_called_faster(run_of):
    sentence = told([run_of("cfs", x=x) for x in (1, 2)])
    assert sentence == "times do not change with n: all take 1.000 s."
    records = [run_of("cfs", x=1), run_of("cfs", x=2), run_of("o1", x=2)]
    assert told(records).startswith("times do not change with n"), "o1 failed where n = 1"
