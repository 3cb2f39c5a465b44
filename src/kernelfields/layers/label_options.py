"""The labels of a layer: their names, the ignored label, and their weights in the loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from kernelfields.data.reading import find_place
from kernelfields.numerics.parameters import check_count, is_whole


def read_names(labels: Any) -> list:
    """Return the names of labels, or numbers if a count is given."""
    if is_whole(labels):
        check_count(labels, "labels")
        return list(range(int(labels)))
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"labels must be their number or a sequence of their names, got {labels!r}")
    names = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"labels must be different names, at least one, got {names!r:.80}")
    return names


def read_ignored(ignore_index: Any, n_labels: int) -> int | None:
    """Return the checked label of ignored positions."""
    if ignore_index is None:
        return None
    if not is_whole(ignore_index) or -1 <= ignore_index < n_labels:
        raise ValueError(
            f"ignore_index must be None or a whole number that is no label and not -1, which is an unknown label, "
            f"got {ignore_index!r}"
        )
    return int(ignore_index)


def read_weights(given: Any, labels: list) -> np.ndarray | None:
    """Return the checked weights of labels, (L,)."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        places, weights = {label: place for place, label in enumerate(labels)}, np.ones(len(labels))
        for label, weight in given.items():
            weights[find_place(label, places, "label_weights name")] = weight
    else:
        weights = np.array(given.tolist() if isinstance(given, torch.Tensor) else given, dtype=np.float64)
    if weights.shape != (len(labels),) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(f"label_weights must be {len(labels)} finite numbers of at least 0, got {given!r:.80}")
    return weights
