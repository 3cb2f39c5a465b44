"""The log evidence of a field as a function of the logarithms of its parameters, pivots kept.

A point costs the features of its kernels, a mode found from the one before, a Hessian and its factor; the gradient
costs about two Hessians more (evidence_gradient.py). Fails: LinAlgError where pivots are no longer independent or
the Hessian is not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from kernelfields.basis import PivotSubspace
from kernelfields.estimators.evidence_curvature import curvature_matrix, works_in_blocks
from kernelfields.estimators.evidence_gradient import evidence_gradient
from kernelfields.estimators.evidence_mode import SEARCHED_MODE, mode_of
from kernelfields.estimators.evidence_parameters import FieldParameter, with_parameters
from kernelfields.estimators.evidence_settings import EvidenceSearch
from kernelfields.estimators.fitting import EngineBuilder
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.posterior import LogPosterior
from kernelfields.posterior.laplace import Laplace

#: Up to this many coefficients, gradients are exact; beyond, traces in them come from so many probes.
ALL_ROOTS = 400
GRADIENT_PROBES = 100
#: Up to this many coefficients Hessians are spelled out where blocks of directions make them cheap.
EXACT_IN_BLOCKS = 4000


class FieldLaplace(Laplace):
    """A Laplace approximation that spells out Hessians in blocks, and keeps them."""

    #: The Hessian of the likelihood at the mode, where the method is exact.
    curvature: np.ndarray | None = None

    def _whitened_hessian(self) -> np.ndarray:
        self.curvature = curvature_matrix(self.point)
        matrix = self.curvature * self._deviations
        matrix *= self._deviations[:, None]
        matrix[np.diag_indices(len(matrix))] += 1.0
        return matrix

    def signed_roots(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return rows r_k and signs with sum_k sign_k r_k r_k^T = H^-1; in expectation for large fields."""
        if self.method != "exact":
            left, right = (np.stack(rows) for rows in zip(*self._pairs(), strict=True))
            return 0.5 * np.vstack([left + right, left - right]), np.repeat([1.0, -1.0], len(left))
        size = self.posterior.size
        if size <= ALL_ROOTS:
            return self.root, np.ones(size)
        # Orthogonal directions: what two of them see of H^-1 is not seen twice.
        directions = np.linalg.qr(random.standard_normal((size, GRADIENT_PROBES)))[0]
        rows = scipy.linalg.solve_triangular(
            self._factor, directions, lower=True, trans="T", overwrite_b=True, check_finite=False
        ).T
        return np.sqrt(size / GRADIENT_PROBES) * self._deviations * rows, np.ones(GRADIENT_PROBES)


@dataclass
class KnownMode:
    """A mode and the likelihood's curvature there (None where it was not spelled out), to go on from."""

    spaces: list[CliqueSpace]
    coefficients: list[np.ndarray]
    curvature: np.ndarray | None


class EvidenceProblem:
    """The log evidence of spaces in the logarithms of parameters; modes are found to a relative ``mode_tol``."""

    def __init__(
        self,
        spaces: Sequence[CliqueSpace],
        parameters: Sequence[FieldParameter],
        engine_of: EngineBuilder,
        n_labels: int,
        search: EvidenceSearch,
        seed: int,
        mode_tol: float = SEARCHED_MODE,
    ):
        self.spaces = list(spaces)
        self.parameters = list(parameters)
        self._engine_of = engine_of
        self._n_labels = n_labels
        self._search = search
        self._seed = seed
        self.mode_tol = mode_tol
        self._known: KnownMode | None = None
        self._latest: tuple[bytes, list[CliqueSpace]] | None = None

    def continue_from(self, known: KnownMode) -> None:
        """Look for the first mode near another one, which may live in other subspaces."""
        self._known = known

    def space_at(self, logs: np.ndarray) -> list[CliqueSpace]:
        """Return the spaces with these parameters; the latest are kept."""
        key = np.asarray(logs, dtype=np.float64).tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = key, with_parameters(self.spaces, self.parameters, np.exp(logs))
        return self._latest[1]

    def laplace(self, logs: np.ndarray) -> FieldLaplace:
        """Return the Gaussian at the mode for these parameters, found from the last mode."""
        search, random, spaces = self._search, np.random.default_rng(self._seed), self.space_at(logs)
        posterior = LogPosterior(self._engine_of([space.clique_features(self._n_labels) for space in spaces]))
        method = search.method
        if method == "auto" and posterior.size <= EXACT_IN_BLOCKS and works_in_blocks(posterior):
            method = "exact"
        point = mode_of(
            posterior,
            self._start(posterior, spaces),
            method,
            self._curvature_near(posterior, spaces),
            self.mode_tol,
        )
        found = FieldLaplace(point, method=method, steps=search.steps, probes=search.probes, random=random)
        if np.isfinite(found.evidence.value):
            self._known = KnownMode(spaces, posterior.expanded(point.theta), found.curvature)
        return found

    def gradient(self, laplace: FieldLaplace, logs: np.ndarray) -> np.ndarray:
        """Return the gradient of the log evidence in the logarithms."""
        roots, signs = laplace.signed_roots(np.random.default_rng(self._seed))
        self._variances = signs @ np.square(roots)
        return evidence_gradient(laplace, roots, signs, self.space_at(logs), self.parameters, logs)

    def rough_curvature(self, laplace: FieldLaplace) -> np.ndarray:
        """Return about how curved the evidence is in each logarithm: half the effective number of coefficients.

        This is sum_j (1 - variance_j / prior variance_j) over the coefficients of its set, by the latest roots.
        """
        posterior = laplace.posterior
        shares = 1.0 - posterior.prior_precision * self._variances
        return np.array(
            [1.0 + 0.5 * max(0.0, shares[posterior.blocks[each.index].rows].sum()) for each in self.parameters]
        )

    def _start(self, posterior: LogPosterior, spaces: Sequence[CliqueSpace]) -> np.ndarray | None:
        """Return the functions of the last mode in the coordinates of these spaces, if that is a good start."""
        if self._known is None:
            return None
        known = zip(self._known.spaces, self._known.coefficients, spaces, strict=True)
        carried = posterior.compressed([_carried(old.subspace, own, new.subspace) for old, own, new in known])
        trial = posterior.trial(carried)
        return carried if trial is not None and trial.value < posterior.value_at_zero else None

    def _curvature_near(self, posterior: LogPosterior, spaces: Sequence[CliqueSpace]) -> np.ndarray | None:
        """Return the curvature at the last mode in the coordinates of these spaces.

        Functions of the new subspaces are seen by their values at the old pivots: v_old = M v_new, J -> M^T J M.
        """
        if self._known is None or self._known.curvature is None:
            return None
        matrix = self._known.curvature
        changes = [
            _change(old.subspace, new.subspace) for old, new in zip(self._known.spaces, spaces, strict=True)
        ]
        if all(change is None for change in changes):
            return matrix
        for _ in range(2):
            parts, begin = [], 0
            for block, change in zip(posterior.blocks, changes, strict=True):
                rank, outputs = block.shape if change is None else (len(change), block.shape[1])
                part = matrix[begin : begin + rank * outputs]
                begin += len(part)
                if change is not None:
                    part = (change.T @ part.reshape(rank, -1)).reshape(-1, matrix.shape[1])
                parts.append(part)
            matrix = np.vstack(parts).T
        return np.ascontiguousarray(matrix)


def _carried(old: Any, coefficients: np.ndarray, new: Any) -> np.ndarray:
    """Return the coefficients of the function in a new subspace that has the same values at its pivots."""
    if not isinstance(new, PivotSubspace) or old is new:
        return coefficients
    return scipy.linalg.solve_triangular(
        new.factor, old.apply(new.pivots, coefficients), lower=True, check_finite=False
    )


def _change(old: Any, new: Any) -> np.ndarray | None:
    """Return M, (old rank, new rank): coordinates of new functions by their values at the old pivots."""
    if not isinstance(new, PivotSubspace) or old is new:
        return None
    return scipy.linalg.solve_triangular(old.factor, new.features(old.pivots), lower=True, check_finite=False)
