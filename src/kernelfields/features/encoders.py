"""Encoders of text: hidden states of a Hugging Face model, pooled from subwords to words.

    words w_1 .. w_n  ->  subwords s_1 .. s_m  ->  H^(l) (m, h) for each layer l  ->  (n, h * layers)

    x_i = mean of h_j over the subwords j of word i

Each word is tokenized separately, so that subwords belong to words with every tokenizer. A sequence with more subwords
than the maximal input of the encoder is read in windows that overlap by half; each word gets its vector from the window
in which it is farthest from an end.

Files are read from a folder, or from the cache of downloads, never from the network. Cost: one pass of the encoder over
each window, in batches of windows of similar length. Raises ValueError for an incomplete folder, a missing layer, or a
word longer than the maximal input; ImportError if transformers or torch are not installed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_INSTALL = 'pip install "kernelfields[embeddings]"'
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "tokenizer_config.json")
# What loading raises where files are damaged, cut off, or of a kind that the package cannot read.
_UNREADABLE = (OSError, ValueError, KeyError, RuntimeError, EOFError, UnpicklingError, SafetensorError)
# What the vectors depend on, and nothing else that may lie in the folder.
_CONTENT = (".json", ".txt", ".model", ".safetensors", ".bin")


@dataclass(frozen=True)
class Window:
    """Words first .. last - 1 of a sequence, as one input of the encoder."""

    sequence: int
    first: int
    last: int
    n_subwords: int


class Encoder:
    """A Hugging Face encoder with its tokenizer, which computes vectors of words."""

    def __init__(self, folder: Path, *, device: str | None = None):
        """Load an encoder from a folder; ValueError if one of its parts is missing or damaged."""
        transformers = _import_transformers()
        import torch

        _check_folder(folder)
        place = {"pretrained_model_name_or_path": str(folder), "local_files_only": True, "trust_remote_code": False}
        try:
            with _quiet_loading(transformers):
                tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
                model = transformers.AutoModel.from_pretrained(**place, dtype="float32")
        except _UNREADABLE as error:
            raise ValueError(f"{folder} could not be loaded as a Hugging Face encoder: {_one_line(error)}") from error
        self.folder, self.tokenizer, self.device = folder, tokenizer, _chosen_device(device)
        if model.config.is_encoder_decoder:
            model = model.get_encoder()
        self.model = model.to(self.device).eval()
        self._torch = torch
        self._before, self._after, self._lead = _special_tokens(tokenizer)
        self.most_subwords = _longest_input(model, tokenizer) - len(self._before) - len(self._after)
        self._subwords: dict[str, list[int]] = {}

    @cached_property
    def content_key(self) -> str:
        """A digest of the files of the model, which changes with their content."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.suffix in _CONTENT:
                digest.update(json.dumps([path.relative_to(self.folder).as_posix(), path.stat().st_size]).encode())
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    def check_layers(self, layers: Sequence[int] | None) -> tuple[int, ...]:
        """Return layers as numbers from 0, the input embeddings; None means the last layer."""
        last = int(self.model.config.num_hidden_layers)
        wrong = [layer for layer in layers or () if not -last - 1 <= layer <= last]
        if wrong:
            raise ValueError(f"layers: the encoder has layers 0 (input embeddings) to {last}, got {wrong[0]}")
        return (last,) if layers is None else tuple(layer % (last + 1) for layer in layers)

    def words(
        self, sequences: Sequence[Sequence[str]], layers: Sequence[int] | None, batch_size: int
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the number of each complete sequence and the vectors of its words (n, h * layers)."""
        cut = self.cut(sequences)
        for number, parts in self._read(cut, self.check_layers(layers), batch_size):
            vectors = []
            for window, states in parts:
                sizes = [len(word) for word in cut[number][window.first : window.last]]
                inner = states[len(self._before) : len(self._before) + window.n_subwords]
                begins = np.cumsum([0, *sizes])[:-1]
                vectors.append(np.add.reduceat(inner, begins, axis=0) / np.array(sizes, dtype=inner.dtype)[:, None])
            yield number, _join_windows([window for window, _ in parts], vectors)

    def _read(
        self, cut: list[list[list[int]]], layers: tuple[int, ...], batch_size: int
    ) -> Iterator[tuple[int, list[tuple[Window, np.ndarray]]]]:
        """Yield the number of each complete sequence, its windows in order, and their states."""
        windows = [
            [*cut_windows(number, [len(word) for word in words], self.most_subwords)]
            for number, words in enumerate(cut)
        ]
        parts: dict[int, list[tuple[Window, np.ndarray]]] = {}
        for batch in _batches([window for of_sequence in windows for window in of_sequence], batch_size):
            ids = [[i for word in cut[w.sequence][w.first : w.last] for i in word] for w in batch]
            for window, states in zip(batch, self._states(ids, layers), strict=True):
                number = window.sequence
                parts.setdefault(number, []).append((window, states))
                if len(parts[number]) == len(windows[number]):
                    yield number, sorted(parts.pop(number), key=lambda part: part[0].first)

    def cut(self, sequences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Tokenize each word of each sequence; repeated words are tokenized once."""
        unknown = list({word for words in sequences for word in words} - self._subwords.keys())
        for word, ids in zip(unknown, self._ids([self._lead + word for word in unknown]), strict=True):
            if len(ids) > self.most_subwords:
                raise ValueError(
                    f"the word {word[:20]!r}... has {len(ids)} subwords, the encoder takes {self.most_subwords} at "
                    "once: split it, or leave it out"
                )
            self._subwords[word] = ids
        return [[self._subwords[word] for word in words] for words in sequences]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the subwords of texts, with the unknown subword for blank texts."""
        if not texts:
            return []
        # The length is looked after here; the tokenizer would warn that it is too long for the model.
        found = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        unknown = self.tokenizer.unk_token_id
        for number, ids in enumerate(found):
            if not ids and unknown is None:
                raise ValueError(f"the tokenizer finds nothing in {texts[number]!r}: leave it out")
        return [ids or [unknown] for ids in found]

    def _states(self, ids: list[list[int]], layers: tuple[int, ...]) -> list[np.ndarray]:
        """Return concatenated hidden states of the chosen layers, (subwords, h * layers) for each window."""
        with self._torch.inference_mode():
            table = self.states(ids, layers).float().cpu().numpy()
        frame = len(self._before) + len(self._after)
        return [rows[: len(row) + frame] for rows, row in zip(table, ids, strict=True)]

    def states(self, ids: list[list[int]], layers: Sequence[int]) -> torch.Tensor:
        """Return concatenated hidden states of the chosen layers, including special tokens and padding."""
        torch = self._torch
        framed = [[*self._before, *subwords, *self._after] for subwords in ids]
        longest = max(map(len, framed))
        filler = self.tokenizer.pad_token_id or 0
        inputs = torch.tensor([[*row, *[filler] * (longest - len(row))] for row in framed], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in framed], device=self.device)
        states = self.model(input_ids=inputs, attention_mask=mask, output_hidden_states=True).hidden_states
        return torch.cat([states[layer] for layer in layers], dim=-1)

    def pool_subwords(
        self, ids: list[list[int]], sizes: Sequence[Sequence[int]], layers: Sequence[int]
    ) -> torch.Tensor:
        """Average the states of the subwords of each word, (words of all windows, h * layers), for tuning.

        ``sizes`` are the numbers of subwords of the words of each window.
        """
        torch = self._torch
        states = self.states(ids, layers)
        lead, width = len(self._before), states.shape[1]
        counts = np.concatenate([np.asarray(own) for own in sizes])
        places = [row * width + lead + np.arange(len(own)) for row, own in enumerate(ids)]
        rows = states.flatten(0, 1)[torch.as_tensor(np.concatenate(places), device=self.device)].float()
        owners = torch.as_tensor(np.repeat(np.arange(len(counts)), counts), device=self.device)
        sums = rows.new_zeros(len(counts), rows.shape[1]).index_add(0, owners, rows)
        return sums / torch.as_tensor(counts, dtype=rows.dtype, device=self.device)[:, None]

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of the weights of the encoder."""
        return {name: own.cpu().numpy().copy() for name, own in self.model.state_dict().items()}

    def set_weights(self, weights: Mapping[str, np.ndarray]) -> None:
        """Replace the weights of the encoder."""
        self.model.load_state_dict({name: self._torch.from_numpy(own) for name, own in weights.items()})

    def save(self, folder: Path) -> None:
        """Write the encoder and its tokenizer to a folder."""
        with _quiet_loading(_import_transformers()):
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


def cut_windows(number: int, sizes: list[int], most: int, *, overlap: bool = True) -> Iterator[Window]:
    """Yield windows of whole words with at most ``most`` subwords, each overlapping half of the previous one."""
    ends = np.cumsum([0, *sizes])
    first = 0
    while True:
        last = int(np.searchsorted(ends, ends[first] + most, side="right")) - 1
        yield Window(number, first, last, int(ends[last] - ends[first]))
        if last == len(sizes):
            return
        half = int(np.searchsorted(ends, (ends[first] + ends[last]) // 2))
        # At least one word further, and no word between two windows.
        first = min(max(half, first + 1), last) if overlap else last


def _batches(windows: list[Window], size: int) -> Iterator[list[Window]]:
    """Yield batches of windows of similar length, the longest first, so that lack of memory shows early."""
    order = sorted(windows, key=lambda window: -window.n_subwords)
    for begin in range(0, len(order), size):
        yield order[begin : begin + size]


def _join_windows(windows: list[Window], vectors: list[np.ndarray]) -> np.ndarray:
    """Join the vectors of the windows of a sequence, with half of each overlap from either window."""
    cuts = [(before.last + after.first + 1) // 2 for before, after in pairwise(windows)]
    bounds = zip(windows, [0, *cuts], [*cuts, windows[-1].last], strict=True)
    return np.concatenate(
        [rows[a - window.first : b - window.first] for rows, (window, a, b) in zip(vectors, bounds, strict=True)]
    )


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int], str]:
    """Return the special tokens before and after a text, and the prefix of words inside a text.

    Tokenizers of bytes join the blank before a word to it, so that words within a text need one.
    """
    once, twice = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("a", "a a"))
    framed = tokenizer("a")["input_ids"]
    [begin] = [i for i in range(len(framed)) if framed[i : i + len(once)] == once][:1] or [0]
    return framed[:begin], framed[begin + len(once) :], "" if twice == [*once, *once] else " "


def _longest_input(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the maximal number of subwords of an input, including special tokens."""
    limits = [int(tokenizer.model_max_length)]
    most = getattr(model.config, "max_position_embeddings", None)
    if most is not None and most > 0:
        # RoBERTa and its kin count positions from the one after the padding's.
        shifted = [getattr(part, "padding_idx", None) for name, part in model.named_modules() if "position" in name]
        limits.append(most - max((index + 1 for index in shifted if index is not None), default=0))
    return min(limits)


def _chosen_device(device: str | None) -> torch.device:
    import torch

    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} is not there for torch: {_one_line(error)}") from error
    return torch.device(device)


def _import_transformers() -> ModuleType:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        missing = (error.name or "transformers").partition(".")[0]
        raise ImportError(f"encoders of a folder need the package {missing}: {_INSTALL}", name=missing) from error
    return transformers


@contextmanager
def _quiet_loading(transformers: ModuleType) -> Iterator[None]:
    """Return a context without progress bars and reports of unused weights."""
    logging = transformers.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def find_folder(name: str | os.PathLike) -> Path:
    """Return the folder of a model, from its path or the name of a downloaded model."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists():
        raise ValueError(f"{folder} is a file: model is the folder that holds config.json, weights and tokenizer")
    text = os.fspath(name)
    if text.count("/") <= 1 and not text.startswith((".", "/", "~", "\\")):
        _import_transformers()
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(text, local_files_only=True))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"no folder {text!r}, and no model of this name was downloaded before (nothing is fetched from a "
                f"network here): download it once, hf download {text}, or give the path of its folder"
            ) from error
    raise ValueError(f"no folder {text!r}: model is the folder that holds config.json, weights and tokenizer")


def _check_folder(folder: Path) -> None:
    """Raise ValueError with the first missing file of an encoder."""
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} has no config.json: give the folder of a Hugging Face encoder")
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise ValueError(f"{folder} has no weights (model.safetensors or pytorch_model.bin): copy them there as well")
    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZERS):
        raise ValueError(f"{folder} has no tokenizer (tokenizer.json or a vocabulary): copy its files there as well")


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
