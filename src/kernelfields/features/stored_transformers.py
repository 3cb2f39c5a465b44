"""Fitted transformers of scikit-learn as plain values and arrays, so that model files can hold them: data, never code.

Stored are the parameters with plain values, and the fitted attributes listed here, which suffice for ``transform``;
parameters that are functions, such as a score function, have their defaults in the restored transformer. Pipelines of
these transformers are stored step by step. Raises TypeError for unsupported transformers; errors of any kind for an
invalid description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from kernelfields.numerics.sparse_rows import is_sparse

_PIPELINE = "Pipeline"
_DECOMPOSED = ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_")
#: Of each class the attributes of a fit.
_STATES: dict[str, tuple[str, ...]] = {
    "StandardScaler": ("mean_", "var_", "scale_", "n_samples_seen_"),
    "MinMaxScaler": ("min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    "MaxAbsScaler": ("max_abs_", "scale_", "n_samples_seen_"),
    "RobustScaler": ("center_", "scale_"),
    "QuantileTransformer": ("quantiles_", "references_", "n_quantiles_"),
    "PowerTransformer": ("lambdas_", "_scaler"),
    "Normalizer": (),
    "SimpleImputer": ("statistics_", "indicator_"),
    "PCA": (*_DECOMPOSED, "mean_", "noise_variance_", "n_components_", "n_samples_"),
    "TruncatedSVD": _DECOMPOSED,
    "VarianceThreshold": ("variances_",),
    "SelectKBest": ("scores_", "pvalues_"),
    "CountVectorizer": ("vocabulary_",),
    "TfidfVectorizer": ("vocabulary_", "idf_"),
}
#: Those that take texts: what a parameter that is code would do to them is not kept.
_OF_TEXTS = ("CountVectorizer", "TfidfVectorizer")
_NAMES = ", ".join((*_STATES, "and pipelines of them"))
_OUTPUTS = (None, "default", "pandas", "polars")


def store_transformer(transformer: BaseEstimator) -> dict[str, Any]:
    """Convert a fitted transformer to plain values and arrays; TypeError for unsupported transformers."""
    name = type(transformer).__name__
    if type(transformer) is Pipeline:
        steps = [[own, store_transformer(step)] for own, step in transformer.steps if step not in (None, "passthrough")]
        return {"class": _PIPELINE, "steps": steps}
    if _find_class(name) is not type(transformer):
        raise TypeError(f"a file of data cannot hold a {name}: of scikit-learn's transformers it can hold {_NAMES}")
    given = {key: value for key, value in transformer.get_params(deep=False).items() if _is_plain(value)}
    state = {key: getattr(transformer, key) for key in _STATES[name] if hasattr(transformer, key)}
    if name in _OF_TEXTS:
        usual = type(transformer)().get_params(deep=False)
        for key, value in transformer.get_params(deep=False).items():
            if key not in given and value is not usual[key] and key != "vocabulary":
                raise TypeError(f"a file of data cannot hold a {name} with {key}={value!r:.60}")
        if given.get("use_idf", True) is False:
            raise TypeError("a file of data cannot hold a TfidfVectorizer without idf: take a CountVectorizer")
        state["vocabulary_"] = sorted(transformer.vocabulary_, key=transformer.vocabulary_.__getitem__)
    for key, value in state.items():
        if isinstance(value, BaseEstimator):
            state[key] = store_transformer(value)
        elif getattr(value, "dtype", np.dtype(float)).kind not in "biuf":
            raise TypeError(
                f"a file of data cannot hold a {name} of texts or objects, which has {key} of {value.dtype}"
            )
    output = getattr(transformer, "_sklearn_output_config", {}).get("transform")
    if name not in _OF_TEXTS:
        state["n_features_in_"] = transformer.n_features_in_
    return {"class": name, "parameters": given, "state": state, "output": output}


def is_text_transformer(stored: Mapping[str, Any]) -> bool:
    """Whether a stored transformer has texts, not rows of numbers, as inputs."""
    return stored["steps"][0][1]["class"] in _OF_TEXTS if stored["class"] == _PIPELINE else stored["class"] in _OF_TEXTS


def rebuild_sklearn_transformer(stored: Mapping[str, Any], n_features: int | None = None) -> Any:
    """Rebuild a stored transformer of ``n_features`` columns; errors of any kind for damaged data."""
    made, texts = _rebuild(stored), is_text_transformer(stored)
    rows: Any = [""] if texts else np.zeros((1, made.n_features_in_ if n_features is None else n_features))
    # What was forged shows: a transformer of numbers that are not finite, or for other columns, cannot do this.
    if not np.isfinite(np.asarray(_dense(made.transform(rows)))).all():
        raise ValueError("a transformer makes numbers that are not finite")
    return made


def _rebuild(stored: Mapping[str, Any]) -> Any:
    if stored["class"] == _PIPELINE:
        return Pipeline([(str(own), _rebuild(step)) for own, step in stored["steps"]])
    known = _find_class(stored["class"])
    if known is None or not set(stored["state"]) <= {*_STATES[stored["class"]], "n_features_in_"}:
        raise ValueError(f"a transformer of scikit-learn that is not known, {stored['class']!r:.60}")
    # Ranges are tuples in scikit-learn, and lists in a file.
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in stored["parameters"].items()}
    made, state = known(**given), dict(stored["state"])
    if stored["class"] in _OF_TEXTS:
        made.vocabulary_ = {str(word): place for place, word in enumerate(state.pop("vocabulary_"))}
    for key, value in state.items():
        setattr(made, key, _rebuild(value) if isinstance(value, Mapping) else value)
    if stored["class"] == "SimpleImputer":
        made._fit_dtype = made._fill_dtype = made.statistics_.dtype
    if stored["output"] not in _OUTPUTS:
        raise ValueError(f"a transformer makes {stored['output']!r:.60}")
    return made if stored["output"] is None else made.set_output(transform=stored["output"])


def _find_class(name: object) -> Any:
    """Return the scikit-learn class with a stored name; None for unknown names."""
    if not isinstance(name, str) or name not in _STATES:
        return None
    # Most pipelines have none of them, and these modules take a while to load.
    from sklearn import decomposition, feature_extraction, feature_selection, impute, preprocessing

    modules = (decomposition, feature_extraction.text, feature_selection, impute, preprocessing)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | np.integer | np.floating)


def _dense(rows: Any) -> Any:
    return rows.toarray() if is_sparse(rows) else rows
