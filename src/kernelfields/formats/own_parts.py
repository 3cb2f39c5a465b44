"""Content that other formats do not support, as one validated JSON object under the name "kernelfields".

``collect_extras`` of formats/annotated_texts.py makes the object, and each format stores it as a key, a comment or a
note. Other programs may change the file, so every entry is checked before ``restore_extras`` uses it.

Raises SequenceFileError with the place of invalid JSON, or with the invalid entry.
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
    """Parse JSON; SequenceFileError with ``where``, the line and the character of an error."""
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
    """Whether a value is nested too deeply for Python's JSON encoder."""
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


def parse_own_parts(found: Any, where: str) -> dict[str, Any]:
    """Return the checked object under "kernelfields"; SequenceFileError if it is invalid."""
    if isinstance(found, str):
        found = load_json(found, f"{where}: under {OWN!r}")
    if not isinstance(found, dict):
        raise SequenceFileError(f"{where}: under {OWN!r} stands {found!r:.40}, expected a JSON object")
    for name, value in found.items():
        if not _FORMS.get(name, _type_check(object))(value):
            raise SequenceFileError(
                f"{where}: under {OWN!r}, {name!r} is not what was written there, got {value!r:.40}. Remove what "
                f"stands under {OWN!r}: labels and texts stand elsewhere"
            )
    return found


Check = Callable[[Any], bool]


def _type_check(kind: Any) -> Check:
    """Return a check for a type."""
    return lambda value: isinstance(value, kind) and (kind in (bool, object) or not isinstance(value, bool))


def _list_check(check: Check) -> Check:
    """Return a check for a list whose entries pass a check."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def _pair_check(first: Check, second: Check) -> Check:
    """Return a check for a list of two entries that pass their checks."""
    return lambda value: isinstance(value, list) and len(value) == 2 and first(value[0]) and second(value[1])


def _dict_check(**checks: Check) -> Check:
    """Return a check for a dict whose named entries, if present, pass their checks."""
    return lambda value: isinstance(value, dict) and all(checks[name](value[name]) for name in checks if name in value)


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number of moderate size."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -(2**53) < value < 2**53


def _is_scheme(value: Any) -> bool:
    """Whether a value names a scheme of entity labels."""
    try:
        return value == NO_SCHEME or find_scheme(value) is not None
    except ValueError:
        return False


def _is_labelling(value: Any) -> bool:
    """Whether a value describes a labelling."""
    region = _dict_check(type=_type_check(str), value=_type_check(dict))
    metadata = _dict_check(
        result=_type_check(list),
        regions=lambda regions: isinstance(regions, dict) and all(map(region, regions.values())),
    )
    names = {"annotator": _type_check(str), "predicted": _type_check(bool), "metadata": metadata}
    return _dict_check(**names)(value) and set(value) <= set(names)


def _rows_check(width: int | None = None) -> Check:
    """Return a check for rows of a column file with their comments and the column of labels."""

    def check(value: Any) -> bool:
        needed = {"rows", "lines", "separator", "place", "declared"}
        if not (
            isinstance(value, dict)
            and needed <= set(value)
            and _list_check(_list_check(_type_check(str)))(value["rows"])
        ):
            return False
        widths, place = {len(row) for row in value["rows"]}, value["place"]
        fits = not isinstance(place, int) or any(-own <= place < own for own in widths)
        known = len(widths) == 1 and 0 not in widths and (width is None or widths == {width})
        lines = _list_check(_pair_check(_type_check(int), _type_check(str)))(value["lines"]) and value["separator"] in (
            "\t",
            " ",
        )
        return (
            fits and known and lines and _type_check(int | str | None)(place) and _type_check(bool)(value["declared"])
        )

    return check


def _is_partial(value: Any) -> bool:
    """Whether a value is a dict of partial labels by token number."""
    entry = lambda own: own is None or (_list_check(_type_check(str))(own) and bool(own))  # noqa: E731
    return isinstance(value, dict) and all(
        re.fullmatch(r"[0-9]{1,9}", key) and entry(own) for key, own in value.items()
    )


_KEPT = _dict_check(
    columns=_rows_check(),
    conllu=_rows_check(_COLUMNS_OF_CONLLU),
    brat=_list_check(_type_check(str)),
    doccano=_dict_check(relations=_type_check(list)),
    labelstudio=_dict_check(meta=_type_check(dict)),
    elan=_type_check(str),
)
_FORMS: dict[str, Check] = {
    "id": _type_check(str),
    "metadata": _type_check(dict),
    "text": _type_check(str),
    "scheme": _is_scheme,
    "kept": _KEPT,
    "tokens": lambda value: value is None or _list_check(_pair_check(_is_number, _is_number))(value),
    "duration": _pair_check(_is_number, _is_number),
    "labelling": _is_labelling,
    "tiers": lambda value: isinstance(value, dict) and all(map(_is_labelling, value.values())),
    "place": _type_check(str),
    "partial": _list_check(_is_partial),
    **dict.fromkeys(("labels", "spans", "unlabelled", "made_ids", "bare"), _type_check(bool)),
}
