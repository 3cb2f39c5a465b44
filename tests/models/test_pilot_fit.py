"""What is chosen by short fits on a part of the data: scale, kernel, prior variance, rank, support, l1, decoding."""

from __future__ import annotations

import gc
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from kernelfields import ChainCRF, EdgeCliques, GraphCRF, KernelClassifier, MultiLabelCRF
from kernelfields.data import Chains
from kernelfields.kernels import RBF, Linear
from kernelfields.models.choices import Choices, Trial
from kernelfields.models.item_losses import ItemLosses
from kernelfields.models.pilot_fit import MOST_POSITIONS, Pilot, Stage
from kernelfields.models.pilot_folds import pilot_folds
from kernelfields.models.position_loss import PositionLoss, position_loss
from kernelfields.numerics import Workers


def packed(lengths, n_labels=3, weights=None):
    random = np.random.default_rng(1)
    count = sum(lengths)
    labels = random.integers(0, n_labels, size=count)
    return Chains(random.normal(size=(count, 2)), np.concatenate([[0], np.cumsum(lengths)]), labels, weights)


def strong(n_sequences=60, length=10, noise=0.0, seed=0):
    """Labels that follow the inputs closely, or not at all with much noise."""
    random = np.random.default_rng(seed)
    X = [random.normal(size=(length, 2)) for _ in range(n_sequences)]
    y = [(x[:, 0] * x[:, 1] + noise * random.normal(size=length) > 0).astype(int) for x in X]
    return X, y


def rows_of(part):
    return {tuple(row) for row in part.inputs}


def test_each_of_few_sequences_is_held_out_once():
    chains = packed([7] * 50, weights=np.repeat([1.0, 0.0], 25))
    folds = pilot_folds(chains, MOST_POSITIONS)
    assert sorted(held_out.n_sequences for _, held_out in folds) == [6, 6, 6, 7]
    assert all((part.weights > 0).all() for parts in folds for part in parts)
    assert all(not rows_of(train) & rows_of(held_out) for train, held_out in folds)
    assert len(set.union(*(rows_of(held_out) for _, held_out in folds))) == 25 * 7


def test_each_of_very_few_sequences_is_held_out_by_itself_in_the_last_round():
    folds = pilot_folds(packed([70] * 9), MOST_POSITIONS, last=True)
    assert [held_out.n_sequences for _, held_out in folds] == [1] * 9
    assert not pilot_folds(packed([70] * 11), MOST_POSITIONS, last=True)
    assert not pilot_folds(packed([10] * 3000), MOST_POSITIONS, last=True)


def test_of_many_sequences_a_part_is_held_out_once():
    [(train, held_out)] = pilot_folds(packed([10] * 3000), MOST_POSITIONS)
    assert train.n_positions == MOST_POSITIONS
    assert held_out.n_positions == MOST_POSITIONS / 4


def test_long_sequences_all_give_some_of_their_positions():
    chains = packed([2000] * 8)
    folds = pilot_folds(chains, MOST_POSITIONS)
    assert len(folds) == 4
    for train, held_out in folds:
        assert abs(train.n_positions + held_out.n_positions - MOST_POSITIONS) <= 100
        assert set(train.lengths) == {100}
    places = {tuple(row): number // 2000 for number, row in enumerate(chains.inputs)}
    sources = [{places[row] for row in rows_of(held_out)} for _, held_out in folds]
    assert sorted(number for own in sources for number in own) == list(range(8))


def test_few_long_sequences_are_cut_into_pieces():
    folds = pilot_folds(packed([300, 500]), MOST_POSITIONS)
    assert all(train.n_positions + held_out.n_positions == 800 for train, held_out in folds)
    assert all(held_out.n_sequences >= 3 for _, held_out in folds)
    assert not pilot_folds(packed([10] * 19), MOST_POSITIONS)
    assert not pilot_folds(packed([3]), MOST_POSITIONS)


def test_groups_are_held_out_as_a_whole():
    chains, groups = packed([10] * 40), np.repeat(list("abcd"), 10)
    folds = pilot_folds(chains, MOST_POSITIONS, groups)
    owner = {tuple(row): groups[number // 10] for number, row in enumerate(chains.inputs)}
    assert sorted(len({owner[row] for row in rows_of(held_out)}) for _, held_out in folds) == [1, 1, 1, 1]
    X, y = strong()
    with pytest.raises(ValueError, match=r"groups must hold one value for each sequence: 60, got \(3,\)"):
        ChainCRF().fit(X, y, groups=[1, 2, 3])
    people = np.arange(60) // 20
    assert ChainCRF("rbf", random_state=0).fit(X, y, groups=people).choices_.trials


def test_labels_that_were_not_learnt_are_not_asked_for():
    chains = packed([10] * 40)
    chains.labels[chains.offsets[:-1]] = np.arange(40) + 3  # each sequence has one of its own
    assert not pilot_folds(chains, MOST_POSITIONS)


def test_positions_are_judged_by_their_log_loss():
    random = np.random.default_rng(0)
    scores = random.normal(size=(4000, 3))
    labels = np.array([random.choice(3, p=np.exp(row) / np.exp(row).sum()) for row in scores])
    tables = [np.exp(power * scores) / np.exp(power * scores).sum(axis=1, keepdims=True) for power in (0.5, 4.0)]
    plain, certain = (position_loss(table, labels) for table in tables)
    assert plain.loss == pytest.approx(log_loss(labels, tables[0]), rel=1e-12)
    assert certain.loss == pytest.approx(log_loss(labels, tables[1]), rel=1e-12)
    assert certain.accuracy == plain.accuracy == np.mean(scores.argmax(axis=1) == labels)
    assert certain.temperature == pytest.approx(8.0 * plain.temperature, rel=1e-3)
    assert plain.temperature == pytest.approx(0.5, abs=0.05)
    known = np.where(labels[:, None] == np.arange(3), 0.0, -np.inf)
    assert position_loss(tables[1], known).loss == pytest.approx(certain.loss, rel=1e-12)
    doubled = position_loss(np.vstack([tables[0]] * 2), np.tile(labels, 2), np.repeat([1.0, 0.0], 4000))
    assert doubled.loss == pytest.approx(plain.loss, rel=1e-12)


def test_a_position_that_is_thought_impossible_costs_as_in_scikit_learn():
    table, labels = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 0])
    assert position_loss(table, labels).loss == pytest.approx(log_loss(labels, table), rel=1e-6)


@dataclass
class Found:
    """The loss on folds up to a number."""

    loss: PositionLoss
    number: int
    undone: list

    def undo(self):
        self.undone.append(self.number)


class Raced(Pilot):
    """Candidates whose losses on one fold, on two and so on are given."""

    def __init__(self, losses, n_threads=1):
        super().__init__(None, (4, 0), print, Workers(n_threads))
        self.losses, self.undone = losses, []

    def _attempt(self, settings, number):
        return Found(PositionLoss(self.losses[settings["kernel"]][number], 1.0, 0.5), number, self.undone)

    def _judge(self, tried, attempt):
        tried.judged.append(attempt.loss)
        assert len(tried.judged) == attempt.number + 1

    def n_fits(self, kernel):
        return len(self._found[False][(("kernel", kernel),)].judged)


@pytest.mark.parametrize(("n_threads", "undone"), [(1, []), (2, []), (3, [2, 2]), (16, [1, 2, 3, 2, 3, 2, 3])])
def test_candidates_that_are_far_behind_on_some_folds_are_not_fitted_on_others(n_threads, undone):
    losses = {"best": [1.2, 1.1, 1.0, 1.05], "near": [1.1, 1.15, 1.1, 1.1], "far": [1.5, 1.5, 1.5, 1.5]}
    pilot = Raced({**losses, "later": [1.0, 1.6, 0.0, 0.0], "after": [1.2, 1.3, 0.0, 0.0]}, n_threads)
    pilot.race([{"kernel": name} for name in losses])
    assert [pilot.n_fits(name) for name in losses] == [4, 4, 1]
    # As much above the best on all folds as on the first one.
    assert pilot.loss({"kernel": "far"}) == pytest.approx(1.5 + 1.05 - 1.2)
    assert pilot.loss({"kernel": "near"}) == 1.1
    assert pilot.loss({"kernel": "later"}) == pytest.approx(1.6 + 1.05 - 1.1)
    assert pilot.n_fits("later") == 2
    # One step along a path is left sooner than candidates of other kinds.
    assert pilot.loss({"kernel": "after"}, before={"kernel": "best"}) == pytest.approx(1.3 + 1.05 - 1.1)
    assert {trial.settings["kernel"] for trial in pilot.trials} == {*losses, "later", "after"}
    dropped = {trial.settings["kernel"] for trial in pilot.trials if trial.dropped}
    assert dropped == {"far", "later", "after"}
    assert all(("dropped after some folds" in str(trial)) == trial.dropped for trial in pilot.trials)
    # What threads have fitted ahead is as if it had not been.
    assert pilot.undone == undone


@pytest.mark.slow
@pytest.mark.parametrize("n_sequences", [60, 400], ids=["four folds", "one fold"])
def test_threads_change_no_digit_of_what_is_chosen_and_no_line_of_what_is_told(n_sequences, capsys):
    X, y = strong(n_sequences, noise=0.3)
    told, chosen = [], []
    for n_jobs in (1, 2, 6):
        crf = ChainCRF(n_jobs=n_jobs, random_state=0, verbose=1).fit(X, y)
        lines = "".join(capsys.readouterr()).splitlines()
        told.append([line.split(", about")[0] for line in lines if "candidate" in line or "log-loss" in line])
        chosen.append((crf.choices_.chosen, [(trial.settings, trial.log_loss) for trial in crf.choices_.trials]))
    assert told[0]
    assert told[1] == told[2] == told[0]
    assert chosen[1] == chosen[2] == chosen[0]


def test_an_interrupt_ends_fits_that_have_not_begun(monkeypatch):
    begun = []

    def interrupted(stage, variance):
        begun.append(variance)
        raise KeyboardInterrupt

    monkeypatch.setattr(Stage, "predicted", interrupted)
    X, y = strong()
    with pytest.raises(KeyboardInterrupt):
        ChainCRF(n_jobs=2, random_state=0).fit(X, y)
    assert len(begun) < 8


@pytest.mark.slow
def test_clear_labels_get_a_larger_variance_than_noise():
    clear, noisy = (ChainCRF("rbf").fit(*strong(150, noise=noise)).prior_variance_ for noise in (0.0, 30.0))
    assert clear >= 10.0
    assert noisy <= 1.0


def test_the_choice_is_the_same_each_time_and_does_not_move_the_basis():
    X, y = strong()
    chosen = ChainCRF("rbf", rank=20, random_state=0).fit(X, y)
    given = ChainCRF("rbf", rank=20, random_state=0, prior_variance=chosen.prior_variance_).fit(X, y)
    np.testing.assert_array_equal(chosen.coef_["node"], given.coef_["node"])


def test_transitions_follow_unless_they_have_a_variance_of_their_own():
    X, y = strong()
    crf = ChainCRF("rbf", edges=EdgeCliques(prior_variance=0.5)).fit(X, y)
    variances = {term.name: term.prior_variance for term in crf.field_.terms}
    assert variances == {"node": crf.prior_variance_, "edge": 0.5}
    assert crf.prior_variance_ != 0.5


@pytest.mark.slow
def test_every_estimator_chooses():
    X, y = strong()
    table, labels = np.vstack(X), np.concatenate(y)
    graphs = [(x, np.column_stack([np.arange(9), np.arange(1, 10)])) for x in X]
    fields = [
        GraphCRF("rbf").fit(graphs, y),
        KernelClassifier("rbf").fit(table, labels),
        MultiLabelCRF("rbf").fit(table, np.column_stack([labels, 1 - labels])),
    ]
    assert all(field.prior_variance_ >= 10.0 for field in fields)


def test_a_warm_start_keeps_the_variance_that_was_chosen():
    X, y = strong()
    crf = ChainCRF("rbf", warm_start=True).fit(X, y)
    before = crf.prior_variance_
    assert crf.fit(X[:20], y[:20]).prior_variance_ == before


def test_a_threshold_for_rare_labels_is_learnt_kept_and_used(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 2))
    Y = (X + 1.5 * random.normal(size=X.shape) > 2.0).astype(int)
    field = MultiLabelCRF("rbf", label_graph="none").fit(X, Y)
    assert 0.05 < field.threshold_ < 0.45
    np.testing.assert_array_equal(field.predict(X), field.predict_proba(X) > field.threshold_)
    field.save(tmp_path / "labels.model")
    assert MultiLabelCRF.load(tmp_path / "labels.model").threshold_ == field.threshold_
    half = MultiLabelCRF("rbf", label_graph="none", decision="hamming").fit(X, Y)
    assert half.threshold_ == 0.5


# ---- what was chosen and what was tried


def words(n_sequences=60, length=6, n_words=40, seed=0):
    """Words that have a label each, and some noise."""
    random = np.random.default_rng(seed)
    X = [[{f"w{random.integers(n_words)}": 1.0} for _ in range(length)] for _ in range(n_sequences)]
    y = [[(int(next(iter(each))[1:]) % 3 + (random.random() < 0.1)) % 3 for each in own] for own in X]
    return X, y


def noise_beside(n_samples=300, n_noise=300, seed=0):
    """Five columns of spread 1 that hold the labels, and many small ones that hold nothing."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_samples)
    good = random.normal(size=(3, 5))[labels] + 0.5 * random.normal(size=(n_samples, 5))
    return np.column_stack([good, 0.05 * random.normal(size=(n_samples, n_noise))]), labels


def units(n_samples=300, seed=0):
    """Three columns of which the one that holds the labels has the smallest unit."""
    random = np.random.default_rng(seed)
    table = random.normal(size=(n_samples, 3))
    return table * [1.0, 40.0, 1e4], (table[:, 0] > 0).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "data", "scaled"),
    [(kernel, noise_beside(), False) for kernel in ("auto", "linear", "rbf", Linear(), "cosine")]
    + [(kernel, units(), True) for kernel in ("auto", "linear", "rbf", Linear())],
)
def test_columns_come_to_one_scale_where_held_out_data_gain_by_it(kernel, data, scaled):
    X, y = data
    model = KernelClassifier(kernel, random_state=0).fit(X[:200], y[:200])
    assert model.scale_ == scaled
    assert model.choices_.chosen["scale"] == scaled
    assert {trial.settings["scale"] for trial in model.choices_.trials if "scale" in trial.settings} == {False, True}
    plain = KernelClassifier(kernel, scale=scaled, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) >= plain.score(X[200:], y[200:]) - 0.03


@pytest.mark.parametrize(("data", "scaled"), [(noise_beside(100), False), (units(100), True)])
def test_of_too_few_samples_few_columns_alone_come_to_one_scale(data, scaled):
    model = KernelClassifier(random_state=0).fit(*data)
    assert model.scale_ == scaled
    assert not model.choices_.trials


def test_the_summary_and_the_file_hold_what_was_chosen_and_what_was_tried(tmp_path):
    X, y = noise_beside()
    model = KernelClassifier(random_state=0).fit(X, y)
    text = " ".join(str(model.summary()).split())
    kernel = model.choices_.chosen["kernel"]
    assert f"chosen on held-out data: scale False, kernel {kernel}, prior variance" in text
    for trial in model.choices_.trials:
        assert " ".join(str(trial).split()) in text
    model.save(tmp_path / "model")
    assert KernelClassifier.load(tmp_path / "model").choices_ == model.choices_
    assert "scale False" in model._repr_html_()


def curve(n_samples, frequency):
    """Labels that change with one column, slowly or quickly."""
    X = np.random.default_rng(0).random((n_samples, 1))
    return X, (np.sin(frequency * X[:, 0]) > 0).astype(int)


@pytest.mark.slow
def test_the_rank_is_the_usual_one_only_where_the_loss_still_falls_with_it():
    random = np.random.default_rng(0)
    slow, labels = curve(2500, 5.0)
    assert KernelClassifier("rbf").fit(slow, labels).choices_.chosen["rank"] == 500
    rough = random.random((2500, 2))
    model = KernelClassifier(RBF(300.0)).fit(rough, (np.sin(20.0 * rough).prod(axis=1) > 0).astype(int))
    assert model.choices_.chosen["rank"] == 1000
    assert model.basis_["node"].rank == 1000
    assert any(trial.settings.get("pilot_rank") == 600 for trial in model.choices_.trials)
    assert not any("rank" in trial.settings for trial in model.choices_.trials)


def test_choices_are_a_table_with_the_least_loss_first():
    tried = {"kernel": "rbf", "prior_variance": 10.0}
    trials = Trial({"decode": "viterbi"}, 0.9), Trial(tried, 0.8, 0.31), Trial({**tried, "pilot_rank": 600}, 0.9, 0.3)
    lines = str(Choices({**tried, "rank": 500}, trials)).splitlines()
    assert lines == [
        "chosen on held-out data: kernel rbf, prior variance 10, rank 500",
        "log-loss 0.3000, accuracy 0.900: kernel rbf, prior variance 10, pilot rank 600",
        "log-loss 0.3100, accuracy 0.800: kernel rbf, prior variance 10",
        "accuracy 0.900: decode viterbi",
        "the other pilot fits have rank 300: where twice that predicts no better, 500 is enough for all data",
    ]


def test_why_the_choice_is_not_the_setting_of_least_loss_is_said():
    chosen = {"kernel": "rbf", "prior_variance": 1.0}
    others = [
        Trial({**chosen, "prior_variance": variance}, 0.8, loss) for variance, loss in ((10.0, 0.498), (100.0, 0.499))
    ]
    peers = [Trial({**chosen, "pilot_rank": 600}, 0.9, 0.3), Trial({**chosen, "with_edges": False}, 0.5, 0.9)]
    said = Choices(chosen, (Trial(chosen, 0.8, 0.5), *others, *peers)).advice()
    bounded = (
        "of kernels that differ by less than held-out items do, a bounded one is taken, which falls back to the "
        "shares of the labels far from the training data"
    )
    assert said == [
        "2 settings have less loss than the choice: settings are tried from the simplest on, and one is left "
        f"for another that gains at least 0.005; {bounded}"
    ]
    assert Choices(chosen, (Trial(chosen, 0.8, 0.03), Trial(others[0].settings, 0.8, 0.0299))).advice() == [
        "one setting has less loss than the choice: settings are tried from the simplest on, and one is left "
        f"for another that gains at least 0.0003; {bounded}"
    ]
    assert Choices(chosen, (Trial(chosen, 0.8, 0.497), *others, *peers)).advice() == []


def test_what_brings_nothing_and_what_predicts_better_is_said():
    chosen = {"window": 1, "kernel": "rbf", "prior_variance": 1.0}
    field = Trial(chosen, 0.7, 0.5, temperature=3.0)

    def advice(*others):
        return Choices(chosen, (field, *others)).advice()

    certain = "probabilities of items held out are more certain than they should be, by a temperature of 3: "
    assert advice()[0].startswith(certain)
    alone, forest = {**chosen, "with_edges": False}, {"classifier": "forest on windows"}
    assert len(advice(Trial(alone, 0.6, 0.6), Trial(forest, 0.6, 0.6))) == 1
    said = advice(Trial(alone, 0.6, 0.502), Trial(forest, 0.7, 0.4))
    assert "a forest on windows has the better log-loss here, 0.4000" in said[0]
    assert "make_pipeline(WindowFeatures(), OutOfFold(RandomForestClassifier()), ChainCRF())" in said[0]
    assert said[1].startswith("edges bring nothing here: without them the log-loss is 0.5020")
    assert advice(Trial(alone, 0.6, 0.51), Trial(forest, 0.7, 0.497)) == advice()
    assert Choices(chosen, (Trial(chosen, 0.7, 0.5, temperature=0.9),)).advice() == []


def test_trials_of_a_last_round_stand_first_and_are_compared_with_each_other_alone():
    chosen, other = {"window": 1, "kernel": "rbf"}, {"window": "statistics", "kernel": "rbf"}
    first = Trial(chosen, 0.7, 0.52), Trial(other, 0.7, 0.5), Trial({"classifier": "forest"}, 0.7, 0.6)
    choices = Choices(chosen, (*first, Trial(chosen, 0.6, 0.8, last=True), Trial(other, 0.6, 0.9, last=True)))
    assert [trial.log_loss for trial in choices.trials] == [0.8, 0.9, 0.5, 0.52, 0.6]
    assert str(choices.trials[0]).endswith("kernel rbf, each item held out by itself")
    assert choices.advice() == [], "the forest is worse than the choice on the folds that it was tried on"
    assert Choices.rebuild(choices.describe()) == choices


def test_the_field_without_edges_and_a_forest_are_judged_beside_the_candidates():
    X, y = strong(30, noise=0.3)
    trials = ChainCRF(random_state=0).fit(X, y).choices_.trials
    assert sum(trial.settings.get("with_edges", True) is False for trial in trials) == 1
    assert {trial.settings.get("classifier") for trial in trials} == {None, "forest", "shares of the labels"}


class WithItems(Raced):
    """Candidates whose losses on four items, held out one after the other, are given by their kernel."""

    def _attempt(self, settings, number):
        loss = self.losses[settings["kernel"]][number] + (0.05 if settings["prior_variance"] == 1.0 else 0.0)
        return Found(PositionLoss(loss, 1.0, 0.5), number, self.undone)

    def _judge(self, tried, attempt):
        losses = np.full(10, attempt.loss.loss)
        tried.items.append(ItemLosses.from_positions(np.full(10, attempt.number), losses, np.ones(10)))
        tried.judged.append(PositionLoss(float(np.mean([each.losses.mean() for each in tried.items])) / 10, 1.0, 0.5))


@pytest.mark.parametrize(("laplacian", "taken"), [([0.1, 0.9, 0.2, 0.1], "laplacian"), ([0.5, 0.6, 0.4, 0.5], "rbf")])
def test_a_bounded_kernel_is_left_only_for_one_that_predicts_most_items_better(laplacian, taken):
    """A linear function has the least loss. Of four items one alone is predicted worse by the Laplacian kernel."""
    losses = {"linear": [0.01, 0.02, 0.01, 0.02], "rbf": [0.9, 0.05, 0.01, 0.02], "laplacian": laplacian}
    pilot, columns = WithItems(losses), [{"scale": False}]
    best = pilot.best(columns, list(losses), path=True, by_items=True)
    assert best == {"scale": True, "kernel": taken, "prior_variance": 0.1}
    assert pilot.best(columns, list(losses), path=True, by_items=False)["kernel"] == "linear"


def noise(n_sequences=12):
    """Inputs that say nothing about the labels."""
    random = np.random.default_rng(0)
    X = [random.normal(size=(30, 3)) for _ in range(n_sequences)]
    return X, [random.integers(2, size=30) for _ in X]


def test_inputs_that_do_not_predict_new_items_are_warned_of():
    X, y = noise()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        crf = ChainCRF(random_state=0).fit(X, y)
    said = [str(each.message) for each in caught]
    assert any("held-out items better than the shares of the labels: log-loss 0.6" in each for each in said)
    assert any(line.startswith("no candidate predicts held-out items better") for line in crf.choices_.advice())


def test_one_recording_is_held_out_in_pieces_and_the_choices_say_so(tmp_path):
    X, y = strong(1, 400)
    crf = ChainCRF("rbf", random_state=0).fit(X, y)
    assert crf.choices_.n_pieces == 20
    assert "fewer than three sequences were cut into 20 pieces" in str(crf.summary())
    crf.save(tmp_path / "model")
    assert ChainCRF.load(tmp_path / "model").choices_ == crf.choices_
    assert ChainCRF("rbf", random_state=0).fit(*strong()).choices_.n_pieces == 0


def test_with_a_variance_that_is_given_windows_and_kernels_are_chosen_all_the_same():
    X, y = strong(30, 25, noise=0.3)
    crf = ChainCRF(prior_variance=0.3, random_state=0).fit(X, y)
    tried = [trial.settings for trial in crf.choices_.trials]
    assert {settings.get("window") for settings in tried} >= {1, "statistics"}
    assert {settings.get("kernel") for settings in tried} >= {"linear", "rbf", "laplacian"}
    assert not any("prior_variance" in settings for settings in tried)
    assert crf.prior_variance_ == 0.3


class PilotWithLosses(Pilot):
    """Losses as they are given, by l1 and prior variance."""

    def __init__(self, losses):
        self.losses = losses

    def loss(self, settings, before=None):
        return self.losses[settings["l1"], settings["prior_variance"]]


def test_where_l1_is_chosen_the_path_goes_on_up():
    losses = {(0.0, 1.0): 0.6, (0.1, 1.0): 0.5, (0.1, 10.0): 0.4, (0.1, 100.0): 0.45}
    chosen = PilotWithLosses(losses).improved({"l1": 0.0, "prior_variance": 1.0}, [{"l1": 0.1}])
    assert chosen == {"l1": 0.1, "prior_variance": 10.0}
    worse = {(0.0, 1.0): 0.4, (0.1, 1.0): 0.5}
    assert PilotWithLosses(worse).improved({"l1": 0.0, "prior_variance": 1.0}, [{"l1": 0.1}])["l1"] == 0.0


def test_support_and_l1_are_judged_for_features_of_words():
    X, y = words()
    crf = ChainCRF().fit(X, y)
    assert any(trial.settings.get("l1") == 0.1 for trial in crf.choices_.trials)
    assert any(trial.settings.get("support") == "observed" for trial in crf.choices_.trials)
    given = ChainCRF(support="observed", l1=0.0).fit(X, y)
    assert not any("l1" in trial.settings for trial in given.choices_.trials)
    fixed = ChainCRF(prior_variance=1.0).fit(X, y)
    assert not fixed.choices_.trials
    assert fixed.field_.terms[0].l1 == 0.0


def test_decoding_under_constraints_is_judged_by_right_labels():
    random = np.random.default_rng(0)
    y = [np.repeat([0, 1, 2], random.integers(3, 8, size=3)) for _ in range(60)]
    X = [labels[:, None] + 1.5 * random.normal(size=(len(labels), 1)) for labels in y]
    forbidden = [(1, 0), (2, 1), (2, 0), (0, 2)]
    crf = ChainCRF("rbf", constraints=forbidden).fit(X, y)
    shares = {trial.settings["decode"]: trial.accuracy for trial in crf.choices_.trials if "decode" in trial.settings}
    assert set(shares) == {"viterbi", "posterior"}
    better = shares["posterior"] >= shares["viterbi"] + 0.01
    assert crf.choices_.chosen["decode"] == ("posterior" if better else "viterbi")
    by_default = np.concatenate(crf.predict(X))
    np.testing.assert_array_equal(by_default, np.concatenate(crf.predict(X, decode=crf.choices_.chosen["decode"])))


@pytest.mark.slow
def test_a_usual_fit_ends_where_a_thousandth_of_a_nat_a_position_is_left():
    X, y = strong(200)
    usual = ChainCRF("rbf", prior_variance=1e4, solver="lbfgs").fit(X, y)
    finer = ChainCRF("rbf", prior_variance=1e4, solver="lbfgs", tol=1e-3).fit(X, y)
    n_positions = sum(map(len, y))
    assert usual.solution_.reason == "gap"
    assert 1e-3 < usual.solution_.relative_gap <= 3e-2
    assert usual.solution_.gap <= 1e-3 * n_positions
    assert finer.solution_.relative_gap <= 1e-3
    assert usual.n_iter_ < finer.n_iter_
    assert usual.solution_.value - finer.solution_.value <= 1e-3 * n_positions


@pytest.mark.slow
def test_a_kernel_with_edges_is_taken_where_labels_follow_comparisons():
    """Labels follow two comparisons among columns of noise: smooth kernels need many more inputs."""
    random = np.random.default_rng(0)
    X = [random.normal(size=(20, 12)) * ([1.0] * 6 + [100.0] * 6) for _ in range(60)]
    y = [(abs(x[:, 0]) > 0.7).astype(int) + 2 * (x[:, 6] > 50) for x in X]
    crf = ChainCRF(random_state=0).fit(X, y)
    assert crf.choices_.chosen["kernel"] in ("forest", "laplacian")
    tried = {trial.settings["kernel"] for trial in crf.choices_.trials if "kernel" in trial.settings}
    assert tried == {"linear", "rbf", "laplacian", "forest", "Columns(RBF(), 0, 12) + Laplacian()"}
    gaps = [[None, *own[1:]] for own in y]
    with pytest.warns(ConvergenceWarning):
        partly = ChainCRF(random_state=0, max_iter=5).fit(X, gaps)
    assert "forest" not in {trial.settings.get("kernel") for trial in partly.choices_.trials}


def test_pilot_fits_are_freed_when_the_choice_is_made():
    X, y = strong(30, noise=0.3)
    gc.collect()
    gc.disable()
    try:
        crf = ChainCRF(random_state=0).fit(X, y)
        left = [each for each in gc.get_objects() if type(each) is Stage]
    finally:
        gc.enable()
    assert crf.choices_.trials
    assert left == []
