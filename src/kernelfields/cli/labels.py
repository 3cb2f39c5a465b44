"""Partial labels in the files of commands: options, and the line that counts them.

The marks of unknown labels are those of formats/label_marks.py.

    train.conll: 20 sequences, 100 words, 3 labels (DET, NOUN, VERB), 33 words not labelled
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from kernelfields.numerics.wording import inflect

_LABELS_SHOWN = 10

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


def collect_labels(y: Iterable[Iterable]) -> set:
    """Return the set of labels, including the members of label sets."""
    entries = [entry for labels in y for entry in labels]
    return {label for entry in entries if entry is not None for label in (entry if isinstance(entry, set) else [entry])}


def count_unknown(y: Iterable[Iterable]) -> int:
    """Count positions without a single known label."""
    return sum(entry is None or isinstance(entry, set) for labels in y for entry in labels)


def join_labels(labels: Iterable) -> str:
    """Format labels as a list for messages, shortened if there are many."""
    known = list(map(str, labels))
    return ", ".join([*known[:_LABELS_SHOWN], *(["..."] if len(known) > _LABELS_SHOWN else [])])


def count_line(name: str, y: Sequence[Sequence], part: str = "position") -> str:
    """Describe a file in one line: its size, its labels, and the number of unlabelled positions.

    ``part`` is what a position is called.
    """
    labels = sorted(collect_labels(y))
    unknown = sum(entry is None for own in y for entry in own)
    several = count_unknown(y) - unknown
    sizes = [inflect(len(y), "sequence"), inflect(sum(map(len, y)), part)]
    sizes.append(f"{inflect(len(labels), 'label')} ({join_labels(labels)})" if labels else "no labels")
    if unknown:
        sizes.append(f"{inflect(unknown, part)} not labelled")
    if several:
        sizes.append(f"{inflect(several, part)} with a set of labels")
    return f"{name}: {', '.join(sizes)}"
