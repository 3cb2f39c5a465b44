"""What a fitted multi-label field can be asked: labels, probabilities, likelihoods, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators.graph_model import refuse_approximate
from kernelfields.estimators.laplace_probit import resolve_uncertainty, uncertain_marginals
from kernelfields.estimators.laplace_samples import LaplaceSamples, label_variances
from kernelfields.estimators.multilabel_inputs import INSTANCES, read_indicator, read_inputs
from kernelfields.estimators.multilabel_model import MultiLabelModel
from kernelfields.estimators.parameters import check_count
from kernelfields.estimators.scored_graphs import ScoredGraphs
from kernelfields.fields import check_sample_weight
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers

_SMALLEST = np.finfo(np.float64).tiny


class MultiLabelPrediction:
    """Prediction methods of multi-label estimators; expects ``model_`` and ``n_labels_``."""

    model_: MultiLabelModel
    n_labels_: int
    n_jobs: int | None
    inference: Any
    decision: str
    _drawn: Callable[[], LaplaceSamples]

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels of each instance, (n, K) of 0 and 1, by the loss that ``decision`` names.

        "hamming": labels whose probability is above one half, which makes the fewest wrong labels in expectation;
        "subset": the most probable set of labels as a whole, which is most often right in all of them.
        """
        if self.decision == "subset":
            return self._best(X)
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def predict_proba(self, X: Any, *, uncertainty: bool | str = False) -> np.ndarray:
        """Return the probability of each label given the inputs, P(y_k = 1 | x), (n, K).

        After :meth:`laplace`, uncertainty="probit" (or True) shrinks the log odds of each label by their variance
        around the fit; "sampling" is the mean over coefficients drawn around it.
        """
        kind = resolve_uncertainty(uncertainty)
        check_is_fitted(self, "model_")
        if kind is None:
            return np.vstack([self._marginals(scored)[:, :, 1] for scored in self._scored(X)])
        samples, workers = self._drawn(), Workers(self.n_jobs)
        model = replace(self.model_, inference=self.inference)
        parts = []
        for batch in model.batches(read_inputs(self, X, fitting=False)):
            scored = model.scored(batch, workers)
            if kind == "probit":
                refuse_approximate(scored.inference, "uncertainty='probit'")

            def marginals(drawn: LaplaceSamples, batch: Any = batch) -> Iterator[np.ndarray]:
                return (each.beliefs.node_marginals for each in model.sampled(batch, drawn, workers))

            found = uncertain_marginals(kind, scored.beliefs.node_marginals, samples, marginals)
            parts.append(found[:, 1].reshape(-1, self.n_labels_))
        return np.vstack(parts)

    def predict_variances(self, X: Any) -> np.ndarray:
        """Return the posterior variances of the log odds f_k(x) + b_k, (n, K), after :meth:`laplace`."""
        check_is_fitted(self, "model_")
        samples, sets = self._drawn(), self.model_.sets
        parts = [
            # A log odds of one is a potential of one half.
            4.0 * label_variances(sets, batch, 2, samples)[:, 1].reshape(-1, self.n_labels_)
            for batch in self.model_.batches(read_inputs(self, X, fitting=False))
        ]
        return np.vstack(parts)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log odds of each label given the inputs, (n, K); zero where its probability is 1/2."""
        parts = []
        for scored in self._scored(X):
            logs = np.log(np.maximum(self._marginals(scored), _SMALLEST))
            parts.append(logs[:, :, 1] - logs[:, :, 0])
        return np.vstack(parts)

    def predict_joint(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable set of labels of each instance, (n, K), and its probability, (n,).

        ValueError if inference is approximate, as probabilities of whole sets are not known then.
        """
        labels, logs = [], []
        for scored in self._scored(X):
            refuse_approximate(scored.inference, "the probability of a set of labels")
            best = scored.best_labels()
            labels.append(best.reshape(-1, self.n_labels_))
            logs.append(scored.label_scores(best) - scored.beliefs.log_partition)
        return np.vstack(labels), np.exp(np.minimum(np.concatenate(logs), 0.0))

    def log_likelihood(self, X: Any, y: Any, *, per_instance: bool = False) -> Any:
        """Return log p(y | x), summed over instances or for each; ValueError if inference is approximate."""
        parts = []
        for scored in self._scored(X, y):
            refuse_approximate(scored.inference, "a log-likelihood")
            parts.append(scored.label_scores(scored.graphs.labels) - scored.beliefs.log_partition)
        each = np.concatenate(parts)
        return each if per_instance else float(each.sum())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of instances whose labels are all right (subset accuracy, as in scikit-learn)."""
        predicted = self.predict(X)
        right = (predicted == read_indicator(y, len(predicted), self.n_labels_)[0]).all(axis=1)
        return float(np.average(right, weights=check_sample_weight(sample_weight, len(right), INSTANCES)))

    def sample(self, X: Any, n_samples: int | None = None, random_state: Any = None) -> np.ndarray:
        """Draw labels from p(y | x): (n, K), or (n_samples, n, K) if a number is given."""
        if n_samples is not None:
            check_count(n_samples, "n_samples", " or None")
        random = random_generator(random_state)
        count = n_samples or 1
        draws = [scored.sample(count, random).reshape(count, -1, self.n_labels_) for scored in self._scored(X)]
        drawn = np.concatenate(draws, axis=1)
        return drawn[0] if n_samples is None else drawn

    def _best(self, X: Any) -> np.ndarray:
        return np.vstack([scored.best_labels().reshape(-1, self.n_labels_) for scored in self._scored(X)])

    def _marginals(self, scored: ScoredGraphs) -> np.ndarray:
        return scored.beliefs.node_marginals.reshape(-1, self.n_labels_, 2)

    def _scored(self, X: Any, y: Any = None) -> Iterator[ScoredGraphs]:
        """Yield batches of instances with their potentials."""
        check_is_fitted(self, "model_")
        inputs = read_inputs(self, X, fitting=False)
        labels = None if y is None else read_indicator(y, inputs.shape[0], self.n_labels_)[0]
        workers = Workers(self.n_jobs)
        for batch in self.model_.batches(inputs, labels):
            yield replace(self.model_, inference=self.inference).scored(batch, workers)
