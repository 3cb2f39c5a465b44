"""Report of a model: one page with what it is, how well it does, and what it has learnt.

    report_page("Chunks", model=crf.summary(), evaluation=evaluation, weights=crf.weights(top=10),
                sequences=[crf.show(x, y) for x, y in zip(X[:8], y[:8])])

Every part is optional and plain data; sections appear for what is given. The page is one HTML file without scripts
that loads nothing, follows light and dark screens, and can be printed. All names are escaped. Cost: that of
writing down what is in the parts. Fails: ValueError naming the part that cannot be shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kernelfields.reports.curves import (
    NO_INTERVAL,
    NO_INTERVALS,
    figure_words,
    interval_words,
    lacks_intervals,
    plot_convergence,
    plot_reliability,
)
from kernelfields.reports.inspection import ModelSummary, WeightsTable
from kernelfields.reports.page import page, section
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.reports.tables import Markup, Table, element, join

_SCORES = ("precision", "recall", "f1")
_NEEDED = ("n_sequences", "n_tokens", "accuracy", "sequence_accuracy", "labels", "averages")

_WORDS = (
    "Each word has the colour of its label, stronger where the model is surer; the bar below is the marginal "
    "probability of the label. Hover for the probabilities of the other labels. A wrong label has a cross, a frame and "
    "the true label below it."
)
_BANDS = (
    "Bands have the colours of the labels along the sequence, true ones above predicted ones where they are known, "
    "with marks between them where they differ. The marginal probabilities of the labels are stacked below; hover for "
    "the figures."
)


def report_page(
    title: str,
    *,
    lead: str = "",
    model: ModelSummary | None = None,
    evaluation: Any = None,
    weights: WeightsTable | None = None,
    sequences: Sequence[LabelledSequence | Markup] = (),
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]] | None = None,
    pictures: Mapping[str, Any] | None = None,
    footer: str = "",
) -> str:
    """Return the report as a whole HTML document. Write it as UTF-8.

    Parameters
    ----------
    title, lead : heading and first paragraph; without a lead, the page begins with the main figures
    model : what ``summary()`` of a fitted estimator returns
    evaluation : an Evaluation of ``kernelfields.evaluation``, or what its ``to_dict()`` returns
    weights : what ``weights()`` of a fitted estimator returns
    sequences : what ``show()`` of a fitted estimator returns, or strips of pictures as Markup
    tables : heading -> (columns, rows), such as the table of a search
    pictures : heading -> what a ``plot_...`` of this package returns, or Markup
    footer : last line, such as the command that made the page
    """
    results = None if evaluation is None else read_evaluation(evaluation)
    sections: list[Markup] = []
    if results is not None:
        sections += _evaluation_sections(results)
    if model is not None:
        sections += _model_sections(model)
    if weights is not None:
        drawn = model is not None and model.transitions is not None
        shown = WeightsTable(weights.labels, weights.sets, scores=weights.scores) if drawn else weights
        sections.append(section("What speaks for which label?", shown))
    if len(sequences):
        sections.append(_sequence_section(sequences))
    sections += [section(heading, picture) for heading, picture in (pictures or {}).items()]
    sections += [section(heading, Table(*given)) for heading, given in (tables or {}).items()]
    return page(title, lead or _main_figures(model, results), sections, footer or None)


def _main_figures(model: ModelSummary | None, results: Mapping[str, Any] | None) -> str:
    parts = []
    if model is not None:
        parts.append(f"{model.heading}.")
    if results is not None:
        name, figure = _headline(results)
        parts.append(
            f"{name[0].upper()}{name[1:]} {figure_words(figure, '.3f')} on {results['n_sequences']:,} sequences."
        )
    if model is not None and model.certificates:
        first = model.certificates[0]
        parts.append(f"Relative gap of the fit {'' if first.exact else 'at most '}{first.relative_gap:.2g}.")
    return " ".join(parts)


def _evaluation_sections(results: Mapping[str, Any]) -> Iterator[Markup]:
    (_, figures), *tables = evaluation_tables(results)
    captioned = [part for caption, table in tables for part in (element("h3", caption), table)]
    yield section("How well does it do?", _size_words(results), figures, *captioned)
    if results.get("calibration") is not None:
        yield section(
            "Can its probabilities be trusted?",
            "Each mark stands for positions whose most probable label had about the same probability. On the "
            "dotted line the share of right labels is what the probability says; below it the model is too sure "
            "of itself. The bars say how many positions there are; hover for the figures.",
            plot_reliability(results["calibration"]),
        )


def _model_sections(model: ModelSummary) -> Iterator[Markup]:
    facts = {
        "labels": join([f"{len(model.labels):,}: ", model.label_markup()]),
        "input features": f"{model.n_features:,}",
        "weights": f"{model.n_weights:,}",
    }
    pairs = [part for name, value in facts.items() for part in (element("dt", name), element("dd", value))]
    parts: list[object] = [element("dl", *pairs, class_="facts"), model.set_table()]
    if model.parameters:
        parts.append(element("h3", "Parameters that are not the default"))
        parts.append(model.parameter_table())
    yield section("The model", *parts)
    yield _fit_section(model)
    picture = model.transition_picture()
    if picture is not None:
        yield section(
            "Which label follows which?",
            "Transition scores, from row to column; hover for the figures. A step with a score of +1 is 2.7 "
            "times as probable as one with a score of 0, all else being equal. × marks steps that are "
            "forbidden; scores below 0.005 in size are left blank.",
            picture,
        )


def _fit_section(model: ModelSummary) -> Markup:
    parts: list[object] = [f"The fit: {model.fit_words}."]
    if model.certificates:
        parts.append(
            "The minimum of the negative log-posterior lies between the lower bound and the value; nothing among "
            "the functions named in the first column is better than this fit by more than the gap."
        )
        parts += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in model.sentences]
        parts.append(model.certificate_table())
    if any(math.isfinite(each.value) for each in model.solution.history):
        parts.append(plot_convergence(model.solution, tol=model.tol))
    return section("How good is the fit?", *parts)


def _sequence_section(sequences: Sequence[LabelledSequence | Markup]) -> Markup:
    for index, each in enumerate(sequences):
        if not isinstance(each, LabelledSequence | Markup):
            raise ValueError(
                f"entry {index} of sequences is a {type(each).__name__}: pass what show() returns, or a strip of "
                "pictures"
            )
    worded = [not isinstance(each, LabelledSequence) or each.tokens is not None for each in sequences]
    words = [_WORDS] * any(worded) + [_BANDS] * (not all(worded))
    return section("Sequences", " ".join(words), *sequences)


def read_evaluation(given: Any) -> Mapping[str, Any]:
    """Return an evaluation as a dict, whose parts are there; None stands for minus infinity, as in JSON."""
    plain = given if isinstance(given, Mapping) else given.to_dict() if hasattr(given, "to_dict") else None
    if plain is None:
        raise ValueError(f"evaluation must be an Evaluation or what its to_dict() returns, got {given!r:.60}")
    if missing := [name for name in _NEEDED if name not in plain]:
        raise ValueError(f"evaluation has no {missing[0]!r}: pass an Evaluation or what its to_dict() returns")
    return plain


def _size_words(evaluation: Mapping[str, Any]) -> str:
    """Return on what the evaluation rests, in a sentence."""
    size = f"{evaluation['n_sequences']:,} sequences, {evaluation['n_tokens']:,} tokens."
    if not evaluation.get("n_resamples"):
        return size
    if evaluation["n_sequences"] == 1:
        return f"{size} There are {NO_INTERVALS}."
    share, count = 100 * evaluation["confidence"], evaluation["n_resamples"]
    absent = f"; {NO_INTERVAL}" if lacks_intervals(evaluation) else ""
    return f"{size} In brackets: {share:g} % intervals {interval_words(count)}{absent}."


def _headline(evaluation: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name of the figure that says most, and the figure: entities where there are any, else labels."""
    entities = evaluation.get("entities")
    if entities is None:
        return "token accuracy", evaluation["accuracy"]
    return f"entity F1 ({entities['scheme']})", entities["averages"]["micro"]["f1"]


def evaluation_tables(evaluation: Mapping[str, Any]) -> list[tuple[str, Table]]:
    """Return captioned tables of an evaluation's ``to_dict()``: the main figures, then decodings, entities, labels."""
    entities, asked = evaluation.get("entities"), bool(evaluation.get("n_resamples"))
    tables = [("Figures", _figure_table(evaluation))]
    if evaluation.get("decodings") is not None:
        tables.append(("Decoded in other ways", _decoding_table(evaluation["decodings"], asked)))
    if entities is not None:
        title = f"entity ({entities['scheme']})"
        table = _precision_table(title, "type", entities["types"], entities["averages"], asked)
        tables.append((f"Entities in the scheme {entities['scheme']}", table))
    return [
        *tables,
        ("Labels", _precision_table("label", "label", evaluation["labels"], evaluation["averages"], asked)),
    ]


def _figure_table(evaluation: Mapping[str, Any]) -> Table:
    """Return accuracies, likelihoods and calibration, one figure in a row, the one that says most first."""
    words = partial(figure_words, resampled=bool(evaluation.get("n_resamples")))
    figures = dict([_headline(evaluation)])
    figures |= {"token accuracy": evaluation["accuracy"], "sequence accuracy": evaluation["sequence_accuracy"]}
    rows = [(name, words(figure)) for name, figure in figures.items()]
    likelihood, calibration = evaluation.get("log_likelihood"), evaluation.get("calibration")
    if likelihood is not None:
        rows += [
            (f"log-likelihood per {unit}", _likelihood_words(likelihood, f"per_{unit}", words))
            for unit in ("sequence", "token")
        ]
    if calibration is not None:
        rows.append(("expected calibration error", words(calibration["expected_error"])))
        rows.append(("Brier score", words(calibration["brier"])))
    return Table(("figure", "value"), rows)


def _decoding_table(decodings: Mapping[str, Mapping[str, Any]], resampled: bool) -> Table:
    """Return the main figures of each decoding in a row, and how many labels are not those evaluated above."""
    words = partial(figure_words, form=".3f", resampled=resampled)
    heads = {"entity_f1": "entity F1", "accuracy": "token accuracy", "sequence_accuracy": "sequence accuracy"}
    shown = [name for name in heads if any(each.get(name) is not None for each in decodings.values())]
    rows = [
        (
            name,
            *(words(each[figure]) for figure in shown),
            f"{each['n_changed']:,}" if each["n_changed"] else "as above",
        )
        for name, each in decodings.items()
    ]
    return Table(("decoding", *(heads[name] for name in shown), "other labels"), rows)


def _precision_table(
    title: str, key: str, rows: Sequence[Mapping[str, Any]], averages: Mapping[str, Any], resampled: bool
) -> Table:
    """Return precision, recall and F1 of what rows call by ``key``, and below them their averages."""

    def cells(name: object, scores: Mapping[str, Any]) -> tuple[object, ...]:
        figures = (figure_words(scores[part], ".3f", resampled=resampled) for part in _SCORES)
        return (name, *figures, f"{scores['support']:,}")

    means = [cells(f"{kind} average", row) for kind, row in averages.items()]
    return Table((title, "precision", "recall", "F1", "support"), [*(cells(row[key], row) for row in rows), (), *means])


def _likelihood_words(likelihood: Mapping[str, Any], unit: str, words: Callable[[Any], str]) -> str:
    if impossible := likelihood.get("n_impossible"):
        plural = "s have" if impossible > 1 else " has"
        return f"minus infinity: {impossible:,} sequence{plural} probability zero"
    return words(likelihood[unit])
