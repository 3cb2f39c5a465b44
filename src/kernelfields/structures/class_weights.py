"""Weights of classes: samples count as much as their class, as in scikit-learn's ``class_weight``.

balanced     w_k = sum_j W_j / (number of classes present * W_k)     W_k the total weight of class k
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.reading import balanced_weights, find_place
from kernelfields.numerics.parameters import is_real

PackedData = TypeVar("PackedData", bound=Packed)


def check_class_weight(class_weight: object) -> None:
    """Raise unless ``class_weight`` is None, "balanced" or a mapping of labels to weights."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"class_weight must be None, 'balanced' or a dict of labels, got {class_weight!r}")
    for label, weight in class_weight.items():
        if not is_real(weight) or not 0 <= weight < np.inf:
            raise ValueError(f"class_weight[{label!r}] must be a finite number of at least 0, got {weight!r}")


def weigh_samples(samples: PackedData, classes: np.ndarray, class_weight: str | Mapping | None) -> PackedData:
    """Multiply the weights of samples by the weights of their classes, as in scikit-learn.

    A sample of which nothing is known keeps its weight; where several labels are possible, it has the mean of theirs.
    """
    if class_weight is None:
        return samples
    shares = samples.given.shares(len(classes))
    if isinstance(class_weight, str):
        weights = balanced_weights(samples.weights @ shares)
    else:
        places = {label: place for place, label in enumerate(classes.tolist())}
        weights = np.ones(len(classes))
        for label, weight in class_weight.items():
            weights[find_place(label, places, "class_weight names")] = weight
    known = shares.sum(axis=1)
    weighed = samples.weights * np.divide(shares @ weights, known, out=np.ones(len(known)), where=known > 0)
    if not weighed.any():
        raise ValueError("class_weight and sample_weight leave everything a weight of zero")
    return replace(samples, weights=weighed)
