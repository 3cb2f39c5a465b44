"""Uncertainty of a fitted field: prediction sets with a guarantee, calibrated probabilities."""

from kernelfields.uncertainty.calibrated_field import CalibratedField, calibrate
from kernelfields.uncertainty.conformal_field import ConformalField

__all__ = ["CalibratedField", "ConformalField", "calibrate"]
