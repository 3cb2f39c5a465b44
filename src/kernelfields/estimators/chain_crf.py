"""ChainCRF: a kernel conditional random field on sequences, as a scikit-learn estimator."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kernelfields import kernels
from kernelfields.data.chains import Chains
from kernelfields.data.cliques import USUAL, CliqueSet, EdgeCliques, NodeCliques
from kernelfields.data.constraints import Constraints, find_scheme, guess_scheme
from kernelfields.data.label_dictionary import LabelDictionary, check_dictionary, readable_again
from kernelfields.data.partial_labels import SoftTargets
from kernelfields.data.readers import InputReader
from kernelfields.data.reading import holds_words, is_sequence
from kernelfields.data.ties import resolve_ties
from kernelfields.engines.choice import answers_collections
from kernelfields.estimators import library
from kernelfields.estimators.answering.decisions import DECODINGS
from kernelfields.estimators.answering.formats import AnswerFormat, ByItem
from kernelfields.estimators.answering.spans import SpanReading
from kernelfields.estimators.edges import EdgeParameters, clique_set
from kernelfields.estimators.inspecting.inspection import SequenceInspection
from kernelfields.estimators.kept_field import KernelLike, TiesLike
from kernelfields.estimators.labelled_field import LabelledField
from kernelfields.estimators.rare_labels import (
    BY_THRESHOLDS,
    ChainRule,
    judged_labels,
    learnt_thresholds,
    rare_thresholds,
)
from kernelfields.estimators.span_questions import Entity, boundary_shares, find_entities
from kernelfields.inputs.steps import ASKING
from kernelfields.numerics.parameters import (
    attribute,
    check_penalty,
    check_support,
    check_window,
    declares_parameters,
    is_auto,
    left_open,
    one_of,
    or_auto,
    or_named,
    or_none,
    parameter,
    settled,
    variances_or_auto,
    with_usual_values,
)
from kernelfields.numerics.user_warnings import warn_user
from kernelfields.numerics.windows import STATISTICS
from kernelfields.numerics.wording import counted

if TYPE_CHECKING:
    from kernelfields.models.build import NamedCliques
    from kernelfields.models.choices import Settings
    from kernelfields.models.model_file import Document
    from kernelfields.models.placed import FittedField
    from kernelfields.models.structure import StructurePath
    from kernelfields.numerics.group import Group


ChainTraining: TypeAlias = "library.FitState[Chains, InputReader]"
# What a window may be that is not named.
_WINDOWS = "an odd number or a pair"
# The l1 penalty that is tried beside none: CRFsuite's usual c1 in tutorials.
_USUAL_L1 = 0.1
# Prior variances of categories beside numbers: first none of them, which is what the other choices are made with.
_OF_CATEGORIES = (0.0, 1.0, 0.1)
# Labels that break the constraints have to be right more often by this share of positions.
_WORTH_BREAKING_RULES = 0.01


def check_features(features: object, name: str) -> None:
    """Raise unless ``features`` is a transformer or a list of them."""

    library.check_transformers(features, name)


def features_for(features: Any, X: Any) -> Any:
    """Return the transformer that makes inputs of X, not fitted yet; None where they are taken as they come."""
    if is_auto(features) and holds_words(X):
        return library.features_of_words(X)
    if settled(features, None) is None:
        return None
    return library.resolve_features(features)


@declares_parameters
class SequenceField(EdgeParameters, LabelledField[Chains, InputReader]):
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

    _reads = InputReader
    answer_format = AnswerFormat(spans=SpanReading())
    inspection = SequenceInspection()

    kernel: KernelLike = parameter("auto", first=True, usual="rbf")
    window: int | tuple[int, int] | str = parameter(
        "auto",
        lambda value, name: or_named(check_window, ("auto", *ASKING["window"]), _WINDOWS)(value, name),
        usual=USUAL["window"],
    )
    edges: EdgeCliques | None = parameter(None, clique_set(EdgeCliques))
    prior_variance: float | str | Sequence[float] = parameter("auto", variances_or_auto, usual=USUAL["prior_variance"])
    constraints: object = parameter(None)
    decode: str = parameter("auto", one_of(*DECODINGS))
    allowed: LabelDictionary | None = parameter(None, or_none(lambda value, name: check_dictionary(value)))
    ties: TiesLike | None = parameter(None, lambda value, name: resolve_ties(value))
    features: Any = parameter("auto", or_auto(or_none(check_features)))

    transitions_: np.ndarray | None = attribute(None)
    #: The prior variance of the linear part of categories beside numbers: 0 leaves it out, None is that of the field.
    _variance_of_categories: float | None = attribute(None)

    def _reader_for(self, X: object, part_of: tuple[InputReader, np.ndarray] | None = None) -> InputReader:
        """Return the reader of a fit that begins, on data ``part_of`` which others have read."""

        apart: bool | Sequence[str] = library.has_named_kinds(self.kernel)
        if apart and part_of is not None:
            apart = part_of[0].numbers
        features = features_for(self.features, X)
        return replace(super()._reader_for(X), features=features, apart=apart)

    def behind(self, transformer: Any) -> Self:
        field = super().behind(transformer)
        field.features = field.features_ = field._reader.features
        return field

    @property
    def _seen_around(self) -> int | tuple[int, int]:
        """The window of clique sets: one position where columns have statistics of windows, or it is open."""
        return 1 if isinstance(self.window, str) else self.window

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.window == STATISTICS:
            why = "ties move columns of inputs, and window='statistics' adds others: leave out one"
            resolve_ties(self.ties).refuse(why)

    def _nodes_and_edges(self, **shared: Any) -> list[CliqueSet]:
        """Return the clique sets of positions and of neighbours; ``shared`` are parameters that both have."""
        return [
            NodeCliques(self.kernel, prior_variance=self.prior_variance, **shared),
            self._edges.filled(prior_variance=self._first_variance, **shared),
        ]

    def _in_own_kind(self, reader: InputReader, data: Chains, among: Group) -> Chains:
        """Return data dense or sparse by their numbers; of named ones, numbers and categories apart where few."""
        free = {"support", "l1"} & set(self._get_param_names()) <= set(left_open(self))
        alone = check_window(self._seen_around) == (0, 0)
        # Kernels name columns of their own by place, and categories would change places.
        few = free and alone and self.ties is None and self.allowed is None and not reader.own.rows
        if reader.apart or (reader.encoder is not None and few):
            return reader.with_categories(data, among)
        return reader.in_own_kind(data, among)

    def _beside_categories(self, cliques: Sequence[CliqueSet], training: ChainTraining) -> list[CliqueSet]:
        """Return clique sets in which that of positions sees columns of numbers, and another one categories."""
        if not training.reader.categories:
            return list(cliques)
        n_numbers = training.reader.n_columns - training.reader.categories
        nodes, *others = cliques
        if library.has_named_kinds(nodes.kernel):
            return [clone(nodes).set_params(kernel=nodes.kernel.with_places(n_numbers)), *others]
        own = nodes.prior_variance if self._variance_of_categories is None else self._variance_of_categories
        kernel = library.resolve_kernel(nodes.kernel)
        if not isinstance(kernel, kernels.Columns):  # that of a field whose fit goes on
            nodes = clone(nodes).set_params(kernel=kernels.Columns(kernel, 0, n_numbers))
        linear = NodeCliques(kernels.Columns(kernels.Linear(), n_numbers), prior_variance=own, name="categories")
        return [nodes, linear, *others] if own else [nodes, *others]

    def _weight_candidates(self, training: ChainTraining, left: Mapping[str, Sequence]) -> list[Settings]:
        return [{"categories": variance} for variance in _OF_CATEGORIES] if training.reader.categories else []

    def training_labels(self, y: Any, *, warn: bool = False) -> Any:
        if self.constraints is None:
            return y
        constraints = Constraints.of(self.constraints)
        if constraints.scheme is None or constraints.strict:
            return y
        y = readable_again(y)
        if isinstance(y, SoftTargets) or not is_sequence(y) or not all(item is None or is_sequence(item) for item in y):
            return y
        mended, changed = library.mended_labels(y, find_scheme(constraints.scheme))
        if not changed:
            return y
        if warn:
            first, several = changed[0], len(changed) > 1
            warn_user(
                f"{counted(len(changed), 'label')} of y break{'s' * (not several)} the scheme "
                f"{constraints.scheme!r} and {'are' if several else 'is'} mended, the first at sequence "
                f"{first.sequence}, position {first.position}: {first.label!r} is read as {first.new!r}. Constraints("
                f"scheme={constraints.scheme!r}, strict=True) makes this an error",
            )
        return mended

    def learn_collection(self, X: object, y: object, sample_weight: object) -> tuple[InputReader, Chains, np.ndarray]:
        if self.allowed is not None:
            raise ValueError("allowed is for data of this process, and X is a Dask collection: leave it out")
        return super().learn_collection(X, y, sample_weight)

    def _read_items(self, X: object, y: object, sample_weight: object) -> Chains:
        """Return data as the fitted reader reads them; fits and answers check them in ways of their own."""
        return self._reader.read(X, y, sample_weight, self.classes_)

    def read_data(self, X: object, y: object = None, sample_weight: object = None) -> Chains:
        chains = self._read_items(X, y, sample_weight)
        if self.field_.spec.restricts(chains):
            library.check_lengths(chains.filled, self.field_.spec)
        return chains

    # Labels of a fit may be what a dictionary does not allow: it learns them, or they are allowed where they stand.

    def _read_fitted(self, X: object, y: object, sample_weight: object) -> Chains:
        data = self._read_items(X, self.training_labels(y), sample_weight).for_fit()
        library.check_labels(data, self.field_.spec, self.classes_)
        return data

    def _learn_again(
        self, X: object, y: object, sample_weight: object, *, further: bool = False
    ) -> tuple[InputReader, Chains, np.ndarray]:
        X, y, classes = readable_again(X), self.training_labels(readable_again(y), warn=True), self.classes_
        reader = self._reader.with_rule(
            self.allowed, X, self._position_labels(y), classes, sample_weight, further=further
        )
        reading = self._reading(reader, classes, self._spec_of_all(classes))
        return reader, reading._read_fitted(X, y, sample_weight), classes

    def _read_beside(self, training: ChainTraining, X: object, y: object) -> Chains:
        reading = self._reading(training.reader, training.classes, training.spec)
        return reading._read_items(X, y, None).for_fit()

    def _set_views(self) -> None:
        super()._set_views()
        spec, terms = self.field_.spec, self.field_.terms
        tied = [
            term.tied_scores.reshape(spec.n_labels, -1)
            for term in terms
            if isinstance(term.clique, EdgeCliques) and term.tied_everywhere
        ]
        self.transitions_ = np.sum(tied, axis=0) if tied else None
        self.allowed_, self.features_ = next(iter(self._reader.limits), None), self._reader.features

    # ---- pictures and spans

    def show(
        self, x: object, y: Sequence | None = None, *, tokens: Sequence | None = None, caption: str = ""
    ) -> library.LabelledSequence:
        """Return one sequence as the field labels it, in colours, for a notebook or a page.

        Parameters
        ----------
        x : sequence
            One sequence, in the form the model was fitted on.
        y : sequence of labels or None, default None
            Its true labels, to mark those that are wrong; they may be labels that were not in the fit. Segments are
            drawn above the predicted ones.
        tokens : sequence or None, default None
            What to show for each position, such as its word; None for the words of x, or a time line without words.
        caption : str, default ""
            A line above the picture.

        Returns
        -------
        LabelledSequence
            The labels with their probabilities, to be shown by a notebook or put on a page of a report.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> picture = crf.show([[21.0], [10.0]], tokens=["Monday", "Tuesday"])
        >>> picture.labels
        ('sun', 'rain')
        """
        check_is_fitted(self, "field_")
        return self.inspection.picture(self, x, y, tokens, caption)

    @answers_collections
    def predict_entities(
        self, X: object, *, scheme: str | None = "auto", least: float = 0.05, known: object = None
    ) -> list[list[Entity]]:
        """Return the entities of each sequence.

        They are those of :meth:`predict`. The probability of an entity is that of the whole span among all labellings:
        that it begins and ends where it does, with its type. It is exact.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None, default "auto"
            How labels write entities; "auto" guesses it. Without a scheme an entity is a run of one label other than
            "O", for a SegmentCRF a segment.
        least : float, default 0.05
            The least probability of alternatives, which are spans that overlap an entity.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        list of lists of Entity
            For each sequence its entities: label, begin, end (exclusive), probability, alternatives.

        See Also
        --------
        predict_boundaries : Return the probability that a span begins.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [["Ada", "Byron", "met", "Bob"], ["Bob", "slept"], ["Eve", "slept"]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O"], ["B-PER", "O"]]
        >>> crf = ChainCRF(prior_variance=1.0, constraints="bio", random_state=0).fit(X, y)
        >>> for entity in crf.predict_entities([["Ada", "Byron", "slept"]])[0]:
        ...     print(entity.label, entity.begin, entity.end, round(entity.probability, 2))
        PER 0 2 0.81
        """
        return find_entities(self, X, scheme, least, known)

    @answers_collections
    def predict_boundaries(self, X: object, *, scheme: str | None = "auto", known: object = None) -> ByItem:
        """Return the probability that a span begins, position by position.

        Spans are those of :meth:`predict_entities`; without a scheme they are runs of one label.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        scheme : {"auto", "bio", "iob1", "bioes", "bilou"} or None, default "auto"
            How labels write entities; "auto" guesses it. Without a scheme an entity is a run of one label other than
            "O", for a SegmentCRF a segment.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        list of arrays (T,)
            The probabilities of each sequence.

        See Also
        --------
        predict_entities : Return the spans with their probabilities.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [["Ada", "Byron", "met", "Bob"], ["Bob", "slept"], ["Eve", "slept"]]
        >>> y = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "O"], ["B-PER", "O"]]
        >>> crf = ChainCRF(prior_variance=1.0, constraints="bio", random_state=0).fit(X, y)
        >>> crf.predict_boundaries([["Ada", "Byron", "slept"]])[0].round(2)
        array([0.97, 0.1 , 0.03])
        """
        return boundary_shares(self, X, scheme, known)


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
    cliques : list of clique sets, StructureSearch or None, default None
        The clique sets of the field, in place of kernel, edges and what describes them; a StructureSearch adds those of
        its candidates that bring most.

    Attributes
    ----------
    thresholds_ : dict
        The probabilities above which rare labels are predicted with ``decode="f1"``.
    structure_path_ : StructurePath or None
        The steps of a StructureSearch.

    See Also
    --------
    SegmentCRF : Fields on segments, whose lengths count.
    GraphCRF : Fields on graphs.
    SequenceClassifier : Classes of whole sequences.
    kernelfields.selection.ChainCRFCV : A ChainCRF with parameters chosen by cross-validation.

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

    kind = "ChainCRF"
    _family_kind = "chain"
    decision_rule = ChainRule()

    decode: str = parameter("auto", one_of(*DECODINGS, BY_THRESHOLDS))
    support: str | float = parameter("auto", or_auto(check_support), usual=USUAL["support"], tried=("all", "observed"))
    l1: float | str = parameter("auto", or_auto(check_penalty), usual=USUAL["l1"], tried=(_USUAL_L1, 0.0))
    cliques: Sequence[CliqueSet] | library.StructureSearch | None = parameter(None)

    structure_path_: StructurePath | None = attribute(None)

    def check_parameters(self) -> None:
        if isinstance(self.cliques, str):
            raise ValueError(f"cliques must be a list of clique sets, a StructureSearch or None, got {self.cliques!r}")
        if self.learns_structure:
            why = "a StructureSearch judges sets whose labels share no weights: leave out ties, or name the sets"
            resolve_ties(self.ties).refuse(why)
        if self.decode == BY_THRESHOLDS and self._names_cliques():
            raise ValueError(
                "decode='f1' chooses thresholds by short fits of the field that parameters describe: leave out cliques"
            )
        super().check_parameters()
        library.name_cliques(self._described_cliques())

    @property
    def learns_structure(self) -> bool:
        """Whether a search chooses clique sets beside those that the parameters describe."""
        return self.cliques is not None and isinstance(self.cliques, library.StructureSearch)

    def _described_cliques(self) -> Sequence[CliqueSet]:
        """Return the clique sets that the parameters describe, or those that were given."""

        if self.cliques is not None and not isinstance(self.cliques, library.StructureSearch):
            return [self.cliques] if isinstance(self.cliques, CliqueSet) else self.cliques
        usual = with_usual_values(self)
        names = ("basis", "rank", "support", "l1")
        return usual._nodes_and_edges(window=usual._seen_around, **{name: getattr(usual, name) for name in names})

    def _runs_anywhere(self) -> bool:
        chosen = self.allowed is None and not self.learns_structure
        return chosen and not any(clique.needs_threads for clique in self._described_cliques())

    def _learn(
        self, X: object, y: object, sample_weight: object, part_of: tuple[InputReader, np.ndarray] | None = None
    ) -> tuple[InputReader, Chains, np.ndarray]:
        y = self.training_labels(y, warn=part_of is None)
        reader = self._reader_for(X, part_of)
        seen = any(clique.observed_only for _, clique in library.name_cliques(self._described_cliques()))
        known = self._declared_classes if part_of is None else part_of[1]
        chains, classes = reader.learn(X, y, sample_weight, keep_zeros=seen, classes=known, allowed=self.allowed)
        spec = self._family_spec(classes, chains)
        if spec.restricts(chains):
            library.check_labels(chains, spec, classes)
        return reader, chains, classes

    def _family_spec(self, classes: np.ndarray, data: Chains | None) -> library.FamilySpec:
        return library.FamilySpec(self._family_kind, len(classes), self._masks(classes))

    def clique_sets(self, training: ChainTraining) -> NamedCliques:
        training.estimator.structure_path_ = None
        described = self._beside_categories(self._described_cliques(), training)
        if self.cliques is None or not isinstance(self.cliques, library.StructureSearch):
            return library.name_cliques(described)
        if not isinstance(training.data, Chains):
            raise ValueError(
                "a StructureSearch needs sequences of this process: learn on a part of the data, then name the sets"
            )
        run = training.run
        chosen, training.estimator.structure_path_ = self.cliques.chain_cliques(
            described,
            training.data,
            run.held_out,
            place_chains=training.place,
            options=replace(run.options, watch=None),
            announce=run.options.report,
        )
        return chosen

    def as_fitted(self) -> Self:
        fitted = super().as_fitted()
        if self.learns_structure:
            found = [(term.name, term.clique) for term in self.field_.terms]
            fitted.cliques = library.FoundStructure(found, self.structure_path_)
        return fitted

    def _names_cliques(self) -> bool:
        return self.cliques is not None and not self.learns_structure

    def for_pilot(self) -> Self:
        piloted = super().for_pilot()
        piloted.cliques = None
        return piloted

    def _weight_candidates(self, training: ChainTraining, left: Mapping[str, Sequence]) -> list[Settings]:
        if training.reader.categories:
            return super()._weight_candidates(training, left)
        free = self.solver in ("auto", "lbfgs", "sgd+lbfgs")
        if self.ties is not None or not (training.reader.holds_features and training.data.given.complete and free):
            return []
        if not library.resolve_kernel(self.kernel).has_feature_map or training.run.engine.alone.name != "threads":
            return []
        # Fits with the weights that were seen are the fastest: the path of variances is theirs.
        tried = {name: left[name] for name in ("support", "l1") if name in left}
        pairs = [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())]
        return [pairs[-1], *pairs[:-1]] if tried else []

    @property
    def _learns_in_pilot(self) -> bool:
        return self.decode == BY_THRESHOLDS

    def _learn_from_pilot(self, training: ChainTraining, field: library.Field, held_out: Chains) -> library.Choices:
        answers = field.answers(held_out, training.run.settings.workers, training.run.engine)
        labels, weights = held_out.required_labels, held_out.position_weights * held_out.given.informative()
        if not weights.any():
            return library.Choices()
        shares = np.bincount(training.data.required_labels, minlength=len(training.classes)) / training.data.n_positions
        rare = judged_labels(shares, labels, weights)
        if self.decode == BY_THRESHOLDS:
            return library.Choices({"thresholds": rare_thresholds(answers.marginals, labels, weights, rare).tolist()})
        fits = guess_scheme(training.classes.tolist()) is not None
        if not is_auto(self.decode):
            return library.Choices()
        if fits or not training.spec.constrained:
            predicted = answers.best_labels() if fits else answers.likeliest_labels()
            _warn_of_rare_labels(training.classes[rare], shares[rare], np.isin(rare, predicted))
            return library.Choices()
        decoded = {"viterbi": answers.best_labels(), "posterior": answers.likeliest_labels()}
        share_right = {name: float(np.average(found == labels, weights=weights)) for name, found in decoded.items()}
        trials = tuple(library.Trial({"decode": name}, share) for name, share in share_right.items())
        pays = share_right["posterior"] >= share_right["viterbi"] + _WORTH_BREAKING_RULES
        chosen = "posterior" if pays else "viterbi"
        _warn_of_rare_labels(training.classes[rare], shares[rare], np.isin(rare, decoded[chosen]))
        return library.Choices({"decode": chosen}, trials)

    @property
    def thresholds_(self) -> dict[Any, float]:
        """The probabilities above which rare labels are predicted with ``decode="f1"``."""
        return {
            label: own for label, own in zip(self.classes_.tolist(), learnt_thresholds(self), strict=True) if own < 1.0
        }

    def set_fitted(self, training: ChainTraining, fitted: FittedField) -> Self:
        super().set_fitted(training, fitted)
        self.structure_path_ = training.estimator.structure_path_
        return self

    def stream(self, lag: float = 5, *, decode: str | None = None, every: int = 1) -> library.LabelStream:
        """Return a stream that labels the positions of one sequence as they come.

        See docs/streams.md.

        Parameters
        ----------
        lag : float, default 5
            The number of positions after which a label is answered; infinity waits for the end of the sequence.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            How labels are chosen; None means ``decode`` of the estimator.
        every : int, default 1
            How many positions are taken together before answers are computed.

        Returns
        -------
        LabelStream
            ``push`` takes the next positions, ``end`` ends the sequence.

        Raises
        ------
        ValueError
            If ``decode`` is None and that of the estimator is "f1".

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> stream = crf.stream(lag=1)
        >>> [stream.push([degrees]).labels for degrees in (21.0, 20.0, 10.0)]
        [[], ['sun'], ['sun']]
        >>> stream.end().labels
        ['rain']
        """

        if decode is None and self.decode == BY_THRESHOLDS:
            raise ValueError("streams decode by 'viterbi' or 'posterior': name one of them, this field has decode='f1'")
        jointly = self.decision_rule.decision(self, decode).jointly
        return library.LabelStream(self._field(), self._reader, self.classes_, lag, every, jointly, self.n_jobs)

    def _describe_spec(self) -> Document:
        # Readers of model files need not guess whether labels are those of entities.
        return {**super()._describe_spec(), "jointly": self.decision_rule.is_joint(self)}


def _warn_of_rare_labels(labels: np.ndarray, shares: np.ndarray, predicted: np.ndarray) -> None:
    """Warn of rare labels that are never predicted for held-out data."""
    if predicted.all():
        return
    left = zip(labels[~predicted].tolist(), shares[~predicted].tolist(), strict=True)
    named = ", ".join(f"{label!r} ({share:.1%} of the positions)" for label, share in left)
    warn_user(
        f"never predicted for held-out data: {named}. decode='f1' predicts rare labels above thresholds of their own, "
        "decode='posterior' or 'viterbi' confirms that the most probable labels are wanted (docs/rare_events.md)",
    )
