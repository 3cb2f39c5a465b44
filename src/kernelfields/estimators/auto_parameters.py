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

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from kernelfields import kernels
from kernelfields.data.cliques import USUAL_RANK
from kernelfields.data.readers import InputReader
from kernelfields.engines.engine import PackedData
from kernelfields.estimators.column_scales import learn_scale
from kernelfields.estimators.fit_state import FitState, add_steps
from kernelfields.inputs import kinds
from kernelfields.inputs.scale import FEW_COLUMNS, uneven_spreads
from kernelfields.inputs.step import STATISTICS, InputStep
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.kernels.kernel import Kernel
from kernelfields.kernels.registry import has_default_scale, has_isotropic_scale, resolve_kernel
from kernelfields.kernels.stationary import RBF, Laplacian
from kernelfields.models.choices import PILOT_RANK, Choices, Settings
from kernelfields.models.pilot_fit import MOST_POSITIONS
from kernelfields.models.placed import FitStep
from kernelfields.numerics.parameters import get_declared_values, get_open_parameters, resolve_open, with_values
from kernelfields.numerics.user_warnings import warn_user

#: A FieldEstimator, whose module imports this one, and the reader of its data.
Estimator: TypeAlias = Any
Reader: TypeAlias = Any
# Prior variances of categories beside numbers: first none of them, which is what the other choices are made with.
_OF_CATEGORIES = (0.0, 1.0, 0.1)
# Statistics of windows are tried in sequences of so many positions.
_LONG = 20


@dataclass(frozen=True, eq=False)
class OpenFit:
    """A fit with its open parameters ``left``, by name, and their candidates.

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
        """Return data with columns on the scale of the fit."""
        return data.apply_steps(self.scaling) if scale else data

    def take_scale(self, scale: bool) -> None:
        """Standardize the columns of the problem or not, if ``scale`` is open."""
        if scale:
            problem = self.problem
            problem.reader, problem.data = add_steps(problem.reader, problem.data, self.scaling)

    def with_drawn_items(self, most: int) -> OpenFit:
        """Return the fit restricted to items with about ``most`` positions in this process."""
        problem = self.problem
        data, chosen = problem.data.draw_items(problem.reader, most)
        groups = None if self.groups is None else self.groups[chosen]
        return replace(self, problem=replace(problem, data=data), groups=groups)


def make_pilot(estimator: Estimator) -> Estimator:
    """Return a copy of an estimator for short fits to a part of the data."""
    rank = min(resolve_open(estimator.rank, USUAL_RANK) or PILOT_RANK, PILOT_RANK)
    settings = {"rank": rank, "basis": "random-cholesky", **get_declared_values(estimator, "short")}
    return with_values(estimator, settings)


def weight_candidates(estimator: Estimator, training: FitState, left: Mapping[str, Sequence]) -> list[Settings]:
    """Return the candidates for the weights of features, the default first.

    ``left`` are the parameters that are left to the data, with the values that are tried.
    """
    if training.reader.rows.categories:
        return [{"categories": variance} for variance in _OF_CATEGORIES]
    tried = {name: left[name] for name in ("support", "l1") if name in left}
    free = estimator.solver in ("auto", "lbfgs", "sgd+lbfgs") and estimator.ties is None
    if not (tried and free and training.reader.rows.has_weighted_features and training.data.given.complete):
        return []
    if not resolve_kernel(estimator.kernel).has_feature_map or training.run.engine.alone.name != "threads":
        return []
    # Fits with the weights that were seen are the fastest: the path of variances is theirs.
    pairs = [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())]
    return [pairs[-1], *pairs[:-1]]


def list_suitable_kernels(reader: InputReader, scaled: bool) -> list[str]:
    """Return the candidate kernels for inputs of a kind, the default first."""
    if reader.rows.has_weighted_features:
        return ["linear"]
    # Kernels without a matrix product, such as the Laplacian, are for few columns.
    return ["rbf", "laplacian"] if scaled and reader.rows.n_features <= FEW_COLUMNS else ["rbf"]


def should_standardize(fit: OpenFit) -> bool:
    """Whether columns are standardized without a comparison: if they are few."""
    return bool(fit.scaling) and fit.problem.reader.rows.n_features <= FEW_COLUMNS


def scale_candidates(fit: OpenFit) -> list[dict[str, object]]:
    """Return the candidates of ``scale``, the default first."""
    if not fit.scaling:
        return [{}]
    usual = should_standardize(fit)
    return [{"scale": usual}, {"scale": not usual}]


def kernel_candidates(training: FitState, *, tied: bool, by_node: bool = False) -> list[str]:
    """Return the candidate kernels for inputs, the simplest first.

    Trees compare single columns, so that they do not suit ``tied`` labels, with which columns change places. They are
    tried where all labels are known, or candidates are judged ``by_node``, by known labels alone.
    """
    reader = training.reader
    if reader.rows.has_weighted_features or reader.rows.sparse:
        return list_suitable_kernels(reader, scaled=False)
    # Of many positions short fits see a part, and linear functions gain least by the rest.
    simple = ["linear", "rbf"] if training.data.n_positions <= 2 * MOST_POSITIONS else ["rbf"]
    if reader.rows.n_features > FEW_COLUMNS:
        return simple
    # Collections of a cluster have their labels elsewhere.
    labels_known = by_node or training.data.certain_labels is not None
    return [*simple, "laplacian", *(["forest"] if labels_known and not tied else [])]


def select_supported_kernels(kernels: list[str], steps: Sequence[FitStep]) -> list[str]:
    """Return the kernels that all steps of the fit support."""
    for step in steps:
        kernels = step.kernels(kernels)
    return kernels


def kernel_of_windows(reader: InputReader) -> tuple[str, Kernel]:
    """Return the first kernel for statistics of windows, a sum on own and on all columns, with its name."""
    n_own = reader.rows.n_features - reader.rows.categories
    return f"Columns(RBF(), 0, {n_own}) + Laplacian()", kernels.Columns(RBF(), 0, n_own) + Laplacian()


def beside_categories(kernel: Kernel, variance: float | None) -> Kernel:
    """Return a kernel on numeric columns plus a linear one on categories, unless its ``variance`` is zero."""
    numbers = kernels.Columns(kernel, "numbers")
    return numbers if variance == 0.0 else numbers + kernels.Columns(kernels.Linear(), "categories")


def set_parameters(estimator: Estimator, settings: Settings) -> None:
    """Set values of parameters; other settings are left out."""
    for name in settings.keys() & estimator.get_params(deep=False).keys():
        setattr(estimator, name, settings[name])


def set_chosen(estimator: Estimator, settings: Settings, reader: Reader) -> None:
    """Set chosen values on an estimator; a kernel by its name."""
    set_parameters(estimator, settings)
    estimator.choices_ = Choices(dict(settings))
    if settings.get("window") == STATISTICS:
        name, kernel = kernel_of_windows(reader)
        estimator.kernel = kernel if estimator.kernel == name else estimator.kernel


def has_open_neighbours(estimator: Estimator, fit: OpenFit) -> bool:
    """Whether columns of neighbours of nodes are open."""
    if fit.problem.spec.kind != "graph" or "neighbours" not in fit.left:
        return False
    edges = any(factors.n_factors for factors in fit.problem.data.factors)
    return edges and _few_columns_left(estimator, fit)


def has_open_windows(estimator: Estimator, fit: OpenFit) -> bool:
    """Whether statistics of windows are open."""
    if fit.problem.spec.kind not in ("chain", "segments") or "window" not in fit.left:
        return False
    return fit.problem.data.lengths.mean() >= _LONG and _few_columns_left(estimator, fit)


def with_neighbours(estimator: Estimator, fit: OpenFit) -> OpenFit:
    """Return the fit to graphs with columns of neighbours."""
    return _joined(estimator, fit, kinds.Neighbours(own=fit.problem.reader.own.rows))


def with_windows(estimator: Estimator, fit: OpenFit) -> OpenFit:
    """Return the fit to sequences with statistics of windows."""
    own, categories = fit.problem.reader.own.rows, fit.problem.reader.rows.categories
    return _joined(estimator, fit, kinds.WindowStatistics(own=own, categories=categories), always=True)


def _few_columns_left(estimator: Estimator, fit: OpenFit) -> bool:
    """Whether inputs are a few numeric columns with an open treatment."""
    few = isinstance(fit.problem.data.inputs, np.ndarray) and fit.problem.reader.rows.n_features <= FEW_COLUMNS
    return few and "kernel" in fit.left and estimator.ties is None and not estimator.structure.has_expected_shares


def _joined(estimator: Estimator, fit: OpenFit, step: InputStep, always: bool = False) -> OpenFit:
    """Return the fit to data with the columns of a further step; ``always`` standardized if the scale is open."""
    before = fit.problem.reader.steps
    reader = replace(fit.problem.reader, steps=before.with_table([step]))

    def join(data: Any) -> Any:
        return data.with_rows(
            {
                name: table.rows if name else step(before.undo(table.rows), table.layout)
                for name, table in data.tables.items()
            }
        )

    data, scale = fit.problem.data.apply(join), ColumnSteps()
    if has_default_scale(estimator.kernel) if "scale" in fit.left else estimator.scale:
        scale = learn_scale(estimator, reader, data, always=always or estimator.scale)
    problem = replace(fit.problem, reader=reader, data=data)
    joined = replace(fit, problem=problem, scaling=fit.scaling.with_table(scale.of_table()))
    joined.take_scale(estimator.scale)
    return replace(joined, scaling=ColumnSteps()) if estimator.scale else joined


def columns_of_reader(reader: Reader) -> dict[str, object]:
    """Return the parameter values that describe the steps of a reader."""
    return {"window": 1, "neighbours": False, "scale": False, **reader.steps.settings}


def open_scaling(estimator: Estimator, reader: Reader, data: PackedData) -> ColumnSteps:
    """Return the steps that standardize columns, if ``scale`` is open and some column needs it."""
    if "scale" in get_open_parameters(estimator) and has_default_scale(estimator.kernel):
        return learn_scale(estimator, reader, data, always=False)
    warn_of_scales(estimator, data)
    return ColumnSteps()


def warn_of_scales(estimator: Estimator, data: PackedData) -> None:
    """Warn if one column dominates the distances of a kernel with a given scale."""
    chosen = has_isotropic_scale(estimator.kernel) and not has_default_scale(estimator.kernel)
    if not chosen or "scale" not in get_open_parameters(estimator):
        return
    uneven = uneven_spreads(data.inputs, data.position_weights)
    if uneven is not None:
        warn_user(
            f"columns have very different spreads, {uneven[0]:.3g} is usual and {uneven[1]:.3g} the largest, and "
            f"{estimator.kernel!r} takes a difference of one to mean as much in each: scale=True brings them to one "
            "scale, scale=False confirms that this is meant",
        )
