"""Strips of pictures: PNG data that decode to the image, labels, and mistakes that can be told without colour."""

import base64
import importlib.util
import io
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "picture_strips.py"


@pytest.fixture(scope="module")
def strips():
    spec = importlib.util.spec_from_file_location("picture_strips", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def decoded(uri):
    kind, data = uri.split(",")
    assert kind == "data:image/png;base64"
    return np.rint(255 * imread(io.BytesIO(base64.b64decode(data)))[..., :3])


def test_a_data_uri_holds_the_image_in_grey(strips):
    levels = np.random.default_rng(0).integers(0, 256, size=(5, 7))
    image = decoded(strips.png_data_uri(levels, 0, 255))
    for colour in range(3):
        np.testing.assert_allclose(image[..., colour], levels, atol=1)


def test_values_beyond_the_range_are_clipped(strips):
    image = decoded(strips.png_data_uri([[-3.0, 0.0, 1.0, 9.0]]))
    assert image[0, :, 0].tolist() == [0, 0, 255, 255]


def test_wrong_labels_have_a_sign_and_the_truth(strips):
    images = np.zeros((2, 2, 2))
    strip = strips.sequence_strip(images, [3, 4], [0.25, 0.5], [3, 9], caption="first", notes=["", "hm"])
    assert strip.count("<img") == 2
    right, wrong = re.findall(r"<li.*?</li>", strip)
    assert "✗" not in right
    assert 'class="wrong"' in wrong
    assert "✗ 4" in wrong
    assert "truth 9" in wrong
    assert "width:25.0%" in right
    assert "marginal probability 0.500" in wrong
    assert (">hm<" in wrong, ">hm<" in right) == (True, False)


def test_without_truth_nothing_is_wrong(strips):
    strip = strips.sequence_strip(np.zeros((1, 2, 2)), ["a"], [1.0])
    assert "✗" not in strip
    assert "truth" not in strip


def test_hostile_labels_are_escaped(strips):
    hostile = "<script>alert(1)</script>"
    images = np.zeros((1, 2, 2))
    strip = strips.sequence_strip(images, [hostile], [0.5], ["'\"><b>"], caption=hostile, notes=[hostile])
    assert "<script>" not in strip
    assert "<b>" not in strip


def test_lengths_and_probabilities_are_checked(strips):
    images = np.zeros((2, 2, 2))
    with pytest.raises(ValueError, match="predicted has 1 entries, but there are 2 images"):
        strips.sequence_strip(images, [1], [0.5, 0.5])
    with pytest.raises(ValueError, match="truth has 3 entries"):
        strips.sequence_strip(images, [1, 2], [0.5, 0.5], [1, 2, 3])
    for bad in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            strips.sequence_strip(images, [1, 2], [0.5, bad])
