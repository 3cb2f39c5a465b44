"""Proteins: residues and their secondary structure, a line for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelfields.datasets.bundle import check_counts, pack_sequences, read_file

#: Residues that are common inside, outside and in a helix, and all there are.
_COMMON = {"i": "KRNS", "o": "DNSG", "H": "LIVFAW"}
_ALL = "ADFGIKLNRSVW"


def load_proteins(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 150 protein domains: residues with the type of their secondary structure.

    A residue is a letter, one of twenty amino acids. Its label is "H" for a helix, "E" for a strand and "C" for
    neither. 150 of the domains of CB513 with 30 to 150 residues, at most one of each chain, drawn with a seed; the
    ``groups`` are five folds of CB513 that keep repeated chains together.

    Source: github.com/omarperacha/ps4-dataset, commit e1820264 (J. A. Cuff, G. J. Barton. Proteins 34, 1999; M. S.
    Klausen et al. NetSurfP-2.0, Proteins 87, 2019). Licence: CC0 1.0.

    Parameters
    ----------
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each residue.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of lists of letters, ``target`` a list of lists of labels.

    Examples
    --------
    >>> from kernelfields.datasets import load_proteins
    >>> X, y = load_proteins(return_X_y=True)
    >>> print("".join(X[0][:30]), "".join(y[0][:30]), sep="\\n")
    MFKVYGYDSNIHKCVYCDNAKRLLTVKKQP
    CEEEEECCCCCCCCHHHHHHHHHHHHCCCC
    """
    lines = [line.split("\t") for line in read_file("proteins.tsv.gz").splitlines()]
    names, folds, residues, structures = zip(*lines, strict=True)
    about: dict[str, Any] = {"groups": [int(fold) for fold in folds], "group": "fold", "names": list(names)}
    X, y = [list(own) for own in residues], [list(own) for own in structures]
    asked: dict[str, Any] = {"return_X_y": return_X_y, "as_frame": as_frame}
    return pack_sequences(
        load_proteins, X, y, sequence="protein", features=["residue"], target="structure", **about, **asked
    )


def make_membranes(
    n_proteins: int = 80, *, random_state: int | None = None, return_X_y: bool = False, as_frame: bool = False
) -> Any:
    r"""Make proteins that cross a membrane two to five times.

    A residue is inside ("i"), outside ("o") or in a helix through the membrane ("H"), which always leads to the other
    side. Half of the residues are drawn from those that are common where they are, the others from all twelve. The
    set is made: it has no source, and real proteins have twenty residues.

    Parameters
    ----------
    n_proteins : int, default 80
        How many proteins.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each residue.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of lists of letters, ``target`` a list of lists of "i", "H" and "o".

    See Also
    --------
    load_proteins : Real proteins.

    Examples
    --------
    >>> from kernelfields.datasets import make_membranes
    >>> X, y = make_membranes(random_state=0, return_X_y=True)
    >>> print("".join(X[0][:30]), "".join(y[0][:30]), sep="\n")
    VFKAKSNRWFWAVWAVKKLDSAIGRAAWWI
    iiiiiiiiHHHHHHHHHooooooHHHHHHH
    """
    check_counts(n_proteins=n_proteins)
    random = np.random.default_rng(random_state)
    X, y = [], []
    for _ in range(n_proteins):
        sides = random.permutation(["i", "o"])
        topology = ""
        for crossing in range(int(random.integers(2, 6))):
            topology += str(sides[crossing % 2]) * int(random.integers(4, 12)) + "H" * int(random.integers(8, 12))
        topology += str(sides[(crossing + 1) % 2]) * int(random.integers(4, 12))
        drawn = [list(_COMMON[own]) if random.random() < 0.5 else list(_ALL) for own in topology]
        X.append([str(random.choice(letters)) for letters in drawn])
        y.append(list(topology))
    asked: dict[str, Any] = {"return_X_y": return_X_y, "as_frame": as_frame}
    return pack_sequences(make_membranes, X, y, sequence="protein", features=["residue"], target="side", **asked)
