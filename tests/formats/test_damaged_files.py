"""Damaged files of sequences and settings: refused in words or read soundly; a slice of the campaign, and its traps."""

import gzip
import io
import os
import zipfile

import numpy as np
import pytest

from kernelfields.cli.settings import read_settings
from kernelfields.data.text_files import read_content
from kernelfields.formats import SequenceFileError, read_arrays, read_sequences, read_table
from tests.campaigns.fuzz import TEXTS, make_target
from tests.campaigns.fuzzing import document_files
from tests.campaigns.fuzzing.campaign import make_case, run_target
from tests.campaigns.fuzzing.verdicts import FAILED, REFUSED, SOUND, judge

ARRAYS = {"X": np.ones((4, 2)), "offsets": np.array([0, 2, 4]), "y": np.array([0, 1, 1, 0])}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*TEXTS, "npz"])
def test_damaged_files_are_refused_or_sound(kind):
    target = make_target(kind)
    target.prepare()
    verdicts = [judge(make_case(target, 0, number)) for number in range(100)]
    assert not [verdict.reason for verdict in verdicts if verdict.kind == FAILED]


@pytest.mark.slow
@pytest.mark.parametrize("kind", document_files.NAMES)
def test_damaged_documents_are_refused_or_sound(kind):
    if kind == "spacy":
        pytest.importorskip("spacy", reason="the extra spacy is not installed")
    failures = []
    # In a process of its own: damaged files may hang.
    counts = run_target(make_target, kind, 40 if kind == "spacy" else 300, 120.0, announce=failures.append)
    assert not failures
    assert counts[SOUND] > 0
    assert counts[REFUSED] > 0


def saved(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(path, members, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def with_shape(content, shape):
    """A saved array whose header claims another shape."""
    start, end = content.index(b"'shape': ") + 9, content.index(b", }")
    header = content[:start] + shape + content[end:]
    return header[:10] + header[10:].replace(b" " * (len(shape) - (end - start)), b"", 1)


@pytest.mark.parametrize(
    "shape", [b"(1000000000000,)", b"(4,)", b"()", b"(-8,)", b"((((((((", b"(99999999999999999999999,)"]
)
def test_headers_that_claim_what_is_not_there(tmp_path, shape):
    members = {name: saved(array) for name, array in ARRAYS.items()}
    path = zipped(tmp_path / "data.npz", {**members, "X": with_shape(members["X"], shape)})
    with pytest.raises(SequenceFileError, match="is damaged"):
        read_arrays(path)


def test_members_that_are_encrypted_or_packed_oddly(tmp_path):
    members = {name: saved(array) for name, array in ARRAYS.items()}
    with pytest.raises(
        SequenceFileError, match=r"array 'X' is packed in a way that numpy\.savez_compressed does not use"
    ):
        read_arrays(zipped(tmp_path / "data.npz", members, zipfile.ZIP_BZIP2))
    path = zipped(tmp_path / "data.npz", members)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(SequenceFileError, match="array 'X' is encrypted; write the file without a password"):
        read_arrays(path)


def test_archives_that_unpack_to_far_more_than_they_are(tmp_path):
    large = np.zeros((2**21 + 1, 1))
    members = {"X": saved(large), "offsets": saved(np.array([0, len(large)]))}
    path = zipped(tmp_path / "data.npz", members)
    with pytest.raises(SequenceFileError, match=r"would unpack to \d+ bytes, more than 100 times its size"):
        read_arrays(path)
    # Without compression the same array is what it says, and arrays that nobody asks for are left alone.
    assert len(read_arrays(zipped(path, members, zipfile.ZIP_STORED)).X[0]) == len(large)
    small = {name: saved(array) for name, array in ARRAYS.items()}
    assert len(read_arrays(zipped(path, {**small, "other": saved(large)})).X) == 2


def test_gzip_that_unpacks_to_far_more_than_it_is(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(bytes(2**26 + 1)))
    with pytest.raises(SequenceFileError, match="would unpack to more than 64 MiB and 200 times its size"):
        read_content(path)
    path.write_bytes(gzip.compress(bytes(2**22)))
    assert len(read_content(path)) == 2**22


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("y", np.zeros(4, dtype="V4"), r"array 'y' is \|V4, expected numbers or texts"),
        ("y", np.zeros(4, dtype="M8[s]"), "expected numbers or texts"),
        ("y", np.array(3), r"array 'y' has shape \(\)"),
        ("X", np.array(3.0), "array 'X' is float64 of shape"),
        ("offsets", np.array(3), "array 'offsets' is int64 of shape"),
        ("weights", np.array(1.0), "array 'weights' is float64 of shape"),
    ],
)
def test_arrays_of_odd_types_and_shapes(tmp_path, name, array, message):
    path = tmp_path / "data.npz"
    np.savez(path, **{**ARRAYS, name: array})
    with pytest.raises(SequenceFileError, match=message):
        read_arrays(path)


@pytest.mark.parametrize("cell", ["inf", "-inf", "Infinity", "1e999"])
@pytest.mark.parametrize("others", [("0.5", "2"), ("inf", "-inf"), ("NA", "3")])
def test_infinite_numbers_of_tables_are_refused_with_line_and_column(tmp_path, cell, others):
    path = tmp_path / "data.csv"
    path.write_text(f"id,x,label\na,{cell},L\na,{others[0]},R\nb,{others[1]},L\n")
    with pytest.raises(
        SequenceFileError, match=rf"line 2: column 'x' holds '{cell}', which is not finite\. Fill it in"
    ):
        read_sequences(path, sequence="id")
    assert read_table(path, sequence="id", label="label", kinds={"x": "text"}).X[0][0] == {"x": cell}


@pytest.mark.parametrize("separator", ["ab", "", "\n", '"', None])
def test_separators_of_tables_are_one_character(tmp_path, separator):
    path = tmp_path / "data.csv"
    path.write_text("id,x,label\na,1,L\n")
    with pytest.raises(ValueError, match="separator of a CSV table is one character"):
        read_sequences(path, sequence="id", delimiter=separator)


@pytest.mark.parametrize("nested", ["x = " + "[" * 5000, "x = " + "{a=" * 3000])
def test_settings_nested_too_deep(tmp_path, nested):
    path = tmp_path / "run.toml"
    path.write_text(nested)
    with pytest.raises(ValueError, match=r"run\.toml cannot be read as TOML: its values are nested too deep"):
        read_settings(path)


def test_settings_with_numbers_of_many_digits(tmp_path):
    path = tmp_path / "run.toml"
    for digits in (400, 5000):
        path.write_text(f"[field]\nprior_variance = {'9' * digits}\n")
        with pytest.raises(ValueError, match=r"run\.toml"):
            read_settings(path)


def test_settings_are_files_of_some_pages(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ValueError, match="is larger than 1048576 bytes"):
        read_settings(path)
    with pytest.raises(FileNotFoundError):
        read_settings(tmp_path / "gone.toml")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero here")
def test_settings_are_not_read_from_devices():
    with pytest.raises(ValueError, match="/dev/zero is not a file"):
        read_settings("/dev/zero")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no /dev/zero here")
@pytest.mark.parametrize("kind", ["columns", "conllu", "crfsuite", "csv", "npz"])
def test_sequences_are_not_read_from_devices(kind):
    options = {"sequence": "id"} if kind == "csv" else {}
    with pytest.raises(SequenceFileError, match="/dev/zero is a device, not a file: give the path of a file"):
        read_sequences("/dev/zero", kind, **options)
