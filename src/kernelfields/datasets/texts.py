"""Texts: references, addresses, abstracts, words that two listeners heard as prominent, and made sentences with names.

The files hold a word and its labels on each line, with an empty line after each text; abstracts are lines of JSON.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from kernelfields.datasets.bundle import check_counts, pack_items, pack_sequences, read_blocks, read_file

_PEOPLE = (
    "Ada",
    "Emmy",
    "Kurt",
    "Alan",
    "Sofja",
    "Paul",
    "Rosalind",
    "Milan",
    "Florence",
    "Chelsea",
    "Austin",
    "Jordan",
)
_SURNAMES = ("Rivers", "Waters", "Lakes", "Brooks", "Woods", "Meadows", "Banks", "London", "Berlin")
_PLACES = (
    "Bonn",
    "Oslo",
    "Turin",
    "Lodz",
    "Cork",
    "Lima",
    "Milan",
    "Florence",
    "Chelsea",
    "Austin",
    "Berlin",
    "London",
)
_AREAS = ("New", "East", "Upper")
#: Sentences by their parts: P is a person, L a place.
_SENTENCES = (
    "P left L",
    "P met P in L",
    "the train from L to L was late",
    "yesterday P wrote to P",
    "in L it rains",
    "L is far from L",
    "nobody saw P in L",
    "the mayor of L thanked P",
    "P and P live near L",
    "who is P ?",
    "P is late",
    "L is late",
    "we all like P",
    "we all like L",
    "nobody forgets P",
    "nobody forgets L",
)


def load_references(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 600 bibliographic references, cut into words, with the field of each word.

    The labels write spans in BIO, of authors, titles, dates, journals, pages and more. 600 references of the training
    part of AnyStyle, drawn with a seed.

    Source: github.com/inukshuk/anystyle, commit c6f5fb2f. Licence: BSD-2-Clause, copyright 2011-2012 Sylvester Keil.

    Parameters
    ----------
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each word.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of lists of words, ``target`` a list of lists of labels.

    See Also
    --------
    load_addresses : Parts of addresses.

    Examples
    --------
    >>> from kernelfields.datasets import load_references
    >>> X, y = load_references(return_X_y=True)
    >>> len(X), sum(map(len, X)), len({label for labels in y for label in labels})
    (600, 13841, 44)
    """
    X, y = _read_words("references.tsv.gz")
    return _pack_words(load_references, X, y, "reference", return_X_y, as_frame)


def load_addresses(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 800 addresses of the United States, cut into words, with the field of each word.

    Each word has a label of its own, such as AddressNumber or StreetName. 800 addresses of the training part of
    usaddress, drawn with a seed.

    Source: github.com/datamade/usaddress, commit aa7699b5. Licence: MIT, copyright (c) 2014 The Atlanta Journal
    Constitution.

    Parameters
    ----------
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each word.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of lists of words, ``target`` a list of lists of labels.

    See Also
    --------
    load_references : Parts of references, as spans.

    Examples
    --------
    >>> from kernelfields.datasets import load_addresses
    >>> X, y = load_addresses(return_X_y=True)
    >>> len(X), len({label for labels in y for label in labels})
    (800, 29)
    """
    X, y = _read_words("addresses.tsv.gz")
    return _pack_words(load_addresses, X, y, "address", return_X_y, as_frame)


def load_abstracts(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load 295 abstracts of papers on computer science: sentences, each with its role.

    The roles are background, objective, method, result and other, by the vote of several annotators. It is the
    development part of CSAbstruct.

    Source: github.com/allenai/sequential_sentence_classification, commit cf5ad6c6 (A. Cohan, I. Beltagy, D. King, B.
    Dalvi, D. Weld. Pretrained Language Models for Sequential Sentence Classification. EMNLP 2019). Licence: Apache-2.0.

    Parameters
    ----------
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each sentence.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of lists of sentences, ``target`` a list of lists of roles.

    Examples
    --------
    >>> from kernelfields.datasets import load_abstracts
    >>> X, y = load_abstracts(return_X_y=True)
    >>> X[0][3][:42], y[0][3]
    ('To ensure adequate exploration, we introdu', 'method')
    """
    records = [json.loads(line) for line in read_file("abstracts.jsonl.gz").splitlines()]
    X, y = [record["sentences"] for record in records], [record["labels"] for record in records]
    names: dict[str, Any] = {"sequence": "abstract", "features": ["sentence"], "target": "role"}
    return pack_sequences(load_abstracts, X, y, **names, return_X_y=return_X_y, as_frame=as_frame)


def load_prominence(*, return_X_y: bool = False) -> Any:
    """Load 500 Afrikaans sentences with the words that two listeners heard as prominent.

    The listeners marked the same recordings independently and agree on some four of five words, so ``y`` is what
    AnnotatedCRF takes: the labels of each annotator. 0 is not prominent, 1 secondary and 2 primary prominence. 500
    sentences of the corpus, drawn with a seed; punctuation is left out.

    Source: github.com/NWU-MuST/ntts, commit edc26185 (D. R. van Niekerk. Rapid development of increasingly natural
    sounding speech synthesis for South African languages. North-West University, 2017). Licence: CC BY-SA 4.0,
    copyright (c) 2017 The Department of Arts and Culture, The Government of the Republic of South Africa; the file
    here is an adaptation under the same licence.

    Parameters
    ----------
    return_X_y : bool, default False
        Whether to return X and y alone.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of lists of (word, part of speech), ``target`` a dict from the name of a listener to a list
        of lists of labels.

    See Also
    --------
    make_annotated : Labels of annotators whose true labels are known.

    Examples
    --------
    >>> from kernelfields.datasets import load_prominence
    >>> X, y = load_prominence(return_X_y=True)
    >>> len(X), sorted(y)
    (500, ['listener 1', 'listener 2'])
    """
    blocks = read_blocks("prominence.tsv.gz")
    X = [[(word, tag) for word, tag, *_ in block] for block in blocks]
    y = {f"listener {k}": [[int(cells[1 + k]) for cells in block] for block in blocks] for k in (1, 2)}
    names: dict[str, Any] = {"feature_names": ["word", "part of speech"], "target_names": [0, 1, 2]}
    return pack_items(load_prominence, X, y, return_X_y=return_X_y, **names)


def make_entities(
    n_sentences: int = 300, *, random_state: int | None = None, return_X_y: bool = False, as_frame: bool = False
) -> Any:
    r"""Make short sentences with the names of people and places.

    The sentences are drawn from sixteen patterns and a few lists. Milan, Florence, Chelsea, Austin, London and Berlin
    are in both lists: only the words around them tell people from places, and in "Austin is late" nothing does. The set
    is made: it has no source, and real texts are harder.

    Parameters
    ----------
    n_sentences : int, default 300
        How many sentences.
    random_state : int, Generator or None, default None
        The seed.
    return_X_y : bool, default False
        Whether to return X and y alone.
    as_frame : bool, default False
        Whether the data are a pandas data frame, with a row for each word.

    Returns
    -------
    Bunch or (X, y)
        ``data`` is a list of lists of words, ``target`` a list of lists of labels "B-PER", "I-PER", "B-LOC", "I-LOC"
        and "O".

    See Also
    --------
    load_references : Real spans.

    Examples
    --------
    >>> from kernelfields.datasets import make_entities
    >>> X, y = make_entities(5, random_state=0, return_X_y=True)
    >>> print(" ".join(X[0]), " ".join(y[0]), sep="\n")
    we all like Florence
    O O O B-LOC
    """
    check_counts(n_sentences=n_sentences)
    random = np.random.default_rng(random_state)
    X, y = [], []
    for _ in range(n_sentences):
        words: list[str] = []
        labels: list[str] = []
        for part in str(random.choice(_SENTENCES)).split():
            if part in ("P", "L"):
                name = _draw_person(random) if part == "P" else _draw_place(random)
                kind = "PER" if part == "P" else "LOC"
                words += name
                labels += [f"B-{kind}", *[f"I-{kind}"] * (len(name) - 1)]
            else:
                words.append(part)
                labels.append("O")
        X.append(words)
        y.append(labels)
    return _pack_words(make_entities, X, y, "sentence", return_X_y, as_frame)


def _draw_person(random: np.random.Generator) -> list[str]:
    name = [str(random.choice(_PEOPLE))]
    return [*name, str(random.choice(_SURNAMES))] if random.random() < 0.5 else name


def _draw_place(random: np.random.Generator) -> list[str]:
    name = [str(random.choice(_PLACES))]
    return [str(random.choice(_AREAS)), *name] if random.random() < 0.2 else name


def _read_words(name: str) -> tuple[list[list[str]], list[list[str]]]:
    blocks = read_blocks(name)
    return [[cells[0] for cells in block] for block in blocks], [[cells[1] for cells in block] for block in blocks]


def _pack_words(function: Any, X: list, y: list, sequence: str, return_X_y: bool, as_frame: bool) -> Any:
    asked: dict[str, Any] = {"return_X_y": return_X_y, "as_frame": as_frame}
    return pack_sequences(function, X, y, sequence=sequence, features=["word"], target="label", **asked)
