"""The bounded domain of a density, and the base measure p0 on it.

    uniform    p0(x) = 1 / volume
    gaussian   p0(x) = prod_j N(x_j; m_j, s_j^2) / P(low_j < . < high_j), m and s those of the sample

``from_uniform`` transforms uniform numbers to samples of p0.

Raises ValueError for an invalid box, a constant column, and points outside of the box, with the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Box:
    """The product of the intervals [low_j, high_j]; ``low`` and ``high`` (d,)."""

    low: np.ndarray
    high: np.ndarray

    @property
    def dimension(self) -> int:
        """Number of axes."""
        return len(self.low)

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume."""
        return float(np.log(self.high - self.low).sum())

    def to_unit(self, X: np.ndarray) -> np.ndarray:
        """Scale points of the box to the unit cube."""
        return (X - self.low) / (self.high - self.low)

    def from_unit(self, U: np.ndarray) -> np.ndarray:
        """Scale points of the unit cube to the box."""
        return np.clip(self.low + U * (self.high - self.low), self.low, self.high)

    def contains(self, X: np.ndarray) -> np.ndarray:
        """Return a mask (n,) of the points in the closed box."""
        return np.all((self.low <= X) & (self.high >= X), axis=1)

    def check_sample(self, X: np.ndarray) -> None:
        """Raise ValueError with the first point outside of the box, if any."""
        outside = ~self.contains(X)
        if outside.any():
            row = int(np.argmax(outside))
            wrong = (X[row] < self.low) | (X[row] > self.high)
            axis = int(np.argmax(wrong))
            raise ValueError(
                f"sample {row} lies outside the box: its feature {axis} is {X[row, axis]:.6g}, the box runs from "
                f"{self.low[axis]:.6g} to {self.high[axis]:.6g} ({int(outside.sum())} such samples in all); widen "
                "the box or leave these samples out"
            )


def resolve_box(box: object, X: np.ndarray, margin: float) -> Box:
    """Return the box of bounds (d, 2), or for "auto" the range of the sample, with a relative ``margin``."""
    if isinstance(box, str):
        if box != "auto":
            raise ValueError(f"box must be 'auto' or an array of lows and highs, (features, 2), got {box!r}")
        low, high = X.min(axis=0), X.max(axis=0)
        flat = ~(high > low)
        if flat.any():
            axis = int(np.argmax(flat))
            raise ValueError(
                f"feature {axis} is constant, {low[axis]:.6g} in all {len(X)} sample(s) (n_samples={len(X)}), so "
                "box='auto' has no width there; leave the feature out or give the box"
            )
        low, high = low - margin * (high - low), high + margin * (high - low)
    else:
        bounds = _to_numbers(box)
        if bounds.shape != (X.shape[1], 2):
            raise ValueError(
                f"box must be 'auto' or an array of lows and highs of shape ({X.shape[1]}, 2), got {bounds.shape}"
            )
        low, high = bounds[:, 0].copy(), bounds[:, 1].copy()
    found = Box(low, high)
    check_box(found)
    return found


def _to_numbers(box: object) -> np.ndarray:
    try:
        return np.asarray(box, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"box must be 'auto' or an array of lows and highs, (features, 2), got {box!r:.200}: {error}"
        ) from error


def check_box(box: Box) -> None:
    """Raise ValueError unless all bounds are finite and all widths positive."""
    low, high = box.low, box.high
    if not len(low):
        raise ValueError("the box has no axes")
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    wrong = ~((width > 1e-12 * np.maximum(np.abs(low), np.abs(high))) & np.isfinite(width))
    if wrong.any():
        axis = int(np.argmax(wrong))
        raise ValueError(
            f"the box runs from {low[axis]:.17g} to {high[axis]:.17g} on feature {axis}: it needs finite ends and "
            "a positive width there"
        )


class UniformMeasure:
    """The uniform distribution on the box: p0(x) = 1 / volume."""

    kind = "uniform"

    def __init__(self, box: Box):
        self.box = box

    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Return log p0 of points of the box, (n,)."""
        return np.full(len(X), -self.box.log_volume)

    def from_uniform(self, U: np.ndarray) -> np.ndarray:
        """Map points U (n, d), uniform on the unit cube, to points distributed as p0."""
        return self.box.from_unit(U)

    def describe(self) -> dict[str, object]:
        """Return plain values for a model file."""
        return {"kind": self.kind}


class GaussianMeasure:
    """Independent normal distributions with ``mean`` and ``deviation`` (d,), truncated to the box."""

    kind = "gaussian"

    def __init__(self, box: Box, mean: np.ndarray, deviation: np.ndarray):
        self.box, self.mean, self.deviation = box, mean, deviation
        flat = ~(deviation > 0)
        if flat.any():
            raise ValueError(
                f"base_measure='gaussian' needs features that vary, and feature {int(np.argmax(flat))} is constant"
            )
        self._below, self._above = ndtr((box.low - mean) / deviation), ndtr((box.high - mean) / deviation)

    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Return log p0 of points of the box, (n,)."""
        scaled = (X - self.mean) / self.deviation
        constant = np.log(self._above - self._below) + np.log(self.deviation) + _LOG_ROOT_TWO_PI
        return -0.5 * np.square(scaled).sum(axis=1) - constant.sum()

    def from_uniform(self, U: np.ndarray) -> np.ndarray:
        """Map points U (n, d), uniform on the unit cube, to points distributed as p0."""
        levels = self._below + U * (self._above - self._below)
        return np.clip(self.mean + self.deviation * ndtri(levels), self.box.low, self.box.high)

    def describe(self) -> dict[str, object]:
        """Return plain values for a model file."""
        return {"kind": self.kind, "mean": self.mean, "deviation": self.deviation}


Measure = UniformMeasure | GaussianMeasure


def resolve_measure(base_measure: str, box: Box, X: np.ndarray, weights: np.ndarray) -> Measure:
    """Return the base measure named "uniform" or "gaussian"."""
    if base_measure == "uniform":
        return UniformMeasure(box)
    mean = np.average(X, axis=0, weights=weights)
    variance = np.average(np.square(X - mean), axis=0, weights=weights)
    return GaussianMeasure(box, mean, np.sqrt(variance))


def rebuild_measure(description: Mapping[str, object], box: Box) -> Measure:
    """Rebuild a base measure from its description."""
    kind = description["kind"]
    if kind == "uniform":
        return UniformMeasure(box)
    if kind == "gaussian":
        mean, deviation = (np.asarray(description[name], dtype=np.float64) for name in ("mean", "deviation"))
        if mean.shape != (box.dimension,) or deviation.shape != (box.dimension,):
            raise ValueError("the base measure does not fit the box")
        if not (np.isfinite(mean).all() and np.isfinite(deviation).all()):
            raise ValueError("the base measure is not finite")
        measure = GaussianMeasure(box, mean, deviation)
        with np.errstate(all="ignore"):
            ends = measure.log_density(np.vstack([box.low, box.high]))
        if not np.isfinite(ends).all():
            raise ValueError("the base measure has no mass in the box")
        return measure
    raise ValueError(f"a base measure of the unknown kind {kind!r}")
