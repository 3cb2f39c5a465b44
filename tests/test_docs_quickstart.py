"""The quickstart and the page on sequences run as programs, and print what they say they print."""

import re
from pathlib import Path

import pytest

from test_docs_pages import assert_prints

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [DOCS / "quickstart.md", DOCS / "chains.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """Each python block with its line number and the text block right after it, if there is one."""
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block[1] == "python":
            adjacent = following is not None and not text[block.end() : following.start()].strip()
            printed = following[2] if adjacent and following[1] == "text" else ""
            yield text.count("\n", 0, block.start()) + 1, block[2], printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_code_or_what_it_prints(page):
    text = page.read_text(encoding="utf-8")
    kinds = [block[1] for block in FENCE.finditer(text)]
    assert set(kinds) == {"python", "text"}
    assert text.count("```") == 2 * len(kinds)
    assert kinds.count("text") == sum(bool(printed) for _, _, printed in blocks(page))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_pages_do_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for line, code, printed in blocks(page):
        # Blank lines in front, so that errors point at the line of the page.
        exec(compile("\n" * line + code, str(page), "exec"), names)
        assert_prints(capsys.readouterr().out, printed)
