"""How labels of entities are written: schemes recognised in the usual spellings.

    B-PER I-PER O         tag, separator, type: the notation of the schemes themselves
    B_PER, b-per, PER-B   other separators, lower case, the type first
    B-PER M-PER E-PER     M for I, and W for S, in labels with ends (BMES, BMEWO)
    B M E S               tags without types, in capitals and without strays
    <PAD>, X              strays: one or two labels that say nothing about entities, and are outside of them

A spelling is recognised if all labels but strays have it, and some type has a label that begins entities and one that
goes on with them. Cost: O(L) for each spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from kernelfields.data.constraints import SCHEMES, Scheme, guess_scheme

_SEPARATORS = "-_.:/|"
_MOST_STRAYS = 2
# The letters that stand for tags of a scheme, by scheme; most usual first.
_LETTERS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("bio", {}),
    ("bioes", {}),
    ("bilou", {}),
    ("bioes", {"M": "I"}),
    ("bioes", {"M": "I", "W": "S"}),
)


@dataclass(frozen=True)
class Notation:
    """A spelling of labels: separator, order of type and tag, letters for tags, and stray labels."""

    separator: str
    type_first: bool = False
    letters: Mapping[str, str] = field(default_factory=dict)
    strays: frozenset[str] = frozenset()

    def standard(self, label: object) -> str | None:
        """Return a label as schemes write it, "B-PER"; "O" for strays, None for labels of another spelling."""
        if not isinstance(label, str):
            return None
        if label in self.strays:
            return "O"
        if self.type_first:
            kind, separator, tag = label.rpartition(self.separator)
            if not separator:
                kind, tag = "", label
        else:
            tag, _, kind = label.partition(self.separator)
        if kind or tag == "o":
            tag = tag.upper()
        # A letter that another one stands for is not written itself.
        tag = "" if tag in self.letters.values() else self.letters.get(tag, tag)
        return f"{tag}-{kind}" if kind else tag


def recognize_scheme(labels: Iterable) -> Scheme | None:
    """Return the scheme of labels in any usual spelling, with its notation; None for labels without a scheme.

    Parameters
    ----------
    labels : iterable
        The labels.

    Returns
    -------
    Scheme or None
        The scheme; its ``notation`` is None if labels are written as the scheme writes them.
    """
    known = set(labels)
    if (found := guess_scheme(known)) is not None:
        return found
    if not all(isinstance(label, str) for label in known):
        return None
    fitting = []
    for (name, letters), separator, type_first in product(_LETTERS, _SEPARATORS, (False, True)):
        notation = Notation(separator, type_first, letters)
        scheme = replace(SCHEMES[name], notation=notation)
        strays = frozenset(label for label in known if not scheme.matches([label]))
        typed = any(separator in label for label in known - strays)
        if len(strays) <= (_MOST_STRAYS if typed else 0) and _has_full_type(scheme, known - strays):
            fitting.append((len(strays), replace(scheme, notation=replace(notation, strays=strays))))
    return min(fitting, key=lambda each: each[0])[1] if fitting else None


def _has_full_type(scheme: Scheme, labels: set[str]) -> bool:
    """Whether some type has both a beginning label and a continuing label."""
    parts = {scheme.parse(label) for label in labels}
    return any(tag == "B" and any((other, kind) in parts for other in "IEL") for tag, kind in parts)
