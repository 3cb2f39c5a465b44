"""StructureSearch: an estimator that chooses the clique sets or edges of another one (Remark 11).

    read the data, resolve "auto" -> search on a part -> fit the best structure to all data

The search (models/structure.py) is a step before the solve of a single fit: columns, scales and kernels are chosen
once, and the fitted field has the structure as a parameter, as if the user had passed it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, get_tags

from kernelfields.engines.choice import refuse_collections
from kernelfields.estimators.answering.formats import get_answer_format
from kernelfields.estimators.answering.lengths import cut_by_lengths
from kernelfields.estimators.base import fit_in_steps
from kernelfields.estimators.chain_crf import ChainCRF
from kernelfields.estimators.fit_state import FitState
from kernelfields.estimators.kept_field import check_parameters
from kernelfields.estimators.multilabel_crf import MultiLabelCRF
from kernelfields.estimators.requested import requested_steps
from kernelfields.estimators.ring_crf import RingCRF
from kernelfields.estimators.workers import distribute_method
from kernelfields.models.placed import FitStep
from kernelfields.models.stored import Functions, load_any
from kernelfields.models.structure import INTERRUPTED, StructurePath, learn_structure, log_likelihood
from kernelfields.models.wrapped_field import (
    FITTED,
    OF_LABELS,
    OF_PROBABILITIES,
    OF_THE_FIT,
    WrappedField,
    forward_questions,
    refuse_questions,
)
from kernelfields.numerics.parameters import (
    attribute,
    check_count,
    check_declared,
    declares_parameters,
    or_none,
    parameter,
    resolve_open,
)
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.selection.structure_candidates import KINDS, Candidates

#: The fields whose structure is searched.
Searched: TypeAlias = ChainCRF | MultiLabelCRF
_SEARCHED = (ChainCRF, RingCRF, MultiLabelCRF)


def _check_threshold(value: float | None, name: str) -> None:
    if value is not None and not value >= 0:
        raise ValueError(f"{name} must be at least 0, or None, got {value!r}")


def _check_validation(value: float, name: str) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be a share from 0 to less than 1, got {value!r}")


@refuse_questions(partial_fit="a search compares structures on all data. Go on with best_estimator_.partial_fit")
@forward_questions(*OF_LABELS, *OF_PROBABILITIES, *OF_THE_FIT, "laplace", *FITTED, like=_SEARCHED)
@declares_parameters
class StructureSearch(WrappedField):
    """Choose the clique sets or edges of a field, and fit the chosen field.

    The search begins with the clique sets, or the pairs of labels, of the estimator. What one Newton step in a
    candidate promises decides which comes first, and a bound on what it could bring decides when to stop. Both are
    about the coefficients of the candidate: for a kernel, about the span of its pivots. Additions that do not make
    held-out items more likely are taken back.

    Parameters
    ----------
    estimator : ChainCRF, RingCRF or MultiLabelCRF
        The field, which holds everything that is not searched. Its ``label_graph="auto"`` means no pairs here.
    candidates : list of clique sets, list of pairs of labels or None, default None
        What to choose from; None for all pairs of labels.
    max_additions : int or None, default None
        The most sets that are added; None for any number.
    threshold : float or None, default None
        The gain of the objective, in nats, below which no candidate is worth adding; None for a thousandth of it.
    validation : float, default 0.2
        The share of the items held out to judge each addition; 0 keeps every addition. The field that is kept is fitted
        to all items.

    Attributes
    ----------
    best_estimator_ : estimator
        The field with the chosen structure, fitted to all items; its methods and attributes are those of the search as
        well.
    best_params_ : dict
        The parameter that was chosen: ``cliques``, or ``label_graph``.
    structure_path_ : StructurePath
        The steps of the search.

    See Also
    --------
    kernelfields.FieldSearchCV : Chooses kernel, rank and prior variances.

    Examples
    --------
    >>> from kernelfields import ChainCRF, SkipCliques
    >>> from kernelfields.selection import StructureSearch
    >>> X = [[{"day": 1.0}] * 6] * 4
    >>> y = [["a", "a", "b", "b", "a", "a"], ["b", "b", "a", "a", "b", "b"]] * 2
    >>> crf = ChainCRF(prior_variance=10.0, random_state=0)
    >>> search = StructureSearch(crf, [SkipCliques(lag=2), SkipCliques(lag=3)], max_additions=1, validation=0)
    >>> search.fit(X, y).structure_path_.added
    ['lag2']
    """

    _inside = "best_estimator_"

    estimator: Searched | None = parameter(None, first=True)
    candidates: Any = parameter(None, first=True)
    max_additions: int | None = parameter(None, or_none(check_count))
    threshold: float | None = parameter(None, _check_threshold)
    validation: float = parameter(0.2, _check_validation)

    best_estimator_: Searched = attribute()
    best_params_: dict[str, Any] = attribute()
    structure_path_: StructurePath = attribute()

    @distribute_method
    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_dev: object = None,
        y_dev: object = None,
        optimize: object = None,
        groups: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
    ) -> Self:
        """Search on a part of labelled items, then fit the field that is kept to all of them.

        Ctrl-C ends the search: the best structure so far is fitted, with a warning.

        Parameters
        ----------
        X : inputs
            The items, in a form that the estimator takes.
        y : labels
            Their labels, all of them known.
        sample_weight : array (n_items,) or None, default None
            One weight for each item, as in the estimator.
        X_dev : inputs or None, default None
            The inputs of a development set, which judges additions in place of held-out items, and stops the last fit.
        y_dev : labels or None, default None
            The labels of the development set.
        optimize : {"evidence"}, EvidenceSearch or None, default None
            Whether the last fit chooses prior variances and kernel parameters by the evidence.
        groups : array (n_items,) or None, default None
            One value for each item, such as a person's name: groups are held out as a whole.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for the estimator.

        Returns
        -------
        Self
            The fitted search.

        Raises
        ------
        TypeError
            If the estimator is not one that is searched, or candidates have no list.
        ValueError
            If a parameter is out of range, labels are partly known, or there are too few items to hold some out.
        """
        original = self._check_estimator()
        form = get_answer_format(original)
        elsewhere = f"a StructureSearch needs {form.headings[0]}s of this process"
        advice = "learn on a part of the data, then name what was chosen"
        refuse_collections(X, y, error=ValueError(f"{elsewhere}: {advice}"))
        if lengths is not None:
            X, y = cut_by_lengths(form, X, y, lengths)
        field = _copy_estimator(original)
        candidates = next(kind for name, kind in KINDS.items() if name in field.get_params(deep=False))(self.candidates)
        # Sets of all kinds are fitted by threads.
        field.set_params(
            engine=resolve_open(field.engine, "threads"), **{candidates.parameter: candidates.start(field)}
        )
        keywords = {"optimize": optimize, "X_dev": X_dev, "y_dev": y_dev}
        given = {keyword: value for keyword, value in keywords.items() if value is not None}
        choice = StructureChoice(self, candidates, groups)
        fit_in_steps(field, X, y, sample_weight, [*requested_steps(given), choice], groups)
        field.engine = original.engine
        self.best_estimator_, self.structure_path_ = field, choice.path
        self.best_params_ = {candidates.parameter: getattr(field, candidates.parameter)}
        if choice.path.reason == INTERRUPTED:
            n_kept = len(choice.path.added)
            warn_user(f"{INTERRUPTED}; the field with {n_kept} additions was kept", ConvergenceWarning)
        return self

    def _check_estimator(self) -> Searched:
        """Return the checked estimator of the search."""
        check_declared(self)
        if not isinstance(self.estimator, Searched):
            raise TypeError(
                f"estimator must be a ChainCRF, RingCRF or MultiLabelCRF, got {self.estimator!r:.80}. A pipeline may "
                "have a StructureSearch as its last step; clique sets of graphs are named by cliques= of GraphCRF"
            )
        check_parameters(self.estimator)
        return self.estimator

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the best estimator to a file for its own ``load``, without the search.

        Parameters
        ----------
        path : path
            The file; an old one is replaced.
        """
        self.get_fitted().save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, callables: Functions | None = None) -> Self:
        """Read a best estimator that :meth:`save` wrote, without candidates and path.

        Parameters
        ----------
        path : path
            The file.
        callables : dict, optional
            Functions by their names, for kernels and other parts of the model that are not data.

        Returns
        -------
        StructureSearch
            A search around the estimator.

        Raises
        ------
        ValueError
            If the file is no model, or one of another class.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import MultiLabelCRF
        >>> from kernelfields.selection import StructureSearch
        >>> Y = np.array([[0, 0], [1, 1]] * 10)
        >>> search = StructureSearch(MultiLabelCRF("linear", prior_variance=1.0, random_state=0))
        >>> search.fit(np.ones((20, 1)), Y).save("pairs.kfm")
        >>> StructureSearch.load("pairs.kfm").label_edges_
        [(0, 1)]
        """
        search = cls()
        search.best_estimator_ = load_any(_SEARCHED, path, callables)
        return search

    def __sklearn_tags__(self) -> Tags:
        return super().__sklearn_tags__() if self.estimator is None else get_tags(self.estimator)


class StructureChoice(FitStep):
    """The step of a fit that chooses the structure of its field before data are placed."""

    #: The steps of the search, once it has ended.
    path: StructurePath

    def __init__(self, search: StructureSearch, candidates: Candidates, groups: ArrayLike | None):
        self._search, self._candidates = search, candidates
        self._groups = None if groups is None else np.asarray(groups)

    def prepare(self, estimator: Any, reader: Any, data: Any) -> Any:
        """Store the groups of the weighted items; ValueError for partly known labels.

        Bounds of candidates need a convex objective.
        """
        data.given.check_complete(
            "a search for structure needs labels that are all known: learn on data of which they are, then name what "
            "was chosen"
        )
        if self._groups is not None:
            data.check_groups(self._groups, get_answer_format(estimator).headings[0])
            self._groups = self._groups[data.weights > 0]
        return data

    def before(self, estimator: Any, problem: FitState) -> None:
        """Search, and set the parameter of the estimator for clique sets or edges."""
        search, options = self._search, replace(problem.run.options, watch=None)
        data, held_out = problem.data, problem.run.held_out
        if held_out is None and search.validation > 0:
            noun = get_answer_format(estimator).headings[0]
            data, held_out = map(data.subset, self._split(len(data.weights), options.random, noun))
        placed = self._candidates.place(problem, data)
        workers, spec = problem.run.settings.workers, placed.sample.spec
        self.path, _, _ = learn_structure(
            placed.base,
            placed.others,
            placed.sample,
            options,
            max_additions=search.max_additions,
            threshold=search.threshold,
            score=None if held_out is None else partial(log_likelihood, held_out, spec, workers),
            fits=placed.fits,
            announce=options.report,
        )
        for each in (estimator, problem.estimator):
            setattr(each, self._candidates.parameter, self._candidates.value(self.path.added))
        problem.spec = problem.estimator.structure.family(problem.classes, problem.data)

    def _split(self, count: int, random: np.random.Generator, noun: str) -> tuple[np.ndarray, np.ndarray]:
        """Draw the numbers of fitted and of held-out items; groups stay together."""
        share = self._search.validation
        groups = np.arange(count) if self._groups is None else self._groups
        _, places, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        order = random.permutation(len(sizes))
        wanted = round(share * count)
        n_held = 0 if wanted == 0 else 1 + int(np.searchsorted(np.cumsum(sizes[order]), wanted))
        if not 0 < n_held < len(sizes):
            what = f"{noun}s" if self._groups is None else "groups"
            raise ValueError(
                f"{len(sizes)} {what} cannot be split to hold out a share of {share:g}: pass more of them, or "
                "StructureSearch(validation=0)"
            )
        held = np.isin(places, order[:n_held])
        return np.flatnonzero(~held), np.flatnonzero(held)


def _copy_estimator(original: Searched) -> Searched:
    """Clone an estimator, but share its callbacks, which may hold an open file."""
    without = type(original)(**{**original.get_params(deep=False), "callbacks": None})
    return clone(without).set_params(callbacks=original.callbacks)
