"""Importance of features: how much worse a fitted field does on held-out data when a feature is shuffled.

    importance_j = mean over positions of  quality(X) - quality(X with feature j shuffled across all positions)

quality is log p(y | x), in nats per position, or the share of right labels. Shuffling breaks what the feature says of
its position and keeps its values, so it works for every kernel (permutation importance: Breiman, 2001). A feature that
another one repeats loses little when it alone is shuffled: give groups of such features instead. Sequences are paired
with themselves, and the interval holds what other held-out sequences of the same kind would give.

A feature is a column of arrays, data frames and tables, a key of feature dicts (with all its values), the part before
"=" or ":" of feature strings, and a column of the features of nodes in graphs. Importance is measured on labelled data
that the field was not fitted to; on training data it says what the fit uses, not what helps.

Cost: one evaluation of X for each feature and repeat. Fails: ValueError naming the feature that is not there; the
model's own error where labels are unknown or inference is approximate: ``scoring="accuracy"`` works there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.evaluation.resampling import Resampling
from kernelfields.reports.tables import Estimate, Result
from kernelfields.fields.reading import random_generator
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import PlainValues, Row, Table, largest_magnitude, signed

SCORINGS = ("log-likelihood", "accuracy")
_UNITS = {"log-likelihood": "nats of log-likelihood per position", "accuracy": "share of right labels"}
_SHOWN = 30


@dataclass(frozen=True)
class FeatureImportance(Shown):
    """Drops in quality by feature, the largest first; ``quality`` is that of the data as they are."""

    scoring: str
    quality: float
    drops: dict[str, Estimate]
    n_sequences: int
    n_repeats: int
    confidence: float = field(default=0.95)

    def parts(self) -> list[str | Table]:
        """Return the heading and the table of drops, shaded by their size."""
        return [self._heading(), self._table()]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per feature, for ``csv.DictWriter`` or ``pandas.DataFrame``."""
        return [
            {"feature": name, "drop": each.value, "low": each.low, "high": each.high}
            for name, each in self.drops.items()
        ]

    def _heading(self) -> str:
        return (
            f"What is lost without a feature, in {_UNITS[self.scoring]} ({self.quality:.4f} with all of them): means "
            f"over {self.n_repeats} shuffles and {self.n_sequences:,} sequences, {100 * self.confidence:g} % intervals"
        )

    def _table(self) -> Table:
        largest = largest_magnitude(each.value for each in self.drops.values())
        shown = list(self.drops.items())[:_SHOWN]
        rows = [Row((name, f"{each:+.4f}"), [np.nan, each.value / largest]) for name, each in shown]
        return Table(("feature", "lost"), rows, longest=60)

    def _more(self) -> str:
        left = list(self.drops.values())[_SHOWN:]
        return f"\n\n{len(left):,} more, each at most {signed(left[0].value)}" if left else ""


def feature_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    features: Any = None,
    feature_names: Sequence[str] | None = None,
    scoring: str = "log-likelihood",
    n_repeats: int = 5,
    n_resamples: int = 1000,
    confidence: float = 0.95,
    random_state: Any = None,
) -> FeatureImportance:
    """Return how much a fitted model loses on held-out X and y when features are shuffled, one after the other.

    Parameters
    ----------
    model : fitted ChainCRF, GraphCRF, MultiLabelCRF or KernelClassifier
    X, y : labelled data that the model was not fitted to
    features : list of features, or dict from names to lists of features that are shuffled together; None for all
    feature_names : names of columns that have none of their own; "x0", "x1", ... by default
    scoring : "log-likelihood" or "accuracy"
        What is lost: nats of log p(y | x) per position, which also counts how sure the model is, or right labels.
    n_repeats : shuffles of each feature; their mean is taken
    n_resamples, confidence, random_state : as in :func:`kernelfields.evaluate`; ``random_state`` shuffles, too
    """
    if scoring not in SCORINGS:
        raise ValueError(f"scoring must be one of {', '.join(map(repr, SCORINGS))}, got {scoring!r}")
    if not isinstance(n_repeats, int | np.integer) or isinstance(n_repeats, bool) or n_repeats < 1:
        raise ValueError(f"n_repeats must be a whole number of at least 1, got {n_repeats!r}")
    random = random_generator(random_state)
    columns = _columns_of(X, feature_names if feature_names is not None else _known_names(model))
    quality = _quality(model, y, scoring)
    groups = _groups(features, columns.names)
    before, sizes = quality(X), _sizes(y)
    drops = np.zeros((len(before), len(groups)))
    for place, chosen in enumerate(groups.values()):
        for _ in range(n_repeats):
            drops[:, place] += (before - quality(columns.shuffled(chosen, random))) / n_repeats
    resampling = Resampling(n_resamples, confidence, random)
    sums = resampling.sums({"drops": drops, "sizes": sizes})
    estimates = resampling.estimates(sums["drops"] / sums["sizes"], len(before))
    order = np.argsort([-each.value for each in estimates], kind="stable").tolist()
    names = list(groups)
    return FeatureImportance(
        scoring,
        float(before.sum() / sizes.sum()),
        {names[index]: estimates[index] for index in order},
        len(before),
        int(n_repeats),
        float(confidence),
    )


# ---- quality of each sequence, graph or instance


def _quality(model: Any, y: Any, scoring: str) -> Callable[[Any], np.ndarray]:
    """Return a function from inputs to the summed quality of each sequence, graph or instance, (S,)."""
    if scoring == "accuracy":
        truth = [np.atleast_1d(np.asarray(labels)) for labels in y]
        return lambda X: np.array(
            [float(np.sum(np.atleast_1d(own) == true)) for own, true in zip(model.predict(X), truth, strict=True)]
        )
    if not hasattr(model, "log_likelihood"):
        place = {label: column for column, label in enumerate(np.asarray(model.classes_).tolist())}
        codes = [place[label] for label in np.asarray(y).tolist()]
        return lambda X: model.predict_log_proba(X)[np.arange(len(codes)), codes]
    each = next(name for name in signature(model.log_likelihood).parameters if name.startswith("per_"))
    return lambda X: model.log_likelihood(X, y, **{each: True})


def _sizes(y: Any) -> np.ndarray:
    """Return the number of labels of each sequence, graph or instance."""
    return np.array([np.size(labels) for labels in y], dtype=float)


# ---- what can be shuffled


class _Columns:
    """Names of the features of X, in order, and X with some of them shuffled."""

    names: list[str]

    def shuffled(self, chosen: Sequence[str], random: np.random.Generator) -> Any:
        """Return X with the chosen features exchanged between positions, all of them in the same way."""
        raise NotImplementedError


class _TableColumns(_Columns):
    """Columns of a table (n, d): an array, a sparse matrix or a data frame."""

    def __init__(self, X: Any, names: Sequence[str] | None):
        own = [str(name) for name in X.columns] if hasattr(X, "columns") else None
        if own is not None and not hasattr(X, "isetitem"):
            raise ValueError(
                f"feature_importance takes arrays and frames of pandas, got {type(X).__name__}: convert it"
            )
        self._X: Any = X if own or scipy.sparse.issparse(X) else np.asarray(X)
        width = self._X.shape[1]
        self.names = own or _checked_names(names, width)

    def shuffled(self, chosen: Sequence[str], random: np.random.Generator) -> Any:
        order = random.permutation(self._X.shape[0])
        columns = [self.names.index(name) for name in chosen]
        if hasattr(self._X, "columns"):
            changed = self._X.copy()
            for column in columns:
                changed.isetitem(column, changed.iloc[order, column].to_numpy())
            return changed
        return _with_columns(self._X, columns, order)


class _StackedColumns(_Columns):
    """Columns of the tables of sequences or graphs, shuffled across all of them; ``put`` gives a table its place."""

    def __init__(self, tables: Sequence[Any], names: Sequence[str] | None, put: Callable[[list], Any]):
        self._lengths = [table.shape[0] for table in tables]
        self._sparse = any(map(scipy.sparse.issparse, tables))
        self._stacked = scipy.sparse.vstack(tables) if self._sparse else np.concatenate(tables)
        self.names = _checked_names(names, self._stacked.shape[1])
        self._put = put

    def shuffled(self, chosen: Sequence[str], random: np.random.Generator) -> Any:
        order = random.permutation(self._stacked.shape[0])
        changed = _with_columns(self._stacked, [self.names.index(name) for name in chosen], order)
        ends = np.cumsum(self._lengths)
        return self._put([changed[end - length : end] for end, length in zip(ends, self._lengths, strict=True)])


class _NamedColumns(_Columns):
    """Features of positions that are dicts, or lists of strings such as "word=the", by their names."""

    def __init__(self, X: Sequence[Sequence[Any]]):
        self._X = X
        names: dict[str, None] = {}
        for sequence in X:
            for position in sequence:
                names.update(dict.fromkeys(_names_at(position)))
        self.names = list(names)

    def shuffled(self, chosen: Sequence[str], random: np.random.Generator) -> Any:
        places = [(i, t) for i, sequence in enumerate(self._X) for t in range(len(sequence))]
        order, wanted = random.permutation(len(places)), set(chosen)
        changed: list[list[Any]] = [[] for _ in self._X]
        for (i, t), source in zip(places, order.tolist(), strict=True):
            j, u = places[source]
            changed[i].append(_exchanged(self._X[i][t], self._X[j][u], wanted))
        return changed


def _columns_of(X: Any, names: Sequence[str] | None) -> _Columns:
    """Return what can be shuffled in X."""
    if hasattr(X, "columns") or scipy.sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object):
        return _TableColumns(X, names)
    items = list(X)
    if not items:
        raise ValueError("X is empty: importance needs labelled sequences that the model was not fitted to")
    first = items[0]
    if isinstance(first, tuple):
        tables = [np.asarray(item[0]) if not scipy.sparse.issparse(item[0]) else item[0] for item in items]
        return _StackedColumns(
            tables, names, lambda parts: [(part, *item[1:]) for part, item in zip(parts, items, strict=True)]
        )
    if isinstance(first, Mapping):
        tables = [item["x"] if scipy.sparse.issparse(item["x"]) else np.asarray(item["x"]) for item in items]
        return _StackedColumns(
            tables, names, lambda parts: [{**item, "x": part} for part, item in zip(parts, items, strict=True)]
        )
    if hasattr(first, "adjacency"):
        raise ValueError("feature_importance takes graphs as (node_features, edges) or dicts, not networkx graphs")
    if scipy.sparse.issparse(first):
        return _StackedColumns(items, names, list)
    if hasattr(first, "columns"):
        return _StackedColumns(
            [item.to_numpy() for item in items],
            list(first.columns),
            lambda parts: [
                type(item)(part, columns=list(item.columns)) for part, item in zip(parts, items, strict=True)
            ],
        )
    if len(first) and isinstance(first[0], Mapping | list | tuple | set) and not _is_numbers(first[0]):
        return _NamedColumns(items)
    if np.ndim(first) == 1:
        return _TableColumns(np.asarray(items), names)
    return _StackedColumns([np.asarray(item) for item in items], names, list)


def _is_numbers(position: Any) -> bool:
    return isinstance(position, list | tuple) and len(position) > 0 and not isinstance(position[0], str)


def _names_at(position: Any) -> Iterable[str]:
    """Return the names of the features of one position."""
    return map(str, position) if isinstance(position, Mapping) else map(_prefix, position)


def _prefix(feature: str) -> str:
    """Return the part of a feature string before its value."""
    ends = [feature.index(mark) for mark in "=:" if mark in feature]
    return feature[: min(ends)] if ends else feature


def _exchanged(own: Any, other: Any, wanted: set[str]) -> Any:
    """Return the features of a position with the wanted ones of another."""
    if isinstance(own, Mapping):
        kept = {name: value for name, value in own.items() if str(name) not in wanted}
        return kept | {name: value for name, value in other.items() if str(name) in wanted}
    return [each for each in own if _prefix(each) not in wanted] + [each for each in other if _prefix(each) in wanted]


def _with_columns(table: Any, columns: list[int], order: np.ndarray) -> Any:
    """Return a table whose chosen columns have their rows in another order."""
    if not scipy.sparse.issparse(table):
        changed = np.array(table)
        changed[:, columns] = changed[order][:, columns]
        return changed
    by_column = scipy.sparse.csc_array(table)
    kept = np.setdiff1d(np.arange(table.shape[1]), columns)
    parts = [by_column[:, kept], scipy.sparse.csc_array(scipy.sparse.csr_array(table)[order])[:, columns]]
    back = np.argsort(np.concatenate([kept, columns]), kind="stable")
    return scipy.sparse.csr_array(scipy.sparse.hstack(parts, format="csc")[:, back])


def _checked_names(names: Sequence[str] | None, width: int) -> list[str]:
    if names is None:
        return [f"x{column}" for column in range(width)]
    listed = [str(name) for name in names]
    if len(listed) != width:
        raise ValueError(f"feature_names has {len(listed)} names, but the inputs have {width} features")
    return listed


def _known_names(model: Any) -> Sequence[str] | None:
    """Return the names of the columns of the fit, None where it had none."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _groups(features: Any, names: Sequence[str]) -> dict[str, list[str]]:
    """Return which features are shuffled together, by name."""
    if features is None:
        return {name: [name] for name in names}
    wanted = features if isinstance(features, Mapping) else {str(each): [each] for each in features}
    known, groups = set(names), {}
    for name, members in wanted.items():
        groups[str(name)] = [str(member) for member in members]
        if unknown := [member for member in groups[str(name)] if member not in known]:
            shown = ", ".join(list(names)[:10]) + (", ..." if len(names) > 10 else "")
            raise ValueError(f"features names {unknown[0]!r}, which the inputs do not have: there are {shown}")
    return groups
