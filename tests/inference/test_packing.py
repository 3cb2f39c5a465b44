import numpy as np
import pytest

from kernelfields.inference.packing import check_potentials, raise_if_infeasible

NODE = np.zeros((3, 2))
EDGE = np.zeros((1, 2, 2))
OFFSETS = np.array([0, 1, 3])


def test_arrays_come_back_contiguous_and_typed():
    node, edge, offsets = check_potentials(
        np.zeros((2, 3), dtype=np.float32).T, [[[0, 1], [2, 3]]], np.array([0, 3], dtype=np.int32)
    )
    for array, dtype in ((node, np.float64), (edge, np.float64), (offsets, np.int64)):
        assert array.dtype == dtype
        assert array.flags.c_contiguous


def test_no_sequences_at_all_is_fine():
    node, _, offsets = check_potentials(np.zeros((0, 2)), EDGE, [0])
    assert node.shape == (0, 2)
    assert offsets.tolist() == [0]


@pytest.mark.parametrize(
    ("node", "edge", "offsets", "message"),
    [
        (np.zeros(3), EDGE, OFFSETS, r"\(positions, labels\)"),
        (np.zeros((3, 0)), EDGE, OFFSETS, "at least one label"),
        (NODE, EDGE[0], OFFSETS, r"got \(2, 2\); write edge\[None\]"),
        (NODE, np.zeros((2, 2, 2)), OFFSETS, r"or \(3, 2, 2\)"),
        (NODE, np.zeros((1, 3, 3)), OFFSETS, r"\(1, 2, 2\)"),
        (NODE, EDGE, [0.0, 3.0], "whole numbers"),
        (NODE, EDGE, [[0, 3]], "shape"),
        (NODE, EDGE, np.zeros(0, dtype=int), "shape"),
        (NODE, EDGE, [1, 3], "from 0 to the number of positions 3, got 1 to 3"),
        (NODE, EDGE, [0, 2], "got 0 to 2"),
        (NODE, EDGE, [0, 1, 1, 3], "sequence 1 runs from 1 to 1; drop empty sequences"),
        (NODE, EDGE, [0, 2, 1, 3], "sequence 1 runs from 2 to 1"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(node, edge, offsets, message):
    with pytest.raises(ValueError, match=message):
        check_potentials(node, edge, offsets)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_plus_infinity_are_refused_where_they_would_be_read(value):
    node, edge = NODE.copy(), np.zeros((3, 2, 2))
    node[2, 1] = value
    edge[2, 0, 1] = value
    with pytest.raises(ValueError, match=rf"node potentials .* got {value} at \(2, 1\) and 1 such"):
        check_potentials(node, edge, OFFSETS)
    with pytest.raises(ValueError, match=rf"edge potentials .* got {value} at \(2, 0, 1\)"):
        check_potentials(NODE, edge, OFFSETS)
    unread = np.zeros((3, 2, 2))
    unread[OFFSETS[:-1]] = value
    check_potentials(NODE, unread, OFFSETS)


def test_minus_infinity_passes_and_the_first_infeasible_sequence_is_named():
    check_potentials(np.full((3, 2), -np.inf), EDGE, OFFSETS)
    raise_if_infeasible(np.array([0.0, -5.0]))
    with pytest.raises(ValueError, match="sequence 1: every labelling is forbidden"):
        raise_if_infeasible(np.array([0.0, -np.inf, -np.inf]))
