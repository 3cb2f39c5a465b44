"""Features that l1 has left no weight: kept in a file, apart from those that answers need; files that lack them."""

import copy

import numpy as np
import pytest

from kernelfields import ChainCRF, KernelClassifier, MultiLabelCRF, SegmentCRF, load
from kernelfields.compat import CRF
from kernelfields.formats import ModelFileError
from kernelfields.models.callbacks import Checkpoint
from kernelfields.models.idle_features import with_idle_features, without_idle_features
from kernelfields.models.model_file import read_model, write_model
from tests.samples import labelled_instances, labelled_sequences


def one_feature_matters(which, seed, n_features=8):
    """Return sequences of 8 features that are there or not, one of which is the label."""
    random = np.random.default_rng(seed)
    tables = random.integers(2, size=(30, 4, n_features))
    X = [[{f"f={j}": float(value) for j, value in enumerate(row)} for row in table] for table in tables]
    return X, [["ab"[value] for value in table[:, which]] for table in tables]


SPARSE = {"l1": 6.0, "prior_variance": 1.0, "scale": False, "tol": 1e-8, "warm_start": True}


@pytest.mark.parametrize("support", ["all", "observed", 3.0])
def test_a_fit_that_goes_on_takes_up_features_that_had_no_weight(support, tmp_path):
    crf = ChainCRF("linear", support=support, **SPARSE).fit(*one_feature_matters(0, seed=1))
    crf.save(tmp_path / "model")
    loaded, other = ChainCRF.load(tmp_path / "model"), one_feature_matters(5, seed=2)
    fresh = ChainCRF("linear", **SPARSE).fit(*other)
    assert loaded.fit(*other).score(*other) == 1.0
    np.testing.assert_array_equal(loaded.solution_.theta, crf.fit(*other).solution_.theta)
    assert loaded.solution_.value == pytest.approx(fresh.solution_.value, rel=1e-5)


def test_a_checkpoint_of_a_fit_with_l1_ends_where_that_would_have(tmp_path):
    data = one_feature_matters(0, seed=1, n_features=30)
    settings = {**SPARSE, "l1": 1.0, "callbacks": [Checkpoint(tmp_path / "checkpoint")]}
    with pytest.warns(UserWarning, match="stopped at a relative gap"):
        ChainCRF("linear", max_iter=3, **settings).fit(*data)
    continued = load(tmp_path / "checkpoint").set_params(max_iter=1000, callbacks=None).fit(*data)
    whole = ChainCRF("linear", **{**settings, "callbacks": None}).fit(*data)
    assert continued.solution_.value == pytest.approx(whole.solution_.value, rel=1e-6)


@pytest.mark.parametrize("support", ["all", "observed"])
def test_parts_are_put_together_as_they_were(support):
    crf = ChainCRF("linear", support=support, **SPARSE).fit(*one_feature_matters(0, seed=1))
    reader, terms, described = without_idle_features(crf._reader, crf.field_.terms)
    assert reader.rows.n_features < crf.n_features_in_
    whole, same = with_idle_features(reader, terms, described)
    assert whole.rows.names == crf._reader.rows.names
    for mine, theirs in zip(crf.field_.terms, same, strict=True):
        np.testing.assert_array_equal(mine.known, theirs.known)
        if not mine.pairs.complete:
            np.testing.assert_array_equal(mine.pairs.begin, theirs.pairs.begin)
            np.testing.assert_array_equal(mine.pairs.outcomes, theirs.pairs.outcomes)
            assert mine.pairs.begin.dtype == theirs.pairs.begin.dtype


@pytest.fixture(scope="module")
def observed():
    return ChainCRF("linear", support="observed", **SPARSE).fit(*one_feature_matters(0, seed=1))


def test_answers_of_many_rows_are_those_of_the_field_in_memory(tmp_path):
    random = np.random.default_rng(0)
    X = [[{f"f{j}": float(v) for j, v in enumerate(random.normal(size=12))} for _ in range(4)] for _ in range(20)]
    y = [list(random.choice(list("abc"), size=4)) for _ in X]
    crf = ChainCRF("linear", l1=0.5, prior_variance=0.3).fit(X, y)
    crf.save(tmp_path / "model")
    for mine, theirs in zip(crf.predict_marginals(X), load(tmp_path / "model").predict_marginals(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_file_of_an_older_version_answers_and_does_not_go_on(observed, tmp_path):
    document = observed._to_document()
    del document["idle"], document["settings"]
    older = ChainCRF._from_document(document)
    data = one_feature_matters(5, seed=2)
    for mine, theirs in zip(observed.predict_marginals(data[0]), older.predict_marginals(data[0]), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    with pytest.raises(ValueError, match="file of an older version, without the features that l1 had left no weight"):
        older.fit(*data)
    # What is saved once more is as it was.
    older.save(tmp_path / "again")
    with pytest.raises(ValueError, match="Set warm_start=False to start afresh"):
        load(tmp_path / "again").fit(*data)
    assert older.set_params(warm_start=False).fit(*data).score(*data) == 1.0
    assert older.set_params(warm_start=True).fit(*data).solution_.converged


def no_names(idle):
    idle["names"]["tails"] = idle["names"]["tails"][:-40]


def other_form(idle):
    idle["names"]["form"] = "pickle"


def twice(idle):
    idle["marks"] = np.zeros_like(idle["marks"])


def too_many(idle):
    idle["n_features"] = 10**12


def other_pairs(idle):
    idle["supports"]["node"]["outcomes"] = 1 - idle["supports"]["node"]["outcomes"]


def fewer_pairs(idle):
    idle["supports"]["node"]["counts"] = idle["supports"]["node"]["counts"] * 0


def huge(idle):
    idle["names"]["size"] = 10**12


@pytest.mark.parametrize("damage", [no_names, other_form, twice, too_many, other_pairs, fewer_pairs, huge])
def test_damaged_parts_are_refused(damage, observed, tmp_path):
    observed.save(tmp_path / "model")
    document, tensors = read_model(tmp_path / "model", "ChainCRF")
    document = copy.deepcopy(document)
    damage(document["idle"])
    write_model(tmp_path / "damaged", "ChainCRF", document, tensors)
    with pytest.raises(ModelFileError):
        load(tmp_path / "damaged")


# ---- the same fit is the same file

X, Y = labelled_sequences(12)
FITS = {
    "l1": lambda: ChainCRF("linear", **{**SPARSE, "n_jobs": 1}).fit(*one_feature_matters(0, seed=1)),
    "pivots": lambda: ChainCRF("rbf", random_state=0).fit(X, Y),
    "segments": lambda: SegmentCRF("linear", prior_variance=1.0, random_state=0).fit(X, Y),
    "evidence": lambda: KernelClassifier("rbf", random_state=0).fit(
        np.concatenate(X), np.concatenate(Y), optimize="evidence"
    ),
    "batches": lambda: ChainCRF("rbf", prior_variance=1.0, random_state=0).partial_fit(X, Y),
    "several labels": lambda: MultiLabelCRF("linear", prior_variance=1.0).fit(*labelled_instances(40)),
    "sklearn-crfsuite": lambda: CRF(max_iterations=5).fit([[["a"], ["b"]]] * 3, [["x", "y"]] * 3),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_the_same_fit_is_the_same_file(name, tmp_path):
    for place in ("one", "two"):
        FITS[name]().save(tmp_path / place)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_how_many_threads_there_were_is_in_no_file(tmp_path):
    # So few positions are one run of one thread, whatever is allowed.
    for n_jobs in (1, 2):
        ChainCRF("rbf", rank=5, prior_variance=1.0, random_state=0, n_jobs=n_jobs).fit(X, Y).save(
            tmp_path / str(n_jobs)
        )
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert load(tmp_path / "1").n_jobs is None
    assert np.isnan(load(tmp_path / "1").solution_.seconds)
