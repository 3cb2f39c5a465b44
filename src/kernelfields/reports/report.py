"""Report of a model: one page with its size, its evaluation and its weights.

    report_page("Chunks", model=crf.summary(), evaluation=evaluation, weights=crf.weights(top=10),
                sequences=[crf.show(x, y) for x, y in zip(X[:8], y[:8])])

Every part is optional and plain data; sections appear for the parts that are passed. The page is one HTML file without
scripts that loads nothing, follows light and dark screens, and can be printed; its text is in
``templates/report.html``. All names are escaped. Cost: that of writing the parts.
Raises ValueError naming the part that cannot be shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from kernelfields.reports.curves import plot_convergence, plot_reliability
from kernelfields.reports.figures import Picture
from kernelfields.reports.inspection import ModelSummary, WeightsTable
from kernelfields.reports.markup import SCHEMES, Markup, render
from kernelfields.reports.page import Part, render_part, section
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.reports.tables import Table


@runtime_checkable
class EvaluationDisplay(Protocol):
    """The attributes of an Evaluation that a page displays."""

    @property
    def calibration(self) -> object:
        """The calibration for ``plot_reliability``, or None without probabilities."""

    @property
    def lead(self) -> str:
        """A sentence about the main figure."""

    @property
    def size(self) -> str:
        """The size of the data as text."""

    def tables(self) -> Mapping[str, Table]:
        """Return the tables by caption, the first without a heading."""

    def confusion_picture(self) -> Picture | None:
        """Return a heat map of confusions, or None."""


def report_page(
    title: str,
    *,
    lead: str = "",
    model: ModelSummary | None = None,
    evaluation: EvaluationDisplay | None = None,
    weights: WeightsTable | None = None,
    sequences: Sequence[LabelledSequence | Markup] = (),
    sections: Mapping[str, Part] | None = None,
    footer: str = "",
) -> str:
    """Return a report as a complete HTML document, to be written as UTF-8.

    Parameters
    ----------
    title : str
        The heading.
    lead : str, default ""
        The first paragraph; without one, the page begins with the main figures.
    model : ModelSummary, optional
        What ``summary()`` of a fitted estimator returns.
    evaluation : Evaluation, optional
        What ``kernelfields.evaluate`` returns.
    weights : WeightsTable, optional
        What ``weights()`` of a fitted estimator returns.
    sequences : list of LabelledSequence or Markup, default ()
        What ``show()`` of a fitted estimator returns, or strips of pictures.
    sections : dict, optional
        By heading a Table, such as that of a search, what a ``plot_...`` function returns, or Markup.
    footer : str, default ""
        The last line, such as the command that made the page.

    Returns
    -------
    str
        The document.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> from kernelfields.reports import report_page
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, window=1).fit(X, y)
    >>> page = report_page("Weather", model=crf.summary())
    >>> "Weather" in page
    True
    """
    if evaluation is not None and not isinstance(evaluation, EvaluationDisplay):
        raise ValueError(f"evaluation must be what kernelfields.evaluate returns, got {evaluation!r:.60}")
    drawn = model is not None and model.transitions is not None
    history = [] if model is None else model.solution.history
    fitted = any(math.isfinite(iteration.value) for iteration in history)
    words = [not isinstance(sequence, LabelledSequence) or sequence.tokens is not None for sequence in sequences]
    page = render(
        "report.html",
        title=title,
        lead=lead or _main_figures(model, evaluation),
        footer=footer,
        evaluation=evaluation,
        reliability=plot_reliability(evaluation.calibration) if evaluation and evaluation.calibration else None,
        model=model,
        convergence=plot_convergence(model.solution) if model is not None and fitted else None,
        transitions=None if model is None else model.transition_picture(),
        # The map of the model shows the transitions already.
        weights=replace(weights, transitions=None, forbidden=None) if weights is not None and drawn else weights,
        sequences=[_sequence_markup(sequence, index) for index, sequence in enumerate(sequences)],
        words=any(words),
        bands=not all(words),
        sections=[section(heading, part) for heading, part in (sections or {}).items()],
        **SCHEMES,
    )
    return str(page)


def _main_figures(model: ModelSummary | None, evaluation: EvaluationDisplay | None) -> str:
    parts = []
    if model is not None:
        parts.append(f"{model.heading}.")
    if evaluation is not None:
        parts.append(evaluation.lead)
    if model is not None and model.certificates:
        first = model.certificates[0]
        parts.append(f"Relative gap of the fit {'' if first.exact else 'at most '}{first.relative_gap:.2g}.")
    return " ".join(parts)


def _sequence_markup(sequence: LabelledSequence | Markup, index: int) -> Markup:
    if not isinstance(sequence, LabelledSequence | Markup):
        raise ValueError(
            f"entry {index} of sequences is a {type(sequence).__name__}: pass what show() returns, or a strip of "
            "pictures"
        )
    return render_part(sequence)
