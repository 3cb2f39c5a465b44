"""Objects that are their parameters: kernels and other descriptions, compared, copied and printed by value.

``Parametrized`` follows the conventions of scikit-learn's ``BaseEstimator`` without importing scikit-learn:
``__init__`` stores every argument unchanged under its own name, ``get_params`` and ``set_params`` reach nested
parameters by ``outer__inner``, and ``sklearn.base.clone`` and ``GridSearchCV`` work. Parameters are listed in
alphabetical order.
"""

from __future__ import annotations

import copy
import inspect
import numbers
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np

from kernelfields.numerics.sparse_rows import is_sparse

_DEFAULTS: dict[type, Mapping[str, object]] = {}


def parameter_defaults(kind: type) -> Mapping[str, object]:
    """Return the parameters of a class and their defaults, ``inspect.Parameter.empty`` where one is required."""
    if kind not in _DEFAULTS:
        arguments = inspect.signature(kind).parameters.values()
        named = [argument for argument in arguments if argument.kind is not argument.VAR_KEYWORD]
        if any(argument.kind is argument.VAR_POSITIONAL for argument in named):
            raise TypeError(f"{kind.__name__}: parameters must be named in the signature of __init__, without *args.")
        _DEFAULTS[kind] = {argument.name: argument.default for argument in sorted(named, key=lambda own: own.name)}
    return _DEFAULTS[kind]


def has_defaults(kind: type) -> bool:
    """Whether an object of a class can be made without naming a parameter."""
    return inspect.Parameter.empty not in parameter_defaults(kind).values()


class Parametrized:
    """An object described by its class and its parameters.

    Two objects are equal when their classes and parameters are. The hash follows the parameters as well, so do not
    change an object that is a key of a dictionary.
    """

    #: Large parameters that are never written to: copies share them, and they are not printed.
    shared: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(parameter_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters by name; with ``deep`` also those of parameters that have some, as outer__inner."""
        parameters: dict[str, object] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                parameters.update((f"{name}__{inner}", part) for inner, part in value.get_params().items())
            parameters[name] = value
        return parameters

    def set_params(self, **parameters: object) -> Self:
        """Set parameters, nested ones as outer__inner, and return the object."""
        nested: defaultdict[str, dict[str, object]] = defaultdict(dict)
        for full, value in parameters.items():
            name, separator, inner = full.partition("__")
            if name not in self._get_param_names():
                valid = self._get_param_names()
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {valid!r}.")
            if separator:
                nested[name][inner] = value
            else:
                setattr(self, name, value)
        for name, own in nested.items():
            getattr(self, name).set_params(**own)
        return self

    def __sklearn_clone__(self) -> Self:
        parameters = self.get_params(deep=False).items()
        return type(self)(**{name: value if name in self.shared else _copied(value) for name, value in parameters})

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        defaults, everything = parameter_defaults(type(self)), not _prints_changes_only()
        shown = {name: self._shown(name, value) for name, value in self.get_params(deep=False).items()}
        parts = [text for name, text in shown.items() if everything or text != f"{name}={defaults[name]!r}"]
        text, half = f"{type(self).__name__}({', '.join(parts)})", N_CHAR_MAX // 2
        return text if len(text) <= N_CHAR_MAX else f"{text[:half]}...{text[-half:]}"

    def _shown(self, name: str, value: object) -> str:
        """Return a parameter as it is printed; large ones, which copies share, by their shape."""
        if name not in self.shared or value is None:
            return f"{name}={value!r}"
        return f"{name} of shape {value.shape}" if hasattr(value, "shape") else f"{name}=..."

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parametrized) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_same(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        # Arrays and foreign objects take no part: equal objects must have equal hashes, no more.
        parameters = self.get_params(deep=False).items()
        plain = (str, numbers.Number, Parametrized)
        return hash((type(self), *((name, value) for name, value in parameters if isinstance(value, plain))))


def _copied(value: object) -> object:
    return value.__sklearn_clone__() if isinstance(value, Parametrized) else copy.deepcopy(value)


def _prints_changes_only() -> bool:
    """Whether defaults are left out of representations: an option of scikit-learn, where that is loaded."""
    library = sys.modules.get("sklearn")
    return library is None or bool(library.get_config()["print_changed_only"])


def _same(left: object, right: object) -> bool:
    if left is right:
        return True
    if is_sparse(left) or is_sparse(right):
        if not (is_sparse(left) and is_sparse(right)) or left.shape != right.shape:
            return False
        different = left != right
        return is_sparse(different) and different.nnz == 0
    if isinstance(left, np.ndarray | list) or isinstance(right, np.ndarray | list):
        return np.array_equal(np.asarray(left), np.asarray(right))
    return bool(left == right)
