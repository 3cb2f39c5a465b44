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
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import kernelfields
from kernelfields import FieldSearchCV, FrameCRF, OutOfFold, WindowFeatures
from kernelfields.features import TunedEncoder
from kernelfields.serving import load_chain, to_onnx
from tests.campaigns.cells.data_forms import agree, answers
from tests.campaigns.cells.features import feature
from tests.campaigns.cells.subjects import Frames, Points, Searched, Subject
from tests.campaigns.cells.verdicts import Inexpressible, check, close, same

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


@feature(_TOOLS, "behind OutOfFold")
def behind_out_of_fold(s: Subject) -> None:
    """Put it behind a classifier whose predictions come from the other folds."""
    forest = RandomForestClassifier(5, min_samples_leaf=3, random_state=0)
    _kept(s, _behind(s, OutOfFold(forest, cv=2), s.X, s.X_new))


@feature(_TOOLS, "behind WindowFeatures")
def behind_windows(s: Subject) -> None:
    """Put it behind means and ranges over windows."""
    _kept(s, _behind(s, WindowFeatures(widths=3), s.X, s.X_new))


@feature(_TOOLS, "behind TunedEncoder", quick=False)
def behind_encoder(s: Subject) -> None:
    """Put it behind a tiny encoder of words, with random weights, that is tuned fold by fold."""
    if s.rows or s.items[0].edges is not None or isinstance(s, Frames):
        raise Inexpressible("an encoder takes words of sequences")
    words = [[[_WORDS[int(row.argmax())] for row in item.x] for item in items] for items in (s.items, s.new)]
    with tempfile.TemporaryDirectory() as folder:
        _write_encoder(Path(folder))
        tuned = TunedEncoder(folder, cv=2, epochs=1, device="cpu", cache=None)
        model = _behind(s, tuned, *words)
        # An encoder has a folder of its own beside the file of the field.
        model[0].save(Path(folder) / "tuned")
        loaded = TunedEncoder.load(Path(folder) / "tuned")
        same(s.labels(model[-1].predict(loaded.transform(words[1]))), s.labels(model.predict(words[1])))


_WORDS = ("the", "cat", "sat")


def _write_encoder(folder: Path) -> None:
    """Write an encoder of one layer with random weights."""
    import torch
    import transformers

    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS]
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(pieces), max_position_embeddings=16, **shape)
    transformers.BertModel(config).save_pretrained(folder)


def _behind(s: Subject, transformer: Any, X: Any, X_new: Any) -> Any:
    """Return a fitted pipeline, after it was compared with a fit to what the transformer makes."""
    labels, inner = [item.labels for item in s.items], s.make()
    if isinstance(s, Frames):
        model: Any = FrameCRF(make_pipeline(transformer, inner.estimator))
    else:
        model = make_pipeline(transformer, inner)
    s.fit_to(model, X, labels, {})
    if not isinstance(s, Frames):
        made = clone(transformer)
        other = s.fit_to(s.make(), made.fit_transform(X, s.y), labels, {})
        same(s.labels(model.predict(X_new)), s.labels(other.predict(made.transform(X_new))))
    return model


def _kept(s: Subject, model: Any) -> None:
    """Write a pipeline to a file, read it, and compare."""
    with tempfile.TemporaryDirectory() as folder:
        kernelfields.save(model, Path(folder) / "model")
        loaded = kernelfields.load(Path(folder) / "model")
    same(s.labels(loaded.predict(s.X_new)), s.labels(model.predict(s.X_new)), "labels after a file")


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
    settings: dict[str, Any] = {"prior_variances": [0.1, 1.0], "cv": 2, "halving": False}
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
    close(np.vstack(chain.predict_marginals(X)), np.concatenate(s.marginals(s.model)), 1e-9, "marginals")


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
    seen = s.one(item) if s.of_words or s.name == "compat.CRF" else item.x
    names = [entry.name for entry in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, inputs.encode(seen)), strict=True))
    close(outputs["marginals"], s.marginals(s.model)[2], 1e-6, "marginals")
