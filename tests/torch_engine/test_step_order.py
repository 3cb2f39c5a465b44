"""Step-major order: a permutation whose steps are runs and whose neighbours are slices."""

from itertools import pairwise

import numpy as np
import pytest

steps = pytest.importorskip("kernelfields.engines.torch.steps", exc_type=ImportError)
StepOrder = steps.StepOrder

LENGTHS = [3, 1, 5, 3, 5, 1, 2]


def order_of(lengths):
    return StepOrder(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def test_a_small_order_by_hand():
    order = order_of([2, 3, 2])  # packed rows 0 1 | 2 3 4 | 5 6
    assert order.sequences.tolist() == [1, 0, 2]
    assert order.permutation.tolist() == [2, 0, 5, 3, 1, 6, 4]
    assert order.begins.tolist() == [0, 3, 6, 7]
    assert order.ends.tolist() == [6, 4, 5]
    assert order.links == [(0, 3, 4)]


@pytest.mark.parametrize("lengths", [LENGTHS, [1], [4], [2, 2, 2], [1, 1], list(range(1, 30))])
def test_rows_steps_and_neighbours(lengths):
    order = order_of(lengths)
    packed = [(i, t) for i, length in enumerate(lengths) for t in range(length)]
    rows = [packed[place] for place in order.permutation]
    assert [packed[row] for row in order.permutation[order.inverse]] == packed
    for t, (first, last) in enumerate(pairwise(order.begins)):
        assert {step for _, step in rows[first:last]} == {t}
        assert [i for i, _ in rows[first:last]] == [i for i in order.sequences if lengths[i] > t]
    for rank, (sequence, end) in enumerate(zip(order.sequences, order.ends, strict=True)):
        assert rows[end] == (sequence, lengths[sequence] - 1)
        assert rows[rank] == (sequence, 0)
    np.testing.assert_array_equal(order.sequences[order.ranks], [i for i, _ in rows])
    pairs = [(before + k, after + k) for before, after, count in order.links for k in range(count)]
    assert sorted(pair[1] for pair in pairs) == list(range(len(lengths), len(rows)))
    assert all(rows[one] == (rows[other][0], rows[other][1] - 1) for one, other in pairs)


def test_longest_first_and_equal_ones_as_given():
    assert order_of(LENGTHS).sequences.tolist() == [2, 4, 0, 3, 6, 1, 5]


def test_links_of_equal_lengths_are_one_run():
    assert order_of([1000] * 3).links == [(0, 3, 2997)]
    assert len(order_of([1000] * 3 + [10]).links) <= 3


def test_tensors_of_the_order():
    order = order_of(LENGTHS)
    there = steps.DeviceSteps(order)
    assert there.sequence_ranks[there.items].tolist() == there.ranks.tolist()
    assert there.permutation[there.inverse].tolist() == list(range(order.n_positions))
    for here, before in there.pairs:
        assert there.ranks[here].tolist() == there.ranks[before].tolist()
        np.testing.assert_array_equal(order.permutation[here], order.permutation[before] + 1)


def test_no_sequences_at_all():
    order = StepOrder(np.array([0]))
    assert (order.n_positions, order.n_steps, order.begins.tolist(), order.links) == (0, 0, [0], [])
    assert steps.DeviceSteps(order).pairs == []


@pytest.mark.parametrize(("offsets", "message"), [([0, 2, 2], "must increase"), ([1, 2], "must run from 0")])
def test_offsets_that_are_none(offsets, message):
    with pytest.raises(ValueError, match=message):
        StepOrder(np.array(offsets))
