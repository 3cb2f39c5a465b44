"""``kernelfields predict --stream``: the labels of whole files, written line by line as they come."""

import json
import subprocess
import sys

import pytest
from command_files import run, sentences, write_columns_file, write_npz_file


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("lines")
    write_columns_file(place / "train.conll")
    write_columns_file(place / "new.conll", sentences(6, seed=1), columns=(0, 1))
    run("train", place / "train.conll", "-m", place / "one.model", "-q", "--prior-variance", "1")
    return place


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--confidence",), ("--marginals",), ("--decode", "viterbi")])
def test_a_lag_beyond_the_longest_sequence_gives_the_same_file(folder, options):
    text = "# before = all\n" + (folder / "new.conll").read_text().replace("\n\n", "\n\n# between\n", 1)
    whole = run("predict", folder / "one.model", "-q", *options, input=text).stdout
    assert run("predict", folder / "one.model", "-q", "--stream", "--lag", "50", *options, input=text).stdout == whole


def test_documents_hold_one_position_each(folder):
    text = (folder / "new.conll").read_text()
    whole = run("predict", folder / "one.model", "-q", "--json", "--marginals", input=text).stdout
    expected = [json.loads(line) for line in whole.splitlines()]
    lines = run("predict", folder / "one.model", "-q", "--json", "--marginals", "--stream", "--lag", "50", input=text)
    for document in map(json.loads, lines.stdout.splitlines()):
        sequence = expected[document["sequence"]]
        assert document["label"] == sequence["labels"][document["position"]]
        assert document["marginals"] == pytest.approx(sequence["marginals"][document["position"]], abs=1e-12)


@pytest.mark.slow
def test_lines_are_written_before_the_sequence_ends(folder):
    arguments = [sys.executable, "-m", "kernelfields.cli", "predict", "one.model", "--stream", "--lag", "2", "-q"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(arguments, cwd=folder, **pipes) as command:
        for word in ("the", "cat", "sees"):
            command.stdin.write(f"{word}\t3\n")
        command.stdin.flush()
        first = command.stdout.readline()  # would wait for ever if only whole sequences were written
        rest, _ = command.communicate("a\t1\n", timeout=120)
    assert command.returncode == 0
    assert first.startswith("the\t3\t")
    assert [line.split("\t")[0] for line in rest.splitlines()] == ["cat", "sees", "a"]


def test_what_cannot_be_streamed_is_one_line(folder, tmp_path):
    def refused(*arguments, **settings):
        return run("predict", *arguments, code=2, **settings).stderr

    assert "leave out --nbest" in refused(folder / "one.model", "--stream", "--nbest", "2")
    assert "--lag is for --stream" in refused(folder / "one.model", "--lag", "2")
    assert "look 2 lines ahead" in refused(folder / "one.model", "--stream", "--lag", "1")
    assert "holds no sequences" in refused(folder / "one.model", "--stream", input="\n\n")
    assert "found 1 column" in refused(folder / "one.model", "--stream", input="the\t3\ncat\n")
    assert "standard input has 1 column, and the training file had" in (
        refused(folder / "one.model", "--stream", input="the\n")
    )
    write_npz_file(tmp_path / "train.npz")
    run("train", tmp_path / "train.npz", "-m", tmp_path / "two.model", "-q", "--prior-variance", "1")
    assert "--stream reads column files" in refused(tmp_path / "two.model", "--stream")
