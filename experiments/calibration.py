"""Are marginals as sure as they should be? The mode, the Laplace posterior and a temperature on three data sets.

    python -m experiments.calibration [--sets prosody letters proteins] [--page]

Data are those of calibration_data.py. An RBF kernel each; gamma and prior variance are chosen by 3-fold
cross-validation of the likelihood on the training data.

*mode*: marginals of the fitted field. *Laplace sampling*: their mean over 50 fields drawn from the Gaussian at the
mode. *Laplace probit*: their log-odds shrunk by the variances that the same Gaussian gives them.
*temperature*: one temperature for the marginals of the fitted field, of least log-loss on training sequences that
three more fits, to two thirds of them each, have not seen.
Why the Laplace posterior does what it does is looked for on training sequences alone: calibration_causes.py.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from benchmarks.result_files import EXPERIMENTS, merge_results
from experiments.calibration_causes import causes, choices
from experiments.calibration_data import FIELDS, MODELS, RESULTS, TITLES, data
from experiments.calibration_page import page
from kernelfields import ChainCRF
from kernelfields.evaluation import fit_temperature, marginal_log_loss
from kernelfields.evaluation.evaluation import evaluate
from kernelfields.evaluation.resampling import Resampling
from kernelfields.kernels.stationary import RBF
from kernelfields.selection import ChainCRFCV

N_SAMPLES, LANCZOS_STEPS = 50, 60
RESAMPLING = Resampling(1000, 0.95, 0)


def run(name: str) -> list[dict]:
    """Return a row for each model on one data set."""
    X, y, X_test, y_test = data(name)
    settings, gammas, variances = FIELDS[name]
    field = ChainCRF(decode="viterbi", tol=1e-3, max_iter=500, random_state=0, **settings)
    begin = time.perf_counter()
    search = ChainCRFCV(
        field, kernels=[RBF(gamma) for gamma in gammas], prior_variances=variances, extend=False, random_state=0
    )
    fitted = search.fit(X, y).best_estimator_
    chosen = {"gamma": fitted.kernel.gamma, "prior_variance": fitted.prior_variance, "n_train": len(X)}
    seconds = {"mode": lap(begin)}
    marginals = {"mode": fitted.predict_marginals(X_test)}
    begin = time.perf_counter()
    evidence = fitted.laplace(X, y, n_samples=N_SAMPLES, steps=LANCZOS_STEPS, random_state=0)
    drawing = lap(begin)
    for model, kind in (("Laplace sampling", "sampling"), ("Laplace probit", "probit")):
        begin = time.perf_counter()
        marginals[model] = fitted.predict_marginals(X_test, uncertainty=kind)
        seconds[model] = lap(begin) + drawing
    chosen |= {"left_out": share_left_out(fitted, X_test), "rise": fitted.laplace_.rise}
    begin = time.perf_counter()
    temperature = fit_temperature(*held_out_marginals(fitted, X, y), fitted.classes_)
    marginals["temperature"] = temperature(marginals["mode"])
    seconds["temperature"] = lap(begin)
    chosen |= {"temperature": temperature.value, "method": fitted.laplace_.method, "evidence": evidence.value}
    losses = {
        model: marginal_log_loss(y_test, marginals[model], fitted.classes_, per_sequence=True) for model in MODELS
    }
    rows = [
        {
            "set": name,
            "model": model,
            "seconds": seconds[model],
            **chosen,
            **measured(marginals[model], fitted.classes_, y_test, losses[model], losses["mode"]),
        }
        for model in MODELS
    ]
    rows += choices(name, fitted, X, y, LANCZOS_STEPS)
    return rows + causes(fitted, X, y) if name == "letters" else rows


def share_left_out(fitted: ChainCRF, X: list) -> float:
    """Return which share of k(x, x) the basis cannot express, on average over positions."""
    features = fitted.field_.terms[0].features(fitted._read(X))
    return float(1 - np.mean(np.einsum("ij,ij->i", features, features)))  # k(x, x) = 1 for an RBF kernel


def lap(begin: float) -> float:
    return time.perf_counter() - begin


def held_out_marginals(fitted: ChainCRF, X: list, y: list) -> tuple[list, list]:
    """Return labels of training sequences and their marginals by fits that have not seen them.

    Sequences with a label that such a fit does not know are left out.
    """
    labels, marginals = [], []
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        part = clone(fitted).fit([X[i] for i in train], [y[i] for i in train])
        columns = np.searchsorted(fitted.classes_, part.classes_)
        test = [i for i in test if np.isin(y[i], part.classes_).all()]
        for i, rows in zip(test, part.predict_marginals([X[i] for i in test]), strict=True):
            labels.append(y[i])
            marginals.append(np.zeros((len(rows), len(fitted.classes_))))
            marginals[-1][:, columns] = rows
    return labels, marginals


def measured(marginals: list, classes: np.ndarray, y: list, losses: np.ndarray, before: np.ndarray) -> dict:
    """Return accuracy, log-loss and calibration, and the difference of log-losses to the mode, with intervals."""
    labels = [classes[rows.argmax(axis=1)] for rows in marginals]
    found = evaluate(y, labels, marginals=marginals, classes=classes, random_state=0)
    lengths = np.array([len(each) for each in y], dtype=float)
    sums = RESAMPLING.sums({"losses": losses, "before": before, "lengths": lengths})
    loss, reference = (sums[each] / sums["lengths"] for each in ("losses", "before"))
    return {
        "n_test": len(y),
        "n_positions": int(lengths.sum()),
        "accuracy": found.accuracy.to_dict(),
        "log_loss": RESAMPLING.estimate(loss, len(y)).to_dict(),
        "log_loss_difference": RESAMPLING.estimate(loss - reference, len(y)).to_dict(),
        "calibration": found.calibration.to_dict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    for name in [] if arguments.page else arguments.sets:
        rows = run(name)
        merge_results(RESULTS, rows, ("set", "model"), EXPERIMENTS)
        for row in rows:
            accuracy, loss = (
                value["value"] if isinstance(value, dict) else value for value in (row["accuracy"], row["log_loss"])
            )
            print(f"{row['set']}: {row['model']:26s} accuracy {accuracy:.4f}  log-loss {loss:.4f}", flush=True)
    page()


if __name__ == "__main__":
    main()
