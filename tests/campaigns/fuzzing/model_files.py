"""Damaged model files: every kind of model that the golden files hold, as this version writes it.

Most cases change a value of the document or the numbers of an array and then make the checksum anew, so that damage
passes it; some damage the bytes of the file itself.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from safetensors import safe_open
from safetensors.numpy import save

from kernelfields.cli.app import app
from kernelfields.cli.models import load_model
from kernelfields.formats import ModelFileError
from kernelfields.serving import ServingError, load_chain
from tests.campaigns.fuzzing.damage import damaged_array, damaged_bytes, damaged_document, spelled_out
from tests.campaigns.fuzzing.verdicts import Case, Unsound
from tests.golden.models import FOLDER, MODELS, chains, dicts

KINDS = {
    "ChainCRF": "chain",
    "GraphCRF": "graph",
    "MultiLabelCRF": "multilabel",
    "KernelClassifier": "classifier",
    "ExponentialFamilyDensity": "density",
    "compat.CRF": "compat",
    "command": "command",
    "served": "chain",
}
#: Answers that are probabilities of classes, or of pairs of them.
_PAIRS = ("pairs", "edges")
_PROBABILITIES = ("marginals", "probit", "proba", *_PAIRS)
_LOGARITHMS = ("log_likelihood", "log_density")
_ROUNDING = 1e-6


class ModelFiles:
    """Damaged files of one kind of model; ``name`` is that of the kind."""

    suffix = ".kfm"
    #: Errors that loading may raise.
    refusals: tuple[type[BaseException], ...] = (ModelFileError,)

    def __init__(self, name: str, folder: Path | None = None):
        self.name = name
        self.folder = Path(tempfile.mkdtemp()) if folder is None else folder
        self._sources: list[tuple[str, bytes]] = []

    def prepare(self) -> None:
        """Fit the models, and ask each what will be asked of damaged ones, so that compilers have run."""
        for name, content in self.undamaged():
            case = self._case(name, content, "undamaged")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                case.use(case.load())
            self._sources.append((name, content))

    def undamaged(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of a model and its file."""
        for name in [name for name in MODELS if name.startswith(KINDS[self.name])]:
            yield name, _written(name)

    def load(self, name: str, path: Path) -> Any:
        """Read a model from a file."""
        return MODELS[name].estimator().load(path)

    def use(self, name: str, model: Any) -> None:
        """Ask a model for all that it can answer; raise Unsound where that is not sound."""
        # Of several labels each has a probability of its own, and a density has no classes.
        excluding = hasattr(model, "classes_") and self.name != "MultiLabelCRF"
        check_answers(MODELS[name].answers(model), len(model.classes_) if excluding else None)
        check_reports(model)
        if hasattr(model, "log_partition_"):
            check_density(model)

    def case(self, random: np.random.Generator) -> Case:
        """Return a damaged file."""
        name, content = self._sources[random.integers(len(self._sources))]
        if random.random() < 0.1:
            return self._case(name, damaged_bytes(content, random), "damaged bytes")
        text, arrays = _unpacked(content)
        notes = []
        for _ in range(1 + int(random.integers(3) == 0)):
            if arrays and random.random() < 0.4:
                place = sorted(arrays)[random.integers(len(arrays))]
                arrays[place], what = damaged_array(arrays[place], random)
                notes.append(f"{place} {what}")
            else:
                document = json.loads(text)
                document["document"], what = damaged_document(document["document"], random)
                text = json.dumps(document)
                notes.append(what)
        return replace(self._case(name, _packed(spelled_out(text), arrays), "; ".join(notes)), valid_checksum=True)

    def _case(self, name: str, content: bytes, note: str) -> Case:
        path = self.folder / "case.kfm"

        def load() -> Any:
            path.write_bytes(content)
            return self.load(name, path)

        return Case(load, partial(self.use, name), content, self.suffix, f"{name}: {note}", self.refusals)


class CommandModels(ModelFiles):
    """Damaged files of the command, which hold a chain and notes on how its files are read."""

    def undamaged(self) -> Iterator[tuple[str, bytes]]:
        """Yield a model that the command trains."""
        path = self.folder / "command.kfm"
        app(["train", str(FOLDER / "command" / "sentences.conll"), "-m", str(path), "-q"], standalone_mode=False)
        yield "command", path.read_bytes()

    def load(self, name: str, path: Path) -> Any:
        """Read a model with its notes."""
        return load_model(path)

    def use(self, name: str, model: Any) -> None:
        """Label a file."""
        file = model.read(str(FOLDER / "command" / "sentences.conll"), labels_required=False)
        answers = {"marginals": np.concatenate(model.crf.predict_marginals(file.X))}
        check_answers(answers, len(model.crf.classes_))
        check_reports(model.crf)


class ServedModels(ModelFiles):
    """Damaged files of chains before the reader that needs NumPy alone."""

    refusals = (ServingError,)

    def undamaged(self) -> Iterator[tuple[str, bytes]]:
        """Yield chains that can be served."""
        for name, content in super().undamaged():
            try:
                self._case(name, content, "").load()
            except ServingError:
                continue
            yield name, content

    def load(self, name: str, path: Path) -> Any:
        """Read a model as a server does."""
        return load_chain(path)

    def use(self, name: str, model: Any) -> None:
        """Label sequences."""
        X, _ = chains(2) if model.inputs.names is None else dicts(2)
        marginals, pairs = model.predict_marginals(X, cliques="edge")
        answers = {"marginals": np.concatenate(marginals), "pairs": np.concatenate(pairs)}
        check_answers({**answers, "log_partition": model.log_partition(X)}, len(model.classes_))
        model.predict(X, decode="viterbi")


@cache
def _written(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model"
        MODELS[name].fit().save(path)
        return path.read_bytes()


def _unpacked(content: bytes) -> tuple[str, dict[str, np.ndarray]]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        with safe_open(file.name, framework="numpy") as opened:
            return opened.metadata()["model"], {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


def _packed(text: str, arrays: dict[str, np.ndarray]) -> bytes:
    """Return a model file with a checksum that fits, as models/model_file.py describes it."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        digest.update(json.dumps([name, arrays[name].dtype.name, list(arrays[name].shape)]).encode())
        digest.update(arrays[name].tobytes())
    metadata = {"format": "kernelfields-model", "version": "2", "sha256": digest.hexdigest(), "model": text}
    return save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)


def check_answers(answers: dict[str, Any], n_classes: int | None) -> None:
    """Raise Unsound unless answers are finite, and distributions over ``n_classes`` sum to one."""
    for name, answer in answers.items():
        values = answer.toarray() if scipy.sparse.issparse(answer) else np.asarray(answer)
        if values.dtype.kind == "f" and name != "certificate":
            # Constraints may forbid a labelling, and a box leave out a point.
            wrong = ~(np.isfinite(values) | (np.isneginf(values) & (name in _LOGARITHMS)))
            if wrong.any():
                raise Unsound(f"{name} holds {values[wrong][0]}")
        if name not in _PROBABILITIES:
            continue
        if (values < -_ROUNDING).any() or (values > 1 + _ROUNDING).any():
            raise Unsound(f"{name} holds {values.min()} to {values.max()}")
        if n_classes is not None:
            rows = values.reshape(-1, n_classes ** (2 if name in _PAIRS else 1))
            if rows.size and abs(rows.sum(axis=1) - 1).max() > _ROUNDING:
                raise Unsound(f"{name} sum to {rows.sum(axis=1).max()}")


def check_reports(model: Any) -> None:
    """Ask a model for what it says of itself; raise Unsound where that holds NaN."""
    if type(model).__name__ == "CRF":
        _ = model.training_log_, model.classes_, model.transition_features_, model.attributes_
        model = model.chain_
    repr(model)
    for name in ("certificate_", "solution_"):
        if name == "certificate_" and getattr(model, "_certificates", True) is None:
            continue
        report = getattr(model, name, None)
        if report is None:
            continue
        text = f"{report} {report.gap:g} {report.relative_gap:g} {getattr(report, 'message', '')}"
        if "nan" in text.split():
            raise Unsound(f"{name} reads {text}")


def check_density(model: Any) -> None:
    """Raise Unsound unless a density in one or two dimensions integrates to one, within its own error."""
    axes = [np.linspace(low, high, 401) for low, high in model.box_]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    with np.errstate(over="ignore"):
        values = np.exp(model.score_samples(grid)).reshape([401] * len(axes))
    for axis in reversed(axes):
        values = np.trapezoid(values, axis, axis=-1)
    if not abs(np.log(values)) <= model.log_partition_error_ + 0.1:
        raise Unsound(f"the density integrates to {values}, its error is {model.log_partition_error_:g}")
