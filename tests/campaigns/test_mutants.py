"""Mutants: which lines are changed and how, which are left alone, and that the draw depends on the seed alone."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.campaigns.mutating.mutants import ROOMS, draw, mutants_of
from tests.campaigns.mutating.runs import ImportGraph, import_graph

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def drawn():
    return draw(CHECKOUT, 300, seed=0)


def changes(tmp_path, text):
    """The mutants of a text: (operator, before, after)."""
    (tmp_path / "module.py").write_text(text, encoding="utf-8")
    return {(each.operator, each.before, each.after) for each in mutants_of(tmp_path, Path("module.py"))}


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("x = a + b", ("arithmetic", "a + b", "a - b")),
        ("x = a / b", ("arithmetic", "a / b", "a * b")),
        ("x -= a", ("arithmetic", "x -= a", "x += a")),
        ("x = a < b", ("comparison", "a < b", "a <= b")),
        ("x = a is b", ("comparison", "a is b", "a is not b")),
        ("x = b if not a else c", ("condition", "not a", "a")),
        ("x = a and b", ("condition", "a and b", "a or b")),
        ("x[a] = b", ("statement", "x[a] = b", "pass")),
        ("f(a)", ("statement", "f(a)", "pass")),
        ("return a", ("return", "return a", "return -(a)")),
        ("return a, b", ("return", "return (a, b)", "return (b, a)")),
        ("return a > b", ("return", "return a > b", "return not (a > b)")),
        ("x = f(a, b, c)", ("arguments", "f(a, b, c)", "f(b, a, c)")),
        ("x = f(a, b=c)", ("keyword", "f(a, b=c)", "f(a)")),
        ("x = -a", ("minus", "-a", "a")),
        ("x = a.sum(axis=1)", ("axis", "1", "0")),
        ("x = a.sum(axis=-1)", ("axis", "-1", "0")),
    ],
)
def test_every_operator_changes_what_it_says(tmp_path, line, change):
    assert change in changes(tmp_path, f"def f(x, a, b, c):\n    {line}\n")


def test_a_constant_is_one_more_or_one_less(tmp_path):
    (operator, before, after), *_ = changes(tmp_path, "x = 7\n")
    assert (operator, before) == ("constant", "7")
    assert int(after) in (6, 8)


@pytest.mark.parametrize(
    "text",
    [
        '"""Two + two."""\n',
        "import numpy as np\n",
        "def f(a: Literal[1, 2]) -> Literal[3]:\n    pass\n",
        "def f(a):\n    raise ValueError(f'{a + 1} is not {1 - a}')\n",
        "def f(a):\n    warnings.warn('one', stacklevel=1 + a)\n",
        "def __repr__(self):\n    return -self.a\n",
        "def f(a):\n    assert a > 1\n",
        "@njit(nogil=True, cache=1)\ndef f(a):\n    pass\n",
        "if TYPE_CHECKING:\n    f(1)\n",
        "__all__ = ['a']\n",
    ],
)
def test_texts_errors_annotations_and_displays_stay(tmp_path, text):
    assert changes(tmp_path, text) == set()


def test_every_drawn_mutant_is_another_program(drawn):
    @cache
    def unchanged(file):
        text = (CHECKOUT / file).read_text(encoding="utf-8")
        return text, ast.dump(ast.parse(text))

    for mutant in drawn:
        text, program = unchanged(mutant.file)
        assert ast.dump(ast.parse(mutant.applied(text))) != program, mutant


def test_every_room_has_its_share_and_every_line_one_mutant(drawn):
    assert len(drawn) == sum(share for _, share in ROOMS.values()) == 300
    assert Counter((each.file, each.line) for each in drawn).most_common(1)[0][1] == 1
    for room, guests in (("engines/torch", ("torch",)), ("engines/together", ("together", "dask"))):
        assert sum(any(f"/{guest}/" in each.file for guest in guests) for each in drawn) == ROOMS[room][1]


def test_the_seed_decides_and_other_lines_do_not(tmp_path):
    folder = tmp_path / "src" / "kernelfields" / "basis"
    folder.mkdir(parents=True)
    lines = [f"def f{n}(a, b):\n    return a + {n} * b\n" for n in range(20)]

    def functions_drawn(seed, source):
        (folder / "module.py").write_text("".join(source))
        return {(each.function, each.after) for each in draw(tmp_path, 8, seed)}

    before = functions_drawn(0, lines)
    assert before == functions_drawn(0, lines)
    assert before != functions_drawn(1, lines)
    assert len(before - functions_drawn(0, ["ONE = 'more'\n", *lines])) == 0


def test_whoever_imports_an_importer_is_reached():
    a, b, c, d = map(Path, "abcd")
    graph = ImportGraph({a: {b}, b: {c}, c: set(), d: {a}})
    assert graph.importers(c) == {a, b, c, d}
    assert graph.importers(a) == {a, d}


def test_the_imports_of_compiled_files_are_seen():
    package = Path("src") / "kernelfields"
    graph = import_graph(CHECKOUT / package)
    reached = graph.importers(package / "inference" / "sums_compiled.py")
    assert package / "inference" / "approximate" / "messages_compiled.py" in reached
    assert package / "estimators" / "graph_crf.py" in reached
    assert package / "kernels" / "kernel.py" not in reached
