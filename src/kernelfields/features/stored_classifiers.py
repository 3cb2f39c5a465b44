"""Fitted classifiers of scikit-learn as arrays, so that model files can hold them: data, never code.

    linear      LogisticRegression, LinearDiscriminantAnalysis      p(k | x) = softmax(W x + b)_k, or sigmoids
    trees       decision trees, random forests, extra trees          mean over trees of class shares in leaves, also of
                                                                     several binary labels
    boosting    HistGradientBoostingClassifier                       softmax or sigmoid of a sum of leaf values
    pipelines   of supported transformers and one of these

The nodes of all trees are concatenated: node j of tree i is node ``roots[i] + j``, inner nodes send x to the left if
x[feature] <= threshold, and leaves are their own children. Cost: O(n trees depth) in NumPy for n inputs.
Raises TypeError for unsupported classifiers, ValueError for invalid arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from kernelfields.features.stored_transformers import (
    is_text_transformer,
    rebuild_sklearn_transformer,
    store_transformer,
)

# Links from scores to probabilities: of all classes at once, of two, or of each class against the rest.
_SOFTMAX, _SIGMOID, _EACH = "softmax", "sigmoid", "each"
# Leaves that hold the share of yes for each of several labels.
_SHARES = "shares"
_LINKS = (_SOFTMAX, _SIGMOID, _EACH, _SHARES)
# scikit-learn compares the inputs of forests in single precision.
_PRECISIONS = {"trees": np.float32, "boosting": np.float64}


class Classifier(Protocol):
    """A fitted classifier with probabilities that can be stored."""

    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities (n, L)."""


def store_classifier(model: Classifier) -> dict[str, Any]:
    """Convert a fitted classifier to plain values and arrays; TypeError for unsupported classifiers."""
    name, module = type(model).__name__, type(model).__module__
    store = _STORES.get(name) if module.startswith("sklearn.") else None
    if isinstance(model, StoredClassifier):
        return model.stored
    if isinstance(model, Pipeline):
        return {**store_classifier(model[-1]), "before": store_transformer(model[:-1])}
    if store is None:
        raise TypeError(
            f"a file of data cannot hold a {name}: of classifiers it can hold {', '.join(_STORES)}. Take one of these, "
            f"or keep the {name} in a file of its own format and give the field its probabilities"
        )
    return {**store(model), "classes": np.asarray(model.classes_)}


class StoredClassifier:
    """A classifier from a file, which can predict, but not be fitted again."""

    def __init__(self, stored: Mapping[str, Any]):
        self.stored = dict(stored)
        self.classes_ = np.asarray(stored["classes"])
        if stored["link"] not in _LINKS or stored["kind"] not in ("linear", *_PRECISIONS):
            raise ValueError(f"a stored classifier of the unknown kind {stored['kind']!r}, {stored['link']!r}")
        before = stored.get("before")
        self.is_text_transformer = before is not None and is_text_transformer(before)
        self._before = None if before is None else rebuild_sklearn_transformer(before)

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities (n, L), or for several labels a list of (n, 2) as scikit-learn does."""
        stored = self.stored
        X = X if self._before is None else self._before.transform(X)
        if stored["kind"] == "linear":
            return _probabilities(np.asarray(X @ stored["weights"] + stored["intercept"]), stored["link"])
        means = _leaf_sums(X, stored) / (stored["n_rounds"] if stored["kind"] == "trees" else 1)
        if stored["link"] == _SHARES:
            return [np.column_stack([1.0 - shares, shares]) for shares in means.T]
        if stored["kind"] == "trees":
            return means / means.sum(axis=1, keepdims=True)
        return _probabilities(means + stored["intercept"], stored["link"])


def _probabilities(scores: np.ndarray, link: str) -> np.ndarray:
    if link == _SOFTMAX:
        return softmax(scores, axis=1)
    if link == _SIGMOID:
        return np.hstack([expit(-scores), expit(scores)])
    each = expit(scores)
    return each / each.sum(axis=1, keepdims=True)


def _leaf_sums(X: Any, stored: Mapping[str, Any]) -> np.ndarray:
    """Sum the leaf values of inputs over trees, (n, outputs)."""
    rows = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=_PRECISIONS[stored["kind"]])
    feature, threshold, children = stored["feature"], stored["threshold"], stored["children"]
    every, sums = np.arange(len(rows)), np.zeros((len(rows), int(stored["n_outputs"])))
    for root, output in zip(stored["roots"].tolist(), stored["outputs"].tolist(), strict=True):
        node = np.full(len(rows), root)
        while True:
            value = rows[every, feature[node]]
            right = np.where(np.isnan(value), ~stored["missing_left"][node], value > threshold[node])
            below = children[node, right.astype(np.intp)]
            if np.array_equal(below, node):
                break
            node = below
        values = stored["values"][node]
        if output < 0:
            sums += values
        else:
            sums[:, output] += values[:, 0]
    return sums


def _linear(model: BaseEstimator) -> dict[str, Any]:
    weights, binary = model.coef_.T, len(model.classes_) == 2
    each = getattr(model, "solver", "") == "liblinear"
    link = _SIGMOID if binary else _EACH if each else _SOFTMAX
    return {"kind": "linear", "link": link, "weights": weights, "intercept": model.intercept_}


def _trees(model: BaseEstimator) -> dict[str, Any]:
    trees = [each.tree_ for each in getattr(model, "estimators_", [model])]
    several = trees[0].n_outputs > 1
    if several and set(model.n_classes_) != {2}:
        raise TypeError("a file of data holds a forest of several labels where each has two values: fit one for each")
    parts = [
        {
            "feature": tree.feature,
            "threshold": tree.threshold,
            "children": np.column_stack([tree.children_left, tree.children_right]),
            "leaf": tree.children_left < 0,
            "missing_left": np.asarray(tree.missing_go_to_left, dtype=bool),
            "values": shares[:, :, 1] if several else shares[:, 0],
        }
        for tree in trees
        for shares in [tree.value / tree.value.sum(axis=2, keepdims=True)]
    ]
    own = {"kind": "trees", "link": _SHARES if several else _SOFTMAX, "n_outputs": len(model.classes_)}
    return {**own, **_join_trees(parts, [-1] * len(parts), len(parts))}


def _boosting(model: BaseEstimator) -> dict[str, Any]:
    if model._preprocessor is not None:
        raise TypeError("a file of data cannot hold boosting on categories: encode them as numbers first")
    rounds = model._predictors
    nodes = [predictor.nodes for each in rounds for predictor in each]
    parts = [
        {
            "feature": own["feature_idx"].astype(np.int64),
            "threshold": own["num_threshold"],
            "children": np.column_stack([own["left"], own["right"]]).astype(np.int64),
            "leaf": own["is_leaf"].astype(bool),
            "missing_left": own["missing_go_to_left"].astype(bool),
            "values": own["value"][:, None],
        }
        for own in nodes
    ]
    n_outputs = len(rounds[0])
    outputs = [output for each in rounds for output in range(len(each))]
    link = _SIGMOID if n_outputs == 1 else _SOFTMAX
    intercept = np.asarray(model._baseline_prediction).reshape(1, -1)
    joined = _join_trees(parts, outputs, len(rounds))
    return {"kind": "boosting", "link": link, "n_outputs": n_outputs, "intercept": intercept, **joined}


def _join_trees(parts: list[dict[str, np.ndarray]], outputs: list[int], n_rounds: int) -> dict[str, Any]:
    """Concatenate the nodes of trees; leaves become their own children and test the first feature."""
    roots = np.cumsum([0, *(len(part["leaf"]) for part in parts[:-1])])
    own = [np.arange(len(part["leaf"]))[:, None] for part in parts]
    children = [
        np.where(part["leaf"][:, None], mine, part["children"]) + root
        for part, mine, root in zip(parts, own, roots, strict=True)
    ]
    leaf = np.concatenate([part["leaf"] for part in parts])
    return {
        "feature": np.where(leaf, 0, np.concatenate([part["feature"] for part in parts])),
        "threshold": np.where(leaf, 0.0, np.concatenate([part["threshold"] for part in parts])),
        "children": np.concatenate(children),
        "missing_left": np.concatenate([part["missing_left"] for part in parts]),
        "values": np.concatenate([part["values"] for part in parts]),
        "roots": roots,
        "outputs": np.array(outputs),
        "n_rounds": n_rounds,
    }


_STORES = {
    "LogisticRegression": _linear,
    "LogisticRegressionCV": _linear,
    "LinearDiscriminantAnalysis": _linear,
    "DecisionTreeClassifier": _trees,
    "ExtraTreeClassifier": _trees,
    "RandomForestClassifier": _trees,
    "ExtraTreesClassifier": _trees,
    "HistGradientBoostingClassifier": _boosting,
}
