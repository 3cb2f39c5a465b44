"""What a field answers for an item does not depend on the other items of the call, whatever makes its columns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from kernelfields import (
    ChainCRF,
    GraphCRF,
    KernelClassifier,
    MultiLabelCRF,
    OutOfFold,
    SegmentCRF,
    TextFeatures,
    WindowFeatures,
)
from kernelfields.kernels import RBF, Columns, Laplacian, Linear

FIXED = {"prior_variance": 1.0, "random_state": 0, "max_iter": 20, "tol": 0.1, "rank": 20}
RANDOM = np.random.default_rng(0)
X = [RANDOM.normal(size=(8, 2)) for _ in range(12)]
Y = [np.where(x[:, 0] > 0, "a", "b") for x in X]
EDGES = np.array([[t, t + 1] for t in range(7)])
LARGE = (1e12, 1e14, 1e18, -3.4e38)


def dicts(x, kind="k"):
    return [{"level": float(row[0]), "other": float(row[1]), kind: "ab"[int(row[1] > 0)]} for row in x]


def words(x):
    return [f"word{int(3 * abs(row[0]))}" for row in x]


SEQUENCES = {
    "linear": ChainCRF("linear", scale=False, **FIXED),
    "scale": ChainCRF("rbf", scale=True, **FIXED),
    "neighbours in the window": ChainCRF("rbf", scale=True, window=3, **FIXED),
    "statistics of windows": ChainCRF("linear", scale=False, window="statistics", **FIXED),
    "statistics on one scale": ChainCRF("rbf", scale=True, window="statistics", **FIXED),
    "statistics, absolute differences": ChainCRF(Laplacian(), scale=True, window="statistics", **FIXED),
    "statistics of segments": SegmentCRF("rbf", scale=True, window="statistics", **FIXED),
    "features of windows": ChainCRF("rbf", scale=True, features=WindowFeatures(), **FIXED),
    "features of rows": ChainCRF("rbf", scale=False, features=StandardScaler(), **FIXED),
    "several features": ChainCRF("rbf", scale=False, features=[StandardScaler(), WindowFeatures(widths=3)], **FIXED),
    "a classifier's": ChainCRF(
        "linear", scale=False, features=OutOfFold(RandomForestClassifier(5, random_state=0), cv=2), **FIXED
    ),
}


def same_alone(field, item, others):
    alone = field.predict_marginals([item])[0]
    for other in others:
        for batch, place in (([item, other], 0), ([other, item], 1), ([other, item, other], 1)):
            np.testing.assert_allclose(field.predict_marginals(batch)[place], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_beside_one_of_very_large_numbers(name):
    field = SEQUENCES[name].fit(X, Y)
    same_alone(field, X[0], [np.full((8, 2), large) for large in LARGE])


def test_dicts_words_and_sparse_rows_beside_others():
    parts = Columns(RBF(0.5), "numbers") + Columns(Linear(), "categories")
    field = ChainCRF(parts, scale=True, **FIXED).fit([*map(dicts, X)], Y)
    others = [dicts(np.full((4, 2), large)) for large in LARGE] + [dicts(X[1], kind="new")]
    same_alone(field, dicts(X[0]), others)
    field = ChainCRF("linear", features=TextFeatures(), **FIXED).fit([*map(words, X)], Y)
    same_alone(field, words(X[0]), [words(X[1]), ["never", "seen"]])
    field = ChainCRF("linear", scale=False, **FIXED).fit([*map(sp.csr_array, X)], Y)
    same_alone(field, sp.csr_array(X[0]), [sp.csr_array(np.full((8, 2), large)) for large in LARGE])


@pytest.mark.parametrize("neighbours", [False, True])
def test_graphs_beside_one_of_very_large_numbers(neighbours):
    field = GraphCRF("rbf", scale=True, neighbours=neighbours, **FIXED).fit([(x, EDGES) for x in X], Y)
    same_alone(field, (X[0], EDGES), [(np.full((8, 2), large), EDGES) for large in LARGE])


def test_rows_of_tables_beside_one_of_very_large_numbers():
    rows, labels = np.vstack(X), np.concatenate(Y)
    targets = np.column_stack([labels == "a", rows[:, 1] > 0]).astype(int)
    shared = {"scale": True, **FIXED}
    for field in (
        KernelClassifier("rbf", **shared).fit(rows, labels),
        MultiLabelCRF("rbf", label_graph="none", **shared).fit(rows, targets),
    ):
        alone = field.predict_marginals(rows[:3])
        for large in LARGE:
            beside = field.predict_marginals(np.vstack([rows[:3], np.full((2, 2), large)]))[:3]
            np.testing.assert_allclose(beside, alone, rtol=0, atol=1e-12)
