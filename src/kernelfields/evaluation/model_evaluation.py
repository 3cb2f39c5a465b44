"""Evaluation of a fitted field on labelled data: its predictions in both decodings, likelihood and calibration.

    print(evaluate_model(crf, X_test, y_test))

Cost: four passes over the data, for the labels of both decodings, marginals and likelihoods.
Fails: TypeError for a model that gives no marginals; else as ``evaluate`` and the model do.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from kernelfields.evaluation.evaluation import Evaluation, evaluate

#: The two ways to read labels off a field, as evaluations name them.
JOINT, POSTERIOR = "viterbi", "posterior"


def evaluate_model(
    model: Any, X: Any, y: Any, *, decode: str | None = None, labels_only: bool = False, **settings: Any
) -> Evaluation:
    """Compare what a fitted ChainCRF or GraphCRF says of X with the true labels y.

    Where inference is approximate there is no log-likelihood.

    Parameters
    ----------
    model : fitted estimator
    X, y : sequences or graphs, and the true labels of each
    decode : "viterbi", "posterior" or None for the model's own; both are listed where they differ
    labels_only : leave out likelihood and calibration, which know no labels that the fit did not see
    settings : further parameters of :func:`evaluate`: scheme, labels, n_bins, n_resamples, confidence, random_state
    """
    if not hasattr(model, "predict_marginals"):
        raise TypeError(f"evaluate_model takes a fitted ChainCRF or GraphCRF, got {type(model).__name__}")
    decoded = both_decodings(model, X)
    predicted = model.predict(X) if decode is None else decoded[_checked(decode)]
    if not labels_only:
        # Sequences and graphs have one word each for "one figure for each".
        each = next(name for name in signature(model.log_likelihood).parameters if name.startswith("per_"))
        inference = getattr(model, "inference_", None)
        if inference is None or inference.exact:
            settings["log_likelihood"] = model.log_likelihood(X, y, **{each: True})
        settings |= {"marginals": model.predict_marginals(X), "classes": model.classes_}
    return evaluate(y, predicted, decodings=decoded, **settings)


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
