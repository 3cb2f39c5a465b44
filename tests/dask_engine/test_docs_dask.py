"""The code in the page about clusters runs, and prints what the page says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "dask.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_about_clusters_does_what_it_says(capsys):
    pytest.importorskip("distributed")
    blocks = FENCE.findall(PAGE.read_text(encoding="utf-8"))
    names = {"__name__": "dask_page"}
    for kind, code in blocks:
        if kind == "python":
            exec(compile(code, str(PAGE), "exec"), names)
    assert capsys.readouterr().out == "".join(text for kind, text in blocks if kind == "text")
