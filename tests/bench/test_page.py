"""Goal: the page of measurements shows every repetition and says what is known of them, no more;
an export has the same repetitions, with their surroundings.

Method: made-up repetitions with known factors in a real store, the real verbs, the page read back
as a parser and a browser see it.
"""

import csv
import html
import json
import os
import re
import shutil
import sqlite3

import numpy as np
import pandas
import plotly.graph_objects as go
import pytest
from click.testing import CliRunner
from made_measurements import SEED, MadeStore, around
from schedlab import catalogue
from schedlab.bench import answers, suite
from schedlab.bench import page as bench_page
from schedlab.commands.export import export_verb
from schedlab.commands.report import report_verb
from schedlab.store.measurements import Measurements
from schedlab.store.runs import Store, StoredExperiment
from scipy import stats

CHROMIUM = os.environ.get("SCHEDLAB_CHROMIUM") or shutil.which("chromium")
NR_RUNS = 8
WARNING = ("the governor is <powersave>", "cpupower frequency-set --governor performance")
GROUPS = [("hackbench", (("groups", n),)) for n in (1, 4, 10)]
FACTORS = {GROUPS[0]: 0.8, GROUPS[1]: 0.8, GROUPS[2]: 0.8, ("compile", ()): 1.1, ("same", ()): 1.0}
FACTORS_BY_NAME = {
    " ".join([name, *(f"{key}={of}" for key, of in values)]): factor
    for (name, values), factor in FACTORS.items()
}


def kernels(made, machine="m1"):
    """Two kernels on a machine: the second has `FACTORS`."""
    generator = np.random.default_rng(SEED)
    for release in ("6.1.0", "6.18.0"):
        cases = {
            case: around(NR_RUNS, 2.0, factor if release == "6.18.0" else 1, 0.003, generator)
            for case, factor in FACTORS.items()
        }
        made.add(release, cases, machine=machine, warnings=[WARNING], noisy=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = MadeStore(tmp_path_factory.mktemp("measured") / "s.db")
    kernels(made)
    return made.path


def invoke(verb, *arguments):
    return CliRunner().invoke(verb, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def page_path(store):
    path = store.with_name("page.html")
    done = invoke(report_verb, store, "-o", path)
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="module")
def page(page_path):
    return page_path.read_text(encoding="utf-8")


def figures(page):
    """Plotly's figures of a page by their place, as a browser parses them."""
    pattern = r'<script type="application/json" data-figure="([^"]+)">(.*?)</script>'
    found = {name: json.loads(text) for name, text in re.findall(pattern, page, re.DOTALL)}
    for figure in found.values():
        go.Figure(figure)  # refuses what Plotly does not know
    return found


def rows_of(page, table):
    """The texts of the cells of a table's body, by row."""
    found = re.search(rf'data-table="{table}".*?<tbody>(.*?)</tbody>', page, re.DOTALL)[1]
    return [
        [
            html.unescape(re.sub(r"<[^>]+>", " ", cell)).split()
            for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        ]
        for row in found.split("</tr>")[:-1]
    ]


def stored(path):
    with Store(path, read_only=True) as kept:
        measurements = Measurements(kept)
        return answers.rows(measurements, measurements.campaigns())


def test_every_repetition_is_a_point_and_no_warm_up_is(page, store):
    drawn = figures(page)
    shown = {name: figure for name, figure in drawn.items() if name.startswith("oneway")}
    expected = stored(store)
    assert len(shown) == len(expected) == len(FACTORS)
    for figure, row in zip(shown.values(), expected, strict=True):
        points = {trace["name"]: decoded(trace["y"]) for trace in figure["data"]}
        for setup, sample in row.samples.items():
            assert points[setup.name] == pytest.approx(sample.values)
            assert len(sample.values) == NR_RUNS


def decoded(values):
    """A list of numbers, which Plotly may write as base64."""
    if isinstance(values, dict):
        import base64

        return list(np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]))
    return values


def test_the_first_sentences_say_who_is_faster_where(page):
    summary = html.unescape(re.search(r'id="summary".*?</section>', page, re.DOTALL)[0])
    assert "80 repetitions of 5 cases on Made CPU 3000, under 6.1.0 and 6.18.0." in summary
    assert "5 comparisons with 6.1.0: 3 faster, 1 slower, 1 same, 0 no difference" in summary
    assert "slower in 1: compile +10.00 %" in summary
    assert "10 of 80 repetitions were disturbed" in page
    assert "as a kernel has, was measured in 1 boot" in page


def test_the_table_of_verdicts_has_what_was_put_in(page):
    words = {" ".join(row[0]): row[1] for row in rows_of(page, "verdicts")}
    assert [words[f"hackbench groups={n}"][0] for n in (1, 4, 10)] == ["faster"] * 3
    assert words["compile"][:2] == ["slower", "+10.00"]
    assert words["same"][0] == "same"


def test_sizes_without_a_unit_stand_beside_the_words(page, store):
    rows = {" ".join(row[0]): row for row in rows_of(page, "sizes")}
    assert set(rows) == {row.name for row in stored(store)}
    # Every run of the slower one takes longer than each of the other: delta is at its end.
    assert rows["compile"][3] == ["+1.00"]
    assert rows["hackbench groups=4"][3] == ["-1.00"]
    [row] = [row for row in stored(store) if row.name == "compile"]
    first, second = (np.log(one.values) for one in row.samples.values())
    pooled = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    correction = 1 - 3 / (4 * 2 * NR_RUNS - 9)
    g = (second.mean() - first.mean()) / pooled * correction
    assert float(rows["compile"][2][0]) == pytest.approx(g, abs=0.006)


def test_the_forest_has_a_mark_for_every_comparison(page):
    [forest] = [figure for name, figure in figures(page).items() if name.startswith("forest")]
    marks = [x for trace in forest["data"] for x in decoded(trace["x"])]
    assert sorted(marks) == pytest.approx(sorted(FACTORS.values()))


def test_a_swept_number_has_a_curve_of_medians(page, store):
    [curve] = [figure for name, figure in figures(page).items() if name.startswith("curve")]
    lines = {trace["name"]: trace for trace in curve["data"] if trace.get("name")}
    assert set(lines) == {"6.1.0", "6.18.0"}
    expected = [
        np.median(sample.values)
        for row in stored(store)
        if row.name.startswith("hackbench")
        for setup, sample in row.samples.items()
        if setup.name == "6.18.0"
    ]
    assert decoded(lines["6.18.0"]["x"]) == [1, 4, 10]
    assert decoded(lines["6.18.0"]["y"]) == pytest.approx(expected)


def test_quantiles_are_those_of_2012(page, store):
    compile_row = next(row for row in stored(store) if row.name == "compile")
    values = next(iter(compile_row.samples.values())).values
    table = re.findall(r'data-table="quantiles".*?</table>', page, re.DOTALL)[1]
    first = rows_of(table, "quantiles")[0]
    shown = [float(cell[0]) for cell in first[4:]]
    # In the last columns of all, the same on logarithms; those in percent.
    logs = np.log(values)
    spreads = (np.std(logs, ddof=1), stats.median_abs_deviation(logs) / stats.norm.ppf(0.75))
    *shown, mean, sd, mad = shown
    assert mean == pytest.approx(stats.gmean(values), rel=2e-3)
    assert (sd, mad) == pytest.approx(tuple(100 * one for one in spreads), rel=0.06)
    quantiles = np.quantile(values, [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1], method="weibull")
    expected = [np.mean(values), np.std(values, ddof=1), *quantiles]
    assert shown == pytest.approx(expected, rel=2e-3)
    assert first[2:4] == [[str(NR_RUNS)], ["1"]]


def test_boots_stand_by_themselves_where_there_are_several(page, tmp_path):
    assert 'data-table="boots"' not in page
    made = MadeStore(tmp_path / "s.db")
    for release in ("6.1.0", "6.18.0"):
        boots = [f"{release} {n}" for n in range(2) for _ in range(3)]
        values = [1.0, 1.01, 1.02, 1.5, 1.51, 1.52]
        made.add(release, {("compile", ()): values}, boots=boots)
    with Store(made.path, read_only=True) as kept:
        measurements = Measurements(kept)
        text = bench_page.render(measurements, measurements.campaigns(), "Boots")
    rows = rows_of(text, "boots")
    assert [[" ".join(cell) for cell in row[1:4]] for row in rows] == [
        [release, nr, "3"] for release in ("6.1.0", "6.18.0") for nr in "12"
    ]
    shown = [float(row[5][0]) for row in rows]
    expected = [stats.gmean([1.0, 1.01, 1.02]), stats.gmean([1.5, 1.51, 1.52])] * 2
    assert shown == pytest.approx(expected, rel=5e-3)
    assert "Their means: 1.010, 1.510 s" in html.unescape(text)


def test_where_and_how_it_was_measured_is_told_and_what_was_wrong(page):
    facts = {" ".join(row[0]): [" ".join(cell) for cell in row[1:]] for row in
             rows_of(page, "environment")}  # fmt: skip
    assert facts["kernel"] == ["6.1.0", "6.18.0"]
    assert facts["HZ"] == ["250 (configuration)"] * 2
    assert facts["virtual machine"] == ["no", "no"]
    assert "the governor is &lt;powersave&gt;" in page
    assert "<powersave>" not in page
    method = html.unescape(re.search(r'id="method".*?</section>', page, re.DOTALL)[0])
    for word in ("Welch's t test", "Benjamini and Hochberg", "scipy 1.", "seed 1", "8 times"):
        assert word in method


def test_who_went_on_three_times_on_a_busy_machine_is_told_once(tmp_path):
    made = MadeStore(tmp_path / "s.db")
    for load in ("4.19", "4.13", "12"):
        busy = (f"this machine is busy: load average {load} on 2 CPUs", "stop what else runs")
        made.add("6.1.0", {("make", ()): [1.0, 1.1, 1.2]}, warnings=[busy, WARNING])
    assert invoke(report_verb, made.path, "-o", tmp_path / "p.html").exit_code == 0
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    # Among the limits, and where it was measured.
    assert page.count("this machine is busy") == page.count("load average 4.19") == 2
    assert page.count("the governor is") == 2


def test_one_setup_alone_is_shown_and_nothing_is_compared(tmp_path):
    made = MadeStore(tmp_path / "s.db")
    made.add("6.1.0", {("compile", ()): [1.0, 1.1, 1.2]})
    with Store(made.path, read_only=True) as kept:
        measurements = Measurements(kept)
        text = bench_page.render(measurements, measurements.campaigns(), "<One>")
    assert "nothing to compare yet" in text
    assert "&lt;One&gt;" in text
    assert 'data-table="verdicts"' not in text
    assert [name for name in figures(text) if name.startswith("oneway")] == ["oneway-1-1"]


def test_policies_in_turn_are_told_as_blocks(tmp_path):
    made = MadeStore(tmp_path / "s.db")
    generator = np.random.default_rng(SEED)
    own, bfs = (around(NR_RUNS, 2.0, factor, 0.003, generator) for factor in (1.0, 0.9))
    made.add("6.18.0", {("make", ()): own}, under={"bfs": {("make", ()): bfs}})
    with Store(made.path, read_only=True) as kept:
        measurements = Measurements(kept)
        text = html.unescape(bench_page.render(measurements, measurements.campaigns(), "Turns"))
    assert "the block being the replicate" in text
    [row] = rows_of(text, "tests")
    test = " ".join(row[1])
    assert "exchanging both within blocks in every way: bfs on 6.18.0 p = 0.0078" in test
    assert 'data-table="together"' not in text


def test_machines_are_never_put_side_by_side_but_in_the_table(tmp_path):
    made = MadeStore(tmp_path / "s.db")
    kernels(made, "m1")
    kernels(made, "m2")
    with Store(made.path, read_only=True) as kept:
        measurements = Measurements(kept)
        text = bench_page.render(measurements, measurements.campaigns(), "Two")
    verdicts = rows_of(text, "verdicts")
    assert len(verdicts) == len(FACTORS)
    assert all(len(row) == 1 + 2 * 4 for row in verdicts)
    told = {" ".join(row[1]): row for row in rows_of(text, "together")}
    hackbench = told["2 machines, hackbench groups=4"]
    assert " ".join(hackbench[2]) == "no difference shown -20.0 % (no interval)"
    every = told["2 machines, 3 benchmarks each"]
    assert every[3] == ["1"]
    assert "3 benchmarks on Made CPU 3000 (m1)" in told
    assert "one vote each, cases of one benchmark sharing a vote" in html.unescape(text)
    drawn = figures(text)
    assert sum(name.startswith("forest") for name in drawn) == 2
    assert sum(name.startswith("oneway") for name in drawn) == 2 * len(FACTORS)
    assert "Made CPU 3000 (m1)" in text


# ---- which of what a store holds ----------------------------------------------------------------


FULL = 10.0


def both_sizes(path, name):
    """A shipped suite at both sizes in one store: full takes `FULL`, quick a tenth of it."""
    made, read = MadeStore(path), suite.read(catalogue.find(catalogue.SUITES, name))
    generator = np.random.default_rng(SEED)
    for size, centre in (("quick", FULL / 10), ("full", FULL)):
        for case in suite.cases(read, size):
            key = (case.benchmark.name, tuple((name, case.values[name]) for name in case.varied))
            values = around(NR_RUNS, centre, 1.0, 0.003, generator)
            made.add("6.1.0", {key: values}, suite=name, values=dict(case.values))
    return read


def points(place, trace):
    """What is drawn, and where: a one-way plot is one place, a curve has one at each number."""
    y = decoded(trace["y"])
    if place.startswith("oneway"):
        return [(place, value) for value in y]
    return [((place, x), value) for x, value in zip(decoded(trace["x"]), y, strict=True)]


@pytest.mark.parametrize("name", ["study-2009", "study-2012"])
def test_two_sizes_of_a_suite_in_one_store_are_never_in_one_number(tmp_path, name):
    path, page_path, rows_path = (tmp_path / name for name in ("s.db", "p.html", "r.csv"))
    read = both_sizes(path, name)
    nr_cases = {size: len(suite.cases(read, size)) for size in suite.SIZES}
    means = [np.mean(sample.values) for row in stored(path) for sample in row.samples.values()]
    assert sum(mean > FULL / 2 for mean in means) == nr_cases["full"]
    assert sum(mean < FULL / 5 for mean in means) == nr_cases["quick"]
    assert invoke(report_verb, path, "-o", page_path).exit_code == 0
    drawn = figures(page_path.read_text(encoding="utf-8"))
    traces = [(place, trace) for place, figure in drawn.items() for trace in figure["data"]]
    shown = [point for place, trace in traces for point in points(place, trace)]
    assert len(shown) >= NR_RUNS * sum(nr_cases.values())
    # Of a plot's points all are of one size; of a curve's, those at one number.
    sizes = {place: set() for place, _ in shown}
    for place, y in shown:
        sizes[place].add("full" if y > FULL / 2 else "quick")
    assert all(len(of) == 1 for of in sizes.values()), sizes
    assert invoke(export_verb, path, "-o", rows_path).exit_code == 0
    frame = pandas.read_csv(rows_path)
    parameters = [column for column in frame if column.startswith("parameter.")]
    counted = frame[~frame["warm_up"]].groupby(["case", *parameters], dropna=False)["value"]
    assert len(counted) == sum(nr_cases.values())
    assert all(of.max() < 1.1 * of.min() for _, of in counted)


def test_a_report_is_of_what_was_asked_for_last(tmp_path):
    made = MadeStore(tmp_path / "s.db")
    made.add("6.1.0", {("compile", ()): [1.0, 1.1, 1.2]}, suite="older")
    made.add("6.1.0", {("compile", ()): [1.0, 1.1, 1.2]}, suite="newer")
    done = invoke(report_verb, made.path, "-o", tmp_path / "page.html", "--json")
    assert json.loads(done.stdout)["suite"] == "newer"
    assert "the others of" in done.stderr and "older" in done.stderr
    done = invoke(
        report_verb, made.path, "-o", tmp_path / "page.html", "--suite", "older", "--json"
    )
    assert json.loads(done.stdout) == {
        "report": str(tmp_path / "page.html"), "suite": "older", "repetitions": 3,
    }  # fmt: skip
    with Store(made.path) as kept:
        kept.add_experiment(StoredExperiment("id", "later", {}, "schedlab compare", "2026-04"))
    done = invoke(report_verb, made.path, "-o", tmp_path / "page.html")
    assert "experiment later" in str(done.exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--suite", "made", "--experiment", "x"), "is of measurements"),
        (("--suite", "maed"), "made"),
    ],
)
def test_a_report_of_what_is_not_there_is_refused(store, tmp_path, options, said):
    done = invoke(report_verb, store, "-o", tmp_path / "page.html", *options)
    assert done.exit_code != 0
    assert said in str(done.exception)


# ---- export -------------------------------------------------------------------------------------


def test_an_export_has_a_row_a_repetition_with_its_surroundings(store, tmp_path):
    for name in ("all.csv", "all.parquet"):
        done = invoke(export_verb, store, "-o", tmp_path / name)
        assert done.exit_code == 0, done.output
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # Warm-ups are there, and marked.
    assert len(rows) == 2 * len(FACTORS) * (NR_RUNS + 1)
    counted = [row for row in rows if row["warm_up"] == "False"]
    expected = [v for row in stored(store) for one in row.samples.values() for v in one.values]
    assert sorted(float(row["value"]) for row in counted) == pytest.approx(sorted(expected))
    assert {row["environment.kernel.release"] for row in rows} == {"6.1.0", "6.18.0"}
    assert {row["parameter.groups"] for row in rows} == {"", "1", "4", "10"}
    assert rows[0]["environment.warnings"] == WARNING[0]
    parquet = pandas.read_parquet(tmp_path / "all.parquet")
    assert len(parquet) == len(rows)
    assert set(parquet.columns) == set(rows[0])


def test_an_export_of_comparisons_has_what_the_table_has(store, tmp_path):
    for name in ("pairs.csv", "pairs.parquet"):
        done = invoke(export_verb, store, "-o", tmp_path / name, "--what", "comparisons")
        assert done.exit_code == 0, done.output
    with (tmp_path / "pairs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    told = {answer.row.name: answer for answer in answers.answers(stored(store))}
    assert {row["benchmark"] for row in rows} == set(told)
    for row in rows:
        answer = told[row["benchmark"]]
        pair = answer.pair
        assert (row["kernel"], row["against"], row["verdict"]) == ("6.18.0", "6.1.0", answer.word)
        assert float(row["ratio"]) == pytest.approx(FACTORS_BY_NAME[row["benchmark"]])
        ratio = (float(row["ratio_low"]), float(row["ratio_high"]))
        assert ratio == pytest.approx((pair.ratio.low, pair.ratio.high))
        assert float(row["low"]) < float(row["median"]) < float(row["high"])
        assert int(row["runs"]) == NR_RUNS
        assert float(row["p_table"]) == pytest.approx(answer.p_table)
        assert float(row["hedges_g"]) == pytest.approx(pair.hedges_g)
        assert float(row["cliffs_delta"]) == pytest.approx(pair.cliffs_delta)
    parquet = pandas.read_parquet(tmp_path / "pairs.parquet")
    assert list(parquet.columns) == list(rows[0])


def test_an_export_of_comparisons_where_there_is_none_leads_on(tmp_path):
    made = MadeStore(tmp_path / "s.db")
    made.add("6.1.0", {("one", ()): [1.0, 1.1, 1.2]})
    done = invoke(export_verb, made.path, "-o", tmp_path / "x.csv", "--what", "comparisons")
    assert "has no case in two setups" in str(done.exception)
    assert "--label" in done.exception.hint


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("x.tex", ("--what", "repetitions"), "has a table of runs only"),
        ("x.csv", ("--suite", "made", "--what", "runs"), "is of measurements"),
        ("x.csv", ("--experiment", "x", "--what", "repetitions"), "is of runs"),
        ("x.csv", ("--experiment", "x", "--what", "comparisons"), "is of runs"),
        ("x.csv", ("--suite", "none"), "unknown suite"),
    ],
)
def test_an_export_of_what_is_not_there_is_refused(store, tmp_path, name, options, said):
    done = invoke(export_verb, store, "-o", tmp_path / name, *options)
    assert done.exit_code != 0
    assert said in str(done.exception)
    assert not (tmp_path / name).exists()


# ---- in a browser -------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("width_px", [1200, 400])
def test_chromium_draws_every_figure_and_asks_nothing_of_the_network(page_path, page, width_px):
    if CHROMIUM is None:
        pytest.skip("no chromium: install Debian's `chromium`, or set SCHEDLAB_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, chromium_sandbox=False, args=["--disable-gpu"]
        )
        seen = browser.new_page(viewport={"width": width_px, "height": 900})
        seen.set_default_timeout(240_000)
        complaints, requests = [], []
        seen.on("pageerror", lambda error: complaints.append(str(error)))
        seen.on("request", lambda request: requests.append(request.url))
        seen.goto(page_path.as_uri())
        drawn = seen.locator("[data-kind] svg.main-svg:first-child")
        drawn.nth(len(figures(page)) - 1).wait_for(state="attached")
        seen.screenshot(path=page_path.with_name(f"{width_px}.png"), full_page=True)
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert seen.evaluate(overflow) <= 0
        assert complaints == []
        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
        browser.close()


@pytest.mark.parametrize("what", ["repetitions", "comparisons", "report"])
def test_a_store_that_lost_an_environment_says_which_and_what_to_do(command, tmp_path, what):
    made = MadeStore(tmp_path / "s.db")
    made.add("6.1", {("hackbench", ()): [1.0, 2.0, 3.0]})
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("DELETE FROM surroundings")
    database.close()
    words = ["report", "s.db", "-o", "r.html"]
    if what != "report":
        words = ["export", "s.db", "-o", "r.csv", "--what", what]
    done = command(*words)
    assert done.returncode == 2
    assert done.stderr == (
        "error: s.db: the environment of hackbench, campaign campaign-1, is gone: there is no"
        " surroundings 1\nhint: restore a copy, or forget what was measured in it: sqlite3 s.db"
        ' "DELETE FROM repetitions WHERE surroundings = 1"\n'
    )
