"""Fields spelled out by clique sets: each is compared with an equal field written another way."""

import numpy as np
import pytest

from kernelfields import ChainCRF, EdgeCliques, GraphCRF, NodeCliques, SkipCliques
from kernelfields.data import OrderCliques
from kernelfields.kernels import RBF
from tests.samples import labelled_sequences

X, y = labelled_sequences()
TIGHT = {"solver": "newton", "tol": 1e-11, "n_jobs": 1, "random_state": 0}


def fitted(cliques, inputs=X, labels=y):
    return ChainCRF(cliques=cliques, **TIGHT).fit(inputs, labels)


def assert_same_field(one, other, X_one=X, X_other=X, atol=1e-7):
    assert one.solution_.value == pytest.approx(other.solution_.value, rel=1e-9)
    for (node, edge), (node_other, edge_other) in zip(
        zip(*one.predict_marginals(X_one, cliques="edge"), strict=True),
        zip(*other.predict_marginals(X_other, cliques="edge"), strict=True),
        strict=True,
    ):
        np.testing.assert_allclose(node, node_other, atol=atol)
        np.testing.assert_allclose(edge, edge_other, atol=atol)


def test_the_shorthand_is_a_node_set_and_an_edge_set():
    shorthand = ChainCRF(
        RBF(gamma=0.2),
        rank=9,
        window=3,
        prior_variance=2.0,
        edges=EdgeCliques(prior_variance=0.5),
        basis="greedy-cholesky",
        **TIGHT,
    ).fit(X, y)
    spelled = fitted(
        [
            NodeCliques(RBF(gamma=0.2), rank=9, window=3, prior_variance=2.0, basis="greedy-cholesky"),
            EdgeCliques(prior_variance=0.5),
        ]
    )
    assert_same_field(shorthand, spelled, atol=0.0)
    assert list(spelled.coef_) == ["node", "edge"]


def test_label_kernels():
    def with_kernel(kernel):
        return fitted([NodeCliques("linear", label_kernel=kernel), EdgeCliques()])

    delta = ChainCRF("linear", **TIGHT).fit(X, y)
    for same in ("centred", np.eye(3), np.eye(3) + 0.7):  # Lemma 13: constants cancel
        assert_same_field(delta, with_kernel(same))
    wide = ChainCRF("linear", prior_variance=2.0, edges=EdgeCliques(prior_variance=1.0), **TIGHT).fit(X, y)
    assert_same_field(with_kernel(2.0 * np.eye(3)), wide)
    # Labels 0 and 1 nearly alike a priori: their potentials stay close.
    alike = np.array([[1.0, 0.999, 0.0], [0.999, 1.0, 0.0], [0.0, 0.0, 1.0]])
    shared = with_kernel(alike)
    apart = np.abs(np.subtract(*shared.coef_["node"].T[:2])).max()
    assert apart < 0.1 * np.abs(np.subtract(*delta.coef_["node"].T[:2])).max()


def test_a_kernel_between_pairs_of_labels():
    tied = fitted([NodeCliques("linear"), EdgeCliques()])
    assert_same_field(tied, fitted([NodeCliques("linear"), EdgeCliques(label_kernel=np.eye(9))]))
    assert_same_field(tied, fitted([NodeCliques("linear"), EdgeCliques(label_kernel="centred")]))
    # Only "stay" and "move" are told apart: all moves share one score.
    stay = np.eye(3).ravel()
    kernel = np.outer(stay, stay)
    crf = fitted([NodeCliques("linear"), EdgeCliques(label_kernel=kernel)])
    moves = crf.transitions_[~np.eye(3, dtype=bool)]
    np.testing.assert_allclose(moves, moves[0], atol=1e-10)
    assert np.diagonal(crf.transitions_).min() > moves[0]


def test_without_edges_positions_are_independent():
    crf = fitted([NodeCliques(RBF(gamma=0.2), basis="all")])
    assert crf.transitions_ is None
    positions = [row[None] for x in X for row in x]
    np.testing.assert_allclose(
        np.concatenate(crf.predict_marginals(X)), np.concatenate(crf.predict_marginals(positions)), atol=1e-12
    )


@pytest.mark.parametrize(
    ("cliques", "error", "words"),
    [
        ([], ValueError, "no NodeCliques"),
        ([EdgeCliques()], ValueError, "no NodeCliques"),
        ([NodeCliques(None), EdgeCliques()], ValueError, "no clique set has a kernel"),
        (["node"], TypeError, r"cliques\[0\] is 'node', expected a clique set such as NodeCliques"),
        (3, TypeError, "must be a list of clique sets"),
        ([NodeCliques(name="a"), EdgeCliques(name="a")], ValueError, "two clique sets are named 'a'"),
        ([NodeCliques(prior_variance=0.0)], ValueError, "prior_variance must be a positive"),
        ([NodeCliques(rank=0)], ValueError, "rank must be a whole number"),
        ([NodeCliques(), EdgeCliques(label_kernel=np.eye(3))], ValueError, "there are 9 labels"),
        ([NodeCliques(), SkipCliques(lag=0)], ValueError, "lag must be a whole number of at least 1"),
        ([NodeCliques(), SkipCliques(lag=1.5)], ValueError, "lag must be a whole number of at least 1"),
        ([NodeCliques(), OrderCliques(order=1)], ValueError, "order must be a whole number of at least 2"),
    ],
)
def test_unusable_clique_sets(cliques, error, words):
    with pytest.raises(error, match=words):
        ChainCRF(cliques=cliques).fit(X, y)


def test_an_edge_kernel_needs_edges():
    message = r"no 'edge' cliques, all sequences have length one.*Leave out the edge kernel"
    with pytest.raises(ValueError, match=message):
        ChainCRF(edges=EdgeCliques("rbf")).fit([x[:1] for x in X], [labels[:1] for labels in y])


def test_one_clique_set_needs_no_list():
    X, y = labelled_sequences(n_sequences=6, seed=0)
    for estimator, data in ((ChainCRF, X), (GraphCRF, [(x, []) for x in X])):
        alone = estimator(cliques=NodeCliques("linear"), random_state=0).fit(data, y)
        listed = estimator(cliques=[NodeCliques("linear")], random_state=0).fit(data, y)
        assert alone.solution_.value == listed.solution_.value
