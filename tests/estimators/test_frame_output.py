"""FrameCRF answers in the library of the table, or in the one that set_output names."""

import pytest
from sklearn import config_context
from sklearn.base import clone

from kernelfields import ChainCRF, FrameCRF

pandas = pytest.importorskip("pandas", reason="pandas is not installed")
polars = pytest.importorskip("polars", reason="polars is not installed")
ROWS = {"sequence": [0, 0, 0, 1, 1], "x": [0.0, 1.0, 0.1, 0.9, 0.2], "label": ["a", "b", "a", "b", "a"]}
LIBRARIES = {"pandas": pandas, "polars": polars}


@pytest.fixture(scope="module")
def tables():
    return {name: library.DataFrame(ROWS) for name, library in LIBRARIES.items()}


@pytest.fixture(scope="module")
def fitted(tables):
    return FrameCRF(ChainCRF("linear")).fit(tables["pandas"])


@pytest.mark.parametrize("given", LIBRARIES)
@pytest.mark.parametrize("wanted", [None, "default", *LIBRARIES])
def test_answers_are_of_the_library_that_was_set(fitted, tables, given, wanted):
    model = FrameCRF(ChainCRF("linear")).fit(tables["pandas"]).set_output(transform=wanted)
    library = LIBRARIES[given if wanted in (None, "default") else wanted]
    labels, table = model.predict(tables[given]), model.predict_marginals(tables[given])
    assert isinstance(labels, library.Series)
    assert isinstance(table, library.DataFrame)
    assert list(labels) == list(fitted.predict(tables["pandas"]))
    assert list(table["b"]) == pytest.approx(list(fitted.predict_marginals(tables["pandas"])["b"]))
    assert isinstance(model.sample(tables[given], random_state=0), library.Series | library.DataFrame)


def test_the_setting_is_cloned_and_may_be_global(fitted, tables):
    twin = clone(FrameCRF(ChainCRF("linear")).set_output(transform="polars")).fit(tables["pandas"])
    assert isinstance(twin.predict(tables["pandas"]), polars.Series)
    with config_context(transform_output="polars"):
        assert isinstance(fitted.predict(tables["pandas"]), polars.Series)
    with pytest.raises(ValueError, match="transform must be 'default', 'pandas' or 'polars', got 'numpy'"):
        twin.set_output(transform="numpy")
