"""Tools around an estimator: copies, pipelines, searches, files."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.cells.data_forms import agree, answers
from benchmarks.cells.features import feature
from benchmarks.cells.subjects import Frames, Points, Searched, Subject
from benchmarks.cells.verdicts import check, close, same
from kernelfields import FieldSearchCV, FrameCRF
from kernelfields.serving import load_chain, to_onnx

_TOOLS = "tools"


@feature(_TOOLS, "clone")
def cloned(s: Subject) -> None:
    """Copy the estimator, fit the copy, and compare."""
    other = clone(s.make())
    check(str(other.get_params()) == str(s.make().get_params()), "other parameters")
    agree(s, s.fit_to(other, s.X, [item.labels for item in s.items], {}))


@feature(_TOOLS, "set_params")
def set_params(s: Subject) -> None:
    """Set a parameter of the estimator, and fit as if it had been given."""
    estimator = s.make()
    inner = [name for name in estimator.get_params() if name.split("__")[-1] in ("prior_variance", "c2")]
    name = min(inner, key=len)
    estimator.set_params(**{name: 0.1 if name != "c2" else 5.0})
    given = {"c2": 5.0} if name == "c2" else {"prior_variance": 0.1}
    labels = [item.labels for item in s.items]
    if isinstance(s, Searched):
        estimator.set_params(prior_variances=[0.1])
        other = s.make(**given).set_params(prior_variances=[0.1])
        agree(s, s.fit_to(estimator, s.X, labels, {}), other=s.fit_to(other, s.X, labels, {}))
        return
    agree(s, s.fit_to(estimator, s.X, labels, {}), other=s.fit(**given))


@feature(_TOOLS, "Pipeline")
def pipeline(s: Subject) -> None:
    """Put it behind a transformer."""
    model = make_pipeline(FunctionTransformer(), s.make())
    X, labels = s.X, [item.labels for item in s.items]
    fitted = s.fit_to(model, X, labels, {})
    if isinstance(s, Points):
        close(fitted.score_samples(s.X_new), s.model.score_samples(s.X_new), 1e-6)
        return
    found, expected = (s.labels(each.predict(s.X_new)) for each in (fitted, s.model))
    same(found, expected)


def _folds(s: Subject) -> dict[str, Any]:
    return {"cv": 2} if s.name != "FrameCRF" else {"cv": GroupKFold(2), "groups": s.X["sequence"]}


@feature(_TOOLS, "cross_val_score")
def cross_validated(s: Subject) -> None:
    """Score folds by scikit-learn."""
    y = None if not s.labelled else s.y
    scores = cross_val_score(s.make(), s.X, y, error_score="raise", **_folds(s))
    check(np.isfinite(scores).all(), f"scores {scores}")


@feature(_TOOLS, "GridSearchCV")
def grid_search(s: Subject) -> None:
    """Search two prior variances by scikit-learn."""
    estimator = s.make()
    inner = [name for name in estimator.get_params() if name.split("__")[-1] in ("prior_variance", "c2")]
    name, folds = min(inner, key=len), _folds(s)
    groups = {"groups": folds.pop("groups")} if "groups" in folds else {}
    search = GridSearchCV(estimator, {name: [0.1, 1.0]}, error_score="raise", **folds)
    search.fit(s.X, None if not s.labelled else s.y, **groups)
    check(np.isfinite(search.best_score_), f"best score {search.best_score_}")


@feature(_TOOLS, "FieldSearchCV")
def our_search(s: Subject) -> None:
    """Search two prior variances by FieldSearchCV, and compare the best with a fit of its parameters."""
    settings: dict[str, Any] = {"prior_variances": [0.1, 1.0], "cv": 2, "halving": False, "extend": False}
    search: Any
    if isinstance(s, Frames):
        search = FrameCRF(FieldSearchCV(s.make().estimator, **settings, random_state=0))
    else:
        search = FieldSearchCV(s.make(), **settings, random_state=0)
    s.fit_to(search, s.X, [item.labels for item in s.items], {})
    check(np.isfinite(search.best_score_), f"best score {search.best_score_}")
    best = s.fit(prior_variance=search.best_params_["prior_variance"])
    agree(s, search, other=best)


@feature(_TOOLS, "save, load")
def saved(s: Subject) -> None:
    """Write the model to a file, read it, and compare answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        s.model.save(path)
        loaded = type(s.model).load(path)
    close(answers(s, loaded), answers(s, s.model), 1e-12, "answers")


@feature(_TOOLS, "pickle")
def pickled(s: Subject) -> None:
    """Pickle and copy the model, and compare answers."""
    for other in (pickle.loads(pickle.dumps(s.model)), copy.deepcopy(s.model)):
        close(answers(s, other), answers(s, s.model), 1e-12, "answers")


@feature(_TOOLS, "repr, HTML")
def shown(s: Subject) -> None:
    """Show the estimator, fitted and not."""
    for estimator in (s.make(), s.model):
        check(type(estimator).__name__ in repr(estimator), "no name")
        check("<" in estimator._repr_mimebundle_()["text/html"], "no page")


@feature(_TOOLS, "load_chain (NumPy alone)")
def served(s: Subject) -> None:
    """Read the model file with NumPy alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        s.model.save(path)
        chain = load_chain(path)
    X = s.X_new if not isinstance(s.X_new, pd.DataFrame) else [item.x for item in s.new]
    X = [X] if s.rows else X
    close(np.concatenate(chain.predict_marginals(X)), np.concatenate(s.marginals(s.model)), 1e-9, "marginals")


@feature(_TOOLS, "ONNX", quick=False)
def onnx(s: Subject) -> None:
    """Export to ONNX, and run the graph."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(s.model, path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        s.field(s.model).save(path.with_suffix(".model"))
        inputs = load_chain(path.with_suffix(".model")).inputs
    item = s.new[2]
    seen = item.x if s.name != "compat.CRF" else s.one(item)
    names = [entry.name for entry in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, inputs.encoded(seen)), strict=True))
    close(outputs["marginals"], s.marginals(s.model)[2], 1e-6, "marginals")
