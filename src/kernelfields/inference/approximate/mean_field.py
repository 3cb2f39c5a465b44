"""Mean field: the best independent labels, and a lower bound on the log partition function.

    q(y) = prod_v q_v(y_v),     log Z >= L(q) = E_q score(y) - E_q log q(y)
    q_v(b) proportional to exp(node[v, b] + sum_{factors f at v} E_q[table_f | y_v = b])       one node at a time

Each such step is the exact maximum over q_v, so the bound never falls, and it is a bound whenever the sweeps end.
Where they have converged, the gradient of the bound in the potentials are the marginals under q. L has local
maxima: two starts are compared per graph. Minus infinity forbids: then q may not give
probability to a forbidden combination, which can split what was joined and make the bound loose.

Arrays as in inference/graphs.py; factors of any order k. Cost: O(N L + sum_f M_f k L^k) per sweep. Raises
ValueError naming a graph in which no allowed labelling was found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelfields.inference import approximate
from kernelfields.inference.approximate.base import ApproximateFamily, MeanField, diagnose, raise_if_lost
from kernelfields.inference.graphs import GraphMember, GraphPotentials
from kernelfields.inference.single import softmax
from kernelfields.numerics.threads import Workers


class MeanFieldMember(GraphMember):
    """Independent marginals; marginals of factors are products."""

    def _table_marginals(self, group: int) -> np.ndarray:
        """Return the marginals (M, L, .., L) of the labels at the factors of a group."""
        members = self.family.members[group]
        marginals = self.node_marginals[members[:, 0]]
        for j in range(1, members.shape[1]):
            next_node = self.node_marginals[members[:, j]]
            marginals = marginals[..., None] * next_node.reshape(len(members), *(1,) * j, self.family.n_labels)
        return marginals


class MeanFieldFamily(ApproximateFamily):
    """Mean field from two starts; see ``MeanField`` for the options."""

    method = "mean-field"
    bound = "lower"
    description = "mean field: independent labels, the log partition function from below"
    options: MeanField

    def _member(self, checked: GraphPotentials, workers: Workers) -> MeanFieldMember:
        ascend = approximate.sweeps_compiled.ascend
        options = self.options
        arranged = self.arrange(checked)
        best, kept = np.full((self.n_items, 4), -np.inf), np.zeros_like(checked.node)
        for start in self._starts(checked, workers):
            report = np.empty((self.n_items, 4))

            def run(first: int, last: int, moved: tuple = (start, report)) -> None:
                ascend(first, last, *arranged, options.tolerance, options.max_iter, *moved)

            workers.each(run, self.sweep_runs(workers))
            better = report[:, 0] > best[:, 0]
            best[better] = report[better]
            rows = better[self.position_items]
            kept[rows] = start[rows]
        raise_if_lost(best[:, 0], self.method)
        diagnostics = diagnose(best, "mean field", "the bound holds; raise max_iter for its gradient")
        return MeanFieldMember(self, checked, best[:, 0].copy(), kept, workers, diagnostics)

    def _starts(self, checked: GraphPotentials, workers: Workers) -> Iterator[np.ndarray]:
        """Yield initial distributions (N, L)."""
        node = checked.node
        # With forbidden combinations a start that allows everything may be stuck: a labelling never is.
        if not checked.has_forbidden:
            yield softmax(node)[1]
        yield np.eye(self.n_labels)[self.climb(checked, node.argmax(axis=1), workers)[0]]
