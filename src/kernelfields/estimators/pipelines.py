"""Pipelines: fields with a transformer before them, and descriptions for model files.

A pipeline is the descriptions of its transformers, which are registered in ``TRANSFORMERS`` of features/text.py, and
the document of its last step. The ``features`` of an estimator are described as such transformers. Nothing names code.
A model that ``kernelfields train`` fitted to features of a template is read as a pipeline of this template and the
model.
Raises TypeError naming the step that a file of data cannot hold; ModelFileError naming the file.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.pipeline import Pipeline

from kernelfields.estimators.going_on import features_as_text
from kernelfields.features.templates import get_model_template
from kernelfields.features.text import TRANSFORMERS, describe_transformer, rebuild_transformer
from kernelfields.models.model_file import Document
from kernelfields.models.model_text import PIPELINE
from kernelfields.models.stored import Functions, StoredEstimator, describe_stored, find_kind, rebuild_locally
from kernelfields.models.wrapped_field import unwrap_best

_STEPS = "TextFeatures, Sequencewise, OutOfFold, WindowFeatures, and a SequenceUnion of them"


def describe_pipeline(pipeline: Pipeline) -> Document:
    """Return a fitted pipeline as plain values and arrays, with the best estimator of a search."""
    *before, (name, last) = pipeline.steps
    kind, document = describe_model(last, f"the last step {name!r}")
    return {"steps": _described_steps(before), "estimator": {"name": name, "kind": kind, "document": document}}


def with_preprocessor(field: Any, transformer: Any) -> Any:
    """Return a copy of a fitted field that applies a fitted transformer to its inputs first."""
    copied, own = copy.copy(field), field._reader.features
    features = transformer if own is None else Pipeline([("before", transformer), ("features", own)])
    copied._reader = replace(field._reader, features=features)
    if "features" in field.get_params(deep=False):
        copied.features = copied.features_ = features
    if field._fitted_with is not None and "features" in field._fitted_with:
        copied._fitted_with = {**field._fitted_with, "features": features_as_text(features)}
    return copied


def describe_features(features: Any) -> list[Document]:
    """Return a fitted transformer, or a pipeline of them, as plain values and arrays."""
    return _described_steps(features.steps if isinstance(features, Pipeline) else [("features", features)])


def rebuild_features(described: Sequence[Document]) -> Any:
    """Rebuild a transformer from its description; errors of any kind if it is not sound."""
    steps = _rebuilt_steps(described)
    return Pipeline(steps) if len(steps) > 1 else steps[0][1]


def _described_steps(before: Sequence[tuple[str, Any]]) -> list[Document]:
    steps: list[Document] = []
    for own, step in before:
        if step is None or step == "passthrough":
            continue
        if step not in TRANSFORMERS:
            raise TypeError(
                f"the step {own!r} is a {type(step).__name__}, which a file of data cannot hold: it can hold {_STEPS}; "
                "apply other transformers before the pipeline"
            )
        try:
            described = describe_transformer(step)
        except TypeError as error:
            raise TypeError(f"the step {own!r} cannot be saved: {error}") from error
        steps.append({"name": own, "transformer": described})
    return steps


def _rebuilt_steps(described: Sequence[Document]) -> list[tuple[str, Any]]:
    # Transformers are registered where they are written.
    from kernelfields.features import out_of_fold, sequencewise, templates, window_features  # noqa: F401

    return [(str(step["name"]), rebuild_transformer(step["transformer"])) for step in described]


def describe_model(model: object, what: str) -> tuple[str, Document]:
    """Return the kind and the document of a fitted estimator or pipeline; TypeError for others."""
    model = unwrap_best(model)
    if isinstance(model, Pipeline):
        return PIPELINE, describe_pipeline(model)
    if not isinstance(model, StoredEstimator) or find_kind(model._kind) is not type(model):
        raise TypeError(f"{what} is a {type(model).__name__}, and not an estimator that can be saved")
    return describe_stored(model)


def rebuild_pipeline(document: Document, callables: Functions | None = None) -> Pipeline:
    """Rebuild a pipeline from its description; errors of any kind if it is not sound."""
    described = document["estimator"]
    if described["kind"] == PIPELINE:
        raise ValueError("a pipeline that ends in another")
    model = rebuild_model(described["kind"], described["document"], callables)
    return Pipeline([*_rebuilt_steps(document["steps"]), (str(described["name"]), model)])


def rebuild_model(kind: str, document: Document, callables: Functions | None = None) -> StoredEstimator | Pipeline:
    """Rebuild an estimator or pipeline of a kind; errors of any kind if the document is not sound."""
    if kind == PIPELINE:
        return rebuild_pipeline(document, callables)
    model = rebuild_locally(find_kind(kind), document, callables)
    template = get_model_template(document)
    return model if template is None else Pipeline([("template", template), ("model", model)])
