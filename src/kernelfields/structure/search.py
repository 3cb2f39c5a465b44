"""Greedy choice of clique sets: bound every candidate, add the best, fit again from where the last fit ended.

The search ends when no candidate promises more than ``threshold`` nats or when ``max_additions`` sets were added.
With held-out data, an addition that does not raise their likelihood is taken back, and ``patience`` of those in a
row end the search as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.engines import CliqueFeatures
from kernelfields.structure.bounds import EngineBuilder, Space, improvement_bounds, place
from kernelfields.structure.path import StructurePath, StructureStep


class Fitted(Protocol):
    """What a fit leaves behind: coefficients of each set, and a solution with value and gap parts."""

    coefficients: list[np.ndarray]
    solution: Any


class StructureSearch(BaseEstimator):
    """What to choose from, and when to stop; pass it as ``candidates`` of an estimator.

    Parameters
    ----------
    candidates : list of clique sets, or None for those of the estimator's own choice
    max_additions : int, default 5
    threshold : float or None
        Stop when no candidate could improve the objective by more nats; None means a thousandth of it.
    validation : float, default 0.2
        Share of the training data held out to judge each addition; 0 for none: then every one is kept.
    ranking : "bound" or "estimate", default "bound"
        Which candidate is the best: the one with the largest bound (Remark 11), or the one that a Newton step says
        would bring most. The bound decides about stopping in either case.
    patience : int, default 3
        Additions in a row that held-out data reject before the search gives up.
    """

    def __init__(
        self,
        candidates: Any = None,
        *,
        max_additions: int = 5,
        threshold: float | None = None,
        validation: float = 0.2,
        ranking: str = "bound",
        patience: int = 3,
    ):
        self.candidates = candidates
        self.max_additions = max_additions
        self.threshold = threshold
        self.validation = validation
        self.ranking = ranking
        self.patience = patience

    def check(self) -> None:
        """Raise ValueError if a parameter cannot be used."""
        for name in ("max_additions", "patience"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.ranking not in ("bound", "estimate"):
            raise ValueError(f"ranking must be 'bound' or 'estimate', got {self.ranking!r}")
        if self.threshold is not None and not self.threshold >= 0:
            raise ValueError(f"threshold must be at least 0, or None, got {self.threshold!r}")
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation must be a share from 0 to less than 1, got {self.validation!r}")


def learn_structure(
    base: Sequence[Space],
    candidates: Sequence[Space],
    *,
    fit: Callable[[Sequence[Any], list[np.ndarray] | None], Fitted],
    engine_of: EngineBuilder,
    n_labels: int,
    search: StructureSearch,
    score: Callable[[Sequence[Any], Any], float] | None = None,
    together: Callable[[CliqueFeatures], Hashable] = place,
    say: Callable[[str], None] | None = None,
) -> tuple[StructurePath, list[Any], Fitted]:
    """Return the path, the spaces of the chosen field, and its fit.

    ``fit(spaces, start)`` fits a field from coefficients or from zero; ``score(spaces, fitted)`` is the
    log-likelihood of held-out data.
    """
    begin = time.perf_counter()
    spaces, left = list(base), list(candidates)
    fitted = fit(spaces, None)
    steps = [_step(None, fitted, score, spaces, begin)]
    best = steps[0].score
    threshold = 1e-3 * fitted.solution.value if search.threshold is None else search.threshold
    while True:
        promises = improvement_bounds(spaces, fitted.coefficients, left, engine_of, n_labels, together)
        bounds = {name: promise.bound for name, promise in promises.items()}
        reason = _reason(steps, bounds, threshold, search)
        if reason is not None:
            return StructurePath(steps, bounds, reason), spaces, fitted
        name = max(promises, key=lambda each: getattr(promises[each], search.ranking))
        chosen = next(space for space in left if space.name == name)
        left.remove(chosen)
        if say is not None:
            say(f"trying {name}, which could bring {bounds[name]:.4g} nats at most")
        wider = [*spaces, chosen]
        refitted = fit(wider, [*fitted.coefficients, _zeros(chosen, n_labels)])
        step = _step(
            name,
            refitted,
            score,
            wider,
            begin,
            bound=_gap(fitted) + bounds[name],
            estimate=promises[name].estimate,
            gain=fitted.solution.value - refitted.solution.value,
            bounds=bounds,
        )
        if best is None or step.score is None or step.score > best:
            spaces, fitted, best = wider, refitted, step.score
        else:
            step = replace(step, kept=False)
        steps.append(step)


def _reason(
    steps: Sequence[StructureStep], bounds: dict[str, float], threshold: float, search: StructureSearch
) -> str | None:
    """Return why a search is over; None if it goes on."""
    if not bounds:
        return "no candidate is left"
    if max(bounds.values()) <= threshold:
        return f"no candidate could bring more than {threshold:.4g} nats"
    if sum(step.kept for step in steps[1:]) >= search.max_additions:
        return f"{search.max_additions} additions were made"
    if len(steps) > search.patience and not any(step.kept for step in steps[-search.patience :]):
        return f"held-out data rejected the last {search.patience} additions"
    return None


def _step(
    added: str | None,
    fitted: Fitted,
    score: Callable[[Sequence[Any], Any], float] | None,
    spaces: Sequence[Any],
    begin: float,
    **found: Any,
) -> StructureStep:
    return StructureStep(
        added,
        fitted.solution.value,
        _gap(fitted),
        score=None if score is None else score(spaces, fitted),
        seconds=time.perf_counter() - begin,
        **found,
    )


def _gap(fitted: Fitted) -> float:
    """Return what a fit could still gain without any addition, at most."""
    return max(0.0, float(sum(fitted.solution.gap_parts.values())))


def _zeros(space: Space, n_labels: int) -> np.ndarray:
    features = space.clique_features(n_labels)
    return features.expand(np.zeros(features.shape))
