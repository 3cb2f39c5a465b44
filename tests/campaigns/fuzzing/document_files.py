"""Damaged files of annotated texts and time lines: CoNLL-U, doccano, Label Studio, brat, spaCy, TextGrid, ELAN.

Lines, pieces and numbers of texts are damaged, values of JSON wherever it stands, encodings, and archives of spaCy:
their bytes, their values, and arrays that unpack to far more than the file. What is accepted is used as conversion and
training would: cut into words and labels, written again in its own format and in another one.
"""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernelfields.formats import (
    Document,
    LabelledSpan,
    Labelling,
    list_labels,
    read_documents,
    read_sequences,
    write_documents,
)
from kernelfields.formats.annotated_texts import tokens_or_default
from tests.campaigns.fuzzing.damage import damaged_bytes, damaged_document, damaged_text, odd_number, spelled_out
from tests.campaigns.fuzzing.verdicts import Case, Unsound

_CONLLU = "\n".join(
    [
        "# sent_id = a-1",
        "# text = Im Zug fahren.",
        "1-2\tIm\t_\t_\t_\t_\t_\t_\t_\t_",
        "1\tIn\tin\tADP\tAPPR\t_\t3\tcase\t_\tNER=O",
        "2\tdem\tder\tDET\tART\tCase=Dat\t3\tdet\t_\tNER=B-X|Gloss=the",
        "2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_",
        "3\tZug\tZug\tNOUN\tNN\t_\t0\troot\t_\tSpaceAfter=No|Gloss=train",
        "4-5\tfahren\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No",
        "4\tfahr\t_\tVERB\tVV\t_\t3\tx\t_\t_",
        "5\ten\t_\tX\tXX\t_\t3\tx\t_\t_",
        "6\t.\t.\tPUNCT\t$.\t_\t3\tpunct\t_\t_",
        "",
        "",
    ]
)
_TEXTGRID = "\n".join(
    [
        'File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0\nxmax = 2.5\ntiers? <exists>\nsize = 2',
        '    item [1]:\n        class = "IntervalTier"\n        name = "words"\n        xmin = 0\n        xmax = 2.5',
        '        intervals: size = 2\n        intervals [1]:\n            xmin = 0\n        xmax = 1.25\n  text = "a"',
        '        intervals [2]:\n            xmin = 1.25\n            xmax = 2.5\n            text = "b ""c"""',
        '    item [2]:\n        class = "TextTier"\n        name = "points"\n        xmin = 0\n        xmax = 2.5',
        '        points: size = 1\n        points [1]:\n            number = 0.5\n            mark = "x"\n',
    ]
)
_ELAN = "\n".join(
    [
        '<?xml version="1.0" encoding="UTF-8"?><ANNOTATION_DOCUMENT><HEADER MEDIA_FILE="a.wav"/><TIME_ORDER>',
        '<TIME_SLOT TIME_SLOT_ID="t1" TIME_VALUE="0"/><TIME_SLOT TIME_SLOT_ID="t2"/>',
        '<TIME_SLOT TIME_SLOT_ID="t3" TIME_VALUE="1000"/></TIME_ORDER><TIER TIER_ID="w" LINGUISTIC_TYPE_REF="w">',
        '<ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1" TIME_SLOT_REF1="t1" TIME_SLOT_REF2="t2">',
        "<ANNOTATION_VALUE>one</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION></TIER>",
        '<TIER TIER_ID="tags" PARENT_REF="words" LINGUISTIC_TYPE_REF="w"><ANNOTATION>',
        '<REF_ANNOTATION ANNOTATION_ID="a2" ANNOTATION_REF="a1"><ANNOTATION_VALUE>NUM</ANNOTATION_VALUE>',
        "</REF_ANNOTATION></ANNOTATION></TIER><CONTROLLED_VOCABULARY/></ANNOTATION_DOCUMENT>",
    ]
)
_TASKS = """[{"id": 1, "data": {"text": "Anna \U0001f600 sings", "other": 1}, "meta": {"a": 1}, "annotations": [
{"completed_by": {"email": "a@b.c"}, "result": [{"id": "x", "type": "labels", "from_name": "label", "to_name": "text",
"value": {"start": 7, "end": 12, "text": "sings", "labels": ["V"]}, "score": 0.5}, {"type": "choices"}]}],
"predictions": [{"model_version": "m", "result": []}]}, {"data": {"audio": "a.wav"}, "annotations": [{"result": [
{"type": "labels", "value": {"start": 0.5, "end": 1.5, "labels": ["a"]}}]}]}]"""
_BRAT = "\n".join(["T1\tPER 0 4;11 16\tAnna Smith", "T2\tLOC 17 19;20 24\tof Oslo", "R1\tin Arg1:T1 Arg2:T2", ""])
_BRAT_TEXT = "Anna Maria\nSmith of Oslo"
#: Of each format: the end of the name, a file of another program, and pieces that files are damaged by.
_FORMATS: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "conllu": (
        ".conllu",
        _CONLLU,
        ("\t", "|", "=", "-", "1-1", "2-1", "0-9", "1.1", "_", "#", "\n\n", "NER=", "\ufeff"),
    ),
    "doccano": (".jsonl", None, ("{", "}", "[", "]", ",", ":", '"', "null", "1e999", "NaN", "\\ud800", "\n")),
    "labelstudio": (".json", _TASKS, ("{", "}", "[", "]", ",", ":", '"', "null", "1e999", "NaN", "\\ud800", "-1")),
    "brat": (".ann", _BRAT, ("\t", "T1", ";", " ", "0 0", "9 1", "#0\tkernelfields T0\t", "T99999", "\ufeff")),
    "textgrid": (
        ".TextGrid",
        _TEXTGRID,
        ('"', '""', "<exists>", "<absent>", "size = ", "\n", "1e400", "nan", "-1", "!"),
    ),
    "elan": (
        ".eaf",
        _ELAN,
        (
            "<",
            ">",
            "/>",
            "&amp;",
            "&#0;",
            "<TIER>",
            "<!--",
            "]]>",
            '"',
            "UTF-16",
            "latin-1",
            "x-none",
            "cp037",
            "utf-7",
        ),
    ),
    "spacy": (".spacy", None, ()),
}
NAMES = tuple(_FORMATS)
# An array that unpacks to so many bytes is a bomb.
_BOMB = 256 * 2**20


def _documents(seconds: bool) -> list[Document]:
    """Return documents with much that formats have no place for."""
    if seconds:
        spans = [LabelledSpan("a", 0.0, 1.0), LabelledSpan("b", 1.0, 1.5)]
        own = [Labelling(spans, annotator="words"), Labelling(spans[:1], annotator="model", predicted=True)]
        return [Document(labellings=own, duration=(0.0, 2.0), id="film", metadata={"speaker": "Zoë", "n": [1, None]})]
    text = "Anna lives\nin  Oslo."
    tokens: list[tuple[float, float]] = [(0, 4), (5, 10), (11, 13), (15, 19), (19, 20)]
    labelled = [Labelling(labels=["B-PER", "O", "O", "S-LOC", "O"], annotator="first")]
    spans = [LabelledSpan("PER", 0, 4), LabelledSpan("LOC", 15, 19)]
    return [
        Document(text, tokens, labelled, "a b", {"source": {"x": [1, "y"]}}, "bioes"),
        Document(text, None, [Labelling(spans)]),
        Document("Hello", labellings=[]),
    ]


class DocumentFiles:
    """Damaged files of one format of annotated texts or time lines."""

    def __init__(self, name: str):
        self.name = name
        self.folder = Path(tempfile.mkdtemp())
        self.suffix = _FORMATS[name][0]
        self._bases: list[bytes] = []

    def prepare(self) -> None:
        """Make files that are whole, and use them."""
        path, (_, foreign, _) = self.folder / f"whole{self.suffix}", _FORMATS[self.name]
        documents = _documents(seconds=self.name in ("textgrid", "elan"))
        write_documents(path, documents if self.name != "brat" else documents[:1], self.name, lossy=True)
        self._text = path.with_suffix(".txt").read_bytes() if self.name == "brat" else b""
        self._bases = [path.read_bytes(), *([] if foreign is None else [foreign.encode()])]
        for number in range(len(self._bases)):
            case = self._case(self._bases[number], number, "whole")
            case.use(case.load())

    def case(self, random: np.random.Generator) -> Case:
        """Return a damaged file."""
        number = int(random.integers(len(self._bases)))
        content = self._bases[number]
        if self.name == "spacy":
            return self._case(*_damaged_archive(content, random))
        text = content.decode()
        match random.integers(4):
            case 0 if (damaged := _damaged_json(text, random)) is not None:
                return self._case(damaged[0].encode("utf-8", "surrogatepass"), number, damaged[1])
            case 0 | 1:
                text = odd_number(text, random)
                note = ["an odd number", "an odd number, NER in MISC"][self.name == "conllu" and random.random() < 0.5]
                return self._case(text.encode("utf-8", "surrogatepass"), number, note)
            case 2 if self.name in ("textgrid", "elan"):
                content = text.encode(["utf-16", "utf-32", "cp037"][random.integers(3)], "replace")
                return self._case(content, number, "another encoding")
            case _:
                return self._case(damaged_text(text, _FORMATS[self.name][2], random), number, "damaged text")

    def _case(self, content: bytes, number: int, note: str) -> Case:
        path = self.folder / f"case{self.suffix}"

        def load() -> list[Document]:
            path.write_bytes(content)
            if self.name == "brat":
                path.with_suffix(".txt").write_bytes(_BRAT_TEXT.encode() if number else self._text)
            options = {"label": "misc:NER"} if "NER" in note else {}
            return read_documents(path, self.name, **options)

        return Case(load, self._use, content, self.suffix, note)

    def _use(self, documents: list[Document]) -> None:
        """Take words and labels, and write the documents in their own format and in another one."""
        for document in documents:
            if document.duration is None:
                tokens_or_default(document)
                list_labels(document)
            elif not np.isfinite(document.duration).all():
                raise Unsound(f"a time line of {document.duration} seconds")
        if self.name == "conllu":
            read_sequences(self.folder / f"case{self.suffix}", "conllu", labels_required=False)
        for name in {self.name, "labelstudio"}:
            place = self.folder / ("out.json" if name == "labelstudio" else f"out{_FORMATS[name][0]}")
            write_documents(place, documents, name, lossy=True)
            if len(read_documents(place, name)) != len(documents):
                raise Unsound(f"another number of documents after writing {name}")


def _damaged_json(text: str, random: np.random.Generator) -> tuple[str, str] | None:
    """Return a text with one value of a piece of JSON in it damaged; None if there is none."""
    found = []
    for match in re.finditer(r'(?s)\A\[.*\]\Z|\{"[^\n]*\}(?=<|$)', text.strip(), re.MULTILINE):
        try:
            found.append((match, json.loads(match[0])))
        except ValueError:
            continue
    if not found:
        return None
    match, value = found[random.integers(len(found))]
    changed, note = damaged_document(value, random)
    return text.strip()[: match.start()] + spelled_out(json.dumps(changed)) + text.strip()[match.end() :] + "\n", note


def _damaged_archive(content: bytes, random: np.random.Generator) -> tuple[bytes, int, str]:
    """Return a DocBin with damaged bytes, packed or not, with odd values, or one that unpacks to far more."""
    import srsly

    inside = zlib.decompress(content)
    kind = int(random.choice(4, p=[0.3, 0.3, 0.35, 0.05]))
    if kind == 0:
        return damaged_bytes(content, random), 0, "damaged bytes"
    if kind == 1:
        return zlib.compress(damaged_bytes(inside, random)), 0, "damaged bytes inside"
    values = srsly.msgpack_loads(inside)
    if kind == 3:
        name = ["tokens", "spaces", "lengths", "other"][random.integers(4)]
        values[name] = bytes(_BOMB)
        return zlib.compress(srsly.msgpack_dumps(values)), 0, f"{name} of {_BOMB} bytes"
    name = list(values)[random.integers(len(values))]
    odd: list[Callable[[], Any]] = [
        lambda: None,
        list,
        lambda: values[list(values)[random.integers(len(values))]],
        lambda: damaged_bytes(values[name], random) if isinstance(values[name], bytes) else b"",
        lambda: [values[name]],
        lambda: int(random.integers(-(2**40), 2**40)),
        lambda: "x",
        lambda: {"a": 1},
    ]
    values[name] = odd[random.integers(len(odd))]()
    return zlib.compress(srsly.msgpack_dumps(values)), 0, f"odd {name}"
