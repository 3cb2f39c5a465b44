"""Instances with several yes-or-no labels: a small graph each, a node for every label, all of one structure.

    LabelCliques    (x, y_k)         f_k(x, y)        one set for each label k
    LabelPairs      (y_j, y_k)       w(a, b)          one set for each pair of labels, without an input kernel
                    (x, y_j, y_k)    w(x, a, b)       with one

All see the inputs x of the instance. Arrays: inputs (n, d) dense or CSR; graphs with nodes i K + k, and one group
of n factors for every pair of labels that meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.fields.cliques import CliqueSet, CliquesEverywhere
from kernelfields.fields.evidence import informative
from kernelfields.fields.graphs import Factors, Graphs
from kernelfields.fields.reading import balanced_weights, place_of
from kernelfields.numerics.registry import SETTINGS

#: Pairs of labels that meet, by name.
Pairs = Mapping[str, tuple[int, int]]
#: Tables, as columns: of a label for a log odds of one, and of a pair for a log odds ratio of one.
LABEL_CONTRAST = np.array([[-0.5], [0.5]])
PAIR_CONTRAST = np.array([[0.25], [-0.25], [-0.25], [0.25]])


@dataclass(frozen=True, eq=False)
class LabelledInstances:
    """Inputs of instances (n, d), and their labels as graphs of K nodes each."""

    inputs: Any
    graphs: Graphs

    @classmethod
    def build(
        cls,
        inputs: Any,
        n_labels: int,
        pairs: Pairs,
        labels: np.ndarray | None = None,
        weights: Any = None,
        evidence: Any = None,
    ) -> LabelledInstances:
        """Return instances whose labels meet in the named pairs; labels (n, K) of 0 and 1, or None.

        ``evidence`` (n K, 2) tells what is known of labels that are not, as in evidence.py.
        """
        count = inputs.shape[0]
        offsets = n_labels * np.arange(count + 1, dtype=np.int64)
        each_one = np.arange(count + 1, dtype=np.int64)
        factors = tuple(
            Factors(name, offsets[:-1, None] + np.array(pair, dtype=np.int64), each_one) for name, pair in pairs.items()
        )
        flat = None if labels is None else np.ascontiguousarray(labels, dtype=np.int64).reshape(-1)
        nothing = np.zeros((count * n_labels, 0))  # labels see the inputs of their instance, not of a node
        graphs = Graphs(nothing, offsets, factors, flat, weights, None, evidence)
        return cls(inputs, graphs)

    def with_pairs(self, pairs: Pairs) -> LabelledInstances:
        """Return the same instances with labels that meet in other pairs."""
        n_labels = int(self.graphs.offsets[1])
        graphs = self.graphs
        return LabelledInstances.build(self.inputs, n_labels, pairs, graphs.labels, graphs.weights, graphs.evidence)

    def subset(self, rows: slice | np.ndarray) -> LabelledInstances:
        """Return some of the instances, by a slice."""
        return LabelledInstances(self.inputs[rows], self.graphs.subset(rows))

    @property
    def n_positions(self) -> int:
        """Number of labels of all instances, n K."""
        return self.graphs.n_positions

    @property
    def labels(self) -> Any:
        """The values of all labels, (n K,); None where they are unknown."""
        return self.graphs.labels

    @property
    def labelling(self) -> Any:
        """The values of all labels, (n K,); None where they are unknown."""
        return self.graphs.labels

    @property
    def evidence(self) -> Any:
        """What is known of labels that are not, (n K, 2); None where all are known, or none."""
        return self.graphs.evidence

    @property
    def n_instances(self) -> int:
        """Number of instances n."""
        return self.graphs.n_graphs

    @property
    def starts(self) -> np.ndarray:
        """First label of every instance, (n,)."""
        return self.graphs.starts

    @property
    def lengths(self) -> np.ndarray:
        """Number of labels of every instance, (n,)."""
        return self.graphs.lengths

    @property
    def weights(self) -> np.ndarray:
        """The weight of every instance, (n,)."""
        return self.graphs.weights

    @property
    def position_weights(self) -> np.ndarray:
        """The weight of its instance for every node, (n K,)."""
        return self.graphs.position_weights

    def factor_weights(self, name: str) -> np.ndarray:
        """Return the weight of its instance for every factor of a pair: there is one in each."""
        return self.graphs.weights

    def rows_of_label(self, label: int) -> np.ndarray:
        """Return the nodes of one label, (n,)."""
        return self.graphs.starts + label


class _InstanceCliques(CliqueSet):
    """Cliques that see the inputs of their instance."""

    def view(self, instances: LabelledInstances) -> Any:
        """Return the inputs that the cliques see, (n, d)."""
        return instances.inputs


@SETTINGS.register("label cliques")
class LabelCliques(_InstanceCliques):
    """One label of every instance and, if a kernel is given, the inputs of the instance."""

    default_name = "label"

    def __init__(self, kernel: Any = None, *, label: int = 0, **shared: Any):
        super().__init__(kernel, **shared)
        self.label = label

    def positions(self, instances: LabelledInstances) -> np.ndarray | None:
        """Return the nodes of the label."""
        return instances.rows_of_label(self.label)


@SETTINGS.register("label pairs")
class LabelPairs(_InstanceCliques, CliquesEverywhere):
    """Two labels of every instance and, if a kernel is given, the inputs of the instance."""

    labels_per_clique = 2

    def __init__(self, kernel: Any = None, *, group: str = "pair", **shared: Any):
        super().__init__(kernel, **shared)
        self.group = group


def weigh_instances(
    labels: np.ndarray, evidence: np.ndarray | None, weights: np.ndarray, names: list, class_weight: Any
) -> np.ndarray:
    """Return weights (n,) of instances that include those of their labels (n, K), as far as these are known."""
    if class_weight is None:
        return weights
    known = np.ones(labels.shape) if evidence is None else informative(evidence).reshape(labels.shape).astype(float)
    of_each = np.ones((2, labels.shape[1]))
    if isinstance(class_weight, str):
        totals = np.stack([weights @ (known * (labels == value)) for value in (0, 1)])
        of_each = np.stack([balanced_weights(column) for column in totals.T], axis=1)
    else:
        places = {name: place for place, name in enumerate(names)}
        for name, weight in class_weight.items():
            of_each[1, place_of(name, places, "class_weight names")] = weight
    own = np.where(labels == 1, of_each[1], of_each[0]) * known
    counts = known.sum(axis=1)
    weighed = weights * np.divide(own.sum(axis=1), counts, out=np.ones(len(weights)), where=counts > 0)
    if not weighed.any():
        raise ValueError("class_weight and sample_weight leave every instance a weight of zero")
    return weighed
