"""Compilation of functions with the same rounding for fresh and cached code.

Of a function that others call, numba makes machine code twice: by itself, and once more within each caller, optimised
with it. A process that compiles both runs the first, one that loads the caller from a cache runs the second. Where sums
may be reordered, the two differ in the last digits. So functions that others call, and that reorder sums or call what
does, are ``INLINED``: there is the code of the caller alone.

A function without flags of its own gets those of the caller that it is first compiled for, and its cache keeps them. So
:func:`njit` sets them all.
"""

from __future__ import annotations

from typing import Any

import numba

#: fastmath: sums may be reordered, which lets them run in vector registers; infinities and NaN keep their meaning.
REORDER = {"reassoc", "contract", "nsz"}
#: Options of functions that compiled ones alone call: they need no wrappers, which take as long to compile as loops.
INNER: Any = {"nogil": True, "cache": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
#: The same of functions that reorder sums, or call functions that do.
INLINED: Any = {**INNER, "forceinline": True}


def njit(*, fastmath: Any = False, error_model: str = "python", forceinline: bool = False, **options: Any) -> Any:
    """Return numba's decorator with all flags that a function would inherit from its callers."""
    return numba.njit(fastmath=fastmath, error_model=error_model, forceinline=forceinline, **options)
