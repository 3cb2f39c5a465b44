"""Training data of a cluster: data of the client cut into shards, or Dask collections that never visit it.

    lists, tables                  checked and packed by the client, cut by positions into one shard for each worker
    Dask bags                      one sequence or graph for each item; a partition is a shard
    Dask arrays and data frames    one row for each sample or instance; a block of rows is a shard
    lists of Delayed               one list of sequences or graphs, or one table, each; each is a shard

Estimators read partitions as they read data of the client. The client gets one summary of each: classes, weights of
labels, and the reader of its inputs. From these it makes a reader of all, and every shard is read by that:

    summarised, to the client  ->  reader and classes of all  ->  planned_shard

Partitions without items are dropped. Fails: what is wrong with a sequence is a ValueError or TypeError with the
number of its partition, and its number within, before the fit starts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from kernelfields.data.dicts import FeatureDictEncoder
from kernelfields.data.readers import GraphReader, InputReader, TableReader
from kernelfields.data.reading import ItemNames, balanced_weights, check_sample_weight
from kernelfields.engines.dask.collections import PAIRED, is_delayed, partitions
from kernelfields.engines.dask.shards import SHARD, Shard, ShardGroup
from kernelfields.engines.engine import PackedData

if TYPE_CHECKING:
    from distributed import Client, Future


class Estimator(Protocol):
    """What reads the partitions of a collection."""

    _reads: type[InputReader]
    item_names: ItemNames
    class_weight: Any

    def _count_labels(self, y: Any, lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the sorted labels that y names, and what the positions of each weigh; names of columns, and None."""

    def _read_part(self, X: Any, y: Any, reader: Any, classes: np.ndarray, class_weight: Any) -> PackedData:
        """Return a part of the data of a fit, as a reader of all of them reads it."""


@dataclass
class PartitionSummary:
    """Summary of a partition for the client; without items there is no reader."""

    n_items: int = 0
    reader: InputReader | None = None
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    classes: np.ndarray = field(default_factory=lambda: np.empty(0))
    #: What the positions of each class weigh together; None where classes are the names of columns.
    totals: np.ndarray | None = None
    weight: float = 0.0


@dataclass
class ShardPlan:
    """How partitions become shards, from the summaries of all of them."""

    reader: InputReader
    classes: np.ndarray
    dtype: np.dtype
    class_weight: Any
    n_threads: int


def _items(values: Any, table: bool) -> Any:
    """Return the items of a partition: a table as it is, others as a list."""
    return values if table and hasattr(values, "shape") else list(values)


def _count(items: Any) -> int:
    return items.shape[0] if hasattr(items, "shape") else len(items)


def _checked_weights(weights: Iterable[float] | None, n_items: int, nouns: ItemNames) -> np.ndarray:
    given = None if weights is None else list(weights)
    if given is not None and len(given) == n_items and not any(given):
        return np.zeros(n_items)  # other partitions may hold all the weight
    return check_sample_weight(given, n_items, nouns)


def _named(number: int, error: Exception) -> Exception:
    return type(error)(f"partition {number}: {error}")


def summarised(
    number: int, estimator: Estimator, x: Iterable, y: Iterable, weights: Iterable[float] | None
) -> PartitionSummary:
    """Return the summary of a partition."""
    table, nouns = issubclass(estimator._reads, TableReader), estimator.item_names
    X, labels = _items(x, table), _items(y, table)
    n_items = _count(X)
    if n_items != _count(labels):
        whole = "row" if table else nouns.whole
        raise ValueError(
            f"partition {number}: X has {n_items} {whole}s but y has {_count(labels)}: each needs its labels"
        )
    if not n_items:
        return PartitionSummary()
    reader = estimator._reads()
    try:
        items = reader.learn_items(X)
        own = _checked_weights(weights, n_items, nouns)
        classes, totals = estimator._count_labels(labels, items.lengths, own)
    except (TypeError, ValueError) as error:
        raise _named(number, error) from error
    return PartitionSummary(n_items, reader, items.inputs.dtype, classes, totals, float(own.sum()))


def planned_shard(
    number: int, place: int, estimator: Estimator, plan: ShardPlan, x: Iterable, y: Iterable, weights: Any
) -> Shard:
    """Return the shard of a partition, at a place among those that are not empty."""
    table = issubclass(estimator._reads, TableReader)
    X, labels = _items(x, table), _items(y, table)
    try:
        data = estimator._read_part(X, labels, plan.reader, plan.classes, plan.class_weight)
    except (TypeError, ValueError) as error:
        raise _named(number, error) from error
    weighed = data.weights * _checked_weights(weights, len(data.weights), estimator.item_names)
    data = replace(data, inputs=data.inputs.astype(plan.dtype, copy=False), weights=weighed)
    # A sample of weight zero is none: it must not lend the basis a pivot either.
    return Shard(data.subset(weighed > 0) if table else data, place, plan.n_threads)


@dataclass
class ShardedData:
    """Labelled data of a collection, in shards on the workers where their partitions are."""

    group: ShardGroup
    n_positions: int
    #: Data like these without items, which have their types of nodes and of edges.
    nothing: PackedData

    #: The engine that data like these need, and what data of this process would have here.
    lie_with: ClassVar[str] = "dask"
    inputs: ClassVar[None] = None
    certain_labels: ClassVar[None] = None
    position_weights: ClassVar[None] = None


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
    client: Client, estimator: Estimator, X: object, y: object, sample_weight: object
) -> tuple[InputReader, ShardedData, np.ndarray]:
    """Put the items of collections into shards; return how they are read, the shards and the sorted classes."""
    table = issubclass(estimator._reads, TableReader)
    xs, ys = partitions(X, "X", table), partitions(y, "y", table)
    ws = [None] * len(xs) if sample_weight is None else partitions(sample_weight, "sample_weight", table)
    if not len(xs) == len(ys) == len(ws):
        raise ValueError(f"{PAIRED}: X has {len(xs)}, y has {len(ys)}, sample_weight has {len(ws)}")
    values = [*xs, *ys, *ws]
    computed = iter(client.compute([value for value in values if is_delayed(value)]))
    futures = [next(computed) if is_delayed(value) else value for value in values]
    parts = [futures[number :: len(xs)] for number in range(len(xs))]
    summaries = client.gather(
        [client.submit(summarised, number, estimator, *part, pure=False) for number, part in enumerate(parts)]
    )
    found = {number: summary for number, summary in enumerate(summaries) if summary.n_items}
    if not found:
        raise ValueError(
            f"all {len(parts)} partitions of X are empty: at least one {estimator.item_names.whole} is needed"
        )
    _check_alike(found)
    classes, totals = _joined_classes(found)
    if not sum(summary.weight for summary in found.values()):
        raise ValueError(f"sample_weight is zero for every {estimator.item_names.whole}: nothing is left to fit")
    balanced = isinstance(estimator.class_weight, str)
    plan = ShardPlan(
        _joined_reader([summary.reader for summary in found.values() if summary.reader is not None]),
        classes,
        np.result_type(*(summary.dtype for summary in found.values())),
        dict(zip(classes.tolist(), balanced_weights(totals), strict=True)) if balanced else estimator.class_weight,
        max(1, sum(client.nthreads().values()) // len(found)),
    )
    shards = [
        client.submit(planned_shard, number, place, estimator, plan, *parts[number], pure=False)
        for place, number in enumerate(found)
    ]
    group = ShardGroup(client, shards)
    sizes, nothing = zip(*group.ask(size_and_kind, SHARD), strict=True)
    return plan.reader, ShardedData(group, sum(sizes), nothing[0]), classes


def _check_alike(found: dict[int, PartitionSummary]) -> None:
    """Raise unless all partitions hold inputs of one kind and width, and labels of one kind."""
    first, one = next(iter(found.items()))
    for number, summary in found.items():
        expected, reader = one.reader, summary.reader
        assert expected is not None, "partitions with items have readers"
        assert reader is not None, "partitions with items have readers"
        kinds = ["arrays" if kind.encoder is None else "feature dicts" for kind in (expected, reader)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"partition {number} holds {kinds[1]} but partition {first} holds {kinds[0]}")
        if reader.sparse != expected.sparse:
            sparse, dense = (number, first) if reader.sparse else (first, number)
            raise ValueError(
                f"partition {sparse} is sparse but partition {dense} is dense: make all partitions one kind"
            )
        if reader.encoder is None and reader.n_features != expected.n_features:
            raise ValueError(
                f"partition {number} has {reader.n_features} features per {reader.nouns.part} but partition {first} "
                f"has {expected.n_features}: all partitions need the same columns"
            )
        if reader.columns != expected.columns:
            raise ValueError(
                f"the columns of partition {number} do not have the names of those of partition {first}: give all "
                "partitions the same columns in the same order"
            )
        strings = [part.classes.dtype.kind == "U" for part in (one, summary)]
        if strings[0] != strings[1]:
            names = ["strings" if each else "numbers" for each in strings]
            raise ValueError(
                f"labels mix strings and numbers: partition {first} has {names[0]}, partition {number} has "
                f"{names[1]}. Use one kind throughout, for example str(label)."
            )
        if summary.totals is None and summary.classes.tolist() != one.classes.tolist():
            raise ValueError(
                f"the columns of Y in partition {number} are not those of partition {first}: give all partitions the "
                "same labels in the same order"
            )


def _joined_reader(readers: list[InputReader]) -> InputReader:
    """Return the reader of all partitions: features and types are those of all, in order of first sight."""
    first = readers[0]
    if first.encoder is not None:
        names = dict.fromkeys(name for reader in readers for name in reader.names or ())
        first = replace(first, encoder=FeatureDictEncoder.from_spec(names), n_features=len(names))
    graphs = [reader for reader in readers if isinstance(reader, GraphReader)]
    if not isinstance(first, GraphReader):
        return first
    # Where a partition has none of a type that others have with inputs, nothing is known of these there.
    kinds = sorted((item for reader in graphs for item in reader.factors.items()), key=lambda item: item[1].n_features)
    factors = {name: dict(kinds)[name] for reader in graphs for name in reader.factors}
    types = [reader.node_types for reader in graphs if reader.node_types is not None]
    return replace(first, factors=factors, node_types=tuple(dict.fromkeys(sum(types, ()))) if types else None)


def _joined_classes(found: dict[int, PartitionSummary]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes of all partitions, and what the positions of each weigh; names of columns as is."""
    counted = [(summary.classes, summary.totals) for summary in found.values()]
    if any(totals is None for _, totals in counted):
        return counted[0][0], np.empty(0)
    classes, places = np.unique(np.concatenate([classes for classes, _ in counted]), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds one class only, {classes[0].item()!r}: fitting needs at least two labels")
    return classes, np.bincount(places, weights=np.concatenate([totals for _, totals in counted if totals is not None]))


# What follows runs on the workers.


def size_and_kind(shard: Shard) -> tuple[int, PackedData]:
    """Return the number of positions of a shard, and data like its own without items."""
    return shard.data.n_positions, shard.data.subset(slice(0, 0))
