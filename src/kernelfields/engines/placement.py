"""Where the cliques of a set stand: at nodes or factors, all or some, with one potential for all or one each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


class Placed(Protocol):
    """What a layout asks of a clique set, on training data or on new ones."""

    @property
    def labels_per_clique(self) -> int:
        """How many labels meet in a clique."""

    @property
    def group(self) -> str | None:
        """Name of the factors it scores; None for single labels."""

    @property
    def positions(self) -> np.ndarray | None:
        """The positions it scores; None for all."""

    @property
    def tied_everywhere(self) -> bool:
        """Whether the potential is one and the same at all cliques."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The place of a fitted set in new chains or graphs."""

    labels_per_clique: int
    group: str | None
    positions: np.ndarray | None
    tied_everywhere: bool
