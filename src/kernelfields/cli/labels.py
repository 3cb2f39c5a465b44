"""Labels of files that are partly known: how files write an unknown label, and several of which one is right.

    the     DET
    run     ?              --unknown-label ?     nothing is known
    cat     NOUN|VERB      --label-sets "|"      one of these

What is written so is part of how a model reads its files. Fails: ValueError for marks that cannot be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

#: How an unknown label is written where nobody says it: in CoNLL-U, and elsewhere.
_USUAL = {"conllu": "_"}
_USUAL_ELSEWHERE = "?"

UnknownLabel = Annotated[
    str | None,
    typer.Option(
        "--unknown-label",
        help="How the file writes a label that is not known; by default as in training.",
        metavar="TEXT",
    ),
]
LabelSets = Annotated[
    str | None,
    typer.Option("--label-sets", help="What stands between labels of which one is right, such as |.", metavar="TEXT"),
]


@dataclass(frozen=True)
class LabelMarks:
    """The text of an unknown label, and the one between labels of a set; None where there are none."""

    unknown: str | None = None
    between: str | None = None

    def __post_init__(self) -> None:
        for value, option in ((self.unknown, "--unknown-label"), (self.between, "--label-sets")):
            if value is not None and not value.strip():
                raise ValueError(f"{option} must be a text that is not empty, such as {'?' if 'un' in option else '|'}")
        if self.unknown is not None and self.between is not None and self.between in self.unknown:
            raise ValueError(
                f"--unknown-label {self.unknown} holds --label-sets {self.between}: they cannot be told apart"
            )

    def or_else(self, unknown: str | None, between: str | None) -> LabelMarks:
        """Return other marks where they are given, these elsewhere."""
        return LabelMarks(unknown or self.unknown, between or self.between)

    def or_usual(self, file_format: str) -> LabelMarks:
        """Return these marks, with the usual one of a format for unknown labels where there is none."""
        return self if self.unknown else LabelMarks(_USUAL.get(file_format, _USUAL_ELSEWHERE), self.between)

    def read(self, y: Any) -> Any:
        """Return labels as estimators take them: None for unknown ones, sets of allowed ones."""
        if y is None or (self.unknown is None and self.between is None):
            return y
        return [[self._entry(label) for label in labels] for labels in y]

    def _entry(self, label: Any) -> Any:
        if str(label) == self.unknown:
            return None
        if self.between is None or not isinstance(label, str) or self.between not in label:
            return label
        parts = label.split(self.between)
        if "" in parts or self.unknown in parts:
            raise ValueError(f"the set of labels {label!r} names one that is empty or unknown: leave it out")
        return set(parts)


def labels_named(y: Any) -> set:
    """Return all labels that are named, alone or in sets."""
    entries = [entry for labels in y for entry in labels]
    return {label for entry in entries if entry is not None for label in (entry if isinstance(entry, set) else [entry])}


def count_unknown(y: Any) -> int:
    """Return how many positions have no label of their own."""
    return sum(entry is None or isinstance(entry, set) for labels in y for entry in labels)
