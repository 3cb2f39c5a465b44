"""Warnings about a file of labelled sequences before a fit, one line each.

    header        the first row looks like column names; an error if all of its cells do, as "word" and "label"
    sequences     a single long sequence, as in a file whose empty lines were lost
    labels        nearly as many labels as words, most of them once: they are probably in another column

Cost: one pass over the labels. Raises SequenceFileError for a header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kernelfields.data.constraints import guess_scheme
from kernelfields.formats import ColumnFile, SequenceFile, SequenceFileError

# Positions of a single sequence, labels, and the share of them seen once, above which a file looks wrong.
_LONG, _MANY, _SEEN_ONCE = 200, 50, 0.3
_NAMES = {
    *("bio", "chunk", "chunks", "class", "entities", "entity", "feats", "form", "id", "iob", "label", "labels"),
    *("lemma", "ner", "pos", "sentence", "tag", "tags", "target", "text", "token", "tokens", "upos", "word", "words"),
    *("xpos", "y"),
}


def find_warnings(file: SequenceFile, name: str) -> Iterator[str]:
    """Yield warnings about the labels of a file, called ``name`` in messages."""
    y = file.y or []
    labels = Counter(label for own in y for label in own if label is not None and not isinstance(label, set))
    if isinstance(file, ColumnFile):
        yield from _check_header(file, name, labels)
    yield from find_length_warnings(file, name)
    if len(labels) > _MANY and sum(count == 1 for count in labels.values()) >= _SEEN_ONCE * len(labels):
        yield (
            f"{name} has {len(labels):,} labels for {labels.total():,} positions, most of them rare, as words are"
            f"{_suggest_column(file, len(labels))}"
        )


def find_length_warnings(file: SequenceFile, name: str) -> Iterator[str]:
    """Yield a warning if the file is a single long sequence, as after the loss of empty lines."""
    if file.format in ("columns", "crfsuite") and len(file.X) == 1 and (length := len(file.X[0])) > _LONG:
        yield (
            f"{name} has no empty line between sequences, and is one sequence of {length:,} positions: put an empty "
            "line after each sentence"
        )


def _check_header(file: ColumnFile, name: str, labels: Counter) -> Iterator[str]:
    """Raise if the first row consists of column names; yield a warning if only its label looks like one."""
    first, label = file.sequences[0].rows[0], (file.y or [[None]])[0][0]
    if not isinstance(label, str) or labels[label] > 1:
        return
    place = f"{name}, line {file.sequences[0].lines[0]}"
    named = [cell.strip().lower() in _NAMES for cell in first]
    if all(named):
        raise SequenceFileError(f"{place}: {', '.join(first)} are names of columns, not a position: remove the line")
    others = labels.keys() - {label}
    breaks = guess_scheme(others) is not None and guess_scheme([*others, label]) is None
    if breaks or label.strip().lower() in _NAMES:
        yield f"{place}: {', '.join(first)} looks like names of columns, and {label} is a label: remove the line"


def _suggest_column(file: SequenceFile, n_labels: int) -> str:
    """Suggest another column that may contain the labels."""
    if not isinstance(file, ColumnFile):
        return ": is another column, or array, that of the labels?"
    columns = [set(cells) for cells in zip(*(row for one in file.sequences for row in one.rows), strict=True)]
    values = {column: len(own) for column, own in enumerate(columns) if 1 < len(own) < n_labels}
    if not values:
        return ": --label-column names the column of the labels"
    fewest = min(values, key=values.__getitem__)
    return f": --label-column {fewest} would have {values[fewest]:,}"
