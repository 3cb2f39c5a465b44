"""Evaluation of a fitted field on labelled data: its predictions in both decodings, likelihood and calibration.

    print(evaluate_model(crf, X_test, y_test))

Cost: four passes over the data, for the labels of both decodings, marginals and likelihoods.
Fails: TypeError for a model that gives no marginals; else as ``evaluate`` and the model do.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from kernelfields.evaluation.evaluation import Evaluation, evaluate
from kernelfields.fields.evidence import is_partial, single_labels

#: The two ways to read labels off a field, as evaluations name them.
JOINT, POSTERIOR = "viterbi", "posterior"
_NOTHING_KNOWN = "no label is known: there is no position to compare predictions with"


def evaluate_model(
    model: Any, X: Any, y: Any, *, decode: str | None = None, labels_only: bool = False, **settings: Any
) -> Evaluation:
    """Compare what a fitted ChainCRF or GraphCRF says of X with the true labels y.

    Where inference is approximate there is no log-likelihood. Where y is partly known, positions count whose label is,
    and the likelihood is that of what is known; there are no figures of entities then.

    Parameters
    ----------
    model : fitted estimator
    X, y : sequences or graphs, and the true labels of each
    decode : "viterbi", "posterior" or None for the model's own; both are listed where they differ
    labels_only : leave out likelihood and calibration, which know no labels that the fit did not see
    settings : further parameters of :func:`evaluate`: scheme, labels, n_bins, n_resamples, confidence, random_state
    """
    if not hasattr(model, "predict_marginals"):
        advice = "; of a classifier, evaluate(y[:, None], model.predict(X)[:, None]) compares the labels"
        raise TypeError(
            f"evaluate_model takes a fitted ChainCRF or GraphCRF, got {type(model).__name__}"
            f"{advice if hasattr(model, 'predict_proba') else ''}"
        )
    if any(map(is_partial, y)):
        # Sequences of which nothing is known have no part in any figure.
        told = [number for number, labels in enumerate(y) if _places(single_labels(labels)).size]
        X, y = [X[number] for number in told], [y[number] for number in told]
        if not told:
            raise ValueError(_NOTHING_KNOWN)
    decoded = both_decodings(model, X)
    predicted = model.predict(X) if decode is None else decoded[_checked(decode)]
    if not labels_only:
        # Sequences and graphs have one word each for "one figure for each".
        each = next(name for name in signature(model.log_likelihood).parameters if name.startswith("per_"))
        inference = getattr(model, "inference_", None)
        if inference is None or inference.exact:
            settings["log_likelihood"] = model.log_likelihood(X, y, **{each: True})
        settings |= {"marginals": model.predict_marginals(X), "classes": model.classes_}
    return evaluate_known(y, predicted, decodings=decoded, **settings)


def evaluate_known(y_true: Any, y_pred: Any, **settings: Any) -> Evaluation:
    """Return :func:`evaluate` of the positions whose true label is known; entities need every label, and are left out.

    ``settings`` are those of :func:`evaluate`; ValueError if a scheme of entities is named for labels that are partly
    known.
    """
    lists = {name: settings.pop(name) for name in ("marginals",) if settings.get(name) is not None}
    named = settings.pop("decodings", None) or {}
    kept, *others, scheme = known_only(
        y_true, y_pred, *lists.values(), *named.values(), scheme=settings.get("scheme", "auto")
    )
    settings |= dict(zip(lists, others[1:], strict=False)) | {"scheme": scheme}
    if named:
        settings["decodings"] = dict(zip(named, others[1 + len(lists) :], strict=True))
    return evaluate(kept, others[0], **settings)


def known_only(y: Any, *others: Any, scheme: str | None) -> tuple:
    """Return y and what goes along with it at the positions whose label is known, and the scheme of entities to count.

    Sequences of which nothing is known are left out.
    """
    if not any(map(is_partial, y)):
        return y, *others, scheme
    if scheme not in (None, "auto"):
        raise ValueError(
            f"scheme={scheme!r}: entities are counted where every label is known, and labels are partly known here"
        )
    y = [single_labels(labels) for labels in y]
    places = [_places(labels) for labels in y]
    chosen = [
        [_taken(labels, own) for labels, own in zip(values, places, strict=True) if own.size] for values in (y, *others)
    ]
    if not chosen[0]:
        raise ValueError(_NOTHING_KNOWN)
    return *chosen, None


def _places(labels: list) -> np.ndarray:
    return np.array([place for place, label in enumerate(labels) if label is not None], dtype=np.int64)


def _taken(values: Any, places: np.ndarray) -> Any:
    return values[places] if isinstance(values, np.ndarray) else [values[place] for place in places]


def both_decodings(model: Any, X: Any) -> dict[str, list]:
    """Return the labels of X as a whole and one by one, by the names of the decodings."""
    on_graphs = "per_graph" in signature(model.log_likelihood).parameters
    return {
        JOINT: model.predict(X, decode="joint" if on_graphs else "viterbi"),
        POSTERIOR: model.predict(X, decode="posterior"),
    }


def _checked(decode: str) -> str:
    names = {JOINT: JOINT, "joint": JOINT, POSTERIOR: POSTERIOR}
    if decode not in names:
        raise ValueError(f"decode must be 'viterbi', 'posterior' or None for the model's own, got {decode!r}")
    return names[decode]
