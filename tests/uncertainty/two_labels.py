"""Sequences with two labels, those of a fit and others held out, as arrays and as tables."""

import numpy as np
import pytest

LINEAR = {"kernel": "linear", "prior_variance": 1.0, "scale": False, "random_state": 0}


def draw(count, seed, length=4):
    random = np.random.default_rng(seed)
    X = [random.normal(size=(length, 2)) for _ in range(count)]
    return X, [np.where(x[:, 0] + random.normal(size=length) > 0, "a", "b").tolist() for x in X]


X, Y = draw(30, 0)
HELD, LABELS = draw(30, 1)
NEW = HELD[:5]


def frame_of(X, y=None):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.concatenate(X), columns=["f0", "f1"])
    frame.insert(0, "sequence", np.repeat(np.arange(len(X)), [len(x) for x in X]))
    return frame if y is None else frame.assign(label=np.concatenate(y))


def same(one, other):
    if isinstance(one, list | tuple) and not hasattr(one, "_fields"):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return one == other
