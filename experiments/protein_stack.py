"""Proteins once more, in two passes on a GPU: fields whose marginals are the inputs of another field, and averages.

    python -m experiments.protein_stack [--engine torch] [--ranks 6000 2000] [--proteins N]

First pass: fields on the profile of the residues around each residue, with transitions from a table and with
transitions that see the profile. Their marginals on training proteins come from fields fitted to the other four of
the five folds that come with the data. Second pass: a field on windows of these marginals beside the profile.
Everything that could be chosen is chosen by the accuracy over those five folds; the blind proteins are looked at once,
and the line marked "chosen" is the one that was best over the folds. Kernel scale and prior variance of the first pass
are those that experiments/proteins.py chose on training proteins.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from benchmarks.result_files import EXPERIMENTS, write_results
from benchmarks.shared_data import data_file
from experiments.proteins import profiles, scaled, scaling
from kernelfields import ChainCRF
from kernelfields.engines import Threads, Torch
from kernelfields.kernels import RBF

RESULTS = "protein_stack.json"
VIEW = "logistic and observed"
Marginals = list[np.ndarray]


def first_pass(ranks: list[int], engine: Any) -> dict[str, ChainCRF]:
    shared: dict[str, Any] = {
        "prior_variance": 3.0,
        "edge_prior_variance": 10.0,
        "engine": engine,
        "dtype": "float32",
        "random_state": 0,
        "tol": 3e-3,
        "max_iter": 300,
    }
    return {
        "15 residues": ChainCRF(RBF(0.3), window=15, rank=ranks[0], **shared),
        "21 residues": ChainCRF(RBF(0.3), window=21, rank=ranks[0], **shared),
        "transitions": ChainCRF(
            RBF(0.3), edge_kernel=RBF(0.3), window=15, rank=ranks[1], **{**shared, "edge_prior_variance": 1.0}
        ),
    }


def second_pass(rank: int, engine: Any, variance: float, gamma: float) -> ChainCRF:
    return ChainCRF(
        RBF(gamma),
        window=15,
        rank=rank,
        prior_variance=variance,
        edge_prior_variance=10.0,
        engine=engine,
        dtype="float32",
        random_state=0,
        tol=3e-3,
        max_iter=300,
    )


def fitted_on(crf: ChainCRF, X: list, y: list, rows: np.ndarray) -> ChainCRF:
    return crf.fit([X[i] for i in rows], [y[i] for i in rows])


def out_of_fold(crf: ChainCRF, X: list, y: list, fold: np.ndarray) -> Marginals:
    """Return marginals of every protein by a field that was fitted to the other folds."""
    found: Marginals = [np.empty(0)] * len(X)
    for number in np.unique(fold):
        rows = np.flatnonzero(fold == number)
        fitted_on(crf, X, y, np.flatnonzero(fold != number))
        for i, marginals in zip(rows, crf.predict_marginals([X[i] for i in rows]), strict=True):
            found[i] = marginals
    return found


def accuracy(marginals: Marginals, y: list, classes: np.ndarray) -> float:
    return float((classes[np.concatenate(marginals).argmax(axis=1)] == np.concatenate(y)).mean())


def mean_of(parts: list[Marginals]) -> Marginals:
    return [sum(rows) / len(parts) for rows in zip(*parts, strict=True)]


def stacked(parts: list[Marginals], profile: list, weight: float) -> list[np.ndarray]:
    """Return marginals, centred and weighed against the profile, beside the profile."""
    joined = [np.hstack(rows) - 1 / 3 for rows in zip(*parts, strict=True)]
    return [np.hstack([weight * own, rows]).astype(np.float32) for own, rows in zip(joined, profile, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="torch", choices=["torch", "threads"])
    parser.add_argument("--ranks", type=int, nargs=2, default=[6000, 2000])
    parser.add_argument("--second", type=int, default=4000, help="rank of the second pass")
    parser.add_argument("--proteins", type=int, help="so many training proteins, to try the script")
    given = parser.parse_args()
    engine = Torch("cuda") if given.engine == "torch" else Threads()
    begin = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - begin:7.1f} s  {text}", flush=True)

    views, y = profiles("train")
    blind_views, y_blind = profiles("blind")
    with np.load(data_file("jpred4-pssm", "train.npz"), allow_pickle=False) as archive:
        fold = archive["fold"]
    if given.proteins:
        views, y, fold = {VIEW: views[VIEW][: given.proteins]}, y[: given.proteins], fold[: given.proteins]
    scale = scaling(views[VIEW])
    X, blind = scaled(views[VIEW], *scale), scaled(blind_views[VIEW], *scale)
    everything = np.arange(len(X))
    held: dict[str, Marginals] = {}
    tested: dict[str, Marginals] = {}
    rows: list[dict[str, Any]] = []
    classes = np.array(sorted(set("CHE")))

    def note(name: str) -> None:
        rows.append(
            {
                "field": name,
                "folds": accuracy(held[name], y, classes),
                "blind": accuracy(tested[name], y_blind, classes),
                "seconds": time.perf_counter() - begin,
            }
        )
        say(f"{name:34} folds {rows[-1]['folds']:.4f}   blind {rows[-1]['blind']:.4f}")

    for name, crf in first_pass(given.ranks, engine).items():
        held[name] = out_of_fold(crf, X, y, fold)
        tested[name] = fitted_on(crf, X, y, everything).predict_marginals(blind)
        note(name)
    first = list(held)
    held["mean of the first"] = mean_of([held[name] for name in first])
    tested["mean of the first"] = mean_of([tested[name] for name in first])
    note("mean of the first")
    for weight, gamma, variance in ((0.15, 0.5, 3.0), (0.3, 0.5, 3.0), (0.3, 0.3, 10.0)):
        name = f"second, weight {weight:g}, gamma {gamma:g}, variance {variance:g}"
        crf = second_pass(given.second, engine, variance, gamma)
        inputs = stacked([held[each] for each in first], X, weight)
        held[name] = out_of_fold(crf, inputs, y, fold)
        seen = stacked([tested[each] for each in first], blind, weight)
        tested[name] = fitted_on(crf, inputs, y, everything).predict_marginals(seen)
        note(name)
        both = f"mean of the first and {name}"
        held[both] = mean_of([held["mean of the first"], held[name]])
        tested[both] = mean_of([tested["mean of the first"], tested[name]])
        note(both)
    best = max(rows, key=lambda row: row["folds"])
    best["chosen"] = True
    say(f"chosen over the folds: {best['field']}, blind Q3 {best['blind']:.4f}")
    if not given.proteins:
        write_results(RESULTS, rows, EXPERIMENTS)


if __name__ == "__main__":
    main()
