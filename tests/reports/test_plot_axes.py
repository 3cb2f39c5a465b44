"""Axes: ends map to ends, ticks are round, distinct and inside."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelfields.reports.axes import decade_axis, linear_axis, log_axis

finite = st.floats(-1e12, 1e12)
positive = st.floats(1e-17, 1e12)


@given(finite, finite, st.integers(3, 8))
def test_linear_ticks_are_inside_and_evenly_spaced(a, b, count):
    axis = linear_axis(min(a, b), max(a, b), 300.0, 20.0)
    ticks = [tick for tick, _ in axis.ticks(count)]
    width = axis.high - axis.low
    assert 1 <= len(ticks) <= count + 1
    assert all(axis.low - 1e-6 * width <= tick <= axis.high + 1e-6 * width for tick in ticks)
    assert all(20.0 - 1e-3 <= axis.pixel(tick) <= 300.0 + 1e-3 for tick in ticks)


@given(positive, positive)
def test_logarithmic_ticks_are_inside(a, b):
    for axis in (log_axis(min(a, b), max(a, b), 0.0, 100.0), decade_axis(min(a, b), max(a, b), 0.0, 100.0)):
        ticks = axis.ticks(4)
        assert len(ticks) >= 1
        assert all(-1e-6 <= axis.pixel(tick) <= 100.0 + 1e-6 for tick, _ in ticks)


def test_ends_map_to_ends_and_the_middle_between():
    axis = linear_axis(2.0, 6.0, 100.0, 0.0)
    assert [axis.pixel(value) for value in (2.0, 4.0, 6.0)] == [100.0, 50.0, 0.0]
    decades = decade_axis(0.02, 30.0, 0.0, 400.0)
    assert decades.pixel(1.0) == pytest.approx(200.0, abs=1e-9)
    assert decades.pixel(100.0) == pytest.approx(400.0, abs=1e-9)


def test_labels_are_readable():
    assert [label for _, label in linear_axis(0.0, 1500.0, 0, 1).ticks(3)] == ["0", "500", "1,000", "1,500"]
    assert [label for _, label in linear_axis(0.0, 0.4, 0, 1).ticks(4)] == ["0.0", "0.1", "0.2", "0.3", "0.4"]
    assert [label for _, label in decade_axis(1e-3, 1.0, 0, 1).ticks(4)] == ["10⁻³", "10⁻²", "10⁻¹", "10⁰"]
    assert [label for _, label in log_axis(80.0, 1200.0, 0, 1).ticks()] == ["100", "200", "500", "1,000"]


def test_a_single_value_still_gets_an_axis():
    for axis in (linear_axis(7.0, 7.0, 0.0, 1.0), log_axis(7.0, 7.0, 0.0, 1.0)):
        assert axis.pixel(7.0) == pytest.approx(0.5, abs=0.02)
    assert linear_axis(0.0, 0.0, 0.0, 1.0).pixel(0.0) == 0.5


def test_absurd_values_stay_finite():
    assert math.isfinite(linear_axis(0.0, 1.0, 300.0, 0.0).pixel(-1e300))
    assert log_axis(1.0, 10.0, 300.0, 0.0).pixel(-5.0) > 300.0
