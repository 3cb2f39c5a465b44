"""Triangular systems with the leading part of a factor are solved without copying it."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from kernelfields.numerics.triangular import forward_substitution, room_for_factor


@pytest.mark.parametrize("rank", [1, 7, 8, 23])
def test_the_leading_part_is_solved_block_by_block(rank):
    random = np.random.default_rng(0)
    factor = np.tril(random.normal(size=(23, 23))) + 5 * np.eye(23)
    values = random.normal(size=(rank, 3))
    leading = factor[:rank, :rank]
    forward = forward_substitution(factor, values.copy(), 4)
    np.testing.assert_allclose(forward, scipy.linalg.solve(leading, values), rtol=1e-12, atol=1e-13)


def test_nothing_is_solved_to_nothing():
    assert forward_substitution(np.zeros((3, 3)), np.empty((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 70])
def test_room_for_a_factor_is_zero_and_can_be_written_to(size, dtype):
    room = room_for_factor(size, dtype)
    assert room.shape == (size, size)
    assert room.dtype == dtype
    assert not room.any()
    lower = np.tril(np.arange(size * size, dtype=dtype).reshape(size, size))
    for row in range(size):
        room[row, : row + 1] = lower[row, : row + 1]
    np.testing.assert_array_equal(room, lower)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says which pages are there")
def test_the_upper_half_of_a_factor_takes_no_memory():
    size = 1024
    room = room_for_factor(size)
    for row in range(size):
        room[row, : row + 1] = 1.0
    resident, here = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            here = int(found[1], 16) <= room.ctypes.data < int(found[2], 16)
        elif here and line.startswith("Rss:"):
            resident = 1024 * int(line.split()[1])
    assert 4 * size**2 <= resident <= 0.8 * room.nbytes
