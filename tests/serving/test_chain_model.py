"""Chains served with NumPy alone answer as the library does, whatever they were fitted on."""

import numpy as np
import pytest
import scipy.sparse
from served_models import DICTS, MODELS, WORDS, X, Y, fitted, inputs_of

from kernelfields import ChainCRF, EdgeCliques, KernelClassifier, PartialLabels
from kernelfields.inference.chain.plain import Chains, best_labels, infer
from kernelfields.kernels import RBF
from kernelfields.serving import ServingError, load_chain
from tests.samples import chain_potentials


def same_labels(ours, theirs):
    return all(type(one) is type(other) and np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_library(name):
    model, path = fitted(name)
    served, sequences = load_chain(path), inputs_of(name)
    # Kernel values of float32 inputs have 24 bits, and dual coefficients enlarge what is rounded.
    tolerance = 1e-4 if "float32" in name else 1e-7
    for decode in (None, "viterbi", "posterior"):
        assert same_labels(served.predict(sequences, decode), model.predict(sequences, decode))
    nodes, edges = served.predict_marginals(sequences, "edge")
    expected_nodes, expected_edges = model.predict_marginals(sequences, "edge")
    for ours, theirs in zip([*nodes, *edges], [*expected_nodes, *expected_edges], strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
    expected = np.concatenate([answers.log_partition for answers in model.answers(sequences)])
    np.testing.assert_allclose(served.log_partition(sequences), expected, rtol=tolerance)


def tied_field(kernel, random):
    """Return a field in which labels "c" and "d", which no sequence has, score the same, and "a" and "b" less."""
    inputs = [random.normal(size=(int(random.integers(1, 30)), 2)) for _ in range(8)]
    labels = [np.where(x[:, 0] > 0, "a", "b") for x in inputs]
    partial = PartialLabels(classes=["a", "b", "c", "d"])
    model = ChainCRF(kernel, partial_labels=partial, edges=EdgeCliques(kernel, rank=4), prior_variance=1.0)
    model.fit(inputs, labels)
    for term in model.field_.terms:
        term.coefficients[...] = -np.abs(term.coefficients)
    model._set_views()
    return model


@pytest.mark.parametrize("kernel", ["linear", RBF(0.5)])
def test_ties_go_to_the_lowest_label_on_every_road(kernel, tmp_path):
    """Rounding differs between a batch, one sequence, a stream, a device and a reader: it decides nothing."""
    random = np.random.default_rng(0)
    model = tied_field(kernel, random)
    new = [random.normal(size=(int(random.integers(1, 60)), 2)) for _ in range(8)]
    model.save(tmp_path / "model")
    served = load_chain(tmp_path / "model")
    for decode in ("viterbi", "posterior"):
        together = model.predict(new, decode)
        assert not any("d" in labels for labels in together)
        assert any("c" in labels for labels in together)
        assert same_labels(served.predict(new, decode), together)
        assert same_labels([model.predict([x], decode)[0] for x in new], together)
        for x, labels in zip(new, together, strict=True):
            stream = model.stream(np.inf, decode=decode)
            assert [label for row in x for label in stream.push(row).labels] + list(stream.end().labels) == labels


@pytest.mark.parametrize("name", ["rbf", "spelled out", "dicts", "sparse", "dictionary"])
def test_sequences_without_positions_have_empty_answers(name):
    model, path = fitted(name)
    first = inputs_of(name)[0]
    served, asked = load_chain(path), [first, first[:0], first]
    assert same_labels(served.predict(asked), model.predict(asked))
    for own, other in zip(served.predict_marginals(asked, "edge"), model.predict_marginals(asked, "edge"), strict=True):
        assert [rows.shape for rows in own] == [rows.shape for rows in other]
    assert served.log_partition(asked)[1] == 0.0
    assert len(served.predict([first[:0]])[0]) == 0


@pytest.mark.parametrize("inputs", [np.concatenate(X[:2]), scipy.sparse.csr_array(np.concatenate(X[:2]))])
@pytest.mark.parametrize("labels", [np.concatenate(Y[:2]), np.concatenate(WORDS[:2])])
def test_a_classifier_answers_for_the_rows_of_a_table(inputs, labels, tmp_path):
    classifier = KernelClassifier("linear", prior_variance=1.0).fit(inputs, labels)
    classifier.save(tmp_path / "model")
    served = load_chain(tmp_path / "model")
    assert same_labels([served.predict(inputs)], [classifier.predict(inputs)])
    np.testing.assert_allclose(served.predict_marginals(inputs), classifier.predict_proba(inputs), rtol=0, atol=1e-9)
    scores = classifier.decision_function(inputs)
    np.testing.assert_allclose(served.log_partition(inputs), np.logaddexp.reduce(scores, axis=1), rtol=1e-9)
    assert served.predict(inputs[:0]).shape == (0,)
    with pytest.raises(ValueError, match="the labels of rows do not meet"):
        served.predict_marginals(inputs, cliques="edge")


def test_a_classifier_refuses_what_is_no_table(tmp_path):
    KernelClassifier("linear", prior_variance=1.0).fit(X[0], Y[0]).save(tmp_path / "model")
    served = load_chain(tmp_path / "model")
    for given in ([X[0]], X[0][0]):
        with pytest.raises(ValueError, match=r"X has the shape .*, and this model needs \(rows, 4\)"):
            served.predict(given)


def test_many_sequences_in_small_batches(monkeypatch):
    """Batches, runs of kernel rows and groups of sequences are cut where sequences, or rows, end."""
    from kernelfields.inference.chain import plain
    from kernelfields.numerics import sparse_rows
    from kernelfields.serving import chain_model

    _, path = fitted("strings, rbf")
    sequences = inputs_of("strings, rbf")
    served = load_chain(path)
    whole = served.predict_marginals(sequences)
    for module in (chain_model, plain, sparse_rows):
        monkeypatch.setattr(module, "_AT_ONCE", 40)
    parts = load_chain(path).predict_marginals(sequences)
    for ours, theirs in zip(parts, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("spread", [1.0, 1000.0])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_passes_are_those_of_inference(spread, tied, forbidden):
    from kernelfields.inference.chain.decoding import viterbi
    from tests.arrays import infer_chains

    node, edge, offsets = chain_potentials(np.random.default_rng(0), 4, spread, tied=tied)
    # A path that is always open, whatever else is forbidden.
    forbid = np.random.default_rng(1).random((len(node), 3)) < forbidden
    node[:, 1:][forbid] = -np.inf
    edge[:, 1:, 2] = -np.inf if forbidden else edge[:, 1:, 2]
    beliefs, expected = infer(Chains(node, edge, offsets)), infer_chains(node, edge, offsets)
    np.testing.assert_allclose(beliefs.marginals, expected.node_marginals, rtol=0, atol=1e-12)
    np.testing.assert_allclose(beliefs.log_partition, expected.log_partition, rtol=1e-12)
    # Potentials on a grid have ties, which go to the lowest label.
    assert np.array_equal(best_labels(Chains(node, edge, offsets))[0], viterbi(node, edge, offsets)[0])
    coarse, none = np.round(node / spread), np.zeros((1, 4, 4))
    assert np.array_equal(best_labels(Chains(coarse, none, offsets))[0], viterbi(coarse, none, offsets)[0])


def test_a_sequence_without_labellings_is_named():
    node = np.zeros((5, 2))
    node[3] = -np.inf
    chains = Chains(node, np.zeros((1, 2, 2)), np.array([0, 3, 5]))
    for ask in (infer, best_labels):
        with pytest.raises(ValueError, match="sequence 1: every labelling is forbidden"):
            ask(chains)
    # A reader of models has no potentials to look at.
    served = load_chain(fitted("rbf")[1])
    served.masks["label"][:] = -np.inf
    for ask in (served.predict, served.predict_marginals, served.log_partition):
        with pytest.raises(ValueError, match="sequence 0: the constraints leave no labelling"):
            ask(X)


@pytest.mark.parametrize(
    ("name", "sequences", "message"),
    [
        ("rbf", [X[0][:, :2]], r"sequence 0 has the shape .*needs \(positions, 4\)"),
        ("rbf", [X[0], X[1][0]], r"sequence 1 has the shape \(4,\)"),
        ("rbf", DICTS, "fitted on numeric arrays"),
        ("rbf", [np.full((2, 4), np.nan)], "inputs must be finite"),
        ("rbf", [np.full((2, 4), 1e300)], None),
        ("dicts", [[{"size": float("nan")}]], "sequence 0: feature 'size' is nan"),
        ("dicts", [[{"size": np.zeros(2)}]], "sequence 0: feature 'size' is array"),
        ("dicts", [["word"]], "sequence 0: expected a feature dict"),
        ("strings", [[[1, 2]]], "sequence 0: feature name 1 is int, expected a string"),
    ],
)
def test_wrong_inputs_are_named(name, sequences, message):
    served = load_chain(fitted(name)[1])
    if message is None:  # far away from all pivots, and finite
        assert np.isfinite(served.predict_marginals(sequences)[0]).all()
        return
    with pytest.raises((TypeError, ValueError), match=message):
        served.predict(sequences)


def test_an_unknown_decoding_is_named():
    with pytest.raises(ValueError, match="decode must be one of 'auto', 'viterbi', 'posterior', got 'best'"):
        load_chain(fitted("rbf")[1]).predict(X, decode="best")


def test_scores_beyond_numbers_are_refused():
    served = load_chain(fitted("linear and polynomial")[1])
    with pytest.raises(ValueError, match="scores of the inputs are not finite"), np.errstate(all="ignore"):
        served.predict([np.full((2, 4), 1e200)])


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x10" + bytes(7) + b"{}", b"\xff" * 16])
def test_files_that_are_no_models_are_refused(content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ServingError, match="is not a kernelfields model file" if content else "is empty"):
        load_chain(tmp_path / "model")
