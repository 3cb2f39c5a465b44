"""The step of a fit that chooses open parameters before the data are placed.

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
from threading import Lock
from typing import TYPE_CHECKING, Any

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
    has_open_neighbours,
    has_open_windows,
    kernel_candidates,
    kernel_of_windows,
    list_suitable_kernels,
    make_pilot,
    open_scaling,
    scale_candidates,
    select_supported_kernels,
    set_chosen,
    set_parameters,
    weight_candidates,
    with_neighbours,
    with_windows,
)
from kernelfields.estimators.fit_state import FitRun, FitState
from kernelfields.estimators.going_on import has_learnt_to_decide
from kernelfields.inference.choice import FamilySpec
from kernelfields.inputs.step import STATISTICS
from kernelfields.inputs.steps import ColumnSteps
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.models.choices import (
    EDGES,
    MOST_RANK,
    PEER,
    PILOT_RANK,
    SHARES,
    TRIED_RANK,
    Choices,
    Settings,
    describe_failure,
    field_of_forest,
    least_gain,
)
from kernelfields.models.field import Field
from kernelfields.models.pilot_fit import FALLBACK, MOST_OF_FEATURES, MOST_POSITIONS, PARTS, Judge, Pilot, Stage
from kernelfields.models.pilot_folds import Folds, pilot_folds
from kernelfields.models.pilot_peers import PILOT_TREES, make_peer
from kernelfields.models.placed import FitStep, FittedField, Placed, Solve
from kernelfields.numerics.parameters import get_open_parameters, should_learn_settings
from kernelfields.numerics.sparse_rows import gather_entries
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.objective.designs.design import Design
from kernelfields.objective.term import Term

if TYPE_CHECKING:
    from kernelfields.features.leakage import RepeatedLabels

# What a pilot fit may learn about decisions, beside parameters.
_LEARNT_DECISIONS = ("thresholds", "threshold")
# Folds share features, and so pivots among the positions held out, of so many positions for each pivot.
_PER_PIVOT = 10
# Items are drawn of so many times the positions of pilot fits, before long ones are cut.
_DRAWN = 5
# Held-out labels are certain where their loss, in nats a position, is below this.
_CERTAIN = 0.01


class _Judging(FitStep):
    """A step with short fits: ``beginning`` is the beginning of the fit, ``groups`` of items are held out together."""

    def __init__(self, beginning: Any, others: Sequence[FitStep], groups: ArrayLike | None = None):
        self._beginning, self._others, self._given_groups = beginning, others, groups
        #: The groups of the items that are fitted, (S,); None where each is its own.
        self.groups: np.ndarray | None = None

    def check(self, estimator: Estimator) -> None:
        """Raise if a decision is to be learnt that short fits cannot judge."""
        if estimator.structure.has_explicit_cliques and should_learn_settings(estimator):
            raise ValueError(
                "decode='f1' chooses thresholds by short fits of the field that parameters describe: leave out cliques"
            )

    def prepare(self, estimator: Estimator, reader: Reader, data: Any) -> Any:
        """Store the groups of the weighted items; ValueError unless there is one for each item."""
        if self._given_groups is None:
            return data
        listed = np.asarray(self._given_groups)
        data.check_groups(listed, estimator._answer_format.headings[0])
        every_item = any(step.every_item for step in self._others)
        self.groups = listed if every_item else listed[data.weights > 0]
        return data


class Tuning(_Judging):
    """Choose the "auto" parameters by the data."""

    #: The steps that bring columns to one scale, while it is open whether they should.
    scaling = ColumnSteps()
    #: The terms of the short fit with the settings that were chosen.
    piloted: Sequence[Term] = ()

    def prepare(self, estimator: Estimator, reader: Reader, data: Any) -> Any:
        """Choose dense or sparse storage if the kernel is open; store scales and groups."""
        data = super().prepare(estimator, reader, data)
        if "kernel" in get_open_parameters(estimator) and not estimator.structure.has_explicit_cliques:
            data = data.apply(lambda own: self._beginning.convert_storage(estimator, reader, own, data.processes))
        self.scaling = open_scaling(estimator, reader, data)
        return data

    def before(self, estimator: Estimator, problem: FitState) -> None:
        """Choose parameters, and transform the data to the chosen columns and scale."""
        chosen_later = any(step.chooses_parameters for step in self._others)
        self.piloted = _choose(problem.estimator, self.open_fit(estimator, problem), chosen_later)

    def open_fit(self, estimator: Estimator, problem: FitState) -> OpenFit:
        """Return the open parameters of an estimator, with their candidates."""
        steps = [self._beginning, *problem.run.steps]
        return OpenFit(problem, get_open_parameters(estimator), self.scaling, self.groups, steps)

    def around(self, solve: Solve) -> Solve:
        """Return the solve from the coefficients of the short fit, if most of them are zero."""

        def from_short_fit(placed: Placed) -> FittedField:
            start = _expand_start(placed.designs, self.piloted)
            return solve(placed if start is None else replace(placed, start=start))

        return from_short_fit


class LearntDecisions(_Judging):
    """Learn settings of the decision that the last fit lacks, in a continued fit."""

    def before(self, estimator: Estimator, problem: FitState) -> None:
        """Add the learnt settings to the choices of the last fit."""
        if not has_learnt_to_decide(estimator):
            chosen = problem.estimator
            chosen.choices_ = _with_learnt_decisions(
                chosen, OpenFit(problem, get_open_parameters(estimator), groups=self.groups)
            )


def _expand_start(designs: Sequence[Design], piloted: Sequence[Term]) -> list[np.ndarray] | None:
    """Return the sparse coefficients of a short fit on the features of the whole fit."""
    if not any(term.l1 for term in piloted):
        return None
    alike = len(designs) == len(piloted) and all(
        design.term.pairs.complete and design.compress(term.known).shape == design.shape
        for design, term in zip(designs, piloted, strict=True)
    )
    return [term.known for term in piloted] if alike else None


def _choose(chosen: Estimator, fit: OpenFit, chosen_later: bool) -> Sequence[Term]:
    """Choose the open parameters; return the terms of the short fit with them.

    ``chosen`` has usual values, and gets the chosen ones; the problem of the fit gets its columns and scales. Kernels
    and variances may be ``chosen_later``.
    """
    problem, left = fit.problem, fit.left
    described = not chosen.structure.has_explicit_cliques and not chosen_later
    path, kernel_left = described and "prior_variance" in left, "kernel" in left and described
    columns, usual = scale_candidates(fit), {}
    if "kernel" in left:
        usual = {"kernel": select_supported_kernels(list_suitable_kernels(problem.reader, scaled=False), fit.steps)[0]}
    set_parameters(chosen, usual)
    usual = usual if kernel_left else {}
    choices = Choices(columns[0] | usual | ({"prior_variance": FALLBACK} if path else {}))
    tied, learns = chosen.ties is not None, described and should_learn_settings(chosen)
    most = MOST_OF_FEATURES if problem.reader.rows.has_weighted_features else MOST_POSITIONS
    open_ones = path or kernel_left or learns or len(columns) > 1
    drawn = fit.with_drawn_items(_DRAWN * most) if open_ones else fit
    seen = problem.data.select_fit(fit, drawn)
    kernels = select_supported_kernels(kernel_candidates(seen.problem, tied=tied), fit.steps) if kernel_left else []
    wanted = path or learns or max(len(kernels), len(columns)) > 1
    piloted: Sequence[Term] = ()
    if wanted and (scenes := _scenes(chosen, seen, drawn, described)):
        if len(scenes) > 1:
            columns = [{**own, **scene.joins} for scene in scenes for own in scene.scales]
        first, *changes = (weight_candidates(chosen, seen.problem, left) if path else []) or [{}]
        columns = [{**own, **usual, **first} for own in columns]
        for own in columns:
            if own.get("window") == STATISTICS:
                own["kernel"] = kernel_of_windows(problem.reader)[0]
        if kernel_left and not scenes[0].has_edges:
            kernels = select_supported_kernels(kernel_candidates(seen.problem, tied=tied, by_node=True), fit.steps)
        tried = partial(_choose_by_pilot_fits, chosen, seen, scenes, columns, path=path, changes=changes)
        rank_left = "rank" in left
        with blas_threads(1):
            choices, piloted = tried(kernels, rank_left=rank_left)
            kernel = choices.chosen.get("kernel")
            if advice := problem.data.kernel_refusal(kernel):
                warn_user(advice)
                choices, piloted = tried([name for name in kernels if name != kernel], rank_left=rank_left)
        # What processes have tried alike is the same to rounding: the first says what is taken.
        choices, piloted = problem.run.engine.broadcast((choices, piloted))
        for name, with_columns in ((("neighbours", True), with_neighbours), (("window", STATISTICS), with_windows)):
            if name in choices.chosen.items():
                joined = with_columns(chosen, fit)
                problem.reader, problem.data = joined.problem.reader, joined.problem.data
                fit = replace(fit, scaling=joined.scaling)
        if PARTS in choices.chosen:
            problem.data = problem.data.apply(lambda own: _scale_parts(problem, own, choices.chosen[PARTS]))
            problem.reader.features.weights_ = {
                name: times**0.5 for name, times in zip(_parts(problem), choices.chosen[PARTS], strict=True)
            }
    set_chosen(chosen, choices.chosen, problem.reader)
    chosen.choices_ = choices
    chosen._repeated = _find_repeated_labels(seen.problem, choices)
    fit.take_scale(bool(choices.chosen.get("scale")))
    return piloted


def _with_learnt_decisions(chosen: Estimator, fit: OpenFit) -> Choices:
    """Return the choices of a continued fit with decision settings from a pilot fit."""
    before = chosen.choices_
    learnt: dict[str, Any] = {}
    most = MOST_OF_FEATURES if fit.problem.reader.rows.has_weighted_features else MOST_POSITIONS
    if scenes := _scenes(chosen, fit, fit.with_drawn_items(_DRAWN * most), described=False):
        with blas_threads(1):
            learnt = _choose_by_pilot_fits(chosen, fit, scenes, [{}], [], False, [], False)[0].chosen
        learnt = fit.problem.run.engine.broadcast(learnt)
    kept = {name: value for name, value in before.chosen.items() if name not in _LEARNT_DECISIONS}
    return Choices(kept | learnt, before.trials)


def _parts(training: FitState) -> dict[str, tuple[int, int]]:
    """Return the column range of the output of each of several transformers, by name.

    None where inputs are numbers, whose kernels and scales are chosen, or come from one transformer.
    """
    features = training.reader.features
    if features is None:
        return {}
    from kernelfields.features.sequencewise import SequenceUnion

    several = isinstance(features, SequenceUnion) and len(features.columns_) > 1
    return features.columns_ if several and issparse(training.data.own.inputs) else {}


def _scale_parts(training: FitState, data: PackedData, variances: Sequence[float]) -> PackedData:
    """Scale the columns of parts so that linear functions of them have a multiple of the variance."""
    factors = np.ones(data.inputs.shape[1])
    for (first, last), times in zip(_parts(training).values(), variances, strict=True):
        factors[first:last] = times**0.5
    return replace(data, inputs=csr_array(csr_array(data.inputs).multiply(factors[None])))


@dataclass(frozen=True)
class _Scene:
    """Data of pilot fits with certain columns, in folds, with edges or node by node.

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
    """Return the data of pilot fits, and variants with further columns; none for too few data.

    Whole items are ``drawn``; where there are too few of them, nodes of all are judged.
    """
    problem = fit.problem
    features = problem.reader.rows.has_weighted_features
    most = MOST_OF_FEATURES if features else MOST_POSITIONS

    def rounds(own: OpenFit) -> tuple[Folds, Folds | None]:
        first = pilot_folds(own.problem.data, most, own.groups, once=features)
        return first, None if features else pilot_folds(own.problem.data, most, own.groups, last=True)

    folds, last = rounds(drawn)
    if folds:
        found = [_Scene(drawn, folds, last, {}, scale_candidates(fit))]
        if described and has_open_windows(estimator, drawn):
            seen = with_windows(estimator, drawn)
            scale = [seen.scaling.settings]
            found = [replace(found[0], joins={"window": 1}), _Scene(seen, *rounds(seen), {"window": STATISTICS}, scale)]
        return found
    if not described or problem.spec.kind != "graph" or problem.data.node_types is not None:
        return []
    fits = [fit, *([with_neighbours(estimator, fit)] if has_open_neighbours(estimator, fit) else [])]
    return [
        _Scene(own, folds, None, {"neighbours": bool(number)} if fits[1:] else {}, scale_candidates(own), False)
        for number, own in enumerate(fits)
        if (folds := pilot_folds(own.problem.data.select_labelled_nodes(), most))
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
    """Choose settings by held-out positions; return them, all trials, and the terms of a short fit.

    That one is with the settings that were chosen.
    """
    training = fit.problem
    single = FamilySpec("single", len(training.classes))
    spec = make_pilot(estimator).structure.family(training.classes, training.data) if scenes[0].has_edges else single

    def scene_of(settings: Settings) -> _Scene:
        return next(own for own in scenes if all(settings.get(name) == own.joins[name] for name in own.joins))

    def stages_of(settings: Settings, last: bool) -> Callable[[int], Judge]:
        if PEER in settings:
            return partial(make_peer, settings[PEER], scenes[-1].folds, len(training.classes))
        scene = scene_of(settings)
        folds = scene.last if last and scene.last is not None else scene.folds
        piloted = make_pilot(estimator)
        set_chosen(piloted, settings, training.reader)
        piloted.rank = settings.get(TRIED_RANK, piloted.rank)
        if settings.get("kernel") == "forest":
            piloted.kernel = resolve_kernel("forest").set_params(n_trees=PILOT_TREES)
        has_edges = scene.has_edges and settings.get(EDGES, True)
        own = replace(scene.fit.problem, spec=spec, run=_make_short_run(scene.fit.problem.run))
        cliques = [each for each in piloted.structure.clique_sets(own) if has_edges or each[1].group is None]
        by_position = scene.has_edges and not has_edges
        own.spec = single if by_position else spec

        def prepared(data: PackedData) -> PackedData:
            data = scene.fit.on_scale(data, bool(settings.get("scale")))
            data = _scale_parts(own, data, settings[PARTS]) if PARTS in settings else data
            return data.select_labelled_nodes() if by_position else data

        def designs_on(sample: Sample) -> Sequence[Design]:
            fresh = replace(own, run=_make_short_run(own.run))
            return piloted.structure.designs(fresh, sample, cliques)

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

        lock = Lock()

        def parts_of(number: int) -> list[Any] | None:
            with lock:  # folds that are fitted side by side wait for the features of all
                (sample, designs), offsets = on_all_folds(), folds.data.offsets
            items = folds.splits[number]
            parts = [
                sample.part(designs, gather_entries(offsets, chosen)[0] if by_position else chosen) for chosen in items
            ]
            return None if None in parts else parts

        def units_of(number: int, held_out: PackedData) -> np.ndarray:
            return np.arange(held_out.n_positions) if by_position else folds.held_out_units(number)

        # Features of all folds are computed once. Not where they follow labels, as trees do that are grown on those
        # learnt from; where one fold is tried; or of so few positions that many of those held out would be pivots.
        shares = settings.get("kernel") != "forest" and len(folds) > 1 and TRIED_RANK not in settings
        shares = shares and isinstance(folds.data, Chains) and isinstance(folds.data.inputs, np.ndarray)
        shares = shares and folds.data.n_positions >= _PER_PIVOT * PILOT_RANK

        def stage(number: int) -> Stage:
            if shares and (parts := parts_of(number)) is not None:
                (sample, designs), (beside, judged) = parts
                units = units_of(number, beside.data)
                return Stage(sample, beside.datafit(judged), beside.data, units, designs, variances_of)
            train, held_out = map(prepared, folds[number])
            sample, beside = own.place(train, cliques), own.place(held_out, cliques, solved=False)
            designs = designs_on(sample)
            judge = beside.datafit([beside.design(design.term) for design in designs])
            return Stage(sample, judge, held_out, units_of(number, held_out), designs, variances_of)

        return stage

    # Scenes differ in columns alone.
    n_folds = (len(scenes[0].folds), 0 if scenes[0].last is None else len(scenes[0].last))
    concatenate_columns = training.run.engine.alone.fits_side_by_side and training.run.settings.group.size == 1
    workers = training.run.settings.workers if concatenate_columns else Workers(1)
    pilot = Pilot(stages_of, n_folds, training.run.options.report, workers)
    folds = scenes[0].folds
    best = pilot.best(columns, kernels, path, folds.has_whole_items)
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
    labels_known = training.data.certain_labels is not None
    comparable = judged.has_edges and spec.kind in ("chain", "graph") and not spec.is_constrained
    if len(kernels) > 1 and labels_known and comparable:
        training.run.options.report("trying the field without edges, and a forest")
        pilot.loss({**best, EDGES: False})
        on_windows = " on windows" if scenes[-1].joins.get("window") == STATISTICS else ""
        _compare_with_forest(pilot, best, f"forest{on_windows}")
    if labels_known and path:
        _compare_with_shares(pilot, best)
    held_out = judged.fit.on_scale(judged.folds[0][1], bool(best.get("scale")))
    if PARTS in best:
        held_out = _scale_parts(training, held_out, best[PARTS])
    learnt = estimator._decision_rule.learn(estimator, training, field, held_out, partial(pilot.predictions, best))
    return Choices(chosen | learnt.chosen, (*pilot.trials, *learnt.trials), folds.n_pieces), piloted


def _compare_with_forest(pilot: Pilot, best: Settings, forest: str) -> None:
    """Warn if a forest predicts held-out items better than the best field, beyond their spread."""
    peer = {PEER: forest}
    losses = pilot.loss(best), pilot.loss(peer)
    if losses[0] > losses[1] + least_gain(losses[0]) and pilot.item_losses(best).is_worse(pilot.item_losses(peer)):
        warn_user(
            f"a {forest} predicts held-out items better than this field, log-loss {losses[1]:.4f} and {losses[0]:.4f}: "
            f"{field_of_forest(forest)} has a forest inside"
        )


def _compare_with_shares(pilot: Pilot, best: Settings) -> None:
    """Warn if the best field predicts held-out items no better than the shares of the labels."""
    losses = pilot.loss(best), pilot.loss({PEER: SHARES})
    if losses[0] > losses[1] - least_gain(losses[1]):
        warn_user(describe_failure(*losses))


def _make_short_run(run: FitRun) -> FitRun:
    """Return the run of a short fit: in this process and thread alone, with a random state of its own, and silent."""
    silent, settings = replace(run.options, random=np.random.default_rng(0), announce=None), run.settings
    return replace(run, engine=run.engine.alone, options=silent, settings=replace(settings, workers=Workers(1)))


def _find_repeated_labels(problem: FitState, choices: Choices) -> RepeatedLabels | None:
    """Detect columns of class probabilities that leak the training labels."""
    losses = [trial.log_loss for trial in choices.trials if trial.log_loss is not None]
    labels = problem.data.certain_labels
    # Of several labels there are probabilities of each one: their columns have no sum to recognise them by.
    if not losses or min(losses) > _CERTAIN or labels is None or labels.ndim != 1:
        return None
    from kernelfields.features.leakage import find_repeated_labels

    return find_repeated_labels(problem.reader.steps.undo(problem.data.inputs), labels, len(problem.classes))
