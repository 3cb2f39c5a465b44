"""Schemes that write entities as one label per position: "B-NP" begins an entity of type NP, "O" is outside.

    bio    (also iob2)   I-X follows B-X or I-X
    iob1                 an entity begins with I-X; B-X only where it touches one of its own type, after B-X or I-X
    bioes  (also iobes)  entities are S-X, or B-X I-X* E-X
    bilou  (also biluo)  entities are U-X, or B-X I-X* L-X

A label is "O" or a tag, a hyphen and a type; a tag alone, such as "B", is an entity without a type. A scheme says
which tags of the same type a tag has to follow and which have to follow it; what has to follow something may not
begin a sequence, and what has to be followed may not end one.

Arrays: allowed pairs (L, L), first and last labels (L,), all bool. Cost: O(L^2).
Fails: ValueError for an unknown name, a label that is not in the form of the scheme (named, with the form), and a
label that no sequence could hold because the labels that have to be beside it are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Scheme:
    """Tags of a scheme, and for those that cannot stand anywhere which tags come right before and right after."""

    name: str
    tags: str
    after: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    advice: str = ""

    def parse(self, label: Any) -> tuple[str, str]:
        """Return tag and type of a label, ("O", "") outside; raise ValueError if it has another form."""
        parts = self._split(label)
        if parts is None:
            raise ValueError(f"label {label!r} does not fit the scheme {self.name!r}: {self._expected(label)}")
        return parts

    def holds(self, labels: Iterable) -> bool:
        """Whether every label has the form of the scheme."""
        return all(self._split(label) is not None for label in labels)

    def rules(self, labels: Sequence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return which pairs (L, L) of the labels may be neighbours, which (L,) may be first, which last."""
        parts = [self.parse(label) for label in labels]
        tags = np.array([self.tags.index(tag) for tag, _ in parts])
        types = np.array([kind for _, kind in parts])
        first = np.array([tag not in self.after for tag in self.tags])
        last = np.array([tag not in self.before for tag in self.tags])
        within = np.array([[self._joined(left, right) for right in self.tags] for left in self.tags])
        apart = last[:, None] & first  # what one entity leaves to the next, or to the outside
        grid = np.ix_(tags, tags)
        pairs = np.where(types[:, None] == types, within[grid], apart[grid])
        first, last = first[tags], last[tags]
        self._check_way(labels, pairs, first, self.after, "before")
        self._check_way(labels, pairs.T, last, self.before, "after")
        return pairs, first, last

    def _split(self, label: Any) -> tuple[str, str] | None:
        if not isinstance(label, str):
            return None
        tag, hyphen, kind = label.partition("-")
        if len(tag) != 1 or tag not in self.tags or bool(hyphen) != bool(kind) or (tag == "O" and kind):
            return None
        return tag, kind

    def _joined(self, left: str, right: str) -> bool:
        """Whether tags of the same type may be neighbours."""
        return left in self.after.get(right, self.tags) and right in self.before.get(left, self.tags)

    def _expected(self, label: Any) -> str:
        forms = ", ".join(f"'{tag}-type'" for tag in self.tags if tag != "O")
        expected = f"expected 'O' or one of {forms}"
        kind, _, tag = label.rpartition("-") if isinstance(label, str) else ("", "", "")
        if kind and self._split(turned := f"{tag}-{kind}"):
            return f"{expected}, the tag first: write {turned!r}"
        return expected

    def _check_way(
        self, labels: Sequence, steps: np.ndarray, ends: np.ndarray, needed: dict[str, str], side: str
    ) -> None:
        """Raise if steps (L, L) from the labels that may end a sequence on one side do not reach a label."""
        lost = np.flatnonzero(~reachable(ends, steps))
        if lost.size:
            tag, kind = self.parse(labels[lost[0]])
            nearest = next(each for each in needed[tag] if each not in needed)
            missing = f"{nearest}-{kind}" if kind else nearest
            raise ValueError(
                f"label {labels[lost[0]]!r} cannot occur in the scheme {self.name!r}: it needs {missing!r} {side} "
                f"it, which is not among the labels. Correct the labels{self.advice}."
            )


def reachable(start: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return which labels (L,) allowed steps (L, L) lead to from those in start (L,), which are among them."""
    reached = start.copy()
    while (further := reached | steps[reached].any(axis=0)).sum() > reached.sum():
        reached = further
    return reached


_UNMARKED_END = ", or use 'bio' if the ends of entities are not marked"
SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme("bio", "OBI", {"I": "BI"}, advice=", or use 'iob1' if entities may begin with I"),
        Scheme("iob1", "OBI", {"B": "BI"}, advice=", or use 'bio' if entities begin with B"),
        Scheme("bioes", "OBIES", {"I": "BI", "E": "BI"}, {"B": "IE", "I": "IE"}, _UNMARKED_END),
        Scheme("bilou", "OBILU", {"I": "BI", "L": "BI"}, {"B": "IL", "I": "IL"}, _UNMARKED_END),
    )
}
_ALIASES = {"iob2": "bio", "iobes": "bioes", "biluo": "bilou"}


def find_scheme(name: Any) -> Scheme:
    """Return the scheme of that name, in capitals or not; iob2, iobes and biluo are understood, too."""
    key = name.lower() if isinstance(name, str) else ""
    scheme = SCHEMES.get(_ALIASES.get(key, key))
    if scheme is None:
        known = ", ".join(repr(each) for each in (*SCHEMES, *_ALIASES))
        raise ValueError(f"unknown scheme {name!r}: known are {known}")
    return scheme


def guess_scheme(labels: Iterable) -> Scheme | None:
    """Return the scheme whose form all these labels have, None if there is none.

    Labels of "bio" and "iob1" look the same; "bio" is returned. Tags without types count only if an entity can
    begin and go on with them, so that classes that happen to be called "S" and "E" are not taken for entities.
    """
    known = set(labels)
    for scheme in (SCHEMES["bio"], SCHEMES["bioes"], SCHEMES["bilou"]):
        if known and scheme.holds(known):
            typed = any(len(label) > 1 for label in known)
            return scheme if typed or known == {"O"} or ("B" in known and known & {"I", "E", "L"}) else None
    return None
