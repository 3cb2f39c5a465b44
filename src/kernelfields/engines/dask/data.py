"""Training data of a cluster: chains of the client cut into shards, or Dask collections that never visit it.

    lists of arrays             checked and packed by the client, cut by positions into one shard for each worker
    Dask bags                   one sequence for each item; a partition is a shard
    lists of Delayed            one list of sequences each; each is a shard

The client gets one summary of each partition of a collection: classes, weights of labels, width and kind of inputs,
names of features. From these it makes a plan that all shards follow:

    read_partition  ->  summarised, to the client  ->  ShardPlan, to all  ->  planned_shard

Partitions without sequences are dropped. Fails: what is wrong with a sequence is a ValueError or TypeError with the
number of its partition, and its number within, before the fit starts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from kernelfields.engines.dask.collections import PAIRED, is_delayed, partitions
from kernelfields.engines.dask.shards import Shard, ShardGroup
from kernelfields.engines.engine import PackedData
from kernelfields.features.dicts import FeatureDictEncoder
from kernelfields.features.readers import ChainReader, is_feature_sequences, shared_columns
from kernelfields.fields.chains import Chains, mean_label_weights, weigh_classes
from kernelfields.fields.constraints import ConstraintMasks, resolve_constraints
from kernelfields.fields.evidence import is_partial, label_shares, named_labels, read_labels
from kernelfields.fields.reading import Matrix, balanced_weights, check_sample_weight, pack_inputs
from kernelfields.inference.checks import check_evidence

if TYPE_CHECKING:
    from distributed import Client, Future

_NO_FEATURE = "\0 no feature"


@dataclass
class Partition:
    """A partition as it was read: packed inputs, or feature dicts still to be encoded; labels; weights."""

    inputs: Matrix | list
    offsets: np.ndarray
    labels: list
    weights: np.ndarray
    #: Names of the columns, where sequences are data frames.
    columns: list[str] | None = None


@dataclass
class PartitionSummary:
    """Summary of a partition for the client; ``names`` are those of features, None for arrays."""

    n_sequences: int
    n_positions: int = 0
    width: int = 0
    sparse: bool = False
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    names: list[str] | None = None
    columns: list[str] | None = None
    classes: np.ndarray = field(default_factory=lambda: np.empty(0))
    #: What the positions of each class weigh together.
    totals: np.ndarray = field(default_factory=lambda: np.empty(0))
    weight: float = 0.0


@dataclass
class ShardPlan:
    """How partitions become shards, from the summaries of all of them."""

    classes: np.ndarray
    encoder: FeatureDictEncoder | None
    dtype: np.dtype
    masks: ConstraintMasks
    class_weights: np.ndarray | None
    n_threads: int


def read_partition(
    number: int, x: Iterable[Sized], y: Iterable[object], weights: Iterable[float] | None
) -> Partition | None:
    """Check and pack the sequences of a partition; None if it has none."""
    sequences, labels = list(x), list(y)
    if len(sequences) != len(labels):
        raise ValueError(
            f"partition {number}: X has {len(sequences)} sequences but y has {len(labels)}: each needs its labels"
        )
    if not sequences:
        return None
    try:
        checked = _checked_weights(weights, len(sequences))
        if is_feature_sequences(sequences):
            offsets = np.concatenate([[0], np.cumsum(list(map(len, sequences)))])
            return Partition(sequences, offsets, labels, checked)
        inputs, offsets = pack_inputs(sequences)
        return Partition(inputs, offsets, labels, checked, shared_columns(sequences, "sequence"))
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error


def _checked_weights(weights: Iterable[float] | None, n_sequences: int) -> np.ndarray:
    given = None if weights is None else list(weights)
    if given is not None and len(given) == n_sequences and not any(given):
        return np.zeros(n_sequences)  # other partitions may hold all the weight
    return check_sample_weight(given, n_sequences)


def summarised(number: int, partition: Partition | None) -> PartitionSummary:
    """Return the summary of a partition."""
    if partition is None:
        return PartitionSummary(0)
    try:
        classes, totals = _seen_classes(partition)
        summary = PartitionSummary(
            len(partition.offsets) - 1,
            int(partition.offsets[-1]),
            classes=classes,
            totals=totals,
            weight=float(partition.weights.sum()),
            columns=partition.columns,
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
    partly = any(map(is_partial, partition.labels))
    try:
        seen = np.unique(np.concatenate([np.asarray(labels) for labels in partition.labels])) if not partly else None
    except (TypeError, ValueError):
        seen = np.empty(0)
    if seen is None:
        seen = named_labels(partition.labels, lengths)
    # Given as known, so that a partition may hold one class only.
    labels, evidence, classes = read_labels(partition.labels, seen if len(seen) else None, lengths)
    weights = np.repeat(partition.weights, lengths)
    if evidence is not None:
        return classes, weights @ label_shares(evidence)
    return classes, np.bincount(labels, weights, minlength=len(classes))


def planned_shard(number: int, partition: Partition, place: int, plan: ShardPlan) -> Shard:
    """Return the shard of a partition, at a place among those that are not empty."""
    try:
        if isinstance(partition.inputs, list):
            assert plan.encoder is not None, "sequences of features are encoded"
            inputs, offsets = plan.encoder.transform(partition.inputs)
        else:
            inputs, offsets = partition.inputs.astype(plan.dtype, copy=False), partition.offsets
        labels, evidence, _ = read_labels(partition.labels, plan.classes, np.diff(offsets))
        if evidence is None:
            plan.masks.check_labels(labels, offsets, plan.classes)
        elif plan.masks.any:
            check_evidence(plan.masks, evidence, offsets)
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error
    chains = Chains(inputs, offsets, labels, partition.weights, evidence)
    if plan.class_weights is not None:
        chains = replace(chains, weights=chains.weights * mean_label_weights(chains, plan.class_weights))
    return Shard(chains, place, plan.n_threads)


@dataclass
class ShardedChains:
    """Labelled chains of a collection, in shards on the workers where their partitions are."""

    group: ShardGroup
    n_positions: int

    #: The engine that data like these need.
    lie_with = "dask"


def shards_of(client: Client, data: PackedData) -> ShardGroup:
    """Cut sequences, graphs or instances into one shard for each worker, by positions, as many as it has threads."""
    threads = client.nthreads()
    ends = np.cumsum(list(threads.values())) / sum(threads.values())
    cuts = np.searchsorted(data.offsets, ends * data.n_positions)
    futures: list[Future] = []
    first = 0
    for (address, n_threads), last in zip(threads.items(), cuts.tolist(), strict=True):
        if last > first:
            piece = data.subset(slice(first, last))
            futures.append(
                _submit(client, Shard, piece, len(futures), n_threads, workers=[address], allow_other_workers=True)
            )
            first = last
    return ShardGroup(client, futures)


def _submit(client: Client, function: Callable, *arguments: object, **keywords: object) -> Future:
    with warnings.catch_warnings():
        # Data of the client travel as arguments: what is scattered could not be made again if a worker dies.
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        return client.submit(function, *arguments, pure=False, **keywords)


def read_collection(
    client: Client, X: object, y: object, sample_weight: object, *, constraints: Any, class_weight: Any
) -> tuple[ChainReader, ShardedChains, np.ndarray]:
    """Put the sequences of collections into shards; return how they are read, the shards and the sorted classes.

    Labels that ``constraints`` forbid are refused; classes have the weights of ``class_weight``.
    """
    xs, ys = partitions(X, "X"), partitions(y, "y")
    ws = [None] * len(xs) if sample_weight is None else partitions(sample_weight, "sample_weight")
    if not len(xs) == len(ys) == len(ws):
        raise ValueError(f"{PAIRED}: X has {len(xs)}, y has {len(ys)}, sample_weight has {len(ws)}")
    values = [*xs, *ys, *ws]
    computed = iter(client.compute([value for value in values if is_delayed(value)]))
    futures = [next(computed) if is_delayed(value) else value for value in values]
    n_parts = len(xs)
    parts = [client.submit(read_partition, number, *futures[number::n_parts], pure=False) for number in range(n_parts)]
    summaries = client.gather(client.map(summarised, range(len(parts)), parts, pure=False))
    kept = [number for number, summary in enumerate(summaries) if summary.n_sequences]
    if not kept:
        raise ValueError(f"all {len(parts)} partitions of X are empty: at least one sequence is needed")
    found = {number: summaries[number] for number in kept}
    _check_alike(found)
    classes, totals = _joined_classes(found)
    masks = resolve_constraints(constraints, classes)
    if not sum(summary.weight for summary in found.values()):
        raise ValueError("sample_weight is zero for every sequence: nothing is left to fit")
    encoder, n_features = None, found[kept[0]].width
    if found[kept[0]].names is not None:
        # In order of first sight, as one machine would see them.
        names = dict.fromkeys(name for summary in found.values() for name in summary.names or ())
        if not names:
            raise ValueError("X holds no features: every position is empty or all its weights are zero")
        encoder, n_features = FeatureDictEncoder.from_spec(names), len(names)
    plan = ShardPlan(
        classes,
        encoder,
        np.result_type(*(summary.dtype for summary in found.values())),
        masks,
        _class_weights(class_weight, classes, totals),
        max(1, sum(client.nthreads().values()) // len(kept)),
    )
    shards = [
        client.submit(planned_shard, number, parts[number], place, plan, pure=False)
        for place, number in enumerate(kept)
    ]
    reader = ChainReader(n_features, found[kept[0]].sparse, found[kept[0]].columns, encoder=encoder)
    n_positions = sum(summary.n_positions for summary in found.values())
    return reader, ShardedChains(ShardGroup(client, shards), n_positions), classes


def _check_alike(found: dict[int, PartitionSummary]) -> None:
    """Raise unless all partitions hold inputs of one kind and width."""
    first = next(iter(found))
    for number, summary in found.items():
        kinds = ["feature dicts" if one.names is not None else "arrays" for one in (found[first], summary)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"partition {number} holds {kinds[1]} but partition {first} holds {kinds[0]}")
        if summary.names is None and summary.sparse != found[first].sparse:
            sparse, dense = (number, first) if summary.sparse else (first, number)
            raise ValueError(
                f"partition {sparse} is sparse but partition {dense} is dense: make all partitions one kind"
            )
        if summary.names is None and summary.width != found[first].width:
            raise ValueError(
                f"partition {number} has {summary.width} features per position but partition {first} has "
                f"{found[first].width}: all partitions need the same columns"
            )
        if summary.columns != found[first].columns:
            raise ValueError(
                f"the columns of partition {number} do not have the names of those of partition {first}: give all "
                "sequences the same columns in the same order"
            )
        strings = [one.classes.dtype.kind == "U" for one in (found[first], summary)]
        if strings[0] != strings[1]:
            names = ["strings" if one else "numbers" for one in strings]
            raise ValueError(
                f"labels mix strings and numbers: partition {first} has {names[0]}, partition {number} has "
                f"{names[1]}. Use one kind throughout, for example str(label)."
            )


def _joined_classes(found: dict[int, PartitionSummary]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes of all partitions and what the positions of each weigh."""
    classes, places = np.unique(np.concatenate([summary.classes for summary in found.values()]), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds one class only, {classes[0].item()!r}: fitting needs at least two labels")
    totals = np.bincount(places, weights=np.concatenate([summary.totals for summary in found.values()]))
    return classes, totals


def _class_weights(class_weight: Any, classes: np.ndarray, totals: np.ndarray) -> np.ndarray | None:
    """Return the weight of each class, (L,); None where all are one."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        return balanced_weights(totals)
    n_labels = len(classes)
    # A sequence of one position for each class: what it weighs is the weight of the class.
    single = Chains(np.zeros((n_labels, 1)), np.arange(n_labels + 1), np.arange(n_labels))
    return weigh_classes(single, classes, class_weight).weights
