"""The base class of all fields as scikit-learn estimators, with fits at once or batch by batch.

    fit      learn the reader of the data -> place them -> terms on the sample -> fit_field -> fitted attributes

How data are read, the family of labellings and the terms are those of its structure (structures/structure.py). A
derived class names that, and the form of its answers (``_answer_format``). What happens around the solve are steps:
parameters that are left to the data are chosen by that in tuning.py, which a fit of given settings does not have.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.chains import Packed
from kernelfields.data.fingerprints import fingerprint
from kernelfields.data.given_labels import resolve_partial_labels
from kernelfields.data.reading import materialize_iterator, random_generator
from kernelfields.estimators import answering, library, methods
from kernelfields.estimators import answers as predictions
from kernelfields.estimators.going_on import note_parameters
from kernelfields.estimators.kept_field import EngineLike, KeptField, blas_limit, check_parameters
from kernelfields.estimators.workers import distribute_method
from kernelfields.numerics.lazy import defer
from kernelfields.numerics.parameters import check_callbacks, declares_parameters, parameter
from kernelfields.numerics.threads import blas_threads
from kernelfields.numerics.user_warnings import should_show_progress
from kernelfields.structures.structure import Data, Reader

if TYPE_CHECKING:
    from kernelfields.models.partial import PartialLabels
    from kernelfields.models.placed import FitStep, FittedField


Estimator = TypeVar("Estimator", bound="FieldEstimator[Any, Any]")


def _check_solver(solver: object, name: str) -> None:
    library.check_solver(solver)


@declares_parameters
class FieldEstimator(KeptField[Data, Reader]):
    """A field on labelled data: the common part of fields of sequences, graphs, instances and rows.

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
    callbacks: Sequence[Callable[..., Any]] | None = parameter(None, lambda value, name: check_callbacks(value))
    warm_start: bool = parameter(False)
    partial_labels: PartialLabels | None = parameter(None, lambda value, name: resolve_partial_labels(value))

    # Answers about labels.
    predict = predictions.predict
    answers = defer(lambda: methods.answers)
    predict_marginals = defer(lambda: methods.predict_marginals)
    predict_variances = defer(lambda: methods.predict_variances)
    predict_nbest = defer(lambda: methods.predict_nbest)
    sample = defer(lambda: methods.sample)
    entropy = defer(lambda: methods.entropy)
    log_likelihood = defer(lambda: methods.log_likelihood)

    # Views, and answers about coefficients.
    weights = defer(lambda: methods.weights)
    explain = defer(lambda: methods.explain)
    summary = defer(lambda: methods.summary)
    certify = defer(lambda: methods.certify)
    laplace = defer(lambda: methods.laplace)
    sample_coefficients = defer(lambda: methods.sample_coefficients)

    @property
    def plot(self) -> library.Plots:
        """Pictures of the fitted field, a method for each.

        ``plot.labels(x)``, ``plot.transitions()``, ``plot.convergence()``, ``plot.calibration(X, y)`` and
        ``plot.learning_curve(X, y, X_test, y_test)``.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> crf = ChainCRF(prior_variance=1.0, random_state=0).fit([["Ada", "slept"]], [["B-PER", "O"]])
        >>> crf.plot
        pictures of a ChainCRF: calibration, convergence, labels, learning_curve, transitions
        """
        self._field()
        return library.Plots(self)

    def _repr_html_inner(self) -> str:
        """Return the HTML of scikit-learn's ``_repr_html_`` and a folded summary of a fitted estimator."""
        return super()._repr_html_inner() + (self.summary().fold() if self.__sklearn_is_fitted__() else "")

    def _repr_mimebundle_(self, **settings: object) -> dict[str, str]:
        """Return the representations for notebooks, as scikit-learn does."""
        bundle = super()._repr_mimebundle_(**settings)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

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
        lengths: ArrayLike | None = None,
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
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences that are one array: all positions end to end, X (N, d) and y (N,), or padded, X (n,
            T, d) and y (n, T), for which it may be a mask of the positions that count.

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
        if lengths is not None:
            X, y = answering.cut_by_lengths(self._answer_format, X, y, lengths)
        keywords = {"optimize": optimize, "X_dev": X_dev, "y_dev": y_dev}
        given = {keyword: value for keyword, value in keywords.items() if value is not None}
        steps = library.requested_steps(given) if given else []
        return self._fit(X, y, sample_weight, beginning=self._beginning(), steps=steps, groups=groups)

    def _beginning(self) -> library.Beginning:
        """Return the beginning of a fit: from the present coefficients, or from zero."""
        if self.warm_start and self.__sklearn_is_fitted__():
            return library.GoesOn()
        return library.FROM_NOTHING

    def score(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        decode: str | None = None,
        lengths: ArrayLike | None = None,
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
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

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
        if lengths is not None:
            X, y = answering.cut_by_lengths(self._answer_format, X, y, lengths)
        return self._answer_format.score(self, X, y, sample_weight, decode)

    # ---- batches, see docs/partial_fit.md

    def partial_fit(
        self,
        X: object,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
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
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

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
        if lengths is not None:
            X, y = answering.cut_by_lengths(self._answer_format, X, y, lengths)
        X, y = materialize_iterator(X), materialize_iterator(y)
        batch = library.NextBatch if self.__sklearn_is_fitted__() else library.FirstBatch
        changed = copy.copy(self)._fit(X, y, sample_weight, beginning=batch(X, y, classes))
        self.__dict__.update(changed.__dict__)
        return self

    # ---- the frame that all fits share

    @distribute_method
    def _fit(
        self,
        X: object,
        y: object,
        sample_weight: object = None,
        *,
        beginning: library.Beginning,
        steps: Sequence[FitStep] = (),
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the field in ``steps`` around the solve; every kind of fit runs this frame."""
        check_parameters(self)
        if self.callbacks or should_show_progress(self.verbose):
            steps = [*library.make_observing_steps(self), *steps]
        steps = [*beginning.choosing_steps(self, steps, groups), *steps]
        for step in [*beginning.steps, *steps]:
            step.check(self)
        settled = beginning.settle_estimator(self)
        with ExitStack() as opened:
            for step in steps:
                opened.enter_context(step.open_context())
            training = prepare_fit(settled, X, y, sample_weight, beginning, steps=steps)
            with blas_threads(blas_limit(self, training.data.n_positions)):
                for step in [*beginning.steps, *training.run.steps]:
                    step.before(self, training)
                chosen = training.estimator
                cliques = beginning.cliques(chosen, training)
                sample = training.place(training.data, cliques)
                designs, start = beginning.terms(chosen, training, sample, cliques)
                options = self.structure.final_options(training, designs)
                # The beginning is innermost: the others see the field that it makes of what the solver finds.
                around = [*training.run.steps, *beginning.steps]
                fitted = library.fit_field(designs, sample, options, start=start, steps=around)
                tolerance = library.resolve_tolerance(self.tol)
                if options.tol < tolerance:
                    fitted.solution = fitted.solution.with_tolerance(tolerance)
            self._keep_fitted(training, fitted)
        for step in reversed(around):
            step.after(self)
        if not fitted.is_accurate(tolerance):
            library.warn_of_fit(fitted, tolerance)
        return self

    def _prepare_fit(
        self,
        X: object,
        y: object,
        sample_weight: object,
        beginning: library.Beginning | None = None,
        *,
        steps: Sequence[FitStep] = (),
        every_item: bool = False,
    ) -> library.FitState[Data, Reader]:
        """Return the state of a fit; see ``prepare_fit``."""
        beginning = library.FROM_NOTHING if beginning is None else beginning
        reader, data, classes = beginning.read(self, X, y, sample_weight)
        for step in steps:
            data = step.prepare(self, reader, data)
        if not (every_item or any(step.every_item for step in steps)):
            data = data.drop_weightless()
        spec, engine = self.structure.family(classes, data), self._engine(data)
        random = engine.broadcast(random_generator(self.random_state))
        reader, data = library.add_steps(reader, data, beginning.scaling_steps(self, reader, data))
        options = self._fit_options(data, random)
        for step in steps:
            options = step.with_observers(options)
        steps = [*steps, *resolve_partial_labels(self.partial_labels).steps(data, classes)]
        run = library.FitRun(engine, self._sample_settings(), options, steps)
        return library.FitState(library.with_usual_choices(self), reader, data, classes, spec, run)

    def _fit_options(self, data: Data, random: np.random.Generator) -> library.FitOptions:
        """Return the solver and the stopping rule."""
        enough = 0.0
        if isinstance(self.tol, str):
            weights = data.position_weights
            enough = library.NATS_PER_POSITION * float(data.n_positions if weights is None else weights.sum())
        tol = library.resolve_tolerance(self.tol)
        return library.FitOptions(self.solver, tol, self.max_iter, random=random, enough=enough)

    def _keep_fitted(self, training: library.FitState[Data, Reader], fitted: FittedField) -> Self:
        """Set the fitted attributes from the result of a fit."""
        certificates = (fitted.span, fitted.rkhs) if fitted.family.exact else None
        field, inference = library.Field(fitted.terms, training.spec), library.FittedBy.describe(fitted.family)
        self.choices_, self._repeated = training.estimator.choices_, training.estimator._repeated
        self._fitted_items = fingerprint(training.data) if isinstance(training.data, Packed) else None
        note_parameters(self)
        return self._set_field(training.reader, training.classes, field, inference, fitted.solution, certificates)


def prepare_fit(
    estimator: Any,
    X: object,
    y: object,
    sample_weight: object,
    beginning: library.Beginning | None = None,
    *,
    steps: Sequence[FitStep] = (),
    every_item: bool = False,
) -> library.FitState[Any, Any]:
    """Prepare a fit: read and scale the data, choose the engine and the options.

    Items of weight zero are left out unless ``every_item``, for whoever numbers the items: they lend a basis no pivot
    and a weight no support.
    """
    begun = {} if beginning is None else {"beginning": beginning}
    return estimator._prepare_fit(X, y, sample_weight, **begun, steps=steps, every_item=every_item)


def fit_in_steps(
    field: Estimator,
    X: object,
    y: object,
    sample_weight: object,
    steps: Sequence[FitStep],
    groups: ArrayLike | None = None,
) -> Estimator:
    """Fit a field with further steps around the solve, the outermost first; ``groups`` are groups of items."""
    return field._fit(X, y, sample_weight, beginning=field._beginning(), steps=steps, groups=groups)
