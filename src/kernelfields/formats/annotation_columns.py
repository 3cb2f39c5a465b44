"""Documents in column files and in CoNLL-U: a word per line with its label, a document for each sequence.

The text of a document is that of its comment ``# text = ...`` if it contains the words in order, else the words joined
by spaces, without a space after SpaceAfter=No. The words of a multiword token of CoNLL-U that are missing in the text
share the offsets of the token. Comments ``# name = value`` are metadata, ``# sent_id`` or ``# id`` the id.
All columns and lines are written as they were read, with new labels. Content without a column, such as line breaks in
the text, is JSON in the comment ``# kernelfields = {...}``.

    columns   the label is a column, by default the last
    conllu    the label is a column, by default UPOS, or ``label="misc:NER"``: NER=B-PER in MISC, where labels of
              entities from other formats go

Unknown labels are "?", or ``unknown_label``, and in CoNLL-U "_" (label_marks.py); a document without a known label is
unlabelled. ``label_sets`` is the separator of possible labels.

Cost: linear in the rows. Raises SequenceFileError with file and line; ValueError for a label whose text means another.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from kernelfields.data.text_files import PathName, SequenceFileError, input_name
from kernelfields.formats.annotated_texts import (
    NO_SCHEME,
    OUTSIDE,
    Document,
    Labelling,
    TokenLabel,
    collect_extras,
    detect_scheme,
    document_name,
    list_labels,
    restore_extras,
    tokens_or_default,
)
from kernelfields.formats.column_files import ColumnSequence, LabelledColumns, read_columns, write_columns
from kernelfields.formats.label_marks import label_text, partial_labels, unknown_marks
from kernelfields.formats.own_parts import OWN, parse_own_parts
from kernelfields.formats.tokens import TokenizedText

_RANGE = re.compile(r"(\d+)-(\d+)", re.ASCII)
_NAMED = re.compile(r"# *([\w.:-]+) *= (.*)")
_UPOS, _FORM, _MISC, _EMPTY = 3, 1, 9, "_"
_IN_MISC = "misc:"
Tokens = list[tuple[float, float]]


def read_column_documents(
    path: PathName,
    *,
    label: int | None = -1,
    separator: str = "auto",
    unknown_label: str | None = None,
    label_sets: str | None = None,
) -> list[Document]:
    """Read a column file; ``label`` is the number of the column of labels, None without labels."""
    sequences = list(read_columns(path, separator=separator))
    found = LabelledColumns(sequences, input_name(path), label, required=True)
    y = partial_labels(found.labels(), unknown_label, label_sets)
    return _to_documents(path, sequences, "columns", [found.label] * len(sequences), y)


def read_conllu_documents(
    path: PathName, *, label: int | str | None = None, unknown_label: str | None = None, label_sets: str | None = None
) -> list[Document]:
    """Read CoNLL-U; ``label`` is the number of a column (UPOS if left out) or "misc:NAME"."""
    sequences = list(read_columns(path, conllu=True))
    places: list[int | str | None] = []
    y = []
    for sequence in sequences:
        place = label if label is not None else _parse_own_comment(sequence, input_name(path)).get("place", _UPOS)
        places.append(place)
        if isinstance(place, str):
            y.append([_parse_misc(row).get(_parse_misc_name(place), "") for row in sequence.rows])
        else:
            y += LabelledColumns([sequence], input_name(path), place, required=True).labels() or []
    return _to_documents(path, sequences, "conllu", places, partial_labels(y, unknown_label, label_sets, "conllu"))


def _to_documents(
    path: PathName,
    sequences: list[ColumnSequence],
    kind: str,
    places: Sequence[int | str | None],
    y: list | None,
) -> list[Document]:
    """Return the sequences of a file as documents."""
    labels = [[frozenset(one) if isinstance(one, set) else one for one in row] for row in y or []]
    scheme = detect_scheme(labels)
    documents = []
    for index, (sequence, place) in enumerate(zip(sequences, places, strict=True)):
        own = _parse_own_comment(sequence, input_name(path))
        comments = _parse_comments(sequence.kept)
        text, tokens = _restore_text(sequence, kind, input_name(path))
        kept = {"rows": sequence.rows, "lines": [list(pair) for pair in sequence.kept], "separator": sequence.separator}
        labellings = []
        if y is not None and any(one is not None for one in labels[index]):
            labellings = [Labelling(labels=labels[index])]
        document = Document(
            text,
            tokens,
            labellings,
            comments.get(_find_id_name(comments) or ""),
            {
                name: value
                for name, value in comments.items()
                if name not in (_find_id_name(comments), "id", "text", OWN)
            },
            scheme,
            kept={kind: {**kept, "place": place, "declared": "place" in own}},
        )
        document = restore_extras(document, own)
        documents.append(replace(document, kept=own.get("kept", {})) if own.get("bare") else document)
    return documents


def find_sequence_id(sequence: ColumnSequence) -> str | None:
    """Return the id of a sequence from its comments."""
    comments = _parse_comments(sequence.kept)
    return comments.get(_find_id_name(comments) or "")


def read_sequence_text(sequence: ColumnSequence, kind: str, name: str) -> TokenizedText:
    """Return the text of a sequence with the offsets of its words; ``kind`` is "columns" or "conllu"."""
    text, tokens = _restore_text(sequence, kind, name)
    own = _parse_own_comment(sequence, name)
    if {"text", "tokens"} & set(own):
        document = Document(own.get("text", text), own.get("tokens"))
        if len(tokens_or_default(document)) == len(sequence.rows):
            text, tokens = document.text, tokens_or_default(document)
    return TokenizedText(text, [(int(begin), int(end)) for begin, end in tokens])


def replace_sequence_words(sequence: ColumnSequence, text: TokenizedText, name: str) -> ColumnSequence:
    """Return a sequence with rows for a new segmentation of its text, and a comment with the text."""
    old = read_sequence_text(sequence, "columns", name)
    places = [max(k for k, (first, _) in enumerate(old.tokens) if first <= begin) for begin, _ in text.tokens]
    rows = [[word, *sequence.rows[place][1:]] for place, word in zip(places, text.words, strict=True)]
    last = len(sequence.rows)
    kept = [(row + len(rows) - last if row >= last else row, line) for row, line in sequence.kept]
    lines = [sequence.lines[place] for place in places] if sequence.lines else []
    found = replace(sequence, rows=rows, kept=kept, lines=lines)
    own = _parse_own_comment(sequence, name)
    if not {"text", "tokens"} & set(own):
        if _restore_text(found, "columns", name) == (text.text, text.tokens):
            return found
        if _is_valid_comment("text", text.text):
            others = [pair for pair in kept if not (pair[0] == 0 and pair[1].startswith("# text = "))]
            found = replace(found, kept=[(0, f"# text = {text.text}"), *others])
            if _restore_text(found, "columns", name) == (text.text, text.tokens):
                return found
    own |= {"text": text.text, "tokens": [list(token) for token in text.tokens]}
    others = [pair for pair in kept if not (pair[0] == 0 and re.match(rf"# *{OWN} *=", pair[1]))]
    n_before = sum(row == 0 for row, _ in others)
    others.insert(n_before, (0, f"# {OWN} = {json.dumps(own, ensure_ascii=False)}"))
    return replace(found, kept=others)


def _parse_comments(lines: Sequence[tuple[int, str]]) -> dict[str, str]:
    """Parse the comments ``# name = value`` before a sequence; repeated names are skipped."""
    found = [match.groups() for row, line in lines if row == 0 and (match := _NAMED.fullmatch(line))]
    counts = Counter(name for name, _ in found)
    return {name: value for name, value in found if counts[name] == 1}


def _parse_own_comment(sequence: ColumnSequence, name: str) -> dict[str, Any]:
    """Parse the comment ``# kernelfields = {...}``."""
    text = _parse_comments(sequence.kept).get(OWN)
    if text is None:
        return {}
    return parse_own_parts(text, f"{name}, before line {sequence.lines[0]}")


def _parse_misc_name(label: str) -> str:
    """Return the name of the MISC attribute in ``label``."""
    if not label.startswith(_IN_MISC) or not re.fullmatch(r"[^\s|=]+", label.removeprefix(_IN_MISC)):
        raise ValueError(f"label must be the number of a column or 'misc:NAME', got {label!r}")
    return label.removeprefix(_IN_MISC)


def _parse_misc(row: Sequence[str]) -> dict[str, str]:
    """Parse the attributes of MISC; an attribute without a value gets the empty text."""
    pairs = [] if row[_MISC] == _EMPTY else [part.partition("=") for part in row[_MISC].split("|")]
    return {name: value if equals else "" for name, equals, value in pairs}


def _restore_text(sequence: ColumnSequence, kind: str, name: str = "the rows that were kept") -> tuple[str, Tokens]:
    """Return the text of a sequence and the offsets of its words; ``name`` is the file name in messages."""
    conllu = kind == "conllu"
    words = [row[_FORM if conllu else 0] for row in sequence.rows]
    whole: dict[int, tuple[str, int]] = {}  # multiword tokens: by the first row, their form and the row after the last
    glued = [conllu and _parse_misc(row).get("SpaceAfter") == "No" for row in sequence.rows]
    for index, (row, line) in enumerate(sequence.kept):
        cells = line.split("\t")
        if conllu and len(cells) > _MISC and (match := _RANGE.fullmatch(cells[0])):
            final = row + int(match[2]) - int(match[1])
            if not row <= final < len(words):
                raise SequenceFileError(
                    f"{name}{_describe_place(sequence, index)}: the range {cells[0]} is not one of words that follow, "
                    f"of which there are {len(words) - row}"
                )
            whole[row] = (cells[_FORM], final + 1)
            glued[final] = _parse_misc(cells).get("SpaceAfter") == "No"
    given = _parse_comments(sequence.kept).get("text")
    if given is not None and (found := _align_words(words, whole, given)) is not None:
        return given, found
    parts, index = [], 0
    while index < len(words):
        form, stop = whole.get(index, (words[index], index + 1))
        parts.append(form + ("" if glued[min(stop, len(words)) - 1] else " "))
        index = stop
    text = "".join(parts).rstrip(" ")
    return text, _align_words(words, whole, text) or []


def _describe_place(sequence: ColumnSequence, index: int) -> str:
    """Return the line of a comment for messages; empty if the rows were not read from a file."""
    if not sequence.lines:
        return ""
    row, end = sequence.kept[index][0], len(sequence.lines)
    if row < end:
        return f", line {sequence.lines[row] - sum(other == row for other, _ in sequence.kept[index:])}"
    n_after = sum(other >= end for other, _ in sequence.kept[: index + 1]) + row - end  # an empty line among them
    return f", line {sequence.lines[-1] + n_after}"


def _align_words(words: Sequence[str], whole: dict[int, tuple[str, int]], text: str) -> Tokens | None:
    """Find words in a text in order; return their offsets, or None if a word is missing."""
    found: Tokens = []
    position, index = 0, 0
    while index < len(words):
        form, stop = whole.get(index, (words[index], index + 1))
        begin = text.find(form, position)
        if begin < 0 or text[position:begin].strip():
            return None
        end = begin + len(form)
        inside = [] if stop - index == 1 else _align_words(words[index:stop], {}, form)
        stop = min(stop, len(words))
        if inside:
            found += [(begin + first, begin + last) for first, last in inside]
        else:
            found += [(begin, end)] * (stop - index)
        position, index = end, stop
    return None if text[position:].strip() else found


# ---- writing


def write_column_documents(
    path: PathName, documents: Sequence[Document], *, unknown_label: str | None = None, label_sets: str | None = None
) -> None:
    """Write a column file: the original rows with new labels, or rows of words and labels."""
    _write_documents(path, documents, "columns", (unknown_marks("columns", unknown_label)[0], label_sets))


def write_conllu_documents(
    path: PathName, documents: Sequence[Document], *, label: int | str | None = None, label_sets: str | None = None
) -> None:
    """Write CoNLL-U: the original rows with new labels, or new rows; ``label`` is the column of labels."""
    _write_documents(path, documents, "conllu", (unknown_marks("conllu")[0], label_sets), label)


def _write_documents(
    path: PathName,
    documents: Sequence[Document],
    kind: str,
    marks: tuple[str, str | None],
    label: int | str | None = None,
) -> None:
    """Write documents as rows of one file."""
    names = [document_name(document, number) for number, document in enumerate(documents, start=1)]
    y = [list_labels(document, name=name) for document, name in zip(documents, names, strict=True)]
    kept = [document.kept.get(kind) for document in documents]
    known = [one for one in kept if one is not None]
    # Rows that were read are written where all documents have them, and as many columns.
    same = len({(len(one["rows"][0]), one["separator"], *([one["place"]] * (kind == "columns"))) for one in known}) == 1
    whole = same and len(known) == len(kept)
    guessed = detect_scheme(y)
    sequences = []
    for document, name, labels, own in zip(documents, names, y, kept, strict=True):
        cells = [_to_cell(one, *marks, name) for one in labels]
        read = own if whole and own is not None and len(own["rows"]) == len(cells) else None
        sequence, place = _to_sequence(document, kind, name, cells, read, label)
        declared = read is None or label is not None or read["declared"]
        _write_comments(document, sequence, kind, place if declared else None, read is None, guessed)
        sequences.append(sequence)
    write_columns(path, sequences)


def _to_sequence(
    document: Document, kind: str, name: str, cells: list[str], kept: dict[str, Any] | None, label: int | str | None
) -> tuple[ColumnSequence, int | str | None]:
    """Convert a document to rows with its labels; return also the number of their column."""
    conllu, tokens, words = kind == "conllu", tokens_or_default(document), document.words
    if not words:
        raise ValueError(f"{name} has no words, and a column file has no place for it")
    if not conllu and words[0].startswith("-DOCSTART-"):
        raise ValueError(f"{name} begins with -DOCSTART-, which column files do not take for a word")
    if kept is not None:
        rows, place = [list(row) for row in kept["rows"]], kept["place"] if label is None else label
        lines = [(row, line) for row, line in kept["lines"]]
        sequence = ColumnSequence(rows, kept=lines, separator=kept["separator"])
    elif conllu:
        place = label if label is not None else _UPOS if document.scheme == NO_SCHEME else f"{_IN_MISC}NER"
        glued = [this[1] == after[0] for this, after in pairwise(tokens)] + [False]
        misc = ["SpaceAfter=No" if one else _EMPTY for one in glued]
        numbered = enumerate(zip(words, misc, strict=True), start=1)
        sequence = ColumnSequence([[str(number), word, *[_EMPTY] * 7, last] for number, (word, last) in numbered])
    else:
        sequence, place = ColumnSequence([[word, ""] for word in words]), 1
    for row, cell in zip(sequence.rows, cells, strict=True):
        if isinstance(place, str):
            _set_misc(row, _parse_misc_name(place), cell, name)
        elif place is not None:
            row[place] = cell
    return sequence, place


def _to_cell(label: TokenLabel, unknown: str, sets: str | None, name: str) -> str:
    """Convert a label to the text of a cell."""
    if isinstance(label, str):
        if label == unknown or (sets is not None and sets in label):
            raise ValueError(f"{name}: the label {label!r} would be read as unknown or as a set; choose another mark")
        return label
    if label is None:
        return unknown
    return OUTSIDE if sets is None else label_text(frozenset(label), between=sets)


def _set_misc(row: list[str], attribute: str, cell: str, name: str) -> None:
    """Set an attribute of MISC, or remove it if the value is empty; equal values leave the text unchanged."""
    if re.search(r"[|\s]", cell):
        raise ValueError(f"{name}: the label {cell!r:.60} cannot stand in MISC, which has no spaces and no | in values")
    found = _parse_misc(row)
    if found.get(attribute, _EMPTY) == cell:
        return
    found = {key: value for key, value in found.items() if key != attribute} | (
        {} if cell == _EMPTY else {attribute: cell}
    )
    row[_MISC] = "|".join(f"{key}={value}" if value else key for key, value in found.items()) or _EMPTY


def _write_comments(
    document: Document,
    sequence: ColumnSequence,
    kind: str,
    place: int | str | None,
    bare: bool,
    guessed: str,
) -> None:
    """Update the comments before a sequence with the id, metadata and text of the document."""
    given = _parse_comments(sequence.kept)
    id_name = _find_id_name(given) or ("sent_id" if kind == "conllu" else "id")
    values = document.metadata if document.id is None else {**document.metadata, id_name: document.id}
    wanted = {
        name: value for name, value in values.items() if given.get(name) == value or _is_valid_comment(name, value)
    }
    held = {"made_ids", "unlabelled"}
    held |= {"metadata"} if set(document.metadata) <= set(wanted) else set()
    held |= {"id"} if document.id is None or id_name in wanted else set()
    lines = []
    for row, line in sequence.kept:
        match = _NAMED.fullmatch(line) if row == 0 else None
        name = match[1] if match and match[1] in given else None
        if name is None or name in ("text", "id") or given[name] == wanted.get(name):
            lines.append((row, line))
        elif name in wanted:
            lines.append((row, f"# {name} = {wanted[name]}"))
    new = [(0, f"# {name} = {value}") for name, value in wanted.items() if name not in given]
    sequence.kept = sorted([*lines, *new], key=lambda pair: pair[0])
    tokens = tokens_or_default(document)
    if _restore_text(sequence, kind) != (document.text, tokens) and _is_valid_comment("text", document.text):
        lines = [pair for pair in sequence.kept if not (pair[0] == 0 and pair[1].startswith("# text = "))]
        sequence.kept = [(0, f"# text = {document.text}"), *lines]
    if _restore_text(sequence, kind) == (document.text, tokens):
        held |= {"text"} if document.tokens is None else {"text", "tokens"}
    found = collect_extras(document, "" if bare else kind, held=held, as_labels=True)
    if "spans" not in found and guessed == document.scheme:
        found.pop("scheme", None)  # the labels of the file show it
    if isinstance(place, str):
        found["place"] = place
    if bare and found:
        found["bare"] = True
    if found:
        n_before = sum(row == 0 for row, _ in sequence.kept)
        sequence.kept.insert(n_before, (0, f"# {OWN} = {json.dumps(found, ensure_ascii=False)}"))


def _find_id_name(comments: Mapping[str, str]) -> str | None:
    """Return the name of the comment with the id."""
    return next((name for name in ("sent_id", "id") if name in comments), None)


def _is_valid_comment(name: str, value: Any) -> bool:
    """Whether a name and a value can be written as a comment."""
    plain = isinstance(value, str) and value == value.strip() and value.isprintable()
    return bool(plain and name != OWN and _NAMED.fullmatch(f"# {name} = {value}") and value)
