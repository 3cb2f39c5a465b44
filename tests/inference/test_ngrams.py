"""Automata of label n-grams: against sums over all labellings, junction trees, plain chains and differences."""

import itertools

import numpy as np
import pytest

from kernelfields.inference import NgramFamily
from kernelfields.inference.ngrams.automaton import NgramAutomaton, TooManyNgrams
from kernelfields.numerics import Workers
from tests.arrays import infer_chains, infer_graphs
from tests.oracles.labellings import all_labellings
from tests.samples import offsets_of

LENGTHS = (1, 6, 3, 5, 2, 6, 4)


class Problem:
    """Random potentials of short chains, with some n-grams of some lengths; edges may differ between positions."""

    def __init__(
        self,
        seed,
        n_labels=3,
        spread=1.0,
        forbidden=False,
        orders=(3, 4, 5),
        lengths=LENGTHS,
        own_edges=False,
        **options,
    ):
        random = np.random.default_rng(seed)
        self.random, self.n_labels, self.offsets = random, n_labels, offsets_of(lengths)
        ngrams = []
        for order in orders:
            some = np.sort(
                random.choice(n_labels**order, size=random.integers(1, min(14, n_labels**order)), replace=False)
            )
            ngrams.append((order, None if random.random() < 0.2 else some))
        self.inference = NgramFamily(self.offsets, n_labels, ngrams, **options)
        self.node = spread * random.normal(size=(self.offsets[-1], n_labels))
        self.tables = [
            spread * random.normal(size=self.inference.table_shape(group, group > 0 or not own_edges))
            for group in range(len(ngrams) + 1)
        ]
        if forbidden:
            self.node[random.integers(self.offsets[-1]), 0] = self.tables[0][0, 1, 2] = -np.inf
        self.weights = random.uniform(0.5, 2.0, len(lengths))

    def dense(self):
        """Edges and n-grams as tables of all labellings."""
        tables = [self.tables[0]]
        for (order, some), weights in zip(self.inference.automaton.ngrams, self.tables[1:], strict=True):
            table = np.zeros((1, self.n_labels**order))
            table[0, some] = weights.ravel()
            tables.append(table.reshape((1, *(self.n_labels,) * order)))
        return tables

    def enumerated(self, sequence):
        """All labellings of a sequence and their scores."""
        rows = slice(*self.offsets[sequence : sequence + 2])
        labellings = all_labellings(rows.stop - rows.start, self.n_labels)
        scores = self.node[rows][np.arange(rows.stop - rows.start), labellings].sum(axis=1)
        for table in self.dense():
            order = table.ndim - 1
            for t in range(order - 1, rows.stop - rows.start):
                row = self.row(table, sequence, t)
                scores = scores + table[row][tuple(labellings[:, t - order + 1 : t + 1].T)]
        return labellings, scores

    def row(self, table, sequence, t):
        """Row of a table that scores what ends at a position of a sequence."""
        return self.offsets[sequence] - sequence + t - 1 if table.ndim == 3 and len(table) > 1 else 0

    def infer(self):
        """Beliefs at the potentials."""
        return infer_graphs(self.inference, self.node, self.tables, weights=self.weights)


def expectations(problem, direction):
    """Log Z, and sums over all labellings: labels, edges and n-grams, and what becomes of them along a direction.

    As flat arrays; minus infinity and no sums for the first sequence in which everything is forbidden.
    """
    moved = Problem.__new__(Problem)
    moved.__dict__ = problem.__dict__ | {"node": direction[0], "tables": direction[1]}
    logs, node = [], np.zeros((2, *problem.node.shape))
    tables = [np.zeros((2, *table.shape)) for table in problem.dense()]
    for i, (begin, end) in enumerate(itertools.pairwise(problem.offsets)):
        labellings, scores = problem.enumerated(i)
        logs.append(np.logaddexp.reduce(scores))
        if logs[-1] == -np.inf:
            break
        shares, slopes = problem.weights[i] * np.exp(scores - logs[-1]), moved.enumerated(i)[1]
        both = np.stack([shares, shares * (slopes - shares @ slopes / shares.sum())])
        node[:, begin:end] = np.tensordot(both, labellings[:, :, None] == np.arange(problem.n_labels), 1)
        for table in tables:
            order = table.ndim - 2
            for t in range(order - 1, end - begin):
                at = (slice(None), *labellings[:, t - order + 1 : t + 1].T)
                np.add.at(table[:, problem.row(table[0], i, t)], at, both)
    listed = [slice(None), *(some for _, some in problem.inference.automaton.ngrams)]
    sums = [table.reshape(2, -1)[:, some] for table, some in zip(tables, listed, strict=True)]
    return np.array(logs), np.hstack([node.reshape(2, -1), *sums])


def flat(node, tables):
    return np.concatenate([node.ravel(), *(table.ravel() for table in tables)])


@pytest.mark.parametrize("first", range(0, 48, 12))
def test_hundreds_of_nats_and_what_is_forbidden_leave_no_trace_of_rounding(first):
    for seed in range(first, first + 12):
        random = np.random.default_rng(seed)
        lengths = random.integers(1, 6, size=random.integers(1, 4))
        problem = Problem(
            seed,
            n_labels=int(random.integers(2, 4)),
            spread=float(random.choice([1, 60, 150, 300, 500, 700])),
            orders=sorted(random.choice([3, 4, 5], size=2, replace=False).tolist()),
            lengths=lengths,
            lanes=int(random.choice([1, 64])),
            panel_bytes=int(random.choice([1, 2**25])),
            own_edges=bool(seed % 2),
        )
        if seed % 3:
            problem.node[random.random(problem.node.shape) < 0.25] = -np.inf
            problem.tables[0][random.random(problem.tables[0].shape) < 0.2] = -np.inf
        direction = random.normal(size=problem.node.shape), [random.normal(size=each.shape) for each in problem.tables]
        logs, (expected, changes) = expectations(problem, direction)
        if logs[-1] == -np.inf:
            with pytest.raises(ValueError, match="every labelling is forbidden"):
                problem.infer()
            continue
        beliefs = problem.infer()
        np.testing.assert_allclose(beliefs.log_partition, logs, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(flat(*beliefs.gradient()), expected, atol=1e-9)
        np.testing.assert_allclose(flat(*beliefs.hessian_product(*direction)), changes, atol=1e-9)


def test_what_all_but_vanished_and_came_back_step_by_step_is_inferred_in_logarithms():
    """A label that begins at 1e-311, where doubles have few digits, and wins 1e78 at each step: no scale is small."""
    offsets, ngrams = offsets_of([6]), [(3, np.array([7]))]
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
    offsets = offsets_of([4, 1, 7, 2])
    node, edge = random.normal(size=(14, 5)), random.normal(size=(1, 5, 5))
    beliefs = infer_graphs(NgramFamily(offsets, 5, []), node, [edge])
    known = infer_chains(node, edge, offsets)
    np.testing.assert_allclose(beliefs.log_partition, known.log_partition, rtol=1e-14)
    np.testing.assert_allclose(beliefs.gradient()[1][0], known.gradient()[1], atol=1e-13)


def test_digits_do_not_depend_on_the_number_of_threads():
    problem = Problem(10, lengths=(6,) * 40, lanes=3)
    one, two = (
        infer_graphs(problem.inference, problem.node, problem.tables, workers=Workers(n, least_work=1)).gradient()
        for n in (1, 2)
    )
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
    assert "arcs" in NgramFamily(offsets_of([3]), 26, ngrams).description


def test_too_many_ngrams_are_refused_by_their_number():
    with pytest.raises(TooManyNgrams, match="308,915,776 arcs"):
        NgramAutomaton(26, [(6, None)])
    with pytest.raises(TooManyNgrams, match="have no numbers"):
        NgramAutomaton(200, [(9, np.zeros(0, dtype=np.int64))])
    with pytest.raises(ValueError, match="at least three labels"):
        NgramAutomaton(3, [(2, None)])
