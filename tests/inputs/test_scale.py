"""Columns brought to one scale where their spreads differ much."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from kernelfields.inputs import Layout, Scale, Table
from kernelfields.inputs.scale import ScaleRule, spreads

random = np.random.default_rng(0)
EVEN = random.normal(size=(400, 3)) * [1.0, 3.0, 9.0]
UNEVEN = random.normal(size=(400, 3)) * [1.0, 30.0, 1000.0] + [5.0, 0.0, 900.0]
ONES = np.ones(400)


def learnt(rows, weights=ONES, **rule):
    """The steps that bring rows to one scale."""
    return ScaleRule(**rule).fit(Table(rows, Layout(np.array([0, rows.shape[0]])), weights))


def test_columns_within_a_factor_of_ten_are_left_alone():
    assert not learnt(EVEN)


def test_columns_far_apart_get_mean_zero_and_one_spread():
    (scaling,) = learnt(UNEVEN)
    scaled = scaling(UNEVEN)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, rtol=1e-12)


def test_what_is_always_wanted_is_done_for_even_columns_too():
    (scaling,) = learnt(EVEN, always=True)
    np.testing.assert_allclose(scaling(EVEN).std(axis=0), 1.0, rtol=1e-12)


def test_a_column_that_is_nearly_always_zero_keeps_its_few_values_near():
    rare = np.zeros(1000)
    rare[:3] = 1.0
    table = np.column_stack([rare, 1e4 * random.normal(size=1000)])
    (scaling,) = learnt(table, np.ones(1000))
    scaled = scaling(table)
    assert np.ptp(scaled[:, 0]) == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_that_vary_by_rounding_alone_are_not_blown_up(dtype):
    column = np.full(400, 0.1, dtype=dtype)
    column[::2] = np.nextafter(column[0], dtype(1.0))
    table = np.column_stack([column, UNEVEN.astype(dtype)])
    (scaling,) = learnt(table)
    np.testing.assert_array_equal(scaling(table)[:, 0], column)


def test_rows_of_weight_zero_do_not_count_and_weights_are_repetitions():
    weights = random.integers(0, 3, size=400).astype(float)
    centre, spread = spreads(UNEVEN, weights)
    repeated = np.repeat(UNEVEN, weights.astype(int), axis=0)
    expected = spreads(repeated, np.ones(len(repeated)))
    np.testing.assert_allclose((centre, spread), expected, rtol=1e-12)


@pytest.mark.parametrize("weights", [np.zeros(400), ONES])
def test_nothing_that_varies_is_no_scale(weights):
    table = np.full((400, 2), 7.0) if weights.any() else UNEVEN
    assert not learnt(table, weights)


def test_sparse_inputs_keep_their_zeros():
    assert not learnt(scipy.sparse.csr_array(UNEVEN))


def test_description_and_back():
    (scaling,) = learnt(UNEVEN)
    again = Scale.rebuild(scaling.describe(), 3)
    np.testing.assert_array_equal(again(UNEVEN), scaling(UNEVEN))


@pytest.mark.parametrize(
    "change", [{"spread": np.array([1.0, 0.0, 1.0])}, {"centre": np.array([np.nan, 0.0, 0.0])}, {"centre": np.zeros(2)}]
)
def test_scales_that_cannot_be_are_refused(change):
    described = learnt(UNEVEN)[0].describe()
    with pytest.raises(ValueError, match="scales of columns"):
        Scale.rebuild({"scaling": {**described["scaling"], **change}}, 3)
