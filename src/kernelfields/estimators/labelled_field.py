"""Fields that are fitted to labels, at once or batch by batch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.label_dictionary import readable_again
from kernelfields.data.partial_labels import share_right
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.kept_field import EngineLike
from kernelfields.estimators.questions import Data, Reader
from kernelfields.estimators.requested import requested_steps
from kernelfields.numerics.parameters import (
    check_callbacks,
    declares_parameters,
    parameter,
)

if TYPE_CHECKING:
    from kernelfields.estimators.beginning import Beginning
    from kernelfields.models.partial import PartialLabels
    from kernelfields.models.placed import FitStep


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
        steps = requested_steps({"optimize": optimize, "X_dev": X_dev, "y_dev": y_dev})
        return self._fit(X, y, sample_weight, beginning=self._beginning(), steps=steps, groups=groups)

    def fit_in_steps(self, X: object, y: object, sample_weight: object, steps: Sequence[FitStep]) -> Self:
        """Fit with steps of a wrapper around the solve; see models/placed.py."""
        return self._fit(X, y, sample_weight, beginning=self._beginning(), steps=steps)

    def _beginning(self) -> Beginning:
        """Return how a fit begins: from the present coefficients, or from nothing."""
        if self.warm_start and self.__sklearn_is_fitted__():
            from kernelfields.estimators.later_fits import GoesOn

            return GoesOn()
        from kernelfields.estimators.beginning import FROM_NOTHING

        return FROM_NOTHING

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
        from kernelfields.estimators.later_fits import FirstBatch, NextBatch

        X, y = readable_again(X), readable_again(y)
        batch = NextBatch if self.__sklearn_is_fitted__() else FirstBatch
        changed = copy.copy(self)._fit(X, y, sample_weight, beginning=batch(y, classes))
        self.__dict__.update(changed.__dict__)
        return self

    def _all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        """Return the classes so far, those of new labels and those that are named."""
        from kernelfields.models.continuation import all_classes

        return all_classes(self.classes_, self._position_labels(self.training_labels(y)), classes)

    def _admit(self, classes: np.ndarray) -> None:
        """Let the field have these classes, the old ones among them: all that depends on labels follows here."""
        from kernelfields.models.field import Field
        from kernelfields.models.label_growth import LabelGrowth

        if len(classes) == len(self.classes_):
            return
        assert self.continuation_ is not None, "a batch was fitted before"
        growth, terms = LabelGrowth.between(self.classes_, classes), self.field_.terms
        grown = [growth.term(term) for term in terms]
        spec = replace(self.field_.spec, n_labels=len(classes), masks=self._masks(classes))
        self.classes_, self.field_ = classes, Field(grown, spec)
        self._reader = self._reader.with_labels(growth.places, len(classes))
        self.choices_ = self.choices_.with_labels(growth.places, len(classes))
        precisions = growth.precisions(terms, grown, self.continuation_.precisions)
        self.continuation_ = replace(self.continuation_, precisions=precisions)
        self.solution_ = replace(self.solution_, theta=np.concatenate([term.known.ravel() for term in grown]))
        self._set_views()
