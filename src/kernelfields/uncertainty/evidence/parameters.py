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

from kernelfields.basis.subspace import ExplicitSubspace, PivotSubspace
from kernelfields.engines.engine import Sample
from kernelfields.fields.cliques import CliqueSet
from kernelfields.kernels.kernel import Kernel, Sum
from kernelfields.numerics.parameters import is_real
from kernelfields.objective.designs.design import FeatureOrigin, LocalDesign, left_outside
from kernelfields.objective.term import Term

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
    """One number: ``name`` is "prior_variance" or a parameter of the kernel of term number ``index``."""

    index: int
    term_name: str
    name: str
    value: float

    def __str__(self) -> str:
        return f"{self.term_name} {self.name}"


def variances_of(designs: Sequence[LocalDesign]) -> list[FieldParameter]:
    """Return the prior variance of every term."""
    return [
        FieldParameter(index, design.name, VARIANCE, design.term.prior_variance) for index, design in enumerate(designs)
    ]


def widths_of(designs: Sequence[LocalDesign]) -> list[FieldParameter]:
    """Return the positive numbers of the kernels of all terms, as far as they are not whole."""
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


def cliques_with(
    designs: Sequence[LocalDesign], parameters: Sequence[FieldParameter], values: Sequence[float]
) -> list[tuple[str, CliqueSet]]:
    """Return the named clique sets of designs with other prior variances and kernels."""
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
    sample: Sample,
) -> list[LocalDesign]:
    """Return designs with other prior variances and kernels; features are shared where the kernel is the same."""
    moved: list[Any] = []
    for design, (_, clique) in zip(designs, cliques_with(designs, parameters, values), strict=True):
        term = design.term.with_clique(clique)
        if clique.kernel is not None and clique.kernel != term.subspace.kernel:
            moved.append(sample.design(replace(term, subspace=_subspace_of(term.subspace, clique.kernel))))
        else:
            # A panel belongs to the old kernel; nothing grows from here on.
            moved.append(replace(design, term=term, panel=None))
    return moved


def cut_design(design: LocalDesign, rank: int) -> LocalDesign:
    """Return a design with its first pivots alone; one that has no more than ``rank`` stays as it is."""
    subspace, origin = design.term.subspace, design.origin
    if not isinstance(subspace, PivotSubspace) or subspace.rank <= rank or origin is None:
        return design
    cut = PivotSubspace(subspace.kernel, subspace.pivots[:rank], subspace.factor[:rank, :rank], subspace.indices[:rank])
    # Coordinates are nested: those of the first pivots do not know of the others.
    features = np.ascontiguousarray(design.features[:, :rank])
    return LocalDesign.of_features(
        replace(design.term, subspace=cut),
        features,
        design.n_labels,
        positions=design.positions,
        origin=FeatureOrigin(cut.kernel, cut.pivots, origin.inputs, left_outside(cut, origin.inputs, features)),
    )


def moved_subspace(term: Term, name: str, value: float) -> Any:
    """Return the subspace of a term with another value of a kernel parameter, pivots kept, in float64."""
    subspace: Any = term.subspace
    if isinstance(subspace, PivotSubspace):
        subspace = replace(subspace, pivots=subspace.pivots.astype(np.float64, copy=False))
    return _subspace_of(subspace, clone(term.subspace.kernel).set_params(**{name: value}))


def _subspace_of(subspace: Any, kernel: Kernel) -> Any:
    if isinstance(subspace, ExplicitSubspace):
        return ExplicitSubspace(kernel, subspace.n_coordinates)
    gram = kernel(subspace.pivots).astype(np.float64, copy=False)
    gram[np.diag_indices(len(gram))] *= 1.0 + _JITTER
    return PivotSubspace(kernel, subspace.pivots, scipy.linalg.cholesky(gram, lower=True), subspace.indices)
