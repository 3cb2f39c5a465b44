"""Parameters that are left to the data.

    parameter         "auto" is judged on held-out data among                    where there is too little of them
    scale             False, True          where spreads of columns differ much   True for up to 64 columns
    neighbours        False, True          of few graphs: columns of neighbours   False
    window            1, "statistics"      of few columns in long sequences       1
    kernel            "linear" for features that are there or not, as those of    the first
                      words; for numbers "rbf" and "linear"; of few columns also
                      "laplacian" and, where all labels are known or nodes are
                      judged one by one, "forest"; of windows "Columns(RBF(), 0,
                      d) + Laplacian()", of d columns of a position itself
    prior_variance    powers of ten, of numbers last 0.3 and 3 times the best    1
    part_variances    how many times that the columns of each transformer have,   1
                      where ``features`` are several and make sparse inputs
    support, l1       of features that are there or not, beside the variance      "all", 0
    rank              500, 1000           where more positions are there          1000
    decode            Viterbi, posterior  under constraints                       Viterbi

Candidates are compared by the log-loss of positions that short fits did not see (models/pilot_fit.py), the last one by
the share of right labels. First columns are chosen, with the usual kernel and the two best with a Laplacian one, then
kernels on these columns. A Laplacian kernel adds up differences of columns instead of their squares: it can follow a
single column while the others differ, as trees can, which suits columns of different kinds. Windows come with nine
columns for each one, which drown what is at a position itself: the sum of two kernels has a function of that, too. The
trees of a forest are grown on the part that is learnt from, so that what they make of the part held out is judged as
fairly.
Of fewer than five graphs none can be held out. There, labelled nodes are, and short fits see each label by itself:
they choose what scores nodes, and the last fit has the edges, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from kernelfields import kernels
from kernelfields.data.readers import InputReader
from kernelfields.engines.engine import PackedData
from kernelfields.estimators.fit_state import FitState, rewritten
from kernelfields.inputs import kinds
from kernelfields.inputs.scale import FEW_COLUMNS, uneven_spreads
from kernelfields.inputs.step import InputStep
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.registry import has_default_scale, has_isotropic_scale
from kernelfields.kernels.stationary import RBF, Laplacian
from kernelfields.models.choices import Settings
from kernelfields.models.pilot_fit import MOST_POSITIONS
from kernelfields.models.placed import FitStep
from kernelfields.numerics.parameters import left_open, with_values
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.windows import STATISTICS

#: A FieldEstimator, whose module imports this one, and the reader of its data.
Estimator: TypeAlias = Any
Reader: TypeAlias = Any
# Statistics of windows are tried in sequences of so many positions.
_LONG = 20


@dataclass(frozen=True, eq=False)
class OpenFit:
    """A fit some of whose parameters are ``left`` to the data, by name, with the values that are tried.

    ``scaling`` are the steps that bring columns to one scale, while it is open whether they should. ``groups`` (S,)
    are those of items, which folds keep together; None where each is its own. Kernels must suit every one of the
    ``steps``.
    """

    problem: FitState
    left: Mapping[str, Sequence[object]]
    scaling: ColumnSteps = field(default_factory=ColumnSteps)
    groups: np.ndarray | None = None
    steps: Sequence[FitStep] = ()

    def on_scale(self, data: PackedData, scale: bool) -> PackedData:
        """Return data whose columns come to one scale, or as they are."""
        return data.rewritten(self.scaling) if scale else data

    def take_scale(self, scale: bool) -> None:
        """Bring the columns of the problem to one scale, or leave them as they are, where that is open."""
        if scale:
            problem = self.problem
            problem.reader, problem.data = rewritten(problem.reader, problem.data, self.scaling)

    def with_some(self, most: int) -> OpenFit:
        """Return the fit to some items of about so many positions, all of them in this process."""
        problem = self.problem
        data, chosen = problem.data.some(problem.reader, most)
        run = replace(problem.run, engine=problem.data.engine_of_some(problem.run.engine))
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, problem=replace(problem, data=data, run=run), groups=groups)


def pilot_of(estimator: Estimator) -> Estimator:
    """Return a copy of an estimator for short fits on a part of the data."""
    return with_values(estimator, estimator.structure.pilot_settings())


def suitable_kernels(reader: InputReader, scaled: bool) -> list[str]:
    """Return the kernels that may suit inputs of a kind, the first where there is nothing to choose by."""
    if reader.rows.holds_features:
        return ["linear"]
    # Kernels without a matrix product, such as the Laplacian, are for few columns.
    return ["rbf", "laplacian"] if scaled and reader.rows.n_features <= FEW_COLUMNS else ["rbf"]


def usual_scale(fit: OpenFit) -> bool:
    """Whether columns come to one scale where that is open and there is too little to judge it by: if they are few."""
    return bool(fit.scaling) and fit.problem.reader.rows.n_features <= FEW_COLUMNS


def scale_candidates(fit: OpenFit) -> list[dict[str, object]]:
    """Return what the scale of the columns may be, as far as it is open; first what is usual."""
    if not fit.scaling:
        return [{}]
    usual = usual_scale(fit)
    return [{"scale": usual}, {"scale": not usual}]


def kernel_candidates(training: FitState, *, tied: bool, by_node: bool = False) -> list[str]:
    """Return the kernels that are tried on inputs, the simplest first.

    Trees compare single columns, so that they do not suit ``tied`` labels, with which columns change places. They are
    tried where all labels are known, or candidates are judged ``by_node``, by known labels alone.
    """
    reader = training.reader
    if reader.rows.holds_features or reader.rows.sparse:
        return suitable_kernels(reader, scaled=False)
    # Of many positions short fits see a part, and linear functions gain least by the rest.
    simple = ["linear", "rbf"] if training.data.n_positions <= 2 * MOST_POSITIONS else ["rbf"]
    if reader.rows.n_features > FEW_COLUMNS:
        return simple
    # Collections of a cluster have their labels elsewhere.
    labels_known = by_node or training.data.certain_labels is not None
    return [*simple, "laplacian", *(["forest"] if labels_known and not tied else [])]


def suiting_steps(kernels: list[str], steps: Sequence[FitStep]) -> list[str]:
    """Return the kernels that every step of the fit can do with."""
    for step in steps:
        kernels = step.kernels(kernels)
    return kernels


def kernel_of_windows(reader: InputReader) -> tuple[str, Kernel]:
    """Return the kernel that statistics of windows are first tried with, of own columns and of all, and its name."""
    n_own = reader.rows.n_features - reader.rows.categories
    return f"Columns(RBF(), 0, {n_own}) + Laplacian()", kernels.Columns(RBF(), 0, n_own) + Laplacian()


def beside_categories(kernel: Kernel, variance: float | None) -> Kernel:
    """Return a kernel on the columns of numbers and, unless its prior ``variance`` is zero, a linear one on others."""
    numbers = kernels.Columns(kernel, "numbers")
    return numbers if variance == 0.0 else numbers + kernels.Columns(kernels.Linear(), "categories")


def set_chosen(estimator: Estimator, settings: Settings, reader: Reader) -> None:
    """Give an estimator the values of settings, and the kernel that a name of theirs stands for."""
    estimator._set_chosen(settings)
    estimator._variance_of_categories = settings.get("categories")
    if settings.get("window") == STATISTICS:
        name, kernel = kernel_of_windows(reader)
        estimator.kernel = kernel if estimator.kernel == name else estimator.kernel


def neighbours_open(estimator: Estimator, fit: OpenFit) -> bool:
    """Whether nodes of graphs may have the columns of neighbours, which is left to the data."""
    if fit.problem.spec.kind != "graph" or "neighbours" not in fit.left:
        return False
    edges = any(factors.n_factors for factors in fit.problem.data.factors)
    return edges and _few_columns_left(estimator, fit)


def windows_open(estimator: Estimator, fit: OpenFit) -> bool:
    """Whether positions of long sequences may have statistics of windows, which is left to the data."""
    if fit.problem.spec.kind not in ("chain", "segments") or "window" not in fit.left:
        return False
    return fit.problem.data.lengths.mean() >= _LONG and _few_columns_left(estimator, fit)


def with_neighbours(estimator: Estimator, fit: OpenFit) -> OpenFit:
    """Return the fit to graphs whose nodes have the columns of neighbours."""
    return _joined(estimator, fit, kinds.Neighbours(own=fit.problem.reader.own.rows))


def with_windows(estimator: Estimator, fit: OpenFit) -> OpenFit:
    """Return the fit to sequences with statistics of windows."""
    own, categories = fit.problem.reader.own.rows, fit.problem.reader.rows.categories
    return _joined(estimator, fit, kinds.WindowStatistics(own=own, categories=categories), always=True)


def _few_columns_left(estimator: Estimator, fit: OpenFit) -> bool:
    """Whether inputs are a few columns of numbers, and what is made of them is left to the data."""
    few = isinstance(fit.problem.data.inputs, np.ndarray) and fit.problem.reader.rows.n_features <= FEW_COLUMNS
    left = {"kernel", "prior_variance"} <= set(fit.left)
    return few and left and estimator.ties is None and not estimator.structure.expects_shares


def _joined(estimator: Estimator, fit: OpenFit, step: InputStep, always: bool = False) -> OpenFit:
    """Return the fit to data with the further columns of a step; ``always``: on one scale if it is open."""
    before = fit.problem.reader.steps
    reader = replace(fit.problem.reader, steps=before.with_table([step]))

    def join(data: Any) -> Any:
        return data.with_rows(
            {
                name: table.rows if name else step(before.undo(table.rows), table.layout)
                for name, table in data.tables.items()
            }
        )

    data, scale = fit.problem.data.changed(join), ColumnSteps()
    if has_default_scale(estimator.kernel) if "scale" in fit.left else estimator.scale:
        scale = estimator._learn_scale(reader, data, always=always or estimator.scale)
    problem = replace(fit.problem, reader=reader, data=data)
    joined = replace(fit, problem=problem, scaling=fit.scaling.with_table(scale.of_table()))
    joined.take_scale(estimator.scale)
    return replace(joined, scaling=ColumnSteps()) if estimator.scale else joined


def columns_of_reader(reader: Reader) -> dict[str, object]:
    """Return the values of parameters that say what a reader does to columns."""
    return {"window": 1, "neighbours": False, "scale": False, **reader.steps.settings}


def open_scaling(estimator: Estimator, reader: Reader, data: PackedData) -> ColumnSteps:
    """Return the steps that bring columns to one scale, where that is left to the data; none where none needs it."""
    if "scale" in left_open(estimator) and has_default_scale(estimator.kernel):
        return estimator._learn_scale(reader, data, always=False)
    warn_of_scales(estimator, data)
    return ColumnSteps()


def warn_of_scales(estimator: Estimator, data: PackedData) -> None:
    """Warn if one column drowns the others in the distances of a kernel whose scale the user has chosen."""
    chosen = has_isotropic_scale(estimator.kernel) and not has_default_scale(estimator.kernel)
    if not chosen or "scale" not in left_open(estimator):
        return
    uneven = uneven_spreads(data.inputs, data.position_weights)
    if uneven is not None:
        warn_user(
            f"columns have very different spreads, {uneven[0]:.3g} is usual and {uneven[1]:.3g} the largest, and "
            f"{estimator.kernel!r} takes a difference of one to mean as much in each: scale=True brings them to one "
            "scale, scale=False confirms that this is meant",
        )
