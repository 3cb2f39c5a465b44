"""Training data of a cluster: sequences of the client cut into shards, or Dask collections that never visit it.

    lists of arrays             checked and packed here, cut by positions into one shard for each worker
    Dask bags                   one sequence for each item; a partition is a shard
    lists of Delayed            one list of sequences each; each is a shard

Of a collection the client learns one summary per partition: classes, counts of labels, width and kind of inputs,
names of features. From these it makes a plan that all shards follow. Partitions without sequences are dropped.
Fails: what is wrong with a sequence is raised before the fit starts, with the number of its partition.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.engines.dask_group import ShardGroup
from kernelfields.engines.dask_shards import Shard
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.class_weights import weigh_classes
from kernelfields.estimators.dask_partitions import (
    PartitionSummary,
    ShardPlan,
    planned_shard,
    read_partition,
    summarised,
)
from kernelfields.features import FeatureDictEncoder
from kernelfields.fields import Chains, ConstraintMasks, resolve_constraints

_PAIRED = "X and y (and sample_weight) must be Dask bags, or lists of Delayed, with the same partitions"


@dataclass
class TrainingShards:
    """Labelled chains in shards, and what the client knows of them."""

    inputs: ChainInputs
    classes: np.ndarray
    masks: ConstraintMasks
    group: ShardGroup
    n_positions: int


def is_dask_collection(X: Any) -> bool:
    """Whether X is a Dask collection, or a list of Delayed or of futures; loads nothing."""
    if "dask" not in sys.modules:
        return False
    import dask

    if isinstance(X, list | tuple):
        return len(X) > 0 and all(_is_lazy(each) for each in X)
    return dask.is_dask_collection(X)


def _is_delayed(value: Any) -> bool:
    import dask

    return dask.is_dask_collection(value)


def _is_lazy(value: Any) -> bool:
    return _is_delayed(value) or (type(value).__name__ == "Future" and hasattr(value, "key"))


def training_shards(
    client: Any, crf: Any, X: Any, y: Any, sample_weight: Any, *, keep_zeros: bool = False
) -> TrainingShards:
    """Put training data into shards on the workers; ``crf`` says how classes weigh and what is forbidden.

    ``keep_zeros`` lets features of weight zero in feature dicts of the client count as seen.
    """
    if is_dask_collection(X):
        return _shards_of_collection(client, crf, X, y, sample_weight)
    if is_dask_collection(y):
        raise TypeError(f"{_PAIRED}, got X of type {type(X).__name__}")
    inputs = ChainInputs()
    chains, classes = inputs.fit_chains(X, y, sample_weight, keep_zeros=keep_zeros)
    chains = weigh_classes(chains, classes, crf.class_weight)
    masks = resolve_constraints(crf.constraints, classes)
    masks.check_labels(chains.labels, chains.offsets, classes)
    return TrainingShards(inputs, classes, masks, shards_of_chains(client, chains), chains.n_positions)


def shards_of_chains(client: Any, chains: Chains) -> ShardGroup:
    """Cut chains into one shard for each worker, by positions, in proportion to their threads."""
    threads = client.nthreads()
    ends = np.cumsum(list(threads.values())) / sum(threads.values())
    cuts = np.searchsorted(chains.offsets, ends * chains.n_positions)
    futures: list[Any] = []
    first = 0
    for (address, n_threads), last in zip(threads.items(), cuts.tolist(), strict=True):
        if last > first:
            piece = chains.subset(slice(first, last))
            futures.append(
                _submit(client, Shard, piece, len(futures), n_threads, workers=[address], allow_other_workers=True)
            )
            first = last
    return ShardGroup(client, futures)


def _submit(client: Any, function: Any, *arguments: Any, **keywords: Any) -> Any:
    with warnings.catch_warnings():
        # Data of the client travel as arguments: what is scattered could not be made again if a worker dies.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return client.submit(function, *arguments, pure=False, **keywords)


def partitions(collection: Any, name: str) -> list[Any]:
    """Return one Delayed, or future, for each partition of a bag or list."""
    if isinstance(collection, list | tuple):
        return list(collection)
    if type(collection).__name__ == "Bag":
        # As it is: X and y often come from one reading, which optimising each by itself would do twice.
        return collection.to_delayed(optimize_graph=False)
    raise TypeError(
        f"{name} is a Dask {type(collection).__name__}: pass a Dask bag with one sequence for each item, or a "
        "list of Delayed; sequences_of_rows and sequences_of_frame make bags of arrays and data frames"
    )


def _shards_of_collection(client: Any, crf: Any, X: Any, y: Any, sample_weight: Any) -> TrainingShards:
    if not is_dask_collection(y) or not (sample_weight is None or is_dask_collection(sample_weight)):
        raise TypeError(f"{_PAIRED}, got y of type {type(y).__name__}")
    xs, ys = partitions(X, "X"), partitions(y, "y")
    ws = [None] * len(xs) if sample_weight is None else partitions(sample_weight, "sample_weight")
    if not len(xs) == len(ys) == len(ws):
        raise ValueError(f"{_PAIRED}: X has {len(xs)}, y has {len(ys)}, sample_weight has {len(ws)}")
    lazy = [each for each in (*xs, *ys, *ws) if _is_delayed(each)]
    computed = iter(client.compute(lazy))
    xs, ys, ws = ([next(computed) if _is_delayed(each) else each for each in part] for part in (xs, ys, ws))
    parts = [
        client.submit(read_partition, number, *each, pure=False)
        for number, each in enumerate(zip(xs, ys, ws, strict=True))
    ]
    summaries = client.gather(client.map(summarised, range(len(parts)), parts, pure=False))
    kept = [number for number, each in enumerate(summaries) if each.n_sequences]
    if not kept:
        raise ValueError(f"all {len(parts)} partitions of X are empty: at least one sequence is needed")
    found = {number: summaries[number] for number in kept}
    _check_alike(found)
    classes, counts = _joined_classes(found)
    masks = resolve_constraints(crf.constraints, classes)
    if not sum(each.weight for each in found.values()):
        raise ValueError("sample_weight is zero for every sequence: nothing is left to fit")
    encoder, n_features = None, found[kept[0]].width
    if found[kept[0]].names is not None:
        # In order of first sight, as one machine would see them.
        names = dict.fromkeys(name for each in found.values() for name in each.names or ())
        if not names:
            raise ValueError("X holds no features: every position is empty or all its weights are zero")
        encoder, n_features = FeatureDictEncoder.from_spec(names), len(names)
    plan = ShardPlan(
        classes,
        encoder,
        np.result_type(*(each.dtype for each in found.values())),
        masks,
        _class_weights(crf.class_weight, classes, counts),
        max(1, sum(client.nthreads().values()) // len(kept)),
    )
    futures = [
        client.submit(planned_shard, number, parts[number], place, plan, pure=False)
        for place, number in enumerate(kept)
    ]
    inputs = ChainInputs(n_features, found[kept[0]].sparse, encoder)
    n_positions = sum(each.n_positions for each in found.values())
    return TrainingShards(inputs, classes, masks, ShardGroup(client, futures), n_positions)


def _check_alike(found: dict[int, PartitionSummary]) -> None:
    """Raise unless all partitions hold inputs of one kind and width."""
    first = next(iter(found))
    for number, each in found.items():
        kinds = ["feature dicts" if one.names is not None else "arrays" for one in (found[first], each)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"partition {number} holds {kinds[1]} but partition {first} holds {kinds[0]}")
        if each.names is None and each.sparse != found[first].sparse:
            sparse, dense = (number, first) if each.sparse else (first, number)
            raise ValueError(
                f"partition {sparse} is sparse but partition {dense} is dense: make all partitions one kind"
            )
        if each.names is None and each.width != found[first].width:
            raise ValueError(
                f"partition {number} has {each.width} features per position but partition {first} has "
                f"{found[first].width}: all partitions need the same columns"
            )
        strings = [one.classes.dtype.kind == "U" for one in (found[first], each)]
        if strings[0] != strings[1]:
            names = ["strings" if one else "numbers" for one in strings]
            raise ValueError(
                f"labels mix strings and numbers: partition {first} has {names[0]}, partition {number} has "
                f"{names[1]}. Use one kind throughout, for example str(label)."
            )


def _joined_classes(found: dict[int, PartitionSummary]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes of all partitions and how many positions have each."""
    classes, places = np.unique(np.concatenate([each.classes for each in found.values()]), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds one class only, {classes[0].item()!r}: fitting needs at least two labels")
    counts = np.bincount(places, weights=np.concatenate([each.counts for each in found.values()]))
    return classes, counts


def _class_weights(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray | None:
    """Return the weight of each class, (L,); None where all are one."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        return counts.sum() / (len(classes) * counts)
    n_labels = len(classes)
    # A sequence of one position for each class: what it weighs is the weight of the class.
    single = Chains(np.zeros((n_labels, 1)), np.arange(n_labels + 1), np.arange(n_labels))
    return weigh_classes(single, classes, class_weight).weights
