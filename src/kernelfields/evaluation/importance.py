"""Permutation importance of features: the loss of a fitted field on held-out data when a feature is shuffled.

    importance_j = mean over positions of  quality(X) - quality(X with feature j shuffled across all positions)

quality is log p(y | x), in nats per position, or the share of right labels. Shuffling removes the relation of the
feature to its position and keeps its values, so it works for every kernel (Breiman, 2001). A feature that
another one repeats loses little when it alone is shuffled: pass groups of such features instead. Sequences are paired
with themselves, and the interval holds the importance in the population of held-out sequences.

A feature is a column of arrays, data frames and tables, a key of feature dicts (with all its values), the part before
"=" or ":" of feature strings, and a column of the features of nodes in graphs. Importance is measured on labelled data
that the field was not fitted to; on training data it shows what the fit uses, not what helps.

Cost: one evaluation of X for each feature and repeat. Fails: ValueError naming the feature that is not there; the
model's own error where labels are unknown or inference is approximate: ``scoring="accuracy"`` works there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from kernelfields.data.reading import random_generator
from kernelfields.data.segments import are_segments, read_segments
from kernelfields.evaluation.model_evaluation import FittedModel
from kernelfields.evaluation.packed_labels import refuse_annotators
from kernelfields.evaluation.resampling import Resampling, in_words
from kernelfields.models.wrapped_field import field_inside
from kernelfields.numerics.wording import counted
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import Estimate, PlainValues, Row, Table, largest_magnitude, signed

SCORINGS = ("log_likelihood", "accuracy")
_UNITS = {"log_likelihood": "nats of log-likelihood per {}", "accuracy": "share of right labels"}
_SHOWN = 30

#: Rows (n, d) of numbers.
NumberTable: TypeAlias = np.ndarray | scipy.sparse.sparray


@dataclass(frozen=True)
class FeatureImportance(Shown):
    """Drops in quality by feature, the largest first; ``quality`` is that of the data as they are.

    ``nouns`` name an item and a position of it.
    """

    scoring: str
    quality: float
    drops: dict[str, Estimate]
    n_sequences: int
    n_repeats: int
    confidence: float = 0.95
    nouns: tuple[str, str] = ("sequence", "position")

    def parts(self) -> list[str | Table]:
        """Return a heading and the table of drops, shaded by their size."""
        whole, part = in_words(self.nouns)
        heading = (
            f"What is lost without a feature, in {_UNITS[self.scoring].format(part or whole)} ({self.quality:.4f} with "
            f"all of them): means over {counted(self.n_repeats, 'shuffle')} and {counted(self.n_sequences, whole)}, "
            f"{100 * self.confidence:g} % intervals"
        )
        largest = largest_magnitude(drop.value for drop in self.drops.values())
        rows = [Row((name, drop), [np.nan, drop.value / largest]) for name, drop in self.drops.items()]
        left = list(self.drops.values())[_SHOWN:]
        note = f"{len(left):,} more, each at most {signed(left[0].value)}" if left else ""
        return [heading, Table(("feature", "lost"), rows[:_SHOWN], formats={"lost": "+.4f"}, note=note, longest=60)]

    def to_rows(self) -> list[PlainValues]:
        """Return one dict per feature, for ``csv.DictWriter`` or ``pandas.DataFrame``."""
        return [
            {"feature": name, "drop": drop.value, "low": drop.low, "high": drop.high}
            for name, drop in self.drops.items()
        ]


def feature_importance(
    model: FittedModel,
    X: object,
    y: Sequence[object] | np.ndarray,
    *,
    features: Iterable[object] | Mapping[object, Iterable[object]] | None = None,
    feature_names: Sequence[str] | None = None,
    scoring: str = "log_likelihood",
    n_repeats: int = 5,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: object = None,
) -> FeatureImportance:
    """Return the loss of a fitted model on held-out X and y when features are shuffled, one after the other.

    Parameters
    ----------
    model : fitted estimator of labels
    X, y : labelled data that the model was not fitted to
    features : list of features, or dict from names to lists of features that are shuffled together; None for all
    feature_names : names of columns that have none of their own; "x0", "x1", ... by default
    scoring : "log_likelihood" or "accuracy"
        What is lost: nats of log p(y | x) per position, which also measures confidence, or right labels.
    n_repeats : shuffles of each feature; their mean is taken
    n_resamples, confidence, random_state : as in :func:`kernelfields.evaluate`; ``random_state`` shuffles, too
    """
    if scoring not in SCORINGS:
        raise ValueError(f"scoring must be one of {', '.join(map(repr, SCORINGS))}, got {scoring!r}")
    if not isinstance(n_repeats, int | np.integer) or isinstance(n_repeats, bool) or n_repeats < 1:
        raise ValueError(f"n_repeats must be a whole number of at least 1, got {n_repeats!r}")
    refuse_annotators(y)
    random = random_generator(random_state)
    model, X, y = field_inside(model, X, y)
    truth = read_segments(y)[0] if isinstance(y, list | tuple) and are_segments(y) else y
    columns = _columns_of(X, getattr(model, "feature_names_in_", None) if feature_names is None else feature_names)
    quality = _quality(model, truth if scoring == "accuracy" else y, scoring)
    groups = _groups(features, columns.names)
    before, sizes = quality(X), np.array([np.asarray(labels).size for labels in truth], dtype=np.float64)
    drops = np.zeros((len(before), len(groups)))
    for column, chosen in enumerate(groups.values()):
        for _ in range(n_repeats):
            drops[:, column] += (before - quality(columns.shuffled(chosen, random))) / n_repeats
    resampling = Resampling(n_resamples, confidence, random)
    sums = resampling.sums({"drops": drops, "sizes": sizes})
    estimates = [resampling.estimate(figures / sums["sizes"], len(before)) for figures in sums["drops"].T]
    order = np.argsort([-estimate.value for estimate in estimates], kind="stable").tolist()
    names = list(groups)
    return FeatureImportance(
        scoring,
        float(before.sum() / sizes.sum()),
        {names[index]: estimates[index] for index in order},
        len(before),
        int(n_repeats),
        float(confidence),
        getattr(model, "place_headings", FeatureImportance.nouns),
    )


def _quality(model: FittedModel, y: Sequence[object] | np.ndarray, scoring: str) -> Callable[[object], np.ndarray]:
    """Return a function from inputs to the summed quality of each sequence, graph or instance, (S,)."""
    if scoring == "accuracy":
        truth = [np.atleast_1d(np.asarray(labels)) for labels in y]
        return lambda X: np.array(
            [
                float(np.sum(np.atleast_1d(np.asarray(own)) == true))
                for own, true in zip(model.predict(X), truth, strict=True)
            ]
        )
    if hasattr(model, "log_likelihood"):
        log_likelihood = model.log_likelihood
        return lambda X: log_likelihood(X, y, per_item=True)
    if not (hasattr(model, "predict_log_proba") and hasattr(model, "classes_")):
        raise TypeError(f"{type(model).__name__} has no likelihood: pass scoring='accuracy'")
    log_probabilities = model.predict_log_proba
    column_of = {label: column for column, label in enumerate(model.classes_.tolist())}
    codes = [column_of[label] for label in np.asarray(y).tolist()]
    return lambda X: log_probabilities(X)[np.arange(len(codes)), codes]


def _groups(
    features: Iterable[object] | Mapping[object, Iterable[object]] | None, names: Sequence[str]
) -> dict[str, list[str]]:
    """Return which features are shuffled together, by name."""
    if features is None:
        return {name: [name] for name in names}
    wanted = features if isinstance(features, Mapping) else {name: [name] for name in features}
    known, groups = set(names), {}
    for name, members in wanted.items():
        groups[str(name)] = [str(member) for member in members]
        if unknown := [member for member in groups[str(name)] if member not in known]:
            shown = ", ".join(list(names)[:10]) + (", ..." if len(names) > 10 else "")
            raise ValueError(f"features names {unknown[0]!r}, which the inputs do not have: there are {shown}")
    return groups


# ---- inputs whose features can be shuffled: ``shuffled`` returns X with the chosen ones exchanged between positions,
# all of them in the same way; ``names`` are those of the features of X, in order


class _FrameColumns:
    """Columns of one data frame of pandas."""

    def __init__(self, frame: Any):
        if not hasattr(frame, "isetitem"):
            raise ValueError(
                f"feature_importance takes arrays and frames of pandas, got {type(frame).__name__}: convert it"
            )
        self._frame, self.names = frame, [str(name) for name in frame.columns]

    def shuffled(self, chosen: Sequence[str], random: np.random.Generator) -> object:
        order, changed = random.permutation(len(self._frame)), self._frame.copy()
        for column in map(self.names.index, chosen):
            changed.isetitem(column, changed.iloc[order, column].to_numpy())
        return changed


class _StackedColumns:
    """Columns of the tables of sequences or graphs, shuffled across all of them.

    ``put`` turns the changed tables into inputs of the model.
    """

    def __init__(
        self, tables: Sequence[NumberTable], names: Sequence[str] | None, put: Callable[[list[NumberTable]], object]
    ):
        self._ends = np.cumsum([table.shape[0] for table in tables]).tolist()
        sparse = any(map(scipy.sparse.issparse, tables))
        self._stacked: NumberTable = scipy.sparse.vstack(tables, format="csr") if sparse else np.concatenate(tables)
        width = self._stacked.shape[1]
        self.names = [f"x{column}" for column in range(width)] if names is None else [str(name) for name in names]
        if len(self.names) != width:
            raise ValueError(f"feature_names has {len(self.names)} names, but the inputs have {width} features")
        self._put = put

    def shuffled(self, chosen: Sequence[str], random: np.random.Generator) -> object:
        order = random.permutation(self._stacked.shape[0])
        changed = _with_columns(self._stacked, [self.names.index(name) for name in chosen], order)
        return self._put([changed[begin:end] for begin, end in zip([0, *self._ends], self._ends, strict=False)])


class _NamedColumns:
    """Features of positions that are dicts, or lists of strings such as "word=the", by their names."""

    def __init__(self, X: Sequence[Sequence[Mapping | Iterable[str]]]):
        self._X = X
        positions = [position for sequence in X for position in sequence]
        self.names = list(dict.fromkeys(name for position in positions for name in _names_at(position)))

    def shuffled(self, chosen: Sequence[str], random: np.random.Generator) -> object:
        positions, wanted = [position for sequence in self._X for position in sequence], set(chosen)
        order = random.permutation(len(positions)).tolist()
        changed = (
            _exchanged(position, positions[source], wanted) for position, source in zip(positions, order, strict=True)
        )
        return [[next(changed) for _ in sequence] for sequence in self._X]


def _columns_of(X: Any, names: Sequence[str] | None) -> _FrameColumns | _StackedColumns | _NamedColumns:
    """Return what can be shuffled in X."""
    if hasattr(X, "columns"):
        return _FrameColumns(X)
    if scipy.sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object):
        return _StackedColumns([X], names, lambda tables: tables[0])
    items = list(X)
    if not items:
        raise ValueError("X is empty: importance needs labelled sequences that the model was not fitted to")
    first = items[0]
    if not isinstance(first, tuple | Mapping) and not hasattr(first, "columns") and not scipy.sparse.issparse(first):
        if len(first) and isinstance(first[0], Mapping | list | tuple | set) and not _is_numbers(first[0]):
            return _NamedColumns(items)
        if np.ndim(first) == 1:
            return _StackedColumns([np.asarray(items)], names, lambda tables: tables[0])
    own = first.columns if hasattr(first, "columns") else names
    tables, puts = zip(*map(_opened, items), strict=True)
    return _StackedColumns(tables, own, lambda changed: [put(table) for put, table in zip(puts, changed, strict=True)])


def _opened(item: Any) -> tuple[NumberTable, Callable[[NumberTable], object]]:
    """Return the table of a sequence or graph, and a function from a changed table to a sequence or graph like it."""
    if isinstance(item, tuple):
        return _opened(item[0])[0], lambda table: (table, *item[1:])
    if isinstance(item, Mapping):
        return _opened(item["x"])[0], lambda table: {**item, "x": table}
    if isinstance(item, np.ndarray) and hasattr(item, "columns"):
        kind: Any = type(item)
        return np.asarray(item), lambda table: kind.of(np.asarray(table), item.columns)
    if hasattr(item, "columns"):
        return item.to_numpy(), lambda table: type(item)(table, columns=list(item.columns))
    return item if scipy.sparse.issparse(item) else np.asarray(item), lambda table: table


def _is_numbers(position: object) -> bool:
    return isinstance(position, list | tuple) and len(position) > 0 and not isinstance(position[0], str)


def _names_at(position: Mapping | Iterable[str]) -> Iterable[str]:
    """Return the names of the features of one position."""
    return map(str, position) if isinstance(position, Mapping) else map(_prefix, position)


def _prefix(feature: str) -> str:
    """Return the part of a feature string before its value."""
    ends = [feature.index(mark) for mark in "=:" if mark in feature]
    return feature[: min(ends)] if ends else feature


def _exchanged(own: Mapping | Iterable[str], other: Mapping | Iterable[str], wanted: set[str]) -> object:
    """Return the features of a position with the wanted ones of another."""
    if isinstance(own, Mapping) and isinstance(other, Mapping):
        kept = {name: value for name, value in own.items() if str(name) not in wanted}
        return kept | {name: value for name, value in other.items() if str(name) in wanted}
    kept_strings = [feature for feature in own if _prefix(feature) not in wanted]
    return kept_strings + [feature for feature in other if _prefix(feature) in wanted]


def _with_columns(table: NumberTable, columns: list[int], order: np.ndarray) -> NumberTable:
    """Return a table whose chosen columns have their rows in another order."""
    if isinstance(table, np.ndarray):
        changed = table.copy()
        changed[:, columns] = changed[order][:, columns]
        return changed
    by_column = scipy.sparse.csc_array(table)
    kept = np.setdiff1d(np.arange(table.shape[1]), columns)
    parts = [by_column[:, kept], scipy.sparse.csc_array(scipy.sparse.csr_array(table)[order])[:, columns]]
    back = np.argsort(np.concatenate([kept, columns]), kind="stable")
    return scipy.sparse.csr_array(scipy.sparse.hstack(parts, format="csc")[:, back])
