"""Where the real data sets are, and how to read them as sequences.

The folder is taken from the environment variable KERNELFIELDS_DATA, else ../shared/data beside the checkout.
Each reader raises DataMissing, saying so, when its files are not there.
"""

from __future__ import annotations

import gzip
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse

SETTING = "KERNELFIELDS_DATA"


class DataMissing(RuntimeError):
    """A data set that a benchmark or test asked for is not on this machine."""


def data_folder() -> Path:
    """Return the folder of the data sets, whether it exists or not."""
    given = os.environ.get(SETTING)
    return Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"


def data_file(*parts: str) -> Path:
    """Return the path of a data file, or raise DataMissing."""
    path = data_folder().joinpath(*parts)
    if not path.exists():
        raise DataMissing(f"{path} is not there; set {SETTING} to the folder that holds {parts[0]}")
    return path


def ocr_letters() -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Return the words of OCR letters: pixels (T, 128) float32, labels (T,) as letters, fold of each word."""
    with np.load(data_file("ocr-letters", "letters.npz"), allow_pickle=False) as archive:
        pixels = archive["pixels"].astype(np.float32)
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))[archive["label"]]
        offsets, fold = archive["offsets"], archive["fold"]
    cuts = offsets[1:-1]
    return np.split(pixels, cuts), np.split(letters, cuts), fold


def gpstruct_task(name: str) -> tuple[list, list[np.ndarray], np.ndarray]:
    """Return a GPstruct task: CSR features and labels per sequence, and the five split permutations."""
    with np.load(data_file("gpstruct-nlp", f"{name}.npz"), allow_pickle=False) as archive:
        indices, indptr = archive["indices"], archive["indptr"]
        n_features, offsets = int(archive["n_features"]), archive["offsets"]
        labels, split = archive["label"].astype(np.int64), archive["split"]
    values = np.ones(len(indices))
    rows = scipy.sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, n_features))
    sequences = [rows[a:b] for a, b in pairwise(offsets)]
    return sequences, np.split(labels, offsets[1:-1]), split


def token_columns(*parts: str) -> list[list[list[str]]]:
    """Return a token file as sequences of rows of columns; lines that begin with "# id" are skipped."""
    sequences: list[list[list[str]]] = []
    rows: list[list[str]] = []
    with gzip.open(data_file(*parts), "rt", encoding="utf-8") as lines:
        for line in lines:
            columns = line.rstrip("\n").split("\t")
            if len(columns) > 1:
                rows.append(columns)
            elif not columns[0] and rows:
                sequences.append(rows)
                rows = []
    return [*sequences, rows] if rows else sequences


def sequence_identifiers(*parts: str) -> list[str]:
    """Return the identifiers of a token file's sequences, from its lines "# id = ..."."""
    with gzip.open(data_file(*parts), "rt", encoding="utf-8") as lines:
        return [line.split("=", 1)[1].strip() for line in lines if line.startswith("# id =")]


def gesture_phases() -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray], list[str]]:
    """Return positions (T, 18), velocities (T, 32) and label names (T,) of each video, and the videos' names.

    Positions are x, y, z of left hand, right hand, head, spine, left wrist, right wrist.
    """
    with np.load(data_file("gesture-phase", "gesture_phase.npz"), allow_pickle=False) as archive:
        cuts = archive["offsets"][1:-1]
        labels = archive["label_names"][archive["label"]]
        parts = [np.split(each, cuts) for each in (archive["position"], archive["velocity"], labels)]
        return *parts, archive["video"].tolist()


def protein_profiles(part: str) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return log-odds scores (T, 20), observed shares (T, 20), both float32, and labels C, H, E of each protein.

    ``part`` is "train" or "blind".
    """
    with np.load(data_file("jpred4-pssm", f"{part}.npz"), allow_pickle=False) as archive:
        cuts = archive["offsets"][1:-1]
        scores = archive["pssm"].astype(np.float32)
        observed = archive["observed_pct"].astype(np.float32) / 100
        labels = np.array(list("CHE"))[archive["label"]]
    return np.split(scores, cuts), np.split(observed, cuts), np.split(labels, cuts)


def multilabel_set(name: str) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], list[str]]:
    """Return (X, Y) of the training part and of the test part, Y of 0 and 1, and the names of the labels."""
    with np.load(data_file("multilabel", f"{name}.npz"), allow_pickle=False) as archive:
        train, test = (
            (archive[f"x_{part}"].astype(np.float64), archive[f"y_{part}"].astype(np.int64))
            for part in ("train", "test")
        )
        return train, test, archive["label_names"].tolist()
