"""Class weights: sequences count with the mean weight of their labels."""

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.data.chains import Chains, weigh_classes
from kernelfields.estimators.fit_state import NoProgress
from kernelfields.selection.folds import Items

# Most of these short sequences hold common labels beside rare ones: they cannot be weighed as positions could.
pytestmark = pytest.mark.filterwarnings("ignore:class_weight weighs whole sequences")


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


def repeated(sequences, counts):
    return [each for each, count in zip(sequences, counts, strict=True) for _ in range(count)]


def test_balanced_sequences_of_a_whole_weight_are_repetitions():
    X, y = sequences()
    counts = np.random.default_rng(2).integers(3, size=len(X))
    weighted = ChainCRF("linear", class_weight="balanced", tol=1e-10).fit(X, y, sample_weight=counts)
    spelled = ChainCRF("linear", class_weight="balanced", tol=1e-10).fit(repeated(X, counts), repeated(y, counts))
    np.testing.assert_allclose(
        np.concatenate(weighted.predict_marginals(X)), np.concatenate(spelled.predict_marginals(X)), atol=1e-7
    )
    assert weighted.certify(X, y, sample_weight=counts).value == pytest.approx(spelled.solution_.value, rel=1e-9)


def test_balanced_classes_have_the_same_total_weight():
    random = np.random.default_rng(4)
    labels, weights = random.integers(3, size=40), random.uniform(size=40)
    weights[labels == 1] = 0.0
    chains = Chains(np.zeros((40, 1)), np.arange(41), labels, weights)
    found = weigh_classes(chains, np.arange(3), "balanced").weights
    totals = np.bincount(labels, weights=found)
    # A class that weighs nothing has no part in it: what is there weighs together what it weighed before.
    np.testing.assert_allclose(totals, weights.sum() / 2 * np.array([1, 0, 1]), rtol=1e-13)


def weights_in_a_fold(X, y, weights, train):
    field = ChainCRF("linear", class_weight="balanced")
    items = Items(field, field.fit_state(X, y, weights, NoProgress()), X, y, weights)
    part = items.take(train)
    return field.fit_state(part.X, part.y, part.weights, NoProgress(), items.learnt).data.weights


def test_folds_balance_by_the_weights_of_their_own_sequences():
    X, y = sequences()
    weights = np.random.default_rng(5).integers(1, 4, size=len(X))
    train = np.arange(0, len(X) - 1, 2)
    counts = np.append(weights[train], 1)
    spelled = [repeated([each[i] for i in [*train, len(X) - 1]], counts) for each in (X, y)]
    everything = weights_in_a_fold(*spelled, None, np.arange(weights[train].sum()))
    repetitions = np.repeat(np.arange(len(train)), weights[train])
    found = weights_in_a_fold(X, y, weights, train) / weights[train]
    np.testing.assert_allclose(found[repetitions], everything, rtol=1e-13)


@pytest.mark.parametrize("weight", ["balanced", {"rare": 20.0}])
def test_a_fit_tells_where_weights_of_sequences_are_not_those_of_positions(weight):
    random = np.random.default_rng(0)
    y = [random.choice(["O", "rare"], p=[0.95, 0.05], size=20) for _ in range(40)]
    X = [(labels == "rare")[:, None] + random.normal(size=(len(labels), 2)) for labels in y]
    match = r"'O' keeps 9\d% of the weight, where these weights ask for (50|4\d)%.*weigh the marginals"
    with pytest.warns(UserWarning, match=match) as told:
        field = ChainCRF("linear", class_weight=weight).fit(X, y)
    assert told[0].filename == __file__
    plain = ChainCRF("linear").fit(X, y)
    rare = np.concatenate(y) == "rare"

    def recall(predicted):
        return np.mean(np.concatenate(predicted)[rare] == "rare")

    weighed = [plain.classes_[(table * [1.0, 19.0]).argmax(axis=1)] for table in plain.predict_marginals(X)]
    assert recall(weighed) > 0.5 > recall(field.predict(X))


def test_nothing_is_told_where_sequences_can_be_weighed_as_positions(recwarn):
    X = [[[0.0]], [[1.0]], [[1.0], [1.0]]]
    ChainCRF("linear", class_weight="balanced").fit(X, [["a"], ["b"], ["b", "b"]])
    assert not recwarn.list
