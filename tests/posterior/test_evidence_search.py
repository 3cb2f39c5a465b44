"""Prior variances and kernel parameters by the evidence: scikit-learn's optimum, relevance, bounds, failures."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF as GaussianRBF
from sklearn.gaussian_process.kernels import ConstantKernel

from kernelfields import ChainCRF, KernelClassifier
from kernelfields.kernels import RBF, Columns
from kernelfields.posterior.evidence import problem as evidence_problem
from kernelfields.posterior.evidence import search as evidence_search
from kernelfields.posterior.evidence.settings import EvidenceSearch
from kernelfields.posterior.laplace.laplace import Laplace
from tests.samples import labelled_sequences

SHORT = EvidenceSearch(restarts=0, max_evaluations=12)


def test_the_optimum_is_that_of_gaussian_process_classification():
    X, y = make_moons(80, noise=0.3, random_state=0)
    theirs = GaussianProcessClassifier(ConstantKernel(4.0) * GaussianRBF(1.0)).fit(X, y)
    ours = KernelClassifier(RBF(0.5), prior_variance=2.0, bias=False, basis="all", rank=None, random_state=0)
    ours.fit(X, y, optimize="evidence")
    best = ours.evidence_path_.best
    assert best.value == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-2)
    assert ours.laplace(X, y).value == pytest.approx(best.value, abs=1e-3)
    chosen = ours.field_.terms[0].clique
    expected = theirs.kernel_.get_params()
    assert 2 * chosen.prior_variance == pytest.approx(expected["k1__constant_value"], rel=0.2)
    assert np.sqrt(0.5 / chosen.kernel.gamma) == pytest.approx(expected["k2__length_scale"], rel=0.1)
    # What the user gave stays as it was.
    assert ours.kernel == RBF(0.5)
    assert ours.prior_variance == 2.0


def test_groups_of_features_that_say_nothing_lose_their_weight():
    random = np.random.default_rng(0)
    X = random.normal(size=(150, 4))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(int)
    kernel = Columns(RBF(0.5), 0, 2) + Columns(RBF(0.5), 2, 4)
    crf = KernelClassifier(kernel, prior_variance=(1.0, 1.0), rank=25, random_state=0)
    crf.fit(X, y, optimize=EvidenceSearch(kernels=False, restarts=0))
    weights = {each.name: each.clique.prior_variance for each in crf.field_.terms}
    assert weights["node"] > 100 * weights["node_2"]
    assert set(crf.evidence_path_.best.parameters) == {
        "node prior_variance",
        "node_2 prior_variance",
        "bias prior_variance",
    }


def test_chains_choose_variances_per_clique_set_and_become_better():
    X, y = labelled_sequences(20)
    start = ChainCRF(RBF(2.0), rank=15, prior_variance=0.05, tol=1e-3, random_state=0)
    plain, chosen = clone(start).fit(X, y), clone(start).fit(X, y, optimize="evidence")
    path = chosen.evidence_path_
    assert plain.evidence_path_ is None
    assert path.steps[0].value == pytest.approx(plain.laplace(X, y).value, abs=1e-6)
    assert path.best.value > path.steps[0].value + 1.0
    assert chosen.laplace(X, y).value == pytest.approx(path.best.value, abs=1e-5)
    # Where the search ends the evidence is flat, in every direction that is not held by a bound.
    assert max(abs(slope) for slope in path.best.gradient.values()) < 0.1
    assert chosen.certificate_.relative_gap <= chosen.tol
    assert chosen.log_likelihood(X, y) > plain.log_likelihood(X, y)
    assert {step.start for step in path.steps} == {0, 1}
    assert np.all(np.diff([step.seconds for step in path.steps]) > 0)


def test_bounds_hold_and_paths_are_repeatable(monkeypatch):
    X, y = make_moons(60, noise=0.3, random_state=0)
    monkeypatch.setattr(evidence_search, "_VARIANCES", (0.5, 2.0))
    monkeypatch.setattr(evidence_search, "_KERNEL_FACTOR", 1.5)
    search = EvidenceSearch(restarts=2, max_evaluations=5)
    paths = [
        KernelClassifier(RBF(0.2), rank=15, random_state=0).fit(X, y, optimize=search).evidence_path_ for _ in range(2)
    ]
    for step in paths[0].steps:
        for name, value in step.parameters.items():
            low, high = (0.5, 2.0) if "variance" in name else (0.2 / 1.5, 0.2 * 1.5)
            assert low * (1 - 1e-9) <= value <= high * (1 + 1e-9)
    assert [step.value for step in paths[0].steps] == [step.value for step in paths[1].steps]
    assert {step.start for step in paths[0].steps} == {0, 1, 2}


@pytest.mark.slow
def test_probes_find_about_the_same_field():
    X, y = labelled_sequences(15)
    start = ChainCRF("linear", prior_variance=0.01, random_state=0)
    exact = clone(start).fit(X, y, optimize=SHORT)
    search = EvidenceSearch(restarts=0, max_evaluations=12, method="lanczos", probes=20)
    probed = clone(start).fit(X, y, optimize=search)
    assert probed.laplace(X, y, method="exact").value == pytest.approx(exact.evidence_path_.best.value, abs=0.5)


def test_where_the_evidence_is_not_finite_the_search_steps_back_and_says_so(monkeypatch):
    X, y = make_moons(60, noise=0.3, random_state=0)

    class Cliff(Laplace):
        def __init__(self, point, **settings):
            if point.posterior.blocks[0].prior_variance > 4.0:
                raise np.linalg.LinAlgError("the factor does not exist")
            super().__init__(point, **settings)

    monkeypatch.setattr(evidence_problem, "Laplace", Cliff)
    crf = KernelClassifier(RBF(1.0), rank=15, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"not finite at \d+ of \d+ points \(the factor does not exist\)"):
        crf.fit(X, y, optimize=SHORT)
    path = crf.evidence_path_
    assert np.isnan([step.value for step in path.steps]).any()
    assert crf.field_.terms[0].clique.prior_variance <= 4.0
    assert path.best.value > path.steps[0].value

    class Nowhere(Laplace):
        def __init__(self, point, **settings):
            raise np.linalg.LinAlgError("the factor does not exist")

    monkeypatch.setattr(evidence_problem, "Laplace", Nowhere)
    with pytest.raises(ValueError, match="nowhere finite from here: the factor does not exist"):
        crf.fit(X, y, optimize=SHORT)


def test_a_value_that_is_no_number_is_stepped_back_from(monkeypatch):
    X, y = make_moons(60, noise=0.3, random_state=0)

    class Fog(Laplace):
        def __init__(self, point, **settings):
            super().__init__(point, **settings)
            if point.posterior.blocks[0].prior_variance > 4.0:
                self.evidence = replace(self.evidence, value=np.nan)

    monkeypatch.setattr(evidence_problem, "Laplace", Fog)
    crf = KernelClassifier(RBF(1.0), rank=15, random_state=0)
    with pytest.warns(ConvergenceWarning, match="the evidence or its gradient is not finite"):
        crf.fit(X, y, optimize=SHORT)
    assert crf.field_.terms[0].clique.prior_variance <= 4.0
    assert np.isfinite(crf.evidence_path_.best.value)


@pytest.mark.slow
def test_large_fields_are_climbed_with_few_pivots_first(monkeypatch):
    X, y = labelled_sequences(20)
    start = ChainCRF(RBF(2.0), rank=15, prior_variance=0.05, random_state=0)
    search = EvidenceSearch(restarts=0, tol=1e-6)
    plain = clone(start).fit(X, y, optimize=search)
    monkeypatch.setattr(evidence_search, "_SMALL_RANK", 15)
    coarse = clone(start).fit(X, y, optimize=search)
    stages = [step.coarse for step in coarse.evidence_path_.steps]
    assert stages[0]
    assert stages == sorted(stages, reverse=True)
    steps = coarse.evidence_path_.steps
    top = max((step for step in steps if step.coarse), key=lambda step: step.value)
    assert steps[stages.index(False)].parameters == pytest.approx(top.parameters), (
        "the climb goes on from the coarse top"
    )
    assert not any(step.coarse for step in plain.evidence_path_.steps)
    assert not coarse.evidence_path_.best.coarse
    assert coarse.field_.terms[0].subspace.rank == plain.field_.terms[0].subspace.rank == 15
    assert coarse.laplace(X, y).value == pytest.approx(coarse.evidence_path_.best.value, abs=1e-3)
    assert coarse.evidence_path_.best.value > plain.evidence_path_.best.value - 0.5


def test_an_interrupt_keeps_the_best_point(monkeypatch):
    X, y = make_moons(60, noise=0.3, random_state=0)
    calls = []

    class Impatient(Laplace):
        def __init__(self, point, **settings):
            calls.append(point)
            if len(calls) == 3:
                raise KeyboardInterrupt
            super().__init__(point, **settings)

    monkeypatch.setattr(evidence_problem, "Laplace", Impatient)
    crf = KernelClassifier(RBF(1.0), rank=15, random_state=0)
    with pytest.warns(ConvergenceWarning, match="interrupted; the best point so far was kept"):
        crf.fit(X, y, optimize="evidence")
    assert len(crf.evidence_path_.steps) == 2
    assert crf.field_.terms[0].clique.prior_variance == pytest.approx(
        crf.evidence_path_.best.parameters["node prior_variance"]
    )


def test_bad_input_is_named():
    X, y = labelled_sequences(10)
    crf = ChainCRF("linear", random_state=0)
    with pytest.raises(ValueError, match="optimize must be 'evidence', an EvidenceSearch or None, got 'cv'"):
        crf.fit(X, y, optimize="cv")
    for settings, text in (
        ({"restarts": -1}, "restarts must be"),
        ({"max_evaluations": 0}, "max_evaluations must be"),
        ({"tol": 0.0}, "tol must be a number between 0 and 1"),
    ):
        with pytest.raises(ValueError, match=text):
            crf.fit(X, y, optimize=EvidenceSearch(**settings))
    with pytest.raises(ValueError, match="needs a Gaussian prior on every coefficient"):
        ChainCRF("linear", prior_variance=np.inf).fit(X, y, optimize="evidence")
    with pytest.raises(ValueError, match="basis='gradient' grows with each fit"):
        ChainCRF(RBF(0.5), basis="gradient", rank=5, random_state=0).fit(X, y, optimize="evidence")
    warm = ChainCRF("linear", warm_start=True, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="warm_start=True continues the fitted one"):
        warm.fit(X, y, optimize="evidence")


def test_a_path_reads_as_sentences(tmp_path):
    X, y = labelled_sequences(12)
    crf = ChainCRF(RBF(2.0), rank=8, prior_variance=0.05, random_state=0).fit(X, y, optimize=SHORT)
    path = crf.evidence_path_
    first, second, *parameters, last = str(path).splitlines()
    gained = path.best.value - path.first.value
    assert first.startswith(f"log evidence {path.first.value:.2f} -> {path.best.value:.2f}")
    assert first.endswith(f"{gained:.2f} nats gained")
    assert gained > 0
    assert second.startswith(f"{len(path.steps)} points, in 1 climb, ")
    assert [line.split("  ")[1] for line in parameters] == list(path.best.parameters)
    assert f"0.05 -> {path.best.parameters['node prior_variance']:.4g}, " in parameters[0]
    assert last == f"ended because {path.steps[-1].ended}"
    crf.save(tmp_path / "field")
    loaded = str(ChainCRF.load(tmp_path / "field").evidence_path_)
    assert loaded == str(path).replace(f", {path.seconds:.3g} s", "")  # seconds are in no file
    short = crf.fit(X, y, optimize=EvidenceSearch(restarts=0, max_evaluations=2, tol=1e-9)).evidence_path_
    assert "max_evaluations = 2 points were tried" in str(short)
    assert "nowhere finite at 0 points" in str(type(path)())
