"""Packages that load the modules of their names on first use.

The stub ``__init__.pyi`` beside a package lists its names, for checkers of types and for :func:`lazy_names`:

    from kernelfields.estimators.chain_crf import ChainCRF as ChainCRF
    from kernelfields.inference.chain import lists_compiled as lists_compiled            a module of the package itself

The stub of a module that has no more than such names stands beside it in the same way. Methods and other attributes
of classes are taken from such modules by :func:`defer`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

Made = TypeVar("Made")

# Modules of lazy packages that register classes under names of model files, as long as they were not asked for.
_REGISTERING: set[str] = set()


def lazy_names(
    package: str, *, registering: Sequence[str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package or module from its stub.

    ``registering`` are further modules that register classes which files name, as those of the stub do then:
    ``load_registering`` loads them.
    """
    modules, own = _read_homes(package), vars(sys.modules[package])
    if registering is not None:
        _REGISTERING.update(modules.values(), registering)

    def find(name: str) -> object:
        home = modules.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        own[name] = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        return own[name]

    return find, lambda: sorted({*own, *modules}), sorted(modules)


def _read_homes(package: str) -> dict[str, str]:
    """Return the module of each public name, from ``from module import name as name`` in the stub of a package."""
    here: Any = sys.modules[package]
    stub = here.__loader__.get_data(str(Path(here.__file__).with_suffix(".pyi")))
    words = stub.decode().translate(str.maketrans("(),", "   ")).split()
    homes, module = {}, ""
    for before, word in pairwise(words):
        if before == "from":
            module = word
        elif before == "as":
            homes[word] = module
    return homes


def load_module(name: str) -> None:
    """Load a module of the package for its registrations."""
    import_module(name)


def load_registering() -> None:
    """Load every module that registers classes, for files that name one of them."""
    while _REGISTERING:
        import_module(_REGISTERING.pop())


def defer(make: Callable[[], Made]) -> Made:
    """Return an attribute for the body of a class, made on first use; functions become methods."""
    return cast(Made, _Deferred(make))


class _Deferred:
    """An attribute of a class that replaces itself by its value on first use."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = self.__func__
        return made.__get__(instance, owner) if isinstance(made, FunctionType) else made

    @property
    def __func__(self) -> Any:
        """The attribute itself, as methods have their function."""
        made = self._make()
        setattr(self._owner, self._name, made)
        return made
