"""Labels that are partly known: values, gradients and Hessian products against enumeration and finite differences."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from kernelfields.data.chains import Chains
from kernelfields.data.constraints import resolve_constraints
from kernelfields.data.graphs import Factors, Graphs
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.family import EDGE, Placement, Potentials
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.likelihood import (
    Likelihood,
    PartialLikelihood,
    labelled_objective,
    likelihood_of,
)
from tests.samples import offsets_of

L = 3
EDGES = {"tree": [[0, 1], [1, 2], [1, 3]], "cycle": [[0, 1], [1, 2], [2, 3], [3, 0], [0, 2]]}


def random_log_weights(rng, n_rows, n_labels):
    """Evidence of all kinds: unknown, known, sets, weights; and a label that each row allows."""
    log_weights = np.zeros((n_rows, n_labels))
    for row, kind in enumerate(rng.integers(0, 4, n_rows)):
        if kind == 1:
            log_weights[row] = -np.inf
            log_weights[row, rng.integers(n_labels)] = 0.0
        elif kind == 2:
            log_weights[row, rng.integers(n_labels)] = -np.inf
        elif kind == 3:
            log_weights[row] = np.log(rng.uniform(0.1, 1.0, n_labels))
    log_weights -= log_weights.max(axis=1, keepdims=True)
    return log_weights, log_weights.argmax(axis=1)


def chain_case(rng, tied, constrained=False):
    lengths = (1, 4, 3)
    log_weights, labels = random_log_weights(rng, sum(lengths), L)
    if constrained:
        log_weights[:] = np.log(rng.uniform(0.1, 1.0, log_weights.shape))
        labels[:] = 0
    masks = resolve_constraints([(0, 2), (1, 1)] if constrained else None, np.arange(L))
    weights = rng.uniform(0.5, 2.0, len(lengths))
    chains = Chains(rng.normal(size=(sum(lengths), 1)), offsets_of(lengths), labels, weights, log_weights)
    placed = [Placement(1, None, None, False), Placement(2, EDGE, np.flatnonzero(~chains.is_start), tied)]
    likelihood = likelihood_of(chains, placed, FamilySpec("chain", L, masks), Workers(1))
    return likelihood, chains, [(steps(chains), masks.edge)]


def steps(chains):
    after = np.flatnonzero(~chains.is_start)
    return np.stack([after - 1, after], axis=1)


def graph_case(rng, shape):
    members = np.array(EDGES[shape])
    members = np.vstack([members, members + 4])
    log_weights, labels = random_log_weights(rng, 8, L)
    factors = Factors("edge", members, np.array([0, len(members) // 2, len(members)]))
    graphs = Graphs(
        np.zeros((8, 1)), offsets_of((4, 4)), labels, rng.uniform(0.5, 2, 2), log_weights, factors=(factors,)
    )
    placed = [Placement(1, None, None, False), Placement(2, "edge", None, False)]
    return likelihood_of(graphs, placed, FamilySpec("graph", L), Workers(1)), graphs, [(members, 0.0)]


def label_case(rng):
    log_weights, labels = random_log_weights(rng, 9, 2)
    pairs = {"a b": (0, 1), "b c": (1, 2)}
    weights = rng.uniform(0.5, 2, 3)
    instances = LabelledInstances.build(np.zeros((3, 1)), 3, {}, labels.reshape(3, 3), weights, log_weights)
    placed = [Placement(1, None, None, False), *(Placement(2, name, None, True) for name in pairs)]
    likelihood = likelihood_of(instances, placed, FamilySpec("instances", 2, n_names=3, pairs=pairs), Workers(1))
    tables = [(instances.with_pairs(pairs).group(name).members, 0.0) for name in pairs]
    return likelihood, instances, tables


def single_case(rng):
    log_weights, labels = random_log_weights(rng, 6, L)
    data = Graphs(np.zeros((6, 1)), np.arange(7), labels, rng.uniform(0.5, 2, 6), log_weights)
    return likelihood_of(data, [Placement(1, None, None, False)], FamilySpec("single", L), Workers(1)), data, []


CASES = {
    "chains": lambda rng: chain_case(rng, tied=True),
    "chains, a table each": lambda rng: chain_case(rng, tied=False),
    "chains, constrained": lambda rng: chain_case(rng, tied=True, constrained=True),
    "trees": lambda rng: graph_case(rng, "tree"),
    "cycles": lambda rng: graph_case(rng, "cycle"),
    "several labels": label_case,
    "single labels": single_case,
}


@pytest.fixture(params=CASES)
def case(request):
    rng = np.random.default_rng(5)
    likelihood, data, groups = CASES[request.param](rng)
    zeros = likelihood.family.zeros()
    potentials = zeros.of(rng.normal(size=each.shape) for each in zeros.arrays)
    return likelihood, data, groups, potentials, rng


def log_partition(data, groups, potentials, log_weights):
    """The weighted sum of log Z by enumeration of all labellings of every sequence, graph or instance."""
    total = 0.0
    for begin, end, weight in zip(data.offsets[:-1], data.offsets[1:], data.weights, strict=True):
        scores = []
        for labels in itertools.product(range(potentials.node.shape[1]), repeat=end - begin):
            rows = np.arange(begin, end)
            score = (potentials.node + log_weights)[rows, labels].sum()
            for (members, forbidden), table in zip(groups, potentials.arrays[1:], strict=True):
                for number, nodes in enumerate(members):
                    if begin <= nodes[0] < end:
                        place = labels[nodes[0] - begin], labels[nodes[1] - begin]
                        row = 0 if len(table) == 1 else nodes[1] if len(table) == data.n_positions else number
                        score = score + table[row][place] + np.broadcast_to(forbidden, table.shape[1:])[place]
            scores.append(score)
        total += weight * logsumexp(scores)
    return total


def test_values_are_those_of_enumeration(case):
    likelihood, data, groups, potentials, _ = case
    free = log_partition(data, groups, potentials, np.zeros_like(data.partial))
    given = log_partition(data, groups, potentials, data.partial)
    assert likelihood.evaluate(potentials).value == pytest.approx(free - given, abs=1e-9)
    assert not likelihood.convex


def test_gradients_and_hessian_products_are_those_of_differences(case):
    likelihood, _, _, potentials, rng = case
    evaluation = likelihood.evaluate(potentials)
    direction = potentials.of(rng.normal(size=each.shape) for each in potentials.arrays)
    step = 1e-5
    ahead, behind = (likelihood.evaluate(potentials.moved(sign * step, direction)) for sign in (1.0, -1.0))
    slope = (ahead.value - behind.value) / (2 * step)
    assert evaluation.residual.dot(direction) == pytest.approx(slope, rel=1e-6, abs=1e-8)
    response = likelihood.hessian_response(evaluation, direction)
    for found, first, second in zip(response.arrays, ahead.residual.arrays, behind.residual.arrays, strict=True):
        np.testing.assert_allclose(found, (first - second) / (2 * step), atol=1e-7)


def test_completed_labels_touch_the_objective_from_above(case):
    likelihood, _, _, potentials, rng = case
    completed = likelihood.frozen(potentials)
    assert completed.convex
    here, touching = likelihood.evaluate(potentials), completed.evaluate(potentials)
    for mine, theirs in zip(here.residual.arrays, touching.residual.arrays, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)
    for _ in range(5):
        moved = potentials.moved(1.0, potentials.of(rng.normal(size=each.shape) for each in potentials.arrays))
        rise = completed.evaluate(moved).value - touching.value
        assert likelihood.evaluate(moved).value - here.value <= rise + 1e-10


def test_nothing_known_says_nothing_and_all_known_is_the_likelihood_of_the_labels():
    rng = np.random.default_rng(0)
    chains = Chains(np.zeros((6, 1)), offsets_of((4, 2)), rng.integers(0, L, 6), rng.uniform(0.5, 2, 2))
    family = ChainFamily(chains.offsets, L)
    plain = labelled_objective(family, chains)
    assert isinstance(plain, Likelihood)
    potentials = Potentials(rng.normal(size=(6, L)), {EDGE: rng.normal(size=(1, L, L))})
    nothing = labelled_objective(family, replace(chains, partial=np.zeros((6, L))))
    assert isinstance(nothing, PartialLikelihood)
    unknown = nothing.evaluate(potentials)
    assert unknown.value == pytest.approx(0.0, abs=1e-12)
    assert unknown.residual.largest == pytest.approx(0.0, abs=1e-12)
    known = np.where(np.arange(L) == chains.labels[:, None], 0.0, -np.inf)
    partial = labelled_objective(family, replace(chains, partial=known)).evaluate(potentials)
    assert partial.value == pytest.approx(plain.evaluate(potentials).value, abs=1e-12)
    for mine, theirs in zip(partial.residual.arrays, plain.evaluate(potentials).residual.arrays, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


def test_a_device_says_the_same(case):
    torch = pytest.importorskip("torch")
    from kernelfields.engines.torch.family import TorchChainFamily

    likelihood, data, _, potentials, _ = case
    if not isinstance(data, Chains):
        pytest.skip("devices know chains alone")
    here = likelihood.family
    family = TorchChainFamily(data.offsets, L, tied=here.tied, base=here.base, device=torch.device("cpu"))
    found = labelled_objective(family, data).evaluate(family.placed(potentials))
    expected = likelihood.evaluate(potentials)
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(found.residual.node.numpy(), expected.residual.node, atol=1e-12)
