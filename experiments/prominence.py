"""Prominence of words (the paper's Figure 1): kernels of degree 1, 2, 3 and RBF, on English and Afrikaans.

    python -m experiments.prominence [--parts figure afrikaans release] [--folds 0 1 ...] [--models "degree 2" ...]

*figure*: 500 English sentences, *afrikaans*: all 1002 utterances; a window of five words, five folds over
sentences, two labels. *release*: all sentences of release/dev for training, release/test for the test, two and
three labels. Kernel scale and prior variance are chosen by cross-validation inside the training sentences: with
folds of sentences for the first two parts, of speakers for the last. Labels are posterior-decoded. The grids were
laid with 500 other English sentences, and for *release* with a quarter of the training speakers held out.
"""

from __future__ import annotations

import argparse
import base64
import re
import time
import warnings
import zlib
from collections import Counter

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold, KFold

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from experiments import prominence_features as features
from experiments.pictures import at_places
from experiments.prominence_features import Lexicon, Sentence, WordIndicators
from experiments.result_pages import Drawing, duration, estimate, percent, points, table, write_page
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.evaluation import compare, evaluate
from kernelfields.kernels import RBF, Columns, Linear, Polynomial
from kernelfields.selection import ChainCRFCV

RESULT = "prominence.json"
KEYS = ("part", "model", "fold")
N_FOLDS = 5
SEARCH_RANK, RANK = 500, 1000
#: Settings that all fields share; transitions have a wide prior of their own.
COMMON = {
    "decode": "viterbi",
    "tol": 1e-3,
    "max_iter": 300,
    "random_state": 0,
    "edges": EdgeCliques(prior_variance=1.0),
}
#: Sentences of release/dev on which the kernels of "release" are chosen.
SEARCH_SENTENCES = 1900
BASELINES = ("majority class", "majority per word")
PRIMAL = "primal degree 1"
#: Grid of the polynomial kernels: small scales with large variances are nearly linear.
SCALES, VARIANCES = (0.001, 0.003, 0.01, 0.03), [0.1, 0.3, 1.0, 3.0, 10.0]
#: Kernels and prior variances that cross-validation chooses from.
FAMILIES: dict[str, tuple[list, list[float]]] = {
    PRIMAL: (["linear"], [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]),
    "degree 2": ([Polynomial(2, gamma=gamma, coef0=1.0) for gamma in SCALES], VARIANCES),
    "degree 3": ([Polynomial(3, gamma=gamma, coef0=1.0) for gamma in SCALES], VARIANCES),
    "RBF": ([RBF(gamma) for gamma in (0.0003, 0.001, 0.003, 0.01)], [1.0, 3.0, 10.0, 30.0, 100.0]),
}
#: Who fits which curve. The dual ones are those of Figure 1: degrees 1, 2 and 3 in the span of their kernel, by the
#: paper's solver.
SOLVERS = {
    PRIMAL: "newton-cg",
    "degree 2": "lbfgs",
    "degree 3": "lbfgs",
    "RBF": "lbfgs",
    "dual degree 1": "block-jacobi",
    "dual degree 2": "block-jacobi",
    "dual degree 3": "block-jacobi",
}
DUAL = "dual degree 1"
#: Fits whose kernels and prior variances the dual ones take over, so that they have the same minimum.
TAKEN_FROM = {DUAL: PRIMAL, "dual degree 2": "degree 2", "dual degree 3": "degree 3"}
MODELS = (*BASELINES, PRIMAL, "degree 2", "degree 3", *TAKEN_FROM, "RBF")
#: What the pictures show, degree 1 both ways.
CURVES = (PRIMAL, DUAL, "degree 2", "degree 3", "RBF")
RELEASE_MODELS = (*BASELINES, "linear", "degree 2", "RBF", "linear, words", "words + degree 2", "words + RBF")
LANGUAGES = {"figure": "English", "afrikaans": "Afrikaans"}
#: Published accuracies on the same test sentences, two and three labels; trained on the corpus's train-360.
PUBLISHED = {
    "majority per word, train-360": (0.802, 0.624),
    "CRF (MarMoT), train-360": (0.818, 0.664),
    "BERT-base, train-360": (0.832, 0.686),
}


def sentences_of(part: str) -> list[Sentence]:
    """Return the sentences of a cross-validated part, with two labels."""
    if part == "afrikaans":
        return features.afrikaans_sentences()
    everything = features.english_sentences("dev")
    # The first 500 of this order were for development.
    chosen = np.sort(np.random.default_rng(0).permutation(len(everything))[500:1000])
    return [everything[i] for i in chosen]


def cross_validate(part: str, folds: list[int], models: list[str]) -> None:
    """Fit and predict fold by fold; every row is written when it is there."""
    sentences = sentences_of(part)
    words = (features.AFRIKAANS, features.AFRIKAANS_ENDINGS)
    if part == "figure":
        words = (features.ENGLISH, features.ENGLISH_ENDINGS)
    for fold, (train, test) in enumerate(KFold(N_FOLDS, shuffle=True, random_state=0).split(sentences)):
        if fold not in folds:
            continue
        known, held = [sentences[i] for i in train], [sentences[i] for i in test]
        lexicon = Lexicon(known, *words)
        X = [lexicon.describe(sentence, counted=True) for sentence in known]
        X_held = [lexicon.describe(sentence) for sentence in held]
        y = [np.minimum(sentence.labels, 1) for sentence in known]
        common = {"part": part, "fold": fold, "n_features": len(lexicon.names)}
        keep(RESULT, common, "truth", [np.minimum(sentence.labels, 1) for sentence in held], indices=test.tolist())
        for model in models:
            if model in BASELINES:
                keep(RESULT, common, model, baseline(model, known, held, 1))
            else:
                fitted, notes = dual_fit(part, fold, model, X, y) if model in TAKEN_FROM else search(model, X, y)
                keep(RESULT, common, model, fitted.predict(X_held, decode="posterior"), **notes, **described(fitted))


def search(model: str, X: list, y: list) -> tuple[ChainCRF, dict]:
    """Choose kernel scale and prior variance at a lower rank, then fit at the full one."""
    kernels, variances = FAMILIES[model]
    field = ChainCRF(window=5, rank=SEARCH_RANK, solver=SOLVERS[model], **COMMON)
    chooser = ChainCRFCV(field, kernels=kernels, prior_variances=variances, cv=3, refit=False, random_state=0)
    return chosen_fit(chooser, X, y)


def chosen_fit(
    chooser: ChainCRFCV, X: list, y: list, groups: list | None = None, part: np.ndarray | None = None
) -> tuple[ChainCRF, dict]:
    """Search, on ``part`` of the sentences if it is given; fit what was chosen at the full rank."""
    begin = time.perf_counter()
    some = range(len(X)) if part is None else part
    chooser.fit([X[i] for i in some], [y[i] for i in some], groups=groups and [groups[i] for i in some])
    chosen = time.perf_counter()
    fitted = clone(chooser.estimator).set_params(**{**chooser.best_params_, "rank": RANK}).fit(X, y)
    notes = {"cv_log_likelihood": chooser.best_score_, "search_seconds": chosen - begin}
    return fitted, {**notes, "fit_seconds": time.perf_counter() - chosen}


def dual_fit(part: str, fold: int, model: str, X: list, y: list) -> tuple[ChainCRF, dict]:
    """Fit the model of another row by block-Jacobi in the span of its kernel, of degree 1 in all of it."""
    rows = read_results(RESULT, EXPERIMENTS)
    [taken] = [row for row in rows if key_of(row) == (part, TAKEN_FROM[model], fold)]
    dual = dual_field(model, float(re.search(r"gamma=([0-9.e-]+)|$", taken["kernel"])[1] or 1), taken["prior_variance"])
    begin = time.perf_counter()
    with warnings.catch_warnings():
        # Whether the gap was reached is one of the results.
        warnings.simplefilter("ignore", ConvergenceWarning)
        dual.fit(X, y)
    return dual, {"search_seconds": 0.0, "fit_seconds": time.perf_counter() - begin}


def dual_field(model: str, gamma: float, prior_variance: float) -> ChainCRF:
    """Return the field of a dual curve: the kernel of its degree, and the paper's solver."""
    degree = int(model[-1])
    kernel = Polynomial(1, gamma=1.0, coef0=0.0) if degree == 1 else Polynomial(degree, gamma=gamma, coef0=1.0)
    own = {"rank": None if degree == 1 else RANK, "solver": SOLVERS[model], "prior_variance": prior_variance}
    return ChainCRF(kernel, window=5, **own, **COMMON)


def key_of(row: dict) -> tuple:
    return tuple(row[key] for key in KEYS)


def release(labels: int, models: list[str]) -> None:
    """Fit to all training sentences and predict the test sentences, with two or three labels."""
    known, held = features.english_sentences("dev"), features.english_sentences("test")
    most = labels - 1
    common = {"part": f"release {labels}", "fold": 0}
    keep(RESULT, common, "truth", [np.minimum(sentence.labels, most) for sentence in held])
    fields = [model for model in models if model not in BASELINES]
    for model in models:
        if model in BASELINES:
            keep(RESULT, common, model, baseline(model, known, held, most))
    if not fields:
        return
    lexicon = Lexicon(known, features.ENGLISH, features.ENGLISH_ENDINGS)
    indicators = WordIndicators(known)
    X = features.joined(known, lexicon, indicators, counted=True)
    X_held = features.joined(held, lexicon, indicators, counted=False)
    y = [np.minimum(sentence.labels, most) for sentence in known]
    speakers = [sentence.identifier.partition("_")[0] for sentence in known]
    some = np.sort(np.random.default_rng(0).permutation(len(known))[:SEARCH_SENTENCES])
    for model in fields:
        kernels, variances = release_family(model, 5 * len(lexicon.names))
        chooser = ChainCRFCV(
            ChainCRF(rank=SEARCH_RANK, **COMMON),
            kernels=kernels,
            prior_variances=variances,
            cv=GroupKFold(3),
            min_items=400,
            refit=False,
            random_state=0,
        )
        fitted, notes = chosen_fit(chooser, X, y, speakers, None if model.startswith("linear") else some)
        keep(RESULT, common, model, fitted.predict(X_held, decode="posterior"), **notes, **described(fitted))


def release_family(model: str, n_dense: int) -> tuple[list, list]:
    """Return kernels and variances to choose from: linear in dense or all columns, or a sum."""
    if model == "linear":
        return [Columns(Linear(), 0, n_dense)], [0.01, 0.03, 0.1, 0.3]
    if model == "linear, words":
        return [Linear()], [0.01, 0.03, 0.1, 0.3]
    if model.endswith("RBF"):
        kernels, variances = [RBF(gamma) for gamma in (0.001, 0.003)], [1.0, 3.0, 10.0, 30.0]
    else:
        kernels = [Polynomial(2, gamma=gamma, coef0=1.0) for gamma in (0.003, 0.01, 0.03)]
        variances = [0.1, 0.3, 1.0]
    dense = [Columns(kernel, 0, n_dense) for kernel in kernels]
    if not model.startswith("words"):
        return dense, variances
    return [Columns(Linear(), n_dense) + kernel for kernel in dense], [(0.05, each) for each in variances]


def baseline(model: str, known: list[Sentence], held: list[Sentence], most: int) -> list[np.ndarray]:
    """Return the most frequent label, or the one each word mostly has in training, the first seen of several.

    Labels above ``most`` count as ``most``.
    """
    by_word: dict[str, Counter] = {}
    for sentence in known:
        for word, label in zip(sentence.words, np.minimum(sentence.labels, most).tolist(), strict=True):
            by_word.setdefault(word.lower(), Counter())[label] += 1
    overall = sum(by_word.values(), Counter())
    seen = by_word if model == "majority per word" else {}
    return [
        np.array([seen.get(word.lower(), overall).most_common(1)[0][0] for word in sentence.words]) for sentence in held
    ]


def described(fitted: ChainCRF) -> dict:
    """Return what a fit was and how it ended."""
    solution = fitted.solution_
    return {
        "kernel": repr(fitted.kernel),
        "prior_variance": fitted.prior_variance,
        "rank": fitted.basis_["node"].rank,
        "window": fitted.window,
        "solver": solution.solver,
        "reason": solution.reason,
        "iterations": solution.iterations,
        "relative_gap": solution.relative_gap,
        "objective": solution.value,
    }


def keep(file: str, common: dict, model: str, labels: list[np.ndarray], **notes: object) -> None:
    """Write a row with its labels: compressed, one byte each, with the lengths of the sentences for the truth."""
    packed = np.concatenate(labels).astype(np.uint8).tobytes()
    row = {**common, "model": model, **notes, "labels": base64.b64encode(zlib.compress(packed, 9)).decode()}
    if model == "truth":
        row["lengths"] = [len(each) for each in labels]
    merge_results(file, [row], KEYS, EXPERIMENTS)
    print({name: value for name, value in row.items() if name not in ("labels", "lengths", "indices")}, flush=True)


def kept(rows: list[dict], part: str, model: str) -> list[np.ndarray]:
    """Return the labels of all sentences of a part, fold after fold."""
    lengths = {row["fold"]: row["lengths"] for row in rows if row["part"] == part and row["model"] == "truth"}
    packed = {row["fold"]: row["labels"] for row in rows if row["part"] == part and row["model"] == model}
    sentences: list[np.ndarray] = []
    for fold in sorted(lengths):
        labels = unpacked({"labels": packed[fold]}).astype(int)
        sentences += np.split(labels, np.cumsum(lengths[fold])[:-1])
    return sentences


def figures(rows: list[dict], part: str, models: tuple[str, ...], against: str) -> dict[str, dict]:
    """Return accuracy, difference and rows of each model that was run; intervals are 95 %, from resampled sentences."""
    truth, first, found = kept(rows, part, "truth"), kept(rows, part, against), {}
    for model in models:
        own = [row for row in rows if row["part"] == part and row["model"] == model]
        if not own:
            continue
        labels = kept(rows, part, model)
        found[model] = {"accuracy": evaluate(truth, labels, random_state=0).accuracy.to_dict(), "rows": own}
        if model != against:
            comparison = compare(truth, first, labels, random_state=0)
            found[model]["difference"] = comparison.accuracy.difference.to_dict()
    return found


def took() -> str:
    rows = read_results(RESULT, EXPERIMENTS)
    return duration(sum(row.get("search_seconds", 0.0) + row.get("fit_seconds", 0.0) for row in rows))


def degrees_picture() -> Drawing:
    rows, shown = read_results(RESULT, EXPERIMENTS), CURVES
    curves = {
        language: [each["accuracy"] for each in figures(rows, part, shown, PRIMAL).values()]
        for part, language in LANGUAGES.items()
    }
    return Drawing(
        "degrees",
        at_places(["primal 1", 1, 2, 3, "RBF"], curves, "token accuracy", "degree"),
        "Accuracy on held-out words of five folds, with 95 % intervals; degree 1 is the dual fit by block-Jacobi",
    )


def differences_picture() -> Drawing:
    rows, shown = read_results(RESULT, EXPERIMENTS), CURVES[1:]
    curves = {
        language: [each["difference"] for each in figures(rows, part, shown, PRIMAL).values()]
        for part, language in LANGUAGES.items()
    }
    return Drawing(
        "differences",
        at_places([1, 2, 3, "RBF"], curves, "accuracy above primal degree 1", "degree"),
        "The same as paired differences to primal degree 1; an interval that holds 0 shows no difference",
    )


def models(part: str) -> str:
    lines = []
    for model, found in figures(read_results(RESULT, EXPERIMENTS), part, (*BASELINES, *CURVES), PRIMAL).items():
        rows = found["rows"]
        choices = Counter(choice(row) for row in rows if "kernel" in row)
        lines.append(
            [
                model,
                estimate(found["accuracy"]),
                points(found["difference"]) if "difference" in found else "",
                "; ".join(f"{text} ({times} of {len(rows)})" for text, times in choices.most_common()),
                f"{np.mean([row['fit_seconds'] for row in rows]):.1f} s" if choices else "",
                f"{np.mean([row['search_seconds'] for row in rows]):.0f} s" if choices else "",
            ]
        )
    return table(["model", "accuracy", "above primal degree 1, points", "chosen in the folds", "fit", "search"], lines)


def choice(row: dict) -> str:
    """Return the scales and prior variances of a field."""
    scales = " and ".join(f"gamma = {scale}" for scale in re.findall(r"gamma=([0-9.e-]+)", row["kernel"]))
    variances = np.atleast_1d(row["prior_variance"])
    shown = f"s = {' and '.join(f'{variance:g}' for variance in variances)}"
    return shown if not scales or row["model"] == DUAL else f"{scales}, {shown}"


def dual(part: str) -> str:
    """Return how block-Jacobi fitted the three degrees, fold by fold beside the fits whose minimum they share."""
    rows = [row for row in read_results(RESULT, EXPERIMENTS) if row["part"] == part]
    by_key = {key_of(row): row for row in rows}
    lines = []
    for model, other in TAKEN_FROM.items():
        own = [row for row in rows if row["model"] == model]
        if not own:
            continue
        pairs = [(by_key[part, other, row["fold"]], row) for row in own]
        apart = max(abs(row["objective"] / known["objective"] - 1) for known, row in pairs)
        same = np.concatenate([np.equal(unpacked(known), unpacked(row)) for known, row in pairs])
        steps, seconds = ([row[name] for row in own] for name in ("iterations", "fit_seconds"))
        lines.append(
            [
                model,
                f"{other}, {pairs[0][0]['solver']}",
                " or ".join(str(rank) for rank in sorted({row["rank"] for row in own})),
                f"{sum(row['reason'] == 'gap' for row in own)} of {len(own)}",
                f"{max(row['relative_gap'] for row in own):.1e}",
                f"{min(steps)} to {max(steps)}",
                f"{min(seconds):.0f} to {max(seconds):.0f} s",
                f"{apart:.1e}",
                percent(np.mean(same)),
            ]
        )
    heading = ["block-Jacobi", "beside", "rank", "gap of 1e-3 reached", "largest gap", "iterations", "fit"]
    return table([*heading, "objectives differ by a share of", "same labels"], lines)


def unpacked(row: dict) -> np.ndarray:
    """Return the labels of a row, end to end."""
    return np.frombuffer(zlib.decompress(base64.b64decode(row["labels"])), dtype=np.uint8)


def release_table() -> str:
    rows = read_results(RESULT, EXPERIMENTS)
    found = [figures(rows, f"release {n}", RELEASE_MODELS, "majority per word") for n in (2, 3)]
    lines = []
    for model in RELEASE_MODELS:
        cells = [
            (
                estimate(each[model]["accuracy"]),
                points(each[model]["difference"]) if "difference" in each[model] else "",
            )
            if model in each
            else ("", "")
            for each in found
        ]
        lines.append([model, *cells[0], *cells[1]])
    lines += [[f"*{name}*", percent(two), "", percent(three), ""] for name, (two, three) in PUBLISHED.items()]
    return table(["model", "two labels", "above majority per word", "three labels", "above majority per word"], lines)


def best(n: str) -> str:
    rows = read_results(RESULT, EXPERIMENTS)
    found = figures(rows, f"release {n}", RELEASE_MODELS[2:], "majority per word")
    model = max(found, key=lambda name: found[name]["accuracy"]["value"])
    row, accuracy = found[model]["rows"][0], found[model]["accuracy"]["value"]
    crf, bert = (PUBLISHED[name][int(n) - 2] for name in ("CRF (MarMoT), train-360", "BERT-base, train-360"))
    return (
        f"{'Two' if n == '2' else 'Three'} labels: *{model}* is best ({percent(accuracy)}; {choice(row)}, gap "
        f"{row['relative_gap']:.1e}, fit {row['fit_seconds']:.0f} s, search {row['search_seconds']:.0f} s), "
        f"{points(found[model]['difference'])} points above the majority per word. The published CRF has "
        f"{percent(crf)}, BERT {percent(bert)}."
    )


def kernels() -> str:
    rows, lines = read_results(RESULT, EXPERIMENTS), []
    for linear, others in (("linear", ("degree 2", "RBF")), ("linear, words", ("words + degree 2", "words + RBF"))):
        found = {n: figures(rows, f"release {n}", others, linear) for n in (2, 3)}
        said = [
            f"{model} {points(each['difference'])} ({'two' if n == 2 else 'three'} labels)"
            for n, by_model in found.items()
            for model, each in by_model.items()
        ]
        lines.append(f"Points above *{linear}* on the same words: {', '.join(said)}.")
    return "\n\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["figure", "afrikaans", "release"])
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(N_FOLDS)))
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 3], choices=[2, 3])
    parser.add_argument("--models", nargs="+", choices=sorted({*MODELS, *RELEASE_MODELS}))
    arguments = parser.parse_args()
    print(f"All of it took {took()} on two cores; --parts, --folds and --models choose.")
    for part in arguments.parts:
        known = RELEASE_MODELS if part == "release" else MODELS
        chosen = [model for model in known if model in (arguments.models or known)]
        if part == "release":
            for labels in arguments.labels:
                release(labels, chosen)
        else:
            cross_validate(part, arguments.folds, chosen)
    write_page("prominence")


if __name__ == "__main__":
    main()
