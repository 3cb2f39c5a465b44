"""A fitted CRF as a model file: its parameters, its log, and the document of the field behind it.

The file holds data and never code. ``random_state`` is kept if it is a whole number; a generator is not data.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from kernelfields.compat.one_label import OneLabel
from kernelfields.compat.training_log import Holdout, TrainingLog
from kernelfields.compat.weights import n_weights
from kernelfields.estimators import ChainCRF
from kernelfields.estimators.model_document import describe_chain_crf, rebuild_chain_crf
from kernelfields.estimators.parameters import is_whole
from kernelfields.features import FeatureDictEncoder
from kernelfields.formats import ModelFileError, read_model, write_model

KIND = "compat.CRF"


def write_crf(path: str | os.PathLike, crf: Any) -> None:
    """Write a fitted CRF to a model file."""
    log = crf.training_log_
    parameters = crf.get_params(deep=False)
    if not is_whole(parameters["random_state"]):
        parameters["random_state"] = None
    document = {
        "parameters": parameters,
        "reason": log.reason,
        "holdout": None if log.holdout is None else asdict(log.holdout),
        "field": _describe(crf.chain_),
    }
    write_model(path, KIND, document, {})


def read_crf(cls: type, path: str | os.PathLike) -> Any:
    """Read a CRF from a model file."""
    document, _ = read_model(path, KIND)
    try:
        crf = cls(**document["parameters"])
        crf.chain_ = _rebuild(document["field"])
        solution = getattr(crf.chain_, "solution_", None)
        holdout = None if document["holdout"] is None else Holdout(**document["holdout"])
        crf.training_log_ = TrainingLog(
            document["reason"], n_weights(crf.chain_), solution.history if solution else [], holdout
        )
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound {KIND} model: {error}") from error
    return crf


def _describe(field: ChainCRF | OneLabel) -> dict[str, Any]:
    if isinstance(field, OneLabel):
        return {"label": field.classes_[0].item(), "feature_names": field.encoder.spec()}
    return {"chain": describe_chain_crf(field)}


def _rebuild(described: dict[str, Any]) -> ChainCRF | OneLabel:
    if "label" in described:
        return OneLabel(described["label"], FeatureDictEncoder.from_spec(described["feature_names"]))
    return rebuild_chain_crf(ChainCRF, described["chain"])
