"""A fit with kernels and prior variances of the largest evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernelfields.data.ties import resolve_ties
from kernelfields.models.partial import refuse_expectations
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.posterior.evidence.settings import EvidencePath, resolve_search


class LargestEvidence(FitStep):
    """A step of a fit that maximizes the evidence in kernels and prior variances before the solve."""

    chooses_parameters = True
    path: EvidencePath

    def __init__(self, search: object):
        self.search = resolve_search(search)

    def check(self, estimator: Any) -> None:
        """Raise ValueError if the field has no evidence."""
        why = "optimize moves kernels and pivots of labels that share no weights: leave out ties"
        resolve_ties(estimator.ties).refuse(why)
        refuse_expectations(estimator.structure, "optimize", "choose prior variances by cross-validation")

    def around(self, solve: Solve) -> Solve:
        """Return a solve that searches for the largest evidence first."""

        def after_search(placed: Placed) -> FittedField:
            if placed.start is not None:
                raise ValueError(
                    "optimize chooses a field afresh, and warm_start=True continues the fitted one; leave out one"
                )
            from kernelfields.posterior.evidence.search import maximise_evidence

            options = placed.options
            chosen = maximise_evidence(
                self.search, placed.designs, placed.sample, random=options.random, announce=options.report
            )
            self.path = chosen.path
            return solve(replace(placed, designs=list(chosen.designs), start=chosen.start))

        return after_search

    def after(self, estimator: Any) -> None:
        """Store the path of the search on the estimator."""
        estimator.evidence_path_ = self.path


#: The step that keywords of ``fit`` ask for.
requested = LargestEvidence
