"""Sets that share their features: one product gives what one for each would."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.numerics import Workers
from kernelfields.objective.designs.design import runs_of_one_table, shared_pull_back, shared_scores
from tests.samples import design_of


def sets_on(features, count=3):
    rng = np.random.default_rng(0)
    first = design_of("set 0", features, n_labels=2)
    designs = []
    for number in range(count):
        factor = rng.normal(size=(2, 1)) if number % 2 else None
        term = replace(first.term, name=f"set {number}", label_factor=factor)
        designs.append(replace(first, term=term, positions=np.arange(number, 18, 3)))
    return designs


def features_of(kind):
    Z = np.random.default_rng(1).normal(size=(6, 4))
    Z[:, 2] = 0.0
    return sp.csr_array(Z) if kind == "sparse" else Z


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_one_product_for_all_equals_one_for_each(kind):
    rng, workers = np.random.default_rng(2), Workers(1)
    designs = sets_on(features_of(kind))
    coefficients = [rng.normal(size=each.shape) for each in designs]
    residuals = [rng.normal(size=(6, 2)) for _ in designs]
    for ours, each, part in zip(shared_scores(designs, coefficients, workers), designs, coefficients, strict=True):
        np.testing.assert_allclose(ours, each.scores(part), atol=1e-13)
    for ours, each, rows in zip(shared_pull_back(designs, residuals, workers), designs, residuals, strict=True):
        assert ours.shape == each.shape
        np.testing.assert_allclose(ours, each.pull_back(rows), atol=1e-13)


def test_runs_end_where_the_features_change():
    Z = features_of("dense")
    designs = [*sets_on(None, 2), *sets_on(Z), *sets_on(Z.copy(), 1), *sets_on(None, 1)]
    runs = list(runs_of_one_table(list(enumerate(designs))))
    assert [[index for index, _ in run] for run in runs] == [[0], [1], [2, 3, 4], [5], [6]]
    assert list(runs_of_one_table([])) == []
