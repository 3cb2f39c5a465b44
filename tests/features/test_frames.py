"""Tables of positions from three libraries become sequences, and answers become columns of the same library."""

from decimal import Decimal

import numpy as np
import pytest

from kernelfields.data.frames import FrameReader
from kernelfields.features import read_frame, split_lengths

ROWS = {
    "sentence": ["a", "a", "b", "b", "b"],
    "word": ["the", "cat", "dogs", "ran", "home"],
    "length": [3, 3, 4, 3, 4],
    "share": [0.1, 0.2, 0.3, 0.4, 0.5],
    "upper": [False, True, False, False, True],
    "tag": ["D", "N", "N", "V", "R"],
}
LIBRARIES = ["pandas", "polars", "pyarrow"]


def table_of(library, columns):
    package = pytest.importorskip(library)
    return package.table(columns) if library == "pyarrow" else package.DataFrame(columns)


def values_of(column):
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()


def without(*names):
    return {name: values for name, values in ROWS.items() if name not in names}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


def test_numbers_and_booleans_become_arrays_with_names(library):
    found = read_frame(table_of(library, without("word")), sequence="sentence", label="tag")
    assert found.ids == ["a", "b"]
    assert found.y == [["D", "N"], ["N", "V", "R"]]
    np.testing.assert_array_equal(found.X[0], [[3.0, 0.1, 0.0], [3.0, 0.2, 1.0]])
    np.testing.assert_array_equal(found.X[1], [[4.0, 0.3, 0.0], [3.0, 0.4, 0.0], [4.0, 0.5, 1.0]])
    assert [x.columns for x in found.X] == [["length", "share", "upper"]] * 2
    # What is computed from an array may have other columns: it has no names.
    assert found.X[1][:, ::-1].columns is None


def test_words_become_feature_dicts(library):
    found = read_frame(table_of(library, ROWS), sequence="sentence", label="tag", features=["word", "length", "upper"])
    assert found.X[0] == [
        {"word": "the", "length": 3.0, "upper": 0.0},
        {"word": "cat", "length": 3.0, "upper": 1.0},
    ]
    assert [len(x) for x in found.X] == [2, 3]


def test_answers_become_columns_of_the_same_library(library):
    table = table_of(library, ROWS)
    found = read_frame(table, sequence="sentence", label="tag")
    column = found.column(found.y, "predicted")
    assert type(column).__module__.startswith(library)
    assert values_of(column) == ROWS["tag"]
    marginals = [np.arange(4.0).reshape(2, 2), np.arange(4.0, 10.0).reshape(3, 2)]
    columns = found.columns(marginals, np.array(["no", "yes"]))
    assert type(columns) is type(table)
    assert values_of(columns["yes"]) == [1.0, 3.0, 5.0, 7.0, 9.0]
    assert values_of(found.column([np.array([1, 2]), np.array([3, 4, 5])])) == [1, 2, 3, 4, 5]


def test_rows_that_are_not_together_keep_their_places(library):
    order = [4, 0, 2, 1, 3]
    table = table_of(library, {name: [values[row] for row in order] for name, values in ROWS.items()})
    found = read_frame(table, sequence="sentence", label="tag", features=["word"], sort=True)
    assert found.ids == ["b", "a"]
    assert found.y == [["R", "N", "V"], ["D", "N"]]
    assert values_of(found.column(found.y)) == [ROWS["tag"][row] for row in order]
    assert values_of(found.columns([np.eye(3)[:, :1], np.eye(2)[:, :1]], ["x"])["x"]) == [1, 1, 0, 0, 0]
    by_share = read_frame(table, sequence="sentence", label="tag", sort="share")
    assert by_share.y == [["N", "V", "R"], ["D", "N"]]
    assert values_of(by_share.column(by_share.y)) == [ROWS["tag"][row] for row in order]
    assert "share" not in by_share.X[0][0]


def test_the_index_of_a_pandas_table_is_kept():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(ROWS, index=pandas.MultiIndex.from_product([["x"], [9, 7, 5, 3, 1]]))
    found = read_frame(table, sequence="sentence", label="tag")
    assert found.column(found.y).index.equals(table.index)
    assert found.columns([np.eye(2), np.eye(3)[:, :2]], [0, 1]).index.equals(table.index)
    table["predicted"] = found.column(found.y)
    assert (table["predicted"] == table["tag"]).all()


def test_later_tables_are_read_by_name(library):
    reader = FrameReader("sentence", "tag")
    first = reader.learn(table_of(library, ROWS))
    names = [*list(ROWS)[::-1], "more"]
    other = table_of(library, {name: ROWS.get(name, [0] * 5) for name in names if name != "tag"})
    assert reader.read(other).X == first.X
    assert reader.feature_names == ["word", "length", "share", "upper"]
    assert reader.read(other, ROWS["tag"], labelled=True).y == first.y
    with pytest.raises(
        ValueError, match=r"no column 'tag' of labels: name it with label=\.\.\. Its columns are 'upper'"
    ):
        reader.read(other, labelled=True)
    with pytest.raises(ValueError, match=r"lacks features of the fit: 'word', 'share'\. Its columns are 'sentence'"):
        reader.read(table_of(library, without("word", "share")))
    with pytest.raises(ValueError, match="column 'word' holds numbers, but held text in the fit"):
        reader.read(table_of(library, ROWS | {"word": [1, 2, 3, 4, 5]}))


def test_later_tables_may_have_no_rows(library):
    reader = FrameReader("sentence", "tag")
    table = table_of(library, ROWS)
    reader.learn(table)
    nothing = reader.read(table[:0])
    assert (nothing.X, nothing.ids) == ([], [])
    assert len(nothing.column([])) == 0
    assert nothing.columns([], ["x", "y"]).shape == (0, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"share": [0.1, None, 0.3, 0.4, 0.5]}, r"column 'share' is missing in row 1: features must be known\. Fill"),
        ({"share": [0.1, 0.2, 0.3, float("nan"), 0.5]}, "column 'share' is missing in row 3"),
        ({"share": [0.1, 0.2, float("inf"), 0.4, 0.5]}, "column 'share' holds inf in row 2: features must be finite"),
        ({"length": [3, 3, None, 3, 4]}, "column 'length' is missing in row 2"),
        ({"word": ["the", "cat", "dogs", None, "home"]}, "column 'word' is missing in row 3"),
        ({"upper": [None] * 5}, "column 'upper' is missing in row 0"),
        ({"tag": ["D", None, "N", "V", "R"]}, "column 'tag' has no label in row 1: every position of a sequence needs"),
        ({"sentence": ["a", "a", None, "b", "b"]}, "column 'sentence' has no sequence id in row 2"),
        (
            {"sentence": ["a", "b", "b", "a", "b"]},
            "the rows of sequence 'a' are not together: row 3 comes after rows of others. sort=True takes them as one",
        ),
        ({"length": [[1], [2], [3], [4], [5]]}, "column 'length' holds .* where numbers, booleans or text are needed"),
    ],
)
def test_values_that_cannot_be_used_are_named_with_their_row(library, change, words):
    table = table_of(library, ROWS | change)
    with pytest.raises(ValueError, match=words):
        read_frame(table, sequence="sentence", label="tag")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"word": ["the", "cat", 3, "ran", "home"]},
            r"column 'word' mixes text .* row 0 holds 'the' \(str\), row 2 3 \(",
        ),
        ({"tag": ["D", "N", "N", 5, "R"]}, r"column 'tag' mixes text with other values: .* row 3 5 \(int\)"),
        ({"word": [b"the", b"cat", b"dogs", b"ran", b"home"]}, r"column 'word' holds b'the' \(bytes\) in row 0"),
    ],
)
def test_kinds_that_are_mixed_are_named_with_their_row(change, words):
    table = table_of("pandas", ROWS | change)
    with pytest.raises(ValueError, match=words):
        read_frame(table, sequence="sentence", label="tag")


def test_columns_of_objects_are_what_their_values_are():
    pandas = pytest.importorskip("pandas")
    columns = {
        "sentence": [1, 1, 2],
        "truth": pandas.Series([True, False, True], dtype=object),
        "number": pandas.Series([Decimal("0.5"), 2, 3.5], dtype=object),
        "nullable": pandas.array([1, 2, 3], dtype="Int64"),
        0: [7.0, 8.0, 9.0],
    }
    found = read_frame(pandas.DataFrame(columns), sequence="sentence")
    np.testing.assert_array_equal(np.concatenate(found.X), [[1, 0.5, 1, 7], [0, 2, 2, 8], [1, 3.5, 3, 9]])
    assert found.X[0].columns == ["truth", "number", "nullable", "0"]
    categories = pandas.DataFrame({"sentence": [1, 1], "kind": pandas.Categorical([4, 5])})
    assert read_frame(categories, sequence="sentence").X == [[{"kind": "4"}, {"kind": "5"}]]
    single = pandas.DataFrame({"sentence": [1, 1], "x": np.array([1, 2], dtype=np.float32)})
    assert read_frame(single, sequence="sentence").X[0].dtype == np.float32


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sequence": "id"}, "the table has no column 'id' of sequence ids: name it with sequence="),
        ({"label": "labels"}, "the table has no column 'labels' of labels: name it with label="),
        ({"features": ["word", "size"]}, "the table has no column 'size' of features"),
        ({"features": ["tag"]}, "column 'tag' holds the labels: it cannot be a feature as well"),
        ({"features": []}, "the table has no columns of features"),
        ({"sort": "time"}, "the table has no column 'time' to sort rows by"),
    ],
)
def test_columns_that_are_not_there(settings, words):
    with pytest.raises(ValueError, match=words):
        read_frame(table_of("pandas", ROWS), **({"sequence": "sentence", "label": "tag"} | settings))


def test_what_is_no_table():
    pandas = pytest.importorskip("pandas")
    for wrong in ([[1, 2]], np.zeros((2, 2)), 5):
        with pytest.raises(
            TypeError, match="expected a table of pandas, polars or pyarrow with a row for each position"
        ):
            read_frame(wrong)
    table = pandas.DataFrame(ROWS)
    with pytest.raises(TypeError, match=r"got DataFrameGroupBy\. Pass the table itself, not its groups"):
        read_frame(table.groupby("sentence"))
    with pytest.raises(TypeError, match="features must be a list of names of columns"):
        read_frame(table, sequence="sentence", features="word")
    with pytest.raises(ValueError, match="no column 'sentence' of sequence ids: it is in the index"):
        read_frame(table.set_index("sentence"), sequence="sentence")
    with pytest.raises(ValueError, match=r"names of columns must differ: .*'word' 2 times"):
        read_frame(table.rename(columns={"length": "word"}), sequence="sentence")
    with pytest.raises(ValueError, match="the table has no rows"):
        read_frame(table[:0], sequence="sentence")
    for y, error, words in ((["D"], ValueError, "y holds 1 labels, but the table has 5"), (3, TypeError, "got int")):
        with pytest.raises(error, match=words):
            FrameReader("sentence", "tag").learn(table, y)


def test_lazy_tables_are_collected_first():
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"got a lazy one: collect\(\) or compute\(\) it first"):
        read_frame(polars.DataFrame(ROWS).lazy(), sequence="sentence")


def test_answers_that_do_not_fit_the_table():
    found = read_frame(table_of("pandas", ROWS), sequence="sentence", label="tag")
    with pytest.raises(ValueError, match="the table has 2 sequences, but there are answers for 1"):
        found.column([["D", "N"]])
    with pytest.raises(ValueError, match="sequence 'b' has 3 rows, but 2 answers"):
        found.columns([np.eye(2), np.eye(2)], ["x", "y"])


@pytest.mark.parametrize("kind", ["array", "list", "sparse", "pandas", "polars", "pyarrow"])
def test_arrays_with_lengths_are_cut(kind):
    rows = np.arange(12.0).reshape(6, 2)
    if kind == "sparse":
        whole = pytest.importorskip("scipy.sparse").coo_array(rows)
    elif kind in LIBRARIES:
        whole = table_of(kind, {"a": rows[:, 0], "b": rows[:, 1]})
    else:
        whole = rows if kind == "array" else rows.tolist()
    parts = split_lengths(whole, [1, 3, 2])
    for part, expected in zip(parts, np.split(rows, [1, 4]), strict=True):
        np.testing.assert_array_equal(part.toarray() if kind == "sparse" else np.asarray(part), expected)


@pytest.mark.parametrize(
    ("lengths", "words"),
    [
        ([2, 3], "lengths add up to 5, but there are 6 positions"),
        ([6, 0], "positive whole numbers"),
        ([2.5, 3.5], "positive whole numbers"),
        (6, "positive whole numbers, one per sequence, got 6"),
    ],
)
def test_lengths_that_do_not_fit(lengths, words):
    with pytest.raises(ValueError, match=words):
        split_lengths(np.zeros((6, 2)), lengths)
