"""Lists of sequences as one list, under the name of ``sklearn_crfsuite.utils``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

__all__ = ["flatten"]


def flatten(y: Iterable[Iterable]) -> list:
    """Concatenate sequences to one list.

    Parameters
    ----------
    y : iterable of iterables
        The sequences, such as lists of labels.

    Returns
    -------
    list
        The elements of all sequences, in order.

    Examples
    --------
    >>> from kernelfields.compat.utils import flatten
    >>> flatten([["a", "b"], ["c"]])
    ['a', 'b', 'c']
    """
    return list(chain.from_iterable(y))
