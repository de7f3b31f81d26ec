"""Goal: a report says what its records say, hides no run, and asks nothing of any network.

Method: synthetic records whose numbers are computed here again by other code, a parser over the
HTML, and Chromium, which opens the file and is asked what it did.
"""

import json
import os
import re
import shutil
import statistics
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from made_answers import made_answer, write_page
from schedlab.errors import SchedlabError
from schedlab.experiment import headline
from schedlab.experiment.headline import told_panels
from schedlab.experiment.metrics import metrics_of
from schedlab.experiment.published import Beside
from schedlab.experiment.study import study_of
from schedlab.report.drawing import Drawing
from schedlab.report.forms import mean_text, ratio_text
from schedlab.report.forms import number_text as number
from schedlab.statistics.estimates import estimate
from schedlab.store.runs import RunRecord
from scipy import stats

POLICIES = ("linux_2_4", "o1", "cfs", "bfs")
MACHINES = {"osdl-1": 1, "osdl-2": 2, "osdl-4": 4, "osdl-8": 8}
GROUPS = (25, 50, 75, 100, 125, 150, 175, 200)
SEEDS = (1, 2, 3, 4, 5)
COMMAND = "schedlab compare linux_2_4 o1 cfs bfs --workload hackbench --vary groups=25..200:25"
CHROMIUM = os.environ.get("SCHEDLAB_CHROMIUM") or shutil.which("chromium")

# Time at 100 groups on one CPU, growth exponent, share of each doubling of CPUs that is kept.
SHAPES = {
    "linux_2_4": (21.0, 1.55, 0.30),
    "o1": (17.0, 1.00, 0.92),
    "cfs": (18.5, 1.03, 0.90),
    "bfs": (16.2, 1.18, 0.62),
}
SPLITS = {
    "linux_2_4": (0.30, 0.22, 0.26, 0.19, 0.03),
    "o1": (0.52, 0.38, 0.05, 0.01, 0.04),
    "cfs": (0.50, 0.37, 0.08, 0.02, 0.03),
    "bfs": (0.46, 0.34, 0.09, 0.08, 0.03),
}


def makespan_ns(policy, nr_cpus, groups, seed):
    seconds, exponent, kept = SHAPES[policy]
    chance = np.random.default_rng([seed, groups, nr_cpus, len(policy)]).lognormal(0, 0.02)
    speedup = (1 + kept) ** np.log2(nr_cpus)
    return int(1e9 * seconds * (groups / 100) ** exponent / speedup * chance)


def result_of(policy, nr_cpus, groups, seed):
    time_ns = makespan_ns(policy, nr_cpus, groups, seed)
    parts = [int(share * time_ns * nr_cpus) for share in SPLITS[policy]]
    parts[-1] += time_ns * nr_cpus - sum(parts)
    slow = 1 + POLICIES.index(policy) / 2 + seed / 100
    latency = {"count": 400 * groups, "mean": 9e4 * slow, "p50": int(3e4 * slow)}
    latency |= {"p90": int(4e5 * slow), "p99": int(6e6 * slow**2), "max": int(9e7 / slow)}
    return {
        "status": "completed",
        "error": None,
        "digest": f"{seed:016x}",
        "makespan_ns": time_ns,
        "elapsed_ns": time_ns,
        "messages": 2000 * groups,
        "nr_tasks": 40 * groups,
        "nr_cpus": nr_cpus,
        "events": 10**6,
        "switches": 4100 * groups + seed,
        "voluntary_switches": 4000 * groups,
        "involuntary_switches": 100 * groups + seed,
        "migrations": 37 * groups * (nr_cpus > 1),
        "wakeups": 400 * groups,
        "ticks": 1000,
        "cpu_time_ns": dict(
            zip(("work", "kernel", "scheduler", "lock_wait", "idle"), parts, strict=True)
        ),
        "run_ns": latency,
        "wait_ns": latency,
        "wakeup_latency_ns": latency,
        "jain_fairness": 0.97,
        "task_groups": [],
        "timeline": None,
        "timeline_names": None,
    }


def record_of(policy="o1", machine="osdl-1", groups=100, seed=1, varied=None, **changes):
    made = result_of(policy, MACHINES[machine], groups, seed) | changes
    manifest = {
        "policy_name": policy,
        "policy_source": f"policies/{policy}.bpf.c",
        "policy_source_digest": f"{policy}-0123456789abcdef",
        "tunables": {"slice_ns": 6_000_000} if policy == "bfs" else {},
        "machine_digest": f"{machine}-digest-of-the-machine",
        "workload_digest": f"hackbench-{groups}-digest",
        "until_ns": 0,
        "parameters": {"groups": str(groups), "messages": "100", "transport": "sockets"},
        "backend": "sim",
        "version": "0.1.0",
        "started_at": f"2025-01-02T03:04:{seed:02d}Z",
        "wall_ns": 250_000_000,
        "replay": f"schedlab run {policy} --machine {machine} --seed {seed}",
        "experiment": None,
    }
    varied = {"groups": groups} if varied is None else varied
    return RunRecord(policy, machine, "hackbench", varied, seed, made["status"], made, manifest)


def grid(policies=POLICIES, machines=MACHINES, groups=GROUPS, seeds=SEEDS):
    return [
        record_of(policy, machine, n, seed)
        for machine in machines
        for n in groups
        for policy in policies
        for seed in seeds
    ]


def failed(message='task 17 was runnable for 5.0 s: <lost> & "gone"', **place):
    error = {"kind": "stall", "message": message, "pid": 17, "task": "receiver", "cpu": 2}
    return record_of(**place, status="failed", error={**error, "at_ns": 9_201_337_000})


class Page(HTMLParser):
    """Tables as lists of rows of texts, every attribute that could fetch, and all text."""

    def __init__(self, html):
        super().__init__()
        self.tables, self.links, self.cells, self.texts = {}, [], {}, []
        self._rows, self._open, self._skip = None, None, 0
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.links += [found[name] for name in ("src", "href", "action", "data") if name in found]
        self._skip += tag in ("script", "style")
        if tag == "table":
            self._rows = self.tables.setdefault(found["data-table"], [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._open = []
            if "data-policy" in found:
                key = (found["data-panel"], found["data-x"], found["data-policy"])
                self.cells[key] = self._open

    def handle_endtag(self, tag):
        self._skip -= tag in ("script", "style")
        if tag in ("td", "th") and self._open is not None:
            self._rows[-1].append(" ".join(" ".join(self._open).split()))
            self._open = None

    def handle_data(self, data):
        if self._skip:
            return
        self.texts.append(data)
        if self._open is not None:
            self._open.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def page_of(tmp_path, records, **options):
    path = tmp_path / "report.html"
    write_page(path, records, COMMAND, **options)
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def full_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    published = {
        "o1, 100 groups, 8 CPUs": Beside(
            2.5, estimate([2.3, 2.4, 2.5]), "s", "Open Source Development Labs, 2003"
        )
    }
    records = [*grid(), failed(policy="bfs", machine="osdl-8", groups=200, seed=6)]
    write_page(path, records, COMMAND, published=published)
    return path


@pytest.fixture(scope="module")
def full_page(full_path):
    return Page(full_path.read_text(encoding="utf-8"))


def test_plotly_knows_all_that_the_figures_say(full_path):
    html = full_path.read_text(encoding="utf-8")
    figures = dict(re.findall(r'data-figure="([^"]+)">(.*?)</script>', html, re.S))
    assert {name.rpartition("-")[0] for name in figures} >= {"curve", "ratio", "split", "latency"}
    for figure in figures.values():
        go.Figure(json.loads(figure))
    with pytest.raises(ValueError, match="colour"):
        Drawing(data=[{"type": "scatter", "colour": "red"}]).plotly()


# --- the numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("machine", "groups"), [("osdl-1", 25), ("osdl-8", 200)])
def test_the_table_of_means_holds_mean_interval_ratio_and_its_interval(
    full_page, policy, machine, groups
):
    times, first = (
        np.array([makespan_ns(name, MACHINES[machine], groups, seed) for seed in SEEDS]) / 1e9
        for name in (policy, "linux_2_4")
    )
    half_width = stats.t.ppf(0.975, 4) * statistics.stdev(times) / np.sqrt(5)
    expected = mean_text(times.mean(), times.mean() - half_width, times.mean() + half_width)
    shown = " ".join(" ".join(full_page.cells[(machine, str(groups), policy)]).split())
    assert shown.startswith(expected)
    if policy == "linux_2_4":
        assert "×" not in shown
        return
    test = stats.ttest_ind(np.log(times), np.log(first), equal_var=False)
    low, high = np.exp(test.confidence_interval(0.95))
    ratio = stats.gmean(times) / stats.gmean(first)
    assert f"× {ratio_text(ratio, low, high)}" in shown


def test_a_row_that_is_lost_is_kept(full_page):
    words = Counter(
        word
        for texts in full_page.cells.values()
        for word in ("faster", "slower", "same", "inconclusive")
        if word in " ".join(texts).split()
    )
    assert sum(words.values()) == 3 * len(MACHINES) * len(GROUPS)
    assert words["slower"] > 0 and words["faster"] > 0
    opening = f"Of 96 comparisons with linux_2_4: {words['faster']} faster, "
    assert opening + f"{words['slower']} slower" in full_page.text


def test_the_quantile_table_has_a_row_a_cell_with_the_quantiles_of_its_runs(full_page):
    rows = [row for row in full_page.tables["quantiles"] if row[2] == "5"]
    assert len(rows) == len(POLICIES) * len(MACHINES) * len(GROUPS)
    times = np.array([makespan_ns("linux_2_4", 1, 25, seed) for seed in SEEDS]) / 1e9
    expected = [number(q) for q in np.percentile(times, [0, 10, 25, 50, 75, 90, 100])]
    assert rows[0][:2] == ["25", "● linux_2_4"]
    assert rows[0][5:12] == expected


def test_growth_is_that_of_the_means(full_page):
    rows = {row[0]: row[1:] for row in full_page.tables["growth"][1:]}
    means = [np.mean([makespan_ns("linux_2_4", 8, n, s) for s in SEEDS]) for n in GROUPS]
    slope = np.polyfit(np.log(GROUPS), np.log(means), 1)[0]
    assert rows["osdl-8"][0].split()[0] == ratio_text(slope)
    assert "to the power" in full_page.text


def test_the_split_of_cpu_time_is_told_of_every_value(full_page):
    table = full_page.tables["split"]
    places = [row[0] for row in table[1:] if "groups = " in row[0]]
    assert places == [f"osdl-{cpus} groups = {n}" for cpus in (1, 2, 4, 8) for n in GROUPS]
    assert "the figure is of the last value of groups, the table of all" in full_page.text
    at = next(index for index, row in enumerate(table) if row[0] == "osdl-8 groups = 200")
    assert [row[-10].split()[-1] for row in table[at : at + 4]] == list(POLICIES)
    shares = [float(text) for text in table[at + 1][-9:-4]]
    assert shares == pytest.approx([52, 38, 5, 1, 4], abs=0.01)
    assert sum(shares) == pytest.approx(100, abs=0.02)


def test_latency_percentiles_are_averaged_over_runs(full_page):
    rows = [r for r in full_page.tables["latency"] if r[-7].split()[-1] == "cfs"]
    assert len(rows) > 1, "one for each value of what was varied"
    row = rows[-1]
    logs = [np.log(int(6e6 * (2 + seed / 100) ** 2) / 1000) for seed in SEEDS]
    p99_us = np.exp(np.mean(logs))
    assert row[-2].split()[0] == number(p99_us)
    assert row[-6] == "80,000"


def test_published_figures_stand_beside_the_simulated(full_page):
    row = full_page.tables["published"][1]
    assert row[0] == "o1, 100 groups, 8 CPUs"
    assert (row[1], row[2].split()[0], row[3]) == ("2.500", "2.400", "-4.0")
    assert row[5] == "Open Source Development Labs, 2003"


def test_there_is_no_published_table_without_published_figures(tmp_path):
    assert "published" not in page_of(tmp_path, grid(groups=(25, 50), seeds=(1,))).tables


# --- nothing is hidden ----------------------------------------------------------------------------


def test_a_run_that_failed_is_shown_with_its_message_and_its_replay(full_page):
    row = full_page.tables["incomplete"][1]
    assert row[0] == "bfs"
    assert 'task 17 was runnable for 5.0 s: <lost> & "gone"' in row[5]
    assert "schedlab run bfs --machine osdl-8 --seed 6" in row[5]
    assert "1 of 641 runs did not complete" in full_page.text


def test_a_run_that_failed_enters_no_number(tmp_path):
    records = grid(policies=("o1",), machines=("osdl-1",), groups=(25,), seeds=(1, 2, 3))
    whole = page_of(tmp_path, records).cells
    assert page_of(tmp_path, [*records, failed(groups=25, seed=4)]).cells == whole


def test_a_policy_that_never_completed_keeps_its_column(tmp_path):
    records = grid(policies=("o1",), machines=("osdl-1",), groups=(25, 50), seeds=(1, 2, 3))
    records += [failed(policy="bfs", groups=n, seed=1) for n in (25, 50)]
    page = page_of(tmp_path, records)
    assert "no run completed" in " ".join(page.cells[("osdl-1", "25", "bfs")])
    assert [row[4] for row in page.tables["policies"] if "bfs" in row[0]] == ["0 of 2"]


def test_a_first_policy_that_failed_leaves_the_others_without_a_ratio(tmp_path):
    records = [failed(policy="linux_2_4", groups=25)]
    records += grid(policies=("o1", "cfs"), machines=("osdl-1",), groups=(25, 50), seeds=(1, 2, 3))
    page = page_of(tmp_path, records)
    assert "×" not in " ".join(page.cells[("osdl-1", "25", "o1")])
    assert len(page.tables["incomplete"]) == 2


def test_a_report_of_failures_only_is_still_a_report(tmp_path):
    page = page_of(tmp_path, [failed(seed=seed) for seed in SEEDS])
    assert len(page.tables["incomplete"]) == 1 + len(SEEDS)
    assert "5 simulated runs, 5 of them failed, of o1 on 1 machine." in page.text


def test_the_first_line_counts_every_run_and_says_how_many_gave_no_number(tmp_path, full_page):
    assert "641 simulated runs, 1 of them failed, of linux_2_4" in full_page.text
    stopped = record_of(seed=2, status="stopped")
    assert (
        "2 simulated runs, 1 of them incomplete, of"
        in page_of(tmp_path, [record_of(), stopped]).text
    )
    assert "2 simulated runs of o1 on" in page_of(tmp_path, [record_of(), record_of(seed=2)]).text


def test_machines_whose_names_differ_only_in_case_are_two(tmp_path):
    records = [replace(record_of(), machine=name) for name in ("osdl-1", "OSDL-1")]
    assert "2 simulated runs of o1 on 2 machines." in page_of(tmp_path, records).text


def test_a_run_stopped_by_request_says_so(tmp_path):
    page = page_of(tmp_path, [record_of(status="stopped", elapsed_ns=9_300_000_000)])
    assert "stopped as asked after 9.300 simulated s" in page.tables["incomplete"][1][5]


def test_what_was_run_names_everything_that_decides_a_result(full_page):
    policies = {row[0].split()[-1]: row for row in full_page.tables["policies"][1:]}
    assert list(policies) == list(POLICIES)
    assert policies["bfs"][2] == "bfs-01234567"
    assert policies["bfs"][3] == "slice_ns = 6000000"
    assert policies["o1"][3] == "defaults"
    assert policies["bfs"][4] == "160 of 161"
    assert ["hackbench", "groups", ", ".join(map(str, GROUPS))] in full_page.tables["parameters"]
    assert ["hackbench", "transport", "sockets"] in full_page.tables["parameters"]
    for fact in ("Seeds 1 to 6", "schedlab 0.1.0", "osdl-8 ( osdl-8-diges )", COMMAND):
        assert fact in full_page.text


def test_a_source_that_changed_between_runs_is_pointed_at(tmp_path):
    records = [record_of(seed=1), record_of(seed=2)]
    records[1].manifest["policy_source_digest"] = "another"
    assert "the source changed between runs" in page_of(tmp_path, records).text


def test_names_cannot_break_the_page(tmp_path):
    wicked = "</script><script>document.title='broken'</script>"
    records = grid(policies=("o1",), machines=("osdl-1",), groups=(25, 50), seeds=(1,))
    records = [RunRecord(wicked, *[getattr(r, f) for f in FIELDS[1:]]) for r in records]
    write_page(tmp_path / "report.html", records, wicked, title=wicked)
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script>document.title" not in html
    assert wicked in Page(html).text


FIELDS = ("policy", "machine", "workload", "varied", "seed", "status", "result", "manifest")


# --- other shapes of experiment -------------------------------------------------------------------


def test_a_mean_of_fewer_runs_says_so(tmp_path):
    records = [record_of(policy, "osdl-1", 25, seed) for policy in POLICIES for seed in SEEDS]
    page = page_of(tmp_path, [r for r in records if r.policy != "bfs" or r.seed > SEEDS[1]])
    cells = {policy: " ".join(texts) for (*_, policy), texts in page.cells.items()}
    assert f"(n = {len(SEEDS) - 2})" in cells["bfs"]
    assert all("(n = " not in text for policy, text in cells.items() if policy != "bfs")


def test_growth_between_two_points_has_no_interval_and_says_so(tmp_path, full_page):
    assert "its 95 % interval. A wide interval" in full_page.text
    page = page_of(tmp_path, grid(groups=(25, 50)))
    assert "growth" in page.tables
    assert "Two points always fit one: there is no interval." in page.text
    assert "A wide interval" not in page.text


def test_without_anything_varied_all_machines_share_one_table(tmp_path):
    records = [
        record_of(policy, machine, 100, seed, varied={})
        for machine in MACHINES
        for policy in POLICIES
        for seed in SEEDS
    ]
    page = page_of(tmp_path, records)
    assert [row[0] for row in page.tables["means"]] == ["machine", *MACHINES]
    assert "growth" not in page.tables


def test_a_second_varied_parameter_makes_panels_of_its_own():
    records = [
        record_of("o1", "osdl-1", n, seed, varied={"transport": transport, "groups": n})
        for transport in ("sockets", "pipes")
        for n in (50, 25)
        for seed in SEEDS
    ]
    study = study_of(records)
    assert study.axis == "groups"
    assert [p.name for p in study.panels] == [
        "osdl-1, transport = sockets",
        "osdl-1, transport = pipes",
    ]
    assert [cell.x for cell in study.panels[0].cells] == [25, 50]


def test_words_on_the_axis_keep_their_order_and_have_no_growth(tmp_path):
    records = [
        record_of("o1", "osdl-1", 25, seed, varied={"transport": transport})
        for transport in ("sockets", "pipes")
        for seed in SEEDS
    ]
    study = study_of(records)
    assert (study.axis, study.panels[0].growth) == ("transport", {})
    assert [cell.x for cell in study.panels[0].cells] == ["sockets", "pipes"]
    assert "means" in page_of(tmp_path, records).tables


def test_short_runs_are_told_in_a_unit_that_fits(tmp_path):
    records = [record_of(seed=seed, makespan_ns=25_000_000 + seed) for seed in SEEDS]
    assert study_of(records).unit == "ms"
    assert "Mean makespan in ms" in page_of(tmp_path, records).text


def test_repetitions_that_are_all_equal_are_not_dressed_up_as_an_interval(tmp_path):
    times_ns = {"o1": 2_000_000_000, "cfs": 3_000_000_000}
    records = [
        record_of(policy, seed=seed, makespan_ns=times_ns[policy])
        for policy in times_ns
        for seed in SEEDS
    ]
    page = page_of(tmp_path, records)
    shown = " ".join(" ".join(page.cells[("osdl-1, groups = 100", "None", "cfs")]).split())
    assert shown == "3.000 ± 0 slower × 1.500"
    assert "Every repetition of a scenario gave the same value" in page.text
    varied = [*records, record_of("cfs", seed=9, makespan_ns=3_000_000_001)]
    assert "Every repetition" not in page_of(tmp_path, varied).text


def panel_sentences(study):
    told = told_panels(study, metrics_of(study))
    return headline.panel_sentences(study, told)


def test_the_summary_names_the_lowest_mean_and_how_often():
    study = study_of(grid(machines=("osdl-8",)))
    name, sentence = panel_sentences(study)[0]
    assert name == "osdl-8"
    assert sentence.startswith("o1 has the lowest mean time at groups = 200: ")
    assert "times the time of linux_2_4" in sentence
    assert sentence.endswith("It is lowest at every value of groups.")


def test_the_summary_does_not_hide_who_comes_close_or_leads_elsewhere():
    def took(policy, groups, seconds):
        runs = [record_of(policy=policy, groups=groups, seed=seed) for seed in SEEDS]
        for run in runs:
            run.result["makespan_ns"] = int(seconds * 1e9)
        return runs

    seconds = {1: (2.0, 1.0), 2: (2.0, 2.01), 3: (3.0, 3.031)}
    for last, close in ((2, True), (3, False)):
        records = [
            run
            for groups in range(1, last + 1)
            for policy, makespan_s in zip(("o1", "cfs"), seconds[groups], strict=True)
            for run in took(policy, groups, makespan_s)
        ]
        [(_, sentence)] = panel_sentences(study_of(records))
        assert ("cfs is less than 1 % above it" in sentence) == close
        counts = f"o1 at {last - 1} and cfs at 1"
        assert sentence.endswith(f"Lowest over all {last} values of groups: {counts} of them.")


# --- the file -------------------------------------------------------------------------------------


def test_nothing_in_the_page_points_outside_it(full_page, full_path):
    assert all(link.startswith(("#", "data:")) for link in full_page.links)
    html = full_path.read_text(encoding="utf-8")
    assert html.count("plotly.js v") == 1
    assert "default-src 'none'" in html
    for script in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html):
        json.loads(script)
        assert "<" not in script


def test_a_report_replaces_the_old_one_whole_and_leaves_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    written = []

    def full_disk(self, target):
        written.append(self)
        assert self.stat().st_size > 0
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", full_disk)
        with pytest.raises(SchedlabError, match="No space"):
            write_page(path, [record_of()])
    assert written and path not in written
    assert path.read_text(encoding="utf-8") == "old"
    before = path.stat().st_ino
    write_page(path, [record_of()])
    assert path.stat().st_ino != before  # another file took its place, at once
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_report_of_nothing_is_refused():
    with pytest.raises(ValueError, match="records is empty"):
        made_answer([])


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium: install Debian's `chromium`, or set SCHEDLAB_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync"]
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=CHROMIUM, chromium_sandbox=False, args=quiet
        )
        yield opened
        opened.close()


@pytest.mark.browser
@pytest.mark.parametrize(("name", "width_px"), [("page", 1148), ("phone", 390)])
def test_chromium_draws_every_curve_and_asks_nothing_of_the_network(
    browser, full_path, name, width_px
):
    page = browser.new_page(viewport={"width": width_px, "height": 900})
    # No promise of speed: a machine that boots others at the time draws slowly.
    page.set_default_timeout(240_000)
    complaints, requests = [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(full_path.as_uri())
    curves = page.locator("[data-kind=curve] .scatterlayer path.js-line")
    curves.nth(len(POLICIES) * len(MACHINES) - 1).wait_for(state="attached")
    page.screenshot(path=full_path.with_name(f"{name}.png"), full_page=True)
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert curves.count() == len(POLICIES) * len(MACHINES)
    assert page.locator("[data-kind=ratio] path.js-line").count() == 3 * len(MACHINES)
    assert page.locator("[data-kind=latency] path.js-line").count() == 4 * len(MACHINES)
    assert page.locator("[data-kind=split] .bars path").count() == 4 * 5 * len(MACHINES)
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(overflow) <= 0
    wider = "cell => cell.scrollWidth > cell.clientWidth + 1 && cell.innerText"
    texts = f"[...document.querySelectorAll('td, th')].map({wider}).filter(text => text)"
    assert page.evaluate(texts) == [], "texts that reach into the next cell"
    assert full_path.with_name(f"{name}.png").stat().st_size > 50_000
    page.close()
