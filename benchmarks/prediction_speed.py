"""Prediction that does not wait: one short sequence at high rank, and a fold of letters, with and without what is kept.

    python -m benchmarks.prediction_speed [--rank 4000] [--letters-rank 8000] [--device cuda]

A fitted field keeps the dual coefficients of its kernel expansions and the pivots as the kernel wants them, on the
device as well. "plain" is the same field with nothing kept, so that every call solves a triangular system with the
factor of the pivots; "first" makes what is kept, "second" (the median of the later calls; "least" is their least, for
a machine with other things to do) uses it. Rows: one word of eight letters of OCR, 128 pixels, by ``predict`` and
``predict_marginals``, on the threads; and the letters of the first fold, by ``predict_marginals``, with
engine="torch" if there is a CUDA device, else on the threads and at ``--rank``. Both are asked of fields of the whole
rank whose solver made one step: it is the size that counts.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measuring import seconds
from benchmarks.result_files import merge_results
from benchmarks.shared_data import ocr_letters
from kernelfields import ChainCRF
from kernelfields.kernels import RBF
from kernelfields.objective.term import Expansions

GAMMA, LENGTH, CALLS = 0.04, 8, 25


def has_cuda() -> bool:
    """Whether PyTorch is installed and sees a CUDA device."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def fitted(words: list, labels: list, rank: int, engine: Any) -> ChainCRF:
    """Return a field of that rank; its solver made one step."""
    crf = ChainCRF(
        RBF(GAMMA), prior_variance=100.0, rank=rank, basis="uniform", max_iter=1, random_state=0, engine=engine
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one step does not converge
        return crf.fit(words, labels)


def timed(crf: ChainCRF, ask: Callable[[list], list], X: list) -> dict[str, float]:
    """Return seconds of a call with nothing kept, of the first and of later ones that keep."""

    def forget() -> None:
        crf.field_.expansions = Expansions()

    ask(X)  # compiles, and loads what there is to load
    plain = []
    for _ in range(3):
        forget()
        plain.append(seconds(lambda: ask(X)))
    forget()
    first = seconds(lambda: ask(X))
    later = sorted(seconds(lambda: ask(X)) for _ in range(CALLS))
    return {"plain": statistics.median(plain), "first": first, "second": statistics.median(later), "least": later[0]}


def rows_of(name: str, crf: ChainCRF, X: list, methods: list[str]) -> list[dict]:
    """Return a row for each method asked of X."""
    rank = crf.basis_["node"].rank
    rows = []
    for method in methods:
        row = {"asked": name, "method": method, "rank": rank, "engine": str(crf.engine), "positions": sum(map(len, X))}
        row |= timed(crf, getattr(crf, method), X)
        times = ", ".join(f"{kind} {1e3 * row[kind]:8.2f} ms" for kind in ("plain", "first", "second", "least"))
        print(
            f"{name:9s} {method:18s} rank {rank:5d} {row['positions']:6d} positions, {row['engine']}: {times}; plain / "
            f"second = {row['plain'] / row['second']:.1f}"
        )
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=4000)
    parser.add_argument("--letters-rank", type=int, default=8000)
    parser.add_argument("--device", default=None, help="a device of PyTorch; CUDA where there is one")
    options = parser.parse_args()
    words, labels, fold = ocr_letters()
    asked = [words[i] for i in np.flatnonzero(fold == 0)]
    inside = np.flatnonzero(fold != 0)
    training, answers = [words[i] for i in inside], [labels[i] for i in inside]
    part = slice(0, 800)
    crf = fitted(training[part], answers[part], options.rank, "threads")
    one = [next(word for word in asked if len(word) >= LENGTH)[:LENGTH]]
    rows = rows_of("one word", crf, one, ["predict", "predict_marginals"])
    if options.device is not None or has_cuda():
        from kernelfields.engines import Torch

        crf = fitted(training, answers, options.letters_rank, Torch(options.device))
    rows += rows_of("one fold", crf, asked, ["predict_marginals"])
    merge_results("prediction_speed.json", rows, ("asked", "method", "rank", "engine"))


if __name__ == "__main__":
    main()
