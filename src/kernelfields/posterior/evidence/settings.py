"""Settings of a search for the largest evidence, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.models.stored_values import record
from kernelfields.numerics.parameters import check_count, is_real
from kernelfields.numerics.wording import inflect

# Parameters that moved by less than this share have not moved.
_SAME = 1e-3


class EvidenceSearch(BaseEstimator):
    """Settings of a search for the prior variances and kernel parameters of the largest evidence.

    Pass it as ``optimize`` of a fit, or the name "evidence" for the defaults.

    Parameters
    ----------
    kernels : bool, default True
        Whether to choose parameters of kernels (gamma, length scales, offsets) beside the prior variances.
    restarts : int, default 1
        The number of climbs from other points.
    max_evaluations : int, default 40
        The most points tried in each climb.
    tol : float, default 1e-4
        The gain below which a climb ends, as a share of the log evidence.
    method : {"auto", "exact", "lanczos"}, default "auto"
        How the log determinant is found, as in :meth:`ChainCRF.laplace`.
    steps : int, default 100
        The number of products for each probe, for "lanczos".
    probes : int, default 10
        The number of estimates, for "lanczos"; they are the same at all points, so that the evidence is smooth.

    Notes
    -----
    Prior variances stay between 1e-4 and 1e6, parameters of kernels within a factor of 100 of their first values.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.estimators import EvidenceSearch
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> search = EvidenceSearch(kernels=False, restarts=0, max_evaluations=10)
    >>> crf = ChainCRF("rbf", scale=True, random_state=0).fit(X, y, optimize=search)
    >>> path = crf.evidence_path_
    >>> bool(path.best.value >= path.first.value)
    True
    """

    def __init__(
        self,
        *,
        kernels: bool = True,
        restarts: int = 1,
        max_evaluations: int = 40,
        tol: float = 1e-4,
        method: str = "auto",
        steps: int = 100,
        probes: int = 10,
    ):
        self.kernels = kernels
        self.restarts = restarts
        self.max_evaluations = max_evaluations
        self.tol = tol
        self.method = method
        self.steps = steps
        self.probes = probes

    def check(self) -> None:
        """Raise for invalid settings.

        Raises
        ------
        ValueError
            If a number is outside its range.
        """
        check_count(self.restarts, "restarts", least=0)
        for name in ("max_evaluations", "steps", "probes"):
            check_count(getattr(self, name), name)
        if not is_real(self.tol) or not 0 < self.tol < 1:
            raise ValueError(f"tol must be a number between 0 and 1, got {self.tol!r}")


def resolve_search(optimize: object) -> EvidenceSearch:
    """Return the search for the parameter ``optimize`` of ``fit``."""
    if isinstance(optimize, str) and optimize == "evidence":
        return EvidenceSearch()
    if not isinstance(optimize, EvidenceSearch):
        raise ValueError(f"optimize must be 'evidence', an EvidenceSearch or None, got {optimize!r}")
    optimize.check()
    return optimize


@dataclass(frozen=True)
class EvidenceStep:
    """One point of a search: log evidence (NaN after a failure), gradient and parameters by name.

    A coarse point is one with few pivots: its evidence is that of another field. ``ended`` is, at the
    last point of a climb, why it ended there.
    """

    start: int
    value: float
    standard_error: float
    gradient: dict[str, float]
    parameters: dict[str, float]
    #: Since the search began; not kept in files.
    seconds: float = float("nan")
    coarse: bool = False
    ended: str = ""


@dataclass
class EvidencePath:
    """All points of a search for the largest evidence, in order; ``str()`` describes changes and gains.

    Parameters
    ----------
    steps : list of EvidenceStep, optional
        The points.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.estimators import EvidenceSearch
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> search = EvidenceSearch(kernels=False, restarts=0, max_evaluations=10)
    >>> crf = ChainCRF("rbf", scale=True, random_state=0).fit(X, y, optimize=search)
    >>> crf.evidence_path_.best.value >= crf.evidence_path_.first.value
    True
    """

    steps: list[EvidenceStep] = field(default_factory=list)

    @classmethod
    def rebuild(cls, described: Sequence[Mapping[str, object]]) -> EvidencePath:
        """Rebuild the path from its description.

        Parameters
        ----------
        described : sequence of dict
            The steps.

        Returns
        -------
        EvidencePath
            The path.

        Raises
        ------
        ValueError
            If a step is not sound.
        """
        unknown = ("value", "standard_error", "gradient", "seconds")
        return cls([record(EvidenceStep, each, "a step of the evidence", unknown=unknown) for each in described])

    @property
    def best(self) -> EvidenceStep:
        """The point with the largest evidence, coarse points excluded."""
        finite = [step for step in self.steps if np.isfinite(step.value) and not step.coarse]
        return max(finite, key=lambda step: step.value)

    @property
    def first(self) -> EvidenceStep:
        """The first point with all pivots and finite evidence."""
        return next(step for step in self.steps if np.isfinite(step.value) and not step.coarse)

    def __str__(self) -> str:
        if not any(np.isfinite(step.value) and not step.coarse for step in self.steps):
            return f"the evidence was nowhere finite at {inflect(len(self.steps), 'point')}"
        best, first = self.best, self.first
        coarse = sum(step.coarse for step in self.steps)
        with_few = f", {coarse} of them with few pivots" if coarse else ""
        climbs = len({(step.start, step.coarse) for step in self.steps})
        took = "" if np.isnan(self.seconds) else f", {self.seconds:.3g} s"
        error = f" (standard error {best.standard_error:.2g})" if best.standard_error > 0 else ""
        lines = [
            f"log evidence {first.value:.2f} -> {best.value:.2f}{error}: {best.value - first.value:.2f} nats gained"
            f"{' since the coarse climb' if coarse else ''}",
            f"{inflect(len(self.steps), 'point')}{with_few}, in {inflect(climbs, 'climb')}{took}",
        ]
        before, width = self.steps[0].parameters, max(map(len, best.parameters), default=0)
        for name, value in best.parameters.items():
            lines.append(f"  {name.ljust(width)}  {_change(before.get(name, value), value)}")
        reasons = [step.ended for step in self.steps if step.ended]
        return "\n".join([*lines, *([f"ended because {reasons[-1]}"] if reasons else [])])

    @property
    def seconds(self) -> float:
        """The duration of the search in seconds; NaN if it was read from a file."""
        return self.steps[-1].seconds if self.steps else 0.0


def _change(before: float, after: float) -> str:
    """Describe the change of a positive parameter: values before and after, and their ratio."""
    ratio = after / before
    if abs(np.log(ratio)) < _SAME:
        return f"{before:.4g}, as it was"
    factor = f"{ratio:.3g} times as large" if ratio > 1 else f"{1 / ratio:.3g} times as small"
    return f"{before:.4g} -> {after:.4g}, {factor}"
