"""Files that look wrong: each is one clear line, an error where nothing else can be meant."""

import pytest
from command_files import run, sentences, write_columns_file

FIT = ("--prior-variance", 1, "--support", "all", "--l1", 0)


def lines(rows):
    return "".join("".join("\t".join(row) + "\n" for row in sentence) + "\n" for sentence in rows)


def warnings_of(result):
    return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_columns_file(tmp_path / "plain.conll")
    return tmp_path


@pytest.mark.parametrize("gap", ["", "\n"])
def test_a_header_is_refused(folder, gap):
    (folder / "head.conll").write_text(f"word\tlength\ttag\n{gap}" + lines(sentences()))
    said = run("train", "head.conll", *FIT).stderr  # "length" may be a word
    assert "warning: head.conll, line 1: word, length, tag looks like names of columns, and tag is a label" in said
    (folder / "head.conll").write_text(f"Token\tpos\tNER\n{gap}" + lines(sentences()))
    for command in ("train", "check"):
        said = run(command, "head.conll", code=2).stderr
        assert (
            "error: head.conll, line 1: Token, pos, NER are names of columns, not a position: remove the line" in said
        )


def test_a_first_label_that_breaks_the_scheme_of_all_others_is_doubted(folder):
    rows = [[("we", "O"), ("saw", "O"), ("Rome", "B-city")]] * 5
    (folder / "head.conll").write_text("mot\tétiquette\n\n" + lines(rows))
    said = warnings_of(run("train", "head.conll", *FIT))
    assert said == [
        "warning: head.conll, line 1: mot, étiquette looks like names of columns, and étiquette is a label: remove the "
        "line"
    ]


def test_a_file_without_empty_lines_is_doubted(folder):
    rows = [row for sentence in sentences(60) for row in sentence]
    (folder / "one.conll").write_text(lines([rows]))
    assert warnings_of(run("train", "one.conll", *FIT)) == [
        "warning: one.conll has no empty line between sequences, and is one sequence of 300 positions: put an empty "
        "line after each sentence"
    ]


def test_words_in_the_place_of_labels_are_doubted(folder):
    rows = [[(tag, f"{word}{i}") for word, _, tag in sentence] for i, sentence in enumerate(sentences(30))]
    (folder / "turned.conll").write_text(lines(rows))
    (said,) = warnings_of(run("train", "turned.conll", *FIT, "--max-iter", 1, code=1))[:1]
    n_labels = len({row[1] for sentence in rows for row in sentence})
    assert said == (
        f"warning: turned.conll has {n_labels} labels for 150 positions, most of them rare, as words are: "
        "--label-column 0 would have 3"
    )


def test_predict_doubts_a_file_without_empty_lines(tmp_path):
    run("train", write_columns_file(tmp_path / "train.conll", columns=(0, 2)), "-m", tmp_path / "model", "-q")
    (tmp_path / "new.conll").write_text("the\n" * 300)
    told = run("predict", tmp_path / "model", tmp_path / "new.conll").stderr
    assert "has no empty line between sequences, and is one sequence of 300 positions" in told


def test_predict_names_the_option_for_running_text(tmp_path):
    run("train", write_columns_file(tmp_path / "train.conll", columns=(0, 2)), "-m", tmp_path / "model", "-q")
    (tmp_path / "raw.txt").write_text("the cat sees\na dog\n")
    told = run("predict", tmp_path / "model", tmp_path / "raw.txt", code=2).stderr
    assert "For running text, a sentence on each line: --text" in told
