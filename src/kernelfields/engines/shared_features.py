"""Clique sets next to each other that have the same features, multiplied as one.

    Z (V_1 .. V_m)  and  Z^T (R_1 A_1 .. R_m A_m)       one product each, for m sets with one Z

The labels of a multi-label field are such sets. A set that shares its features with none stands alone.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import numpy as np

from kernelfields.engines.clique_features import CliqueFeatures
from kernelfields.inference.workers import Workers


def runs_of_one_table(sets: Sequence[tuple[int, CliqueFeatures]]) -> Iterator[list[tuple[int, CliqueFeatures]]]:
    """Cut a list of numbered sets into runs whose features are one and the same object."""
    run: list[tuple[int, CliqueFeatures]] = []
    for index, each in sets:
        if run and not (each.features is not None and each.support is None and _same(run[-1][1], each)):
            yield run
            run = []
        run.append((index, each))
    if run:
        yield run


def _same(one: CliqueFeatures, other: CliqueFeatures) -> bool:
    return one.features is other.features and one.support is None


def shared_scores(
    run: Sequence[CliqueFeatures], coefficients: Sequence[np.ndarray], workers: Workers
) -> list[np.ndarray]:
    """Return the scores Z V A^T, (n, L^k), of every set of a run."""
    if len(run) == 1:
        return [run[0].scores(coefficients[0], workers)]
    product = _plain(run[0]).scores(np.hstack(coefficients), workers)
    parts = np.split(product, np.cumsum([each.shape[1] for each in run])[:-1], axis=1)
    return [
        part if each.label_factor is None else part @ each.label_factor.T
        for each, part in zip(run, parts, strict=True)
    ]


def shared_pull_back(
    run: Sequence[CliqueFeatures], residuals: Sequence[np.ndarray], workers: Workers
) -> list[np.ndarray]:
    """Return Z^T R A, (r, q), for the residuals R (n, L^k) of every set of a run."""
    if len(run) == 1:
        return [run[0].pull_back(residuals[0], workers)]
    rows = [
        residual if each.label_factor is None else residual @ each.label_factor
        for each, residual in zip(run, residuals, strict=True)
    ]
    product = _plain(run[0]).pull_back(np.hstack(rows), workers)
    return np.split(product, np.cumsum([each.shape[1] for each in run])[:-1], axis=1)


def _plain(each: CliqueFeatures) -> CliqueFeatures:
    """Return a set of the same features without its label factor."""
    plain = copy.copy(each)
    plain.label_factor = None
    return plain
