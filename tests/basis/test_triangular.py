"""Triangular systems with the leading part of a factor are solved without copying it."""

import numpy as np
import pytest
import scipy.linalg

from kernelfields.numerics.triangular import back_substitution, forward_substitution


@pytest.mark.parametrize("rank", [1, 7, 8, 23])
def test_the_leading_part_is_solved_block_by_block(rank):
    random = np.random.default_rng(0)
    factor = np.tril(random.normal(size=(23, 23))) + 5 * np.eye(23)
    values = random.normal(size=(rank, 3))
    leading = factor[:rank, :rank]
    forward = forward_substitution(factor, values.copy(), 4)
    back = back_substitution(factor, values.copy(), 4)
    np.testing.assert_allclose(forward, scipy.linalg.solve(leading, values), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(back, scipy.linalg.solve(leading.T, values), rtol=1e-12, atol=1e-13)


def test_nothing_is_solved_to_nothing():
    assert forward_substitution(np.zeros((3, 3)), np.empty((0, 2))).shape == (0, 2)
    assert back_substitution(np.zeros((3, 3)), np.empty((0, 2))).shape == (0, 2)
