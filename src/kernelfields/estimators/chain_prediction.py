"""What a fitted chain field can be asked: labels, marginals, n best, likelihoods, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.estimators.chain_fitting import prediction_place
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.field_model import FieldModel
from kernelfields.estimators.laplace_probit import resolve_uncertainty, uncertain_marginals
from kernelfields.estimators.laplace_samples import LaplaceSamples, label_variances
from kernelfields.estimators.lazy_answers import answers_collections
from kernelfields.estimators.parameters import check_count
from kernelfields.estimators.scored_chains import ScoredChains, ScoredLongChains
from kernelfields.fields import Chains
from kernelfields.fields.randomness import random_generator
from kernelfields.inference.workers import Workers


class ChainPrediction:
    """Prediction methods of chain estimators; expects ``model_``, ``classes_`` and fitted ``_inputs``."""

    model_: FieldModel
    classes_: np.ndarray
    n_jobs: int | None
    _inputs: ChainInputs
    _drawn: Callable[[], LaplaceSamples]

    @answers_collections
    def predict(self, X: Any, decode: str = "viterbi") -> list[np.ndarray]:
        """Return the labels of each sequence.

        decode="viterbi": the most probable labelling as a whole; decode="posterior": the most probable label
        at each position, which maximises expected token accuracy.
        """
        if decode not in ("viterbi", "posterior"):
            raise ValueError(f"decode must be 'viterbi' or 'posterior', got {decode!r}")
        predictions: list[np.ndarray] = []
        for scored in self._scored(X):
            labels = scored.best_labels() if decode == "viterbi" else scored.marginals.argmax(axis=1)
            predictions += scored.chains.split(self.classes_[labels])
        return predictions

    @answers_collections
    def predict_marginals(self, X: Any, pairs: bool = False, *, uncertainty: bool | str = False) -> Any:
        """Return p(y_t | x) of each sequence as (T, L) arrays, columns as in ``classes_``.

        With ``pairs=True`` also p(y_{t-1}, y_t | x) as (T - 1, L, L) arrays: a tuple of two lists. After
        :meth:`laplace`, uncertainty="probit" (or True) shrinks log-odds by their variance around the fit, which
        keeps the most probable labels; "sampling" is the mean over coefficients drawn around it, pairs too.
        """
        nodes: list[np.ndarray] = []
        edges: list[np.ndarray] = []
        kind = resolve_uncertainty(uncertainty, joint=pairs)
        if kind is not None:
            for chains, marginals, joint in self._uncertain(X, kind, pairs):
                nodes += chains.split(marginals)
                edges += [rows[1:] for rows in chains.split(joint)] if pairs else []
            return (nodes, edges) if pairs else nodes
        for scored in self._scored(X):
            nodes += scored.chains.split(scored.marginals)
            if pairs:
                edges += [rows[1:] for rows in scored.chains.split(scored.pair_marginals())]
        return (nodes, edges) if pairs else nodes

    @answers_collections
    def predict_variances(self, X: Any) -> list[np.ndarray]:
        """Return the posterior variances of the potentials of labels, (T, L) arrays, after :meth:`laplace`."""
        check_is_fitted(self, "model_")
        samples, sets, n_labels = self._drawn(), self.model_.sets, len(self.classes_)
        chains, _ = self._inputs.chains(X, None, None, self.classes_)
        return [
            rows
            for batch in self.model_.batches(chains)
            for rows in batch.split(label_variances(sets, batch, n_labels, samples))
        ]

    @answers_collections
    def predict_nbest(self, X: Any, k: int) -> list[list[tuple[np.ndarray, float]]]:
        """Return, for each sequence, its k most probable labellings with their log-probabilities."""
        check_count(k, "k")
        results: list[list[tuple[np.ndarray, float]]] = []
        for scored in self._scored(X):
            labels, scores = scored.n_best(int(k))
            for sequence, total in enumerate(scored.log_partition):
                results.append(
                    [
                        (self.classes_[row], float(score - total))
                        for row, score in zip(labels[sequence], scores[sequence], strict=True)
                    ]
                )
        return results

    def log_likelihood(self, X: Any, y: Any, *, per_sequence: bool = False) -> Any:
        """Return log p(y | x), summed over sequences or as an array with one value per sequence.

        A labelling that the constraints forbid has log-likelihood minus infinity.
        """
        parts = [scored.label_scores() - scored.log_partition for scored in self._scored(X, y)]
        each = np.concatenate(parts)
        return each if per_sequence else float(each.sum())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return token accuracy: the share of positions whose Viterbi label is right.

        ``sample_weight`` holds one weight per sequence.
        """
        check_is_fitted(self, "model_")
        chains, _ = self._inputs.chains(X, y, sample_weight, self.classes_)
        right = np.concatenate(self.predict(X)) == self.classes_[chains.labels]
        return float(np.average(right, weights=chains.position_weights))

    def sample(self, X: Any, n_samples: int | None = None, random_state: Any = None) -> list[np.ndarray]:
        """Draw labellings from p(y | x): (T,) labels per sequence, or (n_samples, T) if a number is given."""
        if n_samples is not None:
            check_count(n_samples, "n_samples", " or None")
        random = random_generator(random_state)
        draws: list[np.ndarray] = []
        for scored in self._scored(X):
            drawn = self.classes_[scored.sample(n_samples or 1, random)]
            for begin, end in pairwise(scored.chains.offsets.tolist()):
                draws.append(drawn[0, begin:end] if n_samples is None else drawn[:, begin:end])
        return draws

    @answers_collections
    def entropy(self, X: Any) -> np.ndarray:
        """Return the entropy of p(y | x) of each sequence, in nats: how undecided the field is."""
        return np.concatenate([scored.entropies() for scored in self._scored(X)])

    def _uncertain(self, X: Any, kind: str, pairs: bool) -> Iterator[tuple[Chains, np.ndarray, Any]]:
        """Yield batches of chains with marginals that know doubt, by one kind of uncertainty."""
        check_is_fitted(self, "model_")
        samples = self._drawn()
        for scored in self._scored(X):
            batch, joint = scored.chains, np.zeros(())

            def marginals(drawn: LaplaceSamples, batch: Chains = batch) -> Iterator[np.ndarray]:
                nonlocal joint
                for each in self.model_.sampled(batch, drawn, Workers(self.n_jobs)):
                    joint = joint + each.pair_marginals() / samples.n_samples if pairs else joint
                    yield each.marginals

            nodes = uncertain_marginals(kind, scored.marginals, samples, marginals)
            yield batch, nodes, joint

    def _scored(self, X: Any, y: Any = None) -> Iterator[ScoredChains | ScoredLongChains]:
        """Yield batches of chains with their potentials."""
        check_is_fitted(self, "model_")
        chains, _ = self._inputs.chains(X, y, None, self.classes_)
        self.model_.masks.check_lengths(chains.lengths)
        workers, engine = Workers(self.n_jobs), prediction_place(self, chains.n_positions)
        for batch in self.model_.batches(chains):
            yield self.model_.scored(batch, workers, engine)
