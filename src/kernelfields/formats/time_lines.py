"""Time lines: Praat's TextGrid and ELAN's .eaf. A tier is a labelling, its name that of the annotator.

    textgrid   tiers of intervals, which do not overlap, or of points (begin = end); intervals without text are gaps.
               Read in the long and the short form, UTF-8 or UTF-16; written in the long form.
    elan       tiers of annotations between time slots of whole milliseconds. Annotations that refer to others have
               their times; slots without a time are interpolated. Other content and unchanged tiers are written as they
               were read.

The path is a file, or a folder with a file for each document; ids are names of files. XML with a document type, which
could declare entities, is refused.

Raises SequenceFileError with the file and, in a TextGrid, the line.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from kernelfields.data.text_files import PathName, SequenceFileError, read_content
from kernelfields.formats.annotated_texts import (
    Document,
    LabelledSpan,
    Labelling,
    collect_extras,
    list_spans,
    restore_extras,
)
from kernelfields.formats.document_folders import document_id, find_document_files, write_files
from kernelfields.formats.own_parts import OWN, parse_own_parts

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_PIECE = re.compile(r'"(?:[^"]|"")*"|\S+')
_POINTS = "TextTier"
_NOT_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_TIER_ATTRIBUTES = ("LINGUISTIC_TYPE_REF", "PARENT_REF", "ANNOTATOR", "PARTICIPANT", "DEFAULT_LOCALE", "LANG_REF")


# ---- TextGrid


def read_textgrid(path: PathName) -> list[Document]:
    """Read TextGrids."""
    return [
        replace(_parse_textgrid(read_content(file), str(file)), id=document_id(file))
        for file in find_document_files(path, ".TextGrid")
    ]


def _parse_textgrid(content: bytes, where: str) -> Document:
    """Parse the content of a TextGrid as a document."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise SequenceFileError(f"{where}: byte {error.start} is not {encoding[:6].upper()}") from error
    pieces = _parse_values(text)

    def take_value(kind: type) -> Any:
        """Return the next value, which must have the given type."""
        value: Any
        line, value = next(pieces, (text.count("\n") + 1, None))
        counts = isinstance(value, float) and value >= 0 and value.is_integer()
        if not (counts if kind is int else isinstance(value, kind) and value not in (inf, -inf)):
            found = "the end of the file" if value is None else repr(value)
            raise SequenceFileError(f"{where}, line {line}: expected a {_KINDS[kind]} of a TextGrid, got {found:.60}")
        return int(value) if kind is int else value

    if (take_value(str), take_value(str)) != ("ooTextFile", "TextGrid"):
        raise SequenceFileError(f"{where}, line 1: not a TextGrid in text form")
    duration = (take_value(float), take_value(float))
    n_tiers = take_value(int) if take_value(bool) else 0
    labellings = []
    for _ in range(n_tiers):
        points, name = take_value(str) == _POINTS, take_value(str)
        take_value(float), take_value(float)
        spans = []
        for _ in range(take_value(int)):
            begin = take_value(float)
            end = begin if points else take_value(float)
            if label := take_value(str):
                spans.append(LabelledSpan(label, begin, end))
        labellings.append(Labelling(spans, annotator=name, metadata={"points": True} if points else {}))
    return Document(labellings=labellings, duration=duration)


_KINDS = {str: "text", float: "number", int: "count", bool: "flag"}


def _parse_values(text: str) -> Iterator[tuple[int, str | float | bool]]:
    """Yield the line and value of each separate text, number and flag; Praat ignores everything else."""
    line, last = 1, 0
    for match in _PIECE.finditer(text):
        piece = match[0]
        line, last = line + text.count("\n", last, match.start()), match.start()
        if piece[0] == '"' and len(piece) > 1:
            yield line, piece[1:-1].replace('""', '"')
        elif piece in ("<exists>", "<absent>"):
            yield line, piece == "<exists>"
        elif _NUMBER.fullmatch(piece):
            yield line, float(piece)


def write_textgrid(path: PathName, documents: Sequence[Document]) -> None:
    """Write TextGrids, in the long form."""
    contents = [{".TextGrid": _write_textgrid(document).encode("utf-8")} for document in documents]
    write_files(path, documents, contents, (".TextGrid",))


def _write_textgrid(document: Document) -> str:
    """Format a document as the text of a TextGrid."""
    begin, end = document.duration or (0.0, 0.0)
    find_bounds = [f"xmin = {begin!r}", f"xmax = {end!r}"]
    n_tiers = len(document.labellings)
    lines = [
        'File type = "ooTextFile"',
        'Object class = "TextGrid"',
        "",
        *find_bounds,
        "tiers? <exists>",
        f"size = {n_tiers}",
    ]
    lines.append("item []:")
    for number, labelling in enumerate(document.labellings, start=1):
        spans = list_spans(document, labelling, strict=False)
        points = bool(labelling.metadata.get("points")) or (bool(spans) and all(s.begin == s.end for s in spans))
        items = [] if points else _add_gaps(spans, begin, end)
        kind, member, size = (_POINTS, "points", len(spans)) if points else ("IntervalTier", "intervals", len(items))
        lines += [
            f"    item [{number}]:",
            f'        class = "{kind}"',
            f"        name = {_quote(labelling.annotator)}",
        ]
        lines += [f"        {bound}" for bound in find_bounds] + [f"        {member}: size = {size}"]
        for index, (first, last, label) in enumerate(items, start=1):
            lines += [f"        intervals [{index}]:", f"            xmin = {first!r}", f"            xmax = {last!r}"]
            lines.append(f"            text = {_quote(label)}")
        for index, span in enumerate(spans if points else (), start=1):
            lines += [f"        points [{index}]:", f"            number = {float(span.begin)!r}"]
            lines.append(f"            mark = {_quote(span.label)}")
    return "\n".join(lines) + "\n"


def _add_gaps(spans: Sequence[LabelledSpan], begin: float, end: float) -> list[tuple[float, float, str]]:
    """Return (begin, end, label) of spans and, with empty labels, of the gaps between them."""
    found, position = [], float(begin)
    for span in spans:
        if span.begin > position:
            found.append((position, float(span.begin), ""))
        found.append((float(span.begin), float(span.end), span.label))
        position = float(span.end)
    if position < end or not found:
        found.append((position, float(end), ""))
    return found


def _quote(text: str) -> str:
    """Quote a text for a TextGrid."""
    return '"' + text.replace('"', '""') + '"'


# ---- ELAN


class _Builder(ET.TreeBuilder):
    """A builder of XML trees that refuses document types."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        """Raise an error for a document type, whose entities could be huge or refer to other files."""
        raise ValueError("it declares a document type, which is refused")


def _parse_xml(content: bytes | str, where: str) -> ET.Element:
    """Parse XML and return its root."""
    raw = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if b"<!DOCTYPE" in raw.replace(b"\0", b""):
            raise ValueError("it declares a document type, which is refused")
        return ET.fromstring(raw, ET.XMLParser(target=_Builder()))
    except (ET.ParseError, ValueError) as error:
        raise SequenceFileError(f"{where}: broken XML: {error}") from error
    except LookupError as error:
        raise SequenceFileError(f"{where}, line 1: {error}. Write the file as UTF-8") from error


def read_elan(path: PathName) -> list[Document]:
    """Read annotations of ELAN."""
    documents = []
    for file in find_document_files(path, ".eaf"):
        root = _parse_xml(read_content(file), str(file))
        if root.tag != "ANNOTATION_DOCUMENT":
            raise SequenceFileError(f"{file}: not a file of ELAN: its root is {root.tag!r:.40}")
        labellings, last = _parse_tiers(root, str(file))
        document = Document(labellings=labellings, duration=(0.0, last), id=document_id(file))
        texts = [one.text for one in root.findall("HEADER/PROPERTY") if one.get("NAME") == OWN]
        own = parse_own_parts((texts[0] if texts else None) or "{}", str(file))
        if not own.get("bare"):
            document.kept["elan"] = ET.tostring(root, encoding="unicode")
        about = own.get("tiers", {})
        document.labellings = [replace(tier, **about.get(tier.annotator, {})) for tier in labellings]
        documents.append(restore_extras(document, own))
    return documents


def _parse_tiers(root: ET.Element, where: str) -> tuple[list[Labelling], float]:
    """Parse the tiers as labellings; return them with the last time."""
    slots = [(one.get("TIME_SLOT_ID", ""), one.get("TIME_VALUE")) for one in root.findall("TIME_ORDER/TIME_SLOT")]
    times = dict(
        zip([name for name, _ in slots], _interpolate_times([value for _, value in slots], where), strict=True)
    )
    annotations = {
        element.get("ANNOTATION_ID", ""): element for element in root.iter() if element.tag.endswith("_ANNOTATION")
    }

    def find_bounds(element: ET.Element) -> tuple[float, float]:
        """Return begin and end of an annotation, or of the annotation that it refers to."""
        for _ in range(len(annotations) + 1):
            if element.tag == "ALIGNABLE_ANNOTATION":
                return times[element.get("TIME_SLOT_REF1", "")], times[element.get("TIME_SLOT_REF2", "")]
            element = annotations[element.get("ANNOTATION_REF", "")]
        raise SequenceFileError(f"{where}: annotations refer to each other in a circle")

    labellings = []
    for tier in root.findall("TIER"):
        spans = []
        for element in tier.findall("ANNOTATION/*"):
            name, label = element.get("ANNOTATION_ID"), element.findtext("ANNOTATION_VALUE") or ""
            try:
                begin, end = find_bounds(element)
            except KeyError as error:
                raise SequenceFileError(
                    f"{where}: the annotation {name!r} refers to {error}, which is missing"
                ) from error
            if label:
                spans.append(LabelledSpan(label, begin, end, id=name))
        about = {name: value for name, value in tier.attrib.items() if name != "TIER_ID"}
        about = {} if about == {"LINGUISTIC_TYPE_REF": "default-lt"} else about  # what tiers without any get
        labellings.append(Labelling(spans, annotator=tier.get("TIER_ID", ""), metadata=about))
    return labellings, max(times.values(), default=0.0)


def _interpolate_times(values: Sequence[str | None], where: str) -> list[float]:
    """Return times in seconds, with missing times interpolated."""
    if wrong := [value for value in values if value is not None and not re.fullmatch(r"[0-9]{1,15}", value)]:
        raise SequenceFileError(f"{where}: the TIME_VALUE {wrong[0]!r:.40} is not a whole number of milliseconds")
    known = [
        -1,
        *(index for index, value in enumerate(values) if value is not None),
    ]  # before all slots there is time 0
    found = [0, *(int(value) for value in values if value is not None)]
    return [time / 1000 for time in np.interp(range(len(values)), known, found).tolist()]


def write_elan(path: PathName, documents: Sequence[Document]) -> None:
    """Write annotations of ELAN, into a copy of the original file or a new one."""
    write_files(path, documents, [{".eaf": _write_elan(document)} for document in documents], (".eaf",))


_NEW_FILE = (
    '<ANNOTATION_DOCUMENT AUTHOR="" DATE="1970-01-01T00:00:00+00:00" FORMAT="3.0" VERSION="3.0">'
    '<HEADER MEDIA_FILE="" TIME_UNITS="milliseconds"/><TIME_ORDER/>'
    '<LINGUISTIC_TYPE LINGUISTIC_TYPE_ID="default-lt" TIME_ALIGNABLE="true" GRAPHIC_REFERENCES="false"/>'
    "</ANNOTATION_DOCUMENT>"
)


def _write_elan(document: Document) -> bytes:
    """Format a document as the content of a file of ELAN."""
    bare = "elan" not in document.kept
    root = _parse_xml(document.kept.get("elan", _NEW_FILE), "the file that was read")
    old = {labelling.annotator: labelling for labelling in _parse_tiers(root, "the file that was read")[0]}
    order, header = root.find("TIME_ORDER"), root.find("HEADER")
    if order is None or header is None:
        raise ValueError("the file of ELAN that was read has no TIME_ORDER or no HEADER")
    labellings = dict(zip(_name_tiers(document), document.labellings, strict=True))
    tiers = {tier.get("TIER_ID", ""): tier for tier in root.findall("TIER")}
    for name in set(tiers) - set(labellings):
        root.remove(tiers[name])
    taken = {one.get("ANNOTATION_ID") for one in root.iter()} | {one.get("TIME_SLOT_ID") for one in order}
    free = (name for number in range(1, 2**62) if (name := f"kf{number}") not in taken)
    for name, labelling in labellings.items():
        if labelling == old.get(name):
            continue
        tier = tiers.get(name)
        if tier is None:
            tier = ET.Element(
                "TIER", {"LINGUISTIC_TYPE_REF": "default-lt", **_tier_attributes(labelling), "TIER_ID": name}
            )
            root.insert(list(root).index(order) + 1 + len(root.findall("TIER")), tier)
        for element in list(tier):
            tier.remove(element)
        for span in list_spans(document, labelling, strict=False):
            slots = [next(free), next(free)]
            for slot, time in zip(slots, (span.begin, span.end), strict=True):
                ET.SubElement(order, "TIME_SLOT", {"TIME_SLOT_ID": slot, "TIME_VALUE": str(round(time * 1000))})
            about = {"ANNOTATION_ID": span.id or next(free), "TIME_SLOT_REF1": slots[0], "TIME_SLOT_REF2": slots[1]}
            holder = ET.SubElement(ET.SubElement(tier, "ANNOTATION"), "ALIGNABLE_ANNOTATION", about)
            ET.SubElement(holder, "ANNOTATION_VALUE").text = span.label
    for element in header.findall("PROPERTY"):
        if element.get("NAME") == OWN:
            header.remove(element)
    held = {"id", "labelling", "unlabelled", *([] if bare else ["duration"])}
    found = collect_extras(document, "elan", held=held)
    about_tiers = {
        name: {"annotator": own.annotator, "predicted": own.predicted, "metadata": own.metadata}
        for name, own in labellings.items()
        if own.predicted or name != own.annotator or _tier_attributes(own) != own.metadata
    }
    found |= {"tiers": about_tiers} if about_tiers else {}
    if bare or found:
        ET.SubElement(header, "PROPERTY", {"NAME": OWN}).text = json.dumps({**found, "bare": True} if bare else found)
    for text in root.itertext():
        if wrong := _NOT_XML.search(text):
            raise ValueError(f"XML has no place for the character {wrong[0]!r} of {text!r:.40}")
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def _name_tiers(document: Document) -> list[str]:
    """Return distinct, nonempty names for the tiers of labellings."""
    names: list[str] = []
    for labelling in document.labellings:
        name, count = labelling.annotator or "labels", 1
        while name in names:
            name, count = f"{labelling.annotator or 'labels'} {count + 1}", count + 1
        names.append(name)
    return names


def _tier_attributes(labelling: Labelling) -> dict[str, str]:
    """Return the attributes of a tier from the metadata of a labelling."""
    return {
        name: labelling.metadata[name] for name in _TIER_ATTRIBUTES if isinstance(labelling.metadata.get(name), str)
    }
