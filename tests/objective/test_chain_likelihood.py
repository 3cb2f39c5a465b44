"""The likelihood as a function of potentials: derivatives, weights, constraints, gauge freedoms."""

import numpy as np
import pytest

from kernelfields.data import Chains, resolve_constraints
from kernelfields.inference import EDGE, BaseMeasure, ChainFamily, Potentials
from kernelfields.inference.chain.family import ChainMember
from kernelfields.objective import choose_objective

OFFSETS = np.array([0, 4, 5, 9, 12])
LABELS = np.array([0, 1, 1, 2, 2, 0, 0, 1, 2, 2, 2, 0])
WEIGHTS = np.array([1.0, 0.0, 2.5, 0.5])
MASKS = resolve_constraints({"transitions": [(1, 0)], "start": [1], "labels": [3]}, np.arange(4))


def likelihood(tied, weighted=False, masks=None, n_labels=4, at_once=None):
    chains = Chains(np.zeros((12, 1)), OFFSETS, LABELS, WEIGHTS if weighted else None)
    base = BaseMeasure(OFFSETS, n_labels, masks)
    return choose_objective(ChainFamily(OFFSETS, n_labels, tied=tied, base=base, at_once=at_once), chains)


def random_potentials(seed, tied):
    rng = np.random.default_rng(seed)
    return Potentials(rng.normal(size=(12, 4)), {EDGE: rng.normal(size=(1 if tied else 12, 4, 4))})


def test_tied_and_untied_are_the_same_function():
    tied, untied = likelihood(True, weighted=True), likelihood(False, weighted=True)
    here, direction = random_potentials(3, True), random_potentials(4, True)

    def spread(potentials):
        return Potentials(potentials.node, {EDGE: np.repeat(potentials.edge, 12, axis=0)})

    one, other = tied.evaluate(here), untied.evaluate(spread(here))
    np.testing.assert_allclose(one.value, other.value, rtol=1e-13)
    np.testing.assert_allclose(one.residual.node, other.residual.node, atol=1e-13)
    np.testing.assert_allclose(one.residual.edge[0], other.residual.edge.sum(axis=0), atol=1e-12)
    ours, theirs = tied.hessian_response(one, direction), untied.hessian_response(other, spread(direction))
    np.testing.assert_allclose(ours.node, theirs.node, atol=1e-13)
    np.testing.assert_allclose(ours.edge[0], theirs.edge.sum(axis=0), atol=1e-12)


def test_evaluating_leaves_the_potentials_and_the_marginals_alone():
    model, here = likelihood(True, masks=MASKS), random_potentials(5, True)
    node, edge = here.node.copy(), here.edge.copy()
    evaluation = model.evaluate(here)
    np.testing.assert_array_equal(here.node, node)
    np.testing.assert_array_equal(here.edge, edge)
    np.testing.assert_allclose(evaluation.member.marginals().sum(axis=1), 1, atol=1e-13)


def test_potentials_form_a_vector_space():
    one, other = random_potentials(6, False), random_potentials(7, False)
    moved = one.plus(0.5, other)
    np.testing.assert_array_equal(moved.node, one.node + 0.5 * other.node)
    np.testing.assert_array_equal(moved.edge, one.edge + 0.5 * other.edge)
    square = one.dot(one)
    one.add(-1.0, one)
    assert not one.node.any()
    assert not one.edge.any()
    assert square > 0


@pytest.mark.parametrize("tied", [True, False])
def test_blocks_of_sequences_keep_no_beliefs_and_change_nothing(tied, monkeypatch):
    inferred = []
    made = ChainMember.__init__
    monkeypatch.setattr(
        ChainMember, "__init__", lambda self, family, *rest: inferred.append(family) or made(self, family, *rest)
    )
    here = random_potentials(2, tied)
    whole, cut = likelihood(tied), likelihood(tied, at_once=4)
    expected, found = whole.evaluate(here), cut.evaluate(here)
    assert inferred.count(whole.family) == 1
    assert inferred.count(cut.family) == 0
    assert len(inferred) == 4
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-14)
    for part in ("node", "edge"):
        np.testing.assert_allclose(getattr(found.residual, part), getattr(expected.residual, part), atol=1e-14)
    np.testing.assert_array_equal(found.member.marginals(), expected.member.marginals())
    assert found.member.family is cut.family
    assert inferred.count(cut.family) == 1
