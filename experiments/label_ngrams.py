"""Label n-grams: letters by the longest n-grams of a field, in the usual protocols and on words not trained on.

    python -m experiments.label_ngrams small [--folds 0 1 2]       train on one fold, test on nine
    python -m experiments.label_ngrams large                       train on folds 1 to 9, test on fold 0
    python -m experiments.label_ngrams words                       train and test on different words
    python -m experiments.label_ngrams speed                       the time of a pass, on the large protocol
    python -m experiments.label_ngrams tags                        fine tags of English words: label trigrams
    python -m experiments.label_ngrams --missing --minutes 4       go on, in pieces
    python -m experiments.label_ngrams --page                      the page alone, from the results

``--orders 2 3 ...`` chooses among the orders. The field of order n has the cubic kernel on letters, all transitions,
and a weight for every n-gram of three to n letters that occurs in training; order 2 is the plain chain. Kernel and
its prior variance are those of the small protocol of ocr_letters.py. The prior variance of n-grams is the one with
the least error on a third of the training words, at a lower rank and a coarser tolerance; the large protocol takes
the choice of one of its training folds. In *words*, the 55 words are dealt into five groups: four to train on, one to
test; the third that chooses is made of whole words, too. Test labels serve for the figures alone. Labels are
posterior-decoded.

*tags* are the 49 fine tags of UD English EWT, with the usual features of words: first order against second, label
trigrams that occur twice or more in training, on the first sentences of the training part. Prior variances are those
with the best accuracy on the first sentences of the development part, of fields of fewer sentences: one for words and
transitions at first order, then one for trigrams.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from benchmarks.fit_parts import parts_of_fit
from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import ocr_letters, token_columns
from benchmarks.templates import tagging_features
from experiments.label_ngrams_page import write_page
from kernelfields import ChainCRF, EdgeCliques, NgramCliques, NodeCliques
from kernelfields.evaluation.comparison import compare
from kernelfields.evaluation.evaluation import evaluate
from kernelfields.kernels.dot_product import Polynomial
from kernelfields.kernels.kernel import Normalized
from kernelfields.numerics.threads import blas_threads

ORDERS = (2, 3, 4, 5, 6)
KERNEL, VARIANCE = Normalized(Polynomial(3, gamma=0.25 / 3)), 20.0
NGRAM_VARIANCES = (0.1, 1.0, 10.0, 100.0)
#: Words that are not trained on ask for less.
VARIANCES_BY_WORDS = (0.01, 0.1, 1.0)
RANKS = {"small": 1000, "large": 2000, "words": 500}
SELECTION_RANK, SELECTION_TOL = 300, 1e-2
#: The training fold that chooses for the large protocol, and those that the split by words takes its words from.
SELECTION_FOLD, WORD_FOLDS, WORD_GROUPS = 1, (0,), 5
FOLDS = (0, 1, 2)
#: Sentences of tagged text to train on, to choose with, and prior variances: of words and transitions, and of n-grams.
TAG_ORDERS = (3,)
TAG_SENTENCES, TAG_SELECTION_SENTENCES = 3000, 3000
TAG_VARIANCES, TAG_NGRAM_VARIANCES = (1.0, 3.0, 10.0), (0.03, 0.3, 3.0)
FILE, KEYS = "label_ngrams.json", ("part", "fold", "order")
UNPRINTED = ("description", "accuracy", "by_word")

Sample = tuple[list, list]


def field(order: int, ngram_variance: float | None, rank: int, tol: float = 1e-3) -> ChainCRF:
    """Return a field whose longest n-grams have ``order`` letters."""
    cliques = [NodeCliques(KERNEL, rank=rank, prior_variance=VARIANCE), EdgeCliques(prior_variance=VARIANCE)]
    if order > 2:
        cliques.append(NgramCliques(order=order, prior_variance=ngram_variance))
    return ChainCRF(cliques=cliques, tol=tol, max_iter=500, random_state=0)


class Words:
    """All words, and the parts of them that the protocols use."""

    def __init__(self) -> None:
        self.X, self.y, self.fold = ocr_letters()
        self.spelled = np.array(["".join(word) for word in self.y])

    def part(self, chosen: np.ndarray) -> Sample:
        """Return some words."""
        return [self.X[i] for i in chosen], [self.y[i] for i in chosen]

    def split(self, part: str, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the words to train on, those to test on, and a group of each of all words, not to be cut apart."""
        everything = np.arange(len(self.fold))
        if part == "words":
            used = np.flatnonzero(np.isin(self.fold, WORD_FOLDS))
            names, groups = np.unique(self.spelled, return_inverse=True)
            dealt = np.random.default_rng(0).permutation(len(names)) % WORD_GROUPS
            held = dealt[groups[used]] == fold
            return used[~held], used[held], groups
        inside = self.fold == fold
        train, test = (inside, ~inside) if part == "small" else (~inside, inside)
        return np.flatnonzero(train), np.flatnonzero(test), everything


def choose(words: Words, order: int, train: np.ndarray, groups: np.ndarray, variances: tuple[float, ...]) -> dict:
    """Return the prior variance of n-grams with the least error on a third of the training words."""
    if order == 2:
        return {"ngram_variance": None, "selection_error": None}
    names = np.unique(groups[train])
    third = np.random.default_rng(1).permutation(names)[: len(names) // 3]
    held = np.isin(groups[train], third)
    errors = {}
    for variance in variances:
        model = field(order, variance, SELECTION_RANK, SELECTION_TOL).fit(*words.part(train[~held]))
        errors[variance] = error(model, words.part(train[held]))[0]
    best = min(errors, key=errors.__getitem__)
    return {"ngram_variance": best, "selection_error": errors[best], "selection_errors": list(errors.values())}


def error(model: ChainCRF, sample: Sample) -> tuple[float, list]:
    """Return the share of wrong letters in per cent, and the labels."""
    predicted = model.predict(sample[0], decode="posterior")
    return 100 * float(np.mean(np.concatenate(predicted) != np.concatenate(sample[1]))), predicted


def wrong_by_word(spelled: np.ndarray, true: list, predicted: list) -> dict[str, list[int]]:
    """Return how many letters of each word are wrong, and how many there are."""
    counts: dict[str, list[int]] = {}
    for word, letters, labels in zip(spelled.tolist(), true, predicted, strict=True):
        count = counts.setdefault(word, [0, 0])
        count[0] += int(np.sum(np.asarray(letters) != np.asarray(labels)))
        count[1] += len(word)
    return counts


def chosen_before(order: int) -> dict:
    """Return what the small protocol chose on the training fold that chooses for the large one."""
    for row in read_results(FILE, EXPERIMENTS):
        if (row["part"], row["fold"], row["order"]) == ("small", SELECTION_FOLD, order):
            return {name: row[name] for name in ("ngram_variance", "selection_error")}
    raise SystemExit(f"order {order} has no choice yet: run 'small --folds {SELECTION_FOLD}' first")


def measure(words: Words, part: str, fold: int, order: int) -> dict:
    """Choose, fit and score one field."""
    begin = time.perf_counter()
    train, test, groups = words.split(part, fold)
    grid = VARIANCES_BY_WORDS if part == "words" else NGRAM_VARIANCES
    chosen = chosen_before(order) if part == "large" else choose(words, order, train, groups, grid)
    fitting = time.perf_counter()
    model = field(order, chosen["ngram_variance"], RANKS[part]).fit(*words.part(train))
    fitted = time.perf_counter()
    wrong, predicted = error(model, words.part(test))
    row = {"part": part, "fold": fold, "order": order, **chosen, "error": wrong, "rank": RANKS[part]}
    row |= {
        "n_train": int(sum(len(words.y[i]) for i in train)),
        "n_test": int(sum(len(words.y[i]) for i in test)),
        "n_ngrams": int(sum(term.known.size for term in model.field_.terms[2:])),
        "relative_gap": model.solution_.relative_gap,
        "passes": model.solution_.passes,
        "fit_seconds": fitted - fitting,
        "predict_seconds": time.perf_counter() - fitted,
        "seconds": time.perf_counter() - begin,
    }
    if part == "words":
        row["by_word"] = wrong_by_word(words.spelled[test], words.part(test)[1], predicted)
    if part == "large":
        row["accuracy"] = evaluate(words.part(test)[1], predicted, random_state=0).accuracy.to_dict()
    return row


def speed(words: Words, orders: Sequence[int], repeats: int = 20) -> list[dict]:
    """Return what a pass takes at rank 2000: features twice and inference once, in seconds of processors.

    Seconds of processors, as others may use the machine; the least of some repeats, orders in turn.
    """
    train = words.part(words.split("large", 0)[0])
    _, sample, designs = parts_of_fit(field(max(orders), 1.0, RANKS["large"]), *train)
    random = np.random.default_rng(0)
    coefficients = [0.1 * random.normal(size=design.shape) for design in designs]
    # Labels, pairs, and a set for each length from three on.
    datafits = {order: sample.datafit(designs[:order]) for order in orders}
    times: dict[int, list[tuple[float, float]]] = {order: [] for order in orders}
    with blas_threads(1):
        for order in [*orders, *(each for _ in range(repeats) for each in orders)]:  # the first round compiles
            times[order].append(time_of_pass(datafits[order], coefficients[:order]))
    rows = []
    for order, datafit in datafits.items():
        features, inference = np.min(times[order][1:], axis=0).tolist()
        row = {"part": "speed", "fold": 0, "order": order, "rank": RANKS["large"]}
        row |= {"features_work": features, "inference_work": inference}
        rows.append(row | ({} if order == 2 else {"description": datafit.inference.description}))
    return rows


def time_of_pass(datafit: Any, coefficients: list) -> tuple[float, float]:
    """Return the seconds of processors of features and of inference for value and gradient."""
    begin = time.process_time()
    potentials = datafit.potentials(coefficients)
    inferring = time.process_time()
    residual = datafit.evaluate(potentials).residual
    inferred = time.process_time()
    datafit.pull_back(residual)
    return time.process_time() - inferred + inferring - begin, inferred - inferring


def tagged(part: str, n_sentences: int | None = None) -> Sample:
    """Return sentences of a part as the features of their words, and their fine tags."""
    sentences = token_columns("ud-english-ewt", f"{part}.tsv.gz")[:n_sentences]
    X = [tagging_features([row[0] for row in sentence]) for sentence in sentences]
    features = [[dict.fromkeys(names, 1.0) for names in sentence] for sentence in X]
    return features, [[row[-1] for row in sentence] for sentence in sentences]


def tag_field(order: int, variance: float, ngram_variance: float | None, tol: float) -> ChainCRF:
    """Return a field of words whose longest n-grams have ``order`` tags."""
    words = NodeCliques("linear", support="observed", prior_variance=variance)
    cliques = [words, EdgeCliques(prior_variance=variance)]
    if order > 2:
        cliques.append(NgramCliques(order=order, prior_variance=ngram_variance, support=2))
    return ChainCRF(cliques=cliques, tol=tol, max_iter=500, random_state=0)


def choose_tags(order: int, train: Sample, dev: Sample) -> dict:
    """Return the prior variances with the best accuracy on the development part, and all accuracies."""
    few = [each[:TAG_SELECTION_SENTENCES] for each in train]

    def accuracy(order: int, variance: float, ngram_variance: float | None) -> float:
        return 100 - error(tag_field(order, variance, ngram_variance, SELECTION_TOL).fit(*few), dev)[0]

    plain = {variance: accuracy(2, variance, None) for variance in TAG_VARIANCES}
    variance = max(plain, key=plain.__getitem__)
    longer = {each: accuracy(order, variance, each) for each in TAG_NGRAM_VARIANCES}
    chosen = {"variance": variance, "ngram_variance": max(longer, key=longer.__getitem__)}
    return chosen | {"selection_plain": list(plain.values()), "selection_longer": list(longer.values())}


def tags(order: int) -> dict:
    """Choose, fit and compare fields of first order and of longer n-grams on tagged text."""
    begin = time.perf_counter()
    train, dev, test = tagged("train", TAG_SENTENCES), tagged("dev", TAG_SELECTION_SENTENCES), tagged("test")
    row = {"part": "tags", "fold": 0, "order": order, **choose_tags(order, train, dev)}
    print(row, flush=True)  # the rest takes longest
    predicted, models = [], []
    for each in (2, order):
        fitting = time.perf_counter()
        models.append(tag_field(each, row["variance"], row["ngram_variance"], SELECTION_TOL).fit(*train))
        row[f"fit_seconds_{each}"] = time.perf_counter() - fitting
        predicted.append(error(models[-1], test)[1])
    difference = compare(test[1], *predicted, scheme=None, random_state=0).accuracy
    row |= {
        "accuracies": [100 * difference.first.value, 100 * difference.second.value],
        "difference": {end: 100 * value for end, value in difference.difference.to_dict().items()},
        "n_labels": len(models[1].classes_),
        "n_sentences": [len(part[0]) for part in (train, dev, test)],
        "n_selection": TAG_SELECTION_SENTENCES,
        "n_train": sum(map(len, train[0])),
        "n_ngrams": int(sum(term.known.size for term in models[1].field_.terms[2:])),
        "relative_gaps": [model.solution_.relative_gap for model in models],
        "passes": [model.solution_.passes for model in models],
        "description": models[1].inference_.description,
        "seconds": time.perf_counter() - begin,
    }
    return row


def rows_of(words: Words, part: str, fold: int, order: int, orders: Sequence[int]) -> list[dict]:
    """Return rows of results: of one order, or of all orders where they are timed in turn."""
    if part == "speed":
        return speed(words, orders)
    return [tags(order) if part == "tags" else measure(words, part, fold, order)]


def show_and_keep(rows: list[dict]) -> None:
    """Print rows of results and write them into their file."""
    for row in rows:
        print({name: row[name] for name in row if name not in UNPRINTED}, flush=True)
    merge_results(FILE, rows, KEYS, EXPERIMENTS)


class Agenda:
    """Which fields are to be measured: all, or those that have no row yet; none when the time is over."""

    def __init__(self, missing: bool, minutes: float):
        self._missing, self._end = missing, time.monotonic() + 60 * minutes
        self._begun: set[str] = set()

    def wants(self, part: str, fold: int, order: int) -> bool:
        """Say whether a row is to be made; orders that are timed in turn are asked for once."""
        if time.monotonic() >= self._end or (part == "speed" and part in self._begun):
            return False
        known = read_results(FILE, EXPERIMENTS) if self._missing else []
        if wanted := (part, fold, order) not in {tuple(row[key] for key in KEYS) for row in known}:
            self._begun.add(part)
        return wanted


def main() -> None:
    """Measure the parts that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ["small", "large", "words", "speed", "tags"]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(every)}; all by default")
    parser.add_argument("--folds", type=int, nargs="+", default=FOLDS, help="training folds of the small protocol")
    parser.add_argument("--orders", type=int, nargs="+", default=ORDERS)
    parser.add_argument("--missing", action="store_true", help="leave out what has results")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no field after these")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(every):
        parser.error(f"unknown part {', '.join(sorted(unknown))}: choose among {', '.join(every)}")
    if not arguments.page:
        words, agenda = Words(), Agenda(arguments.missing, arguments.minutes)
        folds = {"small": arguments.folds, "large": [0], "words": range(WORD_GROUPS), "speed": [0], "tags": [0]}
        orders = {part: TAG_ORDERS if part == "tags" else arguments.orders for part in every}
        for part in arguments.parts or every:
            for fold, order in product(folds[part], orders[part]):
                if agenda.wants(part, fold, order):
                    show_and_keep(rows_of(words, part, fold, order, orders[part]))
    write_page()


if __name__ == "__main__":
    main()
