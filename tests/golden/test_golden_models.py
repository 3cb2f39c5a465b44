"""Files of every format since the third load, and answer as the version that wrote them did.

Answers are compared to nine digits, as processors and libraries of linear algebra round differently;
``python -m benchmarks.old_and_new --answers`` compares two checkouts on one machine bit for bit.
"""

import numpy as np
import pytest

import kernelfields
from kernelfields import ChainCRF, GraphCRF, save
from kernelfields.formats import ModelFileError
from kernelfields.models.documents import rebuild_estimator
from kernelfields.serving import ServingError, load_chain
from tests.golden.models import FOLDER, MODELS

# What a fit no longer takes, such as weights of classes, changes no answer.
GONE = pytest.mark.filterwarnings("ignore:[A-Za-z]+ no longer has the parameter")


@GONE
@pytest.mark.parametrize("name", MODELS)
def test_an_old_file_answers_as_it_did(name):
    golden = MODELS[name]
    answers = golden.answers(golden.load(name))
    with np.load(FOLDER / f"{name}.npz") as written:
        expected = dict(written)
    assert set(answers) == set(expected)
    for asked, values in expected.items():
        found = np.asarray(answers[asked])
        assert found.shape == values.shape, asked
        if values.dtype.kind == "f":
            np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-12, err_msg=asked)
        else:
            np.testing.assert_array_equal(found, values, err_msg=asked)


@GONE
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_an_old_file_is_written_again_with_the_same_answers(name, tmp_path):
    golden = MODELS[name]
    loaded = golden.load(name)
    save(loaded, tmp_path / f"{name}.kfm")
    before, after = golden.answers(loaded), golden.answers(golden.load(name, tmp_path))
    for asked, values in before.items():
        np.testing.assert_array_equal(after[asked], values, err_msg=asked)


def test_a_parameter_that_is_gone_is_named():
    with pytest.warns(UserWarning, match=r"ChainCRF no longer has the parameter class_weight, .*'O', 0\.5"):
        MODELS["chain-dicts-observed"].load("chain-dicts-observed")


def test_models_of_retired_kinds_are_refused_with_what_replaces_them():
    clusters, message = FOLDER.parent / "retired" / "clusters.kfm", "no longer has: cluster with scikit-learn"
    for load in (kernelfields.load, ChainCRF.load):
        with pytest.raises(ModelFileError, match=f"holds a FieldClustering, which kernelfields {message}"):
            load(clusters)
    with pytest.raises(ServingError, match=message):
        load_chain(clusters)


@pytest.mark.parametrize(
    ("name", "kernel", "example"),
    [
        ("manifold", "manifold", "Two labels are enough"),
        ("graph-laplacian", "graph laplacian", "Papers that cite each other"),
    ],
)
def test_models_with_retired_kernels_are_refused_with_what_replaces_them(name, kernel, example):
    path = FOLDER.parent / "retired" / f"{name}.kfm"
    message = f"no longer has the kernel '{kernel}': .*Precomputed.*'{example}'"
    with pytest.raises(ModelFileError, match=message):
        kernelfields.load(path)
    with pytest.raises(ServingError, match=message):
        load_chain(path)


def test_models_with_means_over_segments_are_refused():
    with pytest.raises(ModelFileError, match="no longer has the setting 'segment cliques': means over segments"):
        kernelfields.load(FOLDER.parent / "retired" / "segment-means.kfm")


def test_older_files_name_parameters_of_edges_one_by_one():
    sequences, several, graph = (
        MODELS[name].load(name) for name in ("sequence-classes", "multilabel-full", "graph-types")
    )
    assert sequences.edges is None
    assert repr(several.edges) == "EdgeCliques(prior_variance=10.0)"
    assert repr(graph.edges) == "GraphFactors(kernel='auto', symmetric=True)"


def test_parameters_by_type_of_edges_in_older_files_are_a_set_for_each():
    described = {"edge_kernel": {"as": "dict", "items": [["down", None]]}, "edge_prior_variance": 2.0}
    described |= {"symmetric": {"as": "dict", "items": [["right", True]]}}
    found = rebuild_estimator(GraphCRF, described, {}).edges
    assert {name: repr(edges) for name, edges in found.items()} == {
        "down": "GraphFactors(prior_variance=2.0)",
        "right": "GraphFactors(kernel='auto', prior_variance=2.0, symmetric=True)",
    }
