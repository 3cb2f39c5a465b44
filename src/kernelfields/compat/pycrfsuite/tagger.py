"""Tagger: labels, marginals and probabilities of single sequences by a model file, in NumPy alone.

    marginal     p(y_t = a | x)          probability     p(y | x) = exp(score(x, y) - log Z(x))

Files of CRFsuite and of this package open alike; labels and attributes keep the order of the file. The forward and
backward passes are those of inference/chain/plain.py, in float64.
Raises ModelFileError for files that are no models; a ValueError that is a RuntimeError as well if no model is open.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from kernelfields.compat.pycrfsuite.scores import NOTHING, NamedScores
from kernelfields.data.text_files import write_whole
from kernelfields.inference.chain import plain
from kernelfields.models.crfsuite_document import weights_of_document
from kernelfields.models.crfsuite_file import CRFsuiteModel
from kernelfields.models.model_file import ModelFileError, is_crfsuite_file, read_crfsuite_model, read_model_parts

_KINDS = ("ChainCRF", "compat.CRF")


class TaggerNotOpenError(ValueError, RuntimeError):
    """No model is open."""


@dataclass
class ParsedDump:
    """Labels, attributes and weights of a model by name.

    Parameters
    ----------
    header : dict
        The size of the file and the numbers of features, labels and attributes, as strings.
    labels : dict
        Numbers of the labels, as strings.
    attributes : dict
        Numbers of the attributes with a weight, as strings.
    transitions : dict
        Weights {(label from, label to): weight}.
    state_features : dict
        Weights {(attribute, label): weight}.

    Examples
    --------
    >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
    >>> trainer = Trainer(verbose=False)
    >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
    >>> trainer.train("tagger.crfsuite")
    >>> with Tagger().open("tagger.crfsuite") as tagger:
    ...     tagger.info().labels
    {'NAME': '0', 'VERB': '1'}
    """

    header: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    transitions: dict[tuple[str, str], float] = field(default_factory=dict)
    state_features: dict[tuple[str, str], float] = field(default_factory=dict)


class Tagger:
    """Predict labels of single sequences by a model file of CRFsuite or of this package.

    See Also
    --------
    kernelfields.load : Opens the same files as a field, with all its answers.

    Examples
    --------
    >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
    >>> trainer = Trainer(verbose=False)
    >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
    >>> trainer.train("tagger.crfsuite")
    >>> tagger = Tagger()
    >>> opened = tagger.open("tagger.crfsuite")
    >>> tagger.tag([{"word": "Ann"}, {"word": "sings"}])
    ['NAME', 'VERB']
    >>> round(tagger.marginal("VERB", 1), 1)
    0.6
    """

    def __init__(self) -> None:
        self._scores: NamedScores | None = None
        self.close()

    def open(self, name: str | os.PathLike[str]) -> contextlib.closing[Tagger]:
        """Open a model file.

        Parameters
        ----------
        name : str or path
            A file of CRFsuite, or one that a :class:`Trainer`, ``compat.CRF`` or a linear ChainCRF wrote.

        Returns
        -------
        context manager
            It closes the model at its end; without it, the model stays open.

        Raises
        ------
        ModelFileError
            If the file is no sound model, or one with other weights than those of names and transitions.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
        >>> trainer = Trainer(verbose=False)
        >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
        >>> trainer.train("tagger.crfsuite")
        >>> with Tagger().open("tagger.crfsuite") as tagger:
        ...     tagger.labels()
        ['NAME', 'VERB']
        """
        model = _read_model(name)
        self.close()
        self._scores, self._size = NamedScores(model), os.path.getsize(name)
        return contextlib.closing(self)

    def open_inmemory(self, value: bytes) -> contextlib.closing[Tagger]:
        """Open the content of a model file.

        Parameters
        ----------
        value : bytes
            The content.

        Returns
        -------
        context manager
            It closes the model at its end.

        Raises
        ------
        ModelFileError
            If the content is no sound model.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            write_whole({path: value})
            return self.open(path)

    def close(self) -> None:
        """Close the model."""
        self._scores = None
        self._size = 0
        self._given = NOTHING
        self._nodes: np.ndarray | None = None
        self._beliefs: plain.Beliefs | None = None

    def labels(self) -> list[str]:
        """Return the labels of the model, in the order of the file.

        Returns
        -------
        list of str
            The labels.
        """
        return list(self._get_scores().model.labels)

    def set(self, xseq: Iterable) -> None:
        """Set the current sequence.

        Parameters
        ----------
        xseq : list of dict, or of lists of str, or ItemSequence
            The attributes of each position.
        """
        self._given, self._nodes, self._beliefs = self._get_scores().read(xseq), None, None

    def tag(self, xseq: Iterable | None = None) -> list[str]:
        """Predict the most probable labelling of a sequence.

        Parameters
        ----------
        xseq : list of dict, or of lists of str, or ItemSequence, optional
            The attributes of each position; by default the sequence of before.

        Returns
        -------
        list of str
            The labels.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
        >>> trainer = Trainer(verbose=False)
        >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
        >>> trainer.train("tagger.crfsuite")
        >>> with Tagger().open("tagger.crfsuite") as tagger:
        ...     tagger.tag([{"word": "Ann"}, {"word": "dances"}])
        ['NAME', 'VERB']
        """
        scores = self._scores or self._get_scores()
        if xseq is not None:
            self._given, self._nodes, self._beliefs = scores.read(xseq), None, None
        return scores.label(self._given)

    def probability(self, yseq: Sequence[str]) -> float:
        """Compute the probability of a labelling of the current sequence.

        Parameters
        ----------
        yseq : list of str
            A label for each position.

        Returns
        -------
        float
            The probability, 0 of an empty sequence.

        Raises
        ------
        ValueError
            If a label is unknown, or if there are more or fewer labels than positions.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
        >>> trainer = Trainer(verbose=False)
        >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
        >>> trainer.train("tagger.crfsuite")
        >>> with Tagger().open("tagger.crfsuite") as tagger:
        ...     tagger.set([{"word": "Ann"}])
        ...     round(tagger.probability(["NAME"]) + tagger.probability(["VERB"]), 6)
        1.0
        """
        scores, given = self._get_scores(), list(yseq)
        if len(given) != self._given[0]:
            raise ValueError(f"there are {self._given[0]} positions and {len(given)} labels: each needs one")
        labelling = [self._find_label(label) for label in given]
        if not labelling:
            return 0.0
        return float(np.exp(scores.score(self._node_scores(), labelling) - self._infer().log_partition[0]))

    def marginal(self, y: str, pos: int) -> float:
        """Compute the probability of a label at a position of the current sequence.

        Parameters
        ----------
        y : str
            The label.
        pos : int
            The position.

        Returns
        -------
        float
            The probability, 0 of an empty sequence.

        Raises
        ------
        ValueError
            If the label or the position does not exist.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
        >>> trainer = Trainer(verbose=False)
        >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
        >>> trainer.train("tagger.crfsuite")
        >>> with Tagger().open("tagger.crfsuite") as tagger:
        ...     tagger.set([{"word": "Ann"}])
        ...     round(tagger.marginal("NAME", 0) + tagger.marginal("VERB", 0), 6)
        1.0
        """
        label = self._find_label(y)
        n_positions = self._given[0]
        if not n_positions:
            return 0.0
        if not 0 <= pos < n_positions:
            raise ValueError(f"there is no position {pos}: the sequence has {n_positions}")
        return float(self._infer().marginals[pos, label])

    def info(self) -> ParsedDump:
        """Return labels, attributes and weights by name.

        Returns
        -------
        ParsedDump
            The model.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
        >>> trainer = Trainer(verbose=False)
        >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
        >>> trainer.train("tagger.crfsuite")
        >>> with Tagger().open("tagger.crfsuite") as tagger:
        ...     sorted(tagger.info().attributes)
        ['word:Ann', 'word:sings']
        """
        model = self._get_scores().model
        n_features = len(model.states.values) + len(model.transitions.values)
        sizes = (self._size, n_features, len(model.labels), len(model.attributes))
        return ParsedDump(
            dict(zip(("size", "num_features", "num_labels", "num_attrs"), map(str, sizes), strict=True)),
            {name: str(number) for number, name in enumerate(model.labels)},
            {name: str(number) for number, name in enumerate(model.attributes)},
            dict(_name_weights(model.labels, model.labels, model.transitions)),
            dict(_name_weights(model.attributes, model.labels, model.states)),
        )

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as text.

        Parameters
        ----------
        filename : str or path, optional
            The file; by default standard output.
        """
        lines = _dump_lines(self.info())
        if filename is None:
            sys.stdout.writelines(lines)
        else:
            write_whole({os.fspath(filename): "".join(lines).encode()})

    def _get_scores(self) -> NamedScores:
        if self._scores is None:
            raise TaggerNotOpenError("no model is open: call open(path) first")
        return self._scores

    def _find_label(self, label: str) -> int:
        labels = self._get_scores().model.labels
        if label not in labels:
            raise ValueError(f"{label!r:.60} is no label of the model, which has {', '.join(labels[:10])}")
        return labels.index(label)

    def _node_scores(self) -> np.ndarray:
        if self._nodes is None:
            self._nodes = self._get_scores().nodes(self._given)
        return self._nodes

    def _infer(self) -> plain.Beliefs:
        if self._beliefs is None:
            nodes, edge = self._node_scores(), self._get_scores().edge[None]
            self._beliefs = plain.infer(plain.Chains(nodes, edge, np.array([0, len(nodes)])))
        return self._beliefs


def open_tagger(model: CRFsuiteModel) -> Tagger:
    """Return a tagger for given labels, attributes and weights."""
    tagger = Tagger()
    tagger._scores = NamedScores(model)
    return tagger


def _read_model(name: str | os.PathLike[str]) -> CRFsuiteModel:
    """Read the weights of a model file; ModelFileError if features or transitions have no names."""
    if is_crfsuite_file(name):
        return read_crfsuite_model(name)
    kind, document, _ = read_model_parts(name, _KINDS)
    try:
        chain_document: Mapping[str, Any] = document["field"]["chain"] if kind == "compat.CRF" else document
        return weights_of_document(chain_document)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
        raise ModelFileError(f"{os.fspath(name)} is no model that a tagger can open: {error}") from error


def _name_weights(
    sources: list[str], labels: list[str], weights: Iterable[np.ndarray]
) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield weights by the names of their sources and labels."""
    for source, label, weight in zip(*(part.tolist() for part in weights), strict=True):
        yield (sources[source], labels[label]), weight


def _dump_lines(info: ParsedDump) -> Iterator[str]:
    """Yield the lines of a model in CRFsuite's text format."""
    parts: list[tuple[str, Iterable[str]]] = [
        ("FILEHEADER", (f"{name}: {value}" for name, value in info.header.items())),
        ("LABELS", (f"{number:>5}: {name}" for name, number in info.labels.items())),
        ("ATTRIBUTES", (f"{number:>5}: {name}" for name, number in info.attributes.items())),
        ("TRANSITIONS", (f"(1) {a} --> {b}: {weight:f}" for (a, b), weight in info.transitions.items())),
        ("STATE_FEATURES", (f"(0) {a} --> {b}: {weight:f}" for (a, b), weight in info.state_features.items())),
    ]
    return chain.from_iterable(
        [f"{title} = {{\n", *(f"  {line}\n" for line in lines), "}\n", "\n"] for title, lines in parts
    )
