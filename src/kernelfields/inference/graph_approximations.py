"""Approximate inference on packed graphs: the methods, their options, and what they share.

    "trw"         TreeReweighted   pairs only; log partition from above, marginals are the gradient of the bound
    "loopy"       LoopyBelief      pairs only; Bethe's value, no bound; exact on forests, as the one above
    "mean-field"  MeanField        any factors; log partition from below
    "gibbs"       Gibbs            any factors; marginals with standard errors, no log partition (NaN)

Options are plain objects with ``get_params``, so that they can be searched over. All methods decode to a labelling
that no change of a single label improves, and return its true score; where that is -inf, no allowed labelling was
found. All draw samples by Gibbs sampling. Diagnostics of beliefs have ``converged``, ``iterations``, ``change``,
(S,) each (the last is the largest standard error for "gibbs"), and ``warnings``, a list of sentences that is empty
if all went well.

Fails: ValueError for larger factors given to "trw" or "loopy", and for a graph whose labellings are all forbidden,
as far as the method can tell.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.inference.factor_layout import FactorLayout, climb
from kernelfields.inference.graph import GraphInference
from kernelfields.inference.workers import Workers


class TreeReweighted(BaseEstimator):
    """Options of tree-reweighted belief propagation.

    Sweeps end when no node's marginals change by more than ``tolerance``, or after ``max_iter``; the bound holds
    whenever they end. ``damping`` in [0, 1) keeps that share of the old messages; a sweep that raises the bound is
    drawn back anyway. ``warm_start`` begins with the messages of the call before, if there was one: the result
    then depends on it within the tolerance.
    """

    def __init__(
        self, tolerance: float = 1e-6, damping: float = 0.0, max_iter: int = 500, warm_start: bool = True
    ):
        self.tolerance = tolerance
        self.damping = damping
        self.max_iter = max_iter
        self.warm_start = warm_start


class LoopyBelief(BaseEstimator):
    """Options of loopy belief propagation, as those of ``TreeReweighted``.

    ``damping`` sets in only when the changes stop shrinking, so forests stay exact after one sweep.
    """

    def __init__(
        self, tolerance: float = 1e-6, damping: float = 0.5, max_iter: int = 500, warm_start: bool = True
    ):
        self.tolerance = tolerance
        self.damping = damping
        self.max_iter = max_iter
        self.warm_start = warm_start


class MeanField(BaseEstimator):
    """Options of mean field: ascend from ``starts`` distributions and keep the best bound of each graph.

    The first start is the softmax of the node potentials, the second a good labelling, further ones are labellings
    climbed to from chance (``random_state``).
    """

    def __init__(self, tolerance: float = 1e-6, max_iter: int = 500, starts: int = 2, random_state: Any = 0):
        self.tolerance = tolerance
        self.max_iter = max_iter
        self.starts = starts
        self.random_state = random_state


class Gibbs(BaseEstimator):
    """Options of Gibbs sampling: ``chains`` from different starts, each of ``sweeps`` sweeps after ``burn_in``.

    ``sample`` keeps a labelling every ``thin`` sweeps. A whole number as ``random_state`` gives the same numbers
    at every call.
    """

    def __init__(
        self, chains: int = 4, burn_in: int = 100, sweeps: int = 400, thin: int = 10, random_state: Any = 0
    ):
        self.chains = chains
        self.burn_in = burn_in
        self.sweeps = sweeps
        self.thin = thin
        self.random_state = random_state


OPTIONS: dict[str, type[BaseEstimator]] = {
    "trw": TreeReweighted,
    "loopy": LoopyBelief,
    "mean-field": MeanField,
    "gibbs": Gibbs,
}


def approximate_inference(
    method: str | BaseEstimator, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int
) -> GraphInference:
    """Prepare the method, a name or an object of options, for graphs that ``check_structure`` has seen."""
    options = OPTIONS[method]() if isinstance(method, str) and method in OPTIONS else method
    if not isinstance(options, tuple(OPTIONS.values())):
        names = ", ".join(f"{name!r} or {kind.__name__}()" for name, kind in OPTIONS.items())
        raise ValueError(f"approximate inference is one of {names}, got {method!r}")
    _check_options(options)
    if isinstance(options, TreeReweighted | LoopyBelief):
        from kernelfields.inference.belief_propagation import BeliefPropagation

        return BeliefPropagation(offsets, members, n_labels, options)
    if isinstance(options, MeanField):
        from kernelfields.inference.mean_field import MeanFieldInference

        return MeanFieldInference(offsets, members, n_labels, options)
    from kernelfields.inference.gibbs import GibbsInference

    assert isinstance(options, Gibbs)
    return GibbsInference(offsets, members, n_labels, options)


class ApproximateInference(GraphInference):
    """What all approximations share: labellings that are locally best, and samples by Gibbs sampling."""

    def __init__(self, offsets: np.ndarray, members: Sequence[np.ndarray], n_labels: int):
        super().__init__(offsets, members, n_labels)
        self.layout = FactorLayout(offsets, members)

    def decode(
        self, node: np.ndarray, factors: Sequence[np.ndarray], workers: Workers | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a good labelling (N,) and its true score per graph (S,).

        Labels of largest marginal, then changed one at a time until none helps. A score of -inf says that no
        allowed labelling was found.
        """
        labels = self.infer(node, factors, workers=workers).node_marginals.argmax(axis=1)
        node, tables, _ = self.check_potentials(node, factors)
        return climb(self.layout, node, tables, labels, workers or Workers(1))

    def sample(
        self,
        node: np.ndarray,
        factors: Sequence[np.ndarray],
        n_samples: int,
        random: int | np.random.Generator | None = None,
    ) -> np.ndarray:
        """Draw labellings (n_samples, N) by Gibbs sampling: several chains, burn-in, every tenth sweep.

        The draws follow p(y) as far as the chains have mixed; neighbours within a chain are not independent. Use
        Gibbs options for longer chains, and ``infer`` with "gibbs" for diagnostics of mixing.
        """
        from kernelfields.inference.gibbs import draw_labellings

        node, tables, _ = self.check_potentials(node, factors)
        options = getattr(self, "options", None)
        chosen = options if isinstance(options, Gibbs) else Gibbs()
        return draw_labellings(self.layout, node, tables, n_samples, np.random.default_rng(random), chosen)


def _check_options(options: BaseEstimator) -> None:
    least = {"tolerance": 0.0, "max_iter": 1, "starts": 1, "chains": 1, "burn_in": 0, "sweeps": 4, "thin": 1}
    for name, value in options.get_params(deep=False).items():
        where = f"{type(options).__name__}: {name}"
        if name == "tolerance" or name == "damping":
            if (
                isinstance(value, bool)
                or not isinstance(value, float | int | np.number)
                or not 0 <= value < np.inf
            ):
                raise ValueError(f"{where} must be a finite number of at least 0, got {value!r}")
            if name == "damping" and value >= 1:
                raise ValueError(f"{where} must be below 1, got {value!r}; at 1 messages would never change")
        elif name in least and (
            isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least[name]
        ):
            raise ValueError(f"{where} must be a whole number of at least {least[name]}, got {value!r}")
