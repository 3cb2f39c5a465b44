"""Passes and seconds of the five solvers to a relative gap, on problems from tiny to large.

    python -m benchmarks.solvers [--tol 1e-3 1e-6] [--json FILE]

This is the evidence behind solver="auto" (kernelfields/solvers/choice.py). Dense solvers are skipped where a
single direction would take minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from benchmarks.result_files import write_results
from benchmarks.shared_data import DataMissing, data_file, gpstruct_task, ocr_letters
from kernelfields import ChainCRF
from kernelfields.kernels.dot_product import Polynomial
from kernelfields.kernels.stationary import RBF
from kernelfields.solvers.choice import SOLVERS

DENSE_LIMIT = 400


def synthetic(n_sequences: int, n_labels: int, seed: int = 0) -> tuple[list, list]:
    """Return chains whose labels stick and whose inputs are noisy non-linear images of the labels."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n_labels, 4))
    X, y = [], []
    for _ in range(n_sequences):
        length = random.integers(3, 15)
        labels = np.empty(length, dtype=int)
        labels[0] = random.integers(n_labels)
        for t in range(1, length):
            labels[t] = labels[t - 1] if random.random() < 0.6 else random.integers(n_labels)
        X.append(np.tanh(centres[labels] + random.normal(size=(length, 4))))
        y.append(labels)
    return X, y


def gesture_phases() -> tuple[list, list]:
    """Return the seven recordings of gesture phases, standardised: dense, correlated, few and long."""
    with np.load(data_file("gesture-phase", "gesture_phase.npz"), allow_pickle=False) as archive:
        inputs = np.hstack([archive["position"], archive["velocity"]]).astype(np.float64)
        labels, cuts = archive["label"].astype(int), archive["offsets"][1:-1]
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    return np.split(inputs, cuts), np.split(labels, cuts)


def problems() -> dict[str, tuple[ChainCRF, list, list]]:
    """Return named problems: an estimator without a solver, and data."""
    found = {
        "synthetic L=2 rank 50": (ChainCRF(RBF(0.5), rank=50, prior_variance=10.0), *synthetic(50, 2)),
        "synthetic L=4 rank 100": (ChainCRF(RBF(0.5), rank=100, prior_variance=10.0), *synthetic(100, 4)),
        "synthetic L=4 rank 400": (ChainCRF(RBF(0.5), rank=400, prior_variance=10.0), *synthetic(400, 4)),
    }
    try:
        X, y, split = gpstruct_task("basenp")
        train = split[0][:150]
        data = ([X[i] for i in train], [y[i] for i in train])
        found["base NP linear"] = (ChainCRF("linear", prior_variance=1.0), *data)
        found["gesture linear"] = (ChainCRF("linear", prior_variance=1.0), *gesture_phases())
        X, y, fold = ocr_letters()
        words = np.flatnonzero(fold == 1)
        data = ([X[i] for i in words], [y[i] for i in words])
        cubic = Polynomial(3, gamma=0.05)
        found["OCR cubic rank 2000"] = (ChainCRF(cubic, rank=2000, prior_variance=3.0), *data)
        found["OCR RBF rank 2000"] = (ChainCRF(RBF(0.06), rank=2000, prior_variance=30.0), *data)
    except DataMissing as missing:
        print(f"skipped: {missing}")
    return found


def measure(estimator: ChainCRF, X: list, y: list, solver: str, tol: float) -> dict:
    """Fit with one solver; return what it took."""
    estimator.set_params(solver=solver, tol=tol, max_iter=2000, random_state=0)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, y)
    solution = estimator.solution_
    return {
        "solver": solver,
        "chosen": solution.solver,
        "tol": tol,
        "size": int(solution.theta.size),
        "iterations": solution.iterations,
        "passes": round(solution.passes, 1),
        "solver_seconds": round(solution.seconds, 3),
        "fit_seconds": round(time.perf_counter() - begin, 3),
        "value": solution.value,
        "relative_gap": solution.relative_gap,
        "reason": solution.reason,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-6])
    parser.add_argument("--json", default="solvers.json")
    arguments = parser.parse_args()
    warm_up = synthetic(5, 2)
    for solver in SOLVERS:
        ChainCRF("linear", solver=solver).fit(*warm_up)
    rows = []
    columns = f"{'problem':24s} {'tol':>6s} {'solver':13s} {'size':>7s} {'passes':>8s} {'seconds':>8s}"
    print(f"{columns} {'gap':>9s}  reason")
    for name, (estimator, X, y) in problems().items():
        for tol in arguments.tol:
            size = None
            for solver in ("lbfgs", "newton-cg", "subspace", "newton", "block-jacobi", "auto"):
                if solver in ("newton", "block-jacobi") and size > DENSE_LIMIT:
                    continue
                row = {"problem": name, **measure(estimator, X, y, solver, tol)}
                size = row["size"]
                rows.append(row)
                print(
                    f"{name:24s} {tol:6.0e} {solver:13s} {row['size']:7d} {row['passes']:8.1f} "
                    f"{row['solver_seconds']:8.3f} {row['relative_gap']:9.1e}  {row['reason']}"
                    + (f" ({row['chosen']})" if solver == "auto" else ""),
                    flush=True,
                )
    write_results(arguments.json, rows)


if __name__ == "__main__":
    main()
