"""The data sets: all of them in each form, the same from the same seed, with their sources and licences."""

import inspect
import re
from importlib.resources import files

import numpy as np
import pytest

from kernelfields import AnnotatedCRF, ChainCRF, GraphCRF, PartialLabels, datasets

NAMES = datasets.__all__
LOADED = [name for name in NAMES if name.startswith("load_")]
MADE = [name for name in NAMES if name.startswith("make_")]


def arguments(name):
    return {"random_state": 0} if name in MADE else {}


def test_every_name_loads_or_makes():
    assert sorted(LOADED + MADE) == sorted(NAMES)
    assert len(LOADED) >= 7


@pytest.mark.parametrize("name", NAMES)
def test_a_bunch_says_what_it_is(name):
    function = getattr(datasets, name)
    found = function(**arguments(name))
    X, y = function(**arguments(name), return_X_y=True)
    assert inspect.getdoc(function) == found.DESCR
    assert repr(found.data) == repr(X)
    assert repr(found.target) == repr(y)
    labels = y if isinstance(y, dict) else {"": y}
    for own in labels.values():
        assert len(own) == (X.shape[0] if isinstance(X, np.ndarray) else len(X))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "as_frame" in inspect.signature(getattr(datasets, name)).parameters]
)
def test_frames_have_a_row_for_each_position(name):
    pytest.importorskip("pandas")
    function = getattr(datasets, name)
    found = function(**arguments(name), as_frame=True)
    _, y = function(**arguments(name), return_X_y=True)
    lengths = [len(own) if np.ndim(own) else 1 for own in y] if name != "make_multilabel" else [1] * len(y)
    assert len(found.frame) == sum(lengths)
    data, target = function(**arguments(name), as_frame=True, return_X_y=True)
    assert data.equals(found.data)
    assert target.equals(found.target)
    assert not set(np.ravel(data.columns)) & set(target.columns if target.ndim == 2 else [target.name])
    if name != "make_multilabel":
        np.testing.assert_array_equal(target.to_numpy(), np.concatenate([np.asarray(own) for own in y]))


@pytest.mark.parametrize("name", MADE)
def test_a_seed_makes_the_same_set_again(name):
    function = getattr(datasets, name)
    first, again, other = (repr(function(random_state=seed, return_X_y=True)) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    described = " ".join(function.__doc__.split())
    assert "The set is made: it has no source" in described or "Source of the pictures: " in described


@pytest.mark.parametrize("name", LOADED)
def test_what_is_loaded_names_source_and_licence(name):
    described = inspect.getdoc(getattr(datasets, name))
    assert re.search(r"Source: \S+", described)
    assert re.search(r"Licence: \S+", described)


def test_every_file_has_its_licence_and_all_are_small():
    folder = files("kernelfields.datasets").joinpath("files")
    sizes = {file.name: len(file.read_bytes()) for file in folder.iterdir() if file.name != "LICENCES.txt"}
    licences = folder.joinpath("LICENCES.txt").read_text(encoding="utf-8")
    assert all(re.search(rf"^{re.escape(name)} ", licences, re.MULTILINE) for name in sizes)
    assert sum(sizes.values()) < 1_500_000


def test_a_wrong_name_is_answered_by_one_line():
    with pytest.raises(AttributeError, match="there is no data set 'load_iris': there are load_abstracts, ") as raised:
        _ = datasets.load_iris
    assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(ValueError, match="n_sentences must be a whole number above 0, got 0"):
        datasets.make_entities(0)


def test_spans_of_words_are_those_of_their_names():
    X, y = datasets.make_entities(200, random_state=1, return_X_y=True)
    assert all(len(words) == len(labels) for words, labels in zip(X, y, strict=True))
    people = {
        word
        for words, labels in zip(X, y, strict=True)
        for word, own in zip(words, labels, strict=True)
        if own == "B-PER"
    }
    places = {
        word
        for words, labels in zip(X, y, strict=True)
        for word, own in zip(words, labels, strict=True)
        if own == "B-LOC"
    }
    assert {"Milan", "Austin"} <= people & places


def test_the_sets_fit_their_estimators():
    X, y = datasets.make_entities(60, random_state=0, return_X_y=True)
    assert ChainCRF("linear", prior_variance=1.0).fit(X, y).score(X, y) > 0.9
    X, y = datasets.make_trees(10, random_state=0, return_X_y=True)
    assert GraphCRF("linear", prior_variance=1.0).fit(X, y).score(X, y) > 0.7
    made = datasets.make_annotated(20, random_state=0)
    assert AnnotatedCRF(ChainCRF("linear", prior_variance=1.0)).fit(made.data, made.target).reliability()
    pages = datasets.load_webpages()
    partly = [[label if known else None for label, known in zip(pages.target[0], pages.train, strict=True)]]
    crf = GraphCRF("linear", prior_variance=0.1, partial_labels=PartialLabels(), inference="mean-field")
    crf.fit([(pages.data[0][0], [])], partly)
    right = np.array(crf.predict([(pages.data[0][0], [])])[0]) == pages.target[0]
    assert right[~pages.train].mean() > 0.7
