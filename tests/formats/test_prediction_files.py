import re

import numpy as np
import pytest

from kernelfields.formats import read_sequences, write_predictions

LABELS = [np.array(["B", "I"]), np.array(["O"])]
CLASSES = np.array(["B", "I", "O"])
MARGINALS = [np.array([[0.5, 0.25, 0.25], [0.0, 0.9999999, 0.0000001]]), np.array([[1 / 3, 1 / 3, 1 / 3]])]
BEST = [table.max(axis=1) for table in MARGINALS]


@pytest.fixture
def read(tmp_path):
    def from_text(name, text, **options):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return read_sequences(tmp_path / name, **options)

    return from_text


@pytest.fixture
def written(tmp_path):
    def predictions(*arguments):
        write_predictions(tmp_path / "out", *arguments)
        return (tmp_path / "out").read_text(encoding="utf-8")

    return predictions


def test_column_files_get_more_columns_and_keep_their_comments(read, written):
    file = read("a.tsv", "# id = 1\na\tB\nb\tB\n\n# id = 2\nc\tO\n\n# end\n")
    assert written(file, LABELS) == "# id = 1\na\tB\tB\nb\tB\tI\n\n# id = 2\nc\tO\tO\n\n# end\n"
    assert written(file, LABELS, BEST).splitlines()[2] == "b\tB\tI\t1.000000"
    first = written(file, LABELS, MARGINALS, CLASSES).splitlines()[1]
    assert first == "a\tB\tB\tB/0.500000\tI/0.250000\tO/0.250000"
    spaced = read("a.txt", "a B\nb B\n\nc O\n")
    assert written(spaced, LABELS) == "a B B\nb B I\n\nc O O\n\n"


def test_crfsuite_gets_the_label_read_and_the_label_predicted(read, written):
    file = read("a.crfsuite", "B\tx\nO\tx:2\n\nO\n")
    assert written(file, LABELS) == "B\tB\nO\tI\n\nO\tO\n\n"
    assert written(file, LABELS, BEST).splitlines()[0] == "B\tB\t0.500000"


def test_tables_get_columns_with_names(read, written):
    file = read("a.csv", "id,x,label\n1,5,B\n1,7,B\n2,6,O\n", sequence="id")
    assert written(file, LABELS) == "id,x,label,predicted\n1,5,B,B\n1,7,B,I\n2,6,O,O\n"
    assert written(file, LABELS, BEST).splitlines()[:2] == [
        "id,x,label,predicted,probability",
        "1,5,B,B,0.500000",
    ]
    header, *_, second = written(file, LABELS, MARGINALS, CLASSES).splitlines()
    assert header == "id,x,label,predicted,p(B),p(I),p(O)"
    assert second == "2,6,O,O,0.333333,0.333333,0.333333"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((LABELS[:1],), "labels of 1 sequences for a file of 2"),
        ((LABELS[::-1],), "labels of sequence 0 have shape (1,), expected (2,)"),
        ((LABELS, BEST[:1]), "marginals of 1 sequences, but labels of 2"),
        ((LABELS, MARGINALS), "marginals of sequence 0 have shape (2, 3), expected (2,)"),
        ((LABELS, MARGINALS, CLASSES[:2]), "marginals of sequence 0 have shape (2, 3), expected (2, 2)"),
        ((LABELS, None, CLASSES), "classes without marginals"),
        (([["B", "a b\tc"], ["O"]],), "cannot be written"),
    ],
)
def test_predictions_of_something_else_are_refused(read, tmp_path, arguments, message):
    file = read("a.tsv", "a\tB\nb\tB\n\nc\tO\n")
    with pytest.raises(ValueError, match=re.escape(message)):
        write_predictions(tmp_path / "out", file, *arguments)
    assert not (tmp_path / "out").exists()
