"""Sequences laid end to end: one array of positions and the offsets where sequences begin.

    sequence i owns rows offsets[i] .. offsets[i + 1] - 1,    i = 0 .. S - 1

Arrays: inputs (N, d) dense C-contiguous float32 or float64, or CSR; offsets (S + 1,) int64; labels (N,)
int64 indices into the sorted classes (L,); weights (S,) float64. Everything else in the package loops over
these arrays and never over Python lists. Graphs are packed alike, with nodes for positions (graphs.py).
Cost: one copy of the data; the checks are in reading.py.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from kernelfields.fields.evidence import label_shares, read_labels
from kernelfields.fields.reading import (
    balanced_weights,
    check_sample_weight,
    pack_inputs,
    place_of,
    plain_label,
    rows_of,
)
from kernelfields.numerics.windows import window_view

# A warning names a class with most of the weight if its share is by so much above the one that class weights ask for.
_EXCESS = 0.2


class Packed:
    """Rows of S sequences or graphs, one after the other, with labels (None when unknown) and a weight for each."""

    inputs: Any
    offsets: np.ndarray
    labels: Any
    weights: np.ndarray
    #: What is known of labels that are not, log q (N, L); see evidence.py. None where all are known, or none.
    evidence: Any
    #: The labels that positions may have, AllowedLabels of allowed.py; None where they may have any.
    allowed: Any = None
    #: What messages call a row.
    part: ClassVar[str] = "position"

    def __post_init__(self) -> None:
        if self.weights is None:
            object.__setattr__(self, "weights", np.ones(len(self.offsets) - 1))
        rows = self.inputs.shape[0]
        if self.offsets[0] != 0 or self.offsets[-1] != rows:
            raise ValueError(
                f"offsets must run from 0 to the number of rows, {rows}, got {self.offsets[0]} to {self.offsets[-1]}"
            )

    @property
    def n_positions(self) -> int:
        """Number of rows N, all sequences or graphs together."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of every sequence or graph, (S,)."""
        return np.diff(self.offsets)

    @property
    def starts(self) -> np.ndarray:
        """First row of every sequence or graph, (S,)."""
        return self.offsets[:-1]

    @property
    def ends(self) -> np.ndarray:
        """Last row of every sequence or graph, (S,)."""
        return self.offsets[1:] - 1

    @property
    def position_weights(self) -> np.ndarray:
        """The weight of its sequence or graph for every row, (N,)."""
        return np.repeat(self.weights, self.lengths)

    @property
    def labelling(self) -> Any:
        """What is observed of labels: those of rows, (N,); for segments also where these begin."""
        return self.labels

    def following(self, reach: int = 1) -> np.ndarray:
        """Return the rows that have so many others, or more, before them in their sequence or graph."""
        places = np.arange(self.n_positions) - np.repeat(self.starts, self.lengths)
        return np.flatnonzero(places >= reach)

    def before(self, rows: np.ndarray, steps: Any) -> np.ndarray:
        """Return the rows so many steps before others; shapes are broadcast."""
        return np.asarray(rows - steps)

    def windows(self, window: int | tuple[int, int]) -> Any:
        """Return the inputs around each position side by side, zeros beyond the ends of its sequence."""
        return window_view(self.inputs, self.offsets, window)

    def split(self, array: Any) -> list:
        """Cut an array with N rows into one view per sequence or graph."""
        if array.shape[0] != self.n_positions:
            raise ValueError(f"expected {self.n_positions} rows, one per {self.part}, got {array.shape[0]}")
        return [array[first:last] for first, last in pairwise(self.offsets.tolist())]


@dataclass(frozen=True, eq=False)
class Chains(Packed):
    """Packed sequences with their labels and weights."""

    inputs: Any
    offsets: np.ndarray
    labels: Any = None
    weights: np.ndarray = None  # type: ignore[assignment]  # ones, filled in by the base
    evidence: Any = None
    allowed: Any = None

    @classmethod
    def from_sequences(
        cls, X: Any, y: Any = None, sample_weight: Any = None, classes: Any = None
    ) -> tuple[Chains, np.ndarray | None]:
        """Check and pack lists of sequences; return the chains and the sorted classes.

        Without ``y`` the labels are None and ``classes`` comes back as it was given.
        """
        inputs, offsets = pack_inputs(X)
        labels = evidence = None
        if y is not None:
            labels, evidence, classes = read_labels(y, classes, np.diff(offsets))
        weights = check_sample_weight(sample_weight, len(offsets) - 1)
        return cls(inputs, offsets, labels, weights, evidence), classes

    @property
    def n_sequences(self) -> int:
        """Number of sequences S."""
        return len(self.offsets) - 1

    @property
    def is_start(self) -> np.ndarray:
        """Mask of the rows that begin a sequence, (N,)."""
        mask = np.zeros(self.n_positions, dtype=bool)
        mask[self.starts] = True
        return mask

    def subset(self, indices: Any) -> Chains:
        """Copy the chosen sequences: whole numbers, a mask of length S, or a slice."""
        chosen = np.arange(self.n_sequences)[indices].reshape(-1)
        rows, offsets = rows_of(self.offsets, chosen)
        labels = None if self.labels is None else self.labels[rows]
        evidence = None if self.evidence is None else self.evidence[rows]
        allowed = None if self.allowed is None else self.allowed[rows]
        return type(self)(self.inputs[rows], offsets, labels, self.weights[chosen], evidence, allowed)

    def admitting_labels(self) -> Chains:
        """Return the same with the labels that stand there among those that are allowed: for data of a fit."""
        if self.allowed is None or self.labels is None or self.evidence is not None:
            return self
        return replace(self, allowed=self.allowed.admitting(self.labels))


def labelled_runs(chains: Chains) -> Chains:
    """Return partly labelled chains cut into runs whose labels are all known, and runs between them of no weight."""
    known = (chains.evidence > -np.inf).sum(axis=1) == 1
    begins = chains.is_start
    begins[1:] |= known[1:] != known[:-1]
    starts = np.flatnonzero(begins)
    weights = np.where(known[starts], chains.position_weights[starts], 0.0)
    offsets = np.append(starts, chains.n_positions)
    return Chains(chains.inputs, offsets, chains.labels, weights, allowed=chains.allowed)


def weigh_classes(chains: Any, classes: np.ndarray, class_weight: Any, *, warn: bool = False) -> Any:
    """Return labelled chains, or graphs, whose weights include those of the classes.

    ``warn`` tells where weights of sequences cannot bring the classes near the weights that were asked for.
    """
    if class_weight is None:
        return chains
    shares = None if chains.evidence is None else label_shares(chains.evidence)
    if isinstance(class_weight, str):
        totals = (
            np.bincount(chains.labels, weights=chains.position_weights, minlength=len(classes))
            if shares is None
            else chains.position_weights @ shares
        )
        weights = balanced_weights(totals)
    else:
        places = {label: place for place, label in enumerate(classes.tolist())}
        weights = np.ones(len(classes))
        for label, weight in class_weight.items():
            weights[place_of(label, places, "class_weight names")] = weight
    weighed = chains.weights * mean_label_weights(chains, weights)
    if not weighed.any():
        raise ValueError("class_weight and sample_weight leave everything a weight of zero")
    if warn and shares is None:
        _warn_of_shares(chains, classes, weights, np.repeat(weighed, chains.lengths))
    return replace(chains, weights=weighed)


def mean_label_weights(chains: Any, weights: np.ndarray) -> np.ndarray:
    """Return the mean weight of the labels of each sequence or graph, (S,), that are known; one where none is."""
    if chains.evidence is None:
        return np.add.reduceat(weights[chains.labels], chains.starts) / chains.lengths
    shares = label_shares(chains.evidence)
    known = np.add.reduceat(shares.sum(axis=1), chains.starts)
    return np.divide(np.add.reduceat(shares @ weights, chains.starts), known, out=np.ones(len(known)), where=known > 0)


def _warn_of_shares(chains: Chains, classes: np.ndarray, weights: np.ndarray, weighed: np.ndarray) -> None:
    """Warn if a class keeps most of the weight of all positions, and far more than its weight asks for."""
    asked = np.bincount(chains.labels, weights[chains.labels] * chains.position_weights, len(classes))
    given = np.bincount(chains.labels, weighed, len(classes))
    asked, given = asked / asked.sum(), given / given.sum()
    label = int(np.argmax(given))
    if given[label] > 0.5 and given[label] - asked[label] > _EXCESS:
        warnings.warn(
            "class_weight weighs whole sequences, of which the likelihood of a chain consists: "
            f"{plain_label(classes[label])!r} keeps {given[label]:.0%} of the weight, where these weights ask for "
            f"{asked[label]:.0%}. To find more of the rare labels, weigh the marginals of a field without "
            "class_weight: classes_[(marginals * weights).argmax(axis=1)]",
            stacklevel=7,  # where fit was called
        )
