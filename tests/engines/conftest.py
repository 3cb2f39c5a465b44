"""Two processes that fit together, for all tests of this folder."""

import pytest


@pytest.fixture(scope="session")
def processes():
    pytest.importorskip("torch")
    from together import Processes

    both = Processes()
    yield both
    both.close()
