"""End of eq. 23, expansions over a subset of labels: pivots on pairs (x, y), one clique set for each label.

The delta kernel of labels is a sum over labels, k_x delta(y, y') = sum_c k_x e_c(y) e_c(y'). A set of node cliques with
the c-th part alone has pivots of its own, pairs (x_j, c), and basis="gradient" picks them by the
residual of that label.
"""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.basis import AllPoints, Gradient
from kernelfields.kernels import RBF
from kernelfields.kernels.labels import LabelMatrix

KERNEL = RBF(0.1)


def sequences(n, n_labels, random, centres):
    """Each label is two clouds of points."""
    clouds = [random.integers(2 * n_labels, size=6) for _ in range(n)]
    return [centres[each] + 0.7 * random.normal(size=(6, 4)) for each in clouds], [each % n_labels for each in clouds]


def on_pairs(n_labels, basis):
    """Node cliques for each label, and transitions."""
    parts = np.eye(n_labels)[:, :, None] * np.eye(n_labels)[:, None, :]
    nodes = (
        NodeCliques(KERNEL, label_kernel=LabelMatrix(part), basis=basis, prior_variance=10.0, name=f"node {label}")
        for label, part in enumerate(parts)
    )
    return [*nodes, EdgeCliques()]


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    centres = 1.5 * random.normal(size=(12, 4))
    return sequences(40, 6, random, centres), sequences(40, 6, random, centres)


def test_with_all_pairs_as_pivots_the_estimate_is_that_of_the_delta_kernel(data):
    (X, y), (X_new, _) = data
    X, y = X[:6], y[:6]
    shared = ChainCRF(
        cliques=[NodeCliques(KERNEL, basis=AllPoints(), prior_variance=10.0), EdgeCliques()], tol=1e-8, max_iter=500
    ).fit(X, y)
    pairs = ChainCRF(cliques=on_pairs(6, AllPoints()), tol=1e-8, max_iter=500).fit(X, y)
    for own, other in zip(shared.predict_marginals(X_new), pairs.predict_marginals(X_new), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-3)


def test_each_label_has_coefficients_at_pivots_of_its_own(data):
    """The difference of the scores of two labels is an expansion over the pivots of both, and not over those of one."""
    (X, y), (X_new, _) = data
    crf = ChainCRF(cliques=on_pairs(6, Gradient(4, initial=1)), random_state=0).fit(X, y)
    pivots = [crf.basis_[f"node {label}"].pivots for label in range(6)]
    assert [len(own) for own in pivots] == [4] * 6
    scores, inputs = next(iter(crf.answers(X_new))).node, np.concatenate(X_new)

    def left_over(difference, points):
        columns = KERNEL(inputs, points)
        return np.abs(columns @ np.linalg.lstsq(columns, difference, rcond=1e-12)[0] - difference).max()

    for label in range(5):
        difference = scores[:, label] - scores[:, label + 1]
        assert left_over(difference, np.concatenate(pivots[label : label + 2])) < 1e-8
        assert left_over(difference, pivots[label]) > 1e-2
        assert left_over(difference, pivots[label + 1]) > 1e-2
