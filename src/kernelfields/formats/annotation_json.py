"""JSON of doccano and of Label Studio.

    doccano        a line per document: {"id": 1, "text": "Anna lives", "label": [[0, 4, "PER"]], "source": "..."}
                   or, with ids and relations: "entities": [{"id", "label", "start_offset", "end_offset"}], "relations"
    labelstudio    a list of tasks: {"id", "data": {"text"}, "annotations": [{"completed_by", "result": [...]}],
                   "predictions": [{"model_version", "result": [{"value": {"start", "end", "labels"}, "score"}]}]}

Other keys are metadata and are written again. Tokens, the scheme of labels and other content without a key of the
format are written under the key "kernelfields" of a doccano line, and of "meta" of a task of Label Studio. A task
without ``data["text"]`` is a time line, and its offsets are seconds. Offsets count code points, or UTF-16 units if the
text of a region in Label Studio shows it.

The whole file is in memory. Raises SequenceFileError with the file and the line or task.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from kernelfields.data.text_files import (
    PathName,
    SequenceFileError,
    input_name,
    open_text_output,
    read_content,
    read_lines,
)
from kernelfields.formats.annotated_texts import (
    Document,
    LabelledSpan,
    Labelling,
    collect_extras,
    list_spans,
    restore_extras,
)
from kernelfields.formats.own_parts import OWN, load_json, parse_own_parts

_DOCCANO_KEYS = {"id", "text", "label", "labels", "entities", "relations", OWN}
_REGION = {"from_name": "label", "to_name": "text", "type": "labels"}


def _get_field(record: Any, key: str, kind: type | tuple[type, ...], where: str, default: Any = ...) -> Any:
    """Return an entry of a JSON object; SequenceFileError if it is missing or has another type."""
    value = record.get(key, default) if isinstance(record, dict) else ...
    if value is ... or (value is not default and (not isinstance(value, kind) or isinstance(value, bool))):
        names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        found = "it is missing" if value is ... else f"got {value!r:.40}"
        raise SequenceFileError(f"{where}: {key!r} must be of type {names}, {found}")
    return value


def _write_id(value: Any) -> str | None:
    """Convert an id from JSON to text."""
    return None if value is None else str(value)


def _parse_id(text: str | None) -> str | int | None:
    """Convert a decimal text to a number; return other texts unchanged."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and str(int(text)) == text else text


# ---- doccano


def read_doccano(path: PathName) -> list[Document]:
    """Read JSON lines of doccano."""
    documents = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            where = f"{input_name(path)}, line {number}"
            documents.append(_parse_doccano(load_json(line, input_name(path), number), where))
    return documents


def _parse_doccano(record: Any, where: str) -> Document:
    """Convert a record of doccano to a document."""
    text = _get_field(record, "text", str, where)
    key = next((key for key in ("label", "labels", "entities") if record.get(key) is not None), None)
    spans = []
    for entry in _get_field(record, key, list, where) if key is not None else ():
        if isinstance(entry, dict):
            begin, end = (_get_field(entry, name, int, where) for name in ("start_offset", "end_offset"))
            span = LabelledSpan(_get_field(entry, "label", str, where), begin, end, id=_write_id(entry.get("id")))
        elif isinstance(entry, list) and [type(part) for part in entry] == [int, int, str]:
            span = LabelledSpan(entry[2], entry[0], entry[1])
        else:
            raise SequenceFileError(f'{where}: a label must be [begin, end, "label"], got {entry!r:.60}')
        spans.append(span)
    relations = record.get("relations") or []
    document = Document(
        text,
        labellings=[Labelling(spans)] if key is not None else [],
        id=_write_id(record.get("id")),
        metadata={name: value for name, value in record.items() if name not in _DOCCANO_KEYS},
        kept={"doccano": {"relations": relations}} if relations else {},
    )
    return restore_extras(document, parse_own_parts(record.get(OWN, {}), where))


def write_doccano(path: PathName, documents: Sequence[Document]) -> None:
    """Write JSON lines of doccano."""
    lines = []
    for document in documents:
        flat = not _DOCCANO_KEYS & set(document.metadata)
        record: dict[str, Any] = {} if document.id is None else {"id": _parse_id(document.id)}
        record["text"] = document.text
        for labelling in document.labellings:
            spans = list_spans(document, labelling, strict=False)
            relations = document.kept.get("doccano", {}).get("relations", [])
            if relations or any(span.id is not None for span in spans):
                record["entities"] = [
                    {"id": _parse_id(span.id), "label": span.label, "start_offset": span.begin, "end_offset": span.end}
                    for span in spans
                ]
                record["relations"] = relations
            else:
                record["label"] = [[span.begin, span.end, span.label] for span in spans]
        record |= document.metadata if flat else {}
        held = {"id", "text", "unlabelled", "made_ids", *(["metadata"] if flat else [])}
        if found := collect_extras(document, "doccano", held=held):
            record[OWN] = found
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    with open_text_output(path) as file:
        file.writelines(lines)


# ---- Label Studio


def read_label_studio(path: PathName) -> list[Document]:
    """Read tasks of Label Studio."""
    tasks = load_json(read_content(path), input_name(path))
    tasks = tasks if isinstance(tasks, list) else [tasks]
    return [_parse_task(task, f"{input_name(path)}, task {number}") for number, task in enumerate(tasks, start=1)]


def _parse_task(task: Any, where: str) -> Document:
    """Convert a task of Label Studio to a document."""
    data = _get_field(task, "data", dict, where)
    text = _get_field(data, "text", str, where, None)
    labellings = []
    for key in ("annotations", "predictions"):
        for entry in _get_field(task, key, list, where, None) or ():
            labellings.append(parse_labelling(entry, text, key == "predictions", where))
    meta = dict(_get_field(task, "meta", dict, where, None) or {})
    own = parse_own_parts(meta.pop(OWN, {}), where)
    known = {"id", "data", "annotations", "predictions", "meta"}
    kept = {name: value for name, value in task.items() if name not in known} | ({"meta": meta} if meta else {})
    last = max((span.end for labelling in labellings for span in labelling.spans or ()), default=0.0)
    document = Document(
        text or "",
        labellings=labellings,
        id=_write_id(task.get("id")),
        metadata={name: value for name, value in data.items() if name != "text"},
        kept={"labelstudio": kept} if kept else {},
        duration=None if text is not None else (0.0, last),
    )
    return restore_extras(document, own)


def parse_labelling(entry: Any, text: str | None, predicted: bool, where: str) -> Labelling:
    """Convert an annotation or prediction of Label Studio to a labelling."""
    spans: list[LabelledSpan] = []
    others, regions = [], {}
    for result in _get_field(entry, "result", list, where):
        kind = _get_field(result, "type", str, where, "")
        value: Any = result.get("value")
        has_place = isinstance(value, dict) and isinstance(value.get(kind), list) and {"start", "end"} <= set(value)
        if not has_place or isinstance(value["start"], str):
            others.append(result)
            continue
        if not all(isinstance(label, str) for label in value[kind]):
            raise SequenceFileError(f"{where}: the labels of a region must be texts, got {value[kind]!r:.60}")
        begin, end = (
            _get_field(value, name, int if text is not None else (int, float), where) for name in ("start", "end")
        )
        if text is not None:
            begin, end = _convert_offsets(text, begin, end, value.get("text"), where)
        score, name = _get_field(result, "score", (int, float), where, None), _write_id(result.get("id"))
        spans += [LabelledSpan(label, begin, end, score, name) for label in value[kind]]
        left = {name: one for name, one in value.items() if name not in ("start", "end", "text", kind)}
        rest = {name: one for name, one in result.items() if name not in ("id", "value", "score")}
        if left or rest != {**_REGION, "to_name": "text" if text is not None else "audio"}:
            regions[str(name)] = {**rest, **({"value": left} if left else {})}
    metadata = {name: one for name, one in entry.items() if name not in ("result", "completed_by", "model_version")}
    by = entry.get("model_version" if predicted else "completed_by", "")
    if isinstance(by, dict):
        if set(by) != {"email"}:
            metadata["completed_by"] = by
        by = by.get("email", by.get("id", ""))
    metadata |= {name: value for name, value in (("result", others), ("regions", regions)) if value}
    return Labelling(spans, annotator=_write_id(by) or "", predicted=predicted, metadata=metadata)


def _convert_offsets(text: str, begin: int, end: int, shown: Any, where: str) -> tuple[int, int]:
    """Convert offsets in characters or UTF-16 units to offsets in characters."""
    if not isinstance(shown, str) or text[begin:end] == shown:
        return begin, end
    units = text.encode("utf-16-le")
    if units[2 * begin : 2 * end] == shown.encode("utf-16-le"):
        first = len(units[: 2 * begin].decode("utf-16-le", "replace"))
        return first, first + len(shown)
    raise SequenceFileError(f"{where}: the span [{begin}, {end}] is {text[begin:end]!r:.40}, not {shown!r:.40}")


def write_label_studio(path: PathName, documents: Sequence[Document]) -> None:
    """Write tasks of Label Studio; predicted labellings become predictions."""
    tasks = []
    for document in documents:
        task: dict[str, Any] = {}
        held = {"metadata", "text", "labelling", "unlabelled"}
        if isinstance(number := _parse_id(document.id), int):
            task["id"] = number
            held.add("id")
        task["data"] = (
            dict(document.metadata) if document.duration is not None else {"text": document.text, **document.metadata}
        )
        task |= {"annotations": [], "predictions": []}
        for labelling in document.labellings:
            key, name = ("predictions", "model_version") if labelling.predicted else ("annotations", "completed_by")
            own = dict(labelling.metadata)
            result, regions = own.pop("result", []), own.pop("regions", {})
            by: Any = labelling.annotator if labelling.predicted else _parse_id(labelling.annotator or None)
            by = own.pop("completed_by", {"email": by} if isinstance(by, str) and not labelling.predicted else by)
            entry = {name: by} if by not in (None, "") else {}
            task[key].append({**own, **entry, "result": [*_to_regions(document, labelling, regions), *result]})
        rest = dict(document.kept.get("labelstudio", {}))
        meta = rest.pop("meta", {})
        if found := collect_extras(document, "labelstudio", held=held):
            meta = {**meta, OWN: found}
        tasks.append({**task, **({"meta": meta} if meta else {}), **rest})
    with open_text_output(path) as file:
        json.dump(tasks, file, ensure_ascii=False, indent=1)
        file.write("\n")


def _to_regions(document: Document, labelling: Labelling, described: dict[str, Any]) -> list[dict[str, Any]]:
    """Convert spans to regions of Label Studio; spans with the same id become labels of one region."""
    is_text = document.duration is None
    spans = [
        span if span.id is not None else replace(span, id=f"{OWN}-{number}")
        for number, span in enumerate(list_spans(document, labelling, strict=False), start=1)
    ]
    found = []
    for (name, begin, end), group in groupby(spans, key=lambda span: (span.id, span.begin, span.end)):
        members = list(group)
        about = {**_REGION, "to_name": "text" if is_text else "audio", **described.get(str(name), {})}
        value = {"start": begin, "end": end}
        value |= {"text": document.text[int(begin) : int(end)]} if is_text else {}
        value |= {about["type"]: [span.label for span in members], **about.pop("value", {})}
        chance = members[0].probability
        found.append({"id": name, **about, "value": value, **({} if chance is None else {"score": chance})})
    return found
