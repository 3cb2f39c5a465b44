"""Clique sets with shared weights: permutations of labels and columns, and pivots closed under them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kernelfields.basis.gradient import Gradient
from kernelfields.basis.orbits import close_subspace
from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.subspace import PivotSubspace, Subspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.ties import Permutations, TiedColumns, column_permutations, label_permutations
from kernelfields.kernels.labels import CentredDelta, Delta
from kernelfields.objective.designs.pairs import EveryPair
from kernelfields.objective.tied_coefficients import Ties, find_orbits

#: Columns of the inputs, under None, and of the features of types of factors.
ColumnsOf = Callable[[str | None], TiedColumns]


@dataclass(frozen=True, eq=False)
class TiedPairs(EveryPair):
    """Pairs that share coefficients by permutations of labels and of columns of the inputs."""

    permutations: Permutations

    shared = True

    def choose_span(
        self, choose: Callable[[int | None], PanelCholesky], most: int | None
    ) -> tuple[PivotSubspace, PanelCholesky | None]:
        """Return the span of pivots closed under the permutations, at most ``most``."""
        _, moves = self.permutations.elements
        panel = choose(None if most is None else max(1, most // len(moves)))
        return close_subspace(panel.subspace(), moves, most), None

    def in_subspace(self, clique: CliqueSet, subspace: Subspace, n_labels: int) -> Ties:
        """Return how labels share the coefficients of a subspace."""
        return find_orbits(self.permutations, clique, subspace, n_labels)


def tied_cliques(
    named: Sequence[tuple[str, CliqueSet]], ties: object, classes: np.ndarray, columns: ColumnsOf
) -> list[tuple[str, CliqueSet]]:
    """Return clique sets with weights shared by ``ties``; ``columns`` gives the columns of a set.

    ValueError for sets that cannot have ties.
    """
    labels, inputs = label_permutations(ties, classes), column_permutations(ties, columns(None))
    made = []
    for name, clique in named:
        for parameter, given, singly in (
            ("support", clique.support, clique.observed_only),
            ("l1", clique.l1, (clique.l1 or 0.0) > 0),
        ):
            if singly:
                raise ValueError(
                    f"ties give every label all weights of a set, and {name!r} has {parameter}={given!r}: leave it out"
                )
        if not isinstance(clique.label_kernel, Delta | CentredDelta):
            raise ValueError(f"ties need label_kernel='delta', and {name!r} has {clique.label_kernel!r}")
        if isinstance(clique.basis, Gradient) and clique.kernel is not None and not clique.kernel.has_feature_map:
            raise ValueError(f"ties need pivots that are chosen at once, and {name!r} has basis='gradient'")
        moved = np.zeros((len(labels), 0), dtype=np.int64)
        if clique.kernel is not None:
            edges = moved
            if clique.of_factors:
                edges = column_permutations(ties, columns(clique.group), of_edges=True)
            moved = clique.tied_columns(inputs, edges)
        parameters = clique.get_params(deep=False)
        made.append((name, type(clique)(**{**parameters, "ties": Permutations(labels, moved)})))
    return made
