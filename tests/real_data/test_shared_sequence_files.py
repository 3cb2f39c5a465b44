"""Readers and writers on the files people have, where the data sets are on the machine (KERNELFIELDS_DATA)."""

import gzip

import pytest

from benchmarks.shared_data import DataMissing, data_file, token_columns
from kernelfields.formats import Template, read_columns, read_sequences, write_columns, write_sequences


def there(*parts):
    try:
        return data_file(*parts)
    except DataMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "sequences", "rows"),
    [
        (("conll2000", "test.tsv.gz"), 2012, 47377),
        (("ud-english-ewt", "dev.tsv.gz"), 2001, 25147),
        (("lwazi2-prominence", "afr.tsv.gz"), 1002, 9184),
        (("nettalk", "nettalk.tsv.gz"), 20007, 146934),
    ],
)
def test_column_files_are_read_in_full_and_written_again_byte_for_byte(tmp_path, parts, sequences, rows):
    path = there(*parts)
    found = list(read_columns(path))
    assert (len(found), sum(len(sequence.rows) for sequence in found)) == (sequences, rows)
    assert [sequence.rows for sequence in found] == token_columns(*parts)
    write_columns(tmp_path / "copy", found)
    copy = (tmp_path / "copy").read_bytes()
    assert copy.rstrip(b"\n") == gzip.decompress(path.read_bytes()).rstrip(b"\n")


@pytest.mark.slow
def test_chunks_go_through_crfsuite_text_unchanged(tmp_path):
    template = Template.parse("U00:%x[-1,0]/%x[0,0]\nU01:%x[0,1]\nU02:%x[2,1]\nB")
    chunks = read_sequences(there("conll2000", "test.tsv.gz"), template=template)
    write_sequences(tmp_path / "chunks.crfsuite", chunks.X, chunks.y)
    again = read_sequences(tmp_path / "chunks.crfsuite")
    assert again.X == chunks.X
    assert again.y == chunks.y
