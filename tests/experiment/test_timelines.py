"""Goal: a timeline shows what a run did, of the pair that was asked for or says most.

Method: the figure's bars against the stays of a simulation, closed forms of two tasks on one CPU,
and made-up studies for the choice of the pair.
"""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import schedlab
from schedlab import catalogue
from schedlab.errors import NoTimeline, UnknownName
from schedlab.experiment import timeline_figure, timelines
from schedlab.experiment.study import study_of
from schedlab.experiment.timelines import PlayedRun, Timelines, Wish
from schedlab.report import figures

POLICIES = Path(__file__).resolve().parents[2] / "policies"
LOOKS = figures.looks_of(["cfs", "o1", "bfs"])


def played(stays, names=None, policy="cfs", nr_cpus=2):
    names = names or {stay[3]: f"task{stay[3]}" for stay in stays}
    return PlayedRun(policy, nr_cpus, stays, names, 5_000_000)


def figure_of(*runs, until_ns=10_000_000):
    told = Timelines("w on m, seed 1", "asked for", until_ns, True, runs, ["command"])
    return timeline_figure.timeline_figure(told, LOOKS).plotly()


def bars(figure, axis="y"):
    """Start, end and CPU of every bar of a run, in milliseconds, with its colour."""
    return sorted(
        (round(base, 6), round(base + length, 6), cpu, trace.marker.color)
        for trace in figure.data
        if trace.yaxis == axis and trace.base is not None
        for base, length, cpu in zip(trace.base, trace.x, trace.y, strict=True)
    )


# --- the figure -----------------------------------------------------------------------------------


def test_every_stay_is_a_bar_of_its_time_and_cpu():
    stays = [(0, 4_000_000, 0, 1), (1_000_000, 2_500_000, 1, 2), (4_000_000, 10_000_000, 0, 3)]
    figure = figure_of(played(stays))
    assert [bar[:3] for bar in bars(figure)] == [(0, 4, 0), (1, 2.5, 1), (4, 10, 0)]
    assert list(figure.layout.xaxis.range) == [0, 10]
    assert figure.layout.xaxis.title.text == "simulated time (ms)"
    assert list(figure.layout.yaxis.ticktext) == ["CPU 0", "CPU 1"]
    low, high = figure.layout.yaxis.range
    assert low > high  # the first CPU on top


def test_a_pair_shares_one_axis_of_time_that_alone_can_be_zoomed():
    one = played([(0, 1_000_000, 0, 1)])
    figure = figure_of(one, played([(0, 2_000_000, 0, 1)], policy="o1"))
    assert figure.layout.xaxis.matches == "x2"
    assert figure.layout.dragmode == "zoom"
    assert figure.layout.yaxis.fixedrange and figure.layout.yaxis2.fixedrange
    assert [bar[:3] for bar in bars(figure, "y2")] == [(0, 2, 0)]
    assert ["cfs" in text.text for text in figure.layout.annotations] == [True, False]


def test_rows_stand_below_each_other_and_the_lowest_has_the_ticks():
    watched = ({"expression": "nr", "type": "u64", "samples": [(0, 1), (500_000, 2)]},)
    one = replace(played([(0, 1_000_000, 0, 1)]), watched=watched)
    layout = figure_of(one, played([(0, 2_000_000, 0, 1)], policy="o1", nr_cpus=4)).layout
    pixels = []
    before = layout.yaxis.domain[1] + 1e-9
    for axis in (layout.yaxis, layout.yaxis2, layout.yaxis3):
        low, high = axis.domain
        assert 0 <= low < high < before
        before, pixels = low, [*pixels, high - low]
    assert layout.yaxis.domain[1] == 1 and layout.yaxis3.domain[0] == pytest.approx(0)
    assert pixels[2] == pytest.approx(2 * pixels[0]), "four CPUs take twice the room of two"
    axes = (layout.xaxis, layout.xaxis2, layout.xaxis3)
    assert [axis.showticklabels for axis in axes] == [False, False, None]
    assert [axis.anchor for axis in axes] == ["y", "y2", "y3"]
    assert [axis.matches for axis in axes] == ["x3", "x3", None]


def test_tasks_of_one_name_share_a_colour_in_two_shades():
    stays = [(n, n + 1, 0, pid) for n, pid in enumerate((1, 2, 3, 4))]
    names = {1: "hog", 2: "sleeper", 3: "hog", 4: "hog"}
    figure = figure_of(played(stays, names), played(stays, names, "o1"))
    for axis in ("y", "y2"):
        colour = dict(zip(itertools.count(1), (bar[3] for bar in bars(figure, axis)), strict=False))
    assert colour[1] == colour[4] != colour[3]
    assert colour[2] not in (colour[1], colour[3])
    legend = {trace.name: trace.marker.color for trace in figure.data if trace.showlegend is None}
    assert list(legend) == ["hog", "sleeper"]
    rgb = timeline_figure.fill_of(0, False)
    assert colour[1] == rgb and legend["hog"] in timeline_figure._FILLS


def test_names_beyond_the_colours_share_the_last_one():
    stays = [(n * 100, n * 100 + 99 - n, 0, n + 1) for n in range(12)]
    places = timeline_figure.groups_of([played(stays)])
    assert list(places.values()) == [0, 1, 2, 3, 4, 5, *[6] * 6]
    names = [trace.name for trace in figure_of(played(stays)).data if trace.showlegend is None]
    assert names[-1] == "others (6 names)" and len(names) == timeline_figure.GROUPS_MAX


def test_neighbouring_colours_are_told_apart_in_grey():
    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        return 0.2126 * parts[0] ** 2.2 + 0.7152 * parts[1] ** 2.2 + 0.0722 * parts[2] ** 2.2

    for one, other in itertools.pairwise(timeline_figure._FILLS):
        assert abs(luminance(one) - luminance(other)) > 0.08, (one, other)


def test_a_bar_is_never_widened_to_a_pixel():
    # Plotly does so where bars have no gap between them, or are opaque.
    figure = figure_of(played([(0, 1, 0, 1)]))
    assert figure.layout.bargap > 0
    assert all("0.999" in colour for *_, colour in bars(figure))


def test_a_machine_of_256_cpus_still_fits_on_a_screen():
    stays = [(0, 1_000_000, cpu, cpu + 1) for cpu in range(256)]
    figure = figure_of(played(stays, nr_cpus=256), played(stays, policy="o1", nr_cpus=256))
    assert figure.layout.height < 2_000
    assert len(figure.layout.yaxis.tickvals) <= 16


# --- which pair -----------------------------------------------------------------------------------


@pytest.fixture
def run_of(make_record):
    """Makes up a run of so many seconds."""

    def make(policy, seconds, machine="osdl-2", nr_cpus=2, groups=10, seed=1, **changes):
        latency = {"count": 9, "mean": 5, "p50": 5, "p90": 5, "p99": 5, "max": 5}
        result = {
            "status": "completed", "error": None, "digest": "a", "nr_cpus": nr_cpus,
            "makespan_ns": int(seconds * 1e9), "elapsed_ns": int(seconds * 1e9), "wakeups": 9,
            "nr_tasks": 2, "wakeup_latency_ns": latency, "jain_fairness": 1.0,
        } | changes  # fmt: skip
        varied = {"groups": groups}
        return make_record(policy=policy, machine=machine, varied=varied, seed=seed, result=result)

    return make


def test_by_default_the_best_and_the_worst_of_a_small_scenario_are_shown(run_of):
    times = {"o1": 2.0, "cfs": 1.0, "bfs": 3.0}
    records = [
        run_of(policy, seconds * groups / nr_cpus, f"osdl-{nr_cpus}", nr_cpus, groups, seed)
        for nr_cpus in (8, 1, 2)
        for groups in (20, 10)
        for policy, seconds in times.items()
        for seed in (2, 1)
    ]
    pair = timelines.choose(study_of(records))
    assert [record.policy for record in pair.records] == ["cfs", "bfs"]
    place = {(r.machine, r.varied["groups"], r.seed) for r in pair.records}
    assert place == {("osdl-2", 10, 1)}
    assert pair.why == "lowest and highest mean makespan there"


def test_a_pair_and_a_scenario_can_be_asked_for(run_of):
    records = [
        run_of(policy, 1, machine, groups=groups)
        for machine in ("osdl-2", "osdl-4")
        for groups in (10, 20)
        for policy in ("o1", "cfs", "bfs")
    ]
    study = study_of(records)
    pair = timelines.choose(study, Wish(("bfs", "o1"), "osdl-4, groups=20"))
    assert [(r.policy, r.machine, r.varied["groups"]) for r in pair.records] == [
        ("bfs", "osdl-4", 20),
        ("o1", "osdl-4", 20),
    ]
    with pytest.raises(UnknownName, match="did you mean osdl-4,groups=20"):
        timelines.choose(study, Wish(scenario="osdl-4,groups=22"))
    with pytest.raises(UnknownName, match="unknown policy 'o2' in --timeline"):
        timelines.choose(study, Wish(("o1", "o2")))


def test_what_cannot_be_simulated_again_has_no_timeline(run_of):
    platform = {
        "kernel": {"release": "6.1"}, "qemu": "8", "accelerator": "kvm", "deterministic": False,
    }  # fmt: skip
    measured = run_of("o1", 1)
    measured.manifest["platform"] = platform
    with pytest.raises(NoTimeline, match="on a real kernel"):
        timelines.choose(study_of([measured]))
    with pytest.raises(NoTimeline, match="no completed run in one scenario"):
        apart = study_of([run_of("o1", 1), run_of("cfs", 1, groups=20)])
        timelines.choose(apart, Wish(("o1", "cfs")))
    pair = timelines.choose(study_of([run_of("o1", 1)]))
    with pytest.raises(NoTimeline, match="made with other files"):
        timelines.record_timelines(pair, [])


# --- of real runs ---------------------------------------------------------------------------------

SLEEPERS = ["--workload", "sleepers", "--machine", "osdl-2", "--repeat", "1", "-q"]


def timeline_in(path):
    html = path.read_text(encoding="utf-8")
    [text] = re.findall(r'data-figure="timeline-1">(.*?)</script>', html)
    return json.loads(text), html


def test_the_report_shows_the_stays_of_the_run(command, tmp_path):
    done = command(
        "compare", "cfs", "o1", *SLEEPERS, "--report", "r.html", "--timeline", "o1", "cfs"
    )
    assert done.returncode == 0, done.stderr
    figure, html = timeline_in(tmp_path / "r.html")
    shown = [
        (round(1e6 * base), round(1e6 * (base + length)), cpu)
        for trace in figure["data"]
        if trace["yaxis"] == "y" and "base" in trace
        for base, length, cpu in zip(trace["base"], trace["x"], trace["y"], strict=True)
    ]
    commands = re.findall(r"schedlab run (\w+)@\S+ (.*?) --timeline", html)
    assert [policy for policy, _ in commands] == ["o1", "cfs"]
    ran = command("run", "o1", *commands[0][1].split(), "--timeline", "--json")
    until_ns = round(1e6 * figure["layout"]["xaxis"]["range"][1])
    stays = [
        (start_ns, min(end_ns, until_ns), cpu)
        for start_ns, end_ns, cpu, _ in json.loads(ran.stdout)["result"]["timeline"]
        if start_ns < until_ns and end_ns > start_ns
    ]
    assert sorted(shown) == sorted(stays)
    assert 0 < len(shown) <= timelines.STAYS_MAX
    assert "which is as much as fits" in html


def test_a_stored_experiment_can_be_looked_into_again(command, tmp_path):
    command("compare", "cfs", "o1", *SLEEPERS, "--store", "s.db", "--report", "first.html")
    done = command("report", "s.db", "-o", "again.html")
    assert (done.returncode, "no timeline" in done.stderr) == (0, False)
    assert timeline_in(tmp_path / "again.html") == timeline_in(tmp_path / "first.html")


def test_a_changed_policy_has_no_timeline_of_its_old_runs(command, tmp_path):
    source = (POLICIES / "fifo.bpf.c").read_text(encoding="utf-8")
    (tmp_path / "mine.bpf.c").write_text(source, encoding="utf-8")
    command("compare", "./mine.bpf.c", *SLEEPERS, "--store", "s.db")
    (tmp_path / "mine.bpf.c").write_text(source + "int changed;\n", encoding="utf-8")
    done = command("report", "s.db", "-o", "r.html")
    assert done.returncode == 0
    assert "note: no timeline: the run of mine was made with other files" in done.stderr
    assert 'id="timeline"' not in (tmp_path / "r.html").read_text(encoding="utf-8")
    asked = command("report", "s.db", "-o", "r.html", "--scenario", "osdl-2")
    assert (asked.returncode, asked.stderr.startswith("error: no timeline")) == (2, True)


def test_where_a_machine_is_gone_a_report_has_no_timeline(command, tmp_path):
    machine = catalogue.find(catalogue.MACHINES, "laptop").read_text("utf-8")
    (tmp_path / "mine.toml").write_text(machine, "utf-8")
    words = ("--workload", "lat_ctx", "--with", "rounds=20", "--machine", "./mine.toml")
    command("compare", "cfs", "o1", *words, "--repeat", 3, "--store", "s.db")
    (tmp_path / "mine.toml").unlink()
    why = "no timeline: its runs cannot be repeated here: machine file './mine.toml' does not exist"
    done = command("report", "s.db", "-o", "r.html")
    assert (done.returncode, f"note: {why}" in done.stderr) == (0, True), done.stderr
    wished = command("report", "s.db", "-o", "r.html", "--timeline", "cfs", "o1")
    assert (wished.returncode, wished.stderr) == (2, f"error: {why}\n")
    page = schedlab.open(tmp_path / "s.db").experiment().report(tmp_path / "notebook.html")
    assert 'id="timeline"' not in page.read_text("utf-8")


def test_a_misspelt_pair_is_refused_before_anything_runs(command, tmp_path):
    done = command(
        "compare", "cfs", "o1", *SLEEPERS, "--report", "r.html", "--timeline", "cfs", "o2"
    )
    assert done.returncode == 2
    assert "unknown policy 'o2' in --timeline" in done.stderr
    assert not (tmp_path / "schedlab.db").exists()
    done = command("compare", "cfs", *SLEEPERS, "--scenario", "osdl-2")
    assert (done.returncode, "add --report" in done.stderr) == (2, True)


def test_one_policy_twice_is_no_pair(command, tmp_path):
    twice = ("--timeline", "cfs", "cfs")
    done = command("compare", "cfs", "o1", *SLEEPERS, "--report", "r.html", *twice)
    assert done.returncode == 2
    assert "--timeline: 'cfs cfs' is one policy twice" in done.stderr
    assert "hint: name another beside it: o1" in done.stderr
    assert not (tmp_path / "schedlab.db").exists()
    command("compare", "cfs", "o1", *SLEEPERS, "--store", "s.db")
    done = command("report", "s.db", "-o", "r.html", *twice)
    assert (done.returncode, "is one policy twice" in done.stderr) == (2, True)
