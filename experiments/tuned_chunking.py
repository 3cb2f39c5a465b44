"""The recipe of docs/embeddings.md: CoNLL-2000 chunks by a tuned encoder beside features of words and tags.

    python -m experiments.tuned_chunking (--model FOLDER | --outputs FOLDER [--choose])

With --model the encoder is tuned here; with --outputs, the folder that experiments/tuned_encoder.py wrote to on another
machine, its outputs are read. Prints F1 of chunks on the test part. --choose compares prior variances and the rules of
the scheme on training data instead: fits to the first 3,000 sentences, by the log-likelihood of the next 1,500.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.shared_data import token_columns
from kernelfields import ChainCRF, EdgeCliques, NodeCliques, TextFeatures
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.features import SequenceUnion, TunedEncoder, window_view
from kernelfields.kernels import Columns
from kernelfields.kernels.dot_product import Linear

N_FIT, N_CHOOSE = 3000, 1500
CANDIDATES = [(0.3, None), (0.3, "bio"), (0.1, "bio"), (0.03, "bio")]


class Written(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Outputs that were computed before: those out of fold for training sentences, then others of ``part``."""

    def __init__(self, folder: Path, part: str = "test"):
        self.folder = folder
        self.part = part

    def fit_transform(self, X: list, y: object = None) -> list[np.ndarray]:
        self.begin_ = sum(map(len, X)) if self.part == "train" else 0
        return self._read("train", X, 0)

    def transform(self, X: list) -> list[np.ndarray]:
        return self._read(self.part, X, self.begin_)

    def _read(self, part: str, X: list, begin: int) -> list[np.ndarray]:
        rows = np.load(self.folder / f"chunking-{part}.npy", allow_pickle=False).astype(np.float32)
        ends = np.cumsum([len(words) for words in X])
        return np.split(rows[begin : begin + ends[-1]], ends[:-1])


def neighbours(outputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of each word beside those of the words before and after it."""
    return [window_view(rows / 4, np.array([0, len(rows)]), 3) for rows in outputs]


def read(part: str) -> tuple[list, list]:
    """Return words with their tags, and chunk tags."""
    rows = token_columns("conll2000", f"{part}.tsv.gz")
    return [[(row[0], row[1]) for row in own] for own in rows], [[row[2] for row in own] for own in rows]


def model_of(encoder: BaseEstimator, n_labels: int, variance: float, constraints: str | None) -> Pipeline:
    """Return the pipeline from words and tags to chunk tags."""
    words = TextFeatures(prefixes=0, suffixes=0, shapes=False, flags=False, bigrams=True)
    union = SequenceUnion([("tuned", make_pipeline(encoder, FunctionTransformer(neighbours))), ("words", words)])
    cliques = [
        NodeCliques(Columns(Linear(), 0, 3 * n_labels), prior_variance=variance),
        NodeCliques(Columns(Linear(), 3 * n_labels), support="observed", name="words"),
        EdgeCliques(support="observed"),
    ]
    return make_pipeline(union, ChainCRF(cliques=cliques, constraints=constraints, random_state=0))


def choose(folder: Path, X: list, y: list, n_labels: int) -> None:
    known = {label for labels in y[:N_FIT] for label in labels}
    for variance, constraints in CANDIDATES:
        model = model_of(Written(folder, "train"), n_labels, variance, constraints).fit(X[:N_FIT], y[:N_FIT])
        held = slice(N_FIT, N_FIT + N_CHOOSE)
        inputs, labels = model[:-1].transform(X[held]), y[held]
        kept = [i for i, own in enumerate(labels) if set(own) <= known]
        inputs, labels = [inputs[i] for i in kept], [labels[i] for i in kept]
        value = model[-1].log_likelihood(inputs, labels) / sum(map(len, labels))
        f1 = 100 * entity_f1_score(labels, [list(own) for own in model[-1].predict(inputs)])
        print(f"variance {variance}, constraints {constraints}: log-likelihood {value:.4f}, F1 {f1:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--choose", action="store_true")
    arguments = parser.parse_args()
    X, y = read("train")
    n_labels = len({label for labels in y for label in labels})
    if arguments.choose:
        choose(arguments.outputs, X, y, n_labels)
        return
    X_test, y_test = read("test")
    begin = time.perf_counter()
    encoder = Written(arguments.outputs) if arguments.outputs else TunedEncoder(arguments.model, verbose=1)
    model = model_of(encoder, n_labels, 0.1, "bio").fit(X, y)
    predicted = [list(labels) for labels in model.predict(X_test)]
    seconds = time.perf_counter() - begin
    print(f"F1 of chunks {100 * entity_f1_score(y_test, predicted):.2f}, {seconds:.0f} s", model[-1].solution_.message)


if __name__ == "__main__":
    main()
