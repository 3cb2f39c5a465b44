"""Development sets: labelled data that stop a fit without further gain.

After every iteration the log-likelihood of the set is computed with the present coefficients: half a pass over its
features, which are computed once, and inference. The best coefficients by that measure are kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.models.fit import data_value
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.objective.posterior import Point

# Iterations without a higher likelihood of the development set after which a fit stops.
_PATIENCE = 5


class DevelopmentSet(FitStep):
    """Inputs and labels of a development set; stops a fit after some iterations without progress.

    ``scores`` holds the log-likelihood after each iteration, ``best`` the point with the highest one.
    """

    def __init__(self, X: object, y: object):
        self.X, self.y = X, y
        self.scores: list[float] = []
        self.best: Point | None = None
        self._best_score = -np.inf
        self._since_best = 0

    def check(self, estimator: Any) -> None:
        """Raise if inputs or labels are missing."""
        if (self.X is None) != (self.y is None):
            raise ValueError("a development set needs both X_dev and y_dev")

    def before(self, estimator: Any, problem: Any) -> None:
        """Read the set like the data of the fit; both share memory."""
        self.held_out = problem.read_validation_data(self.X, self.y)
        problem.run.settings = replace(problem.run.settings, beside=self.held_out.n_positions)
        self._problem = problem

    def around(self, solve: Solve) -> Solve:
        """Return the solve with this set as a watcher."""

        def watched(placed: Placed) -> FittedField:
            problem, n_terms = self._problem, placed.sample.settings.n_terms
            beside = problem.data.n_positions
            sample = problem.run.place(self.held_out, problem.spec, n_terms, beside, solved=False)
            self._datafit = sample.datafit([sample.design(design.term) for design in placed.designs])
            return solve(replace(placed, monitor=self))

        return watched

    def after(self, estimator: Any) -> None:
        """Store the log-likelihoods on the estimator."""
        estimator.dev_log_likelihoods_ = np.array(self.scores)

    def __call__(self, point: Point) -> bool:
        """Update with a point; return True after too many iterations without progress."""
        score = -data_value(self._datafit, point.posterior.blocks.expand(point.theta))
        self.scores.append(score)
        if score > self._best_score:
            self._best_score, self.best, self._since_best = score, point, 0
        else:
            self._since_best += 1
        return self._since_best >= _PATIENCE


#: The step that keywords of ``fit`` ask for.
requested = DevelopmentSet
