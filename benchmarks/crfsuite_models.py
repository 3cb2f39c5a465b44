"""Models that CRFsuite trained, opened here: the same labels, marginals and scores, and how fast taggers are.

    python -m benchmarks.crfsuite_models [--programs addresses chunks names] [--algorithms lbfgs l2sgd pa]

Three programs: parts of addresses (nested dicts, as parsers by parserator have them), chunks of CoNLL-2000 (lists of
strings) and names of people and places (dicts of texts, numbers and truth values). Each is trained by python-crfsuite
with L-BFGS and c1, by SGD and passive-aggressively. On the test sentences, labels of ``compat.pycrfsuite.Tagger`` and
of ``kernelfields.load`` are compared with those of ``pycrfsuite.Tagger``, marginals and logarithms of probabilities by
their largest difference. Both taggers then label the same sentences by turns, each timed over all of them, five times;
the ratio is that of the shortest times, in processor time of this process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pycrfsuite

import kernelfields
from benchmarks.result_files import merge_results
from kernelfields.compat.pycrfsuite import Tagger
from kernelfields.datasets import load_addresses, make_entities

ALGORITHMS: dict[str, dict[str, Any]] = {
    "lbfgs": {"c1": 0.1, "c2": 0.01, "max_iterations": 100},
    "l2sgd": {"c2": 0.1, "max_iterations": 50},
    "pa": {"max_iterations": 30},
}
_ROUNDS = 5
# Sentences of the chunks, and those that a tagger labels before its time is taken: then compiled loops have loaded.
_TRAIN, _TEST, _WARM = 1500, 400, 1200


class Data(NamedTuple):
    """Sentences to train on with their labels, and those that are labelled."""

    X: list
    y: list
    test: list


def address_features(words: list[str], place: int) -> dict[str, Any]:
    """Features of a word, with those of its neighbours in dicts of their own."""

    def own(word: str) -> dict[str, Any]:
        return {
            "word": word.lower().strip(".,"),
            "digits": "all" if word.isdigit() else "some" if any(map(str.isdigit, word)) else "none",
            "length": f"{'d' if word.isdigit() else 'w'}:{len(word)}",
            "comma": word.endswith(","),
            "vowels": bool(set(word.lower()) & set("aeiou")),
        }

    features = own(words[place])
    features["previous"] = own(words[place - 1]) if place else {"start": True}
    features["next"] = own(words[place + 1]) if place + 1 < len(words) else {"end": True}
    return features


def name_features(words: list[str], place: int) -> dict[str, Any]:
    """Features of a word: texts, a number and truth values."""
    word = words[place]
    features = {"bias": 1.0, "word": word.lower(), "title": word.istitle(), "length": len(word) / 10, "ends": word[-3:]}
    if place:
        features |= {"-1:word": words[place - 1].lower(), "-1:title": words[place - 1].istitle()}
    return features


def _positions(sentences: list, features: Callable[[list[str], int], dict]) -> list:
    return [[features(words, place) for place in range(len(words))] for words in sentences]


def addresses() -> Data:
    """Return parts of addresses of the United States."""
    X, y = load_addresses(return_X_y=True)
    rows = _positions(X, address_features)
    return Data(rows[:600], y[:600], rows[600:])


def names() -> Data:
    """Return names of people and places in sentences made by formula."""
    X, y = make_entities(600, random_state=0, return_X_y=True)
    rows = _positions(X, name_features)
    return Data(rows[:400], y[:400], rows[400:])


def chunks() -> Data:
    """Return chunks of CoNLL-2000."""
    from benchmarks.templates import chunking

    (X, y), (test, _) = chunking("train"), chunking("test")
    return Data(X[:_TRAIN], y[:_TRAIN], test[:_TEST])


PROGRAMS = {"addresses": addresses, "chunks": chunks, "names": names}


def train(data: Data, algorithm: str, path: str) -> Any:
    """Train a model of CRFsuite, and return its tagger."""
    trainer = pycrfsuite.Trainer(algorithm, ALGORITHMS[algorithm], verbose=False)
    for sequence, labels in zip(data.X, data.y, strict=True):
        trainer.append(sequence, labels)
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return tagger


def compare_answers(theirs: Any, path: str, test: list) -> dict[str, float]:
    """Return how many labellings differ from those of CRFsuite, and by how much marginals and log-probabilities do."""
    ours, field = Tagger(), kernelfields.load(path)
    ours.open(path)
    labels = theirs.labels()
    place = [field.classes_.tolist().index(label) for label in labels]
    differ = {"labels": 0, "labels of the field": 0, "marginals": 0.0, "log-probabilities": 0.0}
    for x, predicted, marginals in zip(test, field.predict(test), field.predict_marginals(test), strict=True):
        best = theirs.tag(x)
        differ["labels"] += ours.tag(x) != best
        differ["labels of the field"] += predicted != best
        table = np.array([[theirs.marginal(label, t) for label in labels] for t in range(len(x))])
        own = np.array([[ours.marginal(label, t) for label in labels] for t in range(len(x))])
        apart = max(abs(own - table).max(), abs(marginals[:, place] - table).max())
        differ["marginals"] = max(differ["marginals"], float(apart))
        log = np.log(theirs.probability(best))
        apart = max(abs(np.log(ours.probability(best)) - log), abs(field.log_likelihood([x], [best]) - log))
        differ["log-probabilities"] = max(differ["log-probabilities"], float(apart))
    return differ


def compare_times(theirs: Any, path: str, test: list) -> dict[str, float]:
    """Return microseconds for a sentence of both taggers, and how many times as fast ours is."""
    ours = Tagger()
    ours.open(path)
    for number in range(_WARM):
        ours.tag(test[number % len(test)])
    times = [(_seconds(theirs.tag, test), _seconds(ours.tag, test)) for _ in range(_ROUNDS)]
    theirs_best, ours_best = (1e6 * min(column) / len(test) for column in zip(*times, strict=True))
    return {"pycrfsuite": theirs_best, "ours": ours_best, "ratio": theirs_best / ours_best}


def _seconds(tag: Callable[[list], object], test: list) -> float:
    begin = time.process_time()
    for x in test:
        tag(x)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=list(ALGORITHMS))
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for program in given.programs:
            data = PROGRAMS[program]()
            for algorithm in given.algorithms:
                path = str(Path(folder) / f"{program}.{algorithm}.crfsuite")
                theirs = train(data, algorithm, path)
                differ, times = compare_answers(theirs, path, data.test), compare_times(theirs, path, data.test)
                row = {"program": program, "algorithm": algorithm, "sentences": len(data.test), **differ, **times}
                rows.append(row)
                print(
                    ", ".join(
                        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
                        for name, value in row.items()
                    )
                )
    print(merge_results("crfsuite_models.json", rows, ("program", "algorithm")))


if __name__ == "__main__":
    main()
