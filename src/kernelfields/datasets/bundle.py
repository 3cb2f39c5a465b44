"""Results of data set functions: a Bunch, X and y, or a data frame with a row for each position."""

from __future__ import annotations

import gzip
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from kernelfields.numerics.parameters import is_whole


def read_file(name: str) -> str:
    """Return the text of a file in the package."""
    packed = files("kernelfields.datasets").joinpath("files", name).read_bytes()
    return gzip.decompress(packed).decode("utf-8")


def read_blocks(name: str) -> list[list[list[str]]]:
    """Return the cells of the lines of each block; blocks are separated by empty lines."""
    blocks = read_file(name).strip("\n").split("\n\n")
    return [[line.split("\t") for line in block.split("\n")] for block in blocks]


def check_counts(**counts: object) -> None:
    """Raise ValueError unless all arguments are positive integers."""
    for name, value in counts.items():
        if not is_whole(value) or value < 1:
            raise ValueError(f"{name} must be a whole number above 0, got {value!r}")


def pack_sequences(
    function: Callable,
    X: Sequence,
    y: Sequence,
    *,
    sequence: str,
    features: Sequence[str],
    target: str,
    groups: Sequence | None = None,
    group: str = "group",
    columns: Mapping[str, Sequence[Sequence]] | None = None,
    return_X_y: bool,
    as_frame: bool,
    **more: Any,
) -> Any:
    """Return sequences in the requested form.

    ``sequence``, ``features``, ``target`` and ``group`` name columns of the frame; ``columns`` are further ones, with
    an entry for each position of each sequence.
    """
    labels = sorted({label for own in y for label in own})
    about: dict[str, Any] = {
        "feature_names": list(features),
        "target_names": labels,
        "DESCR": inspect.getdoc(function),
        **more,
    }
    if groups is not None:
        about["groups"] = list(groups)
    if not as_frame:
        return (X, y) if return_X_y else Bunch(data=X, target=y, frame=None, **about)
    lengths = [len(own) for own in y]
    table: dict[str, Any] = {} if groups is None else {group: np.repeat(np.asarray(groups), lengths)}
    table[sequence] = np.repeat(np.arange(len(y)), lengths)
    for name, own in (columns or {}).items():
        table[name] = np.concatenate([np.asarray(each) for each in own])
    rows = np.concatenate([np.asarray(own).reshape(len(own), len(features)) for own in X])
    table |= dict(zip(features, rows.T, strict=True))
    frame = _make_frame({**table, target: np.concatenate([np.asarray(own) for own in y])})
    X, y = frame.drop(columns=target), frame[target]
    return (X, y) if return_X_y else Bunch(data=X, target=y, frame=frame, **about)


def pack_rows(
    function: Callable,
    X: np.ndarray,
    y: np.ndarray,
    *,
    features: Sequence[str],
    targets: Sequence[str],
    return_X_y: bool,
    as_frame: bool,
) -> Any:
    """Return a table and its labels, one column each, in the requested form."""
    about: dict[str, Any] = {
        "feature_names": list(features),
        "target_names": list(targets),
        "DESCR": inspect.getdoc(function),
    }
    if not as_frame:
        return (X, y) if return_X_y else Bunch(data=X, target=y, frame=None, **about)
    frame = _make_frame(dict(zip([*features, *targets], np.hstack([X, y]).T, strict=True)))
    frame = frame.astype(dict.fromkeys(targets, int))
    data, target = frame[list(features)], frame[list(targets)]
    return (data, target) if return_X_y else Bunch(data=data, target=target, frame=frame, **about)


def pack_items(function: Callable, X: Any, y: Any, *, return_X_y: bool, **more: Any) -> Any:
    """Return items other than tables in the requested form."""
    return (X, y) if return_X_y else Bunch(data=X, target=y, DESCR=inspect.getdoc(function), **more)


def _make_frame(table: Mapping[str, Any]) -> Any:
    """Return a data frame; ImportError with advice if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("as_frame=True needs pandas: pip install pandas") from error
    return pd.DataFrame(table)
