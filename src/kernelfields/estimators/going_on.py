"""Comparison of parameters between a fit and its continuation, with ``warm_start`` or by a further batch.

    parameters                                   with warm_start                            in partial_fit
    how it is solved, and where                  as they are now                            as they are now
    weights of classes, what is known of y       as they are now                            as they are now
    how labels are decided                       as they are now                            as they are now
    prior variances, l1, which labels may meet   as they are now                            as they were
    those that describe clique sets              compared as clique sets (models/build.py)  as they were
    all others                                   as they were                               as they were

These are the only lists: a parameter that they do not name must be what it was. "auto" stands for what the first fit
has chosen, and nothing is chosen anew, so that no parameter can become "auto". Parameters are noted as text when a fit
has ended, and kept in files, so that what is compared are those of the fit, whatever was set, saved and loaded since.
Raises ValueError that names the parameter, what it was and is, and what to do.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.numerics.parameters import is_auto, should_learn_settings
from kernelfields.numerics.registry import parameter_defaults

#: How and where a field is fitted, which says nothing about it: not even noted.
_SOLVING = (
    *("solver", "tol", "max_iter", "dtype", "n_jobs", "engine", "random_state", "verbose", "callbacks", "warm_start"),
    *("class_weight", "partial_labels"),
)
#: How labels are decided, once they have probabilities.
_DECIDING = ("decode", "decision", "inference")
# Those for which a fit may learn thresholds.
_LEARNT = ("decode", "decision")
_REGULARISED = ("prior_variance", "bias_prior_variance", "l1")
_MEETING = ("constraints", "allowed", "max_duration", "min_duration", "repeats")
#: What describes clique sets, together: kernel="auto" and the kernel that was chosen make the same ones.
_OF_CLIQUES = ("kernel", "edges", "rank", "basis", "support", "cliques", "durations")
#: Parameters that mean something else by None: no biases; what the data of the first fit show.
_UNLIKE_NONE = ("bias_prior_variance", "max_duration")
# Longer descriptions are cut, and end in a checksum.
_LONGEST = 300


def parameters_as_text(estimator: BaseEstimator) -> dict[str, str]:
    """Return the parameters that define a fit as text, equal for equal values."""
    given = estimator.get_params(deep=False)
    described = {name: value_as_text(value) for name, value in given.items() if name not in _SOLVING}
    if "features" in described:
        described["features"] = features_as_text(given["features"])
    return described


def features_as_text(features: Any) -> str:
    """Return a transformer, a list of transformers or None as text."""
    if features is None or isinstance(features, str):
        return value_as_text(features)
    from kernelfields.features.choice import resolve_features

    return value_as_text(resolve_features(features))


def value_as_text(value: Any) -> str:
    """Return a parameter as text; functions by their names."""
    text = _in_words(value)
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... {hashlib.sha256(text.encode(errors='backslashreplace')).hexdigest()[:16]}"


def _in_words(value: Any) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return f"array({_in_words(value.tolist())})"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_in_words, value))}]"  # a list means what a tuple does, and takes its place in files
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_in_words, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_in_words(key)}: {_in_words(own)}' for key, own in value.items())}}}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        # scikit-learn shortens the representation of long parameters.
        usual, given = parameter_defaults(type(value)), value.get_params(deep=False)
        words = {name: _in_words(own) for name, own in given.items()}
        changed = [f"{name}={own}" for name, own in words.items() if name not in usual or own != _in_words(usual[name])]
        return f"{type(value).__name__}({', '.join(changed)})"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def refuse_changes(estimator: Any, *, batch: bool) -> None:
    """Raise if a changed parameter prevents the continuation of a fit."""
    if estimator._lacks_features:
        raise ValueError(
            "the field comes from a file of an older version, without the features that l1 had left no weight: a fit "
            "that goes on would do without them. Set warm_start=False to start afresh"
        )
    free = _DECIDING if batch else (*_DECIDING, *_REGULARISED, *_MEETING, *_OF_CLIQUES)
    present = parameters_as_text(estimator)
    for name, was in (estimator._fitted_with or {}).items():
        now = present.get(name, was)
        if now == was or (name in free and not _is_left_open(name, getattr(estimator, name), was)):
            continue
        if batch:
            raise ValueError(f"{name} was {was:.200} in the first batch and is {now:.200}: set it back, or fit afresh")
        raise ValueError(
            f"warm_start=True continues the fitted field, and {name} was {was:.200} in its fit and is now {now:.200}: "
            "set it back, clone the estimator, or set warm_start=False to start afresh"
        )


def changes_of_cliques(estimator: Any) -> str:
    """Return the changed parameters of clique sets as text; empty without changes."""
    noted, present = estimator._fitted_with or {}, parameters_as_text(estimator)
    changed = [name for name in _OF_CLIQUES if noted.get(name, "") != present.get(name, "") and name in noted]
    words = [f"{name} was {noted[name]:.100} and is now {present[name]:.100}" for name in changed]
    return f" ({', '.join(words)})" if words else ""


def has_learnt_to_decide(estimator: Any) -> bool:
    """Whether the last fit has learnt the settings of the present decision, if it has any."""
    if not should_learn_settings(estimator):
        return True
    noted = estimator._fitted_with or {}
    return all(noted[name] == value_as_text(getattr(estimator, name)) for name in _LEARNT if name in noted)


def _is_left_open(name: str, now: Any, was: str) -> bool:
    """Whether a parameter has become "auto", or has changed its type."""
    if name in _DECIDING:
        return False
    return is_auto(now) or (name in _UNLIKE_NONE and now is None) or (name == "bias_prior_variance" and was == "None")


def note_parameters(estimator: Any) -> None:
    """Store the present parameters as parameters of the fit."""
    estimator._fitted_with = parameters_as_text(estimator)


def get_noted_parameters(estimator: BaseEstimator, noted: object) -> dict[str, str]:
    """Return the stored parameters of the fit of a file; for older files the present parameters."""
    if noted is None:
        return parameters_as_text(estimator)
    if not isinstance(noted, Mapping) or not all(isinstance(text, str) for text in noted.values()):
        raise ValueError("the parameters of its fit are not described in words")
    return {str(name): text for name, text in noted.items()}
