"""``partial_fit``: the first batch is a fit, each further one goes on from the posterior of those before."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernelfields.fields.chains import Chains, weigh_classes
from kernelfields.fields.reading import random_generator
from kernelfields.models.batches.continuation import Continuation, fit_continued, with_labels, with_pivots
from kernelfields.models.build import name_cliques
from kernelfields.models.checkpoints import Checkpoint
from kernelfields.models.field import Field
from kernelfields.models.fit import FitOptions, warn_of_solution
from kernelfields.numerics.parameters import check_callbacks
from kernelfields.numerics.threads import Workers
from kernelfields.objective.bounds import Certificate

#: Parameters that say what field it is; they must be those of the first batch.
_KEPT = (
    "kernel",
    "edge_kernel",
    "window",
    "rank",
    "basis",
    "support",
    "edge_support",
    "min_freq",
    "l1",
    "edge_l1",
    "prior_variance",
    "edge_prior_variance",
    "scale",
    "label_kernel",
    "cliques",
    "constraints",
    "allowed",
)


def fit_batch(crf: Any, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
    """Fit a chain estimator to one more batch of sequences; an error leaves it as it was.

    Checkpoints are written after each batch, the curvature included.
    """
    changed = copy.copy(crf)
    checkpoints = [watcher for watcher in check_callbacks(crf.callbacks) if isinstance(watcher, Checkpoint)]
    for checkpoint in checkpoints:
        checkpoint.begin()
    if not hasattr(crf, "field_"):
        _fit_first(changed, X, y, sample_weight)
        if classes is not None:
            _admit(changed, np.union1d(changed.classes_, np.asarray(classes)))
    else:
        _check_continues(crf)
        _admit(changed, _all_classes(crf.classes_, y, classes))
        _fit_next(changed, X, y, sample_weight)
    crf.__dict__.update(changed.__dict__)
    crf.__dict__.pop("laplace_", None)
    for checkpoint in checkpoints:
        checkpoint.end(crf)


def settings_of(crf: Any) -> dict[str, str]:
    """Return what must not change from batch to batch."""
    settings = {name: repr(getattr(crf, name)) for name in _KEPT}
    if hasattr(crf.allowed, "get_params"):
        # scikit-learn shortens the representation of a dictionary of many words.
        settings["allowed"] = f"{type(crf.allowed).__name__}({crf.allowed.get_params(deep=False)})"
    return settings


def _fit_first(crf: Any, X: Any, y: Any, sample_weight: Any) -> None:
    crf._check_parameters()
    for name, clique in name_cliques(crf._described_cliques()):
        if not np.isfinite(clique.prior_variance):
            raise ValueError(f"partial_fit needs a Gaussian prior: prior_variance of {name!r} is infinite")
    crf._fit(X, y, sample_weight)
    known = Continuation.begin(crf.field_.terms)
    data = crf._read_fitted(X, y, sample_weight)
    _refuse_unknown(data)
    crf.continuation_ = known.learn(crf.field_, data, Workers(crf.n_jobs))
    crf.continuation_.settings = settings_of(crf)


def _check_continues(crf: Any) -> None:
    if not hasattr(crf, "continuation_"):
        raise ValueError(
            "partial_fit goes on from batches that it fitted itself, whose curvature it keeps: begin with it, on a "
            "clone(estimator), instead of fit"
        )
    present = settings_of(crf)
    for name, before in crf.continuation_.settings.items():
        if present[name] != before:
            raise ValueError(
                f"{name} was {before:.200} in the first batch and is {present[name]:.200}: set it back, or fit afresh"
            )


def _all_classes(known: np.ndarray, y: Any, classes: Any) -> np.ndarray:
    """Return the classes so far, those of new labels and those that are named."""
    parts = [np.asarray(labels).ravel() for labels in y if len(labels)]
    if any(part.dtype.kind == "O" for part in parts):
        raise ValueError("partial_fit needs labels that are all known, of one type; fit takes partly known ones")
    if classes is not None:
        parts.append(np.asarray(classes))
    if any((part.dtype.kind in "US") != (known.dtype.kind in "US") for part in parts):
        raise ValueError(f"labels of another type than those of the first batch, {known[0]!r}: pass the same type")
    return np.unique(np.concatenate([known, *parts]))


def _admit(crf: Any, classes: np.ndarray) -> None:
    """Let the field have these classes, the old ones among them."""
    if len(classes) == len(crf.classes_):
        return
    places, terms = np.searchsorted(classes, crf.classes_), crf.field_.terms
    grown = with_labels(terms, places, len(classes))
    crf.continuation_ = crf.continuation_.with_labels(grown, places, len(classes))
    crf.classes_ = classes
    crf.field_ = Field(grown, crf._structure(classes, None))
    crf._set_views()


def _fit_next(crf: Any, X: Any, y: Any, sample_weight: Any) -> None:
    data = crf._reader.read(X, y, sample_weight, crf.classes_)
    _refuse_unknown(data)
    crf.field_.structure.check_labels(data, crf.classes_)
    data = weigh_classes(data, crf.classes_, crf.class_weight)
    terms = with_pivots(crf.field_.terms, data)
    known = crf.continuation_.grown(terms)
    settings = crf._sample_settings(sum(not term.tied_everywhere for term in terms))
    sample = crf._engine(data).place(data, crf.field_.structure, settings)
    with crf._progress() as progress:
        random = random_generator(crf.random_state)
        options = FitOptions(crf.solver, crf.tol, crf.max_iter, crf._watcher(progress), random, progress.say)
        terms, solution = fit_continued(terms, known, sample, options)
    crf.field_ = Field(terms, crf.field_.structure)
    crf.solution_ = solution
    # The bound holds for this batch after the posterior before it; of the rest of the RKHS nothing is known.
    span = Certificate("span", solution.value, solution.lower_bound, True, solution.gap_parts)
    crf._certificates = span, Certificate("rkhs", solution.value, 0.0, False, solution.gap_parts)
    crf.continuation_ = known.learn(crf.field_, data, Workers(crf.n_jobs))
    crf._set_views()
    warn_of_solution(solution, crf.tol, stacklevel=4)


def _refuse_unknown(data: Chains) -> None:
    if data.evidence is not None:
        raise ValueError("partial_fit needs labels that are all known; fit takes partly known ones")
