"""Coefficients of a term with tied labels: one number for every orbit, and the full table V.

Where ties (data/ties.py) permute the features of a subspace, and so the rows of V, and the labellings, its columns,

    V[g.i, g.y] = V[i, y]          V = F T theta,      T[(i, y), o] = 1 / sqrt(size of o) for (i, y) in orbit o

with F the identity for explicit features and Q^T for pivots (basis/orbits.py). The columns of F T are orthonormal, so
that the norm of theta is that of V: a field with ties is the same convex problem on a linear subspace. A posterior
works in theta; designs, engines and fitted terms have V, and are those of any other field.

Cost: O(r q) for each of ``expand`` and ``free_coefficients``, and a product O(r^2 q) where pivots span the features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self, cast

import numpy as np
import scipy.sparse

from kernelfields.basis.orbits import permute_columns, pivot_permutations, symmetric_frame
from kernelfields.basis.subspace import ConstantSubspace, PivotSubspace, Subspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.ties import Permutations, number_orbits, permute_labellings
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.rows import row_blocks
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.objective.blocks import BLOCKS, Block
from kernelfields.objective.designs.design import Design
from kernelfields.objective.designs.pairs import EveryPair, QuadraticForm


@dataclass(frozen=True, eq=False)
class Ties(EveryPair):
    """Orbits of the entries of V (r, q): ``orbits`` (r q,) are their numbers; ``frame`` F (r, r), None: identity."""

    orbits: np.ndarray
    table_shape: tuple[int, int]
    frame: np.ndarray | None = None

    shared = True

    @cached_property
    def _heights(self) -> np.ndarray:
        return 1.0 / np.sqrt(np.bincount(self.orbits))

    @property
    def size(self) -> int:
        """Number of orbits, the length of theta."""
        return len(self._heights)

    def expand(self, theta: np.ndarray) -> np.ndarray:
        """Return the table V (r, q) of coefficients from the coefficients of orbits."""
        table = (theta * self._heights)[self.orbits].reshape(self.table_shape)
        return table if self.frame is None else self.frame @ table

    def free_coefficients(self, table: np.ndarray) -> np.ndarray:
        """Return (F T)^T V, (size,): theta of a tied table, or the gradient in theta from one in V."""
        table = table if self.frame is None else self.frame.T @ table
        return np.bincount(self.orbits, weights=table.ravel(), minlength=self.size) * self._heights

    def quadratic_form(
        self, clique: CliqueSet, kernel: Kernel, inputs: Rows, residuals: np.ndarray, form: QuadraticForm
    ) -> float:
        """Return the squared norm of the likelihood's gradient in the RKHS of the averaged kernel."""
        return tied_quadratic_form(kernel, inputs, residuals, clique)

    def means(self, table: np.ndarray) -> np.ndarray:
        """Return the means of a table (r, q) over the orbits, (size,), an estimate of a reduced diagonal."""
        return np.bincount(self.orbits, weights=table.ravel(), minlength=self.size) * self._heights**2

    def orbit_matrix(self, rows: np.ndarray | None = None) -> scipy.sparse.csr_array:
        """Return F T for some rows of V, None for all, (rows q, size)."""
        entries = self._heights[self.orbits], (np.arange(len(self.orbits)), self.orbits)
        matrix = scipy.sparse.csr_array(scipy.sparse.coo_array(entries, shape=(len(self.orbits), self.size)))
        rank, outputs = self.table_shape
        if self.frame is not None:
            matrix = scipy.sparse.csr_array(scipy.sparse.kron(self.frame, scipy.sparse.eye_array(outputs)) @ matrix)
        if rows is None:
            return matrix
        return matrix[np.arange(rank * outputs).reshape(rank, outputs)[rows].ravel()]


class TiedBlock(Block):
    """The coefficients of a tied set in theta, one number for each orbit, (size, 1)."""

    @classmethod
    def from_design(cls, begin: int, design: Design) -> Self:
        """Make the block of a design from its first row in theta."""
        size = cast(Ties, design.term.pairs).size
        return cls(design, slice(begin, begin + size), (size, 1))

    @property
    def ties(self) -> Ties:
        """How labels share coefficients."""
        return cast(Ties, self.design.term.pairs)

    def split(self, theta: np.ndarray) -> np.ndarray:
        """Return the coefficients (r, q) of the design."""
        return self.design.compress(self.expand(theta))

    def project_gradient(self, gradient: np.ndarray) -> np.ndarray:
        """Return a gradient (r, q) in the coefficients of the design as one in the orbits."""
        return self.ties.free_coefficients(self.design.expand(gradient))

    def expand(self, theta: np.ndarray) -> np.ndarray:
        """Return V over all features, including features without training inputs."""
        return self.ties.expand(theta[self.rows])

    def compress(self, coefficients: np.ndarray) -> np.ndarray:
        """Return this part of theta from a tied V."""
        return self.ties.free_coefficients(coefficients)

    def diagonal(self, diagonal: np.ndarray) -> np.ndarray:
        """Return the means of a diagonal (r, q) over the orbits."""
        return self.ties.means(self.design.expand(diagonal))

    def project_matrix(self, matrix: np.ndarray) -> np.ndarray:
        """Return a matrix in the coefficients of the design as one in the orbits."""
        tied = self.ties.orbit_matrix(self.design.occupied)
        return tied.T @ (tied.T @ matrix).T

    def tables(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of theta (k, size) as tables V (k, r, q) over all features."""
        return np.reshape([self.expand(row) for row in rows], (len(rows), *self.ties.table_shape))


BLOCKS[Ties] = TiedBlock


def find_orbits(ties: Permutations, clique: CliqueSet, subspace: Subspace, n_labels: int) -> Ties:
    """Return how labels share the coefficients of a clique set in a subspace."""
    ties.check()
    if ties.labels.shape[1] != n_labels:
        raise ValueError(f"ties move {ties.labels.shape[1]} labels, and there are {n_labels}")
    outputs = np.array([coordinate_moves(clique, each) for each in ties.labels])
    features, frame = _feature_moves(subspace, ties.columns, len(ties.labels))
    rank, width = features.shape[1], outputs.shape[1]
    moves = [(own[:, None] * width + beside).ravel() for own, beside in zip(features, outputs, strict=True)]
    return Ties(number_orbits(moves, rank * width), (rank, width), frame)


def coordinate_moves(clique: CliqueSet, labels: np.ndarray) -> np.ndarray:
    """Return the image of label coordinates, (q,): labellings, undirected pairs, or the common part."""
    if clique.one_table:
        return np.zeros(1, dtype=np.int64)
    if not clique.symmetric:
        return permute_labellings(labels, clique.labels_per_clique)
    first, second = np.triu_indices(len(labels))
    places = np.zeros((len(labels), len(labels)), dtype=np.int64)
    places[first, second] = places[second, first] = np.arange(len(first))
    return places[labels[first], labels[second]]


def _feature_moves(subspace: Subspace, columns: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the image of the features of a subspace under each generator, (m, r), and their frame."""
    if isinstance(subspace, ConstantSubspace):
        return np.zeros((count, 1), dtype=np.int64), None
    if isinstance(subspace, PivotSubspace):
        return pivot_permutations(subspace.pivots, columns), symmetric_frame(subspace)
    probe = np.random.default_rng(0).normal(size=(1, columns.shape[1]))
    values = np.asarray(subspace.features(probe)).ravel()
    order = np.argsort(values, kind="stable")
    moves = np.empty((count, len(values)), dtype=np.int64)
    for move, each in zip(moves, columns, strict=True):
        moved = np.asarray(subspace.features(permute_columns(probe, each))).ravel()
        places = np.argsort(moved, kind="stable")
        if not np.array_equal(moved[places], values[order]):
            raise ValueError(
                f"{subspace.kernel!r} changes when ties move the columns of both inputs: use one that does not"
            )
        move[order] = places
    return moves, None


def tied_quadratic_form(kernel: Kernel, inputs: Rows, residuals: np.ndarray, clique: CliqueSet) -> float:
    """Return the squared norm of the likelihood's gradient in the RKHS of the averaged kernel.

    It is the mean over g of sum_tu k(x_t, g.x_u) <R_t, g.R_u> for residuals R (n, q) in label coordinates; O(|G| n^2).
    """
    assert clique.ties is not None
    total, elements = 0.0, list(zip(*clique.ties.elements, strict=True))
    blocks = row_blocks(len(residuals), min(len(residuals), 4096))
    for labels, columns in elements:
        moved, own = permute_columns(inputs, columns), residuals[:, np.argsort(coordinate_moves(clique, labels))]
        for rows in blocks:
            for others in blocks:
                block = np.asarray(kernel(inputs[rows], moved[others]), dtype=np.float64)
                total += float(np.einsum("iq,iq->", residuals[rows], block @ own[others]))
    return max(total / len(elements), 0.0)
