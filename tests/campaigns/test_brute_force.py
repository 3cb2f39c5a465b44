"""Answers of random small fields against plain enumeration: a slice of ``python -m tests.campaigns.brute_force``."""

import warnings

import numpy as np
import pytest

from kernelfields.inference.spans import Spans
from kernelfields.uncertainty import conformal_field
from tests.campaigns.brute_force import FIELDS, OFTEN, draw, run, run_field
from tests.campaigns.fields.answers import Asked
from tests.campaigns.fields.entities import check_sets
from tests.campaigns.fields.objective import check_objective
from tests.campaigns.fields.tally import Tally


@pytest.mark.parametrize("kind", FIELDS)
def test_answers_are_those_of_the_enumeration(kind):
    tally = Tally()
    for number in range(2 * OFTEN.get(kind, 1)):
        run_field(tally, kind, 0, number)
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.total > 40


@pytest.mark.parametrize(
    ("kind", "seed", "number"),
    [
        pytest.param("Annotated", 12, 8, id="entry-of-a-word-never-seen"),
        pytest.param("Chain", 11, 82, id="stream-that-cannot-go-on"),
        pytest.param("Chain", 11, 103, id="shares-of-labels-never-allowed"),
        pytest.param("Ring", 12, 1, id="budget-of-memory-too-small"),
    ],
)
def test_fields_that_the_enumeration_once_judged_wrongly(kind, seed, number):
    tally = Tally()
    run_field(tally, kind, seed, number)
    assert not tally.failures, "\n".join(tally.failures)
    assert tally.total > 40


def test_fields_are_drawn_until_there_are_enough_comparisons():
    said = []
    tally = run(300, fields=["Single"], announce=said.append)
    assert tally.total >= 300
    assert not said
    assert run(300, seconds=0.0, fields=["Single"]).total == 0


def test_a_field_follows_from_seed_kind_and_number():
    first, second = Tally(), Tally()
    for tally in (first, second):
        run_field(tally, "Single", 3, 5)
    assert first.counts == second.counts
    assert first.where == second.where


@pytest.fixture
def asked():
    drawn = draw("Single", np.random.default_rng(0))
    return Asked(Tally(), drawn, drawn.new, None, [drawn.enumerated(item) for item in drawn.new])


@pytest.mark.parametrize("question", ["labels", "marginals", "best", "entropies", "likelihoods"])
def test_a_wrong_answer_is_found(asked, question):
    """Coefficients of which the enumeration has not heard make every answer wrong."""
    asked.drawn.draw_coefficients(np.random.default_rng(1))
    getattr(asked, question)(np.random.default_rng(0))
    assert asked.tally.failures
    assert asked.tally.total > 0


def test_a_wrong_objective_is_found():
    drawn, tally = draw("Single", np.random.default_rng(0)), Tally()
    drawn.draw_coefficients(np.random.default_rng(1))
    check_objective(tally, drawn, np.random.default_rng(0))
    wrong = [failure.partition(" is wrong")[0] for failure in tally.failures]
    # Where the fit ended is not where the coefficients are; the objective elsewhere is that of the enumeration.
    assert "objective of the fit" in wrong
    assert "objective" not in wrong


@pytest.mark.parametrize("kind", ["Chain", "Ring", "Segments"])
def test_entities_that_are_missing_are_found(kind, monkeypatch):
    """Sets that list one entity of each batch hold less than they promise, and are not those of the enumeration."""
    drawn, tally = draw(kind, np.random.default_rng(0)), Tally()
    asked = Asked(tally, drawn, drawn.new, None, [drawn.enumerated(item) for item in drawn.new])
    listed = conformal_field.likely_spans
    monkeypatch.setattr(
        conformal_field, "likely_spans", lambda *given: Spans(*(column[:1] for column in listed(*given)))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_sets(tally, drawn, asked, np.random.default_rng(0), "entities")
    wrong = {failure.partition(" is wrong")[0] for failure in tally.failures}
    assert wrong == {"prediction set of entities", "level of entities"}


def test_graphs_have_constraints_on_edges_that_meet():
    """Some of the first graphs that are drawn forbid pairs where two edges end in one node."""
    found = 0
    for number in range(12):
        graph = draw("Graph", np.random.default_rng(number))
        ends = [np.bincount(graph._parts(item)[1].get("edge", np.empty((0, 2), int))[:, 1]) for item in graph.new]
        found += bool(graph.forbidden) and any(own.max(initial=0) > 1 for own in ends)
    assert found >= 3


def test_numbers_agree_and_infinities_are_the_same():
    tally = Tally()
    for found, expected in [(1.0, 1.0 + 1e-12), (-np.inf, -np.inf), ([0.0, np.inf], [0.0, np.inf])]:
        tally.near("right", found, expected, 1e-9)
    assert not tally.failures
    for found, expected in [(-3.0, -np.inf), (np.inf, 1.0), (np.inf, -np.inf), (np.nan, np.inf), ([0.0], 0.0)]:
        tally.near("wrong", found, expected, 1e-9)
    assert len(tally.failures) == 5


def test_a_question_that_raises_is_wrong():
    tally = Tally()
    with tally.asking("something"):
        raise KeyError("missing")
    tally.refused("what must be refused", lambda: 1)
    assert [failure.partition(":")[0] for failure in tally.failures] == [
        "something is wrong",
        "what must be refused is wrong",
    ]
