"""How a fitted chain field shows itself: a summary in a notebook, and one labelled sequence to look at.

A field that is not fitted shows scikit-learn's diagram; once fitted, its sizes, certificates and transitions. Both
follow scikit-learn's ``set_config(display=...)``. Cost: a summary counts the weights that are not zero,
O(weights); showing a sequence costs two predictions of it.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from kernelfields.basis import ConstantSubspace, ExplicitSubspace, resolve_basis
from kernelfields.estimators.chain_inputs import ChainInputs
from kernelfields.estimators.chain_inspection import check_one_sequence
from kernelfields.estimators.field_model import FieldModel
from kernelfields.estimators.fitted_sets import FittedSet
from kernelfields.features import check_window
from kernelfields.kernels import resolve_kernel, resolve_label_kernel
from kernelfields.posterior import Certificate
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.reports.summary import ModelSummary, SetSummary
from kernelfields.solvers import Solution

_LONGEST_VALUE = 200
_LONG_NUMBER = re.compile(r"\d+\.\d{7,}(e[+-]?\d+)?")
# A model that was read from a file has objects where its parameters had names.
_RESOLVED = {"kernel": resolve_kernel, "basis": resolve_basis, "label_kernel": resolve_label_kernel}


class ChainDisplay:
    """Displays of chain estimators; expects what a fitted ChainCRF has, and to stand before BaseEstimator."""

    model_: FieldModel
    classes_: np.ndarray
    transitions_: np.ndarray | None
    solution_: Solution
    certificate_: Certificate
    rkhs_certificate_: Certificate
    tol: float
    _inputs: ChainInputs

    def summary(self) -> ModelSummary:
        """Return the fitted field at a glance: labels, clique sets, sizes, certificates, transitions.

        Print it, let a notebook show it, or pass it to ``kernelfields.reports.report_page``.
        """
        check_is_fitted(self, "model_")
        forbidden = np.isneginf(self.model_.masks.edge)
        return ModelSummary(
            name=type(self).__name__,
            labels=tuple(self.classes_.tolist()),
            n_features=self._inputs.n_features,
            sets=tuple(_summarise(each) for each in self.model_.sets),
            solution=self.solution_,
            certificates=(self.certificate_, self.rkhs_certificate_),
            tol=self.tol,
            parameters=_changed_parameters(self),
            transitions=self.transitions_,
            forbidden=forbidden if forbidden.any() else None,
        )

    def show(self, x: Any, y: Any = None, *, tokens: Any = None, caption: str = "") -> LabelledSequence:
        """Return one sequence as the field labels it, for a notebook or a page.

        Words are coloured by their labels, and hovering over one tells the probabilities of the others.

        Parameters
        ----------
        x : one sequence, in the form the model was fitted on: a list of feature dicts or of lists of feature
            strings, or an array (positions, features)
        y : its true labels, to mark those that are wrong; labels the model does not know are allowed
        tokens : what to show for each position, such as its word; by default its number
        caption : a line above the sequence
        """
        check_is_fitted(self, "model_")
        check_one_sequence(x, "show")
        field: Any = self  # predictions come from a class beside this one
        labels, marginals = field.predict([x])[0], field.predict_marginals([x])[0]
        return LabelledSequence(labels, marginals, self.classes_.tolist(), tokens, y, caption)

    def _repr_html_inner(self) -> str:
        """Return the HTML behind scikit-learn's ``_repr_html_``, which is there if diagrams are asked for."""
        if hasattr(self, "model_"):
            return self.summary()._repr_html_()
        return super()._repr_html_inner()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what a notebook shows, as scikit-learn does, with a summary in the place of the diagram."""
        if hasattr(self, "model_") and get_config()["display"] == "diagram":
            return {"text/plain": repr(self), "text/html": self.summary()._repr_html_()}
        return super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]


def _summarise(each: FittedSet) -> SetSummary:
    """Return a clique set in words and numbers."""
    if isinstance(each.subspace, ConstantSubspace):
        kernel, sees = "none", "labels only"
    else:
        before, after = check_window(each.clique.window)
        kernel = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", repr(each.subspace.kernel))
        kind = "explicit features" if isinstance(each.subspace, ExplicitSubspace) else "pivots"
        sees = "one position" if before == after == 0 else f"positions {-before:+d} to {after:+d}"
        sees = f"{sees}, {kind}"
    return SetSummary(
        name=each.name,
        kernel=_cut(kernel),
        sees=sees,
        rank=int(each.subspace.rank),
        n_weights=int(each.coefficients.size),
        n_nonzero=int(np.count_nonzero(each.coefficients)),
        prior_variance=float(each.clique.prior_variance),
        l1=float(each.clique.l1),
    )


def _changed_parameters(estimator: Any) -> dict[str, str]:
    """Return the parameters that differ from their defaults, in words."""
    defaults = {
        name: each.default for name, each in inspect.signature(type(estimator).__init__).parameters.items()
    }
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
