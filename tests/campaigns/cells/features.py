"""The list of features: what is asked of every estimator, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.campaigns.cells.subjects import Subject

Cell = Callable[[Subject], None]
#: How the names of rows end that are asked of words.
OF_WORDS = ", of words"


@dataclass(frozen=True)
class Feature:
    """A row of the matrix: its group, its name, and the function that asks and checks."""

    group: str
    name: str
    ask: Cell
    #: Whether all its cells take some seconds at most together, for the slice that tests run.
    quick: bool = True


FEATURES: list[Feature] = []


def feature(group: str, name: str, *, quick: bool = True) -> Callable[[Cell], Cell]:
    """Enter a function into the list of features."""

    def enter(ask: Cell) -> Cell:
        FEATURES.append(Feature(group, name, ask, quick))
        return ask

    return enter
