"""theta in blocks: the concatenated coefficients of all clique sets.

A plain set has its coefficients V (r, q) in theta, row by row. Of sparse features these are the rows that some training
input has; ``expanded`` and ``compressed`` go to those of all features and back. A set whose labels are tied has one
number for each orbit (tied_coefficients.py), and V is made of them. Cost: O(r q), and a product where pivots are tied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

import numpy as np

from kernelfields.objective.designs.design import Design

if TYPE_CHECKING:
    from kernelfields.objective.tied_coefficients import Ties


@dataclass(frozen=True, eq=False)
class Block:
    """The coefficients of one clique set in theta: its ``rows``, as a table of ``shape`` (r, q)."""

    design: Design
    rows: slice
    shape: tuple[int, int]

    @classmethod
    def after(cls, begin: int, design: Design) -> Self:
        """Return the block of a design with a given first row of theta."""
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

    def reduced(self, gradient: np.ndarray) -> np.ndarray:
        """Return a gradient (r, q) in the coefficients of the design as one in this part of theta."""
        return gradient.ravel()

    def expanded(self, theta: np.ndarray) -> np.ndarray:
        """Return the coefficients over all features, including those without training inputs."""
        return self.design.expand(self.split(theta))

    def compressed(self, coefficients: np.ndarray) -> np.ndarray:
        """Return this part of theta from coefficients over all features."""
        return self.design.compress(coefficients).ravel()

    def diagonal(self, diagonal: np.ndarray) -> np.ndarray:
        """Estimate the diagonal of a matrix in this part of theta from the diagonal (r, q) in coefficients."""
        return diagonal.ravel()

    def reduced_matrix(self, matrix: np.ndarray) -> np.ndarray:
        """Return a matrix in the coefficients of the design as one in this part of theta."""
        return matrix

    def tables(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of theta (k, size) as tables (k, r, q)."""
        return rows[:, self.rows].reshape(len(rows), *self.shape)


class TiedBlock(Block):
    """The coefficients of a tied set in theta, one number for each orbit, (size, 1)."""

    @classmethod
    def after(cls, begin: int, design: Design) -> Self:
        """Return the block of a design that begins at a place of theta."""
        size = cast("Ties", design.term.ties).size
        return cls(design, slice(begin, begin + size), (size, 1))

    @property
    def ties(self) -> Ties:
        """How labels share coefficients."""
        return cast("Ties", self.design.term.ties)

    def split(self, theta: np.ndarray) -> np.ndarray:
        """Return the coefficients (r, q) of the design."""
        return self.design.compress(self.expanded(theta))

    def reduced(self, gradient: np.ndarray) -> np.ndarray:
        """Return a gradient (r, q) in the coefficients of the design as one in the orbits."""
        return self.ties.reduce(self.design.expand(gradient))

    def expanded(self, theta: np.ndarray) -> np.ndarray:
        """Return V over all features, including those without training inputs."""
        return self.ties.expand(theta[self.rows])

    def compressed(self, coefficients: np.ndarray) -> np.ndarray:
        """Return this part of theta from a tied V."""
        return self.ties.reduce(coefficients)

    def diagonal(self, diagonal: np.ndarray) -> np.ndarray:
        """Return the means of a diagonal (r, q) over the orbits."""
        return self.ties.means(self.design.expand(diagonal))

    def reduced_matrix(self, matrix: np.ndarray) -> np.ndarray:
        """Return a matrix in the coefficients of the design as one in the orbits."""
        tied = self.ties.matrix(self.design.occupied)
        return tied.T @ (tied.T @ matrix).T

    def tables(self, rows: np.ndarray) -> np.ndarray:
        """Return rows of theta (k, size) as tables V (k, r, q) over all features."""
        return np.reshape([self.expanded(row) for row in rows], (len(rows), *self.ties.shape))


def block_after(begin: int, design: Design) -> Block:
    """Return the block of a design with a given first row of theta."""
    kind = TiedBlock if design.term.shares_coefficients else Block
    return kind.after(begin, design)


class Blocks(list[Block]):
    """All blocks of theta in order: the map between theta and the coefficients of each set."""

    def __init__(self, designs: Sequence[Design]):
        super().__init__()
        #: Number of coefficients in theta.
        self.size = 0
        for design in designs:
            self.append(block_after(self.size, design))
            self.size = self[-1].rows.stop

    def split(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients (r, q) of each set; for tied labels, those of all labels."""
        return [block.split(theta) for block in self]

    def flatten(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return one vector from the coefficients of each set, or from gradients in them."""
        return np.concatenate([block.reduced(part) for block, part in zip(self, parts, strict=True)])

    def expanded(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients of each set over all features, including those without training inputs."""
        parts = [block.expanded(theta) for block in self]
        # A small part that is a view of theta would keep all of it.
        return [part.copy() if 2 * part.size < theta.size else part for part in parts]

    def compressed(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return theta from coefficients over all features."""
        return np.concatenate([block.compressed(part) for block, part in zip(self, parts, strict=True)])
