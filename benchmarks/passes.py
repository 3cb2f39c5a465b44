"""Passes of L-BFGS by metric: how many, on five kinds of data at several prior variances.

    python -m benchmarks.passes [--sets letters proteins ...] [--tol 1e-3] [--engine threads] [--large]

The metric of dense features is b Z^T Z / L^2 + I / s, L labels (kernelfields/objective/coordinates.py); under 0, one
number for each clique set is the metric. One line for each field, one column for each b; all fits end at the same gap.
--large takes nine folds of letters at rank 2000, and a million positions of the synthetic field at rank 1024 and 8192.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.fit_speed import words
from benchmarks.result_files import merge_results
from benchmarks.shared_data import gesture_phases, protein_profiles
from experiments import prominence_features as prosody_features
from experiments.prominence import sentences_of
from kernelfields import ChainCRF
from kernelfields.kernels.dot_product import Polynomial
from kernelfields.kernels.stationary import RBF
from kernelfields.objective import posterior

SHARES = (0.0, 0.01, 0.1, 0.2, 0.5, 1.0)
Problem = tuple[str, list, list, dict[str, Any]]


def letters(large: bool) -> Iterator[Problem]:
    X, y = words(list(range(1, 10)) if large else [1])
    rank = 2000 if large else 1000
    for variance in (3.0,) if large else (0.3, 3.0, 100.0):
        yield "letters, cubic", X, y, {"kernel": Polynomial(3, gamma=0.06), "prior_variance": variance, "rank": rank}
    for variance in (30.0,) if large else (1.0, 30.0):
        yield "letters, RBF", X, y, {"kernel": RBF(0.06), "prior_variance": variance, "rank": rank}


def proteins(large: bool) -> Iterator[Problem]:
    X, _, y = protein_profiles("train")
    n = len(X) if large else 60
    for variance in (1.0, 30.0):
        yield "proteins, RBF", X[:n], y[:n], {"kernel": RBF(0.02), "prior_variance": variance, "rank": 500}
    yield "proteins, linear", X[:n], y[:n], {"kernel": "linear", "window": 7, "prior_variance": 1.0}


def gestures(large: bool) -> Iterator[Problem]:
    _, X, y, _ = gesture_phases()
    n = len(X) if large else 4
    for variance in (10.0, 1000.0):
        yield "gestures, RBF", X[:n], y[:n], {"kernel": RBF(0.05), "prior_variance": variance, "rank": 500}
    yield "gestures, linear", X[:n], y[:n], {"kernel": "linear", "prior_variance": 10.0}


def prosody(large: bool) -> Iterator[Problem]:
    sentences = sentences_of("figure")
    lexicon = prosody_features.Lexicon(sentences, prosody_features.ENGLISH, prosody_features.ENGLISH_ENDINGS)
    X = [lexicon.describe(sentence, counted=True) for sentence in sentences]
    y = [np.minimum(sentence.labels, 1) for sentence in sentences]
    for variance in (1.0, 30.0):
        settings = {"kernel": RBF(0.05), "window": 5, "prior_variance": variance, "rank": 500}
        yield "prosody, RBF", X, y, settings


def synthetic(large: bool) -> Iterator[Problem]:
    from benchmarks.gpu_fit import KERNEL, VARIANCE
    from benchmarks.gpu_fit import synthetic as drawn

    X, y = drawn(50_000 if large else 1_000)
    for rank in (1024, 8192) if large else (500,):
        settings = {"kernel": KERNEL, "prior_variance": VARIANCE, "rank": rank, "basis": "uniform"}
        yield "synthetic, cubic", list(X), list(y), settings


SETS: dict[str, Callable[[bool], Iterator[Problem]]] = {
    "letters": letters,
    "proteins": proteins,
    "gestures": gestures,
    "prosody": prosody,
    "synthetic": synthetic,
}


def measure(problem: Problem, share: float, tol: float, engine: str) -> dict[str, Any]:
    """Return what one fit took with a share b."""
    name, X, y, settings = problem
    with patch.object(posterior, "LATE_SHARE", share):
        begin = time.perf_counter()
        crf = ChainCRF(solver="lbfgs", tol=tol, engine=engine, random_state=0, **settings).fit(X, y)
    solution = crf.solution_
    return {
        "field": name,
        "positions": sum(map(len, y)),
        "rank": settings.get("rank", 0),
        "prior_variance": settings["prior_variance"],
        "tol": tol,
        "share": share,
        "passes": solution.passes,
        "value": solution.value,
        "relative_gap": solution.relative_gap,
        "seconds": round(time.perf_counter() - begin, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--engine", default="threads")
    parser.add_argument("--large", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'field':20}{'positions':>10}{'rank':>6}{'s':>7}" + "".join(f"{share:9g}" for share in SHARES), flush=True)
    for name in given.sets:
        for problem in SETS[name](given.large):
            rows = [measure(problem, share, given.tol, given.engine) for share in SHARES]
            first = rows[0]
            shown = "".join(f"{row['passes']:9.1f}" for row in rows)
            print(
                f"{first['field']:20}{first['positions']:10,}{first['rank']:6}{first['prior_variance']:7g}{shown}",
                flush=True,
            )
            keys = ("field", "positions", "rank", "prior_variance", "tol", "share")
            merge_results("passes.json", rows, keys)


if __name__ == "__main__":
    main()
