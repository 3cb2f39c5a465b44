"""Prominence of words (the paper's Figure 1): kernels of degree 1, 2, 3 and RBF, on English and Afrikaans.

    python -m experiments.prominence [--parts figure afrikaans release] [--folds 0 1 ...] [--models "degree 2" ...]
    python -m experiments.prominence --page

*figure*: 500 English sentences, *afrikaans*: all 1002 utterances; a window of five words, five folds over
sentences, two labels. *release*: all sentences of release/dev for training, release/test for the test, two and
three labels. Kernel scale and prior variance are chosen by cross-validation inside the training sentences: with
folds of sentences for the first two parts, of speakers for the last. Labels are posterior-decoded. The grids were
laid with 500 other English sentences, and for *release* with a quarter of the training speakers held out.
"""

from __future__ import annotations

import argparse
import base64
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
from experiments.prominence_features import Lexicon, Sentence, WordIndicators
from experiments.prominence_page import SCALES, VARIANCES, write_page
from kernelfields import ChainCRF, EdgeCliques
from kernelfields.kernels import Columns
from kernelfields.kernels.dot_product import Linear, Polynomial
from kernelfields.kernels.stationary import RBF
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
#: Kernels and prior variances that cross-validation chooses from.
FAMILIES: dict[str, tuple[list, list[float]]] = {
    "primal degree 1": (["linear"], [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]),
    "degree 2": ([Polynomial(2, gamma=gamma, coef0=1.0) for gamma in SCALES], VARIANCES),
    "degree 3": ([Polynomial(3, gamma=gamma, coef0=1.0) for gamma in SCALES], VARIANCES),
    "RBF": ([RBF(gamma) for gamma in (0.0003, 0.001, 0.003, 0.01)], [1.0, 3.0, 10.0, 30.0, 100.0]),
}
#: The model of "primal degree 1" in the basis of its kernel, by the paper's solver; it takes over the variance.
DUAL = "dual degree 1"
MODELS = (*BASELINES, "primal degree 1", DUAL, "degree 2", "degree 3", "RBF")
RELEASE_MODELS = (*BASELINES, "linear", "degree 2", "RBF", "linear, words", "words + degree 2", "words + RBF")


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
        keep(common, "truth", [np.minimum(sentence.labels, 1) for sentence in held], indices=test.tolist())
        for model in models:
            if model in BASELINES:
                keep(common, model, baseline(model, known, held, 1))
            else:
                fitted, notes = dual_fit(part, fold, X, y) if model == DUAL else search(model, X, y)
                keep(common, model, fitted.predict(X_held, decode="posterior"), **notes, **described(fitted))


def search(model: str, X: list, y: list) -> tuple[ChainCRF, dict]:
    """Choose kernel scale and prior variance at a lower rank, then fit at the full one."""
    kernels, variances = FAMILIES[model]
    field = ChainCRF(window=5, rank=SEARCH_RANK, **COMMON)
    chooser = ChainCRFCV(
        field, kernels=kernels, prior_variances=variances, cv=3, extend=False, refit=False, random_state=0
    )
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


def dual_fit(part: str, fold: int, X: list, y: list) -> tuple[ChainCRF, dict]:
    """Fit the model of the primal in the span of its kernel by block-Jacobi, with all directions there are."""
    [primal] = [row for row in read_results(RESULT, EXPERIMENTS) if key_of(row) == (part, "primal degree 1", fold)]
    kernel = Polynomial(1, gamma=1.0, coef0=0.0)
    dual = ChainCRF(kernel, window=5, rank=None, solver="block-jacobi", **COMMON)
    dual.set_params(prior_variance=primal["prior_variance"])
    begin = time.perf_counter()
    with warnings.catch_warnings():
        # Whether the gap was reached is one of the results.
        warnings.simplefilter("ignore", ConvergenceWarning)
        dual.fit(X, y)
    return dual, {"search_seconds": 0.0, "fit_seconds": time.perf_counter() - begin}


def key_of(row: dict) -> tuple:
    return tuple(row[key] for key in KEYS)


def release(labels: int, models: list[str]) -> None:
    """Fit to all training sentences and predict the test sentences, with two or three labels."""
    known, held = features.english_sentences("dev"), features.english_sentences("test")
    most = labels - 1
    common = {"part": f"release {labels}", "fold": 0}
    keep(common, "truth", [np.minimum(sentence.labels, most) for sentence in held])
    fields = [model for model in models if model not in BASELINES]
    for model in models:
        if model in BASELINES:
            keep(common, model, baseline(model, known, held, most))
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
            min_sequences=400,
            extend=False,
            refit=False,
            random_state=0,
        )
        fitted, notes = chosen_fit(chooser, X, y, speakers, None if model.startswith("linear") else some)
        keep(common, model, fitted.predict(X_held, decode="posterior"), **notes, **described(fitted))


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
        "solver": solution.solver,
        "reason": solution.reason,
        "iterations": solution.iterations,
        "relative_gap": solution.relative_gap,
        "objective": solution.value,
    }


def keep(common: dict, model: str, labels: list[np.ndarray], **notes: object) -> None:
    """Write a row with its labels: compressed, one byte each, with the lengths of the sentences for the truth."""
    packed = np.concatenate(labels).astype(np.uint8).tobytes()
    row = {**common, "model": model, **notes, "labels": base64.b64encode(zlib.compress(packed, 9)).decode()}
    if model == "truth":
        row["lengths"] = [len(each) for each in labels]
    merge_results(RESULT, [row], KEYS, EXPERIMENTS)
    shown = {name: value for name, value in row.items() if name not in ("labels", "lengths", "indices")}
    print(shown, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["figure", "afrikaans", "release"])
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(N_FOLDS)))
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 3], choices=[2, 3])
    parser.add_argument("--models", nargs="+", choices=sorted({*MODELS, *RELEASE_MODELS}))
    parser.add_argument("--page", action="store_true", help="only renew the page from the results")
    arguments = parser.parse_args()
    for part in [] if arguments.page else arguments.parts:
        known = RELEASE_MODELS if part == "release" else MODELS
        models = [model for model in known if model in (arguments.models or known)]
        if part == "release":
            for labels in arguments.labels:
                release(labels, models)
        else:
            cross_validate(part, arguments.folds, models)
    write_page(read_results(RESULT, EXPERIMENTS))


if __name__ == "__main__":
    main()
