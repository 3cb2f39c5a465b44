"""Trainer: parameters, sequences and a training that writes a model file, computed by compat.CRF.

    trainer = Trainer(params={"c1": 0.1, "c2": 0.01, "feature.minfreq": 0})
    trainer.append(xseq, yseq); trainer.train("names.crfsuite")

Parameters have CRFsuite's names and defaults; training.py says what they mean here. The file that is written is one of
this package, whatever its name: taggers, ``compat.CRF.load`` and ``kernelfields.load`` open it.
Raises NotImplementedError for algorithms that are no fit of a likelihood, ValueError for unknown parameters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from kernelfields.compat.crf import CRF
from kernelfields.compat.holdout import holdout_lines, score_holdout
from kernelfields.compat.pycrfsuite.item_sequence import Item, ItemSequence
from kernelfields.compat.pycrfsuite.training_messages import TrainLog
from kernelfields.compat.training import check_algorithm, train_chain
from kernelfields.solvers.loop import Iteration


class CRFSuiteError(Exception):
    """A training of python-crfsuite failed.

    Examples
    --------
    >>> from kernelfields.compat.pycrfsuite import CRFSuiteError
    >>> issubclass(CRFSuiteError, Exception)
    True
    """


class _Parameter(NamedTuple):
    """A parameter: its name in compat.CRF, its type, its default and a description."""

    own: str
    read: Callable[[Any], Any]
    default: Any
    help: str


def _read_flag(text: object) -> bool:
    return bool(int(float(str(text))))


def _read_count(text: object) -> int:
    return int(str(text))


_OF_FEATURES = {
    "feature.minfreq": _Parameter("min_freq", float, 0.0, "The minimum frequency of features."),
    "feature.possible_states": _Parameter(
        "all_possible_states", _read_flag, False, "Force to generate possible state features."
    ),
    "feature.possible_transitions": _Parameter(
        "all_possible_transitions", _read_flag, False, "Force to generate possible transition features."
    ),
}
_OF_STOPPING = {
    "period": _Parameter("period", _read_count, 10, "The iterations over which the loss is compared."),
}
_C2 = _Parameter("c2", float, 1.0, "Coefficient for L2 regularization.")
_PARAMETERS: dict[str, dict[str, _Parameter]] = {
    "lbfgs": {
        **_OF_FEATURES,
        "c1": _Parameter("c1", float, 0.0, "Coefficient for L1 regularization."),
        "c2": _C2,
        "max_iterations": _Parameter("max_iterations", _read_count, 2**31 - 1, "The largest number of iterations."),
        "num_memories": _Parameter("num_memories", _read_count, 6, "The number of steps that L-BFGS remembers."),
        "epsilon": _Parameter("epsilon", float, 1e-5, "The gradient, by that of the weights, at which a fit ends."),
        **_OF_STOPPING,
        "delta": _Parameter("delta", float, 1e-5, "The share by which the loss has to fall within a period."),
        "linesearch": _Parameter("linesearch", str, "MoreThuente", "The line search; there is a choice in CRFsuite."),
        "max_linesearch": _Parameter("max_linesearch", _read_count, 20, "The trials of the line search in CRFsuite."),
    },
    "l2sgd": {
        **_OF_FEATURES,
        "c2": _C2,
        "max_iterations": _Parameter("max_iterations", _read_count, 1000, "The largest number of iterations."),
        **_OF_STOPPING,
        "delta": _Parameter("delta", float, 1e-6, "The share by which the loss has to fall within a period."),
        **{
            f"calibration.{name}": _Parameter(f"calibration_{name}", read, default, "A setting of CRFsuite's SGD.")
            for name, read, default in (
                ("eta", float, 0.1),
                ("rate", float, 2.0),
                ("samples", float, 1000.0),
                ("candidates", _read_count, 10),
                ("max_trials", _read_count, 20),
            )
        },
    },
}
#: Parameters that CRFsuite has and this package does without, unless they are set to something else than there.
_WITHOUT_MEANING = ("linesearch", "max_linesearch", "calibration")


@dataclass
class _Sequences:
    """Attributes of positions, labels and groups of all sequences."""

    items: list[list[dict[str, float]]] = field(default_factory=list)
    labels: list[list[str]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    #: Each name once, however often it comes.
    names: dict[str, str] = field(default_factory=dict)

    def add(self, rows: list[Item], labels: list[str], group: int) -> None:
        """Add a sequence; weights of equal names at a position are added."""
        kept = []
        for item in rows:
            weights: dict[str, float] = {}
            for name, weight in zip(*item, strict=True):
                shared = self.names.setdefault(name, name)
                weights[shared] = weights.get(shared, 0.0) + weight
            kept.append(weights)
        self.items.append(kept)
        self.labels.append(labels)
        self.groups.append(group)

    def split(self, holdout: int) -> tuple[tuple[list, list], tuple[list, list]]:
        """Return the sequences and labels of the training groups, and of the held-out group."""
        parts: tuple[tuple[list, list], tuple[list, list]] = (([], []), ([], []))
        for items, labels, group in zip(self.items, self.labels, self.groups, strict=True):
            own = parts[group == holdout]
            own[0].append(items)
            own[1].append(labels)
        return parts


class Trainer:
    """Collect labelled sequences, train on them, and write the model to a file.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd"}, optional
        Both fit the same loss with the same solver. "ap", "pa" and "arow" have no counterpart.
    params : dict, optional
        Parameters by CRFsuite's names, as in :meth:`set_params`.
    verbose : bool, default True
        Whether the log is written to standard output.

    Attributes
    ----------
    logparser : TrainLog
        Lines and iterations of the last training.

    See Also
    --------
    Tagger : Opens the file.

    Examples
    --------
    >>> from kernelfields.compat.pycrfsuite import Tagger, Trainer
    >>> trainer = Trainer(params={"c1": 0.1, "c2": 0.01, "feature.minfreq": 0}, verbose=False)
    >>> trainer.append([{"word": "Ann"}, {"word": "sings"}], ["NAME", "VERB"])
    >>> trainer.append([{"word": "Bob"}, {"word": "sings"}], ["NAME", "VERB"])
    >>> trainer.train("tagger.crfsuite")
    >>> with Tagger().open("tagger.crfsuite") as tagger:
    ...     tagger.tag([{"word": "Bob"}, {"word": "sings"}])
    ['NAME', 'VERB']
    """

    # Classes derived from it may leave its constructor out, as those of python-crfsuite do.
    verbose: bool | None = None
    logparser: TrainLog | None = None
    _algorithm = "lbfgs"
    _values: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self, algorithm: str | None = None, params: Mapping[str, object] | None = None, verbose: bool = True
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    def select(self, algorithm: str, type: str = "crf1d") -> None:  # noqa: A002  its name there
        """Select the algorithm, and reset the parameters to its defaults.

        Parameters
        ----------
        algorithm : {"lbfgs", "l2sgd"}
            Both fit the same loss with the same solver.
        type : {"crf1d"}, default "crf1d"
            The model.

        Raises
        ------
        NotImplementedError
            If the algorithm is no fit of a likelihood.
        ValueError
            If there is no such algorithm or model.
        """
        algorithm = algorithm.lower()
        check_algorithm(algorithm)
        if type != "crf1d":
            raise ValueError(f"type must be 'crf1d', got {type!r}")
        self._algorithm, self._values = algorithm, MappingProxyType({})

    def append(self, xseq: Iterable, yseq: Sequence[str], group: int = 0) -> None:
        """Add a labelled sequence.

        Parameters
        ----------
        xseq : list of dict, or of lists of str, or ItemSequence
            The attributes of each position.
        yseq : list of str
            A label for each position.
        group : int, default 0
            The number of the group, which can be held out of a training.

        Raises
        ------
        ValueError
            If there are more or fewer labels than positions.
        """
        rows, labels = ItemSequence(xseq).rows, list(yseq)
        if len(rows) != len(labels):
            raise ValueError(f"there are {len(rows)} positions and {len(labels)} labels: each position needs one label")
        self._appended.add(rows, labels, int(group))

    def clear(self) -> None:
        """Remove all sequences."""
        vars(self).pop("_sequences", None)

    @property
    def _appended(self) -> _Sequences:
        return vars(self).setdefault("_sequences", _Sequences())

    def params(self) -> list[str]:
        """Return the names of the parameters of the algorithm.

        Returns
        -------
        list of str
            The names.
        """
        return list(_PARAMETERS[self._algorithm])

    def set_params(self, params: Mapping[str, object]) -> None:
        """Set several parameters.

        Parameters
        ----------
        params : dict
            Values by name.
        """
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, object]:
        """Return all parameters.

        Returns
        -------
        dict
            Values by name.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Trainer
        >>> Trainer(params={"c1": 0.5}).get_params()["c1"]
        0.5
        """
        return {name: self.get(name) for name in self.params()}

    def set(self, name: str, value: object) -> None:
        """Set a parameter.

        Parameters
        ----------
        name : str
            The name, such as "c1" or "feature.minfreq".
        value : object
            The value; text is read as a number.

        Raises
        ------
        ValueError
            If there is no such parameter, or if the value is none of it.
        """
        parameter = self._find(name)
        try:
            read = parameter.read(int(value) if isinstance(value, bool) else value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must be like {parameter.default!r}, got {value!r:.60}") from error
        self._values = MappingProxyType({**self._values, name: read})

    def get(self, name: str) -> object:
        """Return a parameter.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        object
            The value.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Trainer
        >>> Trainer().get("c2")
        1.0
        """
        return self._values.get(name, self._find(name).default)

    def help(self, name: str) -> str:
        """Return the description of a parameter.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        str
            The description.

        Examples
        --------
        >>> from kernelfields.compat.pycrfsuite import Trainer
        >>> Trainer().help("c1")
        'Coefficient for L1 regularization.'
        """
        return self._find(name).help

    def _find(self, name: str) -> _Parameter:
        own = _PARAMETERS[self._algorithm]
        if name not in own:
            raise ValueError(f"{name!r} is no parameter of {self._algorithm}, which has {', '.join(own)}")
        return own[name]

    def train(self, model: str | os.PathLike[str] | None, holdout: int = -1) -> None:
        """Train on the sequences and write the model.

        Parameters
        ----------
        model : str or path, or None
            The file; nothing is written if it is empty.
        holdout : int, default -1
            The group that is held out: it changes no weight, and its scores are in the log at the end.

        Raises
        ------
        NotImplementedError
            If a parameter without a counterpart is set.
        ValueError
            If there is nothing to train on.
        """
        self.logparser = TrainLog()
        training, held_out = self._appended.split(holdout)
        if not training[0]:
            raise ValueError("there is no sequence to train on: append some, of other groups than that held out")
        crf = CRF(algorithm=self._algorithm, **self._crf_parameters())
        self._send("start", ["Feature generation\n"])
        features = [f"{name}: {self._format_value(name)}\n" for name in _OF_FEATURES]
        self._send("featgen_end", ["type: CRF1d\n", *features, "\n"])
        title = "L-BFGS optimization\n"
        others = [f"{name}: {self._format_value(name)}\n" for name in self.params() if name not in _OF_FEATURES]
        self._send("prepared", [title, *others, "\n"])
        seconds = [0.0]

        def watch(now: Iteration) -> None:
            if now.iteration:
                self._send("iteration", self._log.add_iteration(now, now.seconds - seconds[-1]))
            seconds.append(now.seconds)

        crf._set_fitted(*train_chain(crf.get_params(deep=False), *training, [watch]))
        self._log.featgen_num_features = crf.training_log_.featgen_num_features
        self._log.training_seconds = crf.training_log_.training_seconds
        lines = [f"Training ended: {crf.training_log_.message}\n"]
        lines.append(f"Total seconds required for training: {crf.training_log_.training_seconds:.3f}\n")
        if held_out[0] and self._log.last_iteration is not None:
            predicted = crf.predict(held_out[0])
            self._log.last_iteration |= score_holdout(held_out[1], predicted, crf.chain_.classes_.tolist())
            lines += holdout_lines(self._log.last_iteration)
        self._send("optimization_end", [*lines, "\n"])
        if model:
            crf.save(model)
        self._send("end", ["Storing the model\n", f"Number of labels: {len(crf.chain_.classes_)}\n", "\n"])

    @property
    def _log(self) -> TrainLog:
        assert self.logparser is not None  # made by train
        return self.logparser

    def _crf_parameters(self) -> dict[str, Any]:
        """Return the set parameters under their names in compat.CRF, without default solver settings."""
        own = _PARAMETERS[self._algorithm]
        return {
            own[name].own: value
            for name, value in self._values.items()
            if value != own[name].default or not name.startswith(_WITHOUT_MEANING)
        }

    def _format_value(self, name: str) -> str:
        value = self.get(name)
        return f"{value:f}" if isinstance(value, float) else f"{value:d}" if isinstance(value, int) else str(value)

    def _send(self, event: str, lines: list[str]) -> None:
        self._log.announce(event, len(lines))
        for line in lines:
            self.message(line)

    def message(self, message: str) -> None:
        """Receive a line of the log; derived classes may override this method.

        Parameters
        ----------
        message : str
            The line.
        """
        event = self._log.feed(message)
        if event is None or not self.verbose:
            return
        log = self._log.last_log
        if event == "iteration":
            self.on_iteration(log, self._log.last_iteration)
        else:
            getattr(self, f"on_{event}")(log)

    def on_start(self, log: str) -> None:
        """Show the begin of a training.

        Parameters
        ----------
        log : str
            The lines.
        """
        sys.stdout.write(log)

    def on_featgen_end(self, log: str) -> None:
        """Show the settings of features.

        Parameters
        ----------
        log : str
            The lines.
        """
        sys.stdout.write(log)

    def on_prepared(self, log: str) -> None:
        """Show the settings of the solver.

        Parameters
        ----------
        log : str
            The lines.
        """
        sys.stdout.write(log)

    def on_iteration(self, log: str, info: dict | None) -> None:
        """Show an iteration.

        Parameters
        ----------
        log : str
            The lines.
        info : dict
            The number, loss, norms and time of the iteration.
        """
        sys.stdout.write(log)

    def on_optimization_end(self, log: str) -> None:
        """Show the reason for the end of the training.

        Parameters
        ----------
        log : str
            The lines.
        """
        sys.stdout.write(log)

    def on_end(self, log: str) -> None:
        """Show the size of the stored model.

        Parameters
        ----------
        log : str
            The lines.
        """
        sys.stdout.write(log)
