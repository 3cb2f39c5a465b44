"""Fitted fields as documents for model files: parameters, inputs, structure, terms, and what the fit has found.

    describe_field    a fitted estimator  ->  plain values and arrays
    rebuild_field     the same, back

Raises TypeError for parameters that a file of data cannot hold; errors of any kind for an unsound document.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sklearn.utils.validation import check_is_fitted

from kernelfields.data.fingerprints import Fingerprint
from kernelfields.estimators.going_on import get_noted_parameters
from kernelfields.estimators.pipelines import describe_features, rebuild_features
from kernelfields.models.choices import Choices
from kernelfields.models.continuation import Continuation
from kernelfields.models.documents import (
    check_widths,
    describe_parameters,
    describe_solution,
    describe_terms,
    rebuild_certificate,
    rebuild_estimator,
    rebuild_solution,
    rebuild_terms,
    without_times,
)
from kernelfields.models.field import Field
from kernelfields.models.fit import FittedBy
from kernelfields.models.idle_features import can_drop_features, with_idle_features, without_idle_features
from kernelfields.models.model_file import Document
from kernelfields.models.stored import Functions
from kernelfields.models.stored_values import record
from kernelfields.numerics.parameters import check_declared
from kernelfields.posterior.evidence.settings import EvidencePath
from kernelfields.posterior.laplace.samples import LaplaceSamples


def describe_field(model: Any) -> Document:
    """Return a fitted estimator as plain values and arrays."""
    check_is_fitted(model, "field_")
    certificates, reader, terms, idle = model._certificates, model._reader, model.field_.terms, None
    # Laplace approximations and batches hold numbers of all weights.
    followed = model.laplace_ is not None or model.continuation_ is not None
    if can_drop_features(reader, terms) and not (followed or model._lacks_features):
        reader, terms, idle = without_idle_features(reader, terms)
    document = {
        "parameters": describe_parameters(model),
        "settings": model._fitted_with,
        "classes": model.structure.describe_classes(),
        "inputs": reader.describe(),
        "structure": {**model.structure.describe(), **model._decision_rule.describe(model)},
        **describe_terms(terms),
        "solution": describe_solution(model.solution_),
        "certificates": None if certificates is None else [asdict(certificate) for certificate in certificates],
    }
    if idle is not None:
        document["idle"] = idle
    if reader.features is not None:
        document["features"] = describe_features(reader.features)
    if model.inference_ is not None:
        document["fitted_by"] = asdict(model.inference_)
    for name, found in (("laplace", model.laplace_), ("continuation", model.continuation_)):
        if found is not None:
            document[name] = found.describe()
    if model.choices_.chosen:
        document["choices"] = model.choices_.describe()
    if model._fitted_items is not None:
        document["fitted_items"] = model._fitted_items._asdict()
    if model.evidence_path_ is not None:
        document["evidence_path"] = [without_times(step) for step in model.evidence_path_.steps]
    return document


def rebuild_field(kind: Any, document: Document, functions: Functions) -> Any:
    """Rebuild a fitted estimator of a kind from its document; ``functions`` are its callables by name."""
    structures = kind._structures
    classes = structures.rebuild_classes(document["classes"])
    reader: Any = structures.reads.rebuild(dict(document["inputs"]))
    spec = structures.rebuild_spec(document["structure"], classes)
    terms = rebuild_terms(document, spec.n_labels, functions)
    lacking = "idle" not in document and can_drop_features(reader, terms)
    if "idle" in document:
        reader, terms = with_idle_features(reader, terms, document["idle"])
    check_widths(terms, reader.width)
    estimator = rebuild_estimator(kind, document["parameters"], functions)
    if document.get("features"):
        reader.features = rebuild_features(document["features"])
        # A transformer is no plain value, and not among the parameters.
        if "features" in estimator.get_params(deep=False).keys() - document["parameters"].keys():
            estimator.features = reader.features
    check_declared(estimator)
    estimator.structure.check()
    structures.check_terms(terms, reader, spec)
    fitted_by, certificates = document.get("fitted_by"), document["certificates"]
    inference = None if fitted_by is None else record(FittedBy, fitted_by, "how it was fitted")
    if certificates is not None:
        span, rkhs = map(rebuild_certificate, certificates)
        certificates = span, rkhs
    solution = rebuild_solution(document["solution"], terms)
    choices = Choices.rebuild(document.get("choices"))
    estimator.choices_ = kind._decision_rule.rebuild_choices(choices, document["structure"])
    estimator._fitted_with = get_noted_parameters(estimator, document.get("settings"))
    if "fitted_items" in document:
        estimator._fitted_items = Fingerprint.rebuild(document["fitted_items"])
    estimator._set_field(reader, classes, Field(terms, spec), inference, solution, certificates)
    estimator._lacks_features = lacking and "laplace" not in document
    if (steps := document.get("evidence_path")) is not None:
        estimator.evidence_path_ = EvidencePath.rebuild(steps)
    if "laplace" in document:
        estimator.laplace_ = LaplaceSamples.rebuild(document["laplace"], terms)
    if "continuation" in document:
        estimator.continuation_ = Continuation.rebuild(document["continuation"], terms)
    return estimator
