"""Small chains that are served: how they are fitted, and the sequences they are asked about."""

from __future__ import annotations

import atexit
import shutil
import warnings
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields import (
    ChainCRF,
    EdgeCliques,
    EndCliques,
    LabelDictionary,
    NodeCliques,
    SkipCliques,
    StartCliques,
)
from kernelfields.compat import CRF
from kernelfields.kernels import RBF, Columns, Linear, Matern, Normalized, Polynomial
from tests.samples import as_words, labelled_sequences

X, Y = labelled_sequences(12, n_features=4)
WORDS = as_words(Y)
ENTITIES = [np.array(["B-x", "I-x", "O"])[labels] for labels in Y]
UNEVEN = [x * np.array([1.0, 100.0, 0.01, 1.0]) for x in X]
DICTS = [[{"sign": str(row[0] > 0), "size": float(abs(row[1])), "up": bool(row[2] > 0)} for row in x] for x in X]
STRINGS = [[[f"sign={row[0] > 0}", f"size={round(abs(row[1]))}", "bias"] for row in x] for x in X]
SPARSE = [scipy.sparse.csr_array(np.where(np.abs(x) > 0.7, x, 0.0)) for x in X]
FIXED = {"tol": 0.5, "random_state": 0, "prior_variance": 1.0, "rank": 8}
FORBIDDEN = [("noun", "noun")]
SPELLED_OUT = [
    NodeCliques("laplacian", window=(1, 0), rank=6),
    EdgeCliques(),
    EdgeCliques("linear", name="seen steps"),
    StartCliques("linear"),
    EndCliques(),
    SkipCliques(lag=1, name="also steps"),
]
MODELS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "rbf": ({"kernel": "rbf"}, X, WORDS),
    "rbf, scaled": ({"kernel": "rbf", "scale": True, "decode": "viterbi"}, UNEVEN, Y),
    "one column, scaled": ({"kernel": "linear", "scale": True}, [x[:, 1:2] for x in UNEVEN], WORDS),
    "rbf, float32": ({"kernel": "rbf"}, [x.astype(np.float32) for x in X], WORDS),
    "linear and polynomial": (
        {"kernel": Linear() + Polynomial(2), "prior_variance": (1.0, 0.5), "window": 3},
        X,
        WORDS,
    ),
    "kernels of kernels": (
        {"kernel": Normalized(Polynomial(2)) * Columns(RBF(), 0, 2) + 2.0 * Matern(2.5) ** 2},
        X,
        WORDS,
    ),
    "transitions that see": (
        {"cliques": [NodeCliques("linear", label_kernel="centred"), EdgeCliques("rbf")], "decode": "posterior"},
        X,
        WORDS,
    ),
    "spelled out": ({"cliques": SPELLED_OUT, "constraints": FORBIDDEN}, X, None),
    "dicts": ({"kernel": "linear", "support": "observed", "l1": 0.01}, DICTS, WORDS),
    "dicts, entities": ({"kernel": "linear", "support": "observed"}, DICTS, ENTITIES),
    "strings": ({"kernel": "linear", "window": (1, 1)}, STRINGS, ENTITIES),
    "strings, rbf": ({"kernel": Linear() + RBF(), "window": (0, 1)}, STRINGS, WORDS),
    "sparse": (
        {"kernel": Columns(RBF(), 1, 4) + Columns(Linear(), 0, 3), "edges": EdgeCliques("linear")},
        SPARSE,
        WORDS,
    ),
    "sparse, laplacian": ({"kernel": "laplacian"}, SPARSE, WORDS),
    "dictionary": ({"kernel": "linear", "allowed": LabelDictionary("sign", min_count=1)}, DICTS, WORDS),
    "dictionary of a column": ({"kernel": "linear", "allowed": LabelDictionary(3, min_count=2)}, None, WORDS),
    "compat": ({}, DICTS, WORDS),
}
#: Those that have no form in ONNX, and what the message names.
NOT_IN_ONNX = {
    "sparse, laplacian": "laplacian",
    "dictionary": "LabelDictionary",
    "dictionary of a column": "LabelDictionary",
}


def inputs_of(name: str) -> Any:
    """Return the sequences of a model, those of the fit and one of a single position."""
    given = MODELS[name][1]
    if given is None:
        given = [np.round(x) for x in X]
    return [*given, given[0][:1]]


@cache
def fitted(name: str) -> tuple[Any, Path]:
    """Return a fitted model, and the file that it was written to."""
    settings, _, labels = MODELS[name]
    if labels is None:
        labels = [np.array(["adj", "noun", "verb"])[_apart(each)] for each in Y]
    sequences = inputs_of(name)[:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "compat":
            model: Any = CRF(max_iterations=5).fit(sequences, [each.tolist() for each in labels])
        else:
            model = ChainCRF(**{**FIXED, **settings}).fit(sequences, labels)
    folder = mkdtemp(prefix="served-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "model.kfm"
    model.save(path)
    return (model.chain_ if name == "compat" else model), path


def _apart(labels: np.ndarray) -> np.ndarray:
    """Labels none of whose neighbours are both the second one."""
    changed = labels.copy()
    for t in range(1, len(changed)):
        if changed[t - 1] == changed[t] == 1:
            changed[t] = 2
    return changed
