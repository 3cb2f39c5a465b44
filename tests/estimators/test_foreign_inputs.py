"""Groups of data frames and tensors that NumPy cannot read: what to pass instead."""

import numpy as np
import pytest

from kernelfields import ChainCRF, GraphCRF, KernelClassifier
from tests.samples import labelled_sequences

X, y = labelled_sequences()


def refused(X, y, match):
    with pytest.raises(TypeError, match=match):
        ChainCRF("linear").fit(X, y)


def marginals(crf, X):
    return np.concatenate(crf.predict_marginals(X))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("name", ["day", "kind", "word"])
def test_columns_that_hold_no_numbers_are_named(library, name):
    package, pandas = pytest.importorskip(library), pytest.importorskip("pandas")
    columns = {"day": pandas.to_datetime(["2020-01-01", "2020-01-02"]), "kind": pandas.Categorical(["a", "b"])}
    table = pandas.DataFrame({"size": [0.0, 1.0], name: columns.get(name, ["the", "cat"])})
    if library != "pandas":
        table = (package if library == "polars" else package.Table).from_pandas(table)
    with pytest.raises(
        ValueError, match=f"column '{name}' of sequence 0 holds .* numbers are needed.* for kernelfields.FrameCRF"
    ):
        ChainCRF("linear").fit([table], [[0, 1]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_groups_are_refused_with_what_to_pass(library):
    package = pytest.importorskip(library)
    table = package.DataFrame({"sequence": [0, 0, 1], "a": [0.0, 1.0, 2.0]})
    groups = table.groupby("sequence") if library == "pandas" else table.group_by("sequence")
    advice = rf"GroupBy of {library}: pass a list with one table .* the table itself to kernelfields\.FrameCRF"
    refused(groups, [[0, 1], [0]], f"X is a .*{advice}")
    refused(X, groups, f"y is a .*{advice}")


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
        (lambda x: x.bfloat16(), r"a tensor of torch\.bfloat16, which NumPy does not have: pass x\.float\(\)"),
        (lambda x: x.to_sparse(), r"a sparse tensor: pass x\.to_dense\(\), or a matrix of scipy\.sparse"),
        (lambda x: x.clone().requires_grad_(), r"a tensor that requires its gradient, .*: x\.detach\(\)"),
        (lambda x: x.to("meta"), r"a tensor on the device 'meta': pass x\.cpu\(\)"),
        (lambda x: (0j + x).conj(), r"a view that PyTorch has yet to compute: pass x\.resolve_conj\(\)"),
    ],
    ids=["bfloat16", "sparse", "gradient", "device", "view"],
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
    with pytest.raises(TypeError, match=f"X is {advice}"):
        KernelClassifier().fit(change(parts[0]), y[0])
