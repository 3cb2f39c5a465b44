"""docs/paper.md names modules, functions and tests: they exist, and nothing here is left out of it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
# Links from a name to its file, [`Class.method`](../src/...), or from the name of a file to itself.
REFERENCES = sorted(set(re.findall(r"\[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)", PAGE)))
STATEMENTS = [
    *(f"Prop. {n}" for n in (1, 2, 3)),
    "Thm 4",
    *(f"Lemma {n}" for n in (5, 6, 9, 12, 13)),
    *(f"Cor. {n}" for n in (8, 10)),
    *(f"Remark {n}" for n in (7, 11)),
    *(f"Section {n}" for n in ("5.1", "5.2", "5.3", "6", "7")),
]


def defined_names(path):
    """Functions, classes and their methods, as name or Class.name."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return names


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), REFERENCES)
def test_what_the_page_names_exists(name, path):
    assert (ROOT / path).is_file(), f"docs/paper.md names {path}, which does not exist"
    if name != Path(path).name:
        assert name in defined_names(ROOT / path), f"docs/paper.md names {name}, which is not defined in {path}"


def test_every_paper_test_is_on_the_page():
    for path in sorted((ROOT / "tests" / "paper").glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        tests = {name for name in defined_names(path) if name.startswith("test_")}
        missing = {name for name in tests if (name, f"tests/paper/{path.name}") not in REFERENCES}
        assert not missing, f"add these tests to docs/paper.md: {sorted(missing)}"


def test_every_statement_of_the_paper_has_a_row():
    first_cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| ")]
    for statement in STATEMENTS:
        assert any(re.search(re.escape(statement) + r"\b", cell) for cell in first_cells), statement


def test_every_equation_of_the_paper_has_a_row():
    named = set()
    for line in PAGE.splitlines():
        if line.startswith("| "):
            for numbers in re.findall(r"[Ee]q\. ([\d, -]+)", line.split("|")[1]):
                named |= {int(number) for number in re.findall(r"\d+", numbers)}
    assert named == set(range(1, 31))
