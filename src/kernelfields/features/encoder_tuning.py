"""Encoders of text tuned on labels of words: all weights, and one linear layer on the states of each word.

    x_i = mean over the subwords of word i of (middle state, last state),     outputs_i = W x_i + b

features/encoders.py computes the states of encoders; this module only tunes their weights. The optimizer is AdamW, with
a learning rate that rises over the first tenth of the steps and falls to zero; that of W and b is ten times as large.
Sequences longer than the maximal input of the encoder are split into adjacent windows.

Arrays: W (outputs, 2 h), b (outputs,). Cost: ``epochs`` forward and backward passes over the words; bfloat16 on CUDA.
The state of PyTorch's random numbers is restored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from kernelfields.features.encoders import Encoder, cut_windows

#: Loss of outputs (words, outputs) of the words with these numbers, counted through all sequences.
Loss = Callable[[torch.Tensor, np.ndarray], torch.Tensor]
#: Called with the step, the number of steps and the loss.
Report = Callable[[int, int, float], None]

# Sentences of a batch have similar lengths; random noise of this number of subwords makes batches differ by epoch.
_LENGTH_NOISE = 8
_HEAD_RATE, _WEIGHT_DECAY, _WARM_UP, _LARGEST_GRADIENT = 10.0, 0.01, 0.1, 1.0
_PREDICTED_AT_ONCE = 128


@dataclass(frozen=True)
class TuningSettings:
    """Settings for tuning an encoder."""

    learning_rate: float = 2e-4
    epochs: int = 2
    batch_size: int = 32
    dropout: float = 0.1


class Head(NamedTuple):
    """The linear layer on top of an encoder."""

    weight: np.ndarray
    bias: np.ndarray


class _Window(NamedTuple):
    """The subwords of some words, with the count of each word and the numbers of the words."""

    ids: list[int]
    sizes: list[int]
    rows: np.ndarray


def choose_layers(encoder: Encoder) -> tuple[int, int]:
    """Return the numbers of the middle and the last layer of an encoder."""
    last = int(encoder.model.config.num_hidden_layers)
    return (last + 1) // 2, last


def tune(
    encoder: Encoder,
    sequences: Sequence[Sequence[str]],
    known: np.ndarray,
    n_outputs: int,
    loss: Loss,
    settings: TuningSettings,
    seed: int = 0,
    report: Report | None = None,
) -> Head:
    """Tune the weights of an encoder in place; return the layer on top.

    ``known`` (N,) are the words that ``loss`` reads; windows without one are left out.
    """
    windows = [window for window in _make_training_windows(encoder, sequences) if known[window.rows].any()]
    random, device = np.random.default_rng(seed), encoder.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        layers = choose_layers(encoder)
        head = torch.nn.Linear(len(layers) * encoder.model.config.hidden_size, n_outputs).to(device)
        dropout = torch.nn.Dropout(settings.dropout)
        for part in encoder.model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = settings.dropout
        rate = settings.learning_rate
        groups = [
            {"params": list(encoder.model.parameters()), "lr": rate},
            {"params": list(head.parameters()), "lr": _HEAD_RATE * rate},
        ]
        optimiser = torch.optim.AdamW(groups, weight_decay=_WEIGHT_DECAY, fused=device.type == "cuda")
        n_steps = settings.epochs * math.ceil(len(windows) / settings.batch_size)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: min(1.0, (step + 1) / (_WARM_UP * n_steps)) * (1 - step / n_steps)
        )
        every = [parameter for group in groups for parameter in group["params"]]  # type: ignore[attr-defined]
        encoder.model.train()
        step = 0
        for _ in range(settings.epochs):
            for batch in _shuffle_batches(windows, settings.batch_size, random):
                with torch.autocast("cuda", dtype=torch.bfloat16, enabled=device.type == "cuda"):
                    states = encoder.pool_subwords([own.ids for own in batch], [own.sizes for own in batch], layers)
                    outputs = head(dropout(states))
                value = loss(outputs.float(), np.concatenate([own.rows for own in batch]))
                optimiser.zero_grad()
                value.backward()
                torch.nn.utils.clip_grad_norm_(every, _LARGEST_GRADIENT)
                optimiser.step()
                schedule.step()
                step += 1
                if report is not None:
                    report(step, n_steps, float(value.detach()))
        encoder.model.eval()
    return Head(*(own.detach().cpu().numpy() for own in (head.weight, head.bias)))


def label_loss(codes: np.ndarray, n_labels: int, device: torch.device) -> Loss:
    """Compute the cross-entropy of outputs with labels of words (N,), -1 for unknown labels."""
    labels = torch.as_tensor(codes, device=device)

    def loss(outputs: torch.Tensor, rows: np.ndarray) -> torch.Tensor:
        own = labels[torch.as_tensor(rows, device=device)]
        return torch.nn.functional.cross_entropy(outputs[:, :n_labels], own, ignore_index=-1)

    return loss


def compute_tuned_outputs(encoder: Encoder, head: Head, sequences: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """Compute the outputs of a tuned encoder for each sequence, (words, outputs) float32."""
    found = dict(encoder.words(sequences, choose_layers(encoder), _PREDICTED_AT_ONCE))
    return [found[number] @ head.weight.T + head.bias for number in range(len(sequences))]


def _make_training_windows(encoder: Encoder, sequences: Sequence[Sequence[str]]) -> list[_Window]:
    windows, begin = [], 0
    for number, words in enumerate(encoder.cut(sequences)):
        for window in cut_windows(number, [len(word) for word in words], encoder.most_subwords, overlap=False):
            own = words[window.first : window.last]
            rows = np.arange(begin + window.first, begin + window.last)
            windows.append(_Window([i for word in own for i in word], [len(word) for word in own], rows))
        begin += len(words)
    return windows


def _shuffle_batches(windows: list[_Window], size: int, random: np.random.Generator) -> list[list[_Window]]:
    """Return batches of windows of similar length, in random order."""
    lengths = np.array([len(window.ids) for window in windows]) + random.uniform(0, _LENGTH_NOISE, size=len(windows))
    order = np.argsort(-lengths, kind="stable")
    batches = [[windows[i] for i in order[a : a + size]] for a in range(0, len(order), size)]
    return [batches[i] for i in random.permutation(len(batches))]
