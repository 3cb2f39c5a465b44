"""The base class of all fields as scikit-learn estimators: how they are fitted, at once or batch by batch.

    fit      learn the reader of the data -> place them -> terms on the sample -> fit_field -> fitted attributes

How data are read, the family of labellings and the terms are those of its structure (structures/structure.py). A
derived class names that, and the form of its answers (``answer_format``). What happens around the solve are steps:
parameters that are left to the data are chosen by that in tuning.py, which a fit of given settings does not have.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.chains import Packed
from kernelfields.data.fingerprints import fingerprint
from kernelfields.data.given_labels import stated_labels
from kernelfields.data.readers import learn_scale
from kernelfields.data.reading import random_generator, readable_again
from kernelfields.estimators import answers as predictions
from kernelfields.estimators import library, questions
from kernelfields.estimators.answering import posterior
from kernelfields.estimators.going_on import decides_as_fitted, note_parameters
from kernelfields.estimators.inspecting import views
from kernelfields.estimators.kept_field import EngineLike, KeptField, blas_limit
from kernelfields.estimators.questions import Data, Reader
from kernelfields.estimators.requested import requested_steps
from kernelfields.estimators.workers import runs_on_workers
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.numerics.parameters import check_callbacks, declares_parameters, parameter
from kernelfields.numerics.threads import blas_threads

if TYPE_CHECKING:
    from kernelfields.models.choices import Settings
    from kernelfields.models.partial import PartialLabels
    from kernelfields.models.placed import FitStep, FittedField
    from kernelfields.solvers.loop import Iteration


def _check_solver(solver: object, name: str) -> None:
    library.check_solver(solver)


@declares_parameters
class FieldEstimator(KeptField[Data, Reader]):
    """A field on labelled data: what fields of sequences, graphs, instances and rows share.

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
    partial_labels: PartialLabels | None = parameter(None, lambda value, name: stated_labels(value))

    # Answers about labels.
    answers = predictions.answers
    predict = predictions.predict
    predict_marginals = predictions.predict_marginals
    predict_variances = predictions.predict_variances
    predict_nbest = questions.predict_nbest
    sample = questions.sample
    entropy = questions.entropy
    log_likelihood = questions.log_likelihood

    # Views, and answers about coefficients.
    weights = views.weights
    explain = views.explain
    summary = views.summary
    certify = posterior.certify
    laplace = posterior.laplace
    sample_coefficients = posterior.sample_coefficients

    def _repr_html_inner(self) -> str:
        """Return the HTML of scikit-learn's ``_repr_html_``; below a fitted estimator is its summary, folded."""
        return super()._repr_html_inner() + (self.summary().folded() if self.__sklearn_is_fitted__() else "")

    def _repr_mimebundle_(self, **settings: object) -> dict[str, str]:
        """Return what a notebook shows, as scikit-learn does."""
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

    def _beginning(self) -> library.Beginning:
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

    def _admit(self, classes: np.ndarray) -> None:
        """Let the field have these classes, the old ones among them: all that depends on labels follows here."""
        if len(classes) == len(self.classes_):
            return
        assert self.continuation_ is not None, "a batch was fitted before"
        growth, terms = library.LabelGrowth.between(self.classes_, classes), self.field_.terms
        extended = self.structure.extended(classes)
        grown = [growth.term(term) for term in terms]
        self.classes_, self._reader, self.field_ = classes, extended.reader, library.Field(grown, extended.spec)
        self.choices_ = self.choices_.with_labels(growth.places, len(classes))
        precisions = growth.precisions(terms, grown, self.continuation_.precisions)
        self.continuation_ = replace(self.continuation_, precisions=precisions)
        self.solution_ = replace(self.solution_, theta=np.concatenate([term.known.ravel() for term in grown]))
        self._set_views()

    # ---- the frame that all fits share

    @runs_on_workers
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
        """Fit the field in ``steps`` around the solve; the frame that every ``fit`` shares."""
        self.check_parameters()
        steps = [*self._steps_of_callbacks(), *steps]
        steps = [*beginning.choosing(self, steps, groups), *steps]
        for step in [*beginning.steps, *steps]:
            step.check(self)
        settled = beginning.settled(self)
        with self._progress() as progress:
            training = settled.fit_state(X, y, sample_weight, progress, beginning, steps=steps)
            progress.choosing()
            with blas_threads(blas_limit(self, training.data.n_positions)):
                for step in [*beginning.steps, *training.run.steps]:
                    step.before(self, training)
                progress.fitting()
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
                    fitted.solution = fitted.solution.within(tolerance)
            self.set_fitted(training, fitted)
        for step in reversed(around):
            step.after(self)
        library.warn_of_fit(fitted, tolerance)
        library.warn_of_inference(fitted.warnings)
        return self

    def _steps_of_callbacks(self) -> Sequence[FitStep]:
        """Return the steps that callbacks have."""
        return [each.step() for each in self.callbacks or () if isinstance(each, library.StepCallback)]

    def fit_state(
        self,
        X: object,
        y: object,
        sample_weight: object,
        progress: library.FitProgress | library.NoProgress,
        beginning: library.Beginning | None = None,
        *,
        steps: Sequence[FitStep] = (),
        every_item: bool = False,
    ) -> library.FitState[Data, Reader]:
        """Return what a fit works on: the data as they are read and scaled, where they go, and how they are fitted.

        Items of weight zero are left out: they lend a basis no pivot and a weight no support.

        Parameters
        ----------
        X : inputs
            The inputs, as for :meth:`fit`.
        y : labels
            The labels, as for :meth:`fit`.
        sample_weight : array (n_items,) or None
            One weight for each sequence, graph or row.
        progress : FitProgress or NoProgress
            What shows progress.
        beginning : Beginning or None, default None
            How the fit begins; None for nothing to go on from.
        steps : sequence of FitStep, default ()
            The steps around the solve.
        every_item : bool, default False
            Whether to keep items of weight zero, for whoever numbers the items.

        Returns
        -------
        FitState
            The state.
        """
        beginning = library.FROM_NOTHING if beginning is None else beginning
        reader, data, classes = beginning.read(self, X, y, sample_weight)
        for step in steps:
            data = step.prepare(self, reader, data)
        if not (every_item or any(step.every_item for step in steps)):
            data = data.weighty()
        spec, engine = self.structure.family(classes, data), self._engine(data)
        random = engine.same_random(random_generator(self.random_state))
        reader, data = library.rewritten(reader, data, beginning.scaling(self, reader, data))
        options = self._fit_options(data, progress, random)
        steps = [*steps, *stated_labels(self.partial_labels).steps(data, classes)]
        run = library.FitRun(engine, self._sample_settings(), options, steps)
        return library.FitState(library.with_usual_choices(self), reader, data, classes, spec, run)

    def _fit_options(
        self, data: Data, progress: library.FitProgress | library.NoProgress, random: np.random.Generator
    ) -> library.FitOptions:
        """Return how data are fitted: the solver, when it ends, and who sees its iterations."""
        enough = 0.0
        if isinstance(self.tol, str):
            weights = data.position_weights
            enough = library.NATS_PER_POSITION * float(data.n_positions if weights is None else weights.sum())
        watch = self._watcher(progress)
        return library.FitOptions(
            self.solver,
            library.resolve_tolerance(self.tol),
            self.max_iter,
            watch,
            random,
            progress.announce,
            enough=enough,
        )

    def _watcher(self, progress: library.FitProgress | library.NoProgress) -> Callable[[Iteration], bool]:
        """Return a function that shows every iteration to the callbacks and to what shows progress."""
        watchers = [*(each for each in self.callbacks or () if each is not progress), progress]
        # A list, not a generator: every watcher sees every iteration, whatever the others return.
        return lambda iteration: True in [watcher(iteration) for watcher in watchers]

    @property
    def _has_learnt_to_decide(self) -> bool:
        """Whether the last fit has learnt what the present way to decide labels needs."""
        return not self.decision_rule.learns(self) or decides_as_fitted(self)

    def _learn_scale(self, reader: Reader, data: Data, *, always: bool) -> ColumnSteps:
        """Return the steps that bring columns to one scale; none if they need none, unless ``always``."""
        return learn_scale(reader, data.own, always=always, ties=self.ties, among=data.processes)

    def _set_chosen(self, settings: Settings) -> None:
        """Take the values of parameters; what is no parameter, as the scale of the data, is elsewhere."""
        for name in settings.keys() & set(self._get_param_names()):
            setattr(self, name, settings[name])

    def set_fitted(self, training: library.FitState[Data, Reader], fitted: FittedField) -> Self:
        """Set the fitted attributes from what a fit has found.

        Parameters
        ----------
        training : FitState
            What the fit works on.
        fitted : FittedField
            What the fit has found.

        Returns
        -------
        Self
            The fitted estimator.
        """
        certificates = (fitted.span, fitted.rkhs) if fitted.family.exact else None
        field, inference = library.Field(fitted.terms, training.spec), library.FittedBy.of(fitted.family)
        self._forget_findings()
        self.choices_, self._repeated = training.estimator.choices_, training.estimator._repeated
        self._fitted_items = fingerprint(training.data) if isinstance(training.data, Packed) else None
        self._lacks_features = False
        note_parameters(self)
        for name, value in self.structure.findings(training).items():
            setattr(self, name, value)
        return self._set_field(training.reader, training.classes, field, inference, fitted.solution, certificates)
