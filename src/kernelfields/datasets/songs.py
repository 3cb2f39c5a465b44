"""Songs: chords that lead back to a key, and the heard notes of each chord."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelfields.datasets.bundle import check_counts, pack_sequences

_TRIADS = {"maj": (0, 4, 7), "min": (0, 3, 7)}
#: Degrees of the key that may follow each other.
_STEPS = {0: (5, 7, 9), 5: (7, 0), 7: (0, 9), 9: (5, 2), 2: (7,)}


def make_songs(
    n_songs: int = 20,
    *,
    keys: Sequence[int] = range(12),
    n_events: int = 24,
    random_state: int | np.random.Generator | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Make songs: chords that lead back to a key, and the heard notes, out of twelve, of each chord.

    A chord is written "0:maj" to "11:min". The columns are the twelve notes, one of ten of them wrong, the lowest of
    them, and the duration. Songs in another key are the same with all notes moved. The set is made: it has no source.

    Parameters
    ----------
    n_songs : int, default 20
        How many songs.
    keys : sequence of int, default range(12)
        The keys to draw from; 0 is C.
    n_events : int, default 24
        How many chords a song has.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each chord.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (n_events, 25), ``target`` a list of lists of chords.

    Examples
    --------
    >>> from kernelfields.datasets import make_songs
    >>> X, y = make_songs(2, keys=[0], random_state=0, return_X_y=True)
    >>> X[0].shape, y[0][:3]
    ((24, 25), ['0:maj', '7:maj', '9:min'])
    """
    check_counts(n_songs=n_songs, n_events=n_events)
    random = np.random.default_rng(random_state)
    X, y = [], []
    for _ in range(n_songs):
        key, rows, chords, degree = int(random.choice(list(keys))), [], [], 0
        for _ in range(n_events):
            mode = "min" if degree in (2, 9) else "maj"
            root = (key + degree) % 12
            sounding = np.zeros(12)
            sounding[[(root + interval) % 12 for interval in _TRIADS[mode]]] = 1.0
            heard = np.where(random.random(12) < 0.1, 1.0 - sounding, sounding)
            bass = np.eye(12)[(root + random.choice(_TRIADS[mode])) % 12]
            rows.append([*heard, *bass, random.choice([0.5, 1.0])])
            chords.append(f"{root}:{mode}")
            degree = int(random.choice(_STEPS[degree]))
        X.append(np.array(rows))
        y.append(chords)
    notes = [*(f"note {k}" for k in range(12)), *(f"bass {k}" for k in range(12)), "duration"]
    names: dict[str, Any] = {"sequence": "song", "features": notes, "target": "chord"}
    return pack_sequences(make_songs, X, y, **names, return_X_y=return_X_y, as_frame=as_frame)
