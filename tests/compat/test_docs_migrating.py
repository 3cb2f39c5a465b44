"""The page for those who come from sklearn-crfsuite runs as one program, and prints what it says it prints."""

import inspect
import re
from pathlib import Path

from kernelfields.compat import CRF
from tests.test_docs_pages import assert_prints

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_does_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(page))
    assert [block[1] for block in blocks] == ["python", "text"] * (len(blocks) // 2)
    names = {"__name__": "migrating"}
    for code, printed in zip(blocks[::2], blocks[1::2], strict=True):
        line = page.count("\n", 0, code.start()) + 1
        # Blank lines in front, so that errors point at the line of the page.
        exec(compile("\n" * line + code[2], str(PAGE), "exec"), names)
        assert_prints(capsys.readouterr().out, printed[2])


def test_every_parameter_is_on_the_page():
    page = PAGE.read_text(encoding="utf-8")
    assert not [name for name in inspect.signature(CRF).parameters if f"`{name}`" not in page]
