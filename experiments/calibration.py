"""Are marginals as sure as they should be? The mode, the Laplace posterior and a temperature on three data sets.

    python -m experiments.calibration [--sets prosody letters proteins] [--page]

*prosody*: 300 English sentences of the Helsinki corpus for training, 700 others for the test, two labels, windows
of five words. *letters*: one fold of OCR letters for training, 1,500 words of the others for the test. *proteins*:
60 profiles of JPred4 for training, the blind set for the test, windows of 15 residues. An RBF kernel each; gamma
and prior variance are chosen by 3-fold cross-validation of the likelihood on the training data.

*mode*: marginals of the fitted field. *Laplace*: their mean over 50 fields drawn from the Gaussian at the mode,
what the basis leaves out drawn from the prior. *Laplace, basis*: the same within the basis alone; added after
first figures of the others on prosody and proteins were known, see the page.
*temperature*: one temperature for the marginals of the fitted field, of least log-loss on training sequences that
three more fits, to two thirds of them each, have not seen.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import ocr_letters, protein_profiles
from experiments import prominence_features as features
from experiments.result_pages import ResultPage, percent
from kernelfields import ChainCRF
from kernelfields.evaluation import evaluate, fit_temperature, marginal_log_loss
from kernelfields.evaluation.resampling import Resampling
from kernelfields.kernels import RBF
from kernelfields.reports.reliability import reliability_plot
from kernelfields.selection import ChainCRFCV

RESULTS = "calibration.json"
TITLES = {"prosody": "Helsinki prosody", "letters": "OCR letters, small", "proteins": "JPred4 profiles"}
MODELS = ("mode", "Laplace", "Laplace, basis", "temperature")
#: Settings of the field, gammas and prior variances to choose from.
FIELDS = {
    "prosody": ({"window": 5, "rank": 300}, (0.0003, 0.001, 0.003, 0.01), (1.0, 3.0, 10.0, 30.0, 100.0)),
    "letters": ({"rank": 150}, (0.04, 0.06, 0.09), (20.0, 60.0, 200.0)),
    "proteins": ({"window": 15, "rank": 300}, (0.1, 0.3, 1.0), (1.0, 3.0, 10.0, 30.0)),
}
N_SAMPLES, STEPS = 50, 60
RESAMPLING = Resampling(1000, 0.95, 0)

Sequences = tuple[list, list, list, list]


def data(name: str) -> Sequences:
    """Return training inputs and labels, test inputs and labels."""
    if name == "prosody":
        everything = features.english_sentences("dev")
        order = np.random.default_rng(1).permutation(len(everything))[:1000]
        known, held = ([everything[i] for i in part] for part in (order[:300], order[300:]))
        lexicon = features.Lexicon(known, features.ENGLISH, features.ENGLISH_ENDINGS)
        inputs = (
            [lexicon.describe(each, counted=True) for each in known],
            [lexicon.describe(each) for each in held],
        )
        labels = ([np.minimum(each.labels, 1) for each in part] for part in (known, held))
        train, test = zip(inputs, labels, strict=True)
        return *train, *test
    if name == "letters":
        X, y, fold = ocr_letters()
        train = np.flatnonzero(fold == 1)
        test = np.random.default_rng(0).choice(np.flatnonzero(fold != 1), 1500, replace=False)
        return [X[i] for i in train], [y[i] for i in train], [X[i] for i in test], [y[i] for i in test]
    scores, _, labels = protein_profiles("train")
    blind, _, truth = protein_profiles("blind")
    chosen = np.random.default_rng(0).choice(len(scores), 60, replace=False)
    return squashed([scores[i] for i in chosen]), [labels[i] for i in chosen], squashed(blind), truth


def squashed(scores: list) -> list:
    """Return log-odds scores through the logistic function, scaled for windows of 15."""
    return [((1 / (1 + np.exp(-each)) - 0.5) / np.sqrt(15)).astype(np.float32) for each in scores]


def run(name: str) -> list[dict]:
    """Return a row for each model on one data set."""
    X, y, X_test, y_test = data(name)
    settings, gammas, variances = FIELDS[name]
    field = ChainCRF(tol=1e-3, max_iter=500, random_state=0, **settings)
    begin = time.perf_counter()
    search = ChainCRFCV(field, kernels=[RBF(gamma) for gamma in gammas], prior_variances=variances, random_state=0)
    fitted = search.fit(X, y).best_estimator_
    chosen = {"gamma": fitted.kernel.gamma, "prior_variance": fitted.prior_variance, "n_train": len(X)}
    seconds = {"mode": lap(begin)}
    marginals = {"mode": fitted.predict_marginals(X_test)}
    begin = time.perf_counter()
    evidence = fitted.laplace(X, y, n_samples=N_SAMPLES, steps=STEPS, random_state=0)
    marginals["Laplace"] = fitted.predict_marginals(X_test, uncertainty=True)
    seconds["Laplace"] = lap(begin)
    begin = time.perf_counter()
    fitted.laplace_.beyond_basis = False
    marginals["Laplace, basis"] = fitted.predict_marginals(X_test, uncertainty=True)
    seconds["Laplace, basis"] = lap(begin)
    chosen["left_out"] = share_left_out(fitted, X_test)
    begin = time.perf_counter()
    temperature = fit_temperature(*held_out_marginals(fitted, X, y), fitted.classes_)
    marginals["temperature"] = temperature(marginals["mode"])
    seconds["temperature"] = lap(begin)
    chosen |= {"temperature": temperature.value, "method": fitted.laplace_.method, "evidence": evidence.value}
    losses = {
        model: marginal_log_loss(y_test, marginals[model], fitted.classes_, per_sequence=True) for model in MODELS
    }
    return [
        {
            "set": name,
            "model": model,
            "seconds": seconds[model],
            **chosen,
            **measured(marginals[model], fitted.classes_, y_test, losses[model], losses["mode"]),
        }
        for model in MODELS
    ]


def share_left_out(fitted: ChainCRF, X: list) -> float:
    """Return which share of k(x, x) the basis cannot express, on average over positions."""
    node = fitted.model_.sets[0]
    chains, _ = fitted._inputs.chains(X, None, None, fitted.classes_)
    features = node.features(chains)
    return float(1 - np.mean(np.einsum("ij,ij->i", features, features)))  # k(x, x) = 1 for an RBF kernel


def lap(begin: float) -> float:
    return time.perf_counter() - begin


def held_out_marginals(fitted: ChainCRF, X: list, y: list) -> tuple[list, list]:
    """Return labels of training sequences and their marginals by fits that have not seen them.

    Sequences with a label that such a fit does not know are left out.
    """
    labels, marginals = [], []
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        part = clone(fitted).fit([X[i] for i in train], [y[i] for i in train])
        columns = np.searchsorted(fitted.classes_, part.classes_)
        test = [i for i in test if np.isin(y[i], part.classes_).all()]
        for i, rows in zip(test, part.predict_marginals([X[i] for i in test]), strict=True):
            labels.append(y[i])
            marginals.append(np.zeros((len(rows), len(fitted.classes_))))
            marginals[-1][:, columns] = rows
    return labels, marginals


def measured(marginals: list, classes: np.ndarray, y: list, losses: np.ndarray, before: np.ndarray) -> dict:
    """Return accuracy, log-loss and calibration, and the difference of log-losses to the mode, with intervals."""
    labels = [classes[rows.argmax(axis=1)] for rows in marginals]
    found = evaluate(y, labels, marginals=marginals, classes=classes, random_state=0)
    lengths = np.array([len(each) for each in y], dtype=float)
    sums = RESAMPLING.sums({"losses": losses, "before": before, "lengths": lengths})
    loss, reference = (sums[each][:, 0] / sums["lengths"][:, 0] for each in ("losses", "before"))
    return {
        "n_test": len(y),
        "n_positions": int(lengths.sum()),
        "accuracy": found.accuracy.to_dict(),
        "log_loss": RESAMPLING.estimate(loss).to_dict(),
        "log_loss_difference": RESAMPLING.estimate(loss - reference).to_dict(),
        "calibration": found.calibration.to_dict(),
    }


def page() -> None:
    """Write docs/results/calibration.md from the JSON."""
    rows = {(row["set"], row["model"]): row for row in read_results(RESULTS, EXPERIMENTS)}
    sets = [name for name in TITLES if all((name, model) in rows for model in MODELS)]
    sheet = ResultPage(
        "calibration",
        "Calibration",
        command="kernelfields reproduce calibration",
        seconds=sum(row["seconds"] for row in rows.values()),
    )
    sheet.text(
        "Marginals of the fitted field (the mode), their mean over fields drawn from the Laplace posterior, and "
        "marginals of the fitted field at one temperature chosen on held-out training sequences. Log-loss is the "
        "mean of -log p(label | x) over positions; ECE is the expected calibration error over ten bins. Intervals "
        "of 95 % are from resampled test sequences; differences of log-loss are paired."
    )
    sheet.table(
        ["data", "model", "accuracy", "log-loss", "less the mode's", "ECE", "seconds"],
        [
            [
                TITLES[name] if model == "mode" else "",
                model,
                percent(row["accuracy"]["value"], (row["accuracy"]["low"], row["accuracy"]["high"])),
                interval(row["log_loss"], ".4f"),
                "" if model == "mode" else interval(row["log_loss_difference"], "+.4f"),
                interval(row["calibration"]["expected_error"], ".3f"),
                f"{row['seconds']:.0f}",
            ]
            for name in sets
            for model in MODELS
            for row in [rows[name, model]]
        ],
    )
    for name in sets:
        sheet.heading(TITLES[name])
        sheet.text(words(name, {model: rows[name, model] for model in MODELS}))
        for model in MODELS:
            row = rows[name, model]
            sheet.picture(
                f"{name}-{model.lower().replace(', ', '-')}",
                reliability_plot(row["calibration"]),
                f"{TITLES[name]}: {model}",
            )
    sheet.heading("Within the basis, or beyond")
    sheet.text(
        "What a basis of few pivots cannot express keeps its prior variance in the rows named Laplace, as if the "
        "training data said nothing about it. The rows named Laplace, basis leave it out. They were added after "
        "the other rows had been measured once on prosody and proteins, because log-loss on proteins had risen; "
        "which part of the posterior did it was then looked for on training proteins that take no part here. "
        "Both are shown; nothing else was changed."
    )
    sheet.heading("Limits")
    sheet.text(
        "One training set for each row, and subsets of the data: intervals say how far the choice of test "
        "sequences reaches, not that of training sequences. Seconds of the mode hold the cross-validation. The "
        "temperature is one number with its own held-out fits; the Laplace posterior uses no held-out data."
    )
    sheet.write()


def interval(figure: dict, form: str) -> str:
    return f"{figure['value']:{form}} [{figure['low']:{form}}, {figure['high']:{form}}]"


def words(name: str, rows: dict[str, dict]) -> str:
    """Say what a data set shows."""
    mode = rows["mode"]
    means = mode["calibration"]["curve"]
    counts = np.array(means["counts"], dtype=float)
    confidence, accuracy = (
        np.array([0.0 if each is None else each for each in means[part]]) for part in ("confidence", "accuracy")
    )
    surplus = float(counts @ (confidence - accuracy) / counts.sum())
    parts = [
        f"{mode['n_train']} training and {mode['n_test']} test sequences ({mode['n_positions']:,} positions); "
        f"gamma {mode['gamma']:g}, prior variance {mode['prior_variance']:g}; {mode['method']} Hessian; "
        f"temperature {mode['temperature']:.2f}.",
        f"At the mode the field is too {'sure' if surplus > 0 else 'unsure'} of itself by "
        f"{100 * abs(surplus):.1f} points on average.",
    ]
    verbs = {"Laplace": "Averaging over the posterior", "Laplace, basis": "Averaging within the basis"}
    for model in MODELS[1:]:
        difference = rows[model]["log_loss_difference"]
        verdict = "lowers" if difference["high"] < 0 else "raises" if difference["low"] > 0 else "does not change"
        ece = (each["calibration"]["expected_error"]["value"] for each in (mode, rows[model]))
        parts.append(
            f"{verbs.get(model, 'The temperature')} {verdict} log-loss"
            f"{' beyond chance' if verdict == 'does not change' else ''} and takes ECE from "
            + " to ".join(f"{each:.3f}" for each in ece)
            + "."
        )
    best = min(MODELS, key=lambda model: rows[model]["log_loss"]["value"])
    parts.append(f"The basis leaves out {100 * mode['left_out']:.0f} % of k(x, x) at test positions.")
    return " ".join([*parts, f"The smallest log-loss is that of: {best}."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(TITLES), choices=list(TITLES))
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    for name in [] if arguments.page else arguments.sets:
        rows = run(name)
        merge_results(RESULTS, rows, ("set", "model"), EXPERIMENTS)
        for row in rows:
            print(
                f"{name} {row['model']:12s} accuracy {row['accuracy']['value']:.4f}  log-loss "
                f"{row['log_loss']['value']:.4f}  ECE {row['calibration']['expected_error']['value']:.4f}  "
                f"{row['seconds']:.0f} s",
                flush=True,
            )
    page()


if __name__ == "__main__":
    main()
