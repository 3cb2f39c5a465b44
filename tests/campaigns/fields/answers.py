"""The questions that every field answers, compared with enumeration."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.campaigns.fields.chains import Chain
from tests.campaigns.fields.drawn import Drawn
from tests.campaigns.fields.tally import NEAR, Tally, shown
from tests.campaigns.fields.terms import Enumerated

#: How many items of a field are explained.
_EXPLAINED = 3


class Asked:
    """A fitted field, its new items and their distributions, given what is known of some labels or of none."""

    def __init__(self, tally: Tally, drawn: Drawn, items: Sequence, known: Any, wholes: list[Enumerated]):
        self.tally, self.drawn, self.model = tally, drawn, drawn.model
        self.items, self.wholes = list(items), wholes
        self.X = drawn.x_of(items)
        self.settings = {} if known is None else {"known": known}
        self.told = "" if known is None else " given known labels"
        largest = [np.abs(whole.scores[whole.scores > -np.inf]).max(initial=1.0) for whole in wholes]
        self.near = NEAR * max([1.0, *largest])

    def all(self, random: np.random.Generator) -> None:
        """Ask all that every field answers."""
        for ask in (self.labels, self.marginals, self.best, self.entropies, self.likelihoods, self.draws):
            with self.tally.asking(ask.__name__ + self.told):
                ask(random)

    def labels(self, random: np.random.Generator) -> None:
        """Compare predicted labels: the best labelling, and the likeliest label of each position."""
        for decode in ("viterbi", "posterior"):
            found = self.drawn.numbers_of(self.model.predict(self.X, decode, **self.settings))
            self.check_decoded(decode, found)
        default = self.drawn.numbers_of(self.model.predict(self.X, **self.settings))
        self.check_decoded(self.drawn.decodes, default)

    def check_decoded(self, decode: str, found: Sequence[np.ndarray]) -> None:
        for whole, labels in zip(self.wholes, found, strict=True):
            if decode == "viterbi":
                rows = (whole.labellings == labels).all(axis=1)
                right = rows.any() and whole.logs[rows].max() >= whole.logs.max() - self.near
                self.tally.check("best labelling" + self.told, bool(right), f"{labels} of {whole.logs.max():.6g}")
            elif decode == "posterior":
                own = whole.marginals[np.arange(len(labels)), labels]
                right = bool((own >= whole.marginals.max(axis=1) - self.near).all())
                text = "" if right else f"{labels} of {shown(whole.marginals)}"
                self.tally.check("likeliest labels" + self.told, right, text)

    def marginals(self, random: np.random.Generator) -> None:
        """Compare marginals of labels and of the cliques of each group."""
        drawn, tally = self.drawn, self.tally
        found = drawn.tables_of(self.model.predict_marginals(self.X, **self.settings))
        for whole, table in zip(self.wholes, found, strict=True):
            tally.near("marginals" + self.told, table, whole.marginals, self.near)
        for name, term in drawn.groups().items():
            _, joints = self.model.predict_marginals(self.X, cliques=name, **self.settings)
            for whole, table in zip(self.wholes, joints, strict=True):
                expected = whole.expected(term)
                order = round(np.log(expected.shape[1]) / np.log(whole.n_labels)) if whole.n_labels > 1 else 1
                shape = (len(expected), *(whole.n_labels,) * order)
                if (listed := drawn.listed_labellings(name)) is not None:
                    expected, shape = expected[:, listed], (len(expected), len(listed))
                tally.near(f"marginals of cliques{self.told}", table, expected.reshape(shape), self.near)

    def best(self, random: np.random.Generator) -> None:
        """Compare the k best labellings."""
        k = int(random.integers(1, 8))
        for whole, ranked in zip(self.wholes, self.model.predict_nbest(self.X, k, **self.settings), strict=True):
            expected = [log for _, log in whole.ranked(k)]
            logs = np.array([log for _, log in ranked])
            self.tally.near("n best" + self.told, logs, expected, self.near)
            labels = self.drawn.ranked_of(ranked)
            right = True
            for own, log in zip(labels, logs, strict=True):
                rows = (whole.labellings == own).all(axis=1)
                right &= bool(np.any(np.abs(whole.logs[rows] - log) <= self.near + 1e-9 * abs(log)))
            once = len({tuple(own) for own in labels}) == len(labels) or whole.cuts is not None
            self.tally.check("labellings of n best" + self.told, right and once, f"{labels} of {logs}")

    def entropies(self, random: np.random.Generator) -> None:
        """Compare entropies."""
        for whole, entropy in zip(self.wholes, self.model.entropy(self.X, **self.settings), strict=True):
            self.tally.near("entropy" + self.told, entropy, whole.entropy, self.near)

    def likelihoods(self, random: np.random.Generator) -> None:
        """Compare log-probabilities of labels, all of them or a part known; forbidden ones are minus infinity."""
        drawn, model = self.drawn, self.model
        chosen = []
        for whole in self.wholes:
            likely = random.random() < 0.7
            place = (
                random.choice(np.flatnonzero(whole.scores > -np.inf)) if likely else random.integers(len(whole.scores))
            )
            chosen.append(whole.labellings[place])
        expected = [drawn.log_probability(whole, labels) for whole, labels in zip(self.wholes, chosen, strict=True)]
        if None not in expected:
            found = model.log_likelihood(self.X, drawn.y_of(chosen), per_item=True, **self.settings)
            for own, right in zip(found, expected, strict=True):
                self.tally.near("log-likelihood" + self.told, own, right, self.near)
            total = model.log_likelihood(self.X, drawn.y_of(chosen), **self.settings)
            self.tally.near("sum of log-likelihoods" + self.told, total, np.sum(np.array(expected)), 5 * self.near)
        entries, logs = zip(*(drawn._hidden(random, labels, drawn.n_labels) for labels in chosen), strict=True)
        if all((own > -np.inf).sum() == len(own) for own in logs):
            return
        found = model.log_likelihood(self.X, drawn.known_of(entries), per_item=True, **self.settings)
        for whole, own, part in zip(self.wholes, found, logs, strict=True):
            right = whole.condition(part).log_partition - whole.log_partition
            self.tally.near("log-likelihood of a part" + self.told, own, right, self.near)

    def draws(self, random: np.random.Generator) -> None:
        """Compare drawn labellings: all are possible, and sometimes how often each comes."""
        often = random.random() < 0.05
        n_samples = 4000 if often else 3
        answer = self.model.sample(self.X, n_samples, random_state=int(random.integers(2**31)), **self.settings)
        for place, whole in enumerate(self.wholes):
            drawn = self.drawn.draws_of(answer, place)
            chances: Counter = Counter()
            for labels, chance in zip(map(tuple, whole.labellings.tolist()), whole.probabilities, strict=True):
                chances[labels] += chance
            seen = Counter(map(tuple, drawn.tolist()))
            possible = all(chances[labels] > 0 for labels in seen)
            self.tally.check("draws" + self.told, possible and len(drawn) == n_samples, f"{seen}")
            if often:
                # Six standard deviations, and two draws for the rarest.
                far = [
                    labels
                    for labels, chance in chances.items()
                    if abs(seen[labels] - n_samples * chance) > 6 * np.sqrt(n_samples * chance * (1 - chance)) + 2
                ]
                self.tally.check("frequencies of draws" + self.told, not far, f"{far[:3]}")


def check_answers(tally: Tally, drawn: Drawn, asked: Asked, random: np.random.Generator) -> None:
    """Ask a fitted field all that fields answer about its new items, first as they are, then given known labels."""
    wholes = asked.wholes
    asked.all(random)
    for item in drawn.impossible:
        tally.refused("item without labelling", lambda item=item: drawn.model.predict(drawn.x_of([item])))
    for item, whole in zip(drawn.new, wholes, strict=True):
        # What contradicts the base measure is refused.
        if len(forbidden := np.flatnonzero(np.isneginf(whole.scores))):
            labels = whole.labellings[random.choice(forbidden)]
            if not np.isfinite(whole.log_probability(labels)):
                known = drawn.known_of([labels.tolist()])
                tally.refused(
                    "contradiction", lambda x=item, known=known: drawn.model.predict(drawn.x_of([x]), known=known)
                )
    entries, logs = [], []
    for item in drawn.new:
        own, part = drawn._hidden(random, drawn.truth(random, item), drawn.n_labels)
        entries.append(own)
        logs.append(part)
    given = [whole.condition(part) for whole, part in zip(wholes, logs, strict=True)]
    known = drawn.known_of(entries)
    Asked(tally, drawn, drawn.new, known, given).all(random)
    with tally.asking("score"):
        check_score(tally, drawn, asked, random)
    with tally.asking("explain"):
        check_explanations(tally, drawn, wholes, asked.near, random)
    with tally.asking("saved model"):
        check_saved(tally, drawn, asked, random)


def check_score(tally: Tally, drawn: Drawn, asked: Asked, random: np.random.Generator) -> None:
    """Compare the share of labels that are right with that of the predictions."""
    truths = [drawn.truth(random, item) for item in drawn.new]
    decode = str(random.choice(["viterbi", "posterior"]))
    found = drawn.numbers_of(drawn.model.predict(asked.X, decode))
    right = drawn.share_right(found, truths)
    tally.near("score", drawn.model.score(asked.X, drawn.y_of(truths), decode=decode), right, 1e-12)


def check_explanations(
    tally: Tally, drawn: Drawn, wholes: Sequence[Enumerated], near: float, random: np.random.Generator
) -> None:
    """Compare the sums of contributions with differences of log-probabilities."""
    if "explain" in drawn.lacks:
        return
    for place in random.permutation(len(drawn.new))[:_EXPLAINED].tolist():
        item, whole = drawn.new[place], wholes[place]
        labels = drawn.truth(random, item)
        against = None if random.random() < 0.5 else drawn.classes[int(random.integers(drawn.n_labels))]
        explained = drawn.model.explain(item, drawn.y_of([labels])[0], against=against)
        for position in explained.positions:
            kept, rival = drawn.compared(whole, labels, position)
            if kept is None:
                continue
            expected = kept - rival
            tally.near("explained difference", position.difference, expected, 4 * near)
            total = sum(term.amount for term in position.contributions) + position.more_amount
            tally.near("sum of contributions", total, expected, 4 * near)
            rules = any(term.kind == "rule" for term in position.contributions)
            tally.check("explained rules", rules == np.isinf(expected), f"{position}")


def check_saved(tally: Tally, drawn: Drawn, asked: Asked, random: np.random.Generator) -> None:
    """Compare the marginals of the model with those of the same read from its file."""
    if not hasattr(drawn.model, "save") or random.random() > 0.3:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.kfm"
        drawn.model.save(path)
        loaded = type(drawn.model).load(path)
        own, read = (drawn.tables_of(model.predict_marginals(asked.X)) for model in (drawn.model, loaded))
        for first, second in zip(own, read, strict=True):
            same = np.array_equal(first, second)
            tally.check("marginals of a saved model", same, "" if same else shown(first - second))
        first, second = (drawn.numbers_of(model.predict(asked.X)) for model in (drawn.model, loaded))
        tally.check("labels of a saved model", all(map(np.array_equal, first, second)))
        if isinstance(drawn, Chain) and drawn.servable:
            check_served(tally, drawn, asked, path, random)


def check_served(tally: Tally, drawn: Chain, asked: Asked, path: Path, random: np.random.Generator) -> None:
    """Compare the answers of the reader that needs NumPy alone, and rarely those of an ONNX graph."""
    from kernelfields.serving import load_chain, to_onnx

    served = load_chain(path)
    for whole, table in zip(asked.wholes, served.predict_marginals(asked.X), strict=True):
        tally.near("served marginals", table, whole.marginals, asked.near)
    _, joints = served.predict_marginals(asked.X, cliques="edge")
    for whole, table in zip(asked.wholes, joints, strict=True):
        length = whole.labellings.shape[1]
        expected = np.zeros((length - 1, whole.n_labels, whole.n_labels))
        for t in range(1, length):
            np.add.at(expected[t - 1], (whole.labellings[:, t - 1], whole.labellings[:, t]), whole.probabilities)
        tally.near("served marginals of steps", table, expected, asked.near)
    for whole, total in zip(asked.wholes, served.log_partition(asked.X), strict=True):
        tally.near("served log partition", total, whole.log_partition, asked.near)
    for decode in ("viterbi", "posterior"):
        asked.told, labels = " served", drawn.numbers_of(served.predict(asked.X, decode))
        asked.check_decoded(decode, labels)
        own = drawn.numbers_of(drawn.model.predict(asked.X, decode))
        tally.check("served labels", all(map(np.array_equal, labels, own)), f"{labels} of {own}")
    asked.told = ""
    if drawn.rule is None and random.random() < 0.2:
        try:
            import onnxruntime
        except ImportError:
            return
        model = path.with_suffix(".onnx")
        to_onnx(drawn.model, model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        for item, whole in zip(drawn.new, asked.wholes, strict=True):
            answer = dict(zip(names, session.run(None, served.inputs.encode(item)), strict=True))
            tally.near("ONNX marginals", answer["marginals"], whole.marginals, 10 * asked.near)
            tally.near("ONNX log partition", np.ravel(answer["log_partition"])[0], whole.log_partition, 10 * asked.near)
