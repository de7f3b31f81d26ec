"""Goal: figures show the numbers they are given and stay readable. Method: the figure's own data,
properties of the placing of labels, and contrast computed from the colours.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotted import Plotted
from schedlab.report import figures as drawn_figures
from schedlab.report.figures import CPU_PARTS, Point

figures = Plotted(drawn_figures)

SERIES = {
    "linux_2_4": [Point(25, 4.0, 3.9, 4.1), Point(50, 9.0, 8.7, 9.3), Point(100, 21.0, 20, 22)],
    "o1": [Point(25, 4.2, 4.1, 4.3), Point(50, 8.3, 8.0, 8.6), Point(100, 17.0, 16.5, 17.5)],
}
LOOKS = figures.looks_of(list(SERIES))


def lines_of(figure):
    return {trace.name: trace for trace in figure.data if trace.mode == "lines+markers"}


def luminance(colour):
    """Relative luminance of WCAG 2, of a colour written #rrggbb."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


# --- looks ----------------------------------------------------------------------------------------


def test_policies_differ_in_more_than_colour():
    looks = list(figures.looks_of([f"policy_{n}" for n in range(7)]).values())
    for one, other in itertools.combinations(looks, 2):
        assert (one.dash, one.symbol, one.glyph) != (other.dash, other.symbol, other.glyph)
        assert one.dash != other.dash and one.symbol != other.symbol


def test_of_curves_that_coincide_each_can_be_seen():
    points = [Point(25, 1.0), Point(50, 2.0)]
    names = [f"policy_{n}" for n in range(5)]
    looks = figures.looks_of(names)
    figure = figures.curve_figure(dict.fromkeys(names, points), looks, "groups", "makespan (s)")
    drawn = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert len(drawn) == len(names)
    for below, above in itertools.pairwise(drawn):
        assert above.line.width < below.line.width
        assert above.line.dash != below.line.dash
        assert above.marker.symbol != below.marker.symbol


def test_twenty_policies_look_different_and_keep_their_looks():
    names = [f"policy_{n}" for n in range(20)]
    looks = figures.looks_of(names)
    assert len(set(looks.values())) == 20
    assert figures.looks_of(names[:3]) == {name: looks[name] for name in names[:3]}


@pytest.mark.parametrize("look", figures.looks_of(list("abcdefg")).values(), ids=str)
def test_labels_have_the_contrast_that_text_needs_on_white(look):
    assert 1.05 / (luminance(look.ink) + 0.05) >= 4.5


def test_parts_of_cpu_time_are_told_apart_in_grey():
    fills = [figures._PART_FILL[part] for part in CPU_PARTS]
    for (one, hatch), (other, other_hatch) in itertools.pairwise(fills):
        assert abs(luminance(one) - luminance(other)) > 0.12 or hatch != other_hatch


# --- curves ---------------------------------------------------------------------------------------


def test_a_curve_has_the_means_and_its_band_the_interval():
    figure = figures.curve_figure(SERIES, LOOKS, "groups", "makespan (s)")
    lines = lines_of(figure)
    assert list(lines) == list(SERIES)
    assert list(lines["o1"].x) == [25, 50, 100]
    assert list(lines["o1"].y) == [4.2, 8.3, 17.0]
    bands = [trace for trace in figure.data if trace.mode == "none"]
    assert len(bands) == 2
    assert list(bands[0].x) == [25, 50, 100, 100, 50, 25]
    assert list(bands[0].y) == [4.1, 9.3, 22, 20, 8.7, 3.9]


def test_no_band_lies_over_a_line():
    modes = [t.mode for t in figures.curve_figure(SERIES, LOOKS, "groups", "makespan (s)").data]
    assert modes == sorted(modes, key=lambda mode: mode != "none")


def test_points_without_an_interval_have_no_band_and_no_invented_one():
    series = {"o1": [Point(25, 4.2), Point(50, 8.3)]}
    figure = figures.curve_figure(series, LOOKS, "groups", "makespan (s)")
    assert [trace.mode for trace in figure.data] == ["lines+markers"]


def test_axes_carry_their_titles_and_start_at_zero():
    figure = figures.curve_figure(SERIES, LOOKS, "groups", "makespan (s)", y_max=50.0)
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == (
        "groups",
        "makespan (s)",
    )
    assert (figure.layout.xaxis.range[0], figure.layout.yaxis.range[0]) == (0, 0)
    assert figure.layout.yaxis.range[1] == pytest.approx(53.0)
    assert figures.curve_figure(SERIES, LOOKS, "g", "s").layout.yaxis.range[1] > 22


def test_each_line_is_named_at_its_end_in_its_own_ink():
    figure = figures.curve_figure(SERIES, LOOKS, "groups", "makespan (s)")
    labels = {label.text: label for label in figure.layout.annotations}
    assert set(labels) == {"● linux_2_4", "■ o1"}
    assert labels["■ o1"].font.color == LOOKS["o1"].ink
    assert labels["● linux_2_4"].y > labels["■ o1"].y


def test_a_policy_has_one_look_in_every_figure():
    series = {"o1": SERIES["o1"]}
    curve = figures.curve_figure(SERIES, LOOKS, "groups", "makespan (s)")
    ratio = figures.ratio_figure(series, LOOKS, "groups", "linux_2_4", (3, 20))
    latency = figures.delay_figure({"o1": [Point("p50", 3e4)]}, LOOKS, "percentile", "latency")
    looks = [
        (line.line.color, line.line.dash, line.marker.symbol)
        for line in (lines_of(figure)["o1"] for figure in (curve, ratio, latency))
    ]
    assert looks == [(LOOKS["o1"].colour, LOOKS["o1"].dash, LOOKS["o1"].symbol)] * 3


def test_names_are_text_and_never_markup():
    name = "<a href='x'>o1</a>"
    figure = figures.curve_figure({name: SERIES["o1"]}, figures.looks_of([name]), name, "s")
    assert "<a" not in figure.layout.xaxis.title.text
    assert "<a" not in figure.layout.annotations[0].text
    assert "<a" not in figure.data[-1].name


def test_words_on_the_axis_become_categories_with_whiskers():
    series = {"o1": [Point("pipe", 4.0, 3.5, 5.0), Point("socket", 6.0)]}
    figure = figures.curve_figure(series, LOOKS, "transport", "makespan (s)")
    assert figure.layout.xaxis.type == "category"
    (line,) = figure.data
    assert (list(line.error_y.array), list(line.error_y.arrayminus)) == ([1.0, 0], [0.5, 0])


def test_where_nothing_is_varied_each_policy_has_a_dot_of_its_own():
    names = ["o1 with a name that is very long, 1", "o1 with a name that is very long, 2"]
    points = {name: Point("", 4.0 + at, 3.5, 6.0) for at, name in enumerate(names)}
    figure = figures.dot_figure(points, figures.looks_of(names), "makespan (s)")
    assert [(trace.x[0], trace.y[0]) for trace in figure.data] == [(names[0], 4.0), (names[1], 5.0)]
    assert all(text.endswith("…") for text in figure.layout.xaxis.ticktext)


@pytest.mark.parametrize(
    ("highest", "shared"), [([10, 9], 10), ([10, 2], 10), ([10, 1.9], None), ([3], 3), ([], None)]
)
def test_panels_share_an_axis_until_it_flattens_one(highest, shared):
    assert figures.shared_y_max(highest) == shared


# --- ratios ---------------------------------------------------------------------------------------


def test_the_ratio_axis_holds_one_and_balances_half_and_double():
    series = {"o1": [Point(25, 0.5, 0.45, 0.55), Point(50, 0.6)]}
    figure = figures.ratio_figure(series, LOOKS, "groups", "linux_2_4", (0.45, 0.6))
    low, high = figure.layout.yaxis.range
    assert figure.layout.yaxis.type == "log"
    assert low < np.log10(0.45) and high > 0
    assert 1 in figure.layout.yaxis.tickvals
    assert {label.text for label in figure.layout.annotations} == {"● linux_2_4", "■ o1"}
    assert figure.layout.shapes[0].y0 == figure.layout.shapes[0].y1 == 1
    assert "linux_2_4" in figure.layout.yaxis.title.text


@pytest.mark.parametrize("limits", [(0.4, 0.5), (2.0, 3.0), (0.999, 1.001)])
def test_the_ratio_axis_always_reaches_both_sides_of_one(limits):
    series = {"o1": [Point(25, limits[0]), Point(50, limits[1])]}
    figure = figures.ratio_figure(series, LOOKS, "groups", "linux_2_4", limits)
    low, high = figure.layout.yaxis.range
    assert low < min(0, np.log10(limits[0])) and high > max(0, np.log10(limits[1]))


@given(st.floats(0.011, 1.0), st.floats(1.0, 99.0))
def test_ratio_ticks_are_few_inside_and_include_one(low, high):
    ticks = figures.ratio_ticks(low, high)
    assert 1 in ticks
    assert ticks == sorted(set(ticks))
    assert all(low <= tick <= high for tick in ticks)
    assert len(ticks) <= 13


# --- latency --------------------------------------------------------------------------------------


def test_latency_is_drawn_on_a_log_axis_with_units_at_the_ticks():
    points = [Point("p50", 3e3, 2e3, 4e3), Point("p99", 2e6), Point("max", 9e6)]
    figure = figures.delay_figure({"o1": points}, LOOKS, "percentile", "wake-up latency")
    assert figure.layout.yaxis.type == "log"
    assert list(figure.layout.yaxis.ticktext) == ["10 µs", "100 µs", "1 ms", "10 ms"]
    assert list(lines_of(figure)["o1"].x) == ["p50", "p99", "max"]


def test_a_latency_of_zero_is_drawn_at_one_nanosecond():
    points = [Point("p50", 0.0, -5.0, 5.0), Point("max", 100.0)]
    line = lines_of(figures.delay_figure({"o1": points}, LOOKS, "percentile", "latency"))["o1"]
    assert list(line.y) == [1.0, 100.0]
    assert np.all(np.isfinite(line.error_y.arrayminus))


# --- split ----------------------------------------------------------------------------------------


def test_the_parts_of_a_bar_are_stacked_in_percent():
    parts = [part for part in CPU_PARTS if part not in ("bus_wait", "interrupted")]
    shares = {"o1": dict(zip(parts, (0.5, 0.3, 0.1, 0.04, 0.06), strict=True))}
    figure = figures.cpu_split_figure({**shares, "cfs": shares["o1"]})
    assert figure.layout.barmode == "stack"
    assert [bar.name for bar in figure.data] == ["work", "kernel", "scheduler", "lock wait", "idle"]
    assert sum(bar.x[0] for bar in figure.data) == pytest.approx(100)
    # Without a ground of its own a hatched bar would be drawn white on white.
    assert all(bar.marker.pattern.bgcolor == bar.marker.color for bar in figure.data)
    assert list(figure.layout.yaxis.ticktext) == ["o1  ", "cfs  "]
    low, high = figure.layout.yaxis.range
    assert low > high  # the first policy on top


@pytest.mark.parametrize("part", ["bus_wait", "interrupted"])
def test_a_bar_tells_of_what_few_machines_have_where_one_had_any(part):
    shares = {"o1": {"work": 1}, "cfs": {"work": 0.9, part: 0.1}}
    figure = figures.cpu_split_figure(shares)
    assert {bar.name: list(bar.x) for bar in figure.data} == {
        "work": [100, pytest.approx(90)],
        part.replace("_", " "): [0, pytest.approx(10)],
    }


# --- labels ---------------------------------------------------------------------------------------

PLACES = st.lists(st.floats(0, 1), max_size=9).map(sorted)
GAP = 0.07


@given(PLACES)
def test_labels_are_apart_inside_and_in_order(places):
    found = figures.spread(places, GAP)
    assert len(found) == len(places)
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in found)
    assert all(after - before >= GAP - 1e-9 for before, after in itertools.pairwise(found))


@given(PLACES)
def test_labels_that_do_not_touch_stay_where_they_are(places):
    apart = figures.spread(places, GAP)
    assert figures.spread(apart, GAP) == pytest.approx(apart)


def test_two_labels_at_one_place_move_equally():
    assert figures.spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])


def test_labels_without_room_are_spread_over_the_whole():
    assert figures.spread([0.5] * 5, 0.5) == pytest.approx([0, 0.25, 0.5, 0.75, 1])
