"""MultiLabelCRFCV: a MultiLabelCRF that chooses its kernel, rank and prior variances by cross-validation."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, clone

from kernelfields.estimators.multilabel_crf import MultiLabelCRF
from kernelfields.estimators.settling import Training
from kernelfields.inference.beliefs import GraphInference
from kernelfields.models.build import NamedCliques, resolved_clique
from kernelfields.objective.likelihoods.graph import plan_labels
from kernelfields.selection import scores
from kernelfields.selection.field_search import FieldSearch
from kernelfields.selection.training_data import LabelTable


class MultiLabelCRFCV(ClassifierMixin, FieldSearch):
    """MultiLabelCRF with kernel, rank and prior variances chosen by cross-validation, and refitted with the best.

    As :class:`ChainCRFCV`, for instances with several labels, which are spread over the folds by their rarest label. A
    multi-label classifier of scikit-learn, in pipelines and in ``cross_val_score``.

    Parameters
    ----------
    estimator : MultiLabelCRF or None
        Holds everything that is not searched; None means ``MultiLabelCRF()``.
    kernels : kernel, name of one, list of them, or None
        Names stand for grids, as in ChainCRFCV.
    edge_prior_variances : list of positive numbers or None
        Prior variances of the log odds ratios of pairs, all of them with each of ``prior_variances``; None keeps that
        of the estimator.
    scoring : "auto", "log_likelihood", "accuracy", "micro_f1", "hamming", scorer of scikit-learn or function(estimator,
        X, y), default "auto"
        "accuracy" is the share of instances whose labels are all right, "hamming" the share of right labels.
        "auto" is the log-likelihood per label where inference is exact, else "hamming".
    min_samples : int or None
        Training instances of a fold in the first rung, at least; None means 100.
    prior_variances, ranks, cv, halving, factor, extend, refit, n_jobs, random_state, verbose : as in ChainCRFCV

    Attributes
    ----------
    best_estimator_ : MultiLabelCRF fitted to all instances; its methods and attributes are those of the search as well
    best_params_, best_score_, best_index_, cv_results_, splits_, n_splits_, refit_time_, interrupted_ : as in
        ChainCRFCV; ``n_resources`` is the number of training instances of a fold
    """

    _estimator_class = MultiLabelCRF
    _data_class = LabelTable
    _least_parameter = "min_samples"
    _least = 100
    _scores: ClassVar = {
        "log_likelihood": scores.log_likelihood,
        "accuracy": scores.own_accuracy,
        "micro_f1": scores.micro_f1,
        "hamming": scores.hamming,
    }
    _approximate_score = "hamming"
    _takes_scorers = True

    def __init__(
        self,
        estimator: MultiLabelCRF | None = None,
        *,
        kernels: Any = None,
        prior_variances: Any = (0.01, 0.1, 1.0, 10.0, 100.0),
        ranks: Any = None,
        edge_prior_variances: Any = None,
        cv: Any = 3,
        scoring: Any = "auto",
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
        self.edge_prior_variances = edge_prior_variances
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

    def _clique_sets(self, estimator: Any, training: Training) -> NamedCliques:
        # Without the search for pairs that label_graph="learn" would begin.
        plain = clone(estimator).set_params(label_graph="none")
        return [(name, resolved_clique(clique)) for name, clique in plain._cliques(training)]

    def _inference(self, estimator: Any, training: Training) -> GraphInference | None:
        structure: Any = training.structure
        one = training.data.subset(slice(0, 1)).with_pairs(structure.pairs).graphs
        members = [factors.members for factors in one.factors]
        tied = estimator.edge_kernel is None
        return plan_labels(one.offsets, members, structure.n_names, structure.method, tied=tied)

    def predict_proba(self, X: Any, *, uncertainty: bool | str = False, known: Any = None) -> np.ndarray:
        """Return P(y_k = 1 | x), (n, K); see :meth:`MultiLabelCRF.predict_proba`."""
        return self._best().predict_proba(X, uncertainty=uncertainty, known=known)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log odds of each label, (n, K); see :meth:`MultiLabelCRF.decision_function`."""
        return self._best().decision_function(X)

    def __sklearn_tags__(self) -> Any:
        return (MultiLabelCRF() if self.estimator is None else self.estimator).__sklearn_tags__()
