"""Prominence of words with vectors of a pretrained encoder: kernels of degree 1, 2, 3 and RBF, our features beside.

    python -m experiments.prominence_embeddings [--parts figure release] [--models ...] [--labels 2 3] [--tuned FOLDER]

*figure*: the paper's Figure 1 again, on the 500 English sentences and five folds of experiments/prominence.py, with the
principal components of word vectors, all layers, in place of hand-made features. *release*: all of release/dev for
training, release/test for the test; kernels on vectors alone, then beside the dense features of five words and the
sparse indicators of experiments/prominence_features.py. --tuned names the folder with the outputs that
experiments/tuned_encoder.py of commit 48b1fa7 wrote: models whose name begins with "tuned" see those of five words.
--preliminary names the encoder that the same script tuned on preliminary/train, which has none of the sentences here:
models whose name begins with "preliminary" see its vectors.

Kernel scale and prior variances are chosen on training data by the log-likelihood: for *figure* by cross-validation in
each fold, for *release* on the sentences of ten of the forty training speakers, with two labels; three labels take the
same. Labels are posterior-decoded. Rows are written when they are there, with their labels.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold

from benchmarks.result_files import EXPERIMENTS, read_results
from benchmarks.shared_data import token_columns
from experiments import prominence_features as features
from experiments.prominence import N_FOLDS, described, figures, keep, sentences_of
from experiments.prominence_features import Lexicon, Sentence, WordIndicators
from experiments.result_pages import estimate, points, table, write_page
from experiments.word_vectors import ENCODER, Reduction, word_vectors
from kernelfields import ChainCRF, EdgeCliques, NodeCliques
from kernelfields.features import window_view
from kernelfields.kernels import RBF, Columns, Kernel, Linear, Polynomial
from kernelfields.selection import ChainCRFCV

RESULT = "prominence_embeddings.json"
COMMON = {"tol": 1e-3, "max_iter": 500, "random_state": 0}
N_COMPONENTS = 200
SEARCH_RANK, FIGURE_RANK, RANK = 500, 1000, 2000
SEARCH_SENTENCES = 1900
#: Kernels on vectors of mean square length 1, and prior variances, that are chosen from.
FAMILIES: dict[str, tuple[list[Kernel], list[float]]] = {
    "degree 1": ([Polynomial(1, gamma=1.0, coef0=1.0)], [0.1, 0.3, 1.0, 3.0, 10.0]),
    "degree 2": ([Polynomial(2, gamma=gamma, coef0=1.0) for gamma in (0.3, 1.0)], [0.1, 0.3, 1.0, 3.0]),
    "degree 3": ([Polynomial(3, gamma=gamma, coef0=1.0) for gamma in (0.3, 1.0)], [0.03, 0.1, 0.3, 1.0]),
    "RBF": ([RBF(gamma) for gamma in (0.15, 0.5, 1.5)], [1.0, 3.0, 10.0, 30.0]),
}
#: For each model of "release", the candidates: kernel and prior variance by block of columns.
_FEATURES = {"features": (RBF(0.5), 3.0), "words": (Linear(), 0.02)}
_VECTORS = [(RBF(gamma), variance) for gamma in (0.15, 0.5) for variance in (3.0, 10.0)]
_TUNED = [(Linear(), 0.1), (Linear(), 1.0), (RBF(0.15), 10.0)]
RELEASE: dict[str, list[dict[str, tuple[Kernel, float]]]] = {
    **{
        f"vectors, {family}": [{"vectors": (kernel, s)} for kernel in kernels for s in variances]
        for family, (kernels, variances) in FAMILIES.items()
    },
    "features, words": [_FEATURES],
    "preliminary": [{"vectors": each} for each in [(Linear(), 1.0), (Linear(), 10.0), *_VECTORS]],
    "preliminary, features, words": [{"vectors": each, **_FEATURES} for each in [(Linear(), 1.0), *_VECTORS]],
    "vectors, features, words": [{"vectors": each, **_FEATURES} for each in _VECTORS],
    "tuned": [{"tuned": each} for each in _TUNED],
    "tuned, features, words": [{"tuned": each, **_FEATURES} for each in _TUNED],
    "tuned, vectors, features, words": [{"tuned": each, "vectors": _VECTORS[1], **_FEATURES} for each in _TUNED],
}


def labelled_vectors(part: str) -> list[np.ndarray]:
    """Return the vectors of the words that have a label; all tokens are context."""
    rows = token_columns("helsinki-prosody", "release", f"{part}.tsv.gz")
    vectors = word_vectors([[row[0] for row in sentence] for sentence in rows])
    known = [np.array([row[1] != "NA" for row in sentence]) for sentence in rows]
    return [each[chosen] for each, chosen in zip(vectors, known, strict=True)]


def figure(folds: list[int], families: list[str]) -> None:
    """Fit and predict fold by fold, on vectors alone."""
    everything = {sentence.identifier: i for i, sentence in enumerate(features.english_sentences("dev"))}
    vectors = labelled_vectors("dev")
    sentences = sentences_of("figure")
    own = [vectors[everything[sentence.identifier]] for sentence in sentences]
    for fold, (train, test) in enumerate(KFold(N_FOLDS, shuffle=True, random_state=0).split(sentences)):
        if fold not in folds:
            continue
        reduction = Reduction([own[i] for i in train], N_COMPONENTS)
        X, X_held = ([reduction.reduce(own[i]) for i in part] for part in (train, test))
        y, y_held = ([np.minimum(sentences[i].labels, 1) for i in part] for part in (train, test))
        keep(RESULT, {"part": "figure", "fold": fold}, "truth", y_held)
        for family in families:
            begin = time.perf_counter()
            kernels, variances = FAMILIES[family]
            chooser = ChainCRFCV(
                ChainCRF(rank=SEARCH_RANK, edges=EdgeCliques(prior_variance=1.0), **COMMON),
                kernels=kernels,
                prior_variances=variances,
                cv=3,
                refit=False,
                random_state=0,
            ).fit(X, y)
            best = clone(chooser.estimator).set_params(**{**chooser.best_params_, "rank": FIGURE_RANK}).fit(X, y)
            notes = {**described(best), "seconds": time.perf_counter() - begin}
            keep(RESULT, {"part": "figure", "fold": fold}, family, best.predict(X_held, decode="posterior"), **notes)


class Blocks:
    """Inputs of sentences in blocks of columns: vectors, features, outputs of a tuned encoder, words."""

    def __init__(self, training: list[Sentence], vectors: list[np.ndarray], tuned: bool):
        self._lexicon = Lexicon(training, features.ENGLISH, features.ENGLISH_ENDINGS)
        self._indicators = WordIndicators(training)
        self._reduction = Reduction(vectors, N_COMPONENTS)
        self._tuned = tuned
        self.columns: dict[str, tuple[int, int | None]] = {}

    def join(
        self, sentences: list[Sentence], vectors: list[np.ndarray], tuned: list[np.ndarray], counted: np.ndarray
    ) -> list:
        """Return a CSR array for each sentence; ``counted`` says which are part of the training text."""
        offsets = np.concatenate([[0], np.cumsum([len(each.words) for each in sentences])])
        described = zip(sentences, counted, strict=True)
        table = np.vstack([self._lexicon.describe(each, counted=bool(own)) for each, own in described])
        blocks = {
            "vectors": np.concatenate([self._reduction.reduce(each) for each in vectors]),
            "features": window_view(table / np.sqrt(5 * table.shape[1]), offsets, 5),
        }
        if self._tuned:
            outputs = np.concatenate(tuned).astype(np.float32)
            # A column of ones shows where the sentence ends.
            blocks["tuned"] = window_view(np.hstack([outputs / 4, np.ones((len(outputs), 1))]), offsets, 5)
        ends = np.cumsum([0, *(block.shape[1] for block in blocks.values())]).tolist()
        self.columns = {**dict(zip(blocks, pairwise(ends), strict=True)), "words": (ends[-1], None)}
        words = sp.vstack([self._indicators.describe(each) for each in sentences], format="csr")
        parts = [sp.csr_array(block.astype(np.float32)) for block in blocks.values()]
        rows = sp.csr_array(sp.hstack([*parts, words.astype(np.float32)], format="csr"))
        return [rows[a:b] for a, b in pairwise(offsets.tolist())]

    def field(self, candidate: dict[str, tuple[Kernel, float]], rank: int) -> ChainCRF:
        """Return the field of a candidate: a clique set for each block, and a transition matrix."""
        cliques: list = [
            NodeCliques(Columns(kernel, *self.columns[block]), prior_variance=variance, rank=rank, name=block)
            for block, (kernel, variance) in candidate.items()
        ]
        return ChainCRF(cliques=[*cliques, EdgeCliques(prior_variance=1.0)], **COMMON)


def tuned_outputs(folder: Path | None, part: str) -> list[np.ndarray]:
    """Return the outputs of a tuned encoder for the words that have a label; none without a folder."""
    if folder is None:
        return []
    rows = token_columns("helsinki-prosody", "release", f"{part}.tsv.gz")
    known = [np.array([row[1] != "NA" for row in sentence]) for sentence in rows]
    outputs = np.load(folder / f"prominence-{part}.npy", allow_pickle=False)
    split = np.split(outputs, np.cumsum([len(each) for each in known])[:-1])
    return [each[chosen] for each, chosen in zip(split, known, strict=True)]


def release(models: list[str], n_labels: list[int], tuned: Path | None) -> None:
    """Choose on training speakers, fit to all training sentences, predict the test sentences."""
    known, held = features.english_sentences("dev"), features.english_sentences("test")
    vectors, outputs = labelled_vectors("dev"), tuned_outputs(tuned, "dev")
    chosen = {model: choice(model, known, vectors, outputs) for model in models}
    blocks = Blocks(known, vectors, tuned is not None)
    X = blocks.join(known, vectors, outputs, np.ones(len(known), dtype=bool))
    new = (labelled_vectors("test"), tuned_outputs(tuned, "test"), np.zeros(len(held), dtype=bool))
    X_held = blocks.join(held, *new)
    for labels in n_labels:
        common = {"part": f"release {labels}", "fold": 0}
        keep(RESULT, common, "truth", [np.minimum(sentence.labels, labels - 1) for sentence in held])
        y = [np.minimum(sentence.labels, labels - 1) for sentence in known]
        for model in models:
            begin = time.perf_counter()
            field = blocks.field(chosen[model], RANK).fit(X, y)
            notes = {"candidate": repr(chosen[model]), "gap": field.solution_.relative_gap}
            predicted = field.predict(X_held, decode="posterior")
            keep(RESULT, common, model, predicted, **notes, seconds=time.perf_counter() - begin)


def choice(
    model: str, sentences: list[Sentence], vectors: list[np.ndarray], outputs: list[np.ndarray]
) -> dict[str, tuple[Kernel, float]]:
    """Return the candidate with the highest log-likelihood on sentences of speakers that were left out."""
    candidates = RELEASE[model]
    if len(candidates) == 1:
        return candidates[0]
    random = np.random.default_rng(0)
    speakers = np.array([sentence.identifier.partition("_")[0] for sentence in sentences])
    apart = np.isin(speakers, random.permutation(np.unique(speakers))[:10])
    train = np.sort(random.permutation(np.flatnonzero(~apart))[:SEARCH_SENTENCES])
    some = np.concatenate([train, np.flatnonzero(apart)])
    blocks = Blocks([sentences[i] for i in train], [vectors[i] for i in train], bool(outputs))
    parts = ([sentences[i] for i in some], [vectors[i] for i in some], [outputs[i] for i in some] if outputs else [])
    X = blocks.join(*parts, np.arange(len(some)) < len(train))
    y = [np.minimum(sentences[i].labels, 1) for i in some]
    n_words = sum(map(len, y[len(train) :]))
    found = []
    for candidate in candidates:
        field = blocks.field(candidate, SEARCH_RANK).fit(X[: len(train)], y[: len(train)])
        found.append(field.log_likelihood(X[len(train) :], y[len(train) :]) / n_words)
        print(f"  {model}: {candidate}: {found[-1]:.5f}", flush=True)
    return candidates[int(np.argmax(found))]


def figure_table() -> str:
    found = figures(read_results(RESULT, EXPERIMENTS), "figure", tuple(FAMILIES), "degree 1")
    lines = [
        [name, estimate(each["accuracy"]), points(each["difference"]) if "difference" in each else ""]
        for name, each in found.items()
    ]
    return table(["kernel", "accuracy", "above degree 1"], lines)


def release_table() -> str:
    rows = read_results(RESULT, EXPERIMENTS)
    two, three = (figures(rows, f"release {labels}", tuple(RELEASE), "features, words") for labels in (2, 3))
    lines = [
        [
            name,
            estimate(each["accuracy"]),
            points(each["difference"]) if "difference" in each else "",
            estimate(three[name]["accuracy"]),
        ]
        for name, each in two.items()
    ]
    return table(["inputs", "two labels", "above features and words", "three labels"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["figure", "release"], choices=["figure", "release"])
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(N_FOLDS)))
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 3], choices=[2, 3])
    parser.add_argument("--models", nargs="+", choices=sorted({*FAMILIES, *RELEASE}))
    parser.add_argument("--tuned", type=Path)
    parser.add_argument("--preliminary", type=Path)
    arguments = parser.parse_args()
    if arguments.preliminary:
        os.environ[ENCODER] = str(arguments.preliminary)
    kinds = {"tuned": arguments.tuned, "preliminary": arguments.preliminary}
    usual = [name for name in RELEASE if kinds.get(name.partition(",")[0], not arguments.preliminary)]
    wanted = arguments.models or [*FAMILIES, *usual]
    if "figure" in arguments.parts:
        figure(arguments.folds, [name for name in FAMILIES if name in wanted])
    if "release" in arguments.parts:
        release([name for name in RELEASE if name in wanted], arguments.labels, arguments.tuned)
    write_page("embeddings")


if __name__ == "__main__":
    main()
