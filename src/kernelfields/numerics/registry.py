"""Classes by their names in model files and parameters, registered beside each class.

    KERNELS: Registry[Kernel] = Registry("kernel")

    @KERNELS.register("rbf")
    class RBF(Kernel): ...

    KERNELS.make("rbf")                              -> RBF()
    KERNELS.find_name(RBF(0.5))                        -> "rbf"
    KERNELS.read({"kind": "rbf", "gamma": 0.5})      -> RBF, {"gamma": 0.5}

A description is a mapping with the name of the class under "kind" and its parameters under their own names, which are
those of the signature of ``__init__``. Descriptions may come from files of unknown origin: only registered classes are
returned, and nothing is imported or called. Names belong to exactly one class; a subclass is not its base class.

Objects that are their parameters: kernels and other descriptions, compared, copied and printed by value.

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
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np

from kernelfields.numerics.lazy import load_module, load_registering

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
    """Whether all parameters of a class have defaults."""
    return inspect.Parameter.empty not in parameter_defaults(kind).values()


class Parametrized:
    """An object defined by its class and its parameters.

    Two objects are equal when their classes and parameters are. The hash follows the parameters as well, so do not
    change an object that is a key of a dictionary.
    """

    #: Large parameters that are never written to: copies share them, and they are not printed.
    shared: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(parameter_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default True
            Whether those of parameters that have some are returned too, as ``outer__inner``.

        Returns
        -------
        dict
            The parameters.
        """
        parameters: dict[str, object] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            nested = deep and name not in self.shared and not isinstance(value, type)
            if nested and hasattr(value, "get_params"):
                parameters.update((f"{name}__{inner}", part) for inner, part in value.get_params().items())
            parameters[name] = value
        return parameters

    def set_params(self, **parameters: object) -> Self:
        """Set parameters, nested parameters as ``outer__inner``.

        Parameters
        ----------
        **parameters : dict
            The values by name.

        Returns
        -------
        self
            The object itself.
        """
        nested: defaultdict[str, dict[str, object]] = defaultdict(dict)
        for full, value in parameters.items():
            name, separator, inner = full.partition("__")
            if name not in self._get_param_names() or (separator and name in self.shared):
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
        return type(self)(**{name: value if name in self.shared else _copy(value) for name, value in parameters})

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        defaults, everything = parameter_defaults(type(self)), not _should_hide_defaults()
        shown = {name: self._shown(name, value) for name, value in self.get_params(deep=False).items()}
        parts = [text for name, text in shown.items() if everything or text != f"{name}={defaults[name]!r}"]
        text, half = f"{type(self).__name__}({', '.join(parts)})", N_CHAR_MAX // 2
        return text if len(text) <= N_CHAR_MAX else f"{text[:half]}...{text[-half:]}"

    def _shown(self, name: str, value: object) -> str:
        """Return the representation of a parameter; large arrays by their shape."""
        if name not in self.shared or value is None:
            return f"{name}={value!r}"
        return f"{name} of shape {value.shape}" if hasattr(value, "shape") else f"{name}=..."

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parametrized) or type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(_is_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        # Arrays and foreign objects take no part: equal objects must have equal hashes, no more.
        parameters = self.get_params(deep=False).items()
        plain = (str, numbers.Number, Parametrized)
        return hash((type(self), *((name, value) for name, value in parameters if isinstance(value, plain))))


def _copy(value: object) -> object:
    return value.__sklearn_clone__() if isinstance(value, Parametrized) else copy.deepcopy(value)


def _should_hide_defaults() -> bool:
    """Whether representations omit defaults, by the option of scikit-learn if that is loaded."""
    library = sys.modules.get("sklearn")
    return library is None or bool(library.get_config()["print_changed_only"])


def _is_equal(left: object, right: object) -> bool:
    if left is right:
        return True
    if isinstance(left, np.ndarray | list) or isinstance(right, np.ndarray | list):
        return np.array_equal(np.asarray(left), np.asarray(right))
    return bool(left == right)


T = TypeVar("T")
_Class = TypeVar("_Class", bound=type)


class Registry(Generic[T]):
    """Registered classes of one kind; ``noun`` is their name in error messages.

    ``retired`` has the names that older model files hold and no class has any more, with what to use in their place.
    ``homes`` has the modules that register names, in the order in which messages list them: each loads when its name
    is first asked for.
    """

    def __init__(self, noun: str, retired: Mapping[str, str] | None = None, homes: Mapping[str, str] | None = None):
        self.noun = noun
        self.retired = retired or {}
        self.homes = homes or {}
        self._classes: dict[str, type[T]] = {}
        self._renamed: dict[str, Mapping[str, str]] = {}
        self._shorthands: dict[str, tuple[type[T], Mapping[str, object]]] = {}

    def register(
        self,
        name: str,
        shorthands: Mapping[str, Mapping[str, object]] | None = None,
        renamed: Mapping[str, str] | None = None,
    ) -> Callable[[_Class], _Class]:
        """Return a decorator that registers a class under a name.

        Parameters
        ----------
        name : str
            The kind in descriptions. Users may give it for an object, too, if every parameter has a default.
        shorthands : dict of dicts, optional
            More names that users may give, with the parameters that they stand for.
        renamed : dict, optional
            Names of parameters in older model files, with those of today.

        Returns
        -------
        callable
            The decorator.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields.kernels import Kernel, register, resolve_kernel
        >>> @register("minimum")
        ... class Minimum(Kernel):
        ...     def _block(self, X, Z):
        ...         return np.minimum(X, (X if Z is None else Z).T)
        ...     def _diagonal(self, X):
        ...         return X[:, 0]
        >>> resolve_kernel("minimum")
        Minimum()
        """

        def enter(registered: _Class) -> _Class:
            if name not in self._classes and self.homes.get(name, registered.__module__) != registered.__module__:
                load_module(self.homes[name])
            known = self._classes.get(name, registered)
            # A class that is defined again, as in a notebook, takes the place of the old one.
            if (known.__module__, known.__qualname__) != (registered.__module__, registered.__qualname__):
                raise ValueError(f"there is a {self.noun} of the kind {name!r} already, {known.__qualname__}")
            self._classes[name] = registered
            self._renamed[name] = renamed or {}
            for shorthand, parameters in (shorthands or {}).items():
                self._shorthands[shorthand] = registered, parameters
            if has_defaults(registered):
                self._shorthands[name] = registered, {}
            return registered

        return enter

    def find(self, name: object) -> type[T] | None:
        """Return the class of a kind; None for an unknown kind."""
        if not isinstance(name, str):
            return None
        if name not in self._classes and name in self.homes:
            load_module(self.homes[name])
        if name not in self._classes:
            load_registering()
        return self._classes.get(name)

    def build(self, kind: str, *values: object) -> T:
        """Return an object of a kind, from the values of its parameters in their order."""
        registered = self.find(kind)
        assert registered is not None
        return registered(*values)

    def _listed(self, names: Iterable[str]) -> list[str]:
        """Return names in the order of messages: names of the homes first, all of which are loaded."""
        for home in self.homes.values():
            load_module(home)
        places = {name: place for place, name in enumerate(self.homes)}
        return sorted(names, key=lambda name: places.get(name, len(places)))

    def present_name(self, kind: str, name: str) -> str:
        """Return the current name of a parameter from an older model file."""
        return self._renamed.get(kind, {}).get(name, name)

    def retirement(self, name: object) -> str:
        """Return the message about a retired name; empty for other names."""
        if not isinstance(name, str) or name not in self.retired:
            return ""
        return f"kernelfields no longer has the {self.noun} {name!r}: {self.retired[name]}"

    def __contains__(self, value: object) -> bool:
        """Whether exactly the class of an object is registered."""
        return type(value) in self._classes.values()

    def find_name(self, value: T) -> str:
        """Return the kind of the exact class of an object; TypeError if it is not registered."""
        for name, registered in self._classes.items():
            if registered is type(value):
                return name
        own = type(value).__name__
        raise TypeError(
            f"a {self.noun} of the class {own} has no name in model files: register the class, with "
            f"@register({own.lower()!r}) above it"
        )

    @property
    def shorthands(self) -> list[str]:
        """Names that users may write instead of an object."""
        return self._listed(self._shorthands)

    def make(self, name: str) -> T:
        """Return the object of a shorthand; KeyError for unknown names."""
        if name not in self._shorthands and name in self.homes:
            load_module(self.homes[name])
        registered, parameters = self._shorthands[name]
        return registered(**parameters)

    def read(self, description: object) -> tuple[type[T], dict[str, object]]:
        """Return the class and the parameters of a description.

        ValueError if it is of no registered class, or if parameters are missing or unknown. Parameters that a class
        lists as ``undescribed``, such as functions, are not part of descriptions.
        """
        if not isinstance(description, Mapping):
            raise ValueError(f"a {self.noun} is described by a mapping with the key 'kind', got {description!r:.200}.")
        kind = description.get("kind")
        registered = self.find(kind)
        if registered is None:
            unknown = f"unknown kind of {self.noun} {kind!r}; known are {', '.join(self._listed(self._classes))}."
            raise ValueError(self.retirement(kind) or unknown)
        undescribed = getattr(registered, "undescribed", ())
        expected = [name for name in parameter_defaults(registered) if name not in undescribed]
        parameters = {name: value for name, value in description.items() if name != "kind"}
        if set(parameters) != set(expected):
            raise ValueError(
                f"a {self.noun} of kind {kind!r} has the parameters [{', '.join(expected)}], "
                f"got [{', '.join(map(str, parameters))}]."
            )
        return registered, parameters


#: Objects with parameters that estimators take, such as clique sets, bases, engines and searches: what model files may
#: hold of them are the names under which their classes are registered, and their parameters.
SETTINGS: Registry[object] = Registry(
    "setting",
    retired={
        "segment cliques": "means over segments were best nowhere, fit a SegmentCRF without segments=",
        "gibbs": "marginals by sampling are gone, use inference='trw', 'loopy' or 'mean-field'",
    },
)
