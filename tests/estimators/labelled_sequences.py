"""Small labelled sequences, in every form ChainCRF takes, for the tests in this folder."""

from __future__ import annotations

import itertools

import numpy as np

CLASSES = 3


def labelled_sequences(n_sequences=10, n_features=3, n_labels=CLASSES, longest=7, seed=0):
    """Sticky labels, and inputs spread around a centre per label: lists of (T, d) and (T,) arrays."""
    random = np.random.default_rng(seed)
    centres = 1.5 * random.normal(size=(n_labels, n_features))
    X, y = [], []
    for index in range(n_sequences):
        length = int(random.integers(2, longest + 1))
        labels = np.empty(length, dtype=np.int64)
        labels[0] = index % n_labels  # so that every label occurs
        for t in range(1, length):
            labels[t] = labels[t - 1] if random.random() < 0.6 else random.integers(n_labels)
        X.append(centres[labels] + random.normal(size=(length, n_features)))
        y.append(labels)
    return X, y


def as_words(labels):
    """The same labels as strings whose sorted order is that of the numbers."""
    return [np.array(["adj", "noun", "verb"])[each] for each in labels]


def all_labellings(length, n_labels=CLASSES):
    """Every labelling of a sequence, (L^T, T)."""
    return np.array(list(itertools.product(range(n_labels), repeat=length)))


def enumerated(crf, x):
    """Every labelling of one sequence and its probability, by asking for the likelihood of each."""
    labellings = all_labellings(len(x), len(crf.classes_))
    logs = crf.log_likelihood([x] * len(labellings), list(crf.classes_[labellings]), per_sequence=True)
    return labellings, np.exp(logs)
