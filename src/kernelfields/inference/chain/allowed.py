"""Exact inference on chains with lists of allowed labels: marginals and best labellings.

What depends on single labels is kept for the entries of the lists, (A,), and nothing is as large as positions times
labels unless somebody asks for a table of all labels. Hessian products, draws, entropies, n best labellings and tables
of pairs come from the dense passes with minus infinity elsewhere, the plain twin of what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from kernelfields.fields.allowed import AllowedLabels
from kernelfields.inference.chain.beliefs import ChainBeliefs, infer_chains
from kernelfields.inference.packing import infeasible, raise_if_infeasible
from kernelfields.numerics.threads import Workers

# Lists are walked where neighbours may have at most this share of all pairs of labels; benchmarks/many_labels.py prints
# the times of both ways.
_WORTH = 0.5
# Below this share of steps with a score, exponentials of those alone cost less.
_FEW_STEPS = 0.3


def worth_lists(allowed: AllowedLabels, share: float = _WORTH) -> bool:
    """Whether walking the lists of allowed labels costs less than all labels in vector registers."""
    return allowed.step_pairs <= share * allowed.n_labels**2


@dataclass
class AllowedBeliefs:
    """Marginals of chains with lists of allowed labels; see :func:`infer_allowed`."""

    allowed: AllowedLabels
    log_partition: np.ndarray
    entries: np.ndarray  # (A,), probabilities of allowed labels
    steps: Any  # (1 or N, L, L), weighted probabilities of steps, summed if transitions are tied; None if not counted
    position_weights: np.ndarray | None
    _dense: Callable[[], ChainBeliefs]

    @cached_property
    def node_marginals(self) -> np.ndarray:
        """p(y_t = b), (N, L)."""
        return self.allowed.spread(self.entries)

    @cached_property
    def dense(self) -> ChainBeliefs:
        """The same by passes over all labels, for what these do not keep."""
        return self._dense()

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the weighted log partition in (node, edge), shaped like them."""
        assert self.steps is not None, "steps were not counted"
        if self.position_weights is None:
            return self.node_marginals, self.steps
        return self.node_marginals * self.position_weights[:, None], self.steps

    def edge_marginals(self) -> np.ndarray:
        """Return p(y_{t-1} = a, y_t = b) as (N, L, L), zero at the start of each sequence."""
        return self.dense.edge_marginals()

    def hessian_product(self, d_node: np.ndarray, d_edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Hessian of the weighted log partition times the direction, shaped like it."""
        return self.dense.hessian_product(d_node, d_edge)


def infer_allowed(
    scores: np.ndarray,
    edge: np.ndarray,
    offsets: np.ndarray,
    allowed: AllowedLabels,
    *,
    position_weights: np.ndarray | None = None,
    workers: Workers | None = None,
    steps: bool = True,
) -> AllowedBeliefs:
    """Compute log partition functions and marginals of chains from scores of allowed labels, (A,), and edge (E, L, L).

    ``position_weights`` (N,), equal within a sequence, weigh the sequences in gradients and Hessian products. Without
    ``steps`` their probabilities are not counted, which is a part of the work.
    """
    from kernelfields.inference.chain.allowed_compiled import forward_backward, in_logarithms

    workers = workers or Workers(1)
    transfer, shift = transfers(edge)
    passes = np.zeros(len(scores)), np.zeros(len(scores)), np.zeros(len(scores))
    lists, n_sequences = _compiled(allowed), len(offsets) - 1
    weights = np.ones(n_sequences) if position_weights is None else position_weights[offsets[:-1]]
    log_partition, troubled = np.empty(n_sequences), np.zeros(n_sequences, dtype=np.bool_)
    has_forbidden = not transfer.all()
    private = steps and len(edge) == 1
    pieces = runs_of_lists(allowed, offsets, workers, private=private)
    shared = transfer[..., None] if not steps or private else _beside(transfer)
    tables: dict[int, np.ndarray] = {}

    def run(first: int, last: int) -> None:
        tables[first] = _beside(transfer) if private else shared
        arrays = (lists, scores, tables[first], shift, passes, has_forbidden, log_partition, troubled, weights)
        forward_backward(first, last, offsets, *arrays)

    workers.each(run, pieces)
    expected = sum(tables[first][..., 1] for first, _ in pieces) if private else np.ascontiguousarray(shared[..., -1])
    for sequence in np.flatnonzero(troubled).tolist():
        total = in_logarithms(sequence, offsets, lists, scores, edge, passes[2], expected, weights[sequence])
        if total == -np.inf:
            raise infeasible(sequence)
        log_partition[sequence] = total

    def dense() -> ChainBeliefs:
        node = allowed.spread(scores, -np.inf)
        return infer_chains(node, edge, offsets, position_weights=position_weights, workers=workers, check=False)

    return AllowedBeliefs(allowed, log_partition, passes[2], expected if steps else None, position_weights, dense)


def _beside(transfer: np.ndarray) -> np.ndarray:
    """Return the transfer and zeros beside it, (E, L, L, 2)."""
    both = np.zeros((*transfer.shape, 2))
    both[..., 0] = transfer
    return both


def _compiled(allowed: AllowedLabels) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists as compiled code takes them: with unsigned numbers it need not look for those below zero."""
    return allowed.begin, allowed.labels.view(np.uint32)


def transfers(edge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return exp(w - shift), zero only where a step is forbidden, and the shifts: the largest of each table."""
    top = edge.max(axis=(1, 2))
    shift = np.where(np.isfinite(top), top, 0.0)
    if len(edge) == 1 and np.count_nonzero(edge) < _FEW_STEPS * edge.size:
        # Steps without a coefficient are all alike: of a million pairs of labels, few have been observed.
        transfer, scored = np.full(edge.shape, np.exp(-shift[0])), np.flatnonzero(edge)
        transfer.reshape(-1)[scored] = np.exp(edge.reshape(-1)[scored] - shift[0])
    else:
        transfer = np.exp(edge - shift[:, None, None])
    if not transfer.all():
        transfer[(transfer == 0.0) & (edge > -np.inf)] = np.finfo(np.float64).smallest_subnormal
    return transfer, shift


def runs_of_lists(
    allowed: AllowedLabels, offsets: np.ndarray, workers: Workers, private: bool = False
) -> list[tuple[int, int]]:
    """Cut sequences into runs of about equal work; one for each thread where each has a ``private`` table of steps."""
    ends = allowed.begin[offsets]
    pieces = workers.weighted_pieces(ends, max(1, int(allowed.step_pairs)))
    if not private or len(pieces) <= workers.n_threads:
        return pieces
    cuts = [pieces[index * len(pieces) // workers.n_threads][0] for index in range(workers.n_threads)]
    return list(pairwise([*cuts, pieces[-1][1]]))


def best_allowed(
    scores: np.ndarray, edge: np.ndarray, offsets: np.ndarray, allowed: AllowedLabels, workers: Workers | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best labelling (N,) and its score per sequence (S,); ties go to the lowest label."""
    from kernelfields.inference.chain.allowed_compiled import viterbi

    workers = workers or Workers(1)
    lists = _compiled(allowed)
    labels, best = np.zeros(int(offsets[-1]), dtype=np.int64), np.zeros(len(offsets) - 1)
    pointers = np.zeros(len(scores), dtype=np.int32)
    workers.each(
        lambda first, last: viterbi(first, last, offsets, lists, scores, edge, pointers, labels, best),
        runs_of_lists(allowed, offsets, workers),
    )
    raise_if_infeasible(best)
    return labels, best


def best_with_each(
    scores: np.ndarray, edge: np.ndarray, offsets: np.ndarray, allowed: AllowedLabels, workers: Workers
) -> np.ndarray:
    """Return max-marginals (A,): the score of the best labelling with each allowed label, less the best of all."""
    from kernelfields.inference.chain.allowed_compiled import max_marginals

    out = np.empty(len(scores))
    lists = _compiled(allowed)
    workers.each(
        lambda first, last: max_marginals(first, last, offsets, lists, scores, edge, out),
        runs_of_lists(allowed, offsets, workers),
    )
    return out


def rows_without_path(allowed: AllowedLabels, offsets: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return for each sequence the row up to which possible steps (L, L) lead to no allowed label; -1 for none."""
    from kernelfields.inference.chain.allowed_compiled import lost_rows

    out = np.empty(len(offsets) - 1, dtype=np.int64)
    lost_rows(offsets, _compiled(allowed), steps, out)
    return out
