"""Groups of data frames and tensors that NumPy cannot read: what to pass instead, and that it works."""

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF
from tests.samples import labelled_sequences

X, y = labelled_sequences()


def refused(X, y, match):
    with pytest.raises(TypeError, match=match):
        ChainCRF("linear").fit(X, y)


def marginals(crf, X):
    return np.concatenate(crf.predict_marginals(X))


def test_groups_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    df = pandas.DataFrame(np.concatenate(X), columns=["a", "b", "c"])
    df["sequence"], df["label"] = np.repeat(np.arange(len(X)), [len(x) for x in X]), np.concatenate(y)
    groups, features = df.groupby("sequence"), ["a", "b", "c"]
    refused(groups, y, r"X is a DataFrameGroupBy: pass a list with one table .* X is \[group\[features\] for _, group")
    refused(groups[features], y, "X is a DataFrameGroupBy")
    refused(groups["a"], y, "X is a SeriesGroupBy")
    refused(X, groups["label"], r"y is a SeriesGroupBy: .* y is \[group\['label'\] for _, group in groups\]")
    inputs, labels = [group[features] for _, group in groups], [group["label"] for _, group in groups]
    crf = ChainCRF("linear").fit(inputs, labels)
    np.testing.assert_array_equal(marginals(crf, inputs), marginals(ChainCRF("linear").fit(X, y), X))
    with pytest.raises(TypeError, match="X is a DataFrameGroupBy"):
        crf.predict(groups)


@pytest.fixture
def tensors():
    torch = pytest.importorskip("torch")
    return torch, [torch.as_tensor(x) for x in X]


def test_packed_and_nested_tensors(tensors):
    torch, parts = tensors
    packed = torch.nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
    refused(packed, y, r"X is a PackedSequence of torch: pass the list torch\..*\.unpack_sequence\(packed\)")
    refused([packed], y[:1], "sequence 0 is a PackedSequence")
    refused(X, packed, "y is a PackedSequence")
    unpacked = torch.nn.utils.rnn.unpack_sequence(packed)
    np.testing.assert_array_equal(
        marginals(ChainCRF("linear").fit(unpacked, y), X), marginals(ChainCRF("linear").fit(X, y), X)
    )
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    refused(nested, y, r"X is a nested tensor: pass the list of its parts, list\(x\.unbind\(\)\)")
    assert ChainCRF("linear").fit(list(nested.unbind()), y).n_features_in_ == 3


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        (lambda x: x.bfloat16(), r"a tensor of torch\.bfloat16, which NumPy does not know: pass x\.float\(\)"),
        (lambda x: x.to_sparse(), r"a sparse tensor: pass x\.to_dense\(\), or a matrix of scipy\.sparse"),
        (lambda x: x.clone().requires_grad_(), r"a tensor that requires its gradient, .*: x\.detach\(\)"),
        (lambda x: x.to("meta"), r"a tensor on the device 'meta': pass x\.cpu\(\)"),
    ],
    ids=["bfloat16", "sparse", "gradient", "device"],
)
def test_tensors_that_numpy_cannot_read(tensors, change, advice):
    _, parts = tensors
    refused([X[0], change(parts[1]), *X[2:]], y, f"sequence 1 is {advice}")
    labels = [change(part[:, 0].double()) for part in parts]
    refused(X, labels, f"sequence 0 of y is {advice}")
    with pytest.raises(TypeError, match=f"node_features of graph 0 is {advice}"):
        GraphCRF("linear").fit([(change(parts[0]), [])], y[:1])
    with pytest.raises(TypeError, match=f"edges of graph 0 is {advice}"):
        GraphCRF("linear").fit([(X[0], change(parts[0][:, :2].double()))], y[:1])
