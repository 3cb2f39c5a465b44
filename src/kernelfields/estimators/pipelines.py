"""Descriptions of estimators of every kind, and of pipelines that begin with words.

A pipeline is the descriptions of its transformers, which are registered in ``TRANSFORMERS`` of features/text.py, and
the document of its last step. Nothing in it names code. A model that ``kernelfields train`` fitted to features of a
template is read as a pipeline of this template and the model.
Fails: TypeError naming the step that a file of data cannot hold; ModelFileError naming the file.
"""

from __future__ import annotations

from sklearn.pipeline import Pipeline

from kernelfields.features.templates import trained_template
from kernelfields.features.text import TRANSFORMERS, describe_transformer, rebuild_transformer
from kernelfields.models.model_file import Document
from kernelfields.models.model_text import PIPELINE
from kernelfields.models.stored import Functions, StoredEstimator, find_kind

_STEPS = "TextFeatures, Sequencewise, OutOfFold, WindowFeatures, and a SequenceUnion of them"


def describe_pipeline(pipeline: Pipeline) -> Document:
    """Return a fitted pipeline, of a search the best, as plain values and arrays; TypeError naming another step."""
    *before, (name, last) = pipeline.steps
    last = getattr(last, "best_estimator_", last)
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
    kind, document = describe_model(last, f"the last step {name!r}")
    return {"steps": steps, "estimator": {"name": name, "kind": kind, "document": document}}


def describe_model(model: object, what: str) -> tuple[str, Document]:
    """Return the kind of a fitted estimator or pipeline and what describes it; TypeError if it cannot be saved."""
    if isinstance(model, Pipeline):
        return PIPELINE, describe_pipeline(model)
    if not isinstance(model, StoredEstimator) or find_kind(model.kind) is not type(model):
        raise TypeError(f"{what} is a {type(model).__name__}, and not an estimator that can be saved")
    return model.kind, model.to_document()


def rebuild_pipeline(document: Document, callables: Functions | None = None) -> Pipeline:
    """Return the pipeline that was described; errors of any kind if it is not sound."""
    # Transformers are registered where they are written.
    from kernelfields.features import out_of_fold, sequencewise, window_features  # noqa: F401

    described = document["estimator"]
    if described["kind"] == PIPELINE:
        raise ValueError("a pipeline that ends in another")
    steps = [(str(step["name"]), rebuild_transformer(step["transformer"])) for step in document["steps"]]
    model = rebuild_model(described["kind"], described["document"], callables)
    return Pipeline([*steps, (str(described["name"]), model)])


def rebuild_model(kind: str, document: Document, callables: Functions | None = None) -> StoredEstimator | Pipeline:
    """Return the estimator or pipeline of a kind that was described; errors of any kind if it is not sound."""
    if kind == PIPELINE:
        return rebuild_pipeline(document, callables)
    model = find_kind(kind).placed(document, callables)
    template = trained_template(document)
    return model if template is None else Pipeline([("template", template), ("model", model)])
