"""The pages about several annotators and about classes of sequences run, and print what they say."""

import inspect

import pytest

from kernelfields import AnnotatedCRF, SequenceClassifier
from tests.test_docs_pages import ROOT, assert_prints, run_as_one_program


@pytest.mark.parametrize("page", ["annotators.md", "sequence_classes.md"])
def test_the_page_does_what_it_says(page, capsys):
    assert_prints(*run_as_one_program(ROOT / "docs" / page, capsys))


@pytest.mark.parametrize("cls", [AnnotatedCRF, SequenceClassifier])
def test_every_parameter_explains_itself(cls):
    explained = inspect.getdoc(cls)
    assert not [name for name in inspect.signature(cls).parameters if name not in explained]
