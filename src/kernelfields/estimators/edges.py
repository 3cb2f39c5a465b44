"""Checks of clique sets that are parameters, such as ``edges``.

What a set leaves open is that of the estimator, see ``CliqueSet.with_defaults``. None stands for the usual set.
"""

from __future__ import annotations

from kernelfields.data.cliques import CliqueSet
from kernelfields.numerics.parameters import Check


def clique_set(kind: type[CliqueSet]) -> Check:
    """Return a check for None or a clique set of a class."""

    def check(value: object, name: str) -> None:
        if not (value is None or isinstance(value, kind)):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise TypeError(f"{name} must be {article} {kind.__name__}(...) or None, got {value!r}")

    return check
