"""Tables of suspicious labels, and of items to label next."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelfields.numerics.wording import inflect
from kernelfields.reports.page import Shown
from kernelfields.reports.tables import PlainValues, Table, json_value


@dataclass(frozen=True)
class LabelError:
    """A suspicious place: labels from ``position`` to before ``end``, given and proposed.

    Parameters
    ----------
    sequence : int
        The number of the item, whatever it is.
    position : int or str
        The first position or node; the name of one of several labels, or "" for single labels.
    end : int or None
        The position after the last; None for one of several labels and for single labels.
    kind : str
        "position", "boundary", "entity" or "segment", or the whole sequence.
    token : object
        What is shown for the position, such as its word.
    given : tuple
        The labels that are given.
    proposed : tuple
        The labels that would fit.
    score : float
        The score in nats for each label that is changed.

    Examples
    --------
    >>> from kernelfields import ChainCRF, find_label_errors
    >>> words = [["Ann", "saw", "Bob"], ["Bob", "met", "Ann"], ["Tim", "saw", "Ann"], ["Ann", "met", "Tim"]]
    >>> X = [[{"word": word, "capital": word.istitle()} for word in sentence] for sentence in words]
    >>> y = [["NAME", "VERB", "NAME"], ["NAME", "VERB", "NAME"], ["NAME", "VERB", "VERB"], ["NAME", "VERB", "NAME"]]
    >>> errors = find_label_errors(ChainCRF("linear", prior_variance=1.0), X, y, cv=2, tokens=words)
    >>> error = errors.rows[0]
    >>> error.position, error.token, error.given, error.proposed
    (2, 'Ann', ('VERB',), ('NAME',))
    """

    sequence: int
    position: Any
    end: int | None
    kind: str
    token: object
    given: tuple[object, ...]
    proposed: tuple[object, ...]
    score: float


@dataclass(frozen=True, eq=False)
class LabelErrors(Shown):
    """Suspicious labels in descending order of their scores.

    Print it, show it in a notebook, or take ``rows``.

    Parameters
    ----------
    rows : tuple of LabelError
        Findings of a positive score, ``top`` or all.
    position_scores : list of arrays (T,)
        For each item the nats in favour of another label, NaN if none is given.
    item_scores : array (n,)
        The largest score of each item, minus infinity for items without labels.
    n_findings : int
        The number of findings.
    n_known : int
        The number of labels that were checked.
    n_unknown : int
        The number of labels that were not given.
    nouns : (str, str), default ("sequence", "position")
        The names of an item and a position.

    Examples
    --------
    >>> from kernelfields import ChainCRF, find_label_errors
    >>> words = [["Ann", "saw", "Bob"], ["Bob", "met", "Ann"], ["Tim", "saw", "Ann"], ["Ann", "met", "Tim"]]
    >>> X = [[{"word": word, "capital": word.istitle()} for word in sentence] for sentence in words]
    >>> y = [["NAME", "VERB", "NAME"], ["NAME", "VERB", "NAME"], ["NAME", "VERB", "VERB"], ["NAME", "VERB", "NAME"]]
    >>> errors = find_label_errors(ChainCRF("linear", prior_variance=1.0), X, y, cv=2, tokens=words)
    >>> len(errors), errors.n_known
    (1, 12)
    """

    rows: tuple[LabelError, ...]
    position_scores: list[np.ndarray]
    item_scores: np.ndarray
    n_findings: int
    n_known: int
    n_unknown: int
    nouns: tuple[str, str] = ("sequence", "position")

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def heading(self) -> str:
        """The numbers of findings and labels in one line."""
        unknown = f", {self.n_unknown:,} not given" if self.n_unknown else ""
        return f"{inflect(self.n_findings, 'finding')} in {inflect(self.n_known, 'label')}{unknown}"

    def parts(self) -> Iterator[str | Table]:
        """Yield the table, without empty columns of tokens and positions.

        Yields
        ------
        Table
            What is printed.
        """
        whole, part = self.nouns
        names = [whole, part, "kind", "token", "given", "proposed", "score"]
        rows = []
        for row in self.rows:
            several = row.end is not None and row.end - row.position > 1
            place = f"{row.position}-{row.end - 1}" if several and row.end is not None else row.position
            words = [" ".join(map(str, labels)) for labels in (row.given, row.proposed)]
            score = row.score if row.score < sys.float_info.max else math.inf
            rows.append([row.sequence, place, row.kind, row.token, *words, score])
        yield Table(names, rows, self.heading, range(1, 6), {"score": ".2f"}, longest=40, optional=(part, "token"))

    def to_rows(self) -> list[PlainValues]:
        """Return one dict per finding, for ``csv.DictWriter`` or ``pandas.DataFrame``.

        Returns
        -------
        list of dict
            The nouns for a sequence and a position, end, kind, token, given, proposed and score.
        """
        whole, part = self.nouns
        names = (whole, part or "position", "end", "kind", "token", "given", "proposed", "score")
        return [dict(zip(names, vars(row).values(), strict=True)) for row in self.rows]

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON.

        Returns
        -------
        dict
            Numbers, findings and scores of items.
        """
        counts = {name: getattr(self, name) for name in ("n_findings", "n_known", "n_unknown")}
        return {**counts, "findings": json_value(self.to_rows()), "item_scores": json_value(self.item_scores)}


@dataclass(frozen=True, eq=False, kw_only=True)
class LabellingOrder(Table):
    """An order in which to label items or positions.

    Parameters
    ----------
    columns : list
        The heads.
    rows : list of tuple
        The item, its place, its token and its score, for each row.
    caption : str, default ""
        The caption.
    words : collection of int, default (0,)
        Which columns hold words, aligned left; the others hold numbers.
    formats : dict, optional
        Format specifications such as ".3f" by head.
    note : str, default ""
        A line below the table.
    gap : int, default 3
        The number of characters between columns of text.
    least : int, default 0
        The least number of characters of a number.
    longest : int, optional
        The most characters of a word.
    width : int, optional
        The most characters of a line; columns beyond it form further bands.
    optional : collection of str, default ()
        Heads of columns that are not shown if all their cells are empty.
    order : list
        The items in their order; if positions are ranked, pairs of an item and a position.
    scores : array (n,) or list of arrays (T,)
        The scores of all items, or of their positions.
    spread : bool, default False
        Whether a batch was spread by the kernel.

    Examples
    --------
    >>> from kernelfields import ChainCRF, rank_for_labelling
    >>> X = [[{"word": "Ann"}, {"word": "sings"}], [{"word": "Bob"}, {"word": "sings"}]]
    >>> crf = ChainCRF("linear", prior_variance=1.0).fit(X, [["NAME", "VERB"], ["NAME", "VERB"]])
    >>> ranked = rank_for_labelling(crf, [[{"word": "Ann"}], [{"word": "Eve"}]])
    >>> ranked.order
    [1, 0]
    """

    order: list
    scores: np.ndarray | list[np.ndarray]
    spread: bool = False

    def to_dict(self) -> PlainValues:
        """Return plain values for JSON.

        Returns
        -------
        dict
            The order, and whether it was spread.
        """
        return {"spread": self.spread, "order": json_value(self.to_rows())}
