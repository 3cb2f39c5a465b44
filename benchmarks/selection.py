"""Hyper-parameters by cross-validation on training sequences: log-likelihood per token or token error decides.

Log-likelihood is the steadier measure on small sets; token error is what large ones are judged by.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from kernelfields import ChainCRF


def choose(
    candidates: Iterable[ChainCRF],
    X: list,
    y: list,
    *,
    n_splits: int = 3,
    seed: int = 0,
    measure: str = "likelihood",
) -> tuple[ChainCRF, list[dict]]:
    """Return the best candidate (unfitted) and the table of all; only X and y are looked at."""
    table = []
    folds = list(KFold(n_splits, shuffle=True, random_state=seed).split(X))
    for candidate in candidates:
        likelihood, wrong, tokens = 0.0, 0.0, 0
        for train, test in folds:
            model = clone(candidate)
            known = {label for i in train for label in y[i]}
            # A label that the training part never shows has no likelihood: leave such sequences out.
            test = [i for i in test if set(y[i]) <= known]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit([X[i] for i in train], [y[i] for i in train])
            held_X, held_y = [X[i] for i in test], [y[i] for i in test]
            count = sum(len(labels) for labels in held_y)
            likelihood += model.log_likelihood(held_X, held_y)
            wrong += count * (1.0 - model.score(held_X, held_y))
            tokens += count
        table.append({"candidate": candidate, "likelihood": likelihood / tokens, "error": wrong / tokens})
    key = (lambda row: row["likelihood"]) if measure == "likelihood" else (lambda row: -row["error"])
    return max(table, key=key)["candidate"], table


def token_error(model: ChainCRF, X: list, y: list, decode: str = "posterior") -> float:
    """Return the share of wrong labels; labels unknown to the model count as wrong."""
    predicted = np.concatenate(model.predict(X, decode=decode))
    return float(np.mean(predicted != np.concatenate(y)))
