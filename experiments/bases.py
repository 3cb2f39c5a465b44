"""Bases: greedy, randomly pivoted, uniform and gradient pivots at equal rank: objective, error, seconds.

    python -m experiments.bases [--sets "OCR letters" proteins] [--parts choose fit all]
        [--ranks 100 200 500 1000] [--seeds 3] [--page]

*choose*: scale of the RBF kernel and prior variance by 3-fold cross-validation inside the training data, at one
rank and with randomly pivoted columns. *fit*: every basis at every rank with those, three seeds where it draws.
*all*: one field on all training inputs, whose objective no basis can undercut.

Fields are solved to a relative gap of 1e-4 within their span. The gradient basis solves every round to a tenth of
its own tolerance, so that is 1e-3 for it; it stops below its rank when the whole RKHS is certified to that.
Everything runs on one thread, and seconds are processor seconds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import ocr_letters, protein_profiles
from benchmarks.solvers import synthetic
from experiments.bases_page import write_page
from kernelfields import ChainCRF
from kernelfields.evaluation.comparison import compare
from kernelfields.evaluation.evaluation import evaluate
from kernelfields.kernels.stationary import RBF
from kernelfields.numerics.windows import window_view
from kernelfields.selection import ChainCRFCV

KEYS = ("part", "set", "rank", "basis", "seed")
BASES = ("random-cholesky", "greedy-cholesky", "uniform", "gradient")
RANKS = (100, 200, 500, 1000)
TOLERANCE = 1e-4


@dataclass
class DataSet:
    """Training and test sequences, the window that fields see, and the grid that cross-validation searches."""

    train: tuple[list, list]
    test: tuple[list, list]
    window: int
    gammas: list[float]
    prior_variances: list[float]
    selection_rank: int


def letters() -> DataSet:
    """Return fold 0 of OCR letters to train on, and folds 1 to 3 to test on."""
    X, y, fold = ocr_letters()
    train, test = (np.flatnonzero(part) for part in (fold == 0, (fold >= 1) & (fold <= 3)))
    return DataSet(
        ([X[i] for i in train], [y[i] for i in train]),
        ([X[i] for i in test], [y[i] for i in test]),
        1,
        [0.02, 0.04, 0.06, 0.09],
        [3.0, 10.0, 30.0, 100.0, 300.0],
        500,
    )


def proteins() -> DataSet:
    """Return 40 proteins to train on and 200 others to test on, profiles squashed to (0, 1)."""
    scores, _, y = protein_profiles("train")
    order = np.random.default_rng(0).permutation(len(y))
    X = [1.0 / (1.0 + np.exp(-each.astype(np.float64))) for each in scores]
    train, test = order[:40], order[40:240]
    return DataSet(
        ([X[i] for i in train], [y[i] for i in train]),
        ([X[i] for i in test], [y[i] for i in test]),
        15,
        [0.003, 0.01, 0.03, 0.1],
        [0.3, 1.0, 3.0, 10.0, 30.0],
        300,
    )


SETS = {"OCR letters": letters, "proteins": proteins}


def choose(data: DataSet) -> dict:
    """Return the scale and variance of the best cross-validated log-likelihood on the training data."""
    begin = time.process_time()
    search = ChainCRFCV(
        ChainCRF(decode="viterbi", rank=data.selection_rank, window=data.window, max_iter=500, n_jobs=1),
        kernels=[RBF(gamma) for gamma in data.gammas],
        prior_variances=data.prior_variances,
        extend=False,
        refit=False,
        random_state=0,
    ).fit(*data.train)
    best = search.best_params_
    return {
        "gamma": best["kernel"].gamma,
        "prior_variance": best["prior_variance"],
        "gammas": data.gammas,
        "prior_variances": data.prior_variances,
        "rank": data.selection_rank,
        "score": float(search.best_score_),
        "n_train": [len(data.train[0]), sum(map(len, data.train[1]))],
        "n_test": [len(data.test[0]), sum(map(len, data.test[1]))],
        "seconds": time.process_time() - begin,
    }


def fit(data: DataSet, chosen: dict, basis: str, rank: int | None, seed: int) -> tuple[dict, list]:
    """Return what one field reaches and takes, and its predictions of the test sequences."""
    marks: list[float] = []
    model = ChainCRF(
        RBF(chosen["gamma"]),
        decode="viterbi",
        basis=basis,
        rank=rank,
        prior_variance=chosen["prior_variance"],
        window=data.window,
        tol=TOLERANCE if basis != "gradient" else 10 * TOLERANCE,
        solver="lbfgs",
        max_iter=5000,
        random_state=seed,
        n_jobs=1,
        callbacks=[lambda _: marks.append(time.process_time())],
    )
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        # A gradient basis that is full before it is certified has not failed: its span is solved.
        if basis == "gradient":
            warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(*data.train)
    seconds = time.process_time() - begin
    predicted = model.predict(data.test[0], decode="posterior")
    solution, subspace = model.solution_, model.basis_["node"]
    inputs = np.concatenate(data.train[0]).astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in data.train[1]])])
    inputs = window_view(inputs, offsets, data.window)
    features = subspace.features(inputs)
    row = {
        "rank_reached": subspace.rank,
        "residual": float(1.0 - np.sum(features**2) / np.sum(subspace.kernel.diag(inputs))),
        "value": solution.value,
        "lower_bound": solution.lower_bound,
        "reason": solution.reason,
        "passes": solution.passes,
        "accuracy": evaluate(data.test[1], predicted).accuracy.to_dict(),
        "log_likelihood": float(model.log_likelihood(*data.test)) / sum(map(len, data.test[1])),
        # A gradient basis grows while the field is solved.
        "basis_seconds": None if basis == "gradient" else marks[0] - begin,
        "seconds": seconds,
        "total_seconds": time.process_time() - begin,
    }
    return row, predicted


def run_fits(name: str, data: DataSet, chosen: dict, ranks: list[int], n_seeds: int) -> None:
    for rank in ranks:
        reference = None
        for basis in BASES:
            for seed in range(n_seeds if basis != "greedy-cholesky" else 1):
                row, predicted = fit(data, chosen, basis, rank, seed)
                if seed == 0 and reference is None:
                    reference = predicted
                elif seed == 0:
                    row["against_random"] = compare(data.test[1], reference, predicted).accuracy.difference.to_dict()
                save([{"part": "fit", "set": name, "basis": basis, "rank": rank, "seed": seed, **row}])
                print(
                    f"{name:12s} rank {rank:5d} {basis:16s} seed {seed}: objective {row['value']:9.1f}, residual "
                    f"{row['residual']:.4f}, accuracy {row['accuracy']['value']:.4f}, {row['seconds']:.1f} s",
                    flush=True,
                )


def save(rows: list[dict]) -> None:
    merge_results("bases.json", rows, KEYS, EXPERIMENTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--parts", nargs="+", default=["choose", "fit", "all"], choices=["choose", "fit", "all"])
    parser.add_argument("--ranks", nargs="+", type=int, default=list(RANKS))
    parser.add_argument("--seeds", type=int, default=3, help="how many, for bases that draw")
    parser.add_argument("--page", action="store_true", help="renew the page from the results, run nothing")
    arguments = parser.parse_args()
    for name in arguments.sets if not arguments.page else []:
        data = SETS[name]()
        for basis in BASES:  # so that no run pays for the compiler
            ChainCRF("rbf", basis=basis, n_jobs=1, rank=20).fit(*synthetic(5, 2))
        if "choose" in arguments.parts:
            save([{"part": "choice", "set": name, "basis": "random-cholesky", "seed": 0, **choose(data)}])
        rows = read_results("bases.json", EXPERIMENTS)
        chosen = next(row for row in rows if row["part"] == "choice" and row["set"] == name)
        print(f"{name}: gamma {chosen['gamma']:g}, prior variance {chosen['prior_variance']:g}", flush=True)
        if "fit" in arguments.parts:
            run_fits(name, data, chosen, arguments.ranks, arguments.seeds)
        if "all" in arguments.parts:
            row, _ = fit(data, chosen, "all", None, 0)
            save([{"part": "all", "set": name, "basis": "all", "rank": row["rank_reached"], "seed": 0, **row}])
    write_page()


if __name__ == "__main__":
    main()
