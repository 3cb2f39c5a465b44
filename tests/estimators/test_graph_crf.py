"""GraphCRF: chains as graphs, larger factors, approximate inference, sets of edges, bad input."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    GraphCRF,
    GraphFactors,
    LabelNgrams,
    NodeCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.data import GraphNodes, grid_edges
from kernelfields.inference import LoopyBelief
from kernelfields.kernels import RBF

TIGHT = {"tol": 1e-10, "max_iter": 2000, "random_state": 0}


def chain_data(seed=0, n_sequences=30):
    random = np.random.default_rng(seed)
    y = [np.repeat(random.integers(3, size=4), random.integers(1, 4, size=4)) for _ in range(n_sequences)]
    X = [np.eye(3)[labels] + random.normal(size=(len(labels), 3)) for labels in y]
    return X, y


def as_graphs(X, features=None):
    graphs = []
    for i, x in enumerate(X):
        edges = np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])
        graphs.append((x, edges) if features is None else (x, edges, features[i]))
    return graphs


def grid_data(seed=0, n_graphs=12, rows=2, columns=3, by_direction=False):
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_graphs):
        labels = np.repeat(random.integers(2, size=columns)[None], rows, axis=0).ravel()
        x = labels[:, None] + random.normal(size=(rows * columns, 2))
        X.append((x, grid_edges(rows, columns, by_direction=by_direction)))
        y.append(np.array(["dry", "wet"])[labels])
    return X, y


@pytest.mark.parametrize("kernel", ["linear", RBF(0.5)])
def test_a_chain_given_as_a_graph_is_a_chain(kernel):
    X, y = chain_data()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    chain = ChainCRF(kernel, **TIGHT).fit(X, y, weights)
    graph = GraphCRF(kernel, **TIGHT).fit(as_graphs(X), y, weights)
    assert graph.inference_.method == "tree"
    assert graph.solution_.value == pytest.approx(chain.solution_.value, rel=1e-9)
    np.testing.assert_allclose(graph.edge_scores_["edge"], chain.transitions_, atol=1e-5)
    for ours, theirs in zip(graph.predict_marginals(as_graphs(X)), chain.predict_marginals(X), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    np.testing.assert_allclose(
        graph.log_likelihood(as_graphs(X), y, per_item=True),
        chain.log_likelihood(X, y, per_item=True),
        atol=1e-7,
    )
    np.testing.assert_allclose(graph.entropy(as_graphs(X)), chain.entropy(X), atol=1e-7)
    for ours, theirs in zip(graph.predict(as_graphs(X)), chain.predict(X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = (
        graph.certify(as_graphs(X), y, sample_weight=weights),
        chain.certify(X, y, sample_weight=weights),
    )
    assert ours.value == pytest.approx(theirs.value, rel=1e-9)
    assert ours.relative_gap == pytest.approx(theirs.relative_gap, abs=1e-8)


def test_triples_and_pairs_together():
    random = np.random.default_rng(0)
    X, y = [], []
    for _ in range(40):
        labels = random.integers(2, size=3)
        labels[2] = labels[0] ^ labels[1]  # no pair knows this
        X.append((labels[:, None] + 2.0 * random.normal(size=(3, 1)), {"pair": [[0, 1]], "triple": [[0, 1, 2]]}))
        y.append(labels)
    crf = GraphCRF("linear", prior_variance=10.0, **TIGHT).fit(X, y)
    assert crf.edge_scores_["triple"].shape == (2, 2, 2)
    even = [crf.edge_scores_["triple"][a, b, a ^ b] for a in (0, 1) for b in (0, 1)]
    odd = [crf.edge_scores_["triple"][a, b, 1 - (a ^ b)] for a in (0, 1) for b in (0, 1)]
    assert min(even) > max(odd)
    assert crf.certificate_.relative_gap <= 1e-10


@pytest.mark.parametrize("inference", ["trw", "loopy", "mean-field"])
def test_approximate_inference_fits_and_says_so(inference):
    X, y = grid_data(n_graphs=20)
    crf = GraphCRF("linear", inference=inference, tol=1e-2, random_state=0).fit(X, y)
    exact = GraphCRF("linear", random_state=0).fit(X, y)
    assert crf.inference_.method == inference
    assert crf.solution_.solver == "lbfgs"
    assert crf.score(X, y) > exact.score(X, y) - 0.15
    with pytest.raises(AttributeError, match=f"inferred by '{inference}', which is approximate"):
        print(crf.certificate_)
    for ask in (crf.certify, crf.log_likelihood):
        with pytest.raises(ValueError, match=f"needs exact inference.*'{inference}'"):
            ask(X, y)
    with pytest.raises(ValueError, match=f"needs Hessian products.*'{inference}' is approximate"):
        GraphCRF("linear", inference=inference, solver="newton").fit(X, y)


def test_doubts_of_inference_are_passed_on():
    X, y = grid_data(n_graphs=6, rows=4, columns=4)
    hasty = LoopyBelief(max_iter=1, warm_start=False)
    with pytest.warns(ConvergenceWarning) as heard:
        crf = GraphCRF("linear", inference=hasty, max_iter=3, random_state=0).fit(X, y)
    assert any("loopy" in str(each.message) for each in heard)
    with pytest.warns(ConvergenceWarning, match="loopy"):
        crf.predict_marginals(X)


def test_prediction_needs_the_features_of_the_fit():
    X, y = chain_data(n_sequences=5)
    graphs = as_graphs(X, [x[1:] for x in X])
    crf = GraphCRF("linear").fit(graphs, y)
    assert set(crf.coef_) == {"node", "edge", "edge features"}
    with pytest.raises(ValueError, match="factors named 'edge' have no features, but this model was fitted with 3"):
        crf.predict(as_graphs(X))
    with pytest.raises(ValueError, match="X has 2 features per node, but this model was fitted with 3"):
        crf.predict(as_graphs([x[:, :2] for x in X], [x[1:] for x in X]))
    alone = crf.predict([(X[0][:1], [])])
    assert alone[0].shape == (1,)


def test_edges_are_sets_for_every_type_or_for_those_that_are_named():
    X, y = grid_data(by_direction=True)
    crf = GraphCRF("linear", edges={"vertical": EdgeCliques(rank=3)}, prior_variance=2.0)
    assert crf.set_params(edges__prior_variance=0.5).edges["vertical"].prior_variance == 0.5
    variances = {term.name: term.prior_variance for term in crf.fit(X, y).field_.terms}
    assert variances == {"node": 2.0, "horizontal": 2.0, "vertical": 0.5}
    crf = GraphCRF("linear", prior_variance=2.0).set_params(edges__prior_variance=0.5)
    assert {term.prior_variance for term in crf.fit(X, y).field_.terms[1:]} == {0.5}
    with pytest.raises(
        TypeError, match=r"edges must be GraphFactors\(...\), EdgeCliques\(...\), a dict of them or None"
    ):
        GraphCRF(edges="rbf").fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"edges": {"diagonal": GraphFactors("rbf")}}, "edges names the type 'diagonal', which no edges have"),
        ({"edges": GraphFactors(group="far")}, "leave out group and order, and name types as keys of a dict"),
        ({"edges": EdgeCliques(window=3)}, "windows are for sequences"),
        ({"edges": EdgeCliques(prior_variance=0.0)}, "clique set 'edge': prior_variance must be a positive number"),
        ({"edges": GraphFactors("rbf")}, "a kernel on factors named 'edge' needs features"),
        ({"inference": "exact"}, "method must be one of 'auto'"),
        ({"inference": "tree"}, 'graph 0 have a cycle through nodes .* use "junction"'),
        ({"cliques": [GraphFactors()]}, "no NodeCliques"),
        (
            {"cliques": [GraphNodes("linear"), GraphFactors(group="far")]},
            "no factors are called 'far'|named 'far'",
        ),
        ({"prior_variance": -1.0}, "prior_variance must be"),
        ({"tol": 0.0}, "tol must be"),
    ],
)
def test_bad_parameters_are_named(parameters, words):
    X, y = grid_data(n_graphs=4)
    with pytest.raises(ValueError, match=words):
        GraphCRF(**{"kernel": "linear", **parameters}).fit(X, y)


def test_nodes_and_edges_of_sequences_mean_those_of_graphs():
    random = np.random.default_rng(0)
    edges = np.array([[0, 2], [2, 1], [3, 0]])
    X = [(random.normal(size=(4, 2)), edges) for _ in range(8)]
    y = [random.integers(2, size=4) for _ in X]
    settings = {"scale": False, "random_state": 0}
    given = GraphCRF(cliques=[NodeCliques("linear"), EdgeCliques(prior_variance=0.5)], **settings).fit(X, y)
    meant = GraphCRF(cliques=[GraphNodes("linear"), GraphFactors(prior_variance=0.5)], **settings).fit(X, y)
    np.testing.assert_array_equal(given.edge_scores_["edge"], meant.edge_scores_["edge"])
    assert given.solution_.value == meant.solution_.value
    for clique in (StartCliques(), SkipCliques(), LabelNgrams()):
        with pytest.raises(
            TypeError, match=r"nodes of graphs have no order, and .*(Cliques|Ngrams).* needs one: use GraphNodes"
        ):
            GraphCRF(cliques=[NodeCliques("linear"), clique], **settings).fit(X, y)
    with pytest.raises(ValueError, match="windows are for sequences"):
        GraphCRF(cliques=[NodeCliques("linear", window=3)], **settings).fit(X, y)
