"""Answers of a fitted field: labels, probabilities, weights and explanations, certificates, the Laplace posterior.

    predict  read new data -> batches -> Field.answers -> the form of the estimator (``answer_format``)

Questions that follow from the distribution of the labels alone are in questions.py, for every family alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelfields.data.ragged import LabelLists, Ragged
from kernelfields.data.reading import is_empty, random_generator
from kernelfields.engines.choice import answers_collections, scoring_engine
from kernelfields.estimators import library, questions
from kernelfields.estimators.answering.decisions import DecisionRule
from kernelfields.estimators.answering.formats import AnswerFormat, ByItem
from kernelfields.estimators.inspecting.inspection import Inspection
from kernelfields.estimators.kept_field import KeptField, blas_limit
from kernelfields.estimators.questions import Data, Reader, Seed
from kernelfields.estimators.workers import runs_on_workers
from kernelfields.numerics.parameters import check_count
from kernelfields.numerics.threads import Workers, blas_threads

if TYPE_CHECKING:
    from kernelfields.inference.answers import Answers
    from kernelfields.objective.bounds import Certificate
    from kernelfields.posterior.laplace.laplace import Evidence
    from kernelfields.reports.inspection import Explanation, WeightsTable


class AnsweringField(KeptField[Data, Reader]):
    """A fitted field that answers questions about labels and about itself."""

    #: How labels are chosen.
    decision_rule: ClassVar[DecisionRule]
    #: The form of answers, with the names of items and positions.
    answer_format: ClassVar[AnswerFormat[Any]]
    #: How the field is looked at.
    inspection: ClassVar[Inspection]

    # Questions that the distribution of labels answers.
    predict_nbest = questions.predict_nbest
    sample = questions.sample
    entropy = questions.entropy
    log_likelihood = questions.log_likelihood

    # ---- answers

    def share_of_fit(self, X: object) -> float:
        """Return the share of items that are recognised as those of the fit.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.

        Returns
        -------
        float
            The share; zero if it cannot be known.
        """
        items = self._fitted_items
        return 0.0 if items is None or self._reader.is_empty(X) else items.share(self.structure.read(X))

    def answers(self, X: object, y: object = None, known: object = None) -> Iterator[Answers]:
        """Yield batches of items with the distribution of their labels, which answers every question about it.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        y : labels or None, default None
            The labels of the items.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Yields
        ------
        Answers
            Marginals, best and n best labellings, draws and log-partition functions of some items, in the order of X.
        """
        field, workers = self._field(), Workers(self.n_jobs)
        if self._reader.is_empty(X) and (y is None or is_empty(y)):
            return
        data = self.structure.read(X, y)
        if self._repeated is not None:
            self._repeated.warn(self._reader.steps.undone(data.inputs))
        form = self.answer_format
        log_weights = None if known is None else form.known_log_weights(self, known, data, field.spec)
        place = scoring_engine(self.engine, n_values=self._n_values(data))
        begin = 0
        for batch in field.batches(data):
            end = begin + batch.n_positions
            yield field.answers(batch, workers, place).given(None if log_weights is None else log_weights[begin:end])
            begin = end

    @answers_collections
    def predict(self, X: object, decode: str | None = None, *, known: object = None) -> ByItem:
        """Return the labels of each item.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        decode : {"auto", "viterbi", "posterior"} or None, default None
            "viterbi" takes the most probable labelling as a whole, "posterior" the most probable label of each
            position. None means ``decode`` of the estimator, or its ``decision`` for several labels.
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        list of lists or arrays (T,)
            The labels of each sequence or graph; for rows one array (n,), for several labels (n, K) of 0 and 1.

        See Also
        --------
        predict_marginals : Return the probabilities of labels.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> crf.predict([[[21.0], [10.0]], [[9.0]]])
        [['sun', 'rain'], ['rain']]
        >>> crf.predict([[[21.0], [10.0]]], known=[["rain", None]])
        [['rain', 'rain']]
        """
        decision, labels = self.decision_rule.decision(self, decode), self.answer_format.labels(self)
        found = self.answer_format.arrange(
            (answers.asked, labels[decision.choose(answers)]) for answers in self.answers(X, known=known)
        )
        return LabelLists(found) if isinstance(found, Ragged) else found

    @answers_collections
    def predict_marginals(
        self, X: object, cliques: str | None = None, *, uncertainty: bool = False, known: object = None
    ) -> ByItem:
        """Return the probabilities p(y_t | x) of labels, position by position.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.
        cliques : str or None, default None
            Also return the joint marginals of the labels of a kind of cliques: "edge" are neighbouring labels of
            sequences; those of graphs are named as the types of their edges.
        uncertainty : bool, default False
            After :meth:`laplace`, allow for doubt about the coefficients: log-odds shrink by their variance in the
            posterior around the fit, and the most probable labels stay (the probit correction).
        known : labels or None, default None
            What is known of the labels, in the form of a ``y`` of :meth:`fit`; answers are given that it is so.

        Returns
        -------
        list of arrays (T, L)
            The marginals of each item, columns as in ``classes_``; for rows one array (n, L). With ``cliques`` a pair
            of this list and a list of arrays (m, L, .., L); for n-grams that are listed because they were seen in
            training (m, n-grams), in the order of ``coef_``.

        See Also
        --------
        predict : Return the labels.
        predict_variances : Return the posterior variances of potentials.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> crf.classes_.tolist()
        ['rain', 'sun']
        >>> crf.predict_marginals([[[21.0], [10.0]]])[0].round(2)
        array([[0.24, 0.76],
               [0.79, 0.21]])
        >>> marginals, pairs = crf.predict_marginals([[[21.0], [10.0]]], cliques="edge")
        >>> pairs[0].round(2)
        array([[[0.2 , 0.04],
                [0.59, 0.17]]])
        """
        check_is_fitted(self, "field_")
        if not isinstance(uncertainty, bool | np.bool_):
            raise ValueError(f"uncertainty must be True or False, got {uncertainty!r}")
        if uncertainty and cliques is not None:
            raise ValueError(
                "uncertainty=True is a correction of the marginals of single labels: ask for cliques without it"
            )
        nodes: list[tuple[Data, np.ndarray]] = []
        joints: list[np.ndarray] = []
        for answers in self.answers(X, known=known):
            nodes.append((answers.asked, self._doubting(answers) if uncertainty else answers.marginals))
            if cliques is not None:
                joints += answers.clique_marginals(cliques)
        marginals = self.answer_format.arrange(nodes)
        return marginals if cliques is None else (marginals, Ragged(joints))

    def _doubting(self, answers: Answers) -> np.ndarray:
        """Return marginals (n, L) that allow for doubt about the coefficients."""

        return library.shrunk_marginals(self._field(), answers, self._drawn(), Workers(self.n_jobs))

    @answers_collections
    def predict_variances(self, X: object) -> ByItem:
        """Return the posterior variances of the potentials of single labels, after :meth:`laplace`.

        Parameters
        ----------
        X : inputs
            Sequences, graphs or rows, in a form that :meth:`fit` takes.

        Returns
        -------
        list of arrays (T, L)
            The variances of each item, columns as in ``classes_``; for rows one array (n, L); for several labels those
            of their log odds (n, K).

        Raises
        ------
        ValueError
            If :meth:`laplace` was not called.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> evidence = crf.laplace(X, y, random_state=0)
        >>> near, far = crf.predict_variances([[[20.0], [90.0]]])[0]
        >>> bool((near < far).all())
        True
        """
        return self.answer_format.arrange_variances(self._variances(X))

    def _variances(self, X: object) -> Iterator[tuple[Data, np.ndarray]]:
        """Yield batches with the posterior variances of the potentials of single labels."""

        field, samples = self._field(), self._drawn()
        for batch in field.batches(self.structure.read(X)) if not self._reader.is_empty(X) else ():
            rows = (
                library.label_variances(field, batch.filled, samples)
                if batch.n_positions
                else np.zeros((0, field.spec.n_labels))
            )
            yield batch, rows  # type: ignore[misc]  # batches of the same kind

    # ---- inspection

    def weights(
        self,
        top: int | tuple[int, int] | None = 20,
        labels: Sequence[object] | None = None,
        feature_re: str | re.Pattern[str] | None = None,
        *,
        feature_names: object = None,
    ) -> WeightsTable:
        """Return the largest weights of every label, and the scores of labels that meet.

        With a window, names of neighbours' features begin with their offset: "[-1] word:the". Kernels without explicit
        features, such as RBF, have a note instead of weights. Transitions that depend on the inputs have one list for
        all pairs of labels. Weights are relative: a number added to those of one feature for all labels changes no
        probability, so compare the labels of a feature. If columns were brought to one scale, weights are those of the
        scaled columns.

        Parameters
        ----------
        top : int, pair of int or None, default 20
            The number of weights of each label, the largest by size; a pair for positive and negative ones; None for
            all.
        labels : list of labels or None, default None
            The labels to show, in this order, with the transitions between them; None for all.
        feature_re : str, pattern or None, default None
            A regular expression; features are listed if it is found in their names.
        feature_names : sequence of str, dict or None, default None
            The names of the input features, for graphs also a dict by type of edges, with "node" for nodes. None means
            those of the fit, or "x0", "x1", ... for arrays.

        Returns
        -------
        WeightsTable
            The weights, to be printed, shown by a notebook or taken as rows by ``to_rows()``.

        See Also
        --------
        explain : Return what moved the labels of one item.
        summary : Return the field at a glance.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [[{"warm": 1.0}, {"cold": 1.0}], [{"cold": 1.0}, {"cold": 1.0}, {"warm": 1.0}]]
        >>> y = [["sun", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF(prior_variance=1.0, tol=1e-6, random_state=0).fit(X, y)
        >>> table = crf.weights(top=1, labels=["sun"], feature_re="warm")
        >>> [(row["feature"], round(row["weight"], 2)) for row in table.to_rows() if row["feature"]]
        [('warm', 0.52)]
        """
        return self.inspection.weights(self, top, labels, feature_re, feature_names)

    def explain(
        self,
        x: object,
        y: object = None,
        top: int = 5,
        against: object = None,
        *,
        feature_names: object = None,
        tokens: Sequence[object] | None = None,
        positions: Sequence[int] | None = None,
        neighbours: int = 3,
    ) -> Explanation:
        """Return what moved the labels of one sequence, graph or row, and away from which other labels.

        The contributions at a position add up to log p(y | x) - log p(y' | x), where y' has the other label at this
        position. A labelling that the field forbids has probability zero: each rule that it breaks contributes
        infinity.

        Parameters
        ----------
        x : sequence, graph or row
            One item, in the form the model was fitted on.
        y : labels or None, default None
            Its labels; None for the predicted ones.
        top : int, default 5
            The number of features to list at each position, the largest by size; transitions and kernels are always
            listed.
        against : label, list of labels or None, default None
            The label to compare with, or one for each position; None for the most probable besides y.
        feature_names : sequence of str, dict or None, default None
            The names of the input features, for graphs also a dict by type of edges, with "node" for nodes. None means
            those of the fit, or "x0", "x1", ... for arrays.
        tokens : sequence or None, default None
            What to show for each position, such as its word or the name of a node.
        positions : sequence of int or None, default None
            The positions to explain; None for all.
        neighbours : int, default 3
            The number of training inputs to list for each kernel without explicit features: the most similar ones.

        Returns
        -------
        Explanation
            The contributions at each position, to be printed, shown by a notebook or taken as rows by ``to_rows()``.

        Raises
        ------
        ValueError
            If the field has no scores of single labels, as those of segments.

        See Also
        --------
        weights : Return the largest weights of all labels.

        Examples
        --------
        >>> from kernelfields import ChainCRF
        >>> X = [[{"warm": 1.0}, {"cold": 1.0}], [{"cold": 1.0}, {"cold": 1.0}, {"warm": 1.0}]]
        >>> y = [["sun", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF(prior_variance=1.0, tol=1e-6, random_state=0).fit(X, y)
        >>> print(crf.explain([{"warm": 1.0}, {"cold": 1.0}], positions=[0]))
        Scores of labels over others, the labels of their neighbours held fixed,
        and what they are the sums of. Probabilities are given in brackets.
        <BLANKLINE>
        0: sun (0.738) over rain (0.262), +1.148
            +1.035  warm
            +0.113  transition to rain
        """

        field, settings = self._field(), library.ExplanationSettings(top, neighbours)
        settings.check()
        looks = self.inspection
        if looks.why_unexplained:
            raise ValueError(looks.why_unexplained)
        data = looks.item(self, x, y, "explain")
        form = self.answer_format
        answers, classes = field.answers(data, Workers(1)), form.labels(self).tolist()
        labels = self.decision_rule.decision(self, None).choose(answers) if y is None else data.required_labels
        others = library.likeliest_others(answers.marginals, labels, classes, against)
        words = (
            library.checked_tokens(tokens, len(labels), *form.headings) if tokens is not None else looks.tokens(self, x)
        )
        places = library.checked_places(positions, len(labels), form.headings[1])
        compared = library.Compared(labels, others, classes, words, places, unordered=form.items.part == "node")
        return library.explain_labels(
            field.terms,
            answers,
            compared,
            lambda term: looks.feature_names(self, term, feature_names),
            lambda term, nodes, place: looks.step_words(self, term, nodes, place, compared),
            settings,
        )

    def summary(self) -> library.ModelSummary:
        """Return the fitted field at a glance.

        Returns
        -------
        ModelSummary
            Labels, clique sets, the fit, its certificates and what was left to the data, to be printed, shown by a
            notebook or put on a page of a report.

        See Also
        --------
        weights : Return the largest weights of all labels.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> print(str(crf.summary()).splitlines()[0])
        ChainCRF: 2 labels, 1 input feature, 2 clique sets, 10 weights
        """
        field = self._field()
        forbidden = np.isneginf(field.spec.step_penalties)
        return library.ModelSummary(
            name=type(self).__name__,
            labels=tuple(self.answer_format.labels(self).tolist()),
            n_features=self._reader.rows.n_features,
            sets=tuple(library.summarise_term(term, self.answer_format.items.part) for term in field.terms),
            solution=self.solution_,
            # The free bound over the RKHS proves nothing unless nearly all inputs are pivots.
            certificates=tuple(
                own for own in self._certificates or () if own.scope == "span" or own.relative_gap < 1.0
            ),
            choices=str(self.choices_).splitlines() if self.choices_.chosen else (),
            parameters=library.changed_parameters(self),
            transitions=self.inspection.transitions(self),
            forbidden=forbidden if forbidden.any() else None,
        )

    def _repr_html_inner(self) -> str:
        """Return the HTML of scikit-learn's ``_repr_html_``; below a fitted estimator is its summary, folded."""
        return super()._repr_html_inner() + (self.summary().folded() if self.__sklearn_is_fitted__() else "")

    def _repr_mimebundle_(self, **settings: object) -> dict[str, str]:
        """Return what a notebook shows, as scikit-learn does."""
        bundle = super()._repr_mimebundle_(**settings)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    # ---- certificates

    @property
    def certificate_(self) -> Certificate:
        """How far the fit can be from the best one in the span of its basis; only for exact inference."""
        return self._certified()[0]

    @property
    def rkhs_certificate_(self) -> Certificate:
        """How far the fit can be from the best one in the whole RKHS; only for exact inference.

        It is exact for explicit features and ``basis="gradient"``. Else it is a bound that costs nothing, and its lower
        bound is zero unless nearly all inputs are pivots: :meth:`certify` is what to ask then.
        """
        return self._certified()[1]

    def _certified(self) -> tuple[Certificate, Certificate]:
        check_is_fitted(self, "field_")
        if self._certificates is None:
            method = None if self.inference_ is None else self.inference_.method
            raise AttributeError(f"no certificate: the labels were inferred by {method!r}, which is approximate")
        return self._certificates

    @property
    def stationarity_(self) -> float:
        """How flat the objective is at the fit: (s / 2) ||gradient||^2 over the value, summed over clique sets.

        Where labels are partly known the objective has several minima, and this measures whether one is reached.
        """
        check_is_fitted(self, "field_")
        return sum(self.solution_.gap_parts.values()) / max(abs(self.solution_.value), np.finfo(float).tiny)

    def certify(
        self, X: object, y: object, *, scope: str = "rkhs", sample_weight: ArrayLike | None = None
    ) -> Certificate:
        """Return how far the fitted field can be from the best one on the data of the fit.

        The gradient at the fitted field alone proves it; ``certificate_`` combines points and may be tighter.

        Parameters
        ----------
        X : inputs
            The inputs of the fit.
        y : labels
            The labels of the fit.
        scope : {"rkhs", "span"}, default "rkhs"
            Among which functions: all of the RKHS, in O(N^2) evaluations of the kernel, or those in the span of the
            basis.
        sample_weight : array (n_items,) or None, default None
            One weight for each sequence, graph or row.

        Returns
        -------
        Certificate
            The value of the objective and a lower bound of its minimum.

        Raises
        ------
        ValueError
            If the fit had expectations.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> certificate = crf.certify(X, y)
        >>> certificate.scope, bool(certificate.relative_gap < 0.05)
        ('rkhs', True)
        """
        fitted = self._field()
        self.structure.refuse_expectations(
            "certify", "certificate_ and stationarity_ show how near the fit is to a minimum"
        )
        if scope not in ("rkhs", "span"):
            raise ValueError(f"scope must be 'rkhs' or 'span', got {scope!r}")
        data = self.structure.read_training(X, y, sample_weight)
        place = scoring_engine(self.engine, n_values=self._n_values(data))
        with blas_threads(blas_limit(self, data.n_positions)):
            return fitted.certify(data, Workers(self.n_jobs), scope, place)

    # ---- uncertainty

    @runs_on_workers
    def laplace(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        *,
        n_samples: int = 50,
        method: str = "auto",
        steps: int = 100,
        probes: int = 10,
        random_state: Seed = None,
    ) -> Evidence:
        """Approximate the posterior of the coefficients by a Gaussian, and estimate the log evidence.

        It draws coefficients for :meth:`predict_variances` and for predictions with ``uncertainty=True``. What the
        basis cannot express of an input keeps its prior variance, less the most that it leaves out of any training
        input. A warning says if the posterior is no Gaussian around the mode.

        Parameters
        ----------
        X : inputs
            The inputs of the fit.
        y : labels
            The labels of the fit.
        sample_weight : array (n_items,) or None, default None
            One weight for each sequence, graph or row.
        n_samples : int, default 50
            The number of coefficient vectors to draw.
        method : {"auto", "exact", "lanczos"}, default "auto"
            "exact" factors the Hessian, "lanczos" works with products of it; "auto" is exact for small fields.
        steps : int, default 100
            The number of products for each probe and for each sample, for "lanczos".
        probes : int, default 10
            The number of estimates of the log determinant, for "lanczos".
        random_state : int, Generator, RandomState or None, default None
            The source of randomness.

        Returns
        -------
        Evidence
            The log evidence and its standard error.

        Raises
        ------
        ValueError
            If the fit had expectations.

        See Also
        --------
        predict_marginals : Return marginals that allow for doubt, with ``uncertainty=True``.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> evidence = crf.laplace(X, y, random_state=0)
        >>> round(evidence.value, 1), evidence.standard_error
        (-4.0, 0.0)
        >>> crf.predict_marginals([[[21.0]]])[0].round(2)
        array([[0.21, 0.79]])
        >>> crf.predict_marginals([[[21.0]]], uncertainty=True)[0].round(2)
        array([[0.26, 0.74]])
        """

        for name, number in (("n_samples", n_samples), ("steps", steps), ("probes", probes)):
            check_count(number, name)
        terms = self._field().terms
        self.structure.refuse_expectations("laplace", "fit without them for a posterior")
        data: Data = self.structure.read_training(X, y, sample_weight).weighty()
        settings = self._sample_settings(sum(not term.tied_everywhere for term in terms))
        sample = self._engine(data).place(data, self._field().spec, settings)
        with self._progress() as progress:
            self.laplace_ = library.draw_posterior(
                terms,
                sample,
                n_samples=n_samples,
                method=method,
                steps=steps,
                probes=probes,
                random=random_generator(random_state),
                # After batches there are no data of the fit that could be compared.
                fitted_value=self.solution_.value if self.continuation_ is None else None,
                announce=progress.announce,
            )
        return self.laplace_.evidence

    def sample_coefficients(self) -> dict[str, np.ndarray]:
        """Return the coefficients that :meth:`laplace` has drawn.

        Returns
        -------
        dict of str to ndarray (n_samples, rank, labellings)
            The draws of each term by its name; for n-grams that were seen in training (n_samples, 1, n-grams).

        Raises
        ------
        ValueError
            If :meth:`laplace` was not called.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelfields import ChainCRF
        >>> X = [np.array([[20.0], [21.0], [10.0], [11.0]]), np.array([[9.0], [10.0], [22.0]])]
        >>> y = [["sun", "sun", "rain", "rain"], ["rain", "rain", "sun"]]
        >>> crf = ChainCRF("rbf", prior_variance=1.0, scale=True, random_state=0).fit(X, y)
        >>> evidence = crf.laplace(X, y, n_samples=20, random_state=0)
        >>> {name: draws.shape for name, draws in crf.sample_coefficients().items()}
        {'node': (20, 6, 2), 'edge': (20, 1, 4)}
        """
        return {
            term.name: np.stack([term.per_labelling(row) for row in drawn])
            for term, drawn in zip(self._field().terms, self._drawn().samples, strict=True)
        }

    def _drawn(self) -> library.LaplaceSamples:
        if self.laplace_ is None:
            raise ValueError("uncertainty needs the posterior around the fit: call laplace(X, y) on its data first")
        return self.laplace_
