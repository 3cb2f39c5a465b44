"""Labels by several annotators, several labels of a row, and handwritten digits in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.datasets.bundle import check_counts, pack_items, pack_rows, pack_sequences

#: How often annotators give each label, by the true one.
_CAREFUL, _CARELESS = np.array([[0.95, 0.05], [0.1, 0.9]]), np.array([[0.6, 0.4], [0.3, 0.7]])
_ANNOTATORS = {"anna": _CAREFUL, "ben": _CARELESS, "carl": _CARELESS}


def make_annotated(n_sequences: int = 60, *, random_state: int | None = None, return_X_y: bool = False) -> Any:
    """Make sequences labelled by three annotators, one careful and two careless, whose true labels are known.

    Each sequence has nine positions; labels last for three. Anna is right nine times of ten, Ben and Carl two times of
    three, and Anna has not labelled the first sequence. The set is made: it has no source.

    Parameters
    ----------
    n_sequences : int, default 60
        How many sequences.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and what the annotators said alone.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (9, 2), ``target`` a dict from the name of an annotator to a list of lists of
        labels, ``truth`` a list of arrays of the true labels.

    See Also
    --------
    load_prominence : Two real listeners.

    Examples
    --------
    >>> from kernelfields.datasets import make_annotated
    >>> made = make_annotated(random_state=0)
    >>> made.truth[1].tolist(), made.target["ben"][1]
    ([0, 0, 0, 0, 0, 0, 1, 1, 1], [1, 0, 0, 0, 0, 0, 1, 0, 1])
    """
    check_counts(n_sequences=n_sequences)
    random = np.random.default_rng(random_state)
    X, truth = [], []
    said: dict[str, list] = {name: [] for name in _ANNOTATORS}
    for _ in range(n_sequences):
        labels = np.repeat(random.integers(2, size=3), 3)
        X.append(np.column_stack([labels + random.normal(size=9), np.ones(9)]))
        truth.append(labels)
        for name, shares in _ANNOTATORS.items():
            said[name].append([int(random.choice(2, p=shares[label])) for label in labels])
    said["anna"][0] = None
    return pack_items(make_annotated, X, said, return_X_y=return_X_y, truth=truth, target_names=[0, 1])


def make_multilabel(
    n_samples: int = 400, *, random_state: int | None = None, return_X_y: bool = False, as_frame: bool = False
) -> Any:
    """Make rows with several of five labels that depend on each other.

    A row counts twenty words, and each of its labels has words of its own: ``make_multilabel_classification`` of
    scikit-learn with 20 features, 5 classes and about 2 labels. The set is made: it has no source.

    Parameters
    ----------
    n_samples : int, default 400
        How many rows.
    random_state : int, RandomState or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and Y alone.
    as_frame : bool, default False
        Whether the data are pandas data frames.

    Returns
    -------
    Bunch or (X, Y)
        ``data`` is an array (n, 20), ``target`` one of zeros and ones (n, 5).

    Examples
    --------
    >>> from kernelfields.datasets import make_multilabel
    >>> X, Y = make_multilabel(random_state=0, return_X_y=True)
    >>> X.shape, Y[0]
    ((400, 20), array([0, 0, 1, 1, 1]))
    """
    from sklearn.datasets import make_multilabel_classification

    check_counts(n_samples=n_samples)
    X, Y = make_multilabel_classification(n_samples, 20, n_classes=5, n_labels=2, random_state=random_state)
    names: dict[str, Any] = {"features": [f"word {k}" for k in range(20)], "targets": [f"topic {k}" for k in range(5)]}
    return pack_rows(make_multilabel, X, Y, **names, return_X_y=return_X_y, as_frame=as_frame)


def make_strips(
    n_strips: int = 120,
    *,
    noise: float = 0.6,
    random_state: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Make strips of eight handwritten digits that count upwards, in steps of one or two, under noise.

    The pictures are real, 8 x 8 grey values of 0 to 1; which stand beside each other is drawn, and noise is added. They
    are the digits that come with scikit-learn.

    Source of the pictures: Optical Recognition of Handwritten Digits, UCI Machine Learning Repository (E. Alpaydin, C.
    Kaynak, 1998). Licence: CC BY 4.0.

    Parameters
    ----------
    n_strips : int, default 120
        How many sequences.
    noise : float, default 0.6
        The standard deviation of the noise.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each digit.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (8, 64), ``target`` a list of arrays of digits.

    Examples
    --------
    >>> from kernelfields.datasets import make_strips
    >>> X, y = make_strips(2, random_state=0, return_X_y=True)
    >>> X[0].shape, y[0]
    ((8, 64), array([0, 2, 3, 4, 5, 6, 7, 8]))
    """
    from sklearn.datasets import load_digits

    check_counts(n_strips=n_strips)
    random = np.random.default_rng(random_state)
    digits = load_digits()
    y = [(random.integers(10) + random.integers(1, 3, size=8).cumsum()) % 10 for _ in range(n_strips)]
    X = [np.stack([random.choice(digits.data[digits.target == digit]) for digit in own]) / 16 for own in y]
    X = [own + random.normal(scale=noise, size=own.shape) for own in X]
    names: dict[str, Any] = {"sequence": "strip", "features": digits.feature_names, "target": "digit"}
    return pack_sequences(make_strips, X, y, **names, return_X_y=return_X_y, as_frame=as_frame)
