"""Fields that are fitted to labels, at once or batch by batch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.given_labels import stated_labels
from kernelfields.data.label_dictionary import readable_again
from kernelfields.estimators import library
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
    library.check_solver(solver)


@declares_parameters
class LabelledField(FieldEstimator[Data, Reader]):
    """A field that is fitted to labels: what fields of sequences, graphs, instances and rows share.

    Parameters
    ----------
    solver : str, default "auto"
        The optimiser: "newton", "newton-cg", "block-jacobi", "subspace", "lbfgs", "sgd+lbfgs", or "auto" by the size of
        the problem.
    engine : "auto", "threads", "torch", "dask" or Engine, default "auto"
        Where features are kept and the fit runs. "auto" takes a CUDA device for large problems if there is one, else
        threads; docs/engines.md.
    callbacks : list of callables or None, default None
        Functions that see each Iteration; one that returns True stops the fit. A Checkpoint among them writes the
        model.
    warm_start : bool, default False
        Whether a fit starts from the present coefficients, in the present basis; docs/chains.md says what may change
        between fits.
    partial_labels : PartialLabels or None, default None
        What is known beside labels that are partly known; docs/partial_labels.md.
    """

    solver: object = parameter("auto", _check_solver)
    engine: EngineLike = parameter("auto")
    callbacks: Sequence[object] | None = parameter(None, lambda value, name: check_callbacks(value))
    warm_start: bool = parameter(False)
    partial_labels: PartialLabels | None = parameter(None, lambda value, name: stated_labels(value))

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
        """Fit the field to inputs and labels.

        Ctrl-C keeps the best estimate so far, with a warning.

        Parameters
        ----------
        X : list of sequences, list of graphs or table (n, d)
            The inputs; see the package's quickstart for the accepted forms. Dask collections of sequences are fitted
            where they are, see docs/dask.md.
        y : labels
            The labels of each position or node; for rows (n,), for several labels (n, K) of 0 and 1. Segments may also
            be lists of (begin, end, label). Labels may be partly known: None, or sets of possible ones (NaN among 0 and
            1); SegmentCRF then needs ``max_duration``.
        sample_weight : array (n_items,) or None, default None
            One weight for each sequence, graph or row.
        X_dev : inputs or None, default None
            The inputs of a development set. The fit stops after 5 iterations without a gain there, and keeps the best.
        y_dev : labels or None, default None
            The labels of the development set.
        optimize : {"evidence"}, EvidenceSearch or None, default None
            Whether to choose prior variances and kernel parameters by the evidence.
        groups : array (n_items,) or None, default None
            One value for each item, such as a person's name: what is left to the data is judged on groups that were
            held out as a whole.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        TypeError
            If X or y have a form that cannot be read.
        ValueError
            If X and y do not fit together, or a parameter cannot be used.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", None, "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> crf.predict([[[21.0], [10.0]]])
        [['sun', 'rain']]
        """
        keywords = {"optimize": optimize, "X_dev": X_dev, "y_dev": y_dev}
        given = {keyword: value for keyword, value in keywords.items() if value is not None}
        steps = requested_steps(given) if given else []
        return self._fit(X, y, sample_weight, beginning=self._beginning(), steps=steps, groups=groups)

    def fit_in_steps(self, X: object, y: object, sample_weight: object, steps: Sequence[FitStep]) -> Self:
        """Fit the field with further steps around the solve.

        Parameters
        ----------
        X : inputs
            The inputs, as for :meth:`fit`.
        y : labels
            The labels, as for :meth:`fit`.
        sample_weight : array (n_items,) or None
            One weight for each sequence, graph or row.
        steps : sequence of FitStep
            The steps, the outermost first.

        Returns
        -------
        Self
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight, beginning=self._beginning(), steps=steps)

    def _beginning(self) -> Beginning:
        """Return how a fit begins: from the present coefficients, or from nothing."""
        if self.warm_start and self.__sklearn_is_fitted__():
            return library.GoesOn()
        return library.FROM_NOTHING

    def score(
        self, X: object, y: object, sample_weight: ArrayLike | None = None, *, decode: str | None = None
    ) -> float:
        """Return the share of positions whose label is the predicted one.

        Labels that were not in the fit are errors; positions whose label is not known do not count.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        y : labels
            The true labels, in a form that :meth:`fit` takes.
        sample_weight : array (n_items,) or None, default None
            One weight for each sequence, graph or row.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            "viterbi" takes the most probable labelling as a whole, "posterior" the most probable label of each
            position. None means ``decode`` of the estimator.

        Returns
        -------
        float
            The share, between 0 and 1.

        See Also
        --------
        log_likelihood : Return log p(y | x).

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> crf.score([[[21.0], [10.0]]], [["sun", "sun"]])
        0.5
        """
        check_is_fitted(self, "field_")
        return self.answer_format.score(self, X, y, sample_weight, decode)

    # ---- batches, see docs/partial_fit.md

    def partial_fit(
        self, X: object, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit one more batch of items, with the posterior so far as the prior.

        An error leaves the estimator as it was. A Checkpoint among the callbacks is written after each batch, the
        curvature included. See docs/partial_fit.md.

        Parameters
        ----------
        X : inputs
            The inputs of the batch, in a form that :meth:`fit` takes.
        y : labels
            The labels of the batch.
        classes : sequence of labels or None, default None
            All labels there are, or those that are to come; labels that are new in a later batch join them.
        sample_weight : array (n_items,) or None, default None
            One weight for each sequence, graph or row.

        Returns
        -------
        Self
            The fitted estimator.

        See Also
        --------
        fit : Fit to all data at once.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=False, random_state=0)
        >>> crf = crf.partial_fit([np.array([[2.0], [2.1], [1.0]])], [["sun", "sun", "rain"]])
        >>> crf = crf.partial_fit([np.array([[0.9], [1.0], [2.2]])], [["rain", "rain", "sun"]])
        >>> crf.predict([[[2.1], [1.0]]])
        [['sun', 'rain']]
        """

        X, y = readable_again(X), readable_again(y)
        batch = library.NextBatch if self.__sklearn_is_fitted__() else library.FirstBatch
        changed = copy.copy(self)._fit(X, y, sample_weight, beginning=batch(y, classes))
        self.__dict__.update(changed.__dict__)
        return self

    def _all_classes(self, y: Any, classes: ArrayLike | None) -> np.ndarray:
        """Return the classes so far, those of new labels and those that are named."""

        return library.all_classes(self.classes_, self._position_labels(self.training_labels(y)), classes)

    def _admit(self, classes: np.ndarray) -> None:
        """Let the field have these classes, the old ones among them: all that depends on labels follows here."""
        if len(classes) == len(self.classes_):
            return
        assert self.continuation_ is not None, "a batch was fitted before"
        growth, terms = library.LabelGrowth.between(self.classes_, classes), self.field_.terms
        grown = [growth.term(term) for term in terms]
        spec = replace(self.field_.spec, n_labels=len(classes), masks=self._masks(classes))
        self.classes_, self.field_ = classes, library.Field(grown, spec)
        self._reader = self._reader.with_labels(growth.places, len(classes))
        self.choices_ = self.choices_.with_labels(growth.places, len(classes))
        precisions = growth.precisions(terms, grown, self.continuation_.precisions)
        self.continuation_ = replace(self.continuation_, precisions=precisions)
        self.solution_ = replace(self.solution_, theta=np.concatenate([term.known.ravel() for term in grown]))
        self._set_views()
