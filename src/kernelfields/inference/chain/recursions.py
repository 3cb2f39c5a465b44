"""A table of the recursions of chains: the file, semiring and form of each, and the one that a family runs.

All are one pass, or two, over the positions, and differ in what they add and multiply with:

    forward_t(b) = u_t(b) (x) (+)_a forward_{t-1}(a) (x) w_t(a, b)

    semiring    (+), (x)                    what it answers
    sum         sum, product                log Z, marginals
    max         largest, +                  the best labelling and its score
    tangent     mean, + along a direction   expected scores of a direction, for products with the Hessian
    draw        a draw, product             labellings
    moments     covariance, +               responses to many directions, and their third cumulants; also of steps
    possible    or, and                     how far a labelling is possible

    form        of
    logarithms  dense tables, many chains at a time, in NumPy; potentials of any size. What others are compared with
    steps       dense tables, many chains at a time, in NumPy, or as tensors on a device; scaled
    compiled    dense tables, chain by chain; scaled, and what doubles do not hold is inferred in logarithms
    pieces      the same for long chains, whose pieces are passed side by side (long.py)
    lists       labels of lists alone (lists.py); ``marked`` finds the steps that have a score during the pass
    stream      one chain that goes on (streaming.py)
    pairs       all pairs of positions of a chain

Dense recursions are chosen here: those of one semiring are called alike. The others belong to families of their own.
Those of n-grams and of segments are in their folders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernelfields.inference.chain import dense


class Recursion(NamedTuple):
    """A pass over chains: its semiring and form, the files and functions of its loops, and its use for dense chains."""

    semiring: str
    form: str
    loops: tuple[str, ...]
    run: Callable[..., Any] | None = None


RECURSIONS = (
    Recursion("sum", "logarithms", ("plain.infer",)),
    Recursion("sum", "steps", ("step_passes.forward_backward",), dense.sums_by_steps),
    Recursion("sum", "compiled", ("scaled_compiled.forward_backward",), dense.compiled_sums),
    Recursion("sum", "pieces", ("scaled_compiled.filter_piece", "scaled_compiled.smooth_piece")),
    Recursion("sum", "lists", ("lists_compiled.forward_backward",)),
    Recursion("sum", "marked lists", ("lists_compiled.forward_backward_marked",)),
    Recursion("sum", "stream", ("streaming_compiled.filter_rows", "streaming_compiled.smooth_rows")),
    Recursion("max", "logarithms", ("plain.best_labels",), dense.best_in_logarithms),
    Recursion("max", "compiled", ("decoding._viterbi",), dense.compiled_best),
    Recursion("max", "lists", ("lists_compiled.viterbi",)),
    Recursion("max", "stream", ("streaming_compiled.answer_by_survivors", "streaming_compiled.answer_last")),
    Recursion("tangent", "steps", ("step_passes.score_expectations",), dense.tangents_by_steps),
    Recursion("tangent", "compiled", ("scaled_compiled.score_expectations",), dense.compiled_tangents),
    Recursion("draw", "compiled", ("decoding.draw_backward",), dense.compiled_draws),
    Recursion("moments", "compiled", ("moments_compiled.score_moments",)),
    Recursion(
        "moments", "pairs", ("pairs_compiled.covariances_with_features", "pairs_compiled.covariances_with_steps")
    ),
    Recursion("possible", "lists", ("lists_compiled.lost_rows",)),
)

#: Forms of dense chains, the best one first: of a few short chains, and of others.
SHORT, LONG = ("steps", "logarithms", "compiled"), ("compiled",)
# Chains of at most so many steps, and positions times pairs of labels, are inferred in NumPy: marginals of a chain of
# 12 positions take 1.4 instead of 1.3 ms, and a process that meets nothing longer loads no compiler, in 0.5 to 3 s.
_SHORT_STEPS, _SHORT_WORK = 24, 2**15


def list_forms(offsets: np.ndarray, n_labels: int) -> Sequence[str]:
    """Return the forms for dense chains, the best one first."""
    few = int(offsets[-1]) * n_labels**2 <= _SHORT_WORK
    return SHORT if few and np.diff(offsets).max(initial=0) <= _SHORT_STEPS else LONG


def chosen(semiring: str, forms: Sequence[str]) -> Callable[..., Any]:
    """Return the functions for dense chains in a semiring, of the first available form."""
    known = {
        recursion.form: recursion.run for recursion in RECURSIONS if recursion.semiring == semiring and recursion.run
    }
    return next(known[form] for form in forms if form in known)
