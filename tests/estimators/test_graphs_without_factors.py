"""Groups of factors that no graph and no sequence has: they change nothing, and all answers are there."""

import numpy as np
import pytest
from scipy.special import log_softmax

from kernelfields import ChainCRF, EdgeCliques, GraphCRF, KernelClassifier, NodeCliques, SkipCliques
from kernelfields.data import Graphs, OrderCliques
from kernelfields.inference import FamilySpec, Potentials
from kernelfields.objective import choose_likelihood
from tests.samples import design_of, labelled_sequences, random_chains

TIGHT = {"tol": 1e-9, "max_iter": 1000, "random_state": 0}
X, Y = labelled_sequences(12, longest=3)


def test_graphs_without_edges_are_single_labels():
    graphs = [(x, []) for x in X]
    crf = GraphCRF("linear", **TIGHT).fit(graphs, Y)
    rows = KernelClassifier("linear", bias=False, **TIGHT).fit(np.concatenate(X), np.concatenate(Y))
    assert crf.solution_.value == pytest.approx(rows.solution_.value, rel=1e-9)
    probabilities = rows.predict_proba(np.concatenate(X))
    np.testing.assert_allclose(np.concatenate(crf.predict_marginals(graphs)), probabilities, atol=1e-4)
    starts = np.cumsum([0, *map(len, X[:-1])])
    entropies = np.add.reduceat(-(probabilities * np.log(probabilities)).sum(axis=1), starts)
    np.testing.assert_allclose(crf.entropy(graphs), entropies, atol=1e-3)
    np.testing.assert_array_equal(np.concatenate(crf.predict(graphs)), rows.predict(np.concatenate(X)))


@pytest.mark.parametrize("far", [SkipCliques(lag=3), OrderCliques(order=3)], ids=["pairs", "quadruples"])
@pytest.mark.parametrize("solver", ["lbfgs", "block-jacobi"])
def test_cliques_of_longer_reach_than_all_sequences_change_nothing(far, solver):
    near = [NodeCliques("linear"), EdgeCliques()]
    plain = ChainCRF(cliques=near, **TIGHT).fit(X, Y)
    crf = ChainCRF(cliques=[*near, far], solver=solver, **TIGHT).fit(X, Y)
    assert crf.solution_.value == pytest.approx(plain.solution_.value, rel=1e-8)
    assert not crf.field_.terms[2].known.any()
    np.testing.assert_allclose(crf.entropy(X), plain.entropy(X), atol=1e-3)
    np.testing.assert_allclose(
        crf.log_likelihood(X, Y, per_item=True), plain.log_likelihood(X, Y, per_item=True), atol=1e-3
    )
    assert crf.certify(X, Y).value == pytest.approx(plain.solution_.value, rel=1e-8)


@pytest.mark.parametrize("features", [None, np.empty((0, 2))], ids=["one table for all", "a table for each factor"])
def test_a_group_without_factors_adds_nothing_to_a_likelihood(features):
    """Value and residual are those of labels that do not meet: log softmax of their potentials."""
    chains, rng = random_chains((3, 1, 4), weighted=True), np.random.default_rng(0)
    graphs = Graphs.from_chains(chains, lags=(5,))
    far = design_of("far", features, positions=np.empty(0, np.int64), labels_per_clique=2, n_labels=3, group="lag5")
    likelihood = choose_likelihood(graphs, [far], FamilySpec("graph", 3))
    node = rng.normal(size=(8, 3))
    evaluation = likelihood.evaluate(Potentials(node, likelihood.family.zeros().tables))
    scores, weights, places = log_softmax(node, axis=1), chains.position_weights, np.arange(8)
    assert evaluation.value == pytest.approx(-weights @ scores[places, chains.labels])
    expected = np.exp(scores)
    expected[places, chains.labels] -= 1.0
    np.testing.assert_allclose(evaluation.residual.node, expected * weights[:, None], atol=1e-12)
    (table,) = evaluation.residual.tables.values()
    assert table.shape == (0 if features is not None else 1, 3, 3)
    assert not table.any()
    assert likelihood.clique_marginals(evaluation, far).shape == (0, 9)
