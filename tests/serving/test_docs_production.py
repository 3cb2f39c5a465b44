"""All code of docs/production.md runs, that for onnxruntime too."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_page_runs_as_it_stands(capsys):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    blocks, names = FENCE.findall(PAGE.read_text(encoding="utf-8")), {}
    for kind, code in blocks:
        if kind in ("python", "py"):
            exec(compile(code, str(PAGE), "exec"), names)
    assert capsys.readouterr().out == "".join(text for kind, text in blocks if kind == "text")
    assert names["labels"].shape == (2,)
