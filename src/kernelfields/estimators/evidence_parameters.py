"""The numbers of a field that its evidence can choose: prior variances and parameters of kernels, by clique set.

All are positive and are searched in logarithms. A kernel changes with its pivots B kept: the new subspace is
spanned by k_new(b, .), with K_BB = R R^T factored anew, so that features are smooth in the parameters. Cost of a
new kernel: O(n r (d + r)). Fails: LinAlgError where pivots are no longer independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import clone

from kernelfields.basis import ExplicitSubspace, PivotSubspace
from kernelfields.estimators.parameters import is_real
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.fields import CliqueSet
from kernelfields.kernels import Kernel
from kernelfields.kernels.algebra import Sum

VARIANCE = "prior_variance"
# Parameters of kernels that are widths or offsets; whole ones such as degrees are left alone.
_WIDTHS = ("gamma", "length_scale", "coef0")
# Outside sums these do what the prior variance does.
_WEIGHTS = ("factor", "value")
# Added to the diagonal of K_BB, relative to its mean: pivots chosen for one kernel may be close for another.
_JITTER = 1e-10


@dataclass(frozen=True)
class FieldParameter:
    """One number: ``name`` is "prior_variance" or a parameter of the kernel of set number ``index``."""

    index: int
    set_name: str
    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.set_name} {self.name}"


def variances_of(spaces: Sequence[CliqueSpace]) -> list[FieldParameter]:
    """Return the prior variance of every set."""
    return [
        FieldParameter(index, space.name, VARIANCE, float(space.clique.prior_variance))
        for index, space in enumerate(spaces)
    ]


def widths_of(spaces: Sequence[CliqueSpace]) -> list[FieldParameter]:
    """Return the positive numbers of the kernels of all sets, as far as they are not whole."""
    found = []
    for index, space in enumerate(spaces):
        if space.clique.kernel is None:
            continue
        kernel = space.subspace.kernel
        names = _WIDTHS + _WEIGHTS if isinstance(kernel, Sum) else _WIDTHS
        for name, value in sorted(kernel.get_params(deep=True).items()):
            if name.rsplit("__", 1)[-1] in names and is_real(value) and 0 < value < np.inf:
                found.append(FieldParameter(index, space.name, name, float(value)))
    return found


def cliques_with(
    spaces: Sequence[CliqueSpace], parameters: Sequence[FieldParameter], values: Sequence[float]
) -> list[tuple[str, CliqueSet]]:
    """Return the named clique sets of spaces with other prior variances and kernels."""
    changed = []
    for index, space in enumerate(spaces):
        own = {
            parameter.name: float(value)
            for parameter, value in zip(parameters, values, strict=True)
            if parameter.index == index
        }
        description = space.clique.get_params(deep=False)
        description[VARIANCE] = own.pop(VARIANCE, float(space.clique.prior_variance))
        if space.clique.kernel is not None:
            description["kernel"] = clone(space.subspace.kernel).set_params(**own)
        changed.append((space.name, type(space.clique)(**description)))
    return changed


def with_parameters(
    spaces: Sequence[CliqueSpace], parameters: Sequence[FieldParameter], values: Sequence[float]
) -> list[CliqueSpace]:
    """Return spaces with other prior variances and kernels; features are shared where the kernel is the same."""
    moved = []
    for space, (_, clique) in zip(spaces, cliques_with(spaces, parameters, values), strict=True):
        if clique.kernel is not None and clique.kernel != space.subspace.kernel:
            space = _with_kernel(space, clique.kernel)
        # The panel belongs to the old kernel; nothing grows from here on.
        moved.append(replace(space, clique=clique, panel=None, basis=None))
    return moved


def cut_space(space: CliqueSpace, rank: int) -> CliqueSpace:
    """Return a space with its first pivots alone; one that has no more than ``rank`` stays as it is."""
    subspace = space.subspace
    if not isinstance(subspace, PivotSubspace) or subspace.rank <= rank:
        return space
    cut = PivotSubspace(
        subspace.kernel, subspace.pivots[:rank], subspace.factor[:rank, :rank], subspace.indices[:rank]
    )
    # Coordinates are nested: those of the first pivots do not know of the others.
    return replace(
        space, subspace=cut, features=np.ascontiguousarray(space.features[:, :rank]), panel=None, basis=None
    )


def moved_subspace(space: CliqueSpace, name: str, value: float) -> Any:
    """Return the subspace of a set with another value of a kernel parameter, pivots kept, in float64."""
    subspace: Any = space.subspace
    if isinstance(subspace, PivotSubspace):
        subspace = replace(subspace, pivots=subspace.pivots.astype(np.float64, copy=False))
    return _subspace_of(subspace, clone(space.subspace.kernel).set_params(**{name: value}))


def _subspace_of(subspace: Any, kernel: Kernel) -> Any:
    if isinstance(subspace, ExplicitSubspace):
        return ExplicitSubspace(kernel, subspace.n_coordinates)
    gram = kernel(subspace.pivots).astype(np.float64, copy=False)
    gram[np.diag_indices(len(gram))] += _JITTER * float(np.trace(gram)) / len(gram)
    return PivotSubspace(kernel, subspace.pivots, scipy.linalg.cholesky(gram, lower=True), subspace.indices)


def _with_kernel(space: CliqueSpace, kernel: Kernel) -> CliqueSpace:
    subspace = _subspace_of(space.subspace, kernel)
    features = subspace.features(space.inputs, space.features.dtype)
    if isinstance(subspace, ExplicitSubspace):
        return replace(space, subspace=subspace, features=features)
    inside = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    residual = np.maximum(kernel.diag(space.inputs) - inside, 0.0)
    return replace(space, subspace=subspace, features=features, residual_diagonal=residual)
