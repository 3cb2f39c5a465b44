"""Collections of labelled data, of which each process that fits together has some partitions.

    Dask bags                      one sequence or graph for each item
    Dask arrays and data frames    one row for each sample or instance; a block of rows is a partition
    lists of Delayed               one list of sequences or graphs, or one table, each

Estimators read partitions as they read data of one process. Processes exchange one summary of each: classes, weights of
labels, and the reader of its inputs. From these all of them make the same reader, and read their partitions by it:

    summarised, gathered  ->  reader and classes of all  ->  the data of this process

Partitions without items are dropped. Fails: what is wrong with a sequence is a ValueError or TypeError with the
number of its partition, and its number within, before the fit starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse

from kernelfields.data.dicts import FeatureDictEncoder
from kernelfields.data.readers import GraphReader, InputReader, TableReader
from kernelfields.data.reading import ItemNames, balanced_weights, check_sample_weight
from kernelfields.engines.choice import Partitions
from kernelfields.engines.engine import PackedData
from kernelfields.engines.together.placing import DataInParts
from kernelfields.objective.group import Group


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
    """Summary of a partition for all processes; without items there is no reader."""

    n_items: int = 0
    reader: InputReader | None = None
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float64))
    classes: np.ndarray = field(default_factory=lambda: np.empty(0))
    #: What the positions of each class weigh together; None where classes are the names of columns.
    totals: np.ndarray | None = None
    weight: float = 0.0


@dataclass
class Plan:
    """How partitions are read, from the summaries of all of them."""

    reader: InputReader
    classes: np.ndarray
    dtype: np.dtype
    class_weight: Any


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
    number: int, estimator: Estimator, X: Any, labels: Any, weights: Iterable[float] | None
) -> PartitionSummary:
    """Return the summary of a partition."""
    table, nouns = issubclass(estimator._reads, TableReader), estimator.item_names
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


def read_parts(
    group: Group, estimator: Estimator, X: Partitions, y: Partitions, sample_weight: Partitions | None
) -> tuple[InputReader, DataInParts, np.ndarray]:
    """Return how the partitions of all processes are read, those of this one, and the sorted classes."""
    table, nouns = issubclass(estimator._reads, TableReader), estimator.item_names
    weights: list[Any] = [None] * len(X.values) if sample_weight is None else sample_weight.values
    parts = [
        (number, _items(x, table), _items(labels, table), None if own is None else list(own))
        for number, x, labels, own in zip(X.numbers, X.values, y.values, weights, strict=True)
    ]
    summaries = [summarised(number, estimator, *part) for number, *part in parts]
    gathered = [each for own in group.gathered(list(zip(X.numbers, summaries, strict=True))) for each in own]
    found = {number: summary for number, summary in gathered if summary.n_items}
    if not found:
        raise ValueError(f"all {len(gathered)} partitions of X are empty: at least one {nouns.whole} is needed")
    _check_alike(found)
    classes, totals = _joined_classes(found)
    if not sum(summary.weight for summary in found.values()):
        raise ValueError(f"sample_weight is zero for every {nouns.whole}: nothing is left to fit")
    class_weight = estimator.class_weight
    if isinstance(class_weight, str):
        class_weight = dict(zip(classes.tolist(), balanced_weights(totals), strict=True))
    plan = Plan(
        _joined_reader([summary.reader for summary in found.values() if summary.reader is not None]),
        classes,
        np.result_type(*(summary.dtype for summary in found.values())),
        class_weight,
    )
    own = [part for part in parts if part[0] in found]
    data = _read(estimator, plan, own) if own else None
    sizes = group.gathered(0 if data is None else data.n_positions)
    if 0 in sizes:
        raise ValueError(
            f"process {sizes.index(0)} of the fit has no {nouns.whole} that counts: give every process partitions with "
            "items, or use fewer processes"
        )
    assert data is not None, "every process has positions"
    return plan.reader, DataInParts(data, sum(sizes), data.subset(slice(0, 0))), classes


def _read(estimator: Estimator, plan: Plan, parts: list[tuple[int, Any, Any, Any]]) -> PackedData:
    """Return the partitions of this process as one; what is wrong with one of them names it."""
    try:
        return _read_together(estimator, plan, parts)
    except (TypeError, ValueError):
        for part in parts:
            try:
                _read_together(estimator, plan, [part])
            except (TypeError, ValueError) as error:
                raise _named(part[0], error) from error
        raise


def _read_together(estimator: Estimator, plan: Plan, parts: list[tuple[int, Any, Any, Any]]) -> PackedData:
    X, labels = (_stacked([part[place] for part in parts]) for place in (1, 2))
    data = estimator._read_part(X, labels, plan.reader, plan.classes, plan.class_weight)
    own = [_checked_weights(weights, _count(x), estimator.item_names) for _, x, _, weights in parts]
    weighed = data.weights * np.concatenate(own)
    data = replace(data, inputs=data.inputs.astype(plan.dtype, copy=False), weights=weighed)
    # A sample of weight zero is none: it must not lend the basis a pivot either.
    return data.subset(weighed > 0) if issubclass(estimator._reads, TableReader) else data


def _stacked(parts: list[Any]) -> Any:
    """Return the items of lists, or the rows of tables, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], list):
        return [item for part in parts for item in part]
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.vstack(parts, format="csr")
    if hasattr(parts[0], "iloc"):
        from pandas import concat

        return concat(parts)
    return np.concatenate(parts)


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
