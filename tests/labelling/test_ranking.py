"""What to label next: scores against enumeration, batches that are spread, for every estimator of labels."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer

from kernelfields import (
    ChainCRF,
    GraphCRF,
    MultiLabelCRF,
    rank_for_labelling,
)
from tests.labelling.test_label_errors import SETTINGS, sequences


def fitted(length=7):
    X, y = sequences(12, length)
    return ChainCRF(**SETTINGS).fit(X, y), X


def noisy(n_items=6, length=4):
    rng = np.random.default_rng(5)
    return [rng.normal(size=(length - number % 2, 2)) for number in range(n_items)]


def law(crf, x):
    """Probabilities of all labellings of a sequence."""
    ranked = crf.predict_nbest([x], 3 ** len(x))[0]
    return {tuple(labels): np.exp(log) for labels, log in ranked}


def entropy(chances):
    chances = np.asarray(list(chances))
    return float(-np.sum(chances[chances > 0] * np.log(chances[chances > 0])))


def test_entropies_of_items_and_positions():
    crf, _ = fitted()
    X = noisy()
    each = rank_for_labelling(crf, X)
    by_position = rank_for_labelling(crf, X, positions=True)
    for number, x in enumerate(X):
        chances = law(crf, x)
        assert each.scores[number] == pytest.approx(entropy(chances.values()) / len(x))
        for t in range(len(x)):
            own = [sum(p for y, p in chances.items() if y[t] == label) for label in "abc"]
            assert by_position.scores[number][t] == pytest.approx(entropy(own))
    assert each.order == np.argsort(-each.scores, kind="stable").tolist()
    assert len(by_position) == sum(map(len, X))
    assert by_position.order[0] == max(
        ((number, t) for number, x in enumerate(X) for t in range(len(x))),
        key=lambda place: by_position.scores[place[0]][place[1]],
    )


def test_known_labels_are_not_ranked_and_condition_the_rest():
    crf, _ = fitted()
    X = noisy(3)
    known = [["a"] * len(X[0]), ["a", *[None] * (len(X[1]) - 1)], None]
    items = rank_for_labelling(crf, X, known=known)
    assert 0 not in items.order
    assert items.scores[1] == pytest.approx(crf.entropy(X[1:2], known=known[1:2])[0] / (len(X[1]) - 1))
    places = rank_for_labelling(crf, X, known=known, positions=True)
    assert (1, 0) not in places.order
    assert np.isnan(places.scores[1][0])
    assert len(places) == len(X[1]) - 1 + len(X[2])
    assert {row["n_positions"] for row in items.to_rows()} == {len(X[1]) - 1, len(X[2])}


def test_batches_are_spread_by_the_kernel():
    rng = np.random.default_rng(0)
    X, y = sequences(12)
    crf = ChainCRF("rbf", prior_variance=1.0, rank=50, tol=1e-3, n_jobs=1, random_state=0).fit(X, y)
    doubtful = [np.full((3, 2), 0.6) + 1e-3 * rng.normal(size=(3, 2)) for _ in range(10)]
    others = [np.array([[1.0, 1.0], [-0.8, 0.4], [0.2, -1.0]])[[k, k, k]] for k in range(3)]
    close = rank_for_labelling(crf, [*doubtful, *others], batch=4, spread=False)
    spread = rank_for_labelling(crf, [*doubtful, *others], batch=4)
    assert not close.spread
    assert spread.spread
    assert sum(item >= 10 for item in spread.order) >= sum(item >= 10 for item in close.order)
    assert sum(item < 10 for item in spread.order) <= 2
    assert len(set(spread.order)) == len(spread) == 4
    assert "spread by the kernel" in str(spread)
    by_position = rank_for_labelling(crf, [*doubtful, *others], batch=4, positions=True)
    assert len(set(by_position.order)) == 4


def test_tokens_and_rows():
    crf, X = fitted()
    tokens = [[f"w{number}.{t}" for t in range(len(x))] for number, x in enumerate(X)]
    order = rank_for_labelling(crf, X, tokens=tokens, batch=2)
    assert order.to_rows()[0]["token"].startswith(f"w{order.order[0]}.0")
    places = rank_for_labelling(crf, X, tokens=tokens, positions=True, batch=2)
    item, part = places.order[0]
    assert places.to_rows()[0] | {"score": 0} == {
        "sequence": item,
        "position": part,
        "token": f"w{item}.{part}",
        "score": 0,
    }


def test_labels_of_instances_have_names():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = MultiLabelCRF("linear", n_jobs=1, random_state=0).fit(X, (X > 0).astype(int))
    places = rank_for_labelling(model, X, batch=5, positions=True)
    assert {name for _, name in places.order} <= set(model.label_names_.tolist())


def test_bad_input():
    crf, X = fitted()
    with pytest.raises(ValueError, match="batch must be"):
        rank_for_labelling(crf, X, batch=0)
    with pytest.raises(NotFittedError):
        rank_for_labelling(ChainCRF(), X)
    with pytest.raises(TypeError, match="estimator must be one of labels"):
        rank_for_labelling(FunctionTransformer(), X)
    square = (np.zeros((4, 2)), np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))
    loopy = GraphCRF("linear", inference="loopy", n_jobs=1).fit([square] * 6, [list("abab"), list("babb")] * 3)
    with pytest.raises(ValueError, match="an entropy of whole items"):
        rank_for_labelling(loopy, [square])
    assert len(rank_for_labelling(loopy, [square], positions=True)) == 4
