"""The code of the page about uncertainty runs; its assertions are on the page."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "uncertainty.md"


def test_the_page_about_uncertainty_runs():
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    names = {"__name__": "uncertainty"}
    for code in blocks:
        exec(compile(code, str(PAGE), "exec"), names)
