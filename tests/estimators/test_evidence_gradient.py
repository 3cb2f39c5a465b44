"""The gradient of the evidence against finite differences of fits, in prior variances and kernel parameters."""

from functools import partial

import numpy as np
import pytest

from kernelfields import EdgeCliques, NodeCliques
from kernelfields.engines import ThreadsEngine
from kernelfields.engines.softmax_likelihood import SoftmaxLikelihood
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.evidence_parameters import variances_of, widths_of, with_parameters
from kernelfields.estimators.evidence_search import EvidenceProblem
from kernelfields.estimators.evidence_settings import EvidenceSearch
from kernelfields.estimators.spaces import build_space, name_cliques
from kernelfields.fields import Chains, GraphNodes, Graphs
from kernelfields.kernels import RBF, Columns, Matern, Polynomial

PRECISE = {"tol": 1e-12, "dtype": "float64"}


def spaces_on(fields, cliques, n_labels):
    random = np.random.default_rng(0)
    return [build_space(*each, fields, n_labels, random=random, **PRECISE) for each in name_cliques(cliques)]


def problem_on(fields, cliques, n_labels, engine_of, **settings):
    spaces = spaces_on(fields, cliques, n_labels)
    parameters = variances_of(spaces) + widths_of(spaces)
    problem = EvidenceProblem(spaces, parameters, engine_of, n_labels, EvidenceSearch(**settings), 0)
    return problem, np.log([parameter.value for parameter in parameters])


def single_labels(cliques, n_labels=3, **settings):
    random = np.random.default_rng(0)
    labels = random.integers(n_labels, size=40)
    inputs = random.normal(size=(40, 4)) + np.eye(4)[labels]
    sample = Graphs(inputs, np.arange(41), (), labels, random.uniform(0.5, 1.5, 40))

    def engine_of(sets):
        return ThreadsEngine(SoftmaxLikelihood(labels, n_labels, sample.weights), sets)

    return problem_on(sample, cliques, n_labels, engine_of, **settings)


def chains(cliques, **settings):
    random = np.random.default_rng(0)
    offsets = np.arange(0, 41, 5)
    labels = np.repeat(random.integers(3, size=20), 2)
    sample = Chains(random.normal(size=(40, 2)) + np.eye(3)[labels][:, :2], offsets, labels)
    return problem_on(sample, cliques, 3, partial(chain_engine, sample, n_labels=3), **settings)


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
    "chain with an edge kernel": lambda: chains(
        [
            NodeCliques("linear", prior_variance=1.5),
            EdgeCliques(RBF(0.3), rank=3, prior_variance=0.5),
        ]
    ),
}


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


def test_moved_spaces_have_the_kernel_of_their_parameters():
    problem, logs = CASES["softmax and bias"]()
    moved = with_parameters(problem.spaces, problem.parameters, np.exp(logs + 0.5))
    node = moved[0]
    assert node.subspace.kernel == RBF(0.4 * np.exp(0.5))
    assert node.clique.prior_variance == pytest.approx(1.7 * np.exp(0.5))
    gram = node.subspace.kernel(node.subspace.pivots)
    np.testing.assert_allclose(
        node.features[node.subspace.indices] @ node.features[node.subspace.indices].T, gram, atol=1e-8
    )
    same = with_parameters(problem.spaces, problem.parameters, np.exp(logs))
    assert same[0].features is problem.spaces[0].features or np.allclose(
        same[0].features, problem.spaces[0].features, atol=1e-6
    )


def test_probes_estimate_the_same_gradient():
    exact, logs = CASES["softmax and bias"]()
    probed, _ = single_labels(
        [GraphNodes(RBF(0.4), rank=12, prior_variance=1.7), GraphNodes(None, name="bias", prior_variance=0.3)],
        method="lanczos",
        probes=200,
    )
    expected = exact.gradient(exact.laplace(logs), logs)
    found = probed.gradient(probed.laplace(logs), logs)
    np.testing.assert_allclose(found, expected, atol=0.15)
    # With fixed probes the estimate is a smooth function, and the gradient is its own.
    np.testing.assert_allclose(found, numerical_gradient(probed, logs), atol=0.05)
