"""Ends of grids: whether the best candidate lies at one, and the candidate beyond it.

    axis        values of                                  next value
    "prior variance", "edge prior variance"                s_end (s_end / s_neighbour)
    "gamma", "length scale" of kernels of one kind         likewise

An axis is a list of two values or more that candidates differ in; how far apart the outermost two are says how far
the next one is. Prior variances of the parts of a sum have no axis, nor have ranks and degrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.stationary import RBF, Laplacian, Matern
from kernelfields.numerics.parameters import is_real
from kernelfields.selection.candidates import Candidate

_VARIANCES = ("prior_variance", "edge_prior_variance")
_SCALES: dict[type, str] = {RBF: "gamma", Laplacian: "gamma", Matern: "length_scale"}


@dataclass(frozen=True)
class GridEnd:
    """The best candidate at an end of its grid, and the one beyond."""

    axis: str
    value: float
    highest: bool
    beyond: Candidate

    @property
    def words(self) -> str:
        """Where the best candidate lies, as a clause."""
        side = "largest" if self.highest else "smallest"
        return f"the best {self.axis}, {self.value:g}, is the {side} of its grid"


class Grid:
    """The candidates of a search; ``extend`` adds those that were tried beyond its ends."""

    def __init__(self, candidates: Sequence[Candidate]):
        self._listed = list(candidates)
        self._tried = list(candidates)

    def extend(self, candidate: Candidate) -> None:
        """Note a candidate that was tried."""
        self._tried.append(candidate)

    def ends(self, best: Candidate) -> list[GridEnd]:
        """Return the ends at which a candidate lies beyond which nothing was tried."""
        found = [self._end_of_variances(best, name) for name in _VARIANCES]
        return [end for end in (*found, self._end_of_scales(best)) if end is not None]

    def _end_of_variances(self, best: Candidate, name: str) -> GridEnd | None:
        values = [each.params.get(name) for each in self._listed]
        further = _beyond(values, best.params.get(name))
        if further is None:
            return None
        return self._end(name.replace("_", " "), best, name, further, best.params[name], best.path)

    def _end_of_scales(self, best: Candidate) -> GridEnd | None:
        kernel = best.params["kernel"]
        name = _SCALES.get(type(kernel))
        if name is None:
            return None
        value = getattr(kernel, name)
        alike = [each.params["kernel"] for each in self._listed if _alike(each.params["kernel"], kernel, name)]
        further = _beyond([getattr(each, name) for each in alike], value)
        if further is None:
            return None
        number = 1 + max(each.path[0] for each in self._tried)
        moved = clone(kernel).set_params(**{name: further})
        return self._end(name.replace("_", " "), best, "kernel", moved, value, (number, *best.path[1:]))

    def _end(
        self, axis: str, best: Candidate, parameter: str, beyond: Any, value: float, path: tuple
    ) -> GridEnd | None:
        params = {**best.params, parameter: beyond}
        if any(each.params == params for each in self._tried):
            return None
        highest = (getattr(beyond, _SCALES[type(beyond)]) if isinstance(beyond, Kernel) else beyond) > value
        return GridEnd(axis, value, highest, Candidate(params, path))


def _beyond(values: Sequence[Any], value: Any) -> float | None:
    """Return the value beyond ``value`` if it is at an end of the grid of ``values`` or outside, else None."""
    known = sorted({each for each in values if _is_scale(each)})
    if len(known) < 2 or not _is_scale(value) or known[0] < value < known[-1]:
        return None
    ratio = known[-1] / known[-2] if value >= known[-1] else known[0] / known[1]
    further = float(f"{value * ratio:.6g}")
    return further if _is_scale(further) else None


def _is_scale(value: Any) -> bool:
    return is_real(value) and 0.0 < value < math.inf


def _alike(one: Any, other: Kernel, name: str) -> bool:
    """Whether two kernels differ in nothing but the parameter of that name, if at all."""
    if type(one) is not type(other):
        return False
    mine, yours = (dict(each.get_params(deep=False)) for each in (one, other))
    return {**mine, name: None} == {**yours, name: None}
