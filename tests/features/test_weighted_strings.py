import pytest

from kernelfields.data.chunks import read_weighted


@pytest.mark.parametrize(
    ("strings", "expected"),
    [
        (["bias", "len:2.5"], {"bias": 1.0, "len": 2.5}),
        ([], {}),
        (["x:-1e-3", "y:"], {"x": -1e-3, "y": 1.0}),
        (["x:1", "x:2", "x"], {"x": 4.0}),
        ([r"time=12\:30"], {"time=12:30": 1.0}),
        ([r"time=12\:30:2"], {"time=12:30": 2.0}),
        ([r"path\\:3"], {"path\\": 3.0}),
        ([r"c:0", r"a\b"], {"c": 0.0, r"a\b": 1.0}),
        ([":2"], {"": 2.0}),
        (["two\nlines:2"], {"two\nlines": 2.0}),
    ],
)
def test_a_colon_separates_name_and_weight(strings, expected):
    assert read_weighted(strings) == expected


@pytest.mark.parametrize("string", ["a:b", "a:1:2", "a:nan", "a:inf", r"a\\:b"])
def test_what_is_no_weight_is_refused(string):
    with pytest.raises(ValueError, match="weight"):
        read_weighted(["fine", string])
