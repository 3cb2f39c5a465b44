"""An encoder tuned on training sentences, and what it says about words it was not tuned on.

    python -m experiments.tuned_encoder prominence --model FOLDER --out FOLDER [--device cuda] [--explore]
    python -m experiments.tuned_encoder chunking --model FOLDER --out FOLDER

Kernels see what an encoder says about a word only through its vectors. Here the encoder itself is tuned on the
training labels, fold by fold, so that every training word gets outputs of networks that have not seen its label:
features like any others, for a field that joins them with sparse and hand-made ones. Words of the test part get the
mean of all folds' outputs; its labels are not read.

*prominence*: folds of speakers; outputs are logits of three labels, the logarithm of the real-valued prominence and
the strength of a boundary. *chunking*: folds of sentences; outputs are logits of the chunk tags. --explore compares
settings on one fold and writes nothing.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import GroupKFold
from torch.nn import functional

from benchmarks.shared_data import sequence_identifiers, token_columns

N_FOLDS = 5


@dataclass(frozen=True)
class Settings:
    """How an encoder is tuned; ``context`` is the number of subwords of earlier sentences that it sees."""

    rate: float = 2e-4
    epochs: int = 2
    batch: int = 32
    context: int = 0
    top: int = 6
    dropout: float = 0.1
    seeds: int = 1


@dataclass
class Task:
    """Words of sentences, groups that folds keep together, labels (-1 for none) and real-valued targets by word."""

    words: list[list[str]]
    groups: list[str]
    labels: list[np.ndarray]
    values: list[np.ndarray]
    n_labels: int
    #: Sentences of one text follow each other.
    texts: list[str]


def prominence(part: str) -> Task:
    """Return the sentences of helsinki-prosody/release; speakers are groups."""
    place = ("helsinki-prosody", "release", f"{part}.tsv.gz")
    rows, names = token_columns(*place), sequence_identifiers(*place)
    labels = [np.array([-1 if row[1] == "NA" else int(row[1]) for row in sentence]) for sentence in rows]
    values = [
        np.array([[math.log(number(row[3]) + 0.2), number(row[4])] for row in sentence], dtype=np.float32)
        for sentence in rows
    ]
    texts = ["_".join(name.split("_")[:2]) for name in names]
    groups = [name.partition("_")[0] for name in names]
    return Task([[row[0] for row in sentence] for sentence in rows], groups, labels, values, 3, texts)


def number(text: str) -> float:
    return 0.0 if text == "NA" else float(text)


def chunking(part: str) -> Task:
    """Return the sentences of CoNLL-2000; each is a group of its own."""
    known = sorted({row[2] for sentence in token_columns("conll2000", "train.tsv.gz") for row in sentence})
    number_of = {name: number for number, name in enumerate(known)}
    rows = token_columns("conll2000", f"{part}.tsv.gz")
    labels = [np.array([number_of.get(row[2], -1) for row in sentence]) for sentence in rows]
    values = [np.zeros((len(sentence), 0), dtype=np.float32) for sentence in rows]
    names = [str(i) for i in range(len(rows))]
    return Task([[row[0] for row in sentence] for sentence in rows], names, labels, values, len(known), names)


TASKS = {"prominence": (prominence, "dev"), "chunking": (chunking, "train")}


class Tuned(torch.nn.Module):
    """An encoder with one linear layer on the mean of a word's subwords, of its last and its middle states."""

    def __init__(self, folder: Path, n_outputs: int, settings: Settings):
        super().__init__()
        from transformers import AutoModel

        self.encoder = AutoModel.from_pretrained(str(folder), local_files_only=True, dtype=torch.float32)
        self.encoder.encoder.layer = self.encoder.encoder.layer[: settings.top]
        for part in self.encoder.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = settings.dropout
        self.dropout = torch.nn.Dropout(settings.dropout)
        self.head = torch.nn.Linear(2 * self.encoder.config.hidden_size, n_outputs)

    def forward(self, ids: torch.Tensor, word_of: torch.Tensor, n_words: int) -> torch.Tensor:
        """Return outputs (n_words, outputs); ``word_of`` is the word of each subword, n_words for those of none."""
        states = self.encoder(input_ids=ids, attention_mask=(ids > 0).long(), output_hidden_states=True).hidden_states
        joined = torch.cat([states[-1], states[len(states) // 2]], dim=-1).flatten(0, 1).float()
        sums = torch.zeros(n_words + 1, joined.shape[1], device=ids.device).index_add(0, word_of.flatten(), joined)
        counts = torch.bincount(word_of.flatten(), minlength=n_words + 1).clamp(min=1)
        return self.head(self.dropout((sums / counts[:, None])[:n_words]))


class Sentences:
    """Sentences as subwords, with those of earlier sentences of the same text before them."""

    def __init__(self, task: Task, tokenizer: object, context: int):
        words = sorted({word for sentence in task.words for word in sentence})
        found = tokenizer(words, add_special_tokens=False)["input_ids"]  # type: ignore[operator]
        cut = {word: ids or [tokenizer.unk_token_id] for word, ids in zip(words, found, strict=True)}  # type: ignore[attr-defined]
        first, last = tokenizer.cls_token_id, tokenizer.sep_token_id  # type: ignore[attr-defined]
        self.ids, self.word_of = [], []
        before: list[int] = []
        text = ""
        for sentence, name in zip(task.words, task.texts, strict=True):
            before = before if name == text else []
            text = name
            own = [i for word in sentence for i in cut[word]]
            owner = [number for number, word in enumerate(sentence) for _ in cut[word]]
            seen = before[len(before) - min(context, len(before)) :] if context else []
            self.ids.append([first, *seen, *([last] if seen else []), *own, last])
            lead = 1 + len(seen) + bool(seen)
            self.word_of.append([-1] * lead + owner + [-1])
            before = [*before, *own][-512:]
        self.lengths = np.array([len(sentence) for sentence in task.words])

    def batch(self, chosen: np.ndarray, device: str) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Return subwords, the word of each, counted through the batch, and the number of words."""
        longest = max(len(self.ids[i]) for i in chosen)
        begins = np.concatenate([[0], np.cumsum(self.lengths[chosen])])
        ids = np.zeros((len(chosen), longest), dtype=np.int64)
        word_of = np.full((len(chosen), longest), begins[-1], dtype=np.int64)
        for row, i in enumerate(chosen):
            ids[row, : len(self.ids[i])] = self.ids[i]
            owner = np.array(self.word_of[i])
            word_of[row, : len(owner)] = np.where(owner < 0, begins[-1], owner + begins[row])
        return torch.from_numpy(ids).to(device), torch.from_numpy(word_of).to(device), int(begins[-1])

    def batches(self, chosen: np.ndarray, size: int, random: np.random.Generator | None) -> list[np.ndarray]:
        """Return batches of sentences of about one length; in a random order if ``random`` is given."""
        sizes = np.array([len(self.ids[i]) for i in chosen])
        if random is not None:
            sizes = sizes + random.uniform(0, 8, size=len(sizes))
        order = chosen[np.argsort(-sizes, kind="stable")]
        found = [order[a : a + size] for a in range(0, len(order), size)]
        return found if random is None else [found[i] for i in random.permutation(len(found))]


def tune(
    folder: Path, task: Task, data: Sentences, chosen: np.ndarray, settings: Settings, seed: int, device: str
) -> Tuned:
    """Return an encoder tuned on the chosen sentences."""
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    model = Tuned(folder, task.n_labels + task.values[0].shape[1], settings).to(device).train()
    groups = [
        {"params": list(model.encoder.parameters()), "lr": settings.rate},
        {"params": list(model.head.parameters()), "lr": 10 * settings.rate},
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=0.01, fused=device != "cpu")
    total = settings.epochs * math.ceil(len(chosen) / settings.batch)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / (0.1 * total)) * (1 - step / total)
    )
    for _ in range(settings.epochs):
        for batch in data.batches(chosen, settings.batch, random):
            with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device != "cpu"):
                outputs = model(*data.batch(batch, device))
            loss = loss_of(outputs.float(), task, batch, device)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            rate.step()
    return model.eval()


def loss_of(outputs: torch.Tensor, task: Task, batch: np.ndarray, device: str) -> torch.Tensor:
    labels = torch.from_numpy(np.concatenate([task.labels[i] for i in batch])).to(device)
    loss = functional.cross_entropy(outputs[:, : task.n_labels], labels, ignore_index=-1)
    if task.values[0].shape[1]:
        values = torch.from_numpy(np.concatenate([task.values[i] for i in batch])).to(device)
        known = labels >= 0
        loss = loss + 0.5 * functional.mse_loss(outputs[known, task.n_labels :], values[known])
    return loss


def outputs_of(model: Tuned, data: Sentences, chosen: np.ndarray, device: str) -> list[np.ndarray]:
    """Return the outputs (words, outputs) of each chosen sentence."""
    found: dict[int, np.ndarray] = {}
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16, enabled=device != "cpu"):
        for batch in data.batches(chosen, 128, None):
            rows = model(*data.batch(batch, device)).float().cpu().numpy()
            found.update(zip(batch.tolist(), np.split(rows, np.cumsum(data.lengths[batch])[:-1]), strict=True))
    return [found[i] for i in chosen.tolist()]


def scores(task: Task, chosen: np.ndarray, outputs: list[np.ndarray]) -> str:
    """Return accuracies and the log-likelihood of labels on held-out sentences."""
    labels = np.concatenate([task.labels[i] for i in chosen])
    known, logits = labels >= 0, np.concatenate(outputs)[:, : task.n_labels].astype(float)
    labels, logits = labels[known], logits[known]
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    truth = shares[np.arange(len(labels)), labels]
    text = f"accuracy {100 * np.mean(shares.argmax(axis=1) == labels):.2f} log-likelihood {np.mean(np.log(truth)):.4f}"
    if task.n_labels == 3:
        two = np.where(labels > 0, 1 - shares[:, 0], shares[:, 0])
        text += f", two labels {100 * np.mean(two > 0.5):.2f} {np.mean(np.log(two)):.4f}"
    return text


def explore(folder: Path, task: Task, tokenizer: object, device: str, seconds: float) -> None:
    """Compare settings on sentences of a quarter of the groups."""
    names = np.unique(task.groups)
    apart = set(np.random.default_rng(0).permutation(names)[: len(names) // 4].tolist())
    held = np.array([name in apart for name in task.groups])
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    base = Settings()
    grid = [
        base,
        replace(base, epochs=4),
        replace(base, rate=1e-4),
        replace(base, rate=1e-4, epochs=3),
        replace(base, rate=5e-5, epochs=4),
        replace(base, epochs=3, dropout=0.2),
        replace(base, rate=1e-4, batch=16),
        replace(base, context=100),
        replace(base, top=5),
    ]
    begin = time.perf_counter()
    kept = []
    for settings in grid:
        if time.perf_counter() - begin > seconds:
            break
        data = Sentences(task, tokenizer, settings.context)
        start = time.perf_counter()
        model = tune(folder, task, data, train, settings, 0, device)
        outputs = outputs_of(model, data, test, device)
        kept.append(outputs)
        print(settings, scores(task, test, outputs), f"{time.perf_counter() - start:.0f} s", flush=True)
    mean = [np.mean(each, axis=0) for each in zip(*kept, strict=True)]
    print(f"mean of {len(kept)}:", scores(task, test, mean), flush=True)


def out_of_fold(name: str, folder: Path, tokenizer: object, settings: Settings, device: str, out: Path) -> None:
    """Write outputs for training words by networks of other folds, and for test words by the mean of all."""
    read, training = TASKS[name]
    task, test = read(training), read("test")
    data, new = Sentences(task, tokenizer, settings.context), Sentences(test, tokenizer, settings.context)
    rows: list[np.ndarray | None] = [None] * len(task.words)
    sums = None
    everything = np.arange(len(test.words))
    folds = GroupKFold(N_FOLDS, shuffle=True, random_state=0).split(task.words, groups=task.groups)
    for fold, (train, held) in enumerate(folds):
        start = time.perf_counter()
        models = [tune(folder, task, data, train, settings, seed, device) for seed in range(settings.seeds)]
        own = [outputs_of(model, data, held, device) for model in models]
        mean = [np.mean(each, axis=0) for each in zip(*own, strict=True)]
        for i, each in zip(held, mean, strict=True):
            rows[i] = each
        for model in models:
            others = np.concatenate(outputs_of(model, new, everything, device))
            sums = others if sums is None else sums + others
        print(f"fold {fold}:", scores(task, held, mean), f"{time.perf_counter() - start:.0f} s", flush=True)
    assert sums is not None
    out.mkdir(parents=True, exist_ok=True)
    whole = np.concatenate([row for row in rows if row is not None])
    np.save(out / f"{name}-{training}.npy", whole.astype(np.float16))
    np.save(out / f"{name}-test.npy", (sums / (N_FOLDS * settings.seeds)).astype(np.float16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--seconds", type=float, default=240.0, help="no further settings are tried after so long")
    for setting, kind in (("rate", float), ("epochs", int), ("batch", int), ("context", int), ("top", int)):
        parser.add_argument(f"--{setting}", type=kind, default=getattr(Settings, setting))
    parser.add_argument("--dropout", type=float, default=Settings.dropout)
    parser.add_argument("--seeds", type=int, default=Settings.seeds)
    arguments = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(arguments.model), local_files_only=True)
    if arguments.explore:
        read, training = TASKS[arguments.task]
        explore(arguments.model, read(training), tokenizer, arguments.device, arguments.seconds)
        return
    names = ("rate", "epochs", "batch", "context", "top", "dropout", "seeds")
    settings = Settings(**{name: getattr(arguments, name) for name in names})
    out_of_fold(arguments.task, arguments.model, tokenizer, settings, arguments.device, arguments.out)


if __name__ == "__main__":
    main()
