"""Every recursion of chains against its semiring: passes in logarithms, or all labellings."""

import inspect
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

from kernelfields.data.allowed import AllowedLabels
from kernelfields.inference import EDGE, BaseMeasure, ChainFamily, InfeasibleSequence, Potentials
from kernelfields.inference.chain import plain, recursions
from kernelfields.inference.chain.lists import best_in_lists, infer_lists
from kernelfields.inference.chain.long import cut_chain, pass_long_chain
from kernelfields.inference.chain.recursions import LONG, RECURSIONS, SHORT
from kernelfields.inference.chain.scored_steps import ScoredSteps
from kernelfields.inference.chain.streaming import ChainStream
from kernelfields.inference.packing import ScaledPasses, exponentials
from kernelfields.numerics import Workers
from kernelfields.numerics.sparse_rows import make_offsets
from tests.oracles.chains import enumerate_chain

L = 3
OFFSETS = make_offsets([4, 1, 5, 2])
N = int(OFFSETS[-1])
#: Compiled functions that help a recursion, or look something up: none of them passes over the labels of a chain.
HELPERS = {
    *("lists_compiled.count_bits", "lists_compiled.mark_pairs", "lists_compiled.write_steps"),
    *("lists_compiled.largest_entries", "lists_compiled.best_prefixes"),
    *("scaled_compiled.filter_positions", "streaming_compiled.answer_by_lag"),
    *("scaled_compiled.scores_below_tops", "scaled_compiled.has_underflow"),
}


@pytest.fixture(params=[0.0, 0.25], ids=["all possible", "some forbidden"])
def tables(request):
    """Node and edge potentials of a few chains, one table for all steps."""
    random = np.random.default_rng(3)
    node, edge = 2.0 * random.normal(size=(N, L)), 2.0 * random.normal(size=(1, L, L))
    node[random.random(node.shape) < request.param] = -np.inf
    edge[0, :, 1:][random.random((L, L - 1)) < request.param] = -np.inf
    node[:, 0] = 0.5
    return node, edge


def lists_of(node):
    """The lists of labels that are possible, and their scores."""
    lists = AllowedLabels.from_mask(node > -np.inf)
    return lists, lists.gather(node)


def by_family(forms):
    return lambda node, edge: ChainFamily(OFFSETS, L, forms=forms).distribution(Potentials(node, {EDGE: edge}))


def sums_by_family(forms):
    def answer(node, edge):
        member = by_family(forms)(node, edge)
        return member.log_partition, member.marginals()

    return answer


def sums_of_lists(node, edge, listed=None):
    lists, scores = lists_of(node)
    found = infer_lists(scores, edge if listed is None else edge.reshape(-1), OFFSETS, lists, listed=listed)
    return found.log_partition, lists.scatter(found.entries)


def in_one_stream(node, edge, **settings):
    answers = []
    for begin, end in pairwise(OFFSETS):
        stream = ChainStream(L, edge[0], lag=np.inf, **settings)
        first, last = stream.push(node[begin:end]), stream.end()
        answers.append([np.concatenate(each) for each in zip(first, last, strict=True)])
    return [np.concatenate(each) for each in zip(*answers, strict=True)]


def compute_scores(labels, node, edge):
    scores = node[np.arange(N), labels]
    steps = np.setdiff1d(np.arange(N), OFFSETS[:-1])
    scores[steps] += edge[0, labels[steps - 1], labels[steps]]
    return np.add.reduceat(scores, OFFSETS[:-1])


def scored(labels, node, edge):
    return labels, compute_scores(labels, node, edge)


def best_of_family(forms):
    return lambda node, edge: ChainFamily(OFFSETS, L, forms=forms).labellings(Potentials(node, {EDGE: edge})).best()


def best_of_lists(node, edge):
    lists, scores = lists_of(node)
    return best_in_lists(scores, edge, OFFSETS, lists)


DIRECTION = np.random.default_rng(5).normal(size=(N, L)), np.random.default_rng(6).normal(size=(1, L, L))


def sums_of_pieces(node, edge):
    transfer, shift = exponentials(edge)
    passes = ScaledPasses(transfer, shift, *(np.zeros((N, L)) for _ in range(3)))
    found = [
        pass_long_chain(cut_chain(begin, end, 3, stride=1, least=1), node, passes, Workers(1), stride=1)
        for begin, end in pairwise(OFFSETS.tolist())
    ]
    assert all(each.fine for each in found)
    return np.array([each.log_partition for each in found]), passes.marginals


def tangent_of_family(forms):
    def answer(node, edge):
        product = by_family(forms)(node, edge).covariance_product(Potentials(DIRECTION[0], {EDGE: DIRECTION[1]}))
        return product.node, product.edge

    return answer


UNIFORMS = np.random.default_rng(8).random((5, N))


class GivenNumbers:
    """A generator of numbers that are known."""

    def random(self, shape):
        assert shape == UNIFORMS.shape
        return UNIFORMS


def draws(node, edge):
    return (by_family(LONG)(node, edge).sample(len(UNIFORMS), GivenNumbers()),)


def draws_in_turn(node, edge):
    """The last label by its marginal, then each given the one after it, by the numbers that are known."""
    chains = plain.Chains(node, edge, OFFSETS)
    beliefs = plain.infer(chains)
    pairs, labels = plain.pair_marginals(chains, beliefs), np.zeros(UNIFORMS.shape, dtype=np.int64)
    for own, numbers in zip(labels, UNIFORMS, strict=True):
        for t in reversed(range(N)):
            weights = beliefs.marginals[t] if t + 1 in OFFSETS else pairs[t + 1][:, own[t + 1]]
            own[t] = np.searchsorted(np.cumsum(weights), numbers[t] * weights.sum(), side="right")
    return (labels,)


FEATURES = np.random.default_rng(7).normal(size=(N, 2))


def moments(node, edge):
    """How marginals move along each feature times each label."""
    from kernelfields.inference.chain.moments_compiled import NO_STEPS, score_moments

    member, nothing = by_family(LONG)(node, edge), np.zeros((L, L, 1))
    moved = np.einsum("nr,ab->narb", FEATURES, np.eye(L)).transpose(0, 1, 3, 2).reshape(N, L, -1).copy()
    steps, weights = member.marginals(EDGE), np.ones(len(OFFSETS) - 1)
    thirds = np.zeros((N, L)), np.zeros((L, L))
    score_moments(
        *(OFFSETS, weights, member.marginals(), steps, moved, nothing, NO_STEPS, False, False, nothing, nothing),
        *thirds,
    )
    return (moved.reshape(N, L, L, 2)[:, *np.triu_indices(L)],)


def moments_of_pairs(node, edge):
    from kernelfields.inference.chain.pairs_compiled import covariances_with_features

    member, seen = by_family(LONG)(node, edge), np.zeros((N, L, L, 2))
    covariances_with_features(OFFSETS, member.marginals(), member.marginals(EDGE), FEATURES, seen)
    return (seen[:, *np.triu_indices(L)],)


def enumerated_moments(node, edge):
    known, seen = enumerate_chain(node, edge, OFFSETS), np.zeros((N, L, L, 2))
    for label in range(L):
        for column in range(2):
            direction = np.zeros((N, L))
            direction[:, label] = FEATURES[:, column]
            seen[:, :, label, column] = known.hessian_product(direction, np.zeros((1, L, L)))[0]
    return (seen[:, *np.triu_indices(L)],)


def step_moments(node, edge):
    from kernelfields.inference.chain.pairs_compiled import covariances_with_steps

    member = by_family(LONG)(node, edge)
    past, both = np.empty((N, L, L, L)), np.empty((N, L, L, L))
    covariances_with_steps(OFFSETS, member.marginals(), member.marginals(EDGE), past, both)
    return (both,)


def enumerated_step_moments(node, edge):
    known, both = enumerate_chain(node, edge, OFFSETS), np.zeros((N, L, L, L))
    for step in np.ndindex(L, L):
        direction = np.zeros((1, L, L))
        direction[0][step] = 1.0
        both[:, :, *step] = known.hessian_product(np.zeros((N, L)), direction)[0]
    return (both,)


def lost(node, edge):
    """How far chains of at most one label at each position come."""
    node = np.where(np.arange(L) == np.arange(N)[:, None] % L, node, -np.inf)
    lists, _ = lists_of(node)
    step = np.where(np.isneginf(edge[0]), edge[0], 0.0)
    return (BaseMeasure(OFFSETS, L, allowed=lists, step_penalties=step).dead_rows(),)


def lost_in_turn(node, edge):
    node = np.where(np.arange(L) == np.arange(N)[:, None] % L, node, -np.inf)
    rows = np.full(len(OFFSETS) - 1, -1)
    for s, (begin, end) in enumerate(pairwise(OFFSETS)):
        for t in range(begin, end):
            try:
                plain.infer(plain.Chains(node[begin : t + 1], edge, np.array([0, t + 1 - begin])))
            except InfeasibleSequence:
                rows[s] = t
                break
    return (rows,)


def plain_sums(node, edge):
    beliefs = plain.infer(plain.Chains(node, edge, OFFSETS))
    return beliefs.log_partition, beliefs.marginals


def enumerated_tangent(node, edge):
    moved_node, moved_edge = enumerate_chain(node, edge, OFFSETS).hessian_product(*DIRECTION)
    return moved_node, moved_edge.sum(axis=0, keepdims=True)


#: What a semiring answers: by passes in logarithms, or by all labellings.
TWINS = {
    "sum": plain_sums,
    "max": lambda node, edge: (
        enumerate_chain(node, edge, OFFSETS).labels,
        enumerate_chain(node, edge, OFFSETS).scores,
    ),
    "tangent": enumerated_tangent,
    "draw": draws_in_turn,
    "moments": enumerated_moments,
    "moments of steps": enumerated_step_moments,
    "possible": lost_in_turn,
}
ANSWERS = {
    ("sum", "logarithms"): lambda node, edge: (
        enumerate_chain(node, edge, OFFSETS).log_partition,
        enumerate_chain(node, edge, OFFSETS).node_marginals,
    ),
    ("sum", "steps"): sums_by_family(SHORT),
    ("sum", "compiled"): sums_by_family(LONG),
    ("sum", "pieces"): sums_of_pieces,
    ("sum", "lists"): sums_of_lists,
    ("sum", "marked lists"): lambda node, edge: sums_of_lists(node, edge, ScoredSteps(np.arange(L * L), L)),
    ("sum", "stream"): lambda node, edge: (plain_sums(node, edge)[0], in_one_stream(node, edge)[1]),
    ("max", "logarithms"): best_of_family(SHORT),
    ("max", "compiled"): best_of_family(LONG),
    ("max", "lists"): best_of_lists,
    ("max", "stream"): lambda node, edge: scored(in_one_stream(node, edge, jointly=True)[0], node, edge),
    ("tangent", "steps"): tangent_of_family(SHORT),
    ("tangent", "compiled"): tangent_of_family(LONG),
    ("draw", "compiled"): draws,
    ("moments", "compiled"): moments,
    ("moments", "pairs"): moments_of_pairs,
    ("moments of steps", "pairs"): step_moments,
    ("possible", "lists"): lost,
}


@pytest.mark.parametrize("recursion", RECURSIONS, ids=lambda each: f"{each.semiring}, {each.form}")
def test_a_recursion_answers_as_its_ring_says(recursion, tables):
    found = ANSWERS[recursion.semiring, recursion.form](*tables)
    expected = TWINS[recursion.semiring](*tables)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (SHORT, {"max": "logarithms", "sum": "steps", "tangent": "steps", "draw": "compiled"}),
        (LONG, {"max": "compiled", "sum": "compiled", "tangent": "compiled", "draw": "compiled"}),
    ],
    ids=["short", "long"],
)
def test_dense_chains_run_the_first_form_that_the_table_has(forms, expected, tables, monkeypatch):
    ran = {}

    def noted(recursion):
        def run(*arguments):
            ran[recursion.semiring] = recursion.form
            return recursion.run(*arguments)

        return recursion._replace(run=run) if recursion.run else recursion

    monkeypatch.setattr(recursions, "RECURSIONS", tuple(map(noted, RECURSIONS)))
    best_of_family(forms)(*tables)
    tangent_of_family(forms)(*tables)
    by_family(forms)(*tables).sample(2, np.random.default_rng(0))
    assert ran == expected


def test_the_table_names_every_pass_there_is():
    named = {loop for recursion in RECURSIONS for loop in recursion.loops}
    modules = {module: import_module(f"kernelfields.inference.chain.{module}") for module, _ in map(parts, named)}
    assert all(callable(getattr(modules[module], name)) for module, name in map(parts, named))
    compiled = {
        f"{module}.{name}"
        for module, found in modules.items()
        if module.endswith("_compiled")
        for name, value in vars(found).items()
        if not name.startswith("_") and hasattr(value, "py_func") and inspect.getmodule(value.py_func) is found
    }
    assert compiled == {loop for loop in named if parts(loop)[0].endswith("_compiled")} | HELPERS


def parts(loop):
    return loop.split(".")
