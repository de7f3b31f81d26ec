"""Goal: what a race says follows from its heats, and every row that is lost is shown.

Method: heats made up so that each ratio and interval is known by hand; the published
figures are counted again from their file with other code.
"""

import csv
import json
import re
import statistics
from collections import Counter
from pathlib import Path

import plotly.graph_objects as go
import pytest
from made_heats import MACHINE, heat, rounds, row
from schedlab.errors import BadValue, SchedlabError
from schedlab.race import april_2007, forms, meeting, plan, plugins, table
from schedlab.race import page as race_page
from schedlab.race.answers import standings
from schedlab.report import tables
from schedlab.report.figures import Point
from schedlab.statistics.estimates import median_estimate
from schedlab.store.heats import Heats, StoredHeat
from schedlab.store.runs import Store
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "published" / "seed001_smart_queue.csv"


def standing_of(rows, **spec):
    [standing] = standings([heat(rows, **spec)])
    return standing


# ---- the median and its interval ----------------------------------------------------------------


@pytest.mark.parametrize(("nr", "low", "high"), [(6, 0, 5), (9, 1, 7), (15, 3, 11), (31, 9, 21)])
def test_bounds_of_a_median_are_those_of_the_sign_test(nr, low, high):
    values = [2.0**n for n in range(nr)]
    found = median_estimate(values[::-1])
    assert (found.low, found.high) == (values[low], values[high])
    # Half of what lies outside may be on either side: P(fewer than k heads of n).
    outside = stats.binom.cdf(low, nr, 0.5)
    assert outside <= 0.025 < stats.binom.cdf(low + 1, nr, 0.5)


def test_five_rounds_have_no_interval_of_a_median():
    found = median_estimate([1.0, 2.0, 3.0, 4.0, 50.0])
    assert (found.median, found.low, found.high) == (3.0, None, None)


# ---- ratios and who is best ---------------------------------------------------------------------


def test_a_ratio_is_of_times_of_one_round():
    # The machine is twice as slow in every other round; within a round the ratio is always 1/4.
    slow = [1.0, 2.0] * 4 + [1.0]
    rows = {"exact_time_ring": [10 * s for s in slow], "red_black_tree": [40 * s for s in slow]}
    found = standing_of(rows).ratios["red_black_tree"]
    assert (found.ratio, found.low, found.high) == (0.25, 0.25, 0.25)


def test_the_best_peer_is_exact_takes_part_and_is_not_ours():
    rows = [
        row("fifo", rounds(1.0)),
        row("time_ring", rounds(5.0)),
        row("exact_time_ring", rounds(20.0)),
        row("exact_time_ring_scalar", rounds(22.0)),
        row("skip_list", [], left_out="needs minutes"),
        row("calendar_queue", rounds(50.0)),
        row("red_black_tree", rounds(200.0)),
    ]
    found = standing_of(rows)
    assert found.best_peer.structure == "calendar_queue"
    assert found.fastest.structure == "exact_time_ring"
    assert found.ratios["best_exact_peer"].ratio == pytest.approx(0.4)
    assert found.ratios["gavl"] is None


def test_a_disturbed_machine_does_not_change_who_is_fastest():
    # Two thirds of the rounds of the heap fell into a neighbour's work.
    rows = {"pairing_heap": [20.0] * 3 + [900.0] * 6, "red_black_tree": rounds(30.0)}
    assert standing_of(rows).best_peer.structure == "pairing_heap"


def test_gavl_is_the_fastest_of_its_variants():
    rows = {
        "exact_time_ring": rounds(30.0),
        "gavl_tree_delete": rounds(75.0),
        "gavl_tree": rounds(60.0),
        "gavl_tree_published": rounds(80.0),
    }
    found = standing_of(rows).ratios["gavl"]
    assert (found.against, found.ratio) == ("gavl_tree", 0.5)


def test_the_gavl_tree_with_the_sign_error_is_not_gavl():
    rows = {"exact_time_ring": rounds(30.0), "gavl_tree_published": rounds(20.0)}
    assert standing_of(rows).ratios["gavl"] is None
    found = standing_of({**rows, "gavl_tree": rounds(60.0)}).ratios["gavl"]
    assert (found.against, found.ratio) == ("gavl_tree", 0.5)


def test_a_plug_in_whose_name_begins_as_ours_is_a_peer():
    rows = [
        row("exact_time_ring", rounds(20.0)),
        row("exact_time_ring_avx2", rounds(10.0)),
        row("exact_time_ring_x", rounds(30.0), source="plugin:x.so"),
    ]
    assert standing_of(rows).best_peer.structure == "exact_time_ring_x"
    rows[1] |= {"source": "plugin:x.so"}
    assert standing_of(rows).best_peer.structure == "exact_time_ring_avx2"


def test_a_round_that_took_no_time_gives_no_ratio_but_a_note(capsys):
    rows = {
        "exact_time_ring": rounds(0.0, 5.0),
        "red_black_tree": rounds(40.0, 0.0),
        "gavl_tree": rounds(0.0),
        "gavl_tree_published": rounds(0.0),
    }
    heats = [heat(rows, n=10), heat(rows, n=10, keys="ties")]
    for found in standings(heats):
        assert set(found.ratios.values()) == {None}
        assert found.next_to_fastest is None
    text = " ".join(printed(heats, capsys).split())
    assert "too coarse for hold, uniform keys, n = 10 and 1 more" in text
    assert "too coarse" in race_page.render(heats, MACHINE, "schedlab race")


def test_the_order_of_2007_says_of_how_many_runs_a_figure_is(capsys):
    rows = {"exact_time_ring": rounds(10.0), "red_black_tree": rounds(40.0)}
    told = "means of two runs, but for the last structure's"
    assert told in printed([heat(rows, order="abcba")], capsys)
    assert told not in printed([heat(rows)], capsys)


def test_a_file_that_changes_during_a_race_ends_it(tmp_path):
    trace = tmp_path / "t.trace"
    trace.write_text("push 0 1\n")
    plugin = tmp_path / "x.so"
    plugin.write_bytes(b"one")
    asked = plan.HeatSpec(
        *("trace", "uniform", None, 1),
        plugins=(plugins.Plugin(str(plugin), plugins.digest_of(plugin)),),
        trace=str(trace),
        trace_digest=plugins.digest_of(trace),
    )
    meeting._refuse_changed(asked)
    for path in (trace, plugin):
        before = path.read_bytes()
        path.write_bytes(b"pop\n")
        with pytest.raises(SchedlabError, match=f"{path.name} was changed during the race"):
            meeting._refuse_changed(asked)
        path.write_bytes(before)


def test_rounds_that_do_not_pair_give_a_ratio_without_interval():
    rows = {"exact_time_ring": rounds(10.0), "red_black_tree": rounds(40.0, nr=18)}
    found = standing_of(rows).ratios["red_black_tree"]
    assert (found.ratio, found.low, found.high) == (0.25, None, None)


# ---- 2007 ---------------------------------------------------------------------------------------


def medians_of_2007():
    found = {}
    with PUBLISHED.open() as file:
        for line in csv.DictReader(file):
            key = (line["machine"], line["structure"], int(line["n_tasks"]))
            found.setdefault(key, []).append(float(line["cycles_per_loop"]))
    return {key: statistics.median(values) for key, values in found.items()}


def test_all_that_was_published_stands_beside_its_size():
    published = april_2007.read()
    trees = {"red_black_tree": rounds(90.0), "gavl_tree": rounds(60.0), "time_ring": rounds(30.0)}
    found = standings([heat(trees, n=n) for n in plan.SIZES_PUBLISHED])
    rows = april_2007.beside(published, found)
    then = {(one.machine, name, one.n): value for one in rows for name, value in one.then.items()}
    assert then == medians_of_2007()
    assert len(rows) == len(plan.SIZES_PUBLISHED)
    of_10 = next(one for one in rows if one.n == 10)
    assert of_10.ratios("CFS", "gavl_cfs") == pytest.approx((207.275 / 226.42, 1.5))
    assert of_10.ratios("TR", "CFS") == pytest.approx((140.81 / 207.275, 1 / 3))
    of_8 = next(one for one in rows if one.n == 8)
    assert of_8.ratios("CFS", "gavl_cfs") == (None, None)


def test_only_the_loop_of_2007_at_its_sizes_has_figures_beside_it():
    published = april_2007.read()
    trees = {"red_black_tree": rounds(90.0)}
    for other in ({"n": 12}, {"keys": "ties"}, {"workload": "hold_remove"}):
        found = standings([heat(trees, **other)])
        assert april_2007.beside(published, found) == []
        assert table.race_json(found, MACHINE, [])["remarks"] == []


def test_the_tree_with_the_sign_error_stands_for_that_of_2007():
    published = april_2007.read()
    trees = {"gavl_tree": rounds(60.0), "gavl_tree_published": rounds(80.0)}
    [row] = april_2007.beside(published, standings([heat(trees, n=10)]))
    assert row.now["gavl_cfs"] == 80.0


def test_what_the_remarks_say_of_2007_is_what_was_published():
    text = " ".join(april_2007.REMARKS)
    [gavl] = [of["gavl_cfs"] for of in april_2007.read().values() if "gavl_cfs" in of]
    assert (
        f"took {gavl[100]:.0f} cycles with 100 tasks and {gavl[100_000]:.0f} with 100,000" in text
    )


def test_a_table_of_2007_that_is_damaged_is_named(monkeypatch):
    monkeypatch.setattr(april_2007.published, "rows", lambda table: [{"machine": "Duron"}])
    with pytest.raises(SchedlabError, match="is not the table of 2007"):
        april_2007.read()


# ---- what is asked ------------------------------------------------------------------------------


def test_a_race_without_words_is_the_loop_of_2007_at_its_sizes():
    with PUBLISHED.open() as file:
        sizes = sorted({int(line["n_tasks"]) for line in csv.DictReader(file)})
    heats = plan.plan((), (), ())
    assert [parts(heat) for heat in heats] == [("hold", "uniform", n, 1) for n in sizes]


def parts(heat):
    return heat.workload, heat.keys, heat.n, heat.queues


def test_a_full_race_has_every_workload_and_all_keys():
    heats = plan.plan((), (), (), full=True)
    assert len(set(heats)) == len(heats)
    assert {heat.workload for heat in heats} == set(plan.WORKLOADS) - {"trace"}
    assert {heat.keys for heat in heats if heat.workload == "hold"} == set(plan.KEYS)
    assert Counter(heat.keys for heat in heats if heat.workload == "hold")["ties"] == 13
    cold = [(heat.n, heat.queues) for heat in heats if heat.workload == "cold"]
    assert cold == [(4, 16384), (10, 16384), (64, 4096), (100, 2048)]


def test_what_is_given_is_raced_once_and_in_that_order():
    heats = plan.plan(("markov", "hold", "markov"), ("ties",), (10, 1, 10), full=True)
    assert [parts(heat) for heat in heats] == [
        (workload, "ties", n, 1) for workload in ("markov", "hold") for n in (10, 1)
    ]


def test_a_trace_is_a_workload_of_its_own():
    [heat] = plan.plan((), (), (), trace=Path("t.trace"))
    assert parts(heat) == ("trace", "uniform", None, 1)
    with pytest.raises(SchedlabError, match="no trace to play"):
        plan.plan(("trace",), (), ())


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1,,2", "1e3", "0", str(plan.SIZE_MAX + 1)])
def test_a_size_that_is_none_is_named(text):
    with pytest.raises(BadValue, match="-n: "):
        plan.parse_sizes("-n", [text])


def test_sizes_are_lists_of_numbers():
    assert plan.parse_sizes("-n", ["1,2", "1_000"]) == [1, 2, 1000]
    assert plan.parse_sizes("-n", []) == []


def test_a_heat_is_known_by_all_that_decides_it():
    base = {"workload": "hold", "keys": "uniform", "n": 10, "queues": 1}
    changes = {
        "workload": "cold",
        "keys": "ties",
        "n": 11,
        "queues": 2,
        "structures": ("fifo",),
        "loops": 7,
        "rounds": 3,
        "order": "abcba",
        "cpu": 1,
        "seed": 2,
        "plugins": (plugins.Plugin("a.so", "d1"),),
        "trace_digest": "d2",
    }
    asked = [plan.HeatSpec(**base), *(plan.HeatSpec(**{**base, k: v}) for k, v in changes.items())]
    keys = {one.key("cpu", "1.0") for one in asked}
    keys |= {asked[0].key("other cpu", "1.0"), asked[0].key("cpu", "1.1")}
    assert len(keys) == len(changes) + 3
    moved = plan.HeatSpec(**base, plugins=(plugins.Plugin("b.so", "d1"),))
    assert moved.key("cpu", "1.0") in keys


def test_the_caches_of_a_cpu_are_those_that_hold_data(tmp_path):
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M")]
    ):
        directory = tmp_path / f"index{index}"
        directory.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (directory / name).write_text(f"{text}\n")
    assert plan._caches(tmp_path) == MACHINE.caches
    assert plan._caches(tmp_path / "nowhere") == ()


# ---- the store ----------------------------------------------------------------------------------


def test_a_heat_comes_back_as_it_was_kept(tmp_path):
    kept = StoredHeat("2026-01-02", 0.5, {"spec": {}, "rows": [1.25]})
    with Store(tmp_path / "s.db") as store:
        heats = Heats(store)
        heats.add("a", StoredHeat("2026-01-01", None, {}))
        heats.add("a", kept)
    with Store(tmp_path / "s.db") as store:
        assert Heats(store).find("a") == kept
        assert Heats(store).find("b") is None


def test_a_store_made_before_there_were_races_takes_heats_and_keeps_its_runs(tmp_path, make_record):
    record = make_record()
    with Store(tmp_path / "old.db") as store:
        store.add(record)
    with Store(tmp_path / "old.db") as store:
        Heats(store).add("a", StoredHeat("2026-01-01", None, {}))
    with Store(tmp_path / "old.db", read_only=True) as store:
        assert [run.key for run in store.runs()] == [record.key]


# ---- what is printed ----------------------------------------------------------------------------


def three_sizes():
    ours, tree, gavl, peer = "exact_time_ring", "red_black_tree", "gavl_tree", "pairing_heap"
    times = {1: (3.0, 6.0, 7.0, 2.0), 10: (15.0, 65.0, 70.0, 50.0), 100: (60.0, 200.0, 300.0, 90.0)}
    return [
        heat(dict(zip((ours, tree, gavl, peer), map(rounds, of), strict=True)), n=n)
        for n, of in times.items()
    ]


def printed(heats, capsys):
    table.print_race(standings(heats), MACHINE)
    return capsys.readouterr().out


def test_the_answer_is_who_is_fastest_and_how_far_the_next_one_is(capsys):
    text = printed(three_sizes(), capsys)
    lines = {line.split()[0]: line for line in text.splitlines() if re.match(r" *\d+ +\d", line)}
    assert re.search(r"2\.000 pairing_heap +3\.000 exact_time_ring +1\.500 \[1\.500,", lines["1"])
    assert re.search(r"15\.00 exact_time_ring +50\.00 pairing_heap +3\.333 \[3\.333", lines["10"])
    assert re.search(r"60\.00 exact_time_ring +90\.00 pairing_heap +1\.500 \[", lines["100"])


def test_the_next_one_is_no_form_of_the_fastest_and_keeps_exact_order():
    rows = {
        "fifo": rounds(1.0),
        "exact_time_ring": rounds(20.0),
        "exact_time_ring_avx2": rounds(19.0),
        "red_black_tree": rounds(60.0),
    }
    found = standing_of(rows)
    assert (found.fastest.structure, found.next.structure) == (
        "exact_time_ring_avx2", "red_black_tree"
    )  # fmt: skip
    assert found.next_to_fastest.against == "exact_time_ring_avx2"
    alone = standing_of({"fifo": rounds(1.0)})
    assert (alone.fastest, alone.next, alone.next_to_fastest) == (None, None, None)


def test_a_cell_has_minimum_median_and_half_of_the_interval():
    assert forms.ticks_text(median_estimate(range(100, 109))) == "100.0 104.0 ± 3.0"
    assert forms.ticks_text(median_estimate([1.5, 1.0])) == "1.000 1.250"
    assert forms.ticks_text(None) == "–"


def test_structures_come_fastest_first_and_who_is_left_out_is_told(capsys):
    heats = [
        heat([row("red_black_tree", rounds(9.0)), row("skip_list", rounds(1.0))], n=10),
        heat([row("red_black_tree", rounds(9.0)), row("skip_list", [], left_out="slow")], n=99),
    ]
    text = printed(heats, capsys)
    rows = text[text.index("bytes") :]
    assert rows.index("red_black_tree  ") < rows.index("skip_list  ")
    assert "skip_list is left out at n = 99: slow" in text


def test_what_cannot_be_counted_and_a_busy_machine_are_told(capsys):
    text = printed([heat({"red_black_tree": rounds(9.0)}, load=3.25)], capsys)
    assert "not counted: no counters in this machine." in text
    assert "up to 3.2 tasks at a time" in text
    quiet = printed([heat({"red_black_tree": rounds(9.0)}, load=1.0)], capsys)
    assert "busy" not in quiet


def test_counts_are_printed_where_there_are_any(capsys):
    rows = [row("red_black_tree", rounds(9.0), instructions_per_loop=135.25)]
    text = printed([heat(rows, counters={"available": True})], capsys)
    assert "135.2 –" in text
    assert "not counted" not in text


@pytest.mark.parametrize(
    ("workload", "together", "apart"),
    [
        ("single", "a pop and the push after it, added", "pop, push"),
        ("single_remove", "a removal and the push after it, added", "pop, push, remove, back"),
    ],
)
def test_single_operations_show_percentiles_together_and_apart(
    workload, together, apart, capsys, tmp_path
):
    single = {"p50": 116.0, "p99": 1024.0, "p999": 1600.0, "max": 1e5}
    tails = {"pop": 611.0, "push": 622.0, "remove": 633.0, "back": 644.0}
    of_each = {name: single | {"p999": tail} for name, tail in tails.items()}
    rows = [
        row("red_black_tree", rounds(9.0), single=single | of_each),
        row("rust_binary_heap", [], left_out="it cannot remove"),
    ]
    heats = [heat(rows, workload=workload)]
    text = printed(heats, capsys)
    race_page.write(tmp_path / "race.html", heats, MACHINE, "schedlab race")
    tables_only = re.sub(
        r"<script.*?</script>", "", (tmp_path / "race.html").read_text(), flags=re.S
    )
    page = re.sub(r"<[^>]*>", " ", tables_only)
    cells = " ".join(f"{tails[name]:.1f}" for name in apart.split(", "))
    for told in (text, page):
        assert "116.0 1,024 1,600 100,000" in told
        assert re.search(rf"red_black_tree +{cells}", told)
        assert together in told
        assert f"99.9 % of each alone: {apart}" in told
    assert f"50 %, 99 %, 99.9 %, max of {together}" in text


@pytest.mark.parametrize("step", [26, 1])
def test_a_clock_of_single_operations_that_goes_in_steps_is_told(step):
    single = {"p50": 3 * step, "p99": 8 * step, "p999": 20 * step, "max": 25 * step}
    single |= {"pop": dict(single), "push": dict(single), "remove": None, "back": None}
    found = standings([heat([row("red_black_tree", rounds(9.0), single=single)])])
    text = " ".join(forms.notes(found))
    assert ("goes forward" in text, "26 ticks at a time" in text) == (step > 1, step > 1)


def test_tables_fit_eighty_columns(monkeypatch, capsys):
    monkeypatch.setattr(tables, "PIPED_COLUMNS", 80)
    names = [f"structure_of_{'long_' * 3}name_{n}" for n in range(4)]
    names += ["exact_time_ring", "red_black_tree"]
    rows = {name: [1e4 + 321 * n for n in range(9)] for name in names}
    heats = [heat(rows, n=n) for n in plan.SIZES_FULL]
    found = standings(heats)
    text = printed(heats, capsys)
    table.print_published(april_2007.beside(april_2007.read(), found))
    text += capsys.readouterr().out
    lines = [line for line in text.splitlines() if re.search(r"\d  +\d|\d ±", line)]
    assert len(lines) > 40
    assert [line for line in lines if len(line) > 80] == []


def test_json_holds_every_row_and_ratio():
    heats = three_sizes()
    found = standings(heats)
    rows = april_2007.beside(april_2007.read(), found)
    told = table.race_json(found, MACHINE, rows)
    told = json.loads(json.dumps(told, allow_nan=False))
    assert told["machine"]["caches"][0] == {"name": "L1d", "size_bytes": 49152}
    assert [one["spec"]["n"] for one in told["heats"]] == [1, 10, 100]
    ten = told["heats"][1]
    assert ten["fastest"] == "exact_time_ring"
    assert ten["best_exact_peer"] == ten["next"] == "pairing_heap"
    assert ten["ratios"]["next_to_fastest"]["against"] == "exact_time_ring"
    assert ten["ratios"]["best_exact_peer"]["ratio"] == pytest.approx(0.3)
    ticks = {one["structure"]: one["ticks"] for one in ten["rows"]}
    assert ticks["exact_time_ring"] == {"min": 15.0, "median": 15.0, "low": 15.0, "high": 15.0}
    assert {one["n"] for one in told["published"]} == {1, 10, 100}
    assert len(told["remarks"]) == 3


# ---- the figure and the page --------------------------------------------------------------------


def curves(heats):
    return race_page.curves_of(standings(heats), MACHINE, april_2007.read())


def test_the_figure_has_a_curve_for_each_structure_and_for_2007():
    drawn = curves(three_sizes())
    figure = race_page.race_figure(drawn, "n", "ticks").plotly()
    lines = {trace.name: trace for trace in figure.data if trace.mode == "lines+markers"}
    ring = lines["exact_time_ring"]
    assert list(ring.x) == [1, 10, 100]
    assert list(ring.y) == [3.0, 15.0, 60.0]
    assert ring.visible is True
    then = lines["2007, Duron 600 MHz: GAVL tree"]
    assert then.visible == "legendonly"
    assert then.y[list(then.x).index(10)] == pytest.approx(226.42)
    assert len(lines) == 4 + 5
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"


def test_a_name_comes_and_goes_with_its_curve():
    figure = race_page.race_figure(curves(three_sizes()), "n", "ticks").plotly()
    names = [trace for trace in figure.data if trace.mode == "text"]
    assert {trace.legendgroup for trace in names} == {
        "exact_time_ring",
        "red_black_tree",
        "gavl_tree",
        "pairing_heap",
    }
    by_group = {
        trace.legendgroup: trace.visible for trace in figure.data if trace.showlegend is None
    }
    assert all(by_group[trace.legendgroup] == trace.visible for trace in names)


def test_a_cache_is_full_where_the_items_of_a_queue_need_its_bytes():
    [one, two] = race_page.levels_of(MACHINE.caches, [64.0, 96.0])
    assert (one.name, one.n_low, one.n_high) == ("L1d", 512.0, 768.0)
    assert (two.n_low, two.n_high) == ((2 << 20) / 96, 32768.0)
    assert race_page.levels_of(MACHINE.caches, []) == []


def test_a_cache_that_no_size_fills_is_not_drawn():
    point = {"a": [Point(1, 1.0), Point(1000, 2.0)]}
    level = race_page.levels_of((("L1d", 48 << 10), ("L3", 1 << 30)), [64.0, 96.0])
    drawn = race_page.Curves(point, frozenset("a"), "a", {}, level)
    figure = race_page.race_figure(drawn, "n", "ticks").plotly()
    assert [note.text for note in figure.layout.annotations] == ["L1d full<br>48 KiB"]


def test_the_page_shows_lost_rows_and_cannot_be_broken_by_a_name():
    wicked = "</script><script>document.title='broken'</script>"
    heats = three_sizes()
    rows = heats[0].result["rows"]
    rows += [row(wicked, rounds(5.0), source="plugin:x.so"), row("fifo", rounds(1.0))]
    html = race_page.render(heats, MACHINE, wicked)
    assert "<script>document.title" not in html
    assert '<th scope="row">fifo ~</th>' in html
    assert '<th scope="row">red_black_tree</th>' in html
    assert ">15.00 exact_time_ring<" in html
    figures = re.findall(r'data-figure="[^"]+">(.*?)</script>', html)
    [figure] = map(json.loads, figures)
    go.Figure(figure)
    assert wicked.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#x27;") in {
        trace.get("name") for trace in figure["data"]
    }


def test_a_page_that_cannot_be_written_says_that_heats_are_kept(tmp_path):
    with pytest.raises(SchedlabError, match="cannot be written") as raised:
        race_page.write(tmp_path / "no" / "x.html", three_sizes(), MACHINE, "schedlab race")
    assert "every heat is kept" in raised.value.hint
