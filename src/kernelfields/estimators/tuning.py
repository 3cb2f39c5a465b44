"""The step of a fit that chooses what is left to the data, before anything is placed.

    read     inputs dense or sparse by their numbers, where the kernel follows them; how columns would come to one scale
    before   candidates (auto_parameters.py) -> short fits on folds (models/pilot_fit.py) -> what is chosen
    around   starts where the short fit has ended, if most of its weights are zero

A fit of given settings has no such step, and one that goes on keeps what the first has chosen.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, issparse

from kernelfields.data.chains import Chains
from kernelfields.data.cliques import USUAL_RANK
from kernelfields.engines.engine import PackedData, Sample
from kernelfields.estimators.auto_parameters import (
    Estimator,
    OpenFit,
    Reader,
    kernel_candidates,
    kernel_of_windows,
    neighbours_open,
    open_scaling,
    pilot_of,
    scale_candidates,
    set_chosen,
    suitable_kernels,
    suiting_steps,
    windows_open,
    with_neighbours,
    with_windows,
)
from kernelfields.estimators.fit_state import FitRun, FitState
from kernelfields.features.leakage import RepeatedLabels, find_repeated_labels
from kernelfields.inference.choice import FamilySpec
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.models.choices import EDGES, MOST_RANK, PEER, PILOT_RANK, TRIED_RANK, Choices, Settings
from kernelfields.models.field import Field
from kernelfields.models.pilot_fit import FALLBACK, MOST_OF_FEATURES, MOST_POSITIONS, PARTS, Judge, Pilot, Stage
from kernelfields.models.pilot_folds import Folds, pilot_folds
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.numerics.parameters import left_open
from kernelfields.numerics.sparse_rows import entries_of
from kernelfields.numerics.threads import blas_threads
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.windows import STATISTICS
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term

# What a pilot fit may learn about decisions, beside parameters.
_LEARNT_DECISIONS = ("thresholds", "threshold")
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


class _Judging(FitStep):
    """A step that makes short fits: ``beginning`` is how the fit begins, ``groups`` of its items stay together."""

    def __init__(self, beginning: Any, others: Sequence[FitStep], groups: ArrayLike | None = None):
        self._beginning, self._others, self._given_groups = beginning, others, groups
        #: The groups of the items that are fitted, (S,); None where each is its own.
        self.groups: np.ndarray | None = None

    def prepare(self, estimator: Estimator, reader: Reader, data: Any) -> Any:
        """Note the groups of the items that have a weight; ValueError unless there is one for each item."""
        if self._given_groups is None:
            return data
        listed = np.asarray(self._given_groups)
        data.check_groups(listed, estimator.answer_format.headings[0])
        every_item = any(step.every_item for step in self._others)
        self.groups = listed if every_item else listed[data.weights > 0]
        return data


class Tuning(_Judging):
    """Chooses what is left to the data."""

    #: The steps that bring columns to one scale, while it is open whether they should.
    scaling = ColumnSteps()
    #: The terms of the short fit with the settings that were chosen.
    piloted: Sequence[Term] = ()

    def prepare(self, estimator: Estimator, reader: Reader, data: Any) -> Any:
        """Return data dense or sparse by their numbers, where the kernel follows them; note scales and groups."""
        data = super().prepare(estimator, reader, data)
        if "kernel" in left_open(estimator) and not estimator.structure.names_cliques:
            data = data.changed(lambda own: self._beginning.in_kind(estimator, reader, own, data.processes))
        self.scaling = open_scaling(estimator, reader, data)
        return data

    def before(self, estimator: Estimator, problem: FitState) -> None:
        """Choose, and bring the data to the columns and the scale that were chosen."""
        chosen_later = any(step.chooses_parameters for step in self._others)
        self.piloted = _choose(problem.estimator, self.open_fit(estimator, problem), chosen_later)

    def open_fit(self, estimator: Estimator, problem: FitState) -> OpenFit:
        """Return what there is to choose for an estimator."""
        steps = [self._beginning, *problem.run.steps]
        return OpenFit(problem, left_open(estimator), self.scaling, self.groups, steps)

    def around(self, solve: Solve) -> Solve:
        """Return the solve, from the coefficients of the short fit where most of them are zero."""

        def from_short_fit(placed: Placed) -> FittedField:
            start = _start_for(placed.designs, self.piloted)
            return solve(placed if start is None else replace(placed, start=start))

        return from_short_fit


class LearntDecisions(_Judging):
    """Learns about decisions what the fit before has not, in one that goes on from it."""

    def before(self, estimator: Estimator, problem: FitState) -> None:
        """Add what a short fit learns to the choices of the fit before."""
        if not estimator._has_learnt_to_decide:
            chosen = problem.estimator
            chosen.choices_ = _with_learnt_decisions(chosen, OpenFit(problem, left_open(estimator), groups=self.groups))


def _start_for(designs: Sequence[Design], piloted: Sequence[Term]) -> list[np.ndarray] | None:
    """Return the coefficients of a short fit where most are zero, as with l1, and belong to the same features."""
    if not any(term.l1 for term in piloted):
        return None
    alike = len(designs) == len(piloted) and all(
        design.term.support.complete and design.compress(term.known).shape == design.shape
        for design, term in zip(designs, piloted, strict=True)
    )
    return [term.known for term in piloted] if alike else None


def _choose(chosen: Estimator, fit: OpenFit, chosen_later: bool) -> Sequence[Term]:
    """Choose the parameters that are left open, and return the terms of the short fit with these.

    ``chosen`` has usual values, and gets the chosen ones; the problem of the fit gets its columns and scales. Kernels
    and variances may be ``chosen_later``.
    """
    problem, left = fit.problem, fit.left
    described = not chosen.structure.names_cliques and not chosen_later
    path, kernel_left = described and "prior_variance" in left, "kernel" in left and described
    columns, usual = scale_candidates(fit), {}
    if "kernel" in left:
        usual = {"kernel": suiting_steps(suitable_kernels(problem.reader, scaled=False), fit.steps)[0]}
    chosen._set_chosen(usual)
    usual = usual if kernel_left else {}
    choices = Choices(columns[0] | usual | ({"prior_variance": FALLBACK} if path else {}))
    tied, learns = chosen.ties is not None, described and chosen.decision_rule.learns(chosen)
    most = MOST_OF_FEATURES if problem.reader.rows.holds_features else MOST_POSITIONS
    open_ones = path or kernel_left or learns or len(columns) > 1
    drawn = fit.with_some(_DRAWN * most) if open_ones else fit
    seen = problem.data.seen(fit, drawn)
    kernels = suiting_steps(kernel_candidates(seen.problem, tied=tied), fit.steps) if kernel_left else []
    wanted = path or learns or max(len(kernels), len(columns)) > 1
    piloted: Sequence[Term] = ()
    if wanted and (scenes := _scenes(chosen, seen, drawn, described)):
        if len(scenes) > 1:
            columns = [{**own, **scene.joins} for scene in scenes for own in scene.scales]
        first, *changes = (chosen.structure.weight_candidates(seen.problem, left) if path else []) or [{}]
        columns = [{**own, **usual, **first} for own in columns]
        for own in columns:
            if own.get("window") == STATISTICS:
                own["kernel"] = kernel_of_windows(problem.reader)[0]
        if kernel_left and not scenes[0].has_edges:
            kernels = suiting_steps(kernel_candidates(seen.problem, tied=tied, by_node=True), fit.steps)
        tried = partial(_choose_by_pilot_fits, chosen, seen, scenes, columns, path=path, changes=changes)
        rank_left = "rank" in left
        with blas_threads(1):
            choices, piloted = tried(kernels, rank_left=rank_left)
            kernel = choices.chosen.get("kernel")
            if advice := problem.data.advice_against(kernel):
                warn_user(advice)
                choices, piloted = tried([name for name in kernels if name != kernel], rank_left=rank_left)
        # What processes have tried alike is the same to rounding: the first says what is taken.
        choices, piloted = problem.data.processes.gathered((choices, piloted))[0]
        for name, with_columns in ((("neighbours", True), with_neighbours), (("window", STATISTICS), with_windows)):
            if name in choices.chosen.items():
                joined = with_columns(chosen, fit)
                problem.reader, problem.data = joined.problem.reader, joined.problem.data
                fit = replace(fit, scaling=joined.scaling)
        if PARTS in choices.chosen:
            problem.data = problem.data.changed(lambda own: _weighed(problem, own, choices.chosen[PARTS]))
            problem.reader.features.weights_ = {
                name: times**0.5 for name, times in zip(_parts(problem), choices.chosen[PARTS], strict=True)
            }
    set_chosen(chosen, choices.chosen, problem.reader)
    chosen.choices_ = choices
    chosen._repeated = _find_repeated_labels(seen.problem, choices)
    fit.take_scale(bool(choices.chosen.get("scale")))
    return piloted


def _with_learnt_decisions(chosen: Estimator, fit: OpenFit) -> Choices:
    """Return the choices of a fit that goes on, with what a pilot fit of its field learns about decisions."""
    before = chosen.choices_
    learnt: dict[str, Any] = {}
    most = MOST_OF_FEATURES if fit.problem.reader.rows.holds_features else MOST_POSITIONS
    if scenes := _scenes(chosen, fit, fit.with_some(_DRAWN * most), described=False):
        with blas_threads(1):
            learnt = _choose_by_pilot_fits(chosen, fit, scenes, [{}], [], False, [], False)[0].chosen
    kept = {name: value for name, value in before.chosen.items() if name not in _LEARNT_DECISIONS}
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
    return features.columns_ if several and issparse(training.data.own.inputs) else {}


def _weighed(training: FitState, data: PackedData, variances: Sequence[float]) -> PackedData:
    """Return data in which the columns of parts have so many times their variance in linear functions."""
    factors = np.ones(data.inputs.shape[1])
    for (first, last), times in zip(_parts(training).values(), variances, strict=True):
        factors[first:last] = times**0.5
    return replace(data, inputs=csr_array(csr_array(data.inputs).multiply(factors[None])))


@dataclass(frozen=True)
class _Scene:
    """A fit to certain columns: its data, and parts to learn from and to judge by, with edges or node by node.

    ``joins`` are the settings by which further columns are joined, and ``scales`` what the scale may be; ``last`` are
    the folds of the last round, none where the first decides.
    """

    fit: OpenFit
    folds: Folds
    last: Folds | None
    joins: dict[str, object]
    scales: Sequence[dict[str, object]]
    has_edges: bool = True


def _scenes(estimator: Estimator, fit: OpenFit, drawn: OpenFit, described: bool) -> list[_Scene]:
    """Return the data of pilot fits, and those with further columns; none where there is too little.

    Whole items are ``drawn``; where there are too few of them, nodes of all are judged.
    """
    problem = fit.problem
    features = problem.reader.rows.holds_features
    most = MOST_OF_FEATURES if features else MOST_POSITIONS

    def rounds(own: OpenFit) -> tuple[Folds, Folds | None]:
        first = pilot_folds(own.problem.data, most, own.groups, once=features)
        return first, None if features else pilot_folds(own.problem.data, most, own.groups, last=True)

    folds, last = rounds(drawn)
    if folds:
        found = [_Scene(drawn, folds, last, {}, scale_candidates(fit))]
        if described and windows_open(estimator, drawn):
            seen = with_windows(estimator, drawn)
            scale = [seen.scaling.settings]
            found = [replace(found[0], joins={"window": 1}), _Scene(seen, *rounds(seen), {"window": STATISTICS}, scale)]
        return found
    if not described or problem.spec.kind != "graph" or problem.data.node_types is not None:
        return []
    fits = [fit, *([with_neighbours(estimator, fit)] if neighbours_open(estimator, fit) else [])]
    return [
        _Scene(own, folds, None, {"neighbours": bool(number)} if fits[1:] else {}, scale_candidates(own), False)
        for number, own in enumerate(fits)
        if (folds := pilot_folds(own.problem.data.labelled_nodes(), most))
    ]


def _choose_by_pilot_fits(
    estimator: Estimator,
    fit: OpenFit,
    scenes: Sequence[_Scene],
    columns: Sequence[Settings],
    kernels: Sequence[str],
    path: bool,
    changes: Sequence[Settings],
    rank_left: bool,
) -> tuple[Choices, Sequence[Term]]:
    """Return the settings that predict held-out positions best and all that were tried, and the terms of a short fit.

    That one is with the settings that were chosen.
    """
    training = fit.problem
    single = FamilySpec("single", len(training.classes))
    spec = pilot_of(estimator).structure.family(training.classes, training.data) if scenes[0].has_edges else single

    def scene_of(settings: Settings) -> _Scene:
        return next(own for own in scenes if all(settings.get(name) == own.joins[name] for name in own.joins))

    def stages_of(settings: Settings, last: bool) -> Callable[[int], Judge]:
        if PEER in settings:
            return lambda number: _Forest(*scenes[-1].folds[number], len(training.classes))
        scene = scene_of(settings)
        folds = scene.last if last and scene.last is not None else scene.folds
        piloted = pilot_of(estimator)
        set_chosen(piloted, settings, training.reader)
        piloted.rank = settings.get(TRIED_RANK, piloted.rank)
        if settings.get("kernel") == "forest":
            piloted.kernel = resolve_kernel("forest").set_params(n_trees=_PILOT_TREES)
        has_edges = scene.has_edges and settings.get(EDGES, True)
        own = replace(scene.fit.problem, spec=spec, run=_silent(scene.fit.problem.run))
        cliques = [each for each in piloted.structure.clique_sets(own) if has_edges or each[1].group is None]
        by_position = scene.has_edges and not has_edges
        own.spec = single if by_position else spec

        def prepared(data: PackedData) -> PackedData:
            data = scene.fit.on_scale(data, bool(settings.get("scale")))
            data = _weighed(own, data, settings[PARTS]) if PARTS in settings else data
            return data.labelled_nodes() if by_position else data

        def designs_on(sample: Sample) -> Sequence[Design]:
            own.run = _silent(own.run)
            return piloted.structure.designs(own, sample, cliques)

        def variances_of(variance: float) -> list[float]:
            varied = copy.copy(piloted)
            varied.prior_variance = variance
            # Sets of nodes come before those of edges.
            variances = varied.structure.term_variances(own)
            return variances if has_edges else variances[: len(cliques)]

        @cache
        def on_all_folds() -> tuple[Sample, Sequence[Design]]:
            sample = own.place(prepared(folds.data), cliques)
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
        shares = shares and folds.data.n_positions >= _PER_PIVOT * PILOT_RANK and training.run.settings.group.size == 1

        def stage(number: int) -> Stage:
            if shares and (parts := parts_of(number)) is not None:
                (sample, designs), (beside, judged) = parts
                return Stage(sample, beside.datafit(judged), beside.data, designs, variances_of)
            train, held_out = map(prepared, folds[number])
            sample, beside = own.place(train, cliques), own.place(held_out, cliques, solved=False)
            designs = designs_on(sample)
            judge = beside.datafit([beside.design(design.term) for design in designs])
            return Stage(sample, judge, held_out, designs, variances_of)

        return stage

    # Scenes differ in columns alone.
    n_folds = (len(scenes[0].folds), 0 if scenes[0].last is None else len(scenes[0].last))
    pilot = Pilot(stages_of, n_folds, training.run.options.report)
    best = pilot.best(columns, kernels, path)
    if path and estimator.ties is None:
        best = pilot.along_parts(best, len(_parts(training)))
    best = pilot.improved(best, changes)
    piloted = pilot.terms(best)
    field, chosen = Field(piloted, spec), dict(best)
    ranks = [term.subspace.rank for term in field.terms if term.has_pivots]
    usual = estimator.basis == "random-cholesky" and training.data.n_positions > 2 * USUAL_RANK
    if rank_left and usual and ranks:
        grows = max(ranks) == PILOT_RANK and pilot.gains(best, {**best, TRIED_RANK: 2 * PILOT_RANK})
        chosen["rank"] = USUAL_RANK if grows else MOST_RANK
    judged = scene_of(best)
    numbers = len(kernels) > 1 and training.data.certain_labels is not None
    if numbers and judged.has_edges and spec.kind in ("chain", "graph") and not spec.constrained:
        training.run.options.report("trying the field without edges, and a forest")
        pilot.loss({**best, EDGES: False})
        on_windows = " on windows" if scenes[-1].joins.get("window") == STATISTICS else ""
        pilot.loss({PEER: f"forest{on_windows}"})
    held_out = judged.fit.on_scale(judged.folds[0][1], bool(best.get("scale")))
    if PARTS in best:
        held_out = _weighed(training, held_out, best[PARTS])
    learnt = estimator.decision_rule.learn(estimator, training, field, held_out)
    return Choices(chosen | learnt.chosen, (*pilot.trials, *learnt.trials)), piloted


def _silent(run: FitRun) -> FitRun:
    """Return how a short fit is solved: as the fit, with draws of its own, and nothing to say."""
    return replace(run, options=replace(run.options, random=np.random.default_rng(0), announce=None))


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


def _find_repeated_labels(problem: FitState, choices: Choices) -> RepeatedLabels | None:
    """Detect columns of class probabilities that leak the training labels, where held-out labels are certain."""
    losses = [trial.log_loss for trial in choices.trials if trial.log_loss is not None]
    labels = problem.data.certain_labels
    # Of several labels there are probabilities of each one: their columns have no sum to recognise them by.
    if not losses or min(losses) > _CERTAIN or labels is None or labels.ndim != 1:
        return None
    return find_repeated_labels(problem.reader.steps.undo(problem.data.inputs), labels, len(problem.classes))
