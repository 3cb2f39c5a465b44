"""Warm starts: the fitted field as the starting point of the next fit, on the same or on new chains.

The coefficients of set c belong to its subspace, so a fit can go on from them only while kernel, view, label
kernel and basis stay what they were. The prior variances may change: that is how a path of regularisation is
followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.basis import ConstantSubspace, ExplicitSubspace, PivotSubspace
from kernelfields.engines.feature_memory import feature_dtype
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.parameters import resolve_dtype
from kernelfields.estimators.spaces import CliqueSpace, explicit_dtype, viewed_inputs
from kernelfields.features import check_window
from kernelfields.fields import Chains, CliqueSet


def continued_spaces(
    cliques: Sequence[tuple[str, CliqueSet]],
    known: Sequence[FittedSet],
    chains: Chains,
    *,
    tol: float,
    dtype: Any,
) -> list[CliqueSpace]:
    """Return the spaces of a fitted field on (new) chains; ValueError if the clique sets have changed.

    ``cliques`` come from :func:`~kernelfields.estimators.spaces.name_cliques`, as those of the fitted field did.
    """
    names = [name for name, _ in cliques]
    if names != [each.name for each in known]:
        raise _changed(f"they were {[each.name for each in known]} and are now {names}")
    for (name, clique), each in zip(cliques, known, strict=True):
        for parameter in ("kernel", "window", "label_kernel", "basis", "rank", "support", "min_freq"):
            if not _same(parameter, clique, each.clique):
                before, now = getattr(each.clique, parameter), getattr(clique, parameter)
                raise _changed(f"{parameter} of {name!r} was {before!r} and is now {now!r}")
        if clique.l1 > 0 and each.label_factor is not None:
            raise _changed(
                f"{name!r} was fitted without l1, in contrasts between labels, and now has l1={clique.l1:g}"
            )
    return [
        continued_space(name, clique, each, chains, tol=tol, dtype=dtype)
        for (name, clique), each in zip(cliques, known, strict=True)
    ]


def continued_space(
    name: str, clique: CliqueSet, known: FittedSet, chains: Chains, *, tol: float, dtype: Any
) -> CliqueSpace:
    """Return one set of a fitted field, its subspace as it is, on other chains."""
    subspace, factor, positions = known.subspace, known.label_factor, clique.positions(chains)
    if isinstance(subspace, ConstantSubspace):
        return CliqueSpace(clique, name, subspace, factor, None, None, positions=positions, support=known.support)
    inputs = viewed_inputs(clique, chains)
    if isinstance(subspace, ExplicitSubspace):
        features = subspace.features(inputs, explicit_dtype(dtype, inputs))
        return CliqueSpace(
            clique, name, subspace, factor, inputs, features, positions=positions, support=known.support
        )
    features = subspace.features(inputs, feature_dtype(resolve_dtype(dtype), inputs.shape[0] * subspace.rank, tol))
    return CliqueSpace(
        clique,
        name,
        subspace,
        factor,
        inputs,
        features,
        positions=positions,
        residual_diagonal=_residual_diagonal(subspace, inputs, features),
    )


def _residual_diagonal(subspace: PivotSubspace, inputs: Any, features: Any) -> np.ndarray:
    """Return k(x, x) - ||z(x)||^2, what the span leaves of each input."""
    if isinstance(features, np.ndarray):
        inside = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    else:
        inside = features.squared_norms()
    return np.maximum(subspace.kernel.diag(inputs) - inside, 0.0)


def _same(parameter: str, clique: CliqueSet, known: CliqueSet) -> bool:
    now, before = getattr(clique, parameter), getattr(known, parameter)
    if parameter == "window":
        return check_window(now) == check_window(before)
    if parameter == "basis":
        return type(now) is type(before) and now.get_params() == before.get_params()
    return now == before


def _changed(how: str) -> ValueError:
    return ValueError(
        f"warm_start=True continues the fitted field, but its clique sets have changed: {how}. "
        "Clone the estimator or set warm_start=False to start afresh."
    )
