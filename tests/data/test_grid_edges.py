import numpy as np
import pytest

from kernelfields.data import grid_edges

STEPS = {"horizontal": (0, 1), "vertical": (1, 0), "diagonal": (1, 1), "antidiagonal": (1, -1)}


def pairs_by_walking(rows, columns, steps):
    """Every pair of places that a step leads between, found one by one."""
    pairs = set()
    for row in range(rows):
        for column in range(columns):
            other_row, other_column = row + steps[0], column + steps[1]
            if 0 <= other_row < rows and 0 <= other_column < columns:
                pairs.add((row * columns + column, other_row * columns + other_column))
    return pairs


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (5, 1), (2, 2), (3, 4)])
@pytest.mark.parametrize("connectivity", [4, 8])
def test_edges_join_exactly_the_neighbours_of_each_direction(rows, columns, connectivity):
    edges = grid_edges(rows, columns, connectivity, by_direction=True)
    assert list(edges) == list(STEPS)[: connectivity // 2]
    for name, pairs in edges.items():
        assert pairs.dtype == np.int64
        assert pairs.shape == (len(pairs), 2)
        assert len(set(map(tuple, pairs.tolist()))) == len(pairs)
        assert set(map(tuple, pairs.tolist())) == pairs_by_walking(rows, columns, STEPS[name])
    together = grid_edges(rows, columns, connectivity)
    np.testing.assert_array_equal(together, np.concatenate(list(edges.values())))
    assert (together[:, 0] < together[:, 1]).all()


def test_sizes_and_connectivity_are_checked():
    with pytest.raises(ValueError, match="at least one row and one column, got 0 and 3"):
        grid_edges(0, 3)
    with pytest.raises(ValueError, match="4 or 8 neighbours, got 6"):
        grid_edges(2, 3, connectivity=6)
    with pytest.raises(TypeError):
        grid_edges(2.0, 3)
