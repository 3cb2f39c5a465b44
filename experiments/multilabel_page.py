"""The page of the multi-label sets, docs/results/multilabel.md, made from the JSON alone."""

from __future__ import annotations

import numpy as np

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.pictures import named_plot
from experiments.result_pages import ResultPage
from kernelfields.evaluation import Estimate
from kernelfields.evaluation.resampling import Resampling

RESULTS = "multilabel.json"
SETS = ("scene", "yeast", "emotions")
MODELS = {
    "none": "independent field",
    "tree": "tree of labels",
    "full": "all pairs of labels",
    "learn": "learnt pairs of labels",
    "one-vs-rest": "one-vs-rest (scikit-learn)",
    "chain": "classifier chain (scikit-learn)",
}
#: figure -> (title, sign of what is better)
FIGURES = {
    "log_likelihood": ("log-likelihood of an instance", 1),
    "subset_accuracy": ("subset accuracy", 1),
    "hamming_loss": ("Hamming loss", -1),
}
RESAMPLES = 2000


def outcomes(row: dict) -> dict[str, np.ndarray]:
    """Return what came out for each test instance."""
    return {
        "log_likelihood": np.array(row["log_likelihoods"].split(), dtype=float),
        "subset_accuracy": np.array(list(row["right"]), dtype=float),
        "hamming_loss": np.array(row["wrong_labels"].split(), dtype=float) / row["sizes"][3],
    }


def resampled(values: np.ndarray) -> Estimate:
    """Return a mean over instances with a 95 % interval from resampling them."""
    resampling = Resampling(RESAMPLES, 0.95, random_state=0)
    return resampling.estimate(resampling.sums({"values": values})["values"] / len(values), len(values))


def differences(rows: dict[str, dict], first: str, second: str) -> dict[str, Estimate]:
    """Return second minus first in each figure."""
    one, two = outcomes(rows[first]), outcomes(rows[second])
    return {figure: resampled(two[figure] - one[figure]) for figure in FIGURES}


def show(figure: str, estimate: Estimate, *, signed: bool = False) -> str:
    """Return a figure with its interval; shares in per cent."""
    scale, form = (1, ".3f") if figure == "log_likelihood" else (100, ".1f")
    form = f"+{form}" if signed else form
    value, low, high = (f"{scale * part:{form}}" for part in (estimate.value, estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def page() -> None:
    """Write docs/results/multilabel.md from the JSON."""
    found = {(row["set"], row["model"]): row for row in read_results(RESULTS, EXPERIMENTS)}
    by_set = {
        name: {model: found[name, model] for model in MODELS if (name, model) in found}
        for name in SETS
        if (name, "none") in found
    }
    sheet = ResultPage(
        "multilabel",
        "Several labels at once: scene, yeast, emotions",
        command="kernelfields reproduce multilabel",
        seconds=sum(row["seconds"] for row in found.values()),
    )
    sheet.text(
        "Three multi-label sets with their standard splits. All models see the same features, up to 500 whitened "
        "coordinates of one RBF kernel on inputs standardised on the training part; its scale is chosen for the "
        "independent field by 3-fold cross-validation of the log-likelihood on the training part, with its prior "
        "variance. The others choose a third of that variance, itself or three times it in the same way; for "
        "scikit-learn's `OneVsRestClassifier` and `ClassifierChain` (in the order of the labels) it is C of the "
        "logistic regressions they are made of. Learnt pairs take over the variance chosen for all pairs; which "
        "pairs they are, a fifth of the training part decides. Pairs have the default prior variance of 10. "
        "One-vs-rest and the independent field are the same model but for the intercepts, which have a prior in "
        "the field."
    )
    for name, rows in by_set.items():
        _set_section(sheet, name, rows)
    _conclusions(sheet, by_set)
    _pictures(sheet, by_set)
    _choices(sheet, by_set)
    sheet.write()


def _set_section(sheet: ResultPage, name: str, rows: dict[str, dict]) -> None:
    train, test, features, labels = rows["none"]["sizes"]
    sheet.heading(name)
    sheet.text(f"{train:,} instances to learn from, {test:,} to test, {features} features, {labels} labels.")
    sheet.table(
        [
            "model",
            "log-likelihood of an instance",
            "subset accuracy, %",
            "Hamming loss, %",
            "edges",
            "a fit, seconds",
        ],
        [
            [
                MODELS[model],
                *(show(figure, resampled(values)) for figure, values in outcomes(row).items()),
                len(row["edges"]) or "",
                f"{row['fit_seconds']:.1f}",
            ]
            for model, row in rows.items()
        ],
    )
    pairs = [
        (first, second)
        for first in ("none", "one-vs-rest", "chain")
        for second in ("tree", "full", "learn")
        if first in rows and second in rows
    ]
    sheet.text("Differences between models on the same test instances:")
    sheet.table(
        ["", "log-likelihood", "subset accuracy, points", "Hamming loss, points"],
        [
            [
                f"{MODELS[second]} minus {MODELS[first]}",
                *(show(f, each, signed=True) for f, each in differences(rows, first, second).items()),
            ]
            for first, second in pairs
        ],
    )
    strongest = sorted(rows["full"]["edges"], key=lambda edge: -abs(edge[2]))[:5] if "full" in rows else []
    if strongest:
        words = ", ".join(f"{_plain(a)} and {_plain(b)} {w:+.1f}" for a, b, w in strongest)
        sheet.text(f"The strongest pairs, by their log odds ratio given inputs and all other labels: {words}.")


def _plain(label: str) -> str:
    return label.replace("_", " ")


def _conclusions(sheet: ResultPage, by_set: dict[str, dict[str, dict]]) -> None:
    sheet.heading("What comes of it")
    for model in ("tree", "full", "learn"):
        compared = {name: differences(rows, "none", model) for name, rows in by_set.items() if model in rows}
        if not compared:
            continue
        parts = []
        for figure, (title, sign) in FIGURES.items():
            better = [n for n, each in compared.items() if _ends(each[figure], sign)[0] > 0]
            worse = [n for n, each in compared.items() if _ends(each[figure], sign)[1] < 0]
            open_ = [n for n in compared if n not in better and n not in worse]
            said = [
                f"{word} on {', '.join(names)}"
                for word, names in (("better", better), ("worse", worse), ("within chance", open_))
                if names
            ]
            parts.append(f"{title}: {'; '.join(said)}")
        sheet.text(
            f"**{MODELS[model].capitalize()}** against the independent field (better or worse where the whole "
            f"95 % interval of the difference is): {'. '.join(part[0].upper() + part[1:] for part in parts)}."
        )
    against = {name: rows for name, rows in by_set.items() if {"full", "chain", "one-vs-rest"} <= set(rows)}
    for peer in ("one-vs-rest", "chain"):
        words = [
            f"{name} {show('log_likelihood', differences(rows, peer, 'full')['log_likelihood'], signed=True)}"
            for name, rows in against.items()
        ]
        if words:
            sheet.text(f"All pairs against {MODELS[peer]}, log-likelihood of an instance: {'; '.join(words)}.")
    sheet.text(
        "Subset accuracy is that of the most probable set of labels, Hamming loss that of labels with a "
        "probability above one half; scikit-learn's classifiers have one prediction for both, and the chain's is "
        "greedy, label by label. The likelihood of the chain is exact: the product of its regressions given the "
        "true labels before. Intervals resample test instances and do not cover the choice of the training part."
    )


def _ends(estimate: Estimate, sign: int) -> tuple[float, float]:
    ends = sorted((sign * (estimate.low or 0.0), sign * (estimate.high or 0.0)))
    return ends[0], ends[1]


def _pictures(sheet: ResultPage, by_set: dict[str, dict[str, dict]]) -> None:
    shown = [model for model in MODELS if all(model in rows for rows in by_set.values())]
    gains = {
        MODELS[model]: [differences(rows, "none", model)["log_likelihood"].to_dict() for rows in by_set.values()]
        for model in shown
        if model != "none"
    }
    if gains:
        sheet.picture(
            "gains",
            named_plot(list(by_set), gains, "log-likelihood of an instance, nats more than the independent field"),
            "Log-likelihood of a test instance, minus that of the independent field, with 95 % intervals",
        )


def _choices(sheet: ResultPage, by_set: dict[str, dict[str, dict]]) -> None:
    sheet.heading("What was chosen")
    rows, at_edge = [], []
    for name, models in by_set.items():
        for model, row in models.items():
            settings, tried = row["settings"], row["cross_validation"]
            features = row["sizes"][2]
            for key, title in (("gamma", "gamma"), ("variance", "prior variance")):
                values = sorted({each[key] for each in tried})
                if len(values) > 1 and settings[key] in (values[0], values[-1]):
                    at_edge.append(f"{title} of {MODELS[model]} on {name}")
            rows.append(
                [
                    name,
                    MODELS[model],
                    f"{settings['gamma'] * features:.3g} / {features}",
                    f"{settings['variance']:.3g}",
                    f"{max(each['score'] for each in tried):.3f}" if tried else "",
                ]
            )
    sheet.table(["set", "model", "gamma", "prior variance or C", "cross-validated log-likelihood"], rows)
    if at_edge:
        sheet.text(f"At an end of its grid: {'; '.join(at_edge)}.")
