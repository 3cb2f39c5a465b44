"""The code on docs/multilabel.md runs and prints what the page says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "multilabel.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_does_what_it_says(capsys):
    names = {}
    blocks = FENCE.findall(PAGE.read_text(encoding="utf-8"))
    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, str(PAGE), "exec"), names)
    assert capsys.readouterr().out == "".join(text for kind, text in blocks if kind == "text")
