"""Greedy choice of clique sets: bound every candidate, add the best, fit again from where the last fit ended.

The search ends when no candidate promises more than ``threshold`` nats or when ``max_additions`` sets were added.
With held-out data, an addition that does not raise their likelihood is taken back, and ``patience`` of those in a
row end the search as well. Its path holds what was added, what it could have brought, and what it brought.

Where several may be added at once, a step adds twice as many as the last one that was kept, half as many as one
that was not, so that M sets that are all worth having take about log2 M fits instead of M. What c = 1 .. m sets
bring together is at most gap + sum_c (s_c / 2) ||g_c||^2: their priors are independent.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.engines.engine import Sample
from kernelfields.models.fit import FitOptions, FittedField, fit_field
from kernelfields.numerics.parameters import check_count, check_declared, declares_parameters, or_none, parameter
from kernelfields.numerics.registry import SETTINGS
from kernelfields.objective.designs.design import Design
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import PlainValues, Table
from kernelfields.structure.bounds import Batches, Promise, by_place, improvement_bounds


@dataclass(frozen=True)
class StructureStep:
    """One addition, kept or taken back, or the field at the start, whose ``added`` is None.

    ``bounds`` holds, for all candidates left before the step, the most they could have brought, the gap of the fit
    before it not included; ``bound`` is that of what was added with the gap, ``estimate`` what a Newton step
    promised, and ``gain`` is by how much the objective fell. ``score`` is the log-likelihood of held-out data,
    None without any. ``others`` were added together with ``added``, which promised most.
    """

    added: str | None
    value: float
    gap: float
    bound: float = 0.0
    estimate: float = 0.0
    gain: float = 0.0
    bounds: dict[str, float] = field(default_factory=dict)
    score: float | None = None
    kept: bool = True
    seconds: float = 0.0
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all clique sets of the step, none for the field at the start."""
        return () if self.added is None else (self.added, *self.others)

    def __str__(self) -> str:
        more = f" and {len(self.others)} more" if self.others else ""
        return f"{self.added or '(start)'}{more}"


@dataclass
class StructurePath(Shown):
    """All steps of a search, and why it ended; ``kernelfields.reports.plot_structure`` draws a picture."""

    steps: list[StructureStep]
    #: What the candidates left could bring at the end, at most.
    left: dict[str, float]
    reason: str

    @property
    def added(self) -> list[str]:
        """Names of the clique sets that were kept, in the order in which they came."""
        return [name for step in self.steps if step.kept for name in step.names]

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON."""
        return {
            "steps": [asdict(step) for step in self.steps],
            "left": dict(self.left),
            "added": self.added,
            "reason": self.reason,
        }

    def parts(self) -> list[Table]:
        """Return the steps as a table, those that were kept with a mark before their name."""
        scored = any(step.score is not None for step in self.steps)
        rows = []
        for index, step in enumerate(self.steps):
            name = f"{'✓' if index and step.kept else ' '} {step}"
            improvements = [figure if index else None for figure in (step.bound, step.estimate, step.gain)]
            rows.append([name, *improvements, step.value, *([step.score] if scored else [])])
        columns = ["  added", "bound", "estimate", "gain", "objective", *(["held out"] if scored else [])]
        formats = dict.fromkeys(columns[1:4], ".4g") | dict.fromkeys(columns[4:], ".6g")
        return [Table(columns, rows, formats=formats, note=self._ending(), longest=30)]

    def _ending(self) -> str:
        ending = f"ended: {self.reason}; ✓ kept"
        if self.left:
            name = max(self.left, key=self.left.__getitem__)
            ending += f"; the best candidate left is {name}, which could bring {self.left[name]:.4g} at most"
        return ending


def _check_ranking(value: object, name: str) -> None:
    if value not in ("bound", "estimate"):
        raise ValueError(f"{name} must be 'bound' or 'estimate', got {value!r}")


def _check_threshold(value: float | None, name: str) -> None:
    if value is not None and not value >= 0:
        raise ValueError(f"{name} must be at least 0, or None, got {value!r}")


def _check_validation(value: float, name: str) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be a share from 0 to less than 1, got {value!r}")


@SETTINGS.register("structure search")
@declares_parameters
class StructureSearch(BaseEstimator):
    """What to choose from, and when to stop: ``cliques`` of a ChainCRF or ``label_graph`` of a MultiLabelCRF.

    Parameters
    ----------
    candidates : list of clique sets, or None for those of the estimator's own choice
    max_additions : int, default 5
    threshold : float or None
        Stop when no candidate could improve the objective by more nats; None means a thousandth of it.
    validation : float, default 0.2
        Share of the training data held out to judge each addition; 0 for none: then every one is kept.
    ranking : "bound" or "estimate", default "bound"
        Which candidate is the best: the one with the largest bound (Remark 11), or the one with the largest
        estimate by a Newton step. The bound decides about stopping in either case.
    patience : int, default 3
        Additions of single sets in a row that held-out data reject before the search gives up.
    at_once : int or None, default 1
        Most sets that one step adds before the field is fitted again; None for any number. Beyond one, steps double
        as long as held-out data agree, and halve where they do not.
    """

    candidates: Sequence | None = parameter(None, first=True)
    max_additions: int = parameter(5, check_count)
    threshold: float | None = parameter(None, _check_threshold)
    validation: float = parameter(0.2, _check_validation)
    ranking: str = parameter("bound", _check_ranking)
    patience: int = parameter(3, check_count)
    at_once: int | None = parameter(1, or_none(check_count))

    def check(self) -> None:
        """Raise ValueError if a parameter cannot be used."""
        check_declared(self)


def learn_structure(
    base: Sequence[Design],
    candidates: Sequence[Design],
    sample: Sample,
    search: StructureSearch,
    options: FitOptions,
    *,
    score: Callable[[FittedField], float] | None = None,
    batches: Batches = by_place,
    fits: Callable[[Sequence[Design]], bool] | None = None,
    announce: Callable[[str], None] | None = None,
) -> tuple[StructurePath, list[Design], FittedField]:
    """Return the path, the designs of the chosen field, and its fit; ``score`` judges fields by held-out data.

    ``fits`` returns whether a field of some designs can be inferred; candidates that it rejects are left out.
    """
    begin = time.perf_counter()
    fits = fits or (lambda designs: True)
    designs, left, size = list(base), list(candidates), 1
    fitted = fit_field(designs, sample, options)
    steps = [_step((), fitted, score, begin)]
    best = steps[0].score
    threshold = 1e-3 * fitted.solution.value if search.threshold is None else search.threshold
    promises: dict[str, Promise] = {}
    while True:
        if steps[-1].kept:
            # Fields only grow: what does not fit now never will.
            left = [design for design in left if fits([*designs, design])]
            promises = improvement_bounds(designs, fitted.coefficients, left, sample, batches)
        bounds = {design.name: promises[design.name].bound for design in left}
        reason = _reason(steps, bounds, threshold, search, len(candidates))
        if reason is not None:
            return StructurePath(steps, bounds, reason), designs, fitted
        room = search.max_additions - sum(len(step.names) for step in steps if step.kept)
        ranked = sorted(left, key=lambda design: getattr(promises[design.name], search.ranking), reverse=True)
        worth = [design for index, design in enumerate(ranked) if not index or bounds[design.name] > threshold]
        chosen = _fitting(designs, worth, min(size, room, search.at_once or size), fits)
        names = [design.name for design in chosen]
        bound = sum(bounds[name] for name in names)
        if announce is not None:
            announce(f"trying {', '.join(names)}, which could bring {bound:.4g} nats at most")
        wider = [*designs, *chosen]
        zeros = [design.expand(np.zeros(design.shape)) for design in chosen]
        refitted = fit_field(wider, sample, options, start=[*fitted.coefficients, *zeros])
        step = _step(
            names,
            refitted,
            score,
            begin,
            bound=_gap(fitted) + bound,
            estimate=sum(promises[name].estimate for name in names),
            gain=fitted.solution.value - refitted.solution.value,
            bounds=bounds,
        )
        kept = best is None or step.score is None or step.score > best
        if kept:
            designs, fitted, best = wider, refitted, step.score
        if kept or len(chosen) == 1:
            left = [design for design in left if design not in chosen]
        size = 2 * len(chosen) if kept else max(1, len(chosen) // 2)
        steps.append(replace(step, kept=kept))


def _fitting(
    designs: Sequence[Design], ranked: Sequence[Design], count: int, fits: Callable[[Sequence[Design]], bool]
) -> list[Design]:
    """Return the first ``count`` candidates that fit into a field together; the first always does."""
    chosen = list(ranked[:1])
    for design in ranked[1:]:
        if len(chosen) == count:
            break
        if fits([*designs, *chosen, design]):
            chosen.append(design)
    return chosen


def _reason(
    steps: Sequence[StructureStep],
    bounds: dict[str, float],
    threshold: float,
    search: StructureSearch,
    n_candidates: int,
) -> str | None:
    """Return why a search is over; None if it goes on."""
    if not bounds:
        tried = {name for step in steps for name in step.names}
        too_wide = "; the others would make exact inference too wide" if len(tried) < n_candidates else ""
        return f"no candidate is left{too_wide}"
    if max(bounds.values()) <= threshold:
        return f"no candidate could bring more than {threshold:.4g} nats"
    if sum(len(step.names) for step in steps if step.kept) >= search.max_additions:
        return f"{search.max_additions} additions were made"
    rejected = list(itertools.takewhile(lambda step: not step.kept, reversed(steps)))
    if sum(not step.others for step in rejected) >= search.patience:
        return f"held-out data rejected the last {search.patience} additions"
    return None


def _step(
    names: Sequence[str],
    fitted: FittedField,
    score: Callable[[FittedField], float] | None,
    begin: float,
    **figures: Any,
) -> StructureStep:
    return StructureStep(
        names[0] if names else None,
        fitted.solution.value,
        _gap(fitted),
        score=None if score is None else score(fitted),
        seconds=time.perf_counter() - begin,
        others=tuple(names[1:]),
        **figures,
    )


def _gap(fitted: FittedField) -> float:
    """Return what a fit could still gain without any addition, at most."""
    return max(0.0, float(sum(fitted.solution.gap_parts.values())))
