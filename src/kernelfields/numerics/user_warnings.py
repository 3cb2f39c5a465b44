"""Messages to users: warnings with the user's line, and whether somebody sees standard error of a session."""

from __future__ import annotations

import inspect
import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parents[1])


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line of the call stack outside of the package."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def should_show_progress(verbose: int | str) -> bool:
    """Whether a job shows its progress at this level of messages; "auto" depends on the session."""
    return is_watched() if isinstance(verbose, str) else bool(verbose)


def is_watched() -> bool:
    """Whether this is an interactive session whose standard error is on a screen.

    That is a notebook, or a prompt of Python on a terminal. Scripts are not, wherever they run, nor is a session whose
    standard error goes to a file or is captured.
    """
    stream = sys.stderr
    if stream is None or not hasattr(sys, "ps1"):
        return False
    return type(stream).__module__.startswith("ipykernel") or stream.isatty()
