"""A fitted field as an estimator: its parameters, its fitted attributes, and its engine.

A derived class names its structure, which reads data. Questions to the field are in answers.py, the fit is in base.py,
its description in model files in field_documents.py.
"""

from __future__ import annotations

import copy
from abc import ABCMeta
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeAlias

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kernelfields import kernels
from kernelfields.data.cliques import USUAL_RANK
from kernelfields.data.fingerprints import Fingerprint
from kernelfields.data.reading import Seed
from kernelfields.engines.choice import MANY_VALUES, VALUES_PER_STEP, resolve_engine
from kernelfields.estimators import answering, inspecting, library
from kernelfields.models.stored import Functions, StoredEstimator
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_declared,
    check_one,
    check_tolerance,
    check_verbosity,
    count_or_none,
    declares_parameters,
    get_declared_values,
    or_auto,
    parameter,
    resolve_dtype,
    resolve_open,
)
from kernelfields.numerics.threads import Workers
from kernelfields.structures.structure import Data, Reader, Structure

if TYPE_CHECKING:
    from kernelfields.basis.selection import Basis
    from kernelfields.engines.engine import Engine, PackedData
    from kernelfields.kernels.kernel import Kernel
    from kernelfields.models.model_file import Document
    from kernelfields.models.partial import PartialLabels
    from kernelfields.objective.bounds import Certificate
    from kernelfields.solvers.loop import Solution

#: What may be passed where a kernel, a basis, a label kernel, an engine, labels or seeds are expected.
KernelLike: TypeAlias = "Kernel | str | Callable[..., np.ndarray] | BaseEstimator"
BasisLike: TypeAlias = "Basis | str"
EngineLike: TypeAlias = "Engine | str"
TiesLike: TypeAlias = "library.LabelSymmetry | Sequence[library.LabelSymmetry]"

# Below this many feature values, threads of BLAS wait for each other longer than they work.
_SMALL_PRODUCT = 1_000_000

# Kernels that are linear where inputs are sparse, by name.
_LINEAR_NAMES = ("auto", "linear")


@declares_parameters
class KeptField(StoredEstimator, Generic[Data, Reader], metaclass=ABCMeta):
    """A field with its parameters and fitted attributes; see the module for the hooks.

    Parameters
    ----------
    rank : "auto", int or None, default "auto"
        At most so many basis functions of a kernel without explicit features; None for no limit. "auto" is 1000; above
        2000 positions 500, or 1000 if a short test shows a gain.
    basis : str or Basis, default "random-cholesky"
        How basis functions are chosen: "random-cholesky", "greedy-cholesky", "uniform", "gradient", "all" or an object.
    scale : "auto" or bool, default "auto"
        Whether columns of numbers are brought to mean 0 and one spread, in predictions too. "auto" decides by held-out
        data.
    tol : "auto" or float, default "auto"
        The relative duality gap at which a fit ends. "auto" is 1e-3, or up to 3e-2 once no coefficients could gain a
        thousandth of a nat per position.
    max_iter : int, default 1000
        The most iterations of the solver.
    dtype : "auto", "float32" or "float64", default "auto"
        The precision of stored features; inference is always in float64. "auto" takes float32 for large problems.
    n_jobs : int or None, default None
        The number of threads; None and -1 mean all cores.
    random_state : int, Generator, RandomState or None, default None
        The source of randomness; a number makes fits repeatable.
    verbose : "auto" or int, default "auto"
        What a fit prints on standard error: 0 nothing, 1 shows where it is, 2 every iteration. "auto" is nothing, but
        in a notebook or at a prompt one line of progress once a fit has taken two seconds.

    Attributes
    ----------
    classes_ : ndarray (L,)
        The sorted labels.
    n_features_in_ : int
        The number of input features.
    feature_names_in_ : ndarray (d,)
        The names of features of dicts, strings or data frames.
    basis_ : dict
        The subspace of each clique set, by name.
    coef_ : dict
        The coefficients of each clique set, by name: (rank, labellings of a clique).
    prior_variance_ : float
        The prior variance of the functions of the inputs.
    scale_ : bool
        Whether columns were brought to one scale.
    choices_ : Choices
        What was left to the data, and what was tried on held-out data.
    solution_ : Solution
        The end of the solver, with its history.
    n_iter_ : int
        The number of iterations of the solver.
    inference_ : FittedBy
        How labels were inferred in the fit: ``method``, ``exact`` and ``description``.
    certificate_ : Certificate
        How far the fit can be from the best one in the span of its basis; for exact inference.
    rkhs_certificate_ : Certificate
        How far it can be from the best one in the RKHS: a bound that costs nothing, see :meth:`certify`.
    stationarity_ : float
        How flat the objective is at the fit, where labels are partly known.
    evidence_path_ : EvidencePath or None
        The points that ``optimize="evidence"`` has tried.
    laplace_ : LaplaceSamples or None
        What :meth:`laplace` has found.
    dev_log_likelihoods_ : ndarray (iterations + 1,) or None
        The log-likelihoods of the development set.
    """

    rank: int | str | None = parameter("auto", or_auto(count_or_none), usual=USUAL_RANK)
    basis: BasisLike = parameter("random-cholesky")
    scale: bool | str = parameter("auto", check_one("auto", True, False), usual=False)
    tol: float | str = parameter("auto", or_auto(lambda value, name: check_tolerance(value)))
    max_iter: int = parameter(1000, check_count)
    dtype: object = parameter("auto", lambda value, name: resolve_dtype(value))
    n_jobs: int | None = parameter(None)
    random_state: Seed = parameter(None)
    verbose: int | str = parameter("auto", check_verbosity)

    #: How labels are chosen.
    _decision_rule: ClassVar[answering.DecisionRule]
    #: The form of answers, with the names of items and positions.
    _answer_format: ClassVar[answering.AnswerFormat[Any]]
    #: What looking at the field needs of its structure.
    _inspection: ClassVar[inspecting.Inspection]
    #: What the labels of an item are.
    _structures: ClassVar[type[Structure]]

    classes_: np.ndarray = attribute()
    n_features_in_: int = attribute()
    field_: library.Field = attribute()
    solution_: Solution = attribute()
    inference_: library.FittedBy | None = attribute()
    laplace_: library.LaplaceSamples | None = attribute(reset=None)
    continuation_: library.Continuation | None = attribute(reset=None)
    evidence_path_: library.EvidencePath | None = attribute(reset=None)
    #: Log-likelihoods of the development set after each iteration, None without one; not kept in files.
    dev_log_likelihoods_: np.ndarray | None = attribute(reset=None)
    choices_: library.Choices = attribute()
    feature_names_in_: np.ndarray = attribute()
    _reader: Reader = attribute()
    _certificates: tuple[Certificate, Certificate] | None = attribute()
    #: Columns of probabilities that repeat the labels of the fit; not kept in files.
    _repeated: library.RepeatedLabels | None = attribute(None)
    #: What items of the fit are recognised by; None where they were elsewhere.
    _fitted_items: Fingerprint | None = attribute(None)
    #: What parameters were in the fit, as going_on.py describes them; batches have those of the first.
    _fitted_with: Mapping[str, str] | None = attribute(None)
    #: Whether the field comes from a file of an older version, without the named features that l1 had left no weight.
    _lacks_features: bool = attribute(False, reset=False)

    # Parameters of those estimators that have them.
    kernel: Any = attribute()
    prior_variance: Any = attribute()
    engine: Any = attribute()
    solver: object = attribute()
    callbacks: Any = attribute()
    partial_labels: PartialLabels | None = attribute(None)
    #: Labels that share weights.
    ties: TiesLike | None = attribute(None)
    #: What makes inputs of what users pass.
    features: Any = attribute(None)
    #: What is forbidden of labels.
    constraints: object = attribute(None)

    @property
    def structure(self) -> Structure[Data, Reader]:
        """The structure of the labels of an item, by the present parameters and the last fit."""
        if not self.__sklearn_is_fitted__():
            return self._structures(self)
        return self._structures(self, self._reader, self.classes_, self.field_.spec)

    # ---- state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "field_" in vars(self)

    def _set_field(
        self,
        reader: Reader,
        classes: np.ndarray,
        field: library.Field,
        inference: library.FittedBy | None,
        solution: Solution,
        certificates: tuple[Certificate, Certificate] | None,
    ) -> Self:
        """Set the fitted attributes of a field that was fitted or read from a file, without findings."""
        self.__dict__.update(get_declared_values(self, "reset"))
        self._reader, self.classes_, self.n_features_in_ = reader, classes, reader.rows.n_features
        self.__dict__.pop("feature_names_in_", None)
        if reader.rows.names is not None:
            self.feature_names_in_ = np.array(reader.rows.names, dtype=object)
        self.field_, self.inference_, self.solution_ = field, inference, solution
        self._certificates = certificates
        self._set_views()
        return self

    def _set_views(self) -> None:
        """Set the fitted attributes for users, such as ``coef_``."""
        for name, value in self.structure.views(self.field_.terms).items():
            setattr(self, name, value)

    def _field(self) -> library.Field:
        """Return the fitted field with the present inference method."""
        if not self.__sklearn_is_fitted__():
            # It raises; of a fitted field it would make all tags first, which take longer than to read a word.
            check_is_fitted(self, "field_")
        method = self.structure.method
        return self.field_ if method is None else replace(self.field_, spec=replace(self.field_.spec, method=method))

    @property
    def scale_(self) -> bool:
        """Whether columns of the inputs were standardized."""
        check_is_fitted(self, "field_")
        return self._reader.steps.has_step(library.Scale)

    @property
    def prior_variance_(self) -> float:
        """The prior variance of the functions of the inputs, the first one if there are several."""
        check_is_fitted(self, "field_")
        return next(term for term in self.field_.terms if term.clique.kernel is not None).prior_variance

    @property
    def n_iter_(self) -> int:
        """Number of iterations of the solver."""
        check_is_fitted(self, "field_")
        return self.solution_.iterations

    @property
    def certificate_(self) -> Certificate:
        """Bound on the distance of the fit from the optimum in the span of its basis; for exact inference."""
        return self._get_certificates()[0]

    @property
    def rkhs_certificate_(self) -> Certificate:
        """Bound on the distance of the fit from the optimum in the whole RKHS; for exact inference.

        It is exact for explicit features and ``basis="gradient"``. Else it is a bound that costs nothing, and its lower
        bound is zero unless nearly all inputs are pivots: :meth:`certify` is what to ask then.
        """
        return self._get_certificates()[1]

    @property
    def stationarity_(self) -> float:
        """Relative size of the gradient at the fit: (s / 2) ||gradient||^2 over the value, over clique sets.

        Where labels are partly known the objective has several minima, and this measures whether one is reached.
        """
        check_is_fitted(self, "field_")
        return sum(self.solution_.gap_parts.values()) / max(abs(self.solution_.value), np.finfo(float).tiny)

    def _get_certificates(self) -> tuple[Certificate, Certificate]:
        check_is_fitted(self, "field_")
        if self._certificates is None and self.solution_.reason == "given":
            raise AttributeError(f"no certificate: {self.solution_.message}")
        if self._certificates is None:
            method = None if self.inference_ is None else self.inference_.method
            raise AttributeError(f"no certificate: the labels were inferred by {method!r}, which is approximate")
        return self._certificates

    # ---- where it is worked on

    def _n_values(self, data: Data) -> int:
        """Estimate the number of values in the features of data, less the cost of the steps of chains on a device.

        Zero for few or sparse values.
        """
        rank = resolve_open(self.rank, USUAL_RANK)
        n_values = data.n_positions * min(rank or data.n_positions, data.n_positions)
        n_values -= VALUES_PER_STEP * self.structure.count_sequential_steps(data)
        if n_values < MANY_VALUES or not self.structure.is_engine_free or _should_stay_sparse(self.kernel, data):
            return 0
        return n_values

    def _engine(self, data: Data) -> Engine:
        """Return the engine of a fit to data; raise if no engine is possible."""
        n_values = self._n_values(data)
        here = n_values > 0 and self.structure.has_expected_shares
        return resolve_engine(data.engine(self.engine), n_values=0 if here else n_values)

    def _picklable(self) -> Self:
        model = copy.copy(self)
        model.callbacks, model.engine, model.n_jobs = None, "threads", 1
        return model

    def _sample_settings(self, n_terms: int = 1) -> library.SampleSettings:
        return library.SampleSettings(
            resolve_dtype(self.dtype), library.resolve_tolerance(self.tol), Workers(self.n_jobs), n_terms
        )

    def _with_preprocessor(self, transformer: Any) -> Self:
        return library.with_preprocessor(self, transformer)

    # ---- files

    def _to_document(self) -> Document:
        return library.describe_field(self)

    @classmethod
    def _from_document(cls, document: Document, callables: Functions | None = None) -> Self:
        return library.rebuild_field(cls, document, callables or {})


def check_parameters(estimator: Any) -> None:
    """Raise if a parameter is invalid, before any work starts."""
    check_declared(estimator)
    estimator.structure.check()


def blas_limit(field: KeptField, n_positions: int) -> int | None:
    """Return the number of BLAS threads: ``n_jobs``, or one for small products; None for no limit."""
    if field.n_jobs is not None:
        return Workers(field.n_jobs).n_threads
    rank = resolve_open(field.rank, USUAL_RANK)
    return 1 if n_positions * min(rank or n_positions, n_positions) < _SMALL_PRODUCT else None


def _should_stay_sparse(kernel: object, data: PackedData) -> bool:
    """Whether sparse inputs are the features of a linear kernel, which threads multiply fastest."""
    if not issparse(data.inputs):
        return False
    return kernel in _LINEAR_NAMES if isinstance(kernel, str) else isinstance(kernel, kernels.Linear)
