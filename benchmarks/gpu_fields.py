"""Single labels, several labels and grids: one GPU beside the threads of its host, whole fits.

    python -m benchmarks.gpu_fields [--device cuda] [--parts classes labels grids]

    classes   KernelClassifier, 5 x 10^6 inputs of width 32 and ten classes of a teacher, RBF, rank 2048, uniform
              pivots, to a relative gap of 1e-3, on the device; and on 1/25 of the inputs, device, threads, and
              scikit-learn's Nystroem (same rank) with LogisticRegression, each with its loss on inputs held out
    labels    MultiLabelCRF on yeast, 100 times over with noise, a tree of 14 labels, RBF, rank 2000
    grids     GraphCRF on four grids of 300 x 300 nodes and five labels, loopy, RBF, rank 2000

Fits of device and host are to the same tolerance; what is printed is seconds, objective and their ratio.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import torch
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from benchmarks.result_files import merge_results
from benchmarks.shared_data import multilabel_set
from kernelfields import GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.basis.selection import Uniform
from kernelfields.engines.torch.engine import Torch
from kernelfields.kernels.stationary import RBF

WIDTH, CLASSES = 32, 10
#: Fixed by hand: this measures speed.
GAMMA, VARIANCE = 0.02, 3.0


def teacher(n_inputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, 32) float32 and classes drawn from a network with one hidden layer."""
    weights, random = np.random.default_rng(0), np.random.default_rng(seed)
    first, second = weights.normal(size=(WIDTH, 64)), weights.normal(size=(64, CLASSES))
    X = random.standard_normal((n_inputs, WIDTH), dtype=np.float32)
    y = np.empty(n_inputs, dtype=np.int64)
    for begin in range(0, n_inputs, 2**18):
        rows = slice(begin, begin + 2**18)
        scores = np.tanh(X[rows] @ (first / np.sqrt(WIDTH)).astype(np.float32)) @ second.astype(np.float32)
        y[rows] = np.argmax(scores + random.gumbel(size=scores.shape), axis=1)
    return X, y


def grids(n_grids: int, side: int = 300, n_labels: int = 5) -> tuple[list, list]:
    """Return grids of noisy patches: inputs (side^2, 16) and edges, labels."""
    random = np.random.default_rng(0)
    nodes = np.arange(side * side).reshape(side, side)
    edges = np.concatenate(
        [
            np.column_stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()]),
            np.column_stack([nodes[:-1].ravel(), nodes[1:].ravel()]),
        ]
    )
    centres = random.normal(size=(n_labels, 16))
    X, y = [], []
    for _ in range(n_grids):
        coarse = random.integers(n_labels, size=(side // 5, side // 5))
        labels = np.kron(coarse, np.ones((5, 5), dtype=np.int64)).ravel()
        labels = np.where(random.random(labels.shape) < 0.5, random.integers(n_labels, size=labels.shape), labels)
        X.append(((centres[labels] + 2.0 * random.normal(size=(side * side, 16))).astype(np.float32), edges))
        y.append(labels)
    return X, y


def fit(estimator: Any, X: Any, y: Any) -> float:
    """Return the seconds of a fit."""
    begin = time.perf_counter()
    estimator.fit(X, y)
    return time.perf_counter() - begin


def row(part: str, engine: str, estimator: Any, seconds: float, **more: Any) -> dict:
    """Print one fit and return what is kept of it."""
    solution = estimator.solution_
    found = {
        "part": part,
        "engine": engine,
        "seconds": seconds,
        "solver_seconds": solution.seconds,
        "passes": solution.passes,
        "value": solution.value,
        "relative_gap": solution.relative_gap,
        **more,
    }
    print({key: round(value, 4) if isinstance(value, float) else value for key, value in found.items()}, flush=True)
    return found


def classes(device: str, n_inputs: int, rank: int) -> list[dict]:
    """Return rows of KernelClassifier, and of scikit-learn on a part."""
    X, y = teacher(n_inputs)
    held_X, held_y = teacher(50_000, seed=1)
    settings = {"prior_variance": VARIANCE, "rank": rank, "basis": Uniform(), "tol": 1e-3, "random_state": 0}
    rows = []
    for name, part, engine in (
        ("classes", slice(None), Torch(device)),
        ("classes, a part", slice(n_inputs // 25), Torch(device)),
        ("classes, a part", slice(n_inputs // 25), "threads"),
    ):
        estimator = KernelClassifier(RBF(GAMMA), engine=engine, max_iter=500, **settings)
        seconds = fit(estimator, X[part], y[part])
        loss = log_loss(held_y, estimator.predict_proba(held_X))
        rows.append(row(name, str(engine), estimator, seconds, inputs=len(y[part]), held_out_loss=loss))
    few = slice(n_inputs // 25)
    peer = make_pipeline(
        Nystroem(gamma=GAMMA, n_components=rank, random_state=0), LogisticRegression(C=VARIANCE, max_iter=100, tol=1e-3)
    )
    seconds = fit(peer, X[few], y[few])
    rows.append(
        {
            "part": "classes, a part",
            "engine": "scikit-learn",
            "seconds": seconds,
            "inputs": len(y[few]),
            "held_out_loss": log_loss(held_y, peer.predict_proba(held_X)),
        }
    )
    print(rows[-1])
    return rows


def both(part: str, make: Any, X: Any, y: Any, device: str) -> list[dict]:
    """Return rows of device and threads, and print their ratio."""
    rows = []
    for engine in (Torch(device), "threads"):
        estimator = make(engine)
        rows.append(row(part, str(engine), estimator, fit(estimator, X, y)))
    print(f"  {part}: threads / device = {rows[1]['seconds'] / rows[0]['seconds']:.2f}", flush=True)
    return rows


def main() -> None:
    """Fit, print, write benchmarks/results/gpu_fields.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parts", nargs="*", default=["classes", "labels", "grids"])
    parser.add_argument("--inputs", type=int, default=5_000_000)
    parser.add_argument("--rank", type=int, default=2048)
    parser.add_argument("--copies", type=int, default=100)
    parser.add_argument("--grids", type=int, default=4)
    parser.add_argument("--side", type=int, default=300)
    arguments = parser.parse_args()
    device, rows = arguments.device, []
    # The first fit of a process starts the device and compiles.
    fit(KernelClassifier(RBF(0.1), rank=16, engine=Torch(device)), *teacher(500))
    if "classes" in arguments.parts:
        rows += classes(device, arguments.inputs, arguments.rank)
    settings = {
        "rank": min(2000, arguments.rank),
        "basis": Uniform(),
        "prior_variance": 1.0,
        "tol": 1e-3,
        "random_state": 0,
    }
    if "labels" in arguments.parts:
        (X, Y), _, _ = multilabel_set("yeast")
        random = np.random.default_rng(0)
        X = np.concatenate([X + 0.01 * random.normal(size=X.shape) for _ in range(arguments.copies)]).astype(np.float32)
        Y = np.concatenate([Y] * arguments.copies)
        rows += both(
            "labels",
            lambda engine: MultiLabelCRF(RBF(1.0), engine=engine, label_graph="tree", **settings),
            X,
            Y,
            device,
        )
    if "grids" in arguments.parts:
        X, y = grids(arguments.grids, arguments.side)
        small = grids(1, 20)
        fit(GraphCRF(RBF(0.05), inference="loopy", rank=16, engine="threads"), *small)
        rows += both(
            "grids", lambda engine: GraphCRF(RBF(0.05), inference="loopy", engine=engine, **settings), X, y, device
        )
    if torch.cuda.is_available():
        merge_results("gpu_fields.json", rows, ("part", "engine"))


if __name__ == "__main__":
    main()
