import numpy as np
import pytest

from experiments.prominence import baseline
from experiments.prominence_features import (
    ENGLISH,
    ENGLISH_ENDINGS,
    Lexicon,
    Sentence,
    WordIndicators,
    joined,
    syllables,
    words_of,
)

TOKENS = [
    ("The", "0"),
    ("cat", "1"),
    (",", "NA"),
    ("Quimby", "NA"),
    ("SAT", "2"),
    (".", "NA"),
]


def sentence(text: str, labels: list[int] | None = None) -> Sentence:
    words = text.split()
    blank = [""] * len(words)
    return Sentence(words, blank, [*blank[1:], "."], None, np.array(labels or [0] * len(words)))


TRAINING = [sentence("the cat sat on the mat"), sentence("a dog sat"), sentence("the dog ran to the cat")]


def test_tokens_without_a_label_become_context_and_not_links_of_the_chain():
    chain = words_of(TOKENS, "7_8_9")
    assert chain.words == ["The", "cat", "SAT"]
    assert chain.labels.tolist() == [0, 1, 2]
    assert chain.before == ["", "", ",_"]
    assert chain.after == ["", ",_", "."]


@pytest.mark.parametrize(
    ("word", "count"),
    [("cat", 1), ("make", 1), ("little", 2), ("looked", 1), ("wanted", 2), ("the", 1), ("idea", 2)],
)
def test_syllables_are_groups_of_vowels_without_silent_ones(word, count):
    assert syllables(word) == count


def test_a_counted_sentence_looks_as_it_would_to_the_counts_of_the_others():
    with_it = Lexicon(TRAINING, ENGLISH, ENGLISH_ENDINGS)
    for number, each in enumerate(TRAINING):
        others = [*TRAINING[:number], *TRAINING[number + 1 :]]
        without = Lexicon(others, ENGLISH, ENGLISH_ENDINGS)
        assert with_it._rows(each, 1) == without._rows(each, 0)


def test_real_columns_have_mean_0_and_variance_1_on_the_training_text_and_binary_ones_stay():
    lexicon = Lexicon(TRAINING, ENGLISH, ENGLISH_ENDINGS)
    table = np.vstack([lexicon.describe(each, counted=True) for each in TRAINING])
    frequency = table[:, lexicon.names.index("log frequency")]
    assert abs(frequency.mean()) < 1e-12
    assert frequency.std() == pytest.approx(1.0)
    assert set(table[:, lexicon.names.index("article")]) == {0.0, 1.0}
    assert np.all(table[:, lexicon.names.index("word")] == 1.0)


def test_punctuation_shows_in_the_features_of_its_neighbours():
    chain = words_of(TOKENS)
    lexicon = Lexicon([*TRAINING, chain], ENGLISH, ENGLISH_ENDINGS)
    rows = lexicon._rows(chain, 0)
    assert [bool(row["comma after"]) for row in rows] == [False, True, False]
    assert [bool(row["comma before"]) for row in rows] == [False, False, True]
    assert [bool(row["other before"]) for row in rows] == [False, False, True]
    assert [bool(row["stop after"]) for row in rows] == [False, False, True]
    assert rows[2]["all capitals"]


def test_tags_become_columns_and_unknown_tags_none():
    tagged = Sentence(["die", "kat"], ["", ""], ["", "."], ["DET", "NOUN"], np.array([0, 1]))
    other = Sentence(["nou"], [""], ["."], ["ADV"], np.array([0]))
    lexicon = Lexicon([tagged], {}, "")
    columns = [lexicon.names.index(name) for name in ("tag DET", "tag NOUN")]
    assert lexicon.describe(tagged)[:, columns].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert lexicon.describe(other)[:, columns].tolist() == [[0.0, 0.0]]


def test_indicators_keep_what_was_seen_twice_and_stand_behind_the_window_of_five():
    lexicon, indicators = Lexicon(TRAINING, ENGLISH, ENGLISH_ENDINGS), WordIndicators(TRAINING)
    [table] = joined([sentence("the zebra")], lexicon, indicators, counted=False)
    n_dense = len(lexicon.names)
    assert np.array_equal(table[:, 2 * n_dense : 3 * n_dense].toarray(), lexicon.describe(sentence("the zebra")))
    assert not table[:, : 2 * n_dense].toarray()[0].any()
    words = table[:, 5 * n_dense :]
    # All but the next word and the pair with it; of "zebra" only what stands around it.
    assert words.sum(axis=1).tolist() == [8.0, 4.0]
    assert words.max() == 1.0


def test_majority_per_word_falls_back_to_the_overall_majority():
    known = [sentence("so it is so", [2, 0, 0, 2]), sentence("it is so", [0, 1, 0])]
    held = [sentence("So is tea", [0, 0, 0])]
    assert baseline("majority per word", known, held, 1)[0].tolist() == [1, 0, 0]
    assert baseline("majority class", known, held, 1)[0].tolist() == [0, 0, 0]
