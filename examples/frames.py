"""Named entities in data frames of pandas, polars and pyarrow: fit, predict, seqeval, cross-validation, a grid search.

    python examples/frames.py

One row is one word: a column of sentence numbers, columns of features, a column of labels. Libraries that are not
installed are left out and named. Every figure must be the same for all of them, and the script fails if one is not.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score

from kernelfields import ChainCRF, FrameCRF
from kernelfields.evaluation import entity_f1_score

NAMES = {"PER": "Ada Carl Emmy York Turner", "LOC": "Bonn Oslo Turin York Essen", "ORG": "Acme Turner Bonn Initech"}
PLANS = ("{PER} visits {LOC} .", "{PER} likes {PER} .", "the old {ORG} likes {LOC} again .", "{ORG} visits {ORG} .")


def corpus(n_sentences: int, seed: int) -> dict[str, list]:
    """Return the columns of a table of sentences; some of their names can be two kinds of entity, and some are new."""
    random = np.random.default_rng(seed)
    columns: dict[str, list] = {"sentence": [], "word": [], "ending": [], "title": [], "length": [], "tag": []}
    for number in range(n_sentences):
        for slot in str(random.choice(PLANS)).split():
            kind = slot.strip("{}") if slot.startswith("{") else None
            words = random.choice(NAMES[kind].split(), size=int(random.integers(1, 3))).tolist() if kind else [slot]
            words = [word + "ova" if random.random() < 0.2 else word for word in words]
            for place, word in enumerate(words):
                columns["sentence"].append(number)
                columns["word"].append(word.lower())
                columns["ending"].append(word[-2:])
                columns["title"].append(word.istitle())
                columns["length"].append(len(word) / 10)
                columns["tag"].append(f"{'I' if place else 'B'}-{kind}" if kind else "O")
    return columns


def table_of(library: str, columns: dict[str, list]) -> Any:
    """Return columns as a table of a library."""
    package = import_module(library)
    return package.table(columns) if library == "pyarrow" else package.DataFrame(columns)


def entity_f1(model: FrameCRF, table: Any, y: Any = None) -> float:
    """Return the F1 of entities, by seqeval if it is there; a scorer of scikit-learn."""
    sequences = model.sequences(table, y, labelled=True)
    predicted = model.estimator_.predict(sequences.X)
    if find_spec("seqeval") is None:
        return entity_f1_score(sequences.y, predicted)
    from seqeval.metrics import f1_score

    return float(f1_score(sequences.y, predicted))


def report(library: str, n_sentences: tuple[int, int]) -> list[float]:
    """Print what a field does on tables of a library; return its figures."""
    train, test = (table_of(library, corpus(size, seed)) for seed, size in enumerate(n_sentences))
    field = ChainCRF("linear", window=3, constraints="bio")
    model = FrameCRF(field, sequence="sentence", label="tag").fit(train)
    predicted = model.predict(test)
    marginals = model.predict_marginals(test)
    assert len(predicted) == len(test) == marginals.shape[0]
    folds = {"groups": np.asarray(train["sentence"]), "cv": GroupKFold(3)}
    accuracies = cross_val_score(model, train, **folds)
    entities = cross_val_score(model, train, scoring=entity_f1, **folds)
    held_out = cross_val_predict(model, train, **folds)
    grid = {"estimator__prior_variance": [0.1, 1.0, 10.0]}
    search = GridSearchCV(model, grid, cv=GroupKFold(3), scoring=entity_f1).fit(train, groups=folds["groups"])
    print(f"{library}: predict gives a {type(predicted).__name__}, predict_marginals a {type(marginals).__name__}")
    print(f"    test: accuracy {model.score(test):.3f}, F1 of entities {entity_f1(model, test):.3f}")
    print(f"    cross_val_score: accuracy {accuracies.mean():.3f}, F1 of entities {entities.mean():.3f}")
    print(f"    cross_val_predict: accuracy {np.mean(held_out == np.asarray(train['tag'])):.3f}")
    print(f"    GridSearchCV: {search.best_params_}, F1 of entities {entity_f1(search.best_estimator_, test):.3f}")
    return [model.score(test), entity_f1(model, test), *accuracies, *entities, search.best_score_]


def main(n_sentences: tuple[int, int] = (120, 60)) -> None:
    figures = {}
    for library in ("pandas", "polars", "pyarrow"):
        if find_spec(library) is None:
            print(f"{library} is not installed")
        else:
            figures[library] = report(library, n_sentences)
    for library, values in figures.items():
        np.testing.assert_allclose(values, next(iter(figures.values())), err_msg=library)
    print("F1 of entities is", "that of kernelfields" if find_spec("seqeval") is None else "that of seqeval")


if __name__ == "__main__":
    main()
