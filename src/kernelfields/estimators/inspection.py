"""Inspection of fitted chain fields: weights, explanations, summaries, labelled sequences.

A field that is not fitted shows scikit-learn's diagram; once fitted, its sizes, certificates and transitions. Both
follow scikit-learn's ``set_config(display=...)``. Cost: a summary counts the weights that are not zero,
O(weights); showing a sequence costs two predictions of it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from kernelfields.basis.selection import resolve_basis
from kernelfields.basis.subspace import ConstantSubspace, ExplicitSubspace
from kernelfields.estimators.explanation import explain_chain, most_probable_others
from kernelfields.estimators.feature_weights import tabulate
from kernelfields.features.readers import is_feature_sequences
from kernelfields.fields.cliques import check_window
from kernelfields.kernels.labels import resolve_label_kernel
from kernelfields.kernels.registry import resolve_kernel
from kernelfields.numerics.parameters import check_count, is_whole
from kernelfields.numerics.threads import Workers
from kernelfields.objective.likelihoods.chain import reaches_far
from kernelfields.objective.term import Term
from kernelfields.reports.explanations import Explanation
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.reports.summary import ModelSummary, SetSummary
from kernelfields.reports.weights import WeightsTable

_SHOWN_CLASSES = 10
_LONGEST_VALUE = 200
_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(e[+-]?\d+)?")
# A model that was read from a file of 0.1.0 has objects where its parameters had names.
_RESOLVED = {"kernel": resolve_kernel, "basis": resolve_basis, "label_kernel": resolve_label_kernel}


def tabulate_weights(crf: Any, top: Any, labels: Any, feature_re: Any, feature_names: Any) -> WeightsTable:
    """Return the largest weights per label of a fitted ChainCRF; see :meth:`ChainCRF.weights`."""
    return tabulate(
        crf.field_,
        crf.coef_,
        crf.classes_.tolist(),
        _feature_names(crf, feature_names),
        top=_checked_top(top),
        shown=_label_indices(crf.classes_, labels),
        pattern=_compiled(feature_re),
    )


def explain_sequence(
    crf: Any, x: Any, y: Any, top: int, against: Any, feature_names: Any, tokens: Any, pivots: int
) -> Explanation:
    """Return what moved the labels of one sequence; see :meth:`ChainCRF.explain`."""
    check_count(top, "top")
    if not is_whole(pivots) or pivots < 0:
        raise ValueError(f"pivots must be a whole number of at least 0, got {pivots!r}")
    if reaches_far(crf.field_.terms):
        raise ValueError(
            "explain compares labels by what they meet at their neighbours, and this field has cliques of "
            "longer reach: predict_marginals and coef_ have its figures"
        )
    names = _feature_names(crf, feature_names)
    check_one_sequence(x, "explain")
    chains = crf._reader.read([x], None if y is None else [y], None, crf.classes_)
    crf.field_.structure.masks.check_lengths(chains.lengths)
    answers = crf.field_.answers(chains, Workers(1))
    labels = answers.best_labels() if y is None else chains.labels
    others = most_probable_others(answers.marginals, labels)
    if against is not None:
        rivals = _rivals(crf.classes_, against, len(labels))
        others = np.where(rivals == labels, others, rivals)
    return explain_chain(
        crf.field_,
        crf.coef_,
        chains,
        labels,
        others,
        answers.marginals,
        classes=crf.classes_.tolist(),
        names=names,
        tokens=_checked_tokens(tokens, len(labels)),
        top=int(top),
        pivots=int(pivots),
    )


def summarise(crf: Any) -> ModelSummary:
    """Return a fitted ChainCRF at a glance; see :meth:`ChainCRF.summary`."""
    forbidden = np.isneginf(crf.field_.structure.masks.edge)
    return ModelSummary(
        name=type(crf).__name__,
        labels=tuple(crf.classes_.tolist()),
        n_features=crf._reader.n_features,
        sets=tuple(_summarise(term) for term in crf.field_.terms),
        solution=crf.solution_,
        certificates=(crf.certificate_, crf.rkhs_certificate_),
        tol=crf.tol,
        parameters=_changed_parameters(crf),
        transitions=crf.transitions_,
        forbidden=forbidden if forbidden.any() else None,
    )


def show_sequence(crf: Any, x: Any, y: Any, tokens: Any, caption: str) -> LabelledSequence:
    """Return one sequence as a fitted ChainCRF labels it; see :meth:`ChainCRF.show`."""
    check_one_sequence(x, "show")
    labels, marginals = crf.predict([x])[0], crf.predict_marginals([x])[0]
    return LabelledSequence(labels, marginals, crf.classes_.tolist(), tokens, y, caption)


def _feature_names(crf: Any, given: Any) -> Sequence[str]:
    n_features, encoder = crf._reader.n_features, crf._reader.encoder
    if given is None:
        return [f"x{index}" for index in range(n_features)] if encoder is None else encoder.feature_names_
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__"):
        raise TypeError(f"feature_names must be a list of {n_features} names, got {given!r:.60}")
    if len(given) != n_features:
        raise ValueError(f"feature_names has {len(given)} names, but the inputs have {n_features} features")
    return [str(name) for name in given]


def _label_indices(classes: np.ndarray, labels: Any) -> list[int]:
    if labels is None:
        return list(range(len(classes)))
    if isinstance(labels, str | bytes | Mapping) or not hasattr(labels, "__iter__"):
        raise TypeError(f"labels must be a list of labels, got {labels!r}: write [{labels!r}]")
    indices = list(dict.fromkeys(_label_index(classes, label, "labels") for label in labels))
    if not indices:
        raise ValueError("labels is empty: name at least one label, or leave it out for all")
    return indices


def _label_index(classes: np.ndarray, label: Any, where: str) -> int:
    known = classes.tolist()
    plain = label.item() if isinstance(label, np.generic) else label
    if plain not in known:
        shown = ", ".join(map(repr, known[:_SHOWN_CLASSES]))
        more = f" and {len(known) - _SHOWN_CLASSES} more" if len(known) > _SHOWN_CLASSES else ""
        raise ValueError(f"{where} holds the unknown label {plain!r}: known are {shown}{more}")
    return known.index(plain)


def _rivals(classes: np.ndarray, against: Any, n_positions: int) -> np.ndarray:
    """Return the index of the label to compare with at each position, (T,)."""
    if not isinstance(against, list | tuple | np.ndarray) or np.ndim(against) == 0:
        return np.full(n_positions, _label_index(classes, against, "against"))
    if len(against) != n_positions:
        raise ValueError(
            f"against holds {len(against)} labels, but the sequence has {n_positions} positions: "
            "give one label, or one for each position"
        )
    return np.array([_label_index(classes, label, "against") for label in against])


def _checked_top(top: Any) -> int | tuple[int, int] | None:
    if top is None or (is_whole(top) and top >= 1):
        return top
    pair = isinstance(top, tuple | list) and len(top) == 2 and all(is_whole(n) and n >= 0 for n in top)
    if pair and any(top):
        return int(top[0]), int(top[1])
    raise ValueError(
        "top must be a whole number of at least 1, a pair (positive, negative) of them that are not both 0, "
        f"or None for all, got {top!r}"
    )


def _compiled(feature_re: Any) -> re.Pattern[str] | None:
    if feature_re is None:
        return None
    try:
        pattern = re.compile(feature_re)
    except (re.error, TypeError) as error:
        raise ValueError(f"feature_re {feature_re!r} is not a regular expression: {error}") from error
    if not isinstance(pattern.pattern, str):
        raise ValueError(f"feature_re must be a pattern of text, got {feature_re!r}: leave out the b")
    return pattern


def check_one_sequence(x: Any, caller: str) -> None:
    """Raise, in the caller's name, unless x can be one sequence; what is in it is checked where it is read."""
    first = x[0] if isinstance(x, list | tuple | np.ndarray) and len(x) else None
    row = first[0] if isinstance(first, list | tuple) and len(first) else None
    table = scipy.sparse.issparse(first) or getattr(first, "ndim", 1) > 1 or isinstance(row, list | tuple | np.ndarray)
    if table or is_feature_sequences(x):
        raise ValueError(f"{caller} takes one sequence, got a list of {len(x)} of them: pass one, such as X[0]")
    if isinstance(x, np.ndarray) and x.dtype != object and x.ndim != 2:
        raise ValueError(f"{caller} takes one sequence of shape (positions, features), got shape {x.shape}")


def _checked_tokens(tokens: Any, n_positions: int) -> list[str] | None:
    if tokens is None:
        return None
    if isinstance(tokens, str | bytes | Mapping) or not hasattr(tokens, "__len__"):
        raise TypeError(f"tokens must be a list of {n_positions} words, got {tokens!r:.60}")
    if len(tokens) != n_positions:
        raise ValueError(f"tokens has {len(tokens)} entries, but the sequence has {n_positions} positions")
    return [str(token) for token in tokens]


def _summarise(term: Term) -> SetSummary:
    """Return a clique set in words and numbers."""
    if isinstance(term.subspace, ConstantSubspace):
        kernel, sees = "none", "labels only"
    else:
        before, after = check_window(term.clique.window)
        kernel = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", repr(term.subspace.kernel))
        kind = "explicit features" if isinstance(term.subspace, ExplicitSubspace) else "pivots"
        sees = "one position" if before == after == 0 else f"positions {-before:+d} to {after:+d}"
        sees = f"{sees}, {kind}"
    return SetSummary(
        name=term.name,
        kernel=_cut(kernel),
        sees=sees,
        rank=int(term.subspace.rank),
        n_weights=int(term.known.size),
        n_nonzero=int(np.count_nonzero(term.known)),
        prior_variance=float(term.clique.prior_variance),
        l1=float(term.clique.l1),
    )


def _changed_parameters(estimator: Any) -> dict[str, str]:
    """Return the parameters that differ from their defaults, in words."""
    defaults = {name: each.default for name, each in inspect.signature(type(estimator).__init__).parameters.items()}
    given = estimator.get_params(deep=False)
    return {
        name: _cut(repr(value))
        for name, value in given.items()
        if repr(value) not in (repr(defaults[name]), repr(_RESOLVED.get(name, _same)(defaults[name])))
    }


def _same(value: Any) -> Any:
    return value


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST_VALUE else words[: _LONGEST_VALUE - 1] + "…"
