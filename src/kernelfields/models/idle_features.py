"""Named features without weight after an l1 penalty, which a model file stores apart.

    inputs, terms     the names that have a weight somewhere, and their weights: all that answers need
    idle              the other names, and where they and their weights of zero stand: what a fit that goes on needs

A file is the fitted object: :func:`with_idle_features` puts back what :func:`without_idle_features` has taken out, so
that arrays have the same shape, order and bits, and so do answers. Readers that only answer (serving/chain_model.py)
leave the entry ``idle`` aside. Files of older versions have no such entry, and lack the names: a fit cannot go on from
them.

    marks             (d,) bits: which of all d features are idle
    supports          for each term with a support, how many pairs each of the d features has, and the pairs' labellings
    names             "word=cat" is a head and a tail: tails of one head after the other, packed by LZMA

Most names of a model of words are idle. Tails of one head follow words as those of another one do, so that packing them
in this order takes two bytes for a name, half of what it takes in the order of the columns.
Raises ValueError where the parts of a file do not fit together.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse

from kernelfields.basis.subspace import ExplicitSubspace
from kernelfields.data.readers import InputReader
from kernelfields.kernels.dot_product import Linear
from kernelfields.models.model_file import Document
from kernelfields.numerics.sparse_rows import make_offsets
from kernelfields.numerics.stored_arrays import whole_array, whole_number
from kernelfields.objective.designs.pairs import EVERY_PAIR
from kernelfields.objective.designs.supports import Support
from kernelfields.objective.term import Term

Reader = TypeVar("Reader", bound=InputReader)
# A preset of LZMA that takes about as long as the rest of a file, and the memory that unpacking may take.
_PRESET, _MOST_MEMORY = 4, 2**27
# A small file must not fill the memory: what is so many times as long as its packed bytes is kept as it is.
_MOST_PACKED = 100


def can_drop_features(reader: InputReader, terms: Sequence[Term]) -> bool:
    """Whether names of features without weight may be stored separately.

    They may where each term has a penalty on absolute weights and one weight for each pair of feature and label.
    """
    explicit = [term for term in terms if not term.is_constant]
    named = reader.rows.encoder is not None and not reader.limits and not reader.steps
    return named and bool(explicit) and all(_weighs_features(term, reader.rows.n_features) for term in explicit)


def _weighs_features(term: Term, n_features: int) -> bool:
    plain = isinstance(term.subspace, ExplicitSubspace) and isinstance(term.subspace.kernel, Linear)
    singly = term.l1 > 0.0 and not term.has_shared_coefficients and term.label_factor is None
    # A window shows features of neighbours as well.
    return plain and singly and term.subspace.rank == n_features


def without_idle_features(reader: Reader, terms: Sequence[Term]) -> tuple[Reader, list[Term], Document]:
    """Return reader and terms without idle features, and the description of the idle features."""
    idle = np.ones(reader.rows.n_features, dtype=bool)
    for term in terms:
        if not term.is_constant:
            idle &= _weights(term).count_nonzero(axis=1) == 0
    if idle.all():
        idle[0] = False  # a reader without any name would not know what it reads
    names, supports = reader.rows.names or [], {}
    for term in terms:
        if not term.is_constant:
            for pairs in term.pairs.describe_pairs().values():
                counts, outcomes = np.diff(pairs["begin"]), pairs["outcomes"]
                supports[term.name] = {"counts": _narrow(counts), "outcomes": _narrow(outcomes)}
    described = {
        "n_features": int(reader.rows.n_features),
        "marks": np.packbits(idle),
        "names": _pack_names([names[column] for column in np.flatnonzero(idle)]),
        "supports": supports,
    }
    return replace(reader, rows=reader.rows.with_features(~idle)), [_without(term, idle) for term in terms], described


def with_idle_features(
    reader: Reader, terms: Sequence[Term], described: Mapping[str, Any]
) -> tuple[Reader, list[Term]]:
    """Restore the idle features of reader and terms."""
    n_features = whole_number(described["n_features"], "the number of features")
    marks = whole_array(described["marks"], "the marks of idle features", (-(-n_features // 8),), below=256)
    idle = np.unpackbits(marks.astype(np.uint8), count=n_features).astype(bool)
    if not can_drop_features(reader, terms) or np.count_nonzero(~idle) != reader.rows.n_features:
        raise ValueError("the features without weights do not fit the others")
    every = np.empty(n_features, dtype=object)
    every[idle], every[~idle] = _unpack_names(described["names"], int(np.count_nonzero(idle))), reader.rows.names
    rows = reader.rows.with_names(every.tolist())
    return replace(reader, rows=rows), [_with(term, idle, described["supports"]) for term in terms]


def _without(term: Term, idle: np.ndarray) -> Term:
    """Return a term without some features, reduced to its nonzero weights."""
    if term.is_constant:
        return term
    weights = _weights(term)[~idle]
    weights.eliminate_zeros()
    support = Support(weights.indptr.astype(np.int32), weights.indices.astype(np.int32), weights.shape[1])
    subspace = ExplicitSubspace(term.subspace.kernel, weights.shape[0])
    return replace(term, subspace=subspace, pairs=support, coefficients=weights.data[:, None])


def _with(term: Term, idle: np.ndarray, supports: Mapping[str, Any]) -> Term:
    """Return a term of all features: a table of weights, or the weights of its former pairs."""
    if term.is_constant:
        return term
    few, subspace = term.pairs, ExplicitSubspace(term.subspace.kernel, len(idle))
    assert isinstance(few, Support), "only pairs were kept"
    places = np.flatnonzero(~idle)[few.features] * few.n_outcomes + few.outcomes
    if term.name not in supports:
        table = np.zeros((len(idle), few.n_outcomes))
        table.reshape(-1)[places] = term.known[:, 0]
        return replace(term, subspace=subspace, pairs=EVERY_PAIR, coefficients=table)
    given = supports[term.name]
    outcomes = whole_array(given["outcomes"], "the pairs of features and labels", (None,), below=few.n_outcomes)
    counts = whole_array(given["counts"], "the numbers of pairs of features", (len(idle),), below=few.n_outcomes + 1)
    support = Support(make_offsets(counts).astype(np.int32), outcomes.astype(np.int32), few.n_outcomes)
    support.check()
    pairs = support.features.astype(np.int64) * few.n_outcomes + support.outcomes
    at = np.searchsorted(pairs, places)
    if not np.array_equal(pairs[np.minimum(at, len(pairs) - 1)], places):
        raise ValueError(f"the weights of set {term.name!r} are not among its pairs of features and labels")
    coefficients = np.zeros((support.size, 1))
    coefficients[at] = term.known
    return replace(term, subspace=subspace, pairs=support, coefficients=coefficients)


def _pack_names(names: Sequence[str]) -> Document:
    """Return names as plain values and arrays, in as few bytes as time allows."""
    parted = [(head + mark, tail) for head, mark, tail in (name.rpartition("=") for name in names)]
    heads = {head: number for number, head in enumerate(dict.fromkeys(head for head, _ in parted))}
    numbers = np.array([heads[head] for head, _ in parted], dtype=np.int64)
    tails = [parted[place][1] for place in np.argsort(numbers, kind="stable")]
    content, form = json.dumps(tails, separators=(",", ":")).encode(), "lzma"
    try:
        import lzma
    except ImportError:  # some builds of Python lack it
        packed, form = zlib.compress(content), "zlib"
    else:
        packed = lzma.compress(content, preset=_PRESET)
    if len(content) > _MOST_PACKED * len(packed):
        packed, form = content, "plain"
    array = np.frombuffer(packed, np.uint8)
    return {"heads": list(heads), "numbers": _narrow(numbers), "form": form, "size": len(content), "tails": array}


def _unpack_names(described: Mapping[str, Any], count: int) -> np.ndarray:
    """Return the unpacked names; ValueError unless they are ``count`` texts."""
    heads, form, size = described["heads"], described["form"], whole_number(described["size"], "a number of bytes")
    numbers = whole_array(described["numbers"], "the heads of names", (count,), below=len(heads))
    packed = whole_array(described["tails"], "the packed names", (None,), below=256).astype(np.uint8).tobytes()
    if size > _MOST_PACKED * len(packed):
        raise ValueError(f"{len(packed)} packed bytes of the size {size}")
    content = _unpack(packed, form, size + 1)
    tails = json.loads(content) if len(content) == size else None
    if not isinstance(tails, list) or len(tails) != count or not all(isinstance(tail, str) for tail in tails):
        raise ValueError("the names of features without weights do not fit their number")
    names = np.empty(count, dtype=object)
    names[np.argsort(numbers, kind="stable")] = tails
    return np.array([heads[number] + tail for number, tail in zip(numbers.tolist(), names, strict=True)], dtype=object)


def _unpack(packed: bytes, form: str, most: int) -> bytes:
    """Return the unpacked bytes of a form, at most ``most``."""
    if form == "plain":
        return packed
    if form == "zlib":
        try:
            return zlib.decompressobj().decompress(packed, most)
        except zlib.error as error:
            raise ValueError(f"its names cannot be unpacked: {error}") from error
    if form != "lzma":
        raise ValueError(f"names packed in the unknown form {form!r:.40}")
    try:
        import lzma
    except ImportError:
        raise ValueError("its names are packed by LZMA, which this build of Python lacks") from None
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _MOST_MEMORY).decompress(packed, most)
    except lzma.LZMAError as error:
        raise ValueError(f"its names cannot be unpacked: {error}") from error


def _weights(term: Term) -> scipy.sparse.csr_array:
    """Return the weights of pairs of features and labellings, a copy in sorted order."""
    weights = scipy.sparse.csr_array(term.label_coefficients)
    weights.sort_indices()
    return weights


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """Return non-negative integers in as few bytes as the largest needs."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
