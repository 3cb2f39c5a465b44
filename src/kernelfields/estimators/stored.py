"""Fitted estimators as documents of plain values and arrays, and back; models/documents.py has their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from kernelfields.models.documents import (
    check_widths,
    describe_parameters,
    describe_solution,
    describe_terms,
    rebuild_certificate,
    rebuild_estimator,
    rebuild_solution,
    rebuild_terms,
)
from kernelfields.models.field import Field
from kernelfields.models.fit import FittedBy
from kernelfields.models.stored_values import record
from kernelfields.uncertainty.evidence.settings import EvidencePath
from kernelfields.uncertainty.laplace.samples import LaplaceSamples


def estimator_document(estimator: Any) -> dict[str, Any]:
    """Return a fitted estimator as plain values and arrays."""
    certificates, inference = estimator._certificates, estimator.inference_
    document = {
        "parameters": describe_parameters(estimator),
        "classes": estimator._described_classes(),
        "inputs": estimator._reader.describe(),
        "structure": estimator._describe_structure(),
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
    structure = kind._rebuilt_structure(document["structure"], classes)
    terms = rebuild_terms(document, structure.n_labels, functions)
    check_widths(terms, reader.width)
    estimator = rebuild_estimator(kind, document["parameters"], functions)
    estimator._check_parameters()
    kind._check_terms(terms, reader, structure)
    estimator._reader = reader
    estimator.classes_, estimator.n_features_in_ = classes, reader.n_features
    estimator.field_ = Field(terms, structure)
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
