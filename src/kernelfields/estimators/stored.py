"""Fitted estimators as documents of plain values and arrays, and back; models/documents.py has their parts."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelfields.engines.choice import engine_here
from kernelfields.inference.choice import FamilySpec
from kernelfields.models.documents import (
    check_widths,
    checked_classes,
    describe_parameters,
    describe_solution,
    describe_terms,
    read_document,
    rebuild_certificate,
    rebuild_estimator,
    rebuild_solution,
    rebuild_terms,
    write_document,
)
from kernelfields.models.field import Field
from kernelfields.models.fit import FittedBy
from kernelfields.models.stored_values import record
from kernelfields.objective.term import Term
from kernelfields.uncertainty.evidence.settings import EvidencePath
from kernelfields.uncertainty.laplace.samples import LaplaceSamples

PathLike = str | os.PathLike[str]
Functions = Mapping[str, Callable[..., object]]


def estimator_document(estimator: Any) -> dict[str, Any]:
    """Return a fitted estimator as plain values and arrays."""
    certificates, inference = estimator._certificates, estimator.inference_
    document = {
        "parameters": describe_parameters(estimator),
        "classes": estimator._described_classes(),
        "inputs": estimator._reader.describe(),
        "structure": estimator._describe_spec(),
        **describe_terms(estimator.field_.terms),
        "solution": describe_solution(estimator.solution_),
        "certificates": None if certificates is None else [asdict(each) for each in certificates],
    }
    if inference is not None:
        document["fitted_by"] = {name: getattr(inference, name) for name in FittedBy.__dataclass_fields__}
    if hasattr(estimator, "laplace_"):
        document["laplace"] = estimator.laplace_.describe()
    if hasattr(estimator, "continuation_"):
        document["continuation"] = estimator.continuation_.describe()
    if estimator.evidence_path_ is not None:
        document["evidence_path"] = [asdict(step) for step in estimator.evidence_path_.steps]
    return document


def rebuilt_estimator(kind: Any, document: Mapping[str, Any], functions: Mapping[str, Callable[..., object]]) -> Any:
    """Return the estimator of a class that was described; errors of any kind if it is not sound."""
    classes = kind._rebuilt_classes(document["classes"])
    reader = kind._rebuilt_reader(document["inputs"])
    spec = kind._rebuilt_spec(document["structure"], classes)
    terms = rebuild_terms(document, spec.n_labels, functions)
    check_widths(terms, reader.width)
    estimator = rebuild_estimator(kind, document["parameters"], functions)
    estimator._check_parameters()
    kind._check_terms(terms, reader, spec)
    estimator._reader = reader
    estimator.classes_, estimator.n_features_in_ = classes, reader.n_features
    estimator.field_ = Field(terms, spec)
    fitted_by = document.get("fitted_by")
    estimator.inference_ = None if fitted_by is None else record(FittedBy, fitted_by, "how it was fitted")
    estimator.solution_ = rebuild_solution(document["solution"], terms)
    certificates = document["certificates"]
    if certificates is None:
        estimator._certificates = None
    else:
        span, rkhs = map(rebuild_certificate, certificates)
        estimator._certificates = span, rkhs
    if "laplace" in document:
        estimator.laplace_ = LaplaceSamples.rebuild(document["laplace"], terms)
    if "continuation" in document:
        from kernelfields.models.continuation import Continuation

        estimator.continuation_ = Continuation.rebuild(document["continuation"], terms)
    steps = document.get("evidence_path")
    estimator.evidence_path_ = None if steps is None else EvidencePath.rebuild(steps)
    estimator._set_views()
    return estimator


class StoredEstimator:
    """The part of an estimator that writes it to files and reads it back; hooks say what is its own."""

    #: The name of its kind in model files.
    kind: ClassVar[str]
    engine: Any
    classes_: Any

    def save(self, path: PathLike) -> None:
        """Write the fitted model to one file of data (safetensors), atomically."""
        check_is_fitted(self, "field_")
        write_document(path, self.kind, self.to_document())

    @classmethod
    def load(cls, path: PathLike, *, callables: Functions | None = None) -> Self:
        """Read a model of :meth:`save`; ``callables`` names kernel functions. An engine that is not here is "auto"."""
        model = read_document(path, cls.kind, lambda document: cls.from_document(document, callables))
        model.engine = engine_here(model.engine)
        return model

    def to_document(self) -> dict[str, Any]:
        """Return the fitted estimator as plain values and arrays."""
        return estimator_document(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], callables: Functions | None = None) -> Self:
        """Return the estimator that was described; errors of any kind if it is not sound."""
        return rebuilt_estimator(cls, document, callables or {})

    def _described_classes(self) -> Any:
        return self.classes_

    @classmethod
    def _rebuilt_classes(cls, described: Any) -> np.ndarray:
        return checked_classes(described)

    def _describe_spec(self) -> dict[str, Any]:
        """Return what is to be kept of which labels meet."""
        return {}

    @classmethod
    @abstractmethod
    def _rebuilt_reader(cls, described: Mapping[str, Any]) -> Any:
        """Return the reader that was described."""

    @classmethod
    @abstractmethod
    def _rebuilt_spec(cls, described: Mapping[str, Any], classes: np.ndarray) -> FamilySpec:
        """Return what decides the family of labellings, as it was described."""

    @classmethod
    def _check_terms(cls, terms: Sequence[Term], reader: Any, spec: FamilySpec) -> None:
        """Raise unless terms, inputs and labels fit together, so that a model that loads can predict."""
