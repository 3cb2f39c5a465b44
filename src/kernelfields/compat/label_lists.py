"""Answers about sequences: an array of lists, which a list of lists can be compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.data.ragged import array_of_objects


class LabelLists(np.ndarray):
    """An array of one list for each sequence; comparison with lists gives one truth value."""

    @classmethod
    def of(cls, lists: list[list]) -> LabelLists:
        """Return lists as an array."""
        return array_of_objects(lists).view(cls)

    def __eq__(self, other: object) -> Any:
        return self.tolist() == other if isinstance(other, list) else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return self.tolist() != other if isinstance(other, list) else super().__ne__(other)

    __hash__ = None  # arrays have none
