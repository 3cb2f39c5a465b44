"""Damage to bytes, to texts, and to documents of plain values and arrays, all from one random generator."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Random = np.random.Generator
#: Values that a field of a document may turn into.
ODD_VALUES: tuple[Callable[[Random], Any], ...] = (
    lambda random: None,
    lambda random: bool(random.integers(2)),
    lambda random: int(random.integers(-3, 4)),
    lambda random: int(random.integers(-(2**40), 2**40)),
    lambda random: 10 ** int(random.integers(5, 40)),
    lambda random: float(random.normal() * 10.0 ** int(random.integers(-300, 300))),
    lambda random: {"$float": ["nan", "inf", "-inf", "1e999"][random.integers(4)]},
    lambda random: ["", "x", "inf", "nan", "rbf", "\ud800", "$array", "a" * 1000][random.integers(8)],
    lambda random: [],
    lambda random: {},
    lambda random: [1, 2],
    lambda random: {"a": 1},
    lambda random: [[]] * 3,
    lambda random: nested(int(10.0 ** random.uniform(1, 4)), random),
)


_LEAF = '{"kind": "rbf", "gamma": 1.0}'
_OTHER_LEAF = '{"class": "RBF", "parameters": {"length_scale": 1.0, "length_scale_bounds": "fixed"}}'
#: What stands before and after a kernel, or a list, inside another.
_AROUND = {
    "list": ("[", "]"),
    "scaled": ('{"kind": "scaled", "factor": 2.0, "kernel": ', "}"),
    "power": ('{"kind": "power", "exponent": 2, "kernel": ', "}"),
    "sum": ('{"kind": "sum", "right": {"kind": "linear"}, "left": ', "}"),
    "product": ('{"kind": "product", "left": {"kind": "linear"}, "right": ', "}"),
    "scikit-learn": ('{"class": "Exponentiation", "parameters": {"exponent": 1.0, "kernel": ', "}}"),
}


def nested(depth: int, random: Random) -> str:
    """Return what stands for a value nested so deep, in lists or in kernels, until ``spelled_out``."""
    return f"@nested {list(_AROUND)[random.integers(len(_AROUND))]} {depth}@"


def spelled_out(text: str) -> str:
    """Return JSON text with nested values in the places of what stands for them: too deep for a JSON writer."""

    def value(found: re.Match) -> str:
        before, after = _AROUND[found.group(1)]
        leaf = _OTHER_LEAF if found.group(1) == "scikit-learn" else _LEAF
        inside = f"{before * int(found.group(2))}{leaf}{after * int(found.group(2))}"
        return f'{{"kind": "scikit-learn", "kernel": {inside}}}' if found.group(1) == "scikit-learn" else inside

    return re.sub(r'"@nested ([a-z-]+) (\d+)@"', value, text)


def damaged_bytes(content: bytes, random: Random) -> bytes:
    """Return bytes with flipped bits, a piece cut off, moved, doubled or overwritten."""
    if not content:
        return bytes(random.integers(256, size=5, dtype=np.uint8))
    data, size = bytearray(content), len(content)
    first, last = sorted(int(each) for each in random.integers(size + 1, size=2))
    match random.integers(7):
        case 0 | 1:
            for _ in range(int(random.integers(1, 5))):
                data[random.integers(size)] ^= 1 << int(random.integers(8))
        case 2:
            del data[first:]
        case 3:
            del data[first : min(last, first + 20)]
        case 4:
            data[first:first] = content[first : min(last, first + 40)]
        case 5:
            data[first:last] = random.integers(256, size=last - first, dtype=np.uint8).tobytes()
        case 6:
            data[first : first + 8] = bytes([int(random.choice([0, 255]))]) * 8
    return bytes(data)


def damaged_text(text: str, pieces: Sequence[str], random: Random) -> bytes:
    """Return a text with lines or pieces of it lost, doubled, swapped, replaced by odd ones, or with damaged bytes."""
    for _ in range(int(random.integers(1, 4))):
        lines = text.split("\n")
        here, there = (int(each) for each in random.integers(len(lines), size=2))
        place = int(random.integers(len(text) + 1))
        odd = str(pieces[random.integers(len(pieces))])
        match random.integers(8):
            case 0:
                del lines[here]
                text = "\n".join(lines)
            case 1:
                lines.insert(here, lines[there])
                text = "\n".join(lines)
            case 2:
                lines[here], lines[there] = lines[there], lines[here]
                text = "\n".join(lines)
            case 3 | 4:
                text = text[:place] + odd + text[place:]
            case 5:
                text = text[:place] + odd + text[place + len(odd) :]
            case 6:
                lines[here] = odd
                text = "\n".join(lines)
            case 7:
                text = text[:place] + text[place + int(random.integers(1, 9)) :]
    data = text.encode("utf-8", "surrogatepass")
    return damaged_bytes(data, random) if random.random() < 0.3 else data


_ODD_TEXTS = ("0", "-1", "1e400", "-1e400", "1e-400", "nan", "9" * 400, "4294967296", "0.5", "", "1_0", "٣", "+1")


def odd_number(text: str, random: Random) -> str:
    """Return a text with one of its numbers odd, or swapped with the next one."""
    found = list(re.finditer(r"\d+(?:\.\d+)?", text))
    if not found:
        return text
    place = int(random.integers(len(found)))
    match, other = found[place], found[(place + 1) % len(found)]
    if random.random() < 0.3 and match.end() <= other.start():
        return text[: match.start()] + other[0] + text[match.end() : other.start()] + match[0] + text[other.end() :]
    return text[: match.start()] + _ODD_TEXTS[random.integers(len(_ODD_TEXTS))] + text[match.end() :]


def places(value: Any, above: tuple = ()) -> Iterator[tuple]:
    """Yield the paths to all values inside a document."""
    if above:
        yield above
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*above, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*above, index))


def damaged_document(document: Any, random: Random) -> tuple[Any, str]:
    """Return a copy of a JSON document with one value lost, odd, or in the wrong place, and what was done."""
    changed = copy.deepcopy(document)
    known = list(places(changed))
    path = known[random.integers(len(known))]
    kernels = [each for each in known if each[-1] in ("kernel", "spec", "left", "right")]
    action = int(random.integers(7))
    if action == 6 and kernels:
        path = kernels[random.integers(len(kernels))]
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    key = path[-1]
    match action:
        case 6 if kernels:
            holder[key] = nested(int(10.0 ** random.uniform(0.5, 3.5)), random)
            what = f"now {holder[key]}"
        case 0:
            del holder[key]
            what = "lost"
        case 1:
            other: Any = changed
            for step in known[random.integers(len(known))]:
                other = other[step]
            holder[key] = copy.deepcopy(other)
            what = "as another value"
        case 2 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            factor = [-1, 0, 2, 0.5, 1e9, 1e-9, 10**15][random.integers(7)]
            holder[key] = holder[key] * factor if random.random() < 0.5 else holder[key] + int(random.integers(-2, 3))
            what = f"now {holder[key]!r:.40}"
        case 2 if isinstance(holder[key], list) and holder[key]:
            holder[key] = holder[key] * 2 if random.random() < 0.5 else holder[key][:-1]
            what = "longer or shorter"
        case _:
            holder[key] = ODD_VALUES[random.integers(len(ODD_VALUES))](random)
            what = f"now {holder[key]!r:.40}"
    return changed, f"{'.'.join(map(str, path))} {what}"


_ODD_NUMBERS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e300, -1e300, 1e-300, 2.0**31, 2.0**63, 3.0)
_DTYPES = ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "uint64", "bool")


def damaged_array(array: np.ndarray, random: Random) -> tuple[np.ndarray, str]:
    """Return an array with damaged bytes or numbers, of another shape or of another type, and what was done."""
    changed = array.copy()
    match random.integers(7):
        case 0 if changed.size:
            flat = bytearray(changed.tobytes())
            for _ in range(int(random.integers(1, 4))):
                flat[random.integers(len(flat))] ^= 1 << int(random.integers(8))
            return np.frombuffer(bytes(flat), changed.dtype).reshape(changed.shape), "flipped bits"
        case 1 | 2 if changed.size and changed.dtype.kind != "U":
            odd = _ODD_NUMBERS[random.integers(len(_ODD_NUMBERS))]
            whole = random.random() < 0.2
            with np.errstate(all="ignore"):
                odd = np.array(odd).astype(changed.dtype)
                if whole:
                    changed[...] = odd
                else:
                    changed.reshape(-1)[random.integers(changed.size)] = odd
            return changed, f"{'all' if whole else 'one'} {odd}"
        case 3 if changed.dtype.kind != "U":
            with np.errstate(all="ignore"):
                kind = _DTYPES[random.integers(len(_DTYPES))]
                return changed.astype(kind), f"as {kind}"
        case 4 if changed.ndim:
            axis = int(random.integers(changed.ndim))
            length = int(random.integers(max(1, changed.shape[axis])))
            return np.ascontiguousarray(np.take(changed, range(length), axis)), f"cut at {length}"
        case 5 if changed.ndim:
            return np.concatenate([changed, changed]), "twice"
        case _:
            shape = [(), (-1,), (1, -1), (-1, 1)][random.integers(4)]
            if shape == () and changed.size:
                return changed.reshape(-1)[:1].reshape(()), "a single number"
            return np.ascontiguousarray(changed.T.reshape(shape or (-1,))), f"of shape {shape}"
