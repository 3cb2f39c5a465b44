"""What users pass as ``random_state``, as one kind of generator."""

from __future__ import annotations

from typing import Any

import numpy as np


def random_generator(random_state: Any) -> np.random.Generator:
    """Return a Generator for None, an int, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, a whole number that is not negative, a Generator or a RandomState, "
            f"got {random_state!r}"
        ) from error
