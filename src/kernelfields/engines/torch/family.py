"""Chains on a torch device as a family of labellings: potentials, statistics and inference on tensors.

The twin of inference/chain/family.py. Potentials, means, marginals and weights are float64 tensors, with rows in
step-major order (steps.py); ``positions`` of clique sets count rows of that order. Only the value and which sequences
left the range of doubles are read back to the host; numbers of potentials that leave the device (``dot``, ``largest``,
``finite``) are gathered there and read once for all arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernelfields.engines.torch.chains import TorchChainBeliefs, infer_step_chains
from kernelfields.engines.torch.steps import DeviceSteps, StepOrder
from kernelfields.inference.base_measure import BaseMeasure
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import Member
from kernelfields.inference.potentials import EDGE, Group, Placed, Potentials, Statistics
from kernelfields.numerics.threads import Workers

# BLAS counts the entries of a vector in 32 bits.
_PIECE = 1 << 30


class TorchPotentials(Potentials):
    """Potentials whose arrays are float64 tensors of one device."""

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return bool(torch.isfinite(torch.stack([array.sum() for array in self.arrays])).all())

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        filled = [array for array in self.arrays if array.numel()]
        if not filled:
            return 0.0
        return float(torch.stack([torch.linalg.vector_norm(array, ord=torch.inf) for array in filled]).max())

    def moved(self, step: float, direction: Potentials) -> TorchPotentials:
        """Return self + step * direction."""
        pairs = zip(self.arrays, direction.arrays, strict=True)
        return self.of(torch.add(mine, theirs, alpha=step) for mine, theirs in pairs)

    def add(self, step: float, direction: Potentials) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            mine.add_(theirs, alpha=step)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for array in self.arrays:
            array.mul_(factor)

    def dot(self, other: Potentials) -> float:
        """Return the inner product, summed in float64."""
        parts = [
            torch.dot(*pieces)
            for mine, theirs in zip(self.arrays, other.arrays, strict=True)
            for pieces in zip(mine.reshape(-1).split(_PIECE), theirs.reshape(-1).split(_PIECE), strict=True)
        ]
        return float(torch.stack(parts).sum())


class TorchStatistics(Statistics):
    """Weighted labels and steps on a device: one place a row, or the counts of a tied table."""

    def __init__(self, family: TorchChainFamily, labels: np.ndarray, weights: torch.Tensor | None):
        order = family.steps.order
        ordered = labels[order.permutation]
        self._labels = family.tensor(ordered, torch.int64)[:, None]
        self._weights = None if weights is None else weights[family.steps.ranks]
        self._first = order.n_sequences
        self._counts: torch.Tensor | None = None
        if family.tied:
            host_weights = None if weights is None else family.by_sequence(weights)
            places, amounts = Statistics.count(family.groups, family.observed(labels), host_weights).entries[EDGE]
            counts = np.zeros(family.n_labels**2)
            counts[places] = amounts
            self._counts = family.tensor(counts.reshape(1, family.n_labels, family.n_labels))
        else:
            before = np.empty_like(ordered)
            for first, second, count in order.links:
                before[second : second + count] = ordered[first : first + count]
            pairs = (before * family.n_labels + ordered)[self._first :]
            self._pairs = family.tensor(pairs, torch.int64)[:, None]

    def dot(self, potentials: Potentials) -> Any:
        """Return the inner product with potentials, a tensor of one number."""
        node, edge = potentials.arrays
        observed, weights = node.gather(1, self._labels)[:, 0], self._weights
        score = observed.sum() if weights is None else observed @ weights
        if self._counts is not None:
            return score + (self._counts * edge).sum()
        steps = edge.reshape(len(edge), -1)[self._first :].gather(1, self._pairs)[:, 0]
        return score + (steps.sum() if weights is None else steps @ weights[self._first :])

    def subtract_from(self, mean: Potentials) -> None:
        """Subtract the counts from expectations in place."""
        node, edge = mean.arrays
        weights = node.new_ones(1) if self._weights is None else self._weights
        _subtract(node, self._labels, weights)
        if self._counts is not None:
            edge -= self._counts
        else:
            tables = edge.view(len(edge), -1)[self._first :]
            _subtract(tables, self._pairs, weights if self._weights is None else weights[self._first :])


def _subtract(rows: torch.Tensor, places: torch.Tensor, amounts: torch.Tensor) -> None:
    """Subtract amounts (n,) or (1,) at one place (n, 1) of every row, in place."""
    rows.scatter_add_(1, places, -amounts[:, None].expand(places.shape))


class TorchChainMember(Member):
    """Marginals of chains on a device, in step-major order."""

    def __init__(self, family: TorchChainFamily, potentials: Potentials, beliefs: TorchChainBeliefs, weights: Any):
        super().__init__(family, potentials, beliefs.log_partition, weights)  # type: ignore[arg-type]
        self.beliefs = beliefs

    def marginals(self, group: str | None = None) -> Any:
        """Return the marginals of positions (N, L), or of steps (N, L, L)."""
        return self.beliefs.node_marginals if group is None else self.beliefs.edge_marginals()

    def mean(self) -> TorchPotentials:
        """Return the weighted marginals; those of steps are summed where transitions are tied."""
        node, edge = self.beliefs.gradient()
        if node is self.beliefs.node_marginals:
            node = node.clone()
        return TorchPotentials(node, {EDGE: edge})

    def covariance_product(self, direction: Potentials) -> TorchPotentials:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        node, edge = self.beliefs.hessian_product(*direction.arrays)
        return TorchPotentials(node, {EDGE: edge})


class TorchChainFamily(ChainFamily):
    """Labellings of chains, inferred on a device.

    Arrays of the host are in the order in which chains were packed; they are put in step-major order here, that of
    ``order`` where it is known already. ``compiled`` is that of :func:`infer_step_chains`.
    """

    def __init__(
        self,
        offsets: np.ndarray,
        n_labels: int,
        *,
        tied: bool = True,
        base: BaseMeasure | None = None,
        device: torch.device | str = "cpu",
        order: StepOrder | None = None,
        compiled: bool | None = None,
    ):
        super().__init__(offsets, n_labels, tied=tied, base=base)
        self.steps = DeviceSteps(StepOrder(offsets) if order is None else order, device)
        self.device = self.steps.device
        self.compiled = compiled
        # The arrays are kept beside their indices, so that no other array can have their id.
        self._places: dict[int, tuple[Any, torch.Tensor | slice]] = {}

    def tensor(self, array: np.ndarray, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        """Return an array as a tensor on the device."""
        return torch.tensor(array, dtype=dtype, device=self.device)

    def in_step_order(self, rows: np.ndarray) -> torch.Tensor:
        """Return an array with a row for each position on the device, in its order."""
        return self.tensor(rows[self.steps.order.permutation])

    def by_sequence(self, values: torch.Tensor) -> np.ndarray:
        """Return one value for each rank on the host, in the order of the sequences."""
        ordered = np.empty(self.n_items)
        ordered[self.steps.order.sequences] = values.cpu().numpy()
        return ordered

    def placed(self, potentials: Potentials) -> TorchPotentials:
        """Return potentials, or targets, of the host on the device."""
        edge = self.tensor(potentials.edge) if self.tied else self.in_step_order(potentials.edge)
        return TorchPotentials(self.in_step_order(potentials.node), {EDGE: edge})

    def placed_weights(self, weights: np.ndarray | None) -> Any:
        """Return weights of sequences (S,) by rank, on the device."""
        return None if weights is None else self.tensor(weights[self.steps.order.sequences])

    @property
    def host(self) -> ChainFamily:
        """The same family on the host."""
        return ChainFamily(self.offsets, self.n_labels, tied=self.tied, base=self.base)

    def log_labellings(self) -> np.ndarray:
        """Return the logarithm of the number of labellings of each sequence, weighted by p0, (S,)."""
        return self.host.log_labellings()

    def zeros(self) -> TorchPotentials:
        """Return potentials of zero."""
        n_edges = 1 if self.tied else self.n_positions
        shapes = (self.n_positions, self.n_labels), (n_edges, self.n_labels, self.n_labels)
        node, edge = (torch.zeros(shape, dtype=torch.float64, device=self.device) for shape in shapes)
        return TorchPotentials(node, {EDGE: edge})

    def add_scores(self, potentials: Potentials, term: Placed, scores: Any) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them; arrays travel to the device."""
        scores = torch.as_tensor(scores, device=self.device)
        table = potentials[term.group]
        group = self.group(term.group)
        rows = None if group.tied else self._rows(group, term)
        scores = scores.reshape(len(scores), *group.row)
        if rows is None:
            table.add_(scores)
        elif isinstance(rows, slice):
            table[rows].add_(scores)
        else:
            table.index_add_(0, rows, scores.expand(len(rows), *group.row).to(table.dtype))

    def _rows(self, group: Group, term: Placed) -> Any:
        rows = super()._rows(group, term)
        # What is tied is added everywhere: nothing reads the steps into the start of a sequence.
        if rows is None or (term.tied_everywhere and self._holds_all_cliques(group.name, rows)):
            return None
        return self._place(rows)

    def _place(self, positions: np.ndarray) -> torch.Tensor | slice:
        """Return rows (n,) as an index on the device, a slice where they follow each other."""
        known = self._places.get(id(positions))
        if known is None:
            rows = np.asarray(positions)
            index: torch.Tensor | slice = self.tensor(rows, torch.int64)
            if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
                index = slice(int(rows[0]), int(rows[0]) + len(rows))
            known = self._places[id(positions)] = positions, index
        return known[1]

    def clique_weights(self, weights: np.ndarray, term: Placed) -> Any:
        """Return the weight of every clique of a set, (n,), on the device."""
        rows = self.placed_weights(weights)[self.steps.ranks]
        return rows if term.positions is None else rows[self._place(term.positions)]

    def clique_rows(self, rows: Any, term: Placed) -> Any:
        """Return rows of a group at the cliques of a set, (n, labellings)."""
        flat = rows.reshape(len(rows), self.group(term.group).size)
        return flat if term.positions is None else flat[self._place(term.positions)]

    def statistics(self, labels: np.ndarray, weights: np.ndarray | None = None) -> TorchStatistics:
        """Return Phi of labels (N,), weighted by items (S,) and summed, on the device."""
        return TorchStatistics(self, labels, self.placed_weights(weights))

    def at(
        self, potentials: Potentials, weights: Any = None, workers: Workers | None = None, *, keep: bool = True
    ) -> Member:
        """Return the distribution at potentials on the device; ``weights`` as ``placed_weights`` gives them."""
        whole = self.with_base(potentials)
        rows = None if weights is None else weights[self.steps.ranks]
        node, edge = whole.arrays
        beliefs = infer_step_chains(node, edge, self.steps, position_weights=rows, compiled=self.compiled)
        return TorchChainMember(self, whole, beliefs, weights)

    def with_base(self, potentials: Potentials) -> Potentials:
        """Return potentials in step-major order with the logarithm of the base measure."""
        if self.base is None:
            return potentials
        node, edge = potentials.arrays
        position, step = self._penalties
        node = position(node)
        return TorchPotentials(node, {EDGE: edge if step is None else edge + step})

    @property
    def _penalties(self) -> tuple[Any, torch.Tensor | None]:
        """A function that adds the log-weights of positions to tensors, and those of steps (L, L)."""
        if not hasattr(self, "_known_penalties"):
            assert self.base is not None
            base, masks = self.base, self.base.masks
            step = None if base.step is None else self.tensor(base.step)
            if base.allowed is None and base.log_weights is None and masks is not None:
                label, start, end = (self.tensor(mask) for mask in (masks.label, masks.start, masks.end))

                def add(node: torch.Tensor) -> torch.Tensor:
                    node = node + label
                    node[: self.steps.order.n_sequences].add_(start)
                    node[self.steps.ends] += end
                    return node

                self._known_penalties = add, step
            else:
                weights = None if base.position is None else self.in_step_order(base.position)
                self._known_penalties = (lambda node: node if weights is None else node + weights), step
        return self._known_penalties

    def given(self, log_weights: np.ndarray) -> TorchChainFamily:
        """Return the family with p0 multiplied by weights of labels (N, L), in the order of the chains."""
        base = (self.base or BaseMeasure(self.offsets, self.n_labels)).times(log_weights)
        return type(self)(
            self.offsets,
            self.n_labels,
            tied=self.tied,
            base=base,
            device=self.device,
            order=self.steps.order,
            compiled=self.compiled,
        )
