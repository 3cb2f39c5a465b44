"""Sequences, labels and weights, checked and packed.

    inputs     a list of S arrays (T_i, d)      ->  (N, d), dense C-contiguous float32 or float64, or CSR with
                                                    sorted columns; offsets (S + 1,) int64
    labels     S lists of strings, whole        ->  indices (N,) into the sorted classes (L,)
               numbers or booleans, of one kind
    weights    one number per sequence          ->  (S,) float64

Graphs are packed in the same way, nodes in the place of positions; ``ItemNames`` has the words for either in messages.

A ``class_weight`` of "balanced" gives label a the weight N / (L N_a), so that every class has the same total. A sample
counts with its weight in N and in N_a, as if it were there so many times, and L are the classes that weigh anything.
What is passed as ``random_state`` becomes a Generator.

Cost: one copy of the data and O(N d) checks, O(nnz) for sparse inputs; O(N log L) for labels.
Raises ValueError or TypeError naming the sequence (counted from 0) and what to do about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp

from kernelfields.data import sequence_forms
from kernelfields.data.whole_numbers import MOST_EXACT, concatenate_labels, convert_type, restore_whole_numbers
from kernelfields.numerics.containers import (
    column_types,
    count_rows,
    find_column_names,
    find_shape,
    has_array,
    is_tensor,
    n_dimensions,
    refuse_containers,
    refuse_tensor,
)
from kernelfields.numerics.parameters import is_sequence
from kernelfields.numerics.sparse_rows import make_offsets
from kernelfields.numerics.threads import Workers
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.wording import inflect

#: Seeds of random draws.
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None
#: Rows of inputs: a dense array or CSR.
Matrix: TypeAlias = np.ndarray | sp.csr_array
_EXPECTED_X = "X must be a list of sequences, each an array of shape (rows, features) or a list of words"
_SEVERAL = (
    "If it holds several sequences end to end, pass lengths=, as in fit(X, y, lengths=[...]), or use FrameCRF for a "
    "table with a column of sequence ids."
)
# Types of the columns of data frames that hold numbers begin so.
_NUMBERS = ("bool", "int", "uint", "float", "double", "halffloat")
# Types whose values are labels, never partial ones.
_LABEL_TYPES = {str, int, bool, np.str_, np.int64, np.bool_}
# Messages list so many of the names that are known.
_SHOWN = 10


def random_generator(random_state: object) -> np.random.Generator:
    """Return a Generator for None, an int, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    try:
        return np.random.default_rng(random_state)  # type: ignore[arg-type]  # what it does not take is refused
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a whole number that is not negative, a Generator or a RandomState, "
            f"got {random_state!r}"
        ) from error


@dataclass(frozen=True)
class ItemNames:
    """Names of packed items in messages; the defaults are names of sequences."""

    whole: str = "sequence"
    part: str = "position"
    #: What is read of each whole, as in "node_features of graph 3"; empty for the whole itself.
    table: str = ""
    #: What to do about labels that are not known.
    unlabelled: str = "None where it is not known."
    #: What to do about words where numbers are needed.
    words: str = (
        "Words are lists of strings, with features='auto', and bytes become strings by decode(). Categories are "
        "feature dicts, one for each position, or columns of a table for kernelfields.FrameCRF. Make numbers of dates, "
        "or leave them out."
    )

    def name(self, index: int) -> str:
        """Return the name of item ``index`` in messages."""
        return f"{self.table}{self.whole} {index}"

    def place(self, offsets: np.ndarray, row: int) -> str:
        """Return the name of a packed row in messages."""
        whole, part = locate(offsets, row)
        return f"{self.name(whole)}, {self.part} {part}"


SEQUENCES = ItemNames()


class SampleNames(ItemNames):
    """Names of samples with one label each in messages: y is one list."""

    def name(self, index: int) -> str:
        """Return the name of the list in messages."""
        return "y" if index == 0 else super().name(index)

    def place(self, offsets: np.ndarray, row: int) -> str:
        """Return the name of a sample in messages."""
        return f"sample {row}"


SAMPLES = SampleNames(whole="list", part="sample")


def locate(offsets: np.ndarray, row: int) -> tuple[int, int]:
    """Return the sequence a packed row belongs to, and its position there."""
    sequence = int(np.searchsorted(offsets, row, side="right")) - 1
    return sequence, int(row - offsets[sequence])


def materialize_iterator(X: object) -> object:
    """Return X, an iterator as a list, so that it can be read twice."""
    return list(X) if isinstance(X, Iterator) else X


def listed(names: Iterable) -> str:
    """Return names as text for messages: "none" for no names, the first names of many."""
    known = list(names)
    shown = ", ".join(f"{plain_label(name)!r:.200}" for name in known[:_SHOWN]) or "none"
    return f"{shown} and {len(known) - _SHOWN} more" if len(known) > _SHOWN else shown


def plain_label(label: object) -> Any:
    """Convert a label of NumPy to a plain value of Python."""
    return label.item() if isinstance(label, np.generic) else label


def find_place(label: object, places: Mapping[Any, int], named: str, where: str = "") -> int:
    """Return the index of a label; ``named`` and ``where`` are the begin and the end of the error message."""
    plain = plain_label(label)
    if not isinstance(plain, Hashable) or plain not in places:
        raise ValueError(f"{named} the unknown label {label!r}{where}: known are {listed(places)}")
    return places[plain]


def is_listing(values: object) -> TypeGuard[Any]:
    """Whether values are a sequence that may hold named features.

    Arrays of numbers and sparse matrices are sequences as well, but hold no names. A table of strings looks like
    names, but its meaning is mostly in its columns.
    """
    if type(values) is np.ndarray:  # as most are, and there may be millions
        return values.dtype.kind == "O"
    return is_sequence(values) and getattr(values, "dtype", np.dtype(object)) == np.dtype(object)


def first_position(sequences: Iterable) -> tuple[int, int, object] | None:
    """Return number of sequence, number and content of the first nonempty position; None without one."""
    for index, sequence in enumerate(sequences):
        for number, position in enumerate(sequence if is_listing(sequence) else ()):
            if not sequence_forms.is_collection(position) or len(position):
                return index, number, position
    return None


def is_feature_sequences(X: object) -> bool:
    """Return whether inputs look like sequences of feature dicts or of lists of feature strings.

    Parameters
    ----------
    X : object
        The inputs.

    Returns
    -------
    bool
        The answer.

    Examples
    --------
    >>> from kernelfields.features import is_feature_sequences
    >>> is_feature_sequences([[{"word": "Ann"}]]), is_feature_sequences([[[1.0, 2.0]]])
    (True, False)
    """
    found = first_position(X) if is_listing(X) else None
    return found is not None and sequence_forms.is_feature_position(found[2])


def has_words(X: object) -> bool:
    """Whether X is a list of sequences of strings, one for each position."""
    for sequence in X if is_listing(X) else ():
        table = n_dimensions(sequence) > 1 or find_column_names(sequence) is not None
        if table or not is_sequence(sequence) or len(sequence):
            return not table and is_sequence(sequence) and isinstance(next(iter(sequence)), str)
    return False


def pack_inputs(X: object, *, finite: bool = True, width: int | None = None) -> tuple[Matrix, np.ndarray]:
    """Stack a list of per-sequence arrays into one (N, d) array or CSR; return it with the offsets.

    float32 is kept when every sequence is float32, and float16 becomes it; everything else becomes float64.
    ``finite=False`` lets NaN and infinity pass, for data that is still to be imputed. With ``width``, the number of
    columns of an earlier fit, sequences may have no rows.
    """
    items = list_sequences(X)
    if width is None:
        return stack_tables(items, finite=finite)
    filled = [number for number, item in enumerate(items) if not has_no_rows(item)]
    if not filled:
        return np.zeros((0, width)), np.zeros(len(items) + 1, dtype=np.int64)
    rows, offsets = stack_tables([items[number] for number in filled], numbers=filled, finite=finite)
    lengths = np.zeros(len(items), dtype=np.int64)
    lengths[filled] = np.diff(offsets)
    return rows, make_offsets(lengths)


def rows_if_any(item: object) -> int | None:
    """Return the number of rows of an array, a table or a list; None for other objects."""
    has_rows = is_sequence(item) if find_shape(item) is None else bool(find_shape(item))
    return count_rows(item) if has_rows else None


def has_no_rows(item: object) -> bool:
    """Whether a sequence has no positions."""
    return rows_if_any(item) == 0


# Bytes of tables that are not copied where they lie one behind the other.
_LARGE = 64 * 2**20


def stack_tables(
    items: list, nouns: ItemNames = SEQUENCES, numbers: Sequence[int] | None = None, *, finite: bool = True
) -> tuple[Matrix, np.ndarray]:
    """Stack tables (rows, features) with at least one row each; see ``pack_inputs``.

    ``numbers`` holds the number by which messages call each table; None counts them from 0.
    """

    def name(place: int) -> str:
        return nouns.name(place if numbers is None else numbers[place])

    sparse = sp.issparse(items[0])
    arrays = []
    for place, item in enumerate(items):
        if not sparse and type(item) is np.ndarray and item.ndim == 2 and item.dtype.kind == "f":
            arrays.append(item)  # as most tables are: nothing to look at
            continue
        if sp.issparse(item) != sparse:
            kinds = ("dense", "sparse") if sparse else ("sparse", "dense")
            raise ValueError(
                f"{name(place)} is {kinds[0]} but {name(0)} is {kinds[1]}: make all {nouns.whole}s one kind, "
                "scipy.sparse.csr_array(x) or x.toarray()"
            )
        arrays.append(_numeric_table(item, name(place), nouns))
    lengths = np.array([array.shape[0] for array in arrays], dtype=np.int64)
    widths = np.array([array.shape[1] for array in arrays])
    _check_shapes(lengths, widths, name, nouns)
    offsets = make_offsets(lengths)
    single = {array.dtype for array in arrays} <= {np.dtype(np.float32), np.dtype(np.float16)}
    dtype = np.float32 if single else np.float64
    shape = (int(offsets[-1]), int(widths[0]))
    inputs = _stack_sparse(arrays, shape, dtype) if sparse else _stack_dense(arrays, offsets, shape, dtype)
    if finite:
        check_finite(inputs, name, offsets)
    return inputs, offsets


def list_sequences(X: object) -> list:
    """Return the sequences of X as a list of at least one; ValueError or TypeError for anything else."""
    refuse_containers(X, "X")
    shape = find_shape(X) or (0,)
    if len(shape) == 2:
        if find_column_names(X) is not None:
            raise ValueError(f"{_EXPECTED_X}, got one table of shape {shape}: {sequence_forms.frame_advice(X)}")
        text = isinstance(X, np.ndarray) and X.dtype.kind in "UOT"
        words = " If its rows are sequences of words, use list(X)." if text else ""
        raise ValueError(
            f"{_EXPECTED_X}, got one {type(X).__name__} of shape {shape}.{words} If it is a single sequence, wrap "
            f"it: [X]. {_SEVERAL}"
        )
    if len(shape) == 3:
        return sequence_forms.list_equal_sequences(X)
    return list_wholes(X, _EXPECTED_X, SEQUENCES)


def is_empty(X: object) -> bool:
    """Whether X is an empty list of sequences or graphs."""
    return is_sequence(X) and n_dimensions(X) == 1 and len(X) == 0


def list_wholes(X: object, expected: str, nouns: ItemNames) -> list:
    """Return the sequences or graphs of X as a list of at least one; ``expected`` begins the messages."""
    if n_dimensions(X) != 1 or not is_sequence(X):
        raise TypeError(f"{expected}, got {type(X).__name__}. Collect the {nouns.whole}s in a list first.")
    if not len(X):
        raise ValueError(f"{expected}, got an empty one: at least one {nouns.whole} is needed")
    return list(X)


def _numeric_table(item: Any, name: str, nouns: ItemNames) -> Matrix:
    array = item
    if sp.issparse(item):
        array = array.tocsr() if array.ndim == 2 else array
    elif type(item) is not np.ndarray:
        if isinstance(item, np.ma.MaskedArray):
            raise ValueError(f"{name} is a masked array: fill or drop the masked rows first")
        refuse_tensor(item, name)
        if nouns is SEQUENCES:
            sequence_forms.check_sequence(item, name)
        _refuse_columns(item, name, nouns)
        try:
            array = np.asarray(item)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} cannot be read as an array of shape (rows, features): {error}. "
                "Do its rows have different lengths?"
            ) from error
    _refuse_words(array, name, nouns)
    if array.dtype.kind == "O":
        array = array.astype(np.float64)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is {array.dtype}. Make real and imaginary parts columns.")
    if array.shape == (0,):
        raise ValueError(f"{name} is empty: remove empty {nouns.whole}s from X and y")
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}, expected two dimensions (rows, features). With one "
            f"number per {nouns.part} use x.reshape(-1, 1); if X is a single {nouns.whole}, wrap it: [X]."
        )
    return array


def _refuse_columns(item: Any, name: str, nouns: ItemNames) -> None:
    """Raise ValueError with the name of the column of a data frame that is not numeric."""
    for column, dtype in column_types(item).items():
        if not str(dtype).lower().startswith(_NUMBERS):
            _refuse_words(np.asarray(item[column]), f"column {column!r} of {name}", nouns)


def _refuse_words(array: Any, name: str, nouns: ItemNames) -> None:
    """Raise ValueError for an array that is not numeric."""
    if array.dtype.kind == "O":
        for one in array.ravel():
            if not isinstance(one, Number) or isinstance(one, complex):
                came = f"{one!r:.60} ({type(one).__name__})"
                raise ValueError(f"{name} holds {came} where numbers are needed. {nouns.words}")
    if array.dtype.kind in "USTMmV":
        raise ValueError(f"{name} holds {array.dtype} values where numbers are needed. {nouns.words}")


def _check_shapes(lengths: np.ndarray, widths: np.ndarray, name: Callable[[int], str], nouns: ItemNames) -> None:
    if (empty := np.flatnonzero(lengths == 0)).size:
        raise ValueError(f"{name(empty[0])} has no rows: remove empty {nouns.whole}s from X and y")
    if (other := np.flatnonzero(widths != widths[0])).size:
        raise ValueError(
            f"{name(other[0])} has {widths[other[0]]} features but {name(0)} has {widths[0]}: "
            f"all {nouns.whole}s need the same columns"
        )
    if widths[0] == 0:
        raise ValueError(f"{name(0)} has no features: at least one column is needed; use a column of ones for none")


def _stack_dense(arrays: list, offsets: np.ndarray, shape: tuple[int, int], dtype: type) -> np.ndarray:
    large = shape[0] * shape[1] * np.dtype(dtype).itemsize >= _LARGE
    there = _as_they_lie(arrays, offsets, shape, np.dtype(dtype)) if large else None
    if there is not None:
        return there
    # Written into a fresh array: concatenate alone would keep the column order of Fortran inputs.
    return np.concatenate(arrays, out=np.empty(shape, dtype), casting="same_kind")


def _as_they_lie(arrays: list, offsets: np.ndarray, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray | None:
    """Return contiguous arrays as one read-only array without a copy; None for other arrays."""
    base, strides = arrays[0].base, (shape[1] * dtype.itemsize, dtype.itemsize)
    if not isinstance(base, np.ndarray) or base.dtype != dtype or not base.flags.c_contiguous:
        return None
    if any(array.base is not base or array.strides != strides for array in arrays):
        return None
    starts = np.array([array.__array_interface__["data"][0] for array in arrays])
    if not np.array_equal(starts - starts[0], offsets[:-1] * strides[0]):
        return None
    begin = starts[0] - base.__array_interface__["data"][0]
    rows: np.ndarray = np.ndarray(shape, dtype, base, int(begin))
    rows.flags.writeable = False
    return rows


def _stack_sparse(arrays: list, shape: tuple[int, int], dtype: type) -> Matrix:
    counts = np.concatenate([np.diff(array.indptr) for array in arrays])
    indptr = make_offsets(counts)
    # A CSR may carry spare room after its last row, so only the first nnz entries count.
    values = [array.data[: array.indptr[-1]] for array in arrays]
    data: np.ndarray = np.concatenate(values, dtype=dtype, casting="same_kind")
    columns = np.concatenate([array.indices[: array.indptr[-1]] for array in arrays])
    index = np.int32 if max(indptr[-1], *shape) <= np.iinfo(np.int32).max else np.int64
    stacked = sp.csr_array((data, columns.astype(index, copy=False), indptr.astype(index)), shape=shape)
    stacked.check_format(full_check=True)
    stacked.sum_duplicates()
    return stacked


def check_finite(inputs: Matrix, name: Callable[[int], str], offsets: np.ndarray | None = None) -> None:
    """Raise ValueError with rows, columns and advice if packed inputs hold NaN or infinity.

    ``name`` says what the message calls a sequence of ``offsets``, or all of the inputs, which are number 0.
    """
    values = inputs if isinstance(inputs, np.ndarray) else inputs.data
    workers, wrong = Workers(), []

    def look(first: int, last: int) -> None:
        own = values[first:last]
        if own.size and not (np.isfinite(own.min()) and np.isfinite(own.max())):
            wrong.append(first)

    workers.each(look, workers.pieces(len(values), values.size))
    if not wrong:
        return
    if isinstance(inputs, np.ndarray):
        rows, columns = np.nonzero(~np.isfinite(inputs))
        first, gaps = inputs[rows[0], columns[0]], np.flatnonzero(np.isnan(inputs[np.unique(rows)]).all(axis=1))
    else:
        entries = np.flatnonzero(~np.isfinite(values))
        rows, columns = np.searchsorted(inputs.indptr, entries, side="right") - 1, inputs.indices[entries]
        first, gaps = values[entries[0]], np.empty(0, dtype=np.int64)
    sequence, position = locate(np.array([0, inputs.shape[0]]) if offsets is None else offsets, int(rows[0]))
    advice = ""
    if len(gaps):
        advice = (
            f" {inflect(len(gaps), 'row')} hold nothing else, as gaps of a recording: x = np.column_stack("
            "[np.nan_to_num(x), np.isnan(x).all(axis=1)]) keeps their positions, with a column that marks them."
        )
    raise ValueError(
        f"{name(sequence)} holds {first} in row {position}, column {columns[0]}: inputs must be finite. NaN or "
        f"infinity are in {inflect(len(np.unique(rows)), 'row')} of X, in columns {listed(np.unique(columns))}. Impute "
        "or drop them: sklearn.impute.SimpleImputer in a pipeline fills in means, within features.Sequencewise for "
        "sequences; further columns np.isnan(X[:, columns]) tell the field where values were missing."
        f"{advice}"
    )


class LabelForm(ABC):
    """Labels in a special form, with a reader of its own."""

    @abstractmethod
    def read(
        self, classes: Iterable | None, lengths: np.ndarray | None, nouns: ItemNames
    ) -> tuple[np.ndarray, Any, np.ndarray]:
        """Return the most probable labels, their log-weights or targets, and the sorted classes."""


def wrap_labels(y: Any, lengths: np.ndarray | None, nouns: ItemNames) -> tuple[Any, np.ndarray | None]:
    """Return labels of samples as one sequence with its length; labels of sequences stay unchanged."""
    if not isinstance(nouns, SampleNames):
        return y, lengths
    return [y], np.array([len(y if lengths is None else lengths)])


def has_partial_labels(y: object) -> TypeGuard[Any]:
    """Whether some labels of sequences are partly known."""
    return is_sequence(y) and n_dimensions(y) > 0 and any(map(is_partial, y))


def is_partial(item: object) -> bool:
    """Whether labels of a sequence, or a single entry, are not all plain labels."""
    if isinstance(item, np.ndarray) and item.dtype.kind != "O":
        return item.dtype.kind == "f" and bool(np.isnan(item).any())
    if has_array(item) and not isinstance(item, np.ndarray | np.generic) and not is_tensor(item):
        array = np.asarray(item)
        return is_partial(array) if array.dtype.kind != "O" else any(map(is_partial_entry, array.ravel()))
    if item is None:
        return True
    if not is_sequence(item) or _LABEL_TYPES.issuperset(map(type, item)):
        return False
    return any(map(is_partial_entry, item))


def is_partial_entry(entry: object) -> bool:
    """Whether an entry of labels is partial knowledge instead of a label."""
    return is_unknown(entry) or isinstance(entry, set | frozenset | Mapping)


def is_unknown(label: object) -> bool:
    """Whether an entry stands for an unknown label: None, NaN or pandas.NA."""
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(np.isnan(label))


def encode_labels(
    y: object,
    classes: Iterable | None = None,
    lengths: np.ndarray | None = None,
    nouns: ItemNames = SEQUENCES,
    *,
    unknown_allowed: bool = False,
    fewest: int = 2,
) -> tuple[np.ndarray, np.ndarray]:
    """Encode label sequences as indices (N,) into sorted classes (L,); return both.

    ``classes=None`` learns them and needs the ``fewest``. ``lengths`` holds the rows of every sequence in X.
    ``nouns`` are the words for a sequence and its positions in messages. With ``unknown_allowed`` labels that are not
    among the classes become -1.
    """
    refuse_containers(y, "y")
    if not is_sequence(y) or n_dimensions(y) == 0:
        raise TypeError(f"{_expected(nouns)}, got {type(y).__name__}")
    items = list(y)
    check_number(len(items), lengths, nouns)
    arrays = [
        item if _is_plain(item) else _label_array(item, f"{nouns.name(index)} of y", nouns)
        for index, item in enumerate(items)
    ]
    offsets = label_offsets([len(array) for array in arrays], lengths, nouns)
    filled = [index for index, array in enumerate(arrays) if len(array)]
    if not filled and classes is not None:
        return np.empty(0, dtype=np.int64), np.unique(_label_array(list(classes), "classes", nouns))
    strings = np.array([arrays[index].dtype.kind == "U" for index in filled])
    if (other := np.flatnonzero(strings != strings[0])).size:
        names = ("strings", "numbers") if strings[0] else ("numbers", "strings")
        raise ValueError(
            f"labels mix strings and numbers: {nouns.name(filled[0])} has {names[0]}, {nouns.name(filled[other[0]])} "
            f"has {names[1]}. Use one kind throughout, for example str(label)."
        )
    where = partial(nouns.place, offsets)
    given = None if classes is None else np.unique(_label_array(list(classes), "classes", nouns))
    if strings[0]:
        # One array of all would give every label the room of the longest.
        texts = [label for index in filled for label in arrays[index].tolist()]
        known = np.array(sorted(set(texts))) if given is None else given
        places = {label: place for place, label in enumerate(known.tolist())}
        found = np.array([places.get(label, -1) for label in texts], dtype=np.int64)
        # Texts among classes that are numbers are a mistake, not labels that were never learnt.
        unknown_allowed = unknown_allowed and known.dtype.kind == "U"
        if not unknown_allowed and (unknown := np.flatnonzero(found < 0)).size:
            raise _unknown_label(texts[unknown[0]], where(int(unknown[0])), known)
    else:
        flat = concatenate_labels([arrays[index] for index in filled])
        check_whole(flat, where, nouns)
        known = np.unique(flat) if given is None else given
        found = find_label_places(known, flat, where, unknown_allowed)
    if given is None:
        if len(known) < fewest:
            raise ValueError(f"y holds one class only, {listed(known)}: fitting needs at least two different labels")
        warn_of_minus_one(known)
    return found, known


def warn_of_minus_one(classes: np.ndarray) -> None:
    """Warn of labels -1 beside whole numbers from zero, which scikit-learn writes for "not labelled"."""
    if classes.dtype.kind in "if" and len(classes) > 2 and np.array_equal(classes, np.arange(-1, len(classes) - 1)):
        warn_user(
            f"y holds -1 beside the labels 0 to {len(classes) - 2}, and it is a label like the others here: where it "
            "stands for labels that are not known, as in scikit-learn's semi-supervised estimators, write None",
        )


def check_number(n_items: int, lengths: np.ndarray | None, nouns: ItemNames, noun: str = "labels") -> None:
    """Raise ValueError unless y has as many items as X, with ``lengths`` (S,) or None."""
    if lengths is not None and n_items != len(lengths):
        raise ValueError(f"X has {len(lengths)} {nouns.whole}s but y has {n_items}: each needs its {noun}")


def label_offsets(sizes: Sequence[int], lengths: np.ndarray | None, nouns: ItemNames) -> np.ndarray:
    """Return the offsets (S + 1,) of label sequences; ValueError if a length differs from X.

    Without X, those that are empty are an error.
    """
    counts = np.array(sizes, dtype=np.int64)
    if lengths is not None and (wrong := np.flatnonzero(counts != lengths)).size:
        index = wrong[0]
        turned = len(set(lengths.tolist())) == 1 == len(set(counts.tolist()))
        advice = f" If X is in the order (n, features, {nouns.part}s), pass X.transpose(0, 2, 1)." if turned else ""
        raise ValueError(
            f"{nouns.name(index)} has {lengths[index]} rows in X but {counts[index]} labels in y. "
            f"Each {nouns.part} needs one label; {nouns.unlabelled}{advice}"
        )
    if lengths is None and (empty := np.flatnonzero(counts == 0)).size:
        raise ValueError(f"{nouns.name(empty[0])} of y is empty: remove it from X and y")
    return make_offsets(counts)


def find_label_places(
    known: np.ndarray, labels: np.ndarray, where: Callable[[int], str], unknown_allowed: bool = False
) -> np.ndarray:
    """Return the indices of labels (n,) among sorted known labels.

    A label that is not there is -1 with ``unknown_allowed``, else a ValueError, in which ``where`` names its position.
    Text among numbers, or the reverse, is always an error.
    """
    first_wrong = 0
    if (known.dtype.kind == "U") == (labels.dtype.kind == "U"):
        own, fits = (labels, True) if known.dtype.kind == "U" else convert_type(known, labels)
        places = np.minimum(np.searchsorted(known, own), len(known) - 1)
        unknown = np.flatnonzero(~((known[places] == own) & fits))
        if not unknown.size:
            return places
        if unknown_allowed:
            places[unknown] = -1
            return places
        first_wrong = int(unknown[0])
    raise _unknown_label(labels[first_wrong], where(first_wrong), known)


def _unknown_label(label: object, place: str, known: np.ndarray) -> ValueError:
    return ValueError(f"unknown label {plain_label(label)!r:.200} at {place}: known are {listed(known)}")


def check_sample_weight(sample_weight: object, n_sequences: int, nouns: ItemNames = SEQUENCES) -> np.ndarray:
    """Return one non-negative finite weight per sequence, ones for None."""
    if sample_weight is None:
        return np.ones(n_sequences)
    expected = f"sample_weight holds one number per {nouns.whole}, {n_sequences} here"
    single = f"Weights of single {nouns.part}s are not supported; weigh whole {nouns.whole}s."
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{expected}, got {type(sample_weight).__name__} ({error}). {single}") from error
    if weights.shape != (n_sequences,):
        raise ValueError(f"{expected}, got shape {weights.shape}. {single}")
    if (bad := np.flatnonzero(~np.isfinite(weights) | (weights < 0))).size:
        raise ValueError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}: weights must be finite and not negative")
    if not weights.any():
        raise ValueError(f"sample_weight is zero for every {nouns.whole}: nothing is left to fit")
    return weights


def _expected(nouns: ItemNames) -> str:
    return f"y must be a list with one list or array of labels per {nouns.whole}"


def _is_plain(item: object) -> bool:
    """Whether labels are a plain one-dimensional array."""
    return type(item) is np.ndarray and item.ndim == 1 and item.dtype.kind in "biufU"


def _label_array(item: object, where: str, nouns: ItemNames) -> np.ndarray:
    if _is_plain(item):
        return item  # type: ignore[return-value]
    refuse_tensor(item, where)
    if isinstance(item, Iterable) and not isinstance(item, str | bytes | Mapping | list | tuple | np.ndarray):
        item = np.asarray(item) if has_array(item) else list(item)
    if isinstance(item, np.ndarray) and item.ndim == 1 and item.dtype.kind in "OT":
        item = item.tolist()
    if not isinstance(item, list | tuple | np.ndarray):
        raise ValueError(f"{where} is {item!r:.60} ({type(item).__name__}): {_expected(nouns)}")
    if not isinstance(item, np.ndarray):
        # np.asarray would silently turn the 1 of ["a", 1] into "1".
        textual = {issubclass(kind, str) for kind in set(map(type, item))}
        if len(textual) == 2:
            first = isinstance(item[0], str)
            position = next(place for place, label in enumerate(item) if isinstance(label, str) != first)
            raise ValueError(
                f"{where} mixes strings with other labels: {nouns.part} 0 is {item[0]!r}, {nouns.part} {position} "
                f"is {item[position]!r}. Every {nouns.part} needs one label of one kind."
            )
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"{where} is not a flat list of labels: {error}") from error
    array = restore_whole_numbers(array, item)
    if array.ndim != 1:
        raise ValueError(
            f"{where} has shape {array.shape}, expected one label per {nouns.part}. For one-hot rows use "
            "labels.argmax(axis=1), for rows of probabilities y=SoftTargets(y, classes=[...]), for a single column or "
            "a grid labels.ravel()."
        )
    if array.dtype.kind not in "biufU":
        numbers = (int, float, np.integer, np.floating, np.bool_)
        position = next((place for place, label in enumerate(item) if not isinstance(label, numbers)), 0)
        raise ValueError(
            f"{where} holds a label of type {type(item[position]).__name__} ({item[position]!r:.60}) at "
            f"{nouns.part} {position}: use strings, whole numbers or booleans, and leave no label missing"
        )
    return array


def check_whole(flat: np.ndarray, where: Callable[[int], str], nouns: ItemNames) -> None:
    """Raise ValueError for numeric labels (n,) that are not whole; ``where`` names the place of each."""
    if flat.dtype.kind != "f":
        return
    if (large := np.flatnonzero(np.isfinite(flat) & (np.abs(flat) > MOST_EXACT))).size:
        raise ValueError(
            f"label {flat[large[0]]:.0f} at {where(int(large[0]))} is a float beyond 2**53, where floats do not tell "
            "whole numbers apart: pass whole numbers, or strings"
        )
    if (bad := np.flatnonzero(~np.isfinite(flat) | (flat != np.floor(flat)))).size:
        place = f"label {flat[bad[0]]} at {where(int(bad[0]))}"
        if np.isnan(flat[bad[0]]):
            raise ValueError(f"{place} is missing: each {nouns.part} needs one label; {nouns.unlabelled}")
        raise ValueError(
            f"{place} is not a whole number: labels are classes, and these look like regression targets. "
            "Bin them, or pass strings."
        )


def balanced_weights(totals: np.ndarray) -> np.ndarray:
    """Return "balanced" weights of classes from their total weights (L,); zero for empty classes."""
    present = totals > 0
    return np.divide(totals.sum(), present.sum() * totals, out=np.zeros(len(totals)), where=present)
