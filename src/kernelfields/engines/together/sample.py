"""Samples of joint fits: a process places its part of the data as it would place all, and a joint sample has the part.

What belongs to all data is agreed on by the processes: the rows of a view, pivots, which pairs and columns have
coefficients, sums over items. All else is the own sample's. Cost: the exchanges that together/view.py lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kernelfields.basis.panel import PanelCholesky
from kernelfields.data.chains import Items
from kernelfields.data.cliques import CliqueSet
from kernelfields.engines.engine import Sample
from kernelfields.engines.threads import LocalSample
from kernelfields.engines.together.view import SharedView, agree_on_subspace, share_support
from kernelfields.engines.view import LocalView
from kernelfields.numerics.group import Group
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design, LocalDesign
from kernelfields.objective.term import Term


class JoinedSample:
    """The ``own`` sample of the only remaining process of a joint fit, which restarts after a loss."""

    def __init__(self, own: LocalSample, group: Group):
        self.own, self.group = own, group
        self.data, self.spec, self.settings, self.n_positions = own.data, own.spec, own.settings, own.n_positions

    def view(self, name: str, clique: CliqueSet) -> LocalView:
        """Return the inputs of the cliques."""
        return self.own.view(name, clique)

    def design(self, term: Term, view: LocalView | None = None, panel: PanelCholesky | None = None) -> LocalDesign:
        """Return the design of a term on the data."""
        return self.own.design(term, view, panel)

    def shared(self, design: LocalDesign, term: Term) -> LocalDesign:
        """Return the features of a design for another term with the same rows."""
        return self.own.shared(design, term)

    def part(
        self,
        designs: Sequence[Design],
        items: Items,
        times: int = 1,
        dtype: np.dtype | None = None,
        longest: int | None = None,
    ) -> tuple[JoinedSample, list[LocalDesign]] | None:
        """Return some items of this process, with designs of existing features."""
        found = self.own.part(designs, items, times, dtype, longest)
        return None if found is None else (type(self)(found[0], self.group), found[1])

    def single_labels(self) -> JoinedSample:
        """Return the same data with independent labels."""
        return type(self)(self.own.single_labels(), self.group)

    def on_host(self) -> Sample:
        """Return the same data with features in host memory."""
        return self.own.on_host()

    def datafit(self, designs: Sequence[Design]) -> Datafit:
        """Return the likelihood of the data of all processes in the coefficients of some terms."""
        return self.group.sum_datafit(self.own.datafit(designs))


class SharedSample(JoinedSample):
    """The ``own`` sample of one process among several; ``everywhere`` has all data if every process holds them."""

    def __init__(self, own: LocalSample, group: Group, everywhere: LocalSample | None = None):
        super().__init__(own, group)
        self.everywhere = everywhere
        self.n_positions = group.total(own.n_positions)
        own.seen_pairs = partial(share_support, group)

    def view(self, name: str, clique: CliqueSet) -> LocalView:
        """Return the inputs of the cliques; without inputs, each process counts its rows."""
        return SharedView(self, name, clique) if clique.sees_data else super().view(name, clique)

    def on_host(self) -> Sample:
        """Return the data of all processes with features in host memory; ValueError if no process has all data."""
        if self.everywhere is None:
            raise ValueError("features of all data must be in one memory, and the workers have parts: pass lists")
        return self.everywhere

    def design(self, term: Term, view: Any = None, panel: PanelCholesky | None = None) -> LocalDesign:
        """Return the rows of a term in this process, with sizes and columns of all processes.

        Pivots that a panel has chosen are among the rows.
        """
        if term.is_constant or (panel is None and self.own.has_features(term)):
            return self.own.design(term)
        view = view or self.view(term.name, term.clique)
        self.own.rows_of_all = view.n_rows
        if term.has_pivots:
            term = replace(term, subspace=agree_on_subspace(self.group, term.span))
        design = self.own.design(term, view)
        stored = design.stored_values
        if term.clique.sees_data:
            if design.origin is not None and panel is not None:
                design.origin.residual_diagonal[view.own_rows(term.span.indices)] = 0.0
            stored = self.group.total(stored)
        density = stored / max(1, view.n_rows * design.rank) if design.sparse else 1.0
        return self.own.keep(replace(design, stored_values=stored, density=density))
