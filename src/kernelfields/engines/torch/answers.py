"""New chains on a torch device: their potentials stay there, and labels come back instead of scores.

    best labelling    d_t(b) = u_t(b) + max_a (d_{t-1}(a) + w_t(a, b)), then the arg max is followed backwards
    single labels     arg max of the marginals, by the passes of chains.py

The twin of viterbi in inference/chain/decoding.py, for all sequences at once: positions stand in step-major order
(steps.py), and every step is a few operations on n_t rows. Scores are shifted to a maximum of zero at every position,
so that potentials of any size, minus infinity included, are safe. Cost: O(N L^2) time, O(N L) memory and tables of
some rows against all pairs of labels. What else is asked of chains, draws and entropies say, is answered on the host,
where the potentials then go. Fails: ValueError naming the sequence when every labelling is forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kernelfields.basis.subspace import Expansion
from kernelfields.engines.torch.chains import TorchChainBeliefs, check_step_arrays, infer_step_chains
from kernelfields.engines.torch.likelihood import TorchChainLayout, TorchPotentials, penalised, penalties_of
from kernelfields.engines.torch.rows import device_expansion
from kernelfields.engines.torch.steps import CompensatedSum, DeviceSteps, StepOrder, shift_to_zero
from kernelfields.fields.chains import Chains
from kernelfields.inference.answers import ChainAnswers
from kernelfields.inference.packing import raise_if_infeasible
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.chain import ChainStructure
from kernelfields.objective.potentials import ChainLayout

# Values in a table of rows against pairs of labels: a quarter of a gigabyte.
_TABLE_VALUES = 2**25


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


@dataclass
class HostBeliefs:
    """Beliefs of a device, read back in the order of the chains."""

    beliefs: TorchChainBeliefs

    @cached_property
    def log_partition(self) -> np.ndarray:
        """Log Z of each sequence, (S,)."""
        return _by_sequence(self.beliefs.log_partition, self.beliefs.steps.order)

    @cached_property
    def node_marginals(self) -> np.ndarray:
        """p(y_t = b | x), (N, L)."""
        return _packed(self.beliefs.node_marginals, self.beliefs.steps.order)

    def edge_marginals(self) -> np.ndarray:
        """Return p(y_{t-1}, y_t | x), (N, L, L), zero at the start of each sequence."""
        return _packed(self.beliefs.edge_marginals(), self.beliefs.steps.order)


class TorchChainAnswers(ChainAnswers):
    """Chains whose potentials, constraints included, are on a device, in step-major order."""

    def __init__(self, chains: Chains, node: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps, workers: Workers):
        self.data = chains
        self.workers = workers
        self._there = node, edge, steps

    def given(self, evidence: np.ndarray | None) -> TorchChainAnswers:
        """Return the same once more is known of the labels: log-weights (N, L), in the order of the chains."""
        if evidence is None:
            return self
        node, edge, steps = self._there
        known = torch.as_tensor(evidence[steps.order.permutation], dtype=node.dtype, device=node.device)
        answers = TorchChainAnswers(self.data, node + known, edge, steps, self.workers)
        answers.evidence = evidence if self.evidence is None else self.evidence + evidence
        return answers

    @cached_property
    def node(self) -> np.ndarray:  # type: ignore[override]
        """Potentials of single labels on the host, (N, L)."""
        return _packed(self._there[0], self._there[2].order)

    @cached_property
    def edge(self) -> np.ndarray:  # type: ignore[override]
        """Potentials of neighbouring labels on the host, (1 or N, L, L)."""
        edge = self._there[1]
        return edge.cpu().numpy() if edge.shape[0] == 1 else _packed(edge, self._there[2].order)

    @cached_property
    def beliefs(self) -> HostBeliefs:
        """Marginals and log partition functions."""
        return HostBeliefs(infer_step_chains(*self._there))

    def best_labels(self) -> np.ndarray:
        """Return the most probable labelling of each sequence, (N,)."""
        labels, scores = best_step_labels(*self._there)
        order = self._there[2].order
        raise_if_infeasible(_by_sequence(scores, order))
        return _packed(labels, order)

    def likeliest_labels(self) -> np.ndarray:
        """Return the most probable label of each position by itself, (N,)."""
        found = self.beliefs.beliefs
        return _packed(found.node_marginals.argmax(dim=1), found.steps.order)


def _packed(rows: torch.Tensor, order: StepOrder) -> np.ndarray:
    """Return rows in step-major order on the host, in the order of the chains."""
    return rows.cpu().numpy()[order.inverse]


def _by_sequence(values: torch.Tensor, order: StepOrder) -> np.ndarray:
    """Return one value per rank on the host, in the order of the chains."""
    ordered = np.empty(order.n_sequences)
    ordered[order.sequences] = values.cpu().numpy()
    return ordered


class DeviceChains:
    """Where the potentials of new chains are computed and stay."""

    def __init__(self, layout: ChainLayout, device: torch.device):
        self.layout = TorchChainLayout(layout.n_positions, layout.n_labels, tied=layout.tied, device=device)

    def scores(self, expansion: Expansion, inputs: Any) -> torch.Tensor:
        """Return k(x, B) alpha for each row of inputs, (n, q), on the device."""
        return device_expansion(expansion, self.layout.device).scores_there(inputs)

    def answers(
        self, structure: ChainStructure, chains: Chains, potentials: TorchPotentials, workers: Workers
    ) -> TorchChainAnswers:
        """Return what can be asked of chains with potentials in their order, constraints not included."""
        order = StepOrder(chains.offsets)
        steps = DeviceSteps(order, self.layout.device)
        rows = torch.as_tensor(order.permutation, device=steps.device)
        node, edge = potentials.node[rows], potentials.edge
        edge = edge if self.layout.tied else edge[rows]
        if structure.forbids:
            node, edge = penalised(node, edge, penalties_of(structure.masks, steps.device), steps)
        if chains.allowed is not None:
            node = node + torch.as_tensor(chains.allowed.penalties(), device=steps.device)[rows]
        return TorchChainAnswers(chains, node, edge, steps, workers)
