"""Gesture phases by segments: a semi-Markov field against a chain on the same features, each person left out in turn.

    python -m experiments.segments [--persons a b c] [--fields chain segments means] [--page]

Features, kernel and prior variance are those that experiments/gestures.py chose for the chain with an RBF kernel, by
cross-validation between the training people. How to decode (as a whole, or frame by frame) is chosen for both fields in
the same way, and for segments the prior variances of nodes and durations as well. The third field adds means over
segments to the second as it was chosen: the same kernel, its prior variance chosen alike. Writes
docs/results/segments.md.
"""

from __future__ import annotations

import argparse
import os
import time
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import gesture_phases
from experiments.gestures import FAMILIES, PERSONS, RANK, SELECTION_RANK, frame_features, views
from experiments.kernel_families import accuracy_of, pack_right, paired, unpack_right, verdict
from experiments.result_pages import ResultPage, percent, points
from kernelfields import ChainCRF, DurationCliques, EdgeCliques, SegmentCliques, SegmentCRF
from kernelfields.fields.segments import begins_of, bounds_of
from kernelfields.kernels import Kernel
from kernelfields.numerics.threads import available_cores

RESULTS = "segments.json"
#: Prior variances of the nodes, as parts of the chain's, and of the durations.
NODE_SHARES, DURATION_VARIANCES = (1 / 3, 1.0), (0.3, 3.0)
#: Prior variances of means over segments.
MEAN_VARIANCES = (1.0, 10.0)
DECODINGS = ("viterbi", "posterior")
#: Fields by their short names.
FIELDS = {"chain": "chain", "segments": "segments", "means": "segments and means"}
#: Segments count as found if they overlap a true one of their label by so much of what the two cover.
OVERLAP = 0.5


def segments_of(labels: np.ndarray) -> list[tuple[int, int, Any]]:
    """Return the runs of equal labels as (begin, end, label)."""
    begins, ends = bounds_of(begins_of(np.asarray(labels), np.array([0, len(labels)])))
    return [(int(begin), int(end), labels[begin]) for begin, end in zip(begins, ends, strict=True)]


def found_segments(true: np.ndarray, guessed: np.ndarray, overlap: float = OVERLAP) -> tuple[int, int, int]:
    """Return how many segments are found, guessed and true; every true one is found once at most."""
    left, hits = segments_of(true), 0
    n_true, guesses = len(left), segments_of(guessed)
    for begin, end, label in guesses:
        shares = [
            max(0, min(end, e) - max(begin, b)) / (max(end, e) - min(begin, b)) if label == own else 0.0
            for b, e, own in left
        ]
        if shares and max(shares) >= overlap:
            hits += 1
            del left[int(np.argmax(shares))]
    return hits, len(guesses), n_true


def f1_of(counts: Any) -> float:
    """Return F1 of (found, guessed, true) counts, summed over rows."""
    found, guessed, true = np.sum(np.atleast_2d(counts), axis=0)
    return float(2 * found / (guessed + true))


def candidates(field: str, chain: dict) -> list[tuple[dict, Any]]:
    """Return what is to be chosen from for a field: words for it, and the estimator."""
    kernel = next(each for family in FAMILIES for each in family.kernels if repr(each) == chain["kernel"])
    variance = chain["prior_variance"]
    shared = {"edges": EdgeCliques(prior_variance=10.0), "random_state": 0}
    if field == "chain":
        return [({"prior_variance": variance}, ChainCRF(kernel, prior_variance=variance, **shared))]
    if field == "segments":
        grid = [
            {"prior_variance": share * variance, "duration_prior_variance": duration}
            for share, duration in product(NODE_SHARES, DURATION_VARIANCES)
        ]
    else:
        chosen = row_of("segments.json", field="segments", person=chain["person"])
        kept = {name: chosen[name] for name in ("prior_variance", "duration_prior_variance")}
        grid = [{**kept, "segment_prior_variance": own} for own in MEAN_VARIANCES]
    return [(words, segment_field(kernel, words).set_params(**shared)) for words in grid]


def segment_field(kernel: Kernel, words: dict) -> SegmentCRF:
    """Return a field of segments with the prior variances that words name; with means if these have one."""
    durations = DurationCliques(prior_variance=words["duration_prior_variance"])
    own = words.get("segment_prior_variance")
    segments = None if own is None else SegmentCliques(kernel, prior_variance=own)
    return SegmentCRF(kernel, prior_variance=words["prior_variance"], durations=durations, segments=segments)


def row_of(name: str, **keys: str) -> dict:
    """Return the stored result that has some values."""
    rows = read_results(name, EXPERIMENTS)
    return next(row for row in rows if all(row[key] == value for key, value in keys.items()))


def choose(options: list[tuple[dict, Any]], X: list, y: list, people: list[str]) -> tuple[dict, Any, str, float]:
    """Return the option and decoding with the highest accuracy on training people who are left out in turn."""
    best: tuple[dict, Any, str, float] | None = None
    for words, estimator in options:
        right, total = dict.fromkeys(DECODINGS, 0), 0
        for person in sorted(set(people)):
            inside = [i for i, own in enumerate(people) if own != person]
            outside = [i for i, own in enumerate(people) if own == person]
            model = clone(estimator).set_params(rank=SELECTION_RANK, tol=1e-2, max_iter=300)
            model.fit([X[i] for i in inside], [y[i] for i in inside])
            total += sum(len(y[i]) for i in outside)
            for decode in DECODINGS:
                guesses = model.predict([X[i] for i in outside], decode)
                right[decode] += sum(int(np.sum(np.asarray(g) == y[i])) for g, i in zip(guesses, outside, strict=True))
        for decode in DECODINGS:
            if best is None or right[decode] / total > best[3]:
                best = words, estimator, decode, right[decode] / total
    assert best is not None
    return best


def run(person: str, field: str) -> dict:
    """Choose, fit and test a field with the videos of ``person`` left out."""
    positions, velocities, y, names = gesture_phases()
    videos = [frame_features(*pair) for pair in zip(positions, velocities, strict=True)]
    train = [i for i, name in enumerate(names) if name[0] != person]
    test = [i for i, name in enumerate(names) if name[0] == person]
    chain = row_of("gestures.json", family="RBF", person=person)
    X, y = views(videos, train)[chain["view"]], [np.asarray(each) for each in y]
    people = [names[i][0] for i in train]
    begin = time.perf_counter()
    options = candidates(field, chain)
    words, estimator, decode, score = choose(options, [X[i] for i in train], [y[i] for i in train], people)
    chosen = time.perf_counter()
    model = clone(estimator).set_params(rank=RANK, decode=decode)
    model.fit([X[i] for i in train], [y[i] for i in train])
    fitted = time.perf_counter()
    truth = [y[i] for i in test]
    by_decoding = {
        each: [np.asarray(guess) for guess in model.predict([X[i] for i in test], each)] for each in DECODINGS
    }
    return {
        "person": person,
        "field": field,
        "view": chain["view"],
        "kernel": chain["kernel"],
        **words,
        "decode": decode,
        "cv_accuracy": score,
        "selection_seconds": chosen - begin,
        "fit_seconds": fitted - chosen,
        # The mean number of processes that wanted a core.
        "beside_other_work": os.getloadavg()[1] > 2 * available_cores(),
        "relative_gap": model.certificate_.relative_gap,
        "log_likelihood": model.log_likelihood([X[i] for i in test], truth) / sum(map(len, truth)),
        "right": {each: pack_right(truth, guesses) for each, guesses in by_decoding.items()},
        "found": {
            each: [found_segments(t, g) for t, g in zip(truth, guesses, strict=True)]
            for each, guesses in by_decoding.items()
        },
    }


def page() -> None:
    """Write docs/results/segments.md from the JSON."""
    rows = read_results(RESULTS, EXPERIMENTS)
    by_field = {
        field: sorted((row for row in rows if row["field"] == field), key=lambda row: row["person"])
        for field in FIELDS.values()
    }
    if any(len(found) < len(PERSONS) for found in by_field.values()):
        print("no page yet: it needs all fields, tested on every person")
        return
    seconds = sum(row["selection_seconds"] + row["fit_seconds"] for row in rows)
    sheet = ResultPage(
        "segments", "Gesture phases by segments", command="python -m experiments.segments", seconds=seconds
    )
    n_videos = sum(len(unpack_right(row["right"]["viterbi"])) for row in by_field["chain"])
    sheet.text(
        f"The {n_videos} videos, features and folds of [gestures](gestures.md): each of {len(PERSONS)} people is left "
        "out in turn. `ChainCRF` and `SegmentCRF` have the RBF kernel and the features that were chosen for the chain "
        "between the training people; decoding, and the prior variances of segments, are chosen there as well. "
        "Segments and means have the same kernel between whole segments besides (`segments=SegmentCliques(...)`), and "
        "its prior variance is chosen, all else being that of segments. A "
        f"segment is found if its label is right and it shares {OVERLAP:.0%} of what it and a true one cover together."
    )
    right = {name: _chosen(found, "right") for name, found in by_field.items()}
    hits = {name: _chosen(found, "found") for name, found in by_field.items()}
    gains = {name: paired(right["chain"], right[name])["accuracy"] for name in by_field if name != "chain"}
    sheet.table(
        ["field", "frame accuracy", "against the chain, points", *(f"person {p}" for p in PERSONS), "segment F1"],
        [
            [
                name,
                percent(*_figures(accuracy_of(right[name])["accuracy"])),
                "" if name == "chain" else points(gains[name]),
                *(percent(_accuracy(row, row["decode"])) for row in found),
                percent(f1_of(hits[name])),
            ]
            for name, found in by_field.items()
        ],
    )
    for name, gain in gains.items():
        low, high = _interval_of_f1(hits["chain"], hits[name])
        sheet.text(
            f"In frames, {name} against the chain: {verdict(gain)}, by a paired interval from resampling the "
            f"{n_videos} videos; that of the difference in segment F1 is {100 * low:+.1f} to {100 * high:+.1f} points."
        )
    sheet.text(
        f"{n_videos} videos of {len(PERSONS)} people say little about a fourth. One trial of chain and segments, "
        "fitted to person b and tested on person c, came before the grid was settled."
    )
    sheet.heading("Both decodings")
    sheet.text(
        "Of the same fits: labels of the best segmentation or labelling as a whole, and of each frame by itself."
    )
    sheet.table(
        ["field", "decoding", "frame accuracy", "segment F1", "log-likelihood of a test frame"],
        [
            [
                name,
                decode,
                percent(_pooled(found, decode)),
                percent(f1_of([each for row in found for each in row["found"][decode]])),
                f"{np.mean([row['log_likelihood'] for row in found]):.3f}",
            ]
            for name, found in by_field.items()
            for decode in DECODINGS
        ],
    )
    if any(np.isneginf(row["log_likelihood"]) for row in by_field["segments"]):
        sheet.text(
            "A likelihood is zero where a test person holds a phase longer than the longest segment that the field "
            "knows, by default twice the longest of the training people."
        )
    ends = sum(row["duration_prior_variance"] == max(DURATION_VARIANCES) for row in by_field["segments"])
    sheet.heading("What was chosen")
    sheet.text(
        f"{ends} of {len(PERSONS)} prior variances of durations are at the upper end of the two that were tried."
    )
    if busy := sorted({row["field"] for row in rows if row.get("beside_other_work")}):
        sheet.text(f"Seconds of {', '.join(busy)} were measured beside other work of the machine: they are too many.")
    sheet.table(
        [
            "field",
            "person left out",
            "features",
            "kernel",
            "prior variance",
            "of durations",
            "of means",
            "decoding",
            "fit, seconds",
        ],
        [
            [
                name,
                row["person"],
                row["view"],
                f"`{row['kernel']}`",
                f"{row['prior_variance']:g}",
                *(
                    f"{row[part]:g}" if part in row else ""
                    for part in ("duration_prior_variance", "segment_prior_variance")
                ),
                row["decode"],
                f"{row['fit_seconds']:.1f}",
            ]
            for name, found in by_field.items()
            for row in found
        ],
    )
    sheet.write()


def _chosen(rows: list[dict], name: str) -> list:
    """Return what the chosen decodings gave for each video."""
    parts = [row[name][row["decode"]] for row in rows]
    return [each for part in parts for each in (unpack_right(part) if name == "right" else part)]


def _accuracy(row: dict, decode: str) -> float:
    return float(np.concatenate(unpack_right(row["right"][decode])).mean())


def _pooled(rows: list[dict], decode: str) -> float:
    return float(np.concatenate([each for row in rows for each in unpack_right(row["right"][decode])]).mean())


def _figures(figure: dict) -> tuple[float, tuple[float, float]]:
    return figure["value"], (figure["low"], figure["high"])


def _interval_of_f1(first: list, second: list, n_draws: int = 2000) -> tuple[float, float]:
    """Return a paired 95 % interval of the difference in segment F1, from resampling the videos."""
    random = np.random.default_rng(0)
    draws = random.integers(len(first), size=(n_draws, len(first)))
    one, other = np.array(first), np.array(second)
    low, high = np.quantile([f1_of(other[draw]) - f1_of(one[draw]) for draw in draws], [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--persons", nargs="+", default=list(PERSONS), choices=PERSONS)
    parser.add_argument("--fields", nargs="+", default=list(FIELDS), choices=FIELDS)
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    for person, name in [] if arguments.page else product(arguments.persons, arguments.fields):
        row = run(person, FIELDS[name])
        merge_results(RESULTS, [row], ("field", "person"), EXPERIMENTS)
        print(
            f"{row['field']} without {person}: {percent(_accuracy(row, row['decode']))}, {row['decode']}, segment "
            f"F1 {percent(f1_of(row['found'][row['decode']]))}, fit {row['fit_seconds']:.1f} s",
            flush=True,
        )
    page()


if __name__ == "__main__":
    main()
