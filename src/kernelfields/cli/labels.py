"""Files that models label: options of their format and of labels that are partly known, and the line that counts them.

formats/label_marks.py decides what stands for an unknown label.

    train.conll: 20 sequences, 100 positions, 3 labels (DET, NOUN, VERB), 33 positions not labelled
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

_LABELS_SHOWN = 10

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
        help="How the file writes a label that is not known; by default as in training, else ?, in CoNLL-U also _.",
        metavar="TEXT",
    ),
]
LabelSets = Annotated[
    str | None,
    typer.Option("--label-sets", help="What stands between labels of which one is right, such as |.", metavar="TEXT"),
]


def labels_named(y: Iterable[Iterable]) -> set:
    """Return all labels that are named, alone or in sets."""
    entries = [entry for labels in y for entry in labels]
    return {label for entry in entries if entry is not None for label in (entry if isinstance(entry, set) else [entry])}


def count_unknown(y: Iterable[Iterable]) -> int:
    """Return how many positions have no label of their own."""
    return sum(entry is None or isinstance(entry, set) for labels in y for entry in labels)


def shown_labels(labels: Iterable) -> str:
    """Return labels as messages list them, the first of many."""
    known = list(map(str, labels))
    return ", ".join([*known[:_LABELS_SHOWN], *(["..."] if len(known) > _LABELS_SHOWN else [])])


def count_line(name: str, y: Sequence[Sequence]) -> str:
    """Return the first line about a file: how much there is, which labels, and how many positions have none."""
    labels = sorted(labels_named(y))
    unknown = sum(entry is None for own in y for entry in own)
    several = count_unknown(y) - unknown
    counted = [_counted(len(y), "sequence"), _counted(sum(map(len, y)), "position")]
    counted.append(f"{_counted(len(labels), 'label')} ({shown_labels(labels)})" if labels else "no labels")
    if unknown:
        counted.append(f"{_counted(unknown, 'position')} not labelled")
    if several:
        counted.append(f"{_counted(several, 'position')} with a set of labels")
    return f"{name}: {', '.join(counted)}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"
