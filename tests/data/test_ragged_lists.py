"""Lists of arrays that numpy joins item by item where their shapes differ, and are lists in all else."""

import json
import pickle

import numpy as np
import pytest

from kernelfields.data.ragged import Ragged

UNEVEN = Ragged([np.arange(2), np.arange(3)])
EVEN = Ragged([np.arange(2), np.arange(2) + 5])


def test_items_of_different_shapes_stay_whole():
    joined = np.concatenate([UNEVEN, EVEN, Ragged()])
    assert joined.shape == (4,)
    for one, other in zip(joined, [*UNEVEN, *EVEN], strict=True):
        np.testing.assert_array_equal(one, other)
    # One item each, of the same number of dimensions: numpy would look at their lengths.
    assert np.concatenate([Ragged([np.ones((2, 3))]), Ragged([np.ones((4, 3))])]).shape == (2,)


@pytest.mark.parametrize(
    "ask",
    [
        lambda items: np.concatenate([items, items]),
        lambda items: np.concatenate([items, items], axis=1),
        lambda items: np.concatenate([items, [[7, 7]]]),
        np.concatenate,
        np.array,
        np.mean,
        np.shape,
        lambda items: np.stack([items, items]),
        lambda items: np.array_equal(items, [[0, 1], [5, 6]]),
    ],
)
def test_all_else_is_as_with_lists(ask):
    np.testing.assert_array_equal(ask(EVEN), ask(list(EVEN)))


def test_they_are_lists():
    assert isinstance(UNEVEN, list)
    assert json.dumps(Ragged([1, 2])) == "[1, 2]"
    assert repr(UNEVEN) == repr(list(UNEVEN))
    twin = pickle.loads(pickle.dumps(UNEVEN))
    assert np.concatenate([twin, twin]).shape == (4,)
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array(UNEVEN)
