"""Model files of every kind: ``save`` and ``load`` of estimators, and of pipelines that begin with words.

    model = make_pipeline(TextFeatures(), ChainCRF()).fit(words, y)
    save(model, "names.safetensors")
    load("names.safetensors").predict(words)

Every estimator that model files support is imported here. Raises TypeError with an unsupported step; ModelFileError
with the file.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.pipeline import Pipeline

from kernelfields.annotators import AnnotatedCRF
from kernelfields.estimators import ChainCRF
from kernelfields.estimators.pipelines import describe_pipeline, rebuild_model
from kernelfields.models.documents import read_any_document, write_document
from kernelfields.models.model_text import PIPELINE
from kernelfields.models.stored import Functions, PathLike, StoredEstimator, kinds_by_name, known_kinds
from kernelfields.models.wrapped_field import WrappedField
from kernelfields.uncertainty.calibrated_field import CalibratedField
from kernelfields.uncertainty.conformal_field import ConformalField

# Importing them has registered their kinds, and with ChainCRF those of all fields.
assert set(kinds_by_name([AnnotatedCRF, ChainCRF, CalibratedField, ConformalField])) <= set(known_kinds())


def save(model: StoredEstimator | WrappedField | Pipeline, path: PathLike) -> None:
    """Write a fitted estimator, or a pipeline that ends with one, to a model file, atomically.

    Parameters
    ----------
    model : estimator or Pipeline
        The fitted model.
    path : str or path
        The file; it is replaced once the new one is complete.

    Raises
    ------
    TypeError
        If the model, or a step of it, cannot be kept in a file of data.

    See Also
    --------
    load : Read a model.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> from kernelfields import load, save
    >>> save(crf, "weather.safetensors")
    >>> load("weather.safetensors").predict([[[21.0], [10.0]]])
    [['sun', 'rain']]
    """
    if isinstance(model, Pipeline):
        write_document(path, PIPELINE, describe_pipeline(model))
    elif isinstance(model, StoredEstimator | WrappedField):
        model.save(path)
    else:
        raise TypeError(f"model must be an estimator of kernelfields or a Pipeline that ends in one, got {model!r:.60}")


def load(path: PathLike, *, callables: Functions | None = None) -> Any:
    """Read a model file of any kind.

    Models of words are returned as a Pipeline that takes words: pipelines, and models of ``kernelfields train``.

    Parameters
    ----------
    path : str or path
        The file.
    callables : dict of str to callable or None, default None
        Functions of kernels that are not data, by their names.

    Returns
    -------
    estimator or Pipeline
        The fitted model.

    Raises
    ------
    ModelFileError
        If the file is no sound model.

    See Also
    --------
    save : Write a model.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
    >>> from kernelfields import load
    >>> crf.save("weather.safetensors")
    >>> type(load("weather.safetensors")).__name__
    'ChainCRF'
    """
    kinds = {kind: partial(rebuild_model, kind, callables=callables) for kind in (*known_kinds(), PIPELINE)}
    return read_any_document(path, kinds)
