"""KernelClassifier at rank 500 against scikit-learn's GaussianProcessClassifier: seconds and held-out log-loss.

    python -m benchmarks.gaussian_process_speed [--sizes 1000 2000 4000] [--large 100000]

Two classes, ten features (make_classification), an RBF kernel with fixed parameters and the same prior for both.
Seconds hold the mode, the Laplace approximation and the evidence, which scikit-learn's ``fit`` computes as well;
ours also draw 50 coefficients and keep a root of the covariance. Log-loss is on 2,000 other samples: of
probabilities that know the variance of the log-odds, ours by the probit correction and theirs by their integral of
the logistic function, and of ours at the mode. Predictions are not timed. Both run with all cores, one after the
other. The large problem is fitted by KernelClassifier alone.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as TheirRBF
from sklearn.gaussian_process.kernels import ConstantKernel
from sklearn.metrics import log_loss

from benchmarks.result_files import merge_results
from kernelfields import KernelClassifier
from kernelfields.kernels import RBF

RESULTS = "gaussian_process_speed.json"
RANK, LENGTH, VARIANCE, N_TEST = 500, 4.0, 10.0, 2_000


def problem(n_samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test samples of two overlapping classes."""
    X, y = make_classification(
        n_samples + N_TEST, 10, n_informative=8, n_redundant=0, class_sep=0.8, flip_y=0.05, random_state=0
    )
    X = (X - X[:n_samples].mean(axis=0)) / X[:n_samples].std(axis=0)
    return X[:n_samples], y[:n_samples], X[n_samples:], y[n_samples:]


def ours(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> dict:
    """Return seconds, evidence and log-losses of a KernelClassifier."""
    # The log-odds have twice the prior variance of a class.
    field = KernelClassifier(RBF(0.5 / LENGTH**2), rank=RANK, prior_variance=0.5 * VARIANCE, bias=False, random_state=0)
    begin = time.perf_counter()
    field.fit(X, y)
    fitted = time.perf_counter()
    evidence = field.laplace(X, y, random_state=0)
    approximated = time.perf_counter()
    return {
        "fit_seconds": fitted - begin,
        "laplace_seconds": approximated - fitted,
        "seconds": approximated - begin,
        "evidence": evidence.value,
        "log_loss": log_loss(y_test, field.predict_proba(X_test, uncertainty=True)),
        "mode_log_loss": log_loss(y_test, field.predict_proba(X_test)),
    }


def theirs(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> dict:
    """Return seconds, evidence and log-loss of a GaussianProcessClassifier."""
    classifier = GaussianProcessClassifier(ConstantKernel(VARIANCE) * TheirRBF(LENGTH), optimizer=None)
    begin = time.perf_counter()
    classifier.fit(X, y)
    return {
        "seconds": time.perf_counter() - begin,
        "evidence": classifier.log_marginal_likelihood_value_,
        "log_loss": log_loss(y_test, classifier.predict_proba(X_test)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000, 2_000, 4_000])
    parser.add_argument("--large", type=int, default=100_000, help="0 for none")
    arguments = parser.parse_args()
    ours(*problem(1_000))  # what is loaded and compiled once is not counted
    for size in arguments.sizes:
        data = problem(size)
        row = {"n_samples": size, "rank": RANK, "ours": ours(*data), "theirs": theirs(*data)}
        row["times_faster"] = row["theirs"]["seconds"] / row["ours"]["seconds"]
        row["log_loss_ratio"] = row["ours"]["log_loss"] / row["theirs"]["log_loss"]
        merge_results(RESULTS, [row], ("n_samples",))
        print(
            f"{size:7,} samples: {row['ours']['seconds']:6.2f} s against {row['theirs']['seconds']:6.2f} s, "
            f"{row['times_faster']:.1f} times faster; log-loss {row['ours']['log_loss']:.4f} against "
            f"{row['theirs']['log_loss']:.4f}, at the mode {row['ours']['mode_log_loss']:.4f}",
            flush=True,
        )
    if arguments.large:
        row = {"n_samples": arguments.large, "rank": RANK, "ours": ours(*problem(arguments.large)), "theirs": None}
        merge_results(RESULTS, [row], ("n_samples",))
        print(
            f"{arguments.large:7,} samples: fit {row['ours']['fit_seconds']:.1f} s, Laplace approximation "
            f"{row['ours']['laplace_seconds']:.1f} s; log-loss {row['ours']['log_loss']:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
