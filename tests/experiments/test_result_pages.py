"""Pages of results: blocks are what their functions make of the results, and every block has a function."""

import re
from importlib import import_module

import numpy as np
import pytest
from matplotlib.figure import Figure

from benchmarks.result_files import CHECKOUT
from experiments import result_pages
from experiments.result_pages import BLOCK, PAGES, Drawing, renew, table


def test_blocks_are_made_again_and_the_rest_is_left_alone(tmp_path, monkeypatch):
    page = tmp_path / "some.md"
    opening = "before\n\n<!-- made by experiments.result_pages.duration 30 -->\n"
    page.write_text(f"{opening}This took long.\n<!-- end -->\n\nafter\n")
    monkeypatch.setattr(result_pages, "duration", lambda seconds: table(["seconds"], [[seconds]]))
    assert renew(page)
    assert page.read_text() == f"{opening}| seconds |\n| --- |\n| 30 |\n<!-- end -->\n\nafter\n"
    assert not renew(page)


def test_drawings_are_kept_beside_the_page(tmp_path, monkeypatch):
    page = tmp_path / "some.md"
    page.write_text("<!-- made by experiments.result_pages.duration -->\n<!-- end -->\n")
    figure = Figure()
    figure.subplots().set_title("drawn")
    monkeypatch.setattr(result_pages, "duration", lambda: Drawing("curve", figure, "A curve"))
    renew(page)
    assert "![A curve](some-curve.svg)\n\n*A curve.*\n<!-- end -->" in page.read_text()
    assert "drawn" in (tmp_path / "some-curve.svg").read_text()


def test_every_block_has_a_function():
    pages = (*PAGES.glob("*.md"), *PAGES.parent.glob("*.md"), CHECKOUT / "README.md")
    texts = [page.read_text(encoding="utf-8") for page in pages]
    found = {(block["place"], block["name"]) for text in texts for block in BLOCK.finditer(text)}
    assert len(found) > 50
    assert all(callable(getattr(import_module(place), name)) for place, name in found)
    assert sum(text.count("<!-- made by") for text in texts) == sum(len(BLOCK.findall(text)) for text in texts)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        *(f"docs/{name}.md" for name in ("dask", "engines", "sensors", "results/index", "results/snakes")),
    ],
)
def test_pages_say_what_the_results_say(name, tmp_path):
    copy = tmp_path / "page.md"
    copy.write_text((CHECKOUT / name).read_text(encoding="utf-8"), encoding="utf-8")
    assert not renew(copy)


DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?!\.?\d)")
CITED = re.compile(r"\]\((?:docs/)?((?:results/\w+|engines)\.md)")


def strangers(sentence, pages):
    """Return the decimals of a sentence that no figure of these pages rounds to, as it is or as its share of errors."""
    figures = np.array([float(figure) for page in pages for figure in DECIMAL.findall(page)])
    figures = np.concatenate([figures, 100.0 - figures])
    text = re.sub(r"`[^`]*`", "", sentence)
    return [
        found
        for found in DECIMAL.findall(text)
        if np.abs(figures - float(found)).min(initial=np.inf) > 0.501 * 10.0 ** -len(found.partition(".")[2])
    ]


def sentences(text):
    """Return the sentences of a page, and the rows of its tables."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\n|\n(?=\||\* )", text):
        yield from [block] if block.startswith("|") else re.split(r"(?<=[.:])\s+(?=[A-Z`\[*])", " ".join(block.split()))


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_findings_are_those_of_the_tables(page):
    text = page.read_text(encoding="utf-8")
    finding = re.search(r"\A# .*\n\n\*\*(.*?)\*\*\n", text)
    assert (finding is None) == (page.stem == "index"), "a page opens with its finding, in one line"
    assert finding is None or not strangers(finding[1], [text.replace(finding[0], "")])


@pytest.mark.parametrize(
    "page", sorted([CHECKOUT / "README.md", *PAGES.parent.glob("*.md")]), ids=lambda page: page.stem
)
def test_figures_that_are_cited_are_those_of_the_page(page):
    for sentence in sentences(page.read_text(encoding="utf-8")):
        cited = [(PAGES.parent / link).read_text(encoding="utf-8") for link in CITED.findall(sentence)]
        assert not cited or not strangers(sentence, cited), sentence
