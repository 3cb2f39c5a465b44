"""Tasks of Label Studio as inputs of a field, its answers as results, and results of annotators as labels.

    <Labels> of <Text>                  words; regions {"start", "end", "text", "labels"}, in characters
    <TimeSeriesLabels> of <TimeSeries>  rows of numbers; regions {"start", "end", "instant", "timeserieslabels"}
    <Choices> of either, or of <Table>  the same inputs, or a row of numbers by name; {"choices": [...]}

The score of a region is the probability of its span. The score of a prediction is the smallest probability of its
positions or of several labels, or that of the choice: sorted by scores, tasks begin with the most uncertain one.

Regions of a text that cut words are widened to whole words. Regions of a time series begin at the time of their
first row and end at that of their last, or at row numbers without a column of times. Positions outside of regions are
outside of entities, or have the one label of the model that the configuration lacks; otherwise they are unknown.

Raises TaskError with the name of the task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from kernelfields.data.constraints import guess_scheme
from kernelfields.estimators import MultiLabelCRF
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.formats.annotated_texts import NO_SCHEME, OUTSIDE, Document, Labelling, list_labels, tokens_or_default
from kernelfields.formats.annotation_files import round_spans_to_words
from kernelfields.formats.annotation_json import parse_labelling
from kernelfields.formats.tokens import tokenize
from kernelfields.studio.configuration import ConfigurationError, Control, find_outside_label


class TaskError(ValueError):
    """A task or annotation is unreadable."""


@dataclass(frozen=True)
class Recording:
    """Rows of a time series (T, d) and their times (T,)."""

    rows: np.ndarray
    times: Sequence[float]


@dataclass(frozen=True)
class Row:
    """The numbers of an item by column name."""

    numbers: Mapping[str, float]


#: What a task shows: a text, a recording or a row.
Item: TypeAlias = Document | Recording | Row


def read_text(control: Control, data: Mapping[str, Any], name: str) -> Document:
    """Return the text of a task."""
    text = _entry(control, data, name)
    if not isinstance(text, str):
        raise TaskError(f"{name}: {control.key!r} must be a text, got {text!r:.40}")
    return Document(text, list(tokenize(text)))


def read_series(control: Control, data: Mapping[str, Any], name: str) -> Recording:
    """Return the time series of a task."""
    table = _entry(control, data, name)
    if not isinstance(table, Mapping):
        raise TaskError(f"{name}: {control.key!r} must be an object of columns, got {table!r:.40}")
    wanted = [*control.columns, *([control.time] if control.time else [])]
    for column in wanted:
        if column not in table:
            raise TaskError(f"{name}: {control.key!r} has no column {column!r}, only {', '.join(map(repr, table))}")
    try:
        columns = [np.asarray(table[column], dtype=float) for column in wanted]
    except (TypeError, ValueError) as error:
        raise TaskError(f"{name}: the columns of {control.key!r} must be numbers: {error}") from error
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1 or not len(columns[0]):
        raise TaskError(f"{name}: the columns of {control.key!r} must be lists of the same length")
    if not np.isfinite(columns).all():
        raise TaskError(f"{name}: a column of {control.key!r} has a number that is missing or infinite")
    times = columns[-1].tolist() if control.time else list(range(len(columns[0])))
    if any(before >= after for before, after in pairwise(times)):
        raise TaskError(f"{name}: the times {control.time!r} do not increase")
    return Recording(np.column_stack(columns[: len(control.columns)]), times)


def read_row(control: Control, data: Mapping[str, Any], name: str) -> Row:
    """Return the row of numbers of a task."""
    table = _entry(control, data, name)
    if not isinstance(table, Mapping) or not table:
        raise TaskError(f"{name}: {control.key!r} must be an object of numbers, got {table!r:.40}")
    wrong = [own for own, value in table.items() if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong or not np.isfinite(list(table.values())).all():
        raise TaskError(f"{name}: {control.key!r} must hold finite numbers: {', '.join(map(repr, wrong or table))}")
    return Row({str(own): float(value) for own, value in table.items()})


def _entry(control: Control, data: Mapping[str, Any], name: str) -> Any:
    if control.key not in data:
        raise TaskError(f"{name} has no {control.key!r}, which <{control.object}> shows")
    return data[control.key]


class TaskReader(ABC):
    """A reader of tasks for a control."""

    def __init__(self, control: Control):
        self.control = control

    def read(self, data: Mapping[str, Any], name: str) -> Item:
        """Return the item of a task."""
        return _READERS[self.control.object](self.control, data, name)

    def inputs(self, item: Item) -> Any:
        """Return the words, rows or numbers of an item; may be empty."""
        if isinstance(item, Document):
            return item.words
        return item.rows if isinstance(item, Recording) else item.numbers

    def gather_inputs(self, model: Any, X: list) -> Any:
        """Return the inputs of items as X for a model."""
        return X

    def gather_labels(self, model: Any, y: list) -> Any:
        """Return the labels of items as y for a fit."""
        return y

    @abstractmethod
    def check(self, model: Any) -> None:
        """Raise ConfigurationError if the control lacks labels of a model."""

    @abstractmethod
    def answer(self, model: Any, items: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the prediction of each nonempty item, a result and a score."""

    @abstractmethod
    def labels(self, model: Any, item: Any, results: Sequence[Mapping[str, Any]], name: str) -> Any:
        """Return the labels of an item in an annotation, as y; ``model`` is None before the first fit."""

    def select_results(self, results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return the results that belong to the control."""
        return [result for result in results if result.get("from_name") == self.control.name]

    def make_result(self, value: Mapping[str, Any], number: int, score: float | None = None) -> dict[str, Any]:
        """Return a result of Label Studio with a value."""
        control = self.control
        about = {"id": f"kernelfields-{number}", "from_name": control.name, "to_name": control.to_name}
        about["type"] = control.tag.lower()
        return {**about, "value": value, **({} if score is None else {"score": score})}

    def model_label(self, shown: str, name: str) -> str:
        """Return the label of the model for a label in results."""
        try:
            return self.control.names[shown]
        except KeyError:
            known = ", ".join(map(repr, self.control.names))
            raise TaskError(f"{name}: the label {shown!r} is not among those of {self.control}: {known}") from None


class SpanReader(TaskReader):
    """A reader of spans of words or rows."""

    def check(self, model: Any) -> None:
        """Raise ConfigurationError if the control lacks labels of a model."""
        self._find_outside_label(model)

    def answer(self, model: Any, items: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the prediction of each nonempty item, a result and a score."""
        rest = self._find_outside_label(model)
        X = [self.inputs(item) for item in items]
        marginals = model.predict_marginals(X)
        found = []
        for item, entities, table in zip(items, model.predict_entities(X), marginals, strict=True):
            shown = [entity for entity in entities if str(entity.label) != rest]
            result = [
                self.make_result(self._make_region(item, entity), number, float(entity.probability))
                for number, entity in enumerate(shown, start=1)
            ]
            found.append({"result": result, "score": float(np.max(table, axis=1).min())})
        return found

    def _find_outside_label(self, model: Any) -> str | None:
        """Return the label of positions outside of regions, None for "O"."""
        form: Any = get_answer_format(model)
        _, types = form.spans.rules(model.classes_, "auto")
        scheme = _scheme(model)
        return find_outside_label(self.control, types, allowed=scheme == NO_SCHEME)

    def _make_region(self, item: Any, entity: Any) -> dict[str, Any]:
        """Return the value of a region for an entity."""
        labels = [self.control.labels[str(entity.label)]]
        if isinstance(item, Document):
            tokens = tokens_or_default(item)
            begin, end = tokens[entity.begin][0], tokens[entity.end - 1][1]
            return {"start": begin, "end": end, "text": item.text[int(begin) : int(end)], "labels": labels}
        times = item.times
        place = {"start": times[entity.begin], "end": times[entity.end - 1]}
        return {**place, "instant": entity.end - entity.begin == 1, "timeserieslabels": labels}

    def labels(self, model: Any, item: Any, results: Sequence[Mapping[str, Any]], name: str) -> list:
        """Return a label for each position, None for unknown labels."""
        rest = None if model is None else self._find_outside_label(model)
        if isinstance(item, Document):
            return self._word_labels(model, item, results, name, rest)
        labels: list[Any] = [rest or (OUTSIDE if self._has_outside(model) else None)] * len(item.times)
        for result in self.select_results(results):
            value = result.get("value", {})
            try:
                begin, end = float(value["start"]), float(value["end"])
                (shown,) = value["timeserieslabels"]
            except (KeyError, TypeError, ValueError) as error:
                raise TaskError(f"{name}: a region must have start, end and one label, got {value!r:.80}") from error
            label = self.model_label(shown, name)
            for row in range(bisect_left(item.times, begin), bisect_right(item.times, end)):
                labels[row] = label
        return labels

    def _has_outside(self, model: Any) -> bool:
        return model is not None and OUTSIDE in set(model.classes_)

    def _word_labels(
        self, model: Any, item: Document, results: Sequence[Mapping[str, Any]], name: str, rest: str | None
    ) -> list:
        scheme = "bio" if model is None else _scheme(model)
        labelling = parse_labelling({"result": self.select_results(results)}, item.text, False, name)
        spans = [replace(span, label=self.model_label(span.label, name)) for span in labelling.spans or ()]
        document = Document(item.text, item.tokens, [Labelling(spans)], scheme=scheme)
        labels = list_labels(round_spans_to_words(document), name=name)
        outside = rest or (OUTSIDE if self._has_outside(model) else None)
        return [outside if label is None else label for label in labels]


class ChoiceReader(TaskReader):
    """A reader of tasks with one choice for each item."""

    def check(self, model: Any) -> None:
        """Raise ConfigurationError if the control lacks labels of a model."""
        if self.control.is_multiple:
            raise ConfigurationError(f"{self.control} allows several choices, and the model chooses one")
        find_outside_label(self.control, model.classes_, allowed=False)

    def answer(self, model: Any, items: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the prediction of each nonempty item, a result and a score."""
        table = model.predict_proba(self.gather_inputs(model, [self.inputs(item) for item in items]))
        best = np.argmax(table, axis=1)
        scores = [float(row[column]) for row, column in zip(table, best, strict=True)]
        chosen = [self.control.labels[str(model.classes_[column])] for column in best]
        return [
            {"result": [self.make_result({"choices": [choice]}, 1, score)], "score": score}
            for choice, score in zip(chosen, scores, strict=True)
        ]

    def labels(self, model: Any, item: Any, results: Sequence[Mapping[str, Any]], name: str) -> Any:
        """Return the chosen label, or None without a choice."""
        choices = self.choices(results, name)
        if choices is None:
            return None
        if len(choices) != 1:
            raise TaskError(f"{name}: expected one choice of {self.control}, got {choices!r:.60}")
        return self.model_label(choices[0], name)

    def choices(self, results: Sequence[Mapping[str, Any]], name: str) -> list[str] | None:
        """Return the choices of an annotation; None without a result of the control."""
        own = self.select_results(results)
        if not own:
            return None
        choices = own[0].get("value", {}).get("choices")
        if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
            raise TaskError(f"{name}: expected choices of {self.control}, got {choices!r:.60}")
        return choices

    def gather_inputs(self, model: Any, X: list) -> Any:
        """Return rows as a table with the columns of the model or of the first row; other inputs unchanged."""
        if self.control.object != "Table":
            return X
        names = _find_columns(model, X[0])
        if wrong := next((own for own in X if own.keys() != set(names)), None):
            raise TaskError(f"a row has the columns {_to_list(wrong)}, and the model takes {_to_list(names)}")
        table = np.array([[own[name] for name in names] for own in X])
        if model is not None and not hasattr(model, "feature_names_in_"):
            return table
        try:
            import pandas as pd
        except ImportError as error:
            raise ConfigurationError("columns with names need pandas: pip install pandas") from error
        return pd.DataFrame(table, columns=names)


class SeveralChoicesReader(ChoiceReader):
    """A reader of tasks with several choices for each item."""

    def check(self, model: Any) -> None:
        """Raise ConfigurationError if the control lacks labels of a model."""
        if not self.control.is_multiple:
            raise ConfigurationError(
                f'{self.control} allows one choice, and the model may choose several: write choice="multiple"'
            )
        find_outside_label(self.control, model.label_names_, allowed=False)

    def answer(self, model: Any, items: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the prediction of each item, a result and a score."""
        X = self.gather_inputs(model, [self.inputs(item) for item in items])
        names = [self.control.labels[str(name)] for name in model.label_names_]
        found = []
        for row, chosen in zip(model.predict_proba(X), model.predict(X), strict=True):
            score = float(np.maximum(row, 1.0 - row).min())
            choices = [name for name, own in zip(names, chosen, strict=True) if own]
            found.append(
                {"result": [self.make_result({"choices": choices}, 1, score)] if choices else [], "score": score}
            )
        return found

    def labels(self, model: Any, item: Any, results: Sequence[Mapping[str, Any]], name: str) -> list[int]:
        """Return 0 or 1 for each label of the control; an annotation without choices has only zeros."""
        chosen = {self.model_label(choice, name) for choice in self.choices(results, name) or []}
        return [int(label in chosen) for label in self._names(model)]

    def gather_labels(self, model: Any, y: list) -> Any:
        """Return an indicator table with a column for each label, named before the first fit."""
        if model is not None and model.label_names_.dtype.kind != "U":
            return np.array(y)
        try:
            import pandas as pd
        except ImportError as error:
            raise ConfigurationError("labels with names need pandas: pip install pandas") from error
        return pd.DataFrame(y, columns=self._names(model))

    def _names(self, model: Any) -> list[str]:
        """Return the names of the labels of a model, or of the control before the first fit."""
        return list(self.control.labels) if model is None else [str(name) for name in model.label_names_]


def _find_columns(model: Any, first: Mapping[str, float]) -> list[str]:
    """Return column names in the order of a model; TaskError if a row lacks columns."""
    if model is None:
        return list(first)
    if (names := getattr(model, "feature_names_in_", None)) is not None:
        return [str(name) for name in names]
    if len(first) != model.n_features_in_:
        raise TaskError(f"a row has the columns {_to_list(first)}, and the model takes {model.n_features_in_} columns")
    return list(first)


def _to_list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _scheme(model: Any) -> str:
    """Return the scheme of the labels of a model."""
    found = guess_scheme([str(label) for label in model.classes_])
    return NO_SCHEME if found is None else found.name


def make_reader(control: Control, model: Any = None) -> TaskReader:
    """Return the reader of a control for the field of a model, or for the default field."""
    if control.tag != "Choices":
        return SpanReader(control)
    several = control.is_multiple if model is None else isinstance(model, MultiLabelCRF)
    return SeveralChoicesReader(control) if several else ChoiceReader(control)


_READERS: dict[str, Callable[[Control, Mapping[str, Any], str], Item]] = {
    "Text": read_text,
    "TimeSeries": read_series,
    "Table": read_row,
}
