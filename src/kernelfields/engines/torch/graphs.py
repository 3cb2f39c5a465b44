"""Items with one common graph, inferred on a device in batches: single labels, trees, tables of all labellings.

    u (S, K, L) potentials of K nodes, w_f (1 or S, L, .., L) of the factors f          float64 tensors
    single   g = log sum_y exp u(y)                                                     K = 1
    tree     m_v(a) = log sum_b exp(w(a, b) + u_v(b) + sum of m_c(b) over children c)   from leaves to roots
    table    g = log sum_ab E(a) W(a, b) F(b)      labellings of two halves, as in inference/table.py

Trees and tables write g alone, as operations on tensors; its gradient, the mean, and Hessian products are derivatives
by PyTorch, in blocks of items whose temporaries stay within what suits the device. Sums are in logarithms, or are
made again in logarithms where they leave the range of doubles. Twins of inference/single.py, tree/family.py and
table.py, which answer what a fit does not ask.

Cost: that of g, two to four times over. Raises ValueError naming the item whose labellings are all forbidden.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order

from kernelfields.engines.torch.chains import TorchPotentials
from kernelfields.engines.torch.family import HostedFamily
from kernelfields.engines.torch.rows import block_bytes
from kernelfields.engines.torch.steps import finite_or_zero
from kernelfields.inference.family import LabelFamily, Member
from kernelfields.inference.packed_graphs import InfeasibleGraph
from kernelfields.inference.packing import raise_if_infeasible
from kernelfields.inference.potentials import Potentials
from kernelfields.inference.single import SingleFamily, infeasible_item
from kernelfields.inference.table import LabelTableRows, TableFamily
from kernelfields.inference.tree.family import TreeFamily
from kernelfields.numerics.threads import Workers

# Arrays as long as those of g that its derivatives hold at once.
_TEMPORARIES = 8
# Below this a sum may have lost terms to underflow, or the square that its second derivative divides by does.
_SAFE_SUM = 1e-140


def log_sums(scores: torch.Tensor, dim: int) -> torch.Tensor:
    """Return log-sum-exp along an axis, with derivatives of zero if all entries are forbidden."""
    top = finite_or_zero(scores.detach().amax(dim, keepdim=True))
    total = (scores - top).exp().sum(dim)
    some = total > 0
    return torch.where(some, torch.where(some, total, 1.0).log() + top.squeeze(dim), -torch.inf)


class OneGraphMember(Member):
    """The distribution of items with one graph: log partition functions, and their derivatives on request."""

    family: OneGraphFamily

    def __init__(self, family: OneGraphFamily, potentials: Potentials, weights: torch.Tensor | None):
        log_partition = torch.empty(family.n_items, dtype=torch.float64, device=family.device)
        self._gradient = family.derivative(potentials, weights, log_partition)
        if bool(torch.isneginf(log_partition).any()):
            raise_if_infeasible(log_partition.cpu().numpy(), family.infeasible)
        super().__init__(family, potentials, log_partition, weights)

    def mean(self) -> TorchPotentials:
        """Return the weighted marginals, summed where potentials are tied."""
        return self._gradient.with_arrays(array.clone() for array in self._gradient.arrays)

    def marginals(self, group: str | None = None) -> Any:
        """Return the probabilities of the labels of each node, (N, L), or of the labels at the factors of a group."""
        potentials = self.potentials
        if group is None and self.weights is None:
            return self._gradient.node
        if group is not None and self.family.arrangement.group(group).tied:
            tied = potentials.tables[group]
            own = tied.expand(self.family.arrangement.group(group).n_rows, *tied.shape[1:])
            potentials = TorchPotentials(potentials.node, {**potentials.tables, group: own})
        return self.family.derivative(potentials, None)[group]

    def covariance_product(self, direction: Potentials) -> TorchPotentials:
        """Return the Hessian of the weighted log partition times the direction."""
        return self.family.derivative(self.potentials, self.weights, direction=direction)


class OneGraphFamily(HostedFamily):
    """Labellings of items with one common graph, inferred on a device."""

    infeasible: ClassVar[Any] = InfeasibleGraph
    #: Nodes of the factors of each group; labels that meet no others have none.
    members: tuple[np.ndarray, ...] = ()

    @cached_property
    def graph(self) -> LabelTableRows:
        """The common graph of all items."""
        return LabelTableRows(self.offsets, self.members, self.n_labels, 1)

    def item_log_partitions(self, node: torch.Tensor, tables: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return g of some items, (S,), for potentials from :meth:`batch`."""
        raise NotImplementedError(f"{type(self).__name__} must define item_log_partitions(node, tables)")

    def derivative(
        self,
        potentials: Potentials,
        weights: Any,
        log_partition: torch.Tensor | None = None,
        direction: Potentials | None = None,
    ) -> TorchPotentials:
        """Return the gradient of the weighted log partition, or its Hessian product with a direction, block by block.

        ``log_partition`` (S,) is filled where it is given.
        """
        tables = {name: torch.zeros_like(table) for name, table in potentials.tables.items()}
        found = TorchPotentials(torch.zeros_like(potentials.node), tables)
        for items in self.blocks(potentials):
            inputs = [array.detach().requires_grad_() for array in self.batch(potentials, items)]
            own = inputs[0].new_ones(len(inputs[0])) if weights is None else weights[items]
            with torch.enable_grad():
                g = self.item_log_partitions(inputs[0], inputs[1:])
                slopes = torch.autograd.grad(
                    g, inputs, own, create_graph=direction is not None, allow_unused=True, materialize_grads=True
                )
                if direction is not None:
                    pairs = zip(slopes, self.batch(direction, items), strict=True)
                    along = sum((slope * moved).sum() for slope, moved in pairs)
                    slopes = torch.autograd.grad(along, inputs, allow_unused=True, materialize_grads=True)
            if log_partition is not None:
                log_partition[items] = g.detach()
            for into, slope in zip(self.batch(found, items), slopes, strict=True):
                into += slope
        return found

    def n_values(self, tied: bool) -> int:
        """Return the count of numbers for g of one item, with one shared table of factors or one per item."""
        return self.graph.n_columns * self.n_labels**2

    def blocks(self, potentials: Potentials) -> Iterator[slice]:
        """Split the items into blocks whose temporaries suit the device."""
        step = self._at_once(self.n_values(all(len(table) == 1 for table in potentials.tables.values())))
        yield from (slice(begin, min(begin + step, self.n_items)) for begin in range(0, self.n_items, step))

    def _at_once(self, n_values: int) -> int:
        return max(1, block_bytes(self.device) // (8 * _TEMPORARIES * n_values))

    def batch(self, potentials: Potentials, items: slice) -> list[torch.Tensor]:
        """Return views of the potentials of some items: of nodes, (S, K, L), and factors, (1 or S, m, L, .., L)."""
        arrays = [potentials.node.view(self.n_items, self.graph.n_columns, self.n_labels)[items]]
        for local, table in zip(self.graph.local, potentials.tables.values(), strict=True):
            tied = len(table) == 1
            arrays.append(table[None] if tied else table.unflatten(0, (self.n_items, len(local)))[items])
        return arrays

    def distribution(
        self, potentials: Potentials, weights: Any = None, workers: Workers | None = None, *, keep: bool = True
    ) -> Member:
        """Return the distribution at potentials on the device, for ``weights`` from ``place_array``."""
        return OneGraphMember(self, self.with_base(potentials), weights)


class TorchSingleFamily(OneGraphFamily, SingleFamily):
    """Independent labels, one for each item."""

    host_kind = SingleFamily
    infeasible = staticmethod(infeasible_item)

    def derivative(
        self,
        potentials: Potentials,
        weights: Any,
        log_partition: torch.Tensor | None = None,
        direction: Potentials | None = None,
    ) -> TorchPotentials:
        """Return probabilities p, or p (d - <p, d>) for a direction d, in closed form."""
        node = potentials.node
        probabilities = node.softmax(dim=1)
        if log_partition is not None:
            torch.logsumexp(node, dim=1, out=log_partition)
        if direction is not None:
            along = direction.node
            probabilities *= along - (probabilities * along).sum(dim=1, keepdim=True)
        return TorchPotentials(probabilities if weights is None else probabilities * weights[:, None], {})


class TorchTreeFamily(OneGraphFamily, TreeFamily):
    """Labels with pairs that form one forest."""

    host_kind = TreeFamily

    @cached_property
    def _links(self) -> list[tuple[int, int, list[tuple[int, int, bool]]]]:
        """Nodes, leaves first, their parents, -1 for roots, and the factors between: group, place, child first."""
        factors: dict[tuple[int, int], list[tuple[int, int, bool]]] = {}
        for group, local in enumerate(self.graph.local):
            for place, (u, v) in enumerate(local):
                factors.setdefault((u, v), []).append((group, place, True))
                factors.setdefault((v, u), []).append((group, place, False))
        size, ends = self.graph.n_columns, np.array(list(factors), dtype=np.int64).reshape(-1, 2).T
        joined, parents = coo_array((np.ones(ends.shape[1]), ends), (size, size)).tocsr(), np.full(size, -2)
        order: list[int] = []
        for root in range(size):
            if parents[root] == -2:
                reached, before = breadth_first_order(joined, root, directed=False)
                parents[reached] = np.maximum(before[reached], -1)
                order += reached.tolist()
        return [(v, int(parents[v]), factors.get((v, int(parents[v])), [])) for v in reversed(order)]

    def item_log_partitions(self, node: torch.Tensor, tables: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the sum of g over the trees, by messages from leaves to roots."""
        scores, total = list(node.unbind(1)), node.new_zeros(len(node))
        for child, parent, factors in self._links:
            if parent < 0:
                total = total + log_sums(scores[child], 1)
                continue
            pairs = [_of_place(tables[group], place) for group, place, _ in factors]
            table = sum(
                pair.transpose(1, 2) if child_first else pair
                for pair, (_, _, child_first) in zip(pairs, factors, strict=True)
            )
            scores[parent] = scores[parent] + log_sums(table + scores[child][:, None, :], 2)
        return total


class TorchTableFamily(OneGraphFamily, TableFamily):
    """Labels in a table of all labellings, with one table of factor scores for all items."""

    host_kind = TableFamily

    def n_values(self, tied: bool) -> int:
        """Return the number of labellings of both halves, or of all nodes."""
        return sum(self.rows.shape) if tied else self.n_labels**self.n_columns

    @cached_property
    def _places(self) -> list[list[torch.Tensor]]:
        """For each factor of each group, its labelling in every labelling of all nodes, (L^K,)."""
        labels = self.rows.labellings(np.arange(self.n_labels**self.n_columns))
        shape, tensor = (self.n_labels,), self.arrangement.tensor
        return [
            [
                tensor(np.ravel_multi_index(tuple(labels[:, list(nodes)].T), shape * len(nodes)), torch.int64)
                for nodes in local
            ]
            for local in self.graph.local
        ]

    def item_log_partitions(self, node: torch.Tensor, tables: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the log partition of each item by products of half tables."""
        left, right = (_outer_sums(half) for half in (node[:, : self.rows.half], node[:, self.rows.half :]))
        if any(len(table) > 1 for table in tables):
            own = sum(
                _of_place(table, place).flatten(1)[:, where]
                for table, places in zip(tables, self._places, strict=True)
                for place, where in enumerate(places)
            )
            return log_sums((left[:, :, None] + right[:, None, :]).flatten(1) + own, 1)
        shared = node.new_zeros(self.rows.shape)
        for table, places in zip(tables, self._places, strict=True):
            for where in places:
                shared = shared + table.flatten()[where].view(self.rows.shape)
        (E, e), (W, w), (F, f) = map(_exponentials, (left, shared.flatten()[None], right))
        total = ((E @ W.view(self.rows.shape)) * F).sum(1)
        safe = total.detach() > _SAFE_SUM
        logs = torch.where(safe, torch.where(safe, total, 1.0).log() + (e + w + f), 0.0)
        lost = (~safe).nonzero()[:, 0]
        for some in lost.split(self._at_once(self.n_values(False))):
            scores = left[some][:, :, None] + shared + right[some][:, None, :]
            logs = logs.index_add(0, some, log_sums(scores.flatten(1), 1))
        return logs


def _of_place(table: torch.Tensor, place: int) -> torch.Tensor:
    """Return the tables of one factor of a graph, (1 or S, L, .., L)."""
    return table[:, 0 if table.shape[1] == 1 else place]


def _outer_sums(scores: torch.Tensor) -> torch.Tensor:
    """Return sum_k scores[i, k, y_k] for all labellings y, (S, L^K), the first node slowest."""
    first = scores.new_zeros(len(scores), 1)
    return reduce(lambda sums, column: (sums[:, :, None] + column[:, None, :]).flatten(1), scores.unbind(1), first)


def _exponentials(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return exp of rows (S, A) shifted to a maximum of zero, and the shifts (S,)."""
    top = finite_or_zero(scores.detach().amax(1))
    return (scores - top[:, None]).exp(), top


#: The families of this module by the kind of family on the host.
ONE_GRAPH: dict[type[LabelFamily], type[OneGraphFamily]] = {
    kind.host_kind: kind for kind in (TorchSingleFamily, TorchTreeFamily, TorchTableFamily)
}
