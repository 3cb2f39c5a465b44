"""The demo: data as documented, and a small run from fit to report."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "digits_demo.py"


@pytest.fixture(scope="module")
def demo():
    with pytest.MonkeyPatch.context() as patch:
        # As when the script is run.
        patch.syspath_prepend(SCRIPT.parent)
        spec = importlib.util.spec_from_file_location("digits_demo", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        sys.modules["digits_demo"] = module
        spec.loader.exec_module(module)
        yield module
    del sys.modules["digits_demo"]


def test_the_chain_is_the_documented_one(demo):
    matrix = demo.transition_matrix()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-14)
    for a in range(10):
        for b in range(10):
            expected = 0.5 * (b == (a + 1) % 10) + 0.3 * (b == (a + 3) % 10) + 0.02
            assert matrix[a, b] == pytest.approx(expected, rel=1e-14)


def test_training_and_test_pictures_are_disjoint_and_show_their_labels(demo):
    train, test = demo.digit_chains(80, 100)
    digits = load_digits()
    sources = [np.concatenate(part.sources) for part in (train, test)]
    assert not set(sources[0]) & set(sources[1])
    for part, source in zip((train, test), sources, strict=True):
        np.testing.assert_array_equal(digits.target[source], np.concatenate(part.labels))
        noise = np.concatenate(part.pictures) - digits.data[source] / 16.0
        assert noise.std() == pytest.approx(demo.NOISE, rel=0.02)
        assert {len(labels) for labels in part.labels} <= set(range(6, 11))
        assert [len(rows) for rows in part.pictures] == [len(labels) for labels in part.labels]


@pytest.mark.slow
def test_transition_frequencies_follow_the_chain(demo):
    train, _ = demo.digit_chains(2000, 1)
    counts = np.zeros((10, 10))
    for labels in train.labels:
        np.add.at(counts, (labels[:-1], labels[1:]), 1.0)
    totals = counts.sum(axis=1, keepdims=True)
    expected = demo.transition_matrix()
    deviations = (counts / totals - expected) / np.sqrt(expected * (1 - expected) / totals)
    assert np.abs(deviations).max() < 4.5
    assert deviations.std() == pytest.approx(1.0, abs=0.25)


def test_data_depend_on_the_seed_alone(demo):
    first, again, other = (demo.digit_chains(5, 3, seed)[0] for seed in (1, 1, 2))
    for a, b in zip(first.pictures, again.pictures, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(np.concatenate(first.pictures)[:6], np.concatenate(other.pictures)[:6])


def test_single_pictures_are_the_same_pictures(demo):
    train, _ = demo.digit_chains(3, 1)
    pictures, labels = train.alone()
    assert {rows.shape for rows in pictures} == {(1, 64)}
    np.testing.assert_array_equal(np.concatenate(pictures), np.concatenate(train.pictures))
    np.testing.assert_array_equal(np.concatenate(labels), np.concatenate(train.labels))


@pytest.mark.slow
def test_a_small_run_writes_a_report(demo, tmp_path, capsys):
    output = tmp_path / "report.html"
    demo.main(["--output", str(output), "--fields", "linear", "rbf", "--train", "24", "--test", "12", "--rank", "60"])
    said = capsys.readouterr().out
    assert "linear" in said
    assert output.as_uri() in said
    document = output.read_text(encoding="utf-8")
    for word in (
        ">linear</th>",
        ">rbf</th>",
        "lower bound",
        "from digit",
        "Sequence 8:",
        "marginal probability",
    ):
        assert word in document
    assert document.count('class="strip"') == 8
    order = [document.index(words) for words in ('class="strip"', "Alone and together", "All fields", "the fit?")]
    assert order == sorted(order)
    assert "together " in document[order[1] : order[2]]


@pytest.mark.slow
def test_the_chain_helps(demo):
    train, test = demo.digit_chains(40, 40)
    (result,) = demo.compare_fields(["linear"], train, test, 60, lambda _: None)
    assert result.field.solution_.converged
    assert result.accuracy > result.alone_accuracy + 0.02
    assert result.accuracy > 0.8
