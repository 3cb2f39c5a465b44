"""A development set watched during the fit: when its likelihood stops rising, the fit may stop as well.

After every iteration the log-likelihood of the development set is computed with the present coefficients: half a
pass over its features, which are computed once, and inference. The best coefficients by that measure are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.engines import ThreadsEngine
from kernelfields.estimators.chain_engines import chain_engine
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.estimators.warm_start import continued_space
from kernelfields.fields import Chains, ConstraintMasks
from kernelfields.inference.workers import Workers
from kernelfields.posterior import Point


class DevelopmentSet:
    """Labelled chains beside the training ones; stops a fit after ``patience`` iterations without progress.

    ``scores`` holds the log-likelihood after each iteration, ``best`` the point with the highest one.
    """

    def __init__(self, chains: Chains, patience: int, *, masks: ConstraintMasks, workers: Workers):
        self.chains = chains
        self.patience = patience
        self.scores: list[float] = []
        self.best: Point | None = None
        self._masks, self._workers = masks, workers
        self._engine: ThreadsEngine | None = None
        self._best_score = -np.inf
        self._since_best = 0

    def attach(self, spaces: Sequence[CliqueSpace], n_labels: int, *, tol: float, dtype: object) -> None:
        """Compute the features of the development set in the spaces of the training set."""
        sets = []
        for space in spaces:
            known = FittedSet(
                space.clique, space.name, space.subspace, space.label_factor, np.empty((0, 0)), space.support
            )
            there = continued_space(space.name, space.clique, known, self.chains, tol=tol, dtype=dtype)
            sets.append(there.clique_features(n_labels))
        self._engine = chain_engine(self.chains, sets, n_labels=n_labels, masks=self._masks, workers=self._workers)

    def __call__(self, point: Point) -> bool:
        """Take note of a point; True when there was no progress for too long."""
        assert self._engine is not None, "attach first"
        parts = [
            each.compress(full)
            for each, full in zip(self._engine.sets, point.posterior.expanded(point.theta), strict=True)
        ]
        score = -self._engine.evaluate(self._engine.potentials(parts)).value
        self.scores.append(score)
        if score > self._best_score:
            self._best_score, self.best, self._since_best = score, point, 0
        else:
            self._since_best += 1
        return self._since_best >= self.patience
