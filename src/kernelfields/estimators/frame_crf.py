"""FrameCRF: a field on data frames with a row for each position, as a scikit-learn estimator.

fit      table -> FrameReader.learn -> sequences and labels -> the estimator's own fit
predict  table -> FrameReader.read  -> sequences -> the estimator's answers -> columns with the table's index
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.frames import NUMBER, TEXT, FrameReader, FrameSequences, convert_library
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.time_columns import TIME_FEATURES
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.pipelines import describe_model, rebuild_model
from kernelfields.models.model_file import Document
from kernelfields.models.stored import Functions, StoredEstimator
from kernelfields.models.wrapped_field import (
    FITTED,
    OF_PROBABILITIES,
    WrappedField,
    besides,
    forward_questions,
    refuse_questions,
)
from kernelfields.numerics.parameters import declares_parameters, parameter

# Questions of the field that take a table in the place of sequences: alone, with its labels, or the rows of one
# sequence. Others, without inputs, are asked as they are, and so are the attributes of the fit.
_OF_TABLES = (
    *("predict_nbest", "predict_entities", "predict_boundaries", "predict_segments", "sample", "entropy"),
    "predict_variances",
)
_OF_LABELS = ("log_likelihood", "laplace", "certify")
_OF_ONE = ("explain", "show")
_OF_THE_FIT = ("weights", "summary", "stream", "sample_coefficients")
_OF_OTHERS = besides(
    OF_PROBABILITIES, "predict_marginals", "predict_proba", *_OF_TABLES, *_OF_LABELS, *_OF_ONE, *_OF_THE_FIT
)
_KINDS = (ChainCRF,)
_ROWS = "each row of a table has a label, predict(df), and predict_marginals(df) a column for each label"


@refuse_questions(**dict.fromkeys((*_OF_OTHERS, "predict_states"), _ROWS))
@forward_questions(*_OF_TABLES, way="_ask_of_table", like=_KINDS)
@forward_questions(*_OF_LABELS, way="_ask_of_labels", like=_KINDS)
@forward_questions(*_OF_ONE, way="_ask_of_one", like=_KINDS)
@forward_questions(*_OF_THE_FIT, *besides(FITTED, "classes_", "feature_names_in_", "n_features_in_"), like=_KINDS)
@declares_parameters
class FrameCRF(WrappedField, StoredEstimator):
    """Field on tables of pandas, polars or pyarrow: one row for each position, a column of sequence ids, one of labels.

    ``fit(df)`` takes features and labels from the columns; ``predict(df)`` answers by a column of the same library,
    with the index and in the order of the rows. Columns are found by name, and columns that the fit did not see are
    left aside. The other questions of the field take tables as well: ``predict_nbest``, ``entropy`` and
    ``log_likelihood`` answer for each sequence, ``sample`` by columns, ``explain`` and ``show`` for the rows of one
    sequence.

    Rows are the samples of scikit-learn here, and a fold must not cut a sequence: give cross-validation the ids, as in
    ``cross_val_score(FrameCRF(...), df, groups=df["sequence"], cv=GroupKFold(5))``. Labels may be passed as ``y`` too,
    which some scorers need; they then take the place of the column. docs/frames.md.

    Parameters
    ----------
    estimator : ChainCRF, ChainCRFCV, Pipeline or None, default None
        The field, or a pipeline that ends in one; None means ``ChainCRF()``.
    sequence : hashable, default "sequence"
        The name of the column of sequence ids; rows of a sequence are together, in the order of its positions.
    label : hashable, default "label"
        The name of the column of labels.
    features : list of hashable or None, default None
        The names of the columns of features. None takes all others but date-times, ids and what is one value in each
        sequence, which a warning names. Text and categories are one-hot.
    sort : bool or hashable, default False
        True for rows that are not together, taken in their order; a name sorts the rows of a sequence by that column.
    time_features : list of {"hour", "weekday", "step"} or None, default None
        Numbers to make of the column of date-times: the hour and the day of the week as points on a circle, and the
        time since the row before.

    Attributes
    ----------
    estimator_ : estimator
        The fitted field, for ``weights()``, ``certificate_``, ``save`` and all else.
    classes_ : ndarray (L,)
        The labels.
    feature_names_in_ : ndarray (d,)
        The columns of features that the fit has seen.
    n_features_in_ : int
        The number of these columns.

    See Also
    --------
    ChainCRF : The field on lists of sequences.

    Examples
    --------
    >>> import pandas as pd
    >>> from kernelfields import ChainCRF, FrameCRF
    >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
    >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
    >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
    >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
    >>> crf.predict(pd.DataFrame({"week": [3, 3], "t": [21.0, 10.0]})).tolist()
    ['sun', 'rain']
    """

    _kind = "FrameCRF"

    estimator: BaseEstimator | None = parameter(None, first=True)
    sequence: Hashable = parameter("sequence")
    label: Hashable = parameter("label")
    features: Sequence[Hashable] | None = parameter(None)
    sort: bool | Hashable = parameter(False)
    time_features: Sequence[str] | None = parameter(None)

    def fit(self, X: object, y: object = None, **settings: Any) -> Self:
        """Fit the field to a table.

        Parameters
        ----------
        X : data frame
            One row for each position.
        y : sequence (n,), SoftTargets or None, default None
            A label for each row, in place of the column of labels. Labels may be missing if ``partial_labels`` of the
            estimator is given.
        **settings : object
            Further arguments of the ``fit`` of the estimator; ``X_dev`` is a table.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If a column is missing, or the rows of a sequence are not together.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
        >>> crf.feature_names_in_.tolist(), crf.classes_.tolist()
        (['t'], ['rain', 'sun'])
        """
        reader = self._new_reader()
        estimator = ChainCRF() if self.estimator is None else clone(self.estimator)
        after = None
        if self.__sklearn_is_fitted__() and _is_continued(estimator):
            if type(self.estimator_) is not type(estimator) or isinstance(estimator, Pipeline):
                raise ValueError(
                    f"warm_start=True goes on from a fitted {type(self.estimator_).__name__}, and a FrameCRF can with "
                    f"a field of the same class, got {estimator!r:.100}: set warm_start=False to start afresh"
                )
            estimator, after = self.estimator_.set_params(**estimator.get_params(deep=False)), self._reader
        if isinstance(y, SoftTargets):
            # One table of targets for each sequence, in the order of their first rows.
            sequences = replace(reader.learn(X, [""] * len(X), after=after), y=y)  # type: ignore[arg-type]
        else:
            sequences = reader.learn(X, y, partly=_has_partial_labels(estimator), after=after)
        if settings.get("X_dev") is not None:
            beside = reader.read(
                settings["X_dev"], settings.get("y_dev"), labelled=True, partly=_has_partial_labels(estimator)
            )
            settings |= {"X_dev": beside.X, "y_dev": beside.y}
        return self._keep(estimator.fit(sequences.X, sequences.y, **settings), reader)

    def partial_fit(self, X: object, y: object = None, **settings: Any) -> Self:
        """Fit one more table of sequences, with the posterior so far as the prior.

        Parameters
        ----------
        X : data frame
            One row for each position.
        y : sequence (n,) or None, default None
            A label for each row, in place of the column of labels.
        **settings : object
            Further arguments of :meth:`ChainCRF.partial_fit`.

        Returns
        -------
        Self
            The fitted estimator.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [2.0, 2.1, 1.0, 0.9, 2.2]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=False, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather")
        >>> crf = crf.partial_fit(days[:3]).partial_fit(days[3:])
        >>> crf.predict(days[:3]).tolist()
        ['sun', 'sun', 'rain']
        """
        if not self.__sklearn_is_fitted__():
            reader = self._new_reader()
            estimator = clone(ChainCRF() if self.estimator is None else self.estimator)
            sequences = reader.learn(X, y, partly=_has_partial_labels(estimator))
        else:
            reader, estimator = self._reader, self.estimator_
            sequences = reader.read(X, y, labelled=True, partly=_has_partial_labels(estimator))
        return self._keep(estimator.partial_fit(sequences.X, sequences.y, **settings), reader)

    def _new_reader(self) -> FrameReader:
        """Return a reader of tables for the columns in the parameters."""
        return FrameReader(self.sequence, self.label, self.features, self.sort, tuple(self.time_features or ()))

    def _keep(self, estimator: FieldEstimator, reader: FrameReader) -> Self:
        """Set the fitted field and the reader of its tables."""
        self.estimator_, self._reader = estimator, reader
        self.feature_names_in_ = np.array(reader.feature_names, dtype=object)
        self.n_features_in_ = len(reader.feature_names)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels of the fitted field."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.classes_

    def sequences(self, X: object, y: object = None, *, labelled: bool = False) -> FrameSequences:
        """Return the sequences of a table as the fitted field reads them.

        Parameters
        ----------
        X : data frame
            One row for each position.
        y : sequence (n,) or None, default None
            A label for each row, in place of the column of labels.
        labelled : bool, default False
            Whether to read labels.

        Returns
        -------
        FrameSequences
            The inputs and labels of sequences, for questions to ``estimator_``, and columns of its answers.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
        >>> sequences = crf.sequences(days, labelled=True)
        >>> [len(own) for own in sequences.X], sequences.y[1]
        ([3, 2], ['rain', 'sun'])
        """
        check_is_fitted(self, "estimator_")
        return self._reader.read(X, y, labelled=labelled)

    def predict(self, X: object, *, known: object = None, **settings: object) -> object:
        """Return a column with the label of each row.

        Parameters
        ----------
        X : data frame
            One row for each position.
        known : str, sequence (n,) or None, default None
            The name of a column of labels that are known, missing where they are not, or an entry for each row; answers
            are given that it is so.
        **settings : object
            Further arguments of the estimator, such as ``decode``.

        Returns
        -------
        series (n,)
            The labels, of the library and with the index of the table.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
        >>> crf.predict(pd.DataFrame({"week": [3, 3], "t": [21.0, 10.0]})).tolist()
        ['sun', 'rain']
        """
        sequences, given = self._split_known(X, known)
        return self._output(sequences.column(self.ask("predict", sequences.X, **given, **settings), str(self.label)))

    def predict_marginals(self, X: object, *, known: object = None, **settings: object) -> object:
        """Return a table with the probabilities of labels, a column for each label.

        Parameters
        ----------
        X : data frame
            One row for each position.
        known : str, sequence (n,) or None, default None
            What is known of the labels, as in :meth:`predict`.
        **settings : object
            Further arguments of the estimator, such as ``cliques``.

        Returns
        -------
        data frame (n, L)
            The marginals p(y_t | x), of the library and with the index of the table; with ``cliques`` a pair of it and
            the joint marginals of the estimator.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
        >>> crf.predict_marginals(pd.DataFrame({"week": [3, 3], "t": [21.0, 10.0]})).round(2)
           rain   sun
        0  0.19  0.81
        1  0.73  0.27
        """
        sequences, given = self._split_known(X, known)
        answer = self.ask("predict_marginals", sequences.X, **given, **settings)
        if settings.get("cliques") is None:
            return self._output(sequences.columns(answer, self.classes_))
        return self._output(sequences.columns(answer[0], self.classes_)), answer[1]

    def predict_proba(self, X: object, *, known: object = None) -> np.ndarray:
        """Return the probabilities of the labels of each row, as scikit-learn has them.

        Parameters
        ----------
        X : data frame
            One row for each position.
        known : str, sequence (n,) or None, default None
            What is known of the labels, as in :meth:`predict`.

        Returns
        -------
        array (n, L)
            The marginals p(y_t | x), rows as in the table and columns as in ``classes_``.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
        >>> crf.predict_proba(days).shape
        (5, 2)
        """
        sequences, given = self._split_known(X, known)
        return sequences.rows(self.ask("predict_marginals", sequences.X, **given))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the library of the answers.

        ``sklearn.set_config(transform_output=...)`` sets it where this does not; ``clone`` keeps it.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default None
            The library; "default" is that of the table which is given, None leaves it as it is.

        Returns
        -------
        Self
            The estimator.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
        >>> type(crf.set_output(transform="pandas").predict(days)).__name__
        'Series'
        """
        if transform is not None:
            if transform not in ("default", "pandas", "polars"):
                raise ValueError(f"transform must be 'default', 'pandas' or 'polars', got {transform!r}")
            self._sklearn_output_config = {"transform": transform}
        return self

    def _output(self, answer: Any) -> Any:
        """Return a column or a table in the library of ``set_output``."""
        own = vars(self).get("_sklearn_output_config", {})
        return convert_library(answer, own.get("transform", get_config()["transform_output"]))

    def _split_known(self, X: object, known: object) -> tuple[FrameSequences, dict[str, object]]:
        """Return the sequences of a table, and the keyword argument for known labels."""
        if known is None:
            return self.sequences(X), {}
        check_is_fitted(self, "estimator_")
        named = isinstance(known, Hashable)
        reader = replace(self._reader, label=known) if named else self._reader
        sequences = reader.read(X, None if named else known, labelled=True, partly=True)
        return sequences, {"known": sequences.y}

    def score(self, X: object, y: object = None) -> float:
        """Return the score of the estimator, for a ChainCRF the share of rows whose label is right.

        Labels may be missing if the fit took such labels; these rows are left out.

        Parameters
        ----------
        X : data frame
            One row for each position.
        y : sequence (n,) or None, default None
            A label for each row, in place of the column of labels.

        Returns
        -------
        float
            The score.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelfields import ChainCRF, FrameCRF
        >>> days = pd.DataFrame({"week": [1, 1, 1, 2, 2], "t": [20.0, 21.0, 10.0, 9.0, 22.0]})
        >>> days["weather"] = ["sun", "sun", "rain", "rain", "sun"]
        >>> field = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0)
        >>> crf = FrameCRF(field, sequence="week", label="weather").fit(days)
        >>> crf.score(days)
        1.0
        """
        check_is_fitted(self, "estimator_")
        sequences = self._reader.read(X, y, labelled=True, partly=_has_partial_labels(self.estimator_))
        return self.estimator_.score(sequences.X, sequences.y)

    def _to_document(self) -> Document:
        """Return the fitted field and the names of its columns as plain values and arrays."""
        kind, document = describe_model(self.estimator_, "the estimator of this FrameCRF")
        names = {"sequence": self.sequence, "label": self.label, "sort": self.sort}
        kinds = self._reader.kinds
        for name in (*names.values(), *kinds, *self._reader.left_out):
            if not isinstance(name, str | int):
                raise ValueError(f"names of columns in a model file are text or whole numbers, got {name!r}")
        columns = [[name, kind] for name, kind in kinds.items()]
        chosen = self.features is not None
        described: Document = {**names, "columns": columns, "chosen": chosen, "kind": kind, "field": document}
        reader = self._reader
        if reader.left_out or reader.time_features:
            axes = {"left_out": reader.left_out, "time": reader.time, "time_features": list(reader.time_features)}
            described["axes"] = axes
        return described

    @classmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the fitted estimator from its document; errors of any kind for an unsound document."""
        field = rebuild_model(document["kind"], document["field"], callables)
        kinds = dict(document["columns"])
        if not kinds or not {*kinds.values()} <= {NUMBER, TEXT}:
            raise ValueError("the columns of features must hold numbers or text")
        features = list(kinds) if document["chosen"] else None
        own = {name: document[name] for name in ("sequence", "label", "sort")}
        axes = dict(document.get("axes", {"left_out": [], "time": None, "time_features": []}))
        made = [str(each) for each in axes["time_features"]]
        if not {*made} <= {*TIME_FEATURES}:
            raise ValueError(f"the features of times must be among {list(TIME_FEATURES)}")
        reader = FrameReader(
            **own,
            features=features,
            time_features=tuple(made),
            kinds=kinds,
            left_out=list(axes["left_out"]),
            time=axes["time"],
        )
        return cls(clone(field), features=features, time_features=made or None, **own)._keep(field, reader)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags

    def to_be_fitted(self) -> Any:
        """Return the estimator to fit.

        Returns
        -------
        estimator
            The one given, or a ``ChainCRF()``.
        """
        return ChainCRF() if self.estimator is None else self.estimator

    def _with_preprocessor(self, transformer: object) -> Self:
        """Raise TypeError: transformed tables have other columns."""
        raise TypeError("a FrameCRF reads tables itself: FrameCRF(make_pipeline(transformer, ChainCRF())) asks both")

    def _ask_of_table(self, name: str, X: object, *arguments: object, known: object = None, **settings: object) -> Any:
        """Return the answer of the field for the sequences of a table, as columns if it is by row."""
        sequences, given = self._split_known(X, known)
        found = self.ask(name, sequences.X, *arguments, **given, **settings)
        if name == "predict_variances":
            return self._output(sequences.columns(found, self.classes_))
        if name != "sample":
            return found
        if found and np.ndim(found[0]) > 1:
            return self._output(sequences.columns([draws.T for draws in found], range(len(found[0]))))
        return self._output(sequences.column(found, str(self.label)))

    def _ask_of_labels(
        self, name: str, X: object, y: object = None, *arguments: object, known: object = None, **settings: object
    ) -> Any:
        """Return the answer of the field for a table and its labels, ``y`` or a column."""
        sequences = self._reader.read(X, y, labelled=True, partly=name == "log_likelihood")
        given = self._split_known(X, known)[1]
        return self.ask(name, sequences.X, sequences.y, *arguments, **given, **settings)

    def _ask_of_one(self, name: str, X: object, y: object = None, *arguments: object, **settings: object) -> Any:
        """Return the answer of the field for the rows of one sequence, with labels ``y``."""
        sequences = self.sequences(X, y, labelled=y is not None)
        if len(sequences.X) != 1:
            raise ValueError(f"{name} takes the rows of one sequence, and the table has {len(sequences.X)} sequences")
        labels = None if sequences.y is None else sequences.y[0]
        return self.ask(name, sequences.X[0], labels, *arguments, **settings)

    def prepare_evaluation(self, X: object, y: object, labelled: bool) -> tuple[Any, list, list | None]:
        """Return the field for evaluations, with converted X and y.

        Parameters
        ----------
        X : data frame
            One row for each position.
        y : sequence (n,) or None
            A label for each row.
        labelled : bool
            Whether to read labels from a column if y is None.

        Returns
        -------
        estimator : object
            The fitted field.
        X : list of sequences
            The inputs.
        y : list of labels or None
            The labels.
        """
        sequences = self.sequences(X, y, labelled=labelled)
        return self.get_fitted(), sequences.X, sequences.y


def _is_continued(estimator: BaseEstimator) -> bool:
    """Whether an estimator, or the last step of a pipeline, has ``warm_start``."""
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return bool(last.get_params(deep=False).get("warm_start", False))


def _has_partial_labels(estimator: BaseEstimator) -> bool:
    """Whether an estimator, also inside a pipeline or a search, has ``partial_labels``."""
    given = estimator.get_params().items()
    return any(value is not None for name, value in given if name.rpartition("__")[2] == "partial_labels")
