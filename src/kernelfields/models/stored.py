"""Estimators in model files: written from documents of plain values and arrays, and read back."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from sklearn.utils.validation import check_is_fitted

from kernelfields.engines.choice import engine_here
from kernelfields.models.hints import AdvisedEstimator
from kernelfields.numerics.lazy import load_registering

if TYPE_CHECKING:
    from kernelfields.models.model_file import Document


PathLike = str | os.PathLike[str]
Functions = Mapping[str, Callable[..., object]]
Loaded = TypeVar("Loaded", bound="StoredEstimator")
#: Estimators by their kinds in model files, as far as they were imported.
_KINDS: dict[str, type[StoredEstimator]] = {}


class StoredEstimator(AdvisedEstimator):
    """An estimator that can be kept in a file; derived classes define its document."""

    #: The name of its kind in model files.
    kind: ClassVar[str]

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            _KINDS.setdefault(cls.kind, cls)

    def save(self, path: PathLike) -> None:
        """Write the fitted model to a file.

        The file is in the safetensors format: data, and no code. It appears under its name once it is complete.

        Parameters
        ----------
        path : path
            The file; an old one is replaced.
        """
        from kernelfields.models.documents import write_document

        check_is_fitted(self)
        write_document(path, self.kind, self.to_document())

    def behind(self, transformer: object) -> Self:
        """Return a copy that takes what a fitted transformer takes.

        Parameters
        ----------
        transformer : transformer
            The steps before the last one of a pipeline.

        Returns
        -------
        estimator
            The copy.
        """
        raise TypeError(f"a {self.kind} does not make its inputs: ask it with pipeline[:-1].transform(X)")

    @classmethod
    def load(cls, path: PathLike, *, callables: Functions | None = None) -> Self:
        """Read a model that :meth:`save` wrote.

        If the engine of the model is not available here, "auto" takes its place, with a warning.

        Parameters
        ----------
        path : path
            The file.
        callables : dict, optional
            Functions by their names, for kernels and other parts of the model that are not data.

        Returns
        -------
        estimator
            The fitted model.

        Raises
        ------
        ValueError
            If the file is no model, or one of another class.
        """
        return load_one_of([cls], path, callables)

    @classmethod
    def placed(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the estimator from its description, with an engine that is available here.

        Parameters
        ----------
        document : dict
            What :meth:`to_document` returned.
        callables : dict, optional
            Functions by their names, as in :meth:`load`.

        Returns
        -------
        estimator
            The fitted estimator.
        """
        model = cls.from_document(document, callables)
        if hasattr(model, "engine"):
            model.engine = engine_here(model.engine)
        return model

    @abstractmethod
    def to_document(self) -> Document:
        """Describe the fitted estimator by plain values and arrays.

        Returns
        -------
        dict
            The description.
        """

    @classmethod
    @abstractmethod
    def from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        """Rebuild the estimator from its description.

        Parameters
        ----------
        document : dict
            What :meth:`to_document` returned.
        callables : dict, optional
            Functions by their names, as in :meth:`load`.

        Returns
        -------
        estimator
            The fitted estimator.
        """


def known_kinds() -> list[str]:
    """Return the kinds of estimators that files may hold."""
    load_registering()
    return sorted(_KINDS)


def find_kind(name: str) -> type[StoredEstimator]:
    """Return the estimator of a kind; ValueError if there is none."""
    if name not in known_kinds():
        raise ValueError(f"an estimator of the unknown kind {name!r:.60}")
    return _KINDS[name]


def load_one_of(kinds: Iterable[type[Loaded]], path: PathLike, callables: Functions | None = None) -> Loaded:
    """Return the model of a file, which is one of some classes; parameters as in :meth:`StoredEstimator.load`."""
    from kernelfields.models.documents import read_document_of

    return read_document_of(path, {kind.kind: partial(kind.placed, callables=callables) for kind in kinds})
