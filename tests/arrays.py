"""Families of labellings from arrays: what tests of inference compare with enumeration.

    infer_chains(node, edge, offsets)          node (N, L), edge (1 or N, L, L)
    infer_graphs(plan, node, factors)          factors: a list with one table or one per factor for each group
    infer_segments(node, edge, duration, offsets)

Each returns an :class:`Inferred`: log partition, marginals, gradient and Hessian products as plain arrays.
"""

from __future__ import annotations

import numpy as np

from kernelfields.data.segments import DURATION
from kernelfields.inference import EDGE, BaseMeasure, ChainFamily, Potentials, SegmentFamily
from kernelfields.inference.packing import check_potentials


class Inferred:
    """A member of a family, seen as arrays in the order of its groups; other attributes are those of the member."""

    def __init__(self, member):
        self.member = member
        self.family = member.family
        self.log_partition = member.log_partition

    def __getattr__(self, name):
        return getattr(self.member, name)

    @property
    def node_marginals(self):
        return self.member.marginals()

    def edge_marginals(self):
        return self.member.marginals(EDGE)

    def factor_marginals(self, group):
        return self.member.marginals(self.family.groups[group + 1].name)

    def gradient(self):
        return self.member.mean().arrays

    def hessian_product(self, *arrays):
        return self.member.covariance_product(self.member.potentials.with_arrays(arrays)).arrays


def chain_entropy(node, edge, offsets, workers=None):
    """Entropies (S,) of packed chains."""
    return infer_chains(node, edge, offsets, workers=workers).entropy()


def sample_chains(node, edge, offsets, n_samples=1, random_state=None, workers=None):
    """Labellings (n_samples, N) drawn for packed chains."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    family = ChainFamily(offsets, node.shape[1], tied=len(edge) == 1)
    return family.labellings(Potentials(node, {EDGE: edge}), workers).sample(n_samples, random_state)


class InferredGraphs(Inferred):
    """A member of a family of graphs: gradients and directions are pairs of node potentials and a list of tables."""

    def gradient(self):
        node, *tables = super().gradient()
        return node, tables

    def hessian_product(self, d_node, d_tables):
        node, *tables = self.member.covariance_product(graph_potentials(self.family, d_node, d_tables)).arrays
        return node, tables


class InferredSegments(Inferred):
    """A member of a family of segmentations: expected durations and steps are weighted sums."""

    @property
    def expected_steps(self):
        return self.member.mean()[EDGE]

    @property
    def expected_durations(self):
        return self.member.mean()[DURATION]


def infer_chains(node, edge, offsets, *, position_weights=None, workers=None, base: BaseMeasure | None = None):
    """Infer packed chains; ``position_weights`` (N,) are equal within a sequence."""
    node, edge, offsets = check_potentials(node, edge, offsets)
    weights = None if position_weights is None else np.asarray(position_weights)[offsets[:-1]]
    family = ChainFamily(offsets, node.shape[1], tied=len(edge) == 1, base=base)
    return Inferred(family.distribution(Potentials(node, {EDGE: edge}), weights, workers))


def graph_potentials(plan, node, factors):
    """Potentials of a graph family from arrays; tables beyond its groups are called by their numbers."""
    names = [*plan.names, *map(str, range(len(plan.names), len(factors)))]
    return Potentials(np.asarray(node, dtype=np.float64), dict(zip(names, factors, strict=False)))


def infer_graphs(plan, node, factors, *, weights=None, workers=None):
    """Infer packed graphs by a family of ``plan_inference``."""
    return InferredGraphs(plan.distribution(graph_potentials(plan, node, factors), weights, workers))


def decode_graphs(plan, node, factors, workers=None):
    """The best labelling (N,) and its scores (S,)."""
    return plan.labellings(graph_potentials(plan, node, factors), workers).best()


def sample_graphs(plan, node, factors, n_samples, random=None):
    """Labellings drawn from the family, (n_samples, N)."""
    return plan.labellings(graph_potentials(plan, node, factors)).sample(n_samples, random)


def n_best_chains(node, edge, offsets, k, workers=None):
    """The k best labellings of each sequence, and their scores."""
    family = ChainFamily(offsets, node.shape[1], tied=len(edge) == 1)
    return family.labellings(Potentials(node, {EDGE: edge}), workers).n_best(k)


def n_best_graphs(plan, node, factors, k):
    """The k best labellings of each graph, and their scores."""
    return plan.labellings(graph_potentials(plan, node, factors)).n_best(k)


def segment_potentials(node, edge, duration):
    """Potentials of segments from arrays."""
    return Potentials(node, {EDGE: edge, DURATION: duration})


def infer_segments(node, edge, duration, offsets, *, weights=None, workers=None):
    """Infer packed chains that are cut into segments; steps between equal labels are as edge has them."""
    family = SegmentFamily(offsets, node.shape[1], len(duration), tied=len(edge) == 1)
    return InferredSegments(family.distribution(segment_potentials(node, edge, duration), weights, workers))
