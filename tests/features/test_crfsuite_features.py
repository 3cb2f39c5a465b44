"""python-crfsuite's own reading of feature dicts and feature strings is ours."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelfields.data.chunks import iterate_features
from kernelfields.data.dicts import FeatureDictEncoder

pycrfsuite = pytest.importorskip("pycrfsuite")

# A name ends at "\0" there, and half a surrogate pair is an error.
TEXT = st.text(st.sampled_from("abc:=\\[]é日 \t\n.1"), max_size=12)
NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(-9, 9, width=32).map(np.float32),
    st.integers(0, 9).map(np.int16),
    st.booleans().map(np.bool_),
    st.floats(-9, 9).map(np.array),
    st.fractions(-3, 3),
    st.decimals(-3, 3, allow_nan=False),
)
VALUE = st.recursive(
    st.one_of(TEXT, NUMBER, TEXT.map(str.encode), TEXT.map(np.str_)),
    lambda inner: st.one_of(
        st.dictionaries(TEXT, inner, max_size=3),
        st.lists(TEXT, max_size=3, unique=True),
        st.sets(TEXT, max_size=3),
        st.lists(TEXT.map(str.encode), max_size=2, unique=True),
    ),
    max_leaves=6,
)
POSITION = st.one_of(
    st.dictionaries(st.one_of(TEXT, TEXT.map(np.str_)), VALUE, max_size=5),
    st.lists(TEXT, max_size=5, unique=True),
    st.lists(TEXT, max_size=5, unique=True).map(tuple),
    st.frozensets(TEXT, max_size=5),
    st.dictionaries(TEXT, st.none(), max_size=3).map(dict.keys),
    st.lists(TEXT, min_size=1, max_size=5, unique=True).map(np.array),
)


def theirs(positions):
    return pycrfsuite.ItemSequence(positions).items()


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(POSITION)
def test_names_and_weights_of_a_position(position):
    pairs = list(iterate_features(position))
    # ``items`` shows only the last of equal names, though CRFsuite adds them up.
    assume(len(dict(pairs)) == len(pairs))
    assert dict(pairs) == theirs([position])[0]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(POSITION, min_size=1, max_size=4), min_size=1, max_size=4))
def test_rows_of_the_encoder(X):
    positions = [position for sequence in X for position in sequence]
    pairs = [list(iterate_features(position)) for position in positions]
    assume(any(pairs) and all(len(dict(each)) == len(each) for each in pairs))
    encoder = FeatureDictEncoder(keep_zeros=True)
    packed, _ = encoder.fit_transform(X)
    names = np.array(encoder.feature_names_, dtype=object)
    rows = zip(packed.indptr[:-1], packed.indptr[1:], strict=True)
    ours = [dict(zip(names[packed.indices[a:b]], packed.data[a:b], strict=True)) for a, b in rows]
    assert ours == [items for sequence in X for items in theirs(sequence)]


def train(path, X, y):
    trainer = pycrfsuite.Trainer(verbose=False)
    for sequence, labels in zip(X, y, strict=True):
        trainer.append(sequence, labels)
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return trainer.logparser.featgen_num_features, tagger


def test_equal_names_add_up(tmp_path):
    X = [[{"f": 2.0, "h": 0.5}, ["g"], ["h", "f", "f"]], [["g", "g"], ["f"]]]
    y = [["A", "B", "A"], ["B", "A"]]
    _, tagger = train(tmp_path / "model", X, y)
    encoder = FeatureDictEncoder()
    packed, offsets = encoder.fit_transform(X)
    rows = [dict(zip(encoder.feature_names_, row, strict=True)) for row in packed.toarray().tolist()]
    for start, stop, sequence in zip(offsets[:-1], offsets[1:], X, strict=True):
        marginals = []
        for given_positions in (sequence, rows[start:stop]):
            tagger.set(given_positions)
            marginals.append([tagger.marginal("A", t) for t in range(stop - start)])
        np.testing.assert_allclose(marginals[0], marginals[1], rtol=1e-12)
        assert np.ptp(marginals[0]) > 0.1


def test_kept_zeros_make_the_pairs_that_crfsuite_counts(tmp_path):
    X = [[{"up": False, "w": "a"}, {"up": True, "w": "b"}, {"up": 0, "w": "a"}], [{"up": False, "n": 0.0}, ["up"]]]
    y = [["A", "B", "C"], ["A", "B"]]
    n_features, _ = train(tmp_path / "model", X, y)
    transitions = {("A", "B"), ("B", "C")}
    labels = np.array([label for each in y for label in each])

    def n_pairs(keep_zeros):
        packed, _ = FeatureDictEncoder(keep_zeros=keep_zeros).fit_transform(X)
        return len(set(zip(packed.indices.tolist(), np.repeat(labels, np.diff(packed.indptr)), strict=True)))

    assert n_pairs(keep_zeros=True) == n_features - len(transitions)
    assert n_pairs(keep_zeros=False) == n_pairs(keep_zeros=True) - 3
