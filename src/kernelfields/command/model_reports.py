"""Reports of the command: one HTML page of a model, and of its evaluation if there is one."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelfields import ChainCRF
    from kernelfields.formats import SequenceFile

_SHOWN_SEQUENCES = 12
_SHOWN_POSITIONS = 600
_WEIGHTS_PER_LABEL = 10


def write_report(
    path: str, crf: ChainCRF, file: SequenceFile, title: str, *, evaluation: Any = None, search: Any = None
) -> None:
    """Write a page about a model, with the first sequences of a file as it labels them; fewer if they are long."""
    from kernelfields.formats.text_files import open_text_output
    from kernelfields.reports.report import report_page

    truth = file.y or [None] * len(file.X)
    sequences = [
        crf.show(x, labels, tokens=words)
        for x, labels, words, _ in zip(file.X, truth, words_of(file), range(_how_many(file)), strict=False)
    ]
    page = report_page(
        title,
        model=crf.summary(),
        evaluation=evaluation,
        weights=crf.weights(top=_WEIGHTS_PER_LABEL),
        sequences=sequences,
        tables=None if search is None else {"What was tried": (search.columns, search.rows)},
    )
    with open_text_output(path) as stream:
        stream.write(page)


def _how_many(file: SequenceFile) -> int:
    """Return how many of the first sequences fit on a page: at least one."""
    lengths = [x.shape[0] if hasattr(x, "shape") else len(x) for x in file.X[:_SHOWN_SEQUENCES]]
    return max(1, sum(total <= _SHOWN_POSITIONS for total in accumulate(lengths)))


def words_of(file: SequenceFile) -> list[list[str] | None]:
    """Return what people call the positions of each sequence: the words of column files, else nothing."""
    if file.format not in ("columns", "conllu"):
        return [None] * len(file.X)
    column = 1 if file.format == "conllu" else 0
    return [[row[column] for row in sequence.rows] for sequence in file.source]
