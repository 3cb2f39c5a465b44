"""Why averages over the Laplace posterior can be bad: measured on held-out training sequences, none of a test.

*choices*: probit and sampling, with what the basis leaves out and without, for a fit to two thirds of the training
sequences. *causes*: OCR letters in a field small enough for the explicit Hessian (rank 40, 300 words), one
suspicion after the other: Lanczos steps, number of draws, node potentials or transitions, prior variances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from experiments.calibration_data import held_out_third
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.evaluation import marginal_log_loss

WORDS, RANK, NARROW = 300, 40, 3.0
DRAWS = (10, 50, 400)
STEPS = (10, 30, 100)


def choices(name: str, fitted: ChainCRF, X: list, y: list, steps: int) -> list[dict]:
    """Return a row for each way to know doubt, on a third of the training sequences."""
    X, y, X_held, y_held = held_out_third(X, y)
    crf = clone(fitted).fit(X, y)
    crf.laplace(X, y, n_samples=30, steps=steps, probes=2, random_state=0)
    found = crf.laplace_
    rows = [{"model": "mode", **scores(crf, X_held, y_held, False)}]
    for beyond in ("auto", "all"):
        crf.laplace_ = replace(found, left_out=found.left_out if beyond == "auto" else None)
        for kind in ("probit", "sampling"):
            rows.append({"model": f"{kind}, {beyond}", **scores(crf, X_held, y_held, kind)})
    return [{"set": f"{name}, held out", "rise": found.rise, **row} for row in rows]


def causes(fitted: ChainCRF, X: list, y: list) -> list[dict]:
    """Return a row for each suspicion, on letters."""
    X, y, X_held, y_held = held_out_third(X[: 3 * WORDS // 2], y[: 3 * WORDS // 2])
    crf = clone(fitted).set_params(rank=RANK).fit(X, y)
    rows = [
        {"model": model, **row}
        for model, row in [
            *suspicions(crf, X, y, X_held, y_held),
            *narrowed(crf, X, y, X_held, y_held),
        ]
    ]
    return [{"set": "letters, causes", **row} for row in rows]


def suspicions(crf: ChainCRF, X: list, y: list, X_held: list, y_held: list) -> Iterator[tuple[str, dict]]:
    """Yield what each suspicion alone explains."""
    yield "mode", scores(crf, X_held, y_held, False)
    crf.laplace(X, y, n_samples=max(DRAWS), method="exact", beyond_basis=False, random_state=0)
    exact, variances = crf.laplace_, np.vstack(crf.predict_variances(X_held))
    for count in DRAWS:
        crf.laplace_ = replace(exact, samples=[each[:count] for each in exact.samples])
        yield f"exact, {count} draws", {"rise": exact.rise, **scores(crf, X_held, y_held, "sampling")}
    centre = [each.coefficients[None] for each in crf.field_.terms]
    for number, part in enumerate(("node potentials", "transitions")):
        drawn = [
            each if own == number else np.repeat(centre[own], len(each), axis=0)
            for own, each in enumerate(exact.samples)
        ]
        crf.laplace_ = replace(exact, samples=drawn)
        yield f"exact, {part} alone", scores(crf, X_held, y_held, "sampling")
    crf.laplace_ = exact
    yield "probit", {"rise": exact.rise, **scores(crf, X_held, y_held, "probit")}
    for steps in STEPS:
        crf.laplace(X, y, n_samples=50, method="lanczos", steps=steps, probes=2, beyond_basis=False, random_state=0)
        ratio = float(np.mean(np.vstack(crf.predict_variances(X_held)) / variances))
        yield f"Lanczos, {steps} steps", {"variance_ratio": ratio, **scores(crf, X_held, y_held, "sampling")}


def narrowed(crf: ChainCRF, X: list, y: list, X_held: list, y_held: list) -> Iterator[tuple[str, dict]]:
    """Yield the same with transitions of a small prior variance."""
    crf = clone(crf).set_params(edges=EdgeCliques(prior_variance=NARROW)).fit(X, y)
    yield "narrow transitions, mode", scores(crf, X_held, y_held, False)
    crf.laplace(X, y, n_samples=100, method="exact", beyond_basis=False, random_state=0)
    for kind in ("sampling", "probit"):
        yield f"narrow transitions, {kind}", {"rise": crf.laplace_.rise, **scores(crf, X_held, y_held, kind)}


def scores(crf: ChainCRF, X: list, y: list, uncertainty: bool | str) -> dict:
    """Return accuracy and log-loss of marginals."""
    marginals = crf.predict_marginals(X, uncertainty=uncertainty)
    labels = crf.classes_[np.vstack(marginals).argmax(axis=1)]
    return {
        "accuracy": float(np.mean(labels == np.concatenate(y))),
        "log_loss": marginal_log_loss(y, marginals, crf.classes_),
    }
