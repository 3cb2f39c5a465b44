"""GraphCRF with types of nodes: a potential for each type, remembered for prediction, files and errors."""

import numpy as np
import pytest
import scipy.sparse

from kernelfields import GraphCRF, GraphFactors
from kernelfields.data import GraphNodes
from kernelfields.kernels import RBF

TIGHT = {"tol": 1e-9, "max_iter": 2000, "random_state": 0}


def typed_data(seed=0, n_graphs=25, sparse=False):
    """Chains of words and stops, whose features mean opposite things."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_graphs):
        count = random.integers(3, 7)
        kinds = random.choice(["stop", "word"], size=count)
        labels = random.integers(2, size=count)
        sign = np.where(kinds == "word", 1.0, -1.0)
        x = np.column_stack([sign * (2 * labels - 1) + 0.7 * random.normal(size=count), np.ones(count)])
        edges = np.column_stack([np.arange(count - 1), np.arange(1, count)])
        nodes = scipy.sparse.csr_array(x) if sparse else x
        X.append({"x": nodes, "edges": edges, "node_types": kinds})
        y.append(np.array(["no", "yes"])[labels])
    return X, y


def untyped(X, by_type=False):
    """The same graphs without types; if wanted with a block of features for each type."""
    graphs = []
    for each in X:
        x = each["x"]
        if by_type:
            word = (each["node_types"] == "word")[:, None]
            x = np.hstack([np.where(word, 0.0, x), np.where(word, x, 0.0)])
        graphs.append((x, each["edges"]))
    return graphs


def test_a_potential_for_each_type_is_a_block_of_features_for_each_type():
    X, y = typed_data()
    typed = GraphCRF("linear", **TIGHT).fit(X, y)
    assert list(typed.coef_) == ["node stop", "node word", "edge"]
    blocks = GraphCRF("linear", **TIGHT).fit(untyped(X, by_type=True), y)
    assert typed.solution_.value == pytest.approx(blocks.solution_.value, rel=1e-8)
    np.testing.assert_allclose(
        np.vstack([typed.coef_["node stop"], typed.coef_["node word"]]), blocks.coef_["node"], atol=1e-4
    )
    for ours, theirs in zip(
        typed.predict_marginals(X), blocks.predict_marginals(untyped(X, by_type=True)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    plain = GraphCRF("linear", **TIGHT).fit(untyped(X), y)
    assert typed.score(X, y) > plain.score(untyped(X), y) + 0.2


@pytest.mark.parametrize("solver", ["newton", "newton-cg", "block-jacobi", "lbfgs"])
def test_kernels_by_type_and_certificates(solver):
    X, y = typed_data()
    kernels = {"word": RBF(0.5), "stop": "linear"}
    crf = GraphCRF(kernels, solver=solver, tol=1e-6, max_iter=2000, random_state=0).fit(X, y)
    assert crf.basis_["node stop"].rank == 2
    assert crf.basis_["node word"].pivots.shape[1] == 2
    assert crf.certify(X, y).relative_gap < 1e-3
    spelled = GraphCRF(
        cliques=[GraphNodes("linear", node_type="stop"), GraphNodes(RBF(0.5), node_type="word"), GraphFactors()],
        solver=solver,
        tol=1e-6,
        max_iter=2000,
        random_state=0,
    ).fit(X, y)
    assert list(spelled.coef_) == list(crf.coef_)
    assert spelled.solution_.value == pytest.approx(crf.solution_.value, rel=1e-6)


def test_observed_support_counts_the_labels_of_the_type():
    X, y = typed_data(sparse=True)
    # Stops are never labelled "yes" here, so no weight for that pair is made.
    y = [np.where(each["node_types"] == "stop", "no", labels) for each, labels in zip(X, y, strict=True)]
    seen = [GraphNodes("linear", node_type=kind, support="observed") for kind in ("word", "stop")]
    crf = GraphCRF(cliques=[*seen, GraphFactors()], **TIGHT).fit(X, y)
    assert crf.coef_["node stop"].nnz == 2
    assert crf.coef_["node stop"].toarray()[:, 1].tolist() == [0.0, 0.0]
    assert crf.coef_["node word"].nnz == 4


def test_prediction_remembers_the_types(tmp_path):
    X, y = typed_data()
    crf = GraphCRF({"word": RBF(0.5), "stop": "linear"}, random_state=0).fit(X, y)
    crf.save(tmp_path / "model")
    only_words = [each | {"node_types": ["word"] * len(each["node_types"])} for each in X[:3]]
    for field in (crf, GraphCRF.load(tmp_path / "model")):
        assert field.log_likelihood(X, y) == crf.log_likelihood(X, y)
        # A type that is missing from new graphs is fine.
        np.testing.assert_array_equal(field.predict(only_words)[0], crf.predict(only_words)[0])
        numbers = [X[0], X[1] | {"node_types": ["number"] * len(X[1]["node_types"])}]
        with pytest.raises(ValueError, match="node 0 of graph 1 has the type 'number', known are 'stop', 'word'"):
            field.predict(numbers)
        with pytest.raises(ValueError, match=r"nodes of X have no types, but this model was fitted .* with them"):
            field.predict(untyped(X))
    loaded = GraphCRF.load(tmp_path / "model")
    assert [term.clique.node_type for term in loaded.field_.terms[:2]] == ["stop", "word"]
    plain = GraphCRF("linear").fit(untyped(X), y)
    with pytest.raises(ValueError, match=r"nodes of X have types, but this model was fitted .* with none"):
        plain.predict(X)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ({"word": "linear"}, "kernel has no entry for nodes of the type 'stop'"),
        (
            {"word": "linear", "stop": "linear", "number": "rbf"},
            "kernel names the type 'number', which no nodes have: there are 'stop', 'word'",
        ),
    ],
)
def test_kernels_by_type_must_name_the_types(kernel, words):
    X, y = typed_data(n_graphs=4)
    with pytest.raises(ValueError, match=words):
        GraphCRF(kernel).fit(X, y)


def test_types_that_are_asked_for_must_be_there():
    X, y = typed_data(n_graphs=4)
    with pytest.raises(ValueError, match="kernel is a dict by type of node, and the graphs have no types"):
        GraphCRF({"word": "linear"}).fit(untyped(X), y)
    with pytest.raises(ValueError, match="no nodes have the type 'number'; there are 'stop', 'word'"):
        GraphCRF(cliques=[GraphNodes("linear", node_type="number")]).fit(X, y)


def test_networkx_nodes_carry_their_types():
    networkx = pytest.importorskip("networkx")
    X, y = typed_data(n_graphs=8)
    drawn = []
    for each in X:
        graph = networkx.Graph()
        for node, (x, kind) in enumerate(zip(each["x"], each["node_types"], strict=True)):
            graph.add_node(node, x=x, type=str(kind))
        graph.add_edges_from(each["edges"].tolist())
        drawn.append(graph)
    ours = GraphCRF("linear", **TIGHT).fit(drawn, y)
    assert ours.solution_.value == GraphCRF("linear", **TIGHT).fit(X, y).solution_.value
