"""Coefficients drawn from the posterior around a fit, and the potentials they give on new data.

Features of new inputs are computed once for all samples; each sample then costs a product and a pass of inference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.basis import PivotSubspace
from kernelfields.engines import Potentials
from kernelfields.engines.likelihood import Layout
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.spaces import viewed_inputs
from kernelfields.posterior.laplace import Evidence


@dataclass
class LaplaceSamples:
    """Evidence of a fitted field, and coefficients drawn around it: for each set (n_samples, r, q).

    ``seed`` is for what a sample says about inputs outside the span of the basis.
    """

    evidence: Evidence
    method: str
    samples: list[np.ndarray]
    seed: int = 0

    @property
    def n_samples(self) -> int:
        """How many coefficients were drawn."""
        return len(self.samples[0])


def sampled_potentials(
    sets: Sequence[FittedSet], fields: Any, layout: Layout, samples: LaplaceSamples
) -> Iterator[Potentials]:
    """Yield the potentials of each sample of coefficients on chains or graphs.

    Away from the pivots a function of the kernel is as free as the prior lets it be: the part of f(x) that the
    basis cannot express has the variance s (k(x, x) - ||z(x)||^2), and is drawn for each input by itself.
    """
    placements = [each.placement(fields) for each in sets]
    features = [None if each.tied_everywhere else each.features(fields) for each in sets]
    outside = [_outside(each, fields, rows) for each, rows in zip(sets, features, strict=True)]
    random = np.random.default_rng(samples.seed)
    for number in range(samples.n_samples):
        potentials = layout.zeros()
        for each, place, rows, free, drawn in zip(
            sets, placements, features, outside, samples.samples, strict=True
        ):
            coefficients = drawn[number]
            if each.support is not None:
                matrix = each.support.matrix(coefficients)
                scores = matrix.toarray() if rows is None else (rows @ matrix).toarray()
            else:
                values = coefficients if rows is None else rows @ coefficients
                if free is not None:
                    values = values + free[:, None] * random.standard_normal(values.shape)
                scores = each.in_labels(values)
            layout.add_scores(potentials, place, scores)
        yield potentials


def _outside(each: FittedSet, fields: Any, features: Any) -> np.ndarray | None:
    """Return the prior deviation of what the basis of a set cannot express, (n,); None if it expresses all."""
    if not isinstance(each.subspace, PivotSubspace):
        return None
    diagonal = each.subspace.kernel.diag(viewed_inputs(each.clique, fields))
    inside = np.einsum("ij,ij->i", features, features, dtype=np.float64)
    return np.sqrt(each.clique.prior_variance * np.maximum(diagonal - inside, 0.0))
