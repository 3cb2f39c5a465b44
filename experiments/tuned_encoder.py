"""Outputs of an encoder tuned on training sentences, for words it was not tuned on: what other experiments read.

    python -m experiments.tuned_encoder prominence --model FOLDER --out FOLDER [--device cuda] [--explore]
    python -m experiments.tuned_encoder preliminary --model FOLDER --out ANOTHER; ... prominence --model ANOTHER ...
    python -m experiments.tuned_encoder chunking --model FOLDER --out FOLDER

*chunking* is ``TunedEncoder`` of kernelfields.features: folds of sentences, outputs are logits of the chunk tags.
*prominence*: folds of speakers; outputs are logits of three labels, and beside them the logarithm of the real-valued
prominence and the strength of a boundary, tuned together. Words of the test part get the mean of all folds' outputs;
its labels are not read. *preliminary* writes an encoder tuned on the 33,047 sentences of preliminary/train, whose
speakers are in neither part of the release and whose labels were made in another way: a start for *prominence*.
--explore compares settings on a quarter of the training part by its log-likelihood, and the
best is used for what is written then.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy.special import log_softmax
from sklearn.model_selection import GroupKFold

from benchmarks.shared_data import sequence_identifiers, token_columns
from kernelfields.features import TunedEncoder
from kernelfields.features.encoder_tuning import Head, Loss, TuningSettings, label_loss, outputs_of, tune
from kernelfields.features.encoders import Encoder
from kernelfields.features.folds import assign_folds

N_FOLDS = 5


@dataclass
class Task:
    """Words of sentences, groups that folds keep together, labels (-1 for none) and real-valued targets by word."""

    words: list[list[str]]
    groups: list[str]
    labels: list[np.ndarray]
    values: np.ndarray
    n_labels: int

    def part(self, chosen: np.ndarray) -> Task:
        """Return the task of some sentences."""
        row_of = np.repeat(np.arange(len(self.words)), [len(words) for words in self.words])
        lists = ([own[i] for i in chosen] for own in (self.words, self.groups, self.labels))
        return Task(*lists, self.values[np.isin(row_of, chosen)], self.n_labels)  # type: ignore[arg-type]

    def loss(self, device: torch.device) -> Loss:
        """Return the cross-entropy of labels, and half the squared error of targets where there are any."""
        codes = np.concatenate(self.labels)
        of_labels, targets = label_loss(codes, self.n_labels, device), torch.as_tensor(self.values, device=device)

        def loss(outputs: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
            value, known = of_labels(outputs, rows), torch.as_tensor(codes[rows] >= 0, device=device)
            if not self.values.shape[1]:
                return value
            own = targets[torch.as_tensor(rows, device=device)]
            return value + 0.5 * torch.nn.functional.mse_loss(outputs[known, self.n_labels :], own[known])

        return loss


def prominence(part: str) -> Task:
    """Return the sentences of helsinki-prosody/release; speakers are groups."""
    return _prosody("release", part, lambda row: [math.log(number(row[3]) + 0.2), number(row[4])])


def preliminary(part: str) -> Task:
    """Return the sentences of helsinki-prosody/preliminary, which have no real-valued prominence."""
    return _prosody("preliminary", part, lambda row: [number(row[2])])


def _prosody(version: str, part: str, targets: Callable[[list[str]], list[float]]) -> Task:
    place = ("helsinki-prosody", version, f"{part}.tsv.gz")
    rows, names = token_columns(*place), sequence_identifiers(*place)
    labels = [np.array([-1 if row[1] == "NA" else int(row[1]) for row in sentence]) for sentence in rows]
    values = [targets(row) for sentence in rows for row in sentence]
    groups = [name.partition("_")[0] for name in names]
    words = [[row[0] for row in sentence] for sentence in rows]
    return Task(words, groups, labels, np.array(values, dtype=np.float32), 3)


def number(text: str) -> float:
    return 0.0 if text == "NA" else float(text)


def chunking(part: str) -> Task:
    """Return the sentences of CoNLL-2000; each is a group of its own."""
    known = sorted({row[2] for sentence in token_columns("conll2000", "train.tsv.gz") for row in sentence})
    number_of = {name: number for number, name in enumerate(known)}
    rows = token_columns("conll2000", f"{part}.tsv.gz")
    labels = [np.array([number_of.get(row[2], -1) for row in sentence]) for sentence in rows]
    words = [[row[0] for row in sentence] for sentence in rows]
    values = np.zeros((sum(map(len, words)), 0), dtype=np.float32)
    return Task(words, [str(i) for i in range(len(rows))], labels, values, len(known))


TASKS = {"preliminary": (preliminary, "train"), "prominence": (prominence, "dev"), "chunking": (chunking, "train")}


def tuned_encoder(folder: Path, task: Task, settings: TuningSettings, device: str | None) -> tuple[Encoder, Head]:
    """Return an encoder tuned on a task, with the layer on top of it."""
    encoder = Encoder(folder, device=device)
    known = np.concatenate(task.labels) >= 0
    n_outputs = task.n_labels + task.values.shape[1]
    begin = time.perf_counter()

    def report(step: int, n_steps: int, value: float) -> None:
        if step % 100 == 0:
            print(f"step {step} of {n_steps}, loss {value:.3f}, {time.perf_counter() - begin:.0f} s", flush=True)

    return encoder, tune(encoder, task.words, known, n_outputs, task.loss(encoder.device), settings, report=report)


def tuned(folder: Path, task: Task, settings: TuningSettings, device: str | None) -> Callable[[Sequence], list]:
    """Return the function from sentences to outputs of an encoder tuned on a task."""
    encoder, head = tuned_encoder(folder, task, settings, device)
    return lambda words: outputs_of(encoder, head, words)


def scores(task: Task, outputs: list[np.ndarray]) -> tuple[float, str]:
    """Return the log-likelihood of labels by outputs, and accuracies as text."""
    labels = np.concatenate(task.labels)
    known, logits = labels >= 0, np.concatenate(outputs)[:, : task.n_labels].astype(float)
    labels, logs = labels[known], log_softmax(logits[known], axis=1)
    mean = float(np.mean(logs[np.arange(len(labels)), labels]))
    text = f"accuracy {100 * np.mean(logs.argmax(axis=1) == labels):.2f} log-likelihood {mean:.4f}"
    if task.n_labels == 3:
        two = np.where(labels > 0, 1 - np.exp(logs[:, 0]), np.exp(logs[:, 0]))
        text += f", two labels {100 * np.mean(two > 0.5):.2f} {np.mean(np.log(two)):.4f}"
    return mean, text


def explore(folder: Path, task: Task, device: str | None, seconds: float) -> TuningSettings:
    """Compare settings on sentences of a quarter of the groups; return the best."""
    names = np.unique(task.groups)
    apart = set(np.random.default_rng(0).permutation(names)[: len(names) // 4].tolist())
    held = np.array([name in apart for name in task.groups])
    training, test = task.part(np.flatnonzero(~held)), task.part(np.flatnonzero(held))
    base = TuningSettings()
    grid = [
        base,
        replace(base, epochs=4),
        replace(base, epochs=4, batch_size=16),
        replace(base, learning_rate=1e-4, epochs=4, batch_size=16),
        replace(base, epochs=6),
        replace(base, epochs=4, dropout=0.2),
        replace(base, learning_rate=4e-4, epochs=4),
        replace(base, epochs=8, dropout=0.2),
    ]
    begin, found = time.perf_counter(), []
    for settings in grid:
        if time.perf_counter() - begin > seconds:
            break
        start = time.perf_counter()
        value, text = scores(test, tuned(folder, training, settings, device)(test.words))
        found.append((value, settings))
        print(settings, text, f"{time.perf_counter() - start:.0f} s", flush=True)
    return max(found, key=lambda pair: pair[0])[1]


def written(name: str, folder: Path, settings: TuningSettings, device: str | None, out: Path) -> None:
    """Write outputs for training words by encoders of other folds, and for test words by the mean of all."""
    read, training = TASKS[name]
    task = read(training)
    if name == "preliminary":
        encoder, _ = tuned_encoder(folder, task, settings, device)
        encoder.model.save_pretrained(out)
        encoder.tokenizer.save_pretrained(out)
        return
    test = read("test")
    if name == "chunking":
        transformer = TunedEncoder(folder, cv=N_FOLDS, device=device, **asdict(settings))
        made = transformer.fit_transform(task.words, [labels.tolist() for labels in task.labels])
        print("accuracy of the folds", np.round(100 * transformer.fold_accuracy_, 2), flush=True)
        new = transformer.transform(test.words)
    else:
        made, each = [np.empty(0)] * len(task.words), []
        splitter = GroupKFold(N_FOLDS, shuffle=True, random_state=0)
        folds = assign_folds(len(task.words), splitter, task.groups)
        for fold in range(N_FOLDS):
            held = np.flatnonzero(folds == fold)
            network = tuned(folder, task.part(np.flatnonzero(folds != fold)), settings, device)
            own = network([task.words[i] for i in held])
            print(f"fold {fold}:", scores(task.part(held), own)[1], flush=True)
            for i, rows in zip(held, own, strict=True):
                made[i] = rows
            each.append(network(test.words))
        new = [np.mean(rows, axis=0) for rows in zip(*each, strict=True)]
    out.mkdir(parents=True, exist_ok=True)
    for part, rows in ((training, made), ("test", new)):
        np.save(out / f"{name}-{part}.npy", np.concatenate(rows).astype(np.float16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--device")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--seconds", type=float, default=240.0, help="no further settings are tried after so long")
    for name, value in asdict(TuningSettings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    arguments = parser.parse_args()
    settings = TuningSettings(**{name: getattr(arguments, name) for name in asdict(TuningSettings())})
    if arguments.explore:
        read, training = TASKS[arguments.task]
        settings = explore(arguments.model, read(training), arguments.device, arguments.seconds)
    print("tuned with", settings, flush=True)
    written(arguments.task, arguments.model, settings, arguments.device, arguments.out)


if __name__ == "__main__":
    main()
