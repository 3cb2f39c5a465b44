"""Checks of values from files: records of numbers, and parameters; for arrays see numerics/stored_arrays.py.

A file may be damaged, or made up, and still have the right checksum. What is read here is finite where it must be and
has the type that follows from the rest of the document, so that a model that loads can predict.
Raises ValueError that names the value; the reader of documents adds the name of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from math import isnan
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sklearn.base import BaseEstimator

from kernelfields.data.cliques import CliqueSet
from kernelfields.numerics.stored_arrays import whole_number

Record = TypeVar("Record")

#: Labellings of one clique above which no table of them could be inferred with (512 MiB each).
MOST_LABELLINGS = 2**26
# Types of plain parameters, as annotations write them.
_PLAIN = {"bool": bool, "int": int, "float": float, "str": str, "None": NoneType}


def share(value: object, what: str) -> float:
    """Return a number from 0 to 1."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{what} must be a number from 0 to 1, got {value!r:.60}")
    return float(value)


def record(kind: type[Record], described: object, what: str, *, unknown: Sequence[str] = ()) -> Record:
    """Rebuild a dataclass of plain values from its description; only the fields ``unknown`` may be NaN."""
    if not isinstance(described, Mapping):
        raise ValueError(f"{what} must have names and values, got {described!r:.60}")
    hints, known = get_type_hints(kind), {entry.name: entry for entry in fields(kind)}  # type: ignore[arg-type]
    if strange := set(described) - set(known):
        raise ValueError(f"{what} has the unknown entry {min(strange)!r:.60}")
    for name, entry in known.items():
        if name not in described:
            if entry.default is MISSING and entry.default_factory is MISSING:
                raise ValueError(f"{what} has no {name}")
            continue
        value = described[name]
        if not _fits(value, hints[name]):
            raise ValueError(f"{name} of {what} is {value!r:.60}, which is of the wrong type")
        if name not in unknown and _has_nan(value):
            raise ValueError(f"{name} of {what} is not a number")
    return kind(**described)


def check_plain_parameters(estimator: BaseEstimator) -> None:
    """Raise unless parameters declared as numbers, texts or None have these types."""
    # Annotations are text, whose names need not be loaded.
    given = type(estimator).__init__.__annotations__
    declared = {entry.name: entry.type for entry in fields(estimator)} if is_dataclass(estimator) else given
    for name, value in estimator.get_params(deep=False).items():
        kinds = [_PLAIN.get(kind.strip()) for kind in str(declared.get(name, "object")).split("|")]
        if None not in kinds and (not any(_fits(value, kind) for kind in kinds) or _has_nan(value)):
            raise ValueError(f"the parameter {name} is {value!r:.60}, which is of the wrong type")


def n_labellings(clique: CliqueSet, n_labels: int) -> int:
    """Return the number of labellings of a clique; ValueError if tables of them exceed memory."""
    count, order = 1, whole_number(clique.labels_per_clique, "the number of labels of a clique", 1)
    for _ in range(order):
        count *= n_labels
        if (count > MOST_LABELLINGS and not clique.has_sparse_labellings) or order > 64:
            raise ValueError(f"cliques of {order} labels have too many labellings for a table")
    return count


def _alternatives(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: object, hint: object) -> bool:
    """Whether a value has a declared type; whole numbers count as numbers."""
    for kind in _alternatives(hint):
        origin = get_origin(kind) or kind
        arguments = get_args(kind)
        if kind is Any:
            return True
        if origin is float:
            # Whole numbers that no float can hold are no numbers to compute with.
            fits = isinstance(value, float) or (type(value) is int and abs(value) < 2**1023)
        elif not isinstance(origin, type) or not isinstance(value, origin):
            fits = False
        elif arguments and isinstance(value, list):
            fits = all(_fits(item, arguments[0]) for item in value)
        elif arguments and isinstance(value, dict):
            fits = all(_fits(key, arguments[0]) and _fits(own, arguments[1]) for key, own in value.items())
        else:
            fits = True
        if fits:
            return True
    return False


def _has_nan(value: object) -> bool:
    if isinstance(value, float):
        return isnan(value)
    if isinstance(value, Mapping):
        return any(map(_has_nan, value.values()))
    return isinstance(value, list) and any(map(_has_nan, value))
