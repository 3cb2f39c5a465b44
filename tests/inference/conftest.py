"""Chains of tests are short; here they are inferred as long ones are, by compiled passes, unless a test says other."""

import pytest


@pytest.fixture(autouse=True)
def compiled_chains(monkeypatch):
    monkeypatch.setattr("kernelfields.inference.chain.recursions._SHORT_STEPS", 0)
