"""theta in blocks: the concatenated coefficients of all clique sets.

A plain set has its coefficients V (r, q) in theta, row by row. Of sparse features these are the rows that some training
input has; ``expanded`` and ``compressed`` go to those of all features and back. A set whose labels are tied has one
number for each orbit (tied_coefficients.py), and V is made of them. Cost: O(r q), and a product where pivots are tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kernelfields.objective.designs.design import Design


@dataclass(frozen=True, eq=False)
class Block:
    """The coefficients of one clique set in theta: its ``rows``, as a table of ``shape`` (r, q)."""

    design: Design
    rows: slice
    shape: tuple[int, int]

    @classmethod
    def from_design(cls, begin: int, design: Design) -> Self:
        """Make the block of a design from its first row in theta."""
        return cls(design, slice(begin, begin + design.shape[0] * design.shape[1]), design.shape)

    @property
    def name(self) -> str:
        """Name of the clique set."""
        return self.design.name

    @property
    def prior_variance(self) -> float:
        """Variance of the Gaussian prior."""
        return self.design.term.prior_variance

    def split(self, theta: np.ndarray) -> np.ndarray:
        """Return the coefficients (r, q) of the design."""
        return theta[self.rows].reshape(self.shape)

    def project_gradient(self, gradient: np.ndarray) -> np.ndarray:
        """Project a gradient (r, q) in the coefficients of the design to this part of theta."""
        return gradient.ravel()

    def expand(self, theta: np.ndarray) -> np.ndarray:
        """Return the coefficients over all features, including features without training inputs."""
        return self.design.expand(self.split(theta))

    def compress(self, coefficients: np.ndarray) -> np.ndarray:
        """Return this part of theta from coefficients over all features."""
        return self.design.compress(coefficients).ravel()

    def diagonal(self, diagonal: np.ndarray) -> np.ndarray:
        """Estimate the diagonal of a matrix in this part of theta from the diagonal (r, q) in coefficients."""
        return diagonal.ravel()

    def project_matrix(self, matrix: np.ndarray) -> np.ndarray:
        """Project a matrix in the coefficients of the design to this part of theta."""
        return matrix

    def tables(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of theta (k, size) as tables (k, r, q)."""
        return rows[:, self.rows].reshape(len(rows), *self.shape)


#: The class of blocks of pairs that need one of their own, such as pairs that share coefficients; they add theirs.
BLOCKS: dict[type, type[Block]] = {}


class Blocks(list[Block]):
    """All blocks of theta in order: the map between theta and the coefficients of each set."""

    def __init__(self, designs: Sequence[Design]):
        super().__init__()
        #: Number of coefficients in theta.
        self.size = 0
        for design in designs:
            self.append(BLOCKS.get(type(design.term.pairs), Block).from_design(self.size, design))
            self.size = self[-1].rows.stop

    def split(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients (r, q) of each set; for tied labels, the coefficients of all labels."""
        return [block.split(theta) for block in self]

    def flatten(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return one vector from the coefficients of each set, or from gradients in them."""
        return np.concatenate([block.project_gradient(part) for block, part in zip(self, parts, strict=True)])

    def expand(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients of each set over all features, including features without training inputs."""
        parts = [block.expand(theta) for block in self]
        # A small part that is a view of theta would keep all of it.
        return [part.copy() if 2 * part.size < theta.size else part for part in parts]

    def compress(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return theta from coefficients over all features."""
        return np.concatenate([block.compress(part) for block, part in zip(self, parts, strict=True)])
