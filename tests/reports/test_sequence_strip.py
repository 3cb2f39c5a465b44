"""Strips of pictures: PNG data that decodes to the image, labels, and mistakes that can be told without colour."""

import base64
import re
import struct
import zlib

import numpy as np
import pytest

from kernelfields.reports.images import png_bytes, png_data_uri
from kernelfields.reports.sequences import sequence_strip


def decode(png):
    """Read a PNG as written by png_bytes, checking signature, checksums and order of chunks."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, []
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack(">I", png[at + 8 + length : at + 12 + length])
        assert checksum == zlib.crc32(kind + data)
        chunks.append((kind, data))
        at += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, bits, colour = struct.unpack(">IIBB", chunks[0][1][:10])
    assert (bits, colour) == (8, 0)
    rows = np.frombuffer(zlib.decompress(chunks[1][1]), np.uint8).reshape(height, width + 1)
    assert np.all(rows[:, 0] == 0)
    return rows[:, 1:]


def test_a_png_decodes_to_the_image():
    levels = np.random.default_rng(0).integers(0, 256, size=(5, 7))
    np.testing.assert_array_equal(decode(png_bytes(levels, 0, 255)), levels)


def test_values_beyond_the_range_are_clipped():
    np.testing.assert_array_equal(decode(png_bytes([[-3.0, 0.0, 1.0, 9.0]])), [[0, 0, 255, 255]])


def test_a_data_uri_holds_the_png():
    kind, data = png_data_uri(np.eye(2)).split(",")
    assert kind == "data:image/png;base64"
    np.testing.assert_array_equal(decode(base64.b64decode(data)), 255 * np.eye(2))


def test_images_that_are_none_are_refused():
    for bad in (np.zeros(3), np.zeros((0, 2)), [[np.nan]]):
        with pytest.raises(ValueError, match=r"an image is an \(h, w\) array"):
            png_bytes(bad)
    with pytest.raises(ValueError, match="low must be less than high"):
        png_bytes([[1.0]], 1.0, 1.0)


def test_wrong_labels_have_a_sign_and_the_truth():
    strip = sequence_strip(np.zeros((2, 2, 2)), [3, 4], [0.25, 0.5], [3, 9], caption="first", notes=["", "hm"])
    assert strip.count("<img") == 2
    right, wrong = re.findall(r"<li.*?</li>", strip)
    assert "✗" not in right
    assert 'class="wrong"' in wrong
    assert "✗ 4" in wrong
    assert "truth 9" in wrong
    assert "width:25.0%" in right
    assert "marginal probability 0.500" in wrong
    assert (">hm<" in wrong, ">hm<" in right) == (True, False)


def test_without_truth_nothing_is_wrong():
    strip = sequence_strip(np.zeros((1, 2, 2)), ["a"], [1.0])
    assert "✗" not in strip
    assert "truth" not in strip


def test_hostile_labels_are_escaped():
    hostile = "<script>alert(1)</script>"
    strip = sequence_strip(np.zeros((1, 2, 2)), [hostile], [0.5], ["'\"><b>"], caption=hostile, notes=[hostile])
    assert "<script>" not in strip
    assert "<b>" not in strip


def test_lengths_and_probabilities_are_checked():
    images = np.zeros((2, 2, 2))
    with pytest.raises(ValueError, match="predicted has 1 entries, but there are 2 images"):
        sequence_strip(images, [1], [0.5, 0.5])
    with pytest.raises(ValueError, match="truth has 3 entries"):
        sequence_strip(images, [1, 2], [0.5, 0.5], [1, 2, 3])
    for bad in (-0.1, 1.5, np.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            sequence_strip(images, [1, 2], [0.5, bad])
