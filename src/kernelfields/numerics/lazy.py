"""Packages whose names load the modules they come from on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

# Modules of lazy packages that register classes under names of model files, as long as they were not asked for.
_REGISTERING: set[str] = set()


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], *, registers: bool = False
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose modules ``homes`` lists with their public names.

    Modules of other packages are listed by their full names. ``registers``: these modules register classes that files
    name, so that ``load_registering`` loads them.
    """
    full = {module: module if module.startswith("kernelfields.") else f"{package}.{module}" for module in homes}
    modules = {name: full[module] for module, names in homes.items() for name in names}
    if registers:
        _REGISTERING.update(full.values())

    def find(name: str) -> object:
        if name in modules:
            return getattr(import_module(modules[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find, lambda: sorted({*vars(sys.modules[package]), *modules})


def load_registering() -> None:
    """Load every module that registers classes: a file names one that nobody has used yet."""
    while _REGISTERING:
        import_module(_REGISTERING.pop())
