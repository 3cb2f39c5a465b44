"""Metrics of scikit-learn, which count single labels, never compare whole sequences without a word."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from kernelfields import ChainCRF, GraphCRF, SegmentCRF
from kernelfields.annotators import AnnotatedCRF
from kernelfields.data.ragged import ScoringRefused
from kernelfields.selection import ChainCRFCV

RANDOM = np.random.default_rng(0)
X = [RANDOM.normal(size=(4, 2)) for _ in range(24)]
Y = [(x[:, 0] + 0.3 * RANDOM.normal(size=4) > 0).astype(int) for x in X]
LINEAR = {"kernel": "linear", "prior_variance": 1.0, "scale": False, "random_state": 0}
WORDS = r"predictions are a list with the labels of each item, and metrics of scikit-learn count single labels"

REFUSED = r"counts items, and these have a label at each position: pass scoring=position_scorer\(name\)"


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "jaccard_micro"])
@pytest.mark.parametrize("estimator", [ChainCRF(**LINEAR), SegmentCRF(max_duration=4, **LINEAR)])
def test_scoring_by_name_says_what_to_write(estimator, scoring):
    for error_score in ("raise", np.nan):  # which scikit-learn would go on with
        with pytest.raises(ScoringRefused, match=REFUSED):
            cross_val_score(estimator, X, Y, scoring=scoring, cv=2, error_score=error_score)
    assert cross_val_score(estimator, X, Y, cv=2, error_score="raise").min() > 0.8


def test_every_list_of_predicted_labels_is_refused_by_metrics():
    chain = ChainCRF(**LINEAR).fit(X, Y)
    search = ChainCRFCV(ChainCRF(**LINEAR), kernels="linear", prior_variances=[1.0], cv=2, halving=False).fit(X, Y)
    annotated = AnnotatedCRF(ChainCRF(**LINEAR)).fit(X, [{"one": own, "other": own} for own in Y])
    graphs = [(x, [[0, 1], [1, 2], [2, 3]]) for x in X]
    lists = [model.predict(X) for model in (chain, search, annotated)]
    for predicted in (*lists, GraphCRF(**LINEAR).fit(graphs, Y).predict(graphs)):
        for metric in (accuracy_score, f1_score):
            with pytest.raises(TypeError, match=WORDS):
                metric(Y, predicted)
        flat = accuracy_score(np.concatenate(Y), np.concatenate(predicted))
        assert flat == pytest.approx(np.mean(np.array(predicted) == np.array(Y)))
    assert accuracy_score(np.concatenate(Y), np.concatenate(chain.predict(X))) == chain.score(X, Y)
    with pytest.raises(ScoringRefused, match=REFUSED):
        GridSearchCV(chain, {"prior_variance": [1.0]}, scoring="accuracy", cv=2).fit(X, Y)


def test_predictions_stay_lists_for_all_else():
    chain = ChainCRF(**LINEAR).fit(X, Y)
    predicted = chain.predict(X)
    assert isinstance(predicted, list)
    assert np.array(predicted).shape == (24, 4)
    assert chain.score(X, predicted) == 1.0
    assert ChainCRF(**LINEAR).fit(X, predicted).score(X, predicted) > 0.9
    assert ChainCRFCV(ChainCRF(**LINEAR), prior_variances=[1.0], cv=2).fit(X, predicted).score(X, Y) > 0.8
    joined = cross_val_predict(chain, X, Y, cv=2)
    assert len(joined) == 24
    assert accuracy_score(np.concatenate(Y), np.concatenate(list(joined))) > 0.8
