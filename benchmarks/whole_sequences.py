"""Classes of whole sequences: hidden states, and summaries in a KernelClassifier or a forest.

    python -m benchmarks.whole_sequences [--rows "summaries, auto" forest ...]

Seven Kinect videos of three people are cut where the gesture phase changes, and every second frame is kept: 395
segments, each of which is rest, preparation, stroke, hold or retraction. Frames are standardised within each video,
which looks at no labels. Each person is left out in turn. All rows have their defaults but for a kernel that
they name; summaries are those of ``SequenceSummaries()``. Printed are the share of right segments of each person and of
all, and CPU seconds; they go to benchmarks/results/whole_sequences.json.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from benchmarks.result_files import merge_results
from benchmarks.shared_data import gesture_phases
from experiments.gestures import PERSONS, frame_features
from kernelfields import KernelClassifier, SequenceClassifier
from kernelfields.features import SequenceSummaries

ROWS: dict[str, Callable[[], Any]] = {
    "forest on summaries": lambda: make_pipeline(SequenceSummaries(), RandomForestClassifier(300, random_state=0)),
    "summaries, auto": lambda: make_pipeline(SequenceSummaries(), KernelClassifier(scale=True, random_state=0)),
    "summaries, laplacian": lambda: make_pipeline(
        SequenceSummaries(), KernelClassifier("laplacian", scale=True, random_state=0)
    ),
    "hidden states": lambda: SequenceClassifier(n_states=3, random_state=0),
    "default": lambda: SequenceClassifier(random_state=0),
}


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    X, y, persons = segments()
    for name in parser.parse_args().rows:
        begin, right = time.process_time(), np.zeros(len(y), dtype=bool)
        for person in PERSONS:
            train, test = np.flatnonzero(persons != person), np.flatnonzero(persons == person)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = ROWS[name]().fit([X[i] for i in train], y[train])
            right[test] = model.predict([X[i] for i in test]) == y[test]
        shares = {person: round(float(right[persons == person].mean()), 4) for person in PERSONS}
        found = {"row": name, "accuracy": round(float(right.mean()), 4), **shares}
        found["cpu_seconds"] = round(time.process_time() - begin, 1)
        print(found, flush=True)
        merge_results("whole_sequences.json", [found], ("row",))


if __name__ == "__main__":
    main()
