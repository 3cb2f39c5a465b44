"""Standoff annotation of brat: a text NAME.txt, and NAME.ann with a line for each span.

    T1	PER 0 4	Anna                       id, label and offsets, the text
    T2	ORG 10 15;16 20	Alpha Beta          parts: a span with a gap, or one that crosses a line
    R1	lives-in Arg1:T1 Arg2:T2            other lines are written again unchanged
    #0	kernelfields T0	{...}               content that brat does not support, as JSON

Spans that cross lines are written in a part for each line, as brat itself does, and parts with nothing but spaces
between them are read as one span. The path is a folder, or a file of one document; ids are names of files.

Raises SequenceFileError with file and line; ValueError for labels with spaces, which brat cannot read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from kernelfields.data.text_files import PathName, SequenceFileError, read_content, read_lines
from kernelfields.formats.annotated_texts import (
    Document,
    LabelledSpan,
    Labelling,
    collect_extras,
    document_name,
    list_spans,
    restore_extras,
)
from kernelfields.formats.document_folders import document_id, find_document_files, write_files
from kernelfields.formats.own_parts import OWN, parse_own_parts

#: The files of a document.
ENDINGS = (".ann", ".txt")
_OWN_NOTE = f"#0\t{OWN} T0\t"


def read_brat(path: PathName) -> list[Document]:
    """Read texts with their annotations from a folder or a pair of files."""
    documents = []
    for text_file in find_document_files(path, ".txt", also=".ann"):
        try:
            text = read_content(text_file).decode("utf-8").removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise SequenceFileError(f"{text_file}: byte {error.start} is not UTF-8") from error
        lines = list(read_lines(text_file.with_suffix(".ann"))) if text_file.with_suffix(".ann").exists() else None
        documents.append(_parse_document(text, lines, document_id(text_file), str(text_file.with_suffix(".ann"))))
    return documents


def _parse_document(text: str, lines: list[str] | None, name: str | None, where: str) -> Document:
    """Parse a text and its annotations as a document."""
    spans, others, own = [], [], {}
    for number, line in enumerate(lines or (), start=1):
        if line.startswith(_OWN_NOTE):
            own = parse_own_parts(line.removeprefix(_OWN_NOTE), f"{where}, line {number}")
        elif line.startswith("T"):
            spans.append(_parse_span(line, text, f"{where}, line {number}"))
        elif line.strip():
            others.append(line)
    labellings = [] if lines is None else [Labelling(spans)]
    return restore_extras(Document(text, labellings=labellings, id=name, kept={"brat": others} if others else {}), own)


def _parse_span(line: str, text: str, where: str) -> LabelledSpan:
    """Parse a line of an annotation file as a span."""
    match = re.fullmatch(r"(T\d+)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)", line)
    if match is None:
        raise SequenceFileError(f"{where}: expected 'T1<tab>label begin end<tab>text', got {line!r:.60}")
    parts = [(int(begin), int(end)) for begin, end in (part.split(" ") for part in match[3].split(";"))]
    found = " ".join(text[begin:end] for begin, end in parts)
    if found.split() != match[4].split():
        raise SequenceFileError(f"{where}: the text at {match[3]} is {found!r:.40}, not {match[4]!r:.40}")
    joined = [parts[0]]
    for begin, end in parts[1:]:
        if text[joined[-1][1] : begin].strip() or begin < joined[-1][1]:
            joined.append((begin, end))
        else:
            joined[-1] = (joined[-1][0], end)
    begin, end = min(part[0] for part in joined), max(part[1] for part in joined)
    return LabelledSpan(match[2], begin, end, id=match[1], fragments=tuple(joined) if len(joined) > 1 else ())


def write_brat(path: PathName, documents: Sequence[Document]) -> None:
    """Write a pair of files for each document."""
    contents = []
    for number, document in enumerate(documents, start=1):
        name, spans = document_name(document, number), []
        for labelling in document.labellings:
            spans += list_spans(document, labelling, strict=False)
        taken = {span.id for span in spans}
        free = (f"T{count}" for count in range(1, len(spans) + len(taken) + 1) if f"T{count}" not in taken)
        lines = [_write_span(span, span.id or next(free), document.text, name) for span in spans]
        lines += document.kept.get("brat", [])
        if found := collect_extras(document, "brat", held={"id", "text"}):
            lines.append(_OWN_NOTE + json.dumps(found, ensure_ascii=False))
        annotations = "".join(line + "\n" for line in lines)
        contents.append({".txt": document.text.encode("utf-8"), ".ann": annotations.encode("utf-8")})
    write_files(path, documents, contents, ENDINGS)


def _write_span(span: LabelledSpan, name: str, text: str, document: str) -> str:
    """Format a span as a line of an annotation file."""
    if re.search(r"\s", span.label) or not re.fullmatch(r"T\d+", name):
        raise ValueError(f"{document}: brat has no spaces in labels and ids such as T1, got {span} with id {name!r}")
    parts = [
        (begin + match.start(), begin + match.end())
        for begin, end in span.fragments or ((int(span.begin), int(span.end)),)
        for match in re.finditer(r"[^\r\n]+", text[begin:end])
    ]
    places = ";".join(f"{begin} {end}" for begin, end in parts)
    shown = " ".join(text[begin:end] for begin, end in parts).replace("\t", " ")
    return f"{name}\t{span.label} {places}\t{shown}"
