"""Classes: one label for each sequence as a whole, which the states of a chain stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kernelfields.data.given_labels import given_labels
from kernelfields.data.readers import InputReader, read_labels
from kernelfields.data.reading import SAMPLES


@dataclass(frozen=True)
class ClassStructure:
    """One class for each sequence: what folds, workers and searches ask of labels; the chain has the rest."""

    #: The class of the readers of items.
    reads: ClassVar[type[InputReader]] = InputReader

    def training_labels(self, y: Any) -> Any:
        """Return the classes of training data as the fit takes them."""
        return y

    def item_labels(self, training: Any, y: Any) -> list[np.ndarray]:
        """Return an array of one number for each sequence, that of its class; an empty one if it is not known."""
        numbers, weights, _ = read_labels(list(y), None, None, SAMPLES)
        known = given_labels(numbers, weights).certain()
        return [np.array([number])[: int(sure)] for number, sure in zip(numbers, known, strict=True)]
