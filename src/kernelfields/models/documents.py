"""Fitted estimators as documents of plain values and arrays: one writer and one reader for all.

    parameters      get_params() of the estimator, value by value
    terms           clique sets, coefficients, label factors, supports; subspaces once, wherever they are shared
    solution, certificates, laplace, evidence_path, and what the estimator itself adds

Nothing in a document names code: objects such as clique sets, bases and engines are rebuilt from the classes that are
registered in ``SETTINGS`` of numerics/registry.py, each beside its own class; their fields are those of the signature.
Parameters that are code (callbacks, a solver or basis of one's own, a random generator, the client of a cluster) are
not kept; the default takes their place. A function is passed by its name when the file is read.
Raises ModelFileError, naming the file, where parts do not fit together or a number is not finite.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from kernelfields.basis.subspace import LATER_INPUT, ConstantSubspace, ExplicitSubspace, PivotSubspace, Subspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.reading import Matrix
from kernelfields.engines.named import check_engine
from kernelfields.kernels.callables import CallableKernel
from kernelfields.kernels.kernel import Constant, Kernel
from kernelfields.kernels.labels import LabelKernel, label_kernel_from_spec
from kernelfields.kernels.registry import kernel_from_spec
from kernelfields.models.build import resolve_clique
from kernelfields.models.model_file import Document, ModelFileError, model_bytes, read_model_parts, write_model
from kernelfields.models.model_text import LAYOUT
from kernelfields.models.stored_pairs import rebuild_pairs
from kernelfields.models.stored_values import check_plain_parameters, n_labellings, record
from kernelfields.numerics.registry import SETTINGS, parameter_defaults
from kernelfields.numerics.sparse_rows import is_sparse
from kernelfields.numerics.stored_arrays import finite_array, whole_array, whole_number
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.objective.bounds import Certificate
from kernelfields.objective.term import Term
from kernelfields.solvers.loop import REASONS, Iteration, Solution

# Parameters that say how a machine is used, not what is fitted: files of the same fit are the same.
_OF_THE_MACHINE = ("n_jobs",)
# What a clock has measured is not kept for the same reason, and not known of a fit that was read from a file.
_UNTIMED = {"seconds": float("nan")}
# Parameters that may be functions: those are passed by name when a file is read.
_FUNCTIONS = ("kernel",)
# Parameters of edges in older files, with their names in a clique set.
_EDGES_BEFORE = {"edge_kernel": "kernel", "edge_prior_variance": "prior_variance", "symmetric": "symmetric"}
# Parameters of older files that some classes no longer have, with the values under which they change nothing.
_RETIRED = {
    "init": "segments",
    "n_init": 1,
    "solver": "auto",
    "callbacks": None,
    "l1": 0.0,
    "warm_start": False,
    "method": "auto",
    "inner_iterations": 10,
    "entropy_weight": 0.0,
    "entropy_of": "unlabelled",
    "class_weight": None,
    "support": "all",
    "label_kernel": "delta",
    "pivots": "both",
}
# Kinds of values in older files that no parameter has any more.
_RETIRED_KINDS = ("structure search",)
_COLLECTIONS: dict[str, Callable] = {"list": list, "tuple": tuple, "set": set}
# Lists inside each other that a parameter may be.
_DEEPEST = 20
_ERRORS = (KeyError, TypeError, IndexError, AttributeError, ValueError, ArithmeticError, RecursionError)

#: Functions by name, for kernels that are code.
Functions = Mapping[str, Callable[..., Any]]
Made = TypeVar("Made")


class NotData(Exception):
    """A value without a description, such as code."""


def document_bytes(kind: str, document: Document) -> bytes:
    """Return a document as the content of a model file."""
    return model_bytes(kind, {"layout": LAYOUT, **document}, {})


def write_document(path: str | os.PathLike, kind: str, document: Document) -> None:
    """Write a document to a model file, atomically."""
    write_model(path, kind, {"layout": LAYOUT, **document}, {})


def read_any_document(path: str | os.PathLike, rebuild: Mapping[str, Callable[[Document], Made]]) -> Made:
    """Read a model file of one of several kinds by ``rebuild[kind]``; ModelFileError if it is not sound."""
    kind, document, _ = read_model_parts(path, rebuild)
    try:
        if document.get("layout") != LAYOUT:
            raise ValueError(
                "it was written by another version of kernelfields, in a form that this one does not read: fit again"
            )
        return rebuild[kind](document)
    except ModelFileError:
        raise
    except _ERRORS as error:
        raise ModelFileError(f"{path} is not a sound {kind} model: {error}") from error


def describe_parameters(owner: object) -> Document:
    """Return the parameters of an estimator, or of an object with parameters, as plain values."""
    described: Document = {}
    for name in parameter_defaults(type(owner)):
        if name in _OF_THE_MACHINE:
            continue
        value = getattr(owner, name)
        try:
            if name in _FUNCTIONS and _is_function(value):
                described[name] = {"as": "function", "name": CallableKernel(value).label()}
            else:
                described[name] = describe_value(value)
        except NotData:
            continue
    return described


def _is_function(value: object) -> bool:
    return callable(value) and not isinstance(value, Kernel | type)


def rebuild_estimator(kind: type[Made], described: Document, functions: Functions) -> Made:
    """Rebuild an estimator from the description of its parameters; plain values are checked.

    Parameters that are missing have their defaults.
    """
    parameters = _with_edges(described) if "edges" in parameter_defaults(kind) else described
    parameters = _without_retired(kind, parameters)
    estimator = kind(**{name: rebuild_value(value, functions) for name, value in parameters.items()})
    check_plain_parameters(estimator)
    if hasattr(estimator, "engine"):
        check_engine(estimator.engine)
    return estimator


def _without_retired(kind: type, described: Mapping[str, Any]) -> Document:
    """Remove retired parameters of a class from a description; warn of retired parameters in use."""
    kept = {}
    for name, value in described.items():
        if isinstance(value, Mapping) and value.get("as") in _RETIRED_KINDS:
            warn_user(
                f"{name} of {kind.__name__} was a {value['as']} in this file, which is an estimator around it now: "
                "answers are those of the fit, and the next fit is without it",
            )
        elif name in parameter_defaults(kind) or name not in _RETIRED:
            kept[name] = value
        elif isinstance(value, np.ndarray) or value != _RETIRED[name]:
            warn_user(
                f"{kind.__name__} no longer has the parameter {name}, {value!r:.60} in this file: answers are those of "
                "the fit, and the next fit is without it",
            )
    return kept


def _with_edges(described: Document) -> Document:
    """Merge the parameters of edges in older descriptions into one clique set."""
    old = {now: described[name] for name, now in _EDGES_BEFORE.items() if name in described}
    if not old:
        return described
    present = {name: value for name, value in described.items() if name not in _EDGES_BEFORE}
    if old == {"prior_variance": None}:
        return present
    kind = "graph factors" if "symmetric" in old else "edge cliques"
    types = {now: dict(own["items"]) for now, own in old.items() if isinstance(own, Mapping) and own["as"] == "dict"}
    if not types:
        return {**present, "edges": {"as": kind, "parameters": old}}
    usual = {"kernel": "auto", "prior_variance": None, "symmetric": False}

    def of_type(name: str) -> Document:
        parameters = {now: types[now].get(name, usual[now]) if now in types else own for now, own in old.items()}
        return {"as": kind, "parameters": parameters}

    names = sorted({name for named in types.values() for name in named})
    return {**present, "edges": {"as": "dict", "items": [[name, of_type(name)] for name in names]}}


def describe_value(value: object) -> object:
    """Return a parameter as plain values; NotData for code."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str | np.ndarray):
        return value
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {"as": kind, "items": [describe_value(item) for item in value]}
    if isinstance(value, set | frozenset):
        return {"as": "set", "items": [describe_value(item) for item in sorted(value, key=repr)]}
    if isinstance(value, Mapping):
        return {"as": "dict", "items": [[describe_value(key), describe_value(own)] for key, own in value.items()]}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return np.dtype(value).name
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Kernel):
        return {"as": "kernel", "spec": value.spec()}
    if isinstance(value, LabelKernel):
        return {"as": "label kernel", "spec": value.spec()}
    if value not in SETTINGS:
        raise NotData(type(value).__name__)
    return {"as": SETTINGS.find_name(value), "parameters": describe_parameters(value)}


def rebuild_value(described: object, functions: Functions, depth: int = 0) -> object:
    """Rebuild a parameter from its description; ValueError for an unknown kind."""
    if isinstance(described, list) or depth > _DEEPEST:
        raise ValueError("a parameter that is a bare list, or nested too deep")
    if not isinstance(described, Mapping):
        return described
    kind = described["as"]
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](rebuild_value(item, functions, depth + 1) for item in described["items"])
    if kind == "dict":
        pairs = ([rebuild_value(part, functions, depth + 1) for part in pair] for pair in described["items"])
        return {key: value for key, value in pairs}  # noqa: C416
    if kind == "kernel":
        return kernel_from_spec(described["spec"], functions)
    if kind == "label kernel":
        return label_kernel_from_spec(described["spec"])
    if kind == "function":
        name = described["name"]
        if name not in functions:
            raise ValueError(
                f"its parameters name the function {name!r}, which is not stored: pass callables={{{name!r}: function}}"
            )
        return functions[name]
    registered = SETTINGS.find(kind)
    if registered is None:
        raise ValueError(SETTINGS.retirement(kind) or f"a parameter of the unknown kind {kind!r}")
    parameters = {SETTINGS.present_name(kind, name): own for name, own in described["parameters"].items()}
    parameters = _without_retired(registered, parameters)
    return registered(**{name: rebuild_value(own, functions, depth + 1) for name, own in parameters.items()})


def describe_terms(terms: Sequence[Term]) -> Document:
    """Return fitted terms as plain values and arrays; a shared subspace is described once."""
    subspaces: list[Subspace] = []
    described = []
    for term in terms:
        place = None
        if not term.is_constant:
            place = next((i for i, known in enumerate(subspaces) if known is term.subspace), len(subspaces))
            if place == len(subspaces):
                subspaces.append(term.subspace)
        try:
            clique = describe_value(term.clique)
        except NotData as error:
            raise TypeError(
                f"clique set {term.name!r} is a {type(term.clique).__name__}, a class of your own, which a file of "
                "data cannot describe"
            ) from error
        entry: Document = {
            "cliques": clique,
            "name": term.name,
            "subspace": place,
            "coefficients": term.known,
            "label_factor": term.label_factor,
        }
        described.append({**entry, **term.pairs.describe_pairs()})
    return {"subspaces": [describe_subspace(subspace) for subspace in subspaces], "terms": described}


def rebuild_terms(described: Mapping[str, Any], n_labels: int, functions: Functions) -> list[Term]:
    """Rebuild terms from their descriptions; errors of any kind if they are not sound."""
    subspaces = [rebuild_subspace(subspace, functions) for subspace in described["subspaces"]]
    terms = [_rebuild_term(entry, subspaces, n_labels, functions) for entry in described["terms"]]
    if not terms:
        raise ValueError("it has no terms")
    if len({term.name for term in terms}) < len(terms):
        raise ValueError("two of its clique sets have the same name")
    return terms


def _rebuild_term(entry: Document, subspaces: Sequence[Subspace], n_labels: int, functions: Functions) -> Term:
    name, place, factor = str(entry["name"]), entry["subspace"], entry["label_factor"]
    clique = rebuild_value(entry["cliques"], functions)
    if not isinstance(clique, CliqueSet):
        raise ValueError(f"term {name!r} has no clique set")
    resolve_clique(clique)
    n_outcomes = n_labellings(clique, n_labels)
    coefficients = finite_array(entry["coefficients"], f"the coefficients of set {name!r}", (None, None))
    if factor is not None:
        factor = finite_array(factor, f"the label factor of set {name!r}", (n_outcomes, coefficients.shape[1]))
    if place is None:
        subspace: Subspace = ConstantSubspace(Constant(1.0))
    else:
        subspace = subspaces[whole_number(place, f"the basis of set {name!r}")]
    if (clique.kernel is None) != (place is None):
        raise ValueError(f"set {name!r} has a kernel without a basis, or a basis without a kernel")
    pairs = rebuild_pairs(entry, clique, subspace, n_labels)
    pairs.check_term(name, subspace, factor, coefficients)
    term = Term(clique, name, subspace, factor, pairs, coefficients)
    if term.label_coefficients.shape != (subspace.rank, n_outcomes):
        raise ValueError(f"the coefficients of set {name!r} do not fit its basis and the classes")
    return term


def check_widths(terms: Sequence[Term], width: Callable[[CliqueSet], int | None]) -> None:
    """Raise unless the terms fit inputs of ``width`` columns per clique set."""
    for term in terms:
        subspace = term.subspace
        if isinstance(subspace, PivotSubspace) and subspace.pivots.shape[1] != width(term.clique):
            columns = width(term.clique)
            raise ValueError(f"the pivots of set {term.name!r} do not have {columns} columns, as its inputs do")
        if isinstance(subspace, ExplicitSubspace):
            columns = width(term.clique)
            mapped = subspace.kernel.feature_map(scipy.sparse.csr_array((1, columns or 0)))
            if mapped is None or mapped.shape[1] != subspace.rank:
                raise ValueError(f"the coefficients of set {term.name!r} do not fit its {columns} input columns")


def describe_subspace(subspace: Subspace) -> Document:
    """Return a subspace as plain values and arrays."""
    description: Document = {"kernel": subspace.kernel.spec()}
    if isinstance(subspace, ExplicitSubspace):
        return {**description, "n_coordinates": subspace.n_coordinates}
    assert isinstance(subspace, PivotSubspace)
    description |= {"factor": subspace.factor, "indices": subspace.indices}
    if not is_sparse(subspace.pivots):
        return {**description, "pivots": subspace.pivots}
    pivots = subspace.pivots.tocsr()
    parts = {"data": pivots.data, "indices": pivots.indices, "indptr": pivots.indptr, "shape": list(pivots.shape)}
    return {**description, "sparse_pivots": parts}


def rebuild_subspace(description: Document, functions: Functions) -> PivotSubspace | ExplicitSubspace:
    """Rebuild a subspace from its description; errors of any kind if it is not sound."""
    kernel = kernel_from_spec(description["kernel"], functions)
    if "n_coordinates" in description:
        return ExplicitSubspace(kernel, whole_number(description["n_coordinates"], "the number of coordinates"))
    pivots = _rebuild_pivots(description)
    n_pivots = pivots.shape[0]
    factor = finite_array(description["factor"], "the factor of the pivots", (n_pivots, n_pivots))
    if not (np.diagonal(factor) > 0).all():
        raise ValueError("the factor of the pivots must have a positive diagonal")
    indices = whole_array(description["indices"], "the numbers of the pivots", (n_pivots,), least=LATER_INPUT)
    return PivotSubspace(kernel, pivots, factor, indices)


def _rebuild_pivots(description: Document) -> Matrix:
    what = "the pivots of a basis"
    if "pivots" in description:
        return finite_array(description["pivots"], what, (None, None))
    parts = description["sparse_pivots"]
    data = finite_array(parts["data"], what, (None,))
    n_rows, n_columns = (whole_number(length, f"the shape of {what}") for length in parts["shape"])
    indices = whole_array(parts["indices"], f"the columns of {what}", (len(data),), below=n_columns)
    rows = whole_array(parts["indptr"], f"the rows of {what}", (n_rows + 1,))
    pivots = scipy.sparse.csr_array((data, indices, rows), shape=(n_rows, n_columns))
    pivots.check_format(full_check=True)
    return pivots


def check_classes(classes: ArrayLike) -> np.ndarray:
    """Return classes as an array; ValueError for fewer than two classes, or unsorted classes."""
    labels = np.asarray(classes)
    flat = labels.ndim == 1 and labels.dtype.kind in "biufU"
    if not flat or len(labels) < 2 or not np.array_equal(np.unique(labels), labels):
        raise ValueError("the classes are not two or more sorted labels")
    return labels


def rebuild_certificate(described: object) -> Certificate:
    """Rebuild a certificate from its description; the lower bound may be minus infinity."""
    found = record(Certificate, described, "a certificate")
    if not (np.isfinite(found.value) and found.lower_bound < np.inf):
        raise ValueError(f"a certificate has the value {found.value} and the lower bound {found.lower_bound}")
    return found


def describe_solution(solution: Solution) -> Document:
    """Describe the report of a solver; coefficients are part of the terms."""
    described = without_times(solution)
    return {**described, "history": [without_times(iteration) for iteration in solution.history], "theta": None}


def without_times(record: Any) -> Document:
    """Return the fields of a dataclass without measured times."""
    return {name: value for name, value in asdict(record).items() if name not in _UNTIMED}


def rebuild_solution(described: Document, terms: Sequence[Term]) -> Solution:
    """Rebuild the solution from its description."""
    history = [_rebuild_record(Iteration, iteration, "an iteration of the fit") for iteration in described["history"]]
    theta = np.concatenate([term.known.ravel() for term in terms])
    solution = _rebuild_record(Solution, {**described, "history": history, "theta": theta}, "the solution")
    if not (np.isfinite(solution.value) and solution.lower_bound < np.inf):
        raise ValueError(f"the solution has the value {solution.value} and the lower bound {solution.lower_bound}")
    if solution.reason not in REASONS:
        raise ValueError(f"the fit ended for the unknown reason {solution.reason!r:.60}")
    return solution


def _rebuild_record(kind: type[Made], described: Mapping[str, Any], what: str) -> Made:
    """Rebuild a record with seconds from its description, also from an older file."""
    return record(kind, {**_UNTIMED, **described}, what, unknown=tuple(_UNTIMED))
