"""``lengths=``: fits and answers for sequences in one array; data/single_arrays.py splits it.

Answers about positions of a long array are one array again, as those of hmmlearn; other answers have an entry for each
sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernelfields.data.ragged import Ragged
from kernelfields.data.single_arrays import OneArray, one_array
from kernelfields.estimators.answering.formats import AnswerFormat


def cut_by_lengths(form: AnswerFormat[Any], X: Any, y: Any, lengths: Any) -> tuple[list, Any]:
    """Return the sequences and their labels, of each name in a mapping; TypeError if items are no sequences."""
    array = _array_of(form, X, lengths)
    if form.is_single:
        return array.cut(X), y
    if isinstance(y, Mapping):
        return array.cut(X), {name: array.cut_labels(own) for name, own in y.items()}
    return array.cut(X), array.cut_labels(y)


def answer_by_lengths(ask: Callable[..., Any], model: Any, X: Any, lengths: Any, *, axis: int = 0, **given: Any) -> Any:
    """Return the answer for sequences in one array; answers about positions are concatenated.

    Parameters
    ----------
    ask : callable
        The question: a function of a model, a list of sequences and keywords.
    model : estimator
        The estimator that answers.
    X : array, list or table
        The sequences.
    lengths : array (S,) or mask (S, T)
        The lengths of the sequences.
    axis : int, default 0
        The axis of positions in answers about them.
    **given : object
        The keywords of the question; ``y`` and ``known`` are cut like X.

    Returns
    -------
    object
        The answers.
    """
    form = model._answer_format
    array = _array_of(form, X, lengths)
    for name in ("y", "known"):
        if given.get(name) is not None and not form.is_single:
            given[name] = array.cut_labels(given[name])
    found = ask(model, array.cut(X), **given)
    if isinstance(found, tuple):
        return array.join(found[0], axis), *found[1:]
    return array.join(found, axis) if isinstance(found, Ragged) else found


def _array_of(form: AnswerFormat[Any], X: Any, lengths: Any) -> OneArray:
    if form.headings[0] != "sequence":
        raise TypeError(f"lengths= is for sequences in one array, and items are {form.headings[0]}s here: leave it out")
    return one_array(X, lengths)
