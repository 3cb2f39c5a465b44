"""The page about text runs: its commands and its program, on the files that it writes."""

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from kernelfields.cli.app import app
from kernelfields.features.patterns import FUNCTIONS
from tests.test_docs_pages import assert_prints

PAGE = Path(__file__).parents[2] / "docs" / "text.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = FENCE.findall(PAGE.read_text(encoding="utf-8"))
    names = {"__name__": PAGE.stem}
    for kind, text in blocks:
        if kind == "sh":
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "kernelfields"
                result = CliRunner().invoke(app, arguments, catch_exceptions=False)
                assert result.exit_code == 0, result.output
        elif kind == "python":
            exec(compile(text, str(PAGE), "exec"), names)
    assert_prints(capsys.readouterr().out, "".join(text for kind, text in blocks if kind == "text"))
    labelled = (tmp_path / "labelled.tsv").read_text().splitlines()
    assert any(line.endswith("\tB-PER\tB-PER") for line in labelled)


def test_the_page_says_what_every_function_does():
    rows = re.findall(r"^\| (`%.*?) \| .* \| ?(.*?) ?\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    said = {}
    for names, value in rows:
        first, last = (names.replace("`", "").replace("%", "").split(" to ") * 2)[:2]
        named, found = re.fullmatch(r"(?:`%(\w+)`: )?(?:`(.+)`)?", value.strip()).groups()
        said |= dict.fromkeys([first, last])
        assert FUNCTIONS[named or first]("Heathrow-2") == found
    assert set(said) == {name for name in FUNCTIONS if not name.startswith(("prefix", "suffix")) or name[-1] in "19"}
