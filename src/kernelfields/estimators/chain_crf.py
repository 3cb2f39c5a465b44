"""ChainCRF: a kernel conditional random field on sequences, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from kernelfields.data import extras
from kernelfields.data.chains import Chains
from kernelfields.data.cliques import USUAL, CliqueSet, EdgeCliques
from kernelfields.data.readers import InputReader
from kernelfields.engines.choice import accept_collections_by_item
from kernelfields.estimators import answering, inspecting, library, methods
from kernelfields.estimators.answering.decisions import DECODINGS
from kernelfields.estimators.base import FieldEstimator
from kernelfields.estimators.kept_field import KernelLike, TiesLike
from kernelfields.estimators.rare_labels import (
    LEARNT_DECODINGS,
    ChainRule,
)
from kernelfields.inputs.steps import ASKING
from kernelfields.numerics.lazy import defer
from kernelfields.numerics.parameters import (
    attribute,
    check_one,
    check_penalty,
    check_support,
    check_window,
    declares_parameters,
    or_auto,
    or_named,
    or_none,
    parameter,
    variances_or_auto,
)
from kernelfields.structures.chains import ChainStructure

ChainTraining: TypeAlias = "library.FitState[Chains, InputReader]"


def check_features(features: object, name: str) -> None:
    """Raise unless ``features`` is a transformer or a list of them."""
    library.check_transformers(features, name)


@declares_parameters
class SequenceField(FieldEstimator[Chains, InputReader]):
    """A field on sequences: the parameters and hooks that ChainCRF and SegmentCRF share.

    Parameters
    ----------
    kernel : "auto", str, Kernel, callable or scikit-learn kernel, default "auto"
        The kernel on the inputs of positions. "auto" is "linear" for feature dicts, strings and wide sparse inputs; for
        other numbers held-out data decide.
    window : "auto", "statistics", odd int or (before, after), default "auto"
        The positions that kernels see around each one; "statistics" adds means, differences and ranges over 5, 15 and
        45 positions. "auto" is 1, or "statistics" if held-out data are predicted better.
    edges : EdgeCliques or None, default None
        The transitions; None for one matrix of scores, ``EdgeCliques(kernel)`` for transitions that depend on the
        inputs. What the set leaves open is that of the estimator.
    prior_variance : "auto", float or tuple, default "auto"
        The variance s of the Gaussian prior, infinity for none; CRFsuite's c2 is 1 / (2 s). A tuple has one for each
        part of a sum of kernels. "auto" chooses a power of ten by held-out data.
    constraints : str, Constraints, dict, iterable of label pairs or None, default None
        What is forbidden: a scheme of entity labels ("bio", "iob1", "bioes", "bilou"), or pairs of neighbouring labels.
        Training labels that break a scheme are mended with a warning, unless it is strict.
    decode : "auto", "viterbi" or "posterior", default "auto"
        How labels are chosen: "viterbi" takes the most probable labelling as a whole, "posterior" the most probable
        label of each position.
    allowed : LabelDictionary or None, default None
        Which labels positions may have; inference skips the others. docs/many_labels.md.
    ties : LabelSymmetry, list of LabelSymmetry or None, default None
        Labels that share weights by a symmetry of labels and columns, such as transposed chords; docs/ties.md.
    features : "auto", transformer, list of transformers or None, default "auto"
        What makes inputs of X; the columns of several are joined. "auto" is TextFeatures for words, else None, which
        takes inputs as they come.

    Attributes
    ----------
    transitions_ : ndarray (L, L) or None
        The transition scores that do not depend on inputs.
    allowed_ : LabelDictionary or None
        The dictionary, as the fit has learnt it.
    features_ : transformer or None
        The fitted transformer that makes inputs of X.
    """

    _answer_format = defer(lambda: answering.AnswerFormat[Any](spans=answering.SpanReading()))
    _inspection = defer(lambda: inspecting.SequenceInspection())

    kernel: KernelLike = parameter("auto", first=True, usual="rbf")
    window: int | tuple[int, int] | str = parameter(
        "auto",
        or_named(check_window, (("auto",), ASKING["window"]), "an odd number or a pair"),
        usual=USUAL["window"],
    )
    edges: EdgeCliques | None = parameter(
        None, lambda value, name: library.clique_set(EdgeCliques)(value, name), nested=EdgeCliques
    )
    prior_variance: float | str | Sequence[float] = parameter("auto", variances_or_auto, usual=USUAL["prior_variance"])
    constraints: object = parameter(None)
    decode: str = parameter("auto", check_one(*DECODINGS))
    allowed: library.LabelDictionary | None = parameter(
        None, or_none(lambda value, name: library.check_dictionary(value))
    )
    ties: TiesLike | None = parameter(None, lambda value, name: library.resolve_ties(value))
    features: Any = parameter("auto", or_auto(or_none(check_features)))

    transitions_: np.ndarray | None = attribute()

    # ---- probabilities

    @accept_collections_by_item
    def predict_proba(self, X: object, *, known: object = None, lengths: ArrayLike | None = None) -> answering.ByItem:
        """Return the probabilities of labels, as :meth:`predict_marginals` does.

        Parameters
        ----------
        X : inputs
            Sequences, in a form that :meth:`fit` takes.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.
        lengths : array (n_items,) or mask (n_items, T), default None
            The lengths of sequences in one array, as for :meth:`fit`.

        Returns
        -------
        list of arrays (T, L)
            The marginals of each item, columns as in ``classes_``.

        See Also
        --------
        predict_marginals : Return them, and those of cliques.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> crf.predict_proba([[[21.0], [10.0]]])[0].round(2)
        array([[0.24, 0.76],
               [0.79, 0.21]])
        """
        if lengths is None:
            extras.refuse_named_scorers()
        return self.predict_marginals(X, known=known, lengths=lengths)

    # ---- pictures and spans

    show = defer(lambda: methods.show)
    predict_entities = defer(lambda: methods.predict_entities)
    predict_boundaries = defer(lambda: methods.predict_boundaries)


@declares_parameters
class ChainCRF(SequenceField):
    """Conditional random field on sequences, with potentials in reproducing kernel Hilbert spaces.

        score(y | x) = sum_t f_node(x_t, y_t) + sum_t f_edge(y_{t-1}, y_t)

    with Gaussian process priors on f_node and f_edge, fitted to the maximum a posteriori with a certificate of
    optimality. Parameters that are "auto" are chosen by short fits and held-out sequences: docs/chains.md has the
    rules.

    Parameters
    ----------
    decode : "auto", "viterbi", "posterior" or "f1", default "auto"
        How labels are chosen: "viterbi" takes the most probable labelling as a whole, "posterior" the most probable
        label of each position, "f1" rare labels above thresholds of their own (docs/rare_events.md). "auto" is
        "viterbi" under constraints and for entity labels such as B-PER, else "posterior".
    support : "auto", "all", "observed" or float, default "auto"
        Which pairs of features and labels have a weight: all, those seen in training, or those whose total weight there
        is at least this number. "auto" chooses by held-out data for words and sparse inputs, else it is "all".
    l1 : "auto" or float, default "auto"
        The weight of the sum of absolute weights in the objective, CRFsuite's c1; it needs explicit features. "auto" is
        0, or 0.1 if held-out data are predicted better.
    cliques : list of clique sets or None, default None
        The clique sets of the field, in place of kernel, edges and what describes them.

    Attributes
    ----------
    thresholds_ : dict
        The probabilities above which rare labels are predicted with ``decode="f1"``.

    See Also
    --------
    SegmentCRF : Fields on segments, whose lengths count.
    GraphCRF : Fields on graphs.
    SequenceClassifier : Classes of whole sequences.
    kernelfields.ChainCRFCV : A ChainCRF with parameters chosen by cross-validation.
    kernelfields.selection.StructureSearch : A ChainCRF with clique sets that are chosen.

    References
    ----------
    .. [1] J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields: probabilistic models for segmenting and
       labeling sequence data", ICML 2001.
    .. [2] J. Lafferty, X. Zhu and Y. Liu, "Kernel conditional random fields: representation and clique selection", ICML
       2004.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelfields import ChainCRF
    >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
    >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
    >>> crf = ChainCRF("rbf", prior_variance=1.0, random_state=0).fit(X, y)
    >>> crf.predict([np.array([[21.0], [10.0]])])
    [['sun', 'rain']]
    >>> crf.certificate_.scope, bool(crf.certificate_.relative_gap < 0.05)
    ('span', True)
    """

    _kind = "ChainCRF"
    _structures = ChainStructure
    _decision_rule = ChainRule()

    decode: str = parameter("auto", check_one(*DECODINGS, *LEARNT_DECODINGS), learnt=LEARNT_DECODINGS)
    support: str | float = parameter("auto", or_auto(check_support), usual=USUAL["support"], tried=("all", "observed"))
    # CRFsuite's usual c1 in tutorials is tried beside none.
    l1: float | str = parameter("auto", or_auto(check_penalty), usual=USUAL["l1"], tried=(0.1, 0.0))
    cliques: Sequence[CliqueSet] | None = parameter(None, short=None)

    @property
    def thresholds_(self) -> dict[Any, float]:
        """The probability thresholds of rare labels with ``decode="f1"``."""
        return library.list_thresholds(self)

    stream = defer(lambda: methods.stream)
