"""Wrong versions of the paper: every numbered statement has one, each still fits the source, and three are killed."""

import ast
import re

import pytest

from tests.campaigns.mutating.runs import Copy
from tests.campaigns.paper_mutation import CHECKOUT, READS_THE_PAGE, TESTS, verdict, wrong_versions

VERSIONS = wrong_versions()
NUMBERED = [
    *(f"Eq. {n}" for n in range(1, 31)),
    *(f"Prop. {n}" for n in (1, 2, 3)),
    "Thm 4",
    *(f"Lemma {n}" for n in (5, 6, 9, 12, 13)),
    *(f"Remark {n}" for n in (7, 11)),
    *(f"Cor. {n}" for n in (8, 10)),
    *(f"Section {n}" for n in ("5.1", "5.2", "5.3", "6")),
]


@pytest.mark.parametrize("statement", NUMBERED)
def test_every_numbered_statement_has_a_wrong_version(statement):
    assert any(statement in version.statements for version in VERSIONS)


def test_there_are_sixty_or_more_and_all_are_different():
    assert len({(version.file, version.before, version.after) for version in VERSIONS}) >= 60
    known = {statement for version in VERSIONS for statement in version.statements}
    assert known == set(NUMBERED)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: re.sub(r"\W+", "-", version.wrong))
def test_a_wrong_version_is_another_program(version):
    text = (CHECKOUT / version.file).read_text(encoding="utf-8")
    assert ast.dump(ast.parse(version.applied(text))) != ast.dump(ast.parse(text))
    assert (CHECKOUT / TESTS / version.first).is_file()
    assert version.first != READS_THE_PAGE


def test_a_text_that_is_gone_is_named():
    with pytest.raises(ValueError, match="which has it 0 times"):
        VERSIONS[0].applied("nothing of it")


@pytest.mark.slow
def test_some_wrong_versions_are_killed(tmp_path):
    """Of sections 2, 4 and 5; the tests that take part are those of the file that comes first."""
    copy = Copy(CHECKOUT, tmp_path)
    for wrong, test in (
        ("the base measure p0 is forgotten", "test_equations_1_and_2_normalise_a_density_with_base_measure"),
        ("the bound is halved: no bound", "test_lemma_9_holds_for_subgradients_of_a_maximum"),
        ("subspace descent moves in all blocks", "test_subspace_descent_moves_in_the_block_of_the_largest_bound_alone"),
    ):
        (version,) = (each for each in VERSIONS if each.wrong == wrong)
        name = f"{TESTS.as_posix()}/{version.first}::{test}"
        assert verdict(version, copy, {name: 1.0})["killed_by"] == name
    unchanged = copy.run([name], 120.0)
    assert (unchanged.ended, unchanged.report["failed"]) == ("", [])
    assert list(unchanged.report["seconds"]) == [name]
