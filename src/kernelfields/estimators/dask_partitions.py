"""Partitions of a Dask collection on their workers: read, summed up for the client, turned into shards.

    read_partition  ->  summarised, to the client  ->  ShardPlan, to all  ->  planned_shard

All functions here are tasks. Fails: ValueError or TypeError with the number of the partition, and of the sequence
within it, before what any other function would have said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.engines.dask_shards import Shard
from kernelfields.features import FeatureDictEncoder, is_feature_sequences
from kernelfields.fields import Chains, ConstraintMasks, check_sample_weight, encode_labels, pack_inputs

_NO_FEATURE = "\0 no feature"


@dataclass
class Partition:
    """A partition as it was read: packed inputs, or feature dicts still to be encoded; labels; weights."""

    inputs: Any
    offsets: np.ndarray
    labels: list
    weights: np.ndarray


@dataclass
class PartitionSummary:
    """What the client learns of a partition; ``names`` are those of features, None for arrays."""

    n_sequences: int
    n_positions: int = 0
    width: int = 0
    sparse: bool = False
    dtype: Any = None
    names: list[str] | None = None
    classes: Any = None
    counts: Any = None
    weight: float = 0.0


@dataclass
class ShardPlan:
    """How partitions become shards: what the summaries of all of them say."""

    classes: np.ndarray
    encoder: FeatureDictEncoder | None
    dtype: Any
    masks: ConstraintMasks
    class_weights: np.ndarray | None
    n_threads: int


def read_partition(number: int, x: Any, y: Any, weights: Any) -> Partition | None:
    """Check and pack the sequences of a partition; None if it has none."""
    sequences, labels = list(x), list(y)
    if len(sequences) != len(labels):
        raise ValueError(
            f"partition {number}: X has {len(sequences)} sequences but y has {len(labels)}: each needs its labels"
        )
    if not sequences:
        return None
    try:
        if is_feature_sequences(sequences):
            inputs, offsets = sequences, np.concatenate([[0], np.cumsum([len(each) for each in sequences])])
        else:
            inputs, offsets = pack_inputs(sequences)
        return Partition(inputs, offsets, labels, _checked_weights(weights, len(sequences)))
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error


def _checked_weights(weights: Any, n_sequences: int) -> np.ndarray:
    given = None if weights is None else list(weights)
    if given is not None and len(given) == n_sequences and not any(given):
        return np.zeros(n_sequences)  # other partitions may hold all the weight
    return check_sample_weight(given, n_sequences)


def summarised(number: int, partition: Partition | None) -> PartitionSummary:
    """Return what the client needs to know of a partition."""
    if partition is None:
        return PartitionSummary(0)
    try:
        classes, counts = _seen_classes(partition)
        summary = PartitionSummary(
            len(partition.offsets) - 1,
            int(partition.offsets[-1]),
            classes=classes,
            counts=counts,
            weight=float(partition.weights.sum()),
            dtype=np.dtype(np.float64),
        )
        if isinstance(partition.inputs, list):
            return replace(summary, sparse=True, names=_feature_names(partition.inputs))
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error
    inputs = partition.inputs
    return replace(summary, width=inputs.shape[1], sparse=scipy.sparse.issparse(inputs), dtype=inputs.dtype)


def _feature_names(sequences: list) -> list[str]:
    # A partition may hold no feature at all where others do, and an encoder has to see one.
    names = FeatureDictEncoder().fit([*sequences, [{_NO_FEATURE: 1.0}]]).feature_names_
    return [name for name in names if name != _NO_FEATURE]


def _seen_classes(partition: Partition) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.diff(partition.offsets)
    try:
        seen = np.unique(np.concatenate([np.asarray(each) for each in partition.labels]))
    except (TypeError, ValueError):
        seen = np.empty(0)
    # Given as known, so that a partition may hold one class only.
    labels, classes = encode_labels(partition.labels, seen if len(seen) else None, lengths)
    return classes, np.bincount(labels, minlength=len(classes))


def planned_shard(number: int, partition: Partition, place: int, plan: ShardPlan) -> Shard:
    """Return the shard of a partition, at a place among those that are not empty."""
    try:
        if plan.encoder is not None:
            inputs, offsets = plan.encoder.transform(partition.inputs)
        else:
            inputs, offsets = partition.inputs.astype(plan.dtype, copy=False), partition.offsets
        labels, _ = encode_labels(partition.labels, plan.classes, np.diff(offsets))
        plan.masks.check_labels(labels, offsets, plan.classes)
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error
    weights = partition.weights
    if plan.class_weights is not None:
        weights = weights * np.add.reduceat(plan.class_weights[labels], offsets[:-1]) / np.diff(offsets)
    return Shard(Chains(inputs, offsets, labels, weights), place, plan.n_threads)
