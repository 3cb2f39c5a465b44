"""Random convolutions: the compiled loops beside NumPy, and what maxima and shares are."""

from itertools import pairwise

import numpy as np
import pytest

from kernelfields.numerics.convolutions import TAPS, Convolutions

LENGTHS = (1, 2, 7, 40, 60, 64)
OFFSETS = np.cumsum([0, *LENGTHS])
ROWS = np.random.default_rng(0).normal(size=(OFFSETS[-1], 3)) * [1.0, 100.0, 1e-3] + [0.0, 1e4, 5.0]


def draw(count=40, seed=0, rows=ROWS, offsets=OFFSETS):
    return Convolutions.draw(np.random.default_rng(seed), count, rows, offsets)


def test_compiled_loops_and_numpy_agree_in_every_digit():
    drawn = draw(200)
    assert drawn.dilations.max() > 1
    assert set(drawn.inner.tolist()) == {False, True}
    np.testing.assert_array_equal(drawn.pool(ROWS, OFFSETS, few_products=0), drawn.pool_plainly(ROWS, OFFSETS))
    np.testing.assert_array_equal(drawn.pool(ROWS, OFFSETS), drawn.pool_plainly(ROWS, OFFSETS))


def test_maxima_and_shares_are_those_of_the_convolution():
    random, length, dilation = np.random.default_rng(1), 30, 3
    x, taps = random.normal(size=length), random.normal(size=TAPS)
    for inner in (False, True):
        one = Convolutions(np.ones((1, 1)), taps[None], np.array([dilation]), np.array([inner]), np.array([0.2]))
        places = range(4 * dilation, length - 4 * dilation) if inner else range(length)
        values = np.array(
            [sum(taps[j] * x[np.clip(t + (j - 4) * dilation, 0, length - 1)] for j in range(TAPS)) for t in places]
        )
        expected = [values.max(), np.mean(values > 0.2)]
        np.testing.assert_allclose(one.pool(x[:, None], np.array([0, length]))[0], expected)


def test_each_sequence_is_alone():
    drawn = draw()
    whole = drawn.pool(ROWS, OFFSETS)
    for number, (first, last) in enumerate(pairwise(OFFSETS.tolist())):
        np.testing.assert_array_equal(drawn.pool(ROWS[first:last], np.array([0, last - first]))[0], whole[number])


def test_levels_and_units_of_columns_do_not_matter():
    """The columns in other units have the same shapes, but for rounding."""
    random = np.random.default_rng(2)
    rows = random.normal(size=(200, 2))
    offsets = np.array([0, 80, 200])
    other = rows * [1e3, 1e-3] + [5.0, -7.0]
    np.testing.assert_allclose(
        draw(30, 3, other, offsets).pool(other, offsets), draw(30, 3, rows, offsets).pool(rows, offsets), atol=1e-6
    )


def test_constant_columns_have_no_shapes():
    rows = np.column_stack([np.full(50, 7.3), np.zeros(50)])
    drawn = draw(20, 0, rows, np.array([0, 50]))
    assert not drawn.mixtures.any()
    np.testing.assert_array_equal(drawn.pool(rows, np.array([0, 50])), np.zeros((1, 40)))


def test_weights_of_a_convolution_add_up_to_nothing_and_seeds_repeat():
    drawn = draw()
    np.testing.assert_allclose(drawn.taps.sum(axis=1), 0.0, atol=1e-12)
    longest = 1 + (TAPS - 1) * drawn.dilations.max()
    assert longest <= max(TAPS, np.median(LENGTHS))
    for name, values in vars(draw(seed=0)).items():
        np.testing.assert_array_equal(values, getattr(drawn, name))
    assert not np.array_equal(draw(seed=1).taps, drawn.taps)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mixtures", np.ones((40, 2)), r"weights of columns has the shape|the weights of columns"),
        ("taps", np.full((40, TAPS), np.nan), "weights of neighbours must be finite"),
        ("dilations", np.zeros(40, dtype=np.int64), "the dilations must be from 1"),
        ("dilations", np.full(40, 2**60), "the dilations must be from 1"),
        ("thresholds", np.zeros(39), "the thresholds has the shape"),
    ],
)
def test_descriptions_that_are_not_sound(name, value, message):
    described = draw().describe()
    assert len(Convolutions.rebuild(described, 3)) == 40
    with pytest.raises(ValueError, match=message):
        Convolutions.rebuild({**described, name: value}, 3)
