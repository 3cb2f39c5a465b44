"""FieldSearchCV: an estimator that chooses its kernel, rank and prior variances by cross-validation.

    read all data once -> candidates -> folds -> rungs -> results -> the best one fitted to all

``ChainCRFCV`` is the same search with a ChainCRF by default.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError
from sklearn.utils import Tags, get_tags

from kernelfields.data.cliques import USUAL_RANK
from kernelfields.data.reading import Seed, random_generator
from kernelfields.engines.choice import refuse_collections
from kernelfields.engines.engine import Engine
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.estimators.answering.lengths import cut_by_lengths
from kernelfields.estimators.auto_parameters import (
    beside_categories,
    columns_of_reader,
    has_open_neighbours,
    has_open_windows,
    kernel_of_windows,
    list_suitable_kernels,
    should_standardize,
)
from kernelfields.estimators.base import FieldEstimator, prepare_fit
from kernelfields.estimators.beginning import FROM_NOTHING
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.fit_state import FitState, with_usual_choices
from kernelfields.estimators.graph_crf import GraphCRF
from kernelfields.estimators.kept_field import check_parameters
from kernelfields.estimators.kernel_classifier import KernelClassifier
from kernelfields.estimators.multilabel_crf import MultiLabelCRF
from kernelfields.estimators.ring_crf import RingCRF
from kernelfields.estimators.segment_crf import SegmentCRF
from kernelfields.estimators.sequence_classifier import SequenceClassifier
from kernelfields.estimators.tuning import Tuning
from kernelfields.estimators.workers import distribute_method
from kernelfields.inputs.scale import Scale
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.kernels.registry import has_default_scale
from kernelfields.models.pilot_fit import FALLBACK
from kernelfields.models.stored import Functions, load_any
from kernelfields.models.wrapped_field import (
    FITTED,
    OF_LABELS,
    OF_PROBABILITIES,
    OF_THE_FIT,
    WrappedField,
    forward_questions,
    refuse_questions,
)
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_declared,
    check_verbosity,
    declares_parameters,
    is_auto,
    is_whole,
    parameter,
    resolve_open,
    set_open_parameters,
)
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.wording import inflect
from kernelfields.reports.tables import PlainValues, Table
from kernelfields.selection.candidates import Candidate, Kernels, Searched, find_grid_ends, list_candidates
from kernelfields.selection.folds import Fold, Items, Split, split_items
from kernelfields.selection.results import Evaluation, as_arrays, make_progress, sort_evaluations, tabulate
from kernelfields.selection.scores import Scoring, resolve_scoring
from kernelfields.selection.search import Rung, Search, plan_rungs
from kernelfields.solvers.choice import resolve_tolerance

_SHOWN_ROWS = 20
# What the file of a search may hold.
_SEARCHED = (ChainCRF, RingCRF, SegmentCRF, GraphCRF, MultiLabelCRF, KernelClassifier, SequenceClassifier)
# Items of the first rung: of sequences and graphs, and of single inputs.
_LEAST_ITEMS, _LEAST_ROWS = 20, 100


@refuse_questions(partial_fit="a search compares candidates on all data. Go on with best_estimator_.partial_fit")
@forward_questions(*OF_LABELS, *OF_PROBABILITIES, *OF_THE_FIT, "laplace", *FITTED, "estimator_", like=_SEARCHED)
@declares_parameters
class FieldSearchCV(WrappedField):
    """Choose kernel, rank and prior variances of an estimator by cross-validation, and refit with the best.

    Candidates that differ only in prior variances share the features of their kernel and start from each other's
    coefficients; successive halving compares most of them on little data. Folds consist of whole items: sequences,
    graphs, instances or samples. Around a classifier it is a classifier of scikit-learn, in pipelines and in
    ``cross_val_score``.

    Parameters
    ----------
    estimator : ChainCRF, SegmentCRF, GraphCRF, MultiLabelCRF, KernelClassifier or SequenceClassifier
        The estimator, which holds everything that is not searched. Its callbacks and ``verbose`` count for the last fit
        only.
    kernels : Kernel, str, dict or list of these, optional
        The kernels to try; a dict has one for each type of node. Names stand for grids: "rbf" for five values of gamma
        around "scale", "poly" for degrees 1 to 3. By default the estimator's own kernel, read in the same way.
    prior_variances : sequence of float, default (0.01, 0.1, 1.0, 10.0, 100.0)
        The prior variances to try.
    ranks : list of int or None, optional
        The ranks to try; by default the estimator's own.
    edge_prior_variances : sequence of float, optional
        Prior variances to try for ``edges``: transitions, edges of every type (of a dict, those it names) or log odds
        ratios of pairs of labels, all of them with each of ``prior_variances``. By default the estimator's own, mostly
        the same variance as for the nodes.
    cv : int, splitter or list of (train, test) indices, default 3
        The number of random folds over which items with rare labels are spread, or anything that scikit-learn takes;
        with ``groups``, folds that keep groups together.
    scoring : str or callable (estimator, X, y), default "auto"
        The score, higher is better: "log_likelihood" per token, node, label or sample, which needs exact inference;
        "accuracy"; "entity_f1" for ChainCRF; "micro_f1" and "hamming", the share of right labels, for MultiLabelCRF,
        whose accuracy is the share of instances with all labels right; for classifiers any scorer of scikit-learn.
        "auto" is the log-likelihood, or, if inference is approximate, the accuracy ("hamming" for MultiLabelCRF).
    halving : bool, default True
        Whether most candidates are compared on little data; without it all are compared on all items, as in
        GridSearchCV.
    factor : int, default 3
        From each rung, 1 in ``factor`` candidates goes on to the next, with ``factor`` times as many positions.
    min_items : int, optional
        The least number of training items of a fold in the first rung; by default 20, for single inputs 100.
    refit : bool, default True
        Whether the best candidate is fitted to all items; without it there are no predictions.
    n_jobs : int, optional
        The number of threads; by default that of the estimator.
    random_state : int, Generator, RandomState or None, default None
        The seed of folds and rungs; also of the fields, unless the estimator has one of its own.
    verbose : "auto" or int, default "auto"
        1 shows progress, with the time that is left, and the table. "auto" is one line of progress in a notebook or at
        a prompt, in a search of more than two seconds, and nothing in scripts; 0 shows nothing.

    Attributes
    ----------
    best_estimator_ : estimator
        The estimator fitted to all items; its methods and attributes are those of the search as well.
    best_params_ : dict
        The parameters of the best candidate.
    best_score_ : float
        The mean score of the best candidate.
    best_index_ : int
        The row of the best candidate in ``cv_results_``.
    cv_results_ : dict of arrays
        A row for each candidate and rung, as in HalvingGridSearchCV. ``n_resources`` is the number of training
        positions of a fold; ``n_dropped`` counts held-out items that were not scored because a label of theirs is not
        in the training part of the fold, ``n_unconverged`` fits that stopped short of tol.
    splits_ : list of (train, test) indices
        The folds.
    n_splits_ : int
        The number of folds.
    refit_time_ : float
        The seconds of the last fit.
    interrupted_ : bool
        Whether an interrupt ended the search.

    See Also
    --------
    ChainCRFCV : Searches a ChainCRF.

    References
    ----------
    Jamieson and Talwalkar (2016), Non-stochastic best arm identification and hyperparameter optimization.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import FieldSearchCV, KernelClassifier
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)  # no line divides them
    >>> search = FieldSearchCV(KernelClassifier(), kernels=["linear", "rbf"], prior_variances=[10.0], random_state=0)
    >>> type(search.fit(X, y).best_params_["kernel"]).__name__
    'RBF'
    """

    _inside = "best_estimator_"
    #: The estimator that is searched by default, alone; None for any.
    _searches: ClassVar[type[FieldEstimator] | None] = None

    estimator: Searched | None = parameter(None, first=True)
    kernels: Kernels | Sequence[Kernels] | None = parameter(None)
    prior_variances: Sequence[float] = parameter((0.01, 0.1, 1.0, 10.0, 100.0))
    ranks: Sequence[int | None] | None = parameter(None)
    edge_prior_variances: Sequence[float] | None = parameter(None)
    cv: object = parameter(3)
    scoring: Scoring = parameter("auto")
    halving: bool = parameter(True)
    factor: int = parameter(3)
    min_items: int | None = parameter(None)
    refit: bool = parameter(True)
    n_jobs: int | None = parameter(None)
    random_state: Seed = parameter(None)
    verbose: int | str = parameter("auto", check_verbosity)

    best_estimator_: Searched = attribute()
    best_params_: PlainValues = attribute()

    @distribute_method
    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
    ) -> Self:
        """Search on labelled items, then fit the best candidate to all of them.

        Ctrl-C ends the search: the best candidate so far is fitted, with a warning.

        Parameters
        ----------
        X : list of arrays, or any other form that the estimator takes
            The items.
        y : list of arrays
            Their labels.
        sample_weight : array (n_items,), optional
            The weight of each item, as in the estimator; the log-likelihood and the accuracy weigh held-out items by
            it, or all alike if none has a positive weight.
        groups : array (n_items,), optional
            The groups that the splitter keeps together.
        lengths : array (n_items,) or mask (n_items, T), optional
            The lengths of sequences in one array, as for the estimator.

        Returns
        -------
        FieldSearchCV
            The fitted search itself.

        Raises
        ------
        TypeError
            If the estimator is not one that is searched.
        ValueError
            If a parameter is out of range, or y is missing.
        """
        check_declared(self)
        random = random_generator(self.random_state)
        original = self._check_estimator()
        if isinstance(original.engine, Engine):
            # Processes that search together deal the same items out to their folds.
            random = original.engine.broadcast(random)
        estimator = self._prepare_estimator(original, random)
        noun, advice = get_answer_format(estimator).headings[0], "collect them in a list first, X.compute()"
        refuse_collections(X, y, error=TypeError(f"a search deals {noun}s out to folds in this process: {advice}"))
        if y is None:
            raise ValueError(
                "fit requires y to be passed, but the target y is None; of a table with a column of labels, "
                f"FrameCRF({type(self).__name__}(...)).fit(table) is the search"
            )
        if lengths is not None:
            X, y = cut_by_lengths(get_answer_format(estimator), X, y, lengths)
        X, y = (list(values) if isinstance(values, Iterator) else values for values in (X, y))
        with make_progress(self.verbose) as progress:
            tuning = Tuning(FROM_NOTHING, ())
            training = prepare_fit(estimator, X, y, sample_weight, steps=[tuning], every_item=True)
            y = estimator.structure.training_labels(y)
            kernels = self._resolve_settings(estimator, training, tuning)
            items = Items(estimator, training, X, y, sample_weight)
            self._score_name, scorer = resolve_scoring(self.scoring, estimator, training, items)
            candidates = list_candidates(
                estimator,
                training,
                kernels=kernels,
                prior_variances=self.prior_variances,
                ranks=self.ranks,
                edge_prior_variances=self.edge_prior_variances,
            )
            del training  # one packed copy at a time
            splits = split_items(self.cv, items.labels, groups, random, items.noun, items.X, items.y)
            folds, rungs = self._plan_rungs(items, splits, len(candidates), random)
            search = Search(estimator, items, folds, scorer, progress)
            search.run(candidates, rungs)
        self._set_results(search, candidates, splits, items)
        progress.show(self.table(top=_SHOWN_ROWS))
        self._warn(progress.n_fits, resolve_tolerance(original.tol))
        if self.refit:
            begin = time.perf_counter()
            # Copies, so that changes to the field later do not reach the results.
            params = {name: clone(value, safe=False) for name, value in self.best_params_.items()}
            best = clone(estimator).set_params(**_displayed_parameters(original), **params)
            self.best_estimator_ = best.fit(X, y, sample_weight)
            self.refit_time_ = time.perf_counter() - begin
        return self

    def _check_estimator(self) -> Searched:
        """Return the checked estimator of the search."""
        kind, original = self._searches, self.estimator
        if original is None and kind is not None:
            original = kind()
        if not isinstance(original, kind or Searched):
            wanted = "a field such as ChainCRF()" if kind is None else f"a {kind.__name__}"
            own = type(self).__name__
            raise TypeError(
                f"estimator must be {wanted}, got {original!r:.80}. A pipeline may have {own} as its last step, and a "
                "FrameCRF as its estimator; for other estimators use scikit-learn's GridSearchCV."
            )
        check_parameters(original)
        return original

    def _prepare_estimator(self, original: Searched, random: np.random.Generator) -> Searched:
        """Return a silent copy of the estimator with the settings of the search, without callbacks."""
        # Callbacks may hold what cannot be copied, such as an open file.
        silent = {name: None if name == "callbacks" else 0 for name in _displayed_parameters(original)}
        described = clone(type(original)(**{**original.get_params(deep=False), **silent}))
        if self.n_jobs is not None:
            described.set_params(n_jobs=self.n_jobs)
        if described.random_state is None:
            # One seed for all, so that candidates are compared on the same draws.
            described.set_params(random_state=int(random.integers(2**31)))
        return described

    def _resolve_settings(self, estimator: Searched, training: FitState, tuning: Tuning) -> Kernels | Sequence[Kernels]:
        """Resolve the "auto" values common to all candidates; return the kernels to try."""
        given = estimator.kernel if self.kernels is None else self.kernels
        listed = given if isinstance(given, list | tuple) else [given]
        if not all(map(has_default_scale, listed)):
            tuning.scaling = ColumnSteps()
            set_open_parameters(estimator, {"scale": False})
        if isinstance(estimator, FieldEstimator):
            self._resolve_columns(estimator, training, next(iter(listed), estimator.kernel), tuning)
        else:
            fit = tuning.open_fit(estimator, training)
            fit.take_scale(should_standardize(fit))
        # All folds, and the best field, have the columns that were chosen here.
        set_open_parameters(estimator, columns_of_reader(training.reader))
        suitable: list[Any] = [*list_suitable_kernels(training.reader, training.reader.steps.has_step(Scale))]
        if training.reader.steps.settings.get("window"):
            own = kernel_of_windows(training.reader)[1]
            variance = training.estimator.choices_.chosen.get("categories")
            suitable.append(beside_categories(own, variance) if training.reader.rows.categories else own)
        kernels = resolve_open(estimator.kernel, suitable) if self.kernels is None else self.kernels
        set_open_parameters(estimator, {"kernel": suitable[0], "prior_variance": FALLBACK, "rank": USUAL_RANK})
        if isinstance(estimator, SegmentCRF):
            estimator.max_duration = training.spec.max_duration
        return kernels

    def _resolve_columns(self, estimator: FieldEstimator, training: FitState, kernel: Kernels, tuning: Tuning) -> None:
        """Resolve columns and scaling as a fit of the estimator does."""
        pilot: Any = copy.copy(estimator)
        pilot.kernel = estimator.kernel if is_auto(estimator.kernel) else kernel
        pilot.rank, pilot.prior_variance = USUAL_RANK, "auto"
        fit = tuning.open_fit(pilot, training)
        if (
            fit.scaling
            or has_open_windows(pilot, fit)
            or has_open_neighbours(pilot, fit)
            or training.reader.rows.categories
        ):
            training.estimator = with_usual_choices(pilot)
            tuning.before(pilot, training)

    def _plan_rungs(
        self, items: Items, splits: list[Split], n_candidates: int, random: np.random.Generator
    ) -> tuple[list[Fold], list[Rung]]:
        """Return the folds and the rungs of successive halving."""
        if not is_whole(self.factor) or self.factor < 2:
            raise ValueError(f"factor must be a whole number of at least 2, got {self.factor!r}")
        smallest = self.min_items
        if smallest is None:
            smallest = _LEAST_ROWS if items.tables else _LEAST_ITEMS
        check_count(smallest, "min_items", " or None")
        folds = [Fold(*split, *map(random.permutation, split)) for split in splits]
        if not self.halving:
            return folds, [Rung(n_candidates, None)]
        n_items = min(len(fold.train) for fold in folds)
        n_positions = min(int(items.lengths[fold.train].sum()) for fold in folds)
        return folds, plan_rungs(n_candidates, n_items, n_positions, factor=self.factor, smallest=smallest)

    def _set_results(self, search: Search, candidates: list[Candidate], splits: list[Split], items: Items) -> None:
        self._evaluations: list[Evaluation] = search.evaluations
        self._nouns = items.noun, items.part
        self._notes = find_grid_ends(sort_evaluations(search.evaluations)[0].candidate, candidates)
        self.cv_results_ = as_arrays(search.evaluations)
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.splits_ = list(splits)
        self.n_splits_ = len(splits)
        self.interrupted_ = search.interrupted
        self.__dict__.pop("best_estimator_", None)

    def _warn(self, n_fits: int, tol: float) -> None:
        """Warn of the problems of the search, once for all fits."""
        failed = [evaluation for evaluation in self._evaluations if evaluation.error is not None]
        if failed:
            text = f"{inflect(len(failed), 'candidate')} could not be fitted and stayed out, the first "
            text += f"({failed[0].candidate}) because: {failed[0].error}"
            warn_user(text, FitFailedWarning)
        if short := sum(evaluation.n_unconverged for evaluation in self._evaluations):
            text = f"{short} of {n_fits} fits of the search stopped before tol={tol:g} was reached: "
            text += "raise max_iter of the estimator, or see cv_results_['n_unconverged'] for whom it concerns"
            warn_user(text, ConvergenceWarning)
        if self.interrupted_:
            done = len(self._evaluations) * self.n_splits_
            text = f"the search was interrupted after {done} of {n_fits} fits; the best candidate so far was kept"
            warn_user(text, ConvergenceWarning)

    def table(self, top: int | None = None) -> Table:
        """Return a table of the candidates at their last rung, the best first.

        Parameters
        ----------
        top : int, optional
            The largest number of rows; by default all candidates are listed.

        Returns
        -------
        Table
            The kernel, prior variances and scores of each candidate.

        Raises
        ------
        NotFittedError
            If the search is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import FieldSearchCV, KernelClassifier
        >>> random = np.random.default_rng(0)
        >>> X = random.normal(size=(60, 2))
        >>> search = FieldSearchCV(KernelClassifier("linear"), prior_variances=[1.0, 100.0], random_state=0)
        >>> len(search.fit(X, (X[:, 0] > 0).astype(int)).table())
        2
        """
        if not hasattr(self, "_evaluations"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet. Call 'fit' first.")
        if top is not None:
            check_count(top, "top", " or None")
        return tabulate(self._evaluations, self._score_name.replace("_", " "), *self._nouns, self._notes, top)

    # ---- answers of the best estimator

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the best estimator to a file for its own ``load``, without the search.

        Parameters
        ----------
        path : path
            The file; an old one is replaced.
        """
        self.get_fitted().save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, callables: Functions | None = None) -> Self:
        """Read a best estimator that :meth:`save` wrote, without candidates and scores.

        Parameters
        ----------
        path : path
            The file.
        callables : dict, optional
            Functions by their names, for kernels and other parts of the model that are not data.

        Returns
        -------
        FieldSearchCV
            A search around the estimator.

        Raises
        ------
        ValueError
            If the file is no model, or one of another class.

        Examples
        --------
        >>> from kernelfields import FieldSearchCV, KernelClassifier
        >>> search = FieldSearchCV(KernelClassifier("linear"), prior_variances=[1.0], random_state=0)
        >>> search.fit([[0.0], [1.0]] * 9, ["a", "b"] * 9).save("best.safetensors")
        >>> FieldSearchCV.load("best.safetensors").predict([[1.0]])
        array(['b'], dtype='<U1')
        """
        search = cls()
        search.best_estimator_ = load_any(_SEARCHED if cls._searches is None else [cls._searches], path, callables)
        return search

    def to_be_fitted(self) -> Any:
        """Return the unfitted estimator of the search.

        Returns
        -------
        estimator
            The estimator.
        """
        return self._searches() if self.estimator is None and self._searches is not None else self.estimator

    def get_fitted(self) -> Searched:
        """Return the fitted best estimator.

        Returns
        -------
        estimator
            The estimator.

        Raises
        ------
        NotFittedError
            If there has been no fit, or one with ``refit=False``.
        """
        if not self.__sklearn_is_fitted__():
            searched = "cv_results_" in vars(self)
            advice = "was fitted with refit=False, so it has no fitted field" if searched else "is not fitted yet"
            own = type(self).__name__
            raise NotFittedError(f"this {own} {advice}. Call 'fit' first{', with refit=True' * searched}.")
        return self.best_estimator_

    def __sklearn_tags__(self) -> Tags:
        estimator = self.to_be_fitted()
        return super().__sklearn_tags__() if estimator is None else get_tags(estimator)


def _displayed_parameters(estimator: Searched) -> dict[str, object]:
    """Return the names of the parameters that the display of a fit shows."""
    return {name: value for name, value in estimator.get_params(deep=False).items() if name in ("callbacks", "verbose")}


@declares_parameters
class ChainCRFCV(FieldSearchCV):
    """Choose kernel, rank and prior variances of a ChainCRF by cross-validation, and refit with the best.

    It is :class:`FieldSearchCV` with ``ChainCRF()`` as the default estimator.

    Parameters
    ----------
    estimator : ChainCRF, optional
        The field, which holds everything that is not searched; ``ChainCRF()`` by default. Its callbacks and ``verbose``
        count for the last fit only.
    kernels : Kernel, str or list of these, optional
        The kernels to try. Names stand for grids: "rbf" for five values of gamma around "scale", "poly" for degrees 1
        to 3. By default the estimator's own kernel, read in the same way.
    prior_variances : sequence of float, default (0.01, 0.1, 1.0, 10.0, 100.0)
        The prior variances to try.
    ranks : list of int or None, optional
        The ranks to try; by default the estimator's own.
    edge_prior_variances : sequence of float, optional
        Prior variances of transitions to try, all of them with each of ``prior_variances``; by default the estimator's
        own.
    cv : int, splitter or list of (train, test) indices, default 3
        The number of random folds over which sequences with rare labels are spread, or anything that scikit-learn
        takes; with ``groups``, folds that keep groups together.
    scoring : {"auto", "log_likelihood", "accuracy", "entity_f1"} or callable (estimator, X, y), default "auto"
        The score, higher is better. "auto" is the log-likelihood per position.
    halving : bool, default True
        Whether most candidates are compared on little data; without it all are compared on all sequences.
    factor : int, default 3
        From each rung, 1 in ``factor`` candidates goes on to the next, with ``factor`` times as many positions.
    min_items : int, optional
        The least number of training sequences of a fold in the first rung; 20 by default.
    refit : bool, default True
        Whether the best candidate is fitted to all sequences; without it there are no predictions.
    n_jobs : int, optional
        The number of threads; by default that of the estimator.
    random_state : int, Generator, RandomState or None, default None
        The seed of folds and rungs; also of the fields, unless the estimator has one of its own.
    verbose : "auto" or int, default "auto"
        1 shows progress, with the time that is left, and the table. "auto" is one line of progress in a notebook or at
        a prompt, in a search of more than two seconds, and nothing in scripts; 0 shows nothing.

    Attributes
    ----------
    best_estimator_ : ChainCRF
        The field fitted to all sequences.
    best_params_ : dict
        The parameters of the best candidate.
    best_score_ : float
        The mean score of the best candidate.
    cv_results_ : dict of arrays
        A row for each candidate and rung; see :class:`FieldSearchCV` for further attributes.

    See Also
    --------
    FieldSearchCV : Searches other estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF, ChainCRFCV
    >>> random = np.random.default_rng(0)
    >>> y = [random.integers(2, size=5) for _ in range(30)]
    >>> X = [labels[:, None] + random.normal(size=(5, 1)) for labels in y]
    >>> search = ChainCRFCV(ChainCRF("linear"), prior_variances=[0.001, 1.0], random_state=0).fit(X, y)
    >>> search.best_params_["prior_variance"], search.predict([[[-1.0], [2.0]]])[0]
    (1.0, array([0, 1]))
    """

    _searches = ChainCRF
