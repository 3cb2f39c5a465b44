"""Comparisons of answers with what they should be, counted."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.campaigns.fields.drawn import Redraw

#: What answers may be off by, for scores of one nat: kernels of pivots that are close to each other lose digits.
NEAR = 2e-8


class Tally:
    """Counts of comparisons, and those that failed."""

    def __init__(self) -> None:
        self.counts: Counter = Counter()
        self.failures: list[str] = []
        self.where = ""

    @property
    def total(self) -> int:
        """How many comparisons were made."""
        return sum(self.counts.values())

    def check(self, what: str, right: bool, text: str = "") -> None:
        """Count one comparison."""
        self.counts[what] += 1
        if not right:
            self.failures.append(f"{what} is wrong: {text}\n    {self.where}")

    def near(self, what: str, found: Any, expected: Any, atol: float) -> None:
        """Count one comparison of numbers; infinities must be the same."""
        found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        if found.shape != expected.shape:
            self.check(what, False, f"shape {found.shape}, expected {expected.shape}")
            return
        with np.errstate(invalid="ignore"):
            close = np.abs(found - expected) <= atol + 1e-9 * np.abs(expected)
        right = bool(((found == expected) | (np.isfinite(expected) & close)).all())
        self.check(what, right, "" if right else f"{shown(found)}, expected {shown(expected)}")

    def refused(self, what: str, ask: Callable[[], Any]) -> None:
        """Count one question that must be a ValueError."""
        try:
            answer = ask()
        except ValueError:
            self.check(what, True)
        else:
            self.check(what, False, f"answered {answer!r:.200}")

    @contextmanager
    def asking(self, what: str) -> Any:
        """Count a question that raises as wrong."""
        try:
            yield
        except Redraw:
            raise
        except Exception as error:  # noqa: BLE001 - whatever comes is what is looked for
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "kernelfields" in frame.filename]
            place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
            self.check(what, False, f"{type(error).__name__} at {place}: {error!s:.300}")


def shown(values: np.ndarray) -> str:
    return np.array2string(values, precision=6, threshold=12, max_line_width=10**6).replace("\n", "")
