"""The posterior around multi-label fits: independent labels are classifiers, doubts are means, files keep them."""

import numpy as np
import pytest

from kernelfields import KernelClassifier, MultiLabelCRF
from kernelfields.kernels.stationary import RBF
from tests.samples import joint_probabilities, labelled_instances

X, Y = labelled_instances()
NEW, _ = labelled_instances(20, seed=1)


@pytest.mark.slow
def test_independent_labels_are_as_many_classifiers():
    settings = {"rank": None, "basis": "all", "random_state": 0}
    crf = MultiLabelCRF(RBF(0.3), label_graph="none", prior_variance=2.0, bias_prior_variance=None, **settings)
    crf.fit(X, Y)
    # The log-odds of a classifier have twice the prior variance of a class.
    single = [KernelClassifier(RBF(0.3), prior_variance=1.0, bias=False, **settings).fit(X, y) for y in Y.T]
    total = sum(each.laplace(X, y).value for each, y in zip(single, Y.T, strict=True))
    assert crf.laplace(X, Y).value == pytest.approx(total, abs=1e-4)
    expected = np.column_stack([4 * each.predict_variances(NEW)[:, 1] for each in single])
    np.testing.assert_allclose(crf.predict_variances(NEW), expected, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exact", "lanczos"])
def test_uncertain_probabilities_are_means_over_the_samples(tmp_path, method):
    crf = MultiLabelCRF("linear", random_state=0).fit(X, Y)
    crf.laplace(X, Y, n_samples=4, method=method, random_state=0)
    drawn = crf.sample_coefficients()
    mean = 0.0
    for number in range(4):
        # Tables of a label have minus and plus a half of the log odds, those of a pair a quarter of the ratio.
        odds = np.column_stack(
            [2 * (NEW @ drawn[f"label {k}"][number] + drawn[f"bias {k}"][number])[:, 1] for k in range(4)]
        )
        ratios = {edge: 4 * drawn[f"pair {edge[0]} ~ {edge[1]}"][number][0, 0] for edge in crf.label_edges_}
        joint, labellings = joint_probabilities(odds, ratios)
        mean = mean + joint @ labellings / 4
    found = crf.predict_proba(NEW, uncertainty="sampling")
    np.testing.assert_allclose(found, mean, atol=1e-9)
    crf.save(tmp_path / "model")
    loaded = MultiLabelCRF.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(NEW, uncertainty="sampling"), found, rtol=1e-12)
    np.testing.assert_allclose(loaded.predict_variances(NEW), crf.predict_variances(NEW), rtol=1e-12)
    with pytest.raises(ValueError, match=r"call laplace\(X, y\) on its data first"):
        crf.fit(X, Y).predict_proba(NEW, uncertainty="sampling")
