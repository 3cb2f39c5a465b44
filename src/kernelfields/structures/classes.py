"""Classes: one label for each whole sequence, represented by the states of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelfields.data.given_labels import given_labels
from kernelfields.data.readers import InputReader, read_labels
from kernelfields.data.reading import SAMPLES


@dataclass(frozen=True)
class ClassStructure:
    """One class for each sequence, for folds, workers and searches; the chain does everything else."""

    #: The class of the readers of items.
    reads: ClassVar[type[InputReader]] = InputReader

    def check(self) -> None:
        """Accept every combination of parameters."""

    def training_labels(self, y: Any) -> Any:
        """Return the classes of training data unchanged."""
        return y

    def item_labels(self, training: Any, y: Any) -> list[np.ndarray]:
        """Return an array with the class number of each sequence; empty for unknown classes."""
        numbers, weights, _ = read_labels(list(y), None, None, SAMPLES)
        known = given_labels(numbers, weights).certain()
        return [np.array([number])[: int(sure)] for number, sure in zip(numbers, known, strict=True)]
