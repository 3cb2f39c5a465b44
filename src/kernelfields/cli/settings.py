"""Kernels as the command line names them: a name or a sum of names, and numbers for their parameters.

    --kernel rbf --gamma 0.1              RBF(gamma=0.1)
    --kernel linear+poly --degree 2       Linear() + Polynomial(degree=2)

A parameter goes to every kernel of the sum that has it. Fails: ValueError for one that none has.

[[merged]] The estimator that the settings of a run describe.

[[merged]] What a training run does besides its fit: a search for settings, checkpoints. Light, for help must come fast.

[[merged]] What a training run was asked to do, as a flat TOML file beside its model, and back.

    [data]    train = "train.conll", template = "chunk.template", ...
    [field]   kernel = "rbf", gamma = 0.1, prior_variance = 1.0, ...
    [fit]     solver = "auto", tol = 0.001, random_state = 0, ...
    [output]  model = "model.safetensors"
    [checksums]  SHA-256 of the files that were read, to notice when one has changed

``kernelfields train --config model.toml`` reads it back and repeats the run. Names of files are relative to the
folder of the TOML file, so that data and models can move together. Settings without a value are left out, and then
have their defaults. Fails: ValueError naming the file, the table and the key.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
import os
import tomllib
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelfields import __version__

if TYPE_CHECKING:
    pass


PARAMETERS = ("gamma", "degree", "coef0", "nu", "length_scale")


def named_kernel(text: str, parameters: dict[str, Any], option: str = "--kernel") -> Any:
    """Return the kernel of a name; ``parameters`` that are None keep their defaults."""
    from kernelfields.kernels.registry import resolve_kernel

    parts = [resolve_kernel(name.strip()) for name in text.split("+")]
    for name, value in parameters.items():
        if value is None:
            continue
        takers = [part for part in parts if name in part.get_params(deep=False)]
        if not takers:
            raise ValueError(f"--{name.replace('_', '-')} has no meaning for {option} {text}")
        for part in takers:
            part.set_params(**{name: value})
    kernel = reduce(lambda first, second: first + second, parts)
    kernel.check_parameters()
    return kernel


def kernel_settings(kernel: Any) -> dict[str, Any]:
    """Return the settings that name a kernel which is not a sum; rules such as gamma="scale" are the default."""
    given = kernel.get_params(deep=False)
    numbers = {name: given.get(name) for name in PARAMETERS}
    return {"kernel": kernel.kind} | {
        name: None if isinstance(value, str) else value for name, value in numbers.items()
    }


@dataclass(frozen=True)
class SearchPlan:
    """What to choose from, and by what measure; ranks are that of the settings and a quarter of it unless told."""

    folds: int = 3
    scoring: str = "log_likelihood"
    prior_variances: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0, 100.0)
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True)
class CheckpointPlan:
    """Where and how often to write checkpoints, and whether to go on from the last one."""

    path: str
    seconds: float = 60.0
    resume: bool = False


def search_plan(
    search: bool, folds: int | None, scoring: str | None, prior_variances: str | None, ranks: str | None
) -> SearchPlan | None:
    """Return the search that options ask for; ValueError for options of a search that is not wanted."""
    given: dict[str, Any] = {
        "folds": folds,
        "scoring": scoring,
        "prior_variances": None
        if prior_variances is None
        else numbers(prior_variances, "--prior-variances", float),
        "ranks": None if ranks is None else numbers(ranks, "--ranks", int),
    }
    given = {
        name: tuple(each) if isinstance(each, list) else each for name, each in given.items() if each is not None
    }
    if search:
        return SearchPlan(**given)
    if given:
        raise ValueError(f"--{next(iter(given)).replace('_', '-')} is for --search, which was not asked for")
    return None


def checkpoint_plan(path: str | None, seconds: float | None, resume: bool, model: str) -> CheckpointPlan | None:
    """Return the checkpoints that options ask for; ValueError for some that cannot be."""
    if path is None:
        if resume or seconds is not None:
            option = "--resume" if resume else "--checkpoint-seconds"
            raise ValueError(f"{option} needs --checkpoint, the file to write to and to go on from")
        return None
    if os.path.realpath(path) == os.path.realpath(model):
        raise ValueError(
            "--checkpoint and --model must be different files: the checkpoint goes when the fit is done"
        )
    return CheckpointPlan(path, 60.0 if seconds is None else seconds, resume)


def numbers(text: str, option: str, kind: type) -> list:
    """Return numbers that have commas between them."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        example = "3 or 2,0" if kind is int else "0.5 or 1,0.1"
        raise ValueError(
            f"{option} takes numbers with commas between them, such as {example}, got {text!r}"
        ) from None


def one_or_more(text: str | None, option: str, kind: type) -> Any:
    """Return a number, or a list of them if there are commas."""
    if text is None:
        return None
    several = numbers(text, option, kind)
    return several[0] if len(several) == 1 else several


STANDARD_STREAM = "-"
_FILES = ("train", "dev", "template", "model", "report")
#: Settings of [fit] that become parameters of the estimator as they are.
FIT_PARAMETERS = (
    "solver",
    "tol",
    "max_iter",
    "patience",
    "dtype",
    "n_jobs",
    "engine",
    "device",
    "memory",
    "random_state",
)
_CHECKED = ("train", "dev", "template")
#: What the types of settings are called in messages.
_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list[str]": "a list of texts",
    "list[int]": "a list of whole numbers",
    "list[float]": "a list of numbers",
}


@dataclass
class RunSettings:
    """Everything that decides what a training run does; None means that the run decides."""

    # [data]
    train: str | None = None
    dev: str | None = None
    format: str = "auto"
    template: str | None = None
    columns: list[str] | None = None
    label_column: str | None = None
    sequence_column: str | None = None
    separator: str | None = None
    arrays: list[str] | None = None
    standardize: bool = False
    # [field]
    kernel: str = "auto"
    gamma: float | None = None
    degree: int | None = None
    coef0: float | None = None
    nu: float | None = None
    length_scale: float | None = None
    edge_kernel: str | None = None
    window: int | list[int] = 1
    rank: int = 1000
    basis: str = "random-cholesky"
    support: str = "all"
    min_freq: float = 0.0
    l1: float = 0.0
    prior_variance: float | list[float] = 1.0
    edge_prior_variance: float | None = None
    constraints: str | None = None
    # [fit]
    solver: str = "auto"
    tol: float = 1e-3
    max_iter: int = 100
    patience: int = 5
    dtype: str = "auto"
    n_jobs: int | None = None
    engine: str = "auto"
    device: str | None = None
    memory: str | None = None
    random_state: int = 0
    # [output]
    model: str = "model.safetensors"
    report: str | None = None

    def updated(self, given: dict[str, Any]) -> RunSettings:
        """Return a copy with what was given on the command line; None means not given."""
        return RunSettings(**{**vars(self), **{name: each for name, each in given.items() if each is not None}})

    def differences(self, other: RunSettings) -> list[str]:
        """Return in words why two runs fit different fields; where their files lie does not matter."""
        return [
            f"{name} was {getattr(other, name)!r} and is now {getattr(self, name)!r}"
            for name, table in _TABLES.items()
            if table in ("data", "field") and name not in _FILES and getattr(self, name) != getattr(other, name)
        ]


def _tables() -> dict[str, str]:
    """Return the table of every setting: each begins with one of these names."""
    heads, table = {"train": "data", "kernel": "field", "solver": "fit", "model": "output"}, ""
    tables = {}
    for each in fields(RunSettings):
        table = heads.get(each.name, table)
        tables[each.name] = table
    return tables


_TABLES = _tables()
_TYPES = {
    each.name: [part for part in str(each.type).split(" | ") if part != "None"] for each in fields(RunSettings)
}


def settings_text(settings: RunSettings, path: str | os.PathLike) -> str:
    """Return settings as the TOML text of a file at ``path``."""
    command = f"kernelfields train --config {Path(path).name}"
    parts = [f"# A training run of kernelfields {__version__}. To repeat it: {command}\n"]
    for table, entries in to_document(settings, path).items():
        lines = [f"{name} = {_toml(value)}" for name, value in entries.items()]
        parts.append("\n".join([f"\n[{table}]", *lines, ""]))
    return "".join(parts)


def read_settings(path: str | os.PathLike) -> tuple[RunSettings, dict[str, str]]:
    """Read settings from TOML, and the checksums of the files that the run read."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}") from error
    return from_document(document, path)


def to_document(settings: RunSettings, path: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """Return settings as tables of plain values, files named relative to the folder of ``path``."""
    folder = Path(os.path.realpath(path)).parent
    tables: dict[str, dict[str, Any]] = {}
    for name, table in _TABLES.items():
        value = getattr(settings, name)
        if name in _FILES:
            value = _relative(value, folder)
        if value is not None:
            tables.setdefault(table, {})[name] = value
    digests = {name: file_digest(getattr(settings, name)) for name in _CHECKED}
    tables["checksums"] = {name: digest for name, digest in digests.items() if digest is not None}
    return tables


def from_document(document: dict[str, Any], path: str | os.PathLike) -> tuple[RunSettings, dict[str, str]]:
    """Return the settings that ``to_document`` described, and the checksums of files by the names of settings."""
    checksums = document.get("checksums", {})
    if not isinstance(checksums, dict):
        raise ValueError(f"{path}: [checksums] must be a table of texts, got {checksums!r}")
    found: dict[str, Any] = {}
    for table, entries in document.items():
        if table == "checksums":
            continue
        if table not in _TABLES.values() or not isinstance(entries, dict):
            raise ValueError(f"{path}: unknown table or key {table!r}; expected [data], [field], [fit], [output]")
        for name, value in entries.items():
            if _TABLES.get(name) != table:
                raise ValueError(f"{path}: [{table}] has the unknown key {name!r}{_meant(name)}")
            found[name] = _checked(value, _TYPES[name], f"{path}: {name} in [{table}]")
    folder = Path(os.path.realpath(path)).parent
    for name in _FILES:
        if found.get(name, STANDARD_STREAM) != STANDARD_STREAM:
            found[name] = os.path.relpath(folder / found[name])
    return RunSettings(**found), checksums


def changed_files(settings: RunSettings, checksums: dict[str, str]) -> list[str]:
    """Return the files of settings that are there but are not what they were when the checksums were taken."""
    named = {name: getattr(settings, name) for name in _CHECKED if name in checksums}
    return [path for name, path in named.items() if file_digest(path) not in (None, checksums[name])]


def file_digest(path: str | None) -> str | None:
    """Return the SHA-256 of a file; None for what is not a file, such as standard input."""
    if path is None or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _relative(path: str | None, folder: Path) -> str | None:
    if path is None or path == STANDARD_STREAM:
        return path
    try:
        return Path(os.path.relpath(os.path.realpath(path), folder)).as_posix()
    except ValueError:  # on another drive of Windows
        return os.path.realpath(path)


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name, _TABLES, n=1)
    return f"; did you mean {close[0]!r} in [{_TABLES[close[0]]}]?" if close else ""


def _checked(value: Any, types: list[str], where: str) -> Any:
    """Return a value of TOML if it is of one of the types; whole numbers are numbers."""
    for each in types:
        if each.startswith("list"):
            inner = each.removeprefix("list[").removesuffix("]")
            if isinstance(value, list) and value and all(_is(item, inner) for item in value):
                return value
        elif _is(value, each):
            return float(value) if each == "float" else value
    raise ValueError(f"{where} is {value!r}, expected {' or '.join(_KINDS[each] for each in types)}")


def _is(value: Any, type_name: str) -> bool:
    if isinstance(value, bool):
        return type_name == "bool"
    return isinstance(value, {"str": str, "int": int, "float": int | float, "bool": bool}[type_name])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON writes texts as TOML does, but for the one character that only TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return str(value)
