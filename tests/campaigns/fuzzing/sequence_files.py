"""Damaged files of sequences: columns, templates, CRFsuite's text, CSV, .npz; and settings in TOML.

What is accepted is used as training would use it: features and labels are encoded, settings become an estimator.
"""

from __future__ import annotations

import gzip
import io
import re
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.cli.models import build_estimator, reading_options
from kernelfields.cli.settings import RunSettings, read_settings, settings_text
from kernelfields.data.readers import InputReader
from kernelfields.formats import Template, read_sequences
from tests.campaigns.fuzzing.damage import damaged_array, damaged_bytes, damaged_text
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
    estimator.check_parameters()
    repr(estimator)


class ArrayFiles:
    """Damaged .npz files: arrays of other shapes and types, headers that claim other sizes, damaged archives."""

    name, suffix = "npz", ".npz"

    def __init__(self, name: str = "npz"):
        self.folder = Path(tempfile.mkdtemp())

    def prepare(self) -> None:
        """Use the undamaged files."""
        for sparse in (False, True):
            case = self._case(_zipped({name: _saved(array) for name, array in _arrays(sparse).items()}), "undamaged")
            case.use(case.load())

    def case(self, random: np.random.Generator) -> Case:
        """Return a damaged file."""
        arrays, notes = _arrays(bool(random.integers(2))), []
        names = list(arrays)
        for _ in range(int(random.integers(0, 3))):
            name = names[random.integers(len(names))]
            arrays[name], what = damaged_array(arrays[name], random)
            notes.append(f"{name} {what}")
        if random.random() < 0.2:
            name = names[random.integers(len(names))]
            arrays[name] = _odd_array(random)
            notes.append(f"{name} is {arrays[name].dtype} of {arrays[name].shape}")
        members = {name: _saved(array) for name, array in arrays.items()}
        if random.random() < 0.3:
            name = names[random.integers(len(names))]
            members[name] = _with_odd_header(members[name], random)
            notes.append(f"header of {name}")
        packing = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][
            random.choice(4, p=[0.4, 0.4, 0.1, 0.1])
        ]
        content = _zipped(members, packing)
        if random.random() < 0.4:
            content = _damaged_archive(content, random)
            notes.append("damaged archive")
        return self._case(content, "; ".join(notes))

    def _case(self, content: bytes, note: str) -> Case:
        path = self.folder / "case.npz"

        def load() -> Any:
            path.write_bytes(content)
            return read_sequences(path)

        return Case(load, _use_sequences, content, self.suffix, note)


def _arrays(sparse: bool) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shared = {"offsets": np.array([0, 3, 5, 8]), "y": np.array(list("abcabcab")), "weights": np.array([1.0, 2.0, 0.5])}
    dense = random.normal(size=(8, 4)) * (random.random((8, 4)) < 0.5)
    if not sparse:
        return {"X": dense, **shared}
    packed = scipy.sparse.csr_array(dense)
    parts = {"data": packed.data, "indices": packed.indices, "indptr": packed.indptr, "n_features": np.array(4)}
    return {**parts, **shared}


def _odd_array(random: np.random.Generator) -> np.ndarray:
    makers: list[Callable[[], np.ndarray]] = [
        lambda: np.zeros(8, dtype="V4"),
        lambda: np.zeros(8, dtype=[("a", "i4"), ("b", "f8")]),
        lambda: np.zeros(8, dtype="M8[s]"),
        lambda: np.zeros(8, dtype="c16"),
        lambda: np.array(3),
        lambda: np.zeros((0,)),
        lambda: np.zeros((8, 0)),
        lambda: np.array(list("abcabcab"), dtype="S1"),
        lambda: np.zeros((1000, 1000)),
        lambda: np.full(8, 2**62),
    ]
    return makers[random.integers(len(makers))]()


def _saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _with_odd_header(content: bytes, random: np.random.Generator) -> bytes:
    shape = [
        "(1000000000000,)",
        "(-1,)",
        "(8,",
        "()",
        "(2, 2, 2)",
        "(99999999999999999999999,)",
        "8",
        "(8.0,)",
        "(None,)",
    ]
    descr = ["'<f8'", "'|O'", "'<U99999999'", "'|V4'", "[('a', '<i4')]", "'x'", "1", "'<f8' * 9", "((" * 200]
    order = ["False", "True", "0", "None"][random.integers(4)]
    parts = [descr[random.integers(len(descr))], order, shape[random.integers(len(shape))]]
    header = "{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}".format(*parts)
    if random.random() < 0.2:
        header = damaged_bytes(header.encode(), random).decode("latin1")
    header = header.ljust(118) + "\n"
    start = b"\x93NUMPY" + bytes([int(random.choice([1, 1, 1, 2, 3, 9])), 0])
    return start + len(header).to_bytes(2, "little") + header.encode("latin1") + content[128:]


def _zipped(members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def _damaged_archive(content: bytes, random: np.random.Generator) -> bytes:
    """Return an archive with damaged bytes, or with one odd field in the directory at its end."""
    if random.random() < 0.5:
        return damaged_bytes(content, random)
    data = bytearray(content)
    entries = [found.start() for found in re.finditer(b"PK\x01\x02", content)]
    # Flags, packing, checksum, packed and unpacked sizes, lengths of names, where the member begins.
    field, width = [(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4)][random.integers(8)]
    place = entries[random.integers(len(entries))] + field if entries else 0
    values = [0, 1, 9, 97, 2**16 - 1, 2**31, 2**32 - 1]
    value = values[random.integers(len(values))] & (256**width - 1)
    data[place : place + width] = value.to_bytes(width, "little")
    return bytes(data)
