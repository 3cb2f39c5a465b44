"""Constraints on labellings: penalties of minus infinity on potentials, and schemes of entities.

    node'_t(b) = node_t(b) + label(b) + [t first] start(b) + [t last] end(b)
    edge'(a, b) = edge(a, b) + edge_penalty(a, b)

A penalty is 0 where the label or the pair of neighbours (a, b) is allowed and -inf where it is not, so
inference gives forbidden labellings probability zero and the best labelling never contains them. A scheme writes
entities as one label per position, "B-NP" begins an entity of type NP, "O" is outside; it forbids all
else, and may be joined with further constraints:

    "bio"    {"scheme": "bio", "transitions": [("B-NP", "B-NP")]}    [("O", "I"), ("B", "B")]    {"start": ["I"]}

    bio    (also iob2)   I-X follows B-X or I-X
    iob1                 an entity begins with I-X; B-X only where it touches one of its own type, after B-X or I-X
    bioes  (also iobes)  entities are S-X, or B-X I-X* E-X
    bilou  (also biluo)  entities are U-X, or B-X I-X* L-X

A label is "O" or a tag, a hyphen and a type; a tag alone, such as "B", is an entity without a type. A scheme lists
which tags of the same type a tag has to follow and which have to follow it; what has to follow something may not
begin a sequence, and what has to be followed may not end one. Labels of training data that break their scheme are
mended (data/spans.py), unless the constraints are strict:

    {"scheme": "bio", "strict": True}

Arrays: penalties edge (L, L), start, end, label (L,), float64; of schemes allowed pairs (L, L), first and last
labels (L,), bool. Cost: O(L^2) to resolve, O(N L) to apply, O(N) to check labels. Raises ValueError for an unknown
name, a label that has not the form of the scheme, or without the labels that have to be beside it, constraints that
leave no labelling, and labels that break one (sequence and position are named).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kernelfields.data import label_forms
from kernelfields.data.reading import SEQUENCES, find_place, plain_label
from kernelfields.numerics.memory import check_labels_fit
from kernelfields.numerics.registry import SETTINGS

_COLLECTIONS = ("transitions", "start", "end", "labels")
_KEYS = (*_COLLECTIONS, "scheme", "strict")
_EVERYWHERE, _FIRST = "is forbidden everywhere", "is forbidden at the first position"
_LAST, _AFTER = "is forbidden at the last position", "is forbidden after"
_UNMARKED_END = ", or use 'bio' if the ends of entities are not marked"


class Spelling(Protocol):
    """A way to write labels of entities and labels outside of entities."""

    @property
    def strays(self) -> frozenset[str]:
        """Labels that are outside of all entities."""

    def standard(self, label: object) -> str | None:
        """Return a label as schemes write it; None for labels of another spelling."""


@dataclass(frozen=True, eq=False)
class Scheme:
    """Tags of a scheme, with the tags that may precede and follow dependent tags."""

    name: str
    tags: str
    after: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    advice: str = ""
    #: Another spelling of the labels (data/label_notations.py); None for "B-type".
    notation: Spelling | None = None

    def parse(self, label: object) -> tuple[str, str]:
        """Return tag and type of a label, ("O", "") outside; raise ValueError if it has another form."""
        parts = self._split(label)
        if parts is None:
            raise ValueError(f"label {label!r} does not fit the scheme {self.name!r}: {self._expected(label)}")
        return parts

    def matches(self, labels: Iterable) -> bool:
        """Whether every label has the form of the scheme."""
        return all(self._split(label) is not None for label in labels)

    def rules(self, labels: Sequence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the allowed pairs (L, L) of neighbours, first labels (L,) and last labels (L,)."""
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

    def span_tags(self, length: int, touching: bool = False) -> str:
        """Return the tags of an entity of ``length`` positions; ``touching`` if one of its type precedes it."""
        first, inside, last, single = {
            "bio": "BIIB",
            "iob1": "BIIB" if touching else "IIII",
            "bioes": "BIES",
            "bilou": "BILU",
        }[self.name]
        return single if length == 1 else first + inside * (length - 2) + last

    def is_allowed_step(self, label: str, before: str | None) -> bool:
        """Whether a label of the scheme may follow another one, or begin a sequence."""
        tag, kind = self.parse(label)
        if before is None:
            return tag not in self.after
        left, other = self.parse(before)
        return self._joined(left, tag) if kind == other else left not in self.before and tag not in self.after

    def is_allowed_end(self, label: str) -> bool:
        """Whether a label may end a sequence."""
        return self.parse(label)[0] not in self.before

    def _split(self, label: object) -> tuple[str, str] | None:
        if self.notation is not None:
            label = self.notation.standard(label)
        if not isinstance(label, str):
            return None
        tag, hyphen, kind = label.partition("-")
        if len(tag) != 1 or tag not in self.tags or bool(hyphen) != bool(kind) or (tag == "O" and kind):
            return None
        return tag, kind

    def _joined(self, left: str, right: str) -> bool:
        """Whether tags of the same type may be neighbours."""
        return left in self.after.get(right, self.tags) and right in self.before.get(left, self.tags)

    def _expected(self, label: object) -> str:
        forms = ", ".join(f"'{tag}-type'" for tag in self.tags if tag != "O")
        expected = f"expected 'O' or one of {forms}"
        kind, _, tag = label.rpartition("-") if isinstance(label, str) else ("", "", "")
        if kind and self._split(turned := f"{tag}-{kind}"):
            return f"{expected}, the tag first: write {turned!r}"
        return expected

    def _check_way(self, labels: Sequence, steps: np.ndarray, ends: np.ndarray, needed: dict, side: str) -> None:
        """Raise if a label is unreachable by allowed steps (L, L) from the ends of a sequence."""
        lost = np.flatnonzero(~reachable(ends, steps))
        if lost.size:
            tag, kind = self.parse(labels[lost[0]])
            nearest = next(other for other in needed[tag] if other not in needed)
            missing = f"{nearest}-{kind}" if kind else nearest
            raise ValueError(
                f"label {labels[lost[0]]!r} cannot occur in the scheme {self.name!r}: it needs {missing!r} {side} "
                f"it, which is not among the labels. Correct the labels{self.advice}."
            )


def reachable(start: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the labels (L,) that allowed steps (L, L) reach from the labels in ``start`` (L,)."""
    reached = start.copy()
    while (further := reached | steps[reached].any(axis=0)).sum() > reached.sum():
        reached = further
    return reached


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


def find_scheme(name: object) -> Scheme:
    """Return a scheme by its name, in any case; iob2, iobes and biluo are names, too."""
    key = name.lower() if isinstance(name, str) else ""
    scheme = SCHEMES.get(_ALIASES.get(key, key))
    if scheme is None:
        known = ", ".join(map(repr, (*SCHEMES, *_ALIASES)))
        raise ValueError(f"unknown scheme {name!r}: known are {known}")
    return scheme


def guess_scheme(labels: Iterable) -> Scheme | None:
    """Return the scheme whose form all labels have; None without one.

    Labels of "bio" and "iob1" look the same; "bio" is returned. Tags without types count only if an entity can
    begin and go on with them, so that classes that happen to be called "S" and "E" are not taken for entities.
    """
    known = set(labels)
    for scheme in (SCHEMES["bio"], SCHEMES["bioes"], SCHEMES["bilou"]):
        if known and scheme.matches(known):
            typed = any(len(label) > 1 for label in known)
            return scheme if typed or known == {"O"} or ("B" in known and known & {"I", "E", "L"}) else None
    return None


@SETTINGS.register("constraints")
@dataclass(frozen=True)
class Constraints:
    """Forbidden neighbours, first, last and other labels, and a scheme of entities.

    Labels of training data that break the scheme are mended, with a warning: in "bio", an I-X that no entity of its
    type goes on from is read as B-X.

    Parameters
    ----------
    transitions : iterable of (label, label), default ()
        Pairs of labels that may not be neighbours.
    start : iterable of labels, default ()
        Labels that may not be the first.
    end : iterable of labels, default ()
        Labels that may not be the last.
    labels : iterable of labels, default ()
        Labels that are forbidden everywhere.
    scheme : {"bio", "iob1", "bioes", "bilou"} or None, default None
        How labels write entities; what breaks it is forbidden, too.
    strict : bool, default False
        Whether labels of training data that break the scheme are an error.

    Examples
    --------
    >>> from kernelfields import ChainCRF, Constraints
    >>> X = [["Ada", "Byron", "met", "Bob"], ["Bob", "slept"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O"]]
    >>> rules = Constraints(scheme="bio", start=["O"])
    >>> crf = ChainCRF(prior_variance=1.0, constraints=rules, random_state=0).fit(X, y)
    >>> crf.log_likelihood([["met", "Bob"]], [["O", "B-PER"]])
    -inf
    """

    transitions: Iterable = ()
    start: Iterable = ()
    end: Iterable = ()
    labels: Iterable = ()
    scheme: str | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.scheme is not None:
            object.__setattr__(self, "scheme", find_scheme(self.scheme).name)
        if not isinstance(self.strict, bool) or (self.strict and self.scheme is None):
            raise ValueError(f"strict is True or False, and about a scheme, got {self.strict!r} for {self.scheme!r}")
        for key in _COLLECTIONS:
            items = getattr(self, key)
            if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
                wanted = "(a, b) pairs" if key == "transitions" else "labels"
                raise TypeError(f"{key} must be a collection of {wanted}, got {items!r}: write [{items!r}]")
            plain = _pairs(items) if key == "transitions" else tuple(map(plain_label, items))
            object.__setattr__(self, key, plain)

    @classmethod
    def parse(cls, constraints: object) -> Constraints:
        """Parse constraints in any accepted form.

        Parameters
        ----------
        constraints : None, Constraints, str, dict or iterable of (label, label)
            The name of a scheme, a dict of fields, or pairs that may not be neighbours.

        Returns
        -------
        Constraints
            The constraints.

        Raises
        ------
        ValueError
            If a key or a scheme is unknown.
        """
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
        return cls(transitions=constraints)  # type: ignore[arg-type]  # checked there

    def spec(self) -> dict[str, object]:
        """Return the constraints as plain lists.

        Returns
        -------
        dict
            The fields; the scheme if there is one.
        """
        lists: dict[str, object] = {key: list(getattr(self, key)) for key in _COLLECTIONS}
        lists["transitions"] = [list(pair) for pair in self.transitions]
        named = {} if self.scheme is None else {"scheme": self.scheme}
        return {**lists, **named, **({"strict": True} if self.strict else {})}

    @classmethod
    def from_spec(cls, spec: Mapping[str, object]) -> Constraints:
        """Rebuild the constraints from their description.

        Parameters
        ----------
        spec : dict
            What :meth:`spec` returned.

        Returns
        -------
        Constraints
            The constraints.
        """
        return cls.parse(spec)


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
        return any(mask.any() for mask in self.describe().values())

    def describe(self) -> dict[str, np.ndarray]:
        """Return the penalties for a model file."""
        return {"edge": self.edge, "start": self.start, "end": self.end, "label": self.label}

    def check(self, n_labels: int) -> None:
        """Raise ValueError unless the masks are penalties on ``n_labels`` labels that allow a labelling."""
        for name, mask in self.describe().items():
            if mask.shape != ((n_labels, n_labels) if name == "edge" else (n_labels,)):
                raise ValueError(f"the constraint mask {name!r} has the wrong shape")
            if mask.dtype.kind != "f" or not ((mask == 0) | (mask == -np.inf)).all():
                raise ValueError(f"the constraint mask {name!r} must hold 0 and -inf only")
        _check_possible(self)

    def apply(self, node: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Add the start, end and label penalties to node potentials (N, L) in place; return them."""
        if self.label.any():
            node += self.label
        if self.start.any():
            node[offsets[:-1]] += self.start
        if self.end.any():
            node[offsets[1:] - 1] += self.end
        return node

    def log_labellings(self, lengths: np.ndarray) -> np.ndarray:
        """Return the logarithm of the number of allowed labellings for each length (S,); -inf for none."""
        steps, first, last = (np.exp(mask) for mask in (self.edge + self.label, self.start + self.label, self.end))
        logs, counts, scale = np.empty(lengths.max()), first, 0.0
        with np.errstate(divide="ignore"):
            for place in range(len(logs)):
                logs[place] = np.log(counts @ last) + scale
                counts = counts @ steps
                # Numbers of labellings grow beyond doubles.
                total = max(counts.sum(), np.finfo(np.float64).tiny)
                counts, scale = counts / total, scale + np.log(total)
        return logs[lengths - 1]

    def check_lengths(self, lengths: np.ndarray) -> None:
        """Raise ValueError at the first sequence whose length (S,) allows no labelling."""
        if not self.any or not len(lengths):
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

    def check_labels(
        self, labels: np.ndarray, offsets: np.ndarray, classes: np.ndarray, before: np.ndarray | None = None
    ) -> None:
        """Raise ValueError at the first sequence whose labels (N,) break a constraint.

        ``before`` is the row before each, -1 where there is none; without it, neighbours follow each other.
        """
        first, last = offsets[:-1], offsets[1:] - 1
        if before is None:
            before = np.arange(-1, len(labels) - 1)
            before[first] = -1
        after = np.flatnonzero(before >= 0)
        breaks = [
            (np.flatnonzero(self.label[labels]), _EVERYWHERE),
            (first[self.start[labels[first]] != 0], _FIRST),
            (last[self.end[labels[last]] != 0], _LAST),
            (after[self.edge[labels[before[after]], labels[after]] != 0], _AFTER),
        ]
        broken = [(int(rows[0]), rule) for rows, rule in breaks if rows.size]
        if not broken:
            return
        row, rule = min(broken)
        previous = labels[before[row]]
        reason = self._reason(previous, labels[row], rule, classes)
        if rule == _AFTER:
            rule = f"{rule} {classes[previous].item()!r}"
        place = SEQUENCES.place(offsets, row)
        raise ValueError(f"{place}: label {classes[labels[row]].item()!r} {rule} by {reason}.")

    def check_targets(self, targets: label_forms.SoftRows, offsets: np.ndarray) -> None:
        """Raise ValueError at the first position with a target for a forbidden label."""
        wrong: np.ndarray = np.any(targets.node * (self.label < 0), axis=1)
        wrong[offsets[:-1]] |= (targets.node[offsets[:-1]] * (self.start < 0)).any(axis=1)
        wrong[offsets[1:] - 1] |= (targets.node[offsets[1:] - 1] * (self.end < 0)).any(axis=1)
        if self.edge.any():
            wrong |= (targets.pairs(offsets) * (self.edge < 0)).any(axis=(1, 2))
        if wrong.any():
            place = SEQUENCES.place(offsets, int(wrong.argmax()))
            raise ValueError(f"{place}: targets give mass to what the constraints forbid")

    def _reason(self, before: int, label: int, rule: str, classes: np.ndarray) -> str:
        """Return the name of the violated rule, and advice."""
        if self.scheme is not None:
            scheme = find_scheme(self.scheme)
            pairs, first, last = scheme.rules(classes.tolist())
            allows = {_FIRST: first[label], _LAST: last[label], _AFTER: pairs[before, label]}
            if not allows.get(rule, True):
                return f"the scheme {self.scheme!r}. Correct the label{scheme.advice}"
        return "the constraints. Correct the label or drop the constraint"


def resolve_constraints(constraints: object, classes: np.ndarray) -> ConstraintMasks:
    """Convert constraints in any accepted form to penalties.

    Parameters
    ----------
    constraints : str, list, dict, Constraints or None
        The constraints, as :class:`~kernelfields.ChainCRF` takes them.
    classes : array (L,)
        The sorted labels.

    Returns
    -------
    ConstraintMasks
        Penalties of 0 and minus infinity: ``edge`` (L, L), ``start``, ``end`` and ``label`` (L,).

    Raises
    ------
    ValueError
        If a label is unknown, or if the constraints leave no labelling.

    See Also
    --------
    Constraints : Holds constraints.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.data import resolve_constraints
    >>> resolve_constraints([("a", "b")], np.array(["a", "b"])).edge.tolist()
    [[0.0, -inf], [0.0, 0.0]]
    """
    checked = Constraints.parse(constraints)
    check_labels_fit(len(classes))
    place = {label: index for index, label in enumerate(np.asarray(classes).tolist())}

    def numbers(labels: Iterable, where: str) -> list[int]:
        return [find_place(label, place, "constraints name", f" in {where!r}") for label in labels]

    def mask(labels: Iterable, where: str) -> np.ndarray:
        penalties = np.zeros(len(place))
        penalties[numbers(labels, where)] = -np.inf
        return penalties

    masks = ConstraintMasks(
        edge=np.zeros((len(place), len(place))),
        start=mask(checked.start, "start"),
        end=mask(checked.end, "end"),
        label=mask(checked.labels, "labels"),
        scheme=checked.scheme,
    )
    if checked.scheme is not None:
        allowed = find_scheme(checked.scheme).rules(list(place))
        for penalties, known in zip((masks.edge, masks.start, masks.end), allowed, strict=True):
            penalties[~known] = -np.inf
    for pair in checked.transitions:
        masks.edge[tuple(numbers(pair, "transitions"))] = -np.inf
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
        raise ValueError("the constraints forbid every labelling: no allowed path leads from a start to an end label")


def _pairs(transitions: Iterable) -> tuple:
    pairs = []
    for pair in transitions:
        if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) or len(both := tuple(pair)) != 2:
            raise ValueError(f"transitions must be pairs (label, next label), got {pair!r}")
        pairs.append((plain_label(both[0]), plain_label(both[1])))
    return tuple(pairs)
