import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.data import Chains, Graphs
from kernelfields.data.graphs import Factors

LENGTHS = [3, 1, 4]
OFFSETS = np.array([0, 3, 4, 8])


def make_graphs(sparse=False):
    """A path, a single node and a square with a triple; only edges have features."""
    edges = Factors(
        "edge",
        np.array([[0, 1], [2, 1], [4, 5], [5, 6], [7, 6], [4, 7]]),
        np.array([0, 2, 2, 6]),
        np.arange(12.0).reshape(6, 2),
    )
    triples = Factors("triple", np.array([[6, 4, 5]]), np.array([0, 0, 0, 1]))
    inputs = np.arange(16.0).reshape(8, 2)
    return Graphs(
        sp.csr_array(inputs) if sparse else inputs,
        OFFSETS,
        np.arange(8) % 3,
        np.array([1.0, 0.5, 2.0]),
        factors=(edges, triples),
    )


def test_factors_are_found_by_name_and_weigh_as_their_graph():
    graphs = make_graphs()
    assert graphs.group("triple") is graphs.factors[1]
    np.testing.assert_array_equal(graphs.factor_weights("edge"), [1, 1, 2, 2, 2, 2])
    np.testing.assert_array_equal(graphs.factor_weights("triple"), [2])
    with pytest.raises(ValueError, match="called 'edges'; there are 'edge', 'triple'"):
        graphs.factor_weights("edges")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("indices", "chosen"),
    [
        ([2, 0], [2, 0]),
        ([2, 2], [2, 2]),
        (np.array([True, False, True]), [0, 2]),
        (slice(1, None), [1, 2]),
        ([1], [1]),
        ([-1], [2]),
    ],
)
def test_subset_takes_whole_graphs_and_renumbers_their_members(sparse, indices, chosen):
    graphs = make_graphs(sparse)
    part = graphs.subset(indices)
    rows = np.concatenate([np.arange(OFFSETS[i], OFFSETS[i + 1]) for i in chosen])
    expected = np.arange(16.0).reshape(8, 2)[rows]
    np.testing.assert_array_equal(part.inputs.toarray() if sparse else part.inputs, expected)
    np.testing.assert_array_equal(part.labels, graphs.labels[rows])
    np.testing.assert_array_equal(part.lengths, np.array(LENGTHS)[chosen])
    np.testing.assert_array_equal(part.weights, graphs.weights[chosen])
    for before, after in zip(graphs.factors, part.factors, strict=True):
        assert before.name == after.name
        for new, old in enumerate(chosen):
            kept = slice(*before.offsets[old : old + 2])
            there = slice(*after.offsets[new : new + 2])
            # Numbers inside the graph are what stays the same.
            np.testing.assert_array_equal(
                after.members[there] - part.starts[new], before.members[kept] - graphs.starts[old]
            )
            if before.inputs is None:
                assert after.inputs is None
            else:
                np.testing.assert_array_equal(after.inputs[there], before.inputs[kept])


def test_arrays_of_graphs_must_agree():
    with pytest.raises(ValueError, match="offsets must run from 0 to the number of rows, 5"):
        Graphs(np.ones((5, 1)), OFFSETS)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 7), min_size=1, max_size=6),
    st.lists(st.integers(1, 8), max_size=3, unique=True),
    st.lists(st.integers(2, 4), max_size=2, unique=True),
)
def test_cliques_of_chains_stay_in_their_sequence(lengths, lags, orders):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chains = Chains(np.ones((offsets[-1], 1)), offsets)
    graphs = Graphs.from_chains(chains, lags, orders)
    names = {lag: "edge" if lag == 1 else f"lag{lag}" for lag in lags}
    steps = {name: (-lag, 0) for lag, name in names.items()} | {f"order{k}": tuple(range(-k, 1)) for k in orders}
    assert [factors.name for factors in graphs.factors] == list(steps)
    for factors in graphs.factors:
        back = steps[factors.name]
        expected = [
            [[start + place + step for step in back] for place in range(-back[0], length)]
            for start, length in zip(offsets, lengths, strict=False)
        ]
        assert [len(cliques) for cliques in expected] == factors.counts.tolist()
        assert [clique for cliques in expected for clique in cliques] == factors.members.tolist()
        assert factors.members.dtype == np.int64
        assert factors.inputs is None


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lags": [0]}, ValueError, "lags must be whole numbers from 1 on, got 0"),
        ({"orders": [1]}, ValueError, r"orders must be whole numbers from 2 on, got 1; .* lags=\(1,\)"),
        ({"lags": [1.5]}, TypeError, "float"),
    ],
)
def test_lags_and_orders_are_checked(options, error, words):
    with pytest.raises(error, match=words):
        Graphs.from_chains(Chains(np.ones((8, 1)), OFFSETS), **options)
