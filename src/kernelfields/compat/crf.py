"""CRF: the interface of ``sklearn_crfsuite.CRF``, computed by a linear ChainCRF.

    score(y | x) = sum_t sum_j x_tj w(j, y_t) + sum_t v(y_{t-1}, y_t)
    loss = sum of negative log-likelihoods + c1 (||w||_1 + ||v||_1) + c2 (||w||^2 + ||v||^2)

Parameters, methods and their meaning are those of sklearn-crfsuite, so that code written for it runs with the
import changed; training.py translates the parameters. Cost and memory are those of ChainCRF.

Weights by name are those that ``pycrfsuite.Tagger.info()`` gives: only weights other than zero are listed, because
CRFsuite writes no others to its model files, and an attribute is known if it has a weight for some label. Model
files hold data and never code; ``random_state`` is kept if it is a whole number.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.exceptions import NotFittedError

from kernelfields.compat.feature_sequences import (
    check_features,
    check_labelled,
    drop_empty,
)
from kernelfields.compat.metrics import flat_accuracy_score
from kernelfields.compat.training import Options, TrainingLog, read_options
from kernelfields.data.ragged import array_of_objects
from kernelfields.data.reading import Matrix
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.models.documents import read_document_of, write_document
from kernelfields.models.stored_values import check_plain_parameters
from kernelfields.models.wrapped_field import OF_LABELS, OF_PROBABILITIES, WrappedField, besides, passes_on, refuses
from kernelfields.numerics.parameters import is_whole
from kernelfields.numerics.sparse_rows import is_sparse

KIND = "compat.CRF"
# What can be asked besides the questions of sklearn-crfsuite: of the chain, in its words.
_OF_THE_CHAIN = (
    *("predict_nbest", "sample", "entropy", "log_likelihood", "stream", "laplace", "certify"),
    *("weights", "explain", "summary", "show", "certificate_", "rkhs_certificate_", "solution_", "n_iter_"),
    *("sample_coefficients", "predict_entities", "predict_boundaries", "predict_variances"),
    "answer_format",
)
_OWN = ("predict", "predict_marginals", "score")
_OF_OTHERS = (*besides(OF_LABELS + OF_PROBABILITIES, *_OF_THE_CHAIN, *_OWN), "partial_fit")


class NamedWeights:
    """``state_features`` {(attribute, label): weight}, ``transitions`` {(from, to): weight}, ``attributes``."""

    def __init__(self, field: ChainCRF):
        classes = np.array(field.classes_.tolist(), dtype=object)
        names = np.asarray(field.feature_names_in_, dtype=object)
        rows, columns, values = _find_nonzero(field.coef_["node"])
        self.state_features = _by_names(names[rows], classes[columns], values)
        self.attributes = names[np.unique(rows)].tolist()
        _, pairs, values = _find_nonzero(field.coef_["edge"])
        self.transitions = _by_names(classes[pairs // len(classes)], classes[pairs % len(classes)], values)


def check_weights(field: ChainCRF) -> None:
    """Raise ValueError unless the chain of a file has weights of named features and transitions."""
    names, coefficients = field.feature_names_in_, field.coef_
    if set(coefficients) != {"node", "edge"}:
        raise ValueError("it has no weights of named features and of transitions")
    if coefficients["node"].shape[0] != len(names) or coefficients["edge"].shape != (1, len(field.classes_) ** 2):
        raise ValueError("its weights do not fit the names of its features and its labels")


def _find_nonzero(matrix: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values of nonzero entries, sorted by row and column."""
    columns, rows, values = scipy.sparse.find(matrix.T)
    return rows, columns, values


def _by_names(left: np.ndarray, right: np.ndarray, values: np.ndarray) -> dict[tuple, float]:
    """Return nonzero weights by pair of names."""
    return dict(zip(zip(left.tolist(), right.tolist(), strict=True), values.tolist(), strict=True))


@refuses(**dict.fromkeys(_OF_OTHERS, "it is none of sklearn-crfsuite's; chain_ is the ChainCRF behind"))
@passes_on(*_OF_THE_CHAIN, like=(ChainCRF,))
@dataclass(eq=False, repr=False)
class CRF(WrappedField):
    """Fit a linear-chain CRF on named features, as a drop-in for ``sklearn_crfsuite.CRF``.

    Parameters have the names, order and meaning that they have there; None stands for CRFsuite's default. Those without
    a counterpart are refused by ``fit`` if they have another value. docs/migrating.md shows
    what to change.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd"}, default "lbfgs"
        Both fit the same loss with the same batch solver. "ap", "pa" and "arow" have no counterpart.
    min_freq : float, default 0
        The least total weight in training; pairs of an attribute or a label with a label below it are left out.
    all_possible_states : bool, default False
        Whether pairs of an attribute and a label that do not occur in training have weights, too.
    all_possible_transitions : bool, default False
        Whether pairs of labels that do not occur in training have weights, too.
    c1 : float, default 0
        The coefficient of the L1 norm of the weights.
    c2 : float, default 1
        The coefficient of the squared L2 norm of the weights.
    max_iterations : int, optional
        The largest number of iterations, by default no limit (1000 for "l2sgd"). If it is reached, there is no warning,
        and ``training_log_.reason`` is "max_iterations".
    num_memories : int, optional
        The number of steps that L-BFGS remembers; by default the solver is chosen by the size of the problem.
    epsilon : float, default 1e-5
        Fits stop if the norm of the gradient falls below this share of that of the weights.
    period : int, default 10
        The number of iterations over which the loss is compared.
    delta : float, default 1e-5
        Fits stop if the loss falls by less than this share within ``period`` iterations.
    linesearch : None
        Without a counterpart.
    max_linesearch : None
        Without a counterpart.
    calibration_eta : None
        Without a counterpart.
    calibration_rate : None
        Without a counterpart.
    calibration_samples : None
        Without a counterpart.
    calibration_candidates : None
        Without a counterpart.
    calibration_max_trials : None
        Without a counterpart.
    pa_type : None
        Without a counterpart.
    c : None
        Without a counterpart.
    error_sensitive : None
        Without a counterpart.
    averaging : None
        Without a counterpart.
    variance : None
        Without a counterpart.
    gamma : None
        Without a counterpart.
    verbose : bool, default False
        Whether progress is shown on standard error.
    model_filename : None
        Without a counterpart: :meth:`save` writes files.
    keep_tempfiles : False
        Without a counterpart.
    trainer_cls : None
        Without a counterpart.
    n_jobs : int, optional
        The number of threads; None and -1 mean all cores. Not in sklearn-crfsuite.
    random_state : int, Generator, RandomState or None, default None
        The seed of the stochastic start; None means 0, so that fits repeat. Not in sklearn-crfsuite.

    Attributes
    ----------
    chain_ : ChainCRF
        The field behind; its questions, such as ``explain`` and ``log_likelihood``, can be asked here.
    training_log_ : TrainingLog
        A dict for each iteration, and the reason of the end.

    See Also
    --------
    kernelfields.ChainCRF : The estimator with all of the package's parameters.

    References
    ----------
    Okazaki (2007), CRFsuite: a fast implementation of conditional random fields.

    Examples
    --------
    >>> from kernelfields.compat import CRF
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = CRF(c1=0.1, c2=0.1).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> crf.predict([[{"word": "Ann"}, {"word": "sings"}]])[0]
    ['NAME', 'VERB']
    """

    _inside = "chain_"

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: object = None
    max_linesearch: object = None
    calibration_eta: object = None
    calibration_rate: object = None
    calibration_samples: object = None
    calibration_candidates: object = None
    calibration_max_trials: object = None
    pa_type: object = None
    c: object = None
    error_sensitive: object = None
    averaging: object = None
    variance: object = None
    gamma: object = None
    verbose: bool = False
    model_filename: object = None
    keep_tempfiles: object = False
    trainer_cls: object = None
    _: KW_ONLY
    n_jobs: int | None = None
    random_state: object = None

    def fit(self, X: object, y: object, X_dev: object = None, y_dev: object = None) -> CRF:
        """Train on labelled sequences.

        Ctrl-C keeps the best weights so far and warns.

        Parameters
        ----------
        X : list of lists of dict, or of lists of str
            Feature dicts or feature strings of each position.
        y : list of lists of str
            The labels.
        X_dev : None
            Refused: it changes no model of CRFsuite.
        y_dev : None
            Refused, as ``X_dev``.

        Returns
        -------
        CRF
            The fitted estimator itself.

        Raises
        ------
        NotImplementedError
            If a parameter without a counterpart is set.
        ValueError
            If there are ``X_dev`` or ``y_dev``, or if labels do not match.
        """
        if X_dev is not None or y_dev is not None:
            raise ValueError(
                "X_dev and y_dev have no counterpart here: they change no model. Leave them out, and use "
                "score(X_dev, y_dev) or kernelfields.compat.metrics after fit."
            )
        options = read_options(self.get_params(deep=False))
        sequences, labels = check_labelled(X, y)
        with drop_empty(sequences) as filled:
            field, reason = self._train(options, [sequences[i] for i in filled], [labels[i] for i in filled])
        return self._set_fitted(field, reason)

    def _set_fitted(self, field: ChainCRF, reason: str) -> CRF:
        """Set the attributes of a fitted field."""
        n_weights = sum(table.nnz if is_sparse(table) else table.size for table in field.coef_.values())
        self.chain_ = field
        self.training_log_ = TrainingLog(reason, n_weights, field.solution_.history)
        self._named: NamedWeights | None = None  # made at the first access
        return self

    def _train(self, options: Options, X: list, y: list) -> tuple[ChainCRF, str]:
        stopping = options.stopping()
        chain = options.chain_crf(
            callbacks=[stopping],
            n_jobs=self.n_jobs,
            # CRFsuite repeats itself, so that a fit that draws its start should too.
            random_state=0 if self.random_state is None else self.random_state,
            verbose=int(bool(self.verbose)),
        )
        chain.fit(X, y)
        # What ended this fit must not end another, and the solver's memory is of no use any more.
        chain.set_params(callbacks=None, solver="auto")
        return chain, stopping.reason or chain.solution_.reason

    def behind(self, transformer: object) -> ChainCRF:
        """Return the inner chain for inputs after a fitted transformer.

        Parameters
        ----------
        transformer : transformer
            The steps before the last one of a pipeline.

        Returns
        -------
        ChainCRF
            The chain: this class takes features alone.
        """
        return self.fitted_inside().behind(transformer)

    def predict(self, X: object) -> np.ndarray:
        """Predict the most probable labels of each sequence.

        Parameters
        ----------
        X : list of lists of dict, or of lists of str
            Feature dicts or feature strings of each position.

        Returns
        -------
        array (n_sequences,) of lists of str
            The labels.

        Examples
        --------
        >>> from kernelfields.compat import CRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> crf = CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
        >>> crf.predict([[{"word": "Bob"}, {"word": "sings"}]])[0]
        ['NAME', 'VERB']
        """
        return _join_predictions(self.fitted_inside(), check_features(X))

    def predict_single(self, xseq: object) -> list:
        """Predict the most probable labels of one sequence.

        Parameters
        ----------
        xseq : list of dict, or of lists of str
            Feature dicts or feature strings of each position.

        Returns
        -------
        list of str
            The labels.

        Examples
        --------
        >>> from kernelfields.compat import CRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> crf = CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
        >>> crf.predict_single([{"word": "Bob"}, {"word": "sings"}])
        ['NAME', 'VERB']
        """
        return self.predict([xseq])[0]

    def predict_marginals(self, X: object) -> np.ndarray:
        """Compute the probability of each label at each position.

        Parameters
        ----------
        X : list of lists of dict, or of lists of str
            Feature dicts or feature strings of each position.

        Returns
        -------
        array (n_sequences,) of lists of dict
            For each position a dict of labels and their probabilities.

        Examples
        --------
        >>> from kernelfields.compat import CRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> crf = CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
        >>> first = crf.predict_marginals(X)[0][0]
        >>> {label: round(probability, 1) for label, probability in first.items()}
        {'NAME': 0.6, 'VERB': 0.4}
        """
        field = self.fitted_inside()
        classes, tables = field.classes_.tolist(), field.predict_marginals(check_features(X))
        return array_of_objects([[dict(zip(classes, row, strict=True)) for row in table.tolist()] for table in tables])

    def predict_marginals_single(self, xseq: object) -> list[dict]:
        """Compute the probability of each label at each position of one sequence.

        Parameters
        ----------
        xseq : list of dict, or of lists of str
            Feature dicts or feature strings of each position.

        Returns
        -------
        list of dict
            For each position a dict of labels and their probabilities.

        Examples
        --------
        >>> from kernelfields.compat import CRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> crf = CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
        >>> round(crf.predict_marginals_single(X[0])[1]["VERB"], 1)
        0.7
        """
        return self.predict_marginals([xseq])[0]

    def score(self, X: object, y: Iterable[Iterable]) -> float:
        """Compute the share of positions whose label is right.

        Parameters
        ----------
        X : list of lists of dict, or of lists of str
            Feature dicts or feature strings of each position.
        y : list of lists of str
            The true labels.

        Returns
        -------
        float
            The share; ``kernelfields.compat.metrics`` has other scores.

        Examples
        --------
        >>> from kernelfields.compat import CRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> crf = CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
        >>> crf.score(X, [["NAME", "VERB"], ["NAME", "NAME"]])
        0.75
        """
        return flat_accuracy_score(y, self.predict(X))

    def save(self, path: str | os.PathLike) -> None:
        """Write the trained model to a file.

        The file is in the safetensors format: data, and no code. It appears under its name once it is complete.

        Parameters
        ----------
        path : path
            The file; an old one is replaced.
        """
        field, parameters = self.fitted_inside(), self.get_params(deep=False)
        del parameters["n_jobs"]  # files of the same fit are the same
        if not is_whole(parameters["random_state"]):
            parameters["random_state"] = None
        document = {
            "parameters": parameters,
            "reason": self.training_log_.reason,
            "field": {"chain": field.to_document()},
        }
        write_document(path, KIND, document)

    @classmethod
    def load(cls, path: str | os.PathLike) -> CRF:
        """Read a model that :meth:`save` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        CRF
            The fitted model.

        Raises
        ------
        ValueError
            If the file is no model of this class.

        Examples
        --------
        >>> from kernelfields.compat import CRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("crf.kfm")
        >>> CRF.load("crf.kfm").predict_single([{"word": "Bob"}])
        ['NAME']
        """

        def rebuild(document: Mapping) -> CRF:
            described = document["field"]
            if "label" in described:
                raise ValueError("it was fitted to one label, which is no longer done")
            field = ChainCRF.from_document(described["chain"])
            check_weights(field)
            crf = cls(**document["parameters"])
            check_plain_parameters(crf)
            return crf._set_fitted(field, document["reason"])

        return read_document_of(path, {KIND: rebuild})

    @property
    def classes_(self) -> list:
        """The sorted labels."""
        return self.fitted_inside().classes_.tolist()

    @property
    def state_features_(self) -> dict[tuple, float]:
        """Nonzero weights {(attribute, label): weight}."""
        return self._name_weights.state_features

    @property
    def transition_features_(self) -> dict[tuple, float]:
        """Nonzero weights {(label from, label to): weight}."""
        return self._name_weights.transitions

    @property
    def attributes_(self) -> list[str]:
        """Names of attributes with a nonzero weight."""
        return self._name_weights.attributes

    @property
    def num_attributes_(self) -> int:
        """Number of attributes with a nonzero weight."""
        return len(self._name_weights.attributes)

    @property
    def size_(self) -> int:
        """Size in bytes of the model file."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(Path(folder) / "model")
            return (Path(folder) / "model").stat().st_size

    @property
    def tagger_(self) -> None:
        """No attribute: there is no pycrfsuite.Tagger."""
        raise AttributeError(
            "there is no pycrfsuite.Tagger behind this CRF. Use predict_single in place of tag, "
            "predict_marginals_single of marginal, chain_.log_likelihood of probability, state_features_ and "
            "transition_features_ of info."
        )

    @property
    def _name_weights(self) -> NamedWeights:
        field = self.fitted_inside()
        if self._named is None:
            self._named = NamedWeights(field)
        return self._named

    def fitted_inside(self) -> ChainCRF:
        """Return the inner chain.

        Returns
        -------
        ChainCRF
            The fitted chain.

        Raises
        ------
        NotFittedError
            If there has been no fit.
        """
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("this CRF is not fitted yet. Call 'fit' first.")
        return self.chain_

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_named": None}


def _join_predictions(field: ChainCRF, sequences: list) -> np.ndarray:
    return array_of_objects([np.asarray(labels).tolist() for labels in field.predict(sequences)])
