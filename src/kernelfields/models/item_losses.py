"""Losses of held-out items, and whether one field predicts new items worse than another.

Positions of an item resemble each other: that a field predicts four days better by .05 nats a position says little
about the fifth if it is one of the days that makes the difference. So the spread of differences is that over items,

    d_i = sum over positions t of item i of w_t (loss_t - loss'_t)            w_i = sum of the w_t,  W = sum of the w_i
    D   = sum_i d_i / W,     se^2 = n / (n - 1) sum_i (d_i - w_i D)^2 / W^2

and a field is worse if D / se exceeds the quantile of Student's t at 5 %, with n - 1 degrees of freedom.

Cost: O(N) for N positions. Arrays: numbers, losses and weights of n items, (n,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

# So seldom is a field called worse that is as good.
_LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class ItemLosses:
    """Sums of losses over the positions of each item; ``items`` are their numbers, increasing."""

    items: np.ndarray
    losses: np.ndarray
    weights: np.ndarray

    @classmethod
    def from_positions(cls, items: np.ndarray, losses: np.ndarray, weights: np.ndarray) -> ItemLosses:
        """Add up the losses of positions by the numbers of their items."""
        numbers, places = np.unique(items, return_inverse=True)
        return cls(numbers, np.bincount(places, weights * losses), np.bincount(places, weights))

    @classmethod
    def concatenate(cls, parts: Sequence[ItemLosses]) -> ItemLosses:
        """Join the losses of parts; an item may be in several of them."""
        items, losses, weights = (
            np.concatenate(each) for each in zip(*((own.items, own.losses, own.weights) for own in parts), strict=True)
        )
        numbers, places = np.unique(items, return_inverse=True)
        return cls(numbers, np.bincount(places, losses), np.bincount(places, weights))

    def is_worse(self, other: ItemLosses) -> bool:
        """Whether these items are predicted worse than by the other field, beyond the spread over items."""
        n_items, total = len(self.items), self.weights.sum()
        differences = self.losses - other.losses
        mean = differences.sum() / total
        if n_items < 2:
            return bool(mean > 0.0)
        spread = np.sqrt(n_items / (n_items - 1) * np.sum((differences - self.weights * mean) ** 2)) / total
        return bool(mean > stdtrit(n_items - 1, 1.0 - _LEVEL) * spread)
