"""Partial labels in files: the one place that decides how an unknown label is written.

    the     DET
    run     ?              an unknown label, None; so are an empty cell and, in CoNLL-U, "_"
    cat     NOUN|VERB      with label_sets="|": one of several labels, a set

``unknown_label`` replaces the marks "?" and "_"; an empty cell is never a label.

A label has at most 1,000 characters, because NumPy arrays of texts have the width of the longest one.

Raises ValueError for marks that cannot be distinguished, for sets with empty parts, and for too long labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kernelfields.data.text_files import SequenceFileError

#: How unknown labels are written, and what stands between labels of which one is right.
UNKNOWN, BETWEEN = "?", "|"
LONGEST_LABEL = 1000


def unknown_marks(file_format: str, unknown_label: str | None = None) -> list[str]:
    """Return the marks of unknown labels in a format, the preferred one first.

    Parameters
    ----------
    file_format : str
        The format.
    unknown_label : str, optional
        A mark of the user's own.

    Returns
    -------
    list of str
        The marks.

    Examples
    --------
    >>> from kernelfields.formats import unknown_marks
    >>> unknown_marks("columns")
    ['?']
    """
    if unknown_label is not None:
        return [unknown_label]
    return ["_", UNKNOWN] if file_format == "conllu" else [UNKNOWN]


def check_marks(unknown_label: str | None, label_sets: str | None) -> None:
    """Raise ValueError for empty marks, or if one mark contains the other."""
    for value, option, example in (
        (unknown_label, "--unknown-label", UNKNOWN),
        (label_sets, "--label-sets", BETWEEN),
    ):
        if value is not None and not value.strip():
            raise ValueError(f"{option} must be a text that is not empty, such as {example}")
    if unknown_label is not None and label_sets is not None and label_sets in unknown_label:
        raise ValueError(
            f"--unknown-label {unknown_label} holds --label-sets {label_sets}: they cannot be distinguished"
        )


def check_label(label: str, where: str) -> None:
    """Raise SequenceFileError if a label is too long; ``where`` is its place in messages."""
    if len(label) > LONGEST_LABEL:
        raise SequenceFileError(
            f"{where}: a label of {len(label):,} characters, {label[:20]!r}..., expected at most {LONGEST_LABEL:,}: is "
            "another column that of the labels?"
        )


def partial_labels(
    y: list | None, unknown_label: str | None = None, label_sets: str | None = None, file_format: str = "columns"
) -> list | None:
    """Parse the label texts of a file: None for unknown labels, sets for several possible labels.

    Parameters
    ----------
    y : list of list of str, or None
        Labels as the file writes them.
    unknown_label : str, optional
        How the file writes a label that is not known, in the place of "?".
    label_sets : str, optional
        What stands between labels of which one is right.
    file_format : str, default "columns"
        The format of the file.

    Returns
    -------
    list or None
        The labels.

    Examples
    --------
    >>> from kernelfields.formats import partial_labels
    >>> y = partial_labels([["A", "?", "A|B"]], label_sets="|")
    >>> y[0][1], sorted(y[0][2])
    (None, ['A', 'B'])
    """
    check_marks(unknown_label, label_sets)
    if y is None:
        return None
    marks = set(unknown_marks(file_format, unknown_label))

    def parse_entry(label: object) -> object:
        """Parse the text of one label."""
        text = str(label)
        if text in marks or not text.strip():
            return None
        if label_sets is None or not isinstance(label, str) or label_sets not in label:
            return label
        parts = label.split(label_sets)
        if not all(map(str.strip, parts)) or not marks.isdisjoint(parts):
            raise ValueError(f"the set of labels {label!r} names one that is empty or unknown: leave it out")
        return set(parts)

    # The same labels come again and again, so each is read once.
    entries = {label: parse_entry(label) for label in set().union(*map(_to_list, y))}
    if all(found is label for label, found in entries.items()):
        return y
    return [[entries[label] for label in _to_list(labels)] for labels in y]


def _to_list(labels: Sequence | np.ndarray) -> Sequence:
    return labels.tolist() if isinstance(labels, np.ndarray) else labels


def label_text(entry: object, unknown: str = UNKNOWN, between: str = BETWEEN) -> str:
    """Format a label, or partial label, as text for a file.

    Parameters
    ----------
    entry : object
        A label, None if it is unknown, or a set of which one is right.
    unknown : str, default "?"
        What stands for an unknown label.
    between : str, default "|"
        What stands between labels of a set.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> from kernelfields.formats import label_text
    >>> label_text({"B", "A"}), label_text(None)
    ('A|B', '?')
    """
    if entry is None:
        return unknown
    return between.join(sorted(map(str, entry))) if isinstance(entry, set | frozenset) else str(entry)


def label_texts(y: Sequence, unknown: str = UNKNOWN) -> list:
    """Format partial labels of sequences as texts for a file; return complete labels unchanged."""
    if not any(entry is None or isinstance(entry, set | frozenset) for labels in y for entry in labels):
        return list(y)
    return [[label_text(entry, unknown) for entry in labels] for labels in y]
