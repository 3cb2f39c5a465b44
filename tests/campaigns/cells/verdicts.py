"""What comes of a cell: whether it works, is refused in words, means nothing, is unclear or wrong.

works           it ran, and its answer is the one that enumeration, or an equivalent estimator, gives
refused         it raised an error of ours: a ValueError, TypeError or AttributeError written for this case
means nothing   the table of meaningless.py has a reason, and it is refused, or there is no such method
unclear         it raised any other error: of NumPy, of scikit-learn, of Python
wrong           it ran, and its answer is another one
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.campaigns.clear_errors import is_raised_here, origin

WORKS, REFUSED, NOTHING, UNCLEAR, WRONG = "works", "refused", "means nothing", "unclear", "wrong"
MARKS = {WORKS: "+", REFUSED: "r", NOTHING: ".", UNCLEAR: "?", WRONG: "W"}
_CLEAR = (ValueError, TypeError, AttributeError, ImportError)
# How Python refuses a method or a keyword that is not there: fair where nothing could be meant by it.
_NOT_THERE = ("has no attribute", "unexpected keyword argument", "positional argument")


class WrongAnswer(AssertionError):
    """An answer that is not the one that it should be."""


class Inexpressible(Exception):
    """There is no way to write the question down."""


@dataclass(frozen=True)
class Verdict:
    """What came of a cell, and why."""

    kind: str
    reason: str = ""
    where: str = ""


def judge(cell: Callable[[], None], nothing: str = "") -> Verdict:
    """Run a cell; ``nothing`` is the reason why it means nothing, empty if it means something."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            cell()
    except WrongAnswer as error:
        return Verdict(WRONG, str(error), origin(error))
    except Inexpressible as error:
        return Verdict(NOTHING, nothing or str(error))
    except Exception as error:  # noqa: BLE001 - what a cell raises is what is asked
        words = f"{type(error).__name__}: {error}"
        if nothing and (_is_clear(error) or any(part in str(error) for part in _NOT_THERE)):
            return Verdict(NOTHING, nothing)
        kind = REFUSED if _is_clear(error) else UNCLEAR
        return Verdict(kind, str(error) if kind == REFUSED else words, origin(error))
    return Verdict(WORKS)


def _is_clear(error: BaseException) -> bool:
    """Whether an error was raised by a statement of the package, in words of its own."""
    return isinstance(error, _CLEAR) and is_raised_here(error)


def check(holds: bool, words: str) -> None:
    """Raise unless something holds."""
    if not holds:
        raise WrongAnswer(words)


def close(found: object, expected: object, tolerance: float = 1e-5, words: str = "values") -> None:
    """Raise unless numbers are as expected."""
    ours, theirs = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    check(ours.shape == theirs.shape, f"{words}: shape {ours.shape}, expected {theirs.shape}")
    same = np.isclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
    check(bool(same.all()), f"{words}: {ours[~same][:3]}, expected {theirs[~same][:3]}")


def same(found: object, expected: object, words: str = "labels") -> None:
    """Raise unless labels are as expected."""
    check(list(found) == list(expected), f"{words}: {list(found)}, expected {list(expected)}")  # type: ignore[call-overload]
