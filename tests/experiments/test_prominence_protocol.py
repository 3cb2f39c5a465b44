"""Figure 1 in short: the protocol of the script on made sentences, and its solver, degree and window for each curve."""

import numpy as np
import pytest

from experiments import prominence
from experiments.prominence_features import Sentence
from kernelfields.kernels import Linear, Polynomial

WORDS = ("the", "cat", "sat", "upon", "a", "big", "mat", "in", "Boston", "yesterday", "and", "sang")


def made_sentences(n=20):
    """Sentences in which long words are prominent, mostly."""
    random, sentences = np.random.default_rng(0), []
    for number in range(n):
        words = [str(word) for word in random.choice(WORDS, size=random.integers(4, 9))]
        prominent = np.array([len(word) > 3 for word in words]) ^ (random.random(len(words)) < 0.1)
        blank = [""] * len(words)
        sentences.append(Sentence(words, blank, [*blank[1:], "."], f"speaker_{number}", 2 * prominent.astype(int)))
    return sentences


@pytest.fixture(scope="module")
def rows():
    """All rows that a run of the figure writes, in memory, with few pivots and one candidate for each curve."""
    kept = {}

    def merge(file, new, keys, folder):
        kept.update({tuple(row[key] for key in keys): row for row in new})

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prominence, "sentences_of", lambda part: made_sentences())
        patched.setattr(prominence, "merge_results", merge)
        patched.setattr(prominence, "read_results", lambda file, folder: list(kept.values()))
        patched.setattr(prominence, "SEARCH_RANK", 20)
        patched.setattr(prominence, "RANK", 30)
        candidates = {
            prominence.PRIMAL: (["linear"], [0.1]),
            "degree 2": ([Polynomial(2, gamma=0.01, coef0=1.0)], [1.0]),
            "degree 3": ([Polynomial(3, gamma=0.003, coef0=1.0)], [1.0]),
        }
        assert candidates.keys() < prominence.FAMILIES.keys()
        patched.setattr(prominence, "FAMILIES", candidates)
        models = [model for model in prominence.MODELS if model != "RBF"]
        prominence.cross_validate("figure", list(range(prominence.N_FOLDS)), models)
        table = prominence.dual("figure")
    return kept, table


@pytest.mark.slow
def test_each_curve_has_five_folds_its_solver_its_degree_and_a_window_of_five(rows):
    kept, _ = rows
    degrees = {prominence.PRIMAL: Linear, **{f"{kind}degree {d}": d for kind in ("", "dual ") for d in (2, 3)}}
    degrees["dual degree 1"] = 1
    for model, degree in degrees.items():
        own = [row for row in kept.values() if row["model"] == model]
        assert sorted(row["fold"] for row in own) == [0, 1, 2, 3, 4]
        assert {row["window"] for row in own} == {5}
        assert {row["solver"] for row in own} == {prominence.SOLVERS[model]}
        for row in own:
            kernel = eval(row["kernel"], {"Polynomial": Polynomial, "Linear": Linear})
            assert (type(kernel) if degree is Linear else kernel.degree) == degree
            assert row["reason"] == "gap"
    assert {prominence.SOLVERS[model] for model in prominence.TAKEN_FROM} == {"block-jacobi"}
    held = [number for row in kept.values() if row["model"] == "truth" for number in row["indices"]]
    assert sorted(held) == list(range(20))


@pytest.mark.slow
def test_block_jacobi_ends_at_the_minimum_of_the_fit_beside_it(rows):
    """Primal and dual of degree 1 are one model; degrees 2 and 3 have kernel, variance and pivots of their search."""
    kept, table = rows
    for dual, other in prominence.TAKEN_FROM.items():
        for fold in range(5):
            own, known = kept["figure", dual, fold], kept["figure", other, fold]
            assert own["prior_variance"] == known["prior_variance"]
            assert own["objective"] == pytest.approx(known["objective"], rel=2e-3)
            apart = prominence.unpacked(own) != prominence.unpacked(known)
            assert np.mean(apart) < 0.05
            if other != prominence.PRIMAL:
                assert own["kernel"] == known["kernel"]
                assert own["rank"] == known["rank"] <= 30
    assert table.count("5 of 5") == 3


def test_the_english_part_is_500_sentences_that_nothing_was_developed_on(monkeypatch):
    monkeypatch.setattr(prominence.features, "english_sentences", lambda part: [(part, i) for i in range(1900)])
    chosen = prominence.sentences_of("figure")
    assert len(set(chosen)) == 500
    developed = {("dev", int(i)) for i in np.random.default_rng(0).permutation(1900)[:500]}
    assert not developed & set(chosen)
