"""Embeddings: words as dense vectors for the kernels, from a function or a pretrained encoder.

    Embeddings(model).transform([["the", "cat"], ["it", "sat", "down"]])   ->  [(2, d), (3, d)] arrays

A sequence is a list of words, which an encoder embeds in their context; with a function, words may be whole texts.

Cost: one pass of the encoder over all text; with a cache, over new text. Memory: the returned arrays, 4 d bytes per
position, or 2 d with dtype="float16".

The cache has one data file for each key:

    FOLDER / ab / abcdef....npy        the array as NumPy writes it, then the SHA-256 of those bytes

A key is the digest of everything that an array depends on. A file gets its name when it is complete, so that several
processes may share a folder. A damaged file counts as missing and is written again; no code is read from files.

Raises ValueError, TypeError or ImportError with advice.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from safetensors.numpy import load, save
from sklearn.base import BaseEstimator, TransformerMixin

from kernelfields.features.encoders import Encoder, find_folder
from kernelfields.numerics.parameters import check_choice, check_count, is_whole
from kernelfields.numerics.wording import inflect

_DTYPES = ("float16", "float32", "float64")
_EXPECTED = "X must be a list of sequences, each a list of words"
#: Seconds between lines of progress.
SECONDS_BETWEEN_LINES = 5.0
# A change of how vectors are made from the same model and text has to change this.
_CACHE_VERSION = 2
_DIGEST_BYTES = 32

#: Yields the number of each sequence and its array, in any order.
Vectors = Iterator[tuple[int, np.ndarray]]


# The output is a list of sequences, which scikit-learn's set_output must not wrap into one data frame.
@dataclass(eq=False, repr=False)
class Embeddings(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn sequences of words into sequences of dense vectors.

    Parameters
    ----------
    model : callable, path or str
        A callable takes the list of strings of one sequence and returns an array (positions, d), such as ``encode`` of
        a sentence-transformers model if positions are texts. A path is a folder with a Hugging Face encoder, a name
        that of one downloaded before; both need ``pip install "kernelfields[embeddings]"``. Nothing is ever fetched
        from a network. A word's vector is the mean of those of its subwords.
    layers : tuple of int, optional
        Hidden layers to put side by side; 0 are the input embeddings, -1 and None the last layer.
    dtype : {"float32", "float16", "float64"}, default "float32"
        The type of arrays, in memory and in the cache.
    cache : path, optional
        A folder that keeps arrays for the next time, keyed by the content of the model, the text and the parameters
        above. A callable can be cached if it has a string ``cache_key`` that names its content.
    batch_size : int, default 32
        Sequences that go through the encoder together.
    device : str, optional
        Where torch runs the encoder; None takes a CUDA device if there is one.
    verbose : int, default 0
        1 shows the progress of a long transform.

    See Also
    --------
    TunedEncoder : Tunes the encoder on labels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields.features import Embeddings
    >>> def vectors(words):
    ...     return np.array([[len(word), word.istitle()] for word in words], dtype=float)
    >>> Embeddings(vectors).fit_transform([["Ann", "sings"]])[0]
    array([[3., 1.],
           [5., 0.]], dtype=float32)
    """

    model: Any
    _: KW_ONLY
    layers: Sequence[int] | None = None
    dtype: str = "float32"
    cache: str | os.PathLike | None = None
    batch_size: int = 32
    device: str | None = None
    verbose: int = 0

    # The encoder that was loaded for a model and a device; no parameter, so not annotated.
    _loaded = cast("tuple[tuple, Encoder] | None", None)

    def fit(self, X: object = None, y: object = None) -> Embeddings:
        """Check the parameters and load the model; there is nothing to learn.

        Parameters
        ----------
        X : list of sequences, optional
            Not used.
        y : object, optional
            Not used.

        Returns
        -------
        self
            The transformer.
        """
        self._check_parameters()
        self._get_encoder()
        return self

    def transform(self, X: object) -> list[np.ndarray]:
        """Return the vectors of each sequence of strings.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list of array (positions, d)
            The vectors.
        """
        self._check_parameters()
        sequences = _read_sequences(X)
        encoder, cache = self._get_encoder(), None if self.cache is None else ArrayCache(self.cache)
        found: list[np.ndarray | None] = [None] * len(sequences)
        keys = [] if cache is None else self._keys(encoder, sequences)
        for number, key in enumerate(keys):
            found[number] = cache.get(key)  # type: ignore[union-attr]
        missing = [number for number, array in enumerate(found) if array is None]
        made = self._vectors(encoder, [sequences[number] for number in missing])
        for place, vectors in _report_progress(made, len(missing), len(sequences)) if self.verbose else made:
            number = missing[place]
            found[number] = array = _to_vectors(vectors, len(sequences[number]), number).astype(self.dtype, copy=False)
            if cache is not None:
                cache.put(keys[number], array)
        return _check_same_width([array for array in found if array is not None])

    def __sklearn_is_fitted__(self) -> bool:
        """Whether ``transform`` can be called: always, as there is nothing to learn."""
        return True

    def __sklearn_clone__(self) -> Embeddings:
        """Share the model: a copy of it for every fold would only fill memory."""
        copy = type(self)(**self.get_params(deep=False))
        copy._loaded = self._loaded
        return copy

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the encoder, which is loaded again after unpickling."""
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def _check_parameters(self) -> None:
        check_choice(self.dtype, "dtype", _DTYPES)
        if self.layers is not None:
            whole = isinstance(self.layers, tuple | list) and all(map(is_whole, self.layers))
            if not whole or not self.layers:
                raise ValueError(f"layers must be whole numbers such as (0, 3, 6), or None, got {self.layers!r}")
        check_count(self.batch_size, "batch_size")

    def _get_encoder(self) -> Encoder | None:
        """Return the encoder, loaded once for a folder and a device; None if the model is a function."""
        if callable(self.model):
            if self.layers is not None:
                raise ValueError("layers are those of a Hugging Face encoder: this model has none to choose from")
            return None
        if not isinstance(self.model, str | os.PathLike):
            raise TypeError(f"model must be a callable or the path of a model folder, got {type(self.model).__name__}")
        wanted = (self.model, self.device)
        if self._loaded is None or self._loaded[0] != wanted:
            self._loaded = (wanted, Encoder(find_folder(self.model), device=self.device))
        encoder = self._loaded[1]
        encoder.check_layers(self.layers)
        return encoder

    def _vectors(self, encoder: Encoder | None, sequences: list[list[str]]) -> Vectors:
        if encoder is not None:
            return encoder.words(sequences, self.layers, self.batch_size)
        return ((number, self.model(words)) for number, words in enumerate(sequences))

    def _keys(self, encoder: Encoder | None, sequences: list[list[str]]) -> list[str]:
        model = getattr(self.model, "cache_key", None) if encoder is None else encoder.content_key
        if not isinstance(model, str):
            raise ValueError(
                "cache needs the content of the model: give the path of a folder, or a callable with a string "
                "cache_key that changes with what it computes, or cache=None"
            )
        layers = None if encoder is None else encoder.check_layers(self.layers)
        return [cache_key([_CACHE_VERSION, model, layers, self.dtype], words) for words in sequences]


def write_line(text: str) -> None:
    """Write a line of progress on standard error."""
    from rich.console import Console

    Console(stderr=True).print(text, highlight=False)


def _report_progress(vectors: Vectors, n_missing: int, n_sequences: int) -> Vectors:
    """Yield vectors, and report their number and the remaining time on standard error."""

    def write(text: str) -> None:
        write_line(f"embeddings: {text}")

    begin = last = time.monotonic()
    if n_missing < n_sequences:
        write(f"{n_sequences - n_missing:,} of {n_sequences:,} sequences from the cache")
    for done, found in enumerate(vectors, start=1):
        yield found
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last, left = now, (now - begin) * (n_missing - done) / done
            write(f"{done:,} of {n_missing:,} sequences, {now - begin:.0f} s, {left:.0f} s left")
    if n_missing:
        write(f"{inflect(n_missing, 'sequence')}, {time.monotonic() - begin:.0f} s")


def _read_sequences(X: object) -> list[list[str]]:
    """Return sequences as lists of strings; TypeError or ValueError for other inputs."""
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise TypeError(f"{_EXPECTED}, got {type(X).__name__}")
    return [_read_sequence(words, number) for number, words in enumerate(X)]


def _read_sequence(words: object, number: int) -> list[str]:
    if isinstance(words, str | bytes):
        raise TypeError(f"{_EXPECTED}: sequence {number} is one string, split it into words, for example x.split()")
    if not isinstance(words, Iterable):
        raise TypeError(f"{_EXPECTED}: sequence {number} is {type(words).__name__}")
    found = list(words)
    if not found:
        raise ValueError(f"sequence {number} has no words: remove empty sequences from X and y")
    for position, word in enumerate(found):
        if not isinstance(word, str):
            came = f"{word!r:.60} ({type(word).__name__})"
            raise TypeError(f"{_EXPECTED}: sequence {number}, position {position} is {came}, expected a string")
    return [str(word) for word in found]


def _to_vectors(vectors: object, n_positions: int, number: int) -> np.ndarray:
    """Convert the vectors of a sequence to an array (positions, d) of finite numbers."""
    if hasattr(vectors, "detach"):  # a tensor, wherever it is and of whatever precision
        vectors = vectors.detach().cpu().float().numpy()
    array = np.asarray(vectors)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"model made {array.dtype} of sequence {number} where numbers are needed")
    if array.ndim != 2 or len(array) != n_positions or not array.shape[1]:
        raise ValueError(
            f"model made an array of shape {array.shape} of sequence {number}, which has {n_positions} positions: "
            "each of them needs a row of numbers"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"model made numbers that are not finite of sequence {number}")
    return array


def _check_same_width(arrays: list[np.ndarray]) -> list[np.ndarray]:
    for number, array in enumerate(arrays):
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"model made {array.shape[1]} columns of sequence {number} but {arrays[0].shape[1]} of sequence 0"
            )
    return arrays


def cache_key(*parts: object) -> str:
    """Return the digest of plain values: strings, numbers, lists and None."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


class ArrayCache:
    """A cache of arrays by key in a folder, which the first array creates."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = Path(folder).expanduser()
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"cache: {self.folder} is a file, give a folder")

    def get(self, key: str) -> np.ndarray | None:
        """Return the array of a key, or None without a complete file."""
        body = self._read(self._path(key))
        return None if body is None else np.load(io.BytesIO(body), allow_pickle=False)

    def put(self, key: str, array: np.ndarray) -> None:
        """Store the array of a key."""
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        self._write(self._path(key), buffer.getvalue())

    def get_all(self, key: str) -> dict[str, np.ndarray] | None:
        """Return the named arrays of a key, or None without a complete file."""
        body = self._read(self._path(key, "safetensors"))
        return None if body is None else {name: np.array(array) for name, array in load(body).items()}

    def put_all(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store named arrays of a key, in the format of safetensors."""
        self._write(self._path(key, "safetensors"), save(dict(arrays)))

    def _read(self, path: Path) -> bytes | None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        return body if hashlib.sha256(body).digest() == digest else None

    def _write(self, path: Path, body: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            draft.write_bytes(body + hashlib.sha256(body).digest())
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)

    def _path(self, key: str, suffix: str = "npy") -> Path:
        return self.folder / key[:2] / f"{key}.{suffix}"
