"""GraphCRFCV: a GraphCRF that chooses its kernel, rank and prior variances by cross-validation over graphs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kernelfields.estimators.graph_crf import GraphCRF
from kernelfields.estimators.settling import Training
from kernelfields.inference.beliefs import GraphInference
from kernelfields.selection import scores
from kernelfields.selection.field_search import FieldSearch
from kernelfields.selection.training_data import GraphData


class GraphCRFCV(FieldSearch):
    """GraphCRF with kernel, rank and prior variances chosen by cross-validation, and refitted with the best.

    As :class:`ChainCRFCV`, for graphs: folds and rungs consist of whole graphs.

    Parameters
    ----------
    estimator : GraphCRF or None
        Holds everything that is not searched; None means ``GraphCRF()``.
    kernels : kernel, name of one, dict of kernels by type of node, list of them, or None
        Names stand for grids, as in ChainCRFCV; objects and dicts are taken as they are.
    edge_prior_variances : list of positive numbers or None
        Prior variances of the scores of edges of every type, all of them with each of ``prior_variances``; None keeps
        what the estimator says, by default the same variance as for the nodes.
    scoring : "auto", "log_likelihood", "accuracy" or function(estimator, X, y), default "auto"
        "auto" is the log-likelihood per node where inference is exact, and the share of nodes that are right where it
        is approximate, which leaves no log-likelihood.
    min_graphs : int or None
        Training graphs of a fold in the first rung, at least; None means 20.
    prior_variances, ranks, cv, halving, factor, extend, refit, n_jobs, random_state, verbose : as in ChainCRFCV

    Attributes
    ----------
    best_estimator_ : GraphCRF fitted to all graphs; its methods and attributes are those of the search as well
    best_params_, best_score_, best_index_, cv_results_, splits_, n_splits_, refit_time_, interrupted_ : as in
        ChainCRFCV; ``n_resources`` is the number of training nodes of a fold
    """

    _estimator_class = GraphCRF
    _data_class = GraphData
    _least_parameter = "min_graphs"
    _scores: ClassVar = {"log_likelihood": scores.log_likelihood, "accuracy": scores.position_accuracy}

    def __init__(
        self,
        estimator: GraphCRF | None = None,
        *,
        kernels: Any = None,
        prior_variances: Any = (0.01, 0.1, 1.0, 10.0, 100.0),
        ranks: Any = None,
        edge_prior_variances: Any = None,
        cv: Any = 3,
        scoring: Any = "auto",
        halving: bool = True,
        factor: int = 3,
        min_graphs: int | None = None,
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
        self.min_graphs = min_graphs
        self.extend = extend
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _inference(self, estimator: Any, training: Training) -> GraphInference | None:
        return training.structure.plan(training.data)

    def predict(self, X: Any, decode: str | None = None, *, known: Any = None) -> list[np.ndarray]:
        """Return the labels of each graph, decoded as the best estimator does; see :meth:`GraphCRF.predict`."""
        return self._best().predict(X, decode, known=known)

    def predict_marginals(self, X: Any, factors: str | None = None, *, known: Any = None) -> Any:
        """Return p(y_v | x) of each graph; see :meth:`GraphCRF.predict_marginals`."""
        return self._best().predict_marginals(X, factors, known=known)
