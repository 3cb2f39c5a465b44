"""Pages of results: blocks are what their functions make of the results, and every block has a function."""

from importlib import import_module

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
    texts = [page.read_text(encoding="utf-8") for page in (*PAGES.glob("*.md"), CHECKOUT / "README.md")]
    found = {(block["place"], block["name"]) for text in texts for block in BLOCK.finditer(text)}
    assert len(found) > 50
    assert all(callable(getattr(import_module(place), name)) for place, name in found)
    assert sum(text.count("<!-- made by") for text in texts) == sum(len(BLOCK.findall(text)) for text in texts)


@pytest.mark.parametrize("name", ["README.md", "docs/results/index.md", "docs/results/snakes.md"])
def test_pages_say_what_the_results_say(name, tmp_path):
    copy = tmp_path / "page.md"
    copy.write_text((CHECKOUT / name).read_text(encoding="utf-8"), encoding="utf-8")
    assert not renew(copy)
