"""docs/paper.md, row by row: the code and the tests that a row names exist, and nothing of the paper is left out."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
# Links from a name to its file, [`Class.method`](../src/...), or from the name of a file to itself.
LINK = re.compile(r"\[`([\w.]+)`\]\(\.\./([\w/]+\.py)\)")
REFERENCES = sorted(set(LINK.findall(PAGE)))
STATEMENTS = [
    *(f"Prop. {n}" for n in (1, 2, 3)),
    "Thm 4",
    *(f"Lemma {n}" for n in (5, 6, 9, 12, 13)),
    *(f"Cor. {n}" for n in (8, 10)),
    *(f"Remark {n}" for n in (7, 11)),
    *(f"Section {n}" for n in ("5.1", "5.2", "5.3", "6", "7")),
]
#: What the discussion names, as the first cells or the sayings of its rows call it.
OF_SECTION_7 = (
    *("missing values", "missing inputs", "clustering", "semidefinite relaxation", "undirected graphs"),
    *("approximate inference", "tree decompositions", "exact sampling", "perfect sampling", "MCMC", "MCMC in fits"),
)
#: What the row of a sentence says that has no code, and why.
ABSENT = "not here, because"


class Row(NamedTuple):
    """One row of a table of statements."""

    statement: str
    says: str
    code: str
    test: str


def rows_of(page):
    """The rows of the tables whose columns are statement, says, code, test; cells hold no bar of their own."""
    found = []
    for table in re.findall(r"\| statement \| says \| code \| test \|\n\|[-|]+\|\n((?:\|.*\n)+)", page):
        for line in table.splitlines():
            cells = [cell.strip() for cell in re.split(r"(?<!\\) \| ", line.strip().strip("|"))]
            assert len(cells) == 4, f"four cells expected: {line}"
            found.append(Row(*cells))
    return found


ROWS = rows_of(PAGE)


@cache
def defined_names(path):
    """Functions, classes and their methods, as name or Class.name."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return names


def missing(name, path):
    """What is wrong with a reference; None if there is what it names."""
    if not (ROOT / path).is_file():
        return f"docs/paper.md names {path}, which does not exist"
    if name != Path(path).name and name not in defined_names(ROOT / path):
        return f"docs/paper.md names {name}, which is not defined in {path}"
    return None


def test_all_rows_are_read():
    tables = PAGE.partition("## Misprints")[0]
    lines = [line for line in tables.splitlines() if line.startswith("| ") and not line.startswith("| statement |")]
    assert len(ROWS) == len(lines) > 40
    assert sum(row.statement.startswith("Section 7") for row in ROWS) >= len(OF_SECTION_7)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", "-", row.statement))
def test_every_row_names_code_and_tests_that_exist(row):
    """A row has code, or a command, of the package, and a test of tests/ by name, or says why there is neither."""
    if ABSENT in row.says or ABSENT in row.code:
        assert not LINK.findall(row.test), "what is not here has no test"
        return
    code, tests = LINK.findall(row.code), LINK.findall(row.test)
    commands = re.findall(r"`python -m ([\w.]+)", row.code)
    assert code or commands, f"{row.statement}: no code is named"
    for command in commands:
        assert (ROOT / f"{command.replace('.', '/')}.py").is_file(), f"{row.statement}: no module {command}"
    assert tests, f"{row.statement}: no test is named"
    for name, path in tests:
        assert path.startswith("tests/"), f"{row.statement}: {path} is no test"
        assert name.startswith("test_"), f"{row.statement}: {name} is no test"
    wrong = [words for reference in code + tests if (words := missing(*reference))]
    assert not wrong, wrong


def test_what_the_page_names_beside_its_rows_exists():
    wrong = [words for reference in REFERENCES if (words := missing(*reference))]
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("[`Newton`](../src/kernelfields/solvers/newton.py)", None),
        ("[`newton.py`](../src/kernelfields/solvers/newton.py)", None),
        ("[`Newtons`](../src/kernelfields/solvers/newton.py)", "Newtons, which is not defined"),
        ("[`Newton`](../src/kernelfields/solvers/newtons.py)", "which does not exist"),
    ],
)
def test_a_name_that_does_not_exist_is_noticed(page, words):
    (reference,) = LINK.findall(page)
    found = missing(*reference)
    assert found is None if words is None else words in found


def test_every_sentence_of_section_7_has_a_row():
    rows = [row for row in ROWS if row.statement.startswith("Section 7")]
    for topic in OF_SECTION_7:
        assert any(topic in row.statement or topic in row.says for row in rows), topic


def test_every_paper_test_is_on_the_page():
    for path in sorted((ROOT / "tests" / "paper").glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        tests = {name for name in defined_names(path) if name.startswith("test_")}
        unnamed = {name for name in tests if (name, f"tests/paper/{path.name}") not in REFERENCES}
        assert not unnamed, f"add these tests to docs/paper.md: {sorted(unnamed)}"


def test_every_statement_of_the_paper_has_a_row():
    for statement in STATEMENTS:
        assert any(re.search(re.escape(statement) + r"\b", row.statement) for row in ROWS), statement


def test_every_equation_of_the_paper_has_a_row():
    named = set()
    for row in ROWS:
        for numbers in re.findall(r"[Ee]q\. ([\d, -]+)", row.statement):
            named |= {int(number) for number in re.findall(r"\d+", numbers)}
    assert named == set(range(1, 31))
