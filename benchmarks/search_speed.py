"""Model selection on OCR letters: ChainCRFCV against scikit-learn's GridSearchCV on the same grid and folds.

    python -m benchmarks.search_speed [--rank 200] [--repeats 2]

Small protocol: the words of fold 0, 3-fold cross-validation, five values of gamma around "scale" and five prior
variances, log-likelihood per token. GridSearchCV fits every candidate by itself; ChainCRFCV computes the features
of a kernel once per fold and follows the prior variances on them, first on all words, which gives the same scores
to within the tolerance of the fits, then with successive halving. Nobody refits. All run on one thread, and
seconds are those of the processor, the least of the repeats: the ratio is then one of work. What halving loses is
the difference between the scores, on all words, of the best candidate and of the one it chose.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from benchmarks.result_files import merge_results
from benchmarks.shared_data import ocr_letters
from kernelfields import ChainCRF
from kernelfields.selection import ChainCRFCV


def per_token(estimator: ChainCRF, X: list, y: list) -> float:
    """Return the log-likelihood per token, as ChainCRFCV scores by default."""
    return estimator.log_likelihood(X, y) / sum(map(len, y))


def fitted(search: Any, words: tuple[list, list], repeats: int = 1) -> tuple[Any, float]:
    """Fit copies of a search; return the last one and the least seconds of processor time."""
    seconds = []
    for _ in range(repeats):
        copy = clone(search)
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            copy.fit(*words)
        seconds.append(time.process_time() - begin)
    return copy, min(seconds)


def describe(params: dict) -> str:
    return f"{params['kernel']} s={params['prior_variance']:g}"


def scores(search: Any) -> dict[str, float]:
    """Return the mean score of each candidate of a search on all words."""
    results = search.cv_results_
    return dict(zip(map(describe, results["params"]), results["mean_test_score"].tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    X, y, fold = ocr_letters()
    chosen = np.flatnonzero(fold == 0)
    words = [X[i] for i in chosen], [y[i] for i in chosen]
    crf = ChainCRF(rank=arguments.rank, max_iter=500, random_state=0, n_jobs=1)
    ours = ChainCRFCV(crf, halving=False, refit=False, random_state=0)
    fitted(clone(ours).set_params(prior_variances=[1.0]), words)  # compiles
    path, path_seconds = fitted(ours, words, arguments.repeats)
    halved, halving_seconds = fitted(clone(ours).set_params(halving=True), words, arguments.repeats)
    candidates = path.cv_results_["params"]
    grid = {
        "kernel": list(dict.fromkeys(each["kernel"] for each in candidates)),
        "prior_variance": sorted({each["prior_variance"] for each in candidates}),
    }
    theirs = GridSearchCV(crf, grid, scoring=per_token, cv=path.splits_, refit=False)
    peer, peer_seconds = fitted(theirs, words, arguments.repeats)
    table = scores(peer)
    furthest = max(abs(table[name] - score) for name, score in scores(path).items())
    loss = peer.best_score_ - table[describe(halved.best_params_)]
    print(f"{len(words[0])} words, {len(candidates)} candidates, 3 folds, rank {arguments.rank}, one thread")
    row: dict[str, Any] = {"rank": arguments.rank, "candidates": len(candidates)}
    for name, search, seconds in (
        ("GridSearchCV", peer, peer_seconds),
        ("ChainCRFCV(halving=False)", path, path_seconds),
        ("ChainCRFCV()", halved, halving_seconds),
    ):
        ratio = peer_seconds / seconds
        row[name] = {"seconds": seconds, "ratio": ratio, "choice": describe(search.best_params_)}
        print(f"{name:26s} {seconds:7.1f} s  {ratio:5.2f} times as fast  chose {row[name]['choice']}")
    print(f"scores of a candidate differ by {furthest:.1e} at most; halving loses {loss:.4f} per token")
    merge_results(
        "search_speed.json",
        [{**row, "best_score": float(peer.best_score_), "halving_loss": loss, "largest_difference": furthest}],
        ("rank",),
    )


if __name__ == "__main__":
    main()
