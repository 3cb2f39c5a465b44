"""Small labelled sequences for the tests of searches."""

from __future__ import annotations

import numpy as np


def search_sequences(n_sequences=24, n_features=3, n_labels=3, longest=7, seed=0):
    """Sticky labels, and inputs spread around a centre per label: lists of (T, d) and (T,) arrays."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n_labels, n_features))
    X, y = [], []
    for index in range(n_sequences):
        labels = np.empty(int(random.integers(2, longest + 1)), dtype=np.int64)
        labels[0] = index % n_labels
        for t in range(1, len(labels)):
            labels[t] = labels[t - 1] if random.random() < 0.6 else random.integers(n_labels)
        X.append(centres[labels] + random.normal(size=(len(labels), n_features)))
        y.append(labels)
    return X, y


def as_entities(y):
    """The same labels as those of a scheme: O, B-X, and I-X where it may follow."""
    named = []
    for labels in y:
        tags = np.array(["O", "B-X", "I-X"])[labels]
        for t, tag in enumerate(tags):
            if tag == "I-X" and (t == 0 or tags[t - 1] == "O"):
                tags[t] = "B-X"
        named.append(tags)
    return named


def as_feature_dicts(X):
    """Rounded inputs as names, so that some are seen once only."""
    return [[{f"f{i}": str(round(value)) for i, value in enumerate(row)} for row in x] for x in X]


def per_token(estimator, X, y):
    """The default score of a search, from the methods of an estimator."""
    return estimator.log_likelihood(X, y) / sum(map(len, y))
