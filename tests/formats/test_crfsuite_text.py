import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelfields.formats import SequenceFileError, read_crfsuite, write_crfsuite


@pytest.fixture
def read(tmp_path):
    def from_text(text):
        path = tmp_path / "data.crfsuite"
        path.write_bytes(text.encode())
        return read_crfsuite(path)

    return from_text


def test_one_weight_makes_feature_dicts_of_all_positions(read):
    data = read("A\tx\tx\ty\n\nB\tx:2.5\ty\tx:0.5\tz:\n")
    assert data.X == [[{"x": 2.0, "y": 1.0}], [{"x": 3.0, "y": 1.0, "z": 1.0}]]


def test_escapes_are_undone_in_names_and_labels(read):
    data = read("a\\:b\ttime=12\\:30\tC:\\\\dir\\n:\n".replace("C:", "C\\:"))
    assert data.y == [["a:b"]]
    assert data.X == [[["time=12:30", "C:\\dir\\n"]]]


@pytest.mark.parametrize(
    "text",
    ["A\tx\n\nB\n", "A\tx\r\n\r\nB\r\n", "\n\nA\tx\n\n\n\nB", "\ufeff\tA\t\tx\t\n\nB\n\n\n"],
)
def test_tabs_and_empty_lines_may_repeat(read, text):
    data = read(text)
    assert data.X == [[["x"]], [[]]]
    assert data.y == [["A"], ["B"]]


def test_sequences_may_have_weights(read):
    data = read("A\tx\n\n@weight:2.5\nB\tx\n\n@weight:1\nA\tx\n")
    assert data.weights.tolist() == [1.0, 2.5, 1.0]
    assert read("@weight:1\nA\tx\n").weights is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "A\tx\nB\tx:y\n",
            r"line 2, column 1 \(from 0\): 'x:y': 'y' is no weight; a colon in a name is written \\:",
        ),
        ("A\tx:nan\n", r"line 1, column 1 \(from 0\): 'x:nan': weights must be finite"),
        ("A:2\tx\n", r"line 1, column 0 \(from 0\): 'A:2' is no label; a colon in a label is written \\:"),
        (":\tx\n", r"line 1, column 0 \(from 0\): ':' is no label"),
        ("A\tx\n\t\t\n", "line 2: a line of tabs"),
        ("@weight:x\nA\n", r"line 1, column 0 \(from 0\): '@weight:x' is unknown"),
        ("@weight:-1\nA\n", "line 1"),
        ("@weight:inf\nA\n", "line 1"),
        ("@size:2\nA\n", r"line 1, column 0 \(from 0\): '@size:2' is unknown"),
        ("A\tx\n@weight:2\nB\n", r"line 2, column 0 \(from 0\): '@weight:2' belongs on a line of its own"),
        ("@weight:2\n@weight:2\nB\n", "line 2"),
        ("@weight:2\tA\tx\n", "line 1"),
        ("A\tx\n\n@weight:2\n", "@weight without a sequence"),
    ],
)
def test_mistakes_are_named_by_file_and_line(read, text, message):
    with pytest.raises(SequenceFileError, match=r"data\.crfsuite, .*" + message):
        read(text)


def test_arrays_are_written_by_number_of_column(tmp_path):
    dense = np.array([[0.0, 2.5, 1.0], [0.0, 0.0, 0.0]])
    expected = "A\t1:2.5\t2\nB\n\n"
    for table in (dense, sp.csr_array(dense), sp.csc_array(dense), dense.astype(np.float32)):
        write_crfsuite(tmp_path / "out", [table], [np.array(["A", "B"])])
        assert (tmp_path / "out").read_text() == expected
    write_crfsuite(tmp_path / "out", [np.array([[True, False]])], [[7]])
    assert (tmp_path / "out").read_text() == "7\t0\n\n"


@pytest.mark.parametrize(
    ("X", "y", "kind", "message"),
    [
        ([[["a"], ["b"]]], [["A"]], ValueError, "sequence 0: 2 positions but 1 labels"),
        ([[["a"]], [["b\t"]]], [["A"], ["B"]], ValueError, "sequence 1: the name 'b.t' cannot be written"),
        ([[[""]]], [["A"]], ValueError, "it is empty"),
        ([[["a"]]], [["@A"]], ValueError, "the label '@A' cannot be written"),
        ([[["a"]]], [[""]], ValueError, "it is empty"),
        ([["word"]], [["A"]], TypeError, "sequence 0: expected a feature dict"),
        ([[[3]]], [["A"]], TypeError, "feature name 3 is int"),
        ([[{"a": float("nan")}]], [["A"]], ValueError, "Weights must be finite"),
        ([np.zeros(3)], [["A"] * 3], ValueError, "shape"),
        ([[["a"]]], [["A"], ["B"]], ValueError, "1 sequences, labels of 2 and 1 weights"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, X, y, kind, message):
    with pytest.raises(kind, match=message):
        write_crfsuite(tmp_path / "out", X, y)
    assert list(tmp_path.iterdir()) == []


names = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\ufeff"), min_size=1, max_size=6)
labels = names.filter(lambda name: name[0] != "@")
numbers = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(labels, st.dictionaries(names, numbers, max_size=4)), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.floats(0, 1e9), min_size=4, max_size=4),
)
def test_feature_dicts_and_weights_come_back(tmp_path_factory, sequences, weights):
    path = tmp_path_factory.mktemp("round") / "data"
    X = [[dict(features) for _, features in sequence] for sequence in sequences]
    X[0][0]["weighted"] = 2.5
    y = [[label for label, _ in sequence] for sequence in sequences]
    weights = [2.0, *weights][: len(X)]
    write_crfsuite(path, X, y, weights)
    data = read_crfsuite(path)
    assert (data.X, data.y, data.weights.tolist()) == (X, y, weights)
