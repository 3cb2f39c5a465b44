"""One chain in the log domain: beliefs and Hessian products where probabilities leave the range of doubles.

    log alpha_t(b)  = u_t(b) + log sum_a exp(log alpha_{t-1}(a) + w_t(a, b))
    log beta_t(a)   = log sum_b exp(w_{t+1}(a, b) + u_{t+1}(b) + log beta_{t+1}(b))
    q_t(a | b)      = p(y_{t-1} = a | y_t = b, x_1..t)  prop. to  alpha_{t-1}(a) exp w_t(a, b)
    p_t(b | a)      = p(y_t = b | y_{t-1} = a, x)       prop. to  exp(w_t(a, b) + u_t(b)) beta_t(b)
    m_T             = alpha_T / sum alpha_T,    X_t(a, b) = q_t(a | b) m_t(b),    m_{t-1} = sum_b X_t(., b)

Every alpha_t and beta_t is shifted to a maximum of one and the marginals follow from the conditionals,
so no digit is lost to the size of log Z: spreads of thousands and long chains are exact.

Derivatives of the marginals along (du, dw), by conditional expectations of the direction's score:

    A_t(b)     = du_t(b) + sum_a q_t(a | b) (A_{t-1}(a) + dw_t(a, b))
    B_{t-1}(a) = sum_b p_t(b | a) (dw_t(a, b) + du_t(b) + B_t(b)),     E = sum_b m_T(b) A_T(b)
    dm_t(b)    = m_t(b) (A_t(b) + B_t(b) - E)
    dX_t(a,b)  = X_t(a, b) (A_{t-1}(a) + dw_t(a, b) + du_t(b) + B_t(b) - E)

Arrays: node (T, L), edge (1 or T, L, L). Cost: O(T L^2) exponentials and memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LogDomainBeliefs:
    """Marginals and conditionals of a chain; arrays of steps are zero at its start."""

    log_partition: float  # minus infinity if every labelling is forbidden, and then the rest has no meaning
    node_marginals: np.ndarray  # (T, L): m
    edge_marginals: np.ndarray  # (T, L, L): X
    backward_weights: np.ndarray  # (T, L, L): q, 0 where impossible
    forward_weights: np.ndarray  # (T, L, L): p, 0 where impossible

    def hessian_product(self, d_node: np.ndarray, d_edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives (T, L), (T, L, L) of the marginals along d_node (T, L), d_edge (1 or T, L, L)."""
        marginals, pairs = self.node_marginals, self.edge_marginals
        d_edge = np.broadcast_to(d_edge, pairs.shape)
        before, after = d_node.copy(), np.zeros_like(d_node)  # A, B
        for t in range(1, len(d_node)):
            before[t] += np.sum(self.backward_weights[t] * (before[t - 1][:, None] + d_edge[t]), axis=0)
        for t in range(len(d_node) - 1, 0, -1):
            after[t - 1] = np.sum(self.forward_weights[t] * (d_edge[t] + d_node[t] + after[t]), axis=1)
        expected = marginals[-1] @ before[-1]
        d_pairs = np.zeros_like(pairs)
        d_pairs[1:] = before[:-1, :, None] + d_edge[1:] + d_node[1:, None, :] + after[1:, None, :] - expected
        d_pairs *= pairs
        return marginals * (before + after - expected), d_pairs


def infer_in_logarithms(node: np.ndarray, edge: np.ndarray) -> LogDomainBeliefs:
    """Compute the beliefs of one chain."""
    from kernelfields.inference.chain.logarithms_compiled import log_domain_beliefs

    marginals = np.zeros(node.shape)
    steps = [np.zeros((*node.shape, node.shape[1])) for _ in range(3)]
    return LogDomainBeliefs(log_domain_beliefs(node, edge, marginals, *steps), marginals, *steps)
