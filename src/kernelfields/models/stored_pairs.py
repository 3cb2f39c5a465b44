"""The pairs of features and labellings that a term of a model file has coefficients for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelfields.basis.subspace import Subspace
from kernelfields.data.cliques import CliqueSet
from kernelfields.models.build import choose_pairs
from kernelfields.numerics.stored_arrays import whole_array
from kernelfields.objective.designs.pairs import EVERY_PAIR, EveryPair
from kernelfields.objective.designs.supports import ListedSupport, Support


def rebuild_pairs(
    entry: Mapping[str, Any], clique: CliqueSet, subspace: Subspace, n_labels: int
) -> EveryPair | Support:
    """Return the described pairs of a term, all pairs without a description; ValueError if it is not sound."""
    if "pairs" not in entry:
        pairs = choose_pairs(clique)
        return pairs.in_subspace(clique, subspace, n_labels) if pairs.shared else EVERY_PAIR
    kind = ListedSupport if clique.has_sparse_labellings else Support
    support = kind(entry["pairs"]["begin"], entry["pairs"]["outcomes"], clique.n_configurations(n_labels))
    whole_array(support.begin, "the pairs of features and labels", (None,))
    whole_array(support.outcomes, "the pairs of features and labels", (None,))
    support.check()
    return support
