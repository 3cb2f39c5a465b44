"""Folds of sequences, graphs or rows for transformers that are fitted to labels, and checks of their labels.

Each unit is in one fold, and groups are not split. Cost: O(n). Raises ValueError with the parameter, or the fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, check_cv

from kernelfields.data.given_labels import given_labels
from kernelfields.data.readers import read_labels
from kernelfields.data.reading import SAMPLES, SEQUENCES, ItemNames, check_number
from kernelfields.numerics.parameters import is_sequence, is_whole

# A label, or what is known of one; labels of positions come as lists and arrays.
_LABEL = str | int | float | np.generic | set | frozenset | Mapping | None


def assign_folds(
    n_units: int,
    cv: Any,
    groups: Sequence | None,
    *,
    nouns: ItemNames = SEQUENCES,
    strata: np.ndarray | None = None,
    random_state: int | None = None,
) -> np.ndarray:
    """Return the fold number of each sequence, graph or row, (n_units,).

    ``strata`` are labels of rows that folds of a number ``cv`` are stratified by; None where they are not.
    """
    if groups is not None and len(groups) != n_units:
        raise ValueError(f"groups has {len(groups)} entries for {n_units} {nouns.whole}s")
    n_apart = n_units if groups is None else len(set(groups))
    if is_whole(cv) and (cv < 2 or n_apart < cv):
        whole = nouns.part if nouns is SAMPLES else nouns.whole
        what = f"{n_apart} {whole}s" if groups is None else f"{n_apart} groups of {whole}s"
        raise ValueError(f"cv={cv} folds of {what}: use at least 2 folds, and no more than there are to fold")
    if not is_whole(cv):
        splitter = check_cv(cv)
    elif groups is not None:
        splitter = GroupKFold(cv)
    else:
        stratified = strata is not None and np.unique(strata, return_counts=True)[1].min() >= cv
        splitter = (StratifiedKFold if stratified else KFold)(cv, shuffle=True, random_state=random_state)
    folds = np.full(n_units, -1)
    for fold, (_, test) in enumerate(splitter.split(np.zeros(n_units), strata, groups)):
        if (folds[test] >= 0).any():
            raise ValueError("cv must put each sequence into one fold: repeated splits do not")
        folds[test] = fold
    if (folds < 0).any():
        raise ValueError(f"cv leaves {(folds < 0).sum()} of {n_units} {nouns.whole}s in no fold")
    return folds


def known_labels(y: Any, lengths: np.ndarray, nouns: ItemNames = SEQUENCES) -> tuple[np.ndarray, np.ndarray]:
    """Return the label of each row, (N,), and a mask of the rows with a known label."""
    codes, partial, classes = read_labels(y, None, lengths, nouns)
    return classes[codes], given_labels(codes, partial).learnable()


def repeat_labels(y: Any, lengths: np.ndarray) -> Any:
    """Repeat labels of whole sequences at all of their positions; return other y unchanged."""
    if not is_sequence(y) or not all(isinstance(each, _LABEL) for each in y):
        return y
    check_number(len(y), lengths, SEQUENCES)
    return [[each] * length for each, length in zip(y, lengths.tolist(), strict=True)]


def check_training_labels(labels: np.ndarray, known: np.ndarray, what: str) -> None:
    """Raise ValueError, with ``what`` as the name of the fold, if its training rows have fewer than two classes."""
    if not known.any():
        raise ValueError(f"{what}: no label is known among its training rows")
    own = labels[known]
    if own.ndim == 1 and (own == own[0]).all():
        raise ValueError(f"{what}: its training rows have one class only, {own[0]!r}: use fewer folds, or more data")
