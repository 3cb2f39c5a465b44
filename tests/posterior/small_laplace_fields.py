"""Small objectives with curvature: a chain with transitions, single labels with a bias."""

import numpy as np

from kernelfields.data import Chains
from kernelfields.inference import SingleFamily
from kernelfields.objective import Datafit, Likelihood, LogPosterior
from kernelfields.solvers import NewtonCG, minimize
from tests.samples import chain_datafit, design_of


def chain_posterior(seed=0, variance=0.7):
    """Three labels, two features, transitions: 15 coefficients."""
    random = np.random.default_rng(seed)
    lengths = (4, 1, 6, 3, 5)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    labels = random.integers(3, size=offsets[-1])
    chains = Chains(random.normal(size=(offsets[-1], 2)), offsets, labels, random.uniform(0.5, 2.0, len(lengths)))
    inputs = chains.inputs + np.eye(3)[labels][:, :2]
    node = design_of("node", inputs, positions=None, labels_per_clique=1, n_labels=3, prior_variance=variance)
    steps = np.flatnonzero(~chains.is_start)
    edge = design_of("edge", None, positions=steps, labels_per_clique=2, n_labels=3, prior_variance=1.3)
    return LogPosterior(chain_datafit(chains, [node, edge], 3))


def single_posterior(seed=0, variance=0.7):
    """Three labels in contrasts, three features and a bias: 8 coefficients."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=25)
    inputs = random.normal(size=(25, 3)) + np.eye(3)[labels]
    contrasts = np.linalg.svd(np.eye(3) - 1 / 3)[0][:, :2]
    shared = {"positions": None, "labels_per_clique": 1, "n_labels": 3, "label_factor": contrasts}
    node = design_of("node", inputs, prior_variance=variance, **shared)
    bias = design_of("bias", None, prior_variance=2.0, **shared)
    weights = random.uniform(0.5, 2.0, 25)
    return LogPosterior(Datafit(single_likelihood(labels, 3, weights), [node, bias]))


def single_likelihood(labels, n_labels, weights):
    """The likelihood of labels that meet no others."""
    family = SingleFamily(len(labels), n_labels)
    return Likelihood(family, family.statistics(labels, weights), weights)


def mode(posterior):
    """The minimiser, to rounding."""
    return posterior.make_point(minimize(posterior, NewtonCG(), tol=1e-14, max_iter=200).theta)


def derivative(function, at, direction, step):
    """The derivative along a direction by a central difference."""
    return (function(at + step * direction) - function(at - step * direction)) / (2 * step)
