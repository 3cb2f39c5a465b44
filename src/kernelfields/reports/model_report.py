"""The report of a model: one page with what it is, how well it does, and what it has learnt.

    report_page("Chunks", model=crf.summary(), evaluation=evaluation, weights=crf.weights(top=10),
                sequences=[crf.show(x, y) for x, y in zip(X[:8], y[:8])])

Every part is optional and plain data; sections appear for what is given. The page is one HTML file without scripts
that loads nothing, follows light and dark screens, and can be printed. All names are escaped. Cost: that of
writing down what is in the parts. Fails: ValueError naming the part that cannot be shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelfields.reports.convergence import convergence_plot
from kernelfields.reports.evaluation_tables import (
    figure_table,
    figure_words,
    read_evaluation,
    score_tables,
    size_words,
)
from kernelfields.reports.labelled_sequences import LabelledSequence
from kernelfields.reports.markup import Markup, element, join
from kernelfields.reports.model_summary import CERTIFICATE_COLUMNS, SET_COLUMNS, ModelSummary
from kernelfields.reports.page import page, section, table
from kernelfields.reports.reliability import reliability_plot
from kernelfields.reports.weights import WeightsTable


def report_page(
    title: str,
    *,
    lead: str = "",
    model: ModelSummary | None = None,
    evaluation: Any = None,
    weights: WeightsTable | None = None,
    sequences: Sequence[LabelledSequence | Markup] = (),
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]] | None = None,
    pictures: Mapping[str, Markup] | None = None,
    footer: str = "",
) -> str:
    """Return the report as a whole HTML document. Write it as UTF-8.

    Parameters
    ----------
    title, lead : heading and first paragraph; without a lead, the page begins with the main figures
    model : what ``summary()`` of a fitted estimator returns
    evaluation : an Evaluation of ``kernelfields.evaluation``, or what its ``to_dict()`` returns
    weights : what ``weights()`` of a fitted estimator returns
    sequences : what ``show()`` of a fitted estimator returns, or strips of pictures (``sequence_strip``)
    tables : heading -> (columns, rows), such as the table of a search
    pictures : heading -> picture, such as a ``degree_plot``
    footer : last line, such as the command that made the page
    """
    results = None if evaluation is None else read_evaluation(evaluation)
    sections: list[Markup] = []
    if results is not None:
        sections += _evaluation_sections(results)
    if model is not None:
        sections += _model_sections(model)
    if weights is not None:
        sections.append(_weights_section(weights, model))
    if len(sequences):
        sections.append(_sequence_section(sequences))
    sections += [section(heading, picture) for heading, picture in (pictures or {}).items()]
    sections += [section(heading, table(*given)) for heading, given in (tables or {}).items()]
    return page(title, lead or _main_figures(model, results), sections, footer or None)


def _main_figures(model: ModelSummary | None, results: Mapping[str, Any] | None) -> str:
    parts = []
    if model is not None:
        parts.append(f"{model.heading}.")
    if results is not None:
        accuracy = figure_words(results["accuracy"], ".3f")
        parts.append(f"Token accuracy {accuracy} on {results['n_sequences']:,} sequences.")
    if model is not None and model.certificates:
        first = model.certificates[0]
        parts.append(f"Relative gap of the fit {'' if first.exact else 'at most '}{first.relative_gap:.2g}.")
    return " ".join(parts)


def _evaluation_sections(results: Mapping[str, Any]) -> Iterator[Markup]:
    captioned = [part for caption, scores in score_tables(results) for part in (element("h3", caption), scores)]
    yield section("How well does it do?", size_words(results), figure_table(results), *captioned)
    if results.get("calibration") is not None:
        yield section(
            "Can its probabilities be trusted?",
            "Each mark stands for positions whose most probable label had about the same probability. On the "
            "dotted line the share of right labels is what the probability says; below it the model is too sure "
            "of itself. The bars say how many positions there are; hover for the figures.",
            reliability_plot(results["calibration"]),
        )


def _model_sections(model: ModelSummary) -> Iterator[Markup]:
    facts = {
        "labels": join([f"{len(model.labels):,}: ", model.label_markup()]),
        "input features": f"{model.n_features:,}",
        "weights": f"{model.n_weights:,}",
    }
    parts = [_facts(facts), table(SET_COLUMNS, [each.cells() for each in model.sets], words=(1, 2))]
    if model.parameters:
        parts.append(element("h3", "Parameters that are not the default"))
        parts.append(table(("parameter", "value"), list(model.parameters.items()), words=(1,)))
    yield section("The model", *parts)
    yield _fit_section(model)
    picture = model.transition_picture()
    if picture is not None:
        yield section(
            "Which label follows which?",
            "Transition scores, from row to column; hover for the figures. A step with a score of +1 is 2.7 "
            "times as probable as one with a score of 0, all else being equal. × marks steps that are "
            "forbidden; scores below 0.005 in size are left blank.",
            element("div", picture, class_="wide"),
        )


def _fit_section(model: ModelSummary) -> Markup:
    parts: list[object] = [f"The fit: {model.fit_words}."]
    if model.certificates:
        parts.append(
            "The minimum of the negative log-posterior lies between the lower bound and the value; nothing among "
            "the functions named in the first column is better than this fit by more than the gap."
        )
        parts.append(table(CERTIFICATE_COLUMNS, model.certificate_rows()))
    if any(math.isfinite(each.value) for each in model.solution.history):
        parts.append(convergence_plot(model.solution, model.tol))
    return section("How good is the fit?", *parts)


def _weights_section(weights: WeightsTable, model: ModelSummary | None) -> Markup:
    drawn = model is not None and model.transitions is not None
    shown = WeightsTable(weights.labels, weights.sets, scores=weights.scores) if drawn else weights
    return section("What speaks for which label?", Markup(shown._repr_html_()))


def _sequence_section(sequences: Sequence[LabelledSequence | Markup]) -> Markup:
    strips = [each.strip() if isinstance(each, LabelledSequence) else each for each in sequences]
    if wrong := [index for index, each in enumerate(strips) if not isinstance(each, Markup)]:
        kind = type(strips[wrong[0]]).__name__
        raise ValueError(f"entry {wrong[0]} of sequences is a {kind}: pass what show() returns, or a strip of pictures")
    return section(
        "Sequences",
        "Each word has the colour of its label, stronger where the model is surer; the bar below is the marginal "
        "probability of the label. Hover for the probabilities of the other labels. A wrong label has a cross, a "
        "frame and the true label below it.",
        *strips,
    )


def _facts(facts: Mapping[str, object]) -> Markup:
    pairs = [part for name, value in facts.items() for part in (element("dt", name), element("dd", value))]
    return element("dl", *pairs, class_="facts")
