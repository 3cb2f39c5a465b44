"""KernelClassifierCV: a KernelClassifier that chooses its kernel, rank and prior variance by cross-validation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from kernelfields.estimators.kernel_classifier import KernelClassifier
from kernelfields.selection import scores
from kernelfields.selection.field_search import FieldSearch
from kernelfields.selection.training_data import ClassTable


class KernelClassifierCV(ClassifierMixin, FieldSearch):
    """KernelClassifier with kernel, rank and prior variance chosen by cross-validation, and refitted with the best.

    As :class:`ChainCRFCV`, for samples of one class each; a number of folds means stratified ones. A classifier of
    scikit-learn, in pipelines and in ``cross_val_score``.

    Parameters
    ----------
    estimator : KernelClassifier or None
        Holds everything that is not searched; None means ``KernelClassifier()``.
    kernels : kernel, name of one, list of them, or None
        Names stand for grids, as in ChainCRFCV.
    scoring : "log_likelihood", "accuracy", scorer of scikit-learn or function(estimator, X, y), default
        "log_likelihood"
        The log-likelihood is per sample.
    min_samples : int or None
        Training samples of a fold in the first rung, at least; None means 100.
    prior_variances, ranks, cv, halving, factor, extend, refit, n_jobs, random_state, verbose : as in ChainCRFCV

    Attributes
    ----------
    best_estimator_ : KernelClassifier fitted to all samples; its methods and attributes are those of the search as well
    best_params_, best_score_, best_index_, cv_results_, splits_, n_splits_, refit_time_, interrupted_ : as in
        ChainCRFCV; ``n_resources`` is the number of training samples of a fold
    """

    _estimator_class = KernelClassifier
    _data_class = ClassTable
    _least_parameter = "min_samples"
    _least = 100
    _scores: ClassVar = {"log_likelihood": scores.log_likelihood, "accuracy": scores.own_accuracy}
    _takes_scorers = True

    def __init__(
        self,
        estimator: KernelClassifier | None = None,
        *,
        kernels: Any = None,
        prior_variances: Any = (0.01, 0.1, 1.0, 10.0, 100.0),
        ranks: Any = None,
        cv: Any = 3,
        scoring: Any = "log_likelihood",
        halving: bool = True,
        factor: int = 3,
        min_samples: int | None = None,
        extend: bool = True,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.estimator = estimator
        self.kernels = kernels
        self.prior_variances = prior_variances
        self.ranks = ranks
        self.cv = cv
        self.scoring = scoring
        self.halving = halving
        self.factor = factor
        self.min_samples = min_samples
        self.extend = extend
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def predict_proba(self, X: Any, *, uncertainty: bool | str = False, known: Any = None) -> np.ndarray:
        """Return p(y | x), (n, classes); see :meth:`KernelClassifier.predict_proba`."""
        return self._best().predict_proba(X, uncertainty=uncertainty, known=known)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return log p(y | x), (n, classes)."""
        return self._best().predict_log_proba(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return f(x, y), or log-odds of two classes; see :meth:`KernelClassifier.decision_function`."""
        return self._best().decision_function(X)

    def __sklearn_tags__(self) -> Any:
        return (KernelClassifier() if self.estimator is None else self.estimator).__sklearn_tags__()
