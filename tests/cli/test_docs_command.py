"""The lines of docs/command.md run, in order, in one folder."""

import re
import shlex
from pathlib import Path

from command_files import run, sentences, write_columns_file, write_csv_file

PAGE = Path(__file__).parents[2] / "docs" / "command.md"


def commands():
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.replace("\\\n", "").splitlines()]


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_columns_file(tmp_path / "train.conll")
    write_columns_file(tmp_path / "test.conll", sentences(8, seed=1))
    write_columns_file(tmp_path / "new.conll", sentences(8, seed=2))
    half = [[(word, n, "?" if place % 2 else tag) for place, (word, n, tag) in enumerate(row)] for row in sentences()]
    write_columns_file(tmp_path / "half.conll", half)
    write_columns_file(tmp_path / "partly.conll", [[*row[:-1], (*row[-1][:2], "NOUN|VERB")] for row in half])
    (tmp_path / "words.template").write_text("U00:%x[-1,0]/%x[0,0]\nU01:%x[0,0]\nB\n")
    write_csv_file(tmp_path / "room.csv")
    for program, *arguments in commands():
        assert program == "kernelfields"
        run(*arguments)
    for name in ("tags", "sparse", "room", "rbf", "better", "partly", "phases"):
        assert (tmp_path / f"{name}.safetensors").exists()
        assert (tmp_path / f"{name}.toml").exists()
    assert (tmp_path / "labelled.conll").read_text().count("\n") == (tmp_path / "new.conll").read_text().count("\n")


def test_every_command_is_shown():
    text = PAGE.read_text(encoding="utf-8")
    for name in ("train", "predict", "evaluate", "inspect", "certify", "convert", "export", "reproduce"):
        assert f"kernelfields {name}" in text
