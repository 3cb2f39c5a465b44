"""Model selection on OCR letters: ChainCRFCV against scikit-learn's GridSearchCV on the same grid and folds.

    python benchmarks/search_speed.py [--rank 200] [--repeats 3]

Small protocol: the words of fold 0, 3-fold cross-validation, five values of gamma around "scale" and five prior
variances, log-likelihood per token. GridSearchCV fits every candidate by itself; ChainCRFCV computes the features of a
kernel once per fold and follows the prior variances on them, first on all words (the same table of scores), then with
successive halving. None refits, all use the same threads. Seconds are the least of the repeats. The score behind
"loses" is the choice's own, on all words: what halving gave away.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from kernelfields import ChainCRF
from kernelfields.inference.workers import available_cores
from kernelfields.selection import ChainCRFCV
from result_files import merge_results
from shared_data import ocr_letters


def per_token(estimator: ChainCRF, X: list, y: list) -> float:
    """Return the log-likelihood per token, as ChainCRFCV scores by default."""
    return estimator.log_likelihood(X, y) / sum(map(len, y))


def fastest(searches: list) -> tuple:
    """Fit searches on the words; return the last one and the least seconds."""
    X, y, fold = ocr_letters()
    words = np.flatnonzero(fold == 0)
    X, y = [X[i] for i in words], [y[i] for i in words]
    seconds = []
    for search in searches:
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            search.fit(X, y)
        seconds.append(time.perf_counter() - begin)
    return search, min(seconds)


def describe(params: dict) -> str:
    return f"{params['kernel']} s={params['prior_variance']:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    crf = ChainCRF(rank=arguments.rank, max_iter=500, random_state=0)
    settings = {"estimator": crf, "random_state": 0, "refit": False}
    fastest([ChainCRFCV(**settings, prior_variances=[1.0])])  # compiles
    ours, path_seconds = fastest([ChainCRFCV(**settings, halving=False) for _ in range(arguments.repeats)])
    halved, halving_seconds = fastest([ChainCRFCV(**settings) for _ in range(arguments.repeats)])
    table = ours.cv_results_["params"]
    grid = {
        "kernel": list(dict.fromkeys(row["kernel"] for row in table)),
        "rank": [arguments.rank],
        "prior_variance": sorted({row["prior_variance"] for row in table}),
    }
    peer, grid_seconds = fastest(
        [
            GridSearchCV(crf, grid, scoring=per_token, cv=ours.splits_, refit=False)
            for _ in range(arguments.repeats)
        ]
    )
    theirs = {
        str(row): score
        for row, score in zip(map(describe, peer.cv_results_["params"]), peer.cv_results_["mean_test_score"])
    }
    differences = [
        abs(theirs[describe(row)] - score)
        for row, score in zip(table, ours.cv_results_["mean_test_score"], strict=True)
    ]
    lost = peer.best_score_ - theirs[describe(halved.best_params_)]
    print(f"{len(table)} candidates, 3 folds, rank {arguments.rank}, {available_cores()} cores")
    for name, seconds, search in (
        ("GridSearchCV", grid_seconds, peer),
        ("ChainCRFCV(halving=False)", path_seconds, ours),
        ("ChainCRFCV()", halving_seconds, halved),
    ):
        print(
            f"{name:26s} {seconds:7.1f} s   {grid_seconds / seconds:5.1f} times as fast   "
            f"chose {describe(search.best_params_)}, {search.best_score_:.4f} per token"
        )
    print(
        f"largest difference between scores of the same candidate {max(differences):.1e}; halving loses {lost:.4f}"
    )
    row = {
        "rank": arguments.rank,
        "candidates": len(table),
        "grid_search_seconds": grid_seconds,
        "path_seconds": path_seconds,
        "halving_seconds": halving_seconds,
        "path_ratio": grid_seconds / path_seconds,
        "halving_ratio": grid_seconds / halving_seconds,
        "grid_search_choice": describe(peer.best_params_),
        "path_choice": describe(ours.best_params_),
        "halving_choice": describe(halved.best_params_),
        "best_score": float(peer.best_score_),
        "halving_loss": float(lost),
        "largest_score_difference": max(differences),
    }
    merge_results("search_speed.json", [row], ("rank",))


if __name__ == "__main__":
    main()
