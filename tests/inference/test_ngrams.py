"""Automata of label n-grams: rounding, threads, plain chains as a special case, and their sizes."""

import numpy as np
import pytest

from kernelfields.inference import NgramFamily
from kernelfields.inference.ngrams.automaton import NgramAutomaton, TooManyNgrams
from kernelfields.numerics import Workers
from tests.arrays import infer_chains, infer_graphs
from tests.samples import make_offsets


def test_what_all_but_vanished_and_came_back_step_by_step_is_inferred_in_logarithms():
    """A label that begins at 1e-311, where doubles have few digits, and wins 1e78 at each step: no scale is small."""
    offsets, ngrams = make_offsets([6]), [(3, np.array([7]))]
    node = np.array([[0.0, -715.0]] + [[0.0, 180.0]] * 5)
    node[:, 1] += np.array([0.1, 0.2, 0.3, -0.1, -185.4, 0.0])  # at last both are about as probable
    edge = np.where(np.eye(2), 0.0, -np.inf)[None]
    beliefs = infer_graphs(NgramFamily(offsets, 2, ngrams), node, [edge, np.array([[-0.3]])])
    scores = node.sum(axis=0) + np.array([0.0, -1.2])
    shares = np.exp(scores - np.logaddexp.reduce(scores))
    assert shares.min() > 0.01
    np.testing.assert_allclose(beliefs.node_marginals, np.tile(shares, (6, 1)), rtol=1e-12)


def test_without_ngrams_it_is_the_plain_chain():
    random = np.random.default_rng(0)
    offsets = make_offsets([4, 1, 7, 2])
    node, edge = random.normal(size=(14, 5)), random.normal(size=(1, 5, 5))
    beliefs = infer_graphs(NgramFamily(offsets, 5, []), node, [edge])
    known = infer_chains(node, edge, offsets)
    np.testing.assert_allclose(beliefs.log_partition, known.log_partition, rtol=1e-14)
    np.testing.assert_allclose(beliefs.gradient()[1][0], known.gradient()[1], atol=1e-13)


def test_digits_do_not_depend_on_the_number_of_threads():
    random, offsets = np.random.default_rng(10), make_offsets((6,) * 40)
    family = NgramFamily(offsets, 3, [(3, np.arange(0, 27, 2)), (4, np.arange(0, 81, 6))], lanes=3)
    node = random.normal(size=(offsets[-1], 3))
    tables = [random.normal(size=family.table_shape(group, True)) for group in range(3)]
    one, two = (infer_graphs(family, node, tables, workers=Workers(n, least_work=1)).gradient() for n in (1, 2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1][1], two[1][1])


def test_arcs_are_few_where_ngrams_are():
    """A thousand n-grams of six labels: a few thousand arcs, not 26^6."""
    random = np.random.default_rng(0)
    words = random.integers(26, size=(150, 12))
    ngrams = []
    for order in range(3, 7):
        rows = np.lib.stride_tricks.sliding_window_view(words, order, axis=1).reshape(-1, order)
        ngrams.append((order, np.unique(rows @ 26 ** np.arange(order - 1, -1, -1))))
    automaton = NgramAutomaton(26, ngrams)
    assert automaton.n_arcs <= 26**2 + sum(len(some) for _, some in ngrams) * 2
    assert "arcs" in NgramFamily(make_offsets([3]), 26, ngrams).description


def test_too_many_ngrams_are_refused_by_their_number():
    with pytest.raises(TooManyNgrams, match="308,915,776 arcs"):
        NgramAutomaton(26, [(6, None)])
    with pytest.raises(TooManyNgrams, match="have no numbers"):
        NgramAutomaton(200, [(9, np.zeros(0, dtype=np.int64))])
    with pytest.raises(ValueError, match="at least three labels"):
        NgramAutomaton(3, [(2, None)])
