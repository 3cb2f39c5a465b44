"""Documents of version 0.1.0 in the form of today; see documents.py for that form.

Then every estimator had a writer of its own, kernels were kept with the clique sets alone, and of the parameters a
list by hand. What was not kept has its default. Documents are only rearranged here: what they hold is checked where
today's are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from kernelfields.fields.label_cliques import LABEL_CONTRAST, PAIR_CONTRAST

Document = Mapping[str, Any]

_OF_SOME_KINDS = ("window", "lag", "order", "group", "symmetric", "node_type")


# Parameters that there were not, or whose defaults were others.
_THEN: dict[str, dict[str, Any]] = {
    "ChainCRF": {"decode": "viterbi", "scale": False, "max_iter": 100},
    "GraphCRF": {"decode": "joint", "scale": False, "max_iter": 100, "kernel": "rbf", "prior_variance": 1.0},
    "MultiLabelCRF": {"decision": "hamming", "scale": False, "max_iter": 100},
    "KernelClassifier": {"scale": False, "max_iter": 200},
}
# What the command adds to a document.
_NOTES = "command"


def upgraded(kind: str, document: Document) -> dict[str, Any]:
    """Return a document of 0.1.0 in the form of today; KeyError and the like if it is not one."""
    notes = {_NOTES: _notes(document[_NOTES])} if _NOTES in document else {}
    today = _UPGRADES[kind](document)
    # What a field answers must not change because defaults have.
    today["parameters"] = {**_THEN.get(kind, {}), **today["parameters"]}
    return {**today, **notes}


def _notes(notes: Document) -> dict[str, Any]:
    reader = notes["reader"]
    if reader["scaling"] is not None:
        raise ValueError("its columns were scaled outside of the model, which is no longer done: train it again")
    template = {} if reader["template"] is None else {"template": reader["template"]}
    return {"settings": notes["settings"], "reading": {**reader["reading"], **template}}


def _chain(document: Document) -> dict[str, Any]:
    parameters, sets = dict(document["parameters"]), document["sets"]
    for name in ("window", "prior_variance", "edge_prior_variance"):
        parameters[name] = _tuple(parameters[name])
    parameters["basis"] = _basis(parameters["basis"])
    parameters["label_kernel"] = {"as": "label kernel", "spec": parameters["label_kernel"]}
    constraints = parameters.pop("constraints")
    if constraints.get("scheme") or any(constraints[name] for name in ("transitions", "start", "end", "labels")):
        parameters["constraints"] = {"as": "constraints", "spec": constraints}
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {"as": "dict", "items": parameters["class_weight"]}
    if parameters.pop("spelled_out"):
        parameters["cliques"] = {"as": "list", "items": [_clique(each) for each in sets]}
    else:
        # A sum of kernels is several sets of one kind.
        node, edge = ([each.get("kernel") for each in sets if each["cliques"] == kind] for kind in ("node", "edge"))
        parameters["kernel"] = _kernel(_sum(node))
        parameters["edge_kernel"] = None if edge == [None] else _kernel(_sum(edge))
    return {
        **_common(document),
        "parameters": parameters,
        "classes": document["classes"],
        "inputs": {name: document[name] for name in ("n_features", "sparse", "feature_names")},
        "structure": {"masks": document["masks"]},
        **_terms(sets),
    }


def _graph(document: Document) -> dict[str, Any]:
    cliques = {"as": "list", "items": [_clique(each) for each in document["sets"]]}
    return {
        **_common(document),
        "parameters": {**document["parameters"], "cliques": cliques},
        "classes": document["classes"],
        "inputs": {
            **{name: document[name] for name in ("n_features", "sparse", "node_types")},
            "factors": {
                name: {"n_nodes": n_nodes, "n_features": width or 0, "sparse": sparse}
                for name, n_nodes, width, sparse in document["factors"]
            },
        },
        "structure": {},
        "fitted_by": document["fitted_by"],
        **_terms(document["sets"]),
    }


def _multilabel(document: Document) -> dict[str, Any]:
    parameters = dict(document["parameters"])
    parameters["basis"] = _basis(parameters["basis"])
    parameters["prior_variance"] = _tuple(parameters["prior_variance"])
    subspaces: list[dict[str, Any]] = []
    terms: list[dict[str, Any]] = []
    kernels: dict[str, list[Any]] = {"label": [], "label pairs": []}
    for part in document["parts"]:
        whole = part["set"]
        of_labels = part["labels"] is not None
        kind, place = "label" if of_labels else "label pairs", None
        if "kernel" in whole:
            kernels[kind].append(whole["kernel"])
            place = len(subspaces)
            subspaces.append(_subspace(whole))
        for index, name in enumerate(part["names"]):
            clique = _clique(whole)
            own = {"label": int(part["labels"][index])} if of_labels else {"group": part["groups"][index]}
            for left_out in ("window", "lag", "order", "symmetric", "node_type"):
                clique["parameters"].pop(left_out, None)
            clique = {"as": "cliques", "name": kind, "parameters": {**clique["parameters"], **own, "name": name}}
            terms.append(
                {
                    "cliques": clique,
                    "name": name,
                    "subspace": place,
                    "coefficients": whole["coefficients"][:, index : index + 1].copy(),
                    "label_factor": LABEL_CONTRAST if of_labels else PAIR_CONTRAST,
                }
            )
    parameters["kernel"] = _kernel(_sum(kernels["label"]))
    parameters["edge_kernel"] = _kernel(_sum(kernels["label pairs"])) if kernels["label pairs"] else None
    edges = [{"as": "tuple", "items": [j, k]} for _, j, k in document["pairs"]]
    parameters["label_graph"] = {"as": "list", "items": edges}
    return {
        **_common(document),
        "parameters": parameters,
        "classes": document["names"],
        "inputs": _table(document),
        "structure": {"pairs": document["pairs"]},
        "fitted_by": document["fitted_by"],
        "subspaces": subspaces,
        "terms": terms,
    }


def _table(document: Document) -> dict[str, Any]:
    size = {name: document[name] for name in ("n_features", "sparse")}
    return {**size, "columns": document["feature_names"] or None}


def _classifier(document: Document) -> dict[str, Any]:
    parameters, sets = dict(document["parameters"]), document["sets"]
    parameters["basis"] = _basis(parameters["basis"])
    parameters["prior_variance"] = _tuple(parameters["prior_variance"])
    nodes = [each for each in sets if "kernel" in each]
    parameters["kernel"] = _kernel(_sum([each["kernel"] for each in nodes]))
    parameters["label_kernel"] = {"as": "label kernel", "spec": nodes[0]["label_kernel"]}
    return {
        **_common(document),
        "parameters": parameters,
        "classes": document["classes"],
        "inputs": _table(document),
        "structure": {},
        **_terms(sets),
    }


def _density(document: Document) -> dict[str, Any]:
    parameters = dict(document["parameters"])
    parameters["basis"] = _basis(parameters["basis"])
    parameters["kernel"] = _kernel(document["kernel"])
    kind = document["measure"]["kind"]
    function = {"as": "function", "name": "base_measure"}
    parameters["base_measure"] = function if kind == "function" else kind
    subspace: dict[str, Any] = {"kernel": document["kernel"], "n_coordinates": len(document["coefficients"])}
    if "pivots" in document:
        pivots = document["pivots"]
        subspace = {"kernel": document["kernel"], "factor": pivots["factor"], "indices": pivots["indices"]}
        subspace["pivots"] = pivots["inputs"]
    kept = ("box", "measure", "coefficients", "log_partition", "log_partition_error", "quadrature", "certificate")
    return {
        **{name: document[name] for name in (*kept, "n_iter", "feature_names")},
        "parameters": parameters,
        "subspace": subspace,
    }


def _compat(document: Document) -> dict[str, Any]:
    field = document["field"]
    return {**document, "field": {"chain": _chain(field["chain"])} if "chain" in field else field}


def _common(document: Document) -> dict[str, Any]:
    names = ("solution", "certificates", "laplace", "evidence_path")
    return {name: document[name] for name in names if name in document}


def _terms(sets: Sequence[Document]) -> dict[str, Any]:
    subspaces: list[dict[str, Any]] = []
    terms = []
    for each in sets:
        place = None
        if "kernel" in each:
            place = len(subspaces)
            subspaces.append(_subspace(each))
        entry = {name: each[name] for name in ("name", "coefficients", "label_factor", "pairs") if name in each}
        terms.append({**entry, "cliques": _clique(each), "subspace": place})
    return {"subspaces": subspaces, "terms": terms}


def _subspace(each: Document) -> dict[str, Any]:
    names = ("kernel", "n_coordinates", "factor", "indices", "pivots", "sparse_pivots")
    return {name: each[name] for name in names if name in each}


def _clique(each: Document) -> dict[str, Any]:
    parameters = {
        **{name: each[name] for name in _OF_SOME_KINDS if name in each},
        "kernel": _kernel(each["kernel"]) if "kernel" in each else None,
        "prior_variance": each["prior_variance"],
        "label_kernel": {"as": "label kernel", "spec": each["label_kernel"]},
        "basis": _basis(each["basis"]),
        "rank": each["rank"],
        # Files written before these existed do without.
        "support": each.get("support", "all"),
        "min_freq": each.get("min_freq", 0.0),
        "l1": each.get("l1", 0.0),
        "name": each["name"],
    }
    if "window" in parameters:
        parameters["window"] = _tuple(parameters["window"])
    return {"as": "cliques", "name": each["cliques"], "parameters": parameters}


def _kernel(spec: Any) -> dict[str, Any]:
    return {"as": "kernel", "given": "object", "spec": spec}


def _sum(specs: Sequence[Any]) -> Any:
    """Return the description of the sum of kernels; KeyError if there is none."""
    if not specs or None in specs:
        raise KeyError("kernel")
    return reduce(lambda left, right: {"kind": "sum", "left": left, "right": right}, specs)


def _basis(description: Document) -> dict[str, Any]:
    parameters = {name: value for name, value in description.items() if name != "kind"}
    return {"as": "basis", "name": description["kind"], "parameters": parameters}


def _tuple(value: Any) -> Any:
    return {"as": "tuple", "items": value} if isinstance(value, list) else value


_UPGRADES: dict[str, Callable[[Document], dict[str, Any]]] = {
    "ChainCRF": _chain,
    "GraphCRF": _graph,
    "MultiLabelCRF": _multilabel,
    "KernelClassifier": _classifier,
    "ExponentialFamilyDensity": _density,
    "compat.CRF": _compat,
}
