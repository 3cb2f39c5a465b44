"""Inputs and labels of the proteins for experiments/protein_stack.py.

A residue t is seen through weighted windows of columns c, whose squared norms are one on average over training
residues, beside means over the whole protein:

    x_t = [ w_k c_{t+k},  k = -h .. h;  v mean_s c_s ],       w_k = exp(-k^2 / (2 spread^2)) / norm

so that a kernel of distances forgets neighbours slowly rather than at the window's edge. Beyond the ends of a chain
columns are zero, and one column says that a residue is there.

Labels may be finer than helix, strand and coil: the first and last residues of a helix or a strand look different from
those within, and a chain that knows where a segment begins knows how long it is. Marginals are summed over the finer
labels again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.shared_data import data_file

STATES = "CHE"
_RESIDUES = np.frombuffer(b"ARNDCQEGHILKMFPSTWYV", dtype=np.uint8)
#: The weight of the column that says that there is a residue, and of the residue's own name, beside the profile.
_INSIDE, _NAME = 0.5, 0.5


@dataclass(frozen=True)
class Proteins:
    """Residues of many proteins, one after the other."""

    scores: np.ndarray
    observed: np.ndarray
    residues: np.ndarray
    states: np.ndarray
    offsets: np.ndarray
    fold: np.ndarray

    @property
    def fold_of_residues(self) -> np.ndarray:
        """The fold of every residue, (N,)."""
        return np.repeat(self.fold, np.diff(self.offsets))

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return the rows of every protein."""
        return np.split(rows, self.offsets[1:-1])


def read_proteins(part: str, limit: int | None = None) -> Proteins:
    """Return "train" or "blind", or the first ``limit`` of them."""
    with np.load(data_file("jpred4-pssm", f"{part}.npz"), allow_pickle=False) as archive:
        offsets = archive["offsets"][: None if limit is None else limit + 1]
        end = offsets[-1]
        return Proteins(
            archive["pssm"][:end].astype(np.float32),
            archive["observed_pct"][:end].astype(np.float32) / 100,
            archive["residue"][:end],
            archive["label"][:end],
            offsets,
            archive["fold"][: len(offsets) - 1] if "fold" in archive else np.zeros(len(offsets) - 1, dtype=np.int8),
        )


def profile(proteins: Proteins, view: str) -> np.ndarray:
    """Return the columns of a view, one letter a block.

    l: scores through the logistic function; m: half scores; o: observed shares; q: their roots; n: names of residues.
    """
    blocks = {
        "l": lambda: 1 / (1 + np.exp(-proteins.scores)),
        "m": lambda: 1 / (1 + np.exp(-proteins.scores / 2)),
        "o": lambda: proteins.observed,
        "q": lambda: np.sqrt(proteins.observed),
        "n": lambda: _NAME * (proteins.residues[:, None] == _RESIDUES),
    }
    return np.hstack([blocks[letter]() for letter in view]).astype(np.float32)


def normalised(train: np.ndarray, blind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return columns with the means of training residues taken off and a mean squared norm of one there."""
    centre = train.mean(axis=0)
    size = np.sqrt(((train - centre) ** 2).sum(axis=1).mean())
    return (train - centre) / size, (blind - centre) / size


def with_presence(columns: np.ndarray) -> np.ndarray:
    """Return columns beside one that is zero only where windows reach beyond the chain."""
    return np.hstack([columns, np.full((len(columns), 1), _INSIDE, dtype=columns.dtype)])


def windows(columns: list[np.ndarray], width: int, spread: float) -> list[np.ndarray]:
    """Return weighted windows of the columns of each protein, (T, width d)."""
    half = width // 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / spread) ** 2)
    weights = (weights / np.sqrt((weights**2).sum())).astype(np.float32)
    found = []
    for rows in columns:
        padded = np.pad(rows, ((half, half), (0, 0)))
        found.append(np.hstack([weight * padded[k : k + len(rows)] for k, weight in enumerate(weights)]))
    return found


def whole(columns: list[np.ndarray]) -> list[np.ndarray]:
    """Return the mean over the protein at each of its residues."""
    return [np.broadcast_to(rows.mean(axis=0), rows.shape) for rows in columns]


def flanks(columns: list[np.ndarray], near: int, far: int) -> list[np.ndarray]:
    """Return means over the residues between ``near`` and ``far`` before, and those after; zero where none are."""
    found = []
    for rows in columns:
        sums = np.vstack([np.zeros((1, rows.shape[1])), np.cumsum(rows, axis=0, dtype=np.float64)])
        here, n = np.arange(len(rows)), len(rows)
        sides = []
        for first, last in ((-far, -near), (near, far)):
            begin, end = np.clip(here + first, 0, n), np.clip(here + last + 1, 0, n)
            sides.append((sums[end] - sums[begin]) / np.maximum(end - begin, 1)[:, None])
        found.append(np.hstack(sides))
    return found


def joined(parts: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Return the parts of each protein side by side."""
    return [np.hstack(rows).astype(np.float32) for rows in zip(*parts, strict=True)]


#: How residues are counted from either end of a segment: states whose ends are told apart, and how many residues.
REFINEMENTS: dict[str, dict[str, int]] = {
    "states": {},
    "ends": {"H": 1, "E": 1},
    "all ends": {"H": 1, "E": 1, "C": 1},
    "two ends": {"H": 2, "E": 1, "C": 1},
    "three ends": {"H": 3, "E": 2, "C": 1},
}


def labels(proteins: Proteins, refinement: str) -> list[np.ndarray]:
    """Return the labels of each protein: a state, and for the ends of segments where they are, as in H+1 or H-1."""
    depths = REFINEMENTS[refinement]
    names = np.array(list(STATES))[proteins.states].astype("<U3")
    found = proteins.split(names)
    for protein in found:
        cuts = np.flatnonzero(np.concatenate([[True], protein[1:] != protein[:-1], [True]]))
        for begin, end in pairwise(cuts):
            state = str(protein[begin])
            for depth in range(min(depths.get(state, 0), (end - begin + 1) // 2)):
                protein[end - 1 - depth] = f"{state}-{depth + 1}"
                protein[begin + depth] = f"{state}+{depth + 1}"
    return found


def by_state(marginals: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return marginals of coil, helix and strand, (n, 3), from those of finer labels."""
    states = np.array([str(name)[0] for name in classes])
    return np.stack([marginals[:, states == state].sum(axis=1) for state in STATES], axis=1)
