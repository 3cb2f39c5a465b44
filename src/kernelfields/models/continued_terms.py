"""Terms of a fitted field on other data, for a fit that goes on from their coefficients.

The coefficients of a term belong to its subspace, so a fit can go on from them (a warm start) only while kernel,
view, label kernel and basis stay what they were. The prior variances may change: that is how a path of
regularisation is followed.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelfields.data.cliques import CliqueSet
from kernelfields.engines.engine import Sample
from kernelfields.models.build import NamedCliques
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term

# What may change between a fit and one that goes on from it, whose basis is the same; names are compared first.
_MAY_CHANGE = ("prior_variance", "l1", "max_duration", "name")


def continue_designs(cliques: NamedCliques, terms: Sequence[Term], sample: Sample, changes: str = "") -> list[Design]:
    """Put the terms of a fitted field on data; ValueError if the clique sets have changed.

    ``cliques`` come from :func:`name_cliques`, as those of the fitted field did. ``changes`` are those of parameters,
    which the message names.
    """
    names = [name for name, _ in cliques]
    if names != [term.name for term in terms]:
        raise _changed(changes, f"they were {[term.name for term in terms]} and are now {names}")
    for (name, clique), term in zip(cliques, terms, strict=True):
        if type(clique) is not type(term.clique):
            raise _changed(changes, f"{name!r} was {term.clique!r:.100} and is now {clique!r:.100}")
        for parameter in clique.get_params(deep=False):
            if parameter not in _MAY_CHANGE and not _same(parameter, clique, term.clique):
                before, now = getattr(term.clique, parameter), getattr(clique, parameter)
                raise _changed(changes, f"{parameter} of {name!r} was {before!r:.200} and is now {now!r:.200}")
        if clique.l1 and term.label_factor is not None:
            raise _changed(
                changes, f"{name!r} was fitted without l1, in contrasts between labels, and now has l1={clique.l1:g}"
            )
    return [sample.design(term.with_clique(clique)) for (_, clique), term in zip(cliques, terms, strict=True)]


def _same(parameter: str, clique: CliqueSet, known: CliqueSet) -> bool:
    now, before = getattr(clique, parameter), getattr(known, parameter)
    if parameter == "window":
        return clique.neighbours == known.neighbours
    if parameter == "basis":
        return type(now) is type(before) and now.get_params() == before.get_params()
    return now == before


def _changed(changes: str, how: str) -> ValueError:
    how = " ".join(how.split())  # arrays are written in several lines
    return ValueError(
        f"warm_start=True continues the fitted field, but its clique sets have changed{changes}: {how}. "
        "Clone the estimator or set warm_start=False to start afresh."
    )
