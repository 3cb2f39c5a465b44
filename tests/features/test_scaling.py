"""Columns brought to one scale where their spreads differ much."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from kernelfields.data.scaling import Scaling, learn_scaling, spreads

random = np.random.default_rng(0)
EVEN = random.normal(size=(400, 3)) * [1.0, 3.0, 9.0]
UNEVEN = random.normal(size=(400, 3)) * [1.0, 30.0, 1000.0] + [5.0, 0.0, 900.0]
ONES = np.ones(400)


def test_columns_within_a_factor_of_ten_are_left_alone():
    assert learn_scaling(EVEN, ONES) is None


def test_columns_far_apart_get_mean_zero_and_one_spread():
    scaling = learn_scaling(UNEVEN, ONES)
    scaled = scaling(UNEVEN)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, rtol=1e-12)


def test_what_is_always_wanted_is_done_for_even_columns_too():
    np.testing.assert_allclose(learn_scaling(EVEN, ONES, always=True)(EVEN).std(axis=0), 1.0, rtol=1e-12)


def test_a_column_that_is_nearly_always_zero_keeps_its_few_values_near():
    rare = np.zeros(1000)
    rare[:3] = 1.0
    table = np.column_stack([rare, 1e4 * random.normal(size=1000)])
    scaled = learn_scaling(table, np.ones(1000))(table)
    assert np.ptp(scaled[:, 0]) == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_that_vary_by_rounding_alone_are_not_blown_up(dtype):
    column = np.full(400, 0.1, dtype=dtype)
    column[::2] = np.nextafter(column[0], dtype(1.0))
    table = np.column_stack([column, UNEVEN.astype(dtype)])
    np.testing.assert_array_equal(learn_scaling(table, ONES)(table)[:, 0], column)


def test_rows_of_weight_zero_do_not_count_and_weights_are_repetitions():
    weights = random.integers(0, 3, size=400).astype(float)
    centre, spread = spreads(UNEVEN, weights)
    repeated = np.repeat(UNEVEN, weights.astype(int), axis=0)
    expected = spreads(repeated, np.ones(len(repeated)))
    np.testing.assert_allclose((centre, spread), expected, rtol=1e-12)


@pytest.mark.parametrize("weights", [np.zeros(400), ONES])
def test_nothing_that_varies_is_no_scale(weights):
    table = np.full((400, 2), 7.0) if weights.any() else UNEVEN
    assert learn_scaling(table, weights) is None


def test_sparse_inputs_keep_their_zeros():
    assert learn_scaling(scipy.sparse.csr_array(UNEVEN), ONES) is None


def test_description_and_back():
    scaling = learn_scaling(UNEVEN, ONES)
    again = Scaling.rebuild(scaling.describe(), 3)
    np.testing.assert_array_equal(again(UNEVEN), scaling(UNEVEN))


@pytest.mark.parametrize(
    "change", [{"spread": np.array([1.0, 0.0, 1.0])}, {"centre": np.array([np.nan, 0.0, 0.0])}, {"centre": np.zeros(2)}]
)
def test_scales_that_cannot_be_are_refused(change):
    described = {**learn_scaling(UNEVEN, ONES).describe(), **change}
    with pytest.raises(ValueError, match="scales of columns"):
        Scaling.rebuild(described, 3)
