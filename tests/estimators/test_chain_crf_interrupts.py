"""Ctrl-C during a fit: the best estimate so far is kept, and a warning says so."""

import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelfields import ChainCRF, EdgeCliques
from kernelfields.basis import Gradient
from kernelfields.models import fit as fitting
from kernelfields.models import growing
from kernelfields.objective.outside import OutsideSpan
from tests.samples import labelled_sequences

X, y = labelled_sequences()


def interrupt_at(number):
    def callback(iteration):
        if iteration.iteration == number:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("number", [0, 1, 4])
@pytest.mark.parametrize("basis", ["random-cholesky", "gradient"])
def test_an_interrupted_fit_keeps_its_best_estimate(number, basis):
    crf = ChainCRF(random_state=0, tol=1e-9, rank=30, basis=basis, callbacks=[interrupt_at(number)])
    with pytest.warns(ConvergenceWarning, match=f"interrupted after {number} iterations?; the best estimate"):
        crf.fit(X, y)
    assert crf.solution_.reason == "interrupted"
    assert not crf.solution_.converged
    assert len(crf.solution_.history) == number + 1
    values = [each.value for each in crf.solution_.history]
    interrupted = crf.solution_.value
    assert interrupted == min(values)
    # The certificates hold for a fit that was cut short, too.
    best = {"rkhs": ChainCRF(tol=1e-10, max_iter=500, basis="all").fit(X, y).solution_.value}
    certificates = [crf.certificate_, crf.rkhs_certificate_, crf.certify(X, y)]
    crf.set_params(callbacks=None, warm_start=True, tol=1e-10, max_iter=500).fit(X, y)
    best["span"] = crf.solution_.value
    for certificate in certificates:
        assert certificate.value == pytest.approx(interrupted, rel=1e-9)
        assert certificate.lower_bound <= best[certificate.scope]
    assert len(crf.predict(X)) == len(X)


@pytest.mark.parametrize(("owner", "stage"), [(OutsideSpan, "exact"), (growing, "_grow")])
def test_an_interrupt_between_the_rounds_of_a_growing_basis_keeps_the_last_round(monkeypatch, owner, stage):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, stage, interrupted)
    crf = ChainCRF(random_state=0, rank=30, basis="gradient")
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        crf.fit(X, y)
    assert crf.solution_.reason == "interrupted"
    assert crf.certify(X, y).value == pytest.approx(crf.solution_.value, rel=1e-9)
    assert crf.certify(X, y).gap <= crf.rkhs_certificate_.gap * (1 + 1e-9)


def test_an_interrupt_while_one_of_two_bases_has_grown_leaves_both_as_they_were(monkeypatch):
    grow = Gradient.grow

    def interrupted_the_second_time(self, panel, residuals, random):
        if residuals.shape[1] > 3:  # pairs of labels
            raise KeyboardInterrupt
        return grow(self, panel, residuals, random)

    monkeypatch.setattr(Gradient, "grow", interrupted_the_second_time)
    crf = ChainCRF(edges=EdgeCliques("rbf"), random_state=0, rank=60, basis="gradient")
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        crf.fit(X, y)
    assert crf.basis_["node"].rank == len(crf.coef_["node"])
    assert crf.certify(X, y).value == pytest.approx(crf.solution_.value, rel=1e-9)


def test_an_interrupt_before_the_first_estimate_is_passed_on():
    def kernel(a, b):
        raise KeyboardInterrupt

    crf = ChainCRF(kernel)
    with pytest.raises(KeyboardInterrupt):
        crf.fit(X, y)
    assert not hasattr(crf, "field_")


def test_an_interrupt_after_the_last_step_keeps_the_estimate(monkeypatch):
    interrupts = iter([KeyboardInterrupt])
    assess = fitting.assess

    def interrupted_once(*arguments):
        for interrupt in interrupts:
            raise interrupt
        return assess(*arguments)

    monkeypatch.setattr(fitting, "assess", interrupted_once)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        crf = ChainCRF(random_state=0, rank=30).fit(X, y)
    assert crf.solution_.reason == "interrupted"
    assert crf.certificate_.relative_gap <= 1e-3
    assert crf.score(X, y) > 0.7
