"""Forward-backward and Hessian recursions on tensors: scaled, or in the log domain where doubles cannot hold a chain.

Scaled, the equations of inference/chain/scaled_compiled.py for all sequences: positions stand in step-major order
(steps.py), so step t is a few operations on n_t rows, tied transitions one product (n_t, L) @ (L, L). What does not
depend on the step before it is done for all positions in one go. A sequence that leaves the range of doubles has a
log partition of NaN; labels of tiny probability are told apart from forbidden ones by ``underflown``, which the
caller runs where ``low`` says that there are any.

In the log domain four arrays of logarithms, (M, L), are kept; the conditionals that derivatives need follow from
them, step by step:

    log alpha_t(b) = u_t(b) + log sum_a exp(log alpha_{t-1}(a) + w_t(a, b))
    log beta_t(a)  = log sum_b exp(w_{t+1}(a, b) + u_{t+1}(b) + log beta_{t+1}(b))
    q_t(a | b) = exp(log alpha_{t-1}(a) + w_t(a, b) - log predicted_t(b))
    p_t(b | a) = exp(w_t(a, b) + evidence_t(b) - log future_{t-1}(a)),      evidence_t = u_t + log beta_t

Arrays: float64, (N, L); transfer (E, L, L) with E = 1 or N. Cost: O(N L^2) time, seven launches per step for
forward-backward and nine for a Hessian product, three arrays (N, L) kept, no value read back to the host; O(M L^2)
exponentials for the M positions of the sequences in the log domain.
"""

from __future__ import annotations

import torch

from kernelfields.engines.torch.steps import (
    CompensatedSum,
    DeviceSteps,
    backward_product,
    finite_or_zero,
    forward_product,
    shift_to_zero,
)
from kernelfields.inference.packing import LEAST_SCALE, TINY


class LogDomainChains:
    """Log partitions and marginals of some sequences; minus infinity and NaN where all is forbidden."""

    def __init__(self, node: torch.Tensor, edge: torch.Tensor, steps: DeviceSteps):
        self._steps = steps
        self._edge = edge
        self._log_alpha = node.clone()
        self._log_predicted = torch.zeros_like(node)
        #: By rank, (R,).
        self.log_partition = self._forward(node)
        self._evidence = node.clone()
        self._log_future = torch.zeros_like(node)
        #: p(y_t = b), (M, L).
        self.node_marginals = torch.empty_like(node)
        self._backward()

    @property
    def tied(self) -> bool:
        """Whether one transition matrix serves all positions."""
        return self._edge.shape[0] == 1

    def _step(self, matrices: torch.Tensor, here: slice) -> torch.Tensor:
        return matrices if matrices.shape[0] == 1 else matrices[here]

    def _forward(self, node: torch.Tensor) -> torch.Tensor:
        log_alpha = self._log_alpha
        first = slice(0, self._steps.order.n_sequences)
        total = CompensatedSum(shift_to_zero(log_alpha[first]))
        for here, before in self._steps.forward_steps():
            joint = log_alpha[before][:, :, None] + self._step(self._edge, here)
            self._log_predicted[here] = torch.logsumexp(joint, dim=1)
            log_alpha[here] = node[here] + self._log_predicted[here]
            total.add(shift_to_zero(log_alpha[here]))
        return total.value(torch.logsumexp(log_alpha[self._steps.ends], dim=1))

    def _backward(self) -> None:
        marginals, evidence = self.node_marginals, self._evidence
        marginals[self._steps.ends] = torch.softmax(self._log_alpha[self._steps.ends], dim=1)
        for here, before in self._steps.backward_steps():
            joint = self._step(self._edge, here) + evidence[here][:, None, :]
            log_beta = torch.logsumexp(joint, dim=2)
            self._log_future[before] = log_beta
            shift_to_zero(log_beta)
            evidence[before].add_(log_beta)
            marginals[before] = self._pairs(here, before).sum(dim=2)

    def _backward_weights(self, here: slice, before: slice) -> torch.Tensor:
        """q_t(a | b) of one step, (n, L, L), zero where impossible."""
        joint = self._log_alpha[before][:, :, None] + self._step(self._edge, here)
        return torch.exp(joint.sub_(finite_or_zero(self._log_predicted[here])[:, None, :]))

    def _forward_weights(self, here: slice, before: slice) -> torch.Tensor:
        """p_t(b | a) of one step, (n, L, L), zero where impossible."""
        joint = self._step(self._edge, here) + self._evidence[here][:, None, :]
        return torch.exp(joint.sub_(finite_or_zero(self._log_future[before])[:, :, None]))

    def _pairs(self, here: slice, before: slice) -> torch.Tensor:
        """p(y_{t-1} = a, y_t = b) of one step, (n, L, L)."""
        return self._backward_weights(here, before).mul_(self.node_marginals[here][:, None, :])

    def edge_gradient(self, weights: torch.Tensor | None) -> torch.Tensor:
        """Return the gradient of the log partitions, times weights (M,), in the edges, shaped like them."""
        gradient = torch.zeros_like(self._edge)
        for here, before in self._steps.forward_steps():
            self._add(gradient, here, self._pairs(here, before), weights)
        return gradient

    def edge_marginals(self) -> torch.Tensor:
        """Return p(y_{t-1} = a, y_t = b) as (M, L, L), zero at the start of each sequence."""
        n_positions, n_labels = self.node_marginals.shape
        marginals = self._edge.new_zeros(n_positions, n_labels, n_labels)
        for here, before in self._steps.forward_steps():
            marginals[here] = self._pairs(here, before)
        return marginals

    def hessian_product(
        self, d_node: torch.Tensor, d_edge: torch.Tensor, weights: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the derivatives of the marginals along (d_node, d_edge), and those of ``edge_gradient``."""
        past, ahead = d_node.clone(), torch.zeros_like(d_node)
        for here, before in self._steps.forward_steps():
            scores = past[before][:, :, None] + self._step(d_edge, here)
            past[here].add_(self._backward_weights(here, before).mul_(scores).sum(dim=1))
        for here, before in self._steps.backward_steps():
            scores = self._step(d_edge, here) + (d_node[here] + ahead[here])[:, None, :]
            ahead[before] = self._forward_weights(here, before).mul_(scores).sum(dim=2)
        ends = self._steps.ends
        mean = (self.node_marginals[ends] * past[ends]).sum(dim=1)
        ahead -= mean[self._steps.ranks][:, None]
        d_marginals = self.node_marginals * (past + ahead)
        ahead += d_node
        edge = torch.zeros_like(self._edge)
        for here, before in self._steps.forward_steps():
            scores = past[before][:, :, None] + self._step(d_edge, here) + ahead[here][:, None, :]
            self._add(edge, here, self._pairs(here, before).mul_(scores), weights)
        return d_marginals, edge

    def _add(self, target: torch.Tensor, here: slice, pairs: torch.Tensor, weights: torch.Tensor | None) -> None:
        if weights is not None:
            pairs = pairs.mul_(weights[here][:, None, None])
        if self.tied:
            target += pairs.sum(dim=0)
        else:
            target[here] = pairs


# Marginals below this bound have no say in a derivative, and their reciprocals would overflow.
NO_SAY = 1e-290


def forward_backward(
    node: torch.Tensor,
    transfer: torch.Tensor,
    shift: torch.Tensor,
    steps: DeviceSteps,
    alpha: torch.Tensor,
    inverse_predicted: torch.Tensor,
    marginals: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Fill the arrays; return log partitions by rank, (S,), NaN where doubles do not do, and flags ``low``."""
    n_sequences = steps.order.n_sequences
    top = node.amax(dim=1)
    torch.sub(node, top[:, None], out=alpha)
    alpha.exp_()
    predicted, scale = inverse_predicted, torch.empty_like(top)
    predicted[:n_sequences] = 0.0
    _normalise(alpha[:n_sequences], scale[:n_sequences])
    for here, before in steps.forward_steps():
        forward_product(alpha[before], transfer, here, predicted[here])
        _normalise(alpha[here].mul_(predicted[here]), scale[here])
    never = predicted == 0.0
    inverse_predicted.reciprocal_().masked_fill_(never, 0.0)
    del never

    marginals.copy_(alpha)
    gamma = torch.empty_like(alpha[n_sequences : 2 * n_sequences])
    future = torch.empty_like(gamma)
    for here, before in steps.backward_steps():
        count = here.stop - here.start
        torch.mul(marginals[here], inverse_predicted[here], out=gamma[:count])
        backward_product(gamma[:count], transfer, here, future[:count])
        marginals[before].mul_(future[:count])

    terms = scale.log().add_(top)
    terms[n_sequences:].add_(shift if len(shift) == 1 else shift[n_sequences:])
    fine = (scale > LEAST_SCALE) & torch.isfinite(marginals.sum(dim=1))
    terms.masked_fill_(~fine, torch.nan)
    return steps.sums(terms), alpha.amin(dim=1) < TINY


def _normalise(rows: torch.Tensor, scale: torch.Tensor) -> None:
    torch.sum(rows, dim=1, out=scale)
    rows /= scale[:, None]


def underflown(node: torch.Tensor, edge: torch.Tensor, alpha: torch.Tensor, steps: DeviceSteps) -> torch.Tensor:
    """Return which sequences, by rank, (S,), have a tiny probability that is not structurally zero."""
    reachable = node > -torch.inf
    for here, before in steps.forward_steps():
        allowed = (edge if edge.shape[0] == 1 else edge[here]) > -torch.inf
        ways = torch.zeros(reachable[here].shape, dtype=torch.float32, device=node.device)
        forward_product(reachable[before].to(ways.dtype), allowed.to(ways.dtype), slice(None), ways)
        reachable[here].logical_and_(ways > 0.0)
    return steps.any_of((reachable & (alpha < TINY)).any(dim=1))


def score_expectations(
    d_node: torch.Tensor,
    transfer: torch.Tensor,
    transfer_times_d_edge: torch.Tensor,
    steps: DeviceSteps,
    alpha: torch.Tensor,
    inverse_predicted: torch.Tensor,
    marginals: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return past = A, ahead = du + B - E and d_marginals = dm, (N, L) each."""
    n_sequences = steps.order.n_sequences
    past = d_node.clone()
    weighted = torch.empty_like(d_node[n_sequences : 2 * n_sequences])
    gamma, expected = torch.empty_like(weighted), torch.empty_like(weighted)
    for here, before in steps.forward_steps():
        count = here.stop - here.start
        torch.mul(alpha[before], past[before], out=weighted[:count])
        forward_product(weighted[:count], transfer, here, expected[:count])
        forward_product(alpha[before], transfer_times_d_edge, here, expected[:count], add=True)
        past[here].addcmul_(expected[:count], inverse_predicted[here])
    mean = (marginals[steps.ends] * past[steps.ends]).sum(dim=1)

    # 1 / future, to be multiplied by what it divides as the recursion comes by; nothing is ahead of an end.
    ahead = alpha / marginals
    ahead.masked_fill_(marginals < NO_SAY, 0.0)
    ahead.index_fill_(0, steps.ends, 0.0)
    for here, before in steps.backward_steps():
        count = here.stop - here.start
        torch.mul(marginals[here], inverse_predicted[here], out=gamma[:count])
        torch.add(ahead[here], d_node[here], out=weighted[:count])
        weighted[:count].mul_(gamma[:count])
        backward_product(weighted[:count], transfer, here, expected[:count])
        backward_product(gamma[:count], transfer_times_d_edge, here, expected[:count], add=True)
        ahead[before].mul_(expected[:count])
    ahead -= mean[steps.ranks][:, None]
    d_marginals = (past + ahead).mul_(marginals)
    return past, ahead.add_(d_node), d_marginals
