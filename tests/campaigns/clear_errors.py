"""Whether an error was written for whoever made the call, and where it comes from.

A clear error is raised by a ``raise`` of this package, or by scikit-learn's checks of parameters and arrays. The same
type from the depths of NumPy or SciPy is not clear.
"""

from __future__ import annotations

import linecache
import traceback
from pathlib import Path

import kernelfields

_OURS = str(Path(kernelfields.__file__).parent)
# Where scikit-learn checks parameters and arrays; its messages are written for those who pass them.
_CHECKS = ("sklearn/utils/", "sklearn/base.py")


def is_raised_here(error: BaseException) -> bool:
    """Whether an error comes from a statement of the package, or from scikit-learn's checks."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return False
    place, line = frames[-1].filename, linecache.getline(frames[-1].filename, frames[-1].lineno or 0).strip()
    return (place.startswith(_OURS) and line.startswith("raise")) or any(each in place for each in _CHECKS)


def origin(error: BaseException) -> str:
    """Return the last line of this package that an error went through, and the line that it came from."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    ours = [place for place in places if place[0].startswith(_OURS)]
    shown = dict.fromkeys([*ours[-1:], *places[-1:]])
    return ", ".join(f"{'/'.join(Path(name).parts[-2:])}:{line}" for name, line in shown)
