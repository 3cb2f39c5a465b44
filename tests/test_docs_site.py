"""The documentation as a site, without building it: pages run, are reached and linked; the reference is complete."""

import importlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import kernelfields
from test_docs_pages import FENCE, assert_prints, run_as_one_program

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"gallery", "generated", "_templates"}
PAGES = sorted(
    page
    for kind in ("md", "rst")
    for page in DOCS.rglob(f"*.{kind}")
    if not {*page.relative_to(DOCS).parts} & GENERATED
)
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$|^\.\. toctree::\n(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)")


def entries(page):
    """Pages that the toctrees of a page name."""
    lines = [
        line.strip()
        for blocks in TOCTREE.findall(page.read_text(encoding="utf-8"))
        for line in "".join(blocks).splitlines()
    ]
    return [(page.parent / line).resolve() for line in lines if line and not line.startswith(":")]


def file_of(entry):
    return next(
        (
            entry.with_name(f"{entry.name}.{kind}")
            for kind in ("md", "rst")
            if entry.with_name(f"{entry.name}.{kind}").exists()
        ),
        None,
    )


def anchors(page):
    """Anchors of the headings of a page, as MyST and hosting pages make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "page",
    [
        "choosing",
        "documents",
        "evaluation_and_plots",
        "labelling",
        "proteins",
        "recipes",
        "sensors",
        "sharp_bits",
        "single_labels",
        "ties",
    ],
)
def test_tutorials_and_recipes_do_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert_prints(*run_as_one_program(DOCS / f"{page}.md", capsys))


def test_every_page_is_reached_from_the_first():
    seen, ahead = set(), [DOCS / "index.md"]
    while ahead:
        page = ahead.pop()
        seen.add(page)
        for entry in entries(page):
            if "gallery" in entry.parts:
                continue
            assert file_of(entry), (
                f"{page.relative_to(ROOT)} names {entry.relative_to(DOCS)} in a toctree, which is not there"
            )
            ahead += [file_of(entry)] if file_of(entry) not in seen else []
    missed = [str(page.relative_to(ROOT)) for page in PAGES if page not in seen]
    assert not missed, f"add these pages to a toctree, such as that of docs/guide.md: {missed}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link, anchor in LINK.findall(text):
        target = (page.parent / link).resolve() if link else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), (
            f"{page.name} links to #{anchor} of {target.name}, a heading that is not there"
        )


def test_the_first_page_begins_with_the_code_of_the_readme():
    shown = [
        [block for block in FENCE.findall(page.read_text(encoding="utf-8")) if block[0] in {"python", "text"}]
        for page in (DOCS / "index.md", ROOT / "README.md")
    ]
    assert shown[0][:2] == shown[1]


BLOCK = re.compile(r"^```(python|sh|toml|json)\n(.*?)^```$|((?:^    [^\n]*\n)+)", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_code_is_as_wide_as_a_block_of_a_page(page):
    blocks = ["".join(found[1:]) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]
    wide = [line for block in blocks for line in block.splitlines() if len(line) > 79]
    assert not wide, f"{page.name} has code of more than 79 columns: {wide}"


# Rows of the short table of the guide, by those of the whole one.
SHORT_ROWS = {
    "probabilities of labels": "marginals",
    "n best labellings": "predict_nbest",
    "prediction sets": "ConformalField",
    "entities": "predict_entities",
    "label errors": "find_label_errors",
    "active learning": "rank_for_labelling",
    "sparse arrays": "sparse",
    "feature dicts": "feature dicts",
    "missing labels": "None for unknown labels",
    "learning in batches": "partial_fit",
    "streams": "stream",
    "Laplace approximation": "laplace",
}


def table_rows(page):
    """Rows of the tables of a page, by their first cell."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows}


def test_the_short_table_of_the_guide_says_what_the_matrix_says():
    whole, short = table_rows(DOCS / "matrix.md"), table_rows(DOCS / "guide.md")
    text = (DOCS / "matrix.md").read_text(encoding="utf-8")
    numbers = {name: int(number) - 1 for number, name in re.findall(r"^(\d+)\. (.*)$", text, re.MULTILINE)}
    estimators = short[""]
    assert set(SHORT_ROWS) <= set(short)
    for shown, row in SHORT_ROWS.items():
        cells = ["✓" if whole[row][numbers[name]] == "+" else "–" for name in estimators]
        assert short[shown] == cells, shown


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def reference_names():
    """Names of the API reference, with their modules."""
    for page in sorted((DOCS / "api").glob("*.rst")):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            module = line.split("::")[1].strip() if line.startswith(".. currentmodule::") else module
            if re.fullmatch(r"   [\w.]+", line) and page.stem != "index":
                yield f"{module}.{line.strip()}"


def test_the_reference_has_every_public_name_and_no_other():
    listed = []
    for name in reference_names():
        module, _, attribute = name.rpartition(".")
        if module.startswith("kernelfields.layers") and find_spec("torch") is None:
            continue
        assert hasattr(importlib.import_module(module), attribute), f"docs/api lists {name}, which is not there"
        listed.append(getattr(importlib.import_module(module), attribute))
    # Kernels are listed under their own package, and imported from both.
    assert not [name for name in kernelfields.__all__ if not any(getattr(kernelfields, name) is own for own in listed)]


@pytest.fixture
def check_site(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    module = importlib.import_module("check_site")
    yield module
    sys.modules.pop("check_site")


def write(site, name, body):
    (site / name).write_text(f"<html><body>{body}</body></html>", encoding="utf-8")


def test_a_whole_site_passes(tmp_path, check_site, capsys):
    write(
        tmp_path,
        "index.html",
        '<h1 id="top">A</h1><a href="other.html#part">B</a><a href="https://elsewhere.org">C</a>',
    )
    write(tmp_path, "other.html", '<h2 id="part">B</h2><a href="index.html">A</a>')
    assert check_site.main(str(tmp_path)) == 0
    assert capsys.readouterr().out == "2 pages, 3 links, 0 faults\n"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<script src="https://cdn.org/x.js"></script>', "fetches https://cdn.org/x.js"),
        ('<link rel="stylesheet" href="//cdn.org/x.css">', "fetches //cdn.org/x.css"),
        ('<img src="picture.png">', "needs picture.png, which is not there"),
        ('<a href="nowhere.html">x</a>', "links to nowhere.html, which is not there"),
        ('<a href="#nothing">x</a>', "links to #nothing, which is not there"),
    ],
)
def test_faults_of_a_site_are_found(body, fault, tmp_path, check_site, capsys):
    write(tmp_path, "index.html", body)
    assert check_site.main(str(tmp_path)) == 1
    assert f"index.html {fault}\n" in capsys.readouterr().err


def test_pages_that_no_link_reaches_are_found(tmp_path, check_site, capsys):
    write(tmp_path, "index.html", "")
    write(tmp_path, "island.html", "")
    assert check_site.main(str(tmp_path)) == 1
    assert capsys.readouterr().err == "no link leads to island.html\n"


def test_an_empty_folder_is_no_site(tmp_path, check_site, capsys):
    assert check_site.main(str(tmp_path)) == 1
    assert "make docs" in capsys.readouterr().err


def test_pages_of_examples_that_are_gone_are_removed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    galleries = importlib.import_module("galleries")
    examples, gallery = tmp_path / "examples", tmp_path / "gallery"
    for folder in (examples / "words", gallery / "words", gallery / "gone"):
        folder.mkdir(parents=True)
    (examples / "words" / "plot_kept.py").touch()
    for page in ("words/index.rst", "words/plot_kept.rst", "words/plot_gone.rst", "gone/index.rst"):
        (gallery / page).touch()
    galleries.drop_stale(examples, gallery)
    assert sorted(str(page.relative_to(gallery)) for page in gallery.rglob("*.rst")) == [
        "words/index.rst",
        "words/plot_kept.rst",
    ]
    sys.modules.pop("galleries")


def test_named_galleries_come_first(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    galleries = importlib.import_module("galleries")
    folders = ["examples/zebras", "examples/graphs", "examples/apples", "examples/start"]
    assert [Path(each).name for each in sorted(folders, key=galleries.subsection_order)] == [
        "start",
        "graphs",
        "apples",
        "zebras",
    ]
    sys.modules.pop("galleries")
