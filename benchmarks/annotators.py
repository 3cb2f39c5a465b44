"""Labels of a crowd: AnnotatedCRF beside Dawid and Skene with a ChainCRF fitted to their labels.

    python -m benchmarks.annotators [--sentences 6000] [--annotators 40] [--dev]

Crowd annotations are drawn for sentences of CoNLL-2000: every sentence is labelled by two to six of the annotators,
some of whom label much and others little. An annotator has habits, with every chunk in turn: to overlook it (a rate
for each type), to take its type for another (one favourite mistake for each type), to begin or end it a word early or
late; and to mark words outside of chunks. Chunks differ in difficulty, for all annotators alike: errors are not
independent, as Dawid and Skene take them to be. Fields see words alone (TextFeatures) and have their defaults.

    dawid-skene         Dawid and Skene by words (0.01 added to every count), their most probable labels, then ChainCRF
    with a prior        the same with the pseudo-counts of AnnotatedCRF, (4, 1), which is where that starts from
    annotated           AnnotatedCRF()

Printed are the F1 of chunks of the labels that each row makes of the annotated sentences (consensus), that of the field
on sentences that nobody annotated, and CPU seconds. Everything that was chosen was chosen with --dev, which draws other
annotators for other training sentences and measures on the last tenth of the training file. Results of the usual
numbers of sentences and annotators go to benchmarks/results/annotators.json.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from benchmarks.result_files import merge_results
from benchmarks.shared_data import token_columns
from kernelfields import AnnotatedCRF, ChainCRF, TextFeatures
from kernelfields.annotators.annotations import read_annotations
from kernelfields.annotators.confusions import Confusions, prior_counts
from kernelfields.evaluation.entities import entity_f1_score, entity_spans
from kernelfields.models.choices import in_words

Labels = list[str]
Said = list[dict[str, Labels]]
#: Standard deviation of the log-odds of errors between chunks.
DIFFICULTY = 1.5
SENTENCES, ANNOTATORS = 6000, 40
ROWS = ("dawid-skene", "with a prior", "annotated")


class Annotator:
    """Habits of an annotator: rates of errors by type of chunk, at boundaries, and outside of chunks."""

    def __init__(self, types: list[str], random: np.random.Generator):
        skill = random.beta(2.0, 3.0)  # the larger, the more errors
        self.missed = dict(zip(types, random.beta(1.0 + 4.0 * skill, 4.0, len(types)), strict=True))
        self.mistaken = dict(zip(types, random.beta(1.0, 4.0 / skill, len(types)), strict=True))
        self.taken_for = {kind: str(random.choice([other for other in types if other != kind])) for kind in types}
        self.early, self.late = random.beta(1.0, 8.0 / skill, 2), random.beta(1.0, 8.0 / skill, 2)
        self.added = random.beta(1.0, 20.0 / skill)
        self.usual = str(random.choice(types))
        self.diligence = random.gamma(1.0)

    def label(self, labels: Labels, difficulties: np.ndarray, random: np.random.Generator) -> Labels:
        """Return what the annotator says of a sentence with these labels, whose chunks differ in difficulty."""
        said = ["O"] * len(labels)
        taken = [False] * len(labels)
        for span, difficulty in zip(entity_spans(labels), difficulties, strict=True):
            if random.random() < harder(self.missed[span.type], difficulty):
                continue
            mistaken = random.random() < harder(self.mistaken[span.type], difficulty)
            kind = self.taken_for[span.type] if mistaken else span.type
            begin = span.start - int(random.random() < self.early[0]) + int(random.random() < self.late[0])
            end = span.stop - int(random.random() < self.early[1]) + int(random.random() < self.late[1])
            begin, end = max(0, begin), min(len(labels), end)
            for place in range(begin, end):
                if not taken[place]:
                    said[place] = f"{'B' if place == begin else 'I'}-{kind}"
                    taken[place] = True
        for place, label in enumerate(labels):
            if label == "O" and not taken[place] and random.random() < self.added:
                said[place] = f"B-{self.usual}"
        return said


def harder(rate: float, difficulty: float) -> float:
    """Return a rate of errors whose odds are exp(difficulty) times as large."""
    odds = np.exp(difficulty) * rate / (1.0 - rate)
    return odds / (1.0 + odds)


def drawn(y: list[Labels], n_annotators: int, random: np.random.Generator) -> Said:
    """Return for each sentence what two to six annotators say of it."""
    types = sorted({label[2:] for labels in y for label in labels if label != "O"})
    annotators = [Annotator(types, random) for _ in range(n_annotators)]
    shares = np.array([annotator.diligence + 0.05 for annotator in annotators])
    said = []
    for labels in y:
        chosen = random.choice(n_annotators, int(random.integers(2, 7)), replace=False, p=shares / shares.sum())
        difficulties = random.normal(scale=DIFFICULTY, size=len(entity_spans(labels)))
        said.append({f"annotator {n}": annotators[n].label(labels, difficulties, random) for n in sorted(chosen)})
    return said


def counted(said: Said) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Return row, annotator and number of every label that was said, and the labels."""
    classes = sorted({label for item in said for labels in item.values() for label in labels})
    names = sorted({name for item in said for name in item})
    rows, who, what, begin = [], [], [], 0
    for item in said:
        for name, labels in item.items():
            rows += range(begin, begin + len(labels))
            who += [names.index(name)] * len(labels)
            what += [classes.index(label) for label in labels]
        begin += len(labels)
    return np.array(rows), np.array(who), np.array(what), classes


def split(numbers: np.ndarray, classes: list[str], said: Said) -> list[Labels]:
    """Return numbers of labels of all words as labels of each sentence."""
    ends = np.cumsum([len(next(iter(item.values()))) for item in said])
    return [np.array(classes)[part].tolist() for part in np.split(numbers, ends[:-1])]


def dawid_skene(said: Said, steps: int = 50, added: float = 0.01) -> list[Labels]:
    """Return the most probable labels of Dawid and Skene, word by word."""
    rows, who, what, classes = counted(said)
    n_labels = len(classes)
    completed = np.zeros((rows.max() + 1, n_labels))
    np.add.at(completed, (rows, what), 1.0)
    completed /= completed.sum(axis=1, keepdims=True)
    for _ in range(steps):
        counts = np.full((who.max() + 1, n_labels, n_labels), added)
        np.add.at(counts, (who, what), completed[rows])  # annotator, said, label
        logs = np.log(counts / counts.sum(axis=1, keepdims=True))
        scores = np.tile(np.log(completed.mean(axis=0) + 1e-12), (len(completed), 1))
        np.add.at(scores, rows, logs[who, what])
        completed = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
    return split(completed.argmax(axis=1), classes, said)


def presumed(said: Said) -> list[Labels]:
    """Return the labels that AnnotatedCRF starts from."""
    annotations = read_annotations(said)
    confusions = Confusions(annotations, prior_counts(*AnnotatedCRF().prior, len(annotations.classes)))
    logs = confusions.log_consensus(np.ones(len(annotations.codes)))
    return split(logs.argmax(axis=1), annotations.classes.tolist(), said)


def fitted(row: str, X: list, said: Said) -> tuple[list[Labels], ChainCRF | AnnotatedCRF]:
    """Return the labels that a row makes of annotated sentences, and its field."""
    if row == "annotated":
        model = AnnotatedCRF(ChainCRF(random_state=0)).fit(X, said)
        return [list(labels) for labels in model.consensus_], model
    labels = dawid_skene(said) if row == "dawid-skene" else presumed(said)
    return labels, ChainCRF(random_state=0).fit(X, labels)


def sentences(n_sentences: int, dev: bool) -> tuple[list, list[Labels], list, list[Labels]]:
    """Return words and labels to be annotated, and words and labels to measure on."""
    train = token_columns("conll2000", "train.tsv.gz")
    held = len(train) - len(train) // 10
    own, other = (train[held - n_sentences : held], train[held:]) if dev else (train[:n_sentences], None)
    other = token_columns("conll2000", "test.tsv.gz") if other is None else other
    words, labels = ([[[row[column] for row in rows] for rows in part] for part in (own, other)] for column in (0, 2))
    return words[0], labels[0], words[1], labels[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--annotators", type=int, default=ANNOTATORS)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--dev", action="store_true", help="other annotators, and the last tenth of the training file")
    arguments = parser.parse_args()
    words, y, words_test, y_test = sentences(arguments.sentences, arguments.dev)
    said = drawn(y, arguments.annotators, np.random.default_rng(1 if arguments.dev else 0))
    features = TextFeatures().fit(words)
    X, X_test = features.transform(words), features.transform(words_test)
    pairs = [(y[number], labels) for number, item in enumerate(said) for labels in item.values()]
    own = entity_f1_score(*map(list, zip(*pairs, strict=True)))
    print(f"{len(y):,} sentences, {arguments.annotators} annotators; F1 of what these say {own:.3f}")
    for row in arguments.rows:
        busy = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels, model = fitted(row, X, said)
        busy = time.process_time() - busy
        figures = entity_f1_score(y, labels), entity_f1_score(y_test, model.predict(X_test))
        field = model.estimator_ if isinstance(model, AnnotatedCRF) else model
        rounds = len(model.label_changes_) if isinstance(model, AnnotatedCRF) else 0
        print(
            f"{row:14} consensus F1 {figures[0]:.4f}, field F1 {figures[1]:.4f}, {rounds} rounds, {busy:.1f} s of CPU; "
            f"{in_words(field.choices_.chosen)}",
            flush=True,
        )
        if not arguments.dev and (arguments.sentences, arguments.annotators) == (SENTENCES, ANNOTATORS):
            found = {"consensus": figures[0], "field": figures[1], "rounds": rounds, "cpu_seconds": busy}
            rounded = {name: round(value, 4) for name, value in found.items()}
            merge_results("annotators.json", [{"row": row, **rounded}], ("row",))


if __name__ == "__main__":
    main()
