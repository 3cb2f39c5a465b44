"""What formats of other programs have no place for: one JSON object under the name "kernelfields", read with care.

``extras`` of formats/annotated_texts.py makes it, and each format has a corner for it: a key, a comment, a note. Other
programs may have changed the file since, so that every entry is checked before ``with_extras`` uses it.

Fails: SequenceFileError naming the place of JSON that is broken and the entry that is none of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelfields.data.constraints import find_scheme
from kernelfields.data.text_files import SequenceFileError
from kernelfields.formats.annotated_texts import NO_SCHEME

#: The key of what a format has no place for.
OWN = "kernelfields"
# Objects and lists inside of others; what JSON is written by ends at the depth of calls.
_DEEPEST = 200
# JSON can write halves of characters, which no text has; pairs of these are whole ones.
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")
_COLUMNS_OF_CONLLU = 10


def load_json(text: str | bytes, where: str, line: int | None = None) -> Any:
    """Return the value of JSON; SequenceFileError names ``where``, the line and the character of what is broken."""
    try:
        content = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        value = json.loads(content)
        if _is_deep(value, content):
            raise RecursionError
        if _HALVES.search(content):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        at = f"line {line or error.lineno}, character {error.colno}"
        raise SequenceFileError(f"{where}, {at}: broken JSON: {error.msg}") from error
    except (UnicodeError, RecursionError, ValueError) as error:
        reasons = {UnicodeDecodeError: "not UTF-8", UnicodeEncodeError: "half of a character (a surrogate)"}
        reason = "nested too deeply" if isinstance(error, RecursionError) else reasons.get(type(error), str(error))
        place = where if line is None else f"{where}, line {line}"
        raise SequenceFileError(f"{place}: broken JSON: {reason}") from error
    return value


def _is_deep(value: Any, content: str) -> bool:
    """Whether a value is nested deeper than JSON is written, whatever the reader of this Python takes."""
    marks = np.frombuffer(content.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    opened = np.isin(marks, (ord("["), ord("{"))).astype(np.int32) - np.isin(marks, (ord("]"), ord("}")))
    if np.cumsum(opened).max(initial=0) <= _DEEPEST:  # texts may have brackets, too
        return False
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        found = [
            list(each.values()) if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)
        ]
        level, depth = [inner for each in found for inner in each], depth + 1
    return depth > _DEEPEST


def own_parts(found: Any, where: str) -> dict[str, Any]:
    """Return what stands under "kernelfields", a text of JSON or its value; SequenceFileError if that is not ours."""
    if isinstance(found, str):
        found = load_json(found, f"{where}: under {OWN!r}")
    if not isinstance(found, dict):
        raise SequenceFileError(f"{where}: under {OWN!r} stands {found!r:.40}, expected a JSON object")
    for name, value in found.items():
        if not _FORMS.get(name, _is(object))(value):
            raise SequenceFileError(
                f"{where}: under {OWN!r}, {name!r} is not what was written there, got {value!r:.40}. Remove what "
                f"stands under {OWN!r}: labels and texts stand elsewhere"
            )
    return found


Check = Callable[[Any], bool]


def _is(kind: Any) -> Check:
    return lambda value: isinstance(value, kind) and (kind in (bool, object) or not isinstance(value, bool))


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _pair(first: Check, second: Check) -> Check:
    return lambda value: isinstance(value, list) and len(value) == 2 and first(value[0]) and second(value[1])


def _dict_of(**checks: Check) -> Check:
    """Check the entries of a dict that are there; others may be anything."""
    return lambda value: isinstance(value, dict) and all(checks[name](value[name]) for name in checks if name in value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -(2**53) < value < 2**53


def _scheme(value: Any) -> bool:
    try:
        return value == NO_SCHEME or find_scheme(value) is not None
    except ValueError:
        return False


def _labelling(value: Any) -> bool:
    region = _dict_of(type=_is(str), value=_is(dict))
    metadata = _dict_of(
        result=_is(list), regions=lambda regions: isinstance(regions, dict) and all(map(region, regions.values()))
    )
    names = {"annotator": _is(str), "predicted": _is(bool), "metadata": metadata}
    return _dict_of(**names)(value) and set(value) <= set(names)


def _rows(width: int | None = None) -> Check:
    """Check rows of a column file, with the lines between them and the place of the labels."""

    def check(value: Any) -> bool:
        needed = {"rows", "lines", "separator", "place", "declared"}
        if not (isinstance(value, dict) and needed <= set(value) and _list_of(_list_of(_is(str)))(value["rows"])):
            return False
        widths, place = {len(row) for row in value["rows"]}, value["place"]
        fits = not isinstance(place, int) or any(-own <= place < own for own in widths)
        known = len(widths) == 1 and 0 not in widths and (width is None or widths == {width})
        lines = _list_of(_pair(_is(int), _is(str)))(value["lines"]) and value["separator"] in ("\t", " ")
        return fits and known and lines and _is(int | str | None)(place) and _is(bool)(value["declared"])

    return check


def _partial(value: Any) -> bool:
    """Check what is known of single tokens, by their numbers."""
    entry = lambda own: own is None or (_list_of(_is(str))(own) and bool(own))  # noqa: E731
    return isinstance(value, dict) and all(
        re.fullmatch(r"[0-9]{1,9}", key) and entry(own) for key, own in value.items()
    )


_KEPT = _dict_of(
    columns=_rows(),
    conllu=_rows(_COLUMNS_OF_CONLLU),
    brat=_list_of(_is(str)),
    doccano=_dict_of(relations=_is(list)),
    labelstudio=_dict_of(meta=_is(dict)),
    elan=_is(str),
)
_FORMS: dict[str, Check] = {
    "id": _is(str),
    "metadata": _is(dict),
    "text": _is(str),
    "scheme": _scheme,
    "kept": _KEPT,
    "tokens": lambda value: value is None or _list_of(_pair(_number, _number))(value),
    "duration": _pair(_number, _number),
    "labelling": _labelling,
    "tiers": lambda value: isinstance(value, dict) and all(map(_labelling, value.values())),
    "place": _is(str),
    "partial": _list_of(_partial),
    **dict.fromkeys(("labels", "spans", "unlabelled", "made_ids", "bare"), _is(bool)),
}
