"""Class weights of single labels, as scikit-learn has them, and what other fields say of them."""

import numpy as np
import pytest

from kernelfields import ChainCRF, KernelClassifier
from kernelfields.structures.class_weights import weigh_samples
from kernelfields.structures.rows import single_nodes


def samples(seed=0, n=150):
    random = np.random.default_rng(seed)
    y = random.choice(["common", "rare"], p=[0.9, 0.1], size=n)
    return (y == "rare")[:, None] + random.normal(size=(n, 2)), y


def test_samples_are_balanced_as_in_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(1)
    labels = np.array(["a"] * 80 + ["b"] * 15 + ["c"] * 5)
    inputs = random.normal(size=(100, 3)) + (labels == "b")[:, None] - (labels == "c")[:, None]
    settings = {"bias": False, "prior_variance": 1.0, "tol": 1e-10, "max_iter": 500, "scale": False}
    ours = KernelClassifier("linear", class_weight="balanced", **settings).fit(inputs, labels)
    theirs = LogisticRegression(class_weight="balanced", C=1.0, fit_intercept=False, tol=1e-10, max_iter=5000)
    theirs.fit(inputs, labels)
    np.testing.assert_allclose(ours.predict_proba(inputs), theirs.predict_proba(inputs), atol=1e-4)


def test_balanced_samples_of_a_whole_weight_are_repetitions():
    X, y = samples()
    counts = np.random.default_rng(3).integers(3, size=len(X))
    field = KernelClassifier("linear", class_weight="balanced")
    weighted = field.fit(X, y, sample_weight=counts).predict_proba(X)
    assert field.certify(X, y, sample_weight=counts).value == pytest.approx(field.solution_.value, rel=1e-9)
    np.testing.assert_allclose(weighted, field.fit(np.repeat(X, counts, 0), np.repeat(y, counts)).predict_proba(X))


def test_balanced_classes_have_the_same_total_weight():
    random = np.random.default_rng(4)
    labels, weights = random.integers(3, size=40), random.uniform(size=40)
    weights[labels == 1] = 0.0
    found = weigh_samples(single_nodes(np.zeros((40, 1)), labels, weights), np.arange(3), "balanced").weights
    totals = np.bincount(labels, weights=found)
    # A class that weighs nothing has no part in it: what is there weighs together what it weighed before.
    np.testing.assert_allclose(totals, weights.sum() / 2 * np.array([1, 0, 1]), rtol=1e-13)


def test_classes_that_are_partly_known_have_the_mean_of_their_weights():
    X, _ = samples(n=4)
    told = ["rare", "common", {"rare": 1.0, "common": 0.5}, None]
    field = KernelClassifier("linear", class_weight={"rare": 4.0}, prior_variance=1.0).fit(X, told)
    data = field.structure.read_training(X, told, [1.0, 1.0, 3.0, 5.0])
    np.testing.assert_allclose(data.weights, [4.0, 1.0, 3.0 * 3.0, 5.0])


@pytest.mark.parametrize(
    ("weight", "error", "words"),
    [
        ("even", TypeError, "'balanced' or a dict"),
        ({"rare": -1.0}, ValueError, r"class_weight\['rare'\] must be a finite number"),
        ({"rare": np.nan}, ValueError, "finite number"),
        ({"strange": 2.0}, ValueError, "unknown label 'strange': known are 'common', 'rare'"),
        ({"rare": 0.0, "common": 0.0}, ValueError, "weight of zero"),
    ],
)
def test_weights_that_cannot_be_used(weight, error, words):
    with pytest.raises(error, match=words):
        KernelClassifier("linear", class_weight=weight).fit(*samples())


def test_fields_of_several_labels_name_what_takes_its_place():
    with pytest.raises(TypeError, match="ChainCRF has no parameter 'class_weight': sample_weight of fit weighs whole"):
        ChainCRF("linear", class_weight="balanced")
