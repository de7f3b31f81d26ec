"""Goal: delays, deadlines and shares are told as they were, and only where runs have them.

Method: made-up runs whose numbers have closed forms, the figures' own data, the page's tables, and
one simulation of tasks that compete, held against their weights.
"""

import json
import re

import numpy as np
import pytest
from made_answers import write_page
from plotted import Plotted
from schedlab.experiment.metrics import metrics_of, requests, share_errors, wakeup_latencies
from schedlab.experiment.study import study_of
from schedlab.experiment.table import print_interactivity
from schedlab.nice import fair_shares, weight_of
from schedlab.report import figures as drawn_figures
from schedlab.report.figures import Point
from schedlab.statistics.estimates import mean_ecdf

ELAPSED_NS = 10**9
figures = Plotted(drawn_figures)
PARTS = ("work", "kernel", "scheduler", "lock_wait", "idle")


def delays(*values_ns):
    """A distribution as a run has it, by nearest rank, with one class a value."""
    ranked = sorted(values_ns)
    rank = {f"p{p}": ranked[-(-len(ranked) * p // 100) - 1] for p in (50, 90, 99)}
    histogram = [[value, ranked.count(value)] for value in sorted(set(ranked))]
    return {
        "count": len(ranked), "mean": sum(ranked) / len(ranked), **rank, "max": ranked[-1],
        "histogram": histogram,
    }  # fmt: skip


def hogs(**shares):
    """Task groups, one task each, that run or wait all the time; `nice_5=0.2` ran a fifth of it."""
    return [
        {
            "name": name, "nice": int(name.removeprefix("nice_")), "count": 1, "pinned": False,
            "run_ns": int(share * ELAPSED_NS), "wait_ns": ELAPSED_NS - int(share * ELAPSED_NS),
            "switches": 9, "migrations": 0, "first_exit_ns": 0, "last_exit_ns": 0,
        }
        for name, share in shares.items()
    ]  # fmt: skip


@pytest.fixture
def run_of(make_record):
    """Makes up a simulated run; keyword arguments are what its result has."""

    def make(policy="cfs", seed=1, varied=None, **changes):
        result = {
            "status": "completed", "error": None, "digest": f"{policy}{seed}",
            "makespan_ns": ELAPSED_NS, "elapsed_ns": ELAPSED_NS, "messages": 0, "nr_tasks": 4,
            "nr_cpus": 1, "events": 9, "switches": 9, "voluntary_switches": 4,
            "involuntary_switches": 5, "migrations": 0, "wakeups": 4, "ticks": 1, "interrupts": 0,
            "cpu_time_ns": dict.fromkeys(PARTS, ELAPSED_NS // 5), "run_ns": delays(1),
            "wait_ns": delays(1), "wakeup_latency_ns": delays(1), "jain_fairness": 1.0,
            "task_groups": [], "timeline": None, "timeline_names": None,
        } | changes  # fmt: skip
        return make_record(policy=policy, seed=seed, varied=varied or {}, result=result)

    return make


def html_of(tmp_path, records):
    write_page(tmp_path / "report.html", records)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def figures_in(html, kind):
    found = re.findall(rf'data-figure="{kind}-\d+">(.*?)</script>', html)
    return [json.loads(text) for text in found]


# --- shares that weights promise ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "nr_cpus", "shares"),
    [
        ([1, 1], 1, [0.5, 0.5]),
        ([3, 1], 1, [0.75, 0.25]),
        # 3 of 5 promises more than one of two CPUs: it has one, and the others share the other.
        ([1, 3, 1], 2, [0.25, 0.5, 0.25]),
        ([100, 10, 1, 1], 3, [1 / 3, 1 / 3, 1 / 6, 1 / 6]),
        ([7, 5], 4, [0.5, 0.5]),
    ],
)
def test_a_share_is_by_weight_and_one_cpu_at_most(weights, nr_cpus, shares):
    assert fair_shares(weights, nr_cpus) == pytest.approx(shares)


def test_the_error_of_a_share_is_what_was_got_less_what_weights_promise(run_of):
    got = {"nice_0": 0.6, "nice_5": 0.3, "nice_10": 0.1}
    [row] = share_errors(study_of([run_of(task_groups=hogs(**got), nr_tasks=3)]))
    weights = [weight_of(nice) for nice in (0, 5, 10)]
    promised = [100 * weight / sum(weights) for weight in weights]
    errors = [60 - promised[0], 30 - promised[1], 10 - promised[2]]
    assert [one.nice for one in row.shares] == [0, 5, 10]
    assert [one.promised for one in row.shares] == pytest.approx(promised)
    assert [one.error.mean for one in row.shares] == pytest.approx(errors)
    assert row.largest.mean == pytest.approx(max(map(abs, errors)))
    assert row.mean.mean == pytest.approx(sum(map(abs, errors)) / 3)


def changed(groups, **changes):
    return [groups[0] | changes, *groups[1:]]


FAIR = {"nice_0": 0.6, "nice_3": 0.4}


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("one nice value", {"task_groups": changed(hogs(**FAIR), nice=3)}),
        ("a CPU for each", {"task_groups": hogs(**FAIR), "nr_cpus": 2}),
        ("kept off a CPU", {"task_groups": changed(hogs(**FAIR), pinned=True)}),
        ("one sleeps", {"task_groups": changed(hogs(**FAIR), wait_ns=0)}),
        ("not known on a kernel", {"task_groups": changed(hogs(**FAIR), wait_ns=None)}),
        (
            "others take CPU time",
            {"task_groups": [*hogs(**FAIR), hogs(nice_9=0.05)[0] | {"wait_ns": 0}]},
        ),
        ("no tasks", {"task_groups": []}),
    ],
)
def test_no_share_is_told_where_there_is_no_closed_form(run_of, tmp_path, why, changes):
    assert share_errors(study_of([run_of(task_groups=hogs(**FAIR))]))
    run = run_of(**changes)
    assert share_errors(study_of([run])) == [], why
    html = html_of(tmp_path, [run])
    assert 'id="shares"' not in html and figures_in(html, "shares") == []


def test_tasks_that_compete_get_what_weights_promise_from_a_fair_policy(command):
    words = ["--workload", "nice_shares", "--with", "length=4s", "--machine", "osdl-2"]
    done = command("compare", "cfs", "o1@2.6.0", *words, "--repeat", "1", "--json", "-q")
    cfs, o1 = json.loads(done.stdout)["shares"]
    # -5 has a CPU for itself; 0, 5 and 10 share the other: 1024, 335 and 110 of 1469.
    expected = [50, *(50 * weight / 1469 for weight in (1024, 335, 110))]
    assert [one["promised"] for one in cfs["shares"]] == pytest.approx(expected)
    assert [one["got"]["mean"] for one in cfs["shares"]] == pytest.approx(expected, abs=0.5)
    assert o1["largest_error"]["mean"] > 10 > 1 > cfs["largest_error"]["mean"]


def test_tasks_that_may_not_run_everywhere_are_told_as_pinned(command, tmp_path):
    (tmp_path / "pinned.toml").write_text(
        'description = "two tasks of one CPU"\nsource = "own"\nstop = "100ms"\n'
        + "".join(
            f'[[tasks]]\nname = "t{nice}"\nnice = {nice}\ncount = 2\n{cpus}\n'
            'program = [{ repeat = "forever", do = [{ run = "1ms" }] }]\n'
            for nice, cpus in ((0, "cpus = [0]"), (5, ""))
        )
    )
    words = ["--workload", "./pinned.toml", "--machine", "osdl-2", "--repeat", "1", "--json", "-q"]
    told = json.loads(command("compare", "cfs", *words).stdout)
    groups = told["runs"][0]["result"]["task_groups"]
    assert {group["name"]: group["pinned"] for group in groups} == {"t0": True, "t5": False}
    assert told["shares"] == []


# --- delays ---------------------------------------------------------------------------------------


def test_the_distribution_function_is_the_mean_of_those_of_the_runs():
    first, second = [(10, 1), (30, 3)], [(20, 10), (30, 10)]
    values, shares = mean_ecdf([first, second, []])
    assert list(values) == [10, 20, 30]
    # 1 of 4 and 0 of 20 are at most 10; 1 of 4 and 10 of 20 at most 20.
    assert shares == pytest.approx([0.125, 0.375, 1.0])
    assert [len(part) for part in mean_ecdf([])] == [0, 0]


def test_a_run_with_more_values_weighs_no_more():
    few, many = [(10, 1)], [(20, 999)]
    assert mean_ecdf([few, many])[1] == pytest.approx([0.5, 1.0])


def test_wakeup_latency_is_told_where_tasks_sleep(run_of, tmp_path):
    born = run_of(nr_tasks=4, wakeups=4)
    assert wakeup_latencies(study_of([born])) == []
    assert 'id="latency"' not in html_of(tmp_path, [born])
    woken = run_of(wakeups=5, wakeup_latency_ns=delays(1_000, 2_000, 4_000))
    [row] = wakeup_latencies(study_of([woken]))
    assert row.percentiles["p50"].mean == pytest.approx(2_000)
    assert row.percentiles["max"].mean == pytest.approx(4_000)
    assert (list(row.curve[0]), list(row.curve[1])) == (
        [1_000, 2_000, 4_000],
        pytest.approx([1 / 3, 2 / 3, 1]),
    )


def printed(study):
    print_interactivity(study, metrics_of(study))


def test_a_latency_without_an_interval_says_why(run_of, capsys):
    moving = [
        run_of("o1", seed, wakeups=9, wakeup_latency_ns=delays(seed * 10**3)) for seed in (1, 2, 3)
    ]
    still = [run_of("cfs", seed, wakeups=9, wakeup_latency_ns=delays(10**3)) for seed in (1, 2, 3)]
    printed(study_of([*moving, *still]))
    assert "\nwithout [ ]: equal in all runs\n" in capsys.readouterr().out
    printed(study_of([*moving, *still[:2]]))
    assert "\nwithout [ ]: fewer than 3 runs\n" in capsys.readouterr().out
    printed(study_of(moving))
    assert "without [ ]" not in capsys.readouterr().out


def test_whole_counts_look_like_counts_in_the_report(run_of, tmp_path):
    page = html_of(tmp_path, [run_of(switches=401, migrations=7)])
    assert "<td>401</td>" in page and "<td>7</td>" in page


def test_a_run_of_an_older_store_has_percentiles_but_no_curve(run_of, tmp_path):
    old = {key: value for key, value in delays(1_000, 2_000).items() if key != "histogram"}
    html = html_of(tmp_path, [run_of(wakeups=5, wakeup_latency_ns=old)])
    assert len(figures_in(html, "latency")) == 1
    assert figures_in(html, "ecdf") == []


def test_a_curve_rises_at_each_value_to_the_share_of_those_at_most_as_long():
    looks = figures.looks_of(["o1"])
    curves = {"o1": ([0, 2_000, 4_000], [0.25, 0.5, 1.0])}
    figure = figures.ecdf_figure(curves, looks, "latency", "wake-ups")
    curve, marks = figure.data
    assert figure.layout.xaxis.type == "log"
    assert (curve.line.shape, curve.line.dash) == ("hv", looks["o1"].dash)
    # From nothing at the first value, here 0 drawn at 1 ns, and on to the end of the axis.
    assert list(curve.x)[:4] == [1, 1, 2_000, 4_000] and curve.x[4] > 4_000
    assert list(curve.y) == [0, 25, 50, 100, 100]
    assert (list(marks.x), list(marks.y)) == ([2_000, 4_000, 4_000], [50, 100, 100])
    assert marks.marker.symbol == looks["o1"].symbol
    assert figure.layout.yaxis.title.text == "wake-ups (%)"
    low, high = figure.layout.xaxis.range
    assert low < 0 and high > np.log10(4_000)


def test_a_narrow_screen_has_room_for_the_times_below_a_curve():
    looks = figures.looks_of(["o1"])
    for high_ns in (10**3, 10**6, 10**10):
        curves = {"o1": ([10, high_ns], [0.5, 1.0])}
        axis = figures.ecdf_figure(curves, looks, "x", "y").layout.xaxis
        assert 1 < sum(map(bool, axis.ticktext)) <= figures.TICK_LABELS_MAX
        assert len(axis.ticktext) == len(axis.tickvals)


# --- requests -------------------------------------------------------------------------------------


def group(name="audio", deadlines=0, missed=0, response=None):
    done = response["count"] if response else 0
    return {
        "name": name, "done": done, "deadlines": deadlines, "deadline_misses": missed,
        "response_ns": response or {"count": 0, "mean": 0, "p50": 0, "p90": 0, "p99": 0, "max": 0},
    }  # fmt: skip


def test_a_workload_without_requests_has_no_section_of_them(run_of, tmp_path):
    for told in ({}, {"requests": []}, {"requests": [group()]}):
        records = [run_of(**told)]
        assert requests(study_of(records)) == []
        html = html_of(tmp_path, records)
        assert 'id="requests"' not in html
        assert figures_in(html, "deadlines") == figures_in(html, "response") == []


def test_missed_deadlines_are_a_percentage_of_each_run(run_of, tmp_path):
    missed = {"cfs": (10, 30), "o1": (0, 0)}
    records = [
        run_of(
            policy=policy,
            seed=seed,
            requests=[group(deadlines=200, missed=count, response=delays(4_000_000, 9_000_000))],
        )
        for policy, counts in missed.items()
        for seed, count in enumerate(counts, start=1)
    ]
    cfs, o1 = requests(study_of(records))
    assert (cfs.name, cfs.deadlines.mean, cfs.missed.mean, o1.missed.mean) == ("audio", 200, 10, 0)
    html = html_of(tmp_path, records)
    [figure] = figures_in(html, "deadlines")
    assert [trace["y"][0] for trace in figure["data"]] == [10, 0]
    assert figure["layout"]["xaxis"]["ticktext"] == ["audio"]
    assert len(figures_in(html, "response")) == 1
    assert "Response times and deadlines</h2>" in html


def test_the_interval_of_missed_deadlines_reaches_below_nothing(run_of, tmp_path):
    records = [
        run_of(seed=seed, requests=[group(deadlines=50, missed=missed)])
        for seed, missed in enumerate((0, 0, 1))
    ]
    [row] = requests(study_of(records))
    assert row.missed.mean == pytest.approx(2 / 3)
    assert 0 < row.missed.low < row.missed.mean < row.missed.high
    html = html_of(tmp_path, records)
    assert f"[{row.missed.low:.2f}, {row.missed.high:.2f}]" in html
    [figure] = figures_in(html, "deadlines")
    error = figure["data"][0]["error_y"]
    assert figure["data"][0]["y"][0] - error["arrayminus"][0] == pytest.approx(row.missed.low)


def test_requests_without_deadlines_have_response_times_only(run_of, tmp_path):
    record = run_of(requests=[group("web", response=delays(4_000_000))])
    [row] = requests(study_of([record]))
    assert row.missed is None and row.delays.percentiles["p99"].mean == pytest.approx(4e6)
    html = html_of(tmp_path, [record])
    assert "Response times</h2>" in html and figures_in(html, "deadlines") == []


def test_requests_that_are_never_done_still_miss_their_deadlines(run_of, tmp_path):
    record = run_of(requests=[group(deadlines=5, missed=5)])
    [row] = requests(study_of([record]))
    assert (row.missed.mean, row.delays) == (100, None)
    assert figures_in(html_of(tmp_path, [record]), "response") == []


# --- side by side ---------------------------------------------------------------------------------


def test_dots_of_a_place_stand_side_by_side_around_it():
    looks = figures.looks_of(["cfs", "o1"])
    series = {"cfs": [Point("0", -1.0, -1.5, -0.5), Point("5", 1.0)], "o1": [Point("5", 3.0)]}
    figure = figures.grouped_figure(series, looks, "nice", "points", about_zero=True)
    cfs, o1 = figure.data
    assert [round(x) for x in cfs.x] == [0, 1] and [round(x) for x in o1.x] == [1]
    assert cfs.x[1] < 1 < o1.x[0]
    assert (list(cfs.y), list(o1.y)) == ([-1, 1], [3])
    assert (cfs.error_y.array[0], cfs.error_y.arrayminus[0]) == (0.5, 0.5)
    assert figure.layout.shapes[0].y0 == 0
    assert list(figure.layout.xaxis.ticktext) == ["0", "5"]


def test_the_terminal_tells_what_the_runs_have(command):
    words = ["--machine", "osdl-2", "--repeat", "1", "-q"]
    slept = command("compare", "cfs", "--workload", "ping_pong", *words).stdout
    assert all(f"wake-up latency {name}" in slept for name in ("p50", "p99", "max"))
    assert "share error" not in slept and "deadlines" not in slept
    words += ["--with", "length=1s"]
    competed = command("compare", "cfs", "--workload", "nice_shares", *words).stdout
    assert "share error, largest" in competed and "share error, mean" in competed
    assert "wake-up latency" not in competed
