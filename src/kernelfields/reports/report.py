"""Report of a model: one page with its size, its evaluation and its weights.

    report_page("Chunks", model=crf.summary(), evaluation=evaluation, weights=crf.weights(top=10),
                sequences=[crf.show(x, y) for x, y in zip(X[:8], y[:8])])

Every part is optional and plain data; sections appear for the parts that are passed. The page is one HTML file without
scripts that loads nothing, follows light and dark screens, and can be printed; its text is in
``templates/report.html``. All names are escaped. Cost: that of writing the parts.
Fails: ValueError naming the part that cannot be shown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from kernelfields.numerics.wording import counted
from kernelfields.reports.curves import ResultOrValues, plot_convergence, plot_reliability
from kernelfields.reports.figures import Picture
from kernelfields.reports.heat_maps import MOST_LABELS, plot_heat_map
from kernelfields.reports.inspection import ModelSummary, WeightsTable
from kernelfields.reports.markup import SCHEMES, Markup, render
from kernelfields.reports.page import Part, markup_of, section
from kernelfields.reports.sequences import LabelledSequence
from kernelfields.reports.tables import NO_ENDS, Estimate, PlainMapping, Result, Table, read_estimate

_NEEDED = ("n_sequences", "n_tokens", "accuracy", "sequence_accuracy", "labels", "averages")
_SCORES = {"precision": "precision", "recall": "recall", "f1": "F1", "support": "support"}
_FORMATS = {"precision": ".3f", "recall": ".3f", "F1": ".3f", "support": ","}
#: Labels that the fit never saw are named up to so many.
_MOST_UNSEEN = 5
#: Labels of which a matrix in text shows all confusions, and how many are listed of more labels.
_MATRIX_LABELS, _MOST_CONFUSIONS = 8, 10
#: Why intervals are missing: all of them, or some.
_NO_INTERVALS = "no intervals, as resamples of one {} are all alike"
_NO_INTERVAL = f", {NO_ENDS} where there is too little to count"
#: How intervals are computed, where they are not paired.
INTERVALS = "by Wilson's method for shares, else from {:,} resamples of {}s"


def report_page(
    title: str,
    *,
    lead: str = "",
    model: ModelSummary | None = None,
    evaluation: ResultOrValues | None = None,
    weights: WeightsTable | None = None,
    sequences: Sequence[LabelledSequence | Markup] = (),
    tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[object]]]] | None = None,
    pictures: Mapping[str, Part] | None = None,
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
    calibration = None if results is None else results.get("calibration")
    drawn = model is not None and model.transitions is not None
    history = [] if model is None else model.solution.history
    fitted = any(math.isfinite(iteration.value) for iteration in history)
    others = [section(heading, picture) for heading, picture in (pictures or {}).items()]
    others += [section(heading, Table(*table)) for heading, table in (tables or {}).items()]
    words = [not isinstance(sequence, LabelledSequence) or sequence.tokens is not None for sequence in sequences]
    page = render(
        "report.html",
        title=title,
        lead=lead or _main_figures(model, results),
        footer=footer,
        data="" if results is None else data_words(results),
        tables={} if results is None else evaluation_tables(results),
        confusions=None if results is None else _confusion_picture(results),
        reliability=None if calibration is None else plot_reliability(calibration),
        model=model,
        convergence=plot_convergence(model.solution, tol=model.tol) if model is not None and fitted else None,
        transitions=None if model is None else model.transition_picture(),
        # The map of the model shows the transitions already.
        weights=replace(weights, transitions=None, forbidden=None) if weights is not None and drawn else weights,
        sequences=[_sequence_markup(sequence, index) for index, sequence in enumerate(sequences)],
        words=any(words),
        bands=not all(words),
        sections=others,
        **SCHEMES,
    )
    return str(page)


def _main_figures(model: ModelSummary | None, results: PlainMapping | None) -> str:
    parts = []
    if model is not None:
        parts.append(f"{model.heading}.")
    if results is not None:
        name, figure = _headline(results)
        parts.append(
            f"{name[0].upper()}{name[1:]} {read_estimate(figure):.3f} on "
            f"{counted(results['n_sequences'], nouns_of(results)[0])}."
        )
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
    return markup_of(sequence)


# ---- evaluations, as plain values


def read_evaluation(evaluation: ResultOrValues) -> PlainMapping:
    """Return an evaluation as a dict with all its entries; None stands for minus infinity, as in JSON."""
    values = evaluation.to_dict() if isinstance(evaluation, Result) else evaluation
    if not isinstance(values, Mapping):
        raise ValueError(f"evaluation must be an Evaluation or what its to_dict() returns, got {evaluation!r:.60}")
    if missing := [name for name in _NEEDED if name not in values]:
        raise ValueError(f"evaluation has no {missing[0]!r}: pass an Evaluation or what its to_dict() returns")
    return values


def data_words(results: PlainMapping, intervals: str = INTERVALS) -> str:
    """Return the size of the data that an evaluation rests on, and how its intervals were computed."""
    (whole, part), n_resamples = nouns_of(results), results["n_resamples"]
    words = counted(results["n_sequences"], whole) + (f", {counted(results['n_tokens'], part)}" if part else "")
    if unseen := results.get("unseen"):
        named = ", ".join(f"{entry['label']!r} ({entry['count']:,})" for entry in unseen[:_MOST_UNSEEN])
        more = f" and {len(unseen) - _MOST_UNSEEN} more" if len(unseen) > _MOST_UNSEEN else ""
        words += f"; labels that the fit never saw, counted as errors: {named}{more}"
    if not n_resamples:
        return words
    if results["n_sequences"] == 1:
        return f"{words}; {_NO_INTERVALS.format(whole)}"
    made = f"{100 * results['confidence']:g} % intervals {intervals.format(n_resamples, whole)}"
    return f"{words}; {made}{_NO_INTERVAL if _lacks_intervals(results) else ''}"


def nouns_of(results: PlainMapping) -> tuple[str, str]:
    """Return what an evaluation calls an item and a position of it, the latter empty where items have one label."""
    whole, part = results.get("nouns") or ("sequence", "position")
    return whole, "label" if part == "label name" else part


def _lacks_intervals(values: object) -> bool:
    """Whether a figure among plain values has no interval, for whatever reason."""
    if isinstance(values, Mapping):
        if "value" in values and "low" in values:
            return values["value"] is not None and values["low"] is None
        return any(map(_lacks_intervals, values.values()))
    return isinstance(values, list) and any(map(_lacks_intervals, values))


def _headline(results: PlainMapping) -> tuple[str, object]:
    """Return the name of the main figure, and the figure: F1 of entities where there are any, else accuracy."""
    entities = results.get("entities")
    if entities is None:
        return "accuracy", results["accuracy"]
    return f"entity F1 ({entities['scheme']})", entities["averages"]["micro"]["f1"]


def evaluation_tables(results: PlainMapping) -> dict[str, Table]:
    """Return the tables of an evaluation's ``to_dict()`` by caption: figures, decodings, entities, labels."""
    resampled, entities, decodings = (results.get(name) for name in ("n_resamples", "entities", "decodings"))
    whole, _ = nouns_of(results)

    def read(figure: object) -> Estimate:
        return read_estimate(figure, resampled=bool(resampled))

    figures = {name: read(figure) for name, figure in _figures(results).items()}
    tables = {"Figures": Table(("figure", "value"), list(figures.items()), formats={"value": ".4f"})}
    if (likelihood := results.get("log_likelihood")) is not None and (count := likelihood.get("n_impossible")):
        words = f"minus infinity: {counted(count, whole)} {'have' if count > 1 else 'has'} probability zero"
        rows = [(name, words if name.startswith("log-likelihood") else figure) for name, figure in figures.items()]
        tables["Figures"] = replace(tables["Figures"], rows=rows)
    if decodings is not None:
        heads = {"entity_f1": "entity F1", "accuracy": "accuracy", "sequence_accuracy": f"{whole} accuracy"}
        shown = {
            name: head
            for name, head in heads.items()
            if any(scores.get(name) is not None for scores in decodings.values())
        }
        rows = [
            (name, *(read(scores[part]) for part in shown), scores["n_changed"] or "as above")
            for name, scores in decodings.items()
        ]
        formats = dict.fromkeys(shown.values(), ".3f") | {"other labels": ","}
        tables["Decoded in other ways"] = Table(("decoding", *shown.values(), "other labels"), rows, formats=formats)
    groups = [("Labels", "label", "label", results)]
    if entities is not None:
        scheme = entities["scheme"]
        groups.insert(0, (f"Entities in the scheme {scheme}", f"entity ({scheme})", "type", entities))
    for caption, head, key, scores in groups:
        named = [(entry[key], entry) for entry in scores[f"{key}s"]]
        averages = [(f"{kind} average", entry) for kind, entry in scores["averages"].items()]
        rows = [
            (name, *(entry[part] if part == "support" else read(entry[part]) for part in _SCORES)) if entry else ()
            for name, entry in [*named, ("", None), *averages]
        ]
        tables[caption] = Table((head, *_SCORES.values()), rows, formats=_FORMATS)
    return tables | _confusion_tables(results)


def _confusion_tables(results: PlainMapping) -> dict[str, Table]:
    """Return the confusion matrix of a few labels, or the most frequent confusions of many; none without errors."""
    labels, counts = [entry["label"] for entry in results["labels"]], _counts_of_pairs(results)
    wrong = sorted((-count, pair) for pair, count in counts.items() if pair[0] != pair[1])
    if not wrong:
        return {}
    if len(labels) <= _MATRIX_LABELS:
        numbers, formats = range(len(labels)), {str(label): "," for label in labels}
        lines = [(str(labels[row]), *(counts.get((row, column), 0) for column in numbers)) for row in numbers]
        head = ("true \\ predicted", *map(str, labels))
        return {"True labels and predicted ones": Table(head, lines, formats=formats)}
    support: Counter[int] = Counter()
    for (true, _), count in counts.items():
        support[true] += count
    rows = [
        (labels[true], labels[predicted], -count, -count / support[true])
        for count, (true, predicted) in wrong[:_MOST_CONFUSIONS]
    ]
    head = ("true", "predicted", "count", "share of the true label")
    formats = {"count": ",", "share of the true label": ".3f"}
    return {"Most frequent confusions": Table(head, rows, words=(0, 1), formats=formats)}


def _counts_of_pairs(results: PlainMapping) -> dict[tuple[int, int], int]:
    """Return how often labels, by their numbers, were predicted as others."""
    places = {entry["label"]: place for place, entry in enumerate(results["labels"])}
    pairs = results.get("confusions") or []
    return {(places[pair["true"]], places[pair["predicted"]]): pair["count"] for pair in pairs}


def _confusion_picture(results: PlainMapping) -> Picture | None:
    """Return the shares of predicted labels by true label as a heat map; None for too many labels, or no errors."""
    labels, counts = [entry["label"] for entry in results["labels"]], _counts_of_pairs(results)
    if all(true == predicted for true, predicted in counts) or len(labels) > MOST_LABELS:
        return None
    matrix = np.zeros((len(labels), len(labels)))
    for pair, count in counts.items():
        matrix[pair] = count
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    return plot_heat_map(shares, labels, labels, row_name="true", column_name="predicted", largest=1.0)


def _figures(results: PlainMapping) -> dict[str, object]:
    """Return accuracies, likelihoods and calibration by name, the main figure first."""
    (name, figure), (whole, part) = _headline(results), nouns_of(results)
    figures = {name: figure, "accuracy": results["accuracy"]}
    if part:  # an item of one label is right where its label is
        figures[f"{whole} accuracy"] = results["sequence_accuracy"]
    if (likelihood := results.get("log_likelihood")) is not None:
        units = {"sequence": whole} | ({"token": part} if part else {})
        figures |= {f"log-likelihood per {noun}": likelihood[f"per_{unit}"] for unit, noun in units.items()}
    if (calibration := results.get("calibration")) is not None:
        figures |= {"expected calibration error": calibration["expected_error"], "Brier score": calibration["brier"]}
    return figures
