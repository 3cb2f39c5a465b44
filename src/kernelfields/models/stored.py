"""Estimators in model files: written as documents of plain values and arrays, and rebuilt from them."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelfields import models
from kernelfields.engines.choice import restore_engine
from kernelfields.models.advised import check_attribute_name, check_parameter_names, with_advice
from kernelfields.numerics.lazy import load_registering
from kernelfields.numerics.parameters import set_nested

if TYPE_CHECKING:
    from kernelfields.models.model_file import Document


PathLike = str | os.PathLike[str]
Functions = Mapping[str, Callable[..., object]]
Loaded = TypeVar("Loaded", bound="StoredEstimator")
#: Estimators by their kinds in model files, as far as they were imported.
_KINDS: dict[str, type[StoredEstimator]] = {}


class StoredEstimator(BaseEstimator):
    """An estimator that files can hold; derived classes define its document."""

    #: The name of its kind in model files.
    _kind: ClassVar[str]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls._parameters_declared()
        if "_kind" in cls.__dict__:
            _KINDS.setdefault(cls._kind, cls)

    @classmethod
    def _parameters_declared(cls) -> None:
        """Add advice on unknown parameters to ``__init__`` once it is defined."""
        init = cls.__dict__.get("__init__")
        if init is not None:
            cls.__init__ = with_advice(init)  # type: ignore[method-assign]

    def set_params(self, **settings: object) -> Self:
        """Set parameters, as in scikit-learn; an error for an unknown name suggests another.

        Parameters of a parameter that is None are set on the object that None stands for; of a dict, on all its values.

        Parameters
        ----------
        **settings : object
            Parameters by name, ``name__inner`` for those of a parameter.

        Returns
        -------
        Self
            The estimator.
        """
        check_parameter_names(self, settings)
        return super().set_params(**set_nested(self, settings))

    if not TYPE_CHECKING:  # with it, a checker of types would take every name for an attribute

        def __getattr__(self, name):
            # Only what is not found comes this way. The second lookup raises Python's own error, or a property's.
            check_attribute_name(self, name)
            return object.__getattribute__(self, name)

    def save(self, path: PathLike) -> None:
        """Write the fitted model to one file of data (safetensors), atomically.

        Parameters
        ----------
        path : str or path
            The file; it is replaced once the new one is complete.

        Raises
        ------
        TypeError
            If a part of the model cannot be kept in a file of data.

        See Also
        --------
        load : Read a model.
        """
        check_is_fitted(self)
        models.documents.write_document(path, *describe_stored(self))

    def _with_preprocessor(self, transformer: object) -> Self:
        """Return a copy that applies a fitted transformer to its inputs, as a pipeline does."""
        raise TypeError(f"a {self._kind} does not make its inputs: ask it with pipeline[:-1].transform(X)")

    @classmethod
    def load(cls, path: PathLike, *, callables: Functions | None = None) -> Self:
        """Read a model that :meth:`save` wrote.

        An engine that is not available here is replaced by "auto", with a warning.

        Parameters
        ----------
        path : str or path
            The file.
        callables : dict of str to callable or None, default None
            Functions of kernels, and others that are not data, by their names.

        Returns
        -------
        Self
            The fitted model.

        Raises
        ------
        ModelFileError
            If the file is no sound model of this kind.

        See Also
        --------
        save : Write the model.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
        >>> ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]]).save("tags.safetensors")
        >>> ChainCRF.load("tags.safetensors").predict([[{"word": "Bob"}]])[0]
        ['NAME']
        """
        return load_any([cls], path, callables)

    @abstractmethod
    def _to_document(self) -> Document:
        """Return the fitted estimator as plain values and arrays."""

    @classmethod
    @abstractmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the fitted estimator from its document; errors of any kind for an unsound document."""


def describe_stored(model: StoredEstimator) -> tuple[str, Document]:
    """Return the kind and the document of a fitted estimator."""
    return model._kind, model._to_document()


def kinds_by_name(kinds: Iterable[type[Loaded]]) -> dict[str, type[Loaded]]:
    """Return classes of estimators by their names in model files."""
    return {kind._kind: kind for kind in kinds}


def known_kinds() -> list[str]:
    """Return the kinds of estimators in model files."""
    load_registering()
    return sorted(_KINDS)


def find_kind(name: str) -> type[StoredEstimator]:
    """Return the estimator of a kind; ValueError for an unknown kind."""
    if name not in known_kinds():
        raise ValueError(f"an estimator of the unknown kind {name!r:.60}")
    return _KINDS[name]


def rebuild_locally(kind: type[Loaded], document: Document, callables: Functions | None = None) -> Loaded:
    """Rebuild an estimator from its document, with an engine that is available here."""
    model = kind._from_document(document, callables)
    if hasattr(model, "engine"):
        model.engine = restore_engine(model.engine)
    return model


def load_any(kinds: Iterable[type[Loaded]], path: PathLike, callables: Functions | None = None) -> Loaded:
    """Load a model of one of some classes; see :meth:`StoredEstimator.load`."""
    readers = {name: partial(rebuild_locally, kind, callables=callables) for name, kind in kinds_by_name(kinds).items()}
    return models.documents.read_any_document(path, readers)
