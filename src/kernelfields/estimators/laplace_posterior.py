"""The posterior of a fitted field around its mode: coefficients to draw from, evidence, marginals that know doubt.

    p(y | x, data) = E p(y | x, theta),    theta ~ N(mode, H^-1)

The expectation is a mean over sampled coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import EngineBuilder
from kernelfields.estimators.laplace_samples import LaplaceSamples
from kernelfields.estimators.parameters import check_count
from kernelfields.estimators.warm_start import continued_space
from kernelfields.fields.randomness import random_generator
from kernelfields.posterior import LogPosterior
from kernelfields.posterior.laplace import Evidence, Laplace


class LaplaceMixin:
    """Laplace posterior of estimators that can put their fitted sets on data again; see ``_posterior_on``."""

    laplace_: LaplaceSamples

    def _posterior_on(self, X: Any, y: Any, sample_weight: Any) -> tuple[LogPosterior, list[FittedSet]]:
        """Return the objective of the fitted sets on labelled data, and the sets."""
        raise NotImplementedError

    def laplace(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        n_samples: int = 50,
        method: str = "auto",
        steps: int = 100,
        probes: int = 10,
        random_state: Any = None,
    ) -> Evidence:
        """Approximate the posterior on (X, y), the data of the fit, by a Gaussian; return the log evidence.

        Draws ``n_samples`` coefficients for predictions with ``uncertainty=True``. method="exact" spells out the
        Hessian, "lanczos" works with ``steps`` of its products for each of ``probes`` estimates of the log
        determinant and for each sample, "auto" is exact for small fields.
        """
        check_count(n_samples, "n_samples")
        random = random_generator(random_state)
        posterior, sets = self._posterior_on(X, y, sample_weight)
        point = posterior.at(posterior.compressed([each.coefficients for each in sets]))
        found = Laplace(point, method=method, steps=steps, probes=probes, random=random)
        drawn = found.sample(int(n_samples), random)
        parts = [posterior.expanded(row) for row in drawn]
        self.laplace_ = LaplaceSamples(
            found.evidence,
            found.method,
            [np.stack(each) for each in zip(*parts, strict=True)],
            int(random.integers(2**31)),
        )
        return found.evidence

    def sample_coefficients(self) -> dict[str, np.ndarray]:
        """Return the coefficients drawn by :meth:`laplace`: name of a set -> (n_samples, rank, labellings)."""
        samples = self._drawn()
        return {
            each.name: np.stack([each.in_labels(row) for row in drawn])
            for each, drawn in zip(self._fitted_sets(), samples.samples, strict=True)
        }

    def _fitted_sets(self) -> Sequence[FittedSet]:
        raise NotImplementedError

    def _drawn(self) -> LaplaceSamples:
        if not hasattr(self, "laplace_"):
            raise ValueError(
                "uncertainty needs the posterior around the fit: call laplace(X, y) on its data first"
            )
        return self.laplace_


def posterior_of_sets(
    sets: Sequence[FittedSet], fields: Any, n_labels: int, engine_of: EngineBuilder, **precision: Any
) -> LogPosterior:
    """Return the objective of fitted sets on labelled data, their subspaces as they are."""
    spaces = [continued_space(each.name, each.clique, each, fields, **precision) for each in sets]
    return LogPosterior(engine_of([space.clique_features(n_labels) for space in spaces]))
