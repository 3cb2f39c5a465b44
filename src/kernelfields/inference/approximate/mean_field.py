"""Mean field: the best independent labels, and a lower bound on the log partition function.

    q(y) = prod_v q_v(y_v),     log Z >= L(q) = E_q score(y) - E_q log q(y)
    q_v(b) proportional to exp(node[v, b] + sum_{factors f at v} E_q[table_f | y_v = b])       one node at a time

Each such step is the exact maximum over q_v, so the bound never falls, and it is a bound whenever the sweeps end.
Where they have converged, the gradient of the bound in the potentials are the marginals under q. L has local
maxima: several starts, fixed by the options, are compared per graph. Minus infinity forbids: then q may not give
probability to a forbidden combination, which can split what was joined and make the bound loose.

Arrays as in inference/beliefs.py; factors of any order k. Cost: O(N L + sum_f M_f k L^k) per sweep. Fails:
ValueError naming a graph in which no allowed labelling was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from kernelfields.inference.approximate.base import ApproximateInference, MeanField, climb, no_allowed_labelling
from kernelfields.inference.beliefs import GraphBeliefs
from kernelfields.numerics.threads import Workers


class MeanFieldBeliefs(GraphBeliefs):
    """Independent marginals; those of factors are products."""

    def factor_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        members = self.inference.members[group]
        marginals = self.node_marginals[members[:, 0]]
        for j in range(1, members.shape[1]):
            next_node = self.node_marginals[members[:, j]]
            marginals = marginals[..., None] * next_node.reshape(len(members), *(1,) * j, self.inference.n_labels)
        return marginals


class MeanFieldInference(ApproximateInference):
    """Mean field with several starts; see ``MeanField`` for the options."""

    method = "mean-field"
    bound = "lower"

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int, options: MeanField):
        super().__init__(offsets, members, n_labels)
        self.options = options
        self.description = "mean field: independent labels, the log partition function from below"

    def infer(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        *,
        weights: np.ndarray | None = None,
        workers: Workers | None = None,
    ) -> MeanFieldBeliefs:
        """Compute lower bounds and marginals; ``weights`` (S,) weigh the graphs in the gradient."""
        node, tables, tied = self.check_potentials(node, factors)
        weights = self.check_weights(weights)
        workers = workers or Workers(1)
        incidence, flat = self.layout.arrange(tables)
        runs = self.layout.runs(workers, self.n_labels)
        best, kept = np.full((self.n_graphs, 4), -np.inf), np.zeros_like(node)
        options = self.options
        for start in self._starts(node, tables, workers):
            report = np.empty((self.n_graphs, 4))
            fixed = incidence, node, flat, options.tolerance, options.max_iter, start, report
            workers.each(partial(_ascend_graphs, fixed), runs)
            better = report[:, 0] > best[:, 0]
            best[better] = report[better]
            rows = better[self.node_graphs]
            kept[rows] = start[rows]
        lost = np.flatnonzero(np.isneginf(best[:, 0]))
        if lost.size:
            raise no_allowed_labelling(int(lost[0]), self.method)
        slow = np.flatnonzero(best[:, 3] == 0)
        notes = []
        if slow.size:
            notes.append(
                f"mean field has not converged on {slow.size} of {self.n_graphs} graphs, the first is {slow[0]}: "
                f"marginals still change by {best[slow, 2].max():.1e}; the bound holds; raise max_iter "
                "for its gradient"
            )
        diagnostics = {
            "converged": best[:, 3] > 0,
            "iterations": best[:, 1].astype(np.int64),
            "change": best[:, 2],
            "warnings": notes,
        }
        return MeanFieldBeliefs(self, best[:, 0].copy(), kept, tied=tied, weights=weights, diagnostics=diagnostics)

    def _starts(self, node: np.ndarray, tables: list[np.ndarray], workers: Workers) -> Iterator[np.ndarray]:
        """Yield distributions (N, L) to start from."""
        top = node.max(axis=1, keepdims=True)
        lone = np.exp(node - np.where(np.isneginf(top), 0.0, top))
        total = lone.sum(axis=1, keepdims=True)
        restricted = not all(np.isfinite(each.sum()) for each in (node, *tables))
        if not restricted or self.options.starts == 1:
            yield lone / np.where(total > 0, total, 1.0)
        random = np.random.default_rng(self.options.random_state)
        # With forbidden combinations a start that allows everything may be stuck: a labelling never is.
        for number in range(int(not restricted), max(self.options.starts, int(restricted))):
            labels = node.argmax(axis=1) if number < 2 else random.integers(self.n_labels, size=self.n_nodes)
            labels, _ = climb(self.layout, node, tables, labels, workers)
            yield np.eye(self.n_labels)[labels]


def _ascend_graphs(fixed: tuple, first: int, last: int) -> None:
    from kernelfields.inference.approximate.mean_field_compiled import ascend

    ascend(first, last, *fixed)
