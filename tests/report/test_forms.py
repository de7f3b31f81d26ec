"""Goal: numbers, times and lists read the same wherever they stand. Method: worked cases."""

import pytest
from schedlab.report import forms


@pytest.mark.parametrize(
    ("duration_ns", "tick", "text"),
    [
        (0, "0 ns", "0 ns"),
        (1, "1 ns", "1 ns"),
        (999, "999 ns", "999 ns"),
        (1000, "1 µs", "1.000 µs"),
        (2.5e6, "2.5 ms", "2.500 ms"),
        (1.5e11, "150 s", "150.0 s"),
        (1.23456e12, "1235 s", "1235 s"),
    ],
)
def test_a_time_is_told_in_the_unit_that_fits(duration_ns, tick, text):
    assert forms.tick_text(duration_ns) == tick
    assert forms.time_text(duration_ns) == text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (forms.number_text(12.3456), "12.35"),
        (forms.number_text(12.3), "12.30"),
        (forms.number_text(1234.5678), "1,235"),
        (forms.number_text(0.0), "0"),
        (forms.number_text(401.0), "401.0"),
        (forms.number_text(None), "–"),
        (forms.mean_count_text(401.0), "401"),
        (forms.mean_count_text(401.3), "401.3"),
        (forms.mean_count_text(5321.3), "5,321"),
        (forms.points_text(-0.001), "0.00"),
        (forms.points_text(1.234), "+1.23"),
        (forms.size_text(32 << 10), "32 KiB"),
        (forms.size_text(8 << 20), "8 MiB"),
        (forms.duration_text(2.6), "3 s"),
        (forms.duration_text(303), "5 min 3 s"),
        (forms.duration_text(7500), "2 h 5 min"),
    ],
)
def test_a_number_has_the_digits_it_deserves(shown, text):
    assert shown == text


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (12.3456, 12.2216, 12.4696, "12.35 ± 0.12 s"),
        (12.3456, None, None, "12.35 s"),
        (10.0, 10.0, 10.0, "10.00 ± 0 s"),
        (10.0, 9.9999, 10.0001, "10.00 ± <0.01 s"),
        (1234.0, 1200.0, 1268.0, "1,234 ± 34 s"),
    ],
)
def test_a_mean_stands_in_the_middle_of_its_interval(mean, low, high, text):
    assert forms.mean_text(mean, low, high, "s") == text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (forms.interval_text(2.0, 1.5, 4.0), "2.000 [1.500, 4.000]"),
        (forms.interval_text(2.0, None, None), "2.000"),
        (forms.interval_text(2.0, 2.0, 2.0), "2.000"),
        (forms.interval_text(5.1e6, 4.9e6, 5.6e6, forms.time_text), "5.100 [4.900, 5.600] ms"),
        (forms.interval_text(5e6, 9e5, 6e6, forms.time_text), "5.000 ms [900.0 µs, 6.000 ms]"),
        (forms.ratio_text(0.41999), "0.420"),
        (forms.ratio_text(12.345), "12.3"),
        (forms.ratio_text(123.45), "123"),
        (forms.ratio_text(999.7), "1,000"),
        (forms.ratio_text(222_345.0), "222,000"),
        (forms.ratio_text(None), "–"),
        (forms.ratio_text(1.5, 1.4, 1.6), "1.500 [1.400, 1.600]"),
        (forms.ratio_text(1.0, 1.0, 1.0), "1.000 [1.000, 1.000]"),
    ],
)
def test_other_numbers_stand_before_their_interval(shown, text):
    assert shown == text


def test_counts_and_lists_are_sentences():
    assert forms.count_text(1, "run") == "1 run"
    assert forms.count_text(0, "run") == "0 runs"
    assert forms.count_text(1200, "run") == "1,200 runs"
    assert [forms.list_text("abc"[:nr]) for nr in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert forms.ranges_text([1, 2, 3, 5, 8, 9]) == "1 to 3, 5, 8 to 9"
