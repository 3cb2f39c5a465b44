"""Chunking with word vectors of a pretrained encoder beside the sparse template (CoNLL-2000).

    python -m experiments.chunking_embeddings [--choose] [--final] [--rank 1000] [--tuned FOLDER]

The field is a sum: weights of the usual template (words and tags at -2..2 and their conjunctions, observed pairs only),
and a linear or RBF kernel on the principal components of a word's vectors, all layers. With --tuned, the folder that
experiments/tuned_encoder.py of commit 48b1fa7 wrote to, the kernel is on outputs of the tuned encoder around a word.
Kernel and prior variances are chosen on training data: fitted on the first 3,000 sentences, compared by the
log-likelihood of the next 1,500. --final fits the template alone and the best sum to all training sentences, and
compares F1 of chunks on the test part, with a paired bootstrap over sentences.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import token_columns
from benchmarks.templates import chunking
from experiments.result_pages import table, write_page
from experiments.word_vectors import Reduction, word_vectors
from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.evaluation import compare, entity_f1_score
from kernelfields.features import FeatureDictEncoder, window_view
from kernelfields.kernels import RBF, Columns, Linear

RESULT = "chunking_embeddings.json"
KEYS = ("part", "field", "components", "gamma", "variance")
N_FIT, N_CHOOSE = 3000, 1500
#: Field, components of the vectors, gamma, prior variance of the kernel; columns have a mean square length of 1.
CANDIDATES = [
    ("template", 0, 0.0, 0.0),
    ("linear", 100, 0.0, 1.0),
    ("RBF", 100, 0.3, 30.0),
    ("RBF", 100, 0.3, 10.0),
    ("RBF", 100, 0.3, 100.0),
    ("RBF", 100, 0.6, 30.0),
    ("linear", 100, 0.0, 0.3),
]
#: The same on outputs of a tuned encoder: of one word, or of three.
TUNED_CANDIDATES = [
    ("tuned, linear", 1, 0.0, 0.3),
    ("tuned, linear", 1, 0.0, 3.0),
    ("tuned, linear", 3, 0.0, 0.3),
    ("tuned, RBF", 1, 0.03, 30.0),
    ("tuned, RBF", 3, 0.03, 30.0),
    ("tuned, RBF", 3, 0.1, 30.0),
    ("tuned, RBF", 3, 0.03, 100.0),
]


def sentences(part: str) -> list[list[str]]:
    """Return the words of the sentences of a part."""
    return [[row[0] for row in rows] for rows in token_columns("conll2000", f"{part}.tsv.gz")]


Describe = Callable[[list[np.ndarray]], np.ndarray]


def components_of(training: list[np.ndarray], n_components: int) -> Describe:
    """Return the function from vectors of words to their principal components, learnt from training words."""
    reduction = Reduction(training, n_components)
    return lambda vectors: np.concatenate([reduction.reduce(each) for each in vectors])


def windows(width: int) -> Describe:
    """Return the function from outputs of a tuned encoder to those of ``width`` words, a column of ones to each."""

    def described(outputs: list[np.ndarray]) -> np.ndarray:
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in outputs])])
        rows = np.concatenate(outputs).astype(np.float32) / 4
        return window_view(np.hstack([rows, np.ones((len(rows), 1), dtype=np.float32)]), offsets, width)

    return described


class Inputs:
    """Dense columns of words, then columns of the template, as CSR."""

    def __init__(self, X: list, vectors: list[np.ndarray], name: str, size: int):
        self._encoder = FeatureDictEncoder().fit(X)
        self._describe = windows(size) if name.startswith("tuned") else components_of(vectors, size) if size else None
        self.n_dense = 0

    def join(self, X: list, vectors: list[np.ndarray]) -> list:
        """Return the inputs of sentences."""
        rows, offsets = self._encoder.transform(X)
        rows = rows.astype(np.float32)
        if self._describe is not None:
            dense = self._describe(vectors)
            self.n_dense = dense.shape[1]
            rows = sp.csr_array(sp.hstack([sp.csr_array(dense), rows], format="csr"))
        return [rows[a:b] for a, b in pairwise(offsets.tolist())]


def field_of(name: str, n_dense: int, gamma: float, variance: float, rank: int) -> ChainCRF:
    """Return the field that a candidate describes."""
    cliques = [
        NodeCliques(Columns(Linear(), n_dense), support="observed", name="template"),
        EdgeCliques(support="observed"),
    ]
    if n_dense:
        kernel = Linear() if name.endswith("linear") else RBF(gamma)
        vectors = Columns(kernel, 0, n_dense)
        cliques.append(NodeCliques(vectors, prior_variance=variance, rank=rank, name="vectors"))
    return ChainCRF(cliques=cliques, tol=1e-3, max_iter=500, random_state=0)


def tuned_outputs(folder: Path, part: str) -> list[np.ndarray]:
    """Return the outputs of a tuned encoder for the words of each sentence."""
    outputs = np.load(folder / f"chunking-{part}.npy", allow_pickle=False)
    return np.split(outputs, np.cumsum([len(words) for words in sentences(part)])[:-1])


def choose(X: list, y: list, vectors: list, rank: int, candidates: list) -> None:
    """Compare candidates on training data; candidates with a result are not fitted again."""
    known = {label for labels in y[:N_FIT] for label in labels}
    held = [i for i in range(N_FIT, N_FIT + N_CHOOSE) if set(y[i]) <= known]
    y_held = [y[i] for i in held]
    done = {tuple(row[key] for key in KEYS) for row in read_results(RESULT, EXPERIMENTS)}
    for name, components, gamma, variance in candidates:
        if ("choice", name, components, gamma, variance) in done:
            continue
        begin = time.perf_counter()
        inputs = Inputs(X[:N_FIT], vectors[:N_FIT], name, components)
        own = inputs.join(X[:N_FIT], vectors[:N_FIT])
        field = field_of(name, inputs.n_dense, gamma, variance, rank).fit(own, y[:N_FIT])
        new = inputs.join([X[i] for i in held], [vectors[i] for i in held])
        row = {
            **described("choice", name, components, gamma, variance, rank, field, begin),
            "log_likelihood": field.log_likelihood(new, y_held) / sum(map(len, y_held)),
            "f1": 100.0 * entity_f1_score(y_held, field.predict(new)),
        }
        keep(row)


def described(
    part: str, name: str, components: int, gamma: float, variance: float, rank: int, field: ChainCRF, begin: float
) -> dict:
    solution = field.solution_
    return {
        **dict(zip(KEYS, (part, name, components, gamma, variance), strict=True)),
        "rank": rank,
        "seconds": time.perf_counter() - begin,
        "solver": solution.solver,
        "relative_gap": solution.relative_gap,
    }


def keep(row: dict) -> None:
    merge_results(RESULT, [row], KEYS, EXPERIMENTS)
    print({key: value for key, value in row.items() if key != "labels"}, flush=True)


def final(X: list, y: list, vectors: list, rank: int, vectors_test: list, candidates: list) -> None:
    """Fit the template alone and the best sum to all training sentences, and compare them on the test part."""
    X_test, y_test = chunking("test")
    names = {name for name, *_ in candidates}
    rows = [row for row in read_results(RESULT, EXPERIMENTS) if row["part"] == "choice" and row["field"] in names]
    best = max(rows, key=lambda row: row["log_likelihood"])
    predictions = []
    for name, components, gamma, variance in (
        ("template", 0, 0.0, 0.0),
        (best["field"], best["components"], best["gamma"], best["variance"]),
    ):
        begin = time.perf_counter()
        inputs = Inputs(X, vectors, name, components)
        own = inputs.join(X, vectors)
        field = field_of(name, inputs.n_dense, gamma, variance, rank).fit(own, y)
        predictions.append([list(labels) for labels in field.predict(inputs.join(X_test, vectors_test))])
        row = described("test", name, components, gamma, variance, rank, field, begin)
        keep({**row, "f1": 100.0 * entity_f1_score(y_test, predictions[-1])})
    difference = compare(y_test, *predictions, scheme="bio", random_state=0)
    print(difference)
    value, low, high = difference.to_dict()["entity_f1"]["difference"].values()
    found = {"f1": 100 * value, "low": 100 * low, "high": 100 * high}
    keep({**dict(zip(KEYS, ("difference", best["field"], best["components"], 0.0, 0.0), strict=True)), **found})


def shown(number: float) -> str:
    return f"{number:g}" if number else ""


def tests() -> str:
    lines = [
        [
            row["field"],
            shown(row["components"]),
            shown(row["variance"]),
            f"{row['f1']:.2f}",
            f"{row['seconds']:.0f}",
            f"{row['relative_gap']:.1e}",
        ]
        for row in read_results(RESULT, EXPERIMENTS)
        if row["part"] == "test"
    ]
    return table(
        ["field", "words seen", "prior variance of the kernel", "F1 of chunks", "seconds", "relative gap"], lines
    )


def difference() -> str:
    row = next(row for row in read_results(RESULT, EXPERIMENTS) if row["part"] == "difference")
    return f"The difference is {row['f1']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}] points, paired over sentences."


def choices() -> str:
    rows = [row for row in read_results(RESULT, EXPERIMENTS) if row["part"] == "choice"]
    lines = [
        [
            row["field"],
            *(shown(row[key]) for key in ("components", "gamma", "variance")),
            f"{row['log_likelihood']:.4f}",
            f"{row['f1']:.2f}",
        ]
        for row in sorted(rows, key=lambda row: -row["log_likelihood"])
    ]
    return table(["field", "words seen", "gamma", "prior variance", "log-likelihood a word", "F1"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--final", action="store_true")
    parser.add_argument("--rank", type=int, default=1000)
    parser.add_argument("--tuned", type=Path)
    arguments = parser.parse_args()
    X, y = chunking("train")

    def vectors_of(part: str) -> list[np.ndarray]:
        return tuned_outputs(arguments.tuned, part) if arguments.tuned else word_vectors(sentences(part))

    vectors = vectors_of("train")
    candidates = TUNED_CANDIDATES if arguments.tuned else CANDIDATES
    if arguments.choose or not arguments.final:
        choose(X, y, vectors, arguments.rank, candidates)
    if arguments.final:
        final(X, y, vectors, arguments.rank, vectors_of("test"), candidates)
    write_page("embeddings")


if __name__ == "__main__":
    main()
