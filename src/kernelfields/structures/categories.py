"""Categories beside numbers: columns of few named features that come apart, each kind with a function of its own.

    f(x, y) = g(numbers of x, y) + (linear function of the categories of x, y)

Each is a function that structures of sequences have as a method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from kernelfields.data.chains import Chains
from kernelfields.data.cliques import CliqueSet, NodeCliques
from kernelfields.data.dicts import with_categories
from kernelfields.data.readers import InputReader
from kernelfields.kernels.columns import Columns
from kernelfields.kernels.dot_product import Linear
from kernelfields.kernels.kernel import has_named_kinds
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.models.choices import NO_CHOICES
from kernelfields.numerics.group import Group
from kernelfields.numerics.parameters import check_window, get_open_parameters


def separate_categories(self: Any, reader: InputReader, data: Chains, among: Group) -> Chains:
    """Choose dense or sparse storage by the density of data; separate numbers and categories of few features."""
    open_ones = {"support", "l1"} & set(self.settings.get_params(deep=False))
    free = open_ones <= set(get_open_parameters(self.settings))
    alone = check_window(self.window) == (0, 0)
    # Kernels name columns of their own by place, and categories would change places.
    few = free and alone and self.settings.ties is None and not reader.limits and not reader.own.rows
    if reader.rows.apart or (reader.rows.encoder is not None and few):
        return with_categories(reader.rows, data, among)
    return reader.rows.to_natural_sparsity(data, among)


def beside_categories(self: Any, cliques: Sequence[CliqueSet], reader: InputReader) -> list[CliqueSet]:
    """Return clique sets with separate functions of numeric columns and of categories."""
    n_numbers = reader.n_columns - reader.rows.categories
    nodes, *others = cliques
    if has_named_kinds(nodes.kernel):
        return [clone(nodes).set_params(kernel=nodes.kernel.with_places(n_numbers)), *others]
    # What held-out data have chosen: 0 leaves the linear part out.
    own = vars(self.settings).get("choices_", NO_CHOICES).chosen.get("categories", nodes.prior_variance)
    kernel = resolve_kernel(nodes.kernel)
    if not isinstance(kernel, Columns):  # that of a field whose fit goes on
        nodes = clone(nodes).set_params(kernel=Columns(kernel, 0, n_numbers))
    linear = NodeCliques(Columns(Linear(), n_numbers), prior_variance=own, name="categories")
    return [nodes, linear, *others] if own else [nodes, *others]
