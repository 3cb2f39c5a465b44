"""Spans of two kinds of positions under noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.datasets.bundle import check_counts, pack_sequences

_LABELS = np.array(["B-city", "I-city", "O"])


def make_spans(
    n_sequences: int = 100,
    *,
    noise: float = 1.0,
    longest: int = 3,
    random_state: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Make sequences of eight positions or more with spans of one type, seen through noise.

    A position is three numbers, one for each label: 1 for its own, 0 for the others, and noise on all of them. With
    much noise nobody can be sure where a span ends, which is what confidence and calibration are about. The set is
    made: it has no source.

    Parameters
    ----------
    n_sequences : int, default 100
        How many sequences.
    noise : float, default 1.0
        The standard deviation of the noise.
    longest : int, default 3
        The most positions of a span.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each position.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (n, 3), ``target`` a list of lists of labels "B-city", "I-city" and "O".

    See Also
    --------
    make_entities : The same with words.

    Examples
    --------
    >>> from kernelfields.datasets import make_spans
    >>> X, y = make_spans(10, random_state=0, return_X_y=True)
    >>> X[0].shape, y[0][:3]
    ((8, 3), ['O', 'B-city', 'B-city'])
    """
    check_counts(n_sequences=n_sequences, longest=longest)
    random = np.random.default_rng(random_state)
    X, y = [], []
    for _ in range(n_sequences):
        labels: list[str] = []
        while len(labels) < 8:
            is_span = random.random() < 0.3
            labels += ["B-city", *["I-city"] * int(random.integers(longest))] if is_span else ["O"]
        X.append((_LABELS[:, None] == labels).T + noise * random.normal(size=(len(labels), 3)))
        y.append(labels)
    names = ["begin", "inside", "outside"]
    asked: dict[str, Any] = {"return_X_y": return_X_y, "as_frame": as_frame}
    return pack_sequences(make_spans, X, y, sequence="sequence", features=names, target="label", **asked)
