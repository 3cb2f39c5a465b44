"""Files of annotated texts and time lines in every format, and the content that each format cannot hold.

    format        by the extension            unsupported content
    doccano       .jsonl                      several annotators, probabilities, weights of labels
    labelstudio   .json                       weights of labels
    conllu        .conllu                     several annotators, spans that overlap, weights of labels,
    columns       .conll .tsv .iob .bio       probabilities
    brat          a folder, .ann              several annotators, probabilities, weights of labels; ids other than T1
    spacy         .spacy                      several annotators, weights of labels, gaps and ids of spans
    textgrid      a folder, .TextGrid         spans that overlap in a tier, probabilities, metadata, ids of spans
    elan          a folder, .eaf              spans that overlap in a tier, probabilities, times below a millisecond
    text          by its name alone           labels; texts of several lines: each line is a document

``find_losses`` lists the unsupported content of documents. ``write_documents`` raises an error for it before a file is
changed, unless ``lossy=True``. Offsets in characters and times in seconds cannot be converted into each other.

Raises ValueError for unsupported content, and for options that a format does not accept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

from kernelfields.data.text_files import PathName, SequenceFileError, input_name, open_text_output, read_lines
from kernelfields.formats.annotated_texts import (
    NO_SCHEME,
    OUTSIDE,
    Document,
    LabelledSpan,
    Labelling,
    check_document,
    choose_labelling,
    cut_tokens_at_spans,
    document_name,
    find_overlaps,
    list_spans,
    make_token_finder,
    tokens_or_default,
)
from kernelfields.formats.annotation_columns import (
    read_column_documents,
    read_conllu_documents,
    write_column_documents,
    write_conllu_documents,
)
from kernelfields.formats.annotation_json import read_doccano, read_label_studio, write_doccano, write_label_studio
from kernelfields.formats.brat import ENDINGS, read_brat, write_brat
from kernelfields.formats.document_folders import find_document_files, plan_files
from kernelfields.formats.spacy_docs import read_spacy, write_spacy
from kernelfields.formats.time_lines import read_elan, read_textgrid, write_elan, write_textgrid
from kernelfields.formats.tokens import Tokenizer, tokenize

#: What may be lost, and what is written in its place where losses are accepted.
_LOSSES = {
    "labels": "labels",
    "annotators": "labels of more than one annotator or model; those of the first annotator stay",
    "probabilities": "probabilities",
    "unknown": "labels that are not known; they become outside",
    "sets": "sets of labels of which one is right; they become outside",
    "weights": "weights of labels; they become sets or outside",
    "scheme": "labels that break their scheme or part a word; they are mended",
    "overlap": "spans that nest or overlap; the longest stay",
    "fragments": "gaps inside of spans; they are filled",
    "words": "spans that do not begin and end with a word; they are widened to whole words",
    "ids": "ids of spans",
    "metadata": "ids, metadata, tokens or names",
    "lines": "texts of several lines; their lines are joined",
    "precision": "times below a millisecond; they are rounded",
}


class Loss(NamedTuple):
    """A kind of content that a format does not support, with an example.

    Parameters
    ----------
    kind : str
        What is lost.
    n_documents : int
        In how many documents it occurs.
    example : str
        The first of them.

    See Also
    --------
    find_losses : Lists them before anything is written.

    Examples
    --------
    >>> from kernelfields.formats import Document, find_losses
    >>> [loss.kind for loss in find_losses([Document("Hello", id="a7")], "text")]
    ['metadata']
    """

    kind: str
    n_documents: int
    example: str

    def __str__(self) -> str:
        more = f" and {self.n_documents - 1:,} more" if self.n_documents > 1 else ""
        return f"{_LOSSES[self.kind]} ({self.example}{more})"


@dataclass(frozen=True)
class AnnotationFormat:
    """The reader and the writer of a format, and the content that it supports.

    ``holds`` names what may else be lost, ``span_ids`` is an expression for ids of spans that can be written,
    ``as_labels`` is for formats with a label for each token, ``units`` is what offsets may count. ``parts`` are the
    endings of the files of each document, none where all documents are one file.
    """

    read: Callable[..., list[Document]]
    write: Callable[..., None]
    endings: tuple[str, ...]
    holds: frozenset[str]
    span_ids: str = ""
    as_labels: bool = False
    units: tuple[str, ...] = ("characters",)
    parts: tuple[str, ...] = ()


def read_plain_text(path: PathName, *, tokenizer: Tokenizer | None = None) -> list[Document]:
    """Read a text: each line is a document, cut into words by the tokenizer."""
    lines = [line for line in read_lines(path) if line.strip()]
    if tokenizer is None:
        return [Document(line) for line in lines]
    return [Document(line, list(tokenize(line, tokenizer))) for line in lines]


def write_plain_text(path: PathName, documents: Sequence[Document]) -> None:
    """Write the text of each document as a line."""
    with open_text_output(path) as file:
        file.writelines(document.text + "\n" for document in documents)


_EVERYTHING = frozenset(_LOSSES) - {"ids"}
_PARTIAL = {"weights", "scheme"}
_TOKENS = _EVERYTHING - {"annotators", "probabilities", "sets", "weights", "overlap", "fragments", "words"}
#: Formats by name.
ANNOTATION_FORMATS = {
    "doccano": AnnotationFormat(
        read_doccano,
        write_doccano,
        (".jsonl",),
        _EVERYTHING - _PARTIAL - {"annotators", "probabilities", "fragments"},
        span_ids=".+",
    ),
    "labelstudio": AnnotationFormat(
        read_label_studio,
        write_label_studio,
        (".json",),
        _EVERYTHING - _PARTIAL - {"fragments"},
        span_ids=".+",
        units=("characters", "seconds"),
    ),
    "conllu": AnnotationFormat(
        read_conllu_documents,
        write_conllu_documents,
        (".conllu",),
        _TOKENS,
        as_labels=True,
    ),
    "columns": AnnotationFormat(
        read_column_documents,
        write_column_documents,
        (".conll", ".tsv", ".iob", ".bio"),
        _TOKENS,
        as_labels=True,
    ),
    "brat": AnnotationFormat(
        read_brat,
        write_brat,
        (".ann",),
        _EVERYTHING - _PARTIAL - {"annotators", "probabilities"},
        span_ids=r"T\d+",
        parts=ENDINGS,
    ),
    "spacy": AnnotationFormat(
        read_spacy,
        write_spacy,
        (".spacy",),
        _EVERYTHING - {"annotators", "weights", "scheme", "fragments"},
    ),
    "textgrid": AnnotationFormat(
        read_textgrid,
        write_textgrid,
        (".textgrid",),
        frozenset({"labels", "annotators", "words", "precision", "lines"}),
        units=("seconds",),
        parts=(".TextGrid",),
    ),
    "elan": AnnotationFormat(
        read_elan,
        write_elan,
        (".eaf",),
        _EVERYTHING - _PARTIAL - {"probabilities", "overlap", "precision"},
        span_ids=r"[A-Za-z_][\w.-]*",
        units=("seconds",),
        parts=(".eaf",),
    ),
    "text": AnnotationFormat(read_plain_text, write_plain_text, (), frozenset({"words"})),
}


def guess_annotation_format(path: PathName) -> str | None:
    """Guess the format of annotated texts from a file name; None for other names."""
    base = os.path.basename(os.fspath(path).rstrip("/")).lower().removesuffix(".gz")
    ending = os.path.splitext(base)[1]
    return next((name for name, kind in ANNOTATION_FORMATS.items() if ending in kind.endings), None)


def has_raw_text(path: PathName) -> bool:
    """Whether a file contains raw text: a name with .txt or no extension, and lines that are no rows.

    Lines are rows if there are two or more with as many cells each, comments and empty lines left out, unless all of
    them end as sentences do: no label ends in a letter and a full stop.
    """
    place = Path(path)
    if place.suffix.lower() not in (".txt", "") or not place.is_file():
        return False
    lines = [
        line.split()
        for line in place.read_text("utf-8", errors="replace").splitlines()
        if line.strip() and not line.startswith(("#", "-DOCSTART-"))
    ]
    if len(lines) < 2 or len(set(map(len, lines))) > 1:
        return True
    return all(line[-1][:-1][-1:].isalnum() and line[-1].endswith((".", "!", "?")) for line in lines)


def _find_format(path: PathName | None, name: str) -> AnnotationFormat:
    """Return a format by its name or, for "auto", by the name of the file."""
    found = guess_annotation_format(path) if name == "auto" and path is not None else name
    if found not in ANNOTATION_FORMATS:
        known = ", ".join(map(repr, ANNOTATION_FORMATS))
        raise ValueError(f"format must be one of {known}, got {name!r}" + (f" for {path}" if path else ""))
    return ANNOTATION_FORMATS[found]


def list_options(function: Callable[..., object]) -> list[str]:
    """Return the option names of a reader or writer."""
    parameters = signature(function).parameters.values()
    return [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]


def _check_options(function: Callable[..., object], options: dict[str, Any]) -> None:
    """Raise ValueError for an option that a reader or writer does not accept."""
    known = list_options(function)
    if strange := [name for name in options if name not in known]:
        raise ValueError(f"{function.__name__} takes {', '.join(known) or 'no options'}, got {strange[0]}")


def read_documents(path: PathName, format: str = "auto", **options: Any) -> list[Document]:  # noqa: A002
    r"""Read annotated texts or time lines.

    Parameters
    ----------
    path : str or path
        A file, or of brat, textgrid and elan a folder; "-" is standard input.
    format : str, default "auto"
        The format; "auto" goes by the end of the name.
    **options : dict
        Of columns: label, separator, unknown_label, label_sets; of conllu: label, unknown_label, label_sets; of text:
        tokenizer.

    Returns
    -------
    list of Document
        The documents.

    Raises
    ------
    SequenceFileError
        If the file is damaged; the message has the line.

    See Also
    --------
    write_documents : Writes them, in the same or another format.
    to_sequences : Makes words and labels of them.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kernelfields.formats import read_documents
    >>> n = Path("notes.txt").write_text("Ann lives in Oslo\nBob does not\n")
    >>> [document.words for document in read_documents("notes.txt", format="text")]
    [['Ann', 'lives', 'in', 'Oslo'], ['Bob', 'does', 'not']]
    """
    kind = _find_format(path, format)
    _check_options(kind.read, options)
    documents = kind.read(path, **options)
    for number, document in enumerate(documents, start=1):
        try:
            check_document(document, document_name(document, number))
        except ValueError as error:
            raise SequenceFileError(f"{input_name(path)}: {error}") from error
    return documents


def write_documents(
    path: PathName,
    documents: Sequence[Document],
    format: str = "auto",  # noqa: A002
    *,
    lossy: bool = False,
    **options: Any,
) -> list[Loss]:
    """Write annotated texts or time lines.

    Parameters
    ----------
    path : str or path
        A file, or of brat, textgrid and elan a folder; "-" is standard output.
    documents : list of Document
        What to write.
    format : str, default "auto"
        The format; "auto" goes by the end of the name.
    lossy : bool, default False
        Whether what the format cannot hold may be lost; else an error lists it, and nothing is written.
    **options : dict
        Of columns: unknown_label and label_sets, by which partial labels are written; of conllu: label, label_sets.

    Returns
    -------
    list of Loss
        What was lost.

    Raises
    ------
    ValueError
        If the format cannot hold the documents and ``lossy`` is false.

    Examples
    --------
    >>> from kernelfields.formats import Document, LabelledSpan, Labelling, read_documents, write_documents
    >>> document = Document("Ann lives in Oslo", labellings=[Labelling([LabelledSpan("LOC", 13, 17)])])
    >>> write_documents("tasks.jsonl", [document], format="doccano")
    []
    >>> read_documents("tasks.jsonl", format="doccano")[0].labellings[0].spans[0].label
    'LOC'
    """
    kind = _find_format(path, format)
    _check_options(kind.write, options)
    documents = [_cut_words_at_spans(document, kind) for document in documents]
    found = _find_losses(documents, kind, options)
    if found and not lossy:
        listed = "; ".join(map(str, found))
        raise ValueError(f"{os.fspath(path)} would lose {listed}. Nothing was written; allow it with lossy=True")
    kinds = {loss.kind for loss in found}
    kind.write(
        path, [_remove_content(document, kind, kinds) for document in documents] if found else documents, **options
    )
    return found


def list_files(path: PathName, format: str, documents: Sequence[Document] | None = None) -> list[PathName]:  # noqa: A002
    """Return the files that a path stands for, when read or, with ``documents``, when written."""
    parts = _find_format(path, format).parts
    if not parts:
        return [path]
    if documents is not None:
        return [file for own in plan_files(path, documents, parts) for file in own.values()]
    found: list[PathName] = []
    for file in find_document_files(path, parts[-1], also=parts[0]):
        found += [file, *(file.with_suffix(one) for one in parts if one.lower() != file.suffix.lower())]
    return found


def find_losses(documents: Sequence[Document], format: str, **options: Any) -> list[Loss]:  # noqa: A002
    """List the content of documents that a format does not support.

    Parameters
    ----------
    documents : list of Document
        The documents.
    format : str
        The format.
    **options : dict
        As for :func:`write_documents`.

    Returns
    -------
    list of Loss
        What would be lost; empty if nothing.

    Examples
    --------
    >>> from kernelfields.formats import Document, find_losses
    >>> find_losses([Document("Hello", metadata={"source": "mail"})], "text")[0].n_documents
    1
    """
    kind = _find_format(None, format)
    _check_options(kind.write, options)
    return _find_losses([_cut_words_at_spans(document, kind) for document in documents], kind, options)


def _cut_words_at_spans(document: Document, kind: AnnotationFormat) -> Document:
    """Cut the words of a document at span boundaries, unless its original rows are written."""
    if not kind.as_labels or document.duration is not None or set(document.kept) & {"columns", "conllu"}:
        return document
    tokens = cut_tokens_at_spans(document)
    return document if tokens == tokens_or_default(document) else replace(document, tokens=list(tokens))


def _find_losses(documents: Sequence[Document], kind: AnnotationFormat, options: dict[str, Any]) -> list[Loss]:
    """List the content of documents that a format does not support."""
    holds = kind.holds | {"sets"} if options.get("label_sets") else kind.holds
    counts: dict[str, int] = {}
    examples: dict[str, str] = {}
    for number, document in enumerate(documents, start=1):
        name = document_name(document, number)
        check_document(document, name)
        if (unit := "characters" if document.duration is None else "seconds") not in kind.units:
            raise ValueError(f"{name}: its offsets count {unit}, those of the format {kind.units[0]}")
        found = dict(reversed([*_find_special_content(document, kind)]))  # the first example of each kind
        for one in found.keys() - holds:
            counts[one] = counts.get(one, 0) + 1
            examples.setdefault(one, name + (f": {found[one]}" if found[one] else ""))
    return [Loss(one, counts[one], examples[one]) for one in _LOSSES if one in counts]


def _find_special_content(document: Document, kind: AnnotationFormat) -> Iterator[tuple[str, str]]:
    """Yield the kinds of content of a document that some formats do not support, with an example."""
    labellings = document.labellings
    if labellings:
        yield "labels", ""
    if len(labellings) > 1:
        yield "annotators", ", ".join(own.annotator or "no name" for own in labellings[:3])
    if len(document.text.splitlines()) > 1 or not document.text.strip():
        yield "lines", ""
    named = any(own.predicted or own.metadata.keys() - {"points"} for own in labellings)
    if (
        document.metadata
        or document.tokens is not None
        or document.scheme != "bio"
        or named
        or (kind.units == ("characters",) and document.id is not None)
    ):
        yield "metadata", ""
    chosen = choose_labelling(document)
    for own in labellings if "annotators" in kind.holds or chosen is None else [chosen]:
        yield from _find_special_labels(document, own, kind)
        spans = own.spans if own.spans is not None else []
        yield from (("overlap", f"{first} and {second}") for first, second in find_overlaps(spans))
        find = make_token_finder(document) if document.duration is None else None
        for span in spans:
            if span.fragments:
                yield "fragments", str(span)
            if span.probability is not None:
                yield "probabilities", str(span)
            if span.id is not None and not re.fullmatch(kind.span_ids, span.id):
                yield "ids", f"{span.id} of {span}"
            if find is not None and (problem := find(span)[2]):
                yield "words", f"{span} {problem}"
            if any(not isclose(time * 1000, round(time * 1000), abs_tol=1e-9) for time in (span.begin, span.end)):
                yield "precision", str(span)


def _find_special_labels(document: Document, own: Labelling, kind: AnnotationFormat) -> Iterator[tuple[str, str]]:
    """Yield the kinds of token labels that some formats do not support, with an example."""
    labels = own.labels or []
    partial = document.scheme != NO_SCHEME or kind.as_labels
    names = {type(None): "unknown", frozenset: "sets", str: ""}
    for index, label in enumerate(labels, start=1):
        if (name := names.get(type(label), "weights")) and (partial or label is not None):
            yield name, f"token {index}"
    if labels and not kind.as_labels:
        nothing = None if document.scheme == NO_SCHEME else OUTSIDE
        try:
            list_spans(document, replace(own, labels=[one if isinstance(one, str) else nothing for one in labels]))
        except ValueError as error:
            yield "scheme", str(error).partition(": ")[2]


def _remove_content(document: Document, kind: AnnotationFormat, lost: set[str]) -> Document:
    """Remove the content of a document that a format does not support."""
    labellings = list(document.labellings)
    if "annotators" in lost and (chosen := choose_labelling(document)) is not None:
        labellings = [chosen]
    if "labels" in lost:
        labellings = []
    if "lines" in lost:
        document = replace(document, text=" ".join(document.text.split()), tokens=None)
    if "metadata" in lost:
        labellings = [
            replace(own, spans=list_spans(document, own, strict=False), labels=None, metadata={}) for own in labellings
        ]
        document = replace(document, metadata={}, tokens=None if not kind.as_labels else document.tokens)
    reduced = replace(document, labellings=labellings)
    find = make_token_finder(reduced) if "words" in lost else None
    tokens = tokens_or_default(reduced) if find is not None else []

    def change_span(span: LabelledSpan) -> LabelledSpan | None:
        if "precision" in lost:
            span = replace(span, begin=round(span.begin, 3), end=round(span.end, 3))
        if find is not None:
            start, stop, _ = find(span)
            if start == stop:
                return None
            span = replace(span, begin=tokens[start][0], end=tokens[stop - 1][1])
        return replace(
            span,
            probability=None if "probabilities" in lost else span.probability,
            id=None if "ids" in lost else span.id,
            fragments=() if "fragments" in lost else span.fragments,
        )

    for index, own in enumerate(labellings):
        if own.spans is not None:
            spans = [one for span in own.spans if (one := change_span(span)) is not None]
            spans = _select_longest(spans) if lost & {"overlap", "words"} else spans
            labellings[index] = replace(own, spans=spans)
    return replace(reduced, labellings=labellings)


def _select_longest(spans: Sequence[LabelledSpan]) -> list[LabelledSpan]:
    """Select the longest spans without overlaps; among equal spans the first."""
    chosen: list[LabelledSpan] = []
    for span in sorted(spans, key=lambda span: (span.begin - span.end, span.begin)):
        if all(span.end <= other.begin or other.end <= span.begin for other in chosen):
            chosen.append(span)
    return chosen


def round_spans_to_words(document: Document) -> Document:
    """Extend the spans of a document to whole words, and keep the longest ones without overlaps."""
    return _remove_content(document, ANNOTATION_FORMATS["conllu"], {"words", "overlap"})
