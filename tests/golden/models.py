"""Models in the golden files, the inputs they predict, and their answers when they were written.

``python -m tests.golden.models FOLDER`` fits and writes those that a folder does not have yet. The files beside this
module are in format 3, the oldest that is read, and are never written again; a new kind of model adds a file, a later
format a folder. Answers are arrays by name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

FOLDER = Path(__file__).parent / "format-3"


@dataclass(frozen=True)
class GoldenModel:
    """How a model is fitted, the class that loads it, and the arrays it answers with."""

    estimator: Callable[[], Any]
    fit: Callable[[], Any]
    answers: Callable[[Any], dict[str, Any]]

    def load(self, name: str, folder: Path = FOLDER) -> Any:
        """Read the model from its file."""
        return self.estimator().load(folder / f"{name}.kfm")


def chains(seed: int, n_sequences: int = 12, length: int = 7, n_labels: int = 3) -> tuple[list, list]:
    """Return sequences of two-dimensional inputs and labels with names."""
    random = np.random.default_rng(seed)
    names = np.array(["noun", "other", "verb", "zero"])[:n_labels]
    states = [np.repeat(random.integers(n_labels, size=length), 2)[:length] for _ in range(n_sequences)]
    X = [np.column_stack([np.cos(2 * s), np.sin(s)]) + 0.4 * random.normal(size=(length, 2)) for s in states]
    return X, [names[s] for s in states]


def dicts(seed: int, n_sequences: int = 12) -> tuple[list, list]:
    """Return sequences of feature dicts and entity labels."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        labels = ["O", "B-x", "I-x", "O", "B-x", "O"]
        words = random.integers(5, size=len(labels))
        X.append([{f"w{w}": 1.0, f"is{label}": 0.5 + random.random()} for w, label in zip(words, labels, strict=True)])
        y.append(labels)
    return X, y


def graphs(seed: int, n_graphs: int = 8, *, features: bool = True, typed: bool = False) -> tuple[list, list]:
    """Return small graphs with a circle, features of edges and, if asked for, two types of nodes."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_graphs):
        labels = random.integers(2, size=5)
        nodes = labels[:, None] + 0.5 * random.normal(size=(5, 2))
        edges = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 4]])
        entry: Any = {"x": nodes, "edges": edges}
        if features:
            entry["edge_features"] = random.normal(size=(5, 2))
        if typed:
            entry["node_types"] = ["a", "b", "a", "b", "a"]
        X.append(entry)
        y.append(labels)
    return X, y


def table(seed: int, n_rows: int = 40, n_columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and classes of single instances."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_rows)
    return labels[:, None] * np.linspace(0.2, 1.0, n_columns) + 0.6 * random.normal(size=(n_rows, n_columns)), labels


def several(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and three yes-or-no labels of instances."""
    X, labels = table(seed)
    return X, np.column_stack([labels > 0, labels > 1, labels != 1]).astype(int)


def _chain_answers(inputs: Callable[[], tuple[list, list]], **asked: Any) -> Callable[[Any], dict[str, Any]]:
    def answers(crf: Any) -> dict[str, Any]:
        X, y = inputs()
        found = {
            "viterbi": np.concatenate(crf.predict(X, decode="viterbi")),
            "posterior": np.concatenate(crf.predict(X, decode="posterior")),
            "marginals": np.concatenate(crf.predict_marginals(X)),
            "pairs": np.concatenate(crf.predict_marginals(X, cliques="edge")[1]),
            "log_likelihood": crf.log_likelihood(X, y, per_item=True),
            "entropy": crf.entropy(X),
            "samples": np.concatenate(crf.sample(X, random_state=0)),
            "coefficients": np.concatenate([_dense(each).ravel() for each in crf.coef_.values()]),
            "certificate": _certificate(crf),
        }
        if "best" in asked:
            found["best"] = np.array([score for each in crf.predict_nbest(X, asked["best"]) for _, score in each])
        if asked.get("laplace"):
            found |= _uncertainty(crf, X, crf.predict_marginals)
        return found

    return answers


def _graph_answers(exact: bool, **settings: Any) -> Callable[[Any], dict[str, Any]]:
    def answers(crf: Any) -> dict[str, Any]:
        X, y = graphs(12, 4, **settings)
        nodes, edges = crf.predict_marginals(X, cliques="edge")
        found = {
            "joint": np.concatenate(crf.predict(X)),
            "marginals": np.concatenate(nodes),
            "edges": np.concatenate(edges),
            "coefficients": np.concatenate([_dense(each).ravel() for each in crf.coef_.values()]),
        }
        if exact:
            found["log_likelihood"] = crf.log_likelihood(X, y, per_item=True)
            found["entropy"] = crf.entropy(X)
            found["certificate"] = _certificate(crf)
        return found

    return answers


def _several_answers(crf: Any) -> dict[str, Any]:
    X, Y = several(22)
    labels, chances = crf.predict_joint(X)
    return {
        "labels": crf.predict(X),
        "proba": crf.predict_proba(X),
        "joint": labels,
        "chances": chances,
        "decision": crf.decision_function(X),
        "log_likelihood": crf.log_likelihood(X, Y, per_item=True),
        "certificate": _certificate(crf),
    }


def _classifier_answers(model: Any, sparse: bool = False) -> dict[str, Any]:
    X: Any = table(32)[0]
    X = scipy.sparse.csr_array(X) if sparse else X
    found = {
        "labels": model.predict(X),
        "proba": model.predict_proba(X),
        "log_proba": model.predict_log_proba(X),
        "decision": model.decision_function(X),
        "certificate": _certificate(model),
    }
    return found | (_uncertainty(model, X, model.predict_proba) if model.laplace_ is not None else {})


def _density_answers(model: Any) -> dict[str, Any]:
    X, _ = table(42, n_columns=len(model.box_))
    return {
        "log_density": model.score_samples(X),
        "mean": model.mean(),
        "entropy": np.array(model.entropy()),
        "certificate": np.array([model.certificate_.value, model.certificate_.lower_bound]),
    }


def _uncertainty(model: Any, X: Any, probabilities: Callable) -> dict[str, Any]:
    return {
        "probit": np.concatenate(list(probabilities(X, uncertainty=True))),
        "variances": np.concatenate(list(model.predict_variances(X))),
    }


def _certificate(model: Any) -> np.ndarray:
    both = model.certificate_, model.rkhs_certificate_
    return np.array([[each.value, each.lower_bound] for each in both])


def _dense(coefficients: Any) -> np.ndarray:
    return coefficients.toarray() if scipy.sparse.issparse(coefficients) else np.asarray(coefficients)


def _fit_chain(inputs: Callable[[], tuple[list, list]], laplace: bool = False, **settings: Any) -> Callable[[], Any]:
    def fit() -> Any:
        from kernelfields import ChainCRF

        X, y = inputs()
        crf = ChainCRF(**{"random_state": 0, "tol": 1e-6, "max_iter": 300, **settings}).fit(X, y)
        if laplace:
            crf.laplace(X, y, n_samples=6, random_state=0)
        return crf

    return fit


def _fit_long_chain() -> Any:
    from kernelfields import ChainCRF, EdgeCliques, EndCliques, NodeCliques, SkipCliques, StartCliques
    from kernelfields.data import OrderCliques

    cliques = [
        NodeCliques("rbf", window=3, rank=8),
        EdgeCliques(),
        StartCliques(),
        EndCliques(),
        SkipCliques(lag=2, prior_variance=0.5),
        OrderCliques(order=2, prior_variance=0.25),
    ]
    X, y = chains(3)
    return ChainCRF(cliques=cliques, random_state=0).fit(X, y)


def _fit_graphs(
    laplace: bool = False, settings: dict | None = None, edges: dict | None = None, **data: Any
) -> Callable[[], Any]:
    def fit() -> Any:
        from kernelfields import GraphCRF, GraphFactors

        X, y = graphs(11, **data)
        shared = {"rank": 8, "random_state": 0, "tol": 1e-6, "max_iter": 300}
        shared["edges"] = GraphFactors(**{"kernel": "auto", **(edges or {})})
        crf = GraphCRF(**{**shared, **(settings or {})}).fit(X, y)
        if laplace:
            crf.laplace(X, y, n_samples=6, random_state=0)
        return crf

    return fit


def _fit_several(edges: str | None = None, **settings: Any) -> Callable[[], Any]:
    def fit() -> Any:
        from kernelfields import EdgeCliques, MultiLabelCRF

        shared = {"rank": 8, "random_state": 0, "tol": 1e-6, "edges": EdgeCliques(edges)}
        return MultiLabelCRF(**{**shared, **settings}).fit(*several(21))

    return fit


def _fit_classifier(laplace: bool = False, sparse: bool = False, **settings: Any) -> Callable[[], Any]:
    def fit() -> Any:
        from kernelfields import KernelClassifier

        X, y = table(31)
        X = scipy.sparse.csr_array(X) if sparse else X
        model = KernelClassifier(**{"rank": 8, "random_state": 0, **settings}).fit(X, np.array(["a", "b", "c"])[y])
        if laplace:
            model.laplace(X, np.array(["a", "b", "c"])[y], n_samples=6, random_state=0)
        return model

    return fit


def _fit_density(n_columns: int, **settings: Any) -> Callable[[], Any]:
    def fit() -> Any:
        from kernelfields import ExponentialFamilyDensity

        X, _ = table(41, n_columns=n_columns)
        settings_ = {"rank": 8, "random_state": 0, "quadrature_tol": 0.1, **settings}
        return ExponentialFamilyDensity(**settings_).fit(X)

    return fit


def _fit_compat() -> Any:
    from kernelfields.compat import CRF

    X, y = dicts(51)
    return CRF(c1=0.05, c2=0.1).fit(X, y)


def _compat_answers(crf: Any) -> dict[str, Any]:
    X, _ = dicts(52, 5)
    marginals = [[row[label] for label in sorted(row)] for each in crf.predict_marginals(X) for row in each]
    weights = sorted((name, label, value) for (name, label), value in crf.state_features_.items())
    return {
        "labels": np.concatenate(crf.predict(X)),
        "marginals": np.array(marginals),
        "weights": np.array([value for _, _, value in weights]),
    }


def _named(name: str) -> Callable[[], type]:
    def estimator() -> type:
        import kernelfields
        from kernelfields import compat

        return compat.CRF if name == "CRF" else getattr(kernelfields, name)

    return estimator


def _sum_of_kernels() -> Any:
    from kernelfields.kernels import Linear, Polynomial

    X, y = chains(4)
    return _fit_chain(lambda: (X, y), kernel=Linear() + Polynomial(2), rank=5, prior_variance=(2.0, 0.5))()


def _edge_kernel() -> Any:
    from kernelfields import EdgeCliques

    edges = EdgeCliques("rbf", prior_variance=0.5)
    return _fit_chain(lambda: chains(1), kernel="linear", edges=edges, rank=6)()


def _fit_segments() -> Any:
    from kernelfields import EdgeCliques, SegmentCRF
    from kernelfields.data import DurationCliques

    X, y = chains(5)
    crf = SegmentCRF(
        "linear",
        edges=EdgeCliques(prior_variance=0.5),
        durations=DurationCliques(shared=False),
        max_duration=7,
        prior_variance=1.0,
        random_state=0,
    )
    return crf.fit(X, y)


def _segment_answers(crf: Any) -> dict[str, Any]:
    X, y = chains(6, 5)
    return {
        "viterbi": np.concatenate(crf.predict(X)),
        "marginals": np.concatenate(crf.predict_marginals(X)),
        "log_likelihood": crf.log_likelihood(X, y, per_item=True),
        "entropy": crf.entropy(X),
        "best": np.array([score for ranked in crf.predict_nbest(X, 2) for _, score in ranked]),
        "certificate": _certificate(crf),
    }


def _fit_ring() -> Any:
    from kernelfields import RingCRF

    return RingCRF("rbf", rank=6, window=3, prior_variance=1.0, random_state=0).fit(*chains(7))


def _fit_ngrams() -> Any:
    from kernelfields import ChainCRF, EdgeCliques, LabelDictionary, LabelNgrams, NodeCliques

    X, y = dicts(8)
    cliques = [NodeCliques("linear"), EdgeCliques(), LabelNgrams(n=3)]
    return ChainCRF(cliques=cliques, allowed=LabelDictionary("w0", min_count=2), random_state=0).fit(X, y)


def _fit_states() -> Any:
    from kernelfields import SequenceClassifier

    X, y = chains(9, 20)
    classes = [str(labels[0]) for labels in y]
    return SequenceClassifier("linear", n_states=2, prior_variance=1.0, max_iter=30, random_state=0).fit(X, classes)


def _fit_shapes() -> Any:
    from kernelfields import SequenceClassifier

    X, y = chains(9, 20)
    classes = [str(labels[0]) for labels in y]
    return SequenceClassifier(n_states=0, whole="shapes", prior_variance=0.1, random_state=0).fit(X, classes)


def _shape_answers(model: Any) -> dict[str, Any]:
    X, _ = chains(10, 5)
    return {"labels": model.predict(X), "proba": model.predict_proba(X)}


def _state_answers(model: Any) -> dict[str, Any]:
    X, _ = chains(10, 5)
    return {
        "labels": model.predict(X),
        "proba": model.predict_proba(X),
        "states": np.concatenate(model.predict_states(X)),
    }


def words(seed: int, n_sequences: int = 12) -> tuple[list, list]:
    """Return sentences of words with tags, and labels of entities."""
    random = np.random.default_rng(seed)
    kinds = {
        "B-per": ["Anna", "Bert", "Zoë"],
        "I-per": ["Miller-Smith", "King"],
        "O": ["sees", "the", "3", "trees", "."],
    }
    X, y = [], []
    for _ in range(n_sequences):
        labels = ["B-per", "I-per", "O", "O", "B-per", "O"]
        X.append([(str(random.choice(kinds[label])), "N" if label != "O" else "x") for label in labels])
        y.append(labels)
    return X, y


def _fit_words() -> Any:
    from sklearn.pipeline import make_pipeline

    from kernelfields import ChainCRF, TextFeatures

    crf = ChainCRF("linear", support="observed", constraints="bio", prior_variance=1.0, tol=1e-6, random_state=0)
    return make_pipeline(TextFeatures(suffixes=2, tag_ngrams=2), crf).fit(*words(71))


def _word_answers(pipeline: Any) -> dict[str, Any]:
    X, y = words(72, 5)
    features = pipeline[:-1].transform(X)
    return {
        "labels": np.concatenate(pipeline.predict(X)),
        "marginals": np.concatenate(pipeline[-1].predict_marginals(features)),
        "log_likelihood": pipeline[-1].log_likelihood(features, y, per_item=True),
    }


def _any_kind() -> Any:
    import kernelfields

    return kernelfields


_CHAIN, _GRAPH, _SEVERAL = _named("ChainCRF"), _named("GraphCRF"), _named("MultiLabelCRF")
_CLASSIFIER, _DENSITY = _named("KernelClassifier"), _named("ExponentialFamilyDensity")

MODELS: dict[str, GoldenModel] = {
    "chain-rbf": GoldenModel(
        _CHAIN,
        _fit_chain(lambda: chains(1), kernel="rbf", rank=10, laplace=True),
        _chain_answers(lambda: chains(2, 5), best=3, laplace=True),
    ),
    "chain-window-float32": GoldenModel(
        _CHAIN,
        _fit_chain(lambda: chains(1), kernel="laplacian", rank=6, window=(1, 0), dtype="float32", tol=1e-3),
        _chain_answers(lambda: chains(2, 5)),
    ),
    "chain-edge-kernel": GoldenModel(
        _CHAIN,
        _edge_kernel,
        _chain_answers(lambda: chains(2, 5), best=2),
    ),
    "chain-dicts-observed": GoldenModel(
        _CHAIN,
        _fit_chain(
            lambda: dicts(1),
            kernel="linear",
            support="observed",
            l1=0.05,
            constraints="bio",
        ),
        _chain_answers(lambda: dicts(2, 5), best=2),
    ),
    "chain-long": GoldenModel(_CHAIN, _fit_long_chain, _chain_answers(lambda: chains(2, 5))),
    "chain-sum-of-kernels": GoldenModel(_CHAIN, _sum_of_kernels, _chain_answers(lambda: chains(2, 5))),
    "graph-features": GoldenModel(_GRAPH, _fit_graphs(laplace=True), _graph_answers(True)),
    "graph-types": GoldenModel(
        _GRAPH,
        _fit_graphs(settings={"kernel": {"a": "rbf", "b": "linear"}}, edges={"symmetric": True}, typed=True),
        _graph_answers(True, typed=True),
    ),
    "graph-approximate": GoldenModel(
        _GRAPH,
        _fit_graphs(settings={"inference": "trw", "tol": 1e-3}, edges={"kernel": None}, features=False),
        _graph_answers(False, features=False),
    ),
    "multilabel-full": GoldenModel(_SEVERAL, _fit_several(), _several_answers),
    "multilabel-edge-kernel": GoldenModel(
        _SEVERAL,
        _fit_several(kernel="linear", edges="rbf", label_graph=[(0, 1)], decision="subset"),
        _several_answers,
    ),
    "classifier-rbf": GoldenModel(_CLASSIFIER, _fit_classifier(laplace=True), _classifier_answers),
    "classifier-sparse": GoldenModel(
        _CLASSIFIER,
        _fit_classifier(sparse=True, kernel="linear", class_weight="balanced"),
        partial(_classifier_answers, sparse=True),
    ),
    "density-uniform": GoldenModel(_DENSITY, _fit_density(1), _density_answers),
    "density-gaussian": GoldenModel(
        _DENSITY, _fit_density(2, base_measure="gaussian", kernel="matern"), _density_answers
    ),
    "segments": GoldenModel(_named("SegmentCRF"), _fit_segments, _segment_answers),
    "ring": GoldenModel(_named("RingCRF"), _fit_ring, _chain_answers(lambda: chains(2, 5), best=2)),
    "chain-ngrams-allowed": GoldenModel(_CHAIN, _fit_ngrams, _chain_answers(lambda: dicts(2, 5))),
    "sequence-classes": GoldenModel(_named("SequenceClassifier"), _fit_states, _state_answers),
    "sequence-shapes": GoldenModel(_named("SequenceClassifier"), _fit_shapes, _shape_answers),
    "compat-crf": GoldenModel(_named("CRF"), _fit_compat, _compat_answers),
    "pipeline-words": GoldenModel(_any_kind, _fit_words, _word_answers),
}


def main(folder: Path) -> None:
    """Fit the models that are not there yet, and write them with their answers."""
    from kernelfields import save

    folder.mkdir(parents=True, exist_ok=True)
    for name, golden in MODELS.items():
        if (folder / f"{name}.kfm").exists():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            save(golden.fit(), folder / f"{name}.kfm")
            np.savez_compressed(folder / f"{name}.npz", **golden.answers(golden.load(name, folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
