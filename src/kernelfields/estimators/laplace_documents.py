"""The posterior around a fit and the path to its evidence, in model files; files without them load as before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kernelfields.estimators.evidence_settings import EvidencePath, EvidenceStep
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.laplace_samples import LaplaceSamples


def describe_laplace(estimator: Any) -> dict[str, Any]:
    """Return what ``laplace`` and a search for the largest evidence have left, as entries of a document."""
    entries: dict[str, Any] = {}
    if hasattr(estimator, "laplace_"):
        entries["laplace"] = estimator.laplace_.describe()
    path = getattr(estimator, "evidence_path_", None)
    if path is not None:
        entries["evidence_path"] = [asdict(step) for step in path.steps]
    return entries


def rebuild_laplace(estimator: Any, document: dict[str, Any], sets: Sequence[FittedSet]) -> None:
    """Give an estimator back what was described."""
    if "laplace" in document:
        estimator.laplace_ = LaplaceSamples.rebuild(document["laplace"], sets)
    steps = document.get("evidence_path")
    estimator.evidence_path_ = None if steps is None else EvidencePath([EvidenceStep(**each) for each in steps])
