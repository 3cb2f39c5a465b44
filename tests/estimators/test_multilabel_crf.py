"""MultiLabelCRF: its special cases, its certificates, and what approximate inference refuses."""

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from kernelfields import EdgeCliques, GraphCRF, MultiLabelCRF
from kernelfields.kernels import RBF, Linear
from tests.samples import labelled_instances

X, Y = labelled_instances()
NEW, _ = labelled_instances(20, seed=1)
FULL = list(itertools.combinations(range(4), 2))


def fitted(**settings):
    settings = {"kernel": RBF(0.3), "prior_variance": 1.0, "decision": "hamming", **settings}
    return MultiLabelCRF(random_state=0, tol=1e-9, **settings).fit(X, Y)


def test_independent_labels_are_logistic_regressions_on_the_features():
    crf = fitted(label_graph="none", prior_variance=2.0, bias_prior_variance=None)
    features = crf.basis_["label 0"].features(X)
    for k in range(4):
        peer = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(features, Y[:, k])
        np.testing.assert_allclose(crf.coef_[f"label {k}"], peer.coef_[0], atol=2e-4)
        expected = peer.predict_proba(crf.basis_["label 0"].features(NEW))[:, 1]
        np.testing.assert_allclose(crf.predict_proba(NEW)[:, k], expected, atol=1e-4)


def test_all_labels_share_one_basis_and_one_file_entry(tmp_path):
    crf = fitted(edges=EdgeCliques(RBF(0.5)), rank=30)
    assert len({id(crf.basis_[f"label {k}"]) for k in range(4)}) == 1
    assert len({id(crf.basis_[f"pair {j} ~ {k} inputs"]) for j, k in FULL}) == 1
    crf.save(tmp_path / "model")
    # Two bases of 30 pivots: factors 2 * 30^2, pivots and indices, coefficients; far from a basis for each label.
    assert (tmp_path / "model").stat().st_size < 8 * (2 * 30 * 40 + 30 * 12) + 60_000


def test_neither_order_nor_coding_of_labels_matters():
    crf = fitted(label_graph="full")
    order = [2, 0, 3, 1]
    flipped = np.array([0, 1, 0, 1])
    other = MultiLabelCRF(RBF(0.3), label_graph="full", random_state=0, tol=1e-9).fit(X, (Y ^ flipped)[:, order])
    assert other.solution_.value == pytest.approx(crf.solution_.value, rel=1e-8)
    expected = np.where(flipped, 1 - crf.predict_proba(NEW), crf.predict_proba(NEW))
    np.testing.assert_allclose(other.predict_proba(NEW), expected[:, order], atol=1e-5)


def test_a_pair_of_labels_is_a_graph_of_two_nodes():
    """With no kernel part worth mentioning, the field of two labels is that of their log odds ratio."""
    crf = MultiLabelCRF(
        RBF(0.3), prior_variance=1e-9, edges=EdgeCliques(prior_variance=1e6), bias_prior_variance=1e6, tol=1e-10
    ).fit(X, Y[:, :2])
    counts = np.histogram2d(Y[:, 0], Y[:, 1], bins=2)[0]
    ratio = np.log(counts[0, 0] * counts[1, 1] / (counts[0, 1] * counts[1, 0]))
    assert crf.edge_scores_[(0, 1)] == pytest.approx(ratio, rel=1e-4)


def test_certificates_hold_in_the_span_and_beyond():
    crf = MultiLabelCRF(RBF(0.3), rank=15, tol=1e-4, random_state=0).fit(X, Y)
    whole = MultiLabelCRF(RBF(0.3), rank=None, tol=1e-7, random_state=0).fit(X, Y)
    assert crf.certificate_.relative_gap <= 1e-4
    for certificate in (crf.rkhs_certificate_, crf.certify(X, Y)):
        assert certificate.lower_bound <= whole.solution_.value * (1 + 1e-9)
    assert crf.certify(X, Y, scope="span").value == pytest.approx(crf.solution_.value, rel=1e-10)
    assert crf.certify(X, Y).relative_gap <= crf.rkhs_certificate_.relative_gap * (1 + 1e-9)
    weights = np.arange(len(X)) % 3.0
    weighted = MultiLabelCRF(RBF(0.3), random_state=0).fit(X, Y, sample_weight=weights)
    found = weighted.certify(X, Y, scope="span", sample_weight=weights)
    assert found.value == pytest.approx(weighted.solution_.value, rel=1e-10)


def test_constant_labels_stay_finite():
    constant = Y.copy()
    constant[:, 1], constant[:, 2] = 1, 0
    crf = MultiLabelCRF(RBF(0.3), random_state=0).fit(X, constant)
    probability = crf.predict_proba(NEW)
    assert np.isfinite(list(crf.edge_scores_.values())).all()
    assert (probability[:, 1] > 0.9).all()
    assert (probability[:, 2] < 0.1).all()
    np.testing.assert_array_equal(crf.predict(NEW)[:, 1], 1)


def test_a_sum_of_kernels_has_a_variance_for_each_part():
    crf = fitted(kernel=RBF(0.3) + Linear(), prior_variance=(1.0, 0.5))
    assert {name for name in crf.coef_ if name.endswith(" 0")} == {"bias 0", "label 0", "label_2 0"}
    flat = fitted(kernel=RBF(0.3) + Linear(), prior_variance=(1.0, 1e-9))
    np.testing.assert_allclose(flat.predict_proba(NEW), fitted().predict_proba(NEW), atol=1e-5)


def test_approximate_inference_is_named_and_not_certified():
    crf = MultiLabelCRF(RBF(0.3), inference="trw", random_state=0).fit(X, Y)
    assert (crf.inference_.method, crf.inference_.exact) == ("trw", False)
    exact = MultiLabelCRF(RBF(0.3), random_state=0).fit(X, Y)
    np.testing.assert_allclose(crf.predict_proba(NEW), exact.predict_proba(NEW), atol=0.2)
    with pytest.raises(AttributeError, match="'trw', which is approximate"):
        _ = crf.certificate_
    for refused in (crf.certify, crf.log_likelihood):
        with pytest.raises(ValueError, match="needs exact inference"):
            refused(X, Y)
    with pytest.raises(ValueError, match="needs exact inference"):
        crf.predict_joint(X)


def test_equal_to_a_graph_field_whose_nodes_have_features_of_their_own():
    """Labels without edges, as nodes of a GraphCRF: a difference of two values of variance 1/2 has variance 1."""
    crf = fitted(kernel="linear", label_graph=[(0, 1)], bias_prior_variance=None)
    graphs = [(np.kron(np.eye(4), x[None, :]), np.array([[0, 1]])) for x in X]
    other = GraphCRF("linear", prior_variance=0.5, tol=1e-9).fit(graphs, list(Y))
    marginals = np.array([each[2:, 1] for each in other.predict_marginals(graphs)])
    np.testing.assert_allclose(crf.predict_proba(X)[:, 2:], marginals, atol=1e-4)
