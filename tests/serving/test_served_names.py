"""Names are found where they stand in a long list, whatever letters they have."""

import numpy as np
import pytest

from kernelfields import ChainCRF
from kernelfields.models.model_file import write_model
from kernelfields.serving import ServingError, load_chain

STRANGE = [
    "",
    "a",
    "eight bt",
    "eight bte",
    'with "quotes"',
    'ends in a quote"',
    '", "',
    'x", ',
    "back\\slash",
    "ends in one\\",
    "été",
    "字",
    "\0zero",
    "\ud800",
    "a, b",
    "12345678" * 9,
    "12345678" * 8 + "12345679",
]


@pytest.mark.parametrize("n_more", [0, 1000])
def test_every_name_has_its_column(tmp_path, n_more):
    """Short lists of names are in the text of a model file, long ones in a tensor."""
    names = [*STRANGE, *(f"name{number}" for number in range(n_more))]
    X = [[[name] for name in names]]
    model = ChainCRF("linear", prior_variance=1.0, tol=0.1).fit(X, [np.arange(len(names)) % 3])
    model.save(tmp_path / "model")
    inputs = load_chain(tmp_path / "model").inputs
    order = model.feature_names_in_.tolist()
    encoded = inputs.encoded([[name] for name in order])
    assert encoded["indices"].tolist() == list(range(len(names)))
    assert encoded["values"].tolist() == [1.0] * len(names)
    unknown = inputs.encoded([["never seen", "eight bx", '"', "\\"], [order[1], order[0]]])
    assert unknown["indptr"].tolist() == [0, 0, 2]
    assert unknown["indices"].tolist() == [0, 1]


def test_names_of_another_number_than_the_features_are_refused(tmp_path):
    model = ChainCRF("linear", prior_variance=1.0).fit([[["a"], ["b"]]], [["x", "y"]])
    document = model.to_document()
    document["inputs"]["feature_names"] = ["a", "b", "c"]
    write_model(tmp_path / "model", "ChainCRF", document, {})
    with pytest.raises(ServingError, match="names of the features do not match their number"):
        load_chain(tmp_path / "model")
