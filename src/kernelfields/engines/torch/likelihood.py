"""The weighted negative log-likelihood of labelled chains on a torch device, and potentials there.

    value    = sum_i weight_i (log Z_i - score_i(y^i))
    residual = weight * (marginals - one-hot labels)      its gradient in the potentials

The twin of objective/likelihoods/chain.py. Potentials, residuals, marginals and weights are float64 tensors, with
rows in step-major order (steps.py); ``positions`` of clique sets count rows of that order. Only the value and which
sequences left the range of doubles are read back to the host; numbers of potentials that leave the device (``dot``,
``largest``, ``finite``) are gathered there and read once for all arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernelfields.engines.torch.chains import infer_step_chains
from kernelfields.engines.torch.steps import DeviceSteps, StepOrder
from kernelfields.fields.chains import Chains
from kernelfields.fields.constraints import ConstraintMasks
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.likelihood import CountedLabellings, Evaluation
from kernelfields.objective.potentials import Placed, Potentials

# BLAS counts the entries of a vector in 32 bits.
_PIECE = 1 << 30


class TorchPotentials(Potentials):
    """Potentials whose arrays are float64 tensors of one device."""

    arrays: tuple[Any, ...]

    def __init__(self, *arrays: Any):
        super().__init__(*arrays)

    @property
    def node(self) -> Any:
        """Scores of single labels, (N, L)."""
        return self.arrays[0]

    @property
    def edge(self) -> Any:
        """Scores of neighbouring labels of chains, (1 or N, L, L)."""
        return self.arrays[1]

    @property
    def factors(self) -> tuple[Any, ...]:
        """Scores of labels that meet."""
        return self.arrays[1:]

    @property
    def finite(self) -> bool:
        """Whether no entry is infinite or NaN, nor so large that their sum is."""
        return bool(torch.isfinite(torch.stack([each.sum() for each in self.arrays])).all())

    @property
    def largest(self) -> float:
        """The largest absolute entry."""
        filled = [each for each in self.arrays if each.numel()]
        if not filled:
            return 0.0
        return float(torch.stack([torch.linalg.vector_norm(each, ord=torch.inf) for each in filled]).max())

    def moved(self, step: float, direction: Any) -> TorchPotentials:
        """Return self + step * direction."""
        pairs = zip(self.arrays, direction.arrays, strict=True)
        return TorchPotentials(*(torch.add(mine, theirs, alpha=step) for mine, theirs in pairs))

    def add(self, step: float, direction: Any) -> None:
        """Add step * direction in place."""
        for mine, theirs in zip(self.arrays, direction.arrays, strict=True):
            mine.add_(theirs, alpha=step)

    def scale(self, factor: float) -> None:
        """Multiply by a number in place."""
        for each in self.arrays:
            each.mul_(factor)

    def dot(self, other: Any) -> float:
        """Return the inner product, summed in float64."""
        parts = [
            torch.dot(*pieces)
            for mine, theirs in zip(self.arrays, other.arrays, strict=True)
            for pieces in zip(mine.reshape(-1).split(_PIECE), theirs.reshape(-1).split(_PIECE), strict=True)
        ]
        return float(torch.stack(parts).sum())


class TorchChainLayout:
    """Where scores go in the potentials of N positions with L labels each; as ChainLayout, on tensors."""

    def __init__(self, n_positions: int, n_labels: int, *, tied: bool, device: torch.device | str = "cpu"):
        self.n_positions = n_positions
        self.n_labels = n_labels
        self.tied = tied
        self.device = torch.device(device)
        # The arrays are kept beside their indices, so that no other array can have their id.
        self._places: dict[int, tuple[Any, torch.Tensor | slice]] = {}

    def zeros(self) -> TorchPotentials:
        """Return potentials of zero."""
        n_edges = 1 if self.tied else self.n_positions
        return TorchPotentials(
            torch.zeros(self.n_positions, self.n_labels, dtype=torch.float64, device=self.device),
            torch.zeros(n_edges, self.n_labels, self.n_labels, dtype=torch.float64, device=self.device),
        )

    def place(self, positions: Any) -> torch.Tensor | slice:
        """Return rows (n,) as an index on the device, a slice where they follow each other."""
        known = self._places.get(id(positions))
        if known is None:
            rows = np.asarray(positions)
            index: torch.Tensor | slice = torch.tensor(rows, dtype=torch.int64, device=self.device)
            if len(rows) and np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
                index = slice(int(rows[0]), int(rows[0]) + len(rows))
            known = self._places[id(positions)] = positions, index
        return known[1]

    def add_scores(self, potentials: Any, term: Placed, scores: Any) -> None:
        """Add the scores of a set's cliques, (n, L^k), or one row for all of them; arrays travel to the device."""
        target = potentials.node if term.labels_per_clique == 1 else potentials.edge
        scores = torch.as_tensor(scores, device=self.device).reshape((-1, *target.shape[1:]))
        everywhere = term.positions is None or (term.labels_per_clique == 2 and term.tied_everywhere)
        place = slice(None) if everywhere else self.place(term.positions)
        if isinstance(place, slice):
            target[place].add_(scores)
        else:
            target.index_add_(0, place, scores.expand(len(place), *target.shape[1:]).to(target.dtype))

    def clique_residuals(self, residual: Any, term: Placed) -> Any:
        """Return a gradient in potentials at the cliques of a set, (n, L^k); summed over them if it is tied."""
        rows = residual.node if term.labels_per_clique == 1 else residual.edge
        summed = term.labels_per_clique == 2 and self.tied
        if term.positions is not None and not summed:
            rows = rows[self.place(term.positions)]
        rows = rows.reshape(len(rows), self.n_labels**term.labels_per_clique)
        return rows.sum(dim=0, keepdim=True) if term.tied_everywhere and not summed else rows


class TorchChainLikelihood(CountedLabellings):
    """Labelled chains with constraints; ``tied`` says whether one transition matrix serves all positions.

    ``chains`` come as they were packed; they are put in step-major order here, that of ``order`` where it is known
    already. ``compiled`` is that of :func:`infer_step_chains`.
    """

    approximation: str | None = None
    inference = None
    convex = True

    def __init__(
        self,
        chains: Chains,
        n_labels: int,
        *,
        tied: bool = True,
        masks: ConstraintMasks | None = None,
        device: torch.device | str = "cpu",
        order: StepOrder | None = None,
        compiled: bool | None = None,
    ):
        if chains.labels is None:
            raise ValueError("a likelihood needs labelled chains")
        self.chains = chains
        self.n_labels = n_labels
        self.order = StepOrder(chains.offsets) if order is None else order
        self.steps = DeviceSteps(self.order, device)
        self.device = self.steps.device
        self.layout = TorchChainLayout(chains.n_positions, n_labels, tied=tied, device=self.device)
        self.workers = Workers(1)
        self.doubts: list[str] = []
        self.compiled = compiled
        self.masks = masks if masks is not None and masks.any else None
        self.constrained = self.masks is not None
        self._penalties = [] if masks is None else penalties_of(masks, self.device)
        labels = torch.tensor(chains.labels[self.order.permutation], dtype=torch.int64, device=self.device)
        self._labels = labels[:, None]
        self._sequence_weights = self._tensor(chains.weights[self.order.sequences])
        # None stands for weights that are all one, the usual case, where no product is needed.
        self._weights = None if np.all(chains.weights == 1.0) else self._sequence_weights[self.steps.ranks]
        self._observed_steps = self._count_edges() if tied else self._flat_steps()

    def placed(self, rows: np.ndarray) -> torch.Tensor:
        """Return an array with a row for each position, as given, in the order of the device."""
        return self._tensor(rows[self.order.permutation])

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.float64, device=self.device)

    def _count_edges(self) -> torch.Tensor:
        """Return the weighted number of observed steps a -> b, (1, L, L)."""
        labels, after = self.chains.labels, np.flatnonzero(~self.chains.is_start)
        pairs = labels[after - 1] * self.n_labels + labels[after]
        counts = np.bincount(pairs, self.chains.position_weights[after], self.n_labels**2)
        return self._tensor(counts.reshape(1, self.n_labels, self.n_labels))

    def _flat_steps(self) -> torch.Tensor:
        """Return where the observed step into a row stands in its table of pairs, (N - S, 1); starts left out."""
        labels = self.chains.labels[self.order.permutation]
        before = np.empty_like(labels)
        for first, second, count in self.order.links:
            before[second : second + count] = labels[first : first + count]
        pairs = (before * self.n_labels + labels)[self.order.n_sequences :]
        return torch.tensor(pairs, dtype=torch.int64, device=self.device)[:, None]

    def clique_marginals(self, evaluation: Evaluation, term: Placed) -> Any:
        """Return the probabilities of the labellings of a set's cliques, (n, L^k)."""
        marginals = (
            evaluation.beliefs.node_marginals
            if term.labels_per_clique == 1
            else evaluation.beliefs.edge_marginals().reshape(self.chains.n_positions, -1)
        )
        return marginals if term.positions is None else marginals[self.layout.place(term.positions)]

    def clique_weights(self, term: Placed) -> Any:
        """Return the weight of every clique of a set, (n,)."""
        weights = self._sequence_weights[self.steps.ranks] if self._weights is None else self._weights
        return weights if term.positions is None else weights[self.layout.place(term.positions)]

    def evaluate(self, potentials: Any) -> Evaluation:
        """Return value, residual and beliefs at the given potentials."""
        node, edge = potentials.node, potentials.edge
        score = self._observed_score(node, edge)
        if self.masks is not None:
            node, edge = penalised(node, edge, self._penalties, self.steps)
        beliefs = infer_step_chains(node, edge, self.steps, position_weights=self._weights, compiled=self.compiled)
        value = float(beliefs.log_partition @ self._sequence_weights - score)
        node_residual, edge_residual = beliefs.gradient()
        if node_residual is beliefs.node_marginals:
            node_residual = node_residual.clone()
        weights = node_residual.new_ones(1) if self._weights is None else self._weights
        _subtract(node_residual, self._labels, weights)
        if self.layout.tied:
            edge_residual -= self._observed_steps
        else:
            first = self.order.n_sequences
            tables = edge_residual.view(len(edge_residual), -1)[first:]
            _subtract(tables, self._observed_steps, weights if self._weights is None else weights[first:])
        return Evaluation(value, TorchPotentials(node_residual, edge_residual), beliefs)

    def _observed_score(self, node: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
        observed = node.gather(1, self._labels)[:, 0]
        score = observed.sum() if self._weights is None else observed @ self._weights
        if self.layout.tied:
            return score + (self._observed_steps * edge).sum()
        first = self.order.n_sequences
        steps = edge.reshape(len(edge), -1)[first:].gather(1, self._observed_steps)[:, 0]
        return score + (steps.sum() if self._weights is None else steps @ self._weights[first:])

    def hessian_response(self, evaluation: Evaluation, direction: Any) -> TorchPotentials:
        """Return the Hessian in the potentials times a direction."""
        return TorchPotentials(*evaluation.beliefs.hessian_product(direction.node, direction.edge))


def penalties_of(masks: ConstraintMasks, device: torch.device) -> list[torch.Tensor]:
    """Return the penalties of steps (L, L), labels, first and last labels (L,) as tensors on a device."""
    penalties = masks.edge, masks.label, masks.start, masks.end
    return [torch.tensor(each, dtype=torch.float64, device=device) for each in penalties]


def penalised(
    node: torch.Tensor, edge: torch.Tensor, penalties: list[torch.Tensor], steps: DeviceSteps
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return potentials in step-major order with minus infinity for what is forbidden."""
    pairs, label, start, end = penalties
    node = node + label
    node[: steps.order.n_sequences].add_(start)
    node[steps.ends] += end
    return node, edge + pairs


def _subtract(rows: torch.Tensor, places: torch.Tensor, amounts: torch.Tensor) -> None:
    """Subtract amounts (n,) or (1,) at one place (n, 1) of every row, in place."""
    rows.scatter_add_(1, places, -amounts[:, None].expand(places.shape))
