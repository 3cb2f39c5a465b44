"""Rings: sequences with a step from the last position to the first.

    score(y | x) = sum_t f_node(x_t, y_t) + sum_t f_edge(y_{t-1}, y_t),        y_0 = y_T

Contours, cyclic peptides, days of a week: where a sequence begins is of no meaning. Windows of inputs close, too.
A ring of one position has no neighbours; one of two has both steps, forth and back. Inference is a junction tree's,
exact, at a cost of O(T L^3). Raises ValueError for constraints on the first or the last label, of which there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from kernelfields.data.chains import Chains
from kernelfields.data.partial_rows import PartialRows, TargetRows
from kernelfields.data.reading import SEQUENCES, Matrix
from kernelfields.inference.chain.label_checks import ChainChecks
from kernelfields.inference.checks import check_left, checks_labels
from kernelfields.inference.choice import FamilySpec, builds, choose_family
from kernelfields.inference.family import LabelFamily
from kernelfields.inference.graph_plans import junction_of_chains
from kernelfields.inference.potentials import Placed
from kernelfields.numerics.parameters import check_window


class Rings(Chains):
    """Packed closed sequences: the first position follows the last, so that rings have no ends."""

    @property
    def starts(self) -> np.ndarray:
        """The first rows of rings: none."""
        return self.offsets[:0]

    @property
    def ends(self) -> np.ndarray:
        """The last rows of rings: none."""
        return self.offsets[:0]

    def find_followers(self, reach: int = 1) -> np.ndarray:
        """Return the rows of rings longer than the reach, which have predecessors at this distance."""
        return np.flatnonzero(np.repeat(self.lengths > reach, self.lengths))

    def find_predecessors(self, rows: np.ndarray, steps: int | np.ndarray) -> np.ndarray:
        """Return the predecessors of rows by a number of steps around their ring."""
        items = np.searchsorted(self.offsets, rows, side="right") - 1
        starts = self.offsets[items]
        return starts + (rows - starts - steps) % self.lengths[items]

    def windows(self, window: int | tuple[int, int]) -> Matrix:
        """Return the concatenated inputs around each position, continued around the ring."""
        before, after = check_window(window)
        rows = np.arange(self.n_positions)
        shifted = [self.inputs[self.find_predecessors(rows, -step)] for step in range(-before, after + 1)]
        return scipy.sparse.hstack(shifted, format="csr") if scipy.sparse.issparse(self.inputs) else np.hstack(shifted)


@builds("ring")
def _ring_family(rings: Chains, placed: Sequence[Placed], spec: FamilySpec, **options: object) -> LabelFamily:
    masks = spec.masks
    if masks is not None and (masks.start.any() or masks.end.any()):
        raise ValueError(
            "a ring has no first and no last label, and these constraints forbid some there, as schemes of entity "
            "labels do: forbid pairs of labels instead"
        )
    return junction_of_chains(rings, placed, spec.base_measure(rings))


@checks_labels("ring")
class RingChecks(ChainChecks):
    """Checks of labels against constraints around a ring, in addition to the checks of a chain."""

    def check_labels(self, data: Chains, spec: FamilySpec, classes: np.ndarray) -> None:
        """Raise ValueError at the first ring whose labels are forbidden, or leave it no labelling."""
        super().check_labels(data, spec, classes)
        if spec.is_constrained and isinstance(data.given, PartialRows | TargetRows):
            check_left(data.given.weights, data, spec, SEQUENCES)

    def check_lengths(self, data: Chains, spec: FamilySpec) -> None:
        """Raise ValueError at the first ring without a labelling."""
        super().check_lengths(data, spec)
        if not spec.is_constrained:
            return
        every = data.allowed.representatives(data.lengths)
        wrong = every[choose_family(data.subset(every), (), spec).impossible()]
        if wrong.size:
            first = int(wrong.min())
            raise ValueError(
                f"{SEQUENCES.name(first)}: the constraints leave no labelling of a ring of its length, "
                f"{data.lengths[first]}, with the labels that are allowed there. Drop the sequence or a constraint."
            )
