"""Likelihoods of every family of labellings: values and derivatives by enumeration and by finite differences.

The families are those of tests/inference/family_cases.py: one that enters there enters here.
"""

from dataclasses import replace

import numpy as np
import pytest

from kernelfields.data import Chains
from kernelfields.data.partial_labels import SoftRows
from kernelfields.data.segments import Segmentation
from kernelfields.inference import EDGE, Potentials
from kernelfields.objective import Likelihood, PartialLikelihood, choose_objective
from tests.inference.family_cases import CASES, SETTINGS, problem, tables_of

#: Families that have statistics of labels, and weights of items.
FITTED = [case for case in CASES if not {"statistics", "weights"} & set(CASES[case].lacks)]
MODERATE = ["plain", "measured", "one label", "single positions"]


def for_all(settings=tuple(SETTINGS)):
    """Run a test for all families that can be fitted, in some settings."""
    pairs = [(case, setting) for case in FITTED for setting in settings if CASES[case].fits(SETTINGS[setting])]
    return pytest.mark.parametrize(("case", "setting"), pairs)


def labelled(solved):
    """A labelling of each item that p0 allows, as its number and as the family takes it."""
    choice = [int(solved.random.choice(np.flatnonzero(scores > -np.inf))) for scores in solved.enumerated().scores]
    rows = [item.labels[number] for item, number in zip(solved.enumeration.items, choice, strict=True)]
    if solved.enumeration.items[0].begins is None:
        return choice, np.concatenate(rows)
    begins = [item.begins[number] for item, number in zip(solved.enumeration.items, choice, strict=True)]
    return choice, Segmentation(np.concatenate(rows), np.concatenate(begins))


def log_weights_of(solved):
    """Log-weights (N, L) that leave every item a labelling."""
    shape = solved.family.n_positions, solved.family.n_labels
    for _ in range(300):
        weights = np.round(64 * solved.random.normal(size=shape)) / 64
        weights[solved.random.random(shape) < 0.15] = -np.inf
        known = int(solved.random.integers(shape[0]))
        weights[known] = np.where(np.arange(shape[1]) == solved.random.integers(shape[1]), 0.0, -np.inf)
        if solved.enumerated(log_weights=weights).possible:
            return weights
    raise AssertionError("hardly any labelling is left")


def assert_tables(solved, found, expected, atol):
    """Compare potentials of the family with tables of the enumeration."""
    found = solved.case.layout.take(solved.family, found)
    for name, table in expected.items():
        np.testing.assert_allclose(found[name].reshape(table.shape), table, rtol=0, atol=atol, err_msg=str(name))


def difference(one, other):
    """Tables less others."""
    return {name: one[name] - other[name] for name in one}


def dot(tables, potentials):
    """The inner product of tables with potentials, where the former are not zero."""
    return sum(
        float(table[table != 0] @ potentials[name].reshape(table.shape)[table != 0]) for name, table in tables.items()
    )


@for_all()
def test_likelihoods_are_those_of_enumeration(case, setting):
    solved = problem(case, setting)
    choice, labels = labelled(solved)
    direction = solved.random_potentials()
    for weights in (solved.weights, np.ones(len(solved.weights))):
        expected, counts = solved.enumerated(weights), solved.enumeration.counts(choice, weights)
        likelihood = Likelihood(solved.family, solved.family.statistics(labels, weights), weights)
        evaluation = likelihood.evaluate(solved.put(solved.potentials))
        value = float(weights @ expected.log_partition) - dot(counts, solved.potentials)
        assert isinstance(evaluation.value, float)
        assert evaluation.value == pytest.approx(value, rel=1e-11, abs=1e-9 * solved.spread)
        assert_tables(solved, evaluation.residual, difference(expected.mean(), counts), solved.near)
        response = likelihood.hessian_response(evaluation, solved.put(direction))
        product = expected.covariance_product(tables_of(solved.enumeration, direction))
        assert_tables(solved, response, product, 10 * solved.near)
        assert likelihood.convex
        assert likelihood.majorize(solved.put(solved.potentials)) is likelihood
        shifted = likelihood.plus(solved.put(direction), 2.5).evaluate(solved.put(solved.potentials))
        if np.isfinite(evaluation.value) and all(np.isfinite(array).all() for array in solved.potentials.arrays):
            moved = value + direction.dot(solved.potentials) + 2.5
            assert shifted.value == pytest.approx(moved, rel=1e-11, abs=1e-9 * solved.spread)
        assert_tables(
            solved,
            shifted.residual,
            {
                name: table + direction[name].reshape(table.shape)
                for name, table in difference(expected.mean(), counts).items()
            },
            solved.near,
        )


@for_all()
def test_partial_likelihoods_are_those_of_enumeration(case, setting):
    solved = problem(case, setting)
    log_weights, other = log_weights_of(solved), log_weights_of(solved)
    weights, direction = solved.weights, solved.random_potentials()
    partial = PartialLikelihood(solved.family, other, weights)
    partial.set_log_weights(log_weights)
    free, known = solved.enumerated(weights), solved.enumerated(weights, log_weights=log_weights)
    evaluation = partial.evaluate(solved.put(solved.potentials))
    value = float(weights @ (free.log_partition - known.log_partition))
    assert evaluation.value == pytest.approx(value, rel=1e-10, abs=1e-9 * solved.spread)
    assert_tables(solved, evaluation.residual, difference(free.mean(), known.mean()), solved.near)
    tables = tables_of(solved.enumeration, direction)
    response = partial.hessian_response(evaluation, solved.put(direction))
    expected = difference(free.covariance_product(tables), known.covariance_product(tables))
    assert_tables(solved, response, expected, 20 * solved.near)
    assert_tables(solved, partial.complete_statistics(solved.put(solved.potentials)), known.mean(), solved.near)
    assert not partial.convex


@for_all(MODERATE)
def test_frozen_labels_touch_the_partial_likelihood_from_above(case, setting):
    """Same gradient where labels were completed; elsewhere it rises at least as much."""
    solved = problem(case, setting)
    partial = PartialLikelihood(solved.family, log_weights_of(solved), solved.weights)
    here = solved.put(solved.random_potentials())
    frozen, known = partial.majorize(here), partial.evaluate(here)
    assert frozen.convex
    touching = frozen.evaluate(here)
    value = touching.value
    touching.residual.add(-1.0, known.residual)
    assert touching.residual.largest < 1e-10
    for _ in range(3):
        moved = here.plus(1.0, solved.put(solved.random_potentials()))
        assert partial.evaluate(moved).value - known.value <= frozen.evaluate(moved).value - value + 1e-10


@for_all()
def test_values_at_zero(case, setting):
    solved = problem(case, setting)
    _, labels = labelled(solved)
    for objective in (
        Likelihood(solved.family, solved.family.statistics(labels, solved.weights), solved.weights),
        PartialLikelihood(solved.family, log_weights_of(solved), solved.weights),
    ):
        value = objective.evaluate(solved.family.zeros()).value
        assert objective.value_at_zero == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert objective.is_constrained == (solved.family.base is not None and solved.family.base.has_forbidden_labellings)
    assert objective.family.exact
    assert objective.n_labels == solved.enumeration.n_labels


@for_all(["plain", "measured"])
def test_soft_targets(case, setting):
    """Targets take the place of labels; where others than neighbours meet, those of independent labels."""
    solved = problem(case, setting)
    given = solved.random_potentials()
    n_labels = solved.enumeration.n_labels
    paired = EDGE in solved.enumeration.groups
    far = set(solved.enumeration.groups) - {None, EDGE}
    independent = bool(far) or (paired and len(solved.enumerated().marginals(EDGE)) < solved.family.n_positions)
    if independent:
        given = Potentials(given.node, {name: np.zeros_like(table) for name, table in given.tables.items()})
    marginals = solved.enumerated(potentials=given)
    node = marginals.marginals(None)
    edge = marginals.marginals(EDGE).reshape(-1, n_labels, n_labels) if paired and not independent else None
    rows = SoftRows(node, edge)
    data = Chains(np.zeros((len(node), 0)), solved.items.offsets, node.argmax(axis=1), solved.weights, rows)
    if solved.family.method == "segments":
        # Labels do not fix where repeated segments are cut; independent labels may last longer than segments may.
        cut = "SoftTargets are for labels of positions"
        lost = "targets give mass to labellings that are forbidden"
        with pytest.raises(ValueError, match=cut if case.endswith(", repeats") else lost):
            choose_objective(solved.family, data)
        return
    if independent and solved.family.base is not None:
        # Labels with a measure of their own are not independent.
        with pytest.raises(ValueError, match="targets give mass to labellings that are forbidden"):
            choose_objective(solved.family, data)
        return
    likelihood = choose_objective(solved.family, data)
    evaluation = likelihood.evaluate(solved.put(solved.potentials))
    counts = marginals.weighted(solved.weights).mean()
    expected = solved.enumerated(solved.weights)
    value = float(solved.weights @ expected.log_partition) - dot(counts, solved.potentials)
    assert evaluation.value == pytest.approx(value, rel=1e-11, abs=1e-10)
    assert_tables(solved, evaluation.residual, difference(expected.mean(), counts), 1e-9)


def test_labels_evidence_and_targets_choose_the_likelihood():
    solved = problem("chains", "plain")
    _, labels = labelled(solved)
    data = Chains(np.zeros((len(labels), 0)), solved.items.offsets, labels, solved.weights)
    plain = choose_objective(solved.family, data)
    assert isinstance(plain, Likelihood)
    assert plain.data is data
    partial = choose_objective(solved.family, replace(data, partial=log_weights_of(solved)))
    assert isinstance(partial, PartialLikelihood)
    known = np.where(np.arange(3) == labels[:, None], 0.0, -np.inf)
    certain = choose_objective(solved.family, replace(data, partial=known)).evaluate(solved.potentials)
    expected = plain.evaluate(solved.potentials)
    assert certain.value == pytest.approx(expected.value, rel=1e-12)
    for ours, theirs in zip(certain.residual.arrays, expected.residual.arrays, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    with pytest.raises(ValueError, match="a likelihood needs labelled data"):
        choose_objective(solved.family, Chains(np.zeros((len(labels), 0)), solved.items.offsets))
