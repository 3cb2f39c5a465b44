"""The quickstart runs as one program, and prints what it says it prints."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "quickstart.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks():
    """Each python block with its line number and the text block right after it, if there is one."""
    page = PAGE.read_text(encoding="utf-8")
    found = list(FENCE.finditer(page))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block[1] == "python":
            adjacent = following is not None and not page[block.end() : following.start()].strip()
            printed = following[2] if adjacent and following[1] == "text" else ""
            yield page.count("\n", 0, block.start()) + 1, block[2], printed


def test_every_block_is_code_or_what_it_prints():
    page = PAGE.read_text(encoding="utf-8")
    kinds = [block[1] for block in FENCE.finditer(page)]
    assert set(kinds) == {"python", "text"}
    assert page.count("```") == 2 * len(kinds)
    assert kinds.count("text") == sum(bool(printed) for _, _, printed in blocks())


def test_the_quickstart_does_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "quickstart"}
    for line, code, printed in blocks():
        # Blank lines in front, so that errors point at the line of the page.
        exec(compile("\n" * line + code, str(PAGE), "exec"), names)
        assert capsys.readouterr().out == printed, f"the block at line {line} of {PAGE.name} prints something else"
