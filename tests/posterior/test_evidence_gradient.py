"""The gradient of the evidence against finite differences of fits, in prior variances and kernel parameters."""

import numpy as np
import pytest

from kernelfields import EdgeCliques, NodeCliques
from kernelfields.data import Chains, GraphFactors, GraphNodes, Graphs, resolve_constraints
from kernelfields.engines import SampleSettings, Threads
from kernelfields.inference import FamilySpec
from kernelfields.kernels import RBF, Columns, Matern, Polynomial
from kernelfields.posterior.evidence.problem import (
    EvidenceProblem,
    StoredMode,
    _transfer_coefficients,
    evidence_gradient,
    list_kernel_parameters,
    list_prior_variances,
    truncate_design,
)
from kernelfields.posterior.evidence.settings import EvidenceSearch
from kernelfields.posterior.laplace.laplace import EXACT_MODE
from tests.samples import designs_on

PRECISE = {"tol": 1e-12, "dtype": np.dtype("float64")}


def problem_on(data, cliques, spec, **settings):
    sample = Threads().place(data, spec, SampleSettings(**PRECISE))
    designs = designs_on(sample, cliques)
    parameters = list_prior_variances(designs) + list_kernel_parameters(designs)
    problem = EvidenceProblem(designs, parameters, sample, EvidenceSearch(**settings), 0, EXACT_MODE)
    return problem, np.log([parameter.value for parameter in parameters])


def single_labels(cliques, n_labels=3, **settings):
    random = np.random.default_rng(0)
    labels = random.integers(n_labels, size=40)
    inputs = random.normal(size=(40, 4)) + np.eye(4)[labels]
    data = Graphs(inputs, np.arange(41), labels, random.uniform(0.5, 1.5, 40))
    return problem_on(data, cliques, FamilySpec("single", n_labels), **settings)


def chains(cliques, **settings):
    random = np.random.default_rng(0)
    offsets = np.arange(0, 41, 5)
    labels = np.repeat(random.integers(3, size=20), 2)
    data = Chains(random.normal(size=(40, 2)) + np.eye(3)[labels][:, :2], offsets, labels)
    spec = FamilySpec("chain", 3, resolve_constraints(None, np.arange(3)))
    return problem_on(data, cliques, spec, **settings)


def graphs(cliques, **settings):
    """Graphs with cycles: every node meets the two before it."""
    random = np.random.default_rng(0)
    labels = np.repeat(random.integers(2, size=10), 2)
    chains = Chains(random.normal(size=(20, 2)) + labels[:, None], np.arange(0, 21, 5), labels)
    return problem_on(Graphs.from_chains(chains, lags=(1, 2)), cliques, FamilySpec("graph", 2), **settings)


def numerical_gradient(problem, logs, step=1e-3):
    """Differences of the evidence of separate fits, from four values: errors of order step^4."""

    def slope(unit):
        values = [problem.laplace(logs + times * step * unit).evidence.value for times in (-2, -1, 1, 2)]
        return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)

    return np.array([slope(unit) for unit in np.eye(len(logs))])


CASES = {
    "softmax and bias": lambda: single_labels(
        [GraphNodes(RBF(0.4), rank=12, prior_variance=1.7), GraphNodes(None, name="bias", prior_variance=0.3)]
    ),
    "two labels": lambda: single_labels([GraphNodes(Matern(2.5, 1.1), rank=15, prior_variance=3.0)], n_labels=2),
    "groups of features": lambda: single_labels(
        [GraphNodes(Columns(RBF(0.5), 0, 2) + Columns(RBF(0.2), 2, 4), rank=8, prior_variance=(0.5, 4.0))]
    ),
    "polynomial": lambda: single_labels([GraphNodes(Polynomial(2, 0.3, 0.8), rank=10, prior_variance=0.6)]),
    "chain": lambda: chains([NodeCliques(RBF(0.6), rank=8, prior_variance=2.0), EdgeCliques(prior_variance=0.8)]),
    "graph": lambda: graphs(
        [
            GraphNodes(RBF(0.6), rank=4, prior_variance=2.0),
            GraphFactors(group="edge", prior_variance=0.8),
            GraphFactors(group="lag2", prior_variance=0.4),
        ]
    ),
    "chain with an edge kernel": lambda: chains(
        [
            NodeCliques("linear", prior_variance=1.5),
            EdgeCliques(RBF(0.3), rank=3, prior_variance=0.5),
        ]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_gradient_is_that_of_finite_differences(case):
    problem, logs = CASES[case]()
    found = problem.gradient(problem.laplace(logs), logs)
    expected = numerical_gradient(problem, logs)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_parameters_are_those_of_each_set():
    problem, _ = CASES["groups of features"]()
    assert [str(each) for each in problem.parameters] == [
        "node prior_variance",
        "node_2 prior_variance",
        "node kernel__gamma",
        "node_2 kernel__gamma",
    ]
    problem, _ = CASES["chain"]()
    assert [str(each) for each in problem.parameters] == [
        "node prior_variance",
        "edge prior_variance",
        "node gamma",
    ]


def test_weights_of_kernels_count_within_sums_only():
    problem, _ = single_labels([GraphNodes(2.0 * RBF(0.5), rank=5)])
    assert [each.name for each in problem.parameters] == ["prior_variance", "kernel__gamma"]
    problem, _ = single_labels([GraphNodes(RBF(0.5) + 3.0 * Polynomial(2, 0.5, 0.0), rank=5)])
    assert [each.name for each in problem.parameters][1:] == [
        "left__gamma",
        "right__factor",
        "right__kernel__gamma",
    ]


def test_float32_features_give_about_the_same_gradient(monkeypatch):
    problem, logs = CASES["chain"]()
    expected = problem.gradient(problem.laplace(logs), logs)
    monkeypatch.setitem(PRECISE, "dtype", np.dtype("float32"))
    rounded, _ = CASES["chain"]()
    assert rounded.designs[0].features.dtype == np.float32
    found = rounded.gradient(rounded.laplace(logs), logs)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_large_fields_estimate_the_gradient_by_probes():
    problem, logs = CASES["chain"]()
    laplace = problem.laplace(logs)
    expected = problem.gradient(laplace, logs)

    def by_probes(count):
        roots, signs = laplace.signed_roots(np.random.default_rng(0), all_up_to=0, probes=count)
        designs = problem.make_designs(logs)
        return evidence_gradient(laplace, roots, signs, designs, problem.parameters, logs, problem._find_inputs)

    # As many orthogonal probes as there are coefficients are exact; half of them come close.
    size = laplace.posterior.size
    np.testing.assert_allclose(by_probes(size), expected, rtol=1e-9)
    estimated = by_probes(size // 2)
    assert not np.allclose(estimated, expected, rtol=1e-6)
    np.testing.assert_allclose(estimated, expected, atol=1.0)


def test_a_mode_is_carried_to_other_pivots():
    problem, logs = CASES["chain"]()
    known = problem.laplace(logs)
    other = EvidenceProblem(
        [truncate_design(design, 6) for design in problem.designs],
        problem.parameters,
        problem._sample,
        EvidenceSearch(),
        0,
        EXACT_MODE,
    )
    alone = other.laplace(logs).evidence.value
    other.restart_search(StoredMode(problem.designs, known.posterior.blocks.expand(known.mode), known.curvature))
    assert other.laplace(logs).evidence.value == pytest.approx(alone, abs=1e-8)
    assert [design.term.subspace.rank for design in other.designs] == [6, 1]
    # The function to begin with has the values of the old one at the pivots that are left.
    old, new = known.posterior.blocks.expand(known.mode)[0], other.make_designs(logs)[0].term.subspace
    carried = _transfer_coefficients(problem.designs[0].term.subspace, old, new)
    expected = problem.designs[0].term.subspace.apply(new.pivots, old)
    np.testing.assert_allclose(new.apply(new.pivots, carried), expected, atol=1e-8)


@pytest.mark.slow
def test_probes_estimate_the_same_gradient():
    exact, logs = CASES["softmax and bias"]()
    probed, _ = single_labels(
        [GraphNodes(RBF(0.4), rank=12, prior_variance=1.7), GraphNodes(None, name="bias", prior_variance=0.3)],
        method="lanczos",
        probes=100,
    )
    expected = exact.gradient(exact.laplace(logs), logs)
    found = probed.gradient(probed.laplace(logs), logs)
    np.testing.assert_allclose(found, expected, atol=0.15)
    # With fixed probes the estimate is a smooth function, and the gradient is its own.
    np.testing.assert_allclose(found, numerical_gradient(probed, logs), atol=0.05)
