"""ChainCRFCV: a ChainCRF that chooses its kernel, rank and prior variance by cross-validation over sequences."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning, NotFittedError

from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.fields.cliques import NodeCliques
from kernelfields.fields.constraints import resolve_constraints
from kernelfields.fields.reading import random_generator
from kernelfields.numerics.parameters import check_count, is_whole
from kernelfields.selection.candidates import list_candidates
from kernelfields.selection.folds import TrainingData, make_folds
from kernelfields.selection.results import Evaluation, SearchProgress, SearchTable, as_arrays, tabulate
from kernelfields.selection.search import Rung, Search, plan_rungs
from kernelfields.selection.variance_path import resolve_scoring

_SMALLEST_RUNG = 20
_SHOWN_ROWS = 20


class ChainCRFCV(BaseEstimator):
    """ChainCRF with kernel, rank and prior variances chosen by cross-validation, and refitted with the best.

    Candidates that differ only in prior variances share the features of their kernel and start from each other's
    coefficients; successive halving compares most of them on few sequences. Folds consist of whole sequences.

    Parameters
    ----------
    estimator : ChainCRF or None
        Holds everything that is not searched; None means ``ChainCRF()``. Its callbacks and ``verbose`` count for
        the last fit only.
    kernels : kernel, name of one, list of them, or None
        Names stand for grids: "rbf" for five values of gamma around "scale", "poly" for degrees 1 to 3. Objects
        are taken as they are. None means the estimator's own kernel, read in the same way.
    prior_variances : list of positive numbers
        For a sum of kernels, entries may be tuples with one number for each part.
    ranks : list of int or None
        None means the estimator's rank.
    edge_prior_variances : list of positive numbers or None
        Prior variances of the transitions, all of them with each of ``prior_variances``; None keeps what the
        estimator says, by default the same variance as for the nodes.
    cv : int, splitter or list of (train, test) indices, default 3
        A number of random folds over which sequences with rare labels are spread, or anything that scikit-learn
        takes; with ``groups``, folds that keep groups together.
    scoring : "log_likelihood", "accuracy", "entity_f1" or function(estimator, X, y), default "log_likelihood"
        Higher is better. The log-likelihood is per token.
    halving : bool, default True
        False compares all candidates on all sequences, as GridSearchCV does.
    factor : int, default 3
        Of each rung, 1 in ``factor`` candidates goes on to the next, with ``factor`` times as many sequences.
    min_sequences : int or None
        Training sequences of a fold in the first rung, at least; None means 20.
    refit : bool, default True
        Fit the best candidate to all sequences. Without it there are no predictions.
    n_jobs : int or None
        Threads; None means what the estimator says.
    random_state : int, Generator, RandomState or None
        For folds and rungs; also for the fields, unless the estimator has one of its own.
    verbose : int, default 0
        1 shows progress and the table.

    Attributes
    ----------
    best_estimator_ : ChainCRF fitted to all sequences; its methods and attributes are those of the search as well
    best_params_, best_score_, best_index_ : parameters, mean score and row of the best candidate
    cv_results_ : dict of arrays, a row for each candidate and rung, as in HalvingGridSearchCV. ``n_resources`` is
        the number of training sequences of a fold; ``n_dropped`` counts held-out sequences that were not scored
        because a label of theirs is not in the training part of the fold, ``n_unconverged`` fits that stopped
        short of tol.
    splits_ : list of (train, test) indices of the folds
    n_splits_, refit_time_, interrupted_ : folds, seconds of the last fit, whether an interrupt ended the search
    """

    def __init__(
        self,
        estimator: ChainCRF | None = None,
        *,
        kernels: Any = None,
        prior_variances: Any = (0.01, 0.1, 1.0, 10.0, 100.0),
        ranks: Any = None,
        edge_prior_variances: Any = None,
        cv: Any = 3,
        scoring: Any = "log_likelihood",
        halving: bool = True,
        factor: int = 3,
        min_sequences: int | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.kernels = kernels
        self.prior_variances = prior_variances
        self.ranks = ranks
        self.edge_prior_variances = edge_prior_variances
        self.cv = cv
        self.scoring = scoring
        self.halving = halving
        self.factor = factor
        self.min_sequences = min_sequences
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> ChainCRFCV:
        """Search on sequences X with labels y, in any form that ChainCRF takes, then fit the best candidate.

        ``sample_weight`` holds one weight per sequence, for the fits; scores are not weighted. ``groups`` goes to
        the splitter. Ctrl-C ends the search: the best candidate so far is fitted, and a warning says so.
        """
        random = random_generator(self.random_state)
        given = self._given()
        estimator = self._described(given, random)
        data = TrainingData(
            X,
            y,
            sample_weight,
            keep_zeros="observed" in (estimator.support, estimator.edge_support),
            class_weight=estimator.class_weight,
        )
        masks = resolve_constraints(estimator.constraints, data.classes)
        data.check_constraints(masks)
        scorer = resolve_scoring(self.scoring, estimator, data.classes)
        candidates = list_candidates(
            estimator,
            lambda: NodeCliques(window=estimator.window).view(data.packed(np.arange(len(data.X)))[1]),
            kernels=self.kernels,
            prior_variances=self.prior_variances,
            ranks=self.ranks,
            edge_prior_variances=self.edge_prior_variances,
        )
        folds = make_folds(self.cv, data.X, data.y, groups, data.labels, random)
        rungs = self._rungs(len(candidates), min(len(fold.train) for fold in folds))
        search = Search(estimator, data, folds, masks, scorer)
        n_fits = len(folds) * sum(rung.n_candidates for rung in rungs)
        with SearchProgress(bool(self.verbose), n_fits) as progress:
            search.run(candidates, rungs, progress)
        self._evaluations: list[Evaluation] = search.evaluations
        self.cv_results_ = as_arrays(search.evaluations)
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_: dict[str, Any] = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.splits_ = [(fold.train, fold.test) for fold in folds]
        self.n_splits_ = len(folds)
        self.interrupted_ = search.interrupted
        self.__dict__.pop("best_estimator_", None)
        progress.show(self.table(top=_SHOWN_ROWS))
        self._warn(n_fits)
        if self.refit:
            begin = time.perf_counter()
            # Copies, so that changes to the field later do not reach the results.
            params = {name: clone(value, safe=False) for name, value in self.best_params_.items()}
            best = clone(estimator).set_params(callbacks=given.callbacks, **params)
            self.best_estimator_: ChainCRF = best.fit(data.X, data.y, sample_weight)
            self.refit_time_ = time.perf_counter() - begin
        return self

    def _given(self) -> ChainCRF:
        """Return the estimator to start from, checked."""
        given = ChainCRF() if self.estimator is None else self.estimator
        if not isinstance(given, ChainCRF):
            raise TypeError(
                f"estimator must be a ChainCRF, got {given!r:.80}. A pipeline may have ChainCRFCV as its last "
                "step; for other estimators use scikit-learn's GridSearchCV."
            )
        given._check_parameters()
        return given

    def _described(self, given: ChainCRF, random: np.random.Generator) -> ChainCRF:
        """Return a copy of the estimator with the settings of the search, and without callbacks."""
        # Callbacks may hold what cannot be copied, such as an open file.
        described = clone(type(given)(**{**given.get_params(deep=False), "callbacks": None}))
        if self.n_jobs is not None:
            described.set_params(n_jobs=self.n_jobs)
        if described.random_state is None:
            # One seed for all, so that candidates are compared on the same draws.
            described.set_params(random_state=int(random.integers(2**31)))
        return described

    def _rungs(self, n_candidates: int, n_sequences: int) -> list[Rung]:
        if not is_whole(self.factor) or self.factor < 2:
            raise ValueError(f"factor must be a whole number of at least 2, got {self.factor!r}")
        if self.min_sequences is not None:
            check_count(self.min_sequences, "min_sequences", " or None")
        if not self.halving:
            return [Rung(n_candidates, None)]
        smallest = _SMALLEST_RUNG if self.min_sequences is None else self.min_sequences
        return plan_rungs(n_candidates, n_sequences, factor=int(self.factor), smallest=int(smallest))

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

    def table(self, top: int | None = None) -> SearchTable:
        """Return the candidates, the best first, each as far as it came; ``top`` limits the number of rows."""
        if not hasattr(self, "_evaluations"):
            raise NotFittedError("this ChainCRFCV is not fitted yet. Call 'fit' first.")
        if top is not None:
            check_count(top, "top", " or None")
        scoring = self.scoring if isinstance(self.scoring, str) else getattr(self.scoring, "__name__", "score")
        return tabulate(self._evaluations, scoring.replace("_", " "), top)

    def predict(self, X: Any, decode: str = "viterbi") -> list[np.ndarray]:
        """Return the labels of each sequence; see :meth:`ChainCRF.predict`."""
        return self._best().predict(X, decode)

    def predict_marginals(self, X: Any, pairs: bool = False) -> Any:
        """Return p(y_t | x) of each sequence; see :meth:`ChainCRF.predict_marginals`."""
        return self._best().predict_marginals(X, pairs)

    def log_likelihood(self, X: Any, y: Any, *, per_sequence: bool = False) -> Any:
        """Return log p(y | x); see :meth:`ChainCRF.log_likelihood`."""
        return self._best().log_likelihood(X, y, per_sequence=per_sequence)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return token accuracy, whatever ``scoring`` chose the field; see :meth:`ChainCRF.score`."""
        return self._best().score(X, y, sample_weight)

    def save(self, path: str | os.PathLike) -> None:
        """Write the best field to one file of data, for :meth:`ChainCRF.load`; the search itself is not kept."""
        self._best().save(path)

    def __getattr__(self, name: str) -> Any:
        # Only what is not found here comes this way; private names must not, or copying would go in circles.
        if name.startswith("_") or not (hasattr(ChainCRF, name) or name.endswith("_")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._best(), name)

    def _best(self) -> ChainCRF:
        if "best_estimator_" not in self.__dict__:
            searched = "cv_results_" in self.__dict__
            advice = "was fitted with refit=False, so it has no fitted field" if searched else "is not fitted yet"
            raise NotFittedError(f"this ChainCRFCV {advice}. Call 'fit' first{', with refit=True' * searched}.")
        return self.best_estimator_
