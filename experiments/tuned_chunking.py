"""The recipe of docs/embeddings.md: CoNLL-2000 chunks by a tuned encoder beside features of words and tags.

    python -m experiments.tuned_chunking [--model FOLDER] [--outputs FOLDER] [--sentences 8936]

With --model the encoder is tuned here; with --outputs, the folder that experiments/tuned_encoder.py wrote to on another
machine, its outputs are read. The prior variance and the rules of the scheme are those that raised the log-likelihood of
training sentences 3,001 to 4,500 in fits of the first 3,000 beside all of TextFeatures. Prints F1 of chunks on the test
part.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.shared_data import token_columns
from kernelfields import ChainCRF, EdgeCliques, NodeCliques, TextFeatures
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.features import SequenceUnion, TunedEncoder, window_view
from kernelfields.kernels import Columns
from kernelfields.kernels.dot_product import Linear


class Written(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Outputs that were computed before: those out of fold for training sentences, and those of the test part."""

    def __init__(self, folder: Path):
        self.folder = folder

    def fit_transform(self, X: list, y: object = None) -> list[np.ndarray]:
        return self._read("train", X)

    def transform(self, X: list) -> list[np.ndarray]:
        return self._read("test", X)

    def _read(self, part: str, X: list) -> list[np.ndarray]:
        rows = np.load(self.folder / f"chunking-{part}.npy", allow_pickle=False).astype(np.float32)
        ends = np.cumsum([len(words) for words in X])
        return np.split(rows[: ends[-1]], ends[:-1])


def neighbours(outputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of each word beside those of the words before and after it."""
    return [window_view(rows / 4, np.array([0, len(rows)]), 3) for rows in outputs]


def read(part: str, n_sentences: int | None = None) -> tuple[list, list]:
    """Return words with their tags, and chunk tags."""
    rows = token_columns("conll2000", f"{part}.tsv.gz")[:n_sentences]
    return [[(row[0], row[1]) for row in own] for own in rows], [[row[2] for row in own] for own in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--sentences", type=int)
    arguments = parser.parse_args()
    X, y = read("train", arguments.sentences)
    X_test, y_test = read("test")
    begin = time.perf_counter()
    encoder = Written(arguments.outputs) if arguments.outputs else TunedEncoder(arguments.model, verbose=1)
    words = TextFeatures(prefixes=0, suffixes=0, shapes=False, flags=False, bigrams=True)
    union = SequenceUnion([("tuned", make_pipeline(encoder, FunctionTransformer(neighbours))), ("words", words)])
    n_dense = 3 * len({label for labels in y for label in labels})
    cliques = [
        NodeCliques(Columns(Linear(), 0, n_dense), prior_variance=0.1),
        NodeCliques(Columns(Linear(), n_dense), support="observed", name="words"),
        EdgeCliques(support="observed"),
    ]
    model = make_pipeline(union, ChainCRF(cliques=cliques, constraints="bio", random_state=0)).fit(X, y)
    predicted = [list(labels) for labels in model.predict(X_test)]
    seconds = time.perf_counter() - begin
    print(f"F1 of chunks {100 * entity_f1_score(y_test, predicted):.2f}, {seconds:.0f} s", model[-1].solution_.message)


if __name__ == "__main__":
    main()
