"""Collections of labelled data, with some partitions in each process of a joint fit.

    Dask bags                      one sequence or graph for each item
    Dask arrays and data frames    one row for each sample or instance; a block of rows is a partition
    lists of Delayed               one list of sequences or graphs, or one table, each

A process reads its partitions once, all of them as one, in the way of estimators that have all data. It tells the
others what they are like: classes, weights of labels, and the reader of their inputs. From these all make the same
reader, and what was read takes its columns and types:

    read, gathered  ->  reader and classes of all  ->  the data of this process

Structures of labels have ``learn_collection``, ``count_labels`` and ``read_part`` as methods. Partitions without items
are dropped. Raises ValueError or TypeError with the number of a partition and that of the sequence in it, before the
fit starts; partitions are read one by one for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
from sklearn.utils import _safe_indexing, get_tags

from kernelfields.data.dicts import with_categories
from kernelfields.data.given_labels import given_labels
from kernelfields.data.graph_reader import GraphReader
from kernelfields.data.readers import InputReader, apply_transformer, read_labels
from kernelfields.data.reading import ItemNames, balanced_weights, check_sample_weight
from kernelfields.data.table_reader import TableReader
from kernelfields.data.whole_numbers import concatenate_labels
from kernelfields.engines.choice import Partitions
from kernelfields.engines.engine import PackedData
from kernelfields.engines.together.placing import DataInParts
from kernelfields.numerics.containers import count_rows
from kernelfields.numerics.group import RUNNING, Group

Found = TypeVar("Found")


class PartsReader(Protocol):
    """A reader of the partitions of a collection: the structure of their labels."""

    reads: type[InputReader]
    new_reader: Callable[[Any], InputReader]
    #: What messages call items and their positions.
    item_names: ItemNames

    @property
    def class_weight(self) -> Any:
        """The weights of classes."""

    def count_labels(self, y: Any, lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the sorted labels of y, the total weight of each, and names of columns; None for no names."""

    def read_part(self, X: Any, y: Any, reader: Any, classes: np.ndarray, class_weight: Any) -> PackedData:
        """Read a part of the data of a fit by the reader of all data."""


#: A partition: its number, X, y, and the weights of its items or None.
Partition: TypeAlias = tuple[int, Any, Any, Any]


@dataclass
class Summary:
    """The summary of a process's partitions for the other processes."""

    #: The first of them that has items.
    number: int
    reader: InputReader
    dtype: np.dtype
    classes: np.ndarray
    #: What the positions of each class weigh together; None where classes are the names of columns.
    totals: np.ndarray | None
    weight: float


class Part:
    """Partitions of one process, read as one data set."""

    def __init__(self, structure: PartsReader, partitions: list[Partition]):
        self.X, self.y = (_stack([partition[place] for partition in partitions]) for place in (1, 2))
        reader = structure.new_reader(self.X)
        if reader.features is not None and get_tags(reader.features).requires_fit:
            raise ValueError("features that learn from data are for those of this process: apply them before")
        self.items = reader.learn_items(apply_transformer(reader.features, self.X))
        weights = [weight for *_, own in partitions for weight in own] if partitions[0][3] is not None else None
        if weights is not None and len(weights) == count_rows(self.X) and not any(weights):
            self.weights = np.zeros(len(weights))  # other processes may hold all the weight
        else:
            self.weights = check_sample_weight(weights, count_rows(self.X), structure.item_names)
        classes, totals = structure.count_labels(self.y, self.items.lengths, self.weights)
        self.summary = Summary(
            partitions[0][0], reader, self.items.inputs.dtype, classes, totals, float(self.weights.sum())
        )

    def read_items(self, reader: InputReader) -> Any:
        """Return the items, read again by a reader with all features and classes."""
        own = self.summary.reader
        if isinstance(reader, TableReader):
            return self.X  # checked once more, which costs little
        if reader.rows.encoder is not None:
            places = {name: column for column, name in enumerate(reader.rows.names or ())}
            inputs: Any = self.items.inputs
            columns = np.array([places[name] for name in own.rows.names or ()], dtype=inputs.indices.dtype)
            moved = (inputs.data, columns[inputs.indices], inputs.indptr)
            inputs = scipy.sparse.csr_array(moved, shape=(inputs.shape[0], len(places)))
            inputs.sort_indices()
            return replace(self.items, inputs=inputs)
        if isinstance(reader, GraphReader) and isinstance(own, GraphReader) and _types(reader) != _types(own):
            return reader.read_items(self.X)
        return self.items


def _types(reader: GraphReader) -> tuple:
    return reader.node_types, {name: kind.n_features for name, kind in reader.factors.items()}


def _items(values: Any, table: bool) -> Any:
    """Return the items of a partition: a table unchanged, other items as a list."""
    return values if table and hasattr(values, "shape") else list(values)


def read_parts(
    group: Group, structure: PartsReader, X: Partitions, y: Partitions, sample_weight: Partitions | None
) -> tuple[InputReader, DataInParts, np.ndarray]:
    """Return the reader of all partitions, the partitions of this process, and the sorted classes."""
    table, nouns = issubclass(structure.reads, TableReader), structure.item_names
    weights: list[Any] = [None] * len(X.values) if sample_weight is None else sample_weight.values
    partitions: list[Partition] = []
    for number, *given, own in zip(X.numbers, X.values, y.values, weights, strict=True):
        x, labels = (_items(each, table) for each in given)
        n_items, n_labelled = count_rows(x), count_rows(labels)
        if n_items != n_labelled:
            raise ValueError(
                f"partition {number}: X has {n_items} {'row' if table else nouns.whole}s but y has {n_labelled}: each "
                "needs its labels"
            )
        if n_items:
            partitions.append((number, x, labels, None if own is None else list(own)))
    part = _name_partition(lambda some: Part(structure, some), structure, partitions) if partitions else None
    told = group.gather(None if part is None else part.summary)
    found = [summary for summary in told if summary is not None]
    if not found:
        n_partitions = group.total(len(X.values))
        raise ValueError(f"all {n_partitions} partitions of X are empty: at least one {nouns.whole} is needed")
    _check_equal_kinds(found)
    classes, totals = _join_classes(found)
    if not sum(summary.weight for summary in found):
        raise ValueError(f"sample_weight is zero for every {nouns.whole}: nothing is left to fit")
    class_weight = structure.class_weight
    if isinstance(class_weight, str):
        class_weight = dict(zip(classes.tolist(), balanced_weights(totals), strict=True))
    reader, dtype = _join_readers([each.reader for each in found]), np.result_type(*(each.dtype for each in found))

    def packed(X: Any, y: Any, weights: np.ndarray, as_read: InputReader) -> PackedData:
        """Return packed items, read by the reader of all partitions."""
        data = structure.read_part(X, y, as_read, classes, class_weight)
        return replace(data, inputs=data.inputs.astype(dtype, copy=False), weights=data.weights * weights)

    def read(some: list[Partition]) -> tuple[PackedData, np.ndarray]:
        own = part if part is not None and some is partitions else Part(structure, some)
        data = packed(own.read_items(reader), own.y, own.weights, reader)
        # An item of weight zero is none: it must not lend the basis a pivot either.
        counts = data.weights > 0
        return data.drop_weightless(), counts

    data, counts = _name_partition(read, structure, partitions) if partitions else (None, np.zeros(0, dtype=bool))
    sizes = group.gather(0 if data is None else data.n_positions)
    if data is None or 0 in sizes:
        raise ValueError(
            f"process {sizes.index(0)} of the fit has no {nouns.whole} that counts: give every process partitions with "
            "items, or use fewer processes"
        )
    if reader.rows.apart:
        data = with_categories(reader.rows, data, group)
    shares = group.gather(int(counts.sum()))

    def read_some(as_read: InputReader, numbers: np.ndarray) -> PackedData:
        """Return items of all processes by number."""
        assert part is not None, "a process without items has ended above"
        share = group.find_share(shares)
        own = np.flatnonzero(counts)[numbers[(numbers >= share.start) & (numbers < share.stop)] - share.start]
        sent = [_take_items(part.X, own), _take_items(part.y, own), part.weights[own]]
        X, y, weights = (_stack(list(each)) for each in zip(*group.gather(sent), strict=True))
        return packed(X, y, weights, as_read)

    return reader, DataInParts(data, sum(sizes), group, read_some), classes


def learn_collection(
    self: Any, X: Partitions, y: Any, sample_weight: Any
) -> tuple[InputReader, DataInParts, np.ndarray]:
    """Learn the reader from the partitions of a collection in this process, as a structure does from all data."""
    if self.settings.get_params(deep=False).get("allowed") is not None:
        raise ValueError("allowed is for data of this process, and X is a Dask collection: leave it out")
    group = RUNNING.get()
    assert group is not None, "partitions are those of a process in a group"
    return read_parts(group, self, X, y, sample_weight)


def count_labels(self: Any, y: Any, lengths: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the sorted labels of y, and the total weight of each."""
    y = self.position_labels(self.training_labels(y, warn=True))
    # A part of the data may hold one class only.
    labels, partial, classes = read_labels(y, self.declared_classes, lengths, self.item_names, fewest=1)
    return classes, given_labels(labels, partial).totals(np.repeat(weights, lengths), len(classes))


def read_part(self: Any, X: Any, y: Any, reader: InputReader, classes: np.ndarray, class_weight: Any) -> PackedData:
    """Read a part of the data of a fit by the reader of all data."""
    return self.with_class_weight(class_weight).with_reader(reader, classes).read_training(X, y, None)


def _name_partition(
    read: Callable[[list[Partition]], Found], structure: PartsReader, partitions: list[Partition]
) -> Found:
    """Return the result of reading partitions as one; errors name a wrong partition, or different partitions."""
    try:
        return read(partitions)
    except (TypeError, ValueError):
        for partition in partitions:
            try:
                read([partition])
            except (TypeError, ValueError) as error:
                raise type(error)(f"partition {partition[0]}: {error}") from error
        _check_equal_kinds([Part(structure, [partition]).summary for partition in partitions])
        raise


def _take_items(values: Any, numbers: np.ndarray) -> Any:
    """Return some items of a list, or some rows of a table."""
    return [values[number] for number in numbers] if isinstance(values, list) else _safe_indexing(values, numbers)


def _stack(parts: list[Any]) -> Any:
    """Return the concatenated items of lists, or rows of tables of one kind."""
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(part, list) for part in parts):
        return [item for part in parts for item in part]
    if any(map(scipy.sparse.issparse, parts)):
        if not all(map(scipy.sparse.issparse, parts)):
            raise ValueError("some tables are sparse, others dense: make all of them one kind")
        return scipy.sparse.vstack(parts, format="csr")
    if hasattr(parts[0], "iloc"):
        from pandas import concat

        if any(list(getattr(part, "columns", ())) != list(getattr(parts[0], "columns", ())) for part in parts):
            raise ValueError("the columns of some tables do not have the names of others")
        return concat(parts)
    return np.concatenate(parts)


def _check_equal_kinds(found: list[Summary]) -> None:
    """Raise unless all partitions hold inputs of one kind and width, and labels of one kind."""
    one = found[0]
    first, expected = one.number, one.reader
    for summary in found:
        number, reader = summary.number, summary.reader
        kinds = ["arrays" if kind.rows.encoder is None else "feature dicts" for kind in (expected, reader)]
        if kinds[0] != kinds[1]:
            raise ValueError(f"partition {number} holds {kinds[1]} but partition {first} holds {kinds[0]}")
        if reader.rows.sparse != expected.rows.sparse:
            sparse, dense = (number, first) if reader.rows.sparse else (first, number)
            raise ValueError(
                f"partition {sparse} is sparse but partition {dense} is dense: make all partitions one kind"
            )
        if reader.rows.encoder is None and reader.rows.n_features != expected.rows.n_features:
            raise ValueError(
                f"partition {number} has {reader.rows.n_features} features per {reader.nouns.part} but partition "
                f"{first} has {expected.rows.n_features}: all partitions need the same columns"
            )
        if reader.rows.columns != expected.rows.columns:
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


def _join_readers(readers: list[InputReader]) -> InputReader:
    """Return the reader of all partitions, with the union of features and types in order of appearance."""
    first = readers[0]
    if first.rows.encoder is not None:
        names = dict.fromkeys(name for reader in readers for name in reader.rows.names or ())
        first = replace(first, rows=first.rows.with_names(list(names)))
    graphs = [reader for reader in readers if isinstance(reader, GraphReader)]
    if not isinstance(first, GraphReader):
        return first
    # Where a partition has none of a type that others have with inputs, nothing is known of these there.
    kinds = sorted((item for reader in graphs for item in reader.factors.items()), key=lambda item: item[1].n_features)
    factors = {name: dict(kinds)[name] for reader in graphs for name in reader.factors}
    types = [reader.node_types for reader in graphs if reader.node_types is not None]
    return replace(first, factors=factors, node_types=tuple(dict.fromkeys(sum(types, ()))) if types else None)


def _join_classes(found: list[Summary]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes of all partitions, and the weight of the positions of each; column names unchanged."""
    counted = [(summary.classes, summary.totals) for summary in found]
    if any(totals is None for _, totals in counted):
        return counted[0][0], np.empty(0)
    classes, places = np.unique(concatenate_labels([classes for classes, _ in counted]), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y holds one class only, {classes[0].item()!r}: fitting needs at least two labels")
    return classes, np.bincount(places, weights=np.concatenate([totals for _, totals in counted if totals is not None]))
