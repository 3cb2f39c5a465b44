"""Seconds of an epoch of a BiLSTM tagger on CoNLL-2000 whose last layer is a chain: ours beside other packages.

    python -m benchmarks.layer_speed [--device cuda] [--batch 32] [--sentences 8936] [--threads 1] [--write]
                                     [--gaps mask|labels]

The network, one for each layer, has embeddings of 100 numbers, a bidirectional LSTM with 128 units each way and a
linear map to the 23 chunk tags; Adam. Every batch is a training step of each network in turn, in an order that turns
as well, so that other work of the machine slows all of them down alike. ``layer`` are the seconds of the last layer
alone: its loss and the gradient of its scores and parameters. Twenty steps that are not counted come first.

``compat.CRF`` is pytorch-crf's class on our passes, a log-likelihood by a mask. With ``--gaps`` a third of the words
is left out, by a mask or by labels of -100, as subwords are; pytorch-crf takes no gaps and gets the words that are left
moved to the front, as its users do, and torch-struct is not compared.

pytorch-crf (torchcrf) and torch-struct are compared if they can be imported; float32, as they compute. torch-struct
scores neither first nor last labels and no sentences of one word, which are left out for all; its partition function is
timed with the scores of labels gathered as ours are, since its own indicators of labels take longer. ``loss`` is the
relative difference of the first loss from ours.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.shared_data import token_columns
from kernelfields.layers import ChainField
from kernelfields.layers.compat import CRF


class Batch(NamedTuple):
    """Padded words and labels, lengths, and the words that are not left out, by a mask or by their labels."""

    words: torch.Tensor
    labels: torch.Tensor
    lengths: torch.Tensor
    kept: torch.Tensor | None
    by_labels: bool

    def inside(self) -> torch.Tensor:
        """Return the mask of words that are no padding."""
        return torch.arange(self.words.shape[1], device=self.words.device) < self.lengths[:, None].to(self.words.device)


class Tagger(torch.nn.Module):
    """Scores of labels from words."""

    def __init__(self, n_words: int, n_labels: int):
        super().__init__()
        self.embedding = torch.nn.Embedding(n_words, 100)
        self.lstm = torch.nn.LSTM(100, 128, batch_first=True, bidirectional=True)
        self.linear = torch.nn.Linear(256, n_labels)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.linear(self.lstm(self.embedding(words))[0])


class Ours(torch.nn.Module):
    def __init__(self, n_labels: int):
        super().__init__()
        self.field = ChainField(n_labels)

    def forward(self, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        if batch.kept is None:
            return self.field.loss(scores, batch.labels, batch.lengths)
        if batch.by_labels:
            return self.field.loss(scores, batch.labels.masked_fill(~batch.kept, -100), batch.lengths)
        return self.field.loss(scores, batch.labels, mask=batch.kept)


class Compatible(torch.nn.Module):
    def __init__(self, n_labels: int):
        super().__init__()
        self.field = CRF(n_labels, batch_first=True)
        for parameter in self.field.parameters():
            torch.nn.init.zeros_(parameter)

    def forward(self, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        labels, mask = batch.labels, batch.inside()
        if batch.kept is not None and batch.by_labels:
            labels = labels.masked_fill(~batch.kept, -100)
        elif batch.kept is not None:
            mask = batch.kept
        return -self.field(scores, labels, mask=mask, reduction="mean")


class PytorchCRF(torch.nn.Module):
    def __init__(self, n_labels: int):
        super().__init__()
        from torchcrf import CRF

        self.field = CRF(n_labels, batch_first=True)
        for parameter in self.field.parameters():
            torch.nn.init.zeros_(parameter)

    def forward(self, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        labels, mask = batch.labels, batch.inside()
        if batch.kept is not None:
            order = batch.kept.to(torch.int8).argsort(dim=1, descending=True, stable=True)
            scores = scores.gather(1, order[..., None].expand_as(scores))
            labels, mask = labels.gather(1, order), batch.kept.gather(1, order)
        return -self.field(scores, labels, mask=mask, reduction="mean")


class TorchStruct(torch.nn.Module):
    def __init__(self, n_labels: int):
        super().__init__()
        self.transitions = torch.nn.Parameter(torch.zeros(n_labels, n_labels))

    def forward(self, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
        from torch_struct import LinearChainCRF

        labels, lengths = batch.labels, batch.lengths
        # Rows are labels, columns those before them.
        steps = self.transitions.T + scores[:, 1:, :, None]
        first = torch.zeros_like(steps)
        first[:, 0] = scores[:, 0, None, :]
        lengths = lengths.to(scores.device)
        steps = steps + first
        partition = LinearChainCRF(steps, lengths=lengths).partition
        rows = labels[:, 1:, None, None].expand(-1, -1, 1, steps.shape[-1])
        chosen = steps.gather(2, rows)[:, :, 0].gather(2, labels[:, :-1, None])[..., 0]
        inside = torch.arange(1, scores.shape[1], device=scores.device) < lengths[:, None]
        return (partition - (chosen * inside).sum(dim=1)).mean()


LAYERS = {
    "kernelfields": (Ours, "torch"),
    "compat.CRF": (Compatible, "torch"),
    "pytorch-crf": (PytorchCRF, "torchcrf"),
    "torch-struct": (TorchStruct, "torch_struct"),
}


def batches(n_sentences: int, size: int, device: str, gaps: str | None = None) -> tuple[list[Batch], int, int]:
    """Return shuffled batches of padded words, labels and lengths, and how many words and labels there are."""
    sentences = [rows for rows in token_columns("conll2000", "train.tsv.gz") if len(rows) > 1][:n_sentences]
    words = {word: i for i, word in enumerate(sorted({row[0] for rows in sentences for row in rows}))}
    tags = {tag: i for i, tag in enumerate(sorted({row[2] for rows in sentences for row in rows}))}
    order = np.random.default_rng(0).permutation(len(sentences))
    found, random = [], torch.Generator().manual_seed(0)
    for begin in range(0, len(order), size):
        chosen = [sentences[i] for i in order[begin : begin + size]]
        lengths = torch.tensor([len(rows) for rows in chosen])
        ids, labels = torch.zeros(2, len(chosen), int(lengths.max()), dtype=torch.int64)
        for i, rows in enumerate(chosen):
            ids[i, : len(rows)] = torch.tensor([words[row[0]] for row in rows])
            labels[i, : len(rows)] = torch.tensor([tags[row[2]] for row in rows])
        kept = None
        if gaps is not None:
            kept = (torch.arange(ids.shape[1]) < lengths[:, None]) & (torch.rand(ids.shape, generator=random) < 2 / 3)
            kept[:, 0] = True
            kept = kept.to(device)
        found.append(Batch(ids.to(device), labels.to(device), lengths, kept, gaps == "labels"))
    return found, len(words), len(tags)


class Network:
    """A tagger with one of the layers, and the seconds it took."""

    def __init__(self, layer: torch.nn.Module, n_words: int, n_labels: int, device: str):
        torch.manual_seed(0)
        self.tagger, self.layer = Tagger(n_words, n_labels).to(device), layer.to(device)
        self.optimiser = torch.optim.Adam([*self.tagger.parameters(), *self.layer.parameters()], lr=1e-3)
        self.device, self.epoch, self.alone = device, 0.0, 0.0
        self.losses: list[float] = []

    def timed(self, action: Callable[[], torch.Tensor]) -> tuple[float, torch.Tensor]:
        wait = torch.cuda.synchronize if self.device != "cpu" else lambda: None
        wait()
        start = time.perf_counter()
        value = action()
        wait()
        return time.perf_counter() - start, value

    def step(self, batch: Batch) -> None:
        """One step of training, and one pass of the layer alone."""

        def train() -> torch.Tensor:
            self.optimiser.zero_grad()
            loss = self.layer(self.tagger(batch.words), batch)
            loss.backward()
            self.optimiser.step()
            return loss.detach()

        seconds, loss = self.timed(train)
        self.epoch += seconds
        self.losses.append(float(loss))
        with torch.no_grad():
            scores = self.tagger(batch.words)
        scores.requires_grad_()
        inputs = [scores, *self.layer.parameters()]
        seconds, _ = self.timed(lambda: torch.autograd.grad(self.layer(scores, batch), inputs)[0])
        self.alone += seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--gaps", choices=("mask", "labels"), help="leave out a third of the words")
    parser.add_argument("--write", action="store_true", help="keep the rows in results/layer_speed.json")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    data, n_words, n_labels = batches(arguments.sentences, arguments.batch, arguments.device, arguments.gaps)
    names = [name for name, (_, package) in LAYERS.items() if find_spec(package)]
    if arguments.gaps:
        names = [name for name in names if name != "torch-struct"]
    networks = {name: Network(LAYERS[name][0](n_labels), n_words, n_labels, arguments.device) for name in names}
    for batch in data[:20]:
        for network in networks.values():
            network.step(batch)
    first = {name: network.losses[0] for name, network in networks.items()}
    for network in networks.values():
        network.epoch = network.alone = 0.0
    for number, batch in enumerate(data):
        for turn in range(len(names)):
            networks[names[(number + turn) % len(names)]].step(batch)
    place = torch.cuda.get_device_name() if arguments.device != "cpu" else f"{torch.get_num_threads()} threads"
    print(f"{len(data)} batches of {arguments.batch} sentences, {n_labels} labels, {place}, torch {torch.__version__}")
    ours, rows = networks["kernelfields"], []
    for name, network in networks.items():
        difference = abs(first[name] / first["kernelfields"] - 1)
        rows.append(
            {
                "place": place,
                "batch": arguments.batch,
                "package": f"{name}, gaps by {arguments.gaps}" if arguments.gaps else name,
                "epoch_seconds": round(network.epoch, 2),
                "layer_seconds": round(network.alone, 2),
                "epoch_ratio": round(ours.epoch / network.epoch, 3),
                "layer_ratio": round(ours.alone / network.alone, 3),
            }
        )
        print(
            f"{name:14} epoch {network.epoch:7.2f} s, ours {ours.epoch / network.epoch:.3f} of it; "
            f"layer {network.alone:7.2f} s, ours {ours.alone / network.alone:.3f} of it; "
            f"loss differs by {difference:.0e}, last {network.losses[-1]:.3f}"
        )
    if arguments.write:
        from benchmarks.result_files import merge_results

        print("wrote", merge_results("layer_speed.json", rows, ("place", "batch", "package")))


if __name__ == "__main__":
    main()
