"""Settings of a training run: declared once, options of ``train``, and a TOML file beside the model.

A new option is one field of ``RunSettings``: its name, type, text and default, the table of the settings file, and
the object whose parameter it is. The options of ``train``, their reading, the file and its checks, and
the parameters of the estimator follow from it.

    [data]    train = "train.conll", template = "chunk.template", ...
    [field]   kernel = "rbf", gamma = 0.1, prior_variance = 1.0, ...
    [fit]     solver = "auto", tol = 0.001, random_state = 0, ...
    [output]  model = "model.safetensors"
    [checksums]  SHA-256 of the input files, to detect changes

``kernelfields train --config model.toml`` reads the file back and repeats the run. File names are relative to
the folder of the TOML file, so that data and models can be moved together. Settings without a value are omitted, and
have their defaults. Raises ValueError with the option, or with the file, the table and the key.
"""

# ruff: noqa: RUF009 - the calls in the dataclass return dataclasses.field

from __future__ import annotations

import difflib
import hashlib
import json
import math
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import typer

from kernelfields import __version__

STANDARD_STREAM = "-"
#: Parameters of an estimator, a kernel or a reader, by name; checked by what takes them.
Parameters: TypeAlias = dict[str, Any]
#: Values of settings.
Value: TypeAlias = str | int | float | bool | list | None
#: More threads than machines have cores, seeds as scikit-learn takes them, and what every machine can count to.
MOST_THREADS, LARGEST_SEED, LARGEST_COUNT = 4096, 2**32 - 1, 2**31 - 1
# Bytes of a settings file; those that the command writes have some thousands.
_LARGEST = 2**20
_TABLES = ("data", "field", "fit", "output")
#: What the types of settings are called in messages.
_KINDS: dict[object, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list[str]: "a list of texts",
    list[int]: "a list of whole numbers",
    list[float]: "a list of numbers",
}


@dataclass(frozen=True)
class Setting:
    """A setting of a training run: its option, its key in the settings file, and its help.

    ``names`` are those of the option, none for the argument. A setting without a ``table`` is for one call and is
    never written. ``part`` is what the setting is a parameter of, ``only`` the one kind of field that it has a meaning
    for. Whole numbers lie between ``least``, where the library would not refuse less, and ``most``. ``name``,
    ``types`` and ``default`` are those of the field.
    """

    names: tuple[str, ...]
    text: str
    panel: str | None = None
    table: Literal["data", "field", "fit", "output"] | None = None
    metavar: str | None = None
    shown: str | None = None
    file: Literal["read", "written"] | None = None
    part: Literal["reading", "kernel", "nodes", "edges", "segments", "estimator"] | None = None
    only: Literal["chains", "segments"] | None = None
    least: int = -LARGEST_COUNT
    most: int = LARGEST_COUNT
    name: str = ""
    types: tuple[type, ...] = ()
    default: object = None

    @property
    def several(self) -> type | None:
        """The type of list entries; None for a single value."""
        return next((kind for kind in self.types if get_origin(kind) is not None), None)

    def parameter(self) -> Parameter:
        """Return the option as a parameter of typer, with the default None."""
        kind = self.types[0] if self.several is None else str
        metavar = self.metavar or ("FILE" if self.file else {int: "N", float: "NUMBER"}.get(kind))
        option: object = typer.Argument(help=self.text, metavar=metavar)
        if self.names:
            # The texts of options of one call describe what happens without them.
            shown = self.table is not None and self.default is not None and self.default is not False
            option = typer.Option(
                *self.names,
                help=self.text,
                rich_help_panel=self.panel,
                metavar=metavar,
                show_default=self.shown or (f"{self.default}" if shown else False),
            )
        return Parameter(self.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])

    def read(self, value: Value) -> Value:
        """Parse a value from the command line; lists are texts with commas."""
        if self.several is None or not isinstance(value, str):
            return self._check_bounds(value, self._option_name)
        (kind,), parts = get_args(self.several), value.split(",")
        try:
            values = list(map(kind, parts))
        except ValueError:
            if str in self.types:
                return value
            example = "3 or 2,0" if kind is int else "0.5 or 1,0.1"
            raise ValueError(
                f"{self.names[0]} takes numbers with commas between them, such as {example}, got {value!r}"
            ) from None
        self._check_bounds(values, self._option_name)
        return values[0] if kind in self.types and len(values) == 1 else values

    def check(self, value: object, where: str) -> Value:
        """Return a value from TOML if it has the right type; integers are accepted as floats."""
        for kind in self.types:
            if get_origin(kind) is list:
                (own,) = get_args(kind)
                if isinstance(value, list) and value and all(_has_type(item, own) for item in value):
                    return (
                        [_as_float(item, where) for item in value] if own is float else self._check_bounds(value, where)
                    )
            elif isinstance(value, str | int | float | bool) and _has_type(value, kind):
                return _as_float(value, where) if kind is float else self._check_bounds(value, where)
        raise ValueError(f"{where} is {value!r}, expected {' or '.join(_KINDS[kind] for kind in self.types)}")

    @property
    def _option_name(self) -> str:
        """The name of the option in messages."""
        return self.names[0] if self.names else self.name

    def _check_bounds(self, value: Value, where: str) -> Value:
        """Return a value, or raise if it is out of bounds."""
        if int in self.types or get_args(self.several)[:1] == (int,):
            for number in value if isinstance(value, list) else [value]:
                if isinstance(number, int) and not self.least <= number <= self.most:
                    bound = f"at least {self.least}" if number < self.least else f"at most {self.most}"
                    raise ValueError(f"{where} must be {bound}, got {_shorten(number)}")
        return value


def _as_float(value: float | str, where: str) -> float:
    """Return a number as float, other values unchanged."""
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{where} is {_shorten(value)}, larger than numbers can be") from None


def _shorten(number: object) -> str:
    """Shorten a text for messages."""
    text = str(number)
    return text if len(text) <= 24 else f"{text[:20]}..."


def _has_type(value: object, kind: type) -> bool:
    """Whether a value has a type."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _declare(**shared: object) -> Callable[..., Any]:
    """Return a function that declares settings of a table."""

    def setting(text: str, default: Value = None, *names: str, **about: object) -> object:
        """Declare a setting; ``names`` are further options beside its name, ``names=`` replaces them."""
        return field(default=default, metadata={"setting": (text, names, {**shared, **about})})

    return setting


_data = _declare(panel="The files", table="data")
_reading = _declare(panel="The files", table="data", part="reading")
_output = _declare(panel="The files", table="output", file="written")
_field = _declare(panel="The field", table="field")
_kernel = _declare(panel="The field", table="field", part="kernel")
_nodes = _declare(panel="The field", table="field", part="nodes")
_edges = _declare(panel="The field", table="field", part="edges")
_segments = _declare(panel="Segments", table="field", part="segments", only="segments")
_fit = _declare(panel="The fit", table="fit", part="estimator")


@dataclass
class RunSettings:
    """Settings of a training run; None for automatic choices."""

    train: str | None = _data("Training file; - is standard input.", names=(), file="read")
    model: str = _output("The model; the settings go beside it.", "model.safetensors", "-m")
    config: str | None = _data("Settings of an earlier run; options win.", None, "-c", file="read", table=None)
    dev: str | None = _data("Development file: stop when it gets no better.", file="read")
    format: str = _data("columns, conllu, crfsuite or csv; auto goes by the name.", "auto", metavar="NAME")
    template: str | None = _reading("CRF++ template for column files; else text features.", None, "-t", file="read")
    columns: list[str] | None = _reading("Columns of the inputs, such as 0,1, or names for CSV.", metavar="N,N")
    label_column: str | None = _reading("Column of the labels, from 0, -1 the last; CSV: its name.", metavar="N")
    unknown_label: str | None = _data(
        "How the file writes a label that is not known; else ?, in CoNLL-U also _.", metavar="TEXT"
    )
    label_sets: str | None = _data("What stands between labels of which one is right, such as |.", metavar="TEXT")
    sequence_column: str | None = _reading("CSV: column that separates sequences.", metavar="NAME")
    time_features: list[str] | None = _reading(
        "CSV: numbers to make of date-times: hour, weekday, step.", metavar="NAME,NAME"
    )
    separator: str | None = _reading("tab or space; for CSV any character.", metavar="NAME")
    standardize: bool | None = _data("Scale columns of numbers to mean 0, spread 1. Else chosen.", negated=True)
    report: str | None = _output("Write an HTML report of the fit here.")

    kernel: str = _field(
        "linear, rbf, poly, matern, ..., or a sum: linear+rbf; auto is linear for named features, for others chosen.",
        "auto",
        "-k",
    )
    gamma: float | None = _kernel("Of rbf, laplacian, poly; else from the data.")
    degree: int | None = _kernel("Of poly.")
    coef0: float | None = _kernel("Of poly.")
    nu: float | None = _kernel("Of matern.")
    length_scale: float | None = _kernel("Of matern; else from the data.")
    edge_kernel: str | None = _edges("Lets transitions depend on the inputs, such as linear.")
    window: int | list[int] | str | None = _nodes(
        "Positions a kernel sees: 3, or before,after: 2,0; or statistics of 5, 15, 45. Else 1 or statistics, chosen."
    )
    rank: int | None = _nodes("Most basis functions of a kernel; 0 for no limit. Else chosen, at most 1000.")
    basis: str = _nodes("random-cholesky, greedy-cholesky, uniform, gradient or all.", "random-cholesky")
    support: str | None = _nodes("all, or observed: weights for pairs seen only. Else chosen.", only="chains")
    min_freq: float = _nodes("With --support observed: how often seen.", 0.0, only="chains")
    l1: float | None = _nodes("Weight of absolute values. Else chosen.", only="chains")
    prior_variance: float | list[float] | None = _nodes(
        "Of the Gaussian prior; larger fits closer. Or 1,0.1 for parts of a sum. Else chosen on held-out sequences."
    )
    edge_prior_variance: float | None = _edges("Of the transitions; else as above.")
    constraints: str | None = _field("Scheme of entity labels: bio, iob1, bioes or bilou.", part="estimator")
    strict_labels: bool | None = _field("Labels that break the scheme are an error; else they are mended.")
    allowed_by: str | None = _field(
        "Feature that labels have to be seen with: word= for text, U02: of a template, the number of a column.",
        metavar="NAME",
    )
    allowed_min_count: int | None = _field("Values seen less often, 5 by default, may have any label.", least=1)

    segments: bool | None = _segments(
        "Score runs of equal labels as wholes, by how long they last: a SegmentCRF.", negated=True, part=None, only=None
    )
    max_duration: int | None = _segments(
        "Most positions of a segment; else twice the longest of the training file.", least=1
    )
    repeats: bool | None = _segments("A segment may follow one of its own label; longer runs are cut.", negated=True)
    duration_prior_variance: float | None = _segments("Of the scores of durations; else as above.")

    solver: str = _fit("newton, newton-cg, block-jacobi, subspace, lbfgs or auto.", "auto")
    tol: float | None = _fit("Relative duality gap to stop at; else 1e-3, or 1e-3 nats a position.")
    max_iter: int = _fit("Most iterations.", 1000)
    dtype: str = _fit("float32, float64 or auto.", "auto")
    n_jobs: int | None = _fit(
        "Threads; -1 means all cores.", None, "-j", panel=None, shown="all cores", most=MOST_THREADS
    )
    engine: str = _fit("threads, torch or auto: where the fit runs.", "auto")
    random_state: int = _fit("Of all that is random.", 0, names=("--seed",), most=LARGEST_SEED)

    def part(self, part: str) -> Parameters:
        """Return the settings of one group as keyword arguments."""
        return {name: value for name, value in asdict(self).items() if SETTINGS[name].part == part}


def _collect_settings() -> dict[str, Setting]:
    """Return the declared settings by name, in the order of the options."""
    settings, hints = {}, get_type_hints(RunSettings)
    for declared in fields(RunSettings):
        name, hint = declared.name, hints[declared.name]
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        types = tuple(kind for kind in kinds if kind is not NoneType)
        text, others, about = declared.metadata["setting"]
        option = "--" + name.replace("_", "-")
        option += f"/--no-{option[2:]}" if about.pop("negated", False) else ""
        names = about.pop("names", (option, *others))
        settings[name] = Setting(names, text, name=name, types=types, default=declared.default, **about)
    return settings


SETTINGS = _collect_settings()
#: The settings that are written to the file, in its order.
_WRITTEN = {name: setting for table in _TABLES for name, setting in SETTINGS.items() if setting.table == table}
_FILES = [name for name, setting in _WRITTEN.items() if setting.file]
_FILES_READ = [name for name, setting in _WRITTEN.items() if setting.file == "read"]


def collect_given_settings(options: Mapping[str, Value]) -> Parameters:
    """Return the values of options that occur on the command line, by setting name."""
    values = {name: SETTINGS[name].read(value) for name, value in options.items()}
    return {name: value for name, value in values.items() if value is not None}


def settings_text(settings: RunSettings, path: str | os.PathLike) -> str:
    """Format settings as TOML for a file at ``path``."""
    command = f"kernelfields train --config {Path(path).name}"
    parts = [f"# A training run of kernelfields {__version__}. To repeat it: {command}\n"]
    for table, entries in to_document(settings, path).items():
        lines = [f"{name} = {_to_toml(value)}" for name, value in entries.items()]
        parts.append("\n".join([f"\n[{table}]", *lines, ""]))
    return "".join(parts)


def read_settings(path: str | os.PathLike) -> tuple[RunSettings, dict[str, str]]:
    """Read settings and checksums of files from TOML."""
    with open(path, "rb") as file:
        # Devices and pipes may never end.
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a file: give the path of the settings themselves")
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{path} is larger than {_LARGEST} bytes, which settings never are: is it another file?")
    try:
        document = tomllib.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path} cannot be read as TOML: its values are nested too deep") from error
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}") from error
    return from_document(document, path)


#: Keys of older files that no setting has any more.
_RETIRED = ("patience",)


def to_document(settings: RunSettings, path: str | os.PathLike) -> dict[str, dict[str, Value]]:
    """Convert settings to tables of plain values, with file names relative to the folder of ``path``."""
    folder = Path(os.path.realpath(path)).parent
    tables: dict[str, dict[str, Value]] = {}
    values = asdict(settings)
    for name, setting in _WRITTEN.items():
        value = values[name]
        if setting.file:
            value = _relative_path(value, folder)
        if value is not None:
            tables.setdefault(str(setting.table), {})[name] = value
    digests = {name: file_digest(values[name]) for name in _FILES_READ}
    tables["checksums"] = {name: digest for name, digest in digests.items() if digest is not None}
    return tables


def from_document(document: Mapping, path: str | os.PathLike) -> tuple[RunSettings, dict[str, str]]:
    """Restore settings and checksums from the tables of ``to_document``."""
    checksums = document.get("checksums", {})
    if not isinstance(checksums, dict):
        raise ValueError(f"{path}: [checksums] must be a table of texts, got {checksums!r}")
    values: Parameters = {}
    for table, entries in document.items():
        if table == "checksums":
            continue
        if table not in _TABLES or not isinstance(entries, dict):
            raise ValueError(f"{path}: unknown table or key {table!r}; expected [data], [field], [fit], [output]")
        for name, value in entries.items():
            if name in _RETIRED:
                continue
            if name not in _WRITTEN or _WRITTEN[name].table != table:
                raise ValueError(f"{path}: [{table}] has the unknown key {name!r}{_suggest_name(name)}")
            values[name] = _WRITTEN[name].check(value, f"{path}: {name} in [{table}]")
    folder = Path(os.path.realpath(path)).parent
    for name in _FILES:
        if values.get(name, STANDARD_STREAM) != STANDARD_STREAM:
            values[name] = os.path.relpath(folder / values[name])
    return RunSettings(**values), checksums


def find_changed_files(settings: RunSettings, checksums: dict[str, str]) -> list[str]:
    """Return the existing files of settings whose checksum has changed."""
    paths = {name: path for name, path in asdict(settings).items() if name in _FILES_READ and name in checksums}
    return [path for name, path in paths.items() if file_digest(path) not in (None, checksums[name])]


def file_digest(path: str | None) -> str | None:
    """Return the SHA-256 of a file; None for standard input and other irregular files."""
    if path is None or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _relative_path(path: str | None, folder: Path) -> str | None:
    """Return a file name relative to a folder."""
    if path is None or path == STANDARD_STREAM:
        return path
    try:
        return Path(os.path.relpath(os.path.realpath(path), folder)).as_posix()
    except ValueError:  # on another drive of Windows
        return os.path.realpath(path)


def _suggest_name(name: str) -> str:
    """Suggest the setting with the most similar name; empty without one."""
    close = difflib.get_close_matches(name, _WRITTEN, n=1)
    return f"; did you mean {close[0]!r} in [{_WRITTEN[close[0]].table}]?" if close else ""


def _to_toml(value: Value) -> str:
    """Format a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON writes texts as TOML does, but for the one character that TOML alone escapes.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_to_toml, value)) + "]"
    return str(value)
