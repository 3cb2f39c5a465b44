"""Fields that are fitted to labels, at once or batch by batch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.fingerprints import fingerprint
from kernelfields.data.label_dictionary import LabelDictionary
from kernelfields.data.partial_labels import SoftRows, share_right
from kernelfields.data.reading import random_generator
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.kept_field import EngineLike
from kernelfields.estimators.questions import Data, Reader
from kernelfields.estimators.workers import runs_on_workers
from kernelfields.numerics.parameters import (
    check_callbacks,
    declares_parameters,
    parameter,
)
from kernelfields.numerics.threads import Workers

if TYPE_CHECKING:
    from kernelfields.engines.engine import PackedData
    from kernelfields.inference.choice import FamilySpec
    from kernelfields.models.partial import PartialLabels
    from kernelfields.models.placed import FitStep

# Parameters that may be others in the next batch of partial_fit: they do not describe the field.
_MAY_CHANGE = (
    *("solver", "tol", "max_iter", "dtype", "n_jobs", "engine", "random_state", "verbose", "callbacks"),
    *("class_weight", "warm_start", "partial_labels", "decode", "decision", "inference"),
)


def _check_solver(solver: object, name: str) -> None:
    from kernelfields.solvers.choice import check_solver

    check_solver(solver)


@declares_parameters
class LabelledField(FieldEstimator[Data, Reader]):
    """A field that is fitted to labels: what those of sequences, graphs, instances and single inputs share."""

    solver: object = parameter("auto", _check_solver)
    engine: EngineLike = parameter("auto")
    callbacks: Sequence[object] | None = parameter(None, lambda value, name: check_callbacks(value))
    warm_start: bool = parameter(False)
    partial_labels: PartialLabels | None = parameter(None)

    def fit(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        X_dev: object = None,
        y_dev: object = None,
        optimize: object = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the field to inputs X and labels y; Ctrl-C keeps the best estimate so far and warns.

        Parameters
        ----------
        X : list of sequences, list of graphs, or table (n, d) of single inputs, dense or sparse
            See the package's quickstart for the accepted forms. Dask collections of sequences are fitted where they
            are, see docs/dask.md.
        y : the labels of each position or node, of single inputs (n,), of several labels (n, K) of 0 and 1
            Segments may also be written as lists of (begin, end, label) for each sequence. Labels may be partly known:
            None, or sets of possible ones (NaN among 0 and 1); SegmentCRF then needs ``max_duration``.
        sample_weight : one weight for each sequence, graph or single input
        X_dev, y_dev : a development set
            The fit stops when it has not improved for 5 iterations, and keeps what was best there.
        optimize : "evidence", an EvidenceSearch or None, default None
            Chooses prior variances and kernel parameters by the evidence.
        groups : one value for each sequence, graph or single input, such as a person's name
            What is left to the data is judged on groups that were held out as a whole.
        """
        steps: list[FitStep] = []
        if optimize is not None:
            from kernelfields.posterior.evidence.step import LargestEvidence

            steps.append(LargestEvidence(optimize))
        if X_dev is not None or y_dev is not None:
            from kernelfields.models.development import DevelopmentSet

            steps.append(DevelopmentSet(X_dev, y_dev))
        return self._fit(X, y, sample_weight, steps=steps, groups=groups)

    def fit_in_steps(self, X: object, y: object, sample_weight: object, steps: Sequence[FitStep]) -> Self:
        """Fit with steps of a wrapper around the solve; see models/placed.py."""
        return self._fit(X, y, sample_weight, steps=steps)

    @property
    def _continues(self) -> bool:
        return bool(self.warm_start) and self.__sklearn_is_fitted__()

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the share of positions whose label is the predicted one.

        ``sample_weight`` holds one weight for each sequence or graph. Labels that were never learnt are errors;
        positions whose label is not known do not count.
        """
        check_is_fitted(self, "field_")
        lengths = self.read_data(X).lengths
        return share_right(y, self.classes_, lengths, lambda: self.predict(X, decode), sample_weight, self.item_names)

    # ---- batches, see docs/partial_fit.md

    def partial_fit(
        self, X: object, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one more batch of items, the posterior of those before as its prior; see docs/partial_fit.md.

        An error leaves the estimator as it was. A Checkpoint among the callbacks is written after each batch, the
        curvature included.
        """
        changed, steps = copy.copy(self), self._steps_of_callbacks()
        for step in steps:
            step.check(self)
        if not self.__sklearn_is_fitted__():
            changed._fit_first_batch(X, y, sample_weight)
            if classes is not None:
                changed._admit(changed._all_classes(y, classes))
        else:
            self._check_continues()
            changed._admit(self._all_classes(y, classes))
            changed._fit_next_batch(X, y, sample_weight)
        self.__dict__.update(changed.__dict__)
        self.laplace_ = None
        for step in steps:
            step.after(self)
        return self

    def _all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        """Return the classes so far, those of new labels and those that are named."""
        from kernelfields.models.continuation import all_classes

        return all_classes(self.classes_, self._position_labels(self.training_labels(y)), classes)

    def _described(self) -> dict[str, str]:
        """Return what must not change from batch to batch."""
        own = self.get_params(deep=False)
        return {name: _described_value(value) for name, value in own.items() if name not in _MAY_CHANGE}

    def _fit_first_batch(self, X: object, y: object, sample_weight: object) -> None:
        from kernelfields.models.continuation import Continuation

        self.check_parameters()
        if self.ties is not None:
            raise ValueError("partial_fit keeps the curvature of labels that share no weights: leave out ties")
        for name, given in self.get_params().items():
            if name.endswith("prior_variance") and np.inf in (given if isinstance(given, list | tuple) else [given]):
                raise ValueError(f"partial_fit needs a Gaussian prior: {name} is infinite")
        self._fit(X, y, sample_weight)
        known = Continuation.begin(self.field_.terms)
        data = self._read_fitted(X, y, sample_weight)
        _refuse_unknown(data)
        self.continuation_ = known.learn(self.field_, data, Workers(self.n_jobs))
        self.continuation_.settings = self._described()

    def _check_continues(self) -> None:
        if self.continuation_ is None:
            raise ValueError(
                "partial_fit goes on from batches that it fitted itself, whose curvature it keeps: begin with it, on a "
                "clone(estimator), instead of fit"
            )
        present = self._described()
        for name, before in self.continuation_.settings.items():
            if present.get(name, before) != before:
                raise ValueError(
                    f"{name} was {before:.200} in the first batch and is {present[name]:.200}: set it back, or fit "
                    "afresh"
                )

    def _admit(self, classes: np.ndarray) -> None:
        """Let the field have these classes, the old ones among them."""
        from kernelfields.models.continuation import with_labels
        from kernelfields.models.field import Field

        if len(classes) == len(self.classes_):
            return
        places, terms = np.searchsorted(classes, self.classes_), self.field_.terms
        grown = with_labels(terms, places, len(classes))
        assert self.continuation_ is not None, "a batch was fitted before"
        self.continuation_ = self.continuation_.with_labels(grown, places, len(classes))
        self._reader = self._reader.with_labels(places, len(classes))
        self.classes_ = classes
        self.field_ = Field(grown, self._spec_for(classes))
        self._set_views()

    def _spec_for(self, classes: np.ndarray) -> FamilySpec:
        """Return what decides the family of labellings of the fitted field, if it had these classes."""
        return replace(self.field_.spec, n_labels=len(classes))

    def _read_batch(self, X: object, y: object, sample_weight: object) -> Data:
        """Return the data of one more batch, as the field reads those of a fit."""
        return self._read_fitted(X, y, sample_weight)

    @runs_on_workers
    def _fit_next_batch(self, X: object, y: object, sample_weight: object) -> None:
        from kernelfields.models.continuation import fit_continued, with_pivots
        from kernelfields.models.field import Field
        from kernelfields.models.fit import warn_of_solution
        from kernelfields.objective.bounds import Certificate

        data = self._read_batch(X, y, sample_weight)
        _refuse_unknown(data)
        terms = with_pivots(self.field_.terms, data)
        assert self.continuation_ is not None, "a batch was fitted before"
        known = self.continuation_.grown(terms)
        settings = self._sample_settings(sum(not term.tied_everywhere for term in terms))
        sample = self._engine(data).place(data, self.field_.spec, settings)
        random = random_generator(self.random_state)
        with self._progress() as progress:
            options = self._fit_options(data, progress, random)
            terms, solution = fit_continued(terms, known, sample, options)
        self.field_ = Field(terms, self.field_.spec)
        self.solution_ = solution
        # The bound holds for this batch after the posterior before it; of the rest of the RKHS nothing is known.
        span = Certificate("span", solution.value, solution.lower_bound, True, solution.gap_parts)
        rkhs = Certificate("rkhs", solution.value, 0.0, False, solution.gap_parts)
        self._certificates = None if self._certificates is None else (span, rkhs)
        self.continuation_ = known.learn(self.field_, data, Workers(self.n_jobs))
        if self._fitted_items is not None:
            self._fitted_items = self._fitted_items.joined(fingerprint(data))
        self._set_views()
        warn_of_solution(solution, self.relative_tolerance, stacklevel=4)


def _described_value(value: Any) -> str:
    if not isinstance(value, LabelDictionary):
        return repr(value)
    # scikit-learn shortens the representation of a dictionary of many words.
    return f"{type(value).__name__}({value.get_params(deep=False)})"


def _refuse_unknown(data: PackedData) -> None:
    if data.partial is not None and not isinstance(data.partial, SoftRows):
        raise ValueError("partial_fit needs labels that are all known, or SoftTargets; fit takes partly known ones")
