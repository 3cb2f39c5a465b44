"""Graphs: pages of a university, random trees, closed contours."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kernelfields.datasets.bundle import check_counts, pack_items, pack_sequences, read_blocks


def load_webpages(*, return_X_y: bool = False) -> Any:
    """Load 251 web pages of a university with the links between them: one graph, its words, five classes.

    A page has 1,703 columns of zeros and ones, which words it has; the classes have numbers. Pages that are linked are
    mostly of different classes. ``train`` says which pages are for fitting, by the first of the ten splits of the
    source; at the others, labels may be set to None.

    Source: github.com/yandex-research/heterophilous-graphs, commit a4313955, the data set Wisconsin (O. Platonov, D.
    Kuznedelev, M. Diskin, A. Babenko, L. Prokhorenkova. ICLR 2023). Licence: MIT, copyright (c) 2023-present Yandex
    Research.

    Parameters
    ----------
    return_X_y : bool, default False
        Whether to return X and y alone.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of one graph, a sparse array (251, 1703) and edges (450, 2), ``target`` a list of one list of
        labels, ``train`` an array (251,) of True and False.

    See Also
    --------
    make_trees : Many small graphs.

    Examples
    --------
    >>> from kernelfields.datasets import load_webpages
    >>> pages = load_webpages()
    >>> (words, links), = pages.data
    >>> words.shape, links.shape, int(pages.train.sum())
    ((251, 1703), (450, 2), 120)
    """
    pages, links = read_blocks("webpages.tsv.gz")
    columns = [[int(word) for word in words.split()] for _, _, words in pages]
    offsets = np.cumsum([0, *map(len, columns)])
    indices = np.concatenate(columns)
    words = sparse.csr_array((np.ones(len(indices)), indices, offsets), shape=(len(pages), 1703))
    X = [(words, np.array(links, dtype=int))]
    y = [[int(label) for label, _, _ in pages]]
    train = np.array([chosen == "1" for _, chosen, _ in pages])
    return pack_items(load_webpages, X, y, return_X_y=return_X_y, train=train, target_names=sorted(set(y[0])))


def make_trees(n_trees: int = 80, *, random_state: int | None = None, return_X_y: bool = False) -> Any:
    """Make random trees whose nodes mostly have the label of their parent.

    A tree has 5 to 19 nodes with labels "x", "y" and "z"; with probability .8 a node has that of its parent. The
    features are three numbers, 1 for the label and noise of standard deviation .8. The set is made: it has no source.

    Parameters
    ----------
    n_trees : int, default 80
        How many trees.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of pairs of features (n, 3) and edges (n - 1, 2), ``target`` a list of arrays of labels.

    See Also
    --------
    load_webpages : One real graph.

    Examples
    --------
    >>> from kernelfields.datasets import make_trees
    >>> X, y = make_trees(2, random_state=0, return_X_y=True)
    >>> features, edges = X[0]
    >>> features.shape, edges.shape, y[0].shape
    ((17, 3), (16, 2), (17,))
    """
    check_counts(n_trees=n_trees)
    random = np.random.default_rng(random_state)
    names = np.array(["x", "y", "z"])
    X, y = [], []
    for size in random.integers(5, 20, size=n_trees):
        parents = [int(random.integers(child)) for child in range(1, size)]
        labels = [int(random.integers(3))]
        for parent in parents:
            labels.append(labels[parent] if random.random() < 0.8 else int(random.integers(3)))
        features = np.eye(3)[labels] + 0.8 * random.normal(size=(size, 3))
        X.append((features, np.column_stack([parents, range(1, size)])))
        y.append(names[labels])
    return pack_items(make_trees, X, y, return_X_y=return_X_y, target_names=names.tolist())


def make_contours(
    n_contours: int = 80,
    length: int = 12,
    *,
    random_state: int | None = None,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Make closed contours with a dent of five points, and their noisy curvature.

    The label is 1 in the dent and 0 elsewhere; the first point lies anywhere. The set is made: it has no source.

    Parameters
    ----------
    n_contours : int, default 80
        How many contours.
    length : int, default 12
        How many points each has.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each point.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of arrays (length, 1), ``target`` a list of arrays of labels.

    Examples
    --------
    >>> from kernelfields.datasets import make_contours
    >>> X, y = make_contours(2, random_state=0, return_X_y=True)
    >>> y[0]
    array([1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    """
    check_counts(n_contours=n_contours, length=length)
    random = np.random.default_rng(random_state)
    X, y = [], []
    for _ in range(n_contours):
        labels = np.zeros(length, dtype=int)
        labels[(random.integers(length) + np.arange(5)) % length] = 1
        X.append(labels[:, None] + 0.9 * random.normal(size=(length, 1)))
        y.append(labels)
    names: dict[str, Any] = {"sequence": "contour", "features": ("curvature",), "target": "dent"}
    return pack_sequences(make_contours, X, y, **names, return_X_y=return_X_y, as_frame=as_frame)
