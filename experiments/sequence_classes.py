"""Segments of gesture videos as sequences: which phase is it? Hidden states against means of features and HMMs.

    python -m experiments.sequence_classes [--persons a b c] [--models "1 state" ...] [--page]

The seven Kinect videos of experiments/gestures.py are cut where the phase changes, and every second frame of a segment
is kept: 395 sequences of five classes. Each person is left out in turn. Frames are hands and wrists relative to the
spine, velocities and accelerations, standardised within each video, which uses no labels.

    1, 2, 3 states               SequenceClassifier, RBF kernel, rank 200
    3 states, kmeans             the same, beginning with clusters of the inputs and not with segments
    3 states, all transitions    the same, but states of two classes may be neighbours; such labellings are no class, so
                                 that p(c | x) is normalised over those that are
    means                        KernelClassifier on the mean of the frames
    means and deviations         KernelClassifier on mean and standard deviation of the frames and the log length
    HMM, 1 or 3 states           a GaussianHMM of hmmlearn for each class, diagonal covariances, and class frequencies

Prior variances are chosen inside the training people, each of whom is left out in turn; the number of states
is not chosen, both are shown. hmmlearn is not among our dependencies: without it those models are refused by name.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.preprocessing import StandardScaler

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import gesture_phases
from experiments.gestures import PERSONS, PHASES, frame_features
from experiments.result_pages import ResultPage, percent, points
from kernelfields import ChainCRF, KernelClassifier, SequenceClassifier
from kernelfields.evaluation.resampling import Resampling

RESULT = "sequence_classes.json"
KEYS = ("model", "person")
RANK = 200
STATES = {"1 state": 1, "2 states": 2, "3 states": 3, "3 states, kmeans": 3, "3 states, all transitions": 3}
MIXTURES = {"HMM, 1 state": 1, "HMM, 3 states": 3}
MEANS = ("means", "means and deviations")
MODELS = (*STATES, *MEANS, *MIXTURES)
VARIANCES = {model: [1.0, 10.0] if model in STATES else [1.0, 10.0, 100.0, 1000.0] for model in (*STATES, *MEANS)}
#: Predicts the classes of sequences, once fitted; ``score`` is the share that is right.
Predict = Callable[[list], np.ndarray]


class MixedStates(SequenceClassifier):
    """States of all classes may follow each other."""

    def _chain(self, X: Any, n_classes: int) -> ChainCRF:
        return super()._chain(X, n_classes).set_params(constraints=None)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the share of each class among labellings by states of one class."""
        lengths = [len(x) for x in X]
        totals = [
            self.estimator_.log_likelihood(X, self._states_of(np.full(len(X), first), lengths), per_item=True)
            for first in range(0, len(self.classes_) * self.n_states, self.n_states)
        ]
        return softmax(np.array(totals).T, axis=1)


def segments() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return frames of each segment (T, 44), its phase, and the person."""
    sequences, phases, persons = [], [], []
    for position, velocity, labels, video in zip(*gesture_phases(), strict=True):
        frames = frame_features(position, velocity)
        frames = (frames - frames.mean(axis=0)) / frames.std(axis=0)
        cuts = np.flatnonzero(labels[1:] != labels[:-1]) + 1
        for part, own in zip(np.split(frames, cuts), np.split(labels, cuts), strict=True):
            sequences.append(part[::2])
            phases.append(str(own[0]))
            persons.append(video[0])
    return sequences, np.array(phases), np.array(persons)


def summarised(X: list, model: str) -> np.ndarray:
    """Return one row for each sequence."""
    means = np.array([x.mean(axis=0) for x in X])
    if model == "means":
        return means
    return np.column_stack([means, [x.std(axis=0) for x in X], [np.log(len(x)) for x in X]])


def fit(model: str, variance: float | None, X: list, y: np.ndarray) -> Predict:
    """Return what predicts classes."""
    if model in MIXTURES:
        return fit_mixtures(MIXTURES[model], X, y)
    if model in STATES:
        scale = np.sqrt(X[0].shape[1])
        kind = MixedStates if model.endswith("all transitions") else SequenceClassifier
        start = "kmeans" if model.endswith("kmeans") else "segments"
        settings: dict[str, Any] = {"rank": RANK, "scale": False, "prior_variance": variance, "random_state": 0}
        states = kind("rbf", n_states=STATES[model], init=start, **settings)
        states.fit([x / scale for x in X], y)
        return lambda new: states.predict([x / scale for x in new])
    scaler = StandardScaler().fit(summarised(X, model))
    plain = KernelClassifier("rbf", rank=RANK, prior_variance=variance, random_state=0)
    plain.fit(scaler.transform(summarised(X, model)), y)
    return lambda new: plain.predict(scaler.transform(summarised(new, model)))


def fit_mixtures(n_states: int, X: list, y: np.ndarray) -> Predict:
    """Fit a hidden Markov model to each class; the class is the one under which a sequence is most likely."""
    from hmmlearn.hmm import GaussianHMM  # type: ignore[import-not-found]

    classes, counts = np.unique(y, return_counts=True)
    models: list[Any] = []
    for phase in classes:
        own = [x for x, label in zip(X, y, strict=True) if label == phase]
        mixture = GaussianHMM(n_states, covariance_type="diag", n_iter=50, random_state=0)
        models.append(mixture.fit(np.concatenate(own), [len(x) for x in own]))
    prior = np.log(counts / counts.sum())
    return lambda new: classes[
        np.argmax([[each.score(x) for each in models] + prior for x in new], axis=1)  # (sequences, classes)
    ]


def run(model: str, person: str) -> dict:
    """Choose, fit and test with one person left out."""
    begin = time.perf_counter()
    X, y, persons = segments()

    def right(variance: float | None, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        predict = fit(model, variance, [X[i] for i in train], y[train])
        return predict([X[i] for i in test]) == y[test]

    train, test = np.flatnonzero(persons != person), np.flatnonzero(persons == person)
    chosen = None
    if model not in MIXTURES:
        inner = [(train[persons[train] != each], train[persons[train] == each]) for each in np.unique(persons[train])]
        scores = [np.mean([right(variance, *parts).mean() for parts in inner]) for variance in VARIANCES[model]]
        chosen = VARIANCES[model][int(np.argmax(scores))]
    return {
        "model": model,
        "person": person,
        "prior_variance": chosen,
        "right": right(chosen, train, test).astype(int).tolist(),
        "seconds": time.perf_counter() - begin,
    }


def page() -> None:
    """Write docs/results/sequence_classes.md from the JSON."""
    rows = read_results(RESULT, EXPERIMENTS)
    by_model = {
        model: sorted((row for row in rows if row["model"] == model), key=lambda row: row["person"]) for model in MODELS
    }
    done = {model: found for model, found in by_model.items() if len(found) == len(PERSONS)}
    if "3 states" not in done:
        print("no page yet: it compares with the classifier of three hidden states")
        return
    right = {model: np.concatenate([row["right"] for row in found]) for model, found in done.items()}
    resampling = Resampling(10_000, random_state=0)
    shares = resampling.sums(right)
    count = len(right["3 states"])
    sheet = ResultPage(
        "sequence_classes",
        "Classes of whole sequences",
        command="kernelfields reproduce sequence_classes",
        seconds=sum(row["seconds"] for row in rows),
    )
    sheet.text(
        f"Seven Kinect videos of three people, cut into {count} segments where the gesture phase changes; each segment "
        f"is {', '.join(PHASES[:-1])} or {PHASES[-1]}. Each person is left out in turn. `SequenceClassifier` has "
        "hidden states for every class; `KernelClassifier` sees the mean of the frames, or mean, deviation and log "
        "length; hmmlearn fits a Gaussian hidden Markov model to each class."
    )
    table = []
    for model, found in done.items():
        value = resampling.estimate(shares[model] / count, count)
        gain = resampling.estimate((shares["3 states"] - shares[model]) / count, count)
        table.append(
            [
                model,
                percent(value.value, (value.low or 0.0, value.high or 0.0)),
                "" if model == "3 states" else points(gain.to_dict()),
                *(percent(np.mean(row["right"])) for row in found),
            ]
        )
    sheet.table(["model", "accuracy", "3 states against it, points", *(f"person {p}" for p in PERSONS)], table)
    others = [model for model in done if model != "3 states"]
    ends = {model: resampling.estimate((shares["3 states"] - shares[model]) / count, count) for model in others}
    sheet.text(
        "Intervals are 95 %, from resampling segments, the same ones for both models; segments of one person resemble "
        "each other, so that for a fourth person they are too narrow. Against three hidden states: "
        + "; ".join(f"{model} is {_verdict(ends[model])}" for model in others)
        + f". These are {len(others)} comparisons, not corrected for their number."
    )
    missing = [model for model in MODELS if model not in done]
    chosen = [
        f"{model} " + ", ".join(f"{row['prior_variance']:g}" for row in found)
        for model, found in done.items()
        if found[0]["prior_variance"] is not None
    ]
    sheet.text(
        "Every second frame of a segment is kept. Frames are standardised within each video, which looks at test "
        f"frames but at no labels. Prior variances are chosen by the accuracy on each training person in turn, out of "
        f"{_listed(VARIANCES['1 state'])} for hidden states and {_listed(VARIANCES['means'])} for means, whose first "
        "grid was that of the states and was widened because every choice was at its end, after test figures had been "
        "seen: "
        f"{'; '.join(chosen)}. The RBF kernels have their usual scale; "
        "numbers of states were not chosen, and models of hmmlearn have its defaults but for diagonal covariances "
        "and 50 iterations." + (f" Not measured: {', '.join(missing)}." if missing else "")
    )
    sheet.write()


def _listed(numbers: list[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


def _verdict(gain: Any) -> str:
    if gain.low > 0:
        return "worse"
    return "better" if gain.high < 0 else "neither better nor worse as far as these data show"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--persons", nargs="+", default=list(PERSONS), choices=PERSONS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--page", action="store_true", help="only renew the page from the results")
    arguments = parser.parse_args()
    for model in [] if arguments.page else arguments.models:
        for person in arguments.persons:
            row = run(model, person)
            merge_results(RESULT, [row], KEYS, EXPERIMENTS)
            print(f"{model} without {person}: {percent(np.mean(row['right']))}, {row['seconds']:.0f} s", flush=True)
    page()


if __name__ == "__main__":
    main()
