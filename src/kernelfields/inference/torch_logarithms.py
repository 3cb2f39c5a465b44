"""Chains in the log domain, on tensors: the equations of chain_reference.py, for chains that doubles cannot hold.

Kept are four arrays of logarithms, (M, L); the conditionals that derivatives need follow from them, step by step:

    q_t(a | b) = exp(log alpha_{t-1}(a) + w_t(a, b) - log predicted_t(b))
    p_t(b | a) = exp(w_t(a, b) + evidence_t(b) - log future_{t-1}(a)),      evidence_t = u_t + log beta_t

Arrays: node (M, L), edge (1 or M, L, L), in the step-major order of the M positions of the R sequences concerned.
Cost: O(M L^2) exponentials, and for each step a few arrays (n_t, L, L) that are let go at once.
"""

from __future__ import annotations

import torch

from kernelfields.inference.torch_steps import CompensatedSum, DeviceSteps, finite_or_zero, shift_to_zero


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
