"""The table for those who come from pytorch-crf: each of its lines runs with both packages and means the same."""

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
torchcrf = pytest.importorskip("torchcrf")

from kernelfields.layers import compat  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "migrating.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## pytorch-crf")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", SECTION, re.MULTILINE)


@pytest.fixture
def names():
    torch.manual_seed(0)
    theirs = torchcrf.CRF(5, batch_first=True)
    ours = compat.CRF(5, batch_first=True)
    ours.load_state_dict(theirs.state_dict())
    batch = {
        "emissions": torch.randn(3, 4, 5),
        "tags": torch.randint(5, (3, 4)),
        "mask": torch.arange(4) < torch.tensor([[4], [1], [3]]),
    }
    return [
        {"crf": theirs, "CRF": torchcrf.CRF, **batch},
        {"crf": ours, "CRF": compat.CRF, "field": ours.to_field(), **batch},
    ]


@pytest.mark.parametrize("row", ROWS)
def test_a_line_of_the_table_means_the_same(row, names):
    for line, given in zip(row, names, strict=True):
        exec(line, given)
    result = row[0].partition(" = ")[0]
    if result in ("loss", "value", "scores"):
        torch.testing.assert_close(names[1][result], names[0][result], rtol=2e-6, atol=2e-6)
    elif result == "best":
        assert names[1]["best"] == names[0]["best"]
    else:
        assert repr(names[1]["crf"]) == repr(names[0]["crf"])


def test_the_table_is_there():
    assert len(ROWS) == 12
