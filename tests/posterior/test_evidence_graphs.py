"""GraphCRF by the evidence: cycles, chains given as graphs, kernels of edges, files, what is refused."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelfields import ChainCRF, EdgeCliques, GraphCRF
from kernelfields.data import grid_edges
from kernelfields.kernels import RBF
from kernelfields.posterior.evidence.settings import EvidenceSearch

SHORT = EvidenceSearch(restarts=0, max_evaluations=12)


def grids(n_graphs=15, seed=0):
    """Grids of two rows and three columns, which have cycles; labels of a column agree."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_graphs):
        labels = np.tile(random.integers(2, size=3), 2)
        X.append((labels[:, None] + random.normal(size=(6, 2)), grid_edges(2, 3)))
        y.append(labels)
    return X, y


def sequences(n_sequences=12, seed=0):
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(3, size=4), random.integers(1, 4, size=4)) for _ in range(n_sequences)]
    return [np.eye(3)[labels] + random.normal(size=(len(labels), 3)) for labels in y], y


def steps_of(x):
    return np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])


@pytest.mark.slow
def test_fields_with_cycles_climb_their_evidence():
    X, y = grids()
    start = GraphCRF(RBF(0.5), rank=8, prior_variance=0.05, random_state=0)
    plain, chosen = clone(start).fit(X, y), clone(start).fit(X, y, optimize="evidence")
    path = chosen.evidence_path_
    assert chosen.inference_.method == "junction"
    assert plain.evidence_path_ is None
    assert set(path.best.parameters) == {"node prior_variance", "edge prior_variance", "node gamma"}
    assert path.steps[0].value == pytest.approx(plain.laplace(X, y).value, abs=1e-6)
    assert path.best.value > path.steps[0].value + 10.0
    assert chosen.laplace(X, y).value == pytest.approx(path.best.value, abs=1e-5)
    # Where the search ends the evidence is flat.
    assert max(map(abs, path.best.gradient.values())) < 0.1
    assert {step.start for step in path.steps} == {0, 1}
    new, labels = grids(seed=1)
    assert chosen.log_likelihood(new, labels) > plain.log_likelihood(new, labels)
    # What the user gave stays as it was; what was chosen is in the fitted sets.
    assert chosen.get_params()["prior_variance"] == 0.05
    variances = {f"{each.name} prior_variance": each.clique.prior_variance for each in chosen.field_.terms}
    assert all(value == pytest.approx(path.best.parameters[name]) for name, value in variances.items())


def test_the_gradient_on_cycles_is_that_of_finite_differences():
    X, y = grids(8)
    nowhere = EvidenceSearch(restarts=0, max_evaluations=1, tol=1 - 1e-9, kernels=False)
    settings = {"kernel": RBF(0.5), "rank": 8, "tol": 1e-8, "random_state": 0}

    def evidence(edge_variance):
        return GraphCRF(edges=EdgeCliques(prior_variance=edge_variance), **settings).fit(X, y).laplace(X, y).value

    path = GraphCRF(edges=EdgeCliques(prior_variance=0.7), **settings).fit(X, y, optimize=nowhere).evidence_path_
    step = 1e-3
    slope = (evidence(0.7 * np.exp(step)) - evidence(0.7 * np.exp(-step))) / (2 * step)
    assert path.steps[0].gradient["edge prior_variance"] == pytest.approx(slope, abs=1e-5)


@pytest.mark.slow
def test_a_chain_given_as_a_graph_takes_the_path_of_the_chain():
    X, y = sequences()
    settings = {"kernel": RBF(0.5), "rank": 8, "prior_variance": 0.05, "random_state": 0}
    chain = ChainCRF(**settings).fit(X, y, optimize=SHORT)
    graph = GraphCRF(**settings).fit([(x, steps_of(x)) for x in X], y, optimize=SHORT)
    pairs = list(zip(graph.evidence_path_.steps, chain.evidence_path_.steps, strict=True))
    np.testing.assert_allclose([a.value for a, _ in pairs], [b.value for _, b in pairs], atol=1e-3)
    best, expected = (each.evidence_path_.best.parameters for each in (graph, chain))
    assert best == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
def test_kernels_of_edges_are_chosen_and_files_keep_the_path(tmp_path):
    X, y = sequences(8)
    graphs = [(x, steps_of(x), x[1:]) for x in X]
    crf = GraphCRF(RBF(0.5), edges=EdgeCliques(RBF(0.3)), rank=6, random_state=0).fit(graphs, y, optimize=SHORT)
    assert {"node gamma", "edge gamma"} < set(crf.evidence_path_.best.parameters)
    crf.save(tmp_path / "model")
    loaded = GraphCRF.load(tmp_path / "model")
    assert str(loaded.evidence_path_.best.parameters) == str(crf.evidence_path_.best.parameters)
    values = [
        [(step.value, step.parameters, step.ended) for step in each.evidence_path_.steps] for each in (loaded, crf)
    ]
    assert values[0] == values[1]  # seconds are in no file
    assert loaded.log_likelihood(graphs, y) == pytest.approx(crf.log_likelihood(graphs, y), rel=1e-12)


@pytest.mark.parametrize("inference", ["trw", "loopy", "mean-field"])
def test_approximate_inference_has_no_evidence(inference):
    X, y = grids(4)
    crf = GraphCRF("linear", inference=inference, random_state=0)
    with pytest.raises(ValueError, match=f"needs the exact Hessian, and inference='{inference}' is approximate"):
        crf.fit(X, y, optimize="evidence")
    assert not hasattr(crf, "field_")
