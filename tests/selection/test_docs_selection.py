"""The page about choosing parameters runs as one program, and prints what it says it prints."""

import inspect
import re
from pathlib import Path

from kernelfields import ChainCRFCV
from tests.test_docs_pages import assert_prints

PAGE = Path(__file__).parents[2] / "docs" / "selection.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_does_what_it_says(capsys):
    page = PAGE.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(page))
    assert [block[1] for block in blocks] == ["python", "text"] * (len(blocks) // 2)
    names = {"__name__": "selection"}
    for code, printed in zip(blocks[::2], blocks[1::2], strict=True):
        line = page.count("\n", 0, code.start()) + 1
        # Blank lines in front, so that errors point at the line of the page.
        exec(compile("\n" * line + code[2], str(PAGE), "exec"), names)
        assert_prints(capsys.readouterr().out, printed[2])


def test_the_page_names_what_is_searched():
    page = PAGE.read_text(encoding="utf-8")
    settings = {"estimator", "refit", "n_jobs", "random_state"}
    assert not [name for name in {*inspect.signature(ChainCRFCV).parameters} - settings if f"`{name}" not in page]
