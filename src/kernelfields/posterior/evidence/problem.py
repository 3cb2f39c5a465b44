"""The log evidence of a field as a function of the logarithms of its parameters, pivots kept, and its gradient.

    log E = -P(v; p) - (1/2) log det(I + D J(v; p)),        v = v(p) the mode,    H = D^-1 + J

The mode moves with the parameters, and the curvature J with mode and features. Everything that does not depend on
the parameter is computed once (implicit differentiation, backward): with T = (1/2) tr H^-1 J,

    t  = Z^T (dT / d potentials) A,    w = H^-1 t
    d log E / d log s_c = ||v_c||^2 / (2 s_c) - (1/2) (n_c - tr (H^-1)_cc / s_c) - <w_c, v_c> / s_c
    d log E / d log p   = <dZ_c / d log p, G_c>
    G_c = -dT/dZ_c + residual A (w - v)^T + (Cov Z w - dT/d potentials) A v^T         residual = marginals - labels

Parameters are prior variances and positive numbers of kernels, by clique set. The pivots B of a kernel are fixed: the
subspace is spanned by k_new(b, .), and K_BB = R R^T is factored again, so that features are smooth in the parameters;
O(n r (d + r)). dZ is a central difference with the step STEP in log p: two kernel matrices for each kernel parameter.
A point costs the features of its kernels, a search for the mode from the previous one, a Hessian and its factor; the
gradient costs about two more Hessians, whatever the number of parameters. With probes the traces are estimates. Raises
LinAlgError if pivots become dependent or the Hessian is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from scipy.sparse import csr_array
from sklearn.base import clone

from kernelfields.basis.subspace import ExplicitSubspace, PivotSubspace, Subspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.engines.threads import LocalSample
from kernelfields.kernels.algebra import Sum
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.rows import row_blocks
from kernelfields.numerics.parameters import is_real
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.objective.curvature import has_blocked_passes, trace_slopes
from kernelfields.objective.designs.design import FeatureOrigin, LocalDesign, residual_variance
from kernelfields.objective.posterior import LogPosterior
from kernelfields.objective.term import Term
from kernelfields.posterior.evidence.settings import EvidenceSearch
from kernelfields.posterior.laplace.laplace import SEARCHED_MODE, Laplace, find_mode

STEP = 1e-4
# Probes of a gradient: fewest and most, and their number times the nats that a climb ends by.
_PROBES, _PROBES_TIMES_NATS = (32, 100), 10.0
#: Up to this many coefficients Hessians are spelled out where blocks of directions make them cheap.
EXACT_IN_BLOCKS = 4000
VARIANCE = "prior_variance"
# Parameters of kernels that are widths or offsets; whole ones such as degrees are left alone.
_WIDTHS = ("gamma", "length_scale", "coef0")
# Outside sums these do what the prior variance does.
_WEIGHTS = ("factor", "value")
# Share of k(b, b) by which the diagonal of K_BB is enlarged: pivots chosen for one kernel may be close for another,
# and leaving some out would make a jump where features have to be smooth.
_JITTER = 1e-10


@dataclass(frozen=True)
class FieldParameter:
    """A number to optimize: the prior variance, or a kernel parameter, of the term with number ``index``."""

    index: int
    term_name: str
    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.term_name} {self.name}"


def list_prior_variances(designs: Sequence[LocalDesign]) -> list[FieldParameter]:
    """List the prior variances of all terms as parameters."""
    return [
        FieldParameter(index, design.name, VARIANCE, design.term.prior_variance) for index, design in enumerate(designs)
    ]


def list_kernel_parameters(designs: Sequence[LocalDesign]) -> list[FieldParameter]:
    """List the positive parameters of the kernels of all terms, except integers."""
    widths = []
    for index, design in enumerate(designs):
        if design.term.clique.kernel is None:
            continue
        kernel = design.term.subspace.kernel
        names = _WIDTHS + _WEIGHTS if isinstance(kernel, Sum) else _WIDTHS
        for name, value in sorted(kernel.get_params(deep=True).items()):
            if name.rsplit("__", 1)[-1] in names and is_real(value) and 0 < value < np.inf:
                widths.append(FieldParameter(index, design.name, name, float(value)))
    return widths


def with_clique_parameters(
    designs: Sequence[LocalDesign], parameters: Sequence[FieldParameter], values: Sequence[float]
) -> list[tuple[str, CliqueSet]]:
    """Return the named clique sets of designs with other prior variances and kernel parameters."""
    changed = []
    for index, design in enumerate(designs):
        clique = design.term.clique
        own = {
            parameter.name: float(value)
            for parameter, value in zip(parameters, values, strict=True)
            if parameter.index == index
        }
        description = clique.get_params(deep=False)
        description[VARIANCE] = own.pop(VARIANCE, float(clique.prior_variance))
        if clique.kernel is not None:
            description["kernel"] = clone(design.term.subspace.kernel).set_params(**own)
        changed.append((design.name, type(clique)(**description)))
    return changed


def with_parameters(
    designs: Sequence[LocalDesign],
    parameters: Sequence[FieldParameter],
    values: Sequence[float],
    sample: LocalSample,
) -> list[LocalDesign]:
    """Return designs with other prior variances and kernel parameters; features of unchanged kernels are shared."""
    moved = []
    for design, (_, clique) in zip(designs, with_clique_parameters(designs, parameters, values), strict=True):
        term = design.term.with_clique(clique)
        if clique.kernel is not None and clique.kernel != term.subspace.kernel:
            moved.append(sample.design(replace(term, subspace=_change_kernel(term.subspace, clique.kernel))))
        else:
            # A panel belongs to the old kernel; nothing grows from here on.
            moved.append(replace(design, term=term, panel=None))
    return moved


def truncate_design(design: LocalDesign, rank: int) -> LocalDesign:
    """Return a design with its first ``rank`` pivots; unchanged if it has at most ``rank``."""
    subspace, origin = design.term.subspace, design.origin
    if not isinstance(subspace, PivotSubspace) or subspace.rank <= rank or origin is None:
        return design
    cut = PivotSubspace(subspace.kernel, subspace.pivots[:rank], subspace.factor[:rank, :rank], subspace.indices[:rank])
    # Coordinates are nested: those of the first pivots do not depend on the others.
    features = np.ascontiguousarray(design.features[:, :rank])
    return LocalDesign.from_features(
        replace(design.term, subspace=cut),
        features,
        design.n_labels,
        positions=design.positions,
        origin=FeatureOrigin(cut.kernel, cut.pivots, origin.inputs, residual_variance(cut, origin.inputs, features)),
    )


def subspace_with_parameter(term: Term, name: str, value: float) -> Subspace:
    """Return the subspace of the same pivots with another value of a kernel parameter, in float64."""
    subspace = term.subspace
    if isinstance(subspace, PivotSubspace):
        subspace = replace(subspace, pivots=subspace.pivots.astype(np.float64, copy=False))
    return _change_kernel(subspace, clone(term.subspace.kernel).set_params(**{name: value}))


def _change_kernel(subspace: Subspace, kernel: Kernel) -> Subspace:
    """Return the subspace of the same pivots with another kernel, in float64."""
    if isinstance(subspace, ExplicitSubspace):
        return ExplicitSubspace(kernel, subspace.n_coordinates)
    assert isinstance(subspace, PivotSubspace)
    gram = kernel(subspace.pivots).astype(np.float64, copy=False)
    gram[np.diag_indices(len(gram))] *= 1.0 + _JITTER
    return PivotSubspace(kernel, subspace.pivots, scipy.linalg.cholesky(gram, lower=True), subspace.indices)


def evidence_gradient(
    laplace: Laplace,
    roots: np.ndarray,
    signs: np.ndarray,
    designs: Sequence[LocalDesign],
    parameters: Sequence[FieldParameter],
    logs: np.ndarray,
    inputs_of: Callable[[LocalDesign], Rows],
) -> np.ndarray:
    """Compute d log E / d log p for each parameter; ``designs`` have the parameters ``logs``.

    The rows r_k (k, size) of ``roots`` and signs of one have sum_k sign_k r_k r_k^T = H^-1, or close to it.
    """
    posterior, mode, datafit = laplace.posterior, laplace.mode, laplace.posterior.datafit
    wanted = sorted({parameter.index for parameter in parameters if parameter.name != VARIANCE})
    slopes = trace_slopes(laplace.point, roots, signs, wanted)
    pulled = posterior.blocks.flatten(datafit.pull_back(slopes.potentials))
    adjoint = laplace.covariance_products(pulled[None])[0]
    response = datafit.hessian_response(laplace.point.evaluation, posterior.potentials(adjoint))
    response.add(-1.0, slopes.potentials)
    at_mode, at_adjoint = posterior.blocks.split(mode), posterior.blocks.split(adjoint)
    features = {}
    for index in wanted:
        residual = datafit.outside_span.residuals(laplace.point.evaluation.residual, index)
        features[index] = residual @ (at_adjoint[index] - at_mode[index]).T
        features[index] += datafit.outside_span.residuals(response, index) @ at_mode[index].T
        features[index] -= slopes.features[index]
    variances = signs @ np.square(roots)
    gradient = np.empty(len(parameters))
    for number, parameter in enumerate(parameters):
        index = parameter.index
        if parameter.name == VARIANCE:
            rows, variance = posterior.blocks[index].rows, posterior.blocks[index].prior_variance
            squares = 0.5 * (mode[rows] @ mode[rows] + variances[rows].sum()) - adjoint[rows] @ mode[rows]
            gradient[number] = squares / variance - 0.5 * len(mode[rows])
        else:
            gradient[number] = _feature_derivative(
                designs[index], parameter.name, logs[number], features[index], inputs_of(designs[index])
            )
    return gradient


def _feature_derivative(design: LocalDesign, name: str, log: float, slopes: np.ndarray, inputs: Rows) -> float:
    """Compute <dZ / d log p, slopes> for features Z of a kernel and one of its parameters."""
    ahead, behind = (subspace_with_parameter(design.term, name, float(np.exp(log + step))) for step in (STEP, -STEP))
    total = 0.0
    for rows in row_blocks(len(slopes), slopes.shape[1]):
        # A difference of float32 kernels would be noise.
        wide = inputs[rows].astype(np.float64, copy=False)
        above, below = ahead.features(wide), behind.features(wide)
        if isinstance(above, np.ndarray) and isinstance(below, np.ndarray):
            total += float(np.vdot(above - below, slopes[rows]))
        else:
            change = csr_array(above) - csr_array(below)
            total += float(csr_array(design.compress(change.T)).multiply(slopes[rows].T).sum())
    return total / (2.0 * STEP)


@dataclass
class StoredMode:
    """A mode and the curvature of the likelihood at it, or None, as the start of the next search for a mode."""

    designs: list[LocalDesign]
    coefficients: list[np.ndarray]
    curvature: np.ndarray | None


class EvidenceProblem:
    """The log evidence of designs as a function of log parameters; modes have the relative tolerance ``mode_tol``."""

    def __init__(
        self,
        designs: Sequence[LocalDesign],
        parameters: Sequence[FieldParameter],
        sample: LocalSample,
        search: EvidenceSearch,
        seed: int,
        mode_tol: float = SEARCHED_MODE,
    ):
        self.designs = list(designs)
        self.parameters = list(parameters)
        self._sample = sample
        self._search = search
        self._seed = seed
        self.mode_tol = mode_tol
        self._known: StoredMode | None = None
        self._latest: tuple[bytes, list[LocalDesign]] | None = None

    def restart_search(self, known: StoredMode) -> None:
        """Start the next search for a mode from another mode, possibly in other subspaces."""
        self._known = known

    def make_designs(self, logs: np.ndarray) -> list[LocalDesign]:
        """Return the designs with given parameters; the last result is cached."""
        key = np.asarray(logs, dtype=np.float64).tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = key, with_parameters(self.designs, self.parameters, np.exp(logs), self._sample)
        return self._latest[1]

    def laplace(self, logs: np.ndarray) -> Laplace:
        """Compute the Laplace approximation at given parameters, starting from the last mode."""
        search, random, designs = self._search, np.random.default_rng(self._seed), self.make_designs(logs)
        posterior = LogPosterior(self._sample.datafit(designs))
        method = search.method
        if method == "auto" and posterior.size <= EXACT_IN_BLOCKS and has_blocked_passes(posterior):
            method = "exact"
        point = find_mode(
            posterior,
            self._start(posterior, designs),
            method,
            self._transform_last_curvature(posterior, designs),
            self.mode_tol,
        )
        found = Laplace(point, method=method, steps=search.steps, probes=search.probes, random=random)
        if np.isfinite(found.evidence.value):
            self._known = StoredMode(designs, posterior.blocks.expand(point.theta), found.curvature)
        return found

    def gradient(self, laplace: Laplace, logs: np.ndarray) -> np.ndarray:
        """Compute the gradient of the log evidence with respect to the log parameters."""
        # With k probes the top moves to where the evidence is about 1 / (2 k) nats lower, however large the field.
        least = self._search.tol * max(1.0, abs(laplace.evidence.value))
        probes = int(np.clip(_PROBES_TIMES_NATS / least, *_PROBES))
        roots, signs = laplace.signed_roots(np.random.default_rng(self._seed), probes=probes)
        self._variances = signs @ np.square(roots)
        return evidence_gradient(
            laplace, roots, signs, self.make_designs(logs), self.parameters, logs, self._find_inputs
        )

    def _find_inputs(self, design: LocalDesign) -> Rows:
        return design.term.clique.view(self._sample.data) if design.origin is None else design.origin.inputs

    def estimate_curvature(self, laplace: Laplace) -> np.ndarray:
        """Estimate the curvature of the log evidence in each log parameter: half the effective number of coefficients.

        This is sum_j (1 - variance_j / prior variance_j) over the coefficients of its set, by the latest roots.
        """
        posterior = laplace.posterior
        shares = 1.0 - posterior.prior_precision * self._variances
        return np.array(
            [
                1.0 + 0.5 * max(0.0, shares[posterior.blocks[parameter.index].rows].sum())
                for parameter in self.parameters
            ]
        )

    def _start(self, posterior: LogPosterior, designs: Sequence[LocalDesign]) -> np.ndarray | None:
        """Return the last mode in the coordinates of designs, or None if another start is better."""
        if self._known is None:
            return None
        known = zip(self._known.designs, self._known.coefficients, designs, strict=True)
        carried = posterior.blocks.compress(
            [_transfer_coefficients(old.term.subspace, own, new.term.subspace) for old, own, new in known]
        )
        trial = posterior.trial(carried)
        if trial is None:
            return None
        at_zero = posterior.datafit.group.total(posterior.datafit.likelihood.value_at_zero)
        return carried if trial.value < at_zero else None

    def _transform_last_curvature(self, posterior: LogPosterior, designs: Sequence[LocalDesign]) -> np.ndarray | None:
        """Return the curvature at the last mode in the coordinates of designs.

        Functions of the new subspaces are seen by their values at the old pivots: v_old = M v_new, J -> M^T J M.
        """
        if self._known is None or self._known.curvature is None:
            return None
        matrix = self._known.curvature
        changes = [
            _change_of_basis(old.term.subspace, new.term.subspace)
            for old, new in zip(self._known.designs, designs, strict=True)
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


def _transfer_coefficients(old: Subspace, coefficients: np.ndarray, new: Subspace) -> np.ndarray:
    """Return coefficients in a new subspace of the function with the same values at its pivots."""
    if not isinstance(new, PivotSubspace) or old is new:
        return coefficients
    return scipy.linalg.solve_triangular(
        new.factor, old.apply(new.pivots, coefficients), lower=True, check_finite=False
    )


def _change_of_basis(old: Subspace, new: Subspace) -> np.ndarray | None:
    """Return M (old rank, new rank): the values of new basis functions at old pivots, in old coordinates."""
    if not isinstance(new, PivotSubspace) or not isinstance(old, PivotSubspace) or old is new:
        return None
    return scipy.linalg.solve_triangular(old.factor, new.features(old.pivots), lower=True, check_finite=False)
