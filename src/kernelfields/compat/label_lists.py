"""Arrays of one list for each sequence, which can be compared with a list of lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.data.ragged import array_of_objects


class LabelLists(np.ndarray):
    """An array of one list for each sequence, whose comparison with lists has a single truth value."""

    @classmethod
    def from_lists(cls, lists: list[list]) -> LabelLists:
        """Convert lists to an array."""
        return array_of_objects(lists).view(cls)

    def __eq__(self, other: object) -> Any:
        return self.tolist() == other if isinstance(other, list) else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return self.tolist() != other if isinstance(other, list) else super().__ne__(other)

    __hash__ = None  # arrays have none
