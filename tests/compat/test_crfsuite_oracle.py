"""CRF finds the model that CRFsuite finds: the same features, the same weights, the same probabilities."""

import numpy as np
import pytest
from tagged_sentences import tagged_data

from kernelfields.compat import CRF

pycrfsuite = pytest.importorskip("pycrfsuite")

X_WORDS, Y_WORDS = tagged_data(25)
TIGHT = {"epsilon": 1e-6, "delta": 0.0}


def numeric_data(seed=0, n_sequences=30):
    """Features with weights other than 1, some of them zero, and labels that depend on them and on each other."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        labels = np.cumsum(random.integers(0, 2, size=int(random.integers(1, 9)))) % 3
        X.append(
            [
                {
                    "level": float(random.gamma(2.0)) * (label == 1),
                    "size": 0.5 * float(random.integers(0, 3)) + 0.25 * int(label),
                    "flag": bool(random.random() < 0.3),
                    "near": {"x": float(label == 2), "kind": f"k{int(random.integers(6))}"},
                }
                for label in labels
            ]
        )
        y.append(["abc"[label] for label in labels])
    return X, y


X_NUMBERS, Y_NUMBERS = numeric_data()
DATA = {"words": (X_WORDS, Y_WORDS), "numbers": (X_NUMBERS, Y_NUMBERS)}


def trained(X, y, path, **parameters):
    """A tagger trained by CRFsuite, and the loss it ends with."""
    names = {
        "min_freq": "feature.minfreq",
        "all_possible_states": "feature.possible_states",
        "all_possible_transitions": "feature.possible_transitions",
    }
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({names.get(name, name): value for name, value in parameters.items()})
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger, trainer.logparser.last_iteration


def assert_same_weights(ours, theirs, tolerance):
    for key in set(ours) | set(theirs):
        assert ours.get(key, 0.0) == pytest.approx(theirs.get(key, 0.0), abs=tolerance), key


def marginals_of(tagger, sequence, classes):
    tagger.set(sequence)
    return [[tagger.marginal(label, t) for label in classes] for t in range(len(sequence))]


@pytest.mark.slow
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"c2": 0.1},
        {"c2": 0.1, "all_possible_states": True},
        {"c2": 0.1, "all_possible_transitions": True},
        {"c2": 0.1, "all_possible_states": True, "all_possible_transitions": True},
        {"c2": 0.5, "min_freq": 3.0},
        {"c2": 0.5, "min_freq": 2.5, "all_possible_states": True, "all_possible_transitions": True},
        {"c1": 0.3, "c2": 0.1},
        {"c1": 0.5, "c2": 0.05, "all_possible_states": True, "all_possible_transitions": True},
        {"c1": 1.0, "c2": 0.0},
    ],
    ids=lambda parameters: " ".join(f"{name}={value}" for name, value in parameters.items()) or "defaults",
)
def test_weights_loss_and_marginals_are_those_of_crfsuite(data, parameters, tmp_path):
    X, y = DATA[data]
    tagger, last = trained(X, y, tmp_path / "model", **TIGHT, **parameters)
    theirs = tagger.info()
    crf = CRF(**TIGHT, **parameters).fit(X, y)
    assert set(crf.classes_) == set(tagger.labels())
    assert crf.training_log_.last_iteration["loss"] == pytest.approx(last["loss"], rel=1e-6)
    assert crf.training_log_.last_iteration["feature_norm"] == pytest.approx(last["feature_norm"], rel=1e-3)
    # Without a squared norm the loss is flat along some directions.
    tolerance = 1e-3 if parameters.get("c2", 1.0) else 5e-2
    assert_same_weights(crf.state_features_, theirs.state_features, tolerance)
    assert_same_weights(crf.transition_features_, theirs.transitions, tolerance)
    if not parameters.get("c1"):
        # Weights below 5e-7 are printed as zero there.
        assert {key for key, weight in crf.state_features_.items() if abs(weight) > 1e-5} == {
            key for key, weight in theirs.state_features.items() if abs(weight) > 1e-5
        }
        assert set(crf.transition_features_) == set(theirs.transitions)
        assert set(crf.attributes_) == set(theirs.attributes)
    for sequence in X[:6]:
        ours = [[row[label] for label in crf.classes_] for row in crf.predict_marginals_single(sequence)]
        np.testing.assert_allclose(ours, marginals_of(tagger, sequence, crf.classes_), atol=1e-3)
        assert crf.predict_single(sequence) == tagger.tag(sequence)


def test_an_l1_penalty_leaves_the_weights_that_crfsuite_leaves(tmp_path):
    tagger, last = trained(X_WORDS, Y_WORDS, tmp_path / "model", c1=1.0, c2=0.1, **TIGHT)
    crf = CRF(c1=1.0, c2=0.1, **TIGHT).fit(X_WORDS, Y_WORDS)
    clear = {key for key, weight in tagger.info().state_features.items() if abs(weight) > 1e-3}
    assert clear <= set(crf.state_features_)
    assert clear >= {key for key, weight in crf.state_features_.items() if abs(weight) > 2e-3}
    kept = len(crf.state_features_) + len(crf.transition_features_)
    assert kept < 0.5 * crf.training_log_.featgen_num_features
    assert kept == pytest.approx(last["active_features"], rel=0.05)


def test_default_stops_come_as_close_as_those_of_crfsuite(tmp_path):
    best = CRF(c2=0.1, **TIGHT).fit(X_WORDS, Y_WORDS).training_log_.last_iteration["loss"]
    _, last = trained(X_WORDS, Y_WORDS, tmp_path / "model", c2=0.1)
    ours = CRF(c2=0.1).fit(X_WORDS, Y_WORDS).training_log_.last_iteration["loss"]
    assert last["loss"] == pytest.approx(best, rel=1e-4)
    assert best <= ours * (1 + 1e-12)
    assert ours == pytest.approx(best, rel=1e-4)
