"""Counts of numbers compared, of refusals in words, and what failed.

One check is one number compared: an entry of a table of marginals, a log-probability, a label. A labelling that has to
be one of the best, or a set that has to be the same, is one check however long it is.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.campaigns.clear_errors import is_raised_here
from tests.campaigns.fields.drawn import Redraw
from tests.campaigns.fields.tally import Tally, shown

_CLEAR = (ValueError, TypeError, AttributeError, ImportError)


class Refused(Exception):
    """The package refused in words what was tried; nothing follows from it."""


class Unlawful(Exception):
    """There is no formula of what is left to the data; nothing is compared."""


class Count(Tally):
    """A tally in which a comparison of many numbers counts as many."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: Counter[str] = Counter()
        self.problems = 0
        #: What is being compared, before the name of each comparison.
        self.stage = ""

    def check(self, what: str, right: bool, text: str = "", size: int = 1) -> None:
        """Count one comparison of ``size`` numbers; an empty one is none."""
        self.counts[f"{self.stage}: {what}"] += size
        if not right:
            self.failures.append(f"{self.stage}: {what} is wrong: {text}\n    {self.where}")

    def near(self, what: str, found: Any, expected: Any, atol: float) -> None:
        """Count a comparison of numbers by its entries; infinities must be the same."""
        found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        if found.shape != expected.shape:
            self.check(what, False, f"shape {found.shape}, expected {expected.shape}")
            return
        with np.errstate(invalid="ignore"):
            close = np.abs(found - expected) <= atol + 1e-9 * np.abs(expected)
        right = bool(((found == expected) | (np.isfinite(expected) & close)).all())
        text = "" if right else f"{shown(found)}, expected {shown(expected)}"
        self.check(what, right, text, found.size)

    def same(self, what: str, found: Any, expected: Any) -> None:
        """Count a comparison of values that must be equal to the last bit, or be the same labels."""
        found, expected = np.asarray(found), np.asarray(expected)
        numbers = found.dtype.kind == "f" and expected.dtype.kind == "f"
        right = found.shape == expected.shape and bool(np.array_equal(found, expected, equal_nan=numbers))
        self.check(what, right, "" if right else f"{_told(found)}, expected {_told(expected)}", max(1, found.size))

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """Count an answer that does not come as wrong."""
        try:
            yield
        except (Redraw, Refused, Unlawful):
            raise
        except NotImplementedError:  # a kernel that the oracle has no formula of
            raise Unlawful(what) from None
        except Exception as error:  # noqa: BLE001 - whatever comes is what is looked for
            self._raised(what, error)

    @contextmanager
    def trying(self, what: str) -> Iterator[None]:
        """Let what is tried be refused in words, which :class:`Refused` tells; other errors are failures."""
        try:
            yield
        except (Redraw, Refused, Unlawful):
            raise
        except Exception as error:
            if isinstance(error, _CLEAR) and is_raised_here(error) and "\n" not in str(error):
                self.refusals[f"{what}: {error!s:.90}"] += 1
            else:
                self._raised(what, error)
            raise Refused(what) from error

    def _raised(self, what: str, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if "kernelfields" in frame.filename]
        place = f"{Path((own or frames)[-1].filename).name}:{(own or frames)[-1].lineno}"
        self.check(what, False, f"{type(error).__name__} at {place}: {error!s:.300}")


def _told(values: np.ndarray) -> str:
    return shown(values) if values.dtype.kind in "fiub" else f"{values.tolist()!s:.200}"
