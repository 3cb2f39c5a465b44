"""Expected shares of labels: values by enumeration, gradients by differences."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from kernelfields.data import Chains, Graphs, resolve_constraints
from kernelfields.data.graphs import Factors
from kernelfields.data.label_cliques import LabelledInstances
from kernelfields.inference import EDGE, FamilySpec, Placement
from kernelfields.numerics import Workers
from kernelfields.objective import choose_likelihood
from kernelfields.objective.likelihoods.expectations import Criteria, Expectation, ExpectationLikelihood
from tests.oracles.graphs import GraphEnumeration
from tests.samples import make_offsets, random_chains

WEIGHTS = np.array([1.0, 0.5, 2.0, 1.5])
SOME = Placement(1, None, None, is_constant=False)
EDGES = Placement(2, EDGE, None, is_constant=False)
TIED = Placement(2, EDGE, None, is_constant=True)
CONSTRAINTS = resolve_constraints({"transitions": [(1, 0)], "start": [2]}, np.arange(3))


def log_weights_of(n_positions, n_labels):
    """Known labels, sets and weights; the last two sequences are not known at all."""
    log_weights = np.zeros((n_positions, n_labels))
    log_weights[0, 1:] = -np.inf
    log_weights[1, -1] = -np.inf
    log_weights[2, 0] = -0.7
    return log_weights


def chain_problem(masks, *placed):
    chains = random_chains()
    log_weights = log_weights_of(chains.n_positions, 3)
    chains = replace(chains, partial=log_weights, labels=log_weights.argmax(axis=1), weights=WEIGHTS)
    graphs = Graphs.from_chains(chains)
    return choose_likelihood(chains, [SOME, *placed], FamilySpec("chain", 3, masks), Workers(1)), graphs


def plain_chains():
    return chain_problem(resolve_constraints(None, np.arange(3)), TIED)


def own_transitions():
    return chain_problem(resolve_constraints(None, np.arange(3)), EDGES)


def constrained_chains():
    return chain_problem(CONSTRAINTS, TIED)


def cycles():
    offsets = make_offsets([4, 3, 3, 4])
    members = np.vstack(
        [np.column_stack([np.arange(a, b), np.roll(np.arange(a, b), -1)]) for a, b in pairwise(offsets)]
    )
    factors = (Factors("ring", members, offsets),)
    log_weights = log_weights_of(14, 3)
    graphs = Graphs(np.zeros((14, 1)), offsets, log_weights.argmax(axis=1), WEIGHTS, log_weights, factors=factors)
    placed = [SOME, Placement(2, "ring", None, is_constant=True)]
    return choose_likelihood(graphs, placed, FamilySpec("graph", 3, method="junction"), Workers(1)), graphs


def several_labels():
    pairs, log_weights = {"first": (0, 1), "second": (1, 2)}, log_weights_of(12, 2)
    labels = log_weights.argmax(axis=1).reshape(4, 3)
    instances = LabelledInstances.build(np.zeros((4, 1)), 3, pairs, labels, WEIGHTS, log_weights)
    placed = [SOME, *(Placement(2, name, None, is_constant=True) for name in pairs)]
    spec = FamilySpec("instances", 2, n_names=3, pairs=pairs)
    return choose_likelihood(instances, placed, spec, Workers(1)), instances


def single_labels():
    graphs = Graphs(np.zeros((4, 1)), np.arange(5), np.array([0, 1, 1, 0]), WEIGHTS, log_weights_of(4, 3))
    return choose_likelihood(graphs, [SOME], FamilySpec("single", 3), Workers(1)), graphs


def fully_labelled():
    return choose_likelihood(random_chains(), [SOME, TIED], FamilySpec("chain", 3, CONSTRAINTS), Workers(1)), None


PROBLEMS = [plain_chains, own_transitions, constrained_chains, cycles, several_labels, single_labels]


def criteria_of(inner):
    n_positions, n_labels = inner.family.zeros().node.shape
    groups = np.minimum(np.arange(n_labels), 1)
    rows = np.arange(0, n_positions, 2)
    several = [
        Expectation(groups, np.array([0.3, 0.7]), 2.0),
        Expectation(np.arange(n_labels), np.eye(n_labels)[-1], 0.5, rows),
    ]
    return Criteria(several)


def any_potentials(likelihood, seed):
    random = np.random.default_rng(seed)
    zeros = likelihood.family.zeros()
    return zeros.with_arrays(random.normal(size=each.shape) for each in zeros.arrays)


def enumerated_terms(likelihood, graphs, potentials, criteria):
    """Divergences from the probabilities of all labellings."""
    node, factors = potentials.node, list(potentials.tables.values())
    members = [each.members for each in graphs.factors]
    if likelihood.is_constrained:
        node, factors = CONSTRAINTS.apply(node.copy(), graphs.offsets), [factors[0] + CONSTRAINTS.edge]
    if factors and len(factors[0]) == len(node):  # the transitions of chains have a row for every position
        factors = [factors[0][members[0][:, 1]]]
    beliefs = GraphEnumeration(graphs.offsets, members, likelihood.n_labels).infer(node, factors)
    value, weights = 0.0, graphs.position_weights
    for each in criteria.expectations:
        rows = np.arange(len(node)) if each.rows is None else each.rows
        totals = (weights[rows] @ beliefs.node_marginals[rows]) / weights[rows].sum()
        for group, share in enumerate(each.shares):
            if share > 0:
                value += each.weight * share * np.log(share / totals[each.groups == group].sum())
    return value


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.__name__)
def test_values_are_those_of_all_labellings(problem):
    inner, graphs = problem()
    criteria = criteria_of(inner)
    wrapped, here = ExpectationLikelihood(inner, criteria), any_potentials(inner, 0)
    added = wrapped.evaluate(here).value - inner.evaluate(here).value
    np.testing.assert_allclose(added, enumerated_terms(inner, graphs, here, criteria), rtol=1e-9)


@pytest.mark.parametrize("problem", [*PROBLEMS, fully_labelled], ids=lambda problem: problem.__name__)
def test_gradients_are_differences(problem):
    inner, _ = problem()
    wrapped, here, direction = (
        ExpectationLikelihood(inner, criteria_of(inner)),
        *(any_potentials(inner, i) for i in (1, 2)),
    )
    step = 1e-5
    above, below = (wrapped.evaluate(here.plus(sign * step, direction)).value for sign in (1, -1))
    np.testing.assert_allclose(wrapped.evaluate(here).residual.dot(direction), (above - below) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("problem", [constrained_chains, cycles, fully_labelled], ids=lambda problem: problem.__name__)
def test_frozen_touches_with_the_same_gradient(problem):
    inner, _ = problem()
    wrapped, here = ExpectationLikelihood(inner, criteria_of(inner)), any_potentials(inner, 4)
    frozen, known = wrapped.majorize(here), wrapped.evaluate(here)
    touching = frozen.evaluate(here)
    assert frozen.convex
    assert not wrapped.convex
    # Where labels are completed, values differ by a constant that does not depend on these terms.
    other = inner.evaluate(here).value if inner.convex else inner.majorize(here).evaluate(here).value
    np.testing.assert_allclose(touching.value - other, known.value - inner.evaluate(here).value, rtol=1e-9)
    for mine, theirs in zip(touching.residual.arrays, known.residual.arrays, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-10)


def test_no_hessian_products():
    inner, _ = plain_chains()
    wrapped, here = ExpectationLikelihood(inner, criteria_of(inner)), any_potentials(inner, 0)
    with pytest.raises(TypeError, match="use solver='lbfgs'"):
        wrapped.hessian_response(wrapped.evaluate(here), here)


def test_approximate_inference_is_refused():
    _, graphs = cycles()
    placed = [SOME, Placement(2, "ring", None, is_constant=True)]
    inner = choose_likelihood(graphs, placed, FamilySpec("graph", 3, method="trw"), Workers(1))
    with pytest.raises(ValueError, match=r"need exact inference.*'trw'"):
        ExpectationLikelihood(inner, Criteria([]))


def test_forbidden_labels_cannot_be_expected():
    chains = Chains(np.zeros((3, 1)), np.array([0, 2, 3]), np.array([0, 1, 0]))
    masks = resolve_constraints({"labels": [2]}, np.arange(3))
    inner = choose_likelihood(chains, [SOME, TIED], FamilySpec("chain", 3, masks), Workers(1))
    asked = Expectation(np.arange(3), np.array([0.2, 0.3, 0.5]), 1.0, name="LabelShares")
    with pytest.raises(ValueError, match="LabelShares asks for labels that the constraints forbid"):
        ExpectationLikelihood(inner, Criteria([asked]))
