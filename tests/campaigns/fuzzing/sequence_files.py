"""Damaged files of sequences: columns, templates, CRFsuite's text, CSV; and settings in TOML.

What is accepted is used as training would use it: features and labels are encoded, settings become an estimator.
"""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.cli.models import build_estimator, reading_options
from kernelfields.cli.settings import RunSettings, read_settings, settings_text
from kernelfields.data.readers import InputReader
from kernelfields.estimators.kept_field import check_parameters
from kernelfields.formats import Template, read_sequences
from tests.campaigns.fuzzing.damage import damaged_bytes, damaged_text
from tests.campaigns.fuzzing.verdicts import Case, Unsound

_COLUMNS = "\n".join(
    ["# a comment", "The\tDT\tB-NP", "cat\tNN\tI-NP", "sat\tVBD\tO", "", "It\tPRP\tB-NP", "ran\tVBD\tO", "", ""]
)
_TEMPLATE = "\n".join(["# Unigram", "U00:%x[-1,0]", "U01:%x[0,0]/%x[0,1]", "U02:%suffix2[1,0]", "U03", "", "B", ""])
_CRFSUITE = "\n".join(
    ["@weight:2", "B\tw=a:0.5\tw\\:b\tbias", "I\tw=b:1e-3\tbias", "", "O\tbias:2\tx=1", "O\tw=c:.5", "", ""]
)
_CSV = "\n".join(
    ["id,x,word,label", "a,0.5,one,L", "a,1.5,two,R", 'b,-2e3,"th,ree",L', 'b,7,"qu""ote",R', "c,0,x,L", ""]
)
_PIECES = {
    "columns": (
        "\t",
        " ",
        "\t\t",
        "\0",
        "\r",
        "\ufeff",
        "#",
        "\u2028",
        "é",
        "x" * 5000,
        "\n\n",
        "-DOCSTART-",
        "\ud800",
    ),
    "templates": (
        *("%x[0,0]", "%x[0,99999999999]", "%x[-99999999,0]", "%x[,]", "%x[1,-1]", "U", "B", "B01:%x[0,0]", "%", "#"),
        *("%x[0,0", "\0", "U99:", "X01:%x[0,0]", "%t[0,0]", "%x[٣,0]", "\t"),
        *("%suffix3[0,0]", "%prefix٣[0,0]", "%suffix[0,0]", "%shape[-1,0]", "%suffix99999999999[0,0]", "%Lower[0,0]"),
    ),
    "crfsuite": (
        *(
            "\t",
            ":",
            "\\",
            "\\:",
            "@weight:",
            "@weight:-1",
            "@weight:nan",
            "@weight:1e999",
            ":nan",
            ":inf",
            "@",
            "\\\\",
        ),
        *("\\\\", ":1e999", "\0", "\r", "::", ":1_0", "\n\n"),
    ),
    "csv": (",", '"', '""', "inf", "-inf", "nan", "1e999", "1_0", "\0", "\r", ";", "\n", "label", "\ufeff", "NA", "٣"),
    "toml": (
        *(
            "=",
            "[",
            "]",
            "[[",
            "{",
            '"',
            "'''",
            "#",
            "nan",
            "inf",
            "-inf",
            "[" * 3000,
            "{a=" * 2000,
            "9" * 400,
            "1e999",
        ),
        *("1e999", "\0", "true", "[]", "[data]", "9" * 5000, "1979-05-27", "0x", "-1", "0", '""', "1e-320", "-", "'a'"),
    ),
}


class TextFiles:
    """Damaged texts of one kind: "columns", "templates", "crfsuite", "csv" or "toml"."""

    def __init__(self, name: str):
        self.name = name
        self.folder = Path(tempfile.mkdtemp())
        self.suffix = {"templates": ".template", "columns": ".tsv"}.get(name, f".{name}")

    def prepare(self) -> None:
        """Use the undamaged text."""
        case = self._case(self._text().encode(), {})
        case.use(case.load())

    def case(self, random: np.random.Generator) -> Case:
        """Return a damaged text; some are packed, and damaged again."""
        content = damaged_text(self._text(), _PIECES[self.name], random)
        if self.name not in ("templates", "toml") and random.random() < 0.1:
            content = gzip.compress(content, mtime=0)
            content = damaged_bytes(content, random) if random.random() < 0.7 else content
        return self._case(content, _OPTIONS.get(self.name, lambda random: {})(random))

    def _text(self) -> str:
        if self.name == "toml":
            settings = RunSettings(train="train.tsv", kernel="linear", prior_variance=[1.0], rank=20)
            return settings_text(settings, self.folder / "model.toml")
        return {"columns": _COLUMNS, "templates": _TEMPLATE, "crfsuite": _CRFSUITE, "csv": _CSV}[self.name]

    def _case(self, content: bytes, options: dict[str, Any]) -> Case:
        path = self.folder / f"case{self.suffix}"

        def load() -> Any:
            path.write_bytes(content)
            if self.name == "toml":
                return read_settings(path)[0]
            if self.name == "templates":
                return Template.read(path)
            given = {"sequence": "id", **options} if self.name == "csv" else options
            return read_sequences(path, self.name, **given)

        return Case(
            load,
            {"toml": _use_settings, "templates": _use_template}.get(self.name, _use_sequences),
            content,
            self.suffix,
            repr(options),
        )


def _options_of_columns(random: np.random.Generator) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if random.random() < 0.3:
        options["separator"] = ["tab", "space", "auto", "x", ""][random.integers(5)]
    if random.random() < 0.3:
        options["label"] = [-1, 0, 1, 2, 7, None][random.integers(6)]
    if random.random() < 0.3:
        options["features"] = [[0], [0, 1], [9], []][random.integers(4)]
    if random.random() < 0.2:
        options["template"] = Template.parse(_TEMPLATE, "the template")
    return options


def _options_of_tables(random: np.random.Generator) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if random.random() < 0.2:
        options["delimiter"] = [",", ";", "", "ab", "\n", '"', "\0"][random.integers(7)]
    if random.random() < 0.3:
        options["features"] = [["x"], ["x", "word"], ["none"], []][random.integers(4)]
    if random.random() < 0.2:
        options["kinds"] = [{"x": "text"}, {"x": "number"}, {"word": "number"}, {"x": "?"}][random.integers(4)]
    return options


_OPTIONS: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "columns": _options_of_columns,
    "csv": _options_of_tables,
}


def _use_sequences(file: Any) -> None:
    """Encode inputs and labels as a fit does; raise Unsound where a number is not finite."""
    data, classes = InputReader().learn(file.X, file.y, file.weights)
    inputs = data.inputs.data if scipy.sparse.issparse(data.inputs) else data.inputs
    if not (np.isfinite(inputs).all() and np.isfinite(data.weights).all()):
        raise Unsound("inputs or weights are not finite")
    if len(data.labels) != data.n_positions or not (0 <= data.labels.min() <= data.labels.max() < len(classes)):
        raise Unsound("labels do not fit the inputs")


def _use_template(template: Template) -> None:
    rows: Sequence[Sequence[str]] = [["The", "DT"], ["cat", "NN"], ["sat", "VBD"]]
    template.check_columns(2)
    features = template.features(rows)
    if len(features) != len(rows):
        raise Unsound(f"{len(features)} positions of {len(rows)}")


def _use_settings(settings: RunSettings) -> None:
    """Make what a training run makes of settings before it reads a file."""
    reading_options(settings, "columns" if settings.format == "auto" else settings.format)
    estimator = build_estimator(settings)
    check_parameters(estimator)
    repr(estimator)
