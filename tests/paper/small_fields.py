"""Small labelled fields with their sufficient statistics spelled out, one row per labelling.

    Phi(x^i, y)   = concatenation over clique sets c of  sum_C z_c(x_C) (x) A_c[y_C]
    g(theta; x^i) = log sum_y exp <Phi(x^i, y), theta>
    P(theta)      = sum_c ||theta_c||^2 / (2 s_c) + sum_i weight_i (g(theta; x^i) - <Phi(x^i, y^i), theta>)

Nothing here uses the library's potentials, inference or derivatives: only its features z and label factors A.
"""

from dataclasses import dataclass

import numpy as np

from kernelfields.data import Chains
from kernelfields.kernels import RBF
from kernelfields.numerics import Workers
from kernelfields.objective import LogPosterior
from kernelfields.objective.designs.design import LocalDesign
from kernelfields.solvers import Newton, minimize
from kernelfields.solvers.newton import full_hessian
from tests.oracles.labellings import all_labellings
from tests.samples import chain_datafit, chain_sample, design_of, designs_on, random_chains

KERNEL = RBF(gamma=0.4)


def as_lists(chains):
    """X and y as an estimator takes them."""
    return chains.split(chains.inputs), chains.split(chains.labels)


@dataclass(eq=False)
class SmallField:
    """Labelled chains and clique sets, seen as an exponential family on labellings."""

    chains: Chains
    designs: list[LocalDesign]
    n_labels: int

    def __post_init__(self):
        datafit = chain_datafit(self.chains, self.designs, self.n_labels, workers=Workers(1))
        self.posterior = LogPosterior(datafit)
        self.statistics = [self._statistics(i) for i in range(self.chains.n_sequences)]
        self.observed = np.array([self._observed(i) for i in range(self.chains.n_sequences)])

    @property
    def size(self):
        return self.posterior.size

    @property
    def precision(self):
        """1 / s_c for every coordinate, by the prior variances of the sets, whatever the posterior makes of them."""
        sizes = [block.shape[0] * block.shape[1] for block in self.posterior.blocks]
        return np.repeat([1.0 / each.term.clique.prior_variance for each in self.designs], sizes)

    def labellings(self, i):
        return all_labellings(int(self.chains.lengths[i]), self.n_labels)

    def cliques(self, each, i):
        """The cliques of a set in sequence i: index of the later label, features z."""
        rows = np.arange(self.chains.n_positions) if each.positions is None else each.positions
        begin, end = self.chains.offsets[i], self.chains.offsets[i + 1]
        for j in np.flatnonzero((rows >= begin) & (rows < end)):
            yield int(rows[j] - begin), np.ones(1) if each.features is None else each.features[j]

    def configurations(self, each, t, labellings):
        """Index of y_C within the set's label configurations, for every labelling."""
        if each.labels_per_clique == 1:
            return labellings[:, t]
        return labellings[:, t - 1] * self.n_labels + labellings[:, t]

    def clique_statistics(self, each, i):
        """One array (labellings, r q) per clique of a set in sequence i."""
        factor = np.eye(each.n_configurations) if each.term.label_factor is None else each.term.label_factor
        labellings = self.labellings(i)
        return [
            np.einsum("r,kq->krq", z, factor[self.configurations(each, t, labellings)]).reshape(len(labellings), -1)
            for t, z in self.cliques(each, i)
        ]

    def _statistics(self, i):
        parts = []
        for each, block in zip(self.designs, self.posterior.blocks, strict=True):
            total = np.zeros((len(self.labellings(i)), block.shape[0] * block.shape[1]))
            parts.append(sum(self.clique_statistics(each, i), total))
        return np.hstack(parts)

    def _observed(self, i):
        labels = self.chains.labels[self.chains.offsets[i] : self.chains.offsets[i + 1]]
        return self.statistics[i][np.all(self.labellings(i) == labels, axis=1)][0]

    def library_statistics(self, i):
        """Phi(x^i, y) as the library sees it, a row per labelling: what each coordinate adds to the score of y."""
        begin, end = self.chains.offsets[i], self.chains.offsets[i + 1]
        labellings, at = self.labellings(i), np.arange(end - begin)
        columns = []
        for unit in np.eye(self.size):
            potentials = self.posterior.potentials(unit)
            node, edge = potentials.node[begin:end], potentials.edge
            edge = edge[begin + 1 : end] if len(edge) > 1 else np.repeat(edge, end - begin - 1, axis=0)
            scores = node[at, labellings].sum(axis=1)
            columns.append(scores + edge[at[:-1], labellings[:, :-1], labellings[:, 1:]].sum(axis=1))
        return np.stack(columns, axis=1)

    def within_cliques(self, theta, index):
        """Eq. 30 of one set: the covariances of each clique's statistics with themselves, and the prior."""
        each, block = self.designs[index], self.posterior.blocks[index]
        size = block.rows.stop - block.rows.start
        total = np.eye(size) / each.term.clique.prior_variance
        for i, probabilities in enumerate(self.probabilities(theta)):
            for statistic in self.clique_statistics(each, i):
                centred = statistic - probabilities @ statistic
                total += self.chains.weights[i] * (centred.T * probabilities) @ centred
        return total

    def log_partition(self, theta):
        """g(theta; x^i) of every sequence."""
        return np.array([np.logaddexp.reduce(phi @ theta) for phi in self.statistics])

    def probabilities(self, theta):
        """p(y | x^i; theta) over the labellings of every sequence."""
        return [np.exp(phi @ theta - g) for phi, g in zip(self.statistics, self.log_partition(theta), strict=True)]

    def mean(self, theta):
        """E[Phi(x^i, y)] of every sequence, (S, size)."""
        return np.array([p @ phi for p, phi in zip(self.probabilities(theta), self.statistics, strict=True)])

    def covariance(self, theta):
        """Var[Phi(x^i, y)] of every sequence, (S, size, size)."""
        centred = zip(self.probabilities(theta), self.statistics, self.mean(theta), strict=True)
        return np.array([((phi - mean).T * p) @ (phi - mean) for p, phi, mean in centred])

    def value(self, theta):
        """The negative log-posterior, eq. 15."""
        loss = self.log_partition(theta) - self.observed @ theta
        return 0.5 * theta @ (self.precision * theta) + self.chains.weights @ loss

    def gradient(self, theta):
        """Eq. 21."""
        return self.chains.weights @ (self.mean(theta) - self.observed) + self.precision * theta

    def hessian(self, theta):
        """Eq. 22."""
        covariance = np.einsum("i,ijk->jk", self.chains.weights, self.covariance(theta))
        return covariance + np.diag(self.precision)

    def random_theta(self, seed=1, scale=0.7):
        return np.random.default_rng(seed).normal(scale=scale, size=self.size)

    def minimiser(self):
        """The exact minimiser, to rounding: the loop's answer and two more Newton steps."""
        theta = minimize(self.posterior, Newton(), tol=1e-10).theta
        for _ in range(2):
            point = self.posterior.make_point(theta)
            theta = theta - np.linalg.solve(full_hessian(point), point.gradient)
        return theta


def derivative_along(function, theta, direction, step=1e-3):
    """The derivative of function(theta + a direction) at a = 0, from four values; error of order step^4."""
    values = [function(theta + factor * step * direction) for factor in (-2, -1, 1, 2)]
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)


def small_field(cliques, chains=None, n_labels=3):
    """The field of some clique sets on some chains, in the library's own coordinates."""
    chains = random_chains(n_labels=n_labels) if chains is None else chains
    return SmallField(chains, designs_on(chain_sample(chains, n_labels), cliques), n_labels)


def whitened(inputs, kernel=KERNEL):
    """Coordinates z with z(x) . z(x') = k(x, x') on the given inputs: rows of a Cholesky factor."""
    return np.linalg.cholesky(kernel(inputs))


def untied_field(n_sequences=3, length=3, n_labels=2, node_variance=0.8, edge_variance=0.5, seed=0):
    """A field in which every position has potentials of its own, as in eq. 9, 10, 23 and 24."""
    chains = random_chains((length,) * n_sequences, n_labels, seed=seed)
    features = whitened(chains.inputs)
    designs = []
    for t in range(length):
        positions = chains.starts + t
        shared = {"positions": positions, "n_labels": n_labels}
        designs.append(
            design_of(f"node {t}", features[positions], labels_per_clique=1, prior_variance=node_variance, **shared)
        )
        if t > 0:
            ones = np.ones((n_sequences, 1))
            designs.append(design_of(f"edge {t}", ones, labels_per_clique=2, prior_variance=edge_variance, **shared))
    return SmallField(chains, designs, n_labels)


def tied_field(chains, n_labels, node_variance=0.8, edge_variance=0.5, features=None, label_factor=None):
    """Node cliques (whitened coordinates, uncentred labels unless given) and one transition matrix."""
    node = design_of(
        "node",
        whitened(chains.inputs) if features is None else features,
        positions=None,
        labels_per_clique=1,
        n_labels=n_labels,
        prior_variance=node_variance,
        label_factor=label_factor,
    )
    edge = design_of(
        "edge",
        None,
        positions=np.flatnonzero(~chains.is_start),
        labels_per_clique=2,
        n_labels=n_labels,
        prior_variance=edge_variance,
    )
    return SmallField(chains, [node, edge], n_labels)
