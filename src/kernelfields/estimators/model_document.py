"""A fitted ChainCRF as a document of plain values and arrays, and back.

Nothing in the document names code: kernels, bases, clique sets and constraints are rebuilt from registries of
known kinds. Parameters that only matter for fitting again (callbacks, a custom solver) are not kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis import ConstantSubspace, ExplicitSubspace, PivotSubspace, resolve_basis
from kernelfields.basis.selection import SHORTHANDS
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.field_model import FieldModel, FittedSet
from kernelfields.features import FeatureDictEncoder
from kernelfields.fields import (
    CliqueSet,
    ConstraintMasks,
    Constraints,
    EdgeCliques,
    EndCliques,
    NodeCliques,
    StartCliques,
)
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels import Constant, kernel_from_spec, label_kernel_from_spec, resolve_label_kernel
from kernelfields.posterior import Certificate
from kernelfields.solvers import Iteration, Solution

KIND = "ChainCRF"
_CLIQUES: dict[str, type[CliqueSet]] = {
    each.default_name: each for each in (NodeCliques, EdgeCliques, StartCliques, EndCliques)
}
_PLAIN = (
    "window",
    "rank",
    "prior_variance",
    "edge_prior_variance",
    "tol",
    "max_iter",
    "dtype",
    "n_jobs",
    "verbose",
    "warm_start",
)


def write_chain_crf(path: str | os.PathLike, estimator: Any) -> None:
    """Write a fitted estimator to a model file."""
    masks = estimator.model_.masks
    document = {
        "parameters": _describe_parameters(estimator),
        "classes": estimator.classes_,
        "n_features": estimator._inputs.n_features,
        "sparse": bool(estimator._inputs.sparse),
        "feature_names": None if estimator._inputs.encoder is None else estimator._inputs.encoder.spec(),
        "masks": {"edge": masks.edge, "start": masks.start, "end": masks.end, "label": masks.label},
        "sets": [_describe_set(each) for each in estimator.model_.sets],
        "solution": {**asdict(estimator.solution_), "theta": None},
        "certificates": [asdict(estimator.certificate_), asdict(estimator.rkhs_certificate_)],
    }
    write_model(path, KIND, document, {})


def read_chain_crf(cls: type, path: str | os.PathLike, callables: Mapping[str, Callable] | None) -> Any:
    """Read an estimator from a model file."""
    document, _ = read_model(path, KIND)
    try:
        return _rebuild(cls, document, callables)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{path} is not a sound {KIND} model: {error}") from error


def _rebuild(cls: type, document: dict[str, Any], callables: Mapping[str, Callable] | None) -> Any:
    sets = [_rebuild_set(each, callables) for each in document["sets"]]
    classes = np.asarray(document["classes"])
    n_labels = len(classes)
    masks = ConstraintMasks(**document["masks"])
    for name, shape in (("edge", (n_labels, n_labels)), ("start", (n_labels,)), ("end", (n_labels,))):
        if getattr(masks, name).shape != shape:
            raise ValueError(f"the constraint mask {name!r} has the wrong shape")
    for each in sets:
        if each.label_coefficients.shape != (each.subspace.rank, each.clique.n_configurations(n_labels)):
            raise ValueError(f"the coefficients of set {each.name!r} do not fit its basis and the classes")
    estimator = cls(**_rebuild_parameters(document["parameters"], sets))
    names = document["feature_names"]
    estimator._inputs = ChainInputs(
        int(document["n_features"]),
        bool(document["sparse"]),
        None if names is None else FeatureDictEncoder.from_spec(names),
    )
    estimator.classes_ = classes
    estimator.n_features_in_ = estimator._inputs.n_features
    estimator.model_ = FieldModel(sets, n_labels, masks)
    solution = dict(document["solution"])
    solution["history"] = [Iteration(**each) for each in solution["history"]]
    estimator.solution_ = Solution(**{**solution, "theta": np.concatenate([s.coefficients.ravel() for s in sets])})
    estimator.certificate_, estimator.rkhs_certificate_ = (
        Certificate(**each) for each in document["certificates"]
    )
    estimator._set_views()
    return estimator


def _describe_parameters(estimator: Any) -> dict[str, Any]:
    """Keep the parameters that are data; kernels are kept with the clique sets."""
    parameters = {name: getattr(estimator, name) for name in _PLAIN}
    basis = resolve_basis(estimator.basis)
    kind = next(name for name, each in SHORTHANDS.items() if type(basis) is each)
    parameters["basis"] = {"kind": kind, **basis.get_params()}
    parameters["label_kernel"] = resolve_label_kernel(estimator.label_kernel).spec()
    parameters["constraints"] = Constraints.of(estimator.constraints).spec()
    parameters["spelled_out"] = estimator.cliques is not None
    return parameters


def _rebuild_parameters(described: dict[str, Any], sets: list[FittedSet]) -> dict[str, Any]:
    parameters = dict(described)
    if isinstance(parameters["window"], list):
        parameters["window"] = tuple(parameters["window"])
    basis = dict(parameters["basis"])
    parameters["basis"] = SHORTHANDS[basis.pop("kind")](**basis)
    parameters["label_kernel"] = label_kernel_from_spec(parameters["label_kernel"])
    constraints = Constraints.from_spec(parameters["constraints"])
    parameters["constraints"] = None if constraints == Constraints() else constraints
    if parameters.pop("spelled_out"):
        return {**parameters, "cliques": [each.clique for each in sets]}
    node, edge = (each.clique.kernel for each in sets)
    return {**parameters, "kernel": node, "edge_kernel": edge}


def _describe_set(each: FittedSet) -> dict[str, Any]:
    clique = each.clique
    description: dict[str, Any] = {
        "cliques": clique.default_name,
        "name": each.name,
        "window": clique.window,
        "prior_variance": float(clique.prior_variance),
        "coefficients": each.coefficients,
        "label_factor": each.label_factor,
    }
    subspace = each.subspace
    if isinstance(subspace, ConstantSubspace):
        return description
    description["kernel"] = subspace.kernel.spec()
    if isinstance(subspace, ExplicitSubspace):
        description["n_coordinates"] = subspace.n_coordinates
        return description
    description["factor"] = subspace.factor
    description["indices"] = subspace.indices
    if scipy.sparse.issparse(subspace.pivots):
        pivots = subspace.pivots.tocsr()
        description["sparse_pivots"] = {
            "data": pivots.data,
            "indices": pivots.indices,
            "indptr": pivots.indptr,
            "shape": list(pivots.shape),
        }
    else:
        description["pivots"] = subspace.pivots
    return description


def _rebuild_set(description: dict[str, Any], callables: Mapping[str, Callable] | None) -> FittedSet:
    window = description["window"]
    clique_class = _CLIQUES[description["cliques"]]
    kernel = kernel_from_spec(description["kernel"], callables) if "kernel" in description else None
    clique = clique_class(
        kernel,
        window=tuple(window) if isinstance(window, list) else window,
        prior_variance=description["prior_variance"],
        name=description["name"],
    )
    if kernel is None:
        subspace: Any = ConstantSubspace(Constant(1.0))
    elif "n_coordinates" in description:
        subspace = ExplicitSubspace(kernel, int(description["n_coordinates"]))
    else:
        subspace = PivotSubspace(
            kernel, _rebuild_pivots(description), description["factor"], description["indices"]
        )
        if subspace.factor.shape != (subspace.pivots.shape[0],) * 2:
            raise ValueError(f"the basis of set {description['name']!r} is not consistent")
    return FittedSet(
        clique, description["name"], subspace, description["label_factor"], description["coefficients"]
    )


def _rebuild_pivots(description: dict[str, Any]) -> Any:
    if "pivots" in description:
        return description["pivots"]
    parts = description["sparse_pivots"]
    pivots = scipy.sparse.csr_array(
        (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
    )
    pivots.check_format(full_check=True)
    return pivots
