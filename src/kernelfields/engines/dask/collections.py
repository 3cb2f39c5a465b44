"""Dask collections: bags and lists of Delayed, rows of arrays and data frames, bags made of these, and answers.

    sequences_of_rows(array, lengths)                     (N, d) or (N,) rows, one sequence after the other
    sequences_of_frame(frame, "id", features, "label")    rows with the name of their sequence
    map_partitions(answer, X)                             answers for the sequences of each partition

Nothing is read before the bag is, except for the names of the sequences of a frame: each must lie in one partition.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.table_reader import TableReader
from kernelfields.numerics.containers import count_rows

if TYPE_CHECKING:
    from dask.array import Array
    from dask.bag import Bag
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed
    from distributed import Future
    from pandas import DataFrame as PandasFrame

#: The error for arguments that do not go together.
PAIRED = "X and y (and sample_weight) must be Dask bags, lists of Delayed, or tables of rows, with the same partitions"


def _is_lazy(value: object) -> bool:
    import dask
    from distributed import Future

    return dask.is_dask_collection(value) or isinstance(value, Future)


def partitions(collection: object, name: str, table: bool = False) -> list[Delayed | Future]:
    """Return one Delayed, or future, for each partition of a bag, list or ``table``; TypeError for other X."""
    from dask.bag import Bag

    if isinstance(collection, list | tuple) and all(map(_is_lazy, collection)):
        return list(collection)
    if isinstance(collection, Bag):
        # As it is: X and y often come from one reading, which optimising each by itself would do twice.
        return collection.to_delayed(optimize_graph=False)
    if not _is_lazy(collection):
        raise TypeError(f"{PAIRED}, got {name} of type {type(collection).__name__}")
    if table and hasattr(collection, "to_delayed"):
        # Of arrays, a block holds all columns of its rows.
        if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "rechunk"):
            collection = collection.rechunk({1: -1})
        return list(np.ravel(collection.to_delayed()))
    raise TypeError(
        f"{name} is a Dask {type(collection).__name__}: pass a Dask bag with one sequence for each item, or a "
        "list of Delayed; sequences_of_rows and sequences_of_frame make bags of arrays and data frames"
    )


def map_partitions(answer: Callable[[Any], Any], X: Any, table: bool = False) -> Bag | list[Delayed] | Array:
    """Return the answers for the items of a Dask bag as a bag, for a list of Delayed as a list of Delayed.

    Those for the rows of a ``table``, an array or a data frame, are an array. ``answer`` is sent once, as a task that
    all partitions share. Partitions without items have no answers.
    """
    import dask
    import dask.bag

    answered, shared = dask.delayed(_answer_partition, pure=False), dask.delayed(answer, traverse=False)
    parts = [answered(shared, part, number) for number, part in enumerate(partitions(X, "X", table))]
    if isinstance(X, list | tuple):
        return parts
    if isinstance(X, dask.bag.Bag):
        return dask.bag.from_delayed(parts)
    from dask.array import concatenate, from_delayed

    example = np.asarray(answer(X._meta_nonempty if hasattr(X, "columns") else np.zeros((1, X.shape[1]))))
    sizes = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(parts)
    as_block = dask.delayed(_as_block, pure=False)
    blocks = [
        from_delayed(as_block(part, example[:0]), (size, *example.shape[1:]), example.dtype)
        for part, size in zip(parts, sizes, strict=True)
    ]
    return concatenate(blocks, allow_unknown_chunksizes=True)


class Travelling(Protocol):
    """An estimator that can be sent to other processes."""

    @property
    def structure(self) -> Any:
        """The structure of the labels of an item."""

    def _picklable(self) -> Self:
        """Return a copy without attributes that cannot be pickled."""


def answer_by_partition(
    method: Callable[..., object],
    estimator: Travelling,
    X: Any,
    arguments: Sequence[object],
    settings: dict[str, object],
) -> object:
    """Return the answers of a method with one answer for each item of X, a collection like X."""
    check_is_fitted(estimator)
    chosen = dict(inspect.signature(method).bind(estimator, X, *arguments, **settings).arguments)
    del chosen["self"], chosen["X"]
    if chosen.get("cliques"):
        raise ValueError("cliques= gives two lists: ask for a partition of the collection at a time")
    if chosen.get("known") is not None:
        raise ValueError("known labels cannot be dealt out to a Dask collection: ask for a partition of it at a time")
    table = issubclass(estimator.structure.reads, TableReader)
    return map_partitions(partial(getattr(estimator._picklable(), method.__name__), **chosen), X, table)


def _answer_partition(answer: Callable[[Any], Any], part: Any, number: int) -> list[object]:
    """Return the answers for the items of one partition; a task on a worker."""
    items = part if hasattr(part, "shape") else list(part)
    try:
        return list(answer(items)) if count_rows(items) else []
    except (TypeError, ValueError) as error:
        raise type(error)(f"partition {number}: {error}") from error


def _as_block(answers: list[object], nothing: np.ndarray) -> np.ndarray:
    """Return the answers for the rows of a partition as an array; a task on a worker."""
    return np.asarray(answers) if answers else nothing


def sequences_of_rows(array: Array, lengths: ArrayLike, n_partitions: int | None = None) -> Bag:
    """Return a bag of sequences from a Dask array of concatenated rows.

    ``lengths`` are the rows of each sequence. Arrays of inputs and of labels cut into the same number of
    partitions go together; by default it is the number of chunks of the array.
    """
    import dask
    import dask.bag

    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not len(lengths) or lengths.min() < 1:
        raise ValueError("lengths must hold the number of rows of each sequence, whole numbers of at least 1")
    if np.isnan(array.shape[0]):
        raise ValueError("the chunks of the array have unknown sizes: call array.compute_chunk_sizes() first")
    if lengths.sum() != array.shape[0]:
        raise ValueError(f"lengths add up to {lengths.sum():,} rows, but the array has {array.shape[0]:,}")
    wanted = min(len(lengths), n_partitions or array.numblocks[0])
    ends = np.cumsum(lengths)
    cuts = np.unique(np.searchsorted(ends, np.linspace(0, ends[-1], wanted + 1)[1:]) + 1)
    groups = np.split(lengths, cuts[:-1])
    chunks = (tuple(int(group.sum()) for group in groups), *((size,) for size in array.shape[1:]))
    blocks = array.rechunk(chunks).to_delayed().ravel()
    cut = dask.delayed(np.split, pure=True)
    return dask.bag.from_delayed(
        [cut(block, np.cumsum(group)[:-1]) for block, group in zip(blocks, groups, strict=True)]
    )


def sequences_of_frame(
    frame: DataFrame, sequence: str, features: Sequence[str], label: str | None = None
) -> Bag | tuple[Bag, Bag]:
    """Return a bag of the inputs (T, d) of each sequence of a Dask data frame; with ``label`` also a bag of labels.

    ``sequence`` names the column that identifies sequences; their rows are adjacent and in order, and no sequence is
    cut between partitions.
    """
    import dask
    import dask.bag

    columns = [sequence, *features, *([] if label is None else [label])]
    if missing := [name for name in columns if name not in frame.columns]:
        raise ValueError(f"the frame has no column {missing[0]!r}: it has {', '.join(map(repr, frame.columns))}")
    parts = frame[columns].to_delayed()
    begun = dask.delayed(_sequence_names)
    seen: dict[object, int] = {}
    for number, names in enumerate(dask.compute(*[begun(part, sequence, place) for place, part in enumerate(parts)])):
        if (again := next((name for name in names if name in seen), None)) is not None:
            raise ValueError(
                f"sequence {again!r} is cut between partitions {seen[again]} and {number}: repartition the frame "
                f"so that each sequence lies in one, for example with frame.set_index({sequence!r})"
            )
        seen |= dict.fromkeys(names, number)
    cut = dask.delayed(_frame_sequences, pure=True)
    X = dask.bag.from_delayed([cut(part, sequence, list(features)) for part in parts])
    if label is None:
        return X
    return X, dask.bag.from_delayed([cut(part, sequence, label) for part in parts])


def _sequence_names(part: PandasFrame, sequence: str, number: int) -> list[object]:
    """Return the names of the sequences of a partition; ValueError if one is interrupted, or has no name."""
    names = part[sequence]
    if (missing := np.flatnonzero(names.isna().to_numpy())).size:
        raise ValueError(
            f"column {sequence!r} of partition {number} is missing in row {missing[0]}: each row needs the name of its "
            "sequence. Fill it or drop the row."
        )
    begins = names.iloc[np.concatenate([[0], _cuts(part, sequence)])].tolist() if len(part) else []
    if len(set(begins)) < len(begins):
        raise ValueError(f"rows of one sequence do not stand together: sort the frame by {sequence!r} first")
    return begins


def _cuts(part: PandasFrame, sequence: str) -> np.ndarray:
    """Return the rows that begin another sequence."""
    names = part[sequence].to_numpy(dtype=object)
    return np.flatnonzero(names[1:] != names[:-1]) + 1


def _frame_sequences(part: PandasFrame, sequence: str, columns: str | list[str]) -> list[np.ndarray]:
    """Return the values of some columns, or of one, for each sequence."""
    return np.split(part[columns].to_numpy(), _cuts(part, sequence)) if len(part) else []
