"""The code in the README, in the plan and in other pages runs; the plan says what the tests enforce."""

import re
from pathlib import Path

import pytest

from benchmarks.house import code_lines, entered
from kernelfields import ChainCRF
from test_architecture import MAY_IMPORT, MODULES, room_of
from tests.engines.conforming_engines import ENGINES, engine_named

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DECIMAL = re.compile(r"-?\d+(?:\.\d*(?:e[+-]?\d+)?|e[+-]?\d+)")
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


def last_place(number):
    """Return the value of the last printed place of a number; NumPy's ``0.`` has as many as its neighbours, say two."""
    mantissa, _, exponent = number.partition("e")
    fraction = mantissa.partition(".")[2]
    return 10.0 ** (int(exponent or 0) - (len(fraction) or (0 if exponent else 2)))


def assert_prints(printed, promised):
    """Words, spacing and whole numbers are the same; decimals agree to 5 % or two units of their last place."""
    assert DECIMAL.sub("#", printed).split() == DECIMAL.sub("#", promised).split()
    for ours, theirs in zip(DECIMAL.findall(printed), DECIMAL.findall(promised), strict=True):
        assert float(ours) == pytest.approx(float(theirs), rel=0.05, abs=2.01 * last_place(theirs)), promised


def test_decimals_may_differ_in_their_last_place():
    assert_prints("3 labels, 0.93 right, gap 1.2e-05", "3 labels, 0.94 right, gap 1.3e-05")
    for other in ("4 labels, 0.94 right", "3 labels, 0.84 right", "3 names, 0.94 right"):
        with pytest.raises(AssertionError):
            assert_prints(other, "3 labels, 0.94 right")


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_pages_do_what_they_say(page, capsys):
    assert_prints(*run_as_one_program(ROOT / page, capsys))


@pytest.mark.parametrize(
    "page",
    [
        "density.md",
        "embeddings.md",
        "engines.md",
        "entities.md",
        "formats.md",
        "frames.md",
        "graphs.md",
        "many_labels.md",
        "multilabel.md",
        "partial_fit.md",
        "partial_labels.md",
        "performance.md",
        "prediction_sets.md",
        "production.md",
        "rare_events.md",
        "rings.md",
        "segments.md",
        "sequence_classes.md",
        "sharp_bits.md",
        "streams.md",
        "uncertainty.md",
        "unlabelled.md",
    ],
)
def test_pages_show_parts_that_work(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_prints(*run_as_one_program(ROOT / "docs" / page, capsys))


@pytest.mark.parametrize("name", ENGINES)
def test_parts_of_ones_own_work_on_every_engine(name, capsys):
    assert_prints(*run_as_one_program(ROOT / "docs" / "architecture.md", capsys, engine_named(name)))


def test_the_spine_is_short_and_a_fit_and_its_answers_enter_it():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    spine = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \|", page.split("## The spine")[1].split("\n## ")[0], re.MULTILINE)
    source = ROOT / "src" / "kernelfields"
    assert len(set(spine)) == len(spine) == 12
    assert sum(code_lines((source / file).read_text(encoding="utf-8")) for file in spine) <= 2500
    crf = ChainCRF("rbf", window=1, prior_variance=1.0, scale=False, solver="newton", random_state=0)
    X, y = [[[0.0], [1.0], [1.2]], [[1.1], [0.1]]], [["a", "b", "b"], ["b", "a"]]
    files = entered(source, lambda: crf.fit(X, y).predict_marginals(X))
    assert not set(spine) - set(files)


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
