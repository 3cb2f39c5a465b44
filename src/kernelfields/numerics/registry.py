"""Classes by the names that model files and users have for them, registered beside each class.

    KERNELS: Registry[Kernel] = Registry("kernel")

    @KERNELS.register("rbf")
    class RBF(Kernel): ...

    KERNELS.make("rbf")                              -> RBF()
    KERNELS.name_of(RBF(0.5))                        -> "rbf"
    KERNELS.read({"kind": "rbf", "gamma": 0.5})      -> RBF, {"gamma": 0.5}

A description is a mapping with the name of the class under "kind" and its parameters under their own names, which are
those of the signature of ``__init__``. Descriptions may come from files of unknown origin: only registered classes are
returned, and nothing is imported or called. Names belong to exactly one class; a subclass is not its base class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from kernelfields.numerics.parametrized import has_defaults, parameter_defaults

T = TypeVar("T")
_Class = TypeVar("_Class", bound=type)


class Registry(Generic[T]):
    """Registered classes of one kind; ``noun`` is the word for them in error messages."""

    def __init__(self, noun: str):
        self.noun = noun
        self._classes: dict[str, type[T]] = {}
        self._shorthands: dict[str, tuple[type[T], Mapping[str, object]]] = {}

    def register(
        self, name: str, shorthands: Mapping[str, Mapping[str, object]] | None = None
    ) -> Callable[[_Class], _Class]:
        """Return a decorator that registers a class.

        Parameters
        ----------
        name : str
            The kind in descriptions. Users may give it for an object, too, if every parameter has a default.
        shorthands : dict of dicts, optional
            More names that users may give, with the parameters that they stand for.
        """

        def enter(registered: _Class) -> _Class:
            known = self._classes.get(name, registered)
            # A class that is defined again, as in a notebook, takes the place of the old one.
            if (known.__module__, known.__qualname__) != (registered.__module__, registered.__qualname__):
                raise ValueError(f"there is a {self.noun} of the kind {name!r} already, {known.__qualname__}")
            self._classes[name] = registered
            for shorthand, parameters in (shorthands or {}).items():
                self._shorthands[shorthand] = registered, parameters
            if has_defaults(registered):
                self._shorthands[name] = registered, {}
            return registered

        return enter

    def find(self, name: object) -> type[T] | None:
        """Return the class of a kind; None if there is none."""
        return self._classes.get(name) if isinstance(name, str) else None

    def __contains__(self, value: object) -> bool:
        """Whether exactly the class of an object is registered."""
        return type(value) in self._classes.values()

    def name_of(self, value: T) -> str:
        """Return the kind of exactly the class of an object; TypeError if it is not registered."""
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
        """Names that users may give for an object."""
        return list(self._shorthands)

    def make(self, name: str) -> T:
        """Return the object that a shorthand stands for; KeyError if there is none."""
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
            raise ValueError(f"unknown kind of {self.noun} {kind!r}; known are {', '.join(self._classes)}.")
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
SETTINGS: Registry[object] = Registry("setting")
