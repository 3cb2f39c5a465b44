"""Items to label next, or positions of them, by the uncertainty of a fitted field.

    order = rank_for_labelling(crf, X_unlabelled, batch=20)
    X_next = [X_unlabelled[item] for item in order.order]

The score of an item is H(Y | x) / T, that of a position H(y_t | x), where Y are all labels of an item, T is its number
of unlabelled positions, and H are entropies in nats conditioned on the known labels.

The most uncertain items are often similar to each other. For a diverse batch, the ``POOL`` times larger set of the most
uncertain items is reduced by an incomplete Cholesky factorisation of k(x, x'): the next pivot has the largest score
times the share of k(x, x) that the previous pivots leave unexplained. An item is represented by its most uncertain
position. Cost: O(POOL b^2) kernel values and products for a batch of b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import entr
from sklearn.base import BaseEstimator

from kernelfields.basis.panel import PanelCholesky, select_rows
from kernelfields.estimators.answering.formats import Tokens, get_answer_format
from kernelfields.estimators.questions import LabelField
from kernelfields.inference.answers import Answers
from kernelfields.inference.choice import refuse_approximate
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.wording import inflect
from kernelfields.objective.term import Term
from kernelfields.reports.labelling import LabellingOrder
from kernelfields.selection.held_out import unwrap_fitted_field

#: Items among which a batch is spread, for each item of the batch.
POOL = 5
# Approximate number of rounds in which a batch is chosen, with at least one pivot each.
_ROUNDS = 32


@dataclass
class _Scored:
    """Scores of items and positions, and the inputs for a diverse batch."""

    items: list[float] = field(default_factory=list)
    positions: list[np.ndarray] = field(default_factory=list)
    is_open: list[np.ndarray] = field(default_factory=list)
    inputs: list[tuple[Any, np.ndarray]] = field(default_factory=list)


def rank_for_labelling(
    estimator: BaseEstimator,
    X: Any,
    *,
    batch: int | None = None,
    known: Any = None,
    positions: bool = False,
    spread: bool = True,
    tokens: Tokens | None = None,
) -> LabellingOrder:
    """Rank items, or positions, by the uncertainty of their labels under a fitted field.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        A fitted estimator of labels.
    X : list of arrays, or any other form that ``predict`` takes
        The inputs that may be labelled.
    batch : int, optional
        The number of items or positions to choose; by default all are ranked, by their scores alone.
    known : list of lists, optional
        The labels that are known already, as in ``predict``; positions whose label is known are not ranked.
    positions : bool, default False
        Whether to rank positions inside of items, one by one, instead of items: ``fit`` takes labels of a few of them.
        Entropies of whole items need exact inference, those of positions do not.
    spread : bool, default True
        Whether a batch is spread by the kernel of the field; without it the highest scores are taken.
    tokens : list of lists, optional
        What to show for each position of each item, such as its word; for single labels an entry for each item.

    Returns
    -------
    LabellingOrder
        A table whose ``order`` has the numbers of the items to label, the first one first, or (item, position) pairs;
        ``scores`` has the entropy per position of each item, in nats, or an array of entropies for each item.

    Raises
    ------
    ValueError
        If ``batch`` is not positive, or if entropies of whole items would need exact inference that the field does not
        do.

    See Also
    --------
    find_label_errors : Lists labels that are likely wrong.

    Examples
    --------
    >>> from kernelfields import ChainCRF, rank_for_labelling
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> new = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Eve"}, {"word": "met"}]]
    >>> rank_for_labelling(crf, new).order
    [1, 0]
    """
    if batch is not None:
        check_count(batch, "batch", " or None")
    asked, X, _ = unwrap_fitted_field(estimator, X)
    scored = _Scored()
    term = _find_node_term(asked) if spread and batch is not None else None
    for answers in asked.answers(X, known=known):
        _score(answers, positions, term, scored)
    places, values = _find_unlabelled(scored, positions)
    order = np.argsort(-values, kind="stable")
    spreads = bool(scored.inputs) and batch is not None and batch < len(order)
    if term is not None and batch is not None and spreads:
        doubtful = order[: POOL * batch]
        order = doubtful[
            _spread_batch(term.subspace.kernel, _select_inputs(scored.inputs, doubtful), values[doubtful], batch)
        ]
    chosen: list = []
    rows: list[tuple] = []
    for index in order[:batch].tolist():
        item, part = places[index]
        whole, name, token = get_answer_format(asked).place(asked, item, part or 0, tokens)
        if not positions:
            words, name = None if tokens is None else tokens[item], int(scored.is_open[item].sum())
            token = " ".join(map(str, words)) if isinstance(words, list | tuple | np.ndarray) else words
        chosen.append((whole, name) if positions else whole)
        rows.append((whole, name, token, float(values[index])))
    noun, part_noun = get_answer_format(asked).headings
    ranked = inflect(len(rows), (part_noun if positions else noun) or noun)
    scores: Any = scored.positions if positions else np.array(scored.items)
    return LabellingOrder(
        columns=(noun, part_noun or "position" if positions else "n_positions", "token", "score"),
        rows=rows,
        caption=f"{ranked} by entropy{' per position' * (not positions)}{', spread by the kernel' if spreads else ''}",
        words=(2,),
        formats={"score": ".4f"},
        longest=40,
        optional=("token",),
        order=chosen,
        scores=scores,
        spread=spreads,
    )


def _score(answers: Answers, positions: bool, term: Term | None, scored: _Scored) -> None:
    """Append the scores of a batch of items, and the inputs of its items or positions."""
    family = answers.family
    by_position = entr(answers.marginals).sum(axis=1) if family.n_positions else np.zeros(0)
    is_open = answers.known is None or (answers.known > -np.inf).sum(axis=1) > 1
    is_open = np.broadcast_to(is_open, by_position.shape)
    counts = np.bincount(family.position_items[is_open], minlength=family.n_items)
    offsets = family.offsets
    if not positions:
        refuse_approximate(family, "an entropy of whole items")
        entropies = answers.entropies() if family.n_positions else np.zeros(family.n_items)
        scored.items += answers.by_item((entropies / np.maximum(counts, 1)).tolist(), 0.0)
    masked = np.where(is_open, by_position, np.nan)
    scored.positions += answers.by_item(np.split(masked, offsets[1:-1]), np.zeros(0))
    scored.is_open += answers.by_item(np.split(is_open, offsets[1:-1]), np.zeros(0, dtype=bool))
    if term is not None and family.n_positions:
        inputs = term.clique.view(answers.data)
        doubtful = np.where(is_open, by_position, -1.0)
        places = np.flatnonzero(is_open)
        if not positions:
            tops = np.array([np.argmax(own) for own in np.split(doubtful, offsets[1:-1])])
            places = (offsets[:-1] + tops)[counts > 0]
        # The inputs of an instance are those of all its labels.
        rows = places if inputs.shape[0] == family.n_positions else family.position_items[places]
        scored.inputs.append((inputs, rows))


def _find_unlabelled(scored: _Scored, positions: bool) -> tuple[list[tuple[int, int | None]], np.ndarray]:
    """Return the items, or positions, with unknown labels, and their scores."""
    if positions:
        pairs = [(item, int(part)) for item, own in enumerate(scored.is_open) for part in np.flatnonzero(own)]
        return list(pairs), np.array([scored.positions[item][part] for item, part in pairs])
    items = [item for item, own in enumerate(scored.is_open) if own.any()]
    return [(item, None) for item in items], np.array(scored.items)[items]


def _find_node_term(asked: LabelField) -> Term | None:
    """Return the first term of single labels with inputs, or None."""
    terms: Iterator[Term] = iter(asked.field_.terms) if hasattr(asked, "field_") else iter(())
    usable = (term for term in terms if term.labels_per_clique == 1 and not term.is_constant)
    return next((term for term in usable if term.placement is not None and term.clique.kernel is not None), None)


def _select_inputs(parts: list[tuple[Any, np.ndarray]], chosen: np.ndarray) -> Any:
    """Return numbered rows of the inputs of all batches."""
    begins = np.cumsum([0, *(len(rows) for _, rows in parts)])
    owners = np.searchsorted(begins, chosen, side="right") - 1
    blocks = [
        inputs[rows[chosen[owners == own] - begins[own]]] for own, (inputs, rows) in enumerate(parts) if own in owners
    ]
    stacked = sp.csr_array(sp.vstack(blocks)) if sp.issparse(blocks[0]) else np.concatenate(blocks)
    return stacked[np.argsort(np.argsort(owners, kind="stable"))]


def _half_left(before: np.ndarray) -> Callable[[int, float], bool]:
    return lambda row, left: bool(left > 0.5 * before[row])


def _spread_batch(kernel: Kernel, inputs: Any, scores: np.ndarray, batch: int) -> list[int]:
    """Choose diverse pivots among inputs, by the score times the unexplained share of k(x, x)."""
    panel = PanelCholesky(kernel, inputs, batch)
    tiny = np.finfo(np.float64).tiny
    weights = np.maximum(scores, tiny) / np.maximum(panel.diagonal, tiny)
    at_once = max(1, batch // _ROUNDS)
    while panel.rank < batch and not panel.is_exhausted:
        outside = panel.candidates
        best = outside[np.argsort(-(weights * panel.residual)[outside], kind="stable")[:at_once]]
        before, _ = panel.take_residuals(best)
        # Of several at once, those wait for another round that others of them explain by half.
        kept, factor = select_rows(panel.residual_block(best), _half_left(before))
        room = batch - panel.rank
        panel.append(best[kept[:room]], factor[:room, :room])
    chosen = panel.pivots.tolist()
    rest = np.setdiff1d(np.arange(len(scores)), chosen)
    return [*chosen, *rest[: batch - len(chosen)].tolist()]
