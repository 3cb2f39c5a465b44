"""Whole fits on one GPU: a million positions, OCR letters at high rank, and other fields beside the host's threads.

    python -m benchmarks.gpu_fit [--device cuda] [--ranks 8192 1024 20000] [--sequences 50000] [--letters]
    python -m benchmarks.gpu_fit --fields classes labels grids [--inputs 5000000] [--copies 100] [--grids 4]

Synthetic chains: sequences of 20 positions, 128 binary features, 26 labels of a teacher (linear and pairwise functions
of the features, and transitions), cubic kernel, pivots drawn uniformly, to a relative gap of 1e-3. Each row is one fit,
from arrays on the host to the fitted model. --letters fits OCR letters (nine folds, cubic kernel) at rank 8000 and
prints the error on the tenth. Threads take minutes for these: --threads fits as many positions as it says by both, and
prints the ratio. --fields are other estimators on the device and on the threads of its host, to the same tolerance:

    classes   KernelClassifier, inputs of width 32 and ten classes of a teacher, RBF, rank 2048, on the device; and on
              1/25 of the inputs device, threads, and scikit-learn's Nystroem (same rank) with LogisticRegression, each
              with its loss on inputs held out
    labels    MultiLabelCRF on yeast, so many times over with noise, a tree of 14 labels, RBF, rank 2000
    grids     GraphCRF on grids of 300 x 300 nodes and five labels, loopy, RBF, rank 2000
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benchmarks.measuring import seconds
from benchmarks.result_files import merge_results
from benchmarks.shared_data import multilabel_set, ocr_letters
from kernelfields import ChainCRF, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.data import grid_edges
from kernelfields.engines import Torch
from kernelfields.kernels import RBF, Polynomial

N_FEATURES, N_LABELS, LENGTH = 128, 26, 20
#: Fixed by hand: this measures speed. Letters: as in benchmarks/fit_speed.py.
KERNEL, VARIANCE = Polynomial(3, gamma=1.0 / N_FEATURES), 1.0
LETTERS = Polynomial(3, gamma=0.06), 3.0
SETTINGS = {"basis": "uniform", "tol": 1e-3, "max_iter": 500, "random_state": 0}
WIDTH, CLASSES = 32, 10


def chains(n_sequences: int) -> tuple[list, list]:
    """Return features (20, 128) float32 and labels (20,) of sequences of a teacher."""
    random = np.random.default_rng(0)
    X = (random.random((n_sequences, LENGTH, N_FEATURES), dtype=np.float32) < 0.2).astype(np.float32)
    linear = random.normal(size=(N_FEATURES, N_LABELS)).astype(np.float32)
    left, right = (random.normal(size=(N_FEATURES, 64)).astype(np.float32) for _ in range(2))
    mixed = random.normal(size=(64, N_LABELS)).astype(np.float32)
    steps = random.normal(size=(N_LABELS, N_LABELS))
    y = np.empty((n_sequences, LENGTH), dtype=np.int64)
    before = np.zeros((n_sequences, N_LABELS))
    for t in range(LENGTH):
        pairs = (X[:, t] @ left) * (X[:, t] @ right)
        scores = 0.5 * (X[:, t] @ linear) + 0.02 * (pairs @ mixed) + before
        y[:, t] = np.argmax(scores + random.gumbel(size=scores.shape), axis=1)
        before = steps[y[:, t]]
    return list(X), list(y)


def inputs(n_inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, 32) float32 and classes drawn from a network with one hidden layer."""
    weights, random = np.random.default_rng(0), np.random.default_rng(seed)
    first, second = weights.normal(size=(WIDTH, 64)) / np.sqrt(WIDTH), weights.normal(size=(64, CLASSES))
    X = random.standard_normal((n_inputs, WIDTH), dtype=np.float32)
    y = np.empty(n_inputs, dtype=np.int64)
    for begin in range(0, n_inputs, 2**18):
        rows = slice(begin, begin + 2**18)
        scores = np.tanh(X[rows] @ first.astype(np.float32)) @ second.astype(np.float32)
        y[rows] = np.argmax(scores + random.gumbel(size=scores.shape), axis=1)
    return X, y


def noisy_grids(n_grids: int, side: int = 300, n_labels: int = 5) -> tuple[list, list]:
    """Return grids of noisy patches: inputs (side^2, 16) and edges, labels."""
    random, edges = np.random.default_rng(0), grid_edges(side, side)
    centres = random.normal(size=(n_labels, 16))
    X, y = [], []
    for _ in range(n_grids):
        coarse = random.integers(n_labels, size=(side // 5, side // 5))
        labels = np.kron(coarse, np.ones((5, 5), dtype=np.int64)).ravel()
        labels = np.where(random.random(labels.shape) < 0.5, random.integers(n_labels, size=labels.shape), labels)
        X.append(((centres[labels] + 2.0 * random.normal(size=(side * side, 16))).astype(np.float32), edges))
        y.append(labels)
    return X, y


def fitted(estimator: Any, X: Any, y: Any, **notes: Any) -> dict:
    """Fit, print and return what it took."""
    spent = seconds(lambda: estimator.fit(X, y))
    solution = estimator.solution_
    figures = {"seconds": spent, "solver_seconds": solution.seconds, "passes": solution.passes}
    row = {**notes, **figures, "value": solution.value, "relative_gap": solution.relative_gap}
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    return row


def chain_row(name: str, X: list, y: list, field: tuple, rank: int, engine: Any) -> tuple[ChainCRF, dict]:
    """Fit a chain and return it with its row."""
    kernel, variance = field
    crf = ChainCRF(kernel, prior_variance=variance, rank=rank, engine=engine, **SETTINGS)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() and engine != "threads" else str(engine)
    notes = {"data": name, "device": where, "torch": torch.__version__, "n_positions": sum(map(len, y)), "rank": rank}
    row = fitted(crf, X, y, **notes)
    return crf, {**row, "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None}


def letter_row(rank: int, engine: Any) -> dict:
    """Fit OCR letters and measure the error on the fold left out."""
    words, letters, fold = ocr_letters()
    train, test = (
        [[part[i] for i in np.flatnonzero(own)] for part in (words, letters)] for own in (fold != 0, fold == 0)
    )
    crf, row = chain_row("OCR letters, large", *train, LETTERS, rank, engine)
    row["predict_seconds"] = seconds(lambda: crf.predict(test[0]))
    row["test_error"] = 1.0 - crf.score(*test)
    print(f"  test error {row['test_error']:.2%}, predicted in {row['predict_seconds']:.2f} s")
    return row


def class_rows(engine: Any, n_inputs: int, rank: int) -> list[dict]:
    """Return rows of KernelClassifier, and of scikit-learn on a part."""
    (X, y), (held_X, held_y) = inputs(n_inputs), inputs(50_000, seed=1)
    few, rows = slice(n_inputs // 25), []
    for name, part, where in (
        ("classes", slice(None), engine),
        ("classes, a part", few, engine),
        ("classes, a part", few, "threads"),
    ):
        estimator = KernelClassifier(RBF(0.02), prior_variance=3.0, rank=rank, engine=where, **SETTINGS)
        row = fitted(estimator, X[part], y[part], part=name, engine=str(where), inputs=len(y[part]))
        rows.append({**row, "held_out_loss": log_loss(held_y, estimator.predict_proba(held_X))})
    nystroem = Nystroem(gamma=0.02, n_components=rank, random_state=0)
    peer = make_pipeline(nystroem, LogisticRegression(C=3.0, max_iter=100, tol=1e-3))
    spent = seconds(lambda: peer.fit(X[few], y[few]))
    loss = log_loss(held_y, peer.predict_proba(held_X))
    row = {"part": "classes, a part", "engine": "scikit-learn", "seconds": spent, "inputs": len(y[few])}
    device, threads = (each["seconds"] for each in rows[1:])
    print(f"  scikit-learn / device = {spent / device:.2f}, threads / device = {threads / device:.2f}", flush=True)
    return [*rows, {**row, "held_out_loss": loss}]


def both(part: str, make: Any, X: Any, y: Any, engine: Any) -> list[dict]:
    """Return rows of device and threads, and print their ratio."""
    rows = [fitted(make(where), X, y, part=part, engine=str(where)) for where in (engine, "threads")]
    print(f"  {part}: threads / device = {rows[1]['seconds'] / rows[0]['seconds']:.2f}", flush=True)
    return rows


def field_rows(asked: argparse.Namespace, engine: Any) -> list[dict]:
    """Return the rows of other estimators on device and threads."""
    rows, settings = [], {**SETTINGS, "rank": 2000, "prior_variance": 1.0}
    if "classes" in asked.fields:
        rows += class_rows(engine, asked.inputs, 2048)
    if "labels" in asked.fields:
        (X, Y), _, _ = multilabel_set("yeast")
        random = np.random.default_rng(0)
        noisy = [X + 0.01 * random.normal(size=X.shape) for _ in range(asked.copies)]
        X, Y = np.concatenate(noisy).astype(np.float32), np.concatenate([Y] * asked.copies)
        rows += both(
            "labels", lambda where: MultiLabelCRF(RBF(1.0), engine=where, label_graph="tree", **settings), X, Y, engine
        )
    if "grids" in asked.fields:
        GraphCRF(RBF(0.05), inference="loopy", rank=16).fit(*noisy_grids(1, 20))  # compiles
        rows += both(
            "grids",
            lambda where: GraphCRF(RBF(0.05), inference="loopy", engine=where, **settings),
            *noisy_grids(asked.grids),
            engine,
        )
    return rows


def main() -> None:
    """Fit, print, write benchmarks/results/gpu_fit.json and gpu_fields.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--ranks", nargs="*", type=int, default=[8192, 1024, 20000])
    parser.add_argument("--sequences", type=int, default=50_000)
    parser.add_argument("--letters", action="store_true")
    parser.add_argument("--letters-rank", type=int, default=8000)
    parser.add_argument("--threads", type=int, metavar="POSITIONS", help="fit so many by threads as well, at rank 1024")
    parser.add_argument("--fields", nargs="*", choices=["classes", "labels", "grids"], default=[])
    parser.add_argument("--inputs", type=int, default=5_000_000)
    parser.add_argument("--copies", type=int, default=100)
    parser.add_argument("--grids", type=int, default=4)
    asked = parser.parse_args()
    engine, small = Torch(asked.device), chains(50)
    first = seconds(lambda: ChainCRF(KERNEL, rank=64, engine=engine, **SETTINGS).fit(*small))
    print(f"first fit, 1,000 positions, with the start of device and compiler: {first:.1f} s")
    if asked.fields:
        merge_results("gpu_fields.json", field_rows(asked, engine), ("part", "engine"))
        return
    X, y = chains(asked.sequences) if asked.ranks else small
    rows = [chain_row("synthetic", X, y, (KERNEL, VARIANCE), rank, engine)[1] for rank in asked.ranks]
    if asked.letters:
        rows.append(letter_row(asked.letters_rank, engine))
    if asked.threads:
        part = slice(asked.threads // LENGTH)
        pair = [
            chain_row("a part", X[part], y[part], (KERNEL, VARIANCE), 1024, each)[1] for each in (engine, "threads")
        ]
        print(f"  threads / device = {pair[1]['seconds'] / pair[0]['seconds']:.2f}", flush=True)
    merge_results("gpu_fit.json", rows, ("data", "device", "n_positions", "rank"))


if __name__ == "__main__":
    main()
