"""A model behind Label Studio: it predicts tasks, and is fitted to submitted annotations.

    beginning="model"      ``partial_fit`` of the stored model, which needs a kernel
    beginning="data"       a fit of its settings to labelled data and the annotations together
    beginning="nothing"    a fit of its settings, or the default ones without a file, to the annotations alone

Every fit starts from the stored model and uses all annotations, so that changed and deleted annotations have no effect
on later fits. The fitted model is written to ``output`` at once, and then used for predictions. Fits run in the
background, one at a time; annotations submitted during a fit belong to the next one.

Raises ConfigurationError, TaskError and AnnotationsError for invalid requests. A failed fit leaves the model unchanged;
``problem`` has the message.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from kernelfields import get_field, load, save
from kernelfields.estimators import ChainCRF, KernelClassifier, MultiLabelCRF, SegmentCRF, SequenceClassifier
from kernelfields.models.partial import PartialLabels
from kernelfields.numerics.wording import inflect
from kernelfields.studio.annotations import Annotation, Annotations
from kernelfields.studio.configuration import ConfigurationError, Control, find_control
from kernelfields.studio.tasks import TaskError, TaskReader, make_reader

_SPANS = ("Labels", "TimeSeriesLabels")
#: What fits begin with.
BEGINNINGS = ("model", "data", "nothing")


class Backend:
    """A model with its annotations and its fits.

    Parameters
    ----------
    model : path
        The file of the model; with ``beginning="nothing"`` it need not be there.
    output : path
        Where fitted models are written; if it is there, it answers.
    beginning : "model", "data" or "nothing"
        What a fit begins with.
    data : pair of lists, optional
        X and y of the labelled data.
    every : int, default 1
        A fit begins after so many submissions; 0 for fits that are asked for alone.
    control : str, optional
        The name of the control tag, if there are several.
    n_jobs : int, optional
        Threads.
    say : callable, optional
        What takes a line about each fit.
    """

    def __init__(
        self,
        model: Path,
        output: Path,
        *,
        beginning: str = "model",
        data: tuple[Sequence, Sequence] | None = None,
        every: int = 1,
        control: str | None = None,
        n_jobs: int | None = None,
        say: Callable[[str], None] = print,
    ):
        self.path, self.output, self.every, self.control, self.say = model, output, every, control, say
        self.beginning, self.data, self.n_jobs = beginning, data, n_jobs
        self.base = None if beginning == "nothing" and not model.exists() else load(model)
        self.model = load(output) if output.exists() else self.base
        self.annotations = Annotations(output.with_name(f"{output.stem}.annotations.jsonl"))
        self.problem: str | None = None
        self._lock, self._waiting, self._since = threading.Lock(), False, 0
        self._thread: threading.Thread | None = None
        self._readers: dict[str, TaskReader] = {}
        self._config: str | None = None
        if self.model is not None:
            self._supported_tags(self._field())  # a model that answers no tag is refused before there is a server

    def _field(self) -> Any:
        return get_field(self.model).set_params(n_jobs=self.n_jobs)

    @property
    def version(self) -> str:
        """The name of the current model, which changes with each fit."""
        path = self.output if self.output.exists() else self.path
        if not path.exists():
            return "not fitted yet"
        return f"{self.path.stem} {hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"

    def _supported_tags(self, field: Any) -> tuple[str, ...]:
        """Return the control tags that a field supports."""
        if isinstance(field, SequenceClassifier | KernelClassifier | MultiLabelCRF):
            return ("Choices",)
        if isinstance(field, ChainCRF | SegmentCRF):
            return _SPANS
        raise ValueError(
            f"{self.path} holds a {type(field).__name__}; a ChainCRF, SegmentCRF, SequenceClassifier, KernelClassifier "
            "or MultiLabelCRF can be served"
        )

    def reader(self, config: str | None) -> TaskReader:
        """Return the reader of tasks for a labelling configuration, by default the latest."""
        config = self._config if config is None else config
        if config is None:
            raise ConfigurationError("the request has no labelling configuration")
        if config not in self._readers:
            tags = (*_SPANS, "Choices") if self.model is None else self._supported_tags(self._field())
            control = find_control(config, tags, self.control)
            if self.model is not None:
                _check_inputs(self._field(), control)
            elif control.is_multiple and control.object != "Table":
                raise ConfigurationError(f"{control} allows several choices, which only rows of a <Table> can have")
            self._readers = {config: make_reader(control, None if self.model is None else self._field())}
        found = self._readers[config]
        if self.model is not None:
            found.check(self._field())
        self._config = config
        return found

    def predict(self, tasks: Sequence[Mapping[str, Any]], config: str | None) -> list[dict[str, Any]]:
        """Return a prediction for each task; it is empty before the first fit, and for empty texts."""
        reader = self.reader(config)
        items = [reader.read(_data(task), _name(task)) for task in tasks]
        found: list[dict[str, Any]] = [{"result": [], "score": 0.0} for _ in items]
        if self.model is not None:
            full = [number for number, item in enumerate(items) if len(reader.inputs(item))]
            if full:
                answers = reader.answer(self._field(), [items[number] for number in full])
                for number, answer in zip(full, answers, strict=True):
                    found[number] = answer
        version = self.version
        return [{**one, "model_version": version} for one in found]

    def submit(self, project: str, config: str | None, own: Sequence[Annotation]) -> None:
        """Store annotations, and start a fit after ``every`` submissions."""
        with self._lock:
            reader = self.reader(config)
            for each in own:
                reader.labels(
                    self._fitted_field(), reader.read(each.data, f"task {each.task}"), each.result, _describe(each)
                )
            self.annotations.claim(project)
            for each in own:
                self.annotations.add(each)
            self._since += len(own)
            due = self.every and self._since >= self.every
        if due:
            self.fit()

    def withdraw(self, project: str, names: Sequence[str]) -> None:
        """Delete annotations, so that the next fit ignores them."""
        with self._lock:
            self.annotations.claim(project)
            self.annotations.delete(names)

    def _fitted_field(self) -> Any:
        """Return the field of the original model, whose labels annotations use; None without a model."""
        return None if self.base is None else get_field(self.base)

    # ---- fits

    @property
    def is_fitting(self) -> bool:
        """Whether a fit is running."""
        return self._thread is not None and self._thread.is_alive()

    def fit(self) -> None:
        """Start a fit in the background, or after the running one."""
        with self._lock:
            self._waiting, self._since = True, 0
            if not self.is_fitting:
                self._thread = threading.Thread(target=self._run_waiting_fits, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait for the end of all fits."""
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join()

    def _run_waiting_fits(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                self._waiting = False
            try:
                self._fit_model()
            except (ValueError, TypeError, OSError, MemoryError) as error:
                self.problem = " ".join(str(error).split())
                self.say(f"the fit failed, and the model is as it was: {self.problem}")

    def _fit_model(self) -> None:
        """Fit a copy of the model to all annotations, write it and use it for predictions."""
        with self._lock:
            reader, chosen = self.reader(None), self.annotations.latest()
            X, y = self._training_data(reader, chosen)
        if not X:
            raise ValueError("there are no annotations with labels yet")
        own = self._fitted_field()
        fitted = self._fit_estimator(reader.control, reader.gather_inputs(own, X), reader.gather_labels(own, y))
        save(fitted, self.output)
        with self._lock:
            self.model, self.problem = load(self.output), None
        self.say(f"fitted to {inflect(len(X), 'annotation')}: {self.output}")

    def _training_data(self, reader: TaskReader, chosen: Sequence[Annotation]) -> tuple[list, list]:
        X, y = [], []
        for own in chosen:
            item = reader.read(own.data, f"task {own.task}")
            labels = reader.labels(self._fitted_field(), item, own.result, _describe(own))
            if len(reader.inputs(item)) and labels is not None:
                X.append(reader.inputs(item))
                y.append(labels)
        return X, y

    def _fit_estimator(self, control: Control, X: Any, y: Any) -> Any:
        if self.beginning == "model":
            model: Any = copy.deepcopy(self.base)
            inputs = model[:-1].transform(X) if isinstance(model, Pipeline) else X
            last = model[-1] if isinstance(model, Pipeline) else model
            try:
                last.partial_fit(inputs, y)
            except (ValueError, AttributeError) as error:
                raise ValueError(
                    f"{error.__cause__ or error}; --train FILE fits the model to its data and the annotations, "
                    "--from-scratch to the annotations alone"
                ) from error
            return model
        if self.data is not None:
            X, y = [*self.data[0], *X], [*self.data[1], *y]
        model = _make_default_model(control) if self.base is None else clone(self.base)
        last = model[-1] if isinstance(model, Pipeline) else model
        if isinstance(y, list) and any(label is None for own in y if isinstance(own, list) for label in own):
            seen = {label for labels in y for label in labels if label is not None}
            last.set_params(partial_labels=PartialLabels(classes=sorted(seen)))
        return model.fit(X, y)


def _make_default_model(control: Control) -> Any:
    """Return the default model for a control."""
    if control.tag == "Choices" and control.object == "Table":
        return MultiLabelCRF(random_state=0) if control.is_multiple else KernelClassifier(random_state=0)
    if control.tag == "Choices":
        return SequenceClassifier(random_state=0)
    return ChainCRF(constraints="bio" if control.object == "Text" else None, random_state=0)


def _check_inputs(field: Any, control: Control) -> None:
    """Raise ConfigurationError unless a field accepts the inputs of a control."""
    rows = isinstance(field, KernelClassifier | MultiLabelCRF)
    if rows != (control.object == "Table"):
        kind = "rows of numbers, which <Table> shows" if rows else "sequences, and <Table> shows a row"
        raise ConfigurationError(f"the model does not take the <{control.object}> of {control}: it takes {kind}")
    if rows:
        return
    sample: Any = [["word"]] if control.object == "Text" else [[[0.0] * len(control.columns)] * 2]
    try:
        field.predict(sample)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the model does not take the <{control.object}> of {control}: {error}") from error


def _data(task: Mapping[str, Any]) -> Mapping[str, Any]:
    data = task.get("data") if isinstance(task, Mapping) else None
    if not isinstance(data, Mapping):
        raise TaskError(f"a task must be an object with data, got {task!r:.60}")
    return data


def _name(task: Mapping[str, Any]) -> str:
    return f"task {task.get('id', 'without id')}"


def _describe(own: Annotation) -> str:
    return f"task {own.task}, annotation {own.id}"
