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

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, issparse

from kernelfields.data.chains import Chains
from kernelfields.data.cliques import USUAL_RANK
from kernelfields.data.graphs import Graphs
from kernelfields.data.readers import InputReader
from kernelfields.engines.engine import PackedData, Sample
from kernelfields.estimators.fit_state import FitState, NoProgress, among, changed, part_of
from kernelfields.features.leakage import RepeatedLabels, columns_that_repeat
from kernelfields.inference.choice import FamilySpec
from kernelfields.inputs.neighbours import Neighbours
from kernelfields.inputs.scale import FEW_COLUMNS, uneven_spreads
from kernelfields.inputs.step import InputStep
from kernelfields.inputs.window_statistics import WindowStatistics
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.forest import Forest
from kernelfields.kernels.kernel import CATEGORIES, NUMBERS, Columns, Kernel
from kernelfields.kernels.registry import has_no_scale, has_one_scale
from kernelfields.kernels.stationary import RBF, Laplacian
from kernelfields.models.field import Field
from kernelfields.models.pilot_fit import (
    EDGES,
    FALLBACK,
    MOST_OF_FEATURES,
    MOST_POSITIONS,
    MOST_RANK,
    PARTS,
    PEER,
    PILOT_RANK,
    TRIED_RANK,
    Choices,
    Judge,
    Pilot,
    Settings,
    Stage,
)
from kernelfields.models.pilot_folds import Folds, pilot_folds
from kernelfields.numerics.parameters import is_auto
from kernelfields.numerics.sparse_rows import entries_of
from kernelfields.numerics.threads import blas_threads
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.windows import STATISTICS
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term

#: A FieldEstimator, whose module imports this one, and the reader of its data.
Estimator: TypeAlias = Any
Reader: TypeAlias = Any
#: What a pilot fit may learn about decisions, beside parameters.
LEARNT_DECISIONS = ("thresholds", "threshold")
# Statistics of windows are tried in sequences of so many positions.
_LONG = 20
# A forest of so few trees is nearly as good, at a fraction of the cost.
_PILOT_TREES = 40
# The least probability that a forest may give a label: its own may be zero.
_LEAST_SHARE = 1e-3
# Folds share features, and so pivots among the positions held out, of so many positions for each pivot.
_PER_PIVOT = 10
# Items are drawn of so many times the positions of pilot fits, before long ones are cut.
_DRAWN = 5
# Held-out labels are certain where their loss, in nats a position, is below this.
_CERTAIN = 0.01


def stays_sparse(kernel: object, data: PackedData) -> bool:
    """Whether sparse inputs are the features: threads skip what is not there, in half the time of a device."""
    linear = is_auto(kernel) or isinstance(kernel, Linear) or (isinstance(kernel, str) and kernel == "linear")
    return linear and issparse(data.inputs)


def suitable_kernels(reader: InputReader, scaled: bool) -> list[str]:
    """Return the kernels that may suit inputs of a kind, the first where there is nothing to choose by."""
    if reader.holds_features:
        return ["linear"]
    # Kernels without a matrix product, such as the Laplacian, are for few columns.
    return ["rbf", "laplacian"] if scaled and reader.n_features <= FEW_COLUMNS else ["rbf"]


def usual_scale(training: FitState) -> bool:
    """Whether columns come to one scale where that is open and there is too little to judge it by: if they are few."""
    return bool(training.scaling) and training.reader.n_features <= FEW_COLUMNS


def scale_candidates(training: FitState) -> list[dict[str, object]]:
    """Return what the scale of the columns may be, as far as it is open; first what is usual."""
    if not training.scaling:
        return [{}]
    usual = usual_scale(training)
    return [{"scale": usual}, {"scale": not usual}]


def kernel_candidates(training: FitState, tied: bool = False, by_node: bool = False) -> list[str]:
    """Return the kernels that are tried on inputs, the simplest first.

    Trees compare single columns, so that they do not suit ``tied`` labels, with which columns change places. They are
    tried where all labels are known, or candidates are judged ``by_node``, by known labels alone.
    """
    reader = training.reader
    if reader.holds_features or reader.sparse:
        return suitable_kernels(reader, scaled=False)
    # Of many positions short fits see a part, and linear functions gain least by the rest.
    simple = ["linear", "rbf"] if training.data.n_positions <= 2 * MOST_POSITIONS else ["rbf"]
    if reader.n_features > FEW_COLUMNS:
        return simple
    # Collections of a cluster have their labels elsewhere.
    labels_known = by_node or training.data.certain_labels is not None
    return [*simple, "laplacian", *(["forest"] if labels_known and not tied else [])]


def _suiting_steps(kernels: list[str], training: FitState) -> list[str]:
    """Return the kernels that every step of the fit can do with."""
    for step in training.steps:
        kernels = step.kernels(kernels)
    return kernels


def kernel_of_windows(reader: InputReader) -> tuple[str, Kernel]:
    """Return the kernel that statistics of windows are first tried with, of own columns and of all, and its name."""
    n_own = reader.n_features - reader.categories
    return f"Columns(RBF(), 0, {n_own}) + Laplacian()", Columns(RBF(), 0, n_own) + Laplacian()


def beside_categories(kernel: Kernel, training: FitState) -> Kernel:
    """Return a kernel on the columns of numbers and, where they were found to tell, a linear one on categories."""
    numbers = Columns(kernel, NUMBERS)
    return numbers if training.categories == 0.0 else numbers + Columns(Linear(), CATEGORIES)


def _set_chosen(estimator: Estimator, settings: Settings, training: FitState) -> None:
    """Give an estimator the values of settings, and the kernel that a name of theirs stands for."""
    estimator._set_chosen(settings)
    if settings.get("window") == STATISTICS:
        name, kernel = kernel_of_windows(training.reader)
        estimator.kernel = kernel if estimator.kernel == name else estimator.kernel


def neighbours_open(estimator: Estimator, training: FitState) -> bool:
    """Whether nodes of graphs may have the columns of neighbours, which is left to the data."""
    if training.spec.kind != "graph" or not is_auto(estimator.neighbours):
        return False
    edges = any(factors.n_factors for factors in training.data.factors)
    return edges and _few_columns_left(estimator, training)


def windows_open(estimator: Estimator, training: FitState) -> bool:
    """Whether positions of long sequences may have statistics of windows, which is left to the data."""
    if training.spec.kind not in ("chain", "segments") or not is_auto(getattr(estimator, "window", 1)):
        return False
    return training.data.lengths.mean() >= _LONG and _few_columns_left(estimator, training)


def with_neighbours(estimator: Estimator, training: FitState) -> FitState:
    """Return the state of a fit to graphs whose nodes have the columns of neighbours."""
    return _joined(estimator, training, Neighbours(own=training.reader.own.rows))


def with_windows(estimator: Estimator, training: FitState) -> FitState:
    """Return the state of a fit to sequences with statistics of windows."""
    own, categories = training.reader.own.rows, training.reader.categories
    return _joined(estimator, training, WindowStatistics(own=own, categories=categories), always=True)


def _few_columns_left(estimator: Estimator, training: FitState) -> bool:
    """Whether inputs are a few columns of numbers, and what is made of them is left to the data."""
    few = isinstance(training.data.inputs, np.ndarray) and training.reader.n_features <= FEW_COLUMNS
    left = all(is_auto(getattr(estimator, name)) for name in ("kernel", "prior_variance"))
    return few and left and estimator.ties is None and not estimator.expects_shares


def _joined(estimator: Estimator, training: FitState, step: InputStep, always: bool = False) -> FitState:
    """Return the state of a fit to data with the further columns of a step; ``always``: on one scale if it is open."""
    before = training.reader.steps
    reader = replace(training.reader, steps=before.with_table([step]))

    def join(data: Any) -> Any:
        return data.with_rows(
            {
                name: table.rows if name else step(before.undone(table.rows), table.layout)
                for name, table in data.tables.items()
            }
        )

    joined = replace(training, reader=reader, data=changed(training.data, join))
    scale = estimator.learn_scale(reader, joined.data, always=always)
    joined.scaling = training.scaling.with_table(scale.of_table())
    if estimator.scale is True:
        joined.scale_columns(True)
    return joined


def columns_of_reader(reader: Reader) -> dict[str, object]:
    """Return the values of parameters that say what a reader does to columns."""
    return {"window": 1, "neighbours": False, "scale": False, **reader.steps.settings}


def with_chosen_parameters(estimator: Estimator, training: FitState) -> Estimator:
    """Return a copy of the estimator with chosen values for what was "auto"; the scale is applied to ``training``."""
    chosen = copy.copy(estimator)
    # What is taken where the data are too few to judge by.
    fallbacks = {"prior_variance": FALLBACK, "rank": USUAL_RANK, "support": "all", "l1": 0.0}
    given = estimator.get_params(deep=False)
    left = [name for name in estimator._chosen_by_data if is_auto(given[name])]
    chosen_later = any(step.chooses_parameters for step in training.steps)
    described = not estimator._names_cliques() and not chosen_later
    path, kernel_left = described and "prior_variance" in left, "kernel" in left and described
    columns, usual = scale_candidates(training), {}
    if "kernel" in left:
        usual = {"kernel": _suiting_steps(suitable_kernels(training.reader, scaled=False), training)[0]}
    chosen._set_chosen({name: fallbacks[name] for name in left if name in fallbacks} | usual)
    usual = usual if kernel_left else {}
    choices = Choices(columns[0] | usual | ({"prior_variance": FALLBACK} if path else {}))
    tied, learns = estimator.ties is not None, described and estimator._learns_in_pilot
    most = MOST_OF_FEATURES if training.reader.holds_features else MOST_POSITIONS
    open_ones = path or kernel_left or learns or len(columns) > 1
    drawn = training.with_some(_DRAWN * most) if open_ones else training
    # Of a collection, this process has the items that were drawn.
    seen = training if training.data.lie_with is None else drawn
    kernels = _suiting_steps(kernel_candidates(seen, tied), training) if kernel_left else []
    wanted = path or learns or max(len(kernels), len(columns)) > 1
    if wanted and (scenes := _scenes(estimator, seen, drawn, described)):
        if len(scenes) > 1:
            columns = [{**own, **scene.joins} for scene in scenes for own in scene.scales]
        first, *changes = (estimator._weight_candidates(seen) if path else []) or [{}]
        columns = [{**own, **usual, **first} for own in columns]
        for own in columns:
            if own.get("window") == STATISTICS:
                own["kernel"] = kernel_of_windows(training.reader)[0]
        if kernel_left and not scenes[0].has_edges:
            kernels = _suiting_steps(kernel_candidates(seen, tied, by_node=True), training)
        tried = partial(_choose_by_pilot_fits, chosen, seen, scenes, columns, path=path, changes=changes)
        with blas_threads(1):
            choices = tried(kernels, rank_left="rank" in left)
            if choices.chosen.get("kernel") == "forest" and seen is not training:
                warn_user(
                    "the kernel 'forest' predicts held-out data best, and it learns from all inputs, which the workers "
                    "have in parts: the best of the others takes its place. Lists can have a forest",
                )
                choices = tried([name for name in kernels if name != "forest"], rank_left="rank" in left)
        training.piloted = seen.piloted
        if (group := among(training.data)) is not None:
            # What all have tried alike is the same to rounding: the first says what is taken.
            choices, training.piloted = group.gathered((choices, training.piloted))[0]
        for name, with_columns in ((("neighbours", True), with_neighbours), (("window", STATISTICS), with_windows)):
            if name in choices.chosen.items():
                joined = with_columns(estimator, training)
                training.reader, training.data, training.scaling = joined.reader, joined.data, joined.scaling
        if PARTS in choices.chosen:
            training.data = changed(training.data, lambda data: _weighed(training, data, choices.chosen[PARTS]))
            training.reader.features.weights_ = {
                name: times**0.5 for name, times in zip(_parts(training), choices.chosen[PARTS], strict=True)
            }
    _set_chosen(chosen, choices.chosen, training)
    training.choices, training.categories = choices, choices.chosen.get("categories")
    training.repeated = _find_repeated_labels(training if seen is training else replace(seen, choices=choices))
    training.scale_columns(bool(choices.chosen.get("scale")))
    return chosen


def with_learnt_decisions(chosen: Estimator, training: FitState) -> Choices:
    """Return the choices of a fit that goes on, with what a pilot fit of its field learns about decisions."""
    before = training.choices
    learnt: dict[str, Any] = {}
    most = MOST_OF_FEATURES if training.reader.holds_features else MOST_POSITIONS
    if scenes := _scenes(chosen, training, training.with_some(_DRAWN * most), described=False):
        with blas_threads(1):
            learnt = _choose_by_pilot_fits(chosen, training, scenes, [{}], [], False, [], False).chosen
    kept = {name: value for name, value in before.chosen.items() if name not in LEARNT_DECISIONS}
    return Choices(kept | learnt, before.trials)


def _parts(training: FitState) -> dict[str, tuple[int, int]]:
    """Return the first column and the one after the last of what each of several transformers has made, by name.

    None where inputs are numbers, whose kernels and scales are chosen, or come from one transformer.
    """
    features = training.reader.features
    if features is None:
        return {}
    from kernelfields.features.sequencewise import SequenceUnion

    several = isinstance(features, SequenceUnion) and len(features.columns_) > 1
    return features.columns_ if several and issparse(part_of(training.data).inputs) else {}


def _weighed(training: FitState, data: PackedData, variances: Sequence[float]) -> PackedData:
    """Return data in which the columns of parts have so many times their variance in linear functions."""
    factors = np.ones(data.inputs.shape[1])
    for (first, last), times in zip(_parts(training).values(), variances, strict=True):
        factors[first:last] = times**0.5
    return replace(data, inputs=csr_array(csr_array(data.inputs).multiply(factors[None])))


@dataclass(frozen=True)
class _Scene:
    """Data of pilot fits: all of them, and parts to learn from and to judge by, with edges or node by node.

    ``joins`` are the settings by which further columns are joined, and ``scales`` what the scale may be; ``last`` are
    the folds of the last round, none where the first decides.
    """

    training: FitState
    folds: Folds
    last: Folds | None
    joins: dict[str, object]
    scales: Sequence[dict[str, object]]
    has_edges: bool = True


def _scenes(estimator: Estimator, training: FitState, drawn: FitState, described: bool) -> list[_Scene]:
    """Return the data of pilot fits, and those with further columns; none where there is too little.

    Whole items are ``drawn``; where there are too few of them, nodes of all are judged.
    """
    features = training.reader.holds_features
    most = MOST_OF_FEATURES if features else MOST_POSITIONS

    def rounds(state: FitState) -> tuple[Folds, Folds | None]:
        first = pilot_folds(state.data, most, state.groups, once=features)
        return first, None if features else pilot_folds(state.data, most, state.groups, last=True)

    folds, last = rounds(drawn)
    if folds:
        found = [_Scene(drawn, folds, last, {}, scale_candidates(training))]
        if described and windows_open(estimator, drawn):
            seen = with_windows(estimator, drawn)
            scale = [seen.scaling.settings]
            found = [replace(found[0], joins={"window": 1}), _Scene(seen, *rounds(seen), {"window": STATISTICS}, scale)]
        return found
    if not described or training.spec.kind != "graph" or training.data.node_types is not None:
        return []
    states = [training, *([with_neighbours(estimator, training)] if neighbours_open(estimator, training) else [])]
    return [
        _Scene(state, folds, None, {"neighbours": bool(number)} if states[1:] else {}, scale_candidates(state), False)
        for number, state in enumerate(states)
        if (folds := pilot_folds(state.data.labelled_nodes(), most))
    ]


def _choose_by_pilot_fits(
    estimator: Estimator,
    training: FitState,
    scenes: Sequence[_Scene],
    columns: Sequence[Settings],
    kernels: Sequence[str],
    path: bool,
    changes: Sequence[Settings],
    rank_left: bool,
) -> Choices:
    """Return the settings that predict held-out positions best, and all that were tried."""
    single = FamilySpec("single", len(training.classes))
    spec = estimator.for_pilot()._family_spec(training.classes, training.data) if scenes[0].has_edges else single

    def scene_of(settings: Settings) -> _Scene:
        return next(own for own in scenes if all(settings.get(name) == own.joins[name] for name in own.joins))

    def stages_of(settings: Settings, last: bool) -> Callable[[int], Judge]:
        if PEER in settings:
            return lambda number: _Forest(*scenes[-1].folds[number], len(training.classes))
        scene = scene_of(settings)
        folds = scene.last if last and scene.last is not None else scene.folds
        piloted = estimator.for_pilot()
        _set_chosen(piloted, settings, training)
        piloted.rank = settings.get(TRIED_RANK, piloted.rank)
        if settings.get("kernel") == "forest":
            piloted.kernel = Forest(n_trees=_PILOT_TREES)
        has_edges = scene.has_edges and settings.get(EDGES, True)
        own = replace(scene.training, announce=NoProgress().announce, spec=spec)
        own.categories = settings.get("categories")
        own.cliques = [each for each in piloted.clique_sets(own) if has_edges or each[1].group is None]
        by_position = scene.has_edges and not has_edges
        own.spec = single if by_position else spec

        def prepared(data: PackedData) -> PackedData:
            data = own.on_scale(data, bool(settings.get("scale")))
            data = _weighed(own, data, settings[PARTS]) if PARTS in settings else data
            return _position_by_position(data) if by_position else data

        def designs_on(sample: Sample) -> Sequence[Design]:
            own.options = replace(training.options, random=np.random.default_rng(0))
            return piloted._designs(own, sample)

        def variances_of(variance: float) -> list[float]:
            varied = copy.copy(piloted)
            varied.prior_variance = variance
            # Sets of nodes come before those of edges.
            return varied.term_variances(own)[: len(own.cliques)] if not has_edges else varied.term_variances(own)

        @cache
        def on_all_folds() -> tuple[Sample, Sequence[Design]]:
            sample = own.place(prepared(folds.data), own.cliques)
            return sample, designs_on(sample)

        def parts_of(number: int) -> list[Any] | None:
            (sample, designs), offsets = on_all_folds(), folds.data.offsets
            items = folds.splits[number]
            parts = [
                sample.part(designs, entries_of(offsets, chosen)[0] if by_position else chosen) for chosen in items
            ]
            return None if None in parts else parts

        # Features of all folds are computed once. Not where they follow labels, as trees do that are grown on those
        # learnt from; where one fold is tried; or of so few positions that many of those held out would be pivots.
        shares = settings.get("kernel") != "forest" and len(folds) > 1 and TRIED_RANK not in settings
        shares = shares and isinstance(folds.data, Chains) and isinstance(folds.data.inputs, np.ndarray)
        shares = shares and folds.data.n_positions >= _PER_PIVOT * PILOT_RANK and training.settings.group.size == 1

        def stage(number: int) -> Stage:
            if shares and (parts := parts_of(number)) is not None:
                (sample, designs), (beside, judged) = parts
                return Stage(sample, beside.datafit(judged), beside.data, designs, variances_of)
            train, held_out = map(prepared, folds[number])
            sample, beside = own.place(train, own.cliques), own.place(held_out, own.cliques, solved=False)
            designs = designs_on(sample)
            judge = beside.datafit([beside.design(design.term) for design in designs])
            return Stage(sample, judge, held_out, designs, variances_of)

        return stage

    # Scenes differ in columns alone.
    n_folds = (len(scenes[0].folds), 0 if scenes[0].last is None else len(scenes[0].last))
    pilot = Pilot(stages_of, n_folds, training.announce)
    best = pilot.best(columns, kernels, path)
    if path and estimator.ties is None:
        best = pilot.along_parts(best, len(_parts(training)))
    best = pilot.improved(best, changes)
    training.piloted = pilot.terms(best)
    field, chosen = Field(training.piloted, spec), dict(best)
    ranks = [term.subspace.rank for term in field.terms if term.has_pivots]
    usual = estimator.basis == "random-cholesky" and training.data.n_positions > 2 * USUAL_RANK
    if rank_left and usual and ranks:
        grows = max(ranks) == PILOT_RANK and pilot.gains(best, {**best, TRIED_RANK: 2 * PILOT_RANK})
        chosen["rank"] = USUAL_RANK if grows else MOST_RANK
    judged = scene_of(best)
    numbers = len(kernels) > 1 and training.data.certain_labels is not None
    if numbers and judged.has_edges and spec.kind in ("chain", "graph") and not spec.constrained:
        training.announce("trying the field without edges, and a forest")
        pilot.loss({**best, EDGES: False})
        on_windows = " on windows" if scenes[-1].joins.get("window") == STATISTICS else ""
        pilot.loss({PEER: f"forest{on_windows}"})
    held_out = judged.training.on_scale(judged.folds[0][1], bool(best.get("scale")))
    if PARTS in best:
        held_out = _weighed(training, held_out, best[PARTS])
    learnt = estimator._learn_from_pilot(training, field, held_out)
    return Choices(chosen | learnt.chosen, (*pilot.trials, *learnt.trials))


def _position_by_position(data: PackedData) -> PackedData:
    """Return labelled sequences or graphs as positions by themselves."""
    if isinstance(data, Graphs):
        return data.labelled_nodes()
    return replace(data, offsets=np.arange(data.n_positions + 1), weights=data.position_weights)


@dataclass(eq=False)
class _Forest:
    """A forest that sees positions one by one, on one fold."""

    train: PackedData
    held_out: PackedData
    n_classes: int

    def predicted(self, variance: float | None) -> tuple[list[Term], np.ndarray]:
        """Return the shares (N, L) of trees for each label; there are no terms."""
        from sklearn.ensemble import ExtraTreesClassifier

        grown = ExtraTreesClassifier(_PILOT_TREES, min_samples_leaf=5, random_state=0)
        grown.fit(self.train.inputs, self.train.required_labels, self.train.position_weights)
        table = np.full((self.held_out.n_positions, self.n_classes), _LEAST_SHARE)
        table[:, grown.classes_] = np.maximum(grown.predict_proba(self.held_out.inputs), _LEAST_SHARE)
        return [], table


def _find_repeated_labels(training: FitState) -> RepeatedLabels | None:
    """Detect columns of class probabilities that leak the training labels, where held-out labels are certain."""
    losses = [trial.log_loss for trial in training.choices.trials if trial.log_loss is not None]
    labels = training.data.certain_labels
    # Of several labels there are probabilities of each one: their columns have no sum to recognise them by.
    if not losses or min(losses) > _CERTAIN or labels is None or labels.ndim != 1:
        return None
    return columns_that_repeat(training.reader.steps.undone(training.data.inputs), labels, len(training.classes))


def warn_of_uneven_columns(estimator: Estimator, data: PackedData) -> None:
    """Warn where one column drowns the others in the distances of a kernel whose scale the user has chosen."""
    given = has_one_scale(estimator.kernel) and not has_no_scale(estimator.kernel)
    if not is_auto(estimator.scale) or not given or data.lie_with is not None:
        return
    uneven = uneven_spreads(data.inputs, data.position_weights[: data.inputs.shape[0]])
    if uneven is not None:
        warn_user(
            f"columns have very different spreads, {uneven[0]:.3g} is usual and {uneven[1]:.3g} the largest, and "
            f"{estimator.kernel!r} takes a difference of one to mean as much in each: scale=True brings them to one "
            "scale, scale=False confirms that this is meant",
        )
