"""MultiLabelCRF keeps the contract of scikit-learn's multi-label classifiers."""

import copy

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from kernelfields import MultiLabelCRF
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels import RBF
from tests.samples import labelled_instances

X, Y = labelled_instances()

#: Checks that ask for what a multi-label classifier is not, and why.
EXPECTED_FAILURES = {
    **dict.fromkeys(
        (
            "check_estimators_dtypes",
            "check_sample_weights_not_an_array",
            "check_sample_weights_pandas_series",  # skipped without pandas
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_estimator_sparse_array",
            "check_estimator_sparse_matrix",
            "check_classifier_data_not_an_array",
            "check_classifiers_classes",
            "check_fit2d_1feature",
        ),
        "labels are given as 1 and 2, or by name, and an indicator holds 0 and 1",
    ),
    "check_classifier_multioutput": "classes_ has a row for each label, and one is looked for that labels share",
    "check_classifiers_train": "one label in one column is predicted as one column",
    "check_decision_proba_consistency": "labels of one dimension are not an indicator",
}


@pytest.mark.slow
@pytest.mark.skipif(
    sklearn.__version__.startswith("1.6."), reason="the checks of scikit-learn 1.6 pass three classes in one column"
)
def test_scikit_learns_checks_pass_but_for_those_that_do_not_apply():
    results = check_estimator(
        MultiLabelCRF(rank=30, random_state=0),
        expected_failed_checks=EXPECTED_FAILURES,
        on_fail=None,
        on_skip=None,
    )
    assert not [result["check_name"] for result in results if result["status"] == "failed"]
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert failed == set(EXPECTED_FAILURES) - skipped


def test_parameters_can_be_read_set_and_cloned():
    crf = MultiLabelCRF(RBF(0.5), label_graph=[(0, 1)], prior_variance=2.0)
    assert is_classifier(crf)
    assert crf.set_params(kernel__gamma=0.25).kernel.gamma == 0.25
    copied = clone(crf)
    assert copied.get_params() == crf.get_params()
    before = dict(crf.get_params())
    assert crf.fit(X, Y) is crf
    assert crf.get_params() == before
    assert not hasattr(clone(crf), "field_")


def test_attributes_after_fit():
    crf = MultiLabelCRF(rank=12, random_state=0).fit(X, Y)
    assert (crf.n_labels_, crf.n_features_in_, crf.n_iter_) == (4, 3, crf.solution_.iterations)
    np.testing.assert_array_equal(crf.label_names_, [0, 1, 2, 3])
    assert crf.classes_.tolist() == [[0, 1]] * 4
    assert crf.basis_["label 2"].rank == 12
    assert crf.coef_["label 2"].shape == (12,)
    assert list(crf.edge_scores_) == crf.label_edges_
    assert not hasattr(crf, "feature_names_in_")


class Frame:
    """As much of a data frame as is looked at: an array with named columns."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values), columns
        self.shape = self.values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.values.dtype)


def test_names_of_labels_come_from_the_columns(tmp_path):
    names = ["beach", "sea", "field", "town"]
    crf = MultiLabelCRF(RBF(0.3), label_graph=[("town", "beach"), ("sea", 2)], random_state=0)
    crf.fit(X, Frame(Y, names))
    assert crf.label_edges_ == [("beach", "town"), ("sea", "field")]
    assert set(crf.edge_scores_) == set(crf.label_edges_)
    assert crf.label_names_.tolist() == names
    assert "label town" in crf.coef_
    crf.save(tmp_path / "model")
    assert MultiLabelCRF.load(tmp_path / "model").label_edges_ == crf.label_edges_
    with pytest.raises(ValueError, match="different names"):
        crf.fit(X, Frame(Y, ["a", "a", "b", "c"]))


def test_a_file_that_is_not_sound_is_refused(tmp_path):
    path = tmp_path / "model"
    MultiLabelCRF("linear").fit(X, Y).save(path)
    document, _ = read_model(path, "MultiLabelCRF")
    for spoil in (
        lambda it: it["structure"]["pairs"].pop(),
        lambda it: it["structure"]["pairs"][0].__setitem__(2, 9),
        lambda it: it["terms"][0]["cliques"]["parameters"].__setitem__("label", 7),
        lambda it: it["terms"][0].pop("name"),
        lambda it: it["parameters"].__setitem__("inference", "guess"),
        lambda it: it.pop("certificates"),
    ):
        spoiled = copy.deepcopy(document)
        spoil(spoiled)
        write_model(path, "MultiLabelCRF", spoiled, {})
        with pytest.raises(ModelFileError, match="not a sound MultiLabelCRF model"):
            MultiLabelCRF.load(path)


@pytest.mark.parametrize(
    "call",
    [
        lambda crf: crf.predict(X),
        lambda crf: crf.predict_proba(X),
        lambda crf: crf.predict_joint(X),
        lambda crf: crf.decision_function(X),
        lambda crf: crf.log_likelihood(X, Y),
        lambda crf: crf.score(X, Y),
        lambda crf: crf.sample(X),
        lambda crf: crf.certify(X, Y),
        lambda crf: crf.certificate_,
        lambda crf: crf.save("never-written"),
    ],
)
def test_nothing_can_be_asked_before_fit(call):
    with pytest.raises(NotFittedError, match="Call 'fit'"):
        call(MultiLabelCRF())
