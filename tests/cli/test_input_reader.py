"""Files of the command: the options that read the training file read every other file the same way."""

import numpy as np
import pytest
from command_files import write_columns_file, write_csv_file

from kernelfields.cli.models import read_training_file
from kernelfields.cli.settings import RunSettings
from kernelfields.features import TextFeatures
from kernelfields.formats import describe_reading, read_sequences, rebuild_reading

TEMPLATE = "U00:%x[0,0]\nU01:%x[-1,1]\nB\n"


def same_inputs(one, other):
    for x, z in zip(one, other, strict=True):
        if isinstance(x, list):
            assert x == z
        else:
            np.testing.assert_array_equal(x, z)


def test_without_a_template_columns_have_the_features_of_text(tmp_path):
    path = write_columns_file(tmp_path / "train.conll")
    file = read_training_file(RunSettings(train=str(path)))
    template = file.reading["template"]
    assert {":suffix3=%suffix3[0,0]", ":tag1[-1]=%x[-1,1]", "B"} <= set(template.text.split())
    assert template.uses_label_bigrams
    rows = [[row[:2] for row in sequence.rows] for sequence in file.sequences]
    assert TextFeatures().fit_transform(rows) == file.X == read_sequences(path, template="text").X
    assert file.y[0] == [row[2] for row in file.sequences[0].rows]


@pytest.mark.parametrize(("alphabet", "widely"), [("ACDEFGH", True), ("ab", True), (["ab", "c"], False)])
def test_a_column_of_single_characters_is_seen_widely(tmp_path, alphabet, widely):
    (tmp_path / "train.tsv").write_text("".join(f"{symbol}\t{number % 2}\n" for number, symbol in enumerate(alphabet)))
    file = read_training_file(RunSettings(train=str(tmp_path / "train.tsv")))
    assert (file.reading["template"].unigrams[0].text == ":symbol[-7]=%x[-7,0]") == widely
    assert len(file.X[0][0]) == 15 or not widely


@pytest.mark.parametrize("kind", ["columns", "template", "csv"])
def test_options_survive_their_description_and_read_the_same(tmp_path, kind):
    settings = {}
    if kind in ("columns", "template"):
        path = write_columns_file(tmp_path / "train.conll")
        if kind == "template":
            (tmp_path / "t").write_text(TEMPLATE)
            settings["template"] = str(tmp_path / "t")
        with pytest.raises(ValueError, match="--standardize scales columns of numbers"):
            read_training_file(RunSettings(train=str(path), standardize=True, **settings))
    else:
        path, settings["sequence_column"] = write_csv_file(tmp_path / "train.csv"), "day"
    file = read_training_file(RunSettings(train=str(path), **settings))
    same_inputs(read_sequences(path, **rebuild_reading(describe_reading(file.reading))).X, file.X)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "train.conll",
            {"sequence_column": "day"},
            "--sequence-column has no meaning for files of format columns",
        ),
        ("train.conll", {"label_column": "pos"}, "--label-column counts columns from 0, -1 is the last: 'pos'"),
        ("train.conll", {"columns": ["word"]}, "--columns counts columns from 0"),
        ("train.conll", {"template": "{}/t", "columns": ["0"]}, "so --columns has no meaning beside it"),
        ("train.conll", {"template": "{}/edges"}, "line 2: 'B01:%x\\[0,0\\]' makes transitions depend on words"),
        ("train.conll", {"template": "{}/far"}, "far, line 1, column 5"),
        ("train.conll", {"format": "xml"}, "--format must be auto or one of columns, .* got 'xml'"),
        ("train.csv", {}, "CSV files need --sequence-column NAME"),
        ("train.csv", {"sequence_column": "week"}, "no column 'week'"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path, name, settings, message):
    write_columns_file(tmp_path / "train.conll")
    write_csv_file(tmp_path / "train.csv")
    (tmp_path / "t").write_text(TEMPLATE)
    (tmp_path / "edges").write_text("U00:%x[0,0]\nB01:%x[0,0]\n")
    (tmp_path / "far").write_text("U00:%x[0,7]\n")
    given = {key: each.format(tmp_path) if key == "template" else each for key, each in settings.items()}
    with pytest.raises(ValueError, match=message):
        read_training_file(RunSettings(train=str(tmp_path / name), **given))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"template": 5}, "template=5, which has no meaning"),
        ({"path": "/etc/hostname"}, "path='/etc/hostname', which has no meaning"),
        ({"label": [1]}, r"label=\[1\], which has no meaning"),
        ({"format": "columns", "label": "tag"}, "labels in column 'tag', and columns without names"),
        ({"template": "/etc/hostname"}, "the model's template, line 1, column 1: '/etc/hostname' begins with '/'"),
        ({"unknown_label": 5}, "unknown_label=5, which has no meaning"),
    ],
)
def test_a_description_that_holds_more_than_how_files_are_read_is_refused(tmp_path, value, message):
    path = write_csv_file(tmp_path / "train.csv")
    described = describe_reading(read_training_file(RunSettings(train=str(path), sequence_column="day")).reading)
    rebuild_reading(described)
    with pytest.raises(ValueError, match=message):
        rebuild_reading({**described, **value})
