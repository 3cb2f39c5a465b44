"""A pretrained encoder tuned on the labels of words, fold by fold: its outputs are features without leakage.

    fit_transform    for every fold:  encoder tuned on the other folds  ->  outputs for the words of this fold
    transform        new words        ->  mean of the outputs of all tuned encoders

Folds contain whole sequences. The outputs for a word come from a network that was not tuned on its label, so that a
field can weigh them against other features. Words with an unknown label are context in the tuning, and get outputs.

``fit_transform(X, y)`` is not ``fit(X, y).transform(X)``; a Pipeline calls the first. With a ``cache``, an encoder is
kept as soon as its fold is done, under a key of the model's files, the words and labels it was tuned on and the
settings: a fit that was interrupted goes on with the next fold, and one that is repeated tunes nothing.
Cost: cv tunings of the encoder (features/encoder_tuning.py); memory: the weights of cv encoders.
Raises ValueError, TypeError or ImportError naming the parameter, or the fold, before the first encoder is tuned.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.text_files import whole_folder, write_whole
from kernelfields.features.embeddings import SECONDS_BETWEEN_LINES, ArrayCache, cache_key, write_line
from kernelfields.features.encoders import Encoder, find_folder
from kernelfields.features.folds import assign_folds, check_training_labels, known_labels
from kernelfields.features.text import TRANSFORMERS, TextFeatures
from kernelfields.numerics.parameters import check_count, is_real

# A change of how encoders are tuned has to change this.
_CACHE_VERSION = 1
_DESCRIPTION = "tuned_encoder.json"
_HEAD = "head.safetensors"


class _Tuned(NamedTuple):
    """The weights of a tuned encoder and of the layer on top, and their key in the cache, empty without one."""

    encoder: dict[str, np.ndarray]
    weight: np.ndarray
    bias: np.ndarray
    key: str = ""


@TRANSFORMERS.register("tuned encoder")
class TunedEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Convert words to the outputs of a Hugging Face encoder that is tuned on labels, fold by fold.

    Sequences are lists of words, or of rows of cells such as ("sleeps", "VBZ"), as for
    :class:`~kernelfields.TextFeatures`; the output is an array (words, labels) for each. Needs ``pip install
    "kernelfields[embeddings]"``. Attributes after fit: ``classes_``, the labels of the columns; ``folds_``, the fold of
    each sequence; ``fold_accuracy_``, the share of known labels of each fold that have the largest output, by the
    encoder that was tuned on the others.

    Parameters
    ----------
    model : path or str
        A folder of a Hugging Face encoder, or the name of one that was downloaded before. Nothing is ever fetched.
    word_column : int or str, default 0
        The column of the words, if positions are rows of cells.
    cv : int or splitter, default 5
        Folds over sequences.
    groups : callable, optional
        A function of a sequence: those with an equal result share a fold.
    learning_rate : float, default 2e-4
        The step of the tuning.
    epochs : int, default 2
        How often it passes over the data.
    batch_size : int, default 32
        Sequences of a step.
    dropout : float, default 0.1
        The share of units that a step leaves out.
    cache : path, optional
        A folder that keeps tuned encoders and outputs for the next time; it needs a ``random_state``.
    device : str, optional
        Where torch computes; None takes a CUDA device if there is one.
    verbose : int, default 0
        1 shows the progress of the tuning.
    random_state : int or None, default 0
        The seed of folds of a number ``cv``, first weights of the last layer, batches and dropout.

    See Also
    --------
    Embeddings : Vectors of an encoder as it is.

    Examples
    --------
    The folder of an encoder is needed to go on from here:

    >>> from kernelfields.features import TunedEncoder
    >>> TunedEncoder("all-MiniLM-L6-v2", epochs=1).get_params()["epochs"]
    1
    """

    #: The encoder of a folder and a device.
    _loaded: tuple[tuple[Path, str | None], Encoder] | None = None

    def __init__(
        self,
        model: str | os.PathLike,
        *,
        word_column: int | str = 0,
        cv: Any = 5,
        groups: Callable[[Any], Any] | None = None,
        learning_rate: float = 2e-4,
        epochs: int = 2,
        batch_size: int = 32,
        dropout: float = 0.1,
        cache: str | os.PathLike | None = None,
        device: str | None = None,
        verbose: int = 0,
        random_state: int | None = 0,
    ):
        self.model = model
        self.word_column = word_column
        self.cv = cv
        self.groups = groups
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.dropout = dropout
        self.cache = cache
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Tune an encoder for each fold.

        ``fit_transform`` gives the outputs out of fold as well.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences
            The labels.

        Returns
        -------
        self
            The fitted transformer.
        """
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any) -> list[np.ndarray]:
        """Tune an encoder for each fold; return outputs of encoders tuned on other sequences.

        Parameters
        ----------
        X : list of sequences
            The sequences.
        y : list of sequences
            The labels.

        Returns
        -------
        list of array (words, labels)
            The outputs.
        """
        self._check_parameters()
        sequences = self._words(X)
        lengths = np.array([len(words) for words in sequences], dtype=np.int64)
        labels, known = known_labels(y, lengths)
        check_training_labels(labels, known, "the fit")
        groups = None if self.groups is None else [self.groups(sequence) for sequence in X]
        folds = assign_folds(len(sequences), self.cv, groups, random_state=self.random_state)
        n_folds, fold_of_row = int(folds.max()) + 1, np.repeat(folds, lengths)
        for fold in range(n_folds):
            check_training_labels(labels, known & (fold_of_row != fold), f"fold {fold + 1} of {n_folds}")
        folder = find_folder(self.model)
        classes = np.unique(labels[known])
        codes = np.where(known, np.searchsorted(classes, labels), -1)
        encoder = self._get_encoder(folder)
        untuned = encoder.weights()
        model_key = None if self.cache is None else encoder.content_key
        tuned: list[_Tuned] = []
        made: list[np.ndarray] = [np.empty(0)] * len(sequences)
        shares = []
        for fold in range(n_folds):
            begin, what = time.monotonic(), f"fold {fold + 1} of {n_folds}"
            others, own = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            training = [sequences[i] for i in others], codes[fold_of_row != fold]
            tuned.append(self._tune(encoder, untuned, training, classes, model_key, what))
            outputs = self._outputs(encoder, tuned[-1:], [sequences[i] for i in own])
            for i, rows in zip(own, outputs, strict=True):
                made[i] = rows
            held = codes[fold_of_row == fold]
            hits = (np.concatenate(outputs).argmax(axis=1) == held)[held >= 0]
            shares.append(float(hits.mean()) if len(hits) else np.nan)
            self._write(f"{what}: accuracy {100 * shares[-1]:.2f} % on its own words, {time.monotonic() - begin:.0f} s")
        self.classes_, self.folds_, self.fold_accuracy_ = classes, folds, np.array(shares)
        self._members, self._folder = tuned, folder
        return made

    def transform(self, X: Any) -> list[np.ndarray]:
        """Return the mean outputs of all tuned encoders.

        Parameters
        ----------
        X : list of sequences
            The sequences.

        Returns
        -------
        list of array (words, labels)
            The outputs.
        """
        check_is_fitted(self, "classes_")
        sequences = self._words(X)
        if not sequences:
            return []
        return self._outputs(self._get_encoder(self._folder), self._members, sequences)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return a name for each column, such as "logit of B-NP".

        Parameters
        ----------
        input_features : list of str, optional
            The names of the columns of inputs; those of the fit by default.

        Returns
        -------
        array of str
            The names.
        """
        check_is_fitted(self, "classes_")
        return np.array([f"logit of {label}" for label in self.classes_], dtype=object)

    def save(self, folder: str | os.PathLike) -> None:
        """Write the tuned encoders to a new folder: weights and tokenizers in the format of Hugging Face, no code.

        Parameters
        ----------
        folder : path
            The folder.
        """
        check_is_fitted(self, "classes_")
        place = Path(folder)
        if place.exists():
            raise ValueError(f"{place} is there already: give the name of a new folder")
        encoder = self._get_encoder(self._folder)
        own = {"word_column": self.word_column, "model": os.fspath(self.model), "n": len(self._members)}
        described = {**own, "classes": self.classes_.tolist()}
        with whole_folder(place) as draft:
            for number, member in enumerate(self._members):
                encoder.set_weights(member.encoder)
                encoder.save(draft / f"fold-{number}")
                save_file({"weight": member.weight, "bias": member.bias}, draft / f"fold-{number}" / _HEAD)
            write_whole({str(draft / _DESCRIPTION): json.dumps(described).encode()})

    @classmethod
    def load(cls, folder: str | os.PathLike, *, device: str | None = None) -> Self:
        """Load a transformer from its folder; another fit starts from its ``model``.

        Parameters
        ----------
        folder : path
            The folder.
        device : str, optional
            Where torch computes.

        Returns
        -------
        TunedEncoder
            The transformer.
        """
        place = Path(folder)
        if not (place / _DESCRIPTION).is_file():
            raise ValueError(f"{place} has no {_DESCRIPTION}: give a folder that TunedEncoder.save wrote")
        described = json.loads((place / _DESCRIPTION).read_text())
        made = cls(described["model"], device=device, word_column=described["word_column"])
        made._check_parameters()
        made._members = []
        for number in range(described["n"]):
            weights = Encoder(place / f"fold-{number}", device=device).weights()
            made._members.append(_Tuned(weights, **load_file(place / f"fold-{number}" / _HEAD)))
        made.classes_, made._folder = np.array(described["classes"]), place / "fold-0"
        return made

    def describe(self) -> dict[str, object]:
        """Raise TypeError, because model files do not support encoders.

        Returns
        -------
        dict
            Nothing is returned.
        """
        raise TypeError(
            "a TunedEncoder, which a file of data cannot hold: keep it in a folder beside the model, by its own "
            "save(folder), and apply it before the pipeline"
        )

    @classmethod
    def rebuild(cls, described: Mapping[str, Any]) -> Self:
        """Raise TypeError, because model files do not support encoders.

        Parameters
        ----------
        described : dict
            A description.

        Returns
        -------
        TunedEncoder
            Nothing is returned.
        """
        raise TypeError("model files hold no TunedEncoder: use TunedEncoder.load(folder)")

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the encoder, which is loaded again after unpickling."""
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def _check_parameters(self) -> None:
        if not isinstance(self.model, str | os.PathLike):
            raise TypeError(f"model must be the path of a model folder or its name, got {type(self.model).__name__}")
        check_count(self.epochs, "epochs")
        check_count(self.batch_size, "batch_size")
        for name, value, low in (("learning_rate", self.learning_rate, 0), ("dropout", self.dropout, -1e-9)):
            if not is_real(value) or not low < value < 1:
                raise ValueError(f"{name} must be a number between 0 and 1, got {value!r}")

    def _words(self, X: Any) -> list[list[str]]:
        """Return the words of each sequence."""
        columns = TextFeatures(word_column=self.word_column, tag_columns=()).split_columns(X)
        for number, own in enumerate(columns):
            if not own[0]:
                raise ValueError(f"sequence {number} has no words: remove empty sequences from X and y")
        return [own[0] for own in columns]

    def _get_encoder(self, folder: Path) -> Encoder:
        """Return the encoder of a folder, loaded once."""
        if self._loaded is None or self._loaded[0] != (folder, self.device):
            self._loaded = (folder, self.device), Encoder(folder, device=self.device)
        return self._loaded[1]

    def _tune(
        self,
        encoder: Encoder,
        untuned: dict[str, np.ndarray],
        training: tuple[list[list[str]], np.ndarray],
        classes: np.ndarray,
        model_key: str | None,
        what: str,
    ) -> _Tuned:
        """Tune an encoder on words and labels, or take it from the cache."""
        from kernelfields.features.encoder_tuning import TuningSettings, label_loss, tune

        settings = TuningSettings(float(self.learning_rate), self.epochs, self.batch_size, float(self.dropout))
        seed = self.random_state
        sequences, codes = training
        key, cache = "", None
        if model_key is not None and self.cache is not None and seed is not None:
            own = [_CACHE_VERSION, model_key, *vars(settings).values(), int(seed), classes.tolist()]
            key, cache = cache_key(own, sequences, codes.tolist()), ArrayCache(self.cache)
            if (kept := cache.get_all(key)) is not None:
                self._write(f"{what}: from the cache")
                return _Tuned(kept, kept.pop(".weight"), kept.pop(".bias"), key)
        encoder.set_weights(untuned)
        head = tune(
            encoder,
            sequences,
            codes >= 0,
            len(classes),
            label_loss(codes, len(classes), encoder.device),
            settings,
            int(np.random.default_rng().integers(2**31)) if seed is None else int(seed),
            self._reporter(what),
        )
        member = _Tuned(encoder.weights(), *head, key)
        if cache is not None:
            cache.put_all(key, {**member.encoder, ".weight": member.weight, ".bias": member.bias})
        return member

    def _outputs(self, encoder: Encoder, members: list[_Tuned], sequences: list[list[str]]) -> list[np.ndarray]:
        """Return the mean outputs of tuned encoders for each sequence."""
        from kernelfields.features.encoder_tuning import Head, compute_tuned_outputs

        cached = self.cache is not None and all(member.key for member in members)
        cache = ArrayCache(self.cache) if cached and self.cache is not None else None
        keys = [cache_key([member.key for member in members], words) for words in sequences]
        found = [None if cache is None else cache.get(key) for key in keys]
        missing = [number for number, rows in enumerate(found) if rows is None]
        sums: list[np.ndarray] = []
        for member in members if missing else ():
            encoder.set_weights(member.encoder)
            own = compute_tuned_outputs(
                encoder, Head(member.weight, member.bias), [sequences[number] for number in missing]
            )
            sums = own if not sums else [total + rows for total, rows in zip(sums, own, strict=True)]
        for number, total in zip(missing, sums, strict=True):
            found[number] = rows = total / np.float32(len(members))
            if cache is not None:
                cache.put(keys[number], rows)
        return [rows for rows in found if rows is not None]

    def _write(self, text: str) -> None:
        if self.verbose:
            write_line(f"tuned encoder: {text}")

    def _reporter(self, what: str) -> Callable[[int, int, float], None]:
        begin = last = time.monotonic()

        def report(step: int, n_steps: int, loss: float) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= SECONDS_BETWEEN_LINES:
                last, left = now, (now - begin) * (n_steps - step) / step
                self._write(f"{what}, step {step} of {n_steps}, loss {loss:.3f}, {left:.0f} s left")

        return report
