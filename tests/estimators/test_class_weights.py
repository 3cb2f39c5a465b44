"""Class weights: sequences count with the mean weight of their labels."""

import numpy as np
import pytest

from kernelfields import ChainCRF


def sequences(seed=0, n=60):
    random = np.random.default_rng(seed)
    y = [random.choice(["common", "rare"], p=[0.9, 0.1], size=int(random.integers(1, 6))) for _ in range(n)]
    X = [(labels == "rare")[:, None] + random.normal(size=(len(labels), 2)) for labels in y]
    return X, y


def test_weights_of_classes_are_weights_of_sequences():
    X, y = sequences()
    weights = {"rare": 5.0, "common": 0.5}
    by_class = ChainCRF("linear", class_weight=weights, tol=1e-8).fit(X, y)
    means = [np.mean([weights[label] for label in labels]) for labels in y]
    by_sequence = ChainCRF("linear", tol=1e-8).fit(X, y, sample_weight=means)
    np.testing.assert_allclose(by_class.coef_["node"], by_sequence.coef_["node"], atol=1e-6)


def test_sequences_of_one_position_are_balanced_as_in_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(1)
    labels = np.array(["a"] * 80 + ["b"] * 15 + ["c"] * 5)
    inputs = random.normal(size=(100, 3)) + (labels == "b")[:, None] - (labels == "c")[:, None]
    X, y = [row[None] for row in inputs], [[label] for label in labels]
    ours = ChainCRF("linear", class_weight="balanced", tol=1e-10, max_iter=500).fit(X, y)
    theirs = LogisticRegression(class_weight="balanced", C=1.0, fit_intercept=False, tol=1e-10, max_iter=5000)
    theirs.fit(inputs, labels)
    marginals = np.vstack(ours.predict_marginals(X))
    np.testing.assert_allclose(marginals, theirs.predict_proba(inputs), atol=1e-4)


def test_more_weight_means_more_recall():
    X, y = sequences(n=200)
    flat = np.concatenate(y)

    def recall(weight):
        field = ChainCRF("linear", class_weight={"rare": weight}).fit(X, y)
        found = np.concatenate(field.predict(X)) == "rare"
        return np.mean(found[flat == "rare"])

    assert recall(20.0) > recall(1.0)


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
    X, y = sequences()
    with pytest.raises(error, match=words):
        ChainCRF("linear", class_weight=weight).fit(X, y)


def test_weights_come_back_from_files(tmp_path):
    X, y = sequences()
    field = ChainCRF("linear", class_weight={"rare": 3.0}).fit(X, y)
    field.save(tmp_path / "model")
    assert ChainCRF.load(tmp_path / "model").class_weight == {"rare": 3.0}


def test_certificates_know_the_weights():
    X, y = sequences()
    field = ChainCRF("linear", class_weight="balanced", tol=1e-6).fit(X, y)
    assert field.certify(X, y).value == pytest.approx(field.solution_.value, rel=1e-9)
