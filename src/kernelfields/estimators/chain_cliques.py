"""What the parameters of a ChainCRF mean: checks, and the clique sets they describe."""

from __future__ import annotations

from typing import Any

from kernelfields.estimators.class_weights import check_class_weight
from kernelfields.estimators.parameters import (
    check_callbacks,
    check_count,
    check_penalty,
    check_prior_variance,
    check_solver,
    check_support,
    check_tolerance,
    resolve_dtype,
)
from kernelfields.fields import CliqueSet, EdgeCliques, NodeCliques


def check_chain_parameters(chain: Any) -> None:
    """Raise if a parameter of a ChainCRF cannot be used, before any work starts."""
    check_support(chain.support, "support")
    check_penalty(chain.l1, "l1")
    check_penalty(chain.min_freq, "min_freq")
    if chain.min_freq > 0 and "observed" not in (chain.support, chain.edge_support):
        raise ValueError("min_freq counts observed pairs of features and labels: it needs support='observed'")
    for name, check in (
        ("edge_support", check_support),
        ("edge_l1", check_penalty),
    ):
        if getattr(chain, name) is not None:
            check(getattr(chain, name), name)
    for name in ("prior_variance", "edge_prior_variance"):
        variances = getattr(chain, name)
        if isinstance(variances, list | tuple) and not variances:
            raise ValueError(f"{name} holds no number: give one, or one for each part of a sum of kernels")
        for variance in variances if isinstance(variances, list | tuple) else [variances]:
            if variance is not None or name == "prior_variance":
                check_prior_variance(variance, name)
    check_tolerance(chain.tol)
    check_count(chain.max_iter, "max_iter")
    check_solver(chain.solver)
    check_callbacks(chain.callbacks)
    check_class_weight(chain.class_weight)
    check_count(chain.patience, "patience")
    resolve_dtype(chain.dtype)


def chain_cliques(chain: Any) -> Any:
    """Return the clique sets that the parameters of a ChainCRF describe, or those it was given."""
    if isinstance(chain.cliques, str) and chain.cliques != "learn":
        raise ValueError(f"cliques must be a list of clique sets, 'learn' or None, got {chain.cliques!r}")
    if chain.candidates is not None and not isinstance(chain.cliques, str):
        raise ValueError("candidates are for cliques='learn', which chooses among them; leave them out")
    return described_cliques(chain) if chain.cliques is None or isinstance(chain.cliques, str) else chain.cliques


def described_cliques(chain: Any) -> list[CliqueSet]:
    """Return the clique sets that kernel, window, rank, variances and so on describe."""
    shared = {"basis": chain.basis, "rank": chain.rank, "window": chain.window}
    node_support, edge_support = chain.support, chain.edge_support or chain.support
    return [
        NodeCliques(
            chain.kernel,
            label_kernel=chain.label_kernel,
            prior_variance=chain.prior_variance,
            support=node_support,
            min_freq=chain.min_freq if node_support == "observed" else 0.0,
            l1=chain.l1,
            **shared,
        ),
        EdgeCliques(
            chain.edge_kernel,
            prior_variance=_edge_variance(chain),
            support=edge_support,
            min_freq=chain.min_freq if edge_support == "observed" else 0.0,
            l1=chain.l1 if chain.edge_l1 is None else chain.edge_l1,
            **shared,
        ),
    ]


def _edge_variance(chain: Any) -> Any:
    """Return the prior variance of transitions: by default that of the nodes, or of their first part."""
    if chain.edge_prior_variance is not None:
        return chain.edge_prior_variance
    return chain.prior_variance[0] if isinstance(chain.prior_variance, list | tuple) else chain.prior_variance
