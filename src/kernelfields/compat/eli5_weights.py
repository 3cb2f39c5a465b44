"""eli5 shows the weights of a CRF as it shows those of sklearn_crfsuite's.

``eli5.explain_weights`` and ``show_weights`` look for a function by the class of a model. ``register`` names one for
this package's CRF. It is called whenever a CRF is fitted, loaded or unpickled, does nothing where eli5 has not been
imported, and never imports it. The answer is that for sklearn_crfsuite: features of each label, and transitions.
"""

from __future__ import annotations

import sys
from typing import Protocol

import numpy as np


def register(kind: type) -> None:
    """Let eli5 explain models of the class ``kind``, if eli5 has been imported."""
    explain_weights = getattr(sys.modules.get("eli5"), "explain_weights", None)
    if explain_weights is not None and kind not in explain_weights.registry:
        explain_weights.register(kind, explain)


class _WeightsByName(Protocol):
    """What is shown of a CRF: its labels, attributes and weights."""

    classes_: list
    attributes_: list[str]
    state_features_: dict[tuple, float]
    transition_features_: dict[tuple, float]


def explain(
    crf: _WeightsByName,
    top: object = 20,
    target_names: object = None,
    targets: list | None = None,
    feature_re: object = None,
    feature_filter: object = None,
) -> object:
    """Return an ``eli5.base.Explanation`` of the weights; the arguments are those of ``eli5.explain_weights``."""
    from eli5._feature_names import FeatureNames
    from eli5._feature_weights import get_top_features
    from eli5.base import Explanation, TargetExplanation, TransitionFeatureWeights
    from eli5.utils import get_target_display_names

    names, classes = np.array(crf.attributes_), crf.classes_
    states = np.zeros((len(classes), len(names)))
    row = {label: place for place, label in enumerate(classes)}
    column = {name: place for place, name in enumerate(crf.attributes_)}
    for (name, label), weight in crf.state_features_.items():
        states[row[label], column[name]] = weight
    if feature_re is not None or feature_filter is not None:
        kept, chosen = FeatureNames(names).handle_filter(feature_filter, feature_re)
        names, states = np.array(kept.feature_names), states[:, chosen]
    shown = get_target_display_names(classes, target_names, _entities_together(classes) if targets is None else targets)
    labels = [classes[place] for place, _ in shown]
    transitions = [[crf.transition_features_.get((before, label), 0.0) for label in labels] for before in labels]
    return Explanation(
        targets=[TargetExplanation(name, get_top_features(names, states[place], top)) for place, name in shown],
        transition_features=TransitionFeatureWeights([name for _, name in shown], np.array(transitions)),
        estimator=repr(crf),
        method="CRF",
    )


def _entities_together(classes: list) -> list:
    """Return labels with "O" and the like first, and B-X beside I-X."""

    def by_type(label: object) -> tuple[str, str]:
        text = str(label)
        return (text[2:] if text[1:2] == "-" and len(text) > 2 else ""), text

    return sorted(classes, key=by_type)
