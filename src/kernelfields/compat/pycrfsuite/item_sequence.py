"""ItemSequence: the attributes of one sequence, read once, for trainers and taggers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kernelfields.data.chunks import iterate_features


class Item(NamedTuple):
    """The names and the weights of the attributes of a position; weights of equal names are added."""

    names: list[str]
    weights: list[float]


class ItemSequence:
    """Attributes of all positions of a sequence, for repeated use in trainers and taggers.

    Parameters
    ----------
    pyseq : iterable of dict, or of lists of str
        Feature dicts or feature strings of each position: a number or a truth value is a weight, a string is joined to
        its name by a colon, and dicts, lists and sets put their name in front of theirs.

    See Also
    --------
    Tagger : Predicts labels of sequences.

    Examples
    --------
    >>> from kernelfields.compat.pycrfsuite import ItemSequence
    >>> ItemSequence([["foo"], {"bar": {"baz": 1}}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0}]
    """

    def __init__(self, pyseq: Iterable):
        self.rows: list[Item] = list(_iterate_items(pyseq))

    def items(self) -> list[dict[str, float]]:
        """Return the attributes of each position.

        Returns
        -------
        list of dict
            Weights by the names of attributes.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import ItemSequence
        >>> ItemSequence([{"word": "Ann", "upper": True}]).items()
        [{'word:Ann': 1.0, 'upper': 1.0}]
        """
        return [dict(zip(names, weights, strict=True)) for names, weights in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


def _iterate_items(pyseq: Iterable) -> Iterator[Item]:
    """Yield the positions of a sequence, or the items of an ItemSequence."""
    yield from pyseq.rows if isinstance(pyseq, ItemSequence) else map(_read_item, pyseq)


def _read_item(position: object) -> Item:
    names: list[str] = []
    weights: list[float] = []
    for name, weight in iterate_features(position):
        names.append(name)
        weights.append(weight)
    return Item(names, weights)
