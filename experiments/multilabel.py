"""Multi-label sets (scene, yeast, emotions): independent labels, trees, full graphs, scikit-learn's classifiers.

    python -m experiments.multilabel [--sets scene yeast emotions] [--models none tree full ...]

All models have the same features: a basis of the same RBF kernel, whose scale cross-validation chooses for the
independent field, together with its prior variance. One-vs-rest and the classifier chain are logistic regressions
on these features. The other models choose a third of that variance, itself or three times it (C of regressions),
all by 3-fold cross-validation of the log-likelihood on the training part; learnt pairs take over that of all
pairs. Pairs have the default prior variance.
A row keeps what came out for every test instance, so that later rows can be compared with it from the file alone.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import multilabel_set
from experiments.pictures import at_places
from experiments.result_pages import Drawing, duration, table, write_page
from kernelfields import MultiLabelCRF
from kernelfields.evaluation import Estimate
from kernelfields.evaluation.resampling import Resampling
from kernelfields.kernels import RBF
from kernelfields.selection import StructureSearch

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
GAMMAS = (0.1, 0.3, 1.0)  # times one over the number of features
VARIANCES = (1.0, 3.0, 10.0, 30.0)
FACTORS = (1 / 3, 1.0, 3.0)
RANK = 500
FOLDS = 3


class Field:
    """A MultiLabelCRF with some graph of labels, as the others see it."""

    def __init__(self, label_graph: str, gamma: float, variance: float):
        learns = label_graph == "learn"
        crf = MultiLabelCRF(
            RBF(gamma),
            label_graph="none" if learns else label_graph,
            rank=RANK,
            prior_variance=variance,
            decision="hamming",
            max_iter=300,
            random_state=0,
        )
        self.crf = StructureSearch(crf) if learns else crf

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Field:
        self.crf.fit(X, Y)
        return self

    def features(self, X: np.ndarray) -> np.ndarray:
        return self.crf.basis_["label 0"].features(X)

    def log_likelihoods(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.crf.log_likelihood(X, Y, per_item=True)

    def decisions(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels by Hamming loss and by subset loss."""
        return self.crf.predict(X), self.crf.predict_joint(X)[0]


class Peer:
    """scikit-learn's one-vs-rest or chain of logistic regressions on features of the kernel."""

    def __init__(self, kind: str, gamma: float, variance: float):
        regression = LogisticRegression(C=variance, solver="newton-cholesky")
        self.chain = kind == "chain"
        self.classifier = ClassifierChain(regression) if self.chain else OneVsRestClassifier(regression)
        self.basis = Field("none", gamma, variance)

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Peer:
        # The basis is the same for any labels: one of them is enough to make it.
        self.basis.fit(X, Y[:, :1])
        self.classifier.fit(self.basis.features(X), Y)
        return self

    def log_likelihoods(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        Z, total = self.basis.features(X), np.zeros(len(X))
        for k, regression in enumerate(self.classifier.estimators_):
            seen = np.hstack([Z, Y[:, :k]]) if self.chain else Z
            total += regression.predict_log_proba(seen)[np.arange(len(X)), Y[:, k]]
        return total

    def decisions(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        labels = self.classifier.predict(self.basis.features(X)).astype(np.int64)
        return labels, labels


def candidates(name: str, model: str, n_features: int) -> list[dict]:
    if model == "none":
        pairs = itertools.product([gamma / n_features for gamma in GAMMAS], VARIANCES)
        return [{"label_graph": model, "gamma": gamma, "variance": variance} for gamma, variance in pairs]
    if model == "learn":  # a search takes as long as many fits: with the variance that suits all pairs
        return [{**_row(name, "full")["settings"], "label_graph": model}]
    independent = _row(name, "none")["settings"]
    key = "kind" if model in ("one-vs-rest", "chain") else "label_graph"
    return [
        {key: model, "gamma": independent["gamma"], "variance": factor * independent["variance"]} for factor in FACTORS
    ]


def build(settings: dict) -> Field | Peer:
    return Peer(**settings) if "kind" in settings else Field(**settings)


def choose(tried: list[dict], X: np.ndarray, Y: np.ndarray) -> tuple[dict, list[dict]]:
    """Return the candidate of the highest cross-validated log-likelihood per instance, and the scores of all."""
    if len(tried) == 1:
        return tried[0], []
    scored = []
    for settings in tried:
        parts = [
            build(settings).fit(X[fit], Y[fit]).log_likelihoods(X[held], Y[held])
            for fit, held in KFold(FOLDS, shuffle=True, random_state=0).split(X)
        ]
        scored.append({**settings, "score": float(np.concatenate(parts).mean())})
        print(scored[-1], flush=True)
    best = max(scored, key=lambda each: each["score"])
    return {name: value for name, value in best.items() if name != "score"}, scored


def run(name: str, model: str) -> dict:
    """Choose, fit and measure one model on one set."""
    begin = time.perf_counter()
    (X, Y), (X_test, Y_test), labels = multilabel_set(name)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    settings, scored = choose(candidates(name, model, X.shape[1]), X, Y)
    chosen = time.perf_counter()
    fitted = build(settings).fit(X, Y)
    seconds = time.perf_counter() - chosen
    hamming, subset = fitted.decisions(X_test)
    likelihoods = fitted.log_likelihoods(X_test, Y_test)
    crf = fitted.crf if isinstance(fitted, Field) else None
    return {
        "set": name,
        "model": model,
        "sizes": [len(X), len(X_test), X.shape[1], len(labels)],
        "settings": settings,
        "cross_validation": scored,
        "edges": [] if crf is None else [[labels[j], labels[k], w] for (j, k), w in crf.edge_scores_.items()],
        "inference": None if crf is None else crf.inference_.description,
        "relative_gap": None if crf is None else crf.certificate_.relative_gap,
        "right": "".join(map(str, (subset == Y_test).all(axis=1).astype(int))),
        "wrong_labels": " ".join(map(str, (hamming != Y_test).sum(axis=1))),
        "log_likelihoods": " ".join(f"{value:.5f}" for value in likelihoods),
        "fit_seconds": seconds,
        "seconds": time.perf_counter() - begin,
    }


def _row(name: str, model: str) -> dict:
    for row in read_results(RESULTS, EXPERIMENTS):
        if (row["set"], row["model"]) == (name, model):
            return row
    raise SystemExit(f"run {model!r} on {name} first: other models take over what it chooses")


def rows_of(name: str) -> dict[str, dict]:
    """Return the rows of a set, by model."""
    found = {row["model"]: row for row in read_results(RESULTS, EXPERIMENTS) if row["set"] == name}
    return {model: found[model] for model in MODELS if model in found}


def outcomes(row: dict) -> dict[str, np.ndarray]:
    """Return what came out for each test instance."""
    return {
        "log_likelihood": np.array(row["log_likelihoods"].split(), dtype=float),
        "subset_accuracy": np.array(list(row["right"]), dtype=float),
        "hamming_loss": np.array(row["wrong_labels"].split(), dtype=float) / row["sizes"][3],
    }


def resampled(values: np.ndarray) -> Estimate:
    """Return a mean over instances with a 95 % interval from resampling them."""
    resampling = Resampling(2000, 0.95, random_state=0)
    return resampling.estimate(resampling.sums({"values": values})["values"] / len(values), len(values))


def minus(row: dict, first: dict) -> dict[str, Estimate]:
    """Return the differences of two models in each figure."""
    one = outcomes(first)
    return {figure: resampled(values - one[figure]) for figure, values in outcomes(row).items()}


def show(figure: str, found: Estimate, sign: str = "") -> str:
    """Return a figure with its interval; shares in per cent."""
    scale, form = (1, ".3f") if figure == "log_likelihood" else (100, ".1f")
    value, low, high = (f"{scale * part:{sign}{form}}" for part in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def took() -> str:
    return duration(sum(row["seconds"] for row in read_results(RESULTS, EXPERIMENTS)))


def models(name: str) -> str:
    header = ["model", "log-likelihood of an instance", "subset accuracy, %", "Hamming loss, %", "edges"]
    return table(
        [*header, "a fit, seconds"],
        [
            [
                MODELS[model],
                *(show(figure, resampled(values)) for figure, values in outcomes(row).items()),
                len(row["edges"]) or "",
                f"{row['fit_seconds']:.1f}",
            ]
            for model, row in rows_of(name).items()
        ],
    )


def differences(name: str) -> str:
    rows = rows_of(name)
    pairs = itertools.product(("none", "one-vs-rest", "chain"), ("tree", "full", "learn"))
    return table(
        ["", "log-likelihood", "subset accuracy, points", "Hamming loss, points"],
        [
            [
                f"{MODELS[second]} minus {MODELS[first]}",
                *(show(figure, each, "+") for figure, each in minus(rows[second], rows[first]).items()),
            ]
            for first, second in pairs
            if second in rows
        ],
    )


def strongest(name: str) -> str:
    edges = sorted(rows_of(name)["full"]["edges"], key=lambda edge: -abs(edge[2]))[:5]
    words = ", ".join(f"{a} and {b} {weight:+.1f}" for a, b, weight in edges).replace("_", " ")
    return f"The strongest pairs, by their log odds ratio given inputs and all other labels: {words}."


def gains() -> Drawing:
    rows = {name: rows_of(name) for name in SETS}
    curves = {
        title: [minus(rows[name][model], rows[name]["none"])["log_likelihood"].to_dict() for name in SETS]
        for model, title in MODELS.items()
        if model not in ("none", "learn")
    }
    drawn = at_places(SETS, curves, "nats more than the independent field")
    caption = "Log-likelihood of a test instance, minus that of the independent field, with 95 % intervals"
    return Drawing("gains", drawn, caption)


def choices() -> str:
    lines = []
    for name in SETS:
        for model, row in rows_of(name).items():
            settings, tried, features = row["settings"], row["cross_validation"], row["sizes"][2]
            lines.append(
                [
                    name,
                    MODELS[model],
                    f"{settings['gamma'] * features:.3g} / {features}",
                    f"{settings['variance']:.3g}",
                    f"{max(each['score'] for each in tried):.3f}" if tried else "",
                ]
            )
    return table(["set", "model", "gamma", "prior variance or C", "cross-validated log-likelihood"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    arguments = parser.parse_args()
    for name, model in itertools.product(arguments.sets, arguments.models):
        row = run(name, model)
        merge_results(RESULTS, [row], ("set", "model"), EXPERIMENTS)
        print(f"{name} {model}: chosen {row['settings']}, {row['fit_seconds']:.2f} s a fit, {row['seconds']:.1f} s")
    write_page("multilabel")


if __name__ == "__main__":
    main()
