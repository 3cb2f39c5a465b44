"""Evaluation of a fitted field on labelled data: its predictions in both decodings, likelihood and calibration.

    print(evaluate_model(crf, X_test, y_test))

A classifier of single inputs, or of whole sequences, is evaluated as sequences of one label, several labels of an
instance as a sequence of them.

Cost: four passes over the data, for the labels of both decodings, marginals and likelihoods.
Fails: TypeError for a model without probabilities; else as ``evaluate`` and the model do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from kernelfields.data.evidence import is_partial, replace_unseen, single_labels
from kernelfields.data.segments import are_segments, read_segments
from kernelfields.evaluation.evaluation import Evaluation, evaluate
from kernelfields.evaluation.packed_labels import NOTHING_KNOWN, known_only, known_places, refuse_annotators, taken
from kernelfields.models.wrapped_field import field_inside

#: The two ways to predict labels from a field, as evaluations name them.
JOINT, POSTERIOR = "viterbi", "posterior"


class FittedModel(Protocol):
    """A fitted estimator of labels."""

    def predict(self, X: Any) -> Iterable[object]:
        """Return the labels of each item."""


def evaluate_model(
    model: FittedModel,
    X: Sequence,
    y: Sequence,
    *,
    decode: str | None = None,
    labels_only: bool = False,
    **settings: Any,
) -> Evaluation:
    """Compare the predictions of a fitted estimator for X with the true labels y.

    Labels that the fit never saw are errors of probability zero, which ``unseen`` of the result names. Where inference
    is approximate there is no log-likelihood. Where y is partly known, positions count whose label is, and the
    likelihood is that of what is known; there are no figures of entities then.

    Parameters
    ----------
    model : fitted estimator of labels: of sequences, graphs, tables, instances or samples
    X, y : what the estimator takes, and the true labels
    decode : "viterbi", "posterior" or None for the model's own; both are listed where they differ
    labels_only : leave out likelihood and calibration
    settings : further parameters of :func:`evaluate`: scheme, labels, n_bins, n_resamples, confidence, random_state
    """
    field, X, y = field_inside(model, X, y)
    # One label for each item, of classes that all items share.
    single = hasattr(field, "predict_proba") and np.ndim(getattr(field, "classes_", [[]])) == 1
    if not (single or hasattr(field, "predict_marginals")):
        raise TypeError(f"evaluate_model takes a fitted estimator of labels, got {type(field).__name__}")
    if decode not in (None, JOINT, POSTERIOR):
        raise ValueError(f"decode must be 'viterbi', 'posterior' or None for the model's own, got {decode!r}")
    refuse_annotators(y)
    listed = [[label] for label in y] if single else y
    if any(map(is_partial, listed)):
        # Sequences of which nothing is known have no part in any figure.
        known = [number for number, labels in enumerate(listed) if known_places(single_labels(labels)).size]
        X, y, listed = (taken(values, known) for values in (X, y, listed))
        if not known:
            raise ValueError(NOTHING_KNOWN)
    listed = read_segments(y)[0] if are_segments(y) else listed
    decoded = {} if single else {way: field.predict(X, decode=way) for way in (JOINT, POSTERIOR)}
    predicted = decoded[decode] if decoded and decode is not None else field.predict(X)
    if not labels_only:
        inference = getattr(field, "inference_", None)
        if inference is None or inference.exact:
            settings["log_likelihood"] = _log_likelihoods(field, X, y)
        marginals = field.predict_proba(X)[:, None] if single else field.predict_marginals(X)
        settings |= {"marginals": marginals, "classes": np.unique(field.classes_)}
    evaluation = evaluate_known(
        listed, [[label] for label in predicted] if single else predicted, decodings=decoded, **settings
    )
    unseen = Counter(label for _, _, label in replace_unseen(listed, np.asarray(field.classes_), None)[1])
    nouns = getattr(field, "place_headings", evaluation.nouns)
    return replace(evaluation, unseen=dict(sorted(unseen.items())), nouns=nouns)


def _log_likelihoods(field: Any, X: Any, y: Any) -> np.ndarray:
    """Return log p(y | x) of each item, minus infinity where a label was never seen."""
    seen, unseen = replace_unseen(y, field.classes_, field.classes_[0])
    found = np.array(field.log_likelihood(X, seen, per_item=True))
    found[[item for item, _, _ in unseen]] = -np.inf
    return found


def evaluate_known(
    y_true: Sequence[object],
    y_pred: Sequence[object],
    *,
    marginals: Sequence[object] | None = None,
    decodings: Mapping[str, Sequence[object]] | None = None,
    scheme: str | None = "auto",
    **settings: Any,
) -> Evaluation:
    """Return :func:`evaluate` of the positions whose true label is known; entities need every label, and are left out.

    ``settings`` are those of :func:`evaluate`; ValueError if a scheme of entities is named for labels that are partly
    known.
    """
    decoded, others = decodings or {}, [] if marginals is None else [marginals]
    truth, predicted, *chosen, scheme = known_only(y_true, y_pred, *others, *decoded.values(), scheme=scheme)
    return evaluate(
        truth,
        predicted,
        marginals=chosen[0] if others else None,
        decodings=dict(zip(decoded, chosen[len(others) :], strict=True)) or None,
        scheme=scheme,
        **settings,
    )
