"""Weights of classes, as weights of sequences.

A chain's likelihood does not fall into parts for single positions, so a class weighs through the sequences it
occurs in: the weight of a sequence is multiplied by the mean weight of its labels,

    weight_i <- weight_i * mean_t c(y_t)

which for sequences of length one is scikit-learn's ``class_weight``. "balanced" gives label a the weight
N / (L N_a), so that every class has the same total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.estimators.parameters import is_real
from kernelfields.fields import Chains


def check_class_weight(class_weight: Any) -> None:
    """Raise unless ``class_weight`` is None, "balanced" or a mapping of labels to weights."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return
    if not isinstance(class_weight, Mapping):
        raise TypeError(f"class_weight must be None, 'balanced' or a dict of labels, got {class_weight!r}")
    for label, weight in class_weight.items():
        if not is_real(weight) or not 0 <= weight < np.inf:
            raise ValueError(f"class_weight[{label!r}] must be a finite number of at least 0, got {weight!r}")


def weigh_classes(chains: Chains, classes: np.ndarray, class_weight: Any) -> Chains:
    """Return labelled chains whose weights of sequences include those of the classes."""
    if class_weight is None:
        return chains
    if isinstance(class_weight, str):
        counts = np.bincount(chains.labels, minlength=len(classes))
        weights = chains.n_positions / (len(classes) * np.maximum(counts, 1))
    else:
        places = {label: place for place, label in enumerate(classes.tolist())}
        weights = np.ones(len(classes))
        for label, weight in class_weight.items():
            plain = label.item() if isinstance(label, np.generic) else label
            if plain not in places:
                shown = ", ".join(repr(known) for known in list(places)[:10])
                raise ValueError(f"class_weight names the unknown label {label!r}: known are {shown}")
            weights[places[plain]] = weight
    means = np.add.reduceat(weights[chains.labels], chains.starts) / chains.lengths
    weighed = chains.weights * means
    if not weighed.any():
        raise ValueError("class_weight and sample_weight leave every sequence a weight of zero")
    return replace(chains, weights=weighed)
