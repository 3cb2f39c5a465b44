"""FrameCRF: fields on tables of three libraries."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from kernelfields import ChainCRF, FrameCRF, PartialLabels
from tests.features.test_frames import LIBRARIES, table_of, values_of
from tests.samples import labelled_sequences

X, y = labelled_sequences(n_sequences=12)
NAMES = ["a", "b", "c"]
TAGS = np.array(["low", "mid", "top"])[np.concatenate(y)]
COLUMNS = {
    "s": np.repeat([f"s{number}" for number in range(len(X))], [len(x) for x in X]).tolist(),
    **dict(zip(NAMES, np.concatenate(X).T.copy(), strict=True)),
    "sign": np.where(np.concatenate(X)[:, 0] > 0, "plus", "minus").tolist(),
    "tag": TAGS.tolist(),
}
TAGGED = [each.tolist() for each in np.split(TAGS, np.cumsum([len(x) for x in X])[:-1])]


@pytest.fixture(params=LIBRARIES)
def table(request):
    return table_of(request.param, COLUMNS)


def tagger(**settings):
    return FrameCRF(ChainCRF("linear"), sequence="s", label="tag", **settings)


def test_tables_round_trip(table):
    crf = ChainCRF("linear").fit(X, TAGGED)
    field = tagger(features=NAMES).fit(table)
    assert field.feature_names_in_.tolist() == NAMES
    assert field.estimator_.feature_names_in_.tolist() == NAMES
    assert field.n_features_in_ == 3
    assert field.classes_.tolist() == ["low", "mid", "top"]
    assert values_of(field.predict(table)) == np.concatenate(crf.predict(X)).tolist()
    marginals = field.predict_marginals(table)
    assert type(marginals) is type(table)
    np.testing.assert_array_equal(marginals["mid"], np.concatenate(crf.predict_marginals(X))[:, 1])
    assert field.score(table) == field.score(table, COLUMNS["tag"]) == crf.score(X, TAGGED)
    posterior = np.concatenate(crf.predict(X, decode="posterior")).tolist()
    assert values_of(field.predict(table, decode="posterior")) == posterior


def test_words_and_numbers_together(table):
    dicts = [
        {name: float(COLUMNS[name][row]) for name in NAMES} | {"sign": COLUMNS["sign"][row]} for row in range(len(TAGS))
    ]
    ends = np.cumsum([len(x) for x in X])
    sequences = [dicts[end - len(x) : end] for x, end in zip(X, ends, strict=True)]
    field = tagger().fit(table)
    crf = ChainCRF("linear").fit(sequences, TAGGED)
    assert values_of(field.predict(table)) == np.concatenate(crf.predict(sequences)).tolist()
    assert "sign:plus" in field.estimator_.feature_names_in_
    assert field.feature_names_in_.tolist() == [*NAMES, "sign"]


def test_rows_of_a_pandas_table_in_any_order():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(COLUMNS)
    table["time"] = np.arange(len(table))
    shuffled = table.sample(frac=1.0, random_state=0)
    field = tagger(features=NAMES, sort="time")
    predicted = field.fit(shuffled).predict(shuffled)
    assert predicted.index.equals(shuffled.index)
    pandas.testing.assert_series_equal(predicted.sort_index(), tagger(features=NAMES).fit(table).predict(table))


def test_questions_before_the_fit():
    table = table_of("pandas", COLUMNS)
    for ask in (FrameCRF().predict, FrameCRF().predict_marginals, FrameCRF().score):
        with pytest.raises(NotFittedError):
            ask(table)
    assert not hasattr(FrameCRF(), "classes_")


def test_known_labels_of_a_column_are_kept_and_the_others_filled_in():
    pandas = pytest.importorskip("pandas")
    words = ["the", "cat", "sees", "a", "dog"] * 4
    tags = ["DET", "NOUN", "VERB", "DET", "NOUN"] * 4
    ids = [number // 5 for number in range(20)]
    df = pandas.DataFrame({"sequence": ids, "word": words, "label": tags})
    crf = FrameCRF(ChainCRF("linear", prior_variance=1.0)).fit(df)
    half = df.assign(label=["VERB", *[None] * 18, "DET"])
    filled = crf.predict(half, known="label")
    assert (filled.iloc[0], filled.iloc[-1]) == ("VERB", "DET")
    assert filled.iloc[5:15].tolist() == tags[5:15]
    marginals = crf.predict_marginals(half, known=half["label"])
    assert marginals["VERB"].iloc[0] == pytest.approx(1.0)
    partly = df.assign(label=[None if number % 4 == 0 else tag for number, tag in enumerate(tags)])
    with pytest.raises(ValueError, match="has no label in row 0") as refused:
        FrameCRF(ChainCRF("linear", prior_variance=1.0)).fit(partly)
    assert "FrameCRF(ChainCRF(partial_labels=PartialLabels()))" in str(refused.value)
    field = ChainCRF("linear", prior_variance=1.0, partial_labels=PartialLabels())
    for estimator in (field, make_pipeline("passthrough", field)):
        fitted = FrameCRF(estimator).fit(partly)
        assert fitted.classes_.tolist() == ["DET", "NOUN", "VERB"]
        known = np.array([tag is not None for tag in partly["label"]])
        assert fitted.score(partly) == np.mean((fitted.predict(df) == tags)[known])
    for partial in ({"DET", "NOUN"}, {"DET": 0.9, "NOUN": 0.1}):
        several = df.assign(label=[partial, *tags[1:]])
        fitted = FrameCRF(ChainCRF("linear", prior_variance=1.0)).fit(several)
        assert fitted.classes_.tolist() == ["DET", "NOUN", "VERB"]
        assert fitted.predict(df).tolist() == tags
        assert fitted.score(several) == 1.0
