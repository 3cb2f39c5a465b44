"""Warnings with the user's line, whatever the number of frames of the package."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1])


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line of the call stack outside of the package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
