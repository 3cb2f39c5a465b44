"""Gamma and prior variances by the evidence against cross-validation: held-out likelihood, error and seconds.

    python -m experiments.evidence               (all tasks, and noun phrases at other ranks)
    python -m experiments.evidence --tasks segmentation basenp chunking japanesene letters [--splits 0 1]
    python -m experiments.evidence --ranks       (only noun phrases, split 0, at other ranks)
    python -m experiments.evidence --page        (only the page, from the results)

The four tasks of GPstruct with their published splits, and one fold of OCR letters for training with 1,500 words
of the others for the test. The field is the same for both: an RBF kernel of rank 150 (letters: 60), one transition
table. Cross-validation chooses among a grid of gamma and both prior variances by the likelihood of three folds,
with halving; the evidence search begins in the middle of that grid and climbs. Neither sees the test sequences.
Both have run on a few sequences before, so that no time to compile is counted; both hold the last fit.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.base import clone

from benchmarks.result_files import EXPERIMENTS, merge_results
from benchmarks.selection import token_error
from benchmarks.shared_data import gpstruct_task, ocr_letters
from experiments.evidence_page import AT_RANKS, RESULTS, TITLES, page
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels.stationary import RBF
from kernelfields.posterior.evidence.settings import EvidenceSearch
from kernelfields.selection import ChainCRFCV

N_TRAIN = {"basenp": 150, "chunking": 50, "segmentation": 20, "japanesene": 50}
#: gammas, prior variances of nodes and of transitions for cross-validation; the middle is where evidence begins.
GRIDS = {
    "words": ((0.005, 0.02, 0.05, 0.15), (3.0, 10.0, 30.0, 100.0), (1.0, 10.0)),
    "letters": ((0.03, 0.06, 0.12), (20.0, 60.0, 200.0), (1.0, 10.0)),
}
BEGIN = {"words": (0.03, 20.0, 3.0), "letters": (0.06, 60.0, 3.0)}
SEARCH = EvidenceSearch(restarts=0)
ONE_POINT = EvidenceSearch(restarts=0, max_evaluations=1, coarse_rank=None)
RANK = {"words": 150, "letters": 60}
OTHER_RANKS = (50, 400)
# Enough to have everything compiled.
N_WARMING = 6


def data(task: str, split: int) -> tuple[list, list, list, list]:
    """Return training inputs and labels, test inputs and labels."""
    if task == "letters":
        X, y, fold = ocr_letters()
        train = np.flatnonzero(fold == split)
        test = np.random.default_rng(0).choice(np.flatnonzero(fold != split), 1500, replace=False)
    else:
        X, y, splits = gpstruct_task(task)
        train, test = splits[split][: N_TRAIN[task]], splits[split][N_TRAIN[task] :]
    known = np.unique(np.concatenate([y[i] for i in train]))
    # A label that training never shows has no likelihood under either choice.
    test = [i for i in test if np.isin(y[i], known).all()]
    return [X[i] for i in train], [y[i] for i in train], [X[i] for i in test], [y[i] for i in test]


def validated(kind: str, rank: int, X: list, y: list) -> ChainCRF:
    """Return the field that cross-validation chooses, fitted."""
    gammas, variances, edges = GRIDS[kind]
    return (
        ChainCRFCV(
            ChainCRF(decode="viterbi", rank=rank, tol=1e-3, max_iter=500, random_state=0),
            kernels=[RBF(gamma) for gamma in gammas],
            prior_variances=variances,
            edge_prior_variances=edges,
            extend=False,
            random_state=0,
        )
        .fit(X, y)
        .best_estimator_
    )


def climbed(kind: str, rank: int, X: list, y: list) -> ChainCRF:
    """Return the field that the evidence chooses, fitted."""
    gamma, variance, edge = BEGIN[kind]
    field = ChainCRF(
        RBF(gamma),
        decode="viterbi",
        rank=rank,
        prior_variance=variance,
        edges=EdgeCliques(prior_variance=edge),
        tol=1e-3,
        max_iter=500,
        random_state=0,
    )
    return field.fit(X, y, optimize=SEARCH)


def timed(choose, *arguments) -> tuple[ChainCRF, float]:
    """Return what a choice gives, and its seconds."""
    begin = time.perf_counter()
    found = choose(*arguments)
    return found, time.perf_counter() - begin


def run(task: str, split: int, rank: int) -> dict:
    """Return both choices, what they took and how they do on test sequences."""
    X, y, X_test, y_test = data(task, split)
    kind = "letters" if task == "letters" else "words"
    warming = sorted(range(len(X)), key=lambda i: -len(np.unique(y[i])))[:N_WARMING]
    for choose in (validated, climbed):
        choose(kind, rank, [X[i] for i in warming], [y[i] for i in warming])
    found = {
        "cross-validation": timed(validated, kind, rank, X, y),
        "evidence": timed(climbed, kind, rank, X, y),
    }
    fields = {name: field for name, (field, _) in found.items()}
    likelihoods = {name: each.log_likelihood(X_test, y_test, per_item=True) for name, each in fields.items()}
    n_tokens = sum(len(each) for each in y_test)
    difference = likelihoods["evidence"] - likelihoods["cross-validation"]
    path = fields["evidence"].evidence_path_
    evidences = {
        "cross-validation": clone(fields["cross-validation"]).fit(X, y, optimize=ONE_POINT).evidence_path_.steps[0],
        "evidence": path.best,
    }
    return {
        "task": task,
        "split": split,
        "rank": rank,
        "size": len(fields["evidence"].solution_.theta),
        "n_labels": len(fields["evidence"].classes_),
        "n_train": len(X),
        "n_tokens": sum(len(each) for each in y),
        "n_test": len(X_test),
        "evaluations": sum(not step.coarse for step in path.steps),
        "coarse_evaluations": sum(step.coarse for step in path.steps),
        "difference": difference.sum() / n_tokens,
        "difference_error": standard_error(difference, n_tokens),
        "seconds": {name: seconds for name, (_, seconds) in found.items()},
        **{
            name: {
                **parameters(each),
                "log_evidence": evidences[name].value,
                "log_likelihood": likelihoods[name].sum() / n_tokens,
                "log_likelihood_error": standard_error(likelihoods[name], n_tokens),
                "error": token_error(each, X_test, y_test),
            }
            for name, each in fields.items()
        },
    }


def standard_error(sums: np.ndarray, n_tokens: int) -> float:
    """Return the standard error of the mean per token of sums over sequences."""
    return float(np.std(sums, ddof=1) * np.sqrt(len(sums)) / n_tokens)


def parameters(fitted: ChainCRF) -> dict:
    """Return gamma and both prior variances of a fitted field."""
    node, edge = fitted.field_.terms
    return {
        "gamma": node.subspace.kernel.gamma,
        "prior_variance": node.clique.prior_variance,
        "edge_prior_variance": edge.clique.prior_variance,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=list(TITLES), help="these alone, and no other ranks")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1], help="letters take the first alone")
    parser.add_argument("--ranks", action="store_true", help="only noun phrases, split 0, at other ranks")
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    jobs = [
        (task, split, RANK["letters" if task == "letters" else "words"])
        for task in arguments.tasks or TITLES
        for split in (arguments.splits if task != "letters" else arguments.splits[:1])
    ]
    at_ranks = [(*AT_RANKS, rank) for rank in OTHER_RANKS]
    if arguments.ranks or arguments.tasks is None:
        jobs = at_ranks if arguments.ranks else jobs + at_ranks
    for job in [] if arguments.page else jobs:
        row = run(*job)
        merge_results(RESULTS, [row], ("task", "split", "rank"), EXPERIMENTS)
        print(*job, {name: row[name] for name in ("difference", "difference_error", "seconds")}, flush=True)
    page()


if __name__ == "__main__":
    main()
