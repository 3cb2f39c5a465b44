"""The code in the README, in the plan and in other pages runs; the plan says what the tests enforce."""

import re
from pathlib import Path

import numpy as np
import pytest

from test_architecture import MAY_IMPORT, MODULES, room_of
from tests.engines.conforming_engines import ENGINES, engine_named

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
LINK = re.compile(r"\[[^\]]*\]\(([^)#:]+)\)")


def run_as_one_program(page, capsys, engine=None):
    """Run the python blocks of a page in order; return what they print and what the page says they print.

    With ``engine``, the line of the page that chooses one takes this one.
    """
    blocks = FENCE.findall(page.read_text(encoding="utf-8"))
    names = {"__name__": page.stem, "another_engine": engine}
    for kind, code in blocks:
        if kind == "python":
            chosen = code if engine is None else code.replace("engine = Threads()", "engine = another_engine")
            exec(compile(chosen, str(page), "exec"), names)
    return capsys.readouterr().out, "".join(text for kind, text in blocks if kind == "text")


def test_the_readme_does_what_it_says(capsys):
    printed, promised = run_as_one_program(ROOT / "README.md", capsys)
    assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", promised).split()
    ours, theirs = ([float(number) for number in NUMBER.findall(text)] for text in (printed, promised))
    # The last number is the gap: where below the tolerance a fit ends depends on rounding.
    np.testing.assert_allclose(ours[:-1], theirs[:-1], rtol=0.05, atol=0.1)
    assert max(ours[-1], theirs[-1]) <= 1e-3


@pytest.mark.parametrize(
    "page",
    [
        "density.md",
        "embeddings.md",
        "engines.md",
        "formats.md",
        "frames.md",
        "graphs.md",
        "many_labels.md",
        "multilabel.md",
        "partial_fit.md",
        "partial_labels.md",
        "performance.md",
        "production.md",
        "rare_events.md",
        "segments.md",
        "streams.md",
        "unlabelled.md",
    ],
)
def test_pages_show_parts_that_work(page, capsys):
    printed, promised = run_as_one_program(ROOT / "docs" / page, capsys)
    assert printed == promised


@pytest.mark.parametrize("name", ENGINES)
def test_parts_of_ones_own_work_on_every_engine(name, capsys):
    printed, promised = run_as_one_program(ROOT / "docs" / "architecture.md", capsys, engine_named(name))
    assert printed == promised


def test_the_plan_shows_the_imports_that_are_enforced():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Who may import whom")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    shown = {room.strip("`"): set(re.findall(r"`(\w+)`", imports)) for room, imports in rows}
    assert shown == {room: imports - {"the door"} for room, imports in MAY_IMPORT.items()}


def test_the_plan_names_every_room():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Rooms")[1].split("\n## ")[0]
    rooms = {room_of(path) for path in MODULES} - {""}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == rooms


def test_the_plan_names_files_and_classes_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "kernelfields"
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", page.split("## Rooms")[1].split("\n## ")[0], re.MULTILINE)
    named = [source / room / file for room, words in rows for file in re.findall(r"`([\w/]+\.py)`", words)]
    assert not [str(file) for file in named if not file.exists()]
    paths = set(re.findall(r"\b(?:[a-z]+/)+\w+\.py\b", page.split("## Nouns")[1]))
    assert not [path for path in paths if not any((root / path).exists() for root in (ROOT, source))]
    seams = re.findall(r"^\| (`.*?`) \| `([\w/]+\.py)` \|", page.split("## Seams")[1], re.MULTILINE)
    texts = {file: (source / file).read_text(encoding="utf-8") for _, file in seams}
    defined = {file: set(re.findall(r"^(?:class )?(\w+)", text, re.MULTILINE)) for file, text in texts.items()}
    assert len(seams) > 10
    assert not [
        (name, file) for names, file in seams for name in re.findall(r"`(\w+)`", names) if name not in defined[file]
    ]


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    assert not [link for link in links if not (page.parent / link).exists()]
