import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.data.chains import Chains
from kernelfields.data.readers import ChainReader

LENGTHS = [3, 1, 4]
OFFSETS = np.array([0, 3, 4, 8])


def make_chains(sparse=False):
    inputs = np.arange(16.0).reshape(8, 2)
    return Chains(sp.csr_array(inputs) if sparse else inputs, OFFSETS, np.arange(8) % 3, np.array([1.0, 0.5, 2.0]))


def test_shapes_and_places():
    chains = make_chains()
    assert (chains.n_sequences, chains.n_positions) == (3, 8)
    np.testing.assert_array_equal(chains.lengths, LENGTHS)
    np.testing.assert_array_equal(chains.starts, [0, 3, 4])
    np.testing.assert_array_equal(chains.ends, [2, 3, 7])
    np.testing.assert_array_equal(np.flatnonzero(chains.is_start), chains.starts)
    np.testing.assert_array_equal(chains.position_weights, [1, 1, 1, 0.5, 2, 2, 2, 2])


def test_weights_are_ones_by_default():
    np.testing.assert_array_equal(Chains(np.ones((8, 2)), OFFSETS).weights, [1, 1, 1])


def test_split_gives_views():
    chains = make_chains()
    parts = chains.split(chains.inputs)
    assert [len(part) for part in parts] == LENGTHS
    assert all(np.shares_memory(part, chains.inputs) for part in parts)
    with pytest.raises(ValueError, match="expected 8 rows"):
        chains.split(np.ones(7))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("indices", "chosen"),
    [
        ([2, 0], [2, 0]),
        ([1, 1], [1, 1]),
        (np.array([True, False, True]), [0, 2]),
        (slice(1, None), [1, 2]),
        ([-1], [2]),
    ],
)
def test_subset_takes_whole_sequences(sparse, indices, chosen):
    chains = make_chains(sparse)
    part = chains.subset(indices)
    rows = np.concatenate([np.arange(OFFSETS[i], OFFSETS[i + 1]) for i in chosen])
    expected = np.arange(16.0).reshape(8, 2)[rows]
    np.testing.assert_array_equal(part.inputs.toarray() if sparse else part.inputs, expected)
    np.testing.assert_array_equal(part.labels, chains.labels[rows])
    np.testing.assert_array_equal(part.lengths, np.array(LENGTHS)[chosen])
    np.testing.assert_array_equal(part.weights, chains.weights[chosen])
    assert part.offsets.dtype == np.int64


def test_offsets_must_match_the_rows():
    with pytest.raises(ValueError, match="offsets must run from 0 to the number of rows, 5"):
        Chains(np.ones((5, 1)), OFFSETS)


def test_sequences_are_read_as_chains():
    X = [np.ones((2, 3)), np.zeros((1, 3))]
    reader = ChainReader()
    chains, classes = reader.learn(X, [["b", "a"], ["b"]], sample_weight=[1, 2])
    assert classes.tolist() == ["a", "b"]
    np.testing.assert_array_equal(chains.labels, [1, 0, 1])
    np.testing.assert_array_equal(chains.weights, [1, 2])
    again = reader.read(X, [["b", "b"], ["b"]], classes=classes)
    np.testing.assert_array_equal(again.labels, [1, 1, 1])
    assert reader.read(X).labels is None
    with pytest.raises(ValueError, match="sequence 1 has 1 rows in X but 2 labels in y"):
        reader.read(X, [["b", "a"], ["b", "a"]], classes=classes)
