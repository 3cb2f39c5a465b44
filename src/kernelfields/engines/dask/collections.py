"""Dask collections of sequences: bags and lists of Delayed, and bags made of Dask arrays and data frames.

    sequences_of_rows(array, lengths)                     (N, d) or (N,) rows, laid end to end
    sequences_of_frame(frame, "id", features, "label")    rows with the name of their sequence

Nothing is read before the bag is, but for the check that no sequence of a frame is cut between partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: What is said of arguments that do not go together.
PAIRED = "X and y (and sample_weight) must be Dask bags, or lists of Delayed, with the same partitions"


def is_delayed(value: Any) -> bool:
    """Whether a value is a lazy one of Dask."""
    import dask

    return dask.is_dask_collection(value)


def _is_lazy(value: Any) -> bool:
    from distributed import Future

    return is_delayed(value) or isinstance(value, Future)


def partitions(collection: Any, name: str) -> list[Any]:
    """Return one Delayed, or future, for each partition of a bag or list; TypeError for anything else."""
    if isinstance(collection, list | tuple) and all(map(_is_lazy, collection)):
        return list(collection)
    if type(collection).__name__ == "Bag":
        # As it is: X and y often come from one reading, which optimising each by itself would do twice.
        return collection.to_delayed(optimize_graph=False)
    if not is_delayed(collection):
        raise TypeError(f"{PAIRED}, got {name} of type {type(collection).__name__}")
    raise TypeError(
        f"{name} is a Dask {type(collection).__name__}: pass a Dask bag with one sequence for each item, or a "
        "list of Delayed; sequences_of_rows and sequences_of_frame make bags of arrays and data frames"
    )


def sequences_of_rows(array: Any, lengths: Any, n_partitions: int | None = None) -> Any:
    """Return a bag of the sequences whose rows a Dask array holds one after the other.

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
    chunks = (tuple(int(each.sum()) for each in groups), *((size,) for size in array.shape[1:]))
    blocks = array.rechunk(chunks).to_delayed().ravel()
    cut = dask.delayed(_cut_rows, pure=True)
    return dask.bag.from_delayed([cut(block, own) for block, own in zip(blocks, groups, strict=True)])


def sequences_of_frame(frame: Any, sequence: str, features: Sequence[str], label: str | None = None) -> Any:
    """Return a bag of the inputs (T, d) of each sequence of a Dask data frame; with ``label`` also one of labels.

    ``sequence`` names the column that tells sequences apart; their rows stand together and in order, and no
    sequence is cut between partitions.
    """
    import dask
    import dask.bag

    columns = [sequence, *features, *([] if label is None else [label])]
    if missing := [name for name in columns if name not in frame.columns]:
        raise ValueError(f"the frame has no column {missing[0]!r}: it has {', '.join(map(repr, frame.columns))}")
    parts = frame[columns].to_delayed()
    bounds = dask.compute(*[dask.delayed(_first_and_last)(part, sequence) for part in parts])
    before: Any = None
    for number, own in enumerate(bounds):
        if own is not None and before is not None and own[0] == before[1]:
            raise ValueError(
                f"sequence {own[0]!r} is cut between partitions {before[0]} and {number}: repartition the frame "
                f"so that each sequence lies in one, for example with frame.set_index({sequence!r})"
            )
        before = before if own is None else (number, own[1])
    inputs = dask.delayed(_frame_inputs, pure=True)
    X = dask.bag.from_delayed([inputs(part, sequence, list(features)) for part in parts])
    if label is None:
        return X
    labels = dask.delayed(_frame_labels, pure=True)
    return X, dask.bag.from_delayed([labels(part, sequence, label) for part in parts])


def _cut_rows(rows: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    return np.split(rows, np.cumsum(lengths)[:-1])


def _first_and_last(part: Any, sequence: str) -> tuple[Any, Any] | None:
    """Return the names of the first and the last sequence; ValueError if one comes back after another."""
    names = part[sequence].to_numpy(dtype=object)
    if not len(names):
        return None
    begins = names[np.concatenate([[0], _cuts(part, sequence)])].tolist()
    if len(set(begins)) < len(begins):
        raise ValueError(f"rows of one sequence do not stand together: sort the frame by {sequence!r} first")
    return names[0], names[-1]


def _cuts(part: Any, sequence: str) -> np.ndarray:
    """Return the rows where another sequence begins, but the first."""
    names = part[sequence].to_numpy(dtype=object)
    return np.flatnonzero(names[1:] != names[:-1]) + 1


def _frame_inputs(part: Any, sequence: str, features: list[str]) -> list[np.ndarray]:
    return np.split(part[features].to_numpy(), _cuts(part, sequence)) if len(part) else []


def _frame_labels(part: Any, sequence: str, label: str) -> list[np.ndarray]:
    return np.split(part[label].to_numpy(), _cuts(part, sequence)) if len(part) else []
