"""Model files of every kind: ``save`` and ``load`` of estimators, and of pipelines that begin with words.

    model = make_pipeline(TextFeatures(), ChainCRF()).fit(words, y)
    save(model, "names.kfm")
    load("names.kfm").predict(words)

Every estimator that a file may hold is imported here. Fails: TypeError naming the step that a file of data cannot
hold; ModelFileError naming the file.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.pipeline import Pipeline

from kernelfields.annotators import AnnotatedCRF
from kernelfields.estimators import ChainCRF
from kernelfields.estimators.pipelines import describe_pipeline, rebuild_model
from kernelfields.models.documents import read_document_of, write_document
from kernelfields.models.model_text import PIPELINE
from kernelfields.models.stored import Functions, PathLike, StoredEstimator, known_kinds
from kernelfields.models.wrapped_field import WrappedField
from kernelfields.uncertainty.calibrated_field import CalibratedField
from kernelfields.uncertainty.conformal_field import ConformalField

# Importing them has registered their kinds, and with ChainCRF those of all fields.
assert {kind.kind for kind in (AnnotatedCRF, ChainCRF, CalibratedField, ConformalField)} <= set(known_kinds())


def save(model: StoredEstimator | WrappedField | Pipeline, path: PathLike) -> None:
    """Write a fitted estimator, or a pipeline of transformers and one, to a file of data, atomically."""
    if isinstance(model, Pipeline):
        write_document(path, PIPELINE, describe_pipeline(model))
    elif isinstance(model, StoredEstimator | WrappedField):
        model.save(path)
    else:
        raise TypeError(f"model must be an estimator of kernelfields or a Pipeline that ends in one, got {model!r:.60}")


def load(path: PathLike, *, callables: Functions | None = None) -> Any:
    """Return the model of a file, whatever its kind; ``callables`` names functions of kernels that are not data.

    Models of words, which are pipelines and those of ``kernelfields train`` without a template or with one, are
    returned as a Pipeline that takes words.
    """
    kinds = {kind: partial(rebuild_model, kind, callables=callables) for kind in (*known_kinds(), PIPELINE)}
    return read_document_of(path, kinds)
