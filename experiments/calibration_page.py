"""The page about calibration, docs/results/calibration.md, from the JSON that calibration.py writes."""

from __future__ import annotations

import numpy as np

from benchmarks.result_files import EXPERIMENTS, read_results
from experiments.calibration_causes import DRAWS, NARROW, RANK, STEPS, WORDS
from experiments.calibration_data import MODELS, RESULTS, TITLES
from experiments.result_pages import ResultPage, percent
from kernelfields.reports import plot_reliability

#: The rows about causes, in the order in which they tell something.
SUSPICIONS = [
    "mode",
    *(f"Lanczos, {count} steps" for count in STEPS),
    *(f"exact, {count} draws" for count in DRAWS),
    "exact, node potentials alone",
    "exact, transitions alone",
    "probit",
    *(f"narrow transitions, {model}" for model in ("mode", "sampling", "probit")),
]


def page() -> None:
    """Write docs/results/calibration.md from the JSON."""
    rows = {(row["set"], row["model"]): row for row in read_results(RESULTS, EXPERIMENTS)}
    sets = [name for name in TITLES if all((name, model) in rows for model in MODELS)]
    sheet = ResultPage(
        "calibration",
        "Calibration",
        command="kernelfields reproduce calibration",
        # Probit and sampling share their draws: they were drawn once.
        seconds=sum(row["seconds"] for (_, model), row in rows.items() if "seconds" in row and "probit" not in model),
    )
    sheet.text(
        "Marginals of the fitted field (the mode), their mean over fields drawn from the Laplace posterior, their "
        "log-odds shrunk by the variances that posterior gives them (probit), and marginals of the fitted field "
        "at one temperature chosen on held-out training sequences. Log-loss is the mean of -log p(label | x) over "
        "positions; ECE is the expected calibration error over ten bins. Intervals of 95 % are from resampled "
        "test sequences; differences of log-loss are paired."
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
                f"{name}-{model.lower().replace(' ', '-')}",
                plot_reliability(row["calibration"]),
                f"{TITLES[name]}: {model}",
            )
    if ("letters, causes", "mode") in rows:
        explain(sheet, {model: row for (name, model), row in rows.items() if name == "letters, causes"})
    compare_choices(sheet, rows, sets)
    sheet.heading("Limits")
    sheet.text(
        "One training set for each row, and subsets of the data: intervals say how far the choice of test "
        "sequences reaches, not that of training sequences. Seconds of the mode hold the cross-validation; "
        "sampling and probit share their draws, whose seconds both rows hold; none hold the search for causes. "
        "The temperature is one number with its own held-out fits; the Laplace posterior uses no held-out data. "
        "Prior variances were chosen for the likelihood of the mode, not for that of averages."
    )
    sheet.write()


def explain(sheet: ResultPage, rows: dict[str, dict]) -> None:
    """Say what makes averages over draws bad on letters."""
    few, many = (rows[f"exact, {count} draws"] for count in (DRAWS[1], DRAWS[2]))
    steps = [rows[f"Lanczos, {count} steps"]["variance_ratio"] for count in STEPS]
    narrow = rows["narrow transitions, sampling"]
    sheet.heading("Why draws are bad for letters")
    sheet.text(
        f"A field small enough for the explicit Hessian ({WORDS} words, rank {RANK}), measured on training words "
        "held out, one suspicion after the other; draws are exact unless Lanczos is named."
    )
    sheet.table(
        ["model", "accuracy", "log-loss", "variances over exact ones", "rise"],
        [
            [
                model,
                percent(row["accuracy"]),
                f"{row['log_loss']:.3f}",
                f"{row['variance_ratio']:.3f}" if "variance_ratio" in row else "",
                f"{row['rise']:.2f}" if "rise" in row else "",
            ]
            for model, row in ((model, rows[model]) for model in SUSPICIONS)
        ],
    )
    sheet.text(
        f"Lanczos draws are not it: with {', '.join(map(str, STEPS))} steps their variances of potentials are "
        f"{', '.join(f'{ratio:.2f}' for ratio in steps)} times the exact ones. Nor is it how many are drawn: "
        f"{DRAWS[2]} exact draws have an accuracy of {percent(many['accuracy'])}, {DRAWS[1]} have "
        f"{percent(few['accuracy'])}. It is the Gaussian. Rise is how far above the mode the objective lies at a "
        "draw, as a multiple of what the Gaussian says; it should be 1, and is "
        f"{many['rise']:.1f}. A pair of letters never seen has a weight that the data bound from above only: at "
        "the mode the curvature is small, the Gaussian is about as wide as the prior, and its draws make up "
        "transitions that the posterior excludes. Draws of the transitions alone have an accuracy of "
        f"{percent(rows['exact, transitions alone']['accuracy'])}, draws of node potentials alone "
        f"{percent(rows['exact, node potentials alone']['accuracy'])}. With a prior variance of {NARROW:g} for "
        f"transitions the rise is {narrow['rise']:.1f} and the accuracy of draws {percent(narrow['accuracy'])}. "
        "`laplace` measures the rise and warns where it is above 2."
    )


def compare_choices(sheet: ResultPage, rows: dict[tuple[str, str], dict], sets: list[str]) -> None:
    """Show what the defaults were chosen by."""
    chosen = [f"{kind}, {beyond}" for kind in ("probit", "sampling") for beyond in ("auto", "all")]
    sheet.heading("Which default")
    sheet.text(
        "Log-loss on a third of the training sequences, of fits to the others (30 draws): the mode, probit and "
        "sampling, with the prior variance of all that the basis leaves out (`beyond_basis=True`), or of what it "
        'leaves out beyond the most it leaves out of a training input ("auto"). By these figures '
        '`uncertainty=True` is probit and `beyond_basis` is "auto".'
    )
    sheet.table(
        ["data", "rise", "mode", *chosen],
        [
            [
                TITLES[name],
                f"{rows[f'{name}, held out', 'mode']['rise']:.2f}",
                *(f"{rows[f'{name}, held out', model]['log_loss']:.4f}" for model in ("mode", *chosen)),
            ]
            for name in sets
            if (f"{name}, held out", "mode") in rows
        ],
    )


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
        f"temperature {mode['temperature']:.2f}; draws rise {mode['rise']:.2f} times as far as the Gaussian says.",
        f"At the mode the field is too {'sure' if surplus > 0 else 'unsure'} of itself by "
        f"{100 * abs(surplus):.1f} points on average.",
    ]
    verbs = {"Laplace sampling": "Averaging over draws", "Laplace probit": "The probit correction"}
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
