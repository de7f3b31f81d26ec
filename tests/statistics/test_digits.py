"""Goal: a number is written with the digits its interval carries. Method: worked cases of the rule
of the Particle Data Group, and properties of random intervals.
"""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from schedlab.statistics import digits


# The three cases of the rule, with its own examples of 0.827 and an uncertainty.
@pytest.mark.parametrize(
    ("value", "half_width", "written"),
    [
        (0.827, 0.119, "0.83 [0.71, 0.95]"),
        (0.827, 0.367, "0.8 [0.5, 1.2]"),
        (0.827, 0.967, "0.8 [-0.1, 1.8]"),
        (12_345, 350, "12340 [12000, 12700]"),
        (12_345, 420, "12300 [11900, 12800]"),
        (1.1186, 0.0644, "1.12 [1.05, 1.18]"),
    ],
)
def test_uncertainty_keeps_one_digit_or_two(value, half_width, written):
    assert digits.with_interval(value, value - half_width, value + half_width) == written


@given(st.floats(-1e6, 1e6), st.floats(1e-4, 1e6))
def test_no_more_digits_than_the_interval_carries_and_no_fewer(value, half_width):
    assume(half_width > 1e-5 * abs(value))  # below that, six digits are enough for anyone
    low, high = value - half_width, value + half_width
    unit = 10.0 ** -digits.decimals(low, high)
    # The last written place is at least a 36th and at most a 3rd of the uncertainty.
    assert half_width / 36 <= unit <= half_width / 3
    assert abs(float(digits.number(value, low, high)) - value) <= 0.5001 * unit


@given(st.floats(-1e3, 1e3), st.floats(0, 10), st.floats(0, 10))
def test_number_and_bounds_have_one_precision(value, below, above):
    assume(below + above > 1e-3)
    text = digits.with_interval(value, value - below, value + above)
    parts = text.replace("[", "").replace("]", "").replace(",", "").split()
    assert len({len(part.partition(".")[2]) for part in parts}) == 1
    assert "-0" not in [part for part in parts if float(part) == 0]


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ((3.0, 3.0, 3.0), "3.00000 [3.00000, 3.00000]"),
        ((0.0, 0.0, 0.0), "0 [0, 0]"),
        ((2.4567, None, None, "s"), "2.46 s (no interval)"),
        ((2.4567, 2.0, 3.0, "ms"), "2.5 [2.0, 3.0] ms"),
    ],
)
def test_what_is_known_exactly_or_not_at_all(arguments, written):
    assert digits.with_interval(*arguments) == written


@pytest.mark.parametrize(
    ("ratio", "low", "high", "written"),
    [
        (1.119, 1.056, 1.185, "+12 % [+6, +19]"),
        (0.966, 0.910, 1.010, "-3 % [-9, +1]"),
        (0.99999, 0.999, 1.001, "0.00 % [-0.10, +0.10]"),
        (1.0, 1.0, 1.0, "0 % [0, 0]"),
        (0.5, None, None, "-50.0 % (no interval)"),
        # The interval excludes no change, and so does what is written.
        (1.047, 1.002, 1.090, "+4.7 % [+0.2, +9.0]"),
        (0.950, 0.910, 0.9994, "-5.0 % [-9.0, -0.1]"),
    ],
)
def test_a_change_is_new_over_old_less_one(ratio, low, high, written):
    assert digits.change_percent(ratio, low, high) == written


@given(st.floats(0.2, 3), st.floats(1e-3, 0.5), st.floats(1e-3, 0.5))
def test_a_bound_is_written_on_its_side_of_no_change(ratio, below, above):
    low, high = ratio * (1 - below), ratio * (1 + above)
    assume(min(abs(low - 1), abs(high - 1)) > 1e-6)
    text = digits.change_percent(ratio, low, high)
    written = [float(part) for part in text.partition("[")[2].rstrip("]").split(",")]
    if low > 1:
        assert written[0] > 0
    if high < 1:
        assert written[1] < 0


@pytest.mark.parametrize(
    ("p_value", "sentence", "cell"),
    [
        (0.0314, "p = 0.031", "0.031"),
        (0.6321, "p = 0.63", "0.63"),
        (1e-12, "p < 0.001", "< 0.001"),
        (0.0, "p < 0.001", "< 0.001"),
        (0.00123, "p = 0.0012", "0.0012"),
        (1.0, "p = 1.0", "1.0"),
        (None, "p unknown", "–"),
    ],
)
def test_a_p_value_has_two_digits_and_no_far_tail(p_value, sentence, cell):
    assert digits.p_text(p_value) == sentence
    assert digits.p_number(p_value) == cell


def test_a_power_of_ten_is_no_special_case():
    for power in range(-5, 6):
        half_width = 10.0**power
        assert digits.decimals(-half_width, half_width) == 1 - power
    assert math.isclose(float(digits.number(9.96, 8.97, 10.95)), 10.0)
