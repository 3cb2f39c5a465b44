"""ChainCRFCV: a ChainCRF that chooses its kernel, rank and prior variance by cross-validation over sequences."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.fields.cliques import NodeCliques
from kernelfields.selection import scores
from kernelfields.selection.field_search import FieldSearch
from kernelfields.selection.training_data import SequenceData


class ChainCRFCV(FieldSearch):
    """ChainCRF with kernel, rank and prior variances chosen by cross-validation, and refitted with the best.

    Candidates that differ only in prior variances share the features of their kernel and start from each other's
    coefficients; successive halving compares most of them on little data. Folds consist of whole sequences.

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
        Higher is better. The log-likelihood is per token; the others are of the estimator's own predictions.
    halving : bool, default True
        False compares all candidates on all sequences, as GridSearchCV does.
    factor : int, default 3
        Of each rung, 1 in ``factor`` candidates goes on to the next, with ``factor`` times as many positions.
    min_sequences : int or None
        Training sequences of a fold in the first rung, at least; None means 20. Where that leaves no room for halving,
        long sequences are cut into pieces of 25 positions or more, except for the last rung; a piece then counts as a
        sequence.
    extend : bool, default True
        Where the best candidate has the smallest or largest prior variance of its grid, or gamma, look further by the
        same ratio, as long as that is better and for three steps at most. False leaves it at a line in the table.
    refit : bool, default True
        Fit the best candidate to all sequences. Without it there are no predictions.
    n_jobs : int or None
        Threads; None means what the estimator says.
    random_state : int, Generator, RandomState or None
        For folds and rungs; also for the fields, unless the estimator has one of its own.
    verbose : int, default 0
        1 shows progress, with the time that is left, and the table.

    Attributes
    ----------
    best_estimator_ : ChainCRF fitted to all sequences; its methods and attributes are those of the search as well
    best_params_, best_score_, best_index_ : parameters, mean score and row of the best candidate
    cv_results_ : dict of arrays, a row for each candidate and rung, as in HalvingGridSearchCV. ``n_resources`` is
        the number of training positions of a fold; ``n_dropped`` counts held-out sequences that were not scored
        because a label of theirs is not in the training part of the fold, ``n_unconverged`` fits that stopped
        short of tol.
    splits_ : list of (train, test) indices of the folds
    n_splits_, refit_time_, interrupted_ : folds, seconds of the last fit, whether an interrupt ended the search
    """

    _estimator_class = ChainCRF
    _data_class = SequenceData
    _least_parameter = "min_sequences"
    _scores: ClassVar = {
        "log_likelihood": scores.log_likelihood,
        "accuracy": scores.position_accuracy,
        "entity_f1": scores.entity_f1,
    }

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
        self.min_sequences = min_sequences
        self.extend = extend
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _view(self, estimator: Any, data: Any) -> Any:
        return NodeCliques(window=estimator.window).view(data)

    def predict(self, X: Any, decode: str | None = None, *, known: Any = None) -> list[np.ndarray]:
        """Return the labels of each sequence, decoded as the best estimator does; see :meth:`ChainCRF.predict`."""
        return self._best().predict(X, decode, known=known)

    def predict_marginals(self, X: Any, pairs: bool = False, *, known: Any = None) -> Any:
        """Return p(y_t | x) of each sequence; see :meth:`ChainCRF.predict_marginals`."""
        return self._best().predict_marginals(X, pairs, known=known)

    def log_likelihood(self, X: Any, y: Any, *, per_sequence: bool = False, known: Any = None) -> Any:
        """Return log p(y | x); see :meth:`ChainCRF.log_likelihood`."""
        return self._best().log_likelihood(X, y, per_sequence=per_sequence, known=known)
