"""The page about layers does what it says."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from tests.test_docs_pages import assert_prints, run_as_one_program


def test_the_page_on_layers_does_what_it_says(capsys):
    assert_prints(*run_as_one_program(Path(__file__).parents[2] / "docs" / "layers.md", capsys))
