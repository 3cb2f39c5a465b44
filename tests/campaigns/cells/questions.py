"""Questions to a fitted model, compared with the law of the labels."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import entr

from kernelfields import ConformalField, evaluate, find_label_errors, rank_for_labelling
from kernelfields.page import LabellingSession
from kernelfields.reports import report_page
from kernelfields.uncertainty import calibrate
from tests.campaigns.cells.features import feature
from tests.campaigns.cells.subjects import Classifier, Compat, Frames, Points, Subject, as_array
from tests.campaigns.cells.verdicts import Inexpressible, check, close, same
from tests.oracles.labellings import Labellings

_QUESTIONS = "questions"
_DRAWS = 4000
# Clique sets of single labels, whose features have weights by name.
_SETS = ("node", "label")


def grid(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points of a line, the densities there, and the widths that they stand for."""
    edges = np.linspace(-3.0, 3.0, 20_001)
    points = (edges[1:] + edges[:-1]) / 2
    return points, np.exp(model.score_samples(points[:, None])), np.diff(edges)


@feature(_QUESTIONS, "predict")
def predict(s: Subject) -> None:
    """Compare predictions with the best labelling, or the likeliest labels."""
    for item, labels in zip(s.new, s.labels(s.model.predict(s.X_new)), strict=True):
        law = s.law(s.model, item)
        same(s.numbers(labels), (law.best if s.jointly else law.likeliest).tolist())


@feature(_QUESTIONS, "predict(decode=...)")
def decode(s: Subject) -> None:
    """Compare both decodings."""
    for name, of_law in (("viterbi", "best"), ("posterior", "likeliest")):
        for item, labels in zip(s.new, s.labels(s.model.predict(s.X_new, decode=name)), strict=True):
            same(s.numbers(labels), getattr(s.law(s.model, item), of_law).tolist(), name)


@feature(_QUESTIONS, "marginals")
def marginals(s: Subject) -> None:
    """Compare the probabilities of labels."""
    for item, table in zip(s.new, s.marginals(s.model), strict=True):
        close(table, s.law(s.model, item).marginals, words="marginals")


@feature(_QUESTIONS, "marginals of pairs")
def pair_marginals(s: Subject) -> None:
    """Compare the joint probabilities of labels that meet."""
    if not any(map(s.pairs, s.new)):
        raise Inexpressible("a single label has no neighbours")
    _, joints = s.model.predict_marginals(s.X_new, cliques=s.group)
    for item, joint in zip(s.new, joints, strict=True):
        law = s.law(s.model, item)
        close(joint, [s.joint(law, pair) for pair in s.pairs(item)], words="joint marginals")


@feature(_QUESTIONS, "predict_nbest")
def nbest(s: Subject) -> None:
    """Compare the three best labellings and their log-probabilities."""
    for item, ranked in zip(s.new, s.model.predict_nbest(s.X_new, 3), strict=True):
        expected = s.law(s.model, item).ranked(3)
        close([log for _, log in ranked], [log for _, log in expected], words="log-probabilities")
        for (labels, _), (numbers, _) in zip(ranked, expected, strict=True):
            same(s.numbers(np.atleast_1d(np.asarray(labels)).tolist()), numbers.tolist())
    accepted = s.model.predict_nbest(s.X_new, 2, where=lambda labels: _is_odd(s.numbers(np.ravel(labels).tolist())))
    for item, ranked in zip(s.new, accepted, strict=True):
        every = s.law(s.model, item).ranked(10**6)
        expected = [log for numbers, log in every if _is_odd(numbers.ravel().tolist())][:2]
        close([log for _, log in ranked], expected, words="log-probabilities of those that are accepted")


def _is_odd(numbers: list[int]) -> bool:
    return sum(numbers) % 2 == 1


@feature(_QUESTIONS, "predict_entities")
def entities(s: Subject) -> None:
    """Compare the probabilities of runs of one label, and of their alternatives, of which none is missing."""
    least = 1e-4
    for item, found in zip(s.new, s.model.predict_entities(s.X_new, least=least), strict=True):
        chances = run_chances(s.law(s.model, item), len(item.x))
        check(bool(found), "no runs of labels")
        for entity in found:
            listed = {}
            for one in (entity, *entity.alternatives):
                listed[s.classes.index(one.label), one.begin, one.end] = one.probability
            close(list(listed.values()), [chances[run] for run in listed], words="probability of a run")
            beside = {run for run in chances if run[1] < entity.end and entity.begin < run[2]} - set(listed)
            check(all(chances[run] < least + 1e-9 for run in beside), "an alternative is missing")


def run_chances(law: Labellings, length: int) -> dict[tuple[int, int, int], float]:
    """Return the probability of every run of one label: its number, begin and end."""
    chances = {}
    for begin, end in combinations(range(length + 1), 2):
        for number in range(law.n_labels):
            whole = (law.labellings[:, begin:end] == number).all(axis=1)
            for beside in (begin - 1, end):
                whole &= law.labellings[:, beside] != number if 0 <= beside < length else True
            chances[number, begin, end] = float(law.probabilities[whole].sum())
    return chances


@feature(_QUESTIONS, "ConformalField")
def conformal_sets(s: Subject) -> None:
    """Compare sets of labels (with the likeliest one), of runs and of labellings with those above the threshold."""
    runs = ("entities",) if hasattr(s.model, "predict_entities") else ()
    for target in ("positions", "labellings", *runs) if s.exact else ("positions",):
        sets = ConformalField(s.model, confidence_level=0.6, target=target)
        sets.conformalize(s.X_new, s.truth(s.new))
        (level,) = sets.thresholds_.values()
        for item, own in zip(s.new, sets.predict_set(s.X_new), strict=True):
            law = s.law(s.model, item)
            if target == "labellings":
                expected = int((law.logs >= -level - 1e-9).sum())
                same([len(own.labellings)], [expected], "labellings in a set")
                continue
            if target == "entities":
                chances = run_chances(law, len(item.x))
                listed = sorted((s.classes.index(label), begin, end) for label, begin, end, _ in own.spans)
                same(
                    listed,
                    sorted(run for run in chances if chances[run] >= max(level, 1e-3) - 1e-9),
                    "entities in a set",
                )
                continue
            listed = [own] if isinstance(own, tuple) else own
            for labels, row in zip(listed, law.marginals, strict=True):
                expected = np.flatnonzero(row >= min(level, row.max()) - 1e-9).tolist()
                same(sorted(s.numbers(labels)), expected, "labels in a set")


@feature(_QUESTIONS, "calibrate")
def calibrated(s: Subject) -> None:
    """Compare calibrated marginals with powers of the marginals."""
    model = calibrate(s.model, s.X_new, s.truth(s.new))
    (slope,) = model.maps_["positions"].slopes
    for table, item in zip(s.marginals(model), s.new, strict=True):
        powers = s.law(s.model, item).marginals ** slope
        close(table, powers / powers.sum(axis=1, keepdims=True), 1e-6, "calibrated marginals")


@feature(_QUESTIONS, "rank_for_labelling")
def ranked(s: Subject) -> None:
    """Compare entropies of positions, and of whole items."""
    order = rank_for_labelling(s.model, s.X_new, positions=True)
    laws = [s.law(s.model, item) for item in s.new]
    for law, own in zip(laws, order.scores, strict=True):
        close(own, entr(law.marginals).sum(axis=1), words="entropies of positions")
    if s.exact:
        whole = rank_for_labelling(s.model, s.X_new)
        close(whole.scores, [law.entropy / len(law.marginals) for law in laws], words="entropies")
        same(whole.order, np.argsort(-np.asarray(whole.scores), kind="stable").tolist(), "order")


@feature(_QUESTIONS, "find_label_errors", quick=False)
def label_errors(s: Subject) -> None:
    """Compare scores out of fold with those of single changed labels, of which they are the largest or larger."""
    numbers_of_folds = np.arange(len(s.items)) % 5
    folds = [(np.flatnonzero(numbers_of_folds != own), np.flatnonzero(numbers_of_folds == own)) for own in range(5)]
    errors = find_label_errors(s.make(), s.X, s.y, cv=folds)
    for train, test in folds:
        model = s.fit([s.items[place] for place in train])
        for place in test:
            law, numbers = s.law(model, s.items[place]), s.numbers(s.items[place].labels)
            chances = law.marginals
            for t, found in enumerate(errors.position_scores[place]):
                others = [label for label in range(law.n_labels) if label != numbers[t] and chances[t, label] >= 0.0101]
                changed = [[*numbers[:t], label, *numbers[t + 1 :]] for label in others]
                gains = [law.log_probability(other) - law.log_probability(numbers) for other in changed]
                least = max(gains, default=-np.inf) - np.log(max(law.n_labels - 1, 1))
                check(found >= least - 1e-4, f"score {found} below {least}")
                if law.labellings.shape[1] == 1 and least > 0:
                    close(found, least, 1e-4, "score of a single label")


@feature(_QUESTIONS, "sample")
def sample(s: Subject) -> None:
    """Compare the shares of labels in many draws."""
    drawn = s.model.sample(s.X_new, n_samples=_DRAWS, random_state=0)
    if isinstance(s, Frames):
        drawn = [np.array(rows).T for rows in s.split(np.asarray(drawn))]
    elif s.rows or isinstance(drawn, np.ndarray):
        drawn = [np.asarray(drawn)[:, row].reshape(_DRAWS, -1) for row in range(len(s.new))]
    for item, own in zip(s.new, drawn, strict=True):
        shares = np.array([[np.mean(column == label) for label in s.classes] for column in np.asarray(own).T])
        close(shares, s.law(s.model, item).marginals, 0.05, "shares of draws")


@feature(_QUESTIONS, "entropy")
def entropy(s: Subject) -> None:
    """Compare entropies."""
    if isinstance(s, Points):
        _, density, widths = grid(s.model)
        close(s.model.entropy(), -(density * np.log(density) * widths).sum(), 1e-3, "entropy")
        return
    close(s.model.entropy(s.X_new), [s.law(s.model, item).entropy for item in s.new], words="entropy")


@feature(_QUESTIONS, "log_likelihood")
def log_likelihood(s: Subject) -> None:
    """Compare log p(y | x) of each item and in all; of a density, that it integrates to one."""
    if isinstance(s, Points):
        _, density, widths = grid(s.model)
        close((density * widths).sum(), 1.0, 1e-3, "integral")
        return
    expected = [s.law(s.model, item).log_probability(s.numbers(item.labels)) for item in s.new]
    close(s.model.log_likelihood(s.X_new, s.truth(s.new), per_item=True), expected, words="of each")
    close(s.model.log_likelihood(s.X_new, s.truth(s.new)), sum(expected), words="in all")


@feature(_QUESTIONS, "score")
def score(s: Subject) -> None:
    """Compare the score with the share of right labels (of instances, where labels are several)."""
    if isinstance(s, Points):
        close(s.model.score(s.X), s.model.score_samples(s.X).mean(), words="score")
        return
    right = []
    for item, labels in zip(s.new, s.labels(s.model.predict(s.X_new)), strict=True):
        hits = [own == true for own, true in zip(labels, item.labels, strict=True)]
        right += [all(hits)] if s.name == "MultiLabelCRF" else hits
    close(s.model.score(s.X_new, s.truth(s.new)), np.mean(right), words="score")


def gaps(s: Subject) -> tuple[list[list], list[np.ndarray]]:
    """Return labels of the new items of which every other is not known, and what is allowed at each (T, L)."""
    known, allowed = [], []
    for number, item in enumerate(s.new):
        own = [label if (t + number) % 2 else None for t, label in enumerate(item.labels)]
        table = np.ones((len(own), len(s.classes)))
        for t, label in enumerate(own):
            if label is not None:
                table[t] = [label == other for other in s.classes]
        known.append(own)
        allowed.append(table)
    return known, allowed


@feature(_QUESTIONS, "known=")
def known(s: Subject) -> None:
    """Compare the probabilities of labels given those of every other position."""
    given, allowed = gaps(s)
    for item, own, table in zip(s.new, allowed, s.marginals(s.model, known=s.known(given)), strict=True):
        close(table, s.law(s.model, item).weighted(own).marginals, words="marginals given what is known")
    for item, own, labels in zip(s.new, allowed, s.labels(s.model.predict(s.X_new, known=s.known(given))), strict=True):
        law = s.law(s.model, item).weighted(own)
        same(s.numbers(labels), (law.best if s.jointly else law.likeliest).tolist())


@feature(_QUESTIONS, "the page (label, correct)")
def on_the_page(s: Subject) -> None:
    """Compare the probabilities that the page shows, given labels that are fixed, and the labels it gives back."""
    given, allowed = gaps(s)
    session = LabellingSession(s.X_new, s.known(given), s.model)
    for number, (item, own) in enumerate(zip(s.new, allowed, strict=True)):
        for place, row in zip(
            session.show(number)["positions"], s.law(s.model, item).weighted(own).marginals, strict=True
        ):
            labels, chances = zip(*place["top"], strict=True)
            close(chances, row[s.numbers(list(labels))], 1e-4, "probabilities on the page")
    before = session.show(0)
    session.change(0, 0, [[0, [before["positions"][0]["top"][0][0]]]])
    check(session.undo()["positions"] == before["positions"], "undoing leaves something changed")


@feature(_QUESTIONS, "explain")
def explain(s: Subject) -> None:
    """Compare the sum of contributions with the difference of two log-probabilities."""
    item = s.new[2]
    if s.name == "SequenceClassifier":
        for place in s.model.explain(s.one(item)).positions:
            total = sum(part.amount for part in place.contributions) + place.more_amount
            close(total, place.difference, words="sum of contributions")
        return
    explanation = s.model.explain(s.one(item), s.one_labels(item))
    law, numbers = s.law(s.model, item), s.numbers(item.labels)
    for place in explanation.positions:
        other = list(numbers)
        other[place.position] = s.numbers([place.other])[0]
        expected = law.log_probability(numbers) - law.log_probability(other)
        total = sum(part.amount for part in place.contributions) + place.more_amount
        close(place.difference, expected, words="difference")
        close(total, expected, words="sum of contributions")
    check(len(str(explanation)) > 0, "an explanation without words")


@feature(_QUESTIONS, "weights")
def weights(s: Subject) -> None:
    """Find the coefficients of features in the table."""
    rows = s.model.weights(top=None).to_rows()
    found = sorted(row["weight"] for row in rows if row["feature"] is not None and row["set"].split()[0] in _SETS)
    tables = [as_array(table) for name, table in s.field(s.model).coef_.items() if name.split()[0] in _SETS]
    expected = sorted(float(value) for table in tables for value in table.ravel() if value)
    close(found, expected, words="weights of features")


@feature(_QUESTIONS, "summary")
def summary(s: Subject) -> None:
    """Look for the name of the estimator and the number of its weights."""
    text, page = str(s.model.summary()), s.model.summary()._repr_html_()
    check(len(text) > 50, f"a summary of few words: {text!r}")
    check(bool(page), "a summary without a page")


@feature(_QUESTIONS, "show")
def show(s: Subject) -> None:
    """Look for the labels in the picture of an item."""
    item = s.new[2]
    shown = s.model.show(s.one(item))
    if hasattr(shown, "labels") and s.name != "SequenceClassifier":
        predicted = s.labels(s.model.predict(s.X_new))[2]
        same(list(shown.labels), predicted)
    check("<" in (shown._repr_html_() or ""), "no picture")


@feature(_QUESTIONS, "stream")
def stream(s: Subject) -> None:
    """Compare marginals at an infinite lag with those of the whole sequence, and at lag 0 with those of its begin."""
    item = s.new[2]
    x = s.one(item) if not isinstance(s, Frames) else item.x
    law = s.law(s.model, item)
    stream = s.model.stream(lag=np.inf)
    for t in range(len(item.x)):
        stream.push(x[t : t + 1])
    close(stream.end().marginals, law.marginals, words="marginals of a stream")
    if s.of_words:  # whose features see the words that follow
        return
    late = s.model.stream(lag=0)
    first = late.push(x[:1]).marginals
    begin = s.law(s.model, replace(item, x=item.x[:1], labels=item.labels[:1]))
    close(first, begin.marginals, words="the first marginals of a stream")


@feature(_QUESTIONS, "laplace")
def laplace(s: Subject) -> None:
    """Check that the evidence is finite, and that log-odds shrink by their variance over drawn coefficients."""
    model = s.fit()
    evidence = model.laplace(s.X, s.y, n_samples=30, random_state=0)
    check(np.isfinite(evidence.value), "the evidence is not finite")
    asked = s.field(model) if isinstance(s, Compat) else model
    shrunk = (
        Subject.tables(s, asked.predict_marginals(s.X_new, uncertainty=True))
        if asked is not model
        else s.marginals(model, uncertainty=True)
    )
    # Single labels have the exact variances of the Hessian, and not those of draws.
    if s.redrawn and not isinstance(s, Classifier):
        for item, table in zip(s.new, shrunk, strict=True):
            close(table, doubting(s, model, item), 1e-5, words="log-odds shrunk by the variances of draws")
        return
    certain, unsure = np.concatenate(s.marginals(model)), np.concatenate(shrunk)
    close(unsure.sum(axis=1), np.ones(len(unsure)), words="sums")
    check(bool((unsure.max(axis=1) <= certain.max(axis=1) + 1e-9).all()), "doubt makes a label surer")
    check(np.abs(certain - unsure).max() > 1e-6, "doubt changes nothing")


def doubting(s: Subject, model: Any, item: Any, step: float = 1e-3) -> np.ndarray:
    """Return marginals (T, L) tempered by the variance of log-odds along drawn coefficients, by enumeration."""
    field = s.field(model)
    fitted, drawn = field.coef_, model.sample_coefficients()
    n_draws = len(next(iter(drawn.values())))
    p = s.law(model, item).marginals
    best, variances = p.argmax(axis=1)[:, None], np.zeros_like(p)
    for number in range(n_draws):
        logs = []
        for sign in (step, -step):
            field.coef_ = {
                name: as_array(fitted[name]) + sign * (rows[number] - rows.mean(axis=0)) / np.sqrt(n_draws - 1)
                for name, rows in drawn.items()
            }
            logs.append(np.log(s.law(model, item).marginals))
        slopes = (logs[0] - logs[1]) / (2 * step)
        variances += (slopes - np.take_along_axis(slopes, best, axis=1)) ** 2
    field.coef_ = fitted
    others = np.where(np.arange(p.shape[1]) == best, 0.0, p)
    doubt = (others * variances).sum(axis=1) / others.sum(axis=1)
    tempered = p ** (1 / np.sqrt(1 + np.pi / 8 * doubt))[:, None]
    return tempered / tempered.sum(axis=1, keepdims=True)


@feature(_QUESTIONS, "certify")
def certify(s: Subject) -> None:
    """Compare the value of the certificate with the objective by enumeration, and look for a small gap."""
    if isinstance(s, Points):
        check(0 <= s.model.certify(s.X).gap < 1.0, "gap")
        return
    certificate = s.model.certify(s.X, s.y, scope="span")
    value = s.squares(s.model) / 2
    value -= sum(s.law(s.model, item).log_probability(s.numbers(item.labels)) for item in s.items)
    close(certificate.value, value, 1e-6, "value of the objective")
    check(-1e-9 <= certificate.relative_gap < 1e-3, f"gap {certificate.relative_gap}")


@feature(_QUESTIONS, "certificate_")
def certificate(s: Subject) -> None:
    """Look for a small gap."""
    gap = s.model.certificate_.relative_gap
    check(-1e-9 <= gap < 1e-3, f"gap {gap}")


@feature(_QUESTIONS, "evaluate")
def evaluation(s: Subject) -> None:
    """Compare accuracy and log-likelihood."""
    found = evaluate(s.model, s.X_new, s.truth(s.new), n_resamples=0)
    predicted = s.labels(s.model.predict(s.X_new))
    right = [
        own == true
        for item, labels in zip(s.new, predicted, strict=True)
        for own, true in zip(labels, item.labels, strict=True)
    ]
    close(found.accuracy.value, np.mean(right), words="accuracy")
    if s.exact:
        logs = [s.law(s.model, item).log_probability(s.numbers(item.labels)) for item in s.new]
        assert found.log_likelihood is not None
        close(found.log_likelihood.per_sequence.value, np.mean(logs), words="log-likelihood")


@feature(_QUESTIONS, "report")
def report(s: Subject) -> None:
    """Make a page of the model and its weights."""
    page = report_page("A model", model=s.model.summary(), weights=s.model.weights())
    check("A model" in page and "</html>" in page, "no page")
