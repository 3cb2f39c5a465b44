"""Model files with damage that passes their checksum: refused when they are loaded, or sound; a slice of the campaign.

``python -m tests.campaigns.fuzz`` runs as many cases as there is time for.
"""

import numpy as np
import pytest

from kernelfields import ChainCRF, ExponentialFamilyDensity, KernelClassifier
from kernelfields.formats import ModelFileError, read_model, write_model
from kernelfields.kernels.registry import kernel_from_spec
from tests.campaigns.fuzz import make_target
from tests.campaigns.fuzzing.campaign import make_case
from tests.campaigns.fuzzing.model_files import KINDS
from tests.campaigns.fuzzing.verdicts import FAILED, REFUSED, SOUND, judge
from tests.samples import labelled_sequences

X, Y = labelled_sequences()
ROWS, LABELS = np.concatenate(X), np.concatenate(Y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_refused_or_sound(kind):
    target = make_target(kind)
    target.prepare()
    verdicts = [judge(make_case(target, 0, number)) for number in range(40)]
    assert not [verdict.reason for verdict in verdicts if verdict.kind == FAILED]
    assert {REFUSED, SOUND} <= {verdict.kind for verdict in verdicts}


def changed(path, kind, place, value):
    """Write a model with one value of its document changed, by a function of it or to a value."""
    document, _ = read_model(path, kind)
    holder = document
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value(holder[place[-1]]) if callable(value) else value
    write_model(path, kind, document, {})


def spoilt(number):
    """A function that puts a number into an array."""

    def spoil(array):
        array = np.array(array)
        array.reshape(-1)[0] = number
        return array

    return spoil


@pytest.fixture
def chain(tmp_path):
    crf = ChainCRF("rbf", rank=5, constraints=(), random_state=0).fit(X, Y)
    crf.laplace(X, Y, n_samples=4, random_state=0)
    crf.save(tmp_path / "chain")
    return tmp_path / "chain"


def kernel_nested(levels):
    """The description of a kernel inside so many others."""
    spec = {"kind": "rbf", "gamma": 1.0}
    for _ in range(levels):
        spec = {"kind": "scaled", "factor": 1.0, "kernel": spec}
    return spec


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("terms", 0, "coefficients"), spoilt(np.nan), "coefficients of set 'node' must be finite"),
        (("terms", 0, "coefficients"), lambda array: array.astype(np.float16), "single or double precision"),
        (("terms", 0, "label_factor"), spoilt(np.inf), "label factor of set 'node' must be finite"),
        (("terms", 0, "label_factor"), lambda array: array[:2], "label factor of set 'node' has the shape"),
        (("terms", 0, "subspace"), -1, "basis of set 'node' must be a whole number"),
        (("terms", 0, "cliques", "parameters", "prior_variance"), -1.0, "prior_variance must be a positive number"),
        (("terms", 1, "name"), "node", "the same name"),
        (("terms", 1, "cliques", "as"), "no such set", "no such set"),
        (("subspaces", 0, "pivots"), spoilt(np.nan), "pivots of a basis must be finite"),
        (("subspaces", 0, "factor"), spoilt(0.0), "positive diagonal"),
        (("subspaces", 0, "indices"), lambda array: array.astype(float), "array of whole numbers"),
        (("subspaces", 0, "kernel"), kernel_nested(150) | {"factor": -1.0}, "factor must be"),
        (("subspaces", 0, "kernel"), kernel_nested(230), "nested deeper than 200"),
        (("structure", "masks", "edge"), lambda mask: mask + np.nan, "must hold 0 and -inf only"),
        (("structure", "masks", "label"), lambda mask: mask - np.inf, "forbid every label"),
        (("classes",), np.zeros((3, 2)), "two or more sorted labels"),
        (("certificates", 0, "value"), np.array([1.0]), "value of a certificate is"),
        (("certificates", 0, "value"), np.inf, "a certificate has the value inf"),
        (("certificates", 1, "lower_bound"), np.nan, "lower_bound of a certificate is not a number"),
        (("certificates", 0, "scope"), [], "scope of a certificate is"),
        (("solution", "value"), np.array([1.0]), "value of the solution is"),
        (("solution", "reason"), "luck", "unknown reason 'luck'"),
        (("solution", "history", 0, "seconds"), "long", "seconds of an iteration"),
        (("solution", "gap_parts"), [1.0], "gap_parts of the solution"),
        (("laplace", "samples", 0), spoilt(np.nan), "samples of set 'node' must be finite"),
        (("laplace", "samples", 1), lambda array: array[:2], "samples of set 'edge' has the shape"),
        (("laplace", "root", 0), spoilt(np.inf), "covariance of set 'node' must be finite"),
        (("laplace", "root", 0), lambda array: array[:, :2], "covariance of set 'node' has the shape"),
        (("laplace", "root"), None, "there in part only"),
        (("laplace", "method"), "luck", "unknown method 'luck'"),
        (("laplace", "left_out"), lambda variances: [np.inf] * 2, "variances that the bases leave out"),
        (("laplace", "left_out"), lambda variances: [0.0], "variances that the bases leave out"),
        (("laplace", "seed"), -1, "seed of the samples"),
        (("laplace", "evidence", "value"), None, "value of the evidence"),
        (("parameters", "rank"), {"as": "list", "items": []}, "rank is \\[\\]"),
        (("parameters", "engine"), "steam", "engine must be one of"),
        (("inputs", "n_features"), np.inf, "infinity"),
    ],
)
def test_what_is_wrong_in_a_chain_is_named(chain, place, value, message):
    changed(chain, "ChainCRF", place, value)
    with pytest.raises(ModelFileError, match=f"chain is not a sound ChainCRF model: .*{message}"):
        ChainCRF.load(chain)


@pytest.mark.parametrize("order", [20, 63, 10**15])
def test_sizes_beyond_all_tables_are_refused_at_once(chain, order):
    clique = {"as": "order cliques", "parameters": {"order": order}}
    changed(chain, "ChainCRF", ("terms", 1, "cliques"), clique)
    with pytest.raises(ModelFileError, match="too many labellings for a table"):
        ChainCRF.load(chain)


def test_deep_documents_are_refused(chain):
    value: list = []
    for _ in range(300):
        value = [value]
    changed(chain, "ChainCRF", ("parameters", "constraints"), {"as": "list", "items": value})
    with pytest.raises(ModelFileError):
        ChainCRF.load(chain)


def test_windows_of_single_instances_are_refused(tmp_path):
    KernelClassifier("linear", random_state=0).fit(ROWS, LABELS).save(tmp_path / "model")
    changed(tmp_path / "model", "KernelClassifier", ("terms", 0, "cliques", "parameters", "window"), 3)
    with pytest.raises(ModelFileError, match="windows are for sequences"):
        KernelClassifier.load(tmp_path / "model")


@pytest.fixture
def density(tmp_path):
    model = ExponentialFamilyDensity("rbf", rank=5, base_measure="gaussian", random_state=0).fit(ROWS[:, :2])
    model.save(tmp_path / "density")
    return tmp_path / "density"


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("coefficients",), spoilt(np.nan), "coefficients must be finite"),
        (("log_partition",), lambda number: number + 1.0, "log partition is .* where the coefficients give"),
        (("log_partition_error",), np.nan, "log partition is"),
        (("box",), spoilt(np.inf), "box must be finite"),
        (("box",), lambda box: box[:, ::-1].copy(), "positive width"),
        (("measure", "mean"), spoilt(np.inf), "base measure is not finite"),
        (("measure", "mean"), spoilt(1e9), "no mass in the box"),
        (("quadrature", "size"), 10**9, "too many nodes"),
        (("quadrature", "size"), 2.5, "size of the quadrature"),
        (("quadrature", "kind"), "guess", "is none"),
        (("certificate", "value"), "1", "value of a certificate"),
        (("n_iter",), -1, "number of iterations"),
        (("parameters", "tol"), -1.0, "tol must be a positive"),
        (("feature_names",), ["one"], "names of features do not fit the box"),
    ],
)
def test_what_is_wrong_in_a_density_is_named(density, place, value, message):
    changed(density, "ExponentialFamilyDensity", place, value)
    with pytest.raises(ModelFileError, match=f"not a sound ExponentialFamilyDensity model: .*{message}"):
        ExponentialFamilyDensity.load(density)


def test_kernels_of_too_many_parts_are_refused():
    def tree(levels):
        inner = {"kind": "rbf", "gamma": 1.0} if levels == 0 else tree(levels - 1)
        return {"kind": "sum", "left": inner, "right": inner}

    with pytest.raises(ValueError, match="more than 1000 others"):
        kernel_from_spec(tree(10))
