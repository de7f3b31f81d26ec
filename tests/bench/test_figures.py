"""Goal: figures of measured runs show every run, the circles of the test, and claims only where
there are some. Method: the figures' own data, against samples and the test itself.
"""

import numpy as np
import pytest
from plotted import Plotted
from schedlab.bench import figures as drawn_figures
from schedlab.bench.figures import ForestRow
from schedlab.errors import BadValue
from schedlab.report import figures as report_figures
from schedlab.statistics import variance
from schedlab.statistics.estimates import Ratio, Verdict

SAMPLES = {
    "cfs": [10.0, 10.4, 9.8, 10.1, 10.3],
    "bfs": [9.0, 9.1, 9.3, 8.9, 9.2, 9.0],
    "<b>o1": [10.2, 10.1, 10.5],
}
bench_figures = Plotted(drawn_figures)
LOOKS = report_figures.looks_of(list(SAMPLES))


def made_row(group, name, ratio, low, high, verdict, text):
    return ForestRow(group, name, Ratio(9, 9, ratio, low, high, None, low, high), verdict, text)


ROWS = [
    made_row("make", "bfs", 0.90, 0.88, 0.92, Verdict.FASTER, "-10 % [-12, -8]"),
    made_row("make", "o1", 1.10, None, None, Verdict.INCONCLUSIVE, "+10 % (no interval)"),
    made_row("video", "bfs", 1.30, 1.20, 1.40, Verdict.SLOWER, "+30 % [+20, +40]"),
    made_row("video", "o1", 1.00, 0.995, 1.005, Verdict.SAME, "0 %"),
]


def traces(figure):
    return {trace.name: trace for trace in figure.data}


def test_every_run_is_a_point_in_order_of_time():
    figure = bench_figures.oneway_figure(SAMPLES, LOOKS, "time (s)")
    points = traces(figure)
    for place, (name, sample) in enumerate(SAMPLES.items()):
        drawn = points[name.replace("<", "&lt;").replace(">", "&gt;")]
        assert list(drawn.y) == sample
        assert list(drawn.x) == sorted(drawn.x)
        assert np.mean(drawn.x) == pytest.approx(place)
    assert "n = 5" in figure.layout.xaxis.ticktext[0]
    assert figure.layout.yaxis.title.text == "time (s)"


def test_boxes_reach_from_quartile_to_quartile_with_the_median_in_them():
    figure = bench_figures.oneway_figure(SAMPLES, LOOKS, "time (s)")
    for shape, sample in zip(figure.layout.shapes, SAMPLES.values(), strict=True):
        assert (shape.y0, shape.y1) == pytest.approx(tuple(np.quantile(sample, [0.25, 0.75])))
    assert list(traces(figure)["median of cfs"].y) == [10.1, 10.1]


def test_circles_are_circles_about_the_means_with_the_radii_of_the_test():
    figure = bench_figures.oneway_figure(SAMPLES, LOOKS, "time (s)")
    for name, circle in variance.comparison_circles(SAMPLES).items():
        drawn = traces(figure)[f"circle of {name.replace('<b>', '&lt;b&gt;')}"]
        assert drawn.xaxis == "x2"
        radii = np.hypot(drawn.x, np.subtract(drawn.y, np.mean(SAMPLES[name])))
        assert radii == pytest.approx(np.full(radii.size, circle.radius))
        low, high = figure.layout.yaxis.range
        assert low < circle.centre - circle.radius and circle.centre + circle.radius < high
    assert (figure.layout.xaxis2.scaleanchor, figure.layout.xaxis2.scaleratio) == ("y", 1)


@pytest.mark.parametrize("samples", [{"cfs": [1.0]}, {"cfs": [2.0] * 4, "bfs": [2.0] * 4}])
def test_without_variance_there_are_runs_and_no_circles(samples):
    figure = bench_figures.oneway_figure(samples, LOOKS, "time (s)")
    assert not [trace for trace in figure.data if trace.xaxis == "x2"]
    low, high = figure.layout.yaxis.range
    assert low < min(samples["cfs"]) < high


def test_a_run_that_is_no_number_is_refused():
    with pytest.raises(BadValue, match="sample 'cfs'"):
        bench_figures.oneway_figure({"cfs": [1.0, np.nan]}, LOOKS, "time (s)")


def test_a_forest_has_a_mark_a_row_and_whiskers_where_there_is_an_interval():
    figure = bench_figures.forest_figure(ROWS, "cfs")
    drawn = traces(figure)
    assert set(drawn) == {word.value for word in Verdict}
    for row in ROWS:
        trace = drawn[row.verdict.value]
        assert list(trace.x) == [row.ratio.ratio]
        if row.ratio.low is None:
            assert (trace.error_x.array[0], trace.error_x.arrayminus[0]) == (None, None)
        else:
            assert trace.x[0] - trace.error_x.arrayminus[0] == pytest.approx(row.ratio.low)
            assert trace.x[0] + trace.error_x.array[0] == pytest.approx(row.ratio.high)
    assert [note.text for note in figure.layout.annotations] == [row.text for row in ROWS]
    low, high = figure.layout.xaxis.range
    assert low < np.log10(0.88) and high > np.log10(1.4)


def test_claims_are_told_apart_in_grey_and_from_no_claim():
    marks = [symbol for symbol, _ in bench_figures._VERDICT_MARKS.values()]
    assert len(set(marks)) == len(marks) == len(Verdict)
    open_marks = [w for w, (s, _) in bench_figures._VERDICT_MARKS.items() if s.endswith("open")]
    assert open_marks == [Verdict.INCONCLUSIVE]


def test_groups_stand_apart_and_are_named_once():
    figure = bench_figures.forest_figure(ROWS, "cfs")
    places, names = figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext
    assert places[2] - places[1] > places[1] - places[0] == places[3] - places[2]
    assert ["<b>" in name for name in names] == [True, False, True, False]


def test_names_are_text_and_never_markup():
    marked = made_row("<i>g", "<u>n", 1.1, 1.0, 1.2, Verdict.INCONCLUSIVE, "<s>t")
    figure = bench_figures.forest_figure([marked], "<a>cfs")
    written = figure.to_json()
    for markup in ("<i>", "<u>", "<s>", "<a>"):
        assert markup not in written and markup.encode("unicode_escape").decode() not in written
        assert markup.replace("<", "\\u003c").replace(">", "\\u003e") not in written
