"""Families of kernels on one task: chosen inside training data, fitted, measured on test data, compared in pairs.

    family = Family("RBF", "RBF", [RBF(0.3), RBF(1.0)], [1.0, 10.0])
    choice = choose(family, {"scores": X_train}, y_train, ChainCRF(rank=300))
    row = {"family": family.name, **choice.row(), **measure(choice.estimator, X_test, y_test)}
    paired(linear_row, row)["accuracy"]                   difference, low, high

``views`` are several ways of writing the inputs (scales, windows); cross-validation chooses among them as it does
among kernels. A row keeps which positions were right, so that later rows can be compared with it, sequence by
sequence, from the file alone: "right" and "right_viterbi" are compressed text with a 1 or 0 for each position and
a space between sequences.
"""

from __future__ import annotations

import base64
import time
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from experiments.pictures import at_places
from kernelfields import ChainCRF
from kernelfields.evaluation import compare, evaluate
from kernelfields.selection import ChainCRFCV


@dataclass(frozen=True)
class Family:
    """Kernels of one kind; ``place`` is where it stands in pictures, a degree or a name."""

    name: str
    place: int | str
    kernels: Sequence
    prior_variances: Sequence[float]


@dataclass(frozen=True)
class Choice:
    """What cross-validation chose: the view of the inputs and the estimator, not fitted yet."""

    view: str
    estimator: ChainCRF
    score: float
    at_edge: bool
    n_candidates: int
    n_unconverged: int
    seconds: float

    def row(self) -> dict:
        """Return plain values for JSON."""
        return {
            "view": self.view,
            "kernel": repr(self.estimator.kernel),
            "prior_variance": self.estimator.prior_variance,
            "cv_score": self.score,
            "at_edge": self.at_edge,
            "n_candidates": self.n_candidates,
            "n_unconverged": self.n_unconverged,
            "selection_seconds": self.seconds,
        }


def choose(
    family: Family, views: Mapping[str, list], y: list, estimator: ChainCRF, *, groups: object = None, **search
) -> Choice:
    """Return the best view, kernel and prior variance; ``search`` are settings of ChainCRFCV."""
    begin = time.perf_counter()
    settings = {"halving": False, "random_state": 0, "refit": False, **search}
    found = {}
    for name, X in views.items():
        found[name] = ChainCRFCV(
            estimator,
            kernels=list(family.kernels),
            prior_variances=list(family.prior_variances),
            **settings,
        )
        with warnings.catch_warnings():
            # Fits that stop at max_iter are counted below.
            warnings.simplefilter("ignore", ConvergenceWarning)
            found[name].fit(X, y, groups=groups)
    best = max(found, key=lambda name: found[name].best_score_)
    chosen = found[best].best_params_
    ends = {min(family.prior_variances), max(family.prior_variances)}
    return Choice(
        view=best,
        estimator=clone(estimator).set_params(**chosen),
        score=float(found[best].best_score_),
        at_edge=len(ends) > 1 and chosen["prior_variance"] in ends,
        n_candidates=len(views) * len(family.kernels) * len(family.prior_variances),
        n_unconverged=sum(int(np.sum(each.cv_results_["n_unconverged"])) for each in found.values()),
        seconds=time.perf_counter() - begin,
    )


def measure(model: ChainCRF, X: list, y: list, *, labels: bool = True, calibration: bool = True) -> dict:
    """Return figures of a fitted field on test sequences, with intervals from resampled sequences.

    Positions are decoded one by one (posterior), for whole sequences the best labelling is taken (Viterbi).
    """
    begin = time.perf_counter()
    marginals = model.predict_marginals(X)
    posterior = [model.classes_[each.argmax(axis=1)] for each in marginals]
    viterbi = model.predict(X)
    seconds = time.perf_counter() - begin
    reliability = {"marginals": marginals, "classes": model.classes_} if calibration else {}
    figures = evaluate(y, posterior, random_state=0, **reliability).to_dict()
    row = {
        "accuracy": figures["accuracy"],
        "sequence_accuracy": evaluate(y, viterbi, random_state=0).sequence_accuracy.to_dict(),
        "n_sequences": figures["n_sequences"],
        "n_positions": figures["n_tokens"],
        "predict_seconds": seconds,
        "right": pack_right(y, posterior),
        "right_viterbi": pack_right(y, viterbi),
    }
    if labels:
        # Labels as text: names of NumPy's integers are not JSON.
        row["labels"] = [{**each, "label": str(each["label"])} for each in figures["labels"]]
    if calibration:
        row["calibration"] = figures["calibration"]
    return row


def fit_row(model: ChainCRF, X: list, y: list) -> dict:
    """Fit and return what it took."""
    begin = time.perf_counter()
    model.fit(X, y)
    return {
        "fit_seconds": time.perf_counter() - begin,
        "rank": model.basis_["node"].rank,
        "solver": model.solution_.solver,
        "passes": model.solution_.passes,
        "relative_gap": model.solution_.relative_gap,
    }


def pack_right(y_true: list, y_pred: list) -> str:
    """Return which positions are right, as compressed text."""
    shown = " ".join(
        "".join("1" if a == b else "0" for a, b in zip(true, guessed, strict=True))
        for true, guessed in zip(y_true, y_pred, strict=True)
    )
    return base64.b64encode(zlib.compress(shown.encode("ascii"), 9)).decode("ascii")


def unpack_right(packed: str) -> list[np.ndarray]:
    """Return what :func:`pack_right` wrote, one array of 1 and 0 per sequence."""
    shown = zlib.decompress(base64.b64decode(packed)).decode("ascii")
    return [np.array(list(each), dtype=int) for each in shown.split(" ")]


def both_right(first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
    """Return where two labellings of the same positions are both right."""
    return [a & b for a, b in zip(first, second, strict=True)]


def accuracy_of(right: list[np.ndarray]) -> dict:
    """Return the shares of right positions and of wholly right sequences, with intervals."""
    figures = evaluate([np.ones_like(each) for each in right], right, random_state=0)
    return {"accuracy": figures.accuracy.to_dict(), "sequence_accuracy": figures.sequence_accuracy.to_dict()}


def paired(first: list[np.ndarray], second: list[np.ndarray]) -> dict:
    """Return how much better ``second`` is than ``first``: differences with 95 % intervals over sequences."""
    found = compare([np.ones_like(each) for each in first], first, second, random_state=0)
    return {name: getattr(found, name).difference.to_dict() for name in ("accuracy", "sequence_accuracy")}


def grid_ends(families: Sequence[Family], rows: list[dict]) -> str:
    """Say how many choices lie at an end of what was tried, where a wider grid might have done better."""
    kernels = {each.name: [repr(kernel) for kernel in each.kernels] for each in families}
    several = [row for row in rows if len(kernels[row["family"]]) > 1]
    at_ends = [row for row in several if row["kernel"] in (kernels[row["family"]][0], kernels[row["family"]][-1])]
    return (
        f"{sum(row['at_edge'] for row in rows)} of {len(rows)} choices have a prior variance at an end of its "
        f"grid, and {len(at_ends)} of {len(several)} have a kernel scale at an end of its grid."
    )


def verdict(difference: dict) -> str:
    """Say in words what an interval of a difference says."""
    if difference["low"] > 0:
        return "better"
    return "worse" if difference["high"] < 0 else "not distinguishable"


def family_plot(families: Sequence[Family], curves: Mapping[str, Mapping[str, dict]], name: str) -> Figure:
    """Return figures against degree, RBF last; ``curves`` holds for each curve the figure of each family."""
    columns = {key: [figures.get(each.name) for each in families] for key, figures in curves.items()}
    return at_places([each.place for each in families], columns, name, "degree")


def total_seconds(rows: list[dict]) -> float:
    """Return the seconds of selection, fits and prediction of all rows."""
    return sum(row.get(part, 0.0) for row in rows for part in ("selection_seconds", "fit_seconds", "predict_seconds"))
