"""Texts and time lines of other tools on the page: doccano, Label Studio, brat, spaCy, raw text, Praat and ELAN.

Words of a text are its tokens, or those of the tokenizer in formats/tokens.py if the file has none. Labels are written
as spans; unknown labels and sets of labels are written as metadata of this package (formats/own_parts.py). Unchanged
spans keep their ids, and unchanged documents are written as they were read.

In a time line with tiers, the intervals of one tier are the positions, and their texts the words. Another tier holds
the labels: the one named by ``label``, else the last. A single tier is labelled in its own intervals and the gaps
between.

Formats with several files have one content: the bytes of all files as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kernelfields.data.text_files import write_whole
from kernelfields.formats.annotated_texts import (
    NO_SCHEME,
    Document,
    LabelledSpan,
    Labelling,
    choose_labelling,
    cut_tokens_at_spans,
    document_name,
    list_labels,
    list_spans,
    tokens_or_default,
)
from kernelfields.formats.annotation_files import guess_annotation_format, read_documents, write_documents
from kernelfields.formats.tokens import TokenizedText
from kernelfields.page.label_file import LabelFile, command_line, name_items, neighbours_in_document
from kernelfields.page.sequence_files import SequenceLabelFile

# Files of a folder that belong to a format; a hidden one lists them in their order.
_MEMBERS = {"brat": (".ann", ".txt"), "textgrid": (".textgrid",), "elan": (".eaf",)}
_ORDER = ".kernelfields-order"


@dataclass(frozen=True, eq=False)
class DocumentFile(LabelFile):
    """Texts with labelled spans in a format, ``kind``."""

    documents: list[Document]
    kind: str
    #: The texts cut into words, also where a span begins or ends inside of a word.
    texts: Sequence[TokenizedText] = ()

    @classmethod
    def from_path(cls, path: str, kind: str, options: dict[str, Any]) -> DocumentFile:
        """Read texts, with or without labelled spans."""
        documents = read_documents(path, kind, **options)
        if kind == "text":
            documents = [replace(document, tokens=tokens_or_default(document)) for document in documents]
        texts = [TokenizedText(document.text, cut_tokens_at_spans(document)) for document in documents]
        words = [text.words for text in texts]
        y = [
            list_labels(_with_tokens(document, text), name=document_name(document, number))
            if document.labellings
            else None
            for number, (document, text) in enumerate(zip(documents, texts, strict=True), start=1)
        ]
        labels = [None if own is None else [_entry(label) for label in own] for own in y]
        scheme = next((document.scheme for document in documents if document.labellings), "spans")
        own = (Path(path), b"", words, labels, words, None, None if scheme == NO_SCHEME else scheme, options)
        found = cls(*own, documents=documents, kind=kind, texts=texts, names=_names(documents))
        return replace(found, content=found.read_content())

    def with_labels(self, labels: Sequence[Sequence[object]]) -> bytes:
        """Return the content of the files with these labels."""
        assert len(labels) == len(self.documents)
        return self._file_content([self._label_document(item, own) for item, own in enumerate(labels)])

    def text(self, item: int) -> TokenizedText | None:
        """Return the text of a document."""
        return self.texts[item]

    def find_neighbours(self, item: int) -> tuple[int | None, int | None]:
        """Return the numbers of the neighbouring lines of raw text; other documents have no neighbours."""
        return neighbours_in_document(item, len(self.documents), lambda _: self.kind != "text")

    def with_text(self, item: int, text: TokenizedText) -> LabelFile:
        """Return the file with a new segmentation of a text into words."""
        if self.kind == "conllu":
            return super().with_text(item, text)
        texts, words = list(self.texts), list(self.words or ())
        texts[item], words[item] = text, text.words
        return replace(self, texts=texts, X=words, words=words)

    def check_item(self, item: int, labels: Sequence[object]) -> None:
        """Raise ValueError if the format cannot hold a document with these labels."""
        self._file_content([self._label_document(item, labels)])

    def _label_document(self, item: int, labels: Sequence[Any]) -> Document:
        """Return a document with labels of its words."""
        as_spans = self.kind not in ("text", "conllu")  # these have a label for each word
        document, text = self.documents[item], self.texts[item]
        labelled = _with_word_labels(document, text, labels, as_spans, self.scheme or NO_SCHEME)
        # Words that spans cut again when they are read need not be written.
        return labelled if cut_tokens_at_spans(labelled) == text.tokens else _with_tokens(labelled, text)

    def _file_content(self, documents: list[Document]) -> bytes:
        """Return the content of the files after writing the documents to a temporary folder."""
        kind = guess_annotation_format(self.path) if self.kind == "text" else self.kind
        with TemporaryDirectory() as folder:
            place = Path(folder) / self.path.name
            write_documents(place, documents, kind or "columns")
            return _content(place, self.kind)

    def without_labels(self) -> LabelFile:
        """Return the texts without labelled spans, and without word boundaries that come from them."""
        documents = [replace(document, labellings=[]) for document in self.documents]
        texts = [TokenizedText(document.text, cut_tokens_at_spans(document)) for document in documents]
        words = [text.words for text in texts]
        return replace(self, documents=documents, texts=texts, X=words, words=words, y=None)

    def reload(self, content: bytes) -> LabelFile:
        """Read the file again after saving, with its new ids."""
        if self.kind == "text":
            return SequenceLabelFile.from_path(str(self.path), "columns", {})
        return self.from_path(str(self.path), self.kind, self.options)

    def commands(self) -> dict[str, str]:
        """Return the commands to export the file and to train on it; models are trained on columns."""
        model = self.path.with_suffix(".safetensors")
        if self.kind in ("text", "conllu"):
            exported = command_line("convert", self.path, self.path.with_suffix(".jsonl"), "--to", "doccano")
            return {"train a model": command_line("train", self.path, "-m", model), "export the labels": exported}
        columns = self.path.with_suffix(".conll")
        return {
            "export the labels": command_line("convert", self.path, columns, "--from", self.kind),
            "train a model": command_line("train", columns, "-m", model),
        }

    def read_content(self) -> bytes:
        """Read the current content of the files; empty if they do not exist."""
        return _content(self.path, self.kind) if self.path.exists() else b""

    def save(self, content: bytes) -> None:
        """Replace the content of all files at once."""
        if not _has_several_files(self.path, self.kind):
            super().save(content)
            return
        folder = self.path.parent if self.path.suffix == ".ann" else self.path
        folder.mkdir(exist_ok=True)
        write_whole({str(folder / name): bytes.fromhex(own) for name, own in json.loads(content).items()})


@dataclass(frozen=True, eq=False)
class TierFile(DocumentFile):
    """Time lines with labels in one tier, ``tier``; ``intervals`` has the intervals of each document."""

    tier: str = ""
    intervals: Sequence[Sequence[tuple[float, float]]] = ()

    @classmethod
    def from_path(cls, path: str, kind: str, options: dict[str, Any]) -> TierFile:
        """Read time lines with tiers; the option ``label`` names the tier of the labels."""
        documents = read_documents(path, kind)
        names = list(dict.fromkeys(own.annotator for document in documents for own in document.labellings))
        tier = str(options.get("label") or (names[-1] if names else "labels"))
        others = [name for name in names if name != tier]
        shown = others[0] if others else None
        words, intervals, y = [], [], []
        for document in documents:
            labelled = _tier(document, tier)
            spans = [*_add_gaps(document, labelled)] if shown is None else _tier(document, shown)
            words.append([f"{span.begin:g} – {span.end:g}" if shown is None else span.label for span in spans])
            intervals.append([(span.begin, span.end) for span in spans])
            y.append([_label_at(labelled, *interval) for interval in intervals[-1]])
        own = (Path(path), b"", words, y, words, None, None, options)
        found = cls(*own, documents=documents, kind=kind, tier=tier, intervals=intervals, names=_names(documents))
        return replace(found, content=found.read_content())

    def text(self, item: int) -> None:
        """Return None: a time line has no text."""

    def without_labels(self) -> LabelFile:
        """Return the time lines without the labels of their tier, and with the other tiers."""
        return replace(self, y=None)

    def commands(self) -> dict[str, str]:
        """Return the command that exports the tiers."""
        other, ending = ("elan", ".eaf") if self.kind == "textgrid" else ("textgrid", ".TextGrid")
        exported = self.path.with_suffix("" if self.path.is_dir() else ending)
        if exported == self.path:
            exported = self.path.with_name(f"{self.path.name}-{other}")
        return {"export the tiers": command_line("convert", self.path, exported, "--from", self.kind, "--to", other)}

    def _label_document(self, item: int, labels: Sequence[Any]) -> Document:
        """Return a document with new labels in its tier; spans with an unchanged label stay."""
        document, intervals = self.documents[item], self.intervals[item]
        if any(isinstance(label, set | frozenset) for label in labels):
            raise ValueError("a tier has one label for an interval: choose one of those that may be right")
        old = _tier(document, self.tier)
        at = [(begin, end, label) for (begin, end), label in zip(intervals, labels, strict=True)]
        kept = [
            span
            for span in old
            if all(label == span.label for begin, end, label in at if span.begin <= (begin + end) / 2 < span.end)
        ]
        new = [own for own in at if own[2] is not None and _label_at(kept, *own[:2]) is None]
        spans = [*kept, *(_clip_span(LabelledSpan(str(label), begin, end), kept) for begin, end, label in new)]
        if spans == old:
            return document
        tiers = list(document.labellings)
        if all(own.annotator != self.tier for own in tiers):
            tiers.append(Labelling([], annotator=self.tier))
        changed = [replace(own, spans=spans) if own.annotator == self.tier else own for own in tiers]
        return replace(document, labellings=changed)


def _names(documents: Sequence[Document]) -> list[str | None]:
    return name_items([document.id for document in documents])


def _entry(label: Any) -> Any:
    return set(label) if isinstance(label, frozenset) else label


def _with_tokens(document: Document, text: TokenizedText) -> Document:
    return document if document.tokens == text.tokens else replace(document, tokens=list(text.tokens))


def _with_word_labels(
    document: Document, text: TokenizedText, entries: Sequence[Any], as_spans: bool, scheme: str
) -> Document:
    """Return a document with known labels of the words of a text, as spans if all labels are known.

    ``scheme`` is that of labels where there were none.
    """
    labels = [frozenset(entry) if isinstance(entry, set | frozenset) else entry for entry in entries]
    old = choose_labelling(document)
    if (old is None and not any(entry is not None for entry in labels)) or (
        old is not None and _has_labels(document, text, old, labels)
    ):
        return document
    place = next((k for k, own in enumerate(document.labellings) if own is old), 0)
    others = [own for own in document.labellings if own is not old]
    if not any(entry is not None for entry in labels):
        return replace(document, labellings=others)
    if not document.labellings:
        document = replace(document, scheme=scheme)
    whole = _with_tokens(document, text)
    new = replace(old or Labelling([]), spans=None, labels=labels, predicted=False)
    if as_spans and document.scheme != NO_SCHEME and all(isinstance(entry, str) for entry in labels):
        before = {(span.label, span.begin, span.end): span for span in (old.spans if old else None) or ()}
        spans = [before.get((span.label, span.begin, span.end), span) for span in list_spans(whole, new)]
        new, whole = replace(new, spans=spans, labels=None), document
    if any((own.spans is None) != (new.spans is None) for own in others):
        others = [replace(own, spans=None, labels=list_labels(whole, own)) for own in others]
    return replace(whole, labellings=[*others[:place], new, *others[place:]])


def _has_labels(document: Document, text: TokenizedText, labelling: Labelling, labels: Sequence[Any]) -> bool:
    """Whether a labelling has exactly these labels of the words of a text."""
    if labelling.labels is not None and document.tokens != text.tokens:
        return False
    return labels == list_labels(_with_tokens(document, text), labelling)


def _files_of_path(path: Path, kind: str) -> list[Path]:
    """Return the files of a format at a path or in a folder."""
    if not path.is_dir():
        return [path.with_suffix(ending) for ending in _MEMBERS["brat"]] if kind == "brat" else [path]
    own = [each for each in sorted(path.iterdir()) if each.suffix.lower() in _MEMBERS.get(kind, ())]
    return own + [each for each in [path / _ORDER] if each.exists()]


def _content(path: Path, kind: str) -> bytes:
    """Return the bytes of one file, or of several files as one JSON object."""
    if not _has_several_files(path, kind):
        return path.read_bytes()
    return json.dumps({each.name: each.read_bytes().hex() for each in _files_of_path(path, kind)}).encode()


def _has_several_files(path: Path, kind: str) -> bool:
    """Whether a path stands for several files: a folder, even a missing one, or a text and its labels."""
    return kind == "brat" or (kind in _MEMBERS and path.suffix.lower() not in _MEMBERS[kind])


def _tier(document: Document, name: str) -> list[LabelledSpan]:
    """Return the spans of the tier with a name; empty without such a tier."""
    return next((own.spans or [] for own in document.labellings if own.annotator == name), [])


def _label_at(spans: Sequence[LabelledSpan], begin: float, end: float) -> str | None:
    """Return the label of the span around the middle of an interval; None without such a span."""
    middle = (begin + end) / 2
    return next((span.label for span in spans if span.begin <= middle < span.end), None)


def _add_gaps(document: Document, spans: Sequence[LabelledSpan]) -> Iterator[LabelledSpan]:
    """Yield the intervals of a tier, and an interval for each gap between them."""
    position, last = document.duration or (0.0, 0.0)
    for span in spans:
        if span.begin > position:
            yield LabelledSpan("", position, span.begin)
        yield span
        position = span.end
    if position < last:
        yield LabelledSpan("", position, last)


def _clip_span(span: LabelledSpan, others: Sequence[LabelledSpan]) -> LabelledSpan:
    """Clip a span at neighbouring spans, which must not contain its middle."""
    middle = (span.begin + span.end) / 2
    begin = max([span.begin, *(other.end for other in others if other.end <= middle)])
    end = min([span.end, *(other.begin for other in others if other.begin >= middle)])
    return replace(span, begin=begin, end=end)
