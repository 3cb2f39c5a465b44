import csv
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.formats import SequenceFileError, read_table, write_table

ROOMS = """day,temperature,light,state
monday,21.5,430,empty
monday,-1e1,431,full
tuesday,19,0,empty
"""


@pytest.fixture
def write(tmp_path):
    def to_file(text):
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode())
        return path

    return to_file


def test_numbers_make_dense_arrays(write):
    table = read_table(write(ROOMS), sequence="day", label="state")
    assert [x.tolist() for x in table.X] == [[[21.5, 430.0], [-10.0, 431.0]], [[19.0, 0.0]]]
    assert all(x.dtype == np.float64 for x in table.X)
    assert table.y == [["empty", "full"], ["empty"]]
    assert table.reading["kinds"] == {"temperature": "number", "light": "number"}


@pytest.mark.parametrize("value", ["1_000", "\u0663", "0x10", "1,5"])
def test_what_only_python_takes_for_a_number_is_text(write, value):
    table = read_table(write(f'id,value\n1,"{value}"\n1,2\n'), sequence="id")
    assert table.reading["kinds"] == {"value": "text"}
    assert table.X[0][0] == {"value": value}


def test_rows_of_a_sequence_stand_together(write):
    path = write("id,x,y\nb,1,P\na,2,Q\nb,3,P\na,4,Q\nc,5,P\n")
    with pytest.raises(SequenceFileError, match="line 4: column 'id' returns to 'b', which ended in line 2"):
        read_table(path, sequence="id", label="y")


def test_quotes_byte_order_mark_crlf_and_empty_lines(write):
    text = '\ufeffid,word\r\n1,"a ""b"", c"\r\n\r\n1,"two\r\nlines"\r\n'
    table = read_table(write(text), sequence="id")
    assert table.X == [[{"word": 'a "b", c'}, {"word": "two\nlines"}]]


def test_another_delimiter(write):
    path = write(ROOMS.replace(",", ";"))
    assert read_table(path, sequence="day", label="state", delimiter=";").X[0].shape == (2, 2)
    with pytest.raises(SequenceFileError, match=r"no column 'day'; .* Is the separator another one"):
        read_table(path, sequence="day", label="state")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty, expected a header"),
        ("id,x\n", "has a header and no rows"),
        ("id,x,x\n1,2,3\n", "line 1: the header has the column 'x' twice"),
        ("id,x\n1,2\n1,2,3\n", "line 3: column 2 (from 0), '3', is one too many; found 3 columns, expected 2"),
        ("id,x\n1,2\n1\n", "line 3: column 'x' is missing; found 1 column, expected 2"),
        ("id,x\n1,2\n1,\n", "line 3: column 'x' is empty. Fill it in, or remove the row."),
        ("id,x\n1,2\n ,3\n", "line 3: column 'id' is empty"),
        ("id,x\n1,2\n1,NA\n1,3\n", "line 3: column 'x' holds 'NA' among numbers"),
        ("id,x\n1,nan\n1,3\n", "line 2: column 'x' holds 'nan' among numbers"),
        ('id,x\n1,"two\nlines"\n1,"open\n', "line 4: unexpected end of data"),
        ('id,x\n1,"a"b\n', "line 2: "),
        ('id,x\n1,"two\nlines"\n1,2,3\n', "line 4: column 2 (from 0), '3', is one too many; found 3 columns"),
    ],
)
def test_mistakes_are_named_by_file_and_line(write, text, message):
    path = write(text)
    with pytest.raises(SequenceFileError, match=re.escape(f"{path}") + ".*" + re.escape(message)):
        read_table(path, sequence="id")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "day"}, "must be different columns"),
        ({"features": ["day"]}, "must be different columns"),
        ({"features": []}, "at least one"),
        ({"kinds": {"state": "word"}}, "must be 'number' or 'text'"),
        ({"kinds": {"day": "text"}}, "kinds names the column 'day'"),
        ({"features": ["colour"]}, "no column 'colour'"),
    ],
)
def test_choices_that_make_no_sense_are_refused(write, options, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(ROOMS), sequence="day", **options)


def test_columns_are_appended_once(write, tmp_path):
    table = read_table(write(ROOMS), sequence="day", label="state")
    with pytest.raises(ValueError, match="has a column 'state' already"):
        write_table(tmp_path / "out.csv", table, {"state": table.y})
    with pytest.raises(ValueError, match="sequence 'monday' has 2 rows, but 1 answers"):
        write_table(tmp_path / "out.csv", table, {"p": [["1"], ["2"]]})
    assert not (tmp_path / "out.csv").exists()


values = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00\ufeff"), min_size=1, max_size=5).filter(
    str.strip
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), values, values), min_size=1, max_size=8))
def test_cells_come_back_in_the_order_of_the_file(tmp_path_factory, rows):
    rows = sorted(rows, key=lambda row: row[0])
    path = tmp_path_factory.mktemp("round") / "table.csv.gz"
    kinds = {"word": "text", "tag": "text"}
    first = path.with_name("first.csv")
    with open(first, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "word", "tag"), *rows])
    table = read_table(first, sequence="id", kinds=kinds)
    write_table(path, table, {"again": [[position["word"] for position in x] for x in table.X]})
    again = read_table(path, sequence="id", kinds=kinds | {"again": "text"})
    assert again.rows == [[*row, row[1]] for row in rows]
    assert all(position["again"] == position["word"] for x in again.X for position in x)
