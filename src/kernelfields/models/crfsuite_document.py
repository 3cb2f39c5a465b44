"""Models of CRFsuite as documents of model files, a ChainCRF whose weights were given, not fitted, and back.

    score(y | x) = sum_t sum_j x_tj w(j, y_t) + sum_t v(y_{t-1}, y_t)

State features are the weights w of a linear kernel on named inputs, one for each pair of attribute and label that the
file lists, and transitions are the table v of edges. Labels are sorted, as in every field; of equally good labellings
CRFsuite takes the first in its own order. What the file does not hold is not made up: there is no certificate, no
history of a fit and no prior variance, so that what asks for them says why it cannot answer.
Cost: one sort of the weights. Needs NumPy alone. Raises ValueError for models that no field can be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernelfields.models.crfsuite_file import CRFsuiteModel, Weights
from kernelfields.models.model_text import LAYOUT

KIND = "ChainCRF"
_INTEGERS = np.iinfo(np.int32).max
_PRIOR = {"prior_variance": np.inf, "l1": 0.0}


def describe_crfsuite(model: CRFsuiteModel) -> dict[str, object]:
    """Return the document of a ChainCRF with the weights of a model.

    Parameters
    ----------
    model : CRFsuiteModel
        What a file of CRFsuite holds.

    Returns
    -------
    dict
        The document, as :meth:`ChainCRF.to_document` writes them.

    Raises
    ------
    ValueError
        If the model has one label, or no attribute.
    """
    n_labels, n_attributes = len(model.labels), len(model.attributes)
    if n_labels < 2:
        raise ValueError(f"it has one label, {model.labels[0]!r:.60}, and a field has two or more")
    if not n_attributes:
        raise ValueError("it has no attribute with a weight, so that there is nothing to answer from")
    classes, place = np.unique(np.array(model.labels), return_inverse=True)
    states = Weights(model.states.sources, place[model.states.labels], model.states.values)
    pairs = place[model.transitions.sources] * n_labels + place[model.transitions.labels]
    edges = Weights(np.zeros_like(pairs), pairs, model.transitions.values)
    return {
        "layout": LAYOUT,
        "parameters": {
            **_PRIOR,
            "kernel": "linear",
            "support": "observed",
            "edges": {"as": "edge cliques", "parameters": {"support": "observed"}},
            "scale": False,
            "window": 1,
            "dtype": "float64",
            "decode": "viterbi",
            "random_state": 0,
        },
        "classes": classes,
        "inputs": {
            "n_features": n_attributes,
            "sparse": True,
            "columns": None,
            "feature_names": model.attributes,
            "scaling": None,
        },
        "structure": {"jointly": False},
        "subspaces": [{"kernel": {"kind": "linear"}, "n_coordinates": n_attributes}],
        "terms": [_describe_term("node", states, n_attributes), _describe_term("edge", edges, 1)],
        "fitted_by": {"method": "chain", "exact": True, "bound": "exact", "description": ""},
        "certificates": None,
        "solution": {
            "solver": "none",
            "value": 0.0,
            "lower_bound": -np.inf,
            "gradient_norm": 0.0,
            "iterations": 0,
            "passes": 0.0,
            "reason": "given",
            "history": [],
            "gap_parts": {},
        },
    }


def _describe_term(name: str, weights: Weights, n_sources: int) -> dict[str, object]:
    """Return the entry of a clique set with one coefficient for each pair of a source and a labelling."""
    order = np.lexsort((weights.labels, weights.sources))
    begin = np.searchsorted(weights.sources[order], np.arange(n_sources + 1))
    node = name == "node"
    outcomes = weights.labels[order]
    whole = np.int32 if max(len(order), int(outcomes.max(initial=0))) <= _INTEGERS else np.int64
    return {
        "name": name,
        "cliques": {
            "as": f"{name} cliques",
            "parameters": {
                **_PRIOR,
                "basis": {"as": "random-cholesky", "parameters": {}},
                "rank": 1000,
                "kernel": {"as": "kernel", "spec": {"kind": "linear"}} if node else None,
                "label_kernel": {"as": "label kernel", "spec": {"kind": "delta"}},
                "support": "observed",
                "window": 1,
            },
        },
        "subspace": 0 if node else None,
        "coefficients": weights.values[order][:, None],
        "label_factor": None,
        "pairs": {"begin": begin.astype(whole), "outcomes": outcomes.astype(whole)},
    }


def weights_of_document(document: Mapping[str, Any]) -> CRFsuiteModel:
    """Return the nonzero weights of a ChainCRF in the form of CRFsuite, and the attributes that have one.

    Parameters
    ----------
    document : dict
        The document of a field with a linear kernel on named features and one table of transitions.

    Returns
    -------
    CRFsuiteModel
        Labels and attributes in the order of the field, and the weights.

    Raises
    ------
    ValueError
        If the field has other weights.
    """
    labels, names = document["classes"].tolist(), document["inputs"].get("feature_names")
    terms = {entry["name"]: entry for entry in document["terms"]}
    if set(terms) != {"node", "edge"} or names is None or document["inputs"].get("scaling") is not None:
        raise ValueError("it has no weights of named features and of transitions")
    states, edges = _read_weights(terms["node"], len(labels)), _read_weights(terms["edge"], len(labels) ** 2)
    linear = terms["node"]["cliques"]["parameters"]["kernel"] == {"as": "kernel", "spec": {"kind": "linear"}}
    one_table = terms["edge"]["subspace"] is None and not edges.sources.any()
    if not linear or not one_table or states.sources.max(initial=0) >= len(names):
        raise ValueError("its weights do not fit the names of its features and its labels")
    known, sources = np.unique(states.sources, return_inverse=True)
    return CRFsuiteModel(
        [str(label) for label in labels],
        [names[place] for place in known.tolist()],
        Weights(sources, states.labels, states.values),
        Weights(edges.labels // len(labels), edges.labels % len(labels), edges.values),
    )


def _read_weights(entry: Mapping[str, Any], n_outcomes: int) -> Weights:
    """Return the nonzero weights of a clique set with one weight for each pair of a source and a labelling."""
    values = np.asarray(entry["coefficients"], dtype=np.float64)
    if entry["label_factor"] is not None or entry["cliques"]["parameters"].get("window") not in (None, 1):
        raise ValueError(f"weights of the set {entry['name']!r} are not those of single features and labels")
    if "pairs" in entry:
        begin, outcomes = (np.asarray(entry["pairs"][name], dtype=np.int64) for name in ("begin", "outcomes"))
        sources, values = np.repeat(np.arange(len(begin) - 1), np.diff(begin)), values.ravel()
    else:
        sources, outcomes = np.divmod(np.arange(values.size), n_outcomes)
        values = values.ravel()
    if not len(sources) == len(outcomes) == len(values) or outcomes.max(initial=0) >= n_outcomes:
        raise ValueError(f"weights of the set {entry['name']!r} do not fit its labels")
    kept = values != 0.0
    return Weights(sources[kept], outcomes[kept], values[kept])
