"""What a user can get wrong: one line that says where, exit code 2, and nothing half-written."""

import errno
import gzip
import os
import subprocess
import sys
from contextlib import chdir

import pytest
from command_files import run, sentences, write_columns_file, write_csv_file

from kernelfields.formats import write_model

TEMPLATE = "U00:%x[-1,0]\nU01:%x[0,0]\nB\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Good files, models of three formats, and files with one mistake each."""
    folder = tmp_path_factory.mktemp("bad")
    write_columns_file(folder / "train.conll")
    write_columns_file(folder / "train2.conll", sentences(seed=1))
    write_columns_file(folder / "bare.conll", columns=(0, 1))
    write_csv_file(folder / "train.csv")
    (folder / "good.template").write_text(TEMPLATE)
    with chdir(folder):
        run("train", "train.conll", "-m", "columns.model", "-q")
        run("train", "train.csv", "--sequence-column", "day", "--standardize", "--rank", "5", "-m", "csv.model", "-q")
        run("convert", "train.conll", "train.crfsuite", "-q")
        run("train", "train.crfsuite", "-m", "crfsuite.model", "-q")
    text = (folder / "train.conll").read_bytes()
    lines = text.splitlines(keepends=True)

    def changed(name, index, line):
        (folder / name).write_bytes(b"".join([*lines[:index], line, *lines[index + 1 :]]))

    changed("short.conll", 7, b"cat\n")
    changed("long.conll", 7, b"cat\t3\tNOUN\tmore\n")
    changed("latin.conll", 7, b"caf\xe9\t4\tNOUN\n")
    changed("new.conll", 7, b"cat\t3\tNEW\n")
    (folder / "nolabels.conll").write_text("the\t3\t\ncat\t3\t?\n")
    (folder / "wide.conll").write_text("a\tb\tc\tDET\n")
    (folder / "utf16.conll").write_bytes(text.decode().encode("utf-16"))
    (folder / "empty.conll").write_bytes(b"")
    (folder / "blank.conll").write_bytes(b"\n\n \n")
    packed = gzip.compress(text)
    (folder / "cut.conll.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "flipped.conll.gz").write_bytes(packed[:60] + bytes([packed[60] ^ 0xFF]) + packed[61:])
    table = (folder / "train.csv").read_text().splitlines(keepends=True)
    (folder / "short.csv").write_text("".join([*table[:3], "d0,1.5\n", *table[3:]]))
    (folder / "word.csv").write_text("".join([*table[:3], "d0,tall,2.0,a\n", *table[3:]]))
    (folder / "new.csv").write_text("".join([*table[:3], "d0,1.0,2.0,NEW\n", *table[3:]]))
    (folder / "weight.crfsuite").write_text("DET\tthe\nNOUN\tcat:heavy\n")
    (folder / "new.crfsuite").write_text("DET\tthe\n\nDET\tthe\nNEW\tcat\n")
    (folder / "far.template").write_text("U00:%x[0,0]\nU01:%x[0,7]\n")
    (folder / "label.template").write_text("U00:%x[0,2]\n")
    model = (folder / "columns.model").read_bytes()
    (folder / "cut.model").write_bytes(model[: len(model) // 2])
    (folder / "flipped.model").write_bytes(model[:-9] + bytes([model[-9] ^ 0xFF]) + model[-8:])
    (folder / "empty.model").write_bytes(b"")
    write_model(folder / "tree.model", "tree", {}, {})
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy to stand in, with nothing in it that a command would have written."""
    for name in os.listdir(made):
        (tmp_path / name).symlink_to(made / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(folder, *arguments):
    """Run a command that must fail; return its one line. What it was to write must not be there."""
    before = sorted(os.listdir(folder))
    result = run(*arguments, code=2)
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("train")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    assert sorted(os.listdir(folder)) == before
    return lines[0]


SHORT = "short.conll, line 8, column 1 (from 0): there is none; found 1 column, expected 3 as in line 1"
LONG = "long.conll, line 8, column 3 (from 0): 'more' is one too many; found 4 columns, expected 3 as in line 1"
LATIN = "latin.conll, line 8, character 4: byte 0xe9 is not UTF-8"
FILES = [
    ("short.conll", SHORT),
    ("long.conll", LONG),
    ("latin.conll", LATIN),
    ("utf16.conll", "utf16.conll, line 1: this is UTF-16, expected UTF-8"),
    ("empty.conll", "empty.conll holds no sequences"),
    ("blank.conll", "blank.conll holds no sequences"),
    ("cut.conll.gz", "cut.conll.gz: the gzip data are damaged or cut short"),
    ("flipped.conll.gz", "flipped.conll.gz: the gzip data are damaged or cut short"),
    ("absent.conll", "absent.conll: No such file or directory"),
]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "predict", "evaluate", "certify", "convert", "explain", "dev"])
@pytest.mark.parametrize(("name", "message"), FILES, ids=[name for name, _ in FILES])
def test_a_file_that_cannot_be_read_is_named_with_line_and_column(folder, command, name, message):
    arguments = {
        "train": ["train", name],
        "dev": ["train", "train.conll", "--dev", name],
        "predict": ["predict", "columns.model", name, "-o", "out.conll"],
        "evaluate": ["evaluate", "columns.model", name, "--report", "out.html"],
        "certify": ["certify", "columns.model", name],
        "convert": ["convert", name, "out.crfsuite"],
        "explain": ["inspect", "columns.model", "--explain", name],
    }[command]
    assert message in refused(folder, *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "nolabels.conll"], "nolabels.conll holds no labels: every one is empty or ?"),
        (["evaluate", "columns.model", "bare.conll"], "bare.conll has 2 columns, expected 3 as in the training"),
        (["evaluate", "columns.model", "bare.conll"], "the labels, column 2 (from 0), are missing"),
        (["predict", "columns.model", "wide.conll"], "wide.conll has 4 columns, expected 3"),
        (["predict", "csv.model", "short.csv"], "short.csv, line 4: column 'weight' is missing; found 2 columns"),
        (
            ["predict", "csv.model", "word.csv"],
            "word.csv, line 4: column 'height' holds 'tall', expected a finite",
        ),
        (["train", "weight.crfsuite"], "weight.crfsuite, line 2, column 1 (from 0): 'cat:heavy': 'heavy' is no"),
        (["train", "train.csv"], "separates sequences: train.csv has the columns 'day', "),
        (
            ["train", "train.csv", "--sequence-column", "day", "--label-column", "y"],
            "no column 'y'; there are 'day'",
        ),
        (["train", "train.conll", "-t", "far.template"], "far.template, line 2, column 5: %x[0,7] reads column 7"),
        (
            ["train", "train.conll", "-t", "label.template"],
            "label.template, line 1, column 5: %x[0,2] reads column",
        ),
        (["convert", "train.conll", "out.crfsuite", "-t", "far.template"], "but the data have columns 0 to 2"),
        (["train", "train.conll", "-t", "absent"], "absent: No such file or directory"),
        (["train", "train.xml"], "does not show the format: give --format, one of 'columns'"),
    ],
)
def test_what_does_not_fit_is_named(folder, arguments, message):
    assert message in refused(folder, *arguments)


@pytest.mark.parametrize(
    ("model", "name", "place"),
    [
        ("columns.model", "new.conll", "line 8, column 2 (from 0)"),
        ("csv.model", "new.csv", "line 4, column 'label'"),
        ("crfsuite.model", "new.crfsuite", "line 4, column 0"),
    ],
)
def test_a_label_never_seen_in_training_is_named_with_its_place(folder, model, name, place):
    message = f"{name}, {place}: the label NEW was never seen in training, where there are "
    assert message in refused(folder, "certify", model, name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cut.model", "cut.model is not a kernelfields model file: damaged"),
        ("flipped.model", "flipped.model is damaged: its checksum does not match"),
        ("empty.model", "empty.model is empty: saving it was probably cut short"),
        ("tree.model", "tree.model holds a model of kind 'tree', expected 'Pipeline' or 'ChainCRF' or 'SegmentCRF'"),
        ("train.conll", "train.conll is not a kernelfields model file"),
    ],
)
def test_a_model_that_cannot_be_used_is_named(folder, name, message):
    for arguments in (["predict", name, "train.conll"], ["evaluate", name, "train.conll"], ["inspect", name]):
        assert message in refused(folder, *arguments)


MANY = "99999999999999999999"
ROOM = ["train", "train.csv", "--sequence-column", "day"]
MEANINGLESS = [
    (
        [*ROOM, "--kernel", "poly", "--degree", MANY],
        "--degree must be at most",
    ),
    (
        [*ROOM, "--prior-variance", "1e-320"],
        "prior_variance must be a positive number",
    ),
    ([*ROOM, "--n-jobs", "100000"], "--n-jobs must be at most 4096"),
]
BOXED = [
    ["predict", "columns.model", "train.conll", "--nbest", MANY],
    ["predict", "columns.model", "train.conll", "--n-jobs", MANY],
    ["evaluate", "columns.model", "train.conll", "--resamples", MANY],
    ["evaluate", "columns.model", "train.conll", "--seed", "-1"],
    ["inspect", "columns.model", "--top", MANY],
]


@pytest.mark.parametrize(("arguments", "message"), MEANINGLESS, ids=[each[-2] for each, _ in MEANINGLESS])
def test_what_has_no_meaning_is_refused(folder, arguments, message):
    assert message in refused(folder, *arguments, "-q")


@pytest.mark.parametrize("arguments", BOXED, ids=[each[-2] for each in BOXED])
def test_numbers_out_of_range_are_refused(folder, arguments):
    option = arguments[-2]
    result = run(*arguments, code=2, env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.stdout == ""
    assert f"Invalid value for '{option}'" in result.stderr.replace(" / '-j'", "")


OUTPUTS = [
    ["train", "train.conll", "-m", "{}"],
    ["train", "train.conll", "--report", "{}"],
    ["predict", "columns.model", "train.conll", "-o", "{}"],
    ["predict", "columns.model", "train.conll", "--json", "-o", "{}"],
    ["evaluate", "columns.model", "train2.conll", "--report", "{}"],
    ["convert", "train.conll", "{}.crfsuite"],
]
NAMES = [" ".join(each) for each in OUTPUTS]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="/proc is a folder in which nobody may write")
@pytest.mark.parametrize("arguments", OUTPUTS, ids=NAMES)
def test_a_folder_that_cannot_be_written_to(folder, arguments):
    error = refused(folder, *[each.format("/proc/out") for each in arguments])
    assert error.startswith("error: /proc/out")
    assert "cannot write the file" in error


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OUTPUTS, ids=NAMES)
def test_a_file_in_the_place_of_the_folder(folder, arguments):
    error = refused(folder, *[each.format("train.conll/out") for each in arguments])
    assert error.startswith("error: cannot write train.conll/out")
    assert "there is no folder" in error


@pytest.mark.slow
@pytest.mark.parametrize("arguments", OUTPUTS, ids=NAMES)
def test_a_full_disk_leaves_nothing_half_written(folder, monkeypatch, arguments):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    error = refused(folder, *[each.format("out") for each in arguments], "-q")
    assert "cannot write the file: No space left on device" in error


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is a disk that is always full")
def test_a_full_standard_output_is_named(folder):
    command = [sys.executable, "-m", "kernelfields.cli", "convert", "train.conll", "-", "--to", "crfsuite", "-q"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "error: standard output: cannot write: No space left on device\n"
    assert "device or a pipe" in refused(folder, "train", "train.conll", "-m", "/dev/full", "-q")
    error = refused(folder, "predict", "columns.model", "train.conll", "-o", "/dev/full", "-q")
    assert "/dev/full: cannot write" in error


def test_memory_that_is_used_up_is_said_in_words(folder, monkeypatch):
    def no_more(*_, **__):
        raise MemoryError

    monkeypatch.setattr("kernelfields.cli.models.TrainedModel.read", no_more)
    error = refused(folder, "evaluate", "columns.model", "train.conll", "-q")
    assert error == "error: there is not enough memory for this"


def test_a_report_that_cannot_be_written_does_not_cost_the_model(folder, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "cannot write the file: No space left on device", "out.html")

    monkeypatch.setattr("kernelfields.cli.training_run.write_report", full)
    error = run("train", "train.conll", "--report", "out.html", "-m", "out.model", "-q", code=2).stderr
    assert error == (
        "error: out.html: cannot write the file: No space left on device; the model was written to out.model\n"
    )
    run("predict", "out.model", "train.conll", "-q")
