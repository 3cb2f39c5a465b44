"""From clique sets to finite coordinates: view of the inputs, kernel, basis, features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone

from kernelfields.basis import (
    ConstantSubspace,
    ExplicitSubspace,
    Gradient,
    Support,
    observed_support,
    resolve_basis,
)
from kernelfields.engines import CliqueFeatures, Engine, FeatureOrigin, PanelRequest, Threads
from kernelfields.engines.feature_memory import available_memory
from kernelfields.estimators.kernel_sums import split_sum
from kernelfields.estimators.parameters import (
    check_count,
    check_penalty,
    check_prior_variance,
    check_support,
    resolve_dtype,
)
from kernelfields.features import check_window, window_view
from kernelfields.fields import CliqueSet
from kernelfields.kernels import (
    Constant,
    check_positive_semidefinite,
    resolve_kernel,
    resolve_label_kernel,
)
from kernelfields.kernels.labels import Delta

# Potentials of a point, of a direction and of a trial between them, their residual, and three of inference.
_TRANSITION_ARRAYS = 7


@dataclass
class CliqueSpace:
    """A clique set in finite coordinates on the training chains.

    ``panel`` (PanelCholesky) is there for sets that may still grow, ``basis`` (Basis) for those whose pivots were
    chosen here. ``residual_diagonal`` is k(x, x) - ||z(x)||^2 for every set with pivots, else None. ``support`` is
    None where every feature has a coefficient for every labelling.
    """

    clique: CliqueSet
    name: str
    subspace: Any
    label_factor: np.ndarray | None
    inputs: Any
    features: Any
    panel: Any = None
    basis: Any = None
    positions: np.ndarray | None = None
    residual_diagonal: np.ndarray | None = None
    support: Support | None = None
    #: How the engine keeps the features of the panel.
    features_of: Any = None

    def grown(self) -> None:
        """Take over the features of a panel that has grown."""
        self.subspace, self.features = self.panel.subspace(), self.features_of(self.panel)
        self.residual_diagonal = self.panel.residual

    def clique_features(self, n_labels: int) -> CliqueFeatures:
        """Return what an engine needs of this set."""
        return CliqueFeatures(
            self.name,
            self.features,
            positions=self.positions,
            labels_per_clique=self.clique.labels_per_clique,
            n_labels=n_labels,
            group=self.clique.group,
            prior_variance=self.clique.prior_variance,
            label_factor=self.label_factor,
            whitened=not isinstance(self.subspace, ExplicitSubspace),
            support=self.support,
            l1=self.clique.l1,
            origin=self._origin,
        )

    @property
    def _origin(self) -> FeatureOrigin | None:
        """What stands behind features that pivots span."""
        if self.residual_diagonal is None:
            return None
        return FeatureOrigin(self.subspace, self.inputs, self.residual_diagonal)


def name_cliques(cliques: Any) -> list[tuple[str, CliqueSet]]:
    """Check a list of clique sets; return copies of them, each with a name of its own."""
    if isinstance(cliques, CliqueSet):
        cliques = [cliques]
    if not isinstance(cliques, list | tuple):
        raise TypeError(f"cliques must be a list of clique sets such as NodeCliques('rbf'), got {cliques!r}")
    named: list[tuple[str, CliqueSet]] = []
    for index, clique in enumerate(cliques):
        if not isinstance(clique, CliqueSet):
            raise TypeError(
                f"cliques[{index}] is {clique!r}, expected a clique set such as NodeCliques, EdgeCliques or, for "
                "graphs, GraphNodes and GraphFactors"
            )
        clique.check_reach()
        name = clique.name or clique.default_name
        taken = [other for other, _ in named]
        if name in taken and clique.name is None:
            name = next(f"{name}_{i}" for i in range(2, len(taken) + 3) if f"{name}_{i}" not in taken)
        elif name in taken:
            raise ValueError(f"two clique sets are named {name!r}; give each a name of its own")
        for part_name, part in split_sum(name, clique):
            if part_name in taken:
                raise ValueError(
                    f"two clique sets are named {part_name!r}, one of them a part of the sum of kernels in "
                    f"{name!r}; give each a name of its own"
                )
            named.append((part_name, resolved_clique(part)))
    if not any(clique.default_name == "node" for _, clique in named):
        raise ValueError(
            "cliques holds no NodeCliques (for graphs, GraphNodes): add NodeCliques(kernel), the potential of "
            "single labels"
        )
    if all(clique.kernel is None for _, clique in named):
        raise ValueError("no clique set has a kernel, so labels would not depend on the inputs: give kernel='rbf'")
    return named


def resolved_clique(clique: CliqueSet) -> CliqueSet:
    """Return a copy with names resolved to objects; ValueError or TypeError if a parameter cannot be used.

    A fitted field keeps these copies: what the user changes later must not reach it.
    """
    check_prior_variance(clique.prior_variance, "prior_variance")
    check_support(clique.support, "support")
    check_penalty(clique.l1, "l1")
    check_penalty(clique.min_freq, "min_freq")
    if clique.min_freq > 0 and clique.support != "observed":
        raise ValueError("min_freq counts observed pairs of features and labels: it needs support='observed'")
    check_window(clique.window)
    clique.check_reach()
    if clique.rank is not None:
        check_count(clique.rank, "rank", " (or None for no limit)")
    parameters = clique.get_params(deep=False)
    for name in ("prior_variance", "l1", "min_freq"):
        parameters[name] = float(parameters[name])  # NumPy would compute in float32 with a float32 number
    parameters["basis"] = clone(resolve_basis(clique.basis))
    parameters["label_kernel"] = clone(resolve_label_kernel(clique.label_kernel))
    if weighs_labels_singly(clique) and not isinstance(parameters["label_kernel"], Delta):
        raise ValueError(
            "support='observed' and l1 treat the weights of each label by themselves: they need "
            f"label_kernel='delta', got {clique.label_kernel!r}"
        )
    if clique.kernel is not None:
        parameters["kernel"] = clone(resolve_kernel(clique.kernel))
        parameters["kernel"].check_parameters()
    return type(clique)(**parameters)


def weighs_labels_singly(clique: CliqueSet) -> bool:
    """Whether coefficients must belong to single labellings, not to contrasts between them."""
    return clique.support == "observed" or clique.l1 > 0


def label_factor(clique: CliqueSet, n_labels: int) -> np.ndarray | None:
    """Return A with A A^T the centred label kernel, or None for the identity.

    Pairs of labels with the delta kernel stay uncentred: one dimension in L^2 is not worth a product with a
    dense (L^2, L^2 - 1) matrix. Pairs without a direction have the L (L + 1) / 2 symmetric tables.
    """
    kernel = resolve_label_kernel(clique.label_kernel)
    if clique.symmetric:
        return symmetric_tables(n_labels)
    if weighs_labels_singly(clique) or (clique.labels_per_clique >= 2 and isinstance(kernel, Delta)):
        return None
    # In C order, as a model file gives it back: products round differently for another order.
    return np.ascontiguousarray(kernel.factor(clique.n_configurations(n_labels)))


def symmetric_tables(n_labels: int) -> np.ndarray:
    """Return an orthonormal basis of the symmetric (L, L) tables as columns, (L^2, L (L + 1) / 2)."""
    first, second = np.triu_indices(n_labels)
    tables = np.zeros((n_labels**2, len(first)))
    columns = np.arange(len(first))
    height = np.where(first == second, 1.0, np.sqrt(0.5))
    tables[first * n_labels + second, columns] = height
    tables[second * n_labels + first, columns] = height
    return tables


def build_space(
    name: str,
    clique: CliqueSet,
    fields: Any,
    n_labels: int,
    *,
    tol: float,
    dtype: Any,
    random: np.random.Generator,
    engine: Engine | None = None,
    n_sharing: int = 1,
) -> CliqueSpace:
    """Choose a basis for one clique set and compute the features of the training chains or graphs.

    ``engine`` holds the features; None for the threads of this process. ``n_sharing`` sets share its memory.
    """
    factor = label_factor(clique, n_labels)
    positions = clique.positions(fields)
    if clique.kernel is None:
        subspace: Any = ConstantSubspace(Constant(1.0))
        support = chosen_support(clique, None, fields, n_labels)
        return CliqueSpace(clique, name, subspace, factor, None, None, positions=positions, support=support)
    inputs = viewed_inputs(clique, fields)
    if inputs.shape[0] == 0:
        raise ValueError(
            f"the training data hold no {name!r} cliques, all sequences have length one or no graph has edges: "
            "there is nothing to choose a kernel basis from. Leave out the edge kernel."
        )
    kernel = resolve_kernel(clique.kernel).resolve(inputs, clique_weights(clique, fields))
    explicit = kernel.feature_map(inputs[:1])
    if explicit is not None:
        subspace = ExplicitSubspace(kernel, explicit.shape[1])
        features = subspace.features(inputs, explicit_dtype(dtype, inputs))
        support = chosen_support(clique, features, fields, n_labels)
        return CliqueSpace(clique, name, subspace, factor, inputs, features, positions=positions, support=support)
    check_pivots_allowed(name, clique)
    check_positive_semidefinite(kernel, inputs, random)
    basis = resolve_basis(clique.basis)
    capacity = basis.capacity(clique.rank, inputs.shape[0])
    request = PanelRequest(
        name,
        kernel,
        inputs,
        capacity,
        resolve_dtype(dtype),
        tol,
        fields,
        positions,
        n_labels=n_labels,
        labels_per_clique=clique.labels_per_clique,
        n_sharing=n_sharing,
    )
    engine = engine or Threads()
    panel = engine.panel(request)
    basis.select(panel, random)
    features_of = partial(engine.features, request)
    growing = isinstance(basis, Gradient)
    return CliqueSpace(
        clique,
        name,
        panel.subspace(),
        factor,
        panel.inputs,
        features_of(panel),
        # Columns that will not grow may be kept in another form: let go of this one.
        panel if growing else None,
        basis,
        positions=positions,
        residual_diagonal=panel.residual,
        features_of=features_of,
    )


def chosen_support(clique: CliqueSet, features: Any, fields: Any, n_labels: int) -> Support | None:
    """Return the pairs of features and labellings that get coefficients; None for all of them."""
    if clique.support == "all":
        return None
    labellings = clique.labellings(fields, n_labels)
    return observed_support(features, labellings, clique.n_configurations(n_labels), clique.min_freq)


def check_pivots_allowed(name: str, clique: CliqueSet) -> None:
    """Raise if a set without explicit features asks for what only single weights can have."""
    for parameter, asked in (("support='observed'", clique.support == "observed"), ("l1", clique.l1 > 0)):
        if asked:
            raise ValueError(
                f"{parameter} speaks of weights of single features, and {clique.kernel!r} of clique set {name!r} "
                "has none: use kernel='linear', or a sum with it"
            )
    if not np.isfinite(clique.prior_variance):
        raise ValueError(
            f"prior_variance of clique set {name!r} must be finite: without a prior, {clique.kernel!r} can fit "
            "any labels"
        )


def viewed_inputs(clique: CliqueSet, fields: Any) -> Any:
    """Return what each clique of a set sees of the inputs of chains or graphs, a row per clique."""
    own_view = clique.view(fields)
    if own_view is not None:
        return own_view
    inputs = window_view(fields.inputs, fields.offsets, clique.window)
    positions = clique.positions(fields)
    return inputs if positions is None else inputs[positions]


def clique_weights(clique: CliqueSet, fields: Any) -> np.ndarray | None:
    """Return the weight of every clique of a set, (n,); None where all are one."""
    if np.all(fields.weights == 1.0):
        return None
    positions = clique.positions(fields)
    if positions is None and clique.group is not None:
        return fields.factor_weights(clique.group)
    return fields.position_weights if positions is None else fields.position_weights[positions]


def explicit_dtype(dtype: Any, inputs: Any) -> np.dtype:
    """Resolve ``dtype`` for features that are the inputs or close to them: "auto" keeps the inputs' own."""
    resolved = resolve_dtype(dtype)
    return inputs.dtype if resolved is None else resolved


def check_transitions_fit(n_positions: int, n_labels: int) -> None:
    """Raise MemoryError before the work starts if transition scores of every position cannot fit in memory."""
    needed = _TRANSITION_ARRAYS * 8 * n_positions * n_labels**2
    available = available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            "transitions that depend on the inputs need (L, L) scores at every position: "
            f"{needed / 2**30:,.1f} GiB for {n_positions:,} positions and {n_labels:,} labels, but "
            f"{available / 2**30:,.1f} GiB are free. "
            "Leave out the edge kernel, or use fewer sequences."
        )


def same_kind(inputs: Any, sparse: bool) -> Any:
    """Return inputs as CSR if ``sparse``, else dense."""
    if sparse == scipy.sparse.issparse(inputs):
        return inputs
    return scipy.sparse.csr_array(inputs) if sparse else inputs.toarray()
