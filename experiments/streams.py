"""Accuracy against the lag of a stream: gesture phases and the occupancy of a room, labelled while they come.

    python -m experiments.streams [--sets gestures occupancy] [--page]

*Gestures*: each person is left out in turn; a frame is seen by itself, hands and wrists relative to the spine and the
velocities that come with the data, scaled by the training people. *Occupancy*: temperature, humidity, CO2 and humidity
ratio of an office once a minute, without the light, which gives it away; fitted to the first stretch of days, tested on
the two others. Fields are ChainCRF's defaults: RBF, prior variance by short fits on the training data. Nothing was
chosen by test data. The sequence is pushed into streams of several lags; "all" is the answer given the whole sequence.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.result_files import EXPERIMENTS, merge_results, read_results
from benchmarks.shared_data import data_file, gesture_phases
from experiments.gestures import PERSONS, frame_features
from experiments.pictures import lag_plot
from experiments.result_pages import ResultPage
from kernelfields import ChainCRF

LAGS = (0, 1, 2, 5, 10, 20, 50, 100, 200, np.inf)
RANK = 500
FILE = "streams.json"
Parts = Iterator[tuple[str, list, list, list, list]]


def gestures() -> Parts:
    """Yield the name of the person left out, and training and test sequences."""
    positions, velocities, y, names = gesture_phases()
    videos = [frame_features(*pair) for pair in zip(positions, velocities, strict=True)]
    for person in PERSONS:
        train = [i for i, name in enumerate(names) if name[0] != person]
        test = [i for i, name in enumerate(names) if name[0] == person]
        X, labels = ([each[i] for i in train] for each in (videos, y))
        yield f"person {person}", X, labels, [videos[i] for i in test], [y[i] for i in test]


def occupancy() -> Parts:
    """Yield the minutes of the office, without the light."""
    with np.load(data_file("occupancy", "occupancy.npz"), allow_pickle=False) as archive:
        kept = [i for i, name in enumerate(archive["feature_names"].tolist()) if "light" not in name.lower()]
        X, y = ([archive[f"{kind}_{part}"] for part in ("train", "test1", "test2")] for kind in ("x", "y"))
    X = [each[:, kept].astype(np.float64) for each in X]
    yield "days", X[:1], y[:1], X[1:], y[1:]


def lag_name(lag: float) -> str:
    """Return what tables call a lag."""
    return "all" if lag == np.inf else str(int(lag))


SETS = {"gestures": gestures, "occupancy": occupancy}


def rows_of(name: str) -> list[dict]:
    """Return right labels and positions of each part, lag and decoding."""
    rows = []
    for part, X, y, X_test, y_test in SETS[name]():
        begin = time.perf_counter()
        crf = ChainCRF("rbf", rank=RANK, scale=True, random_state=0).fit(X, y)
        fit_seconds = time.perf_counter() - begin
        for decode in ("posterior", "viterbi"):
            for lag in LAGS:
                right, begin = 0, time.perf_counter()
                for x, labels in zip(X_test, y_test, strict=True):
                    stream = crf.stream(lag, decode=decode)
                    answers = [*stream.push(x).labels, *stream.end().labels]
                    right += int(np.sum(np.array(answers) == labels))
                rows.append(
                    {"set": name, "part": part, "decode": decode, "lag": lag_name(lag)}
                    | {"right": right, "positions": sum(map(len, y_test)), "prior_variance": crf.prior_variance_}
                    | {"fit_seconds": fit_seconds, "seconds": time.perf_counter() - begin}
                )
                print(rows[-1], flush=True)
    return rows


def accuracies(rows: list[dict], decode: str) -> dict[str, list[float]]:
    """Return the accuracy of each lag, of all parts together and, if there are several, of each."""
    chosen = [row for row in rows if row["decode"] == decode]
    parts = sorted({row["part"] for row in chosen})
    groups = {"all parts" if len(parts) > 1 else decode: parts}
    groups |= {part: [part] for part in parts} if len(parts) > 1 else {}
    lags = [lag_name(lag) for lag in LAGS]
    return {
        name: [_share([row for row in chosen if row["lag"] == lag and row["part"] in group]) for lag in lags]
        for name, group in groups.items()
    }


def _share(rows: list[dict]) -> float:
    return sum(row["right"] for row in rows) / sum(row["positions"] for row in rows)


def write_page() -> None:
    """Write the page from the results."""
    rows = read_results(FILE, EXPERIMENTS)
    fits = {(row["set"], row["part"]): row["fit_seconds"] for row in rows}
    seconds = sum(fits.values()) + sum(row["seconds"] for row in rows)
    page = ResultPage("streams", "Streams", command="python -m experiments.streams", seconds=seconds)
    page.text(
        "Positions are pushed into a stream one after the other, and each is labelled when `lag` more have come: lag 0 "
        'labels by the past alone, "all" is the answer given the whole sequence. decode="posterior" takes the most '
        'probable label, decode="viterbi" what all survivors have in common, or the best of them after `lag`. Fields '
        f"have the defaults of ChainCRF, rank {RANK}; no window looks ahead, and nothing was chosen by test data."
    )
    lags = [lag_name(lag) for lag in LAGS]
    titles = {"gestures": "Gesture phases, each person left out in turn", "occupancy": "Occupancy of an office"}
    for name, title in titles.items():
        found = [row for row in rows if row["set"] == name]
        if not found:
            continue
        page.heading(title)
        curves = {decode: accuracies(found, decode) for decode in ("posterior", "viterbi")}
        page.table(
            ["decode", "", *(f"lag {lag}" for lag in lags)],
            [
                [decode, "" if part == decode else part, *(f"{100 * share:.1f}" for share in shares)]
                for decode, parts in curves.items()
                for part, shares in parts.items()
            ],
        )
        drawn = {decode: next(iter(parts.values())) for decode, parts in curves.items()}
        positions = sum({row["part"]: row["positions"] for row in found}.values())
        page.text(f"Per cent of {positions:,} positions that are right.")
        page.picture(
            name,
            lag_plot([int(lag) if lag.isdigit() else lag for lag in lags], drawn, name="accuracy"),
            f"Accuracy against the lag, {name}",
        )
    page.write()


def main() -> None:
    """Run the sets that are asked for and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--page", action="store_true", help="only write the page from the results")
    arguments = parser.parse_args()
    for name in [] if arguments.page else arguments.sets:
        merge_results(FILE, rows_of(name), ("set", "part", "decode", "lag"), EXPERIMENTS)
    write_page()


if __name__ == "__main__":
    main()
