"""Labels of words as spans of types, for display and for marking.

    labels    O   B-city   I-city   O       by a scheme (data/constraints.py)
    spans         city -----------          a type, its first position and the position after its last

The page shows spans, not tags. A marked span replaces the spans that it overlaps; their remaining positions become
outside if all labels of the item are known, else unknown.

The cost is linear in the positions of an item. Raises ValueError for a type that labels of the scheme cannot contain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelfields.data.constraints import Scheme, find_scheme, guess_scheme
from kernelfields.data.spans import UNTYPED, rewrite_labels, spans_of_scheme
from kernelfields.formats.annotated_texts import detect_scheme
from kernelfields.page.items import Known

OUTSIDE = "O"
# Items whose labels show the scheme.
_LOOKED_AT = 2000
# The tags of the two parts of a word, by its tag.
_PARTS = {"O": "OO", "B": "BI", "I": "II", "E": "IE", "L": "IL"} | {"S": "BE", "U": "BL"}


def split_label(label: str) -> tuple[str, str]:
    """Return the labels of the two parts of a word with this label."""
    parts = _PARTS[label[0]]
    return parts[0] + label[1:], parts[1] + label[1:]


def split_entry(entry: Any) -> tuple[Any, Any]:
    """Return the known labels of the two parts of a word with these known labels.

    Labels of a scheme continue in the second part; other labels are those of both parts.
    """
    if isinstance(entry, set | frozenset):
        parts = [split_entry(label) for label in entry]
        return {first for first, _ in parts}, {second for _, second in parts}
    if isinstance(entry, str) and guess_scheme([entry, "O"]) is not None:
        return split_label(entry)
    return entry, entry


class TypedSpan(NamedTuple):
    """A span of a type from ``begin`` to before ``end``."""

    kind: str
    begin: int
    end: int


class SpanView:
    """Conversion between labels of a scheme and spans."""

    def __init__(self, scheme: Scheme):
        self.scheme = scheme
        self._begins = {"bio": "B", "iob1": "BI", "bioes": "BS", "bilou": "BU"}[scheme.name]

    def kind(self, label: str) -> str | None:
        """Return the type of a label; None for labels outside of spans."""
        tag, kind = self.scheme.parse(label)
        return None if tag == OUTSIDE else kind or UNTYPED

    def describe_label(self, label: str) -> str:
        """Describe a label by its type, and whether it begins a span."""
        kind = self.kind(label)
        return "no span" if kind is None else f"{kind} ({'begins' if label[0] in self._begins else 'goes on'})"

    def kinds(self, labels: Iterable[str]) -> list[str]:
        """Return the distinct types of labels, in order."""
        named = map(self.kind, labels)
        return list(dict.fromkeys(kind for kind in named if kind is not None))

    def list_labels(self, kind: str) -> list[str]:
        """Return all labels of a type."""
        tags = [tag for tag in self.scheme.tags if tag != OUTSIDE]
        labels = [tag if kind == UNTYPED else f"{tag}-{kind}" for tag in tags]
        if not self.scheme.matches(labels) or self.kinds(labels) != [kind]:
            raise ValueError(f"{kind!r:.40} cannot be the type of a span")
        return labels

    def spans(self, labels: Sequence[str | None]) -> list[TypedSpan]:
        """Return the spans of labels; None counts as outside."""
        plain = [OUTSIDE if label is None else label for label in labels]
        return [TypedSpan(*span) for span in spans_of_scheme(plain, self.scheme)]

    def write_labels(self, kind: str | None, length: int, before: str | None) -> list[str]:
        """Return the labels of a span, or of words outside of spans; ``before`` is the preceding label."""
        if kind is None:
            return [OUTSIDE] * length
        self.list_labels(kind)
        touching = before is not None and self.kind(before) == kind
        tags = self.scheme.span_tags(length, touching=touching)
        return [tag if kind == UNTYPED else f"{tag}-{kind}" for tag in tags]

    def mark_span(
        self, shown: Sequence[str | None], known: Sequence[bool], begin: int, end: int, kind: str | None
    ) -> dict[int, str | None]:
        """Return the label changes for a new span by position, None for labels that become unknown.

        ``shown`` are the labels of all positions, ``known`` says which of them are more than predicted.
        """
        changes: dict[int, str | None] = {}
        spans, last = self.spans(shown), end
        for span in spans:
            if span.begin < end and begin < span.end:
                left = [t for t in range(span.begin, span.end) if not begin <= t < end and known[t]]
                changes |= dict.fromkeys(left, OUTSIDE if all(known) else None)
                last = max(last, span.end)
        before = changes.get(begin - 1, shown[begin - 1]) if begin else None
        changes |= zip(range(begin, end), self.write_labels(kind, end - begin, before), strict=True)
        follows = next((span for span in spans if span.begin == last), None)
        if follows is not None:  # it stays a span of its own, in the words of the scheme
            own = range(follows.begin, follows.end)
            new = self.write_labels(follows.kind, len(own), changes.get(last - 1, shown[last - 1]))
            changes |= {t: label for t, label in zip(own, new, strict=True) if known[t]}
        return {t: label for t, label in changes.items() if label != shown[t] or not known[t] or label is None}

    def split(self, label: str) -> tuple[str, str]:
        """Return the labels of the two parts of a word."""
        return split_label(label)

    def is_continued(self, label: str, after: str) -> bool:
        """Whether two neighbouring labels belong to one span."""
        return len(self.spans([label, after])) == 1 and OUTSIDE not in (label, after)

    def rewrite(self, labels: Sequence[str]) -> list[str]:
        """Rewrite the spans of labels in the scheme."""
        return rewrite_labels([list(labels)], self.scheme)[0][0]

    def type_probabilities(self, names: Sequence[str], marginals: np.ndarray) -> tuple[list[str | None], np.ndarray]:
        """Sum marginals (T, L) of labels over types; return the types, None for outside, and their probabilities."""
        kinds = [self.kind(name) for name in names]
        found = list(dict.fromkeys(kinds))
        return found, np.column_stack([marginals[:, [own == kind for own in kinds]].sum(axis=1) for kind in found])

    def count_spans(self, labels: Mapping[str, int]) -> Counter[str]:
        """Count the spans of each type from counts of labels."""
        found: Counter[str] = Counter()
        for label, count in labels.items():
            if (kind := self.kind(label)) is not None and label[0] in self._begins:
                found[kind] += count
        return found


def choose_scheme(asked: str | None, others: list, named: list, given: Sequence[Sequence[Known]]) -> Scheme | None:
    """Return the requested scheme, or the scheme of the labels of the model, the file or the settings."""
    if asked is None:
        return None
    if asked not in ("auto", "spans"):
        return find_scheme(asked)
    labels = [label for label in others or named if isinstance(label, str)]
    found = guess_scheme(labels) if len(labels) == len(others or named) else None
    if found is None:
        return find_scheme("bio") if asked == "spans" and not others else None
    known = [[next(iter(e)) if e and len(e) == 1 else None for e in own] for own in given[:_LOOKED_AT]]
    return find_scheme("iob1") if found.name == "bio" and detect_scheme(known) == "iob1" else found
