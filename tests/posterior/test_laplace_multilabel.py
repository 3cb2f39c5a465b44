"""The posterior around multi-label fits: independent labels are classifiers, doubts are means, files keep them."""

import numpy as np
import pytest

from kernelfields import KernelClassifier, MultiLabelCRF
from kernelfields.kernels import RBF
from tests.samples import labelled_instances

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
def test_files_keep_the_posterior_of_several_labels(tmp_path, method):
    crf = MultiLabelCRF("linear", random_state=0).fit(X, Y)
    crf.laplace(X, Y, n_samples=4, method=method, random_state=0)
    crf.save(tmp_path / "model")
    loaded = MultiLabelCRF.load(tmp_path / "model")
    found = crf.predict_proba(NEW, uncertainty=True)
    np.testing.assert_allclose(loaded.predict_proba(NEW, uncertainty=True), found, rtol=1e-12)
    np.testing.assert_allclose(loaded.predict_variances(NEW), crf.predict_variances(NEW), rtol=1e-12)
    with pytest.raises(ValueError, match=r"call laplace\(X, y\) on its data first"):
        crf.fit(X, Y).predict_proba(NEW, uncertainty=True)
