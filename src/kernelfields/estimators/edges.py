"""The parameter ``edges``: the clique set of labels that meet, spelled alike by all estimators that have one.

What the set leaves open is that of the estimator, see ``CliqueSet.filled``. None stands for the usual set.
"""

from __future__ import annotations

from typing import Any, Self

from kernelfields.data.cliques import CliqueSet, EdgeCliques
from kernelfields.estimators.kept_field import FieldParameters
from kernelfields.numerics.parameters import Check, attribute, declares_parameters


def clique_set(kind: type[CliqueSet]) -> Check:
    """Return a check for a clique set of a kind or None."""

    def check(value: object, name: str) -> None:
        if not (value is None or isinstance(value, kind)):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise TypeError(f"{name} must be {article} {kind.__name__}(...) or None, got {value!r}")

    return check


@declares_parameters
class EdgeParameters(FieldParameters):
    """An estimator with ``edges``, a clique set or None for the usual one."""

    edges: Any = attribute()

    @staticmethod
    def _usual_edges() -> CliqueSet:
        return EdgeCliques()

    @property
    def _edges(self) -> CliqueSet:
        """The clique set of edges as it was given, or the usual one."""
        return self._usual_edges() if self.edges is None else self.edges

    def set_params(self, **settings: object) -> Self:
        """Set parameters, as in scikit-learn.

        Those of ``edges``, where it is None, are set on the usual clique set.

        Parameters
        ----------
        **settings : object
            Parameters by name, ``name__inner`` for those of a parameter.

        Returns
        -------
        Self
            The estimator.
        """
        if self.edges is None and "edges" not in settings and any(name.startswith("edges__") for name in settings):
            self.edges = self._usual_edges()
        return super().set_params(**settings)
