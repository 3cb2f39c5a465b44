"""Sentences with cities, their file, and a model of them."""

import numpy as np
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, TextFeatures

CITIES = [["Rome"], ["New", "York"], ["Lima"], ["Los", "Angeles"]]
FRAMES = [("we", "saw", None), (None, "was", "far"), ("from", None, "to", None), ("no", "trains", "ran")]


def sentences(count, seed=0):
    random, X, y = np.random.default_rng(seed), [], []
    for _ in range(count):
        words, labels = [], []
        for part in FRAMES[random.integers(len(FRAMES))]:
            city = CITIES[random.integers(len(CITIES))] if part is None else [part]
            words += city
            labels += ["B-city", *["I-city"] * (len(city) - 1)] if part is None else ["O"]
        X.append(words)
        y.append(labels)
    return X, y


def written(X, y=None):
    """Return the text of a column file."""
    rows = (
        [[f"{word}\t{label}" for word, label in zip(*own, strict=True)] for own in zip(X, y, strict=True)] if y else X
    )
    return "\n\n".join("\n".join(own) for own in rows) + "\n"


def city_model():
    return make_pipeline(TextFeatures(), ChainCRF("linear", prior_variance=1.0, random_state=0)).fit(*sentences(30))
