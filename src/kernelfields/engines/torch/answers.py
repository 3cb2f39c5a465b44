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

from functools import cached_property
from typing import Any

import numpy as np
import torch

from kernelfields.basis.subspace import Expansion
from kernelfields.engines.torch.chains import check_step_arrays
from kernelfields.engines.torch.family import TorchChainFamily, TorchChainMember, TorchPotentials
from kernelfields.engines.torch.rows import device_expansion
from kernelfields.engines.torch.steps import CompensatedSum, DeviceSteps, shift_to_zero
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.family import Member, RankedLabellings
from kernelfields.inference.packing import raise_if_infeasible
from kernelfields.inference.potentials import EDGE, Potentials
from kernelfields.numerics.threads import Workers

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

    def scores(self, expansion: Expansion, inputs: Any) -> torch.Tensor:
        """Return k(x, B) alpha for each row of inputs, (n, q), on the device."""
        return device_expansion(expansion, self.family.device).scores_there(inputs)
