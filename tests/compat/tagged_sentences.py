"""Short sentences from a grammar, with parts of speech and BIO labels of names, for the tests in this folder."""

from __future__ import annotations

import numpy as np

FIRST = ["Ada", "Carl", "Emmy", "Kurt", "Maria", "Paul"]
LAST = ["Gauss", "Noether", "Lovelace", "Agnesi", "Turner"]
PLACES = [["Bonn"], ["Oslo"], ["Turin"], ["New", "York"], ["Sao", "Paulo"]]
FIRMS = [["Acme"], ["Turner", "Brothers"], ["Bank", "of", "Turin"]]
VERBS = ["visits", "leaves", "likes", "buys"]
ADVERBS = ["today", "often", "again"]


def sentence(random):
    """A list of (word, part of speech, label)."""

    def pick(options):
        return options[int(random.integers(len(options)))]

    def name(words, kind):
        return [(word, "NNP", f"{'I' if place else 'B'}-{kind}") for place, word in enumerate(words)]

    def person():
        return name([pick(FIRST), pick(LAST)] if random.random() < 0.5 else [pick(FIRST)], "PER")

    subject = person() if random.random() < 0.7 else name(pick(FIRMS), "ORG")
    kinds = [lambda: name(pick(PLACES), "LOC"), lambda: name(pick(FIRMS), "ORG"), person]
    end = [(pick(ADVERBS), "RB", "O")] if random.random() < 0.4 else []
    start = [("The", "DT", "O"), ("old", "JJ", "O")] if random.random() < 0.2 else []
    return [*start, *subject, (pick(VERBS), "VBZ", "O"), *pick(kinds)(), *end, (".", ".", "O")]


def sentences(n_sentences, seed=0):
    random = np.random.default_rng(seed)
    return [sentence(random) for _ in range(n_sentences)]


def word2features(sent, i):
    """The features of sklearn-crfsuite's tutorial."""
    word, postag = sent[i][0], sent[i][1]
    features = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": postag,
        "postag[:2]": postag[:2],
    }
    if i > 0:
        word1, postag1 = sent[i - 1][0], sent[i - 1][1]
        features.update(
            {
                "-1:word.lower()": word1.lower(),
                "-1:word.istitle()": word1.istitle(),
                "-1:word.isupper()": word1.isupper(),
                "-1:postag": postag1,
                "-1:postag[:2]": postag1[:2],
            }
        )
    else:
        features["BOS"] = True
    if i < len(sent) - 1:
        word1, postag1 = sent[i + 1][0], sent[i + 1][1]
        features.update(
            {
                "+1:word.lower()": word1.lower(),
                "+1:word.istitle()": word1.istitle(),
                "+1:word.isupper()": word1.isupper(),
                "+1:postag": postag1,
                "+1:postag[:2]": postag1[:2],
            }
        )
    else:
        features["EOS"] = True
    return features


def sent2features(sent):
    return [word2features(sent, i) for i in range(len(sent))]


def sent2labels(sent):
    return [label for _, _, label in sent]


def tagged_data(n_sentences=50, seed=0):
    sents = sentences(n_sentences, seed)
    return [sent2features(sent) for sent in sents], [sent2labels(sent) for sent in sents]
