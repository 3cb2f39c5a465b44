"""Model files of CRFsuite, written for tests: the parts that a reader needs, without hash tables."""

import struct

import numpy as np

BYTE_ORDER = 0x62445371
N_TABLES = 256


def names_chunk(names):
    """A constant database of names: records, empty hash tables, and the table from numbers to records."""
    begin = 24 + 8 * N_TABLES
    records, starts = b"", []
    for number, name in enumerate(names):
        text = name.encode() + b"\0"
        starts.append(begin + len(records))
        records += struct.pack("<II", number, len(text)) + text
    table = struct.pack(f"<{len(starts)}I", *starts)
    size = begin + len(records) + len(table)
    head = b"CQDB" + struct.pack("<5I", size, 0, BYTE_ORDER, len(names), begin + len(records) if names else 0)
    return head + bytes(8 * N_TABLES) + records + table


def references_chunk(kind, owners, n_owners, begin):
    """The features of each label or attribute, in a chunk that begins at a place of the file."""
    starts, lists = [], b""
    for owner in range(n_owners):
        own = [number for number, source in owners if source == owner]
        starts.append(begin + 12 + 4 * n_owners + len(lists))
        lists += struct.pack(f"<{1 + len(own)}I", len(own), *own)
    body = struct.pack(f"<{n_owners}I", *starts) + lists
    return kind + struct.pack("<II", 12 + len(body), n_owners) + body


def crfsuite_bytes(labels, attributes, states, transitions):
    """The file of a model: ``states`` {(attribute, label): weight}, ``transitions`` {(label, label): weight}."""
    features = [(0, attributes.index(name), labels.index(label), weight) for (name, label), weight in states.items()]
    features += [(1, labels.index(a), labels.index(b), weight) for (a, b), weight in transitions.items()]
    content, places = bytearray(48), []

    def put(chunk):
        content.extend(bytes(-len(content) % 4))
        places.append(len(content))
        content.extend(chunk)

    packed = b"".join(struct.pack("<IIId", *feature) for feature in features)
    put(b"FEAT" + struct.pack("<II", 12 + len(packed), len(features)) + packed)
    put(names_chunk(labels))
    put(names_chunk(attributes))
    for kind, wanted, count in ((b"LFRF", 1, len(labels) + 2), (b"AFRF", 0, len(attributes))):
        owners = [(number, source) for number, (own, source, _, _) in enumerate(features) if own == wanted]
        put(references_chunk(kind, owners, count, -(-len(content) // 4) * 4))
    header = struct.pack("<4sI4s9I", b"lCRF", len(content), b"FOMC", 100, 0, len(labels), len(attributes), *places)
    content[:48] = header
    return bytes(content)


def random_model(n_labels=4, n_attributes=12, seed=0):
    """Names and weights made up: labels in no order, pairs left out."""
    random = np.random.default_rng(seed)
    labels = [f"L{number}" for number in random.permutation(n_labels)]
    attributes = [f"w:{chr(97 + number)}é" for number in range(n_attributes)]
    states = {(a, b): float(random.normal()) for a in attributes for b in labels if random.random() < 0.6}
    states |= {(a, labels[0]): 0.5 for a in attributes}
    transitions = {(a, b): float(random.normal()) for a in labels for b in labels if random.random() < 0.7}
    return labels, attributes, states, transitions


def random_sequences(attributes, n_sequences=20, seed=0):
    """Feature dicts with weights, some of them of attributes that no model has."""
    random = np.random.default_rng(seed)
    return [
        [
            {**{name: float(random.normal()) for name in random.choice(attributes, size=3)}, "unknown": 1.0}
            for _ in range(random.integers(1, 8))
        ]
        for _ in range(n_sequences)
    ]
