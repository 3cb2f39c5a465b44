"""Opening of files of all formats for the page.

    columns, conllu, csv                        words or numbers with a column of labels (page/sequence_files.py)
    doccano, labelstudio, brat, spacy, text     texts, cut into words (page/document_files.py)
    textgrid, elan                              intervals of one tier, with labels in another

Labels may be written to another file, such as that of an annotator or the column file beside a raw text. If the other
file exists, it is read instead.

Raises SequenceFileError, with a message of one line, for unreadable files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kernelfields.data.text_files import read_lines, remove_leftovers
from kernelfields.formats import SequenceFileError, guess_format
from kernelfields.formats.annotation_files import guess_annotation_format, has_raw_text
from kernelfields.formats.tokens import TokenizedText
from kernelfields.page.document_files import DocumentFile, TierFile
from kernelfields.page.label_file import LabelFile
from kernelfields.page.sequence_files import SequenceLabelFile
from kernelfields.page.spans import split_entry

_LONGEST_GUIDELINES = 500_000
_READERS: dict[str, type[LabelFile]] = {
    **dict.fromkeys(("columns", "conllu", "csv"), SequenceLabelFile),
    **dict.fromkeys(("doccano", "labelstudio", "brat", "spacy", "text"), DocumentFile),
    **dict.fromkeys(("textgrid", "elan"), TierFile),
}


def open_file(
    path: str,
    format: str = "auto",  # noqa: A002
    *,
    output: str | None = None,
    blind: bool = False,
    **options: Any,
) -> LabelFile:
    """Read a file of any format, with labels or without.

    Parameters
    ----------
    path : the file, or of brat, textgrid and elan a folder
    format : its format; "auto" goes by the name, and by the lines of texts
    output : where labels are written, the file itself if left out; once it is there, it is read in its place
    blind : with ``output``, begin without the labels of ``path``
    options : those of the format: label, sequence, separator and so on; of CSV also ``lanes``, the columns to draw
    """
    kind = guess_document_format(path) or guess_format(path, "--format") if format == "auto" else format
    if kind == "text" and output is None:
        output = str(Path(path).with_suffix(".conll"))
    if output is not None and Path(output).exists() and Path(output) != Path(path):
        return open_file(output, "auto" if kind == "text" else kind, **options)
    remove_leftovers(path)
    if kind not in _READERS:
        raise SequenceFileError(f"the page labels files of {', '.join(_READERS)}, and {path} is of format {kind}")
    if "lanes" in options and kind != "csv":
        raise SequenceFileError(f"--columns names columns of CSV tables, and {path} is of format {kind}")
    # Labels in MISC of CoNLL-U are read with the text; all others stand in columns.
    in_misc = kind == "conllu" and isinstance(options.get("label"), str)
    opened = (DocumentFile if in_misc else _READERS[kind]).from_path(path, kind, options)
    if output is None:
        return opened
    return replace(opened.without_labels() if blind else opened, path=Path(output), content=b"")


def align_words(files: Sequence[LabelFile]) -> list[LabelFile]:
    """Cut the words of files of the same texts at the word boundaries of all files.

    Annotators may begin spans inside of words, each in words of their own. Files of other texts stay as they are.

    Raises
    ------
    ValueError
        If the words of a file cannot be cut.
    """
    shared = list(files)
    if len({len(own.X) for own in files}) > 1:
        return shared
    for item in range(len(files[0].X)):
        texts = [own.text(item) for own in shared]
        found = [text for text in texts if text is not None]
        if len(found) < len(texts) or len({"".join(text.words) for text in found}) > 1:
            continue
        ends = sorted({int(end) for text in found for end in np.cumsum([len(word) for word in text.words])})
        shared = [_cut_words(own, item, text, ends) for own, text in zip(shared, found, strict=True)]
    return shared


def _cut_words(file: LabelFile, item: int, text: TokenizedText, ends: Sequence[int]) -> LabelFile:
    """Cut the words of an item at given ends, counted in characters of words, and return the file."""
    entries = [None] * len(text.tokens) if file.y is None or file.y[item] is None else list(file.y[item])
    place, number, cut = 0, 0, text
    for end in ends:
        begin, stop = cut.tokens[number]
        if end < place + stop - begin:
            cut = cut.split(number, end - place)
            entries[number : number + 1] = split_entry(entries[number])
        place, number = end, number + 1
    if cut is text:
        return file
    changed = file.with_text(item, cut)
    return changed if file.y is None else replace(changed, y=[*file.y[:item], entries, *file.y[item + 1 :]])


def read_guidelines(path: str) -> str:
    """Return the text of a file of guidelines."""
    lines = list(read_lines(path))
    if sum(map(len, lines)) > _LONGEST_GUIDELINES:
        raise SequenceFileError(f"{path} has more than {_LONGEST_GUIDELINES} characters: guidelines are a text to read")
    return "\n".join(lines)


def guess_document_format(path: str) -> str | None:
    """Return the format of texts or time lines by the name and the lines of a file; None for sequences."""
    place = Path(path)
    if place.is_dir():
        endings = {each.suffix.lower() for each in place.iterdir()}
        kinds = {".ann": "brat", ".textgrid": "textgrid", ".eaf": "elan"}
        found = next((kind for ending, kind in kinds.items() if ending in endings), None)
        if found is None:
            raise SequenceFileError(f"{path} is a folder without files of brat, Praat or ELAN")
        return found
    if has_raw_text(place):
        return "text"
    named = guess_annotation_format(path)
    return None if named is None or _READERS[named] is SequenceLabelFile else named
