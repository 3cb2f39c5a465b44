"""Model files of CRFsuite, read from their bytes: labels, attributes, and the weights of state and transition features.

    header        "lCRF", size, "FOMC", version, numbers of features, labels and attributes, offsets of five chunks
    "FEAT"        size, count; of each feature: kind (0 state, 1 transition), source, label, weight
    "CQDB"        twice, names of labels and of attributes: size, flag, byte order, count, offset of a table; the table
                  has the offset of each record, a record is number, length and UTF-8 with a zero byte
    "LFRF"        size, count, offsets; of each label the number and the numbers of its transition features
    "AFRF"        the same of attributes and their state features

Numbers are unsigned, of 32 bits and little endian, weights are doubles; offsets of records count from the beginning of
their chunk, all others from that of the file. Hash tables, by which CRFsuite looks names up, are not needed. Nothing is
read outside the file, and memory grows with the file alone, whatever is written in it. Files of which two parts
contradict each other are refused: each feature belongs to one label or attribute, which has to be its source.
Needs NumPy alone. Cost: one pass over the file. Raises ValueError, naming what is damaged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MAGIC = b"lCRF"
_TYPE, _VERSION = b"FOMC", 100
_HEADER, _CHUNK, _NUMBER = 48, 12, 4
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])
_STATE, _TRANSITION = 0, 1
_NAMES, _NAMES_HEADER, _BYTE_ORDER = b"CQDB", 24, 0x62445371
_LABEL_REFERENCES, _ATTRIBUTE_REFERENCES, _FEATURES = b"LFRF", b"AFRF", b"FEAT"
# Every pair of labels has a place in the tables of a field; CRFsuite itself trains far fewer labels.
_MOST_LABELS = 4096


class Weights(NamedTuple):
    """Weights of pairs: numbers of their sources, numbers of their labels, and the weights, (n,) each."""

    sources: np.ndarray
    labels: np.ndarray
    values: np.ndarray


class CRFsuiteModel(NamedTuple):
    """Labels and attributes in the order of a file, weights of attributes, and weights between labels."""

    labels: list[str]
    attributes: list[str]
    states: Weights
    transitions: Weights


def is_crfsuite(opening: bytes) -> bool:
    """Whether the first bytes of a file mark a model of CRFsuite."""
    return opening[: len(MAGIC)] == MAGIC


def read_crfsuite(content: bytes) -> CRFsuiteModel:
    """Return the model of a file of CRFsuite.

    Parameters
    ----------
    content : bytes
        The whole file.

    Returns
    -------
    CRFsuiteModel
        Labels, attributes and weights.

    Raises
    ------
    ValueError
        If the content is no sound model.
    """
    return _Content(content).model()


class _Content:
    """The bytes of a file, read within its bounds."""

    def __init__(self, content: bytes):
        if not is_crfsuite(content):
            raise ValueError(f"it begins with {content[:4]!r}, not with {MAGIC!r}")
        if len(content) < _HEADER:
            raise ValueError(f"its header is incomplete, {len(content)} of {_HEADER} bytes")
        self.bytes = content
        self.values = np.frombuffer(content, dtype=np.uint8)

    def model(self) -> CRFsuiteModel:
        """Return labels, attributes and weights; raise unless all parts agree."""
        size, _, version, _, n_labels, n_attributes, *offsets = self.numbers(_NUMBER, 11).tolist()
        if self.bytes[8:12] != _TYPE or version != _VERSION:
            raise ValueError(
                f"it holds a model {self.bytes[8:12]!r} of version {version}, not FOMC of version {_VERSION}"
            )
        if size != len(self.bytes):
            raise ValueError(f"it has {len(self.bytes)} bytes, and its header says {size}")
        if not 0 < n_labels <= _MOST_LABELS:
            raise ValueError(f"it has {n_labels} labels, and there can be 1 to {_MOST_LABELS}")
        features = self.features(offsets[0])
        labels = self.names(offsets[1], n_labels, "label")
        attributes = self.names(offsets[2], n_attributes, "attribute")
        of_labels = self.references(offsets[3], n_labels, _LABEL_REFERENCES, len(features))
        of_attributes = self.references(offsets[4], n_attributes, _ATTRIBUTE_REFERENCES, len(features))
        if not np.array_equal(np.sort(np.concatenate([of_labels[1], of_attributes[1]])), np.arange(len(features))):
            raise ValueError("a feature belongs to no label and no attribute, or to several")
        states = _weights(features, of_attributes, _STATE, n_labels, "an attribute")
        return CRFsuiteModel(
            labels, attributes, states, _weights(features, of_labels, _TRANSITION, n_labels, "a label")
        )

    def numbers(self, offset: int, count: int) -> np.ndarray:
        """Return consecutive numbers."""
        self.check(offset, _NUMBER * count)
        return np.frombuffer(self.bytes, "<u4", count, offset)

    def check(self, offset: int, length: int) -> None:
        """Raise unless a range of bytes is in the file."""
        if offset + length > len(self.bytes):
            raise ValueError(f"a part of {length} bytes at {offset} ends after the file, which has {len(self.bytes)}")

    def begin(self, offset: int, kind: bytes) -> tuple[int, int]:
        """Return the size and the count of a chunk."""
        self.check(offset, _CHUNK)
        if self.bytes[offset : offset + len(kind)] != kind:
            raise ValueError(f"there is no chunk {kind.decode()!r} at {offset}")
        size, count = self.numbers(offset + _NUMBER, 2).tolist()
        self.check(offset, size)
        return size, count

    def features(self, offset: int) -> np.ndarray:
        """Return kinds, sources, labels and weights of all features."""
        _, count = self.begin(offset, _FEATURES)
        self.check(offset + _CHUNK, _FEATURE.itemsize * count)
        features = np.frombuffer(self.bytes, _FEATURE, count, offset + _CHUNK)
        if not np.isfinite(features["weight"]).all():
            raise ValueError("a weight is not finite")
        return features

    def names(self, offset: int, count: int, what: str) -> list[str]:
        """Return the names of labels or attributes, in the order of their numbers."""
        size, _ = self.begin(offset, _NAMES)
        self.check(offset, _NAMES_HEADER)
        byte_order, n_names, table = self.numbers(offset + 3 * _NUMBER, 3).tolist()
        if byte_order != _BYTE_ORDER:
            raise ValueError(f"the names of its {what}s are in another byte order")
        if n_names != count or (count and table + _NUMBER * count > size):
            raise ValueError(f"it has {count} {what}s, and a table of {n_names} names of them")
        if not count:
            return []
        starts = offset + self.numbers(offset + table, count).astype(np.int64)
        numbers, lengths = self.gather(starts), self.gather(starts + _NUMBER)
        first, last = starts + 2 * _NUMBER, starts + 2 * _NUMBER + lengths
        # Records are apart in a file, so that their sizes together are no more than that of the chunk.
        if lengths.min() < 1 or last.max() > offset + size or lengths.sum() > size:
            raise ValueError(f"a name of its {what}s is longer than the part of the file for names")
        if not np.array_equal(numbers, np.arange(count)):
            raise ValueError(f"the names of its {what}s have other numbers than their places")
        spelled = [self.bytes[begin : end - 1] for begin, end in zip(first.tolist(), last.tolist(), strict=True)]
        if self.values[last - 1].any() or any(0 in each for each in spelled):
            raise ValueError(f"a name of its {what}s does not end where it should")
        try:
            names = [each.decode("utf-8") for each in spelled]
        except UnicodeDecodeError as error:
            raise ValueError(f"a name of its {what}s is not UTF-8: {error.object[:40]!r}") from error
        if len(set(names)) < count:
            raise ValueError(f"two {what}s have the same name")
        return names

    def gather(self, starts: np.ndarray) -> np.ndarray:
        """Return the numbers at given offsets, as int64."""
        if len(starts) and starts.max() + _NUMBER > len(self.bytes):
            raise ValueError(f"a reference to {starts.max()} leads out of the file, which has {len(self.bytes)} bytes")
        parts = self.values[starts[:, None] + np.arange(_NUMBER)]
        return np.ascontiguousarray(parts).view("<u4")[:, 0].astype(np.int64)

    def references(self, offset: int, count: int, kind: bytes, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Return owners and numbers of features, (n,) each: the features of all labels or of all attributes."""
        _, n_owners = self.begin(offset, kind)
        if n_owners < count:
            raise ValueError(f"the chunk {kind.decode()!r} has {n_owners} entries, and {count} are needed")
        starts = self.numbers(offset + _CHUNK, count).astype(np.int64)
        counts = self.gather(starts)
        if counts.sum() > n_features:
            raise ValueError(f"the chunk {kind.decode()!r} has more entries than there are features, {n_features}")
        before = np.cumsum(counts) - counts
        places = np.repeat(starts + _NUMBER - _NUMBER * before, counts) + _NUMBER * np.arange(counts.sum())
        return np.repeat(np.arange(count), counts), self.gather(places)


def _weights(
    features: np.ndarray, owned: tuple[np.ndarray, np.ndarray], kind: int, n_labels: int, owner: str
) -> Weights:
    """Return the weights of features of one kind; raise ValueError for a contradiction."""
    owners, numbers = owned
    own = features[numbers]
    if (own["kind"] != kind).any() or (own["source"] != owners).any():
        raise ValueError(f"a feature does not fit {owner} that it belongs to")
    labels = own["label"].astype(np.int64)
    if (labels >= n_labels).any():
        raise ValueError(f"a feature has the label {labels.max()}, and there are {n_labels}")
    if len(np.unique(owners * n_labels + labels)) < len(labels):
        raise ValueError(f"{owner} has two weights for one label")
    return Weights(owners, labels, own["weight"].astype(np.float64))
