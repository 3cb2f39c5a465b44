"""Many labels of which few are allowed: 1,000 labels against 10, and fine tags of English with a dictionary of words.

    python -m benchmarks.many_labels [--positions 100000] [--rounds 9] [--sentences 3000] [--skip-ud] [--skip-passes]

"synthetic": the same sequences twice. Each of 2,000 words has ten labels of its own among 1,000; the other field has
ten labels, the place of the label in the list of its word. Features: the word, both neighbours, one of 50 endings, a
constant; observed support. Rows: a pass of a fit (value and gradient), an answer (marginals of data that have been
read), the whole of predict, and a fit of ten iterations. Calls of both fields take turns, the least time of some rounds
counts; the last column is the ratio of 1,000 labels to ten. "free" are the passes of 1,000 labels without the lists, on
a part of the data, per position.

"passes": forward-backward over lists against all labels in vector registers, for shares of the pairs of labels: what
the threshold in inference/chain/allowed.py is chosen by.

"ud": UD English EWT, fine tags, the first ``--sentences`` of the training part, with a LabelDictionary of words and
without: seconds of fit and predict and of a pass, labels per position, accuracy on the development and the test part.
They take turns, the least of three fits and predictions and of nine passes counts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.shared_data import token_columns
from kernelfields import ChainCRF, LabelDictionary
from kernelfields.fields.allowed import AllowedLabels
from kernelfields.inference.chain.family import ChainFamily
from kernelfields.inference.chain.lists import infer_lists
from kernelfields.inference.family import EDGE, Potentials
from kernelfields.numerics.threads import Workers

LENGTH, WORDS, EACH, MANY = 20, 2000, 10, 1000


def least_seconds(*calls: Callable[[], Any], rounds: int = 7) -> list[float]:
    """Return the least seconds of each call, after one that compiles and loads.

    Calls that are compared take turns: others share the machine, and slow whoever comes just then.
    """
    found: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(rounds):
        for call, seconds in zip(calls, found, strict=True):
            begin = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begin)
    return [min(seconds) for seconds in found]


def synthetic(n_positions: int) -> tuple[list, list, list]:
    """Return sequences of feature dicts, their labels among 1,000, and the same among ten."""
    random = np.random.default_rng(0)
    lists = np.array([np.sort(random.choice(MANY, EACH, replace=False)) for _ in range(WORDS)])
    frequency = 1.0 / np.arange(1, WORDS + 1)
    X, many, few = [], [], []
    for _ in range(n_positions // LENGTH):
        words = random.choice(WORDS, LENGTH, p=frequency / frequency.sum())
        places = (words + np.append(0, words[:-1])) % EACH
        places = np.where(random.random(LENGTH) < 0.1, random.integers(EACH, size=LENGTH), places)
        X.append([_features(words, place) for place in range(LENGTH)])
        many.append([f"{label:03d}" for label in lists[words, places]])
        few.append([f"{place}" for place in places])
    return X, many, few


def _features(words: np.ndarray, place: int) -> dict[str, Any]:
    around = {"before": place - 1, "after": place + 1}
    names = {name: f"w{words[t]}" for name, t in around.items() if 0 <= t < len(words)}
    return {"word": f"w{words[place]}", "ending": f"e{words[place] % 50}", "constant": 1.0, **names}


def fitted(X: list, y: list, allowed: Any, **settings: Any) -> ChainCRF:
    """Return a field with observed support."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few iterations do not converge
        return ChainCRF("linear", support="observed", prior_variance=1.0, allowed=allowed, **settings).fit(X, y)


def fused_pass(crf: ChainCRF, X: list, y: list) -> Callable[[], Any]:
    """Return what computes value and gradient at the coefficients of a fitted field."""
    data, spec = crf._read_fitted(X, y, None), crf.field_.spec
    sample = crf._engine(data).place(data, spec, crf._sample_settings(2))
    datafit = sample.datafit([sample.design(term) for term in crf.field_.terms])
    parts = [term.known for term in crf.field_.terms]
    return lambda: datafit.fused.value_and_gradient(parts)


def answer(crf: ChainCRF, X: list) -> Callable[[], Any]:
    """Return what labels data that have been read, one position at a time."""
    data, workers = crf._read(X), Workers(crf.n_jobs)
    return lambda: [crf.field_.answers(batch, workers).likeliest_labels() for batch in crf.field_.batches(data)]


def show_synthetic(n_positions: int, rounds: int) -> None:
    """Print the times of 1,000 labels, ten of them allowed, and of ten labels."""
    X, many, few = synthetic(n_positions)
    # Every word has its list, those that training shows; a word that is rare here has fewer labels than ten.
    fields = [
        (fitted(X, many, LabelDictionary("word", min_count=1), max_iter=3), many),
        (fitted(X, few, None, max_iter=3), few),
    ]
    allowed = fields[0][0]._read(X).allowed
    print(f"synthetic: {n_positions} positions, {len(allowed.labels) / n_positions:.1f} allowed labels per position")
    (one, first), (other, second) = fields
    rows = {
        "pass of a fit": (fused_pass(one, X, first), fused_pass(other, X, second)),
        "answer": (answer(one, X), answer(other, X)),
        "predict": (lambda: one.predict(X), lambda: other.predict(X)),
        "fit, 10 passes": (
            lambda: fitted(X, first, one.allowed, max_iter=10),
            lambda: fitted(X, second, None, max_iter=10),
        ),
    }
    print(f"{'seconds':16}{'1,000 labels':>14}{'10 labels':>12}{'ratio':>8}")
    times = {}
    for name, calls in rows.items():
        times[name] = least_seconds(*calls, rounds=rounds if name in ("pass of a fit", "answer") else 3)
        print(
            f"{name:16}{times[name][0]:14.4f}{times[name][1]:12.4f}{times[name][0] / times[name][1]:8.2f}", flush=True
        )
    _show_free(n_positions, times["answer"][0])


def _show_free(n_positions: int, with_lists: float, part: int = 200) -> None:
    random = np.random.default_rng(1)
    node, edge = random.normal(size=(part, MANY)), random.normal(size=(1, MANY, MANY))
    offsets = np.arange(0, part + 1, LENGTH)
    family, potentials = ChainFamily(offsets, MANY), Potentials(node, {EDGE: edge})
    free = least_seconds(lambda: family.at(potentials), rounds=2)[0] / part
    print(f"free: {1e6 * free:.0f} microseconds per position, with lists {1e6 * with_lists / n_positions:.2f}")


def show_passes(n_positions: int = 10_000) -> None:
    """Print microseconds per position of forward-backward over lists and over all labels."""
    random, offsets = np.random.default_rng(2), np.arange(0, n_positions + 1, LENGTH)
    print(f"passes (one thread)\n{'labels':>8}{'allowed':>9}{'share':>8}{'lists':>9}{'all':>9}")
    for n_labels in (20, 50, 100):
        for share in (0.05, 0.1, 0.2, 0.3, 0.5):
            size = max(1, round(np.sqrt(share) * n_labels))
            sets = [np.sort(random.choice(n_labels, size, replace=False)) for _ in range(500)]
            allowed = AllowedLabels.of_sets(sets, random.integers(500, size=n_positions), n_labels)
            scores, edge = random.normal(size=len(allowed.labels)), random.normal(size=(1, n_labels, n_labels))
            potentials = Potentials(allowed.spread(scores, -np.inf), {EDGE: edge})
            times = least_seconds(
                lambda: infer_lists(scores, edge, offsets, allowed),  # noqa: B023
                lambda: ChainFamily(offsets, n_labels).at(potentials).mean(),  # noqa: B023
                rounds=5,
            )
            figures = "".join(f"{1e6 * each / n_positions:9.2f}" for each in times)
            print(f"{n_labels:8}{size:9}{(size / n_labels) ** 2:8.2f}{figures}")


def read_tagged(part: str) -> tuple[list, list]:
    """Return sentences of UD English EWT as feature dicts, and their fine tags."""
    sentences = token_columns("ud-english-ewt", f"{part}.tsv.gz")
    words = [[columns[0] for columns in sentence] for sentence in sentences]
    X = [[_of_word(sentence, t) for t in range(len(sentence))] for sentence in words]
    return X, [[columns[-1] for columns in sentence] for sentence in sentences]


def _of_word(sentence: list[str], t: int) -> dict[str, Any]:
    word = sentence[t]
    endings = {f"ending{size}": word[-size:].lower() for size in (1, 2, 3) if len(word) > size}
    around = {f"word{step:+d}": sentence[t + step].lower() for step in (-1, 1) if 0 <= t + step < len(sentence)}
    shape = {"capital": word[0].isupper(), "digit": any(map(str.isdigit, word)), "first": t == 0}
    return {"word": word, "lower": word.lower(), "constant": 1.0, **endings, **around, **shape}


def show_tags(n_sentences: int) -> None:
    """Print times and accuracies with a dictionary of words and without."""
    X, y = (each[:n_sentences] for each in read_tagged("train"))
    dev, test = read_tagged("dev"), read_tagged("test")
    print(f"UD English EWT, {len(X)} sentences, {sum(map(len, X))} words")
    rules = {
        "all tags": None,
        "dictionary, unknown='all'": LabelDictionary("lower"),
        "dictionary, unknown='rare'": LabelDictionary("lower", unknown="rare"),
    }
    fields = {name: fitted(X, y, rule) for name, rule in rules.items()}
    columns = [
        least_seconds(*(lambda rule=rule: fitted(X, y, rule) for rule in rules.values()), rounds=3),  # type: ignore[misc]
        least_seconds(*(fused_pass(crf, X, y) for crf in fields.values()), rounds=9),
        least_seconds(*(lambda crf=crf: crf.predict(dev[0]) for crf in fields.values()), rounds=3),  # type: ignore[misc]
    ]
    print(f"{'':30}{'fit, s':>9}{'pass, s':>9}{'predict, s':>12}{'per word':>10}{'dev':>9}{'test':>9}")
    for (name, crf), fit, one, predict in zip(fields.items(), *columns, strict=True):
        read = crf._read(dev[0])
        mean = len(crf.classes_) if read.allowed is None else len(read.allowed.labels) / read.n_positions
        scores = "".join(f"{100 * crf.score(*part):9.2f}" for part in (dev, test))
        print(f"{name:30}{fit:9.2f}{one:9.3f}{predict:12.2f}{mean:10.1f}{scores}", flush=True)


def main() -> None:
    """Print the figures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--positions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--skip-ud", action="store_true")
    parser.add_argument("--skip-passes", action="store_true")
    options = parser.parse_args()
    show_synthetic(options.positions, options.rounds)
    if not options.skip_passes:
        show_passes()
    if not options.skip_ud:
        show_tags(options.sentences)


if __name__ == "__main__":
    main()
