"""Loopy belief propagation on a device: the messages of all pairs of all graphs together.

    B_v(x)  = node_v(x) + sum of the messages to v
    to_v(y) = log sum_x exp(w_uv(x, y) + B_u(x) - to_u(x)),      to_u(x) likewise; shifted to a maximum of 0
    value   = sum_uv log sum_xy exp(w_uv(x, y) + B_u(x) - to_u(x) + B_v(y) - to_v(y))
              + sum_v (1 - number of pairs at v) log sum_x exp B_v(x)                         Bethe's

The fixed points are those of the sweeps in inference/approximate/belief_propagation.py, which answers what a fit does
not ask, and so are options, damping and reports; messages of one round are sent side by side, so that there are more
rounds than sweeps. Sums over the pairs at a node are products with a sparse matrix: no number depends on which thread
was first.

Arrays: float64; messages (2 P, L), those to the first nodes of a group's pairs before those to the second. Cost: O(P
L^2) per round, in blocks of pairs. Raises ValueError naming a graph in which forbidden labels leave a node without
any.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array

from kernelfields.engines.torch.chains import TorchPotentials
from kernelfields.engines.torch.family import HostedFamily
from kernelfields.engines.torch.graphs import log_sums
from kernelfields.engines.torch.rows import block_bytes
from kernelfields.engines.torch.steps import finite_or_zero
from kernelfields.engines.torch.tables import csr_tensor
from kernelfields.inference.approximate.base import diagnose
from kernelfields.inference.approximate.belief_propagation import PropagationFamily
from kernelfields.inference.family import Member
from kernelfields.inference.packed_graphs import InfeasibleGraph
from kernelfields.inference.packing import raise_if_infeasible
from kernelfields.inference.potentials import Potentials
from kernelfields.numerics.threads import Workers

# Rounds between two looks at the changes, each of which waits for the device, and for one sweep of the host.
_ROUNDS, _ROUNDS_OF_A_SWEEP = 5, 4
# After so many rounds without halving the change, messages are damped.
_PATIENCE = 40
# Arrays (pairs, L, L) that a block holds at once.
_TEMPORARIES = 6


class Pairs(NamedTuple):
    """Some pairs of a group: messages to their first and second nodes, these nodes, and the scores (1 or n, L, L)."""

    first_rows: slice
    second_rows: slice
    first: torch.Tensor
    second: torch.Tensor
    table: torch.Tensor


def _divide(belief: torch.Tensor, message: torch.Tensor) -> torch.Tensor:
    """Return beliefs minus a message; impossible labels stay impossible."""
    return torch.where(torch.isneginf(belief), belief, belief - message)


class TorchLoopyMember(Member):
    """Beliefs of graphs at the last messages."""

    family: TorchLoopyFamily

    def __init__(self, family: TorchLoopyFamily, potentials: Potentials, weights: torch.Tensor | None):
        self._messages, sweeps, change, converged = family.propagate(potentials)
        self._beliefs = family.beliefs(potentials.node, self._messages)
        sums = log_sums(self._beliefs, 1)
        terms = torch.where(torch.isneginf(sums), sums, sums * (1.0 - family.degrees))
        value = (family.graphs_of_nodes @ terms[:, None])[:, 0]
        for group, pairs in family.blocks(potentials):
            joint = self._joint(pairs)
            graphs = family.graphs_of_pairs(group)[pairs.first_rows.start - family.begins[group] :][: len(joint)]
            value = value.index_put((graphs,), log_sums(joint.flatten(1), 1), accumulate=True)
        raise_if_infeasible(value.cpu().numpy(), InfeasibleGraph)
        super().__init__(family, potentials, value, weights)
        report = np.tile([0.0, sweeps, change, converged], (family.n_items, 1))
        notes = diagnose(report, "'loopy'", "the values may mean little; raise max_iter or damping")["warnings"]
        self.warnings = notes if isinstance(notes, list) else ()

    def _joint(self, pairs: Pairs) -> torch.Tensor:
        """Return the scores of the labels of pairs, (n, L, L), with their neighbours summed out."""
        first = _divide(self._beliefs[pairs.first], self._messages[pairs.first_rows])
        second = _divide(self._beliefs[pairs.second], self._messages[pairs.second_rows])
        return pairs.table + first[:, :, None] + second[:, None, :]

    def marginals(self, group: str | None = None) -> Any:
        """Return the marginals of nodes, (N, L), or of the labels at the pairs of a group, (M, L, L)."""
        if group is None:
            return self._beliefs.softmax(dim=1)
        number = self.family.index(group)
        parts = [self._pair_marginals(pairs) for own, pairs in self.family.blocks(self.potentials) if own == number]
        return torch.cat(parts) if parts else self._beliefs.new_zeros(self.family.table_shape(number, False))

    def _pair_marginals(self, pairs: Pairs) -> torch.Tensor:
        joint = self._joint(pairs)
        return joint.flatten(1).softmax(dim=1).view_as(joint)

    def mean(self) -> TorchPotentials:
        """Return the weighted marginals, summed where potentials are tied."""
        family, node = self.family, self._beliefs.softmax(dim=1)
        tables = [torch.zeros_like(self.potentials.tables[name]) for name in family.names]
        if self.weights is not None:
            node *= self.weights[family.graph_of_node][:, None]
        for group, pairs in family.blocks(self.potentials):
            rows = self._pair_marginals(pairs)
            begin = pairs.first_rows.start - family.begins[group]
            if self.weights is not None:
                rows *= self.weights[family.graphs_of_pairs(group)[begin:][: len(rows)]][:, None, None]
            if len(tables[group]) == 1:
                tables[group] += rows.sum(dim=0)
            else:
                tables[group][begin : begin + len(rows)] = rows
        return TorchPotentials(node, dict(zip(family.names, tables, strict=True)))

    def covariance_product(self, direction: Potentials) -> Potentials:
        """Raise: Hessian products need exact inference."""
        raise TypeError("Hessian products need exact inference, and 'loopy' is approximate; use a solver of gradients")


class TorchLoopyFamily(HostedFamily, PropagationFamily):
    """Loopy belief propagation on packed graphs, all messages together; ``warm_start`` reuses the last messages."""

    #: Messages at the last potentials, from which the next ones start.
    _last_messages: torch.Tensor | None = None

    host_kind = PropagationFamily

    @property
    def is_single_threaded(self) -> bool:
        """False: the device infers one graph and many graphs alike."""
        return False

    @cached_property
    def begins(self) -> list[int]:
        """The index of the first message of every group."""
        return [0, *np.cumsum([2 * len(nodes) for nodes in self.members]).tolist()]

    @cached_property
    def _ends(self) -> list[torch.Tensor]:
        """First and second nodes of the pairs of every group, (2, M)."""
        return [self.arrangement.tensor(nodes.T, torch.int64) for nodes in self.members]

    @cached_property
    def _receivers(self) -> np.ndarray:
        return np.concatenate([np.zeros(0, np.int64), *(nodes.T.ravel() for nodes in self.members)])

    @cached_property
    def _received(self) -> torch.Tensor:
        """The messages that nodes receive, a sparse matrix (N, 2 P) of ones."""
        return self._ones(self._receivers, self.n_positions)

    def _ones(self, rows: np.ndarray, n_rows: int) -> torch.Tensor:
        entries = np.ones(len(rows)), (rows, np.arange(len(rows)))
        return csr_tensor(csr_array(entries, shape=(n_rows, len(rows))), self.device)

    @cached_property
    def degrees(self) -> torch.Tensor:
        """Number of pairs at every node, (N,)."""
        return self.arrangement.tensor(np.bincount(self._receivers, minlength=self.n_positions))

    @cached_property
    def graph_of_node(self) -> torch.Tensor:
        """The graph of every node, (N,)."""
        return self.arrangement.tensor(self.position_items, torch.int64)

    @cached_property
    def graphs_of_nodes(self) -> torch.Tensor:
        """The nodes of graphs, a sparse matrix (S, N) of ones."""
        return self._ones(self.position_items, self.n_items)

    def graphs_of_pairs(self, group: int) -> torch.Tensor:
        """Return the graph of every pair of a group, (M,)."""
        return self.graph_of_node[self._ends[group][0]]

    def blocks(self, potentials: Potentials) -> Iterator[tuple[int, Pairs]]:
        """Yield blocks of pairs that suit the device, with the number of their group."""
        step = max(1, block_bytes(self.device) // (8 * _TEMPORARIES * self.n_labels**2))
        for group, (name, ends) in enumerate(zip(self.names, self._ends, strict=True)):
            table, begin, count = potentials.tables[name], self.begins[group], ends.shape[1]
            for at in range(0, count, step):
                own = slice(at, min(at + step, count))
                first, second = (slice(begin + half + own.start, begin + half + own.stop) for half in (0, count))
                yield group, Pairs(first, second, ends[0, own], ends[1, own], table if len(table) == 1 else table[own])

    def beliefs(self, node: torch.Tensor, messages: torch.Tensor) -> torch.Tensor:
        """Return B, (N, L)."""
        return node + self._received @ messages

    def _send(self, beliefs: torch.Tensor, messages: torch.Tensor, potentials: Potentials) -> torch.Tensor:
        """Return the messages of the next round."""
        fresh = torch.empty_like(messages)
        for _, pairs in self.blocks(potentials):
            first = _divide(beliefs[pairs.first], messages[pairs.first_rows])
            second = _divide(beliefs[pairs.second], messages[pairs.second_rows])
            fresh[pairs.second_rows] = log_sums(pairs.table + first[:, :, None], 1)
            fresh[pairs.first_rows] = log_sums(pairs.table + second[:, None, :], 2)
        return fresh.sub_(finite_or_zero(fresh.amax(dim=1, keepdim=True)))

    def propagate(self, potentials: Potentials) -> tuple[torch.Tensor, float, float, bool]:
        """Return the messages, the number of sweeps, the last change, and whether it is small."""
        options, messages = self.options, self._last_messages
        if messages is None:
            messages = potentials.node.new_zeros(self.begins[-1], self.n_labels)
        kept, milestone, change, rounds = 0.0, np.inf, np.inf, 0
        while change > self.tolerance and rounds < _ROUNDS_OF_A_SWEEP * options.max_iter:
            beliefs = self.beliefs(potentials.node, messages)
            fresh = self._send(beliefs, messages, potentials)
            if kept > 0.0:
                mixed = torch.lerp(fresh, messages, kept)
                fresh = torch.where(torch.isfinite(mixed), mixed, fresh)
            messages, rounds = fresh, rounds + 1
            if rounds % _ROUNDS == 0:
                moved = self.beliefs(potentials.node, messages).softmax(dim=1) - beliefs.softmax(dim=1)
                change = float(moved.abs().nan_to_num_().max()) / (1.0 - kept)
            if rounds % _PATIENCE == 0:
                kept = options.damping if change > 0.5 * milestone else kept
                milestone = change
        if options.warm_start:
            # What was impossible now may be possible at the next potentials: nothing infinite is carried over.
            self._last_messages = finite_or_zero(messages)
        return messages, rounds / _ROUNDS_OF_A_SWEEP, change, change <= self.tolerance

    def distribution(
        self, potentials: Potentials, weights: Any = None, workers: Workers | None = None, *, keep: bool = True
    ) -> Member:
        """Return the beliefs at potentials on the device, for ``weights`` from ``place_array``."""
        return TorchLoopyMember(self, self.with_base(potentials), weights)
