"""CRF: the interface of ``sklearn_crfsuite.CRF``, computed by a linear ChainCRF.

    score(y | x) = sum_t sum_j x_tj w(j, y_t) + sum_t v(y_{t-1}, y_t)
    loss = sum of negative log-likelihoods + c1 (||w||_1 + ||v||_1) + c2 (||w||^2 + ||v||^2)

Parameters, methods and their meaning are those of sklearn-crfsuite, so that code written for it runs with the
import changed; training.py translates the parameters. Cost and memory are those of ChainCRF.

Weights by name are those that ``pycrfsuite.Tagger.info()`` gives: only weights other than zero are listed, because
CRFsuite writes no others to its model files, and an attribute is known if it has a weight for some label. Model
files hold data and never code; ``random_state`` is kept if it is a whole number. Before a fit, what it finds is None,
as in sklearn-crfsuite; a CRF whose ``model_filename`` exists answers from that file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass

import numpy as np
from sklearn.exceptions import NotFittedError

from kernelfields.compat.feature_sequences import check_features, check_labelled
from kernelfields.compat.holdout import holdout_lines, score_holdout
from kernelfields.compat.label_lists import LabelLists
from kernelfields.compat.metrics import flat_accuracy_score
from kernelfields.compat.model_resource import ModelResource
from kernelfields.compat.named_weights import NamedWeights, check_weights
from kernelfields.compat.pycrfsuite.tagger import Tagger, open_tagger
from kernelfields.compat.training import TrainingLog, train_chain
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.models.crfsuite_document import KIND as FIELD_KIND
from kernelfields.models.crfsuite_document import weights_of_document
from kernelfields.models.documents import read_any_document, write_document
from kernelfields.models.model_file import Document, ModelFileError
from kernelfields.models.stored import describe_stored, rebuild_locally
from kernelfields.models.stored_values import check_plain_parameters
from kernelfields.models.wrapped_field import (
    OF_LABELS,
    OF_PROBABILITIES,
    WrappedField,
    besides,
    forward_questions,
    refuse_questions,
)
from kernelfields.numerics.parameters import is_whole
from kernelfields.numerics.sparse_rows import is_sparse

KIND = "compat.CRF"
# What can be asked besides the questions of sklearn-crfsuite: of the chain, in its words.
_OF_THE_CHAIN = (
    *("predict_proba", "predict_nbest", "sample", "entropy", "log_likelihood", "stream", "laplace", "certify"),
    *("weights", "explain", "summary", "show", "certificate_", "rkhs_certificate_", "solution_", "n_iter_"),
    *("sample_coefficients", "predict_entities", "predict_boundaries", "predict_variances"),
    "_answer_format",
)
_OWN = ("predict", "predict_marginals", "score")
_OF_OTHERS = (*besides(OF_LABELS + OF_PROBABILITIES, *_OF_THE_CHAIN, *_OWN), "partial_fit")


@refuse_questions(**dict.fromkeys(_OF_OTHERS, "it is none of sklearn-crfsuite's; chain_ is the ChainCRF behind"))
@forward_questions(*_OF_THE_CHAIN, like=(ChainCRF,))
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
    model_filename : str or path, optional
        The model file: ``fit`` writes it, and before a fit an existing one answers, be it one of CRFsuite.
    keep_tempfiles : bool, default False
        Whether the file of ``modelfile`` stays when the estimator is gone.
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
    tagger_ : Tagger or None
        A ``pycrfsuite.Tagger`` of the model.
    modelfile : ModelResource
        The model file; ``modelfile.name`` is its path, written when it is asked for.

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
    model_filename: str | os.PathLike[str] | None = None
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
        X_dev : list of lists of dict, or of lists of str, optional
            Held-out sequences, which change no weight: their scores are in the last entry of
            ``training_log_.iterations``, and are shown if ``verbose``.
        y_dev : list of lists of str, optional
            Their labels.

        Returns
        -------
        CRF
            The fitted estimator itself.

        Raises
        ------
        NotImplementedError
            If a parameter without a counterpart is set.
        ValueError
            If there is one of ``X_dev`` and ``y_dev`` alone, or if labels do not match.
        """
        if (X_dev is None) != (y_dev is None):
            raise ValueError("pass both X_dev and y_dev, or none of them")
        held_out = None if X_dev is None else check_labelled(X_dev, y_dev, "_dev")
        self._set_fitted(*train_chain(self.get_params(deep=False), X, y))
        last = self.training_log_.last_iteration
        if held_out is not None and last is not None:
            last |= score_holdout(held_out[1], self.predict(held_out[0]), self.chain_.classes_.tolist())
            if self.verbose:
                sys.stderr.writelines(holdout_lines(last))
        if self.model_filename is not None:
            self.save(self.model_filename)
        return self

    def _set_fitted(self, field: ChainCRF, reason: str) -> CRF:
        """Set the attributes of a fitted field."""
        n_weights = sum(table.nnz if is_sparse(table) else table.size for table in field.coef_.values())
        self.chain_ = field
        self.training_log_ = TrainingLog(reason, n_weights, field.solution_.history)
        self._clear_caches()
        return self

    def _clear_caches(self) -> None:
        """Discard cached forms of the weights."""
        self._named: NamedWeights | None = None
        self._tagger: Tagger | None = None
        self._resource: ModelResource | None = None

    def _with_preprocessor(self, transformer: object) -> ChainCRF:
        """Return the inner chain for inputs of a fitted transformer."""
        return self.get_fitted()._with_preprocessor(transformer)

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
        return _join_predictions(self.get_fitted(), check_features(X))

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
        field = self.get_fitted()
        classes, tables = field.classes_.tolist(), field.predict_marginals(check_features(X))
        return LabelLists.from_lists(
            [[dict(zip(classes, row, strict=True)) for row in table.tolist()] for table in tables]
        )

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
        field, parameters = self.get_fitted(), self.get_params(deep=False)
        del parameters["n_jobs"]  # files of the same fit are the same
        if not is_whole(parameters["random_state"]):
            parameters["random_state"] = None
        document = {
            "parameters": parameters,
            "reason": self.training_log_.reason,
            "field": {"chain": describe_stored(field)[1]},
        }
        write_document(path, KIND, document)

    @classmethod
    def load(cls, path: str | os.PathLike) -> CRF:
        """Read a model that :meth:`save` wrote, or a model file of CRFsuite.

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
        >>> CRF().fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("crf.safetensors")
        >>> CRF.load("crf.safetensors").predict_single([{"word": "Bob"}])
        ['NAME']
        """

        def rebuild(document: Mapping) -> CRF:
            described = document["field"]
            if "label" in described:
                raise ValueError("it was fitted to one label, which is no longer done")
            crf = cls(**document["parameters"])
            check_plain_parameters(crf)
            return crf._set_fitted(_rebuild_chain(described["chain"]), document["reason"])

        def rebuild_given(document: Document) -> CRF:
            if document["solution"]["reason"] != "given":
                raise ModelFileError(
                    f"{path} holds a model of kind 'ChainCRF', expected {KIND!r}: load it with its own class"
                )
            return cls()._set_fitted(_rebuild_chain(document), "given")

        return read_any_document(path, {KIND: rebuild, FIELD_KIND: rebuild_given})

    @classmethod
    def from_crfsuite(cls, path: str | os.PathLike) -> CRF:
        """Read a model file of CRFsuite: a fitted estimator with its labels, marginals and scores.

        Parameters
        ----------
        path : path
            The file, which python-crfsuite, sklearn-crfsuite or the program ``crfsuite`` wrote.

        Returns
        -------
        CRF
            The fitted model.

        Raises
        ------
        ModelFileError
            If the file is no sound model of CRFsuite.

        See Also
        --------
        kernelfields.load : Opens the file as a ChainCRF.
        """
        found = cls.load(path)
        if found.training_log_.reason != "given":
            raise ModelFileError(f"{os.fspath(path)} is no model file of CRFsuite: open it with CRF.load")
        return found

    @property
    def classes_(self) -> list | None:
        """The sorted labels; None before a fit."""
        return self.get_fitted().classes_.tolist() if self.__sklearn_is_fitted__() else None

    @property
    def state_features_(self) -> dict[tuple, float] | None:
        """Nonzero weights {(attribute, label): weight}; None before a fit."""
        return self._name_weights.state_features if self.__sklearn_is_fitted__() else None

    @property
    def transition_features_(self) -> dict[tuple, float] | None:
        """Nonzero weights {(label from, label to): weight}; None before a fit."""
        return self._name_weights.transitions if self.__sklearn_is_fitted__() else None

    @property
    def attributes_(self) -> list[str] | None:
        """Names of attributes with a nonzero weight; None before a fit."""
        return self._name_weights.attributes if self.__sklearn_is_fitted__() else None

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes with a nonzero weight; None before a fit."""
        return len(self._name_weights.attributes) if self.__sklearn_is_fitted__() else None

    @property
    def size_(self) -> int | None:
        """Size in bytes of the model file; None before a fit."""
        name = self.modelfile.name if self.__sklearn_is_fitted__() else None
        return None if name is None else os.path.getsize(name)

    @property
    def modelfile(self) -> ModelResource:
        """The model file, written on first access."""
        if vars(self).get("_resource") is None:
            write = self.save if self.__sklearn_is_fitted__() else None
            self._resource = ModelResource(write, self.model_filename, keep=bool(self.keep_tempfiles))
        assert self._resource is not None
        return self._resource

    @property
    def tagger_(self) -> Tagger | None:
        """A ``pycrfsuite.Tagger`` of the model; None before a fit."""
        if not self.__sklearn_is_fitted__():
            return None
        chain = self.get_fitted()
        if self._tagger is None:
            self._tagger = open_tagger(weights_of_document(describe_stored(chain)[1]))
        return self._tagger

    @property
    def _name_weights(self) -> NamedWeights:
        field = self.get_fitted()
        if self._named is None:
            self._named = NamedWeights(field)
        return self._named

    def __sklearn_is_fitted__(self) -> bool:
        return super().__sklearn_is_fitted__() or (
            self.model_filename is not None and os.path.isfile(self.model_filename)
        )

    def get_fitted(self) -> ChainCRF:
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
        if "chain_" not in vars(self) and self.model_filename is not None:
            found = type(self).load(self.model_filename)
            self._set_fitted(found.chain_, found.training_log_.reason)
        return self.chain_

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_named": None, "_tagger": None, "_resource": None}


def _rebuild_chain(document: Document) -> ChainCRF:
    field = rebuild_locally(ChainCRF, document)
    check_weights(field)
    return field


def _join_predictions(field: ChainCRF, sequences: list) -> np.ndarray:
    return LabelLists.from_lists([np.asarray(labels).tolist() for labels in field.predict(sequences)])
