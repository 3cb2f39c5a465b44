"""Instances with several yes-or-no labels: a small graph for each instance, with a node for every label.

    LabelCliques    (x, y_k)         f_k(x, y)        one set for each label k
    LabelPairs      (y_j, y_k)       w(a, b)          one set for each pair of labels, without an input kernel
                    (x, y_j, y_k)    w(x, a, b)       with one

All see the inputs x of the instance. Arrays: inputs (n, d) dense or CSR; graphs with nodes i K + k, and one group
of n factors for every pair of labels that meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelfields.data.chains import Packed
from kernelfields.data.cliques import CliqueSet, CliquesEverywhere
from kernelfields.data.graphs import Factors, Graphs
from kernelfields.data.partial_labels import LabelWeights
from kernelfields.data.reading import Matrix
from kernelfields.inputs.step import Layout, Table
from kernelfields.numerics.registry import SETTINGS

#: Pairs of labels that meet, by name.
Pairs = Mapping[str, tuple[int, int]]
#: Tables, as columns: of a label for a log odds of one, and of a pair for a log odds ratio of one.
LABEL_CONTRAST = np.array([[-0.5], [0.5]])
PAIR_CONTRAST = np.array([[0.25], [-0.25], [-0.25], [0.25]])


@dataclass(frozen=True, eq=False)
class LabelledInstances(Graphs):
    """Inputs of instances (n, d), and their labels as graphs of K nodes that share the inputs."""

    row_fields: ClassVar[tuple[str, ...]] = ("labels", "partial")
    share_rows: ClassVar[bool] = True

    @classmethod
    def build(
        cls,
        inputs: Matrix,
        n_labels: int,
        pairs: Pairs,
        labels: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        partial: LabelWeights | None = None,
    ) -> LabelledInstances:
        """Make instances whose labels meet in the named pairs; labels (n, K) of 0 and 1, or None.

        ``partial`` (n K, 2) are log-weights of partial labels, as in partial_labels.py.
        """
        each_one = np.arange(inputs.shape[0] + 1, dtype=np.int64)
        offsets = n_labels * each_one
        factors = tuple(
            Factors(name, offsets[:-1, None] + np.array(pair, dtype=np.int64), each_one) for name, pair in pairs.items()
        )
        flat = None if labels is None else np.ascontiguousarray(labels, dtype=np.int64).reshape(-1)
        weights = np.ones(len(offsets) - 1) if weights is None else weights
        return cls(inputs, offsets, flat, weights, partial, factors=factors)

    def with_pairs(self, pairs: Pairs) -> LabelledInstances:
        """Return the instances with other pairs of labels."""
        return LabelledInstances.build(
            self.inputs, int(self.offsets[1]), pairs, self.labels, self.weights, self.partial
        )

    @property
    def _n_rows(self) -> int:
        return self.inputs.shape[0] * int(self.offsets[1] if len(self.offsets) > 1 else 0)

    @property
    def certain_labels(self) -> np.ndarray | None:
        """Labels (n, K) of the instances if all are known; else None."""
        labels = super().certain_labels
        return None if labels is None else labels.reshape(self.inputs.shape[0], -1)

    @property
    def known_labels(self) -> np.ndarray | None:
        """Labels (n, K) of the instances if all are known; else None."""
        return self.certain_labels

    @property
    def tables(self) -> dict[str | None, Table]:
        """The table of rows of the instances, which steps of inputs transform."""
        return {None: Table(self.inputs, Layout(np.arange(self.n_instances + 1)), self.weights)}

    @property
    def n_instances(self) -> int:
        """Number of instances n."""
        return self.n_graphs

    def rows_of_label(self, label: int) -> np.ndarray:
        """Return the nodes of one label, (n,)."""
        return self.starts + label

    def _parts(self, chosen: np.ndarray, offsets: np.ndarray) -> dict[str, Any]:
        return {"inputs": self.inputs[chosen], **super()._parts(chosen, offsets)}


class _InstanceCliques(CliqueSet):
    """Cliques with the inputs of their instance, one in each."""

    def view(self, data: Packed) -> Matrix:
        """Return the inputs of the cliques, (n, d)."""
        return data.inputs

    def weights(self, data: Packed) -> np.ndarray | None:
        """Return the weight of every instance, (n,); None for unit weights."""
        return None if np.all(data.weights == 1.0) else data.weights


@SETTINGS.register("label cliques")
@dataclass(eq=False, repr=False, kw_only=True)
class LabelCliques(_InstanceCliques):
    """One label of every instance and, if a kernel is given, the inputs of the instance."""

    label: int = 0

    default_name = "label"

    def positions(self, instances: LabelledInstances) -> np.ndarray | None:  # type: ignore[override]
        """Return the nodes of the label."""
        return instances.rows_of_label(self.label)


@SETTINGS.register("label pairs")
@dataclass(eq=False, repr=False, kw_only=True)
class LabelPairs(_InstanceCliques, CliquesEverywhere):
    """Two labels of every instance and, if a kernel is given, the inputs of the instance."""

    group: str = "pair"  # type: ignore[misc]  # a parameter here

    labels_per_clique = 2
