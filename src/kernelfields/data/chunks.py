r"""Names and weights of features of one position or of thousands, in the forms of CRFsuite.

    {"word": "cat", "upper": True, "len": 3.0}  ->  ("word:cat", 1), ("upper", 1), ("len", 3)

A string joins its name with ":" and weighs 1; a number is a weight, True is 1 and False 0; a nested dict or a
collection of strings puts its name in front ("a:b"). A position may also be a collection of feature strings, each
of weight 1: a string is a name and nothing else, so that "x:2.5" has the weight 1 too. Bytes are read as UTF-8.
Other than in python-crfsuite, a tuple or frozenset is taken as value too, every mapping counts as dict, and a name
may hold "\0". Sets are read in sorted order, because their own changes from run to run.

``iterate_features`` reads one position in plain Python. ``read_chunk`` makes the names of all features of a chunk one
text and the weights one array, without a Python step per feature: chunks of plain dicts, or of lists or tuples of
strings, are read by built-in functions that run over all features; what they cannot read, such as nested values or
chunks of both kinds, is left to its twin, whose errors name what is wrong and where.

Only CRFsuite's own program reads strings that carry their weights after a colon, and ``read_weighted`` does; in a
name, "\:" is a colon and "\\" a backslash:

    ["bias", "len:2.5", "time=12\:30"]  ->  {"bias": 1.0, "len": 2.5, "time=12:30": 1.0}

Cost: a few flat buffers of the size of a chunk. Raises TypeError or ValueError that names the feature, and
quotes the string where CRFsuite would go on with a weight of zero; the caller adds the place.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count, pairwise
from math import isfinite
from numbers import Number
from typing import NamedTuple, SupportsFloat, SupportsIndex

import numpy as np

from kernelfields.data.names import NAME_END, NameText, join_names, split_names
from kernelfields.data.positions import is_collection
from kernelfields.numerics.containers import find_shape

# What a backslash protects is taken first, and the possessive quantifier never gives it back.
_STRING = re.compile(r"((?:\\[:\\]|[^:])*+)(?::(.*))?", re.DOTALL)
_PROTECTED = re.compile(r"\\([:\\])")
SEPARATOR = ":"
# The classes that come most often first: a look at an abstract one costs more than all the rest.
_MAPPINGS = (dict, Mapping)
_NUMBERS = (float, int)
_ARRAYS = "Rows of numbers are passed as one array of shape (rows, features) for each sequence."
_UNKNOWN = "leave the feature out where it is unknown."
_TEXTS = {str, np.str_}
_NUMBER_TYPES = {bool, int, float, np.bool_} | {
    np.dtype(code).type for code in np.typecodes["AllInteger"] + np.typecodes["Float"]
}
#: Strings are joined in parts so small that they are still near the processor when they are read again.
_POSITIONS_PER_PART = 128
#: Dicts are read key by key where a key has at least so many values on average.
_VALUES_PER_KEY = 16
#: A name, the entries of the chunk that have it, and their values.
_Column = tuple[str, np.ndarray, list]


class Chunk(NamedTuple):
    """Features of consecutive positions: names (n,), weights (n,) or None if all are 1, counts per position."""

    names: NameText
    weights: np.ndarray | None
    counts: np.ndarray

    def select(self, chosen: np.ndarray) -> Chunk:
        """Select the features marked in ``chosen``."""
        weights = None if self.weights is None else self.weights[chosen]
        return Chunk(self.names.select(chosen), weights, count_kept(self.counts, chosen))


def count_kept(counts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Count the features of each position that are marked in ``chosen``."""
    before = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(chosen, out=before[1:])
    ends = np.cumsum(counts)
    return before[ends] - before[ends - counts]


def read_chunk(positions: list, place: Callable[[int], str]) -> Chunk:
    """Read the features of positions; ``place`` names a position in error messages."""
    kinds = set(map(type, positions))
    chunk = None
    if kinds == {dict}:
        chunk = _read_dicts(positions)
    elif kinds <= {list, tuple}:
        chunk = _read_strings(positions)
    return read_each(positions, place) if chunk is None else chunk


def read_each(positions: list, place: Callable[[int], str]) -> Chunk:
    """Read the features of positions one by one, in any form."""
    names: list[str] = []
    weights: list[float] = []
    counts = np.empty(len(positions), dtype=np.int64)
    for row, position in enumerate(positions):
        before = len(names)
        try:
            for name, weight in iterate_features(position):
                names.append(name)
                weights.append(weight)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{place(row)}: {error}") from error
        counts[row] = len(names) - before
    return Chunk(join_names(names), np.array(weights), counts)


def feature_text(position: object, feature: str) -> str | None:
    """Return the value of a feature at a position as text: from a dict, or the first string with its prefix."""
    if isinstance(position, _MAPPINGS):
        value = position.get(feature)
        return value if value is None or isinstance(value, str) else str(value)
    if isinstance(position, str | bytes) or not isinstance(position, Iterable):
        return None
    return next((name for name in position if isinstance(name, str) and name.startswith(feature)), None)


def number_word(value: np.floating | float) -> str:
    """Return the shortest text that identifies a number in the precision of its column: "0.1", "1234567"."""
    return str(value + 0.0).removesuffix(".0")  # adding zero takes the sign off minus zero


def iterate_features(position: object, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield names and weights of the features of a position, names with ``prefix``."""
    if isinstance(position, _MAPPINGS):
        for name, value in position.items():
            full = prefix + _text(name)
            if isinstance(value, str | bytes):
                yield full + SEPARATOR + _text(value), 1.0
            elif isinstance(value, _NUMBERS):
                yield full, _finite(full, value)
            elif isinstance(value, _MAPPINGS) or is_collection(value):
                yield from iterate_features(value, full + SEPARATOR)
            else:
                yield full, _other_number(full, value)
    elif is_collection(position):
        for name in sorted(position, key=str) if isinstance(position, set | frozenset) else position:
            yield prefix + _text(name), 1.0
    else:
        raise TypeError(_not_a_position(position))


def read_weighted(strings: Iterable[str]) -> dict[str, float]:
    """Return the feature dict of a position from strings with weights; weights of equal names add up."""
    features: dict[str, float] = {}
    for string in strings:
        name, text = _STRING.fullmatch(string).groups()  # type: ignore[union-attr]
        name = _PROTECTED.sub(r"\1", name)
        features[name] = features.get(name, 0.0) + _weight(string, text or "1")
    return features


def _weight(string: str, text: str) -> float:
    try:
        weight = float(text)
    except ValueError as error:
        raise ValueError(rf"{string!r}: {text!r} is no weight; a colon in a name is written \:") from error
    if not isfinite(weight):
        raise ValueError(f"{string!r}: weights must be finite")
    return weight


def _text(text: object) -> str:
    if type(text) is str:
        return text
    if isinstance(text, str):
        # The letters themselves, not what a subclass such as an enumeration prints.
        return "".join([text])
    if isinstance(text, bytes):
        try:
            return text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{text!r:.60} is not UTF-8: {error.reason}. Decode it to a string first.") from error
    advice = _ARRAYS if isinstance(text, Number) else ""
    kind = type(text).__name__
    raise TypeError(f"feature name {text!r:.60} is {kind}, expected a string; write str(name). {advice}".rstrip())


def _finite(name: str, value: SupportsFloat | SupportsIndex) -> float:
    try:
        weight = float(value)
    except OverflowError as error:
        raise ValueError(f"feature {name!r} is {value!r:.60}, too large for a weight") from error
    if not isfinite(weight):
        raise ValueError(f"feature {name!r} is {weight}. Weights must be finite; {_UNKNOWN}")
    return weight


def _other_number(name: str, value: object) -> float:
    """Convert a scalar of NumPy or another library to a weight."""
    numeric = isinstance(value, SupportsFloat | SupportsIndex)
    if not numeric or isinstance(value, np.complexfloating) or find_shape(value):
        raise TypeError(
            f"feature {name!r} is {value!r:.60} ({type(value).__name__}). Use a number, a bool, a string, a dict "
            f"or a list of strings; {_UNKNOWN}"
        )
    return _finite(name, value)  # type: ignore[arg-type]  # numeric, but mypy does not narrow by two names


def _not_a_position(position: object) -> str:
    kind = type(position).__name__
    if isinstance(position, str | bytes):
        advice = (
            "Words become features by kernelfields.TextFeatures().fit_transform(X), as in a field that is fitted to "
            f"words; [{position!r:.60}] is a position whose only feature has this name."
        )
    elif isinstance(position, Number | np.ndarray):
        advice = _ARRAYS
    else:
        advice = ""
    return f"expected a feature dict or a list of feature strings, got {position!r:.60} ({kind}). {advice}".rstrip()


def _flatten(groups: Iterable[Iterable]) -> list:
    # Group by group, not through one long iterator: so the waits for the objects' memory overlap.
    flat: list = []
    deque(map(flat.extend, groups), maxlen=0)
    return flat


def _lengths(positions: list) -> np.ndarray:
    return np.fromiter(map(len, positions), dtype=np.int64, count=len(positions))


def _read_strings(positions: list) -> Chunk | None:
    parts, n_names = [], 0
    try:
        for start in range(0, len(positions), _POSITIONS_PER_PART):
            if strings := _flatten(positions[start : start + _POSITIONS_PER_PART]):
                parts.append(NAME_END.join(strings))
                n_names += len(strings)
    except TypeError:
        return None
    names = split_names(NAME_END.join(parts), n_names)
    return Chunk(join_names(_flatten(positions)) if names is None else names, None, _lengths(positions))


def _read_dicts(positions: list) -> Chunk | None:
    rows_by_keys: dict[tuple, list[int]] = {}
    for row, keys in enumerate(map(tuple, positions)):
        rows_by_keys.setdefault(keys, []).append(row)
    names = set(chain.from_iterable(rows_by_keys))
    counts = _lengths(positions)
    try:
        if len(rows_by_keys) * _VALUES_PER_KEY <= len(positions):
            read = _join_columns(_iterate_equal_columns(positions, rows_by_keys, counts), counts.sum())
        elif len(names) * _VALUES_PER_KEY <= counts.sum():
            read = _join_columns(_iterate_other_columns(positions), counts.sum())
        else:
            read = _read_numbers(positions)
    except (TypeError, OverflowError):
        return None
    return None if read is None or not np.isfinite(read[1]).all() else Chunk(*read, counts)


def _read_numbers(positions: list) -> tuple[NameText, np.ndarray] | None:
    """Read dicts with numbers as values."""
    values = _flatten(map(dict.values, positions))
    if not set(map(type, values)) <= _NUMBER_TYPES:
        return None
    return join_names(_flatten(positions)), np.fromiter(values, dtype=np.float64, count=len(values))


def _iterate_equal_columns(positions: list, rows_by_keys: dict[tuple, list], counts: np.ndarray) -> Iterator[_Column]:
    """Yield the columns of dicts with equal keys in equal order."""
    starts = np.cumsum(counts) - counts
    for keys, rows in rows_by_keys.items():
        values = _flatten(positions[row].values() for row in rows)
        first = starts[np.array(rows)]
        for order, key in enumerate(keys):
            yield key, first + order, values[order :: len(keys)]


def _iterate_other_columns(positions: list) -> Iterator[_Column]:
    """Yield the columns of dicts with few keys each."""
    names, values = _flatten(positions), _flatten(map(dict.values, positions))
    numbers: dict[str, int] = defaultdict(count().__next__)
    keys = np.fromiter(map(numbers.__getitem__, names), dtype=np.int64, count=len(names))
    by_key = np.argsort(keys, kind="stable")
    stops = np.cumsum(np.bincount(keys))
    values = np.fromiter(values, dtype=object, count=len(values))[by_key].tolist()
    for key, (start, stop) in zip(numbers, pairwise([0, *stops.tolist()]), strict=True):
        yield key, by_key[start:stop], values[start:stop]


def _join_columns(columns: Iterable[_Column], n_entries: int) -> tuple[NameText, np.ndarray] | None:
    """Join names with textual values, a column at a time."""
    weights = np.ones(n_entries)
    parts: list[str] = []  # of the text; a part is a name or, where values are text, one name for each
    n_names = 0
    name_of = np.empty(n_entries, dtype=np.int64)
    for name, entries, values in columns:
        kinds = set(map(type, values))
        if type(name) not in _TEXTS or not (kinds <= _TEXTS or kinds <= _NUMBER_TYPES):
            return None
        if kinds <= _TEXTS:
            head = name + SEPARATOR
            parts.append(head + (NAME_END + head).join(values))
            name_of[entries] = np.arange(n_names, n_names + len(values))
            n_names += len(values)
        else:
            parts.append(name)
            name_of[entries] = n_names
            weights[entries] = np.fromiter(values, dtype=np.float64, count=len(values))
            n_names += 1
    names = split_names(NAME_END.join(parts), n_names)
    return None if names is None else (names.select(name_of), weights)
