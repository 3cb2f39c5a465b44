"""Chains on a torch device as a family of labellings: potentials, statistics and inference on tensors.

The twin of inference/chain/family.py. Potentials, means, marginals and weights are float64 tensors, with rows in
step-major order (steps.py); ``positions`` of clique sets count rows of that order. Only the value and which sequences
left the range of doubles are read back to the host; numbers of potentials that leave the device (``dot``, ``largest``,
``finite``) are gathered there and read once for all arrays.

New chains: their potentials stay on the device, and labels come back instead of scores.

    best labelling    d_t(b) = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then the arg max is followed backwards
    single labels     arg max of the marginals, by the passes of chains.py

The twin of viterbi in inference/chain/decoding.py, for all sequences at once: every step is a few operations on n_t
rows. Scores are shifted to a maximum of zero at every position, so that potentials of any size, minus infinity
included, are safe. Cost: O(N L^2) time, O(N L) memory and tables of some rows against all pairs of labels. Other
answers, such as draws and entropies, are computed on the host, to which the potentials are copied.
Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from kernelfields.basis.subspace import Expansion
from kernelfields.engines.torch.chains import TorchChainBeliefs, check_step_arrays, infer_step_chains
from kernelfields.engines.torch.rows import device_expansion
from kernelfields.engines.torch.steps import CompensatedSum, DeviceSteps, StepOrder, shift_to_zero
from kernelfields.fields.reading import Matrix
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import (
    EDGE,
    BaseMeasure,
    Group,
    Member,
    Placed,
    Potentials,
    RankedLabellings,
    Statistics,
)
from kernelfields.inference.packing import raise_if_infeasible
from kernelfields.numerics.threads import Workers

# BLAS counts the entries of a vector in 32 bits.
_PIECE = 1 << 30
# Values in a table of rows against pairs of labels: a quarter of a gigabyte.
_TABLE_VALUES = 2**25


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

    def __init__(
        self, family: TorchChainFamily, potentials: Potentials, beliefs: TorchChainBeliefs, weights: torch.Tensor | None
    ):
        super().__init__(family, potentials, beliefs.log_partition, weights)
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
        self._places: dict[int, tuple[np.ndarray, torch.Tensor | slice]] = {}

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
        position, ends, step = self._penalties
        if position is not None:
            node = node + position
        if ends is not None:
            node[: self.steps.order.n_sequences].add_(ends[0])
            node[self.steps.ends] += ends[1]
        return TorchPotentials(node, {EDGE: edge if step is None else edge + step})

    @cached_property
    def _penalties(self) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        """Log-weights of positions, (L,) or (N, L), of the first and the last label, (2, L), and of steps, (L, L)."""
        assert self.base is not None
        base, masks = self.base, self.base.masks
        step = None if base.step is None else self.tensor(base.step)
        if base.allowed is None and base.log_weights is None and masks is not None:
            return self.tensor(masks.label), self.tensor(np.stack([masks.start, masks.end])), step
        return None if base.position is None else self.in_step_order(base.position), None, step

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


def best_step_labels(
    node: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps, table_values: int = _TABLE_VALUES
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the best labelling (N,) in step-major order, and its score by rank, (S,), -inf where all is forbidden.

    ``table_values`` is how many sums of a label and the one before it are compared at once.
    """
    check_step_arrays(node, edge, steps)
    n_labels, tied = node.shape[1], edge.shape[0] == 1
    at_once = max(1, table_values // n_labels**2)
    best, pointers = node.clone(), torch.empty(node.shape, dtype=torch.int64, device=node.device)
    total = CompensatedSum(shift_to_zero(best[: steps.order.n_sequences]))
    for here, before in steps.forward_steps():
        for begin in range(here.start, here.stop, at_once):
            rows = slice(begin, min(begin + at_once, here.stop))
            earlier = slice(before.start + rows.start - here.start, before.start + rows.stop - here.start)
            joint = best[earlier][:, :, None] + (edge if tied else edge[rows])
            highest, pointers[rows] = joint.max(dim=1)
            best[rows] += highest
        total.add(shift_to_zero(best[here]))
    labels = torch.empty(len(node), dtype=torch.int64, device=node.device)
    labels[steps.ends] = best[steps.ends].argmax(dim=1)
    for here, before in steps.backward_steps():
        labels[before] = pointers[here].gather(1, labels[here][:, None])[:, 0]
    return labels, total.value()


class HostMember(Member):
    """The distribution of chains on a device, read back in the order of the chains."""

    family: AnsweredChains

    def __init__(self, family: AnsweredChains, there: TorchChainMember, potentials: Potentials, workers: Workers):
        self.family, self.weights, self._there = family, None, there
        self._on_device, self._workers = potentials, workers

    @cached_property
    def log_partition(self) -> np.ndarray:  # type: ignore[override]
        """Log Z of each sequence, (S,)."""
        return self.family.by_sequence(self._there.beliefs.log_partition)

    @cached_property
    def _node_marginals(self) -> np.ndarray:
        return self.family.in_given_order(self._there.marginals())

    def marginals(self, group: str | None = None) -> np.ndarray:
        """Return p(y_t), (N, L), or p(y_{t-1}, y_t), (N, L, L), zero at the start of each sequence."""
        return self._node_marginals if group is None else self.family.in_given_order(self._there.marginals(group))

    def likeliest(self) -> np.ndarray:
        """Return the label of largest marginal at each position, (N,)."""
        return self.family.in_given_order(self._there.marginals().argmax(dim=1))

    @cached_property
    def _on_host(self) -> Member:
        family = self.family.host
        return family.at(self.family.host_potentials(self._on_device), workers=self._workers)

    def mean(self) -> Potentials:
        """Return the marginals; those of steps are summed where transitions are tied."""
        return self._on_host.mean()

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Return the Hessian of the log partition times the direction."""
        return self._on_host.covariance_product(direction)

    def entropy(self) -> np.ndarray:
        """Return the entropy of each sequence, (S,)."""
        return self._on_host.entropy()


class AnsweredChains(TorchChainFamily):
    """Chains whose potentials are on a device, in the order in which chains were packed; answers are on the host."""

    def in_given_order(self, rows: torch.Tensor) -> np.ndarray:
        """Return rows in step-major order on the host, in the order of the chains."""
        return rows.cpu().numpy()[self.steps.order.inverse]

    def host_potentials(self, potentials: Potentials) -> Potentials:
        """Return potentials of the device on the host, base measure not included."""
        node, edge = potentials.arrays
        return Potentials(node.cpu().numpy(), {EDGE: edge.cpu().numpy()})

    def _arranged(self, potentials: Potentials) -> TorchPotentials:
        """Return potentials in step-major order, base measure not included."""
        rows = torch.as_tensor(self.steps.order.permutation, device=self.device)
        edge = potentials.edge if self.tied else potentials.edge[rows]
        return TorchPotentials(potentials.node[rows], {EDGE: edge})

    def at(
        self, potentials: Potentials, weights: Any = None, workers: Workers | None = None, *, keep: bool = True
    ) -> Member:
        """Return the distribution at potentials, inferred on the device."""
        there = super().at(self._arranged(potentials))
        assert isinstance(there, TorchChainMember)
        return HostMember(self, there, potentials, workers or Workers(1))

    def best(self, potentials: Potentials, workers: Workers | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable labelling (N,) and its score for each sequence, (S,)."""
        node, edge = TorchChainFamily.with_base(self, self._arranged(potentials)).arrays
        labels, scores = best_step_labels(node, edge, self.steps)
        by_sequence = self.by_sequence(scores)
        raise_if_infeasible(by_sequence)
        return self.in_given_order(labels), by_sequence

    def n_best(self, potentials: Potentials, k: int, workers: Workers | None = None) -> RankedLabellings:
        """Return the k best labellings of each sequence and their scores, on the host."""
        return self.host.n_best(self.host_potentials(potentials), k, workers)

    def sample(
        self,
        potentials: Potentials,
        n_samples: int,
        random: int | np.random.Generator | None = None,
        workers: Workers | None = None,
    ) -> np.ndarray:
        """Draw labellings, (n_samples, N), on the host."""
        return self.host.sample(self.host_potentials(potentials), n_samples, random, workers)

    def label_scores(self, potentials: Potentials, labels: np.ndarray) -> np.ndarray:
        """Return the score of a labelling of each sequence, (S,), on the host."""
        return self.host.label_scores(self.host_potentials(potentials), labels)


class DeviceChains:
    """Where the potentials of new chains are computed and stay."""

    def __init__(self, family: ChainFamily, device: torch.device):
        self.family = AnsweredChains(family.offsets, family.n_labels, tied=family.tied, base=family.base, device=device)

    def scores(self, expansion: Expansion, inputs: Matrix) -> torch.Tensor:
        """Return k(x, B) alpha for each row of inputs, (n, q), on the device."""
        return device_expansion(expansion, self.family.device).scores_there(inputs)
