"""Groups of data frames and tensors that NumPy cannot read: what to pass instead, and that it works."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelfields import ChainCRF, GraphCRF, KernelClassifier, Sequencewise
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
    expected = marginals(ChainCRF("linear").fit(X, y), X)
    for inputs, labels in ((groups, groups["label"]), (groups[features], groups["label"]), (groups[features], y)):
        crf = ChainCRF("linear").fit(inputs, labels)
        assert list(crf.feature_names_in_) == features
        # By name, so that labels and other columns may stand beside the features.
        for other in (groups, groups[features], groups[features[::-1]]):
            np.testing.assert_array_equal(marginals(crf, other), expected)
        assert crf.score(groups, groups["label"]) == crf.score(groups, y)
    with pytest.raises(ValueError, match=r"X lacks columns of the fit: 'b'\. It has 'a', 'c'\."):
        crf.predict(groups[["a", "c"]])
    pipeline = make_pipeline(Sequencewise(StandardScaler()), ChainCRF("linear")).fit(groups, groups["label"])
    assert pipeline[0].feature_names_in_.tolist() == features
    assert len(pipeline.predict(groups)) == len(X)


def test_groups_that_hold_the_labels_as_well_have_to_be_chosen_from():
    pandas = pytest.importorskip("pandas")
    df = pandas.DataFrame({"sequence": [0, 0, 1, 1], "a": [0.0, 1.0, 2.0, 3.0], "label": [0, 1, 0, 1]})
    groups = df.groupby("sequence")
    refused(groups, [[0, 1], [0, 1]], r"X are groups of a whole table, labels and all: pass groups\[features\]")
    with pytest.raises(ValueError, match="two dimensions"):
        ChainCRF("linear").fit(groups["a"], groups["label"])


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("name", ["day", "kind", "word"])
def test_columns_that_hold_no_numbers_are_named(library, name):
    package, pandas = pytest.importorskip(library), pytest.importorskip("pandas")
    columns = {"day": pandas.to_datetime(["2020-01-01", "2020-01-02"]), "kind": pandas.Categorical(["a", "b"])}
    table = pandas.DataFrame({"size": [0.0, 1.0], name: columns.get(name, ["the", "cat"])})
    if library != "pandas":
        table = (package if library == "polars" else package.Table).from_pandas(table)
    with pytest.raises(ValueError, match=f"column '{name}' of sequence 0 holds .* numbers are needed.*FrameCRF takes"):
        ChainCRF("linear").fit([table], [[0, 1]])


def test_groups_without_an_order():
    polars = pytest.importorskip("polars")
    refused(
        polars.DataFrame({"sequence": [0, 0, 1], "a": [0.0, 1.0, 2.0]}).group_by("sequence"),
        [[0, 1], [0]],
        "X is a GroupBy of polars, which keeps no order: .* the table itself to kernelfields.FrameCRF",
    )


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
