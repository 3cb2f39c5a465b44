"""Does a kernel beside the sparse features help chunking? Linear alone against sums with a low-rank kernel.

    python -m experiments.chunking_kernels [--rank 500] [--final]

The sparse part is the template of templates.py with observed support. The kernel sees the single words and tags
at -2..2 only (the first columns), of which it learns conjunctions that the template may lack. Prior variances and
kernels are chosen on training data: fitted on the first 3,000 sentences, compared by the log-likelihood of the
next 1,500. --final then fits the linear field and the best sum on all training sentences and compares entity F1 on
the test set, with a paired bootstrap over sentences.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import numpy as np
import scipy.sparse

from benchmarks.result_files import EXPERIMENTS, write_results
from benchmarks.shared_data import DataMissing
from benchmarks.templates import chunking
from kernelfields import ChainCRF
from kernelfields.evaluation.comparison import compare
from kernelfields.evaluation.entities import entity_f1_score
from kernelfields.features.dicts import FeatureDictEncoder
from kernelfields.kernels import Columns
from kernelfields.kernels.dot_product import Linear, Polynomial
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.stationary import RBF

N_FIT, N_CHOOSE = 3000, 1500
LINEAR_VARIANCES = [0.25, 0.5, 1.0, 2.0]
KERNELS: dict[str, Kernel] = {
    "quadratic": Polynomial(2, gamma=0.1, coef0=1.0),
    "cubic": Polynomial(3, gamma=0.1, coef0=1.0),
    "RBF": RBF(0.1),
}
KERNEL_VARIANCES = [0.01, 0.1, 1.0]


def split_features(X: list) -> tuple[list, list]:
    """Separate single words and tags (no "|" in the name's head) from conjunctions and flags."""
    singles = [[[f for f in position if "|" not in f.split("=")[0] and "=" in f] for position in x] for x in X]
    others = [[[f for f in position if "|" in f.split("=")[0] or "=" not in f] for position in x] for x in X]
    return singles, others


class Inputs:
    """Sentences as CSR, single words and tags first."""

    def __init__(self, X: list):
        self._encoders = (FeatureDictEncoder(), FeatureDictEncoder())
        parts = [encoder.fit_transform(part) for encoder, part in zip(self._encoders, split_features(X), strict=True)]
        self.n_singles = parts[0][0].shape[1]
        self.sequences = _cut(parts)

    def transform(self, X: list) -> list:
        """Return other sentences in the same columns."""
        return _cut([encoder.transform(part) for encoder, part in zip(self._encoders, split_features(X), strict=True)])


def _cut(parts: list) -> list:
    rows = scipy.sparse.csr_array(scipy.sparse.hstack([inputs for inputs, _ in parts], format="csr"))
    offsets = parts[0][1]
    return [rows[a:b] for a, b in pairwise(offsets)]


def fit(X: list, y: list, kernel: Kernel, variance: object, rank: int) -> tuple[ChainCRF, float]:
    """Fit a field to a gap of 1e-3; return it and the seconds it took."""
    begin = time.perf_counter()
    field = ChainCRF(
        kernel, support="observed", prior_variance=variance, rank=rank, tol=1e-3, max_iter=500, random_state=0
    ).fit(X, y)
    return field, time.perf_counter() - begin


def choose(X: list, y: list, rank: int) -> list[dict]:
    """Compare fields on training data; return rows with the held-out log-likelihood per token."""
    inputs = Inputs(X[:N_FIT])
    known = {label for labels in y[:N_FIT] for label in labels}
    kept = [i for i in range(N_FIT, N_FIT + N_CHOOSE) if set(y[i]) <= known]
    held, y_held = inputs.transform([X[i] for i in kept]), [y[i] for i in kept]
    tokens = sum(map(len, y_held))
    fields = [("linear", Linear(), variance) for variance in LINEAR_VARIANCES]
    rows: list[dict] = []

    def measure(name: str, kernel: Kernel, variance: object) -> None:
        field, seconds = fit(inputs.sequences, y[:N_FIT], kernel, variance, rank)
        row = {
            "field": name,
            "variance": variance,
            "log_likelihood": field.log_likelihood(held, y_held) / tokens,
            "f1": 100.0 * entity_f1_score(y_held, field.predict(held)),
            "seconds": seconds,
        }
        rows.append(row)
        print(
            f"  {name:20s} {variance!s:14s} log-likelihood {row['log_likelihood']:.5f} a token, "
            f"F1 {row['f1']:.2f}, {seconds:.1f} s",
            flush=True,
        )

    for name, kernel, variance in fields:
        measure(name, kernel, variance)
    best = max(rows, key=lambda row: row["log_likelihood"])["variance"]
    for name, kernel in KERNELS.items():
        for variance in KERNEL_VARIANCES:
            measure(f"linear + {name}", Linear() + Columns(kernel, 0, inputs.n_singles), (best, variance))
    return rows


def final(X: list, y: list, rows: list[dict], rank: int) -> dict:
    """Fit the best linear field and the best sum on all training sentences; compare on the test set."""
    X_test, y_test = chunking("test")
    inputs = Inputs(X)
    test = inputs.transform(X_test)
    result: dict = {}
    predictions = {}
    for kind in ("linear", "sum"):
        best = max(
            (row for row in rows if (row["field"] == "linear") == (kind == "linear")),
            key=lambda row: row["log_likelihood"],
        )
        kernel: Kernel = Linear()
        if kind == "sum":
            kernel = kernel + Columns(KERNELS[best["field"].removeprefix("linear + ")], 0, inputs.n_singles)
        field, seconds = fit(inputs.sequences, y, kernel, best["variance"], rank)
        predictions[kind] = field.predict(test)
        f1 = 100.0 * entity_f1_score(y_test, predictions[kind])
        result[kind] = {"field": best["field"], "variance": best["variance"], "f1": f1, "seconds": seconds}
        print(f"  test: {best['field']}, variance {best['variance']}: F1 {f1:.2f}, {seconds:.1f} s", flush=True)
    difference = compare(y_test, predictions["linear"], predictions["sum"], scheme="bio", random_state=0)
    print(difference)
    assert difference.entity_f1 is not None
    estimate = difference.entity_f1.difference
    result["difference"] = {"f1": 100 * estimate.value, "low": 100 * estimate.low, "high": 100 * estimate.high}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--final", action="store_true")
    arguments = parser.parse_args()
    np.set_printoptions(legacy="1.25")
    try:
        X, y = chunking("train")
        rows = choose(X, y, arguments.rank)
        document = {"rank": arguments.rank, "choice": rows}
        if arguments.final:
            document["test"] = final(X, y, rows, arguments.rank)
    except DataMissing as missing:
        print(f"skipped: {missing}")
        return
    write_results("chunking_kernels.json", [document], EXPERIMENTS)


if __name__ == "__main__":
    main()
