"""Envelopes of rejection sampling: proposals are worth their while, whatever the size of the box."""

import numpy as np
import pytest
from scipy.special import logsumexp

from kernelfields.basis import PivotSubspace
from kernelfields.families import sampling
from kernelfields.families.box import Box, FunctionMeasure
from kernelfields.kernels import RBF


def log_base(X):
    return -0.5 * np.square(X - 3.0).sum(axis=1)


@pytest.mark.parametrize("side", [0.5, 10.0, 100.0])
def test_about_one_proposal_in_four_is_kept(side):
    """The mean of exp(log ratio) under p0 over the mass of the envelope: the share of proposals that are kept."""
    box = Box(np.array([3.0 - side / 2]), np.array([3.0 + side / 2]))
    measure = FunctionMeasure(box, log_base)
    kernel, pivots = RBF(2.0), np.array([[0.3], [0.7]])
    subspace = PivotSubspace(kernel, pivots, np.linalg.cholesky(kernel(pivots)), np.arange(2))
    middles = (np.arange(200_000)[:, None] + 0.5) / 200_000
    target = sampling.Target(measure, subspace, np.array([0.8, -0.5]), 0.0, box.from_unit(pivots))
    log_mean = logsumexp(target.log_ratio(measure.from_uniform(middles))) - np.log(len(middles))
    # The integral over the box itself, which is what a density divides by.
    target.log_partition = log_mean + box.log_volume
    envelope = sampling._build_envelope(target)
    kept = np.exp(log_mean - logsumexp(envelope.log_masses))
    assert 0.25 <= kept < 1.0
    points = sampling.draw(target, 2000, np.random.default_rng(0))
    weights = np.exp(target.log_ratio(measure.from_uniform(middles)))
    mean = weights @ measure.from_uniform(middles)[:, 0] / weights.sum()
    spread = np.sqrt(weights @ (measure.from_uniform(middles)[:, 0] - mean) ** 2 / weights.sum())
    assert abs(points.mean() - mean) < 4 * spread / np.sqrt(2000)


@pytest.mark.parametrize("coefficients", [(0.0, 0.0), (0.8, -0.5)], ids=str)
def test_bounds_of_cells_hold_in_them(coefficients):
    box = Box(np.array([-2.0, 0.0]), np.array([8.0, 4.0]))
    measure = FunctionMeasure(box, log_base)
    kernel, pivots = RBF(2.0), np.array([[0.3, 0.5], [0.7, 0.1]])
    subspace = PivotSubspace(kernel, pivots, np.linalg.cholesky(kernel(pivots)), np.arange(2))
    target = sampling.Target(measure, subspace, np.array(coefficients), 0.0, box.from_unit(pivots))
    corners = np.stack(np.meshgrid(*[np.arange(8) / 8] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    bounds = sampling._cell_bounds(target, corners, corners + 1 / 8)
    places = np.random.default_rng(0).random((200, 1, 2)).round(1) / 8  # faces and corners of the cells among them
    values = target.log_ratio(measure.from_uniform((corners + places).reshape(-1, 2))).reshape(200, -1)
    assert (values < bounds).all()
