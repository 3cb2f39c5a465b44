"""Listeners who mark prominent words: confusions of listeners fitted with the field, against training on a vote.

    python -m experiments.annotators [--languages afrikaans isizulu setswana] [--folds 0 1 2] [--page | --passes]

Lwazi2: two listeners (Afrikaans, isiZulu) or three (Setswana) for every word, each says marked or not. What is judged
is what the data have: log p(what all listeners said | words) of held-out utterances. Fields are linear in the features
of experiments/prominence_features.py over a window of five words.

    annotators       AnnotatedCRF: field and confusions together, from a vote, without folds (cv=None)
    vote             the field is fitted to the label that most listeners gave, "marked" or "not marked" in a tie, as a
                     person would who has no annotator model; afterwards, with this field as it is, confusions are
                     estimated on the training utterances by the same steps and with the same prior as above

    one listener     the same with the labels of one listener in the place of a vote, the one under whom the held-out
                     part of the training utterances is most likely

so all are models of all listeners with the same parameters. Three folds over utterances. The prior variance is chosen
for each of them inside its training utterances, on a fifth of these, by the same log-likelihood of all listeners.
Intervals: 95 %, from resampling utterances, the same ones for both models.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import cohen_kappa_score
from sklearn.model_selection import KFold

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import token_columns
from experiments.prominence_features import AFRIKAANS, AFRIKAANS_ENDINGS, Lexicon, Sentence
from experiments.result_pages import ResultPage
from kernelfields import AnnotatedCRF, ChainCRF, EdgeCliques
from kernelfields.annotators.annotations import read_annotations
from kernelfields.annotators.confusions import Confusions, prior_counts
from kernelfields.evaluation.resampling import Resampling

RESULT = "annotators.json"
KEYS = ("language", "model", "fold")
N_FOLDS = 3
FOLDS = KFold(N_FOLDS, shuffle=True, random_state=0)
VARIANCES = [0.03, 0.3, 3.0]
ANNOTATORS, ONE = "annotators", "one listener"
TIES = {"vote, ties marked": 1, "vote, ties not marked": 0}
#: File, column of the word, of its tag, of the punctuation after it, and of the listeners.
LANGUAGES: dict[str, tuple[str, int, int | None, int, tuple[int, ...]]] = {
    "afrikaans": ("afr.tsv.gz", 1, 2, 3, (4, 5)),
    "isizulu": ("zul.tsv.gz", 1, None, 2, (3, 4)),
    "setswana": ("tsn.tsv.gz", 1, None, 2, (3, 4, 5)),
}
FIELD = ChainCRF("linear", window=5, edges=EdgeCliques(prior_variance=1.0), scale=False, random_state=0)
IN_SAMPLE: dict[str, Any] = {"cv": None, "init": "vote", "max_steps": 100}
#: Updates of confusions while a field that was fitted to a vote stays as it is.
UPDATES = 100


def utterances(language: str) -> tuple[list[Sentence], list[np.ndarray]]:
    """Return the utterances, and (words, listeners) whether each listener marked each word."""
    file, word, tag, mark, listeners = LANGUAGES[language]
    sentences, said = [], []
    for rows in token_columns("lwazi2-prominence", file):
        after = ["" if row[mark] == "_" else row[mark][:1] for row in rows]
        tags = None if tag is None else [row[tag] for row in rows]
        marks = np.array([[int(row[place]) > 0 for place in listeners] for row in rows], dtype=np.int64)
        words = [row[word] for row in rows]
        sentences.append(Sentence(words, ["", *after[:-1]], after, tags, marks[:, 0]))
        said.append(marks)
    return sentences, said


def voted(said: list[np.ndarray], tie: int) -> list[np.ndarray]:
    """Return the label that most listeners gave, ``tie`` where as many gave one as the other."""
    shares = [marks.mean(axis=1) for marks in said]
    return [np.where(share == 0.5, tie, share > 0.5).astype(np.int64) for share in shares]


def models_of(language: str) -> list[str]:
    """Return the models to compare; three listeners never tie."""
    return [ANNOTATORS, *(TIES if len(LANGUAGES[language][4]) % 2 == 0 else ["vote"]), ONE]


def candidates(language: str, model: str) -> list[tuple[float, int | None]]:
    """Return prior variances, and listeners where one of them is followed, to choose from."""
    listeners = range(len(LANGUAGES[language][4])) if model == ONE else [None]
    return [(variance, listener) for listener in listeners for variance in VARIANCES]


def fit(model: str, choice: tuple[float, int | None], X: list, said: list[np.ndarray]) -> AnnotatedCRF:
    """Return a field with confusions of all listeners."""
    variance, listener = choice
    both = AnnotatedCRF(clone(FIELD).set_params(prior_variance=variance), **IN_SAMPLE)
    if model == ANNOTATORS:
        return both.fit(X, said)
    labels = voted(said, TIES.get(model, 0)) if listener is None else [marks[:, listener] for marks in said]
    both.estimator_ = clone(both.estimator).fit(X, labels)
    confusions = listeners_of(both, X, said)
    both.annotators_ = confusions.annotations.annotators
    both.confusions_ = dict(zip(both.annotators_, confusions.matrices, strict=True))
    return both


def listeners_of(model: AnnotatedCRF, X: list, said: list[np.ndarray]) -> Confusions:
    """Return the confusions that are best for a fitted field, which stays as it is."""
    annotations = read_annotations(said, classes=model.estimator_.classes_)
    confusions = Confusions(annotations, prior_counts(*model.prior, len(annotations.classes)))
    [answers] = model.estimator_._answers(X)
    for _ in range(UPDATES):
        confusions.update(answers.given(confusions.log_evidence()).marginals)
    return confusions


def run(language: str, folds: list[int], models: list[str] | None) -> None:
    """Choose, fit and test fold by fold; every row is written when it is there."""
    sentences, said = utterances(language)
    words = (AFRIKAANS, AFRIKAANS_ENDINGS) if language == "afrikaans" else ({}, "")
    for fold, (train, test) in enumerate(FOLDS.split(sentences)):
        if fold not in folds:
            continue
        lexicon = Lexicon([sentences[i] for i in train], *words)
        X = [lexicon.describe(sentences[i], counted=True) for i in train]
        X_test = [lexicon.describe(sentences[i]) for i in test]
        z, z_test = [said[i] for i in train], [said[i] for i in test]
        inner = np.random.default_rng(fold).permutation(len(X))
        held, kept = inner[: len(X) // 5], inner[len(X) // 5 :]
        for model in models_of(language):
            if models is not None and model not in models:
                continue
            begin = time.perf_counter()
            scores = [
                fit(model, choice, [X[i] for i in kept], [z[i] for i in kept]).log_likelihood(
                    [X[i] for i in held], [z[i] for i in held]
                )
                for choice in candidates(language, model)
            ]
            chosen = candidates(language, model)[int(np.argmax(scores))]
            fitted = fit(model, chosen, X, z)
            log_likelihoods = fitted.log_likelihood(X_test, z_test, per_item=True)
            row = {
                "language": language,
                "model": model,
                "fold": fold,
                "prior_variance": chosen[0],
                "listener": chosen[1],
                "seconds": time.perf_counter() - begin,
                "log_likelihoods": np.round(log_likelihoods, 6).tolist(),
                "confusions": [matrix.tolist() for matrix in fitted.confusions_.values()],
                "rises": float(np.diff(fitted.objective_path_).max()) if model == ANNOTATORS else None,
            }
            merge_results(RESULT, [row], KEYS, EXPERIMENTS)
            mean = log_likelihoods.sum() / sum(map(len, X_test))
            print(f"{language} fold {fold}, {model}: {mean:.4f} a word, {chosen}, {row['seconds']:.0f} s", flush=True)


def count_passes(language: str = "afrikaans", n_utterances: int = 660) -> None:
    """Print how many passes over the features a fit takes: to a vote, and with confusions."""
    sentences, said = utterances(language)
    lexicon = Lexicon(sentences[:n_utterances], AFRIKAANS, AFRIKAANS_ENDINGS)
    X, z = [lexicon.describe(each, counted=True) for each in sentences[:n_utterances]], said[:n_utterances]
    for variance in VARIANCES:
        field = clone(FIELD).set_params(prior_variance=variance)
        vote = clone(field).fit(X, voted(z, 1)).solution_
        both = AnnotatedCRF(field, **IN_SAMPLE).fit(X, z)
        joint = both.estimator_.solution_
        print(
            f"s={variance:g}: {vote.passes:.0f} passes to a vote ({vote.solver}), {joint.passes:.0f} with confusions, "
            f"{len(both.objective_path_) - 1} steps"
        )


def pooled(rows: list[dict], language: str, model: str) -> np.ndarray:
    """Return the log-likelihood of every utterance, each held out once."""
    own = {row["fold"]: row["log_likelihoods"] for row in rows if (row["language"], row["model"]) == (language, model)}
    values = np.empty(sum(map(len, own.values())))
    for fold, (_, test) in enumerate(FOLDS.split(values)):
        values[test] = own[fold]
    return values


def page() -> None:
    """Write docs/results/annotators.md from the JSON."""
    rows = read_results(RESULT, EXPERIMENTS)
    done = [
        language
        for language in LANGUAGES
        if sum(row["language"] == language for row in rows) == N_FOLDS * len(models_of(language))
    ]
    sheet = ResultPage(
        "annotators",
        "Several listeners, one field",
        command="kernelfields reproduce annotators",
        seconds=sum(row["seconds"] for row in rows),
    )
    sheet.text(
        "In Lwazi2 two or three listeners say for every word whether they heard it as prominent, and they differ. "
        "`AnnotatedCRF` fits the field and a confusion matrix for each listener together. The usual way is to take a "
        "vote first and to fit a field to its labels. Both are judged by the log-likelihood of what *all* listeners "
        "said of held-out utterances, in nats for each word. The field of the vote gets confusions too, or it would "
        "give no likelihood to listeners who differ: with the field as it is, they are estimated on the training "
        "utterances by the same steps and with the same prior. Where two listeners tie, the vote can be read in two "
        "ways; both are shown. *One listener* is a field fitted to the labels of one listener in the same way, the "
        "listener chosen inside the training utterances."
    )
    table = []
    verdicts = []
    for language in done:
        ours, words = pooled(rows, language, ANNOTATORS), np.array([len(each) for each in utterances(language)[1]])
        table.append([language, ANNOTATORS, len(ours), f"{int(words.sum()):,}", f"{ours.sum() / words.sum():.4f}", ""])
        for model in models_of(language)[1:]:
            theirs = pooled(rows, language, model)
            sums = Resampling(10_000, random_state=0).sums({"gain": ours - theirs, "words": words})
            gain = Resampling(10_000, random_state=0).estimate(sums["gain"] / sums["words"], len(ours))
            mean = f"{theirs.sum() / words.sum():.4f}"
            table.append([language, model, "", "", mean, f"{gain:+.4f}"])
            verdicts.append((language, model, gain))
    sheet.table(["language", "model", "utterances", "words", "log-likelihood a word", "gain of annotators"], table)
    sheet.text(
        "Gains are of the annotator model over that row, with 95 % intervals from resampling utterances, the same for "
        "both. "
        + " ".join(f"{language.capitalize()}, {model}: {verdict(gain)}." for language, model, gain in verdicts)
        + f" These are {len(verdicts)} comparisons, not corrected for their number."
    )
    sheet.heading("What the listeners are like")
    sheet.text(
        "How much listeners agree beyond chance (Cohen's kappa, all utterances): "
        + "; ".join(f"{language} {agreement(language)}" for language in done)
        + "."
    )
    sheet.text(
        "Confusions of the annotator model, the mean over folds: how often a listener says 'marked' of a word that is "
        "prominent, and of one that is not. Prominent is what the model makes of it: a label that explains the "
        "listeners. Where these hardly agree, the label that explains most is that of the listener whom the text "
        "predicts best, and a row below shows it: one listener says 'marked' of nearly all prominent words and of no "
        "others, and for another the two columns are about alike. A higher likelihood of all listeners is then no "
        "better idea of what is prominent; it says that a vote among them is a worse one."
    )
    listeners = []
    for language in done:
        matrices = np.mean([r["confusions"] for r in rows if (r["language"], r["model"]) == (language, ANNOTATORS)], 0)
        for number, matrix in enumerate(matrices, 1):
            listeners.append([language, f"listener {number}", f"{matrix[1, 1]:.2f}", f"{matrix[0, 1]:.2f}"])
    sheet.table(["language", "", "says 'marked' if prominent", "says 'marked' if not"], listeners)
    sheet.heading("How it was done")
    sheet.text(
        f"{N_FOLDS} folds over utterances. Fields are linear, over a window of five words, in the features of "
        "`experiments/prominence_features.py` (for isiZulu and Setswana those that need no lists of function words); "
        "transitions have a prior variance of 1. The prior variance of the features is chosen for each model and fold "
        f"out of {', '.join(f'{v:g}' for v in VARIANCES)}, on a fifth of the training utterances, by the "
        "log-likelihood of all listeners there; chosen were "
        + ", ".join(f"{v:g} ({sum(row['prior_variance'] == v for row in rows)} times)" for v in VARIANCES)
        + ". A first run of one fold of Afrikaans had chosen the largest of 0.003, 0.03 and 0.3 for every model, and "
        "the grid was moved up by a factor of ten. The rows of one listener were added after test figures of the "
        "others had been seen; nothing else was changed then."
    )
    sheet.write()


def agreement(language: str) -> str:
    """Return the kappa of every pair of listeners."""
    marks = np.concatenate(utterances(language)[1])
    pairs = combinations(range(marks.shape[1]), 2)
    return ", ".join(f"{cohen_kappa_score(marks[:, a], marks[:, b]):.2f}" for a, b in pairs)


def verdict(gain: Any) -> str:
    """Say what an interval shows."""
    if gain.low > 0:
        return "the annotator model is better"
    return "the other is better" if gain.high < 0 else "no difference that the data show"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", nargs="+", default=list(LANGUAGES), choices=list(LANGUAGES))
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(N_FOLDS)))
    parser.add_argument("--models", nargs="+", choices=[ANNOTATORS, *TIES, "vote", ONE])
    parser.add_argument("--page", action="store_true", help="only renew the page from the results")
    parser.add_argument("--passes", action="store_true", help="only print what a fit costs")
    arguments = parser.parse_args()
    if arguments.passes:
        count_passes()
        return
    for language in [] if arguments.page else arguments.languages:
        run(language, arguments.folds, arguments.models)
    page()


if __name__ == "__main__":
    main()
