"""Labellings that may not happen, as penalties of minus infinity on the potentials.

    node'_t(b) = node_t(b) + label(b) + [t first] start(b) + [t last] end(b)
    edge'(a, b) = edge(a, b) + edge_penalty(a, b)

A penalty is 0 where the label or the pair of neighbours (a, b) is allowed and -inf where it is not, so
inference gives forbidden labellings probability zero and the best labelling never contains them. A scheme such as
"bio" (schemes.py) forbids what it does not know, and may be joined with further constraints:

    "bio"    {"scheme": "bio", "transitions": [("B-NP", "B-NP")]}    [("O", "I"), ("B", "B")]    {"start": ["I"]}

Arrays: edge (L, L); start, end, label (L,); float64. Cost: O(N L) to apply, O(N) to check labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.fields.schemes import find_scheme, reachable
from kernelfields.fields.sequences import locate

_COLLECTIONS = ("transitions", "start", "end", "labels")
_KEYS = (*_COLLECTIONS, "scheme")
_SHOWN_CLASSES = 10
_EVERYWHERE, _FIRST = "is forbidden everywhere", "is forbidden at the first position"
_LAST, _AFTER = "is forbidden at the last position", "is forbidden after"


@dataclass(frozen=True)
class Constraints:
    """Forbidden neighbours (a, b), labels forbidden first, last, and everywhere; the name of a scheme, or None."""

    transitions: Iterable = ()
    start: Iterable = ()
    end: Iterable = ()
    labels: Iterable = ()
    scheme: str | None = None

    def __post_init__(self) -> None:
        if self.scheme is not None:
            object.__setattr__(self, "scheme", find_scheme(self.scheme).name)
        for key in _COLLECTIONS:
            given = getattr(self, key)
            if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
                wanted = "(a, b) pairs" if key == "transitions" else "labels"
                raise TypeError(f"{key} must be a collection of {wanted}, got {given!r}: write [{given!r}]")
            plain = _pairs(given) if key == "transitions" else tuple(_plain(label) for label in given)
            object.__setattr__(self, key, plain)

    @classmethod
    def of(cls, constraints: Any) -> Constraints:
        """Read None, Constraints, the name of a scheme, a dict of fields, or an iterable of forbidden (a, b)."""
        if constraints is None:
            return cls()
        if isinstance(constraints, str):
            return cls(scheme=constraints)
        if isinstance(constraints, cls):
            return constraints
        if isinstance(constraints, Mapping):
            unknown = [key for key in constraints if key not in _KEYS]
            if unknown:
                raise ValueError(f"constraints has the unknown key {unknown[0]!r}: known are {', '.join(_KEYS)}")
            return cls(**constraints)
        return cls(transitions=constraints)

    def spec(self) -> dict[str, Any]:
        """Describe the constraints with lists that JSON can hold, and the name of the scheme if there is one."""
        pairs = [list(pair) for pair in self.transitions]
        return {
            "transitions": pairs,
            "start": list(self.start),
            "end": list(self.end),
            "labels": list(self.labels),
            **({} if self.scheme is None else {"scheme": self.scheme}),
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Constraints:
        """Rebuild the constraints from what ``spec`` returned."""
        return cls.of(spec)


@dataclass(frozen=True, eq=False)
class ConstraintMasks:
    """Penalties of 0 and -inf: ``edge`` (L, L), ``start``, ``end`` and ``label`` (L,).

    ``scheme``, where given, is named in errors about what it forbids; its penalties are among the others.
    """

    edge: np.ndarray
    start: np.ndarray
    end: np.ndarray
    label: np.ndarray
    scheme: str | None = None

    @property
    def any(self) -> bool:
        """Whether anything is forbidden."""
        return any(mask.any() for mask in (self.edge, self.start, self.end, self.label))

    def apply(self, node: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Add the start, end and label penalties to node potentials (N, L) in place; return them."""
        if self.label.any():
            node += self.label
        if self.start.any():
            node[offsets[:-1]] += self.start
        if self.end.any():
            node[offsets[1:] - 1] += self.end
        return node

    def check_lengths(self, lengths: np.ndarray) -> None:
        """Raise ValueError at the first sequence whose length (S,) leaves it no labelling."""
        if not self.any:
            return
        allowed = self.label == 0
        steps, ends = (self.edge == 0) & allowed, self.end == 0
        reached = allowed & (self.start == 0)
        possible: list[bool] = []
        # Which labels a prefix can end in depends on the prefix before it alone, so once a set comes back, all do.
        seen: dict[bytes, int] = {}
        while len(possible) < lengths.max() and reached.tobytes() not in seen:
            seen[reached.tobytes()] = len(possible)
            possible.append(bool(np.any(reached & ends)))
            reached = steps[reached].any(axis=0)
        first = seen.get(reached.tobytes(), 0)
        places = lengths - 1
        places = np.where(places < len(possible), places, first + (places - first) % (len(possible) - first))
        impossible = np.flatnonzero(~np.array(possible)[places])
        if impossible.size:
            sequence = int(impossible[0])
            raise ValueError(
                f"sequence {sequence}: the constraints leave no labelling of its length, {lengths[sequence]}. "
                "Drop the sequence or a constraint."
            )

    def check_labels(self, labels: np.ndarray, offsets: np.ndarray, classes: np.ndarray) -> None:
        """Raise ValueError at the first sequence whose labels (N,) break a constraint."""
        first, last = offsets[:-1], offsets[1:] - 1
        joined = np.ones(len(labels), dtype=bool)
        joined[first] = False
        after = np.flatnonzero(joined)
        breaks = [
            (np.flatnonzero(self.label[labels]), _EVERYWHERE),
            (first[self.start[labels[first]] != 0], _FIRST),
            (last[self.end[labels[last]] != 0], _LAST),
            (after[self.edge[labels[after - 1], labels[after]] != 0], _AFTER),
        ]
        found = [(int(rows[0]), rule) for rows, rule in breaks if rows.size]
        if not found:
            return
        row, rule = min(found)
        reason = self._reason(labels[row - 1], labels[row], rule, classes)
        if rule == _AFTER:
            rule = f"{rule} {classes[labels[row - 1]].item()!r}"
        sequence, place = locate(offsets, row)
        raise ValueError(
            f"sequence {sequence}, position {place}: label {classes[labels[row]].item()!r} {rule} by {reason}."
        )

    def _reason(self, before: int, label: int, rule: str, classes: np.ndarray) -> str:
        """Say who forbids it, the scheme or the constraints beside it, and what to do."""
        if self.scheme is not None:
            scheme = find_scheme(self.scheme)
            pairs, first, last = scheme.rules(classes.tolist())
            allows = {_FIRST: first[label], _LAST: last[label], _AFTER: pairs[before, label]}
            if not allows.get(rule, True):
                return f"the scheme {self.scheme!r}. Correct the label{scheme.advice}"
        return "the constraints. Correct the label or drop the constraint"


def resolve_constraints(constraints: Any, classes: np.ndarray) -> ConstraintMasks:
    """Turn constraints in any accepted form into penalties over the sorted classes (L,)."""
    given = Constraints.of(constraints)
    place = {label: index for index, label in enumerate(np.asarray(classes).tolist())}

    def mask(labels: Iterable, where: str) -> np.ndarray:
        penalties = np.zeros(len(place))
        penalties[[_index(label, place, where) for label in labels]] = -np.inf
        return penalties

    masks = ConstraintMasks(
        edge=np.zeros((len(place), len(place))),
        start=mask(given.start, "start"),
        end=mask(given.end, "end"),
        label=mask(given.labels, "labels"),
        scheme=given.scheme,
    )
    if given.scheme is not None:
        allowed = find_scheme(given.scheme).rules(list(place))
        for penalties, known in zip((masks.edge, masks.start, masks.end), allowed, strict=True):
            penalties[~known] = -np.inf
    for before, after in given.transitions:
        masks.edge[_index(before, place, "transitions"), _index(after, place, "transitions")] = -np.inf
    _check_possible(masks)
    return masks


def _check_possible(masks: ConstraintMasks) -> None:
    allowed = masks.label == 0
    if not allowed.any():
        raise ValueError("the constraints forbid every label: leave at least one out of 'labels'")
    for name, penalties in (("start", masks.start), ("end", masks.end)):
        if not (allowed & (penalties == 0)).any():
            raise ValueError(f"the constraints leave no label to {name} a sequence with: allow one in {name!r}")
    reached = reachable(allowed & (masks.start == 0), allowed & (masks.edge == 0))
    if not (reached & (masks.end == 0)).any():
        raise ValueError(
            "the constraints forbid every labelling: no allowed path leads from a start label to an end label"
        )


def _index(label: Any, place: dict, where: str) -> int:
    if label not in place:
        shown = ", ".join(repr(known) for known in list(place)[:_SHOWN_CLASSES])
        more = f" and {len(place) - _SHOWN_CLASSES} more" if len(place) > _SHOWN_CLASSES else ""
        raise ValueError(f"constraints name the unknown label {label!r} in {where!r}: known are {shown}{more}")
    return place[label]


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _pairs(given: Iterable) -> tuple:
    pairs = []
    for pair in given:
        if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) or len(both := tuple(pair)) != 2:
            raise ValueError(f"transitions must be pairs (label, next label), got {pair!r}")
        pairs.append((_plain(both[0]), _plain(both[1])))
    return tuple(pairs)
