"""What a MultiLabelCRF says about input it cannot use."""

import numpy as np
import pytest

from kernelfields import EdgeCliques, MultiLabelCRF
from tests.samples import labelled_instances

X, Y = labelled_instances(30)


def changed(table, row, column, value):
    table = table.astype(float)
    table[row, column] = value
    return table


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "y to be passed"),
        (changed(Y, 3, 1, 2.0), r"got np.float64\(2.0\) in row 3, column 1"),
        (np.full(Y.shape, np.nan), "label 0 is unknown of every instance"),
        (Y[:, 0], r"one dimension. For a single label of two classes use Y.reshape\(-1, 1\)"),
        (np.arange(30) % 3, "Only binary classification"),
        (np.linspace(0, 1, 30), "continuous"),
        (np.array([{"a"}] * 30, dtype=object), "MultiLabelBinarizer"),
        ([["a"], ["a", "b"]] * 15, "MultiLabelBinarizer"),
        (np.array([["yes", "no"]] * 30), "in row 0, column 0"),
        (Y[:-1], "X has 30 instances, Y has 29"),
        (Y[:, :0], r"got shape \(30, 0\)"),
        (np.zeros((30, 2, 2)), r"got shape \(30, 2, 2\)"),
    ],
)
def test_labels_that_are_no_indicator(labels, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelCRF().fit(X, labels)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (changed(X, 2, 1, np.nan), "X holds nan in row 2, column 1: .* in 1 row of X, in columns 1"),
        (changed(X, 2, 1, np.inf), "X holds inf in row 2, column 1: .* Impute or drop"),
        (X[:, 0], "Expected 2D array"),
        (X[:0], "0 sample"),
        (np.array([["a", "b"]] * 30), "could not convert string"),
    ],
)
def test_inputs_that_are_no_table_of_numbers(inputs, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelCRF().fit(inputs, Y)


@pytest.mark.parametrize(
    ("label_graph", "message"),
    [
        ("star", "label_graph must be one of 'auto', 'none', 'tree', 'full'"),
        ([(0, 0)], r"label_graph\[0\] joins label 0 with itself"),
        ([(0, 1), (1, 0)], r"label_graph\[1\] joins labels 0 and 1 again"),
        ([(0, 4)], r"label_graph\[0\] holds 4, but labels are numbered 0 to 3"),
        ([(0, -1)], "holds -1"),
        ([(0, True)], "holds True"),
        ([(0, 1.5)], "holds 1.5"),
        ([(0, "beach")], r"names the label 'beach', but labels are 0, 1, 2, 3"),
        ([(0, 1, 2)], r"label_graph\[0\] is \(0, 1, 2\), expected a pair"),
        (["ab"], "expected a pair"),
    ],
)
def test_label_graphs_that_are_none(label_graph, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelCRF(label_graph=label_graph).fit(X, Y)
    with pytest.raises(TypeError, match="or a list of pairs, got 3"):
        MultiLabelCRF(label_graph=3).fit(X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior_variance": 0.0}, "prior_variance must be a positive number"),
        ({"edges": EdgeCliques(prior_variance=-1.0)}, "prior_variance of edges must be a positive number"),
        (
            {"edges": EdgeCliques(window=3)},
            r"edges of several labels have no window: leave it out",
        ),
        ({"bias_prior_variance": "wide"}, "bias_prior_variance must be a positive number"),
        ({"decision": "f2"}, "decision must be one of 'auto', 'f1', 'hamming', 'subset', got 'f2'"),
        ({"tol": 0.0}, "tol must be a positive"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"rank": 0}, "rank must be"),
        ({"solver": "magic"}, "solver must be"),
        ({"dtype": "int8"}, "dtype must be"),
        ({"inference": "magic"}, "method must be one of"),
        ({"inference": "tree", "label_graph": "full"}, "cycle"),
        ({"inference": "trw", "solver": "newton-cg"}, "approximate: use solver='lbfgs'"),
        ({"kernel": "rbff"}, "rbff"),
    ],
)
def test_parameters_that_cannot_be_used(settings, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelCRF(**settings).fit(X, Y)


def test_new_data_must_look_like_the_training_data():
    crf = MultiLabelCRF(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but MultiLabelCRF is expecting 3 features"):
        crf.predict(X[:, :2])
    with pytest.raises(ValueError, match="Y has 3 columns, but this model was fitted with 4 labels"):
        crf.log_likelihood(X, Y[:, :3])
    with pytest.raises(ValueError, match="scope must be 'rkhs' or 'span'"):
        crf.certify(X, Y, scope="moon")
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        crf.sample(X, 0)
    with pytest.raises(ValueError, match="one number per instance, 30 here"):
        crf.fit(X, Y, sample_weight=np.ones(29))
