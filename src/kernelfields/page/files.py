"""Opening of files of all formats for the page.

    columns, conllu, csv                        words or numbers with a column of labels (page/sequence_files.py)
    doccano, labelstudio, brat, spacy, text     texts, cut into words (page/document_files.py)
    textgrid, elan                              intervals of one tier, which are labelled in another

Labels may go to another file, which is read in its place once it is there: that of an annotator, or the column file
beside a raw text.

Fails: SequenceFileError in one line for what cannot be read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelfields.data.text_files import remove_leftovers
from kernelfields.formats import SequenceFileError, guess_format
from kernelfields.formats.annotation_files import guess_annotation_format
from kernelfields.page.document_files import DocumentFile, TierFile
from kernelfields.page.label_file import LabelFile
from kernelfields.page.sequence_files import SequenceLabelFile

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
    options : those of the format: label, sequence, separator and so on
    """
    kind = document_format(path) or guess_format(path, "--format") if format == "auto" else format
    if kind == "text" and output is None:
        output = str(Path(path).with_suffix(".conll"))
    if output is not None and Path(output).exists() and Path(output) != Path(path):
        return open_file(output, "auto" if kind == "text" else kind, **options)
    remove_leftovers(path)
    if kind not in _READERS:
        raise SequenceFileError(f"the page labels files of {', '.join(_READERS)}, and {path} is of format {kind}")
    # Labels in MISC of CoNLL-U are read with the text; all others stand in columns.
    in_misc = kind == "conllu" and isinstance(options.get("label"), str)
    opened = (DocumentFile if in_misc else _READERS[kind]).read_from(path, kind, options)
    if output is None:
        return opened
    return replace(opened, path=Path(output), content=b"", y=None if blind else opened.y)


def document_format(path: str) -> str | None:
    """Return the format of texts or time lines that a file has by its name, and by its lines; None for sequences."""
    place = Path(path)
    if place.is_dir():
        endings = {each.suffix.lower() for each in place.iterdir()}
        kinds = {".ann": "brat", ".textgrid": "textgrid", ".eaf": "elan"}
        found = next((kind for ending, kind in kinds.items() if ending in endings), None)
        if found is None:
            raise SequenceFileError(f"{path} is a folder without files of brat, Praat or ELAN")
        return found
    if place.suffix.lower() in (".txt", "") and place.exists() and not _in_columns(place.read_bytes()):
        return "text"
    named = guess_annotation_format(path)
    return None if named is None or _READERS[named] is SequenceLabelFile else named


def _in_columns(content: bytes) -> bool:
    """Whether lines are rows: two or more, with as many cells each, but for comments and empty lines."""
    lines = [
        line.split() for line in content.splitlines() if line.strip() and not line.startswith((b"#", b"-DOCSTART-"))
    ]
    return len(lines) > 1 and len(set(map(len, lines))) == 1
