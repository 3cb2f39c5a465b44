import errno
import json
import os
import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.models import model_file, model_text

DOCUMENT = {
    "kernel": {"name": "rbf", "gamma": 0.1, "points": np.arange(6.0).reshape(3, 2)},
    "classes": np.array(["B-PER", "ü", ""]),
    "limits": [float("inf"), -float("inf"), 1, None, True, "text"],
    "$odd": {"$array": "not an array", "plain": 1},
}
TENSORS = {"weights": np.linspace(0, 1, 5), "mask": np.array([True, False])}


def same(left, right):
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_round_trip(path):
    write_model(path, "chain", DOCUMENT, TENSORS)
    document, tensors = read_model(path, "chain")
    assert same(document, DOCUMENT)
    assert same(tensors, TENSORS)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", ">f8", ">i4"])
def test_arrays_keep_every_bit(path, dtype):
    native = np.dtype(dtype).newbyteorder("=")
    bits = np.random.default_rng(0).integers(0, 256, 24 * native.itemsize, dtype=np.uint8)
    base = (bits % 2 if dtype == "?" else bits).view(native).reshape(4, 6)
    given = base.astype(dtype) if dtype.startswith(">") else base
    shapes = {
        "plain": given,
        "fortran": np.asfortranarray(given),
        "strided": given[::2, ::-3],
        "transposed": given.T,
        "scalar": np.array(given[0, 0]),
        "empty": given[:0],
        "hollow": np.empty((2, 0, 3), dtype),
    }
    write_model(path, "k", {}, shapes)
    _, tensors = read_model(path, "k")
    for name, array in shapes.items():
        assert tensors[name].dtype == native
        assert tensors[name].shape == array.shape
        assert tensors[name].tobytes() == array.astype(native).tobytes()


@pytest.mark.parametrize(
    "words",
    [["a", "bcd"], [], [["x", "y"], ["", "日本"]], ["\ud800 lone"], [f"name-{i}" for i in range(5000)]],
)
def test_strings_without_pickle(path, words):
    array = np.array(words, dtype=str)
    write_model(path, "k", {"words": words, "array": array}, {"zero": np.array("one"), "all": array})
    document, tensors = read_model(path, "k")
    assert document["words"] == words
    assert same(document["array"], array)
    assert same(tensors, {"zero": np.array("one"), "all": array})


def test_long_lists_of_names_leave_the_header(path):
    names = [f"feature:{index}" for index in range(20_000)]
    write_model(path, "k", {"names": names}, {})
    (header_length,) = struct.unpack("<Q", path.read_bytes()[:8])
    assert header_length < 2000
    assert read_model(path, "k")[0]["names"] == names


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.dictionaries(st.text(max_size=4) | st.sampled_from(["$array", "$dict"]), VALUES, max_size=3))
def test_any_document_survives(path, document):
    write_model(path, "k", document, {})
    assert same(read_model(path, "k")[0], document)


def test_numpy_scalars_and_tuples_become_plain(path):
    write_model(path, "k", {"a": np.float32(0.5), "b": np.int8(3), "c": np.bool_(True), "d": (1, np.str_("x"))}, {})
    assert same(read_model(path, "k")[0], {"a": 0.5, "b": 3, "c": True, "d": [1, "x"]})


def test_paths_that_collide_keep_their_arrays(path):
    document = {"a.b": np.array([1.0]), "a": {"b": np.array([2.0])}, "\ud800": np.array([3.0])}
    write_model(path, "k", document, {})
    assert same(read_model(path, "k")[0], document)


def test_the_file_is_plain_safetensors(path):
    write_model(path, "chain", DOCUMENT, TENSORS)
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    metadata = json.loads(raw[8 : 8 + length])["__metadata__"]
    assert metadata["format"] == "kernelfields-model"
    assert metadata["version"] == "3"
    strict = json.loads(metadata["model"], parse_constant=lambda name: pytest.fail(f"not strict JSON: {name}"))
    assert strict["kind"] == "chain"


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"a": [1, {2}]}, "document.a.1 is set"),
        ({"a": object()}, "document.a is object"),
        ({"a": {1: 2}}, "document.a has the key 1 of type int"),
        ({"a": np.array([None])}, "document.a is an array of object"),
        ({"a": np.array([1j])}, "document.a is an array of complex128"),
        ({"a": np.array(["2020"], dtype="M8[D]")}, "array of datetime64"),
        ({"a": b"bytes"}, "document.a is bytes"),
        ({"a": np.longdouble(1)}, "document.a"),
    ],
)
def test_what_a_file_cannot_hold(path, document, words):
    with pytest.raises(TypeError, match=words):
        write_model(path, "k", document, {})
    assert os.listdir(path.parent) == []


def test_a_document_too_large_for_the_header_is_refused_early(path, monkeypatch):
    monkeypatch.setattr(model_file, "_LONGEST_JSON", 100)
    with pytest.raises(ValueError, match="too large"):
        write_model(path, "k", {"text": "x" * 200}, {})


def test_failed_writes_leave_the_old_file_and_no_rubbish(path, monkeypatch):
    write_model(path, "k", {"a": 1}, {})

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write the file: No space left on device.*model.safetensors") as got:
        write_model(path, "k", {"a": 2}, {})
    assert got.value.errno == errno.ENOSPC
    assert os.listdir(path.parent) == [path.name]
    assert read_model(path, "k")[0] == {"a": 1}

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_model(path, "k", {"a": 2}, {})
    assert os.listdir(path.parent) == [path.name]


def test_folders_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*create it first"):
        write_model(tmp_path / "nowhere" / "m", "k", {}, {})
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError, match="cannot write the file"):
        write_model(tmp_path / "taken", "k", {}, {})
    assert os.listdir(tmp_path) == ["taken"]
    if os.geteuid() != 0:  # root may write everywhere
        (tmp_path / "taken").chmod(0o500)
        with pytest.raises(PermissionError, match="cannot write the file"):
            write_model(tmp_path / "taken" / "m", "k", {}, {})


def test_permissions_and_links(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    write_model(target, "k", {}, {})
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask
    link.symlink_to(target)
    write_model(link, "k", {"a": 1}, {})
    assert link.is_symlink()
    assert read_model(target, "k")[0] == {"a": 1}


def metadata_of(content="{}", **changes):
    return {"format": "kernelfields-model", "version": "1", "model": content} | changes


def sealed(content, arrays):
    """Metadata with a valid checksum around any text."""
    return metadata_of(content, sha256=model_text.digest(content, arrays))


class Bomb:
    def __reduce__(self):
        return os.abort, ()


def test_files_that_are_no_models(path):
    def refuses(content, words):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=words) as got:
            read_model(path, "k")
        assert str(path) in str(got.value)
        assert "\n" not in str(got.value)

    tensor = {"x": np.ones(3)}
    refuses(b"", "is empty")
    refuses(b"\x00", "not a kernelfields model file")
    refuses(b"hello world, this is text" * 10, "not a kernelfields model file")
    refuses(os.urandom(4096), "not a kernelfields model file")
    refuses(b"\xff" * 100, "not a kernelfields model file")
    for protocol in range(2, 6):
        refuses(pickle.dumps([Bomb()] * 5, protocol), "looks like a pickle")
    refuses(b"PK\x03\x04" + b"x" * 100, "looks like a pickle or an archive")
    for length in (0x80, 0x0480, 0x4B50):  # headers as long as the first bytes of pickles and archives say
        refuses(length.to_bytes(8, "little") + b'{"x":', "not a kernelfields model file: damaged")
    refuses(save(tensor), "not one that kernelfields wrote")
    refuses(save(tensor, {"format": "pt"}), "not one that kernelfields wrote")
    refuses(
        save(tensor, metadata_of(version="7")),
        r"newer version of kernelfields \(format 7, this one reads up to 3\): upgrade",
    )
    refuses(save(tensor, metadata_of(version="x")), "format version reads 'x'")
    refuses(save(tensor, metadata_of(version="0")), "format version reads '0'")
    refuses(save(tensor, metadata_of()), "checksum does not match")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "null",
        "{}",
        '{"kind": "k", "document": [], "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$array": "missing"}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$array": ["x"]}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$json": "x"}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$json": {"$deflated": "x", "size": 2}}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$json": {"$deflated": "z", "size": 3}}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$json": {"$deflated": "z", "size": 5}}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$json": {"$deflated": "z", "size": 1e3}}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$json": {"$deflated": "z", "size": 99999}}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$array": "x", "dtype": "object", "shape": [2]}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$array": "x", "dtype": "int8", "shape": [3]}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$float": "one"}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$dict": [1]}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$strings": ["a"], "shape": [2]}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": {"$strings": ["a"], "shape": [1%s]}}, "tensors": {}}' % ("0" * 30),
        '{"kind": "k", "document": {"a": {"$strings": 3, "shape": [1]}}, "tensors": {}}',
        '{"kind": "k", "document": {"a": ' + "[" * 100_000 + "]" * 100_000 + '}, "tensors": {}}',
        '{"kind": "k", "document": {"a": %s}, "tensors": {}}' % ("1" * 10_000),
    ],
)
def test_wrong_texts_under_a_right_checksum(path, content):
    deflated = np.frombuffer(zlib.compress(b"[42]"), np.uint8)
    arrays = {"x": np.array([200, 255], dtype=np.uint8), "z": deflated}
    save_file(arrays, path, sealed(content, arrays))
    with pytest.raises(ModelFileError, match="model text cannot be read"):
        read_model(path, "k")


def test_one_long_word_cannot_fill_the_memory(path):
    words = json.dumps(["x"] * 200_000 + ["y" * 10_000_000])
    arrays = {"w": np.frombuffer(words.encode(), np.uint8)}
    text = '{"kind": "k", "document": {"a": {"$strings": {"$json": "w"}, "shape": [200001]}}, "tensors": {}}'
    save_file(arrays, path, sealed(text, arrays))
    with pytest.raises(ModelFileError, match="far longer"):
        read_model(path, "k")


def test_long_lists_and_whole_numbers_are_deflated(path):
    random = np.random.default_rng(0)
    names = [f"lower[-1]={number}" for number in random.integers(10**6, size=3000)]
    document = {
        "names": names,
        "numbers": random.integers(40, size=(3000, 2)).astype(np.int32),
        "equal": np.zeros(10**6, dtype=np.int64),  # too short when deflated: a reader would not trust its size
        "small": np.arange(3),
        "floats": random.normal(size=3000),
    }
    write_model(path, "k", document, {})
    found, _ = read_model(path, "k")
    assert found["names"] == names
    for name in ("numbers", "equal", "small", "floats"):
        assert found[name].dtype == document[name].dtype
        assert np.array_equal(found[name], document[name])
    assert found["numbers"].flags.writeable
    kept = document["equal"].nbytes + document["floats"].nbytes
    assert path.stat().st_size - kept < 0.5 * (len(json.dumps(names)) + document["numbers"].nbytes)


def test_other_kind_missing_file_and_folder(path, tmp_path):
    write_model(path, "graph", {}, {})
    with pytest.raises(ModelFileError, match="holds a model of kind 'graph', expected 'chain'"):
        read_model(path, "chain")
    with pytest.raises(FileNotFoundError, match="gone does not exist"):
        read_model(tmp_path / "gone", "anything")
    with pytest.raises(ModelFileError, match="gone does not exist"):
        read_model(tmp_path / "gone", "chain")
    with pytest.raises(ModelFileError, match="is not a file"):
        read_model(tmp_path, "chain")
    assert issubclass(ModelFileError, ValueError)


def test_a_kind_that_is_no_name_is_refused(tmp_path):
    write_model(tmp_path / "model", ["chain"], {}, {})
    with pytest.raises(ModelFileError, match=r"holds a model of kind \['chain'\], expected 'chain'"):
        read_model(tmp_path / "model", "chain")


def header_file(header, data=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]},
        {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**61], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]},
        {"dtype": "F64", "shape": [0, 2**62, 2**62], "data_offsets": [0, 0]},
        {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "X", "shape": [1], "data_offsets": [0, 8]},
    ],
)
def test_odd_tensors_in_the_header(path, entry):
    data = b"\0" * 8 if entry["data_offsets"][1] else b""
    path.write_bytes(header_file({"__metadata__": metadata_of(sha256="0"), "x": entry}, data))
    with pytest.raises(ModelFileError):
        read_model(path, "k")


def test_truncated_files_are_refused(path):
    write_model(path, "chain", DOCUMENT, TENSORS)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError):
            read_model(path, "chain")
    path.write_bytes(whole + b"\0")
    with pytest.raises(ModelFileError):
        read_model(path, "chain")


def test_flipped_bytes_are_refused_or_harmless(path):
    write_model(path, "chain", DOCUMENT, TENSORS)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            document, tensors = read_model(path, "chain")
        except ModelFileError:
            refused += 1
        else:
            assert same(document, DOCUMENT)
            assert same(tensors, TENSORS)
    assert refused > 0.95 * len(whole)
