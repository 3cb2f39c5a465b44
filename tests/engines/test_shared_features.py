"""Sets that share their features: one product gives what one for each would."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

from kernelfields.engines import CliqueFeatures, GraphLikelihood, Potentials, ThreadsEngine
from kernelfields.engines.shared_features import runs_of_one_table, shared_pull_back, shared_scores
from kernelfields.fields import Graphs
from kernelfields.inference.graph import plan_inference
from kernelfields.inference.workers import Workers


def sets_on(features, count=3):
    rng = np.random.default_rng(0)
    first = CliqueFeatures(
        "set 0", features, positions=np.arange(0, 18, 3), labels_per_clique=1, n_labels=2, prior_variance=1.0
    )
    sets = [copy.copy(first) for _ in range(count)]
    for number, each in enumerate(sets):
        each.name, each.positions = f"set {number}", np.arange(number, 18, 3)
        each.label_factor = rng.normal(size=(2, 1)) if number % 2 else None
    return sets


def features_of(kind):
    Z = np.random.default_rng(1).normal(size=(6, 4))
    Z[:, 2] = 0.0
    return sp.csr_array(Z) if kind == "sparse" else Z


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_one_product_for_all_equals_one_for_each(kind):
    rng, workers = np.random.default_rng(2), Workers(1)
    sets = sets_on(features_of(kind))
    coefficients = [rng.normal(size=each.shape) for each in sets]
    residuals = [rng.normal(size=(6, 2)) for _ in sets]
    for ours, each, part in zip(shared_scores(sets, coefficients, workers), sets, coefficients, strict=True):
        np.testing.assert_allclose(ours, each.scores(part), atol=1e-13)
    for ours, each, rows in zip(shared_pull_back(sets, residuals, workers), sets, residuals, strict=True):
        assert ours.shape == each.shape
        np.testing.assert_allclose(ours, each.pull_back(rows), atol=1e-13)


def test_runs_end_where_the_features_change():
    Z = features_of("dense")
    sets = [*sets_on(None, 2), *sets_on(Z), *sets_on(Z.copy(), 1), *sets_on(None, 1)]
    runs = list(runs_of_one_table(list(enumerate(sets))))
    assert [[index for index, _ in run] for run in runs] == [[0], [1], [2, 3, 4], [5], [6]]
    assert list(runs_of_one_table([])) == []


def test_the_engine_gives_the_same_with_shared_features_and_with_copies():
    rng = np.random.default_rng(3)
    graphs = Graphs(np.zeros((18, 0)), 3 * np.arange(7), (), rng.integers(2, size=18))
    shared = sets_on(features_of("dense"))
    alone = [copy.copy(each) for each in shared]
    for each in alone:
        each.features = each.features.copy()
    results = []
    coefficients = [rng.normal(size=each.shape) for each in shared]
    residual = Potentials(rng.normal(size=(18, 2)))
    for sets in (shared, alone):
        likelihood = GraphLikelihood(graphs, 2, sets, plan_inference(graphs.offsets, [], 2), workers=Workers(1))
        engine = ThreadsEngine(likelihood, sets)
        some = engine.potentials(coefficients, only=[0, 2]).node
        results.append((engine.potentials(coefficients).node, some, engine.pull_back(residual), engine.passes))
    np.testing.assert_allclose(results[0][0], results[1][0], atol=1e-13)
    np.testing.assert_allclose(results[0][1], results[1][1], atol=1e-13)
    for one, other in zip(results[0][2], results[1][2], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-13)
    assert results[0][3] == pytest.approx(results[1][3])
