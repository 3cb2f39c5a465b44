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
#: Tutorials and the pages of the guide, by the lists of both.
LISTS = "".join((DOCS / f"{name}.md").read_text("utf-8") for name in ("guide", "tutorials"))
GUIDED = re.findall(r"^(\w+)$", "".join(re.findall(r"^```\{toctree\}\n(.*?)^```$", LISTS, re.M | re.S)), re.MULTILINE)


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


@pytest.mark.parametrize("page", GUIDED)
def test_tutorials_and_guides_have_a_picture(page):
    pictures = re.findall(r"^!\[[^\]]+\]\((\S+)\)$", (DOCS / f"{page}.md").read_text("utf-8"), re.MULTILINE)
    assert pictures
    assert all((DOCS / name).exists() for name in pictures)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_pages_speak_of_no_tests_and_no_commits(page):
    """What holds the statements of a page is no part of it; studies of older versions have one list."""
    text = page.read_text("utf-8")
    assert not re.search(r"\b[Tt]he tests run\b", text)
    assert page.stem == "finished_studies" or not re.search(r"\bcommit [0-9a-f]{7,}\b", text)
