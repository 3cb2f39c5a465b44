"""The inputs of cliques of labelled data in this process."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.basis.selection import Basis
from kernelfields.data.cliques import CliqueSet
from kernelfields.kernels.kernel import Kernel, check_positive_semidefinite


class LocalView:
    """Rows of inputs (n, d) for the cliques of a set, and their weights (n,), None for unit weights."""

    def __init__(self, sample: Any, name: str, clique: CliqueSet):
        self._sample, self._name, self._clique = sample, name, clique
        self.inputs = clique.view(sample.data)
        self.n_rows = self.inputs.shape[0]
        self.first_row = self.inputs[:1]

    def resolve_kernel(self, kernel: Kernel) -> Kernel:
        """Return the kernel with numbers for data-dependent rules."""
        data, clique = self._sample.data, self._clique
        labels = data.known_labels if clique.labels_per_clique == 1 else None
        # Sets at some positions only, and those of segments, see other rows than labels have.
        if labels is not None and len(labels) != self.n_rows:
            labels = None
        return kernel.resolve(self.inputs, clique.weights(data), labels)

    def check_kernel(self, kernel: Kernel, random: np.random.Generator) -> None:
        """Raise if the kernel is not positive semi-definite on a random sample of rows."""
        check_positive_semidefinite(kernel, self.inputs, random)

    def panel(self, kernel: Kernel, basis: Basis, most: int | None) -> PanelCholesky:
        """Return an empty panel for the columns of a basis, ``most`` at most; MemoryError if it cannot fit."""
        capacity = basis.capacity(most, self.n_rows)
        return self._sample.panel(self._name, self._clique, kernel, self.inputs, capacity)
