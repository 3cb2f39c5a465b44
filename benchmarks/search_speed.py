"""Model selection on OCR letters: ChainCRFCV against scikit-learn's GridSearchCV on the same grid and folds.

    python -m benchmarks.search_speed [--rank 200] [--repeats 2] [--long] [--price]

Small protocol: the words of fold 0, 3-fold cross-validation, five values of gamma around "scale" and five prior
variances, log-likelihood per token. GridSearchCV fits every candidate by itself; ChainCRFCV computes the features
of a kernel once per fold and follows the prior variances on them, first on all words, which gives the same scores
to within the tolerance of the fits, then with successive halving. Nobody refits. All run on one thread, and
seconds are those of the processor, the least of the repeats: the ratio is then one of work. What halving loses is
the difference between the scores, on all words, of the best candidate and of the one it chose.

--long: the seven recordings of gesture phases, of 1,400 frames each, with velocities of hands and wrists. There are too
few sequences for rungs of whole ones, so that halving works on pieces of them.

--price: twelve candidates in five folds beside one fit of the best of them, in seconds of the processor: the search
over that fit times the folds of candidates that were not stopped early.
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
from benchmarks.shared_data import gesture_phases, ocr_letters
from kernelfields import ChainCRF
from kernelfields.kernels.stationary import RBF
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


def compare_long(rank: int) -> None:
    """Compare halving on pieces of long sequences with all candidates on whole ones."""
    _, velocities, labels, _ = gesture_phases()
    mean, spread = (getattr(np.concatenate(velocities), name)(axis=0) for name in ("mean", "std"))
    frames = [(each - mean) / spread for each in velocities], labels
    crf = ChainCRF(rank=rank, max_iter=500, random_state=0, n_jobs=1)
    ours = ChainCRFCV(crf, halving=False, extend=False, refit=False, random_state=0)
    fitted(clone(ours).set_params(kernels="linear", prior_variances=[1.0]), frames)  # compiles
    whole, whole_seconds = fitted(ours, frames)
    halved, seconds = fitted(clone(ours).set_params(halving=True), frames)
    loss = whole.best_score_ - scores(whole)[describe(halved.best_params_)]
    print(f"{len(labels)} sequences of {min(map(len, labels))} to {max(map(len, labels))} frames, rank {rank}")
    sizes = [int(each) for each in np.unique(halved.cv_results_["n_resources"])]
    print(f"halving=False {whole_seconds:7.1f} s  chose {describe(whole.best_params_)}")
    print(f"halving=True  {seconds:7.1f} s  chose {describe(halved.best_params_)}, rungs of {sizes} frames")
    print(f"{whole_seconds / seconds:.2f} times as fast; halving loses {loss:.4f} per frame")
    row = {"rank": rank, "seconds": seconds, "whole_seconds": whole_seconds, "loss": loss, "rungs": sizes}
    merge_results("search_speed_long.json", [row | {"ratio": whole_seconds / seconds}], ("rank",))


def price(words: tuple[list, list], rank: int, repeats: int) -> None:
    """Compare a search with as many single fits as it had candidates on all data."""
    crf = ChainCRF(rank=rank, max_iter=500, random_state=0, n_jobs=1)
    kernels = [RBF(gamma) for gamma in (0.03, 0.06, 0.12)]
    ours = ChainCRFCV(
        crf,
        kernels=kernels,
        prior_variances=[10.0, 30.0, 100.0, 300.0],
        cv=5,
        extend=False,
        random_state=0,
        refit=False,
    )
    fitted(clone(ours).set_params(kernels=kernels[:1], prior_variances=[1.0]), words)  # compiles
    search, seconds = fitted(ours, words, repeats)
    _, single = fitted(clone(crf).set_params(**search.best_params_), words, repeats)
    sizes = search.cv_results_["n_resources"]
    left = int(np.count_nonzero(sizes == sizes.max()))
    row = {"rank": rank, "left": left, "seconds": seconds, "single": single, "ratio": seconds / (5 * single * left)}
    print(
        f"12 candidates, 5 folds, rank {rank}: {seconds:.1f} s, one fit {single:.2f} s, {left} on all words: "
        f"{row['ratio']:.2f} times as long as {5 * left} such fits"
    )
    merge_results("search_price.json", [row], ("rank",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--price", action="store_true")
    arguments = parser.parse_args()
    if arguments.long:
        compare_long(arguments.rank)
        return
    X, y, fold = ocr_letters()
    chosen = np.flatnonzero(fold == 0)
    words = [X[i] for i in chosen], [y[i] for i in chosen]
    if arguments.price:
        price(words, arguments.rank, arguments.repeats)
        return
    crf = ChainCRF(rank=arguments.rank, max_iter=500, random_state=0, n_jobs=1)
    ours = ChainCRFCV(crf, halving=False, extend=False, refit=False, random_state=0)
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
