"""FieldSearch: what the searches of all estimators share, from the grid to the last fit.

    read all data once -> candidates -> folds -> rungs -> ends of the grid -> results -> the best one fitted to all

A search derives from it and says what is its own: its estimator, how its data are cut into parts, its scores.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError

from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.settling import Training, suitable_kernels
from kernelfields.fields.reading import random_generator
from kernelfields.inference.beliefs import GraphInference
from kernelfields.kernels.registry import has_no_scale
from kernelfields.models.build import NamedCliques
from kernelfields.models.rehearsal import FALLBACK
from kernelfields.numerics.parameters import check_count, is_auto, is_whole
from kernelfields.selection.candidates import Candidate, list_candidates
from kernelfields.selection.folds import Fold, Split, order_folds, split_items
from kernelfields.selection.results import Evaluation, SearchProgress, SearchTable, Words, as_arrays, tabulate
from kernelfields.selection.scores import ScorerMaker, check_partly_known, resolve_scoring
from kernelfields.selection.search import Rung, Search, count_candidates, plan_rungs
from kernelfields.selection.training_data import TrainingData, piece_length

_SHOWN_ROWS = 20
#: What stands for a score that has to be chosen: the first one, or another where inference is approximate.
AUTO = "auto"


class FieldSearch(BaseEstimator):
    """An estimator that chooses its kernel, rank and prior variances by cross-validation; see the module."""

    #: The estimator that is searched, its data, and the parameter that says how small the first rung may be.
    _estimator_class: ClassVar[type[FieldEstimator]]
    _data_class: ClassVar[type[TrainingData]]
    _least_parameter: ClassVar[str]
    _least: ClassVar[int] = 20
    #: Scores by name, the usual one first, and the one for approximate inference.
    _scores: ClassVar[Mapping[str, ScorerMaker]]
    _approximate_score: ClassVar[str] = "accuracy"
    _takes_scorers: ClassVar[bool] = False

    estimator: Any
    kernels: Any
    prior_variances: Any
    ranks: Any
    edge_prior_variances: Any = None
    cv: Any
    scoring: Any
    halving: bool
    factor: int
    extend: bool
    refit: bool
    n_jobs: int | None
    random_state: Any
    verbose: int

    # ---- hooks

    def _view(self, estimator: Any, data: Any) -> Any:
        """Return the inputs (N, d) that kernels of the nodes see."""
        return data.inputs

    def _clique_sets(self, estimator: Any, training: Training) -> NamedCliques:
        """Return the named clique sets that an estimator describes."""
        return estimator._cliques(training)

    def _inference(self, estimator: Any, training: Training) -> GraphInference | None:
        """Return how labels are inferred; None where that is exact, or not known before a fit."""
        return None

    # ---- the search

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Search on X with labels y, in any form that the estimator takes, then fit the best candidate.

        ``sample_weight`` is for the fits, as in the estimator; scores are not weighted. ``groups`` goes to the
        splitter. Ctrl-C ends the search: the best candidate so far is fitted, and a warning says so.
        """
        random = random_generator(self.random_state)
        given = self._given()
        estimator = self._described(given, random)
        X, y = self._data_class.kept(X), self._data_class.kept(y)
        training = estimator._training(X, y, sample_weight, estimator._progress())
        kernels = self._settle(estimator, training)
        data = self._data_class(X, y, sample_weight, training)
        self._score_name = self._resolved_score(estimator, training)
        if data.partly:
            check_partly_known(self._score_name)
        scorer = resolve_scoring(
            self._score_name, estimator, data.classes, self._scores, of_scikit_learn=self._takes_scorers
        )
        candidates = self._candidates(estimator, data, training, kernels)
        del training  # one packed copy at a time
        splits = split_items(self.cv, data, groups, random)
        smallest = self._smallest_rung()
        self._cut_long(estimator, data, splits, len(candidates), smallest)
        folds = order_folds(splits, data.units, random)
        rungs = self._rungs(len(candidates), folds, data, smallest)
        search = Search(estimator, data, folds, scorer)
        n_fits, work = len(folds) * sum(rung.n_candidates for rung in rungs), search.work(candidates, rungs)
        with SearchProgress(bool(self.verbose), n_fits, work) as progress:
            search.run(candidates, rungs, progress, bool(self.extend))
        self._set_results(search, splits)
        progress.show(self.table(top=_SHOWN_ROWS))
        self._warn(progress.n_fits)
        if self.refit:
            begin = time.perf_counter()
            # Copies, so that changes to the field later do not reach the results.
            params = {name: clone(value, safe=False) for name, value in self.best_params_.items()}
            best = clone(estimator).set_params(callbacks=given.callbacks, verbose=given.verbose, **params)
            self.best_estimator_: Any = best.fit(data.X, data.y, sample_weight)
            self.refit_time_ = time.perf_counter() - begin
        return self

    def _given(self) -> Any:
        """Return the estimator to start from, checked."""
        kind, own = self._estimator_class, type(self).__name__
        given = kind() if self.estimator is None else self.estimator
        if not isinstance(given, kind):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise TypeError(
                f"estimator must be {article} {kind.__name__}, got {given!r:.80}. A pipeline may have {own} as its "
                "last step; for other estimators use scikit-learn's GridSearchCV."
            )
        given._check_parameters()
        return given

    def _described(self, given: FieldEstimator, random: np.random.Generator) -> Any:
        """Return a copy of the estimator with the settings of the search, silent and without callbacks."""
        # Callbacks may hold what cannot be copied, such as an open file.
        described = clone(type(given)(**{**given.get_params(deep=False), "callbacks": None, "verbose": 0}))
        if self.n_jobs is not None:
            described.set_params(n_jobs=self.n_jobs)
        if described.random_state is None:
            # One seed for all, so that candidates are compared on the same draws.
            described.set_params(random_state=int(random.integers(2**31)))
        return described

    def _settle(self, estimator: Any, training: Training) -> Any:
        """Settle what the estimator leaves to the data, once for all candidates; return the kernels to try."""
        kernels = self.kernels
        if is_auto(estimator.kernel):
            suitable = suitable_kernels(training.reader)
            estimator.kernel = suitable[0]
            kernels = suitable if kernels is None else kernels
        if is_auto(estimator.scale):
            listed = (
                kernels if isinstance(kernels, list | tuple) else [estimator.kernel if kernels is None else kernels]
            )
            estimator.scale = training.reader.is_scaled and all(map(has_no_scale, listed))
        if is_auto(estimator.prior_variance):
            estimator.prior_variance = FALLBACK
        return kernels

    def _resolved_score(self, estimator: Any, training: Training) -> Any:
        """Return the score that "auto" means here; ValueError for one that approximate inference does not have."""
        usual = next(iter(self._scores))
        if self.scoring not in (AUTO, usual) or callable(self.scoring):
            return self.scoring
        inference = self._inference(estimator, training)
        if inference is None or inference.exact:
            return usual
        if self.scoring == AUTO:
            return self._approximate_score
        raise ValueError(
            f"scoring={usual!r} needs exact inference, and these graphs are inferred by {inference.method!r}, which is "
            f"approximate: use scoring={self._approximate_score!r}, or an exact method if there is time for it"
        )

    def _candidates(self, estimator: Any, data: TrainingData, training: Training, kernels: Any) -> list[Candidate]:
        def view(kernel: str) -> Any:
            # Read once more: an estimator may see its inputs otherwise for another kernel.
            named = clone(estimator).set_params(kernel=kernel)
            return self._view(named, named._training(data.X, data.y, data.weights, named._progress()).data)

        return list_candidates(
            estimator,
            view,
            lambda described: self._clique_sets(described, training),
            kernels=kernels,
            prior_variances=self.prior_variances,
            ranks=self.ranks,
            edge_prior_variances=self.edge_prior_variances,
        )

    def _smallest_rung(self) -> int:
        """Return how many units the first rung has at least, once the settings of the rungs are checked."""
        if not is_whole(self.factor) or self.factor < 2:
            raise ValueError(f"factor must be a whole number of at least 2, got {self.factor!r}")
        least = getattr(self, self._least_parameter)
        if least is not None:
            check_count(least, self._least_parameter, " or None")
        return self._least if least is None else int(least)

    def _cut_long(
        self, estimator: Any, data: TrainingData, splits: list[Split], n_candidates: int, smallest: int
    ) -> None:
        """Cut long items into pieces where the first rung needs more units than there are items."""
        if not self.halving:
            return
        wanted = smallest * int(self.factor) ** (len(count_candidates(n_candidates, int(self.factor))) - 1)
        train = min((train for train, _ in splits), key=len)
        length = piece_length(int(data.lengths[train].sum()), len(train), wanted)
        if length is not None:
            data.cut(length, getattr(estimator, "constraints", None))

    def _rungs(self, n_candidates: int, folds: list[Fold], data: TrainingData, smallest: int) -> list[Rung]:
        if not self.halving:
            return [Rung(n_candidates, None)]
        n_units = min(len(fold.train_order) for fold in folds)
        n_positions = min(int(data.lengths[fold.train].sum()) for fold in folds)
        return plan_rungs(n_candidates, n_units, n_positions, factor=int(self.factor), smallest=smallest)

    # ---- results

    def _set_results(self, search: Search, splits: list[Split]) -> None:
        self._evaluations: list[Evaluation] = search.evaluations
        self._notes = _notes(search, bool(self.extend))
        self._open_ends = [end.words for end in search.ends if self.extend and not search.interrupted]
        self.cv_results_ = as_arrays(search.evaluations)
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_: dict[str, Any] = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.splits_ = list(splits)
        self.n_splits_ = len(splits)
        self.interrupted_ = search.interrupted
        self.__dict__.pop("best_estimator_", None)

    def _warn(self, n_fits: int) -> None:
        """Say what went wrong in the search, once for all fits."""
        failed = [each for each in self._evaluations if each.error is not None]
        if failed:
            text = f"{len(failed)} candidates could not be fitted and were left out, the first "
            text += f"({failed[0].candidate.words}) because: {failed[0].error}"
            warnings.warn(text, FitFailedWarning, stacklevel=3)
        if short := sum(each.n_unconverged for each in self._evaluations):
            text = f"{short} of {n_fits} fits of the search stopped before tol={self._given().tol:g} was reached: "
            text += "raise max_iter of the estimator, or see cv_results_['n_unconverged'] for whom it concerns"
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        if self.interrupted_:
            done = len(self._evaluations) * self.n_splits_
            text = f"the search was interrupted after {done} of {n_fits} fits; the best candidate so far was kept"
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        for words in self._open_ends:
            text = f"{words}, which was extended as far as it goes by itself: give values beyond it"
            warnings.warn(text, UserWarning, stacklevel=3)

    def table(self, top: int | None = None) -> SearchTable:
        """Return the candidates, the best first, each as far as it came; ``top`` limits the number of rows."""
        if not hasattr(self, "_evaluations"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet. Call 'fit' first.")
        if top is not None:
            check_count(top, "top", " or None")
        name = self._score_name
        scoring = name if isinstance(name, str) else getattr(name, "__name__", "score")
        data = self._data_class
        return tabulate(self._evaluations, Words(scoring.replace("_", " "), data.noun, data.counted, self._notes), top)

    # ---- answers of the best estimator

    def predict(self, X: Any, *, known: Any = None) -> Any:
        """Return the labels that the best estimator gives X; see its own ``predict``."""
        return self._best().predict(X, known=known)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the best estimator, whatever ``scoring`` chose it; see its own ``score``."""
        return self._best().score(X, y, sample_weight)

    def save(self, path: str | os.PathLike) -> None:
        """Write the best estimator to one file of data, for its own ``load``; the search itself is not kept."""
        self._best().save(path)

    def __getattr__(self, name: str) -> Any:
        # Only what is not found here comes this way; private names must not, or copying would go in circles.
        if name.startswith("_") or not (hasattr(self._estimator_class, name) or name.endswith("_")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._best(), name)

    def _best(self) -> Any:
        if "best_estimator_" not in self.__dict__:
            searched = "cv_results_" in self.__dict__
            advice = "was fitted with refit=False, so it has no fitted field" if searched else "is not fitted yet"
            own = type(self).__name__
            raise NotFittedError(f"this {own} {advice}. Call 'fit' first{', with refit=True' * searched}.")
        return self.best_estimator_


def _notes(search: Search, extend: bool) -> list[str]:
    """Return what a table says of the ends of the grid."""
    tried: dict[str, list[str]] = {}
    for end in search.tried_beyond:
        parameter = end.axis.replace(" ", "_")
        kernel = end.beyond.params["kernel"]
        value = end.beyond.params.get(parameter, getattr(kernel, parameter, None))
        tried.setdefault(end.axis, []).append(f"{value:g}")
    notes = [f"beyond the grid: {axis} {', '.join(values)}" for axis, values in tried.items()]
    advice = "" if extend else ": extend=True looks further"
    return [*notes, *(f"{end.words}{advice}" for end in search.ends)]
