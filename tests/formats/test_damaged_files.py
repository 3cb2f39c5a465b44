"""Damaged files of sequences and settings: refused in words or read soundly; a slice of the campaign, and its traps."""

import gzip
import os

import pytest

from kernelfields.cli.settings import read_settings
from kernelfields.data.text_files import read_content
from kernelfields.formats import SequenceFileError, read_sequences, read_table
from tests.campaigns.fuzz import TEXTS, make_target
from tests.campaigns.fuzzing import document_files
from tests.campaigns.fuzzing.campaign import make_case, run_target
from tests.campaigns.fuzzing.verdicts import FAILED, REFUSED, SOUND, judge


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXTS)
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


def test_gzip_that_unpacks_to_far_more_than_it_is(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(bytes(2**26 + 1)))
    with pytest.raises(SequenceFileError, match="would unpack to more than 64 MiB and 200 times its size"):
        read_content(path)
    path.write_bytes(gzip.compress(bytes(2**22)))
    assert len(read_content(path)) == 2**22


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
@pytest.mark.parametrize("kind", ["columns", "conllu", "crfsuite", "csv"])
def test_sequences_are_not_read_from_devices(kind):
    options = {"sequence": "id"} if kind == "csv" else {}
    with pytest.raises(SequenceFileError, match="/dev/zero is a device, not a file: give the path of a file"):
        read_sequences("/dev/zero", kind, **options)
