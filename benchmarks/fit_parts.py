"""The parts of a fit before it is solved: training data, the sample where it runs, and the designs on it."""

from __future__ import annotations

import copy
from typing import Any

from kernelfields.engines.engine import Sample
from kernelfields.estimators.base import FieldEstimator, prepare_fit
from kernelfields.estimators.fit_state import FitState
from kernelfields.objective.posterior import LogPosterior


def parts_of_fit(
    estimator: FieldEstimator, X: Any, y: Any, sample_weight: Any = None, engine: Any = "threads"
) -> tuple[FitState, Sample, list]:
    """Return what a fit on an engine works on: training data, sample and designs."""
    estimator = copy.copy(estimator).set_params(engine=engine)
    training = prepare_fit(estimator, X, y, sample_weight)
    cliques = estimator.structure.clique_sets(training)
    sample = training.place(training.data, cliques)
    designs = estimator.structure.designs(training, sample, cliques)
    return training, sample, designs


def posterior_of_fit(estimator: FieldEstimator, X: Any, y: Any, engine: Any = "threads") -> LogPosterior:
    """Return the objective that a fit minimises."""
    _, sample, designs = parts_of_fit(estimator, X, y, engine=engine)
    return LogPosterior(sample.datafit(designs))
