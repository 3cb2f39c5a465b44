"""Labels of training data that break their scheme: a fit to them is the fit to the entities that they write."""

import numpy as np
import pytest

from kernelfields import ChainCRF, Constraints, FrameCRF, SegmentCRF
from kernelfields.data.constraints import find_scheme
from kernelfields.data.spans import rewrite_labels

WARNING = r"labels? of y breaks? the scheme 'bio' and (is|are) mended"
FIT = {"prior_variance": 1.0, "random_state": 0}


def broken(n_sequences=30, seed=0):
    """Sequences whose entities begin with B, or one time in five with I."""
    random = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_sequences):
        labels = []
        while len(labels) < 8:
            kind = random.choice(["X", "Y", ""])
            first = "I" if random.random() < 0.2 else "B"
            labels += ["O"] if not kind else [f"{first}-{kind}", *[f"I-{kind}"] * random.integers(0, 3)]
        y.append(labels)
        columns = [[label.endswith("X"), label.endswith("Y"), label[0] == "B"] for label in labels]
        X.append(np.array(columns, dtype=float) + random.normal(size=(len(labels), 3)))
    return X, y


X, y = broken()
MENDED, CHANGED = rewrite_labels(y, find_scheme("bio"))
KINDS = {
    "chain": ChainCRF("linear", constraints="bio", **FIT),
    "segments": SegmentCRF("linear", constraints=Constraints(scheme="bio"), **FIT),
}


def close(model, wanted):
    assert model.classes_.tolist() == wanted.classes_.tolist()
    for name, coefficients in wanted.coef_.items():
        np.testing.assert_array_equal(model.coef_[name], coefficients)


@pytest.mark.parametrize("kind", ["chain", "segments"])
def test_a_fit_is_that_to_mended_labels_and_says_how_many(kind):
    assert len(CHANGED) > 3
    first = CHANGED[0]
    with pytest.warns(UserWarning, match=WARNING) as caught:
        model = KINDS[kind].fit(X, y)
    assert str(caught[0].message).startswith(
        f"{len(CHANGED)} labels of y break the scheme 'bio' and are mended, the first at sequence {first.sequence}, "
        f"position {first.position}: {first.label!r} is read as {first.new!r}"
    )
    assert len(caught) == 1
    close(model, KINDS[kind].fit(X, MENDED))
    assert model.certify(X, y).value == KINDS[kind].fit(X, MENDED).certify(X, MENDED).value


@pytest.mark.parametrize("kind", [ChainCRF, SegmentCRF])
def test_strict_constraints_refuse_them(kind):
    for constraints in (Constraints(scheme="bio", strict=True), {"scheme": "bio", "strict": True}):
        with pytest.raises(ValueError, match=r"label 'I-.' is forbidden .* by the scheme 'bio'. Correct the label"):
            kind("linear", constraints=constraints, **FIT).fit(X, y)


def test_a_type_that_never_begins_with_b_gets_its_label():
    given = [["O", "I-X", "I-X"], ["I-X", "O", "O"]] * 4
    inputs = [np.eye(3)] * 8
    with pytest.warns(UserWarning, match=f"8 {WARNING[:6]}"):
        model = ChainCRF("linear", constraints="bio", **FIT).fit(inputs, given)
    assert model.classes_.tolist() == ["B-X", "I-X", "O"]


def test_labels_beside_unknown_ones_may_go_on():
    given = [[None if t % 3 == 0 else label for t, label in enumerate(labels)] for labels in y]
    mended, changed = rewrite_labels(given, find_scheme("bio"))
    assert changed
    field = ChainCRF("linear", constraints="bio", tol=1e-6, **FIT)
    with pytest.warns(UserWarning, match=WARNING):
        model = field.fit(X, given)
    close(model, ChainCRF("linear", constraints="bio", tol=1e-6, **FIT).fit(X, mended))


def test_development_sets_and_batches_are_mended():
    field = ChainCRF("linear", constraints="bio", **FIT)
    with pytest.warns(UserWarning, match=WARNING):
        model = field.fit(X[:20], y[:20], X_dev=X[20:], y_dev=y[20:])
    wanted = ChainCRF("linear", constraints="bio", **FIT).fit(X[:20], MENDED[:20], X_dev=X[20:], y_dev=MENDED[20:])
    close(model, wanted)
    np.testing.assert_array_equal(model.dev_log_likelihoods_, wanted.dev_log_likelihoods_)
    batches, plain = (ChainCRF("rbf", rank=10, constraints="bio", **FIT) for _ in range(2))
    for part in (slice(0, 15), slice(15, 30)):
        with pytest.warns(UserWarning, match=WARNING):
            batches.partial_fit(X[part], y[part])
        plain.partial_fit(X[part], MENDED[part])
    close(batches, plain)


def test_tables_and_generators_of_labels_are_mended():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.concatenate(X), columns=["a", "b", "c"])
    frame["day"] = np.repeat(np.arange(len(X)), [len(labels) for labels in y])
    frame["label"] = np.concatenate(y)
    wanted = ChainCRF("linear", constraints="bio", **FIT).fit(X, MENDED)
    with pytest.warns(UserWarning, match=WARNING):
        model = FrameCRF(ChainCRF("linear", constraints="bio", **FIT), sequence="day", label="label").fit(frame)
    close(model.estimator_, wanted)
    for labels in (
        [own["label"] for _, own in frame.groupby("day")],
        (np.array(own) for own in y),
        np.array([*y, None], dtype=object)[:-1],
    ):
        with pytest.warns(UserWarning, match=WARNING):
            close(ChainCRF("linear", constraints="bio", **FIT).fit(X, labels), wanted)
