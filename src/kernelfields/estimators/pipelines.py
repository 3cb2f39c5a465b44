"""Model files of every kind: ``save`` and ``load`` of estimators, and of pipelines that begin with words.

    model = make_pipeline(TextFeatures(), ChainCRF()).fit(words, y)
    save(model, "names.kfm")
    load("names.kfm").predict(words)

A pipeline is the descriptions of its transformers, which are registered in ``TRANSFORMERS`` of features/text.py, and
the document of its last step. Nothing in it names code. A model that ``kernelfields train`` fitted to features of a
template is read as a pipeline of this template and the model.
Fails: TypeError naming the step that a file of data cannot hold; ModelFileError naming the file.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.pipeline import Pipeline

from kernelfields.estimators.stored import KINDS, Functions, PathLike, StoredEstimator
from kernelfields.features.text import TRANSFORMERS, describe_transformer, rebuild_transformer
from kernelfields.formats.model_file import Document
from kernelfields.formats.model_text import PIPELINE
from kernelfields.formats.templates import trained_template
from kernelfields.models.documents import read_document_of, write_document

_STEPS = "TextFeatures, OutOfFold, WindowFeatures, and a SequenceUnion of them"


def save(model: StoredEstimator | Pipeline, path: PathLike) -> None:
    """Write a fitted estimator, or a pipeline of transformers and one, to a file of data, atomically."""
    if isinstance(model, Pipeline):
        write_document(path, PIPELINE, describe_pipeline(model))
    elif hasattr(model, "save"):
        model.save(path)
    else:
        raise TypeError(f"model must be an estimator of kernelfields or a Pipeline that ends in one, got {model!r:.60}")


def load(path: PathLike, *, callables: Functions | None = None) -> Any:
    """Return the model of a file, whatever its kind; ``callables`` names functions of kernels that are not data.

    Models of words, which are pipelines and those of ``kernelfields train`` without a template or with one, are
    returned as a Pipeline that takes words.
    """
    kinds = {kind: partial(_rebuilt, registered, callables=callables) for kind, registered in KINDS.items()}
    return read_document_of(path, {**kinds, PIPELINE: partial(rebuild_pipeline, callables=callables)})


def describe_pipeline(pipeline: Pipeline) -> Document:
    """Return a fitted pipeline as plain values and arrays; TypeError naming a step that is none."""
    *before, (name, last) = pipeline.steps
    steps: list[Document] = []
    for own, step in before:
        if step is None or step == "passthrough":
            continue
        if step not in TRANSFORMERS:
            raise TypeError(
                f"the step {own!r} is a {type(step).__name__}, which a file of data cannot hold: it can hold {_STEPS}; "
                "apply other transformers before the pipeline"
            )
        steps.append({"name": own, "transformer": describe_transformer(step)})
    if KINDS.get(getattr(last, "kind", "")) is not type(last):
        raise TypeError(f"the last step {name!r} is a {type(last).__name__}, and not an estimator that can be saved")
    return {"steps": steps, "estimator": {"name": name, "kind": last.kind, "document": last.to_document()}}


def rebuild_pipeline(document: Document, callables: Functions | None = None) -> Pipeline:
    """Return the pipeline that was described; errors of any kind if it is not sound."""
    # Transformers are registered where they are written.
    from kernelfields.features import out_of_fold, sequencewise, window_features  # noqa: F401

    described = document["estimator"]
    steps = [(str(step["name"]), rebuild_transformer(step["transformer"])) for step in document["steps"]]
    model = _rebuilt(KINDS[described["kind"]], described["document"], callables)
    return Pipeline([*steps, (str(described["name"]), model)])


def _rebuilt(
    kind: type[StoredEstimator], document: Document, callables: Functions | None
) -> StoredEstimator | Pipeline:
    model = kind.placed(document, callables)
    template = trained_template(document)
    return model if template is None else Pipeline([("template", template), ("model", model)])
