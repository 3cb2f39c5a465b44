"""Successive halving: many candidates on few sequences, few candidates on all of them.

    rung i of R      c_i candidates         n_i training sequences of each fold
                     c_0 = all              n_i = n / factor^(R - 1 - i)
                     c_i+1 = ceil(c_i / factor)

Rungs are added until at most ``factor`` candidates are left for the last one, or until the first one would have
fewer than ``smallest`` sequences. All rungs cost about the same. One rung is plain cross-validation.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rung:
    """How many candidates are compared, on how many training sequences of each fold; None for all of them."""

    n_candidates: int
    n_sequences: int | None


def plan_rungs(n_candidates: int, n_sequences: int, *, factor: int, smallest: int) -> list[Rung]:
    """Return the rungs for folds with ``n_sequences`` training sequences."""
    counts = [n_candidates]
    while counts[-1] > factor and n_sequences // factor ** len(counts) >= smallest:
        counts.append(-(-counts[-1] // factor))
    last = len(counts) - 1
    sizes = [n_sequences // factor ** (last - index) for index in range(last)]
    return [Rung(count, size) for count, size in zip(counts, [*sizes, None], strict=True)]
