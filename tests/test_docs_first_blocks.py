"""The first block of every page runs as typed, in a fresh process in an empty folder; tutorials soon show a result."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIRST = {page.stem: found[1] for page in sorted(DOCS.glob("*.md")) if (found := BLOCK.search(page.read_text("utf-8")))}
#: What first blocks need besides the package and its dependencies.
NEEDED = {"dask": "dask", "layers": "torch", "page": "starlette", "migrating": "pandas", "frames": "pandas"}
#: Pages that begin with data of the installation, and show a result after so many lines at most.
SOON = (
    "text",
    "documents",
    "sensors",
    "proteins",
    "graphs",
    "multilabel",
    "entities",
    "segments",
    "annotators",
    "ties",
    "frames",
    "partial_fit",
    "performance",
    *(
        "unlabelled",
        "rare_events",
        "sequence_classes",
        "uncertainty",
        "density",
        "embeddings",
        "many_labels",
        "sharp_bits",
    ),
)
_MOST_LINES = 8


@pytest.mark.slow
@pytest.mark.parametrize("page", FIRST)
def test_first_blocks_run_as_typed(page, tmp_path):
    for package in re.findall(r"^(?:import|from) (pandas|networkx|torch|dask)\b", FIRST[page], re.MULTILINE):
        pytest.importorskip(package)
    if page in NEEDED:
        pytest.importorskip(NEEDED[page])
    run = subprocess.run([sys.executable, "-c", FIRST[page]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", SOON)
def test_tutorials_begin_with_a_data_set_and_soon_show_a_result(page):
    assert "from kernelfields.datasets import" in FIRST[page]
    before = re.split(r"^(?:print|for)\b", FIRST[page], maxsplit=1, flags=re.MULTILINE)[0]
    assert len([line for line in before.splitlines() if line.strip()]) <= _MOST_LINES
