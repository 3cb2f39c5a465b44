"""Sensors: a room with people, a simulated accelerometer and wrist band, states that last, and circles."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from kernelfields.datasets.bundle import check_counts, pack_sequences, read_file

#: Samples of the accelerometer in a second.
_RATE = 20
#: How far an acceleration swings, and steps in a second.
_SWING = {"sit": 0.1, "walk": 0.7, "stairs": 0.8}
_PACE = {"sit": 0.3, "walk": 1.8, "stairs": 1.4}
#: Heart rate and speed of the wrist band.
_TYPICAL = {"rest": [60.0, 0.0], "walk": [95.0, 5.0], "run": [150.0, 11.0]}
_START = np.datetime64("2024-01-01T08:00:00")
_ROOM = (
    *(f"temperature {k}" for k in range(1, 5)),
    *(f"light {k}" for k in range(1, 5)),
    *(f"sound {k}" for k in range(1, 5)),
    *("CO2", "CO2 slope", "motion 6", "motion 7"),
)


def load_rooms(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load seven days of a room: sixteen sensors, and the number of people in it, 0 to 3.

    Temperature, light and sound at four places, CO2, and motion at two, every two minutes: every fourth row of the
    source, whose rows with gaps at the end of a day are left out. ``seconds`` counts from the first row of a day.

    Source: Room Occupancy Estimation, UCI Machine Learning Repository (A. P. Singh, V. Jain, S. Chaudhari, F. A.
    Kraemer, S. Werner, V. Garg. Machine Learning-Based Occupancy Estimation Using Multivariate Sensor Nodes. IEEE
    Globecom Workshops 2018). Licence: CC BY 4.0.

    Parameters
    ----------
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each two minutes.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (n, 16), ``target`` a list of lists of numbers of people.

    See Also
    --------
    make_activity : Several persons, with time stamps.

    Examples
    --------
    >>> from kernelfields.datasets import load_rooms
    >>> X, y = load_rooms(return_X_y=True)
    >>> [len(day) for day in X], X[0].shape[1]
    ([324, 686, 266, 399, 266, 247, 262], 16)
    """
    rows = [line.split("\t") for line in read_file("rooms.tsv.gz").splitlines()]
    days = [list(own) for _, own in groupby(rows, key=lambda row: row[0])]
    X = [np.array([row[2:-1] for row in day], dtype=float) for day in days]
    y = [[int(row[-1]) for row in day] for day in days]
    seconds = [[int(row[1]) for row in day] for day in days]
    names: dict[str, Any] = {"sequence": "day", "features": _ROOM, "target": "people", "columns": {"seconds": seconds}}
    return pack_sequences(load_rooms, X, y, **names, return_X_y=return_X_y, as_frame=as_frame)


def make_activity(
    n_persons: int = 6,
    n_recordings: int = 3,
    n_seconds: int = 80,
    *,
    random_state: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Make recordings of an accelerometer worn by several persons who sit, walk, and climb stairs.

    An acceleration swings with the steps, at a pace and a strength of each person's own, under noise: 20 samples in a
    second. A position is a second, described by the mean and the standard deviation of its samples and by the mean
    change from one to the next. Activities last 5 to 19 seconds. The set is made: it has no source.

    Parameters
    ----------
    n_persons : int, default 6
        How many persons.
    n_recordings : int, default 3
        How many recordings of each person.
    n_seconds : int, default 80
        The length of a recording.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each second and the time of each in ``time``.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (n, 3), ``target`` a list of lists of "sit", "walk" and "stairs", ``groups`` has
        the person of each recording, ``signals`` the samples and ``times`` the times of the seconds.

    See Also
    --------
    load_rooms : A real recording.

    Examples
    --------
    >>> from kernelfields.datasets import make_activity
    >>> made = make_activity(random_state=0)
    >>> len(made.data), made.data[0].shape, made.groups[:4]
    (18, (80, 3), ['person 1', 'person 1', 'person 1', 'person 2'])
    >>> make_activity(2, 1, 3, random_state=0, as_frame=True).frame[["person", "time", "activity"]]
         person                time activity
    0  person 1 2024-01-01 08:00:00      sit
    1  person 1 2024-01-01 08:00:01      sit
    2  person 1 2024-01-01 08:00:02      sit
    3  person 2 2024-01-02 08:00:00   stairs
    4  person 2 2024-01-02 08:00:01   stairs
    5  person 2 2024-01-02 08:00:02   stairs
    """
    check_counts(n_persons=n_persons, n_recordings=n_recordings, n_seconds=n_seconds)
    random = np.random.default_rng(random_state)
    X, y, signals, persons, times = [], [], [], [], []
    for person in range(n_persons):
        strength, haste = random.uniform(0.85, 1.15), random.uniform(0.92, 1.08)
        for recording in range(n_recordings):
            labels: list[str] = []
            while len(labels) < n_seconds:
                labels += [str(random.choice(list(_SWING)))] * int(random.integers(5, 20))
            labels = labels[:n_seconds]
            steps = np.cumsum(np.repeat([haste * _PACE[label] / _RATE for label in labels], _RATE))
            size = strength * np.repeat([_SWING[label] for label in labels], _RATE)
            signal = size * np.sin(2 * np.pi * steps) + 0.4 * random.normal(size=n_seconds * _RATE)
            X.append(_describe_seconds(signal))
            y.append(labels)
            signals.append(signal)
            persons.append(f"person {person + 1}")
            start = _START + np.timedelta64(person, "D") + np.timedelta64(recording, "h")
            times.append(start + np.arange(n_seconds).astype("timedelta64[s]"))
    names: dict[str, Any] = {"sequence": "recording", "features": ("level", "spread", "change"), "target": "activity"}
    more: dict[str, Any] = {
        "groups": persons,
        "group": "person",
        "columns": {"time": times},
        "signals": signals,
        "times": times,
    }
    return pack_sequences(make_activity, X, y, **names, **more, return_X_y=return_X_y, as_frame=as_frame)


def _describe_seconds(signal: np.ndarray) -> np.ndarray:
    """Return level, spread and change (n, 3) of the samples of each second."""
    seconds = signal.reshape(-1, _RATE)
    return np.column_stack([seconds.mean(axis=1), seconds.std(axis=1), np.abs(np.diff(seconds)).mean(axis=1)])


def make_wristband(
    n_days: int = 40, *, random_state: int | None = None, return_X_y: bool = False, as_frame: bool = False
) -> Any:
    """Make days of a wrist band: heart rate and speed, labelled with rest, walk or run.

    Activities last a while: with probability .7 the next position has the same. Noise is 15 beats and 2 km/h. A day has
    5 to 19 positions. The set is made: it has no source.

    Parameters
    ----------
    n_days : int, default 40
        How many sequences.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each position.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (n, 2), ``target`` a list of lists of labels.

    Examples
    --------
    >>> from kernelfields.datasets import make_wristband
    >>> X, y = make_wristband(random_state=0, return_X_y=True)
    >>> X[0][:2].round(), y[0][:2]
    (array([[117.,   2.],
           [118.,   8.]]), ['walk', 'walk'])
    """
    check_counts(n_days=n_days)
    random = np.random.default_rng(random_state)
    names = list(_TYPICAL)
    X, y = [], []
    for length in random.integers(5, 20, size=n_days):
        labels = [str(random.choice(names))]
        while len(labels) < length:
            labels.append(labels[-1] if random.random() < 0.7 else str(random.choice(names)))
        X.append(np.array([_TYPICAL[label] for label in labels]) + random.normal(size=(length, 2)) * [15.0, 2.0])
        y.append(labels)
    columns: dict[str, Any] = {"sequence": "day", "features": ("heart rate", "speed"), "target": "activity"}
    return pack_sequences(make_wristband, X, y, **columns, return_X_y=return_X_y, as_frame=as_frame)


def make_moves(
    n_recordings: int = 20,
    n_segments: int = 8,
    *,
    random_state: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Make recordings of rests of about 5 positions and moves of about 12, with noise.

    The signal is 0 or 1 with noise of standard deviation 1, so that durations tell more than positions. The set is
    made: it has no source.

    Parameters
    ----------
    n_recordings : int, default 20
        How many sequences.
    n_segments : int, default 8
        How many rests and moves a sequence has.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each position.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (n, 1), ``target`` a list of lists of "rest" and "move".

    Examples
    --------
    >>> from itertools import groupby
    >>> from kernelfields.datasets import make_moves
    >>> X, y = make_moves(random_state=0, return_X_y=True)
    >>> [len(list(own)) for _, own in groupby(y[0])]
    [7, 13, 5, 11, 4, 10, 3, 10]
    """
    check_counts(n_recordings=n_recordings, n_segments=n_segments)
    random = np.random.default_rng(random_state)
    X, y = [], []
    for _ in range(n_recordings):
        labels: list[str] = []
        for index in range(n_segments):
            label, mean = (("rest", 5), ("move", 12))[index % 2]
            labels += [label] * int(random.integers(mean - 2, mean + 3))
        X.append((np.array([label == "move" for label in labels]) + random.normal(size=len(labels)))[:, None])
        y.append(labels)
    names: dict[str, Any] = {"sequence": "recording", "features": ("signal",), "target": "state"}
    return pack_sequences(make_moves, X, y, **names, return_X_y=return_X_y, as_frame=as_frame)


def make_circles(
    n_sequences: int = 150, *, random_state: int | None = None, return_X_y: bool = False, as_frame: bool = False
) -> Any:
    """Make sequences whose inputs form a circle for label 0, and a larger circle around it for label 1.

    No single column, and no linear function of both, tells the labels apart. They last: with probability .8 the next
    position has the same. A sequence has 5 to 14 positions. The set is made: it has no source.

    Parameters
    ----------
    n_sequences : int, default 150
        How many sequences.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each position.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (n, 2), ``target`` a list of lists of 0 and 1.

    Examples
    --------
    >>> from kernelfields.datasets import make_circles
    >>> X, y = make_circles(3, random_state=0, return_X_y=True)
    >>> [len(labels) for labels in y], y[0][:5]
    ([13, 11, 10], [0, 0, 0, 1, 0])
    """
    check_counts(n_sequences=n_sequences)
    random = np.random.default_rng(random_state)
    X, y = [], []
    for length in random.integers(5, 15, size=n_sequences):
        labels = [int(random.integers(2))]
        while len(labels) < length:
            labels.append(labels[-1] if random.random() < 0.8 else 1 - labels[-1])
        angle = random.uniform(0, 2 * np.pi, size=length)
        radius = (1.0 + np.array(labels) + 0.3 * random.normal(size=length))[:, None]
        X.append(radius * np.column_stack([np.cos(angle), np.sin(angle)]))
        y.append(labels)
    names: dict[str, Any] = {"sequence": "sequence", "features": ("x", "y"), "target": "label"}
    return pack_sequences(make_circles, X, y, **names, return_X_y=return_X_y, as_frame=as_frame)
