"""Engines: places that run fits, and labelled data placed there.

    Threads(memory="8GB")      the threads of this process
    Torch("cuda:1")            one device of PyTorch
    Dask(client)               the workers of a cluster

    engine.place(data, spec, settings) -> Sample        labelled data in a place
    sample.view(clique)                     -> View          what the cliques of a set see; the panel of its basis
    sample.design(term)                     -> Design        a term on the data
    sample.datafit(designs)                 -> Datafit       the likelihood in the coefficients of the terms

Nothing above a sample depends on where the arrays are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from kernelfields.basis.selection import Basis
from kernelfields.basis.subspace import Expansion
from kernelfields.data.chains import Items
from kernelfields.data.cliques import CliqueSet
from kernelfields.data.reading import Matrix
from kernelfields.inference.choice import FamilySpec
from kernelfields.inference.family import LabelFamily
from kernelfields.kernels.kernel import Kernel
from kernelfields.numerics.group import ALONE, Group, Value
from kernelfields.numerics.threads import Workers
from kernelfields.objective.datafit import Datafit
from kernelfields.objective.designs.design import Design, kernel_quadratic_form
from kernelfields.objective.term import Data, Term

#: Packed sequences, graphs or instances, with their labels where these are known.
PackedData: TypeAlias = Data


@dataclass(frozen=True)
class SampleSettings:
    """Set how labelled data are placed.

    Parameters
    ----------
    dtype : dtype, optional
        The precision of features; by default the engine chooses it for a fit to the relative gap ``tol``.
    tol : float, default 1e-3
        The relative gap to which a fit is done.
    workers : Workers, optional
        The threads; by default all cores.
    n_terms : int, default 1
        The number of terms with features that share the memory.
    beside : int, default 0
        The number of positions of further data that share the memory.
    solved : bool, default True
        Whether the data are fitted to, and not only looked at, as a development set is.
    group : Group, optional
        The processes of which each has a part of the data; by default this one alone.

    Examples
    --------
    >>> from kernelfields.engines import SampleSettings
    >>> SampleSettings(tol=1e-6).solved
    True
    """

    dtype: np.dtype | None = None
    tol: float = 1e-3
    workers: Workers = field(default_factory=Workers)
    n_terms: int = 1
    beside: int = 0
    solved: bool = True
    group: Group = ALONE


class View(Protocol):
    """The inputs of the cliques of a set in labelled data, one row per clique."""

    n_rows: int
    #: The first row, (1, d), which has the kind and the width of the inputs.
    first_row: Matrix

    def resolve_kernel(self, kernel: Kernel) -> Kernel:
        """Return the kernel with numbers for data-dependent rules."""

    def check_kernel(self, kernel: Kernel, random: np.random.Generator) -> None:
        """Raise if the kernel is not positive semi-definite on a random sample of rows."""

    def panel(self, kernel: Kernel, basis: Basis, most: int | None) -> Any:
        """Return an empty panel for the columns of a basis; ValueError if it cannot be chosen here."""


class Sample(Protocol):
    """Labelled data on an engine, for the terms of a fit."""

    spec: FamilySpec
    settings: SampleSettings
    n_positions: int

    def view(self, name: str, clique: CliqueSet) -> View:
        """Return the inputs of the cliques.

        Parameters
        ----------
        name : str
            The name of the clique set.
        clique : CliqueSet
            The clique set.

        Returns
        -------
        View
            A row for each clique.
        """

    def design(self, term: Term, view: Any = None, panel: Any = None) -> Design:
        """Return the design of a term on the data.

        Parameters
        ----------
        term : Term
            The term.
        view : View, optional
            What the cliques of the set see, if it is known.
        panel : PanelCholesky, optional
            The panel with the features, if it is known.

        Returns
        -------
        Design
            The term with its features.
        """

    def shared(self, design: Any, term: Term) -> Any:
        """Return the features of a design for another term with the same rows.

        Parameters
        ----------
        design : Design
            The design.
        term : Term
            The other term.

        Returns
        -------
        Design
            The other term with the features.
        """

    def part(
        self,
        designs: Sequence[Design],
        items: Items,
        times: int = 1,
        dtype: np.dtype | None = None,
        longest: int | None = None,
    ) -> tuple[Any, list[Any]] | None:
        """Return some items, with designs of existing features.

        Parameters
        ----------
        designs : sequence of Design
            The designs of all items.
        items : slice, mask or numbers
            The items.
        times : int, default 1
            The factor of their weights.
        dtype : dtype, optional
            The precision of the features; by default that of the designs.
        longest : int, optional
            The most positions of a sequence; longer ones are cut, and their pieces are items. By default none are.

        Returns
        -------
        pair or None
            The sample and its designs; None if the features would have to be computed.
        """

    def single_labels(self) -> Any | None:
        """Return the same data with independent labels: without factors and constraints.

        Returns
        -------
        Sample or None
            The data; None if there are none of the kind.
        """

    def on_host(self) -> Sample:
        """Return the same data with all features in host memory.

        Returns
        -------
        Sample
            The data.

        Raises
        ------
        ValueError
            If the data are in parts, of which no process has all.
        """

    def datafit(self, designs: Sequence[Design]) -> Datafit:
        """Return the likelihood of the data in the coefficients of some terms.

        Parameters
        ----------
        designs : sequence of Design
            The terms on the data.

        Returns
        -------
        Datafit
            The likelihood.
        """


class DeviceFamily(LabelFamily):
    """A family of labellings that computes and infers potentials on a device."""

    @abstractmethod
    def scores(self, expansion: Expansion, inputs: Matrix) -> Any:
        """Return k(x, B) alpha for each row of inputs, (n, q), on the device."""


class Engine(BaseEstimator, ABC):
    """Set the place and settings of fits: the base class of Threads, Torch and Dask.

    An engine defines :meth:`place`, and what else differs from the threads of this process. docs/engines.md compares
    the three.

    See Also
    --------
    Threads : The threads of this process.
    Torch : A device of PyTorch.
    Dask : The workers of a cluster.

    Examples
    --------
    >>> from kernelfields.engines import Engine, Threads
    >>> isinstance(Threads(memory="2GB"), Engine)
    True
    """

    name: ClassVar[str] = ""

    def __sklearn_clone__(self) -> Engine:
        # A device or a cluster is shared by the clones of an estimator.
        return self

    @property
    def alone(self) -> Engine:
        """The engine of this process by itself."""
        return self

    @property
    def call_engine(self) -> Engine | None:
        """The engine whose workers run whole methods of this process, or None."""
        return None

    @property
    def fits_side_by_side(self) -> bool:
        """Whether several threads may place data and fit at once."""
        return False

    def check(self) -> None:
        """Raise an error, before a fit, if the engine is not available."""

    def check_scoring(self) -> None:
        """Raise an error if the engine cannot score new data."""
        self.check()

    def broadcast(self, value: Value) -> Value:
        """Return the value of the first process of a joint fit.

        Parameters
        ----------
        value : object
            The value of this process.

        Returns
        -------
        object
            The value of the first process.
        """
        return value

    @abstractmethod
    def place(self, data: PackedData, spec: FamilySpec, settings: SampleSettings) -> Sample:
        """Put labelled data on the engine.

        Parameters
        ----------
        data : Chains, Graphs or other packed data
            Labelled data.
        spec : FamilySpec
            The kind of the labels.
        settings : SampleSettings
            Precision, threads and memory.

        Returns
        -------
        Sample
            The data there.
        """

    def scores(self, expansion: Expansion, inputs: Matrix) -> np.ndarray:
        """Compute the scores k(x, B) alpha of new inputs.

        Parameters
        ----------
        expansion : Expansion
            Pivots and coefficients; it keeps copies that are elsewhere.
        inputs : array or CSR matrix (n, d)
            The new inputs.

        Returns
        -------
        array (n, q)
            The scores, on the host.
        """
        return expansion.scores(inputs)

    def quadratic_form(self, kernel: Kernel, inputs: Matrix, residuals: np.ndarray) -> float:
        """Compute tr R^T K R for residuals R, with the kernel matrix K of the inputs.

        Parameters
        ----------
        kernel : Kernel
            The kernel.
        inputs : array or CSR matrix (N, d)
            The inputs.
        residuals : array (N, q)
            The residuals.

        Returns
        -------
        float
            The value.
        """
        return kernel_quadratic_form(kernel, inputs, residuals)

    def device_inference(self, family: LabelFamily) -> DeviceFamily | None:
        """Return the family that infers new data on a device.

        Parameters
        ----------
        family : LabelFamily
            The family on the host.

        Returns
        -------
        DeviceFamily or None
            The family; None if new data are inferred on the host.
        """
        return None
