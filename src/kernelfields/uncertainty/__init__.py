"""Uncertainty of a fitted field: prediction sets with a guarantee, calibrated probabilities, its posterior."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "ConformalField": "conformal_field",
    "control_risk": "conformal",
    "calibrate": "calibrated_field",
    "CalibratedField": "calibrated_field",
}
__all__ = ["CalibratedField", "ConformalField", "calibrate", "control_risk"]

if TYPE_CHECKING:
    from kernelfields.uncertainty.calibrated_field import CalibratedField, calibrate
    from kernelfields.uncertainty.conformal import control_risk
    from kernelfields.uncertainty.conformal_field import ConformalField


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
