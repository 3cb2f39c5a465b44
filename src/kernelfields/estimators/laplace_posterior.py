"""The posterior of a fitted field around its mode: coefficients to draw from, evidence, marginals that know doubt.

    p(y | x, data) = E p(y | x, theta),    theta ~ N(mode, H^-1)

The expectation is a mean over sampled coefficients, or a probit correction (laplace_probit.py). A fit ends within
its tolerance of the mode; the Gaussian is put at the mode itself, found by a few more Newton steps.
Warns where the Gaussian is no good description of the posterior, or Lanczos steps were too few for samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelfields.basis import PivotSubspace
from kernelfields.engines import CliqueFeatures, ThreadsEngine
from kernelfields.estimators.evidence_search import maximise_evidence, mode_of
from kernelfields.estimators.evidence_settings import EvidencePath, resolve_search
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.estimators.fitting import EngineBuilder
from kernelfields.estimators.laplace_samples import LaplaceSamples, left_out_variances
from kernelfields.estimators.parameters import check_count
from kernelfields.estimators.spaces import CliqueSpace
from kernelfields.estimators.warm_start import continued_space
from kernelfields.fields.randomness import random_generator
from kernelfields.posterior import LogPosterior
from kernelfields.posterior.laplace import Evidence, Laplace

# Draws whose objective is compared with what the Gaussian says of it.
_CHECKED_DRAWS = 10
#: Draws that lie this many times as far above the mode as the Gaussian says are warned of.
FARTHEST_RISE = 2.0
#: Samples that the last quarter of the Lanczos steps has moved by this share of their length are warned of.
LARGEST_TRUNCATION = 0.1


class FieldPosterior(LogPosterior):
    """The objective of fitted sets, and the labelled data it is on."""

    def __init__(self, engine: ThreadsEngine, fields: Any):
        super().__init__(engine)
        self.fields = fields


class LaplaceMixin:
    """Laplace posterior of estimators that can put their fitted sets on data again; see ``_posterior_on``."""

    laplace_: LaplaceSamples
    evidence_path_: EvidencePath | None

    def _posterior_on(self, X: Any, y: Any, sample_weight: Any) -> tuple[LogPosterior, list[FittedSet]]:
        """Return the objective of the fitted sets on labelled data, see ``posterior_of_sets``, and the sets."""
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
        beyond_basis: bool | str = "auto",
        random_state: Any = None,
    ) -> Evidence:
        """Approximate the posterior on (X, y), the data of the fit, by a Gaussian; return the log evidence.

        Draws ``n_samples`` coefficients for predictions with ``uncertainty``. method="exact" spells out the
        Hessian, "lanczos" works with ``steps`` of its products for each of ``probes`` estimates of the log
        determinant and for each sample, "auto" is exact for small fields. With ``beyond_basis=True`` what the
        basis cannot express keeps its prior variance, as if the data said nothing about it: right where the basis
        expresses all training inputs, too much where a low rank leaves out what the data could tell. With False
        functions stay in the basis. "auto" counts what it leaves out beyond the most that it leaves out of any
        training input. Warns where draws lie so far above the mode that the posterior is no Gaussian around it.
        """
        for name, count in (("n_samples", n_samples), ("steps", steps), ("probes", probes)):
            check_count(count, name)
        if not (isinstance(beyond_basis, bool | np.bool_) or beyond_basis == "auto"):
            raise ValueError(f"beyond_basis must be True, False or 'auto', got {beyond_basis!r}")
        random = random_generator(random_state)
        posterior, sets = self._posterior_on(X, y, sample_weight)
        point = mode_of(posterior, posterior.compressed([each.coefficients for each in sets]), method)
        found = Laplace(point, method=method, steps=steps, probes=probes, random=random)
        draws = found.sample(int(n_samples), random)
        truncation = found.truncation
        # Without a single coefficient (all features are zero) there is nothing to be unsure of.
        rise = found.rise(draws[:_CHECKED_DRAWS]) if posterior.size else 1.0
        samples = _with_unseen(posterior, draws, random)
        root = seen = None
        if found.method == "exact":
            root = [found.root[:, each.rows].reshape(len(found.root), *each.shape) for each in posterior.blocks]
            seen = [_seen(each) for each in posterior.engine.sets]
        self.laplace_ = LaplaceSamples(
            found.evidence,
            found.method,
            samples,
            int(random.integers(2**31)),
            root,
            seen,
            bool(beyond_basis),
            _left_out(posterior, sets) if beyond_basis == "auto" else None,
            rise,
        )
        _warn_of_doubts(rise, truncation, steps)
        return found.evidence

    def sample_coefficients(self) -> dict[str, np.ndarray]:
        """Return the coefficients drawn by :meth:`laplace`: name of a set -> (n_samples, rank, labellings)."""
        samples = self._drawn()
        return {
            each.name: np.stack(
                [
                    each.in_labels(row) if each.support is None else each.support.matrix(row).toarray()
                    for row in drawn
                ]
            )
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

    def _forget_laplace(self) -> None:
        """Let go of the posterior around an earlier fit."""
        self.__dict__.pop("laplace_", None)

    def _optimized(
        self,
        optimize: Any,
        spaces: list[CliqueSpace],
        start: list[np.ndarray] | None,
        build: Callable[[Any], list[CliqueSpace]],
        engine_of: EngineBuilder,
        n_labels: int,
        random: np.random.Generator,
        say: Callable[[str], None],
    ) -> tuple[list[CliqueSpace], list[np.ndarray] | None]:
        """Return the spaces that ``optimize`` asks for and where to start in them; note the path of a search.

        ``spaces`` and ``start`` are those of the parameters as they are; a start is that of a warm start.
        """
        self.evidence_path_ = None
        if optimize is None:
            return spaces, start
        if start is not None:
            raise ValueError(
                "optimize chooses a field afresh, and warm_start=True continues the fitted one; leave out one"
            )
        chosen = maximise_evidence(
            resolve_search(optimize), spaces, build, engine_of, n_labels, random=random, say=say
        )
        self.evidence_path_ = chosen.path
        return chosen.spaces, chosen.start


def posterior_of_sets(
    sets: Sequence[FittedSet], fields: Any, n_labels: int, engine_of: EngineBuilder, **precision: Any
) -> FieldPosterior:
    """Return the objective of fitted sets on labelled data, their subspaces as they are."""
    spaces = [continued_space(each.name, each.clique, each, fields, **precision) for each in sets]
    return FieldPosterior(engine_of([space.clique_features(n_labels) for space in spaces]), fields)


def fitted_sets_of(spaces: Sequence[CliqueSpace], coefficients: Sequence[np.ndarray]) -> list[FittedSet]:
    """Return spaces with their coefficients as fitted sets."""
    return [
        FittedSet(space.clique, space.name, _with_array(space.subspace), space.label_factor, own, space.support)
        for space, own in zip(spaces, coefficients, strict=True)
    ]


def _with_array(subspace: Any) -> Any:
    """Return a subspace whose factor is an array, also where it is kept in a file."""
    if not isinstance(subspace, PivotSubspace) or isinstance(subspace.factor, np.ndarray):
        return subspace
    return replace(subspace, factor=subspace.factor.mapped())


def _left_out(posterior: LogPosterior, sets: Sequence[FittedSet]) -> list[float]:
    """Return, for each set, the most prior variance that its basis leaves out of a training input."""
    assert isinstance(posterior, FieldPosterior)
    found = [
        left_out_variances(each, posterior.fields, own.features)
        for each, own in zip(sets, posterior.engine.sets, strict=True)
    ]
    return [0.0 if free is None else float(free.max(initial=0.0)) for free in found]


def _warn_of_doubts(rise: float, truncation: float, steps: int) -> None:
    if not rise <= FARTHEST_RISE:
        warnings.warn(
            f"the posterior is no Gaussian around its mode: draws lie {rise:.3g} times as far above it as the "
            "Gaussian says, so that means over them, variances and the evidence are off. Prior variances are "
            "large for these data; smaller ones, above all of label pairs never seen (edge_prior_variance), or a "
            "temperature fitted to held-out data help",
            UserWarning,
            stacklevel=3,
        )
    if truncation > LARGEST_TRUNCATION:
        warnings.warn(
            f"{steps} Lanczos steps are too few for samples: the last quarter of them still moved one by "
            f"{100 * truncation:.0f} % of its length. Call laplace with more steps",
            UserWarning,
            stacklevel=3,
        )


def _seen(each: CliqueFeatures) -> np.ndarray | None:
    """Return the features that some training input has; None for all."""
    occupied = each.expand(np.ones(each.shape))[:, 0] != 0.0
    return None if occupied.all() else np.flatnonzero(occupied)


def _with_unseen(posterior: LogPosterior, rows: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
    """Return drawn coefficients (k, size) as (k, r, q) for each set; those of unseen features follow the prior."""
    samples = []
    for each, block in zip(posterior.engine.sets, posterior.blocks, strict=True):
        drawn, seen = rows[:, block.rows].reshape(len(rows), *block.shape), _seen(each)
        if seen is not None:
            full = (len(rows), *each.expand(drawn[0]).shape)
            known, drawn = drawn, np.sqrt(each.prior_variance) * random.standard_normal(full)
            drawn[:, seen] = known
        samples.append(drawn)
    return samples
