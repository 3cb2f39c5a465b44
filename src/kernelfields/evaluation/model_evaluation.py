"""Evaluation of a fitted field on labelled data: its predictions in both decodings, likelihood and calibration.

    print(evaluate_model(crf, X_test, y_test))

Cost: four passes over the data, for the labels of both decodings, marginals and likelihoods.
Fails: TypeError for a classifier, and for a model without marginals; else as ``evaluate`` and the model do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kernelfields.evaluation.evaluation import Evaluation, evaluate
from kernelfields.evaluation.packed_labels import NOTHING_KNOWN, known_only, known_places, refuse_annotators
from kernelfields.fields.evidence import is_partial, single_labels
from kernelfields.fields.segments import are_segments, read_segments

#: The two ways to predict labels from a field, as evaluations name them.
JOINT, POSTERIOR = "viterbi", "posterior"


class FittedField(Protocol):
    """A fitted ChainCRF, SegmentCRF or GraphCRF."""

    classes_: np.ndarray
    #: log p(y | x), with a keyword for one value of each sequence or graph.
    log_likelihood: Callable[..., np.ndarray]

    def predict(self, X: object, decode: str | None = None) -> list:
        """Return the labels of each sequence or graph."""

    def predict_marginals(self, X: object) -> list:
        """Return the marginal probabilities (T, L) of each sequence or graph."""


def evaluate_model(
    model: FittedField,
    X: Sequence,
    y: Sequence,
    *,
    decode: str | None = None,
    labels_only: bool = False,
    **settings: Any,
) -> Evaluation:
    """Compare the predictions of a fitted field of sequences or graphs for X with the true labels y.

    Where inference is approximate there is no log-likelihood. Where y is partly known, positions count whose label is,
    and the likelihood is that of what is known; there are no figures of entities then.

    Parameters
    ----------
    model : fitted estimator
    X, y : sequences or graphs, and the true labels of each
    decode : "viterbi", "posterior" or None for the model's own; both are listed where they differ
    labels_only : leave out likelihood and calibration, which need labels that the fit has seen
    settings : further parameters of :func:`evaluate`: scheme, labels, n_bins, n_resamples, confidence, random_state
    """
    labels_rows = hasattr(model, "predict_proba")
    if labels_rows or not hasattr(model, "predict_marginals"):
        advice = "; of a classifier, evaluate(y[:, None], model.predict(X)[:, None]) compares the labels"
        raise TypeError(
            f"evaluate_model takes a fitted ChainCRF or GraphCRF, got {type(model).__name__}"
            f"{advice if labels_rows else ''}"
        )
    model = getattr(model, "chain_", model)  # behind the face of another program
    if decode not in (None, JOINT, POSTERIOR):
        raise ValueError(f"decode must be 'viterbi', 'posterior' or None for the model's own, got {decode!r}")
    refuse_annotators(y)
    if any(map(is_partial, y)):
        # Sequences of which nothing is known have no part in any figure.
        known = [number for number, labels in enumerate(y) if known_places(single_labels(labels)).size]
        X, y = [X[number] for number in known], [y[number] for number in known]
        if not known:
            raise ValueError(NOTHING_KNOWN)
    labels = read_segments(y)[0] if are_segments(y) else y
    decoded = {JOINT: model.predict(X, decode=JOINT), POSTERIOR: model.predict(X, decode=POSTERIOR)}
    predicted = model.predict(X) if decode is None else decoded[decode]
    if not labels_only:
        inference = getattr(model, "inference_", None)
        if inference is None or inference.exact:
            settings["log_likelihood"] = model.log_likelihood(X, y, per_item=True)
        settings |= {"marginals": model.predict_marginals(X), "classes": model.classes_}
    return evaluate_known(labels, predicted, decodings=decoded, **settings)


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
