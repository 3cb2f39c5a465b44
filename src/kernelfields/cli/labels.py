"""Files that models label: options of their format and of labels that are partly known, and counts of these.

formats/sequence_files.py reads them.

the     DET
run     ?              --unknown-label ?     nothing is known
cat     NOUN|VERB      --label-sets "|"      one of these
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

#: How an unknown label is written where no option names it: in CoNLL-U, and elsewhere.
_USUAL = {"conllu": "_"}
_USUAL_ELSEWHERE = "?"

FileFormat = Annotated[
    str,
    typer.Option(
        "--format",
        help="columns, conllu, crfsuite, npz or csv; auto is the format of the training file.",
        metavar="NAME",
    ),
]
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


def usual_mark(file_format: object) -> str:
    """Return how files of a format write an unknown label where no option names it."""
    return _USUAL.get(str(file_format), _USUAL_ELSEWHERE)


def labels_named(y: Iterable[Iterable]) -> set:
    """Return all labels that are named, alone or in sets."""
    entries = [entry for labels in y for entry in labels]
    return {label for entry in entries if entry is not None for label in (entry if isinstance(entry, set) else [entry])}


def count_unknown(y: Iterable[Iterable]) -> int:
    """Return how many positions have no label of their own."""
    return sum(entry is None or isinstance(entry, set) for labels in y for entry in labels)
